"""The pytest plugin: ``pytest --pyargs pyjms_tck --jms-url URL``. Without ``--jms-url`` it registers marks, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyjms_tck.catalogue import Catalogue

__all__ = ["pytest_addoption", "pytest_configure"]

_MARKS = (
    "requirement(*ids): the test checks these requirements of the catalogue of pyjms_tck",
    "needs(*features): the conformance test uses these optional features",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suite."""
    group = parser.getgroup("pyjms_tck", "conformance to JMS 1.1")
    group.addoption("--jms-url", metavar="URL", help="judge the provider behind this URL")
    group.addoption("--jms-profile", metavar="FILE", help="the provider's profile.py")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks and, when a provider is named, all that judges it."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    if config.getoption("--jms-url"):
        _activate(config)


def _activate(config: pytest.Config) -> None:
    from pyjms_tck import fixtures
    from pyjms_tck.environment import Environment
    from pyjms_tck.profile import ProfileError, load_profile

    try:
        profile = load_profile(config.getoption("--jms-profile"))
    except ProfileError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[fixtures.ENVIRONMENT] = Environment(config.getoption("--jms-url"), profile)
    config.pluginmanager.register(fixtures, "pyjms_tck.fixtures")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse ids that the catalogue does not have, and a run without a provider."""
    judging = [item for item in items if item.get_closest_marker("requirement")]
    if not judging:
        return
    if not config.getoption("--jms-url"):
        raise pytest.UsageError("conformance tests need a provider to judge: pass --jms-url URL")
    from pyjms_tck.catalogue import load_catalogue

    catalogue = load_catalogue()
    problems = [problem for item in judging for problem in _problems(item, catalogue)]
    if problems:
        raise pytest.UsageError("\n".join(problems))


def _problems(item: pytest.Item, catalogue: Catalogue) -> list[str]:
    from pyjms.spi.capability import Capability

    ids = [str(id) for mark in item.iter_markers("requirement") for id in mark.args]
    features = [str(name) for mark in item.iter_markers("needs") for name in mark.args]
    wrong = [f"requirement {id} is not in the catalogue" for id in ids if id not in catalogue.requirements]
    wrong += [f"{name} is no feature" for name in features if name not in Capability.__members__]
    return [f"{item.nodeid}: {problem}" for problem in wrong]
