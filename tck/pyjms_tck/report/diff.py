"""What changed between two reports, requirement by requirement, and whether it got worse. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyjms_tck.catalogue import is_selected
from pyjms_tck.results import Judgement, Outcome, Report

__all__ = ["Change", "compare", "left_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One requirement that came out differently."""

    id: str
    statement: str
    before: str
    """The outcome, or ``absent``."""
    after: str
    is_worse: bool
    observed_before: tuple[str, ...] = ()
    observed_after: tuple[str, ...] = ()


def compare(before: Report, after: Report) -> tuple[Change, ...]:
    """Return what changed, in the order of the second report; requirements that are gone come last.

    Worse is: what passed does so no longer, what failed is no longer judged, and what fails is new. Of a requirement that was
    not selected for one of the reports nothing can be said; see `left_out`.
    """
    return tuple(_changes(before, after))


def left_out(before: Report, after: Report) -> int:
    """Return how many requirements were selected for one of the reports only."""
    return sum(1 for _ in _selected_once(before, after)) + sum(1 for _ in _selected_once(after, before))


def _selected_once(here: Report, there: Report) -> Iterator[str]:
    """Yield the ids of what `here` judges, and for `there` was not asked for."""
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
    return new is Outcome.FAILED or old is Outcome.PASSED or (old is Outcome.FAILED and new is not Outcome.PASSED)
