"""``pyjms history check`` and ``pyjms history show``.

The exit code is the verdict: 0 nothing worse than information, 1 a violation, 3 a warning; 2 when there is no history
that can be read, or no such message in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from pyjms.history.check import check
from pyjms.history.events import Event, History
from pyjms.history.findings import Finding, Report
from pyjms.history.reading import read
from pyjms.history.rules import RULES, Verdict
from pyjms.history.story import describe, story
from pyjms.spi.arguments import span_ms
from pyjms.spi.errors import ProviderError
from pyjms.spi.terminal import CANNOT_BE_USED, complain, escaped, listing
from pyjms.spi.words import counted, rounded

EXIT_CODES = {Verdict.INFORMATION: 0, Verdict.VIOLATION: 1, Verdict.WARNING: 3}

_COLOURS = {Verdict.INFORMATION: "cyan", Verdict.VIOLATION: "red", Verdict.WARNING: "yellow"}
_NS_PER_S = 10**9

_Directories = Annotated[list[Path], typer.Argument(help="Directories of recordings, taken as one.", metavar="DIR...")]
Complete: TypeAlias = Annotated[
    bool, typer.Option(help="All was consumed at the end of the run: what was not is lost.", show_default=False)
]
Without: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Leave out a rule; may be given several times.", metavar="RULE")
]
ExpiryAllowance: TypeAlias = Annotated[
    int,
    typer.Option(
        help="So long may a message come after it expired.", metavar="SPAN", parser=span_ms, show_default="1s"
    ),
]
OnlyJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


def commands() -> typer.Typer:
    """Return the commands below ``pyjms history``."""
    app = typer.Typer(no_args_is_help=True, help="Judge recorded histories, and look into them.")
    app.command("check")(check_command)
    app.command("show")(show_command)
    return app


def check_command(
    directories: _Directories,
    complete: Complete = False,
    without: Without = None,
    expiry_allowance: ExpiryAllowance = 1000,
    as_json: OnlyJson = False,
) -> None:
    """Judge recorded histories by what JMS 1.1 guarantees. The exit code is the verdict: 0 good, 1 violation, 3 warning."""
    for rule in without or []:
        if rule not in RULES:
            raise _failure(f"there is no rule {rule!r}; the rules are {', '.join(RULES)}")
    history = _history(directories)
    report = check(history, complete=complete, expiry_allowance_ms=expiry_allowance, without=without or ())
    if as_json:
        typer.echo(json.dumps(_as_data(report), indent=2))
    else:
        print_report(Console(emoji=False), report, report.counts())
    raise typer.Exit(EXIT_CODES[report.verdict])


def show_command(
    directories: _Directories,
    message: Annotated[str, typer.Option(help="The id of the message: ID:...", metavar="ID")],
    as_json: OnlyJson = False,
) -> None:
    """Tell the life story of one message: who did what with it, and when."""
    events = story(_history(directories).events, message)
    if not events:
        raise _failure(f"no message {message!r} in {', '.join(map(str, directories))}")
    if as_json:
        typer.echo(json.dumps([asdict(event) for event in events], indent=2))
        return
    table = listing("time", "ms", "node", "process", "what")
    for event in events:
        table.add_row(
            _time(event),
            "" if event.t1 is None else rounded((event.t1 - event.t0) / 1e6),
            escaped(event.node),
            escaped(event.pid),
            escaped(describe(event)),
        )
    Console(emoji=False).print(table)


def _history(directories: list[Path]) -> History:
    try:
        return read(*directories)
    except ProviderError as error:
        raise _failure(error.reason) from error


def _as_data(report: Report) -> dict[str, object]:
    return {
        "verdict": report.verdict.value,
        "events": report.events,
        "counts": report.counts(),
        "findings": [finding_as_data(each) for each in report.findings],
    }


def finding_as_data(found: Finding) -> dict[str, object]:
    """Return a finding as JSON."""
    return {
        "rule": found.rule,
        "verdict": found.verdict.value,
        "text": found.text,
        "section": RULES[found.rule].section,
        "message": found.mid,
        "destination": found.dest,
        "events": [asdict(event) for event in found.events],
    }


def print_report(console: Console, report: Report, counts: Mapping[str, int]) -> None:
    """Show a report to people; `counts`: how often each rule was found, which may be more than the report lists."""
    for each in report.findings:
        colour = _COLOURS[each.verdict]
        section = f" (JMS 1.1 §{RULES[each.rule].section})" if RULES[each.rule].section else ""
        console.print(f"[{colour}]{each.verdict.value}[/] {each.rule}: {escaped(each.text)}{section}", highlight=False)
        console.print(_witness(each))
    worst = report.verdict if report.findings else None
    summary = ", ".join(f"{number} {rule}" for rule, number in counts.items()) or "nothing found"
    console.print(
        f"{counted(report.events, 'event')}: {summary}", style=_COLOURS[worst] if worst else "green", highlight=False
    )


def _witness(finding: Finding) -> Table:
    table = Table(box=None, show_header=False, pad_edge=True)
    for event in finding.events:
        table.add_row("", _time(event), escaped(event.node), escaped(event.pid), escaped(describe(event)))
    return table


def _time(event: Event) -> str:
    moment = datetime.fromtimestamp(event.t0 // _NS_PER_S, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{event.t0 % _NS_PER_S // 1000:06d}"


def _failure(text: str) -> typer.Exit:
    complain("pyjms history", text)
    return typer.Exit(CANNOT_BE_USED)
