"""Reports on the terminal: a table by chapter, failures and what to check, records, and differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pyjms.spi.terminal import printable
from pyjms.spi.words import counted
from pyjms_tck.catalogue import Requirement, is_selected
from pyjms_tck.results import Judgement, Outcome, Report

# What changed between two reports, requirement by requirement, and whether it got worse. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A requirement with different outcomes."""

    id: str
    statement: str
    before: str
    """The outcome, or ``absent``."""
    after: str
    is_worse: bool
    observed_before: tuple[str, ...] = ()
    observed_after: tuple[str, ...] = ()


def compare(before: Report, after: Report) -> tuple[Change, ...]:
    """Return what changed, in the order of the second report; removed requirements come last.

    A change is worse if a requirement no longer passes, failed and is no longer judged, or is new and fails.
    Requirements selected for only one of the reports are not compared; see `left_out`.
    """
    return tuple(_changes(before, after))


def left_out(before: Report, after: Report) -> int:
    """Return how many requirements were selected for only one of the reports."""
    return sum(1 for _ in _selected_once(before, after)) + sum(1 for _ in _selected_once(after, before))


def _selected_once(here: Report, there: Report) -> Iterator[str]:
    """Yield the ids that `here` judges and for which `there` was not asked."""
    known = {judgement.requirement.id for judgement in there.judgements}
    for judgement in here.judgements:
        requirement = judgement.requirement
        if requirement.id not in known and not is_selected(requirement, there.selection):
            yield requirement.id


def _changes(before: Report, after: Report) -> Iterator[Change]:
    skipped = {*_selected_once(before, after), *_selected_once(after, before)}
    old = {each.requirement.id: each for each in before.judgements if each.requirement.id not in skipped}
    for judgement in after.judgements:
        if judgement.requirement.id in skipped:
            continue
        earlier = old.pop(judgement.requirement.id, None)
        if earlier is None or (earlier.outcome, earlier.observed) != (judgement.outcome, judgement.observed):
            yield _change(judgement, earlier, judgement)
    for gone in old.values():
        yield _change(gone, gone, None)


def _change(shown: Judgement, before: Judgement | None, after: Judgement | None) -> Change:
    old, new = before.outcome if before else None, after.outcome if after else None
    return Change(
        id=shown.requirement.id,
        statement=shown.requirement.statement,
        before=old or "absent",
        after=new or "absent",
        is_worse=_is_worse(old, new),
        observed_before=before.observed if before else (),
        observed_after=after.observed if after else (),
    )


def _is_worse(old: Outcome | None, new: Outcome | None) -> bool:
    if old is new:
        return False
    # A test that failed and is no longer judged counts as worse: leaving it out must not make a report look better.
    return new is Outcome.FAILED or old is Outcome.PASSED or (old is Outcome.FAILED and new is not Outcome.PASSED)


STYLES = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "bold red",
    Outcome.NOT_SUPPORTED: "yellow",
    Outcome.NOT_TESTABLE: "bright_black",
}
FAILURES_SHOWN_MAX = 20
TESTS_SHOWN_MAX = 2
_HEAD_MAX = 24
"""The maximum length of an id with text beside it: longer ones, as in the SPI's contract, leave no room on a terminal
of 80 columns.
"""


def print_report(console: Console, report: Report) -> None:
    """Print the whole report for a reader at a terminal."""
    about = report.provider
    console.print()
    console.print(
        Text.assemble((printable(f"{about.name} {about.version}"), "bold"), printable(f" at {about.title}")),
        highlight=False,
    )
    console.print(_by_chapter(report))
    failed = [judgement for judgement in report.judgements if judgement.was_run]
    for judgement in failed[:FAILURES_SHOWN_MAX]:
        console.print(_failure(judgement), highlight=False)
    if len(failed) > FAILURES_SHOWN_MAX:
        console.print(f"... and {len(failed) - FAILURES_SHOWN_MAX} more: the HTML report (--html FILE) has them all")
    _print_unsupported(console, report.judgements)
    _print_observed(console, report.judgements)
    console.print(Text(f"\n{report.verdict}.", style=_verdict_style(report)))


def _verdict_style(report: Report) -> str:
    if report.given_up or not report.has_passed:
        return "bold red"
    return "bold green" if report.conforms else "bold yellow"


def _by_chapter(report: Report) -> Table:
    table = Table(title=None, show_footer=True, header_style="bold", footer_style="bold")
    table.add_column("chapter", footer="all")
    for outcome in Outcome:
        table.add_column(str(outcome), footer=str(report.counts[outcome]), justify="right", style=STYLES[outcome])
    for number, chapter in report.chapters.items():
        outcomes = [j.outcome for j in report.judgements if j.requirement.chapter == number]
        if outcomes:
            cells = (str(count) if (count := outcomes.count(outcome)) else "" for outcome in Outcome)
            table.add_row(f"{number} {chapter.title}", *cells)
    return table


