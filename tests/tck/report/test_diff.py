from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pyjms_tck.report.terminal import Change, compare, left_out
from pyjms_tck.results import Judgement, Outcome
from tests.tck.samples import judgement, requirement, result, sample_report

if TYPE_CHECKING:
    from pyjms_tck.results import Report

PASSED, FAILED, NOT_SUPPORTED, NOT_TESTABLE = Outcome
ONE = requirement("3.1-a")


def report(*judgements: Judgement) -> Report:
    return replace(sample_report(), judgements=judgements)


def only(before: Outcome | None, after: Outcome | None) -> tuple[Change, ...]:
    return compare(
        report(*([judgement(ONE, before)] if before else [])), report(*([judgement(ONE, after)] if after else []))
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PASSED, FAILED),
        (PASSED, NOT_SUPPORTED),
        (PASSED, NOT_TESTABLE),
        (PASSED, None),
        (NOT_SUPPORTED, FAILED),
        (NOT_TESTABLE, FAILED),
        (None, FAILED),
        (FAILED, NOT_SUPPORTED),
        (FAILED, NOT_TESTABLE),
        (FAILED, None),
    ],
)
def test_what_is_worse(before: Outcome | None, after: Outcome | None) -> None:
    (change,) = only(before, after)
    assert change.is_worse
    assert (change.before, change.after) == (before or "absent", after or "absent")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FAILED, PASSED),
        (NOT_SUPPORTED, PASSED),
        (NOT_TESTABLE, PASSED),
        (None, PASSED),
        (None, NOT_SUPPORTED),
        (NOT_SUPPORTED, NOT_TESTABLE),
        (NOT_TESTABLE, None),
        (NOT_SUPPORTED, None),
    ],
)
def test_what_is_not_worse(before: Outcome | None, after: Outcome | None) -> None:
    (change,) = only(before, after)
    assert not change.is_worse


@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_stays_is_no_change(outcome: Outcome) -> None:
    assert only(outcome, outcome) == ()


def test_other_behaviour_where_the_specification_leaves_it_open_is_a_change_and_not_worse() -> None:
    before, after = (judgement(ONE, PASSED, result("test", ONE.id, observed=(text,))) for text in ("waits", "raises"))
    (change,) = compare(report(before), report(after))
    assert (change.observed_before, change.observed_after, change.is_worse) == (("waits",), ("raises",), False)


def test_changes_follow_the_second_report_and_end_with_what_is_gone() -> None:
    two, three = requirement("3.2-a"), requirement("3.3-a")
    changes = compare(report(judgement(ONE), judgement(two)), report(judgement(three), judgement(two, FAILED)))
    assert [change.id for change in changes] == ["3.3-a", "3.2-a", "3.1-a"]


def test_what_was_not_selected_is_left_out_and_what_is_gone_is_not() -> None:
    two, three = requirement("3.2-a"), requirement("3.3-a")
    whole = report(judgement(ONE), judgement(two), judgement(three))
    part = replace(report(judgement(ONE, FAILED)), selection=("3.1", "3.3-a"))  # which knows 3.3-a no more
    assert [(change.id, change.is_worse) for change in compare(whole, part)] == [("3.1-a", True), ("3.3-a", True)]
    assert left_out(whole, part) == left_out(part, whole) == 1
    assert left_out(whole, whole) == 0
