"""``pyjms pipeline replay``: files back into a destination."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from pyjms.commands.connecting import AsJson
from pyjms.spark.archives import check_form
from pyjms.spark.commands.running import (
    MOST,
    BatchDone,
    Credentials,
    Form,
    Master,
    MetricsTo,
    Url,
    Verbose,
    errors_told,
    failure,
    log_level,
    metering,
    stop_wanted,
)
from pyjms.spark.connecting import read_credentials
from pyjms.spark.options import check_folder, check_job, parse_options
from pyjms.spark.session import LOCAL, make_session
from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.terminal import FAILED, note
from pyjms.spi.words import counted

if TYPE_CHECKING:
    from pyjms.spark.pipelines import Replayed

EXAMPLES: Final = (
    "pyjms pipeline replay /var/archive/orders stomp://127.0.0.1:61613 --job again-1",
    "pyjms pipeline replay /var/archive/orders stomp://127.0.0.1:61613 --job again-2 --to queue:test --rate 1000",
    "pyjms pipeline replay /var/archive/orders stomp://127.0.0.1:61613 --job again-3 --where \"day = '2026-01-31'\"",
)

_Job: TypeAlias = Annotated[
    str, typer.Option(help="Names this replay: what it has sent it does not send again.", metavar="NAME")
]
_To: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="queue:NAME, topic:NAME, or the name of a queue. [default: where each message was]",
        metavar="DESTINATION",
        show_default=False,
    ),
]
_Where: TypeAlias = Annotated[
    str | None, typer.Option(help="Only these: a condition of Spark SQL.", metavar="TEXT", show_default=False)
]
_Rate: TypeAlias = Annotated[
    int | None, typer.Option(help="So many messages a second.", min=1, max=MOST, metavar="NUMBER", show_default=False)
]


def replay_command(
    directory: Annotated[str, typer.Argument(help="What `pyjms pipeline archive` has written.", metavar="DIR")],
    url: Url,
    job: _Job,
    to: _To = None,
    where: _Where = None,
    rate: _Rate = None,
    form: Form = "parquet",
    credentials: Credentials = None,
    metrics: MetricsTo = None,
    master: Master = LOCAL,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and send nothing.")] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Send archived messages again, in their order, with all their types. Each once, however often the job is started.

    Exit code: 0 all is sent, now or when the job ran before, 1 it broke off, 2 it cannot be done as asked.
    """
    from pyjms.spark.pipelines import chosen_of, replay

    options: dict[str, Any] = {} if credentials is None else {"credentials": credentials}
    new = 0
    clock = SystemClock()
    with errors_told("replay", verbose=verbose), metering(metrics) as meter:
        check_form(form)
        check_folder(directory)
        check_job(job)
        # Parsed and dropped: a wrong URL or destination is reported before Spark starts.
        parse_options({"url": url, **({} if to is None else {"destination": to}), **options})
        read_credentials(credentials)
        session = make_session("pyjms replay", master=master, log_level=log_level(verbose))
        if dry_run:
            chosen = chosen_of(session, directory, where=where, form=form).count()
            note(f"{counted(chosen, 'message')} would be sent")
            if as_json:
                typer.echo(json.dumps({"chosen": chosen}))
            return
        given = {"url": url, "destination": to, "where": where, "form": form, "per_second": rate, **options}
        began_ms = clock.monotonic_ms()
        with stop_wanted() as wanted:
            sent = 0
            for each in replay(session, directory, job=job, wait=wanted.wait, **given):
                now_ms = clock.monotonic_ms()
                portion, sent = each.messages - sent, each.messages
                meter.hear(_done(job, each, portion, (now_ms - began_ms) / 1000, clock))
                # The wait until the next second counts for the next portion, so
                # that the seconds of all portions add up.
                began_ms = now_ms
                new += portion if each.is_new else 0
                note(_progress(job, each, new))
                # Only between two portions: each is promoted as a whole, and the next run begins after the last one.
                if wanted.is_set() and sent < each.of:
                    raise failure("replay", f"ended; start the job {job} again to send the rest", FAILED)
    if as_json:
        typer.echo(json.dumps({"replayed": new}))


def _progress(job: str, replayed: Replayed, new: int) -> str:
    if not replayed.of:
        return f"no messages are chosen: nothing was sent, and the job {job} is not used up"
    if not replayed.is_new:
        return f"the job {job} had sent {replayed.messages:,} of {counted(replayed.of, 'message')} before: nothing was sent"
    before = replayed.messages - new
    return f"replayed {new:,} of {counted(replayed.of, 'message')}{f', and {before:,} before' if before else ''}"


def _done(job: str, replayed: Replayed, messages: int, seconds: float, clock: Clock) -> BatchDone:
    return BatchDone(
        pipeline="replay",
        name=job,
        batch=replayed.epoch,
        messages_in=messages,
        messages_out=messages if replayed.is_new else 0,
        seconds=seconds,
        ended_ms=int(clock.time_ms()),
        lag_seconds=None,
        left=replayed.of - replayed.messages,
    )
