"""``pyjms demo`` over two sites, and its screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from pyjms import JMSException
from pyjms.demo.books import OtherRunError
from pyjms.demo.ending import BROKE_OFF, DOES_NOT_ADD_UP, complain, failure
from pyjms.demo.plan import Plan
from pyjms.demo.screen import faults_of, figure, number, progress, stage_data, verdict_data
from pyjms.demo.sites.chain import HERE, WORKS
from pyjms.demo.sites.run import Outcome, Run, SiteError
from pyjms.spi.terminal import CANNOT_BE_USED, INTERRUPTED, escaped
from pyjms.spi.words import counted


def over_two_sites(plan: Plan, folder: Path | None, kills: int, *, as_json: bool) -> None:
    """Run, show the outcome, and only then delete the run."""
    console = Console(stderr=as_json, quiet=as_json, emoji=False)
    with _folder(folder) as place:
        run = Run(plan, place, kills)
        try:
            _work_off(run, console, as_json=as_json)
        except KeyboardInterrupt:
            goes_on = "" if folder is None else " Start it again with the same options, and it goes on."
            complain(f"Stopped: both sites have ended, and what they have committed is in their stores.{goes_on}")
            raise typer.Exit(INTERRUPTED) from None
        except (SiteError, OtherRunError) as error:
            raise failure(error, CANNOT_BE_USED) from error
        except JMSException as error:
            raise failure(error, BROKE_OFF) from error
        finally:
            # In any case: no process of a site may outlive the demo.
            run.close()


def _work_off(run: Run, console: Console, *, as_json: bool) -> None:
    started = perf_counter()
    run.reach()
    show_sites(console, run)
    with progress(console, run.counters) as watch:
        outcome = run.run(
            watch, lambda line: console.print(f"[yellow]{escaped(line)}[/]", highlight=False, soft_wrap=True)
        )
    seconds = perf_counter() - started
    if as_json:
        typer.echo(json.dumps(as_data(run, outcome, seconds), indent=2))
    else:
        show_outcome(console, run, outcome, seconds)
    if not outcome.adds_up:
        raise typer.Exit(DOES_NOT_ADD_UP)
    # After the outcome was reported, and only if it adds up: a run with a fault stays for inspection.
    run.finish()


@contextmanager
def _folder(chosen: Path | None) -> Iterator[Path]:
    """Yield the folder of the run: the user's, or a temporary one."""
    if chosen is not None:
        # Absolute, as the sites' processes run in folders of their own.
        yield chosen.absolute()
        return
    with TemporaryDirectory(prefix="pyjms-demo-") as temporary:
        yield Path(temporary)


# The outcome as data, for ``--json``. Pure.


def as_data(run: Run, outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Return the content of all tables, and the ids behind it, in JSON's types."""
    plan = run.plan
    return {
        "input": {
            "file": plan.table.name,
            "records": len(plan.table.records),
            "columns": list(plan.table.columns),
            "amount": plan.amount_name,
            "orders": len(run.orders),
        },
        "resumed": run.is_resumed,
        "killed": [
            {"site": death.site, "ended_before": death.ended, "away_ms": round(death.away_ms)} for death in run.deaths
        ],
        "stages": [stage_data(counter) for counter in run.counters],
        "works": [
            {"company": work.company, "site": work.site, **verdict_data(verdict)} for work, verdict in outcome.works
        ],
        "orders": [
            {
                "status": fate.status.value,
                "expected": fate.orders,
                "found": fate.found,
                "records": fate.records,
                "total": number(fate.total),
                "wrong": list(fate.wrong),
            }
            for fate in outcome.fates
        ],
        "left_over": dict(outcome.left_over),
        "adds_up": outcome.adds_up,
        "seconds": round(seconds, 3),
    }


def show_sites(console: Console, run: Run) -> None:
    """Print the plan, and the sites."""
    plan = run.plan
    console.print(
        f"[bold]{escaped(plan.table.name)}[/]: {counted(len(plan.table.records), 'record')} in {counted(len(run.orders), 'order')}, adding up "
        f"[bold]{escaped(plan.amount_name)}[/]. A workflow takes each order through two sites, joined by forwarding:",
        soft_wrap=True,
    )
    for site in run.sites.values():
        companies = dict.fromkeys(work.company for work in WORKS if work.site == site.name)
        does = ", ".join([*companies, *(["the engine of the workflow"] if site.name == HERE else [])])
        console.print(
            f"  [bold]{site.name:<7}[/] {site.url}  process {site.pid}  broker, {does}", soft_wrap=True, highlight=False
        )
    if run.is_resumed:
        console.print("[yellow]Going on with the run that was broken off.[/]")


def show_outcome(console: Console, run: Run, outcome: Outcome, seconds: float) -> None:
    """Print the companies' records, the ends of the orders, and whether all adds up."""
    console.print(_works(run, outcome))
    console.print(_orders(run, outcome))
    for _, verdict in outcome.works:
        for fault in faults_of(verdict):
            console.print(f"[red]{escaped(fault)}[/]")
    for fate in outcome.fates:
        if fate.wrong:
            console.print(f"[red]not {fate.status.value}: {escaped(', '.join(fate.wrong))}[/]")
    for queue, count in outcome.left_over.items():
        console.print(f"[red]{counted(count, 'message was', 'messages were')} left in {escaped(queue)}[/]")
    completed, compensated = outcome.fates
    if outcome.adds_up:
        console.print(
            f"[green]It adds up: {counted(completed.orders, 'order')} completed, {compensated.orders:,} compensated. "
            f"Nothing lost, nothing twice, nothing half done.[/] {seconds:.1f} s",
            soft_wrap=True,
            highlight=False,
        )
    else:
        console.print(f"[bold red]It does not add up.[/] {seconds:.1f} s")


def _works(run: Run, outcome: Outcome) -> Table:
    table = Table(title="What the companies wrote into their databases", title_justify="left")
    for heading in ("work", "company", "site"):
        table.add_column(heading)
    amount = escaped(run.plan.amount_name)
    for heading in ("to be", "records", f"{amount} to be", amount):
        table.add_column(heading, justify="right")
    table.add_column("")
    for work, verdict in outcome.works:
        counts = (f"{verdict.expected:,}", f"{verdict.found:,}")
        sums = (figure(verdict.expected_total), figure(verdict.found_total))
        table.add_row(work.name, work.company, work.site, *counts, *sums, _mark(is_right=verdict.adds_up))
    return table


def _orders(run: Run, outcome: Outcome) -> Table:
    table = Table(title="What became of the orders", title_justify="left")
    table.add_column("orders")
    for heading in ("to be", "found", "records", escaped(run.plan.amount_name)):
        table.add_column(heading, justify="right")
    table.add_column("")
    for fate in outcome.fates:
        counts = (f"{fate.orders:,}", f"{fate.found:,}", f"{fate.records:,}", figure(fate.total))
        table.add_row(fate.status.value, *counts, _mark(is_right=not fate.wrong))
    return table


def _mark(*, is_right: bool) -> str:
    return "[green]ok[/]" if is_right else "[red]no[/]"
