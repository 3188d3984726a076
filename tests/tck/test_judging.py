from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyjms.spi.capability import Capability
from pyjms_tck.profile import Profile
from pyjms_tck.results import NO_TEST, Outcome, judge, lacking, lacks_requirement
from tests.tck.samples import catalogue, failure, requirement, result

if TYPE_CHECKING:
    from collections.abc import Mapping

A, B = requirement("3.4.1-a"), requirement("3.4.2-a", feature="PRIORITIES")
UNSEEN = requirement("3.4.3-a", testable=False, reason="nobody can see it")
CATALOGUE = catalogue(A, B, UNSEEN)
FAILED, NOT_SUPPORTED, PASSED = Outcome.FAILED, Outcome.NOT_SUPPORTED, Outcome.PASSED


class Plain(Profile):
    def __init__(self, unsupported: Mapping[str, str] | None = None) -> None:
        self.unsupported = unsupported or {}


class Guarded(Profile):
    wrong_credentials = ("nobody", "wrong")


class Restarting(Profile):
    def restart_broker(self) -> None:
        """Nothing to do here."""


@pytest.mark.parametrize(
    ("capabilities", "unsupported", "told"),
    [
        (Capability.PRIORITIES, {}, None),
        (Capability.NONE, {}, "the provider does not declare PRIORITIES"),
        (
            Capability.PRIORITIES,
            {"PRIORITIES": "all are equal"},
            "by the profile there is no PRIORITIES: all are equal",
        ),
        (Capability.PRIORITIES, {"3.4.2-a": "not yet"}, "the profile says: not yet"),
        (Capability.PRIORITIES, {"3.4.2": "not yet"}, "the profile says: not yet"),
        (Capability.PRIORITIES, {"3": "nothing at all"}, "the profile says: nothing at all"),
        (Capability.PRIORITIES, {"3.4.20": "other", "TOPICS": "other", "3.4.2-aa": "other"}, None),
    ],
)
def test_what_is_not_supported_is_declared_before_the_run(
    capabilities: Capability, unsupported: dict[str, str], told: str | None
) -> None:
    assert lacks_requirement(B, capabilities, Plain(unsupported)) == told


def test_a_test_needs_what_its_requirements_marks_and_fixtures_need() -> None:
    some = Capability.PRIORITIES | Capability.TRANSACTIONS
    assert lacking([A, B], ["TRANSACTIONS"], ["queue", "session"], some, Profile()) is None
    assert lacking([A, B], [], [], Capability.NONE, Profile()) == "the provider does not declare PRIORITIES"
    assert lacking([A], ["XA"], [], some, Profile()) == "the provider does not declare XA"
    assert lacking([A], [], ["topic"], some, Profile()) == "the provider does not declare TOPICS"
    assert (
        lacking([A], [], ["make_topic"], some, Plain({"TOPICS": "none"})) == "by the profile there is no TOPICS: none"
    )
    assert lacking([A], [], ["topic"], Capability.TOPICS, Profile()) is None


def test_a_test_that_restarts_the_broker_needs_a_profile_that_can() -> None:
    assert lacking([A], [], ["restart_broker"], Capability.NONE, Profile()) == "the profile cannot restart the broker"
    assert lacking([A], [], ["restart_broker"], Capability.NONE, Restarting()) is None


def test_a_test_of_refused_credentials_needs_a_profile_that_has_some() -> None:
    told = "the profile names no credentials that the provider refuses (wrong_credentials)"
    assert lacking([A], [], ["wrong_credentials"], Capability.NONE, Profile()) == told
    assert lacking([A], [], ["wrong_credentials"], Capability.NONE, Guarded()) is None


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([PASSED], PASSED),
        ([PASSED, PASSED], PASSED),
        ([PASSED, FAILED], FAILED),
        ([FAILED, NOT_SUPPORTED], FAILED),
        ([PASSED, NOT_SUPPORTED], PASSED),
        ([NOT_SUPPORTED], NOT_SUPPORTED),
        ([], Outcome.NOT_TESTABLE),
    ],
)
def test_the_tests_of_a_requirement_decide(outcomes: list[Outcome], expected: Outcome) -> None:
    results = [
        result(f"test_{number}", A.id, outcome=outcome, reason="no topics" if outcome is NOT_SUPPORTED else None)
        for number, outcome in enumerate(outcomes)
    ]
    (judgement,) = judge(CATALOGUE, [A.id], results, {})
    assert judgement.outcome is expected
    assert judgement.reason == {NOT_SUPPORTED: "no topics", Outcome.NOT_TESTABLE: NO_TEST}.get(expected)
    assert len(judgement.tests) == len(outcomes)


def test_what_the_provider_lacks_is_not_supported_whatever_its_tests_say() -> None:
    results = [result("test_b", B.id, outcome=FAILED, failure=failure())]
    (judgement,) = judge(CATALOGUE, [B.id], results, {B.id: "no priorities"})
    assert (judgement.outcome, judgement.reason) == (NOT_SUPPORTED, "no priorities")


def test_what_cannot_be_tested_says_why() -> None:
    (judgement,) = judge(CATALOGUE, [UNSEEN.id], [], {UNSEEN.id: "also not supported"})
    assert (judgement.outcome, judgement.reason) == (Outcome.NOT_TESTABLE, "nobody can see it")


def test_judgements_are_those_selected_in_a_stable_order() -> None:
    results = [result("test_z", A.id, B.id), result("test_a", A.id)]
    first, second = judge(CATALOGUE, [B.id, A.id], results, {})
    assert [first.requirement.id, second.requirement.id] == [A.id, B.id]
    assert [test.test for test in first.tests] == ["test_a", "test_z"]
    assert [test.test for test in second.tests] == ["test_z"]
