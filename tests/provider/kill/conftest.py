"""The stores on which processes are killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest


@pytest.fixture(params=["sqlite"])
def kill_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return what makes an empty store, and gives its URL as the value of an option."""
    return lambda: quote(f"sqlite:///{tmp_path / 'killed.db'}", safe="")
