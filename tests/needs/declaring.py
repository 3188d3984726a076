"""How tests declare what they need from outside Python, and how helpers make sure that they did; see `tests.needs.table`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.needs.table import NEEDS

if TYPE_CHECKING:
    from collections.abc import Iterable

_running: list[pytest.Item] = []
"""The test that runs, if any; a test that runs pytest itself is before the one that its pytest runs."""


def needing(name: str) -> Any:
    """Return `name` as a value of a parameter whose tests need what is called so: ``params=["sqlite", needing("postgresql")]``."""
    return pytest.param(name, marks=pytest.mark.requires(name))


def declared(item: pytest.Item, fixtures: Iterable[str] | None = None) -> set[str]:
    """Return what a test needs, by its markers and its fixtures."""
    names = {str(name) for marker in item.iter_markers("requires") for name in marker.args}
    return names | of_fixtures(getattr(item, "fixturenames", ()) if fixtures is None else fixtures)


def of_fixtures(fixtures: Iterable[str]) -> set[str]:
    """Return what these fixtures need."""
    used = set(fixtures)
    return {need.name for need in NEEDS.values() if used.intersection(need.fixtures)}


def started(item: pytest.Item) -> None:
    """Note the test that runs."""
    _running.append(item)


def ended() -> None:
    """Note that it has ended."""
    _running.pop()


def use(name: str) -> None:
    """Use a need in a helper: a test that uses it and has not declared it fails, on every machine."""
    if _running and name not in declared(_running[-1]):
        pytest.fail(undeclared(name), pytrace=False)


def undeclared(name: str) -> str:
    """Return what to tell of a test that uses what it does not declare."""
    return f'it uses {NEEDS[name].title} and does not say so: mark it with pytest.mark.requires("{name}") (tests/needs/table.py)'
