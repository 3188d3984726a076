"""Where the tests of sources run, and how long their trees are kept."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tidy.source import trees

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).parent
_OTHERS = {"test_examples.py"}
"""Those that run programs in place of reading sources."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker judge all sources, so that they are parsed once."""
    for item in items:
        if item.path.parent == _HERE and item.path.name not in _OTHERS:
            item.add_marker(pytest.mark.xdist_group("sources"))


@pytest.fixture(scope="package", autouse=True)
def _trees() -> Iterator[None]:
    """Forget the sources at the end: a worker that kept them would look through millions of objects in the tests that follow."""
    yield
    trees.cache_clear()
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # again what was collected, see tests/conftest.py
