"""A report as one HTML page: no other file, nothing from the network. All texts of tests and providers are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from importlib import resources

from pyjms.spi.capability import Capability
from pyjms_tck.catalogue import Level
from pyjms_tck.results import Failure, Judgement, Outcome, Report, TestResult

# The chart of a report: a bar for each chapter, in parts for the four outcomes, as inline SVG. Pure.

CSS_CLASSES = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.NOT_SUPPORTED: "unsupported",
    Outcome.NOT_TESTABLE: "untestable",
}
_WIDTH, _BAR_LEFT, _BAR_WIDTH, _ROW_HEIGHT, _BAR_HEIGHT = 900, 230, 560, 30, 18
_PART_LEAST = 3.0
"""The minimum width: a single failed requirement among hundreds must be visible."""


def picture(report: Report) -> str:
    """Return the SVG text. All bars have the same length, so their parts are shares; the number stands beside them."""
    rows = [(number, counts) for number in report.chapters if sum((counts := _counts(report, number)).values())]
    height = len(rows) * _ROW_HEIGHT
    bars = "".join(_bars_row(report, number, counts, index) for index, (number, counts) in enumerate(rows))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Outcomes by chapter" '
        f'xmlns="http://www.w3.org/2000/svg">{bars}</svg>'
    )


def _counts(report: Report, chapter: int) -> dict[Outcome, int]:
    outcomes = [judgement.outcome for judgement in report.judgements if judgement.requirement.chapter == chapter]
    return {outcome: outcomes.count(outcome) for outcome in Outcome}


def _bars_row(report: Report, number: int, counts: dict[Outcome, int], index: int) -> str:
    top = index * _ROW_HEIGHT
    baseline = top + 20
    title = f"{number} {report.chapters[number].title}"
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    judged = counts[Outcome.PASSED] + counts[Outcome.FAILED]
    return (
        f'<g role="button" tabindex="0" data-chapter="{number}" aria-label="{escape(title)}: {told}">'
        f"<title>{escape(title)}: {told}</title>"
        f'<rect x="0" y="{top}" width="{_WIDTH}" height="{_ROW_HEIGHT}" fill="transparent"/>'
        f'<text x="0" y="{baseline}">{escape(title)}</text>'
        + "".join(_parts(counts, top + (_ROW_HEIGHT - _BAR_HEIGHT) / 2))
        + f'<text class="count" x="{_BAR_LEFT + _BAR_WIDTH + 14}" y="{baseline}">'
        f"{f'{counts[Outcome.PASSED]} of {judged}' if judged else 'not judged'}</text></g>"
    )


def _parts(counts: dict[Outcome, int], top: float) -> Iterator[str]:
    total = sum(counts.values())
    widths = {outcome: max(_PART_LEAST, count / total * _BAR_WIDTH) for outcome, count in counts.items() if count}
    # Parts of minimum width make the sum longer than the bar, so all parts shrink.
    shrink = _BAR_WIDTH / sum(widths.values())
    left = float(_BAR_LEFT)
    for outcome, width in widths.items():
        yield (
            f'<rect class="{CSS_CLASSES[outcome]}" x="{left:.1f}" y="{top:.1f}" width="{width * shrink:.1f}" '
            f'height="{_BAR_HEIGHT}"/>'
        )
        left += width * shrink


_SIGNS = {Outcome.PASSED: "✓", Outcome.FAILED: "✗", Outcome.NOT_SUPPORTED: "⊘", Outcome.NOT_TESTABLE: "○"}
_FIRST_MAX = 12
_TESTS_MAX = 5
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def to_html(report: Report) -> str:
    """Return the page."""
    folder = resources.files("pyjms_tck.report")
    css = (folder / "page.css").read_text(encoding="utf-8")
    script = (folder / "page.js").read_text(encoding="utf-8")
    about = report.provider
    body = "\n".join(
        (
            _header(report),
            "<main>",
            _tiles(report),
            f'<div class="card picture">{picture(report)}</div>',
            *_failed_first(report),
            _controls(report),
            '<p class="none" id="none" hidden>Nothing matches. Clear the filter to see everything.</p>',
            *_chapters(report),
            *_observed(report),
            *_capabilities(report),
            "</main>",
            f"<footer>pyjms-tck {escape(report.suite_version)}. Judged: {escape(report.suite)}.</footer>",
        )
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(about.name)}: {escape(report.verdict)}</title>\n<style>\n{css}</style>\n</head>\n"
        f"<body>\n{body}\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _header(report: Report) -> str:
    about = report.provider
    outcome = _verdict_outcome(report)
    selection = f" Only {escape(', '.join(report.selection))} was asked for." if report.selection else ""
    return (
        f'<header><div><div class="words"><h1 class="{CSS_CLASSES[outcome]}">{_SIGNS[outcome]} {escape(report.verdict)}</h1>'
        f"<p><b>{escape(about.name)} {escape(about.version)}</b> at <code>{escape(about.title)}</code></p>"
        f'<p class="soft">JMS {escape(about.jms_version)}.{selection}</p></div>'
        '<button id="theme" type="button" title="dark or light">◐</button></div></header>'
    )


def _verdict_outcome(report: Report) -> Outcome:
    """Return the outcome that decides the verdict's colour."""
    if report.given_up or not report.has_passed:
        return Outcome.FAILED
    return Outcome.PASSED if report.conforms else Outcome.NOT_SUPPORTED


def _tiles(report: Report) -> str:
    tiles = "".join(
        f'<button type="button" class="tile {CSS_CLASSES[outcome]}" aria-pressed="false" data-outcome="{outcome}" '
        f'title="show only these"><b>{count}</b>{_SIGNS[outcome]} {outcome}</button>'
        for outcome, count in report.counts.items()
    )
    return f'<div class="tiles">{tiles}</div>'


