"""pytest plugin: leaves out the tests whose needs this machine cannot meet, and says at the end what would add them.

With ``CI`` in the environment such a test fails instead. A test that uses a need without having declared it fails on
every machine. What a need is, and how tests declare one, is in `tests.needs.table`.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.needs import declaring
from tests.needs.table import NEEDS, is_there, missing_text

if TYPE_CHECKING:
    from collections.abc import Generator

_LEFT_OUT = pytest.StashKey[Counter[str]]()
"""How many tests were left out, by the target of Make that adds what they need; under "" all, as a test may need several."""
_OUTPUT = "left_out"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LEFT_OUT] = Counter()


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs something, and leave out what cannot run here."""
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    counts = config.stash[_LEFT_OUT]
    for item in items:
        needed = declaring.declared(item)
        if unknown := needed.difference(NEEDS):
            raise pytest.UsageError(f"{item.nodeid} needs {', '.join(sorted(unknown))}: not in tests/needs/table.py")
        if needed:
            item.add_marker(pytest.mark.requires(*sorted(needed)))
        missing = {name for name in needed if not is_there(name)}
        (left_out if missing and "CI" not in os.environ else kept).append(item)
        if left_out and left_out[-1] is item:
            counts.update({"", *(NEEDS[name].target for name in missing)})
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.hookimpl(tryfirst=True)  # before the test's fixtures are made
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail, in CI, for want of what is missing."""
    for name in sorted(declaring.declared(item)):
        if not is_there(name):
            pytest.fail(f"it {missing_text(name)}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Know which test it is that uses something."""
    declaring.started(item)
    try:
        return (yield)
    finally:
        declaring.ended()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail where a fixture was asked for by a name that the test computes, and the need is not declared."""
    yield
    request = getattr(item, "_request", None)
    if request is not None:
        for name in sorted(declaring.of_fixtures(request.fixturenames) - declaring.declared(item)):
            pytest.fail(declaring.undeclared(name), pytrace=False)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the controller of several workers what this one has left out."""
    counts: Counter[str] = session.config.stash[_LEFT_OUT]
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = dict(counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """Hear it from the workers, each of which leaves out the same."""
    counts: Counter[str] = node.config.stash[_LEFT_OUT]
    told: dict[str, int] = getattr(node, "workeroutput", {}).get(_OUTPUT, {})
    counts |= Counter(told)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around all others, so that it comes last
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
    """Say what was left out, and the command that adds what is missing."""
    yield
    counts = terminalreporter.config.stash[_LEFT_OUT]
    for line in left_out_lines(counts):
        terminalreporter.write_line(line, yellow=True)


def left_out_lines(counts: Counter[str]) -> list[str]:
    """Return what to print of the tests that were left out, by targets of Make; the number of all of them is under ""."""
    if not counts[""]:
        return []
    lines = [f"Left out: {_tests(counts[''])}, for want of what this machine lacks. On Debian and Ubuntu:"]
    targets = sorted((target for target in counts if target), key=lambda target: (-counts[target], target))
    for target in targets:
        missing = {need.title: None for need in NEEDS.values() if need.target == target and not is_there(need.name)}
        lines.append(f"  {f'make {target}':<20} adds {', '.join(missing)}, for {_tests(counts[target])}")
    if len(targets) > 1:
        lines.append(f"  {'make needs':<20} adds all of it")
    return lines


def _tests(number: int) -> str:
    return f"{number:,} test{'s' if number != 1 else ''}"
