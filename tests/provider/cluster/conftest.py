"""A cluster without members."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.provider.cluster.world import ClusterWorld
from tests.provider.postgresql import PostgresqlServer


@pytest.fixture
def world(postgresql: PostgresqlServer) -> Iterator[ClusterWorld]:
    made = ClusterWorld(postgresql)
    yield made
    made.close()
