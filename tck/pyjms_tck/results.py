"""The results of a test, a requirement and a run. Data only, with their JSON form.

The JSON has a fixed order and no times, so that two reports can be compared line by line.
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyjms.spi.capability import Capability
from pyjms_tck.catalogue import Catalogue, Chapter, Level, Requirement, Version
from pyjms_tck.profile import Profile

__all__ = [
    "ADMINISTRATION",
    "CREDENTIALS",
    "FIXTURE_FEATURES",
    "FORMAT",
    "NOT_DECLARED",
    "NOT_RUN",
    "NO_TEST",
    "PROFILE_LACKS",
    "PROFILE_SAYS",
    "Failure",
    "Judgement",
    "Outcome",
    "ProviderFacts",
    "Report",
    "ReportError",
    "TestResult",
    "judge",
    "lacking",
    "lacks_requirement",
    "without_places",
    "writable",
]


FORMAT = 1
PROFILE_SAYS = "the profile says: "
"""The start of the reason for an unsupported requirement, if the profile waives it, by id or section."""
PROFILE_LACKS = "by the profile there is no "
"""The start of the reason if the profile says that a feature is missing."""
NOT_DECLARED = "the provider does not declare "
"""The start of the reason if the provider does not declare the feature."""
NOT_RUN = "not run: "
"""The start of `Failure.seen` for a test that a given-up run did not reach."""
_NAMED_MAX = 8
"""The maximum number of requirements that a verdict names; of more it has only the number."""


def writable(data: Any) -> Any:
    r"""Return JSON data whose texts can be written anywhere: a lone surrogate, as in a file name, becomes ``\udc80``."""
    if isinstance(data, str):
        return data if data.isascii() else data.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, list):
        return [writable(each) for each in data]
    if isinstance(data, dict):
        return {name: writable(each) for name, each in data.items()}
    return data


class ReportError(ValueError):
    """A file is no report of this suite; the text says why."""


class Outcome(StrEnum):
    """The four outcomes of a requirement."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_SUPPORTED = "not supported"
    """Declared before the run, by the provider's capabilities or by the profile."""
    NOT_TESTABLE = "not testable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a test failed, for a reader who does not know the suite."""

    expected: str
    seen: str
    where: str
    """File and line within the suite."""
    details: str
    """The traceback, or the stacks of all threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """The result of one test."""

    __test__ = False  # otherwise pytest would collect it by its name

    test: str
    requirements: tuple[str, ...]
    outcome: Outcome
    reason: str | None = None
    """Why it is not supported."""
    failure: Failure | None = None
    observed: tuple[str, ...] = ()
    """The provider's behaviour where the specification leaves it open."""

    def to_data(self) -> dict[str, Any]:
        """Return it as JSON data, without empty values."""
        data = {key: value for key, value in asdict(self).items() if value not in (None, ())}
        return {**data, "outcome": self.outcome.value}  # a plain text: pytest-xdist passes no other classes on

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> TestResult:
        """Return the result that `to_data` wrote."""
        failure = data.get("failure")
        return cls(
            test=data["test"],
            requirements=tuple(data.get("requirements", ())),
            outcome=Outcome(data["outcome"]),
            reason=data.get("reason"),
            failure=Failure(**failure) if failure else None,
            observed=tuple(data.get("observed", ())),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The outcome of one requirement, and its tests."""

    requirement: Requirement
    outcome: Outcome
    reason: str | None
    """Why it is not supported, or not testable."""
    tests: tuple[TestResult, ...]

    @property
    def failures(self) -> tuple[TestResult, ...]:
        """The tests that failed."""
        return tuple(test for test in self.tests if test.outcome is Outcome.FAILED)

    @property
    def is_waived(self) -> bool:
        """Whether the profile waives a requirement for all providers."""
        return self._is_owed and (self.reason or "").startswith(PROFILE_SAYS)

    @property
    def is_unjudged(self) -> bool:
        """Whether it is a requirement for all providers whose tests could not be run here: the profile lacks the means."""
        return self._is_owed and not (self.reason or "").startswith((PROFILE_SAYS, PROFILE_LACKS, NOT_DECLARED))

    @property
    def _is_owed(self) -> bool:
        """Whether it was not judged although no missing feature excuses that."""
        required = self.requirement.level is Level.REQUIRED and self.requirement.feature is None
        return required and self.outcome is Outcome.NOT_SUPPORTED

    @property
    def was_run(self) -> bool:
        """Whether a failure concerns the provider, and not only the run that was given up."""
        return any(test.failure and not test.failure.seen.startswith(NOT_RUN) for test in self.failures)

    @property
    def observed(self) -> tuple[str, ...]:
        """What its tests recorded, each once."""
        return tuple(dict.fromkeys(text for test in self.tests for text in test.observed))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFacts:
    """The judged provider."""

    title: str
    """The provider's name in the report: its profile's title, or its URL without credentials and options."""
    name: str
    version: str
    jms_version: str
    capabilities: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run. Judgements are in the order of the catalogue."""

    suite: str
    """``JMS 2.0``, ``JMS 1.1`` or ``SPI``."""
    suite_version: str
    provider: ProviderFacts
    selection: tuple[str, ...]
    """The selection; empty: everything."""
    chapters: Mapping[int, Chapter]
    judgements: tuple[Judgement, ...]
    given_up: str | None = None
    """Why the run ended early, or None."""

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """The number of requirements for each of the four outcomes."""
        counted = Counter(judgement.outcome for judgement in self.judgements)
        return MappingProxyType({outcome: counted[outcome] for outcome in Outcome})

    @property
    def conforms(self) -> bool:
        """Whether nothing failed, something passed, and no requirement for every provider was waived."""
        return self.has_passed and not self.waived

    @property
    def has_passed(self) -> bool:
        """Whether nothing failed and something passed."""
        return not self.counts[Outcome.FAILED] and bool(self.counts[Outcome.PASSED])

    @property
    def waived(self) -> tuple[str, ...]:
        """The requirements of every provider that the profile waives."""
        return tuple(judgement.requirement.id for judgement in self.judgements if judgement.is_waived)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """The requirements of every provider that could not be judged by this profile."""
        return tuple(judgement.requirement.id for judgement in self.judgements if judgement.is_unjudged)

    @property
    def lacking_features(self) -> tuple[str, ...]:
        """The optional features that were not judged, because provider or profile do not declare them."""
        declared = set(self.provider.capabilities)
        lacking = {
            judgement.requirement.feature
            for judgement in self.judgements
            if judgement.outcome is Outcome.NOT_SUPPORTED
            and (
                judgement.requirement.feature not in declared
                or (judgement.reason or "").startswith((PROFILE_SAYS, PROFILE_LACKS))
            )
        }
        return tuple(sorted(name for name in lacking if name))

    @property
    def verdict(self) -> str:
        """One sentence for the top of a report."""
        failed = sum(judgement.outcome is Outcome.FAILED for judgement in self.judgements)
        if self.given_up:
            return f"Given up: {self.given_up}"
        if failed:
            return f"Does not conform to {self.suite}: {failed} requirement{'s' if failed > 1 else ''} failed"
        if not self.counts[Outcome.PASSED]:
            return "Nothing was judged"
        without = ", ".join(self.lacking_features)
        what = f"the selected requirements of {self.suite}" if self.selection else self.suite
        waived = f"Conforms in part to {what}: the profile waives {_named(self.waived)}" if self.waived else ""
        unjudged = f"; not judged: {_named(self.unjudged)}" if self.unjudged else ""
        return (waived or f"Conforms to {what}") + (f", without {without}" if without else "") + unjudged

    def to_json(self) -> str:
        """Return the report as JSON text, in a fixed order."""
        data = {
            "format": FORMAT,
            "suite": self.suite,
            "suite_version": self.suite_version,
            "provider": {**asdict(self.provider), "capabilities": list(self.provider.capabilities)},
            "selection": list(self.selection),
            "verdict": self.verdict,
            "given_up": self.given_up,
            "counts": {str(outcome): count for outcome, count in self.counts.items()},
            "chapters": {str(number): chapter.title for number, chapter in self.chapters.items()},
            "requirements": [_judgement_data(judgement) for judgement in self.judgements],
        }
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Return the report from the text of `to_json`. Raises `ReportError`."""
        try:
            data = writable(json.loads(text))
            if data["format"] != FORMAT:
                raise ReportError(f"the report has format {data['format']!r}; this suite reads {FORMAT}: make it anew")
            return _report(data)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            # `ReportError` is a ValueError itself, and has its own text already.
            if isinstance(error, ReportError):
                raise
            raise ReportError(f"this is no report of pyjms-tck: {type(error).__name__}: {error}") from error


def _named(ids: tuple[str, ...]) -> str:
    return ", ".join(ids) if len(ids) <= _NAMED_MAX else f"{len(ids)} requirements"


def _judgement_data(judgement: Judgement) -> dict[str, Any]:
    requirement = judgement.requirement
    optional = {
        "feature": requirement.feature,
        "reason": judgement.reason,
        "assertions": list(requirement.assertions),
    }
    return {
        "id": requirement.id,
        "section": requirement.section,
        "chapter": requirement.chapter,
        "level": str(requirement.level),
        **({} if requirement.version is Version.V1_1 else {"version": str(requirement.version)}),
        "statement": requirement.statement,
        "outcome": str(judgement.outcome),
        **{key: value for key, value in optional.items() if value},
        "hint": requirement.hint,
        "tests": [test.to_data() for test in judgement.tests],
    }


def _report(data: Mapping[str, Any]) -> Report:
    provider = data["provider"]
    chapters = {int(number): Chapter(number=int(number), title=title) for number, title in data["chapters"].items()}
    return Report(
        suite=data["suite"],
        suite_version=data["suite_version"],
        provider=replace(ProviderFacts(**provider), capabilities=tuple(provider["capabilities"])),
        selection=tuple(data["selection"]),
        chapters=MappingProxyType(chapters),
        judgements=tuple(_judgement(entry) for entry in data["requirements"]),
        given_up=data["given_up"],
    )


def _judgement(entry: Mapping[str, Any]) -> Judgement:
    outcome = Outcome(entry["outcome"])
    reason = entry.get("reason")
    is_testable = outcome is not Outcome.NOT_TESTABLE
    return Judgement(
        requirement=Requirement(
            id=entry["id"],
            section=entry["section"],
            statement=entry["statement"],
            level=Level(entry["level"]),
            hint=entry["hint"],
            chapter=entry["chapter"],
            feature=entry.get("feature"),
            version=Version(entry.get("version", Version.V1_1)),
            assertions=tuple(entry.get("assertions", ())),
            testable=is_testable,
            reason=None if is_testable else reason,
        ),
        outcome=outcome,
        reason=reason,
        tests=tuple(TestResult.from_data(test) for test in entry["tests"]),
    )


FIXTURE_FEATURES: Mapping[str, str] = {"topic": "TOPICS", "make_topic": "TOPICS"}
"""Fixtures whose use means that a test needs a feature."""
ADMINISTRATION = "restart_broker"
"""The fixture, and the method of a profile, that restarts the broker."""
CREDENTIALS = "wrong_credentials"
"""The fixture, and the attribute of a profile, that has credentials to be refused."""
NO_TEST = "the suite has no test for it"


def lacking(
    requirements: Iterable[Requirement],
    features: Iterable[str],
    fixtures: Iterable[str],
    capabilities: Capability,
    profile: Profile,
) -> str | None:
    """Return why a test of these `requirements` that uses these `features` and `fixtures` cannot be run, or None."""
    fixtures = set(fixtures)
    wanted = [*features, *(FIXTURE_FEATURES[name] for name in sorted(fixtures & FIXTURE_FEATURES.keys()))]
    reasons = [
        *(lacks_requirement(requirement, capabilities, profile) for requirement in requirements),
        *(_lacks_feature(feature, capabilities, profile) for feature in wanted),
    ]
    if ADMINISTRATION in fixtures and not profile.can_restart:
        reasons.append("the profile cannot restart the broker")
    if CREDENTIALS in fixtures and profile.wrong_credentials is None:
        reasons.append("the profile names no credentials that the provider refuses (wrong_credentials)")
    return next((reason for reason in reasons if reason), None)


def lacks_requirement(requirement: Requirement, capabilities: Capability, profile: Profile) -> str | None:
    """Return why a provider is not judged by `requirement`, or None."""
    for name, reason in profile.unsupported.items():
        # The dots at the ends keep 3.4 from matching 3.40.
        if requirement.id == name or f"{requirement.section}.".startswith(f"{name}."):
            return f"{PROFILE_SAYS}{reason}"
    return _lacks_feature(requirement.feature, capabilities, profile) if requirement.feature else None


def _lacks_feature(feature: str, capabilities: Capability, profile: Profile) -> str | None:
    if feature in profile.unsupported:
        return f"{PROFILE_LACKS}{feature}: {profile.unsupported[feature]}"
    if Capability[feature] not in capabilities:
        return f"{NOT_DECLARED}{feature}"
    return None


def judge(
    catalogue: Catalogue, selected: Iterable[str], results: Iterable[TestResult], lacks: Mapping[str, str]
) -> tuple[Judgement, ...]:
    """Return a judgement for each requirement whose id is `selected`, in the order of the catalogue.

    lacks: why the provider is not judged by a requirement, by its id, from `lacks_requirement` before the run.
    """
    by_id: dict[str, list[TestResult]] = {}
    # In the order of their names: workers end in any order, and reports must be comparable line by line.
    for result in sorted(results, key=lambda result: result.test):
        for id in result.requirements:
            by_id.setdefault(id, []).append(result)
    wanted = set(selected)
    return tuple(
        _judge(requirement, tuple(by_id.get(id, ())), lacks.get(id))
        for id, requirement in catalogue.requirements.items()
        if id in wanted
    )


def _judge(requirement: Requirement, tests: tuple[TestResult, ...], lack: str | None) -> Judgement:
    outcomes = {test.outcome for test in tests}
    outcome, reason = Outcome.PASSED, None
    if not requirement.testable:
        outcome, reason = Outcome.NOT_TESTABLE, requirement.reason
    # Before the tests: a test of several requirements cannot fail one that the provider does not declare.
    elif lack:
        outcome, reason = Outcome.NOT_SUPPORTED, lack
    elif Outcome.FAILED in outcomes:
        outcome = Outcome.FAILED
    # A requirement that no test checks must not count as passed.
    elif not tests:
        outcome, reason = Outcome.NOT_TESTABLE, NO_TEST
    elif Outcome.PASSED not in outcomes:
        outcome, reason = Outcome.NOT_SUPPORTED, tests[0].reason
    return Judgement(requirement=requirement, outcome=outcome, reason=reason, tests=tests)


PACKAGE = Path(__file__).parent
_ADDRESS = re.compile(r" (object )?at 0x[0-9A-Fa-f]+")


def without_places(text: str) -> str:
    """Return `text` without the parts that differ between runs or machines: addresses of objects, paths of folders."""
    # The package itself first: it may lie below the others, which would remove a part of its path.
    folders = (str(PACKAGE), sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), sys.prefix, str(Path.cwd()))
    for folder in folders:
        short = "pyjms_tck/" if folder == str(PACKAGE) else ""
        text = text.replace(folder + os.sep, short)
    return _ADDRESS.sub("", text)