def _failure(judgement: Judgement) -> RenderableType:
    requirement = judgement.requirement
    head = Text.assemble(("FAILED ", STYLES[Outcome.FAILED]), (requirement.id, "bold"))
    parts: list[RenderableType] = ["", _beside(head, requirement.statement)]
    # A test that fails alike with several parameters is shown once: the reports in files list each.
    unlike = dict.fromkeys(
        (test.failure.expected, test.failure.seen, test.failure.where) for test in judgement.failures if test.failure
    )
    shown = list(unlike)[:TESTS_SHOWN_MAX]
    for expected, seen, where in shown:
        lines = Table.grid(padding=(0, 1))
        lines.add_row("expected", Text(printable(expected)))
        lines.add_row("seen", Text(printable(seen)))
        lines.add_row("where", Text(printable(where)))
        parts.append(Padding(lines, (0, 0, 0, 2)))
    last = Table.grid(padding=(0, 1))
    if (more := len(judgement.failures) - len(shown)) > 0:
        last.add_row("", f"and {more} more of its tests failed")
    last.add_row(Text("check   ", style="italic"), Text(requirement.hint, style="italic"))
    parts.append(Padding(last, (0, 0, 0, 2)))
    return Group(*parts)


def _beside(head: Text, text: str) -> RenderableType:
    """Return `text` beside its head, on as many lines as needed; below it, if the head is long."""
    if head.cell_len > _HEAD_MAX:
        return Text.assemble(head, f"  {printable(text)}")
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True)
    lines.add_row(head, Text(printable(text)))
    return lines


def _print_unsupported(console: Console, judgements: Iterable[Judgement]) -> None:
    # By reason, not by requirement: one missing feature excuses dozens of them.
    reasons = Counter(str(one.reason) for one in judgements if one.outcome is Outcome.NOT_SUPPORTED)
    if not reasons:
        return
    console.print("\n[bold]Not supported, as was declared before the run[/bold]")
    for reason, count in reasons.most_common():
        console.print(Padding(_beside(Text(f"{count:>3}"), reason), (0, 0, 0, 2)), highlight=False)


def _print_observed(console: Console, judgements: Iterable[Judgement]) -> None:
    observed = [(judgement.requirement.id, text) for judgement in judgements for text in judgement.observed]
    if not observed:
        return
    console.print("\n[bold]Recorded, where the specification leaves it open[/bold]")
    for id, text in observed:
        console.print(Padding(_beside(Text(id), text), (0, 0, 0, 2)), highlight=False)


def print_requirements(console: Console, requirements: Iterable[Requirement]) -> None:
    """Print a list of requirements; as a table if their ids leave room for more."""
    listed = list(requirements)
    if any(len(each.id) > _HEAD_MAX for each in listed):
        for each in listed:
            console.print(Text(each.id, style="bold"), soft_wrap=True)
            console.print(Padding(Text(each.statement), (0, 0, 0, 4)))
        return
    table = Table(header_style="bold")
    for name in ("id", "level", "feature", "statement"):
        table.add_column(name, no_wrap=name == "id")
    for requirement in listed:
        level = requirement.level if requirement.testable else "not testable"
        table.add_row(requirement.id, level, requirement.feature or "", Text(requirement.statement))
    console.print(table)


def print_changes(console: Console, changes: Iterable[Change], left_out: int = 0) -> None:
    """Print changes, the worse ones first. `left_out`: the number of requirements selected for only one of the reports."""
    changes = sorted(changes, key=lambda change: not change.is_worse)
    if left_out:
        console.print(
            f"{counted(left_out, 'requirement was', 'requirements were')} selected for one of the reports only, and left out."
        )
    if not changes:
        console.print("No requirement came out differently.")
        return
    table = Table(header_style="bold")
    for name in ("id", "before", "after", "statement"):
        table.add_column(name, no_wrap=name == "id")
    for change in changes:
        style = "red" if change.is_worse else "green" if change.before != change.after else ""
        before = "\n".join((change.before, *change.observed_before))
        after = "\n".join((change.after, *change.observed_after))
        table.add_row(change.id, Text(before), Text(after, style=style), Text(change.statement))
    console.print(table)
    worse = sum(change.is_worse for change in changes)
    console.print(f"{len(changes)} came out differently, {worse} of them worse.")
