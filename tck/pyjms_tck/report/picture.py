"""The picture of a report: a bar for each chapter, in parts for the four outcomes, as inline SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from pyjms_tck.results import Outcome, Report

__all__ = ["CSS_CLASSES", "picture"]

CSS_CLASSES = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.NOT_SUPPORTED: "unsupported",
    Outcome.NOT_TESTABLE: "untestable",
}
_WIDTH, _BAR_LEFT, _BAR_WIDTH, _ROW_HEIGHT, _BAR_HEIGHT = 900, 230, 560, 30, 18
_PART_LEAST = 3.0
"""Even one failed requirement among hundreds must be seen."""


def picture(report: Report) -> str:
    """Return the SVG text. Bars have one length, so that their parts are shares; the number stands beside them."""
    rows = [(number, counts) for number in report.chapters if sum((counts := _counts(report, number)).values())]
    height = len(rows) * _ROW_HEIGHT
    bars = "".join(_row(report, number, counts, index) for index, (number, counts) in enumerate(rows))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Outcomes by chapter" '
        f'xmlns="http://www.w3.org/2000/svg">{bars}</svg>'
    )


def _counts(report: Report, chapter: int) -> dict[Outcome, int]:
    outcomes = [judgement.outcome for judgement in report.judgements if judgement.requirement.chapter == chapter]
    return {outcome: outcomes.count(outcome) for outcome in Outcome}


def _row(report: Report, number: int, counts: dict[Outcome, int], index: int) -> str:
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
    shrink = _BAR_WIDTH / sum(widths.values())
    left = float(_BAR_LEFT)
    for outcome, width in widths.items():
        yield (
            f'<rect class="{CSS_CLASSES[outcome]}" x="{left:.1f}" y="{top:.1f}" width="{width * shrink:.1f}" '
            f'height="{_BAR_HEIGHT}"/>'
        )
        left += width * shrink
