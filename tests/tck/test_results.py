from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pyjms_tck.catalogue import Level
from pyjms_tck.results import NOT_RUN, Outcome, Report, ReportError, TestResult
from tests.tck.samples import failure, judgement, requirement, result, sample_report

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_report_is_the_same_after_json(report: Report) -> None:
    again = Report.from_json(report.to_json())
    assert again == report
    assert again.to_json() == report.to_json()


def test_the_json_has_no_times_and_one_order(report: Report) -> None:
    data = json.loads(report.to_json())
    assert [entry["id"] for entry in data["requirements"]] == ["3.4.1-a", "3.4.2-a", "4.1-a", "4.2-a", "4.3-a"]
    assert data["counts"] == {"passed": 2, "failed": 1, "not supported": 1, "not testable": 1}
    assert data["requirements"][1]["tests"][0]["failure"]["seen"] == "priority 4"
    assert data["requirements"][4]["tests"][0]["observed"] == ["redelivers at once, 6 times"]
    assert data["format"] == 1


def changed(change: Callable[[dict[str, object]], object]) -> str:
    data = json.loads(sample_report().to_json())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no report of pyjms-tck: JSONDecodeError"),
        ("[]", "no report of pyjms-tck: TypeError"),
        ("{}", "no report of pyjms-tck: KeyError"),
        ("[" * 100_000, "no report of pyjms-tck: RecursionError"),
        (changed(lambda data: data.update(chapters=[])), "no report of pyjms-tck: AttributeError"),
        (changed(lambda data: data.update(format=99)), "format 99; this suite reads 1"),
        (changed(lambda data: data.update(requirements=[{"id": "1-a"}])), "KeyError: 'outcome'"),
    ],
)
def test_what_is_no_report_is_told(text: str, told: str) -> None:
    with pytest.raises(ReportError, match=told):
        Report.from_json(text)


def test_texts_of_a_report_can_be_written_wherever_it_comes_from(report: Report) -> None:
    about = replace(report.provider, name="disk \udc80")
    assert Report.from_json(replace(report, provider=about).to_json()).provider.name == "disk \\udc80"


def test_the_verdict_counts_what_failed(report: Report) -> None:
    assert report.verdict == "Does not conform to JMS 1.1: 1 requirement failed"
    assert not report.conforms


@pytest.fixture
def passing(report: Report) -> Report:
    """The report without what failed."""
    return replace(report, judgements=tuple(j for j in report.judgements if j.outcome is not Outcome.FAILED))


def test_the_verdict_names_what_is_not_supported(passing: Report) -> None:
    assert passing.verdict == "Conforms to JMS 1.1, without XA"
    assert passing.conforms
    assert replace(passing, selection=("3",)).verdict == "Conforms to the selected requirements of JMS 1.1, without XA"


def test_a_feature_that_is_declared_is_lacking_only_if_the_profile_says_so(report: Report) -> None:
    not_run = judgement(requirement("3.8-a", feature="SELECTORS"), Outcome.NOT_SUPPORTED, reason="its test needs XA")
    excluded = judgement(requirement("6-a", feature="TOPICS"), Outcome.NOT_SUPPORTED, reason="the profile says: no")
    changed = replace(report, judgements=(*report.judgements, not_run, excluded))
    assert changed.lacking_features == ("TOPICS", "XA")


def test_what_every_provider_owes_and_the_profile_waives_is_named(passing: Report) -> None:
    waived = tuple(
        judgement(requirement(id, **changes), Outcome.NOT_SUPPORTED, reason=reason)
        for id, changes, reason in (
            ("4.7-b", {}, "the profile says: it is kept in memory"),
            ("4.7-c", {"level": Level.OPTIONAL}, "the profile says: not asked of all"),
            ("4.7-d", {}, "by the profile there is no TOPICS: its test needs one"),
            ("4.7-e", {}, "the provider does not declare XA"),
            ("4.7-f", {}, "the profile cannot restart the broker"),
            ("4.10-a", {}, "the profile says: it is kept in memory"),
        )
    )
    report = replace(passing, judgements=(*passing.judgements, *waived))
    assert (report.waived, report.unjudged) == (("4.7-b", "4.10-a"), ("4.7-f",))
    assert report.verdict == (
        "Conforms in part to JMS 1.1: the profile waives 4.7-b, 4.10-a, without XA; not judged: 4.7-f"
    )
    assert report.has_passed
    assert not report.conforms
    assert Report.from_json(report.to_json()).verdict == report.verdict


def test_of_many_waived_requirements_the_verdict_says_how_many(passing: Report) -> None:
    waived = [
        judgement(requirement(f"4.7-{letter}"), Outcome.NOT_SUPPORTED, reason="the profile says: no time")
        for letter in "abcdefghi"
    ]
    report = replace(passing, judgements=(*passing.judgements, *waived))
    assert "the profile waives 9 requirements, without" in report.verdict


def test_a_run_that_was_given_up_says_so(report: Report) -> None:
    assert replace(report, given_up="10 tests hung").verdict == "Given up: 10 tests hung"


def test_a_run_without_a_test_judges_nothing(report: Report) -> None:
    nothing = replace(report, judgements=report.judgements[2:4])
    assert nothing.verdict == "Nothing was judged"
    assert not nothing.conforms


def test_a_failure_that_only_says_that_the_run_ended_is_known() -> None:
    not_run = result("test_x", "3.1-a", outcome=Outcome.FAILED, failure=failure(seen=f"{NOT_RUN}given up"))
    broken = result("test_y", "3.1-a", outcome=Outcome.FAILED, failure=failure())
    assert not judgement(requirement("3.1-a"), Outcome.FAILED, not_run).was_run
    assert judgement(requirement("3.1-a"), Outcome.FAILED, not_run, broken).was_run
    assert not judgement(requirement("3.1-a")).was_run


def test_observations_are_told_once() -> None:
    tests = [result(f"test_{n}", "3.1-a", observed=("it waits", f"number {n}")) for n in range(2)]
    assert judgement(requirement("3.1-a"), Outcome.PASSED, *tests).observed == ("it waits", "number 0", "number 1")


def test_a_result_without_requirements_survives() -> None:
    plain = TestResult(test="spi::test_x", requirements=(), outcome=Outcome.PASSED)
    assert TestResult.from_data(plain.to_data()) == plain


def test_a_result_is_made_of_what_processes_can_pass_on() -> None:
    data = TestResult(test="t", requirements=("3.4-a",), outcome=Outcome.PASSED).to_data()
    assert {type(value) for value in data.values()} <= {str, tuple, dict}, "pytest-xdist refuses enums"
