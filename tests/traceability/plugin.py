"""pytest plugin: gathers what `@pytest.mark.realises` cites and, with ``--traceability``, prints the table.

A marker that cites an unknown id, or nothing, is an error of every run. Works under pytest-xdist: the workers put the
cited ids into their reports, the controller gathers them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.traceability.table import FAILED, PASSED, Citation, Item, load_items, make_rows, missing, render, unknown_ids

if TYPE_CHECKING:
    from collections.abc import Generator

ITEMS_FILE = Path(__file__).with_name("items.toml")
_PROPERTY = "realises"
_CASE = re.compile(r"(\[.*\])?(@\w+)?$", re.DOTALL)  # pytest-xdist adds the group


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that turns the run into a report."""
    parser.addoption("--traceability", action="store_true", help="print requirement -> tests -> result")


def pytest_configure(config: pytest.Config) -> None:
    """Start gathering where reports arrive: in the only process, or in the controller of the workers."""
    if config.getoption("--traceability"):
        config.pluginmanager.register(_Gatherer(load_items(ITEMS_FILE)), "traceability-gatherer")


def cited_ids(item: pytest.Item) -> list[str]:
    """Return the ids that a test cites, on itself, its class or its module; each once."""
    return sorted({str(cited) for marker in item.iter_markers("realises") for cited in marker.args})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse ids that no item has, and markers that name none."""
    known = load_items(ITEMS_FILE)
    for item in items:
        if any(not marker.args or marker.kwargs for marker in item.iter_markers("realises")):
            raise pytest.UsageError(f"{item.nodeid}: `realises` takes one id or more, by position")
        if unknown := unknown_ids(known, cited_ids(item)):
            raise pytest.UsageError(f"{item.nodeid} cites {', '.join(unknown)}: not in {ITEMS_FILE.name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let each report carry the ids that its test cites."""
    report = yield
    report.user_properties = [*report.user_properties, *((_PROPERTY, cited) for cited in cited_ids(item))]
    return report


class _Gatherer:
    """Gathers citations and reports on them at the end of the run."""

    def __init__(self, items: dict[str, Item]) -> None:
        self._items = items
        self._citations: list[Citation] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and not report.failed:
            return
        outcome = PASSED if report.passed else FAILED if report.failed else report.outcome
        for name, value in report.user_properties:
            if name == _PROPERTY:
                test = _CASE.sub("", report.nodeid)
                self._citations.append(Citation(item_id=str(value), test=test, outcome=outcome))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not hasattr(session.config, "workerinput") and missing(make_rows(self._items, self._citations)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("traceability")
        for line in render(make_rows(self._items, self._citations)):
            terminalreporter.write_line(line)
