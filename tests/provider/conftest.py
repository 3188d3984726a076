"""What the broker's tests share as fixtures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.provider.postgresql import PostgresqlServer


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server for all tests of this process."""
    server = PostgresqlServer()
    yield server
    server.remove()