def _failed_first(report: Report) -> Iterator[str]:
    failed = [judgement for judgement in report.judgements if judgement.was_run]
    if not failed:
        return
    links = "".join(
        f'<li><a href="#{_anchor(judgement)}">{escape(judgement.requirement.id)}</a> '
        f"{escape(judgement.requirement.statement)}</li>"
        for judgement in failed[:_FIRST_MAX]
    )
    rest = f'<p class="soft">and {len(failed) - _FIRST_MAX} more below</p>' if len(failed) > _FIRST_MAX else ""
    yield f'<h2 class="failed">What failed</h2><div class="card first"><ul>{links}</ul>{rest}</div>'


def _controls(report: Report) -> str:
    chapters = "".join(
        f'<option value="{number}">{number} {escape(chapter.title)}</option>'
        for number, chapter in report.chapters.items()
    )
    levels = "".join(f'<option value="{level}">{level}</option>' for level in Level)
    return (
        '<div class="controls"><input id="search" type="search" placeholder="Search: an id, a word, an official assertion" '
        'aria-label="Search">'
        f'<select id="chapter" aria-label="Chapter"><option value="">all chapters</option>{chapters}</select>'
        f'<select id="level" aria-label="Level"><option value="">all levels</option>{levels}</select>'
        '<button id="clear" type="button">clear</button><span id="shown" class="soft" role="status"></span></div>'
    )


def _chapters(report: Report) -> Iterator[str]:
    for number, chapter in report.chapters.items():
        judgements = [judgement for judgement in report.judgements if judgement.requirement.chapter == number]
        if judgements:
            passed = sum(judgement.outcome is Outcome.PASSED for judgement in judgements)
            rows = "\n".join(map(_row, judgements))
            yield (
                f'<section class="chapter"><h2>{number} {escape(chapter.title)}'
                f"<small>{passed} of {len(judgements)} passed</small></h2>\n{rows}\n</section>"
            )


def _anchor(judgement: Judgement) -> str:
    return escape(f"r-{judgement.requirement.id}")


def _row(judgement: Judgement) -> str:
    requirement, outcome = judgement.requirement, judgement.outcome
    kind = CSS_CLASSES[outcome]
    is_open = " open" if judgement.was_run else ""
    return (
        f'<details class="r {kind}" id="{_anchor(judgement)}" data-outcome="{outcome}" data-level="{requirement.level}" '
        f'data-chapter="{requirement.chapter}"{is_open}><summary><span aria-hidden="true">{_SIGNS[outcome]}</span>'
        f'<span class="id">{escape(requirement.id)}</span><span class="statement">{escape(requirement.statement)}</span>'
        f'<span class="pill {kind}">{outcome}</span></summary>'
        f'<div class="body">{"".join(_body(judgement))}</div></details>'
    )


def _body(judgement: Judgement) -> Iterator[str]:
    requirement = judgement.requirement
    if judgement.outcome is Outcome.FAILED:
        yield from (_failure(test, test.failure) for test in judgement.failures[:_TESTS_MAX] if test.failure)
        if (more := len(judgement.failures) - _TESTS_MAX) > 0:
            yield f'<p class="soft">and {more} more of its tests failed</p>'
        yield f'<p class="hint"><b>What to check:</b> {escape(requirement.hint)}</p>'
    facts = {
        "why": judgement.reason or "",
        "recorded": "; ".join(judgement.observed),
        "level": str(requirement.level),
        "feature": requirement.feature or "",
        "section": f"JMS {requirement.version}, {requirement.section}",
        "covers": ", ".join(requirement.assertions),
        "tests": _tests(judgement.tests),
    }
    pairs = "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts.items() if value)
    yield f"<dl>{pairs}</dl>"


def _failure(test: TestResult, failure: Failure) -> str:
    details = (
        f"<details><summary>details</summary><pre>{escape(failure.details)}</pre></details>" if failure.details else ""
    )
    return (
        f'<div class="test"><code>{escape(test.test)}</code><div class="values">'
        f'<div class="expected"><b>expected</b>{escape(failure.expected)}</div>'
        f'<div class="seen"><b>seen</b>{escape(failure.seen)}</div></div>'
        f'<p class="soft">{escape(failure.where)}</p>{details}</div>'
    )


def _tests(tests: Iterable[TestResult]) -> str:
    names: dict[str, list[Outcome]] = {}
    for test in tests:
        names.setdefault(test.test.partition("[")[0], []).append(test.outcome)
    return ", ".join(f"{name} ({_tally(outcomes)})" for name, outcomes in names.items())


def _tally(outcomes: list[Outcome]) -> str:
    if len(outcomes) == 1:
        return str(outcomes[0])
    return ", ".join(f"{count} {outcome}" for outcome in Outcome if (count := outcomes.count(outcome)))


def _observed(report: Report) -> Iterator[str]:
    seen = [(judgement, text) for judgement in report.judgements for text in judgement.observed]
    if seen:
        lines = "".join(
            f'<li><a href="#{_anchor(judgement)}">{escape(judgement.requirement.id)}</a> {escape(text)}</li>'
            for judgement, text in seen
        )
        yield (
            "<h2>Recorded <small>where the specification leaves it open</small></h2>"
            f'<div class="card first"><ul>{lines}</ul></div>'
        )


def _capabilities(report: Report) -> Iterator[str]:
    declared = set(report.provider.capabilities)
    tags = "".join(
        f'<span class="{"declared" if name in declared else "missing"}">{name}</span>' for name in Capability.__members__
        if name != "NONE"
    )  # fmt: skip
    yield f'<h2>Declared by the provider</h2><div class="card tags">{tags}</div>'
