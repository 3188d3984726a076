"""From the catalogue, what the provider declares, and the results of tests to judgements. Pure.

What is not supported is known before the run: by `lacking`, from the provider's capabilities and the profile alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyjms.spi.capability import Capability
from pyjms_tck.catalogue import Catalogue, Requirement
from pyjms_tck.profile import Profile
from pyjms_tck.results import NOT_DECLARED, PROFILE_LACKS, PROFILE_SAYS, Judgement, Outcome, TestResult

__all__ = ["ADMINISTRATION", "CREDENTIALS", "FIXTURE_FEATURES", "NO_TEST", "judge", "lacking", "lacks_requirement"]

FIXTURE_FEATURES: Mapping[str, str] = {"topic": "TOPICS", "make_topic": "TOPICS"}
"""Fixtures whose use means that a test needs a feature."""
ADMINISTRATION = "restart_broker"
"""The fixture, and the method of a profile, that restarts the broker."""
CREDENTIALS = "wrong_credentials"
"""The fixture, and the attribute of a profile, that has what the provider refuses."""
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

    lacks: why the provider is not judged by a requirement, by its id, as `lacks_requirement` told before the run.
    """
    by_id: dict[str, list[TestResult]] = {}
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
    elif lack:
        outcome, reason = Outcome.NOT_SUPPORTED, lack
    elif Outcome.FAILED in outcomes:
        outcome = Outcome.FAILED
    elif not tests:
        outcome, reason = Outcome.NOT_TESTABLE, NO_TEST
    elif Outcome.PASSED not in outcomes:
        outcome, reason = Outcome.NOT_SUPPORTED, tests[0].reason
    return Judgement(requirement=requirement, outcome=outcome, reason=reason, tests=tests)
