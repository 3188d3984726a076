"""``pyjms demo``: options, errors and exit codes.

The exit code is 0 when everything adds up, 1 when it does not or the run broke off, 2 when the input or the URL cannot
be used, and 130 after Ctrl-C.
"""

from __future__ import annotations

import csv
import json
from importlib.resources import as_file, files
from pathlib import Path
from time import perf_counter
from typing import Annotated, Final

import typer
from rich.console import Console

from pyjms import JMSException
from pyjms.demo.books import OtherRunError
from pyjms.demo.ending import BROKE_OFF, DOES_NOT_ADD_UP, INSTALL, complain, failure
from pyjms.demo.plan import InputError, Plan, make_plan, read_table
from pyjms.demo.process import Process
from pyjms.demo.screen import as_data, progress, show_outcome, show_plan, show_resumed
from pyjms.demo.settings import Chance, Settings
from pyjms.spi.terminal import CANNOT_BE_USED, INTERRUPTED

EXAMPLES: Final = (
    "pyjms demo",
    "pyjms demo --folder run        # kill -9 it; then run it again",
    "pyjms demo orders.csv --amount price --kills 3",
    "pyjms demo --one-site",
    "pyjms demo --members 2         # one site, over a cluster on PostgreSQL; one of its members is killed",
    "pyjms demo orders.csv --route country --amount price --store sqlite:///demo.db   # one site",
)
DATA = files("pyjms.demo") / "data"
SHIPPED = "flights.csv.gz"
SHIPPED_ROUTE = "carrier"
SHIPPED_AMOUNT = "distance"
RECORDS_OF_MEMBERS: Final = 300
"""The number of records over a cluster if nobody chooses: each takes some ten commits at PostgreSQL."""
_OF_ONE_SITE: Final = ("route", "lanes", "workers", "failure_rate", "seed", "url", "store")
_OF_TWO_SITES: Final = ("folder", "kills")
_NOT_OF_MEMBERS: Final = (*_OF_TWO_SITES, "url", "store")

_File = Annotated[
    Path | None,
    typer.Argument(
        help="A CSV file with a header row, also compressed with gzip. "
        "Without one: the flights from New York City in the first week of 2013.",
        show_default=False,
    ),
]
_Store = Annotated[
    str | None,
    typer.Option(
        help="One site: where the broker keeps its messages, such as sqlite:///demo.db: a run that was killed goes on "
        "there when it is started again.",
        metavar="URL",
        show_default=False,
    ),
]


