"""The pytest plugin: ``pytest --pyargs pyjms_tck --jms-url URL``. Without ``--jms-url`` it registers marks, and no more.

Tests whose requirements the provider does not support are skipped, with the reason; the outcome of each test is put
into pytest's reports, as `TestResult`, for the controller.
"""

from __future__ import annotations

import pytest

__all__ = ["pytest_addoption", "pytest_collection_modifyitems", "pytest_configure"]

# Before the first import: then failed assertions show the compared values.
pytest.register_assert_rewrite("pyjms_tck.spi", "pyjms_tck.suite")

_MARKS = (
    "requirement(*ids): the test checks these requirements of the catalogue of pyjms_tck",
    "needs(*features): the conformance test uses these optional features",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    group = parser.getgroup("pyjms_tck", "conformance to JMS")
    group.addoption("--jms-url", metavar="URL", help="judge the provider behind this URL")
    group.addoption("--jms-profile", metavar="FILE", help="the provider's profile.py")
    group.addoption(
        "--jms-select",
        metavar="WHAT",
        action="append",
        default=[],
        help="only these requirements: id, section, chapter, feature, level or official assertion; may be repeated",
    )
    group.addoption(
        "--jms-version",
        metavar="VERSION",
        default="2.0",
        choices=["1.1", "2.0"],
        help="only requirements of this version of JMS and of earlier ones: 1.1 or 2.0",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks and, when a provider is named, the plugin that judges it."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    if config.getoption("--jms-url"):
        from pyjms_tck.judge_plugin import activate

        activate(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse to run conformance tests without a provider to judge."""
    if not config.getoption("--jms-url") and any(item.get_closest_marker("requirement") for item in items):
        raise pytest.UsageError("conformance tests need a provider to judge: pass --jms-url URL")
