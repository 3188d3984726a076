"""Where the tests of sources run."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_OTHERS = {"test_examples.py"}
"""Those that run programs in place of reading sources."""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker judge all sources: what they are parsed into is a gigabyte, which slows down whatever collects garbage beside it."""
    for item in items:
        if item.path.parent == _HERE and item.path.name not in _OTHERS:
            item.add_marker(pytest.mark.xdist_group("sources"))
