"""What `plugin` registers when a provider is named: fixtures, selection, what is not supported, and results."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pytest

from pyjms import JMSException
from pyjms.spi.capability import Capability
from pyjms_tck import fixtures
from pyjms_tck.catalogue import Catalogue, SelectionError, load_catalogue, select
from pyjms_tck.environment import Environment
from pyjms_tck.failures import Comparisons, describe, without_places
from pyjms_tck.judging import lacking
from pyjms_tck.profile import ProfileError, load_profile
from pyjms_tck.results import Failure, Outcome, TestResult

__all__ = ["PROPERTY", "JudgePlugin", "activate", "requirements_of", "test_name"]

PROPERTY = "pyjms_tck"
"""The user property of pytest's reports that has a `TestResult`, as data."""

_LACKING = pytest.StashKey[str]()
"""Why a test is not supported, as it was known before the run: no other test may be skipped."""
_RESULT = pytest.StashKey[TestResult]()


def activate(config: pytest.Config) -> None:
    """Register everything. Raises `pytest.UsageError` for a profile that cannot be used."""
    try:
        profile = load_profile(config.getoption("--jms-profile"))
    except ProfileError as error:
        raise pytest.UsageError(str(error)) from error
    environment = Environment(config.getoption("--jms-url"), profile)
    config.stash[fixtures.ENVIRONMENT] = environment
    config.pluginmanager.register(fixtures, "pyjms_tck.fixtures")
    comparisons = Comparisons()
    config.pluginmanager.register(comparisons, "pyjms_tck.comparisons")
    config.pluginmanager.register(JudgePlugin(environment, comparisons), "pyjms_tck.judge")


def requirements_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the ids that a test cites, each once."""
    return tuple(dict.fromkeys(str(id) for mark in item.iter_markers("requirement") for id in mark.args))


def _features_of(item: pytest.Item) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(name) for mark in item.iter_markers("needs") for name in mark.args))


def test_name(item: pytest.Item) -> str:
    """Return what reports call a test: its file below the suite, and its name."""
    path, _, name = item.nodeid.partition("::")
    return f"{path.rpartition('pyjms_tck/')[2].removeprefix('suite/')}::{name}"


test_name.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it by its name


class JudgePlugin:
    """The hooks."""

    def __init__(self, environment: Environment, comparisons: Comparisons) -> None:
        self._environment = environment
        self._comparisons = comparisons

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Refuse unknown ids, keep what is selected, and mark what is not supported and how long each may take."""
        judging = [item for item in items if requirements_of(item)]
        if not judging:
            return
        catalogue = load_catalogue()
        if problems := [problem for item in judging for problem in _problems(item, catalogue)]:
            raise pytest.UsageError("\n".join(problems))
        try:
            selected = set(select(catalogue, config.getoption("--jms-select")))
            capabilities = self._environment.facts.capabilities
        except (SelectionError, JMSException) as error:
            raise pytest.UsageError(str(error)) from error
        dropped = [item for item in judging if not selected & set(requirements_of(item))]
        items[:] = [item for item in items if item not in set(dropped)]
        config.hook.pytest_deselected(items=dropped)
        for item in items:
            if reason := self.unsupported(item, catalogue, capabilities):
                item.stash[_LACKING] = reason
                item.add_marker(pytest.mark.skip(reason=f"not supported: {reason}"))
            elif config.pluginmanager.hasplugin("timeout"):
                item.add_marker(pytest.mark.timeout(self._environment.profile.limit_s))

    def unsupported(self, item: pytest.Item, catalogue: Catalogue, capabilities: Capability) -> str | None:
        """Return why a test cannot be run on this provider, or None."""
        return lacking(
            (catalogue.requirements[id] for id in requirements_of(item)),
            _features_of(item),
            getattr(item, "fixturenames", ()),
            capabilities,
            self._environment.profile,
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the result of the test, which the worst of its phases decides, into the report of its last phase."""
        report = yield
        compared = self._comparisons.take()
        if call.excinfo is not None and _RESULT not in item.stash:
            if _LACKING in item.stash:
                item.stash[_RESULT] = _result(item, Outcome.NOT_SUPPORTED, reason=item.stash[_LACKING])
            else:
                report.outcome = "failed"  # also where a test skips itself: what is not supported is declared before
                item.stash[_RESULT] = _result(item, Outcome.FAILED, failure=describe(call.excinfo, report, compared))
        if report.when == "teardown":
            result = item.stash.get(_RESULT, None) or _result(item, Outcome.PASSED)
            report.user_properties.append((PROPERTY, result.to_data()))
        return report


def _result(
    item: pytest.Item, outcome: Outcome, *, reason: str | None = None, failure: Failure | None = None
) -> TestResult:
    nothing: list[str] = []
    observed = item.stash.get(fixtures.OBSERVED, nothing)
    return TestResult(
        test=test_name(item),
        requirements=requirements_of(item),
        outcome=outcome,
        reason=reason,
        failure=failure,
        observed=tuple(map(without_places, observed)),
    )


def _problems(item: pytest.Item, catalogue: Catalogue) -> Iterable[str]:
    """Yield what is wrong with the marks of a test."""
    for id in requirements_of(item):
        if id not in catalogue.requirements:
            yield f"{item.nodeid}: requirement {id} is not in the catalogue"
        elif not catalogue.requirements[id].testable:
            yield f"{item.nodeid}: the catalogue says that {id} is not testable"
    for name in _features_of(item):
        if name not in Capability.__members__:
            yield f"{item.nodeid}: {name} is no member of pyjms.spi.Capability"
