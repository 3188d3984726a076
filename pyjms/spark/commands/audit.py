"""``pyjms pipeline audit``: the checker on Spark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console

from pyjms.history.command import (
    EXIT_CODES,
    Complete,
    ExpiryAllowance,
    OnlyJson,
    Without,
    finding_as_data,
    print_report,
)
from pyjms.history.rules import RULES
from pyjms.spark.commands.running import Master, Page, Verbose, errors_told, failure, log_level
from pyjms.spark.options import check_folder, check_page
from pyjms.spark.session import LOCAL, make_session
from pyjms.spi.terminal import CANNOT_BE_USED, escaped

EXAMPLES: Final = (
    "pyjms pipeline audit /var/tmp/history",
    "pyjms pipeline audit /var/tmp/history --complete --report audit.html",
    "pyjms pipeline audit hdfs://namenode/history --master yarn --findings hdfs://namenode/findings --json",
)

_Directories: TypeAlias = Annotated[
    list[str],
    typer.Argument(help="Directories of recordings, or URLs that Spark reads; taken as one.", metavar="DIR..."),
]
_Findings: TypeAlias = Annotated[
    str | None, typer.Option(help="Write all findings there, as Parquet.", metavar="DIR", show_default=False)
]
_ByRun: TypeAlias = Annotated[
    bool, typer.Option("--by-run", help="Each run is a history of its own.", show_default=False)
]
_Listed: TypeAlias = Annotated[
    int,
    typer.Option(
        "--limit", help="List so many findings of each rule at most; all are counted.", min=1, metavar="NUMBER"
    ),
]


def audit_command(
    directories: _Directories,
    master: Master = LOCAL,
    report: Page = None,
    findings: _Findings = None,
    complete: Complete = False,
    by_run: _ByRun = False,
    without: Without = None,
    expiry_allowance: ExpiryAllowance = 1000,
    listed: _Listed = 20,
    verbose: Verbose = False,
    as_json: OnlyJson = False,
) -> None:
    """Judge recorded histories that one machine cannot hold, by the rules of `pyjms history check`.

    Exit code: the verdict: 0 good, 1 violation, 3 warning; 2 when there is no history that can be read, no Spark, or
    Spark breaks off.
    """
    _check_rules(without or ())
    with errors_told("audit", CANNOT_BE_USED, verbose=verbose):
        from pyjms.spark.checker.audit import audit
        from pyjms.spark.checker.judging import check_place_of_findings, write_findings
        from pyjms.spark.checker.page import figures_of, page
        from pyjms.spark.checker.reading import read_history

        for place in (*directories, *([] if findings is None else [findings])):
            check_folder(place)
        if findings is not None:
            # Local files are checked before Spark starts, the rest as soon as there is a session.
            check_place_of_findings(findings, directories)
        if report is not None:
            check_page(report)
        session = make_session("pyjms audit", master=master, log_level=log_level(verbose))
        if findings is not None:
            check_place_of_findings(findings, directories, session)
        recorded = read_history(session, directories, by_run=by_run)
        found = audit(
            recorded, complete=complete, expiry_allowance_ms=expiry_allowance, without=without or (), listed=listed
        )
        if findings is not None:
            write_findings(found.findings, findings, directories)
        # Figures read the history several times more, which a verdict on the terminal does not need.
        figures = figures_of(recorded.events) if as_json or report is not None else None
        data = _as_data(found.report, found.counts, found.suspects, figures)
        if report is not None:
            report.write_text(page(data), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(data, indent=2))
    else:
        print_report(Console(emoji=False), found.report, found.counts)
        if report is not None:
            Console(emoji=False).print(escaped(f"The report is in {report}."), highlight=False)
    raise typer.Exit(EXIT_CODES[found.verdict])


def _check_rules(names: Iterable[str]) -> None:
    for name in names:
        if name not in RULES:
            raise failure("audit", f"there is no rule {name!r}; the rules are {', '.join(RULES)}")


def _as_data(report: Any, counts: Mapping[str, int], suspects: int, figures: Any) -> dict[str, Any]:
    return {
        "verdict": report.verdict.value,
        "events": report.events,
        "suspects": suspects,
        "counts": dict(counts),
        "findings": [finding_as_data(each) for each in report.findings],
        "figures": figures,
    }
