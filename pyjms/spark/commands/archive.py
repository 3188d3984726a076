"""``pyjms pipeline archive``: a destination into files, in a folder for each day."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from pyjms.commands.connecting import AsJson
from pyjms.spark.archives import check_form
from pyjms.spark.commands.running import (
    MESSAGES_IN_BATCH,
    Batch,
    ClientId,
    Credentials,
    Destination,
    FailOnDataLoss,
    Form,
    Master,
    MetricsTo,
    Once,
    Subscription,
    Url,
    Verbose,
    batch_done,
    errors_told,
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
    from pyspark.sql import SparkSession

EXAMPLES: Final = (
    "pyjms pipeline archive stomp://127.0.0.1:61613 queue:orders /var/archive/orders",
    "pyjms pipeline archive stomp://127.0.0.1:61613 queue:orders /var/archive/orders --once --json",
)

_Directory: TypeAlias = Annotated[
    str, typer.Argument(help="Where the files go: a path or URL that Spark writes to.", metavar="DIR")
]
_Group: TypeAlias = Annotated[
    str, typer.Option(help="The name under which the broker holds what is not in files yet.", metavar="NAME")
]
_Checkpoint: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Where Spark notes how far it is. [default: DIR-checkpoint]", metavar="DIR", show_default=False),
]

_Every: TypeAlias = Annotated[
    int,
    typer.Option(help="How often files are written.", metavar="SPAN", parser=span_ms, show_default="10s"),
]


def archive_command(
    url: Url,
    destination: Destination,
    directory: _Directory,
    group: _Group = "archive",
    subscription: Subscription = None,
    client_id: ClientId = None,
    checkpoint: _Checkpoint = None,
    form: Form = "parquet",
    once: Once = False,
    every: _Every = 10_000,
    batch: Batch = MESSAGES_IN_BATCH,
    fail_on_data_loss: FailOnDataLoss = True,
    metrics: MetricsTo = None,
    credentials: Credentials = None,
    master: Master = LOCAL,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look what is there, and change nothing.")] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Move the messages of a queue, or of a subscription, into Parquet files, in a folder for each day, until Ctrl-C. Each message once.

    Kill it and start it again with the same words: it goes on where it was. Exit code: 0 ended in order, 1 it broke off, 2 it
    cannot be done as asked.
    """
    from pyjms.spark.pipelines import archive

    with errors_told("archive", verbose=verbose), metering(metrics) as meter:
        check_form(form)
        for folder in (directory, directory if checkpoint is None else checkpoint):
            check_folder(folder)
        who = {"client_id": client_id, "subscription": subscription, "credentials": credentials}
        options = source_options(url, destination, group, **who, looks=dry_run)
        if dry_run:
            check_broker(url=url, credentials=credentials)  # otherwise each task looks for it, one after the other
        session = make_session("pyjms archive", master=master, log_level=log_level(verbose))
        if dry_run:
            _tell(as_json, 0, _waiting(session, url, destination, options))
            return
        start = partial(
            archive,
            session,
            directory,
            url=url,
            destination=destination,
            group=group,
            checkpoint=checkpoint,
            form=form,
            once=once,
            every=f"{every} milliseconds",
            maxMessagesPerBatch=batch,
            failOnDataLoss=fail_on_data_loss,
            **options,
        )
        with stop_wanted() as wanted:
            moved = follow(start, wanted, "archived", lambda each: meter.hear(batch_done("archive", group, each)))
    _tell(as_json, moved, None)


def _waiting(session: SparkSession, url: str, destination: str, options: Mapping[str, str]) -> int:
    # Rows are only counted, so that bodies need not become columns.
    given = {"url": url, "destination": destination, "body": "none", **options}
    waiting = session.read.format("jms").options(**given).load().count()
    note(f"{counted(waiting, 'message waits', 'messages wait')} in {destination}")
    return waiting


def _tell(as_json: bool, moved: int, waiting: int | None) -> None:
    if as_json:
        typer.echo(json.dumps({"archived": moved} | ({} if waiting is None else {"waiting": waiting})))
    elif waiting is None:
        note(f"archived {counted(moved, 'message')}")
