"""What monitoring systems and clients are told while a member cannot reach its database, and when another member dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest

from pyjms import ConnectionFactory, JMSRuntimeException
from pyjms_provider.model.clustered import cluster_settings
from tests.provider.cluster.watched import Watched, watched_member
from tests.provider.cluster.world import SHARDS, ClusterWorld, wait_until

WAIT_MS = 500


@pytest.fixture
def watched(world: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(
        "pyjms_provider.model.virtual_host.cluster_settings",
        lambda *arguments: replace(cluster_settings(*arguments), leader_wait_ms=WAIT_MS),
    )
    with watched_member(world) as found:
        yield found


@contextmanager
def stopped(world: ClusterWorld) -> Iterator[None]:
    world.server.stop()
    try:
        yield
    finally:
        world.server.start()


@contextmanager
def read_only(world: ClusterWorld) -> Iterator[None]:
    """Have the database take no writes, as a standby server, or one whose disk an operator has put out of use."""
    name = world.database
    with world.server.connect() as connection:
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
        try:
            yield
        finally:
            connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))


def refused(factory: ConnectionFactory) -> None:
    """Connect, which AMQP refuses already, and send."""
    with factory.create_context() as context:
        context.create_producer().send(context.create_queue("orders"), "refused")


@pytest.mark.parametrize("fault", [stopped, read_only])
def test_a_member_without_its_database_serves_nothing_says_so_and_comes_back(
    world: ClusterWorld,
    watched: Watched,
    fault: Callable[[ClusterWorld], AbstractContextManager[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    factories = [ConnectionFactory(watched.url(scheme)) for scheme in ("stomp", "amqp")]
    for factory in factories:
        with factory.create_context() as context:
            context.create_producer().send(context.create_queue("orders"), "before")
    assert watched.readiness() == (200, "ready")
    assert watched.metric("takes_messages") == 1

    with fault(world):
        wait_until(lambda: watched.metric("takes_messages") == 0)
        wait_until(lambda: watched.metric("cluster_shards_led") == 0)
        assert watched.metric("cluster_members_alive") == 0
        assert watched.metric("cluster_shards_without_leader") == SHARDS
        assert watched.readiness() == (503, "not ready")
        trouble = watched.host.cluster_trouble
        assert trouble is not None
        assert trouble.startswith("member left cannot reach its cluster: ")
        assert watched.host.cluster_status().trouble == trouble
        assert watched.host.store_trouble is not None
        failed = watched.metric("cluster_failed_connections_total")
        for factory in factories:
            with pytest.raises(JMSRuntimeException, match="cannot reach its cluster"):
                refused(factory)
        assert watched.metric("cluster_failed_connections_total") >= failed + len(factories)
        for code in ("PYJMS-CLUSTER-2", "PYJMS-CLUSTER-6", "PYJMS-CLUSTER-11"):
            assert any(code in line for line in caplog.messages), code

    wait_until(lambda: watched.metric("cluster_shards_led") == SHARDS)
    wait_until(lambda: watched.metric("cluster_shards_without_leader") == 0)
    # The shards that it leads appear as virtual hosts a moment later.
    wait_until(lambda: watched.readiness() == (200, "ready"))
    for factory in factories:
        with factory.create_context() as context:
            consumer = context.create_consumer(context.create_queue("orders"))
            assert consumer.receive_body(str, 30_000) == "before"


def test_the_death_of_another_member_is_counted(world: ClusterWorld, watched: Watched) -> None:
    other = world.start_process("right")
    wait_until(lambda: watched.metric("cluster_shards_led") == SHARDS // 2)
    wait_until(lambda: watched.metric("cluster_shards_without_leader") == 0)
    # The changes are those that the member has read from the database, a moment after it has given a shard away.
    wait_until(lambda: watched.metric("cluster_leader_changes_total") >= SHARDS + SHARDS // 2)
    assert watched.metric("cluster_leader_changes_total") == SHARDS + SHARDS // 2
    assert watched.metric("cluster_members_alive") == 2
    other.kill()
    wait_until(lambda: watched.metric("cluster_members_alive") == 1)
    wait_until(lambda: watched.metric("cluster_shards_led") == SHARDS)
    wait_until(lambda: watched.metric("cluster_shards_without_leader") == 0)
    wait_until(lambda: watched.metric("cluster_leader_changes_total") >= SHARDS + 2 * (SHARDS // 2))
    assert watched.metric("cluster_leader_changes_total") == SHARDS + 2 * (SHARDS // 2)
