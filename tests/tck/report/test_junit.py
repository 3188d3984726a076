from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from pyjms_tck.report.junit import to_junit
from pyjms_tck.results import Outcome
from tests.tck.samples import failure, judgement, requirement, result

if TYPE_CHECKING:
    from pyjms_tck.results import Report


def test_each_chapter_is_a_suite_with_its_counts(report: Report) -> None:
    root = ET.fromstring(to_junit(report))
    counts = [(suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("skipped")) for suite in root]
    assert counts == [("3 Messages", "2", "1", "0"), ("4 Facilities", "3", "0", "2")]


def test_a_failed_requirement_tells_what_to_check(report: Report) -> None:
    case = ET.fromstring(to_junit(report)).findall(".//testcase")[1]
    assert case.get("name") == "3.4.2-a: A <message> & its 'priority'."
    failed = case.find("failure")
    assert failed is not None
    assert failed.get("message") == "expected priority 9; seen priority 4"
    assert "trace <b>" in str(failed.text)
    assert "What to check: Look at 3.4.2-a." in str(failed.text)


def test_what_is_not_supported_or_testable_is_skipped_with_the_reason(report: Report) -> None:
    skipped = [case.get("message") for case in ET.fromstring(to_junit(report)).findall(".//skipped")]
    assert skipped == ["not supported: the provider does not declare XA", "not testable: no test can see it"]


def test_what_was_recorded_is_output(report: Report) -> None:
    (output,) = ET.fromstring(to_junit(report)).findall(".//system-out")
    assert output.text == "redelivers at once, 6 times"


def test_characters_that_xml_has_not_are_replaced(report: Report) -> None:
    bad = result("test", "3.1-a", outcome=Outcome.FAILED, failure=failure(seen="\x00 \ud800 \x1b[31m"))
    text = to_junit(replace(report, judgements=(judgement(requirement("3.1-a"), Outcome.FAILED, bad),)))
    failed = ET.fromstring(text).find(".//failure")
    assert failed is not None
    assert failed.get("message") == "expected priority 9; seen \ufffd \ufffd \ufffd[31m"
