"""Small catalogues and reports, which tests build and change."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyjms_tck.catalogue import Catalogue, Chapter, Level, Requirement
from pyjms_tck.results import Failure, Judgement, Outcome, ProviderFacts, Report, TestResult

CHAPTERS = MappingProxyType(
    {
        3: Chapter(number=3, title="Messages"),
        4: Chapter(number=4, title="Facilities"),
        5: Chapter(number=5, title="Empty"),
    }
)


def requirement(id: str, **changes: Any) -> Requirement:
    """Return a requirement whose other fields say nothing."""
    section = id.partition("-")[0]
    plain = Requirement(
        id=id,
        section=section,
        statement=f"What {id} asks.",
        level=Level.REQUIRED,
        hint=f"Look at {id}.",
        chapter=int(section.partition(".")[0]),
    )
    return replace(plain, **changes)


def catalogue(*requirements: Requirement) -> Catalogue:
    """Return a catalogue of these."""
    return Catalogue(requirements=MappingProxyType({one.id: one for one in requirements}), chapters=CHAPTERS)


def result(test: str, *ids: str, outcome: Outcome = Outcome.PASSED, **changes: Any) -> TestResult:
    """Return what came out of a test."""
    return TestResult(test=test, requirements=ids, outcome=outcome, **changes)


def failure(**changes: str) -> Failure:
    """Return why a test failed."""
    texts = {"expected": "priority 9", "seen": "priority 4", "where": "chapter_03/test_it.py:7", "details": "trace <b>"}
    return Failure(**{**texts, **changes})


def judgement(one: Requirement, outcome: Outcome = Outcome.PASSED, *tests: TestResult, **changes: Any) -> Judgement:
    """Return what came out for a requirement."""
    return Judgement(requirement=one, outcome=outcome, tests=tests, **{"reason": None, **changes})


def waived_report() -> Report:
    """Return a report in which nothing failed, but the profile waives what every provider owes."""
    report = sample_report()
    waived = judgement(requirement("4.7-b"), Outcome.NOT_SUPPORTED, reason="the profile says: it is kept in memory")
    passing = [one for one in report.judgements if one.outcome is not Outcome.FAILED]
    return replace(report, judgements=(*passing, waived))


def sample_report(**changes: Any) -> Report:
    """Return a report with all four outcomes, an observation, and texts that HTML and XML must escape."""
    judgements = (
        judgement(
            requirement("3.4.1-a", assertions=("JMS:SPEC:2",)),
            Outcome.PASSED,
            result("chapter_03/test_it.py::test_a[1]", "3.4.1-a"),
            result("chapter_03/test_it.py::test_a[2]", "3.4.1-a"),
        ),
        judgement(
            requirement("3.4.2-a", statement="A <message> & its 'priority'."),
            Outcome.FAILED,
            result("chapter_03/test_it.py::test_b", "3.4.2-a", outcome=Outcome.FAILED, failure=failure()),
        ),
        judgement(
            requirement("4.1-a", feature="XA", level=Level.OPTIONAL),
            Outcome.NOT_SUPPORTED,
            reason="the provider does not declare XA",
        ),
        judgement(requirement("4.2-a", testable=False, reason="no test can see it"), Outcome.NOT_TESTABLE, reason="no test can see it"),
        judgement(
            requirement("4.3-a", level=Level.UNDEFINED),
            Outcome.PASSED,
            result("chapter_04/test_it.py::test_c", "4.3-a", observed=("redelivers at once, 6 times",)),
        ),
    )  # fmt: skip
    facts = ProviderFacts(
        title="demo://<here>", name="Demo", version="1.2", jms_version="1.1", capabilities=("TOPICS", "SELECTORS")
    )
    plain = Report(
        suite="JMS 1.1",
        suite_version="0.1.0",
        provider=facts,
        selection=(),
        chapters=CHAPTERS,
        judgements=judgements,
    )
    return replace(plain, **changes)
