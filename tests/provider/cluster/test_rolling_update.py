"""Members of two versions in one cluster: while one is updated after the other, and when one of an old version comes back too late."""

from __future__ import annotations

import pytest

from pyjms.spi.errors import ResourceError
from pyjms.spi.words import installed_version
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.cluster.placement import ShardPlace
from pyjms_provider.stores.errors import NewerStoreError
from pyjms_provider.stores.sql import cluster, schema
from pyjms_provider.stores.sql.cluster import FORMATS, STORE_SCHEMAS, Formats
from tests.provider.cluster.test_members import balanced, send, stored
from tests.provider.cluster.world import LONG_MS, SHARDS, ClusterWorld, leaders, wait_until
from tests.provider.helpers import RecordedEvents


class Versions:
    """Starts members as different versions of pyjms would."""

    def __init__(self, world: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world = world
        self._patch = monkeypatch

    def start(self, name: str, version: str, oldest: int, newest: int) -> ClusterMember:
        """Start a member of a version that knows these formats."""
        with self._patch.context() as patch:
            patch.setattr("pyjms_provider.cluster.membership.installed_version", lambda: version)
            patch.setattr(cluster, "FORMATS", Formats(oldest, newest))
            return self._world.start(name, leader_wait_ms=1_000)


@pytest.fixture
def versions(world: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> Versions:
    return Versions(world, monkeypatch)


def test_the_format_names_the_schema_of_the_stores() -> None:
    # A store is migrated by the first member that opens it: one of the version before must not be there then.
    assert STORE_SCHEMAS[FORMATS.newest] == schema.VERSION, "raise cluster.FORMATS together with schema.VERSION"
    assert set(STORE_SCHEMAS) == set(range(1, FORMATS.newest + 1))


def test_versions_of_one_format_share_the_work(versions: Versions) -> None:
    older = versions.start("older", "0.1.9", 1, 1)
    newer = versions.start("newer", installed_version(), 1, 1)
    wait_until(lambda: balanced(older, newer))
    assert [(each.name, each.version) for each in older.status().members] == [
        ("newer", installed_version()),
        ("older", "0.1.9"),
    ]


def test_a_newer_format_waits_until_the_last_older_member_has_gone(
    world: ClusterWorld, versions: Versions, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    old = versions.start("old", "0.2.0", 1, 1)
    assert old.await_leaders(LONG_MS)
    new = versions.start("new", "0.3.0", 1, 2)
    wait_until(lambda: any("PYJMS-CLUSTER-8" in line and "old 0.2.0" in line for line in list(caplog.messages)))
    # The older one leads all, and clients of the newer one use it.
    assert leaders(new) == dict.fromkeys(range(SHARDS), "old")
    connection = new.connect(ShardPlace(0), RecordedEvents())
    send(connection, "orders", "sent while both were there")
    assert stored(world, 0) == 1
    status = new.status()
    assert (status.format, [(each.name, each.format) for each in status.members]) == (1, [("new", 2), ("old", 1)])

    old.stop()
    assert new.await_leaders(LONG_MS)
    wait_until(lambda: len(new.brokers()) == SHARDS)
    assert new.status().format == 2
    assert any("PYJMS-CLUSTER-9" in line for line in caplog.messages)
    queue = new.brokers()[0].virtual_host.find_queue("orders")
    assert queue is not None
    assert len(queue.browse()) == 1

    with pytest.raises(NewerStoreError, match=r"has format 2, .* up to 1: .*\(new 0\.3\.0\)"):
        versions.start("old", "0.2.0", 1, 1)
    again = versions.start("old", "0.3.0", 1, 2)
    wait_until(lambda: balanced(new, again))


def test_an_older_member_that_was_taken_for_dead_does_not_come_back(world: ClusterWorld, versions: Versions) -> None:
    old = versions.start("old", "0.2.0", 1, 1)
    assert old.await_leaders(LONG_MS)
    # As if it had been silent, and the others had been updated meanwhile.
    world.execute("UPDATE shop.pyjms_cluster SET format = 2; DELETE FROM shop.pyjms_member")
    wait_until(lambda: "has format 2" in (old.trouble or ""))
    assert old.brokers() == {}
    with pytest.raises(ResourceError, match=r"no leader of shard 0 .* has format 2"):
        old.connect(ShardPlace(0), RecordedEvents())
