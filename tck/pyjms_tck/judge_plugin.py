"""The part of `plugin` that is registered when a provider is named: fixtures, selection, unsupported tests, results,
and descriptions of failures.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

from pyjms import JMSException
from pyjms.spi.capability import Capability
from pyjms_tck import fixtures
from pyjms_tck.catalogue import Catalogue, SelectionError, Version, in_version, load_catalogue, select
from pyjms_tck.checks import CheckError
from pyjms_tck.environment import Environment
from pyjms_tck.profile import ProfileError, load_profile
from pyjms_tck.results import PACKAGE, Failure, Outcome, TestResult, lacking, without_places

__all__ = [
    "PROPERTY",
    "Comparisons",
    "JudgePlugin",
    "activate",
    "describe",
    "requirements_of",
    "test_name",
]


PROPERTY = "pyjms_tck"
"""The user property of pytest's reports that has a `TestResult`, as data."""

_LACKING = pytest.StashKey[str]()
"""Why a test is not supported, known before the run: no other test may be skipped."""
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
    """Return a test's name in reports: its file below the suite, and its name."""
    path, _, name = item.nodeid.partition("::")
    return f"{path.rpartition('pyjms_tck/')[2].removeprefix('suite/')}::{name}"


test_name.__test__ = False  # type: ignore[attr-defined]  # pytest would collect it by its name


class JudgePlugin:
    """The hooks."""

    def __init__(self, environment: Environment, comparisons: Comparisons) -> None:
        self._environment = environment
        self._comparisons = comparisons

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Refuse unknown ids, drop unselected tests, and mark unsupported tests and time limits."""
        judging = [item for item in items if requirements_of(item)]
        if not judging:
            return
        catalogue = load_catalogue()
        if problems := [problem for item in judging for problem in _problems(item, catalogue)]:
            raise pytest.UsageError("\n".join(problems))
        try:
            selected = set(
                select(
                    in_version(catalogue, Version(config.getoption("--jms-version"))), config.getoption("--jms-select")
                )
            )
            capabilities = self._environment.facts.capabilities
        except (SelectionError, JMSException) as error:
            raise pytest.UsageError(str(error)) from error
        dropped = [item for item in judging if not selected & set(requirements_of(item))]
        # In place: pytest continues with its own list.
        items[:] = [item for item in items if item not in set(dropped)]
        config.hook.pytest_deselected(items=dropped)
        for item in items:
            if reason := self.unsupported(item, catalogue, capabilities):
                item.stash[_LACKING] = reason
                item.add_marker(pytest.mark.skip(reason=f"not supported: {reason}"))
            # For runs by pytest alone; the command's controller has its own limit, which also ends tests that hang in C
            # code.
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
        """Put the result of the test, decided by the worst of its phases, into the report of its last phase."""
        report = yield
        # Removed in each phase, so that a later phase does not show an earlier one's comparison.
        compared = self._comparisons.take()
        if call.excinfo is not None and _RESULT not in item.stash:
            if _LACKING in item.stash:
                item.stash[_RESULT] = _result(item, Outcome.NOT_SUPPORTED, reason=item.stash[_LACKING])
            else:
                report.outcome = "failed"  # also where a test skips itself: unsupported tests are declared before
                item.stash[_RESULT] = _result(item, Outcome.FAILED, failure=describe(call.excinfo, report, compared))
        # With the last phase: setting up, the test and cleaning up may each fail, and a test has one result.
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
    """Yield the errors in the marks of a test."""
    for id in requirements_of(item):
        if id not in catalogue.requirements:
            yield f"{item.nodeid}: requirement {id} is not in the catalogue"
        elif not catalogue.requirements[id].testable:
            yield f"{item.nodeid}: the catalogue says that {id} is not testable"
    for name in _features_of(item):
        if name not in Capability.__members__:
            yield f"{item.nodeid}: {name} is no member of pyjms.spi.Capability"


_OPERATORS = {"==": "", "!=": "other than ", "is": "the same object as ", "is not": "another object than ", "in": "one of ",
              "not in": "none of ", "<": "less than ", "<=": "at most ", ">": "more than ", ">=": "at least "}  # fmt: skip
_TEXT_MAX = 600


class Comparisons:
    """A pytest plugin that stores the last failed comparison."""

    def __init__(self) -> None:
        self._last: tuple[str, str] | None = None

    def pytest_assertrepr_compare(self, op: str, left: object, right: object) -> None:
        """Store the expected and the actual value; pytest writes its own text."""
        self._last = (_OPERATORS.get(op, f"{op} ") + _short(right), _short(left))

    def take(self) -> tuple[str, str] | None:
        """Return and clear the expected and the actual value of the last failed comparison."""
        last, self._last = self._last, None
        return last


def _short(value: object) -> str:
    # The value comes from the provider under test, and its `repr` may fail.
    try:
        text = repr(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
    return _cut(without_places(text))


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def describe(
    error: pytest.ExceptionInfo[BaseException], report: pytest.TestReport, compared: tuple[str, str] | None
) -> Failure:
    """Return a description of `error`, which ended the phase of a test with the report `report`."""
    import pytest  # only where tests run: the command lists and compares without pytest

    frames = [entry for entry in error.traceback if _is_ours(Path(str(entry.path)))] or [error.traceback[-1]]
    in_test = next((entry for entry in reversed(error.traceback) if _is_test_file(Path(str(entry.path)))), frames[-1])
    value = error.value
    if isinstance(value, CheckError):
        expected, seen = value.expected, value.seen
    elif isinstance(value, pytest.fail.Exception):  # also of pytest.raises
        statement = str(in_test.statement).strip()
        expected, seen = statement, str(value).replace("DID NOT RAISE", "no error: it did not raise")
    elif isinstance(value, AssertionError):
        expected, seen = _of_assertion(str(value), str(frames[-1].statement).strip(), compared)
    else:
        phase = {"setup": " (while setting up)", "teardown": " (while cleaning up)"}.get(report.when, "")
        statement = str(in_test.statement).strip()
        expected, seen = f"{statement}{phase} raises nothing", f"{type(value).__name__}: {value}"
    return Failure(
        expected=_cut(without_places(expected)),
        seen=_cut(without_places(seen)),
        where=f"{_relative(Path(str(in_test.path)))}:{in_test.lineno + 1}",
        details=without_places(report.longreprtext),
    )


def _of_assertion(text: str, statement: str, compared: tuple[str, str] | None) -> tuple[str, str]:
    # pytest puts a test's own message first, and its explanation, which begins with `assert`, below.
    message, _, rest = f"\n{text}".partition("\nassert ")
    message = message.strip()
    if compared and rest:
        expected, seen = compared
    elif rest:
        expected, seen = statement.removeprefix("assert ").split(",\n")[0], rest.strip()
    else:
        return statement, message
    return f"{message}: {expected}" if message else expected, seen


def _is_ours(path: Path) -> bool:
    return path.is_relative_to(PACKAGE)


def _is_test_file(path: Path) -> bool:
    return path.name.startswith("test_") or path.stem.endswith("_suite")


def _relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix() if _is_ours(path) else path.name
