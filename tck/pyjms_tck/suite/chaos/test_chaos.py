"""What holds while many clients work at once and the broker is restarted: each rule of JMS, judged on a recorded run."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pyjms.history import Report
from pyjms_tck.environment import Environment
from pyjms_tck.fixtures import ENVIRONMENT
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chaos.run import Run

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule to search for in the history, by its name in `pyjms.history.rules`."""

    what: str
    names: tuple[str, ...]


def _case(id: str, what: str, *names: str) -> object:
    return pytest.param(Rule(what, names), marks=requirement(id), id=f"{id}: {what}")


RULES = [
    _case("4.4.1-a", "nothing is delivered after a close", "after-close"),
    _case("4.4.7-a", "nothing is seen before its commit", "uncommitted-visible"),
    _case("4.4.7-b", "nothing is seen that was rolled back", "rolled-back-visible"),
    _case("4.4.10.1-a", "the order of each session is kept", "reordered"),
    _case("4.4.12-a", "nothing comes again once it is acknowledged", "delivered-after-ack"),
    _case("4.4.13-a", "nothing is consumed twice", "duplicated", "two-holders", "phantom", "before-send", "corrupt"),
]
_FLAGS = "redelivered-without-flag"
CALM = [
    *RULES,
    _case("4.4.11-b", "what comes again says so", _FLAGS),
    _case("4.4.13-a", "everything is consumed", "lost"),
]
STORMY = [
    *RULES,
    _case("4.7-b", "no persistent message is lost", "lost"),
    _case("4.10-a", "what comes again says so", _FLAGS),
]


def _found(report: Report, rule: Rule) -> list[str]:
    """Return the texts of the findings against a rule; the first few suffice to find the cause."""
    assert report.events > 100, f"the run recorded {report.events} events only: its clients did not come to work"
    return [finding.text for finding in report.violations if finding.rule in rule.names][:_SHOWN]


_REPORTS = pytest.StashKey[dict[tuple[Environment, bool], Report]]()
"""The reports of this process's runs, with and without restarts: many tests judge one run."""


def _report(pytestconfig: pytest.Config, directories: pytest.TempPathFactory, *, restarts: bool) -> Report:
    """Return the report of a run: a new one, or that of an earlier test in this process."""
    nothing: dict[tuple[Environment, bool], Report] = {}
    reports = pytestconfig.stash.setdefault(_REPORTS, nothing)
    environment: Environment = pytestconfig.stash[ENVIRONMENT]
    if (environment, restarts) not in reports:
        restart = environment.profile.restart_broker if restarts else None
        reports[environment, restarts] = Run(environment, directories.mktemp("chaos"), restart).judge()
    return reports[environment, restarts]


@pytest.fixture
def calm(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of a run without restarts of the broker."""
    return _report(pytestconfig, tmp_path_factory, restarts=False)


@pytest.fixture
def stormy(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of a run with two restarts of the broker."""
    return _report(pytestconfig, tmp_path_factory, restarts=True)


@pytest.mark.parametrize("rule", CALM)
def test_under_load(calm: Report, rule: Rule) -> None:
    assert _found(calm, rule) == [], f"in a run of many clients {rule.what}"


# The fixture is not used, but named: where the profile cannot restart
# the broker, the tests that name it are reported as not supported.
@pytest.mark.usefixtures("restart_broker")
@pytest.mark.parametrize("rule", STORMY)
def test_with_restarts(stormy: Report, rule: Rule) -> None:
    assert _found(stormy, rule) == [], f"in a run with restarts of the broker {rule.what}"


@requirement("4.7-a")
def test_4_7_a_under_load_no_non_persistent_message_is_doubled(calm: Report) -> None:
    rule = Rule("no message is consumed twice", ("duplicated", "delivered-after-ack", "two-holders"))
    assert _found(calm, rule) == [], "in a run of many clients no message comes more than once"
