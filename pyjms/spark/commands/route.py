"""``pyjms pipeline route``: the rules of `pyjms route`, as a job on Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from pyjms.commands.connecting import AsJson
from pyjms.spark.commands.running import (
    MESSAGES_IN_BATCH,
    Batch,
    ClientId,
    Credentials,
    FailOnDataLoss,
    Master,
    Meter,
    MetricsTo,
    Once,
    Subscription,
    Url,
    Verbose,
    batch_done,
    errors_told,
    failure,
    follow,
    log_level,
    metering,
    source_options,
    stop_wanted,
)
from pyjms.spark.jobs import check_broker
from pyjms.spark.options import check_folder
from pyjms.spark.session import LOCAL, make_session
from pyjms.spi.arguments import span_ms
from pyjms.spi.terminal import note
from pyjms.spi.words import counted

if TYPE_CHECKING:
    from pyjms.spark.pipelines import Rules

EXAMPLES: Final = (
    "pyjms pipeline route rules.toml stomp://127.0.0.1:61613 queue:incoming",
    "pyjms pipeline route rules.toml stomp://127.0.0.1:61613 queue:incoming --once --checkpoint /var/lib/route",
    "pyjms pipeline route rules.toml stomp://127.0.0.1:61613 topic:prices --subscription routed --client-id shop",
    "pyjms pipeline route rules.toml stomp://127.0.0.1:61613 queue:incoming --dry-run",
)

_RulesFile: TypeAlias = Annotated[Path, typer.Argument(help="The rules, as for `pyjms route`.", metavar="FILE")]
_Source: TypeAlias = Annotated[
    str, typer.Argument(help="queue:NAME, topic:NAME, or the name of a queue.", metavar="SOURCE")
]
_Group: TypeAlias = Annotated[
    str, typer.Option(help="The name under which the broker holds what is not routed yet.", metavar="NAME")
]
_Checkpoint: TypeAlias = Annotated[str, typer.Option(help="Where Spark notes how far it is.", metavar="DIR")]
_Every: TypeAlias = Annotated[
    int,
    typer.Option(help="How often a batch is routed.", metavar="SPAN", parser=span_ms, show_default="1s"),
]
_DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Say where what waits now would go, and change nothing.")
]


def route_command(
    file: _RulesFile,
    url: Url,
    source: _Source,
    group: _Group = "route",
    subscription: Subscription = None,
    client_id: ClientId = None,
    checkpoint: _Checkpoint = "route-checkpoint",
    once: Once = False,
    every: _Every = 1_000,
    batch: Batch = MESSAGES_IN_BATCH,
    fail_on_data_loss: FailOnDataLoss = True,
    metrics: MetricsTo = None,
    credentials: Credentials = None,
    master: Master = LOCAL,
    dry_run: _DryRun = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Send each message where the rules want it, until Ctrl-C. Each once; altered rules count from the next batch on.

    What no rule wants goes to the queue NAME.undeliverable. Exit code: 0 ended in order, 1 it broke off, 2 it cannot be done as asked.
    """
    from pyjms.spark.pipelines import route, would_go

    # Read before Spark starts: wrong rules are reported at once.
    rules = _rules_of(file)
    made: dict[int, int] = {}
    with errors_told("route", verbose=verbose), metering(metrics) as meter:
        check_folder(checkpoint)
        who = {"client_id": client_id, "subscription": subscription, "credentials": credentials}
        options = source_options(url, source, group, **who, looks=dry_run)
        if dry_run:
            check_broker(url=url, credentials=credentials)  # otherwise each task looks for it, one after the other
        session = make_session("pyjms route", master=master, log_level=log_level(verbose))
        if dry_run:
            _tell_choices(would_go(session, rules, url=url, source=source, group=group, options=options), as_json)
            return
        start = partial(
            route,
            session,
            rules,
            url=url,
            source=source,
            group=group,
            checkpoint=checkpoint,
            once=once,
            every=f"{every} milliseconds",
            options={"maxMessagesPerBatch": batch, "failOnDataLoss": fail_on_data_loss, **options},
            # Batches are made on the thread of Spark's callback, and reported here when their progress report appears.
            made=made.__setitem__,
        )
        with stop_wanted() as wanted:
            moved = follow(start, wanted, "routed", partial(_hear, meter, group, made))
    _tell_routed(moved, as_json)


def _rules_of(file: Path) -> Rules:
    from pyjms.spark.pipelines import Rules

    try:
        return Rules(file, note)
    except (OSError, ValueError) as error:
        raise failure("route", f"{file}: {error}") from error


def _tell_choices(counts: Mapping[str, int], as_json: bool) -> None:
    for name, number in counts.items():
        note(f"{number:,} to {name}")
    if as_json:
        typer.echo(json.dumps(counts))


def _tell_routed(moved: int, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"routed": moved}))
    else:
        note(f"routed {counted(moved, 'message')}")


def _hear(meter: Meter, group: str, made: dict[int, int], progress: Any) -> None:
    # Popped: the report of a batch comes once, and a query that runs for weeks must not collect numbers.
    meter.hear(batch_done("route", group, progress, made.pop(int(progress["batchId"]), None)))
