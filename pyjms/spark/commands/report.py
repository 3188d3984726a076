"""``pyjms pipeline report``: the traffic of each destination."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from pyjms.history.command import OnlyJson
from pyjms.history.reading import HistoryError
from pyjms.spark.archives import FORMS, check_form
from pyjms.spark.commands.running import Master, Page, Verbose, ended_at_once, errors_told, failure, log_level
from pyjms.spark.options import check_folder, check_page
from pyjms.spark.session import LOCAL, make_session
from pyjms.spi.terminal import escaped, note

if TYPE_CHECKING:
    from pyjms.spark.report import Source

EXAMPLES: Final = (
    "pyjms pipeline report /var/tmp/history",
    "pyjms pipeline report /var/tmp/history --archive /var/archive/orders --report report.html",
    "pyjms pipeline report --archive /var/archive/dead-letters --json",
)

_Histories: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(help="Directories of recorded histories, or URLs that Spark reads.", metavar="DIR"),
]
_Archives: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--archive", help="What `pyjms pipeline archive` has written; may be given several times.", metavar="DIR"
    ),
]
_Form: TypeAlias = Annotated[
    str,
    typer.Option("--format", help=f"Of the archives: {', '.join(FORMS[:-1])}, or {FORMS[-1]} where this Spark has it."),
]


def report_command(
    histories: _Histories = None,
    archives: _Archives = None,
    report: Page = None,
    form: _Form = "parquet",
    master: Master = LOCAL,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would be read, and no more.")] = False,
    verbose: Verbose = False,
    as_json: OnlyJson = False,
) -> None:
    """Tell what passed through each destination: throughput, depth, latency, redelivery, and why messages were set aside.

    Histories give all of it; archives throughput, redelivery and reasons. Exit code: 0 done, 1 it broke off, 2 it cannot be done as
    asked.
    """
    if not histories and not archives:
        raise failure("report", "name a directory of recorded histories, or --archive DIR")
    with errors_told("report", verbose=verbose), ended_at_once("report"):
        from pyjms.spark.report import figures_of, read_sources

        check_form(form)
        for place in (*(histories or ()), *(archives or ())):
            check_folder(place)
        # Checked before Spark starts: the page is written after all sources were read.
        if report is not None:
            check_page(report)
        session = make_session("pyjms report", master=master, log_level=log_level(verbose))
        try:
            source = read_sources(session, histories or [], archives or [], form=form)
        except HistoryError as error:
            raise failure("report", error.reason) from error
        data = _read(source, histories or [], archives or [])
        if not dry_run:
            data["figures"] = figures_of(source, note)
            if report is not None:
                from pyjms.spark.report import page

                report.write_text(page(data), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(data, indent=2))
    elif dry_run:
        note(f"{data['events']:,} recorded events and {data['messages']:,} archived messages would be read")
    else:
        _show(data)
    if report is not None and not dry_run:
        note(f"The report is in {report}.")


def _read(source: Source, histories: list[str], archives: list[str]) -> dict[str, Any]:
    events = 0 if source.events is None else source.events.count()
    messages = 0 if source.messages is None else source.messages.count()
    note(f"reading {events:,} recorded events and {messages:,} archived messages")
    return {"histories": histories, "archives": archives, "events": events, "messages": messages}


def _show(data: dict[str, Any]) -> None:
    from pyjms.spark.report import DESTINATION_HEADS, REASON_HEADS, destination_cells, reason_cells

    figures = data["figures"]
    console = Console(emoji=False)
    console.print(_table(DESTINATION_HEADS, map(destination_cells, figures["destinations"]), texts=1))
    if figures["reasons"]:
        console.print()
        console.print(_table(REASON_HEADS, map(reason_cells, figures["reasons"]), texts=3))
    if figures["reasons_left"]:
        console.print(f"and {figures['reasons_left']:,} for other reasons")


def _table(heads: tuple[str, ...], rows: Any, *, texts: int) -> Table:
    shown = Table(box=None, pad_edge=False)
    for place, head in enumerate(heads):
        shown.add_column(
            head.lower(),
            justify="left" if place < texts else "right",
            overflow="fold",
            min_width=12 if place == 0 else None,
        )
    for cells in rows:
        shown.add_row(*map(escaped, cells))
    return shown