def demo(
    context: typer.Context,
    file: _File = None,
    amount: Annotated[
        str | None, typer.Option(help="Column of numbers to add up.", metavar="COLUMN", show_default=False)
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Take so many records at most.", min=1, show_default=False)] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where the sites keep all that they have: a run that was killed goes on there when it is started again.",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = None,
    kills: Annotated[int, typer.Option(help="How many times a site is killed.", min=0, max=100)] = 1,
    one_site: Annotated[
        bool,
        typer.Option(
            "--one-site",
            help="One broker and no workflow: lanes, requests, topics, failing workers. Any option of it chooses it.",
        ),
    ] = False,
    members: Annotated[
        int | None,
        typer.Option(
            help="One site, over a cluster of so many members on a PostgreSQL of its own; one of them is killed on the way.",
            min=2,
            max=8,
            metavar="N",
            show_default=False,
        ),
    ] = None,
    route: Annotated[
        list[str] | None,
        typer.Option(
            help="One site: column to route by; may be given several times.", metavar="COLUMN", show_default=False
        ),
    ] = None,
    lanes: Annotated[int, typer.Option(help="One site: values that get a lane of their own.", min=0, max=50)] = 4,
    workers: Annotated[int, typer.Option(help="One site: workers of each stage.", min=1, max=64)] = 3,
    failure_rate: Annotated[
        float, typer.Option(help="One site: part of the attempts that fail.", min=0.0, max=0.9)
    ] = 0.03,
    seed: Annotated[int, typer.Option(help="One site: the same seed gives the same failures.")] = 1,
    url: Annotated[str, typer.Option(help="One site: the broker.", envvar="PYJMS_URL")] = "vm://demo",
    store: _Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, and nothing else.")] = False,
) -> None:
    """Work off the records of a file through a supply chain of queues, and prove that none is lost or doubled.

    Orders of many records go through a workflow over two sites, each a process with a broker, a store and companies. One of
    them is killed on the way; orders that cannot be delivered are taken back. At the end the companies' books must add up.
    """
    try:
        if members is not None:
            _check_members(context)
            limit = RECORDS_OF_MEMBERS if file is None and limit is None else limit
        one_site = _is_one_site(context, asked=one_site or members is not None)
        plan = _plan(file, route or [], amount, lanes, limit)
        if not one_site:
            _over_two_sites(plan, folder, kills, as_json=as_json)
            return
        settings = Settings(url=url, workers=workers, chance=Chance(seed=seed, rate=failure_rate), store=store)
        if members is not None:
            _over_members(plan, settings, members, as_json=as_json)
            return
        process = Process(plan, settings)
        process.reach()
    except (InputError, OtherRunError, JMSException) as error:
        raise failure(error, CANNOT_BE_USED) from error
    # With --json, standard output is for the document alone.
    console = Console(stderr=as_json, quiet=as_json, emoji=False)
    show_plan(console, plan, url if store is None else f"{url} on {store}")
    if process.is_resumed:
        show_resumed(console, process.counters)
    _work_off(process, console, as_json=as_json)


def _is_one_site(context: typer.Context, *, asked: bool) -> bool:
    """Say whether one broker is wanted: requested, or implied by an option that only that demo has. Raises
    `InputError`.
    """
    of_one, of_two = (_given(context, names) for names in (_OF_ONE_SITE, _OF_TWO_SITES))
    if of_two and (asked or of_one):
        other = of_one[0] if of_one else "--one-site"
        raise InputError(
            f"{of_two[0]} is for the demo over two sites, {other} for the one with one site: leave one out."
        )
    return asked or bool(of_one)


def _check_members(context: typer.Context) -> None:
    """Raise `InputError` for options that the demo over a cluster does not have."""
    if unfit := _given(context, _NOT_OF_MEMBERS):
        raise InputError(f"--members starts brokers of its own, and kills one: leave {unfit[0]} out.")


def _given(context: typer.Context, names: tuple[str, ...]) -> list[str]:
    """Return the options that the user typed."""
    # The source of a value decides, and not the value: a default and PYJMS_URL do not select a demo.
    typed = (name for name in names if str(getattr(context.get_parameter_source(name), "name", "")) == "COMMANDLINE")
    return [f"--{name.replace('_', '-')}" for name in typed]


def _over_two_sites(plan: Plan, folder: Path | None, kills: int, *, as_json: bool) -> None:
    try:
        # Imported late: one site needs neither SQLAlchemy nor the STOMP server.
        from pyjms.demo.sites.command import over_two_sites
    except ModuleNotFoundError as error:
        raise InputError(
            f"Two sites need the package {error.name}; install the extras with: {INSTALL}. "
            "Without them, try --one-site."
        ) from error
    over_two_sites(plan, folder, kills, as_json=as_json)


def _over_members(plan: Plan, settings: Settings, count: int, *, as_json: bool) -> None:
    from pyjms.demo.members import over_members  # the tools for tests, which the other demos do not need

    over_members(plan, settings, count, as_json=as_json)


def _work_off(process: Process, console: Console, *, as_json: bool) -> None:
    """Do the remaining work, report the outcome, and only then delete the run at the broker."""
    plan, settings = process.plan, process.settings
    started = perf_counter()
    try:
        with progress(console, process.counters) as watch:
            outcome = process.run(watch)
    except KeyboardInterrupt:
        goes_on = " Start it again with the same options, and it goes on." if settings.is_kept else ""
        complain(f"Stopped: units of work that were not committed are rolled back.{goes_on}")
        raise typer.Exit(INTERRUPTED) from None
    except (JMSException, TimeoutError) as error:
        raise failure(error, BROKE_OFF) from error
    seconds = perf_counter() - started
    if as_json:
        typer.echo(json.dumps(as_data(plan, settings, process, outcome, seconds), indent=2))
    else:
        show_outcome(console, plan, process.counters, outcome, seconds, is_kept=settings.is_kept)
    # The run is kept then: its queues are the evidence.
    if not outcome.adds_up:
        raise typer.Exit(DOES_NOT_ADD_UP)
    try:
        # After the outcome was reported: a process that is killed in between reports it once more.
        process.finish()
    except JMSException as error:
        raise failure(error, BROKE_OFF) from error


def _plan(file: Path | None, route: list[str], amount: str | None, lanes: int, limit: int | None) -> Plan:
    if file:
        return make_plan(read_table(file, limit), route=route, amount=amount, lanes=lanes)
    with as_file(DATA / SHIPPED) as path:
        table = read_table(path, limit)
    with (DATA / "airlines.csv").open(encoding="ascii") as lines:
        airlines = {row["carrier"]: row["name"] for row in csv.DictReader(lines)}
    return make_plan(
        table, route=route or [SHIPPED_ROUTE], amount=amount or SHIPPED_AMOUNT, lanes=lanes, labels=airlines
    )
