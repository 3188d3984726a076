"""Clusters: a real one without members, and a client of a fake one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms.spi.clock import SystemClock
from tests.provider.cluster.clients import Client
from tests.provider.cluster.fake import FakeCluster
from tests.provider.cluster.world import ClusterWorld
from tests.provider.postgresql import PostgresqlServer


@pytest.fixture
def world(postgresql: PostgresqlServer) -> Iterator[ClusterWorld]:
    made = ClusterWorld(postgresql)
    yield made
    made.close()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    cluster = FakeCluster(tmp_path, SystemClock())
    made = Client(cluster, SystemClock())
    yield made
    made.connection.close()
    cluster.stop()
