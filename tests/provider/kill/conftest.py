"""The stores on which processes are killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.needs.declaring import needing
from tests.provider.postgresql import PostgresqlServer


@pytest.fixture(params=["sqlite", needing("postgresql")])
def kill_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Return what makes an empty store, and gives its URL as the value of an option."""
    if request.param == "sqlite":
        return lambda: quote(f"sqlite:///{tmp_path / 'killed.db'}", safe="")
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return lambda: quote(server.make_store(), safe="")
