"""The store of a single broker that becomes a cluster's, also one that 0.1.0 has made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import create_engine, make_url, text

from pyjms.spi.clock import SystemClock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.provider import ProviderConsumer, ProviderSession, SubscribeRequest
from pyjms.spi.xid import Xid
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.cluster.placement import Placement
from pyjms_provider.settings import BrokerSettings, StoreSettings
from pyjms_provider.stores.errors import HeldStoreError, UnusableStoreError
from pyjms_provider.stores.sql.adoption import Adopted, adopt_store
from tests.provider.cluster.clients import consume, take
from tests.provider.cluster.test_members import balanced
from tests.provider.cluster.world import SHARDS, ClusterWorld, wait_until
from tests.provider.helpers import RecordedEvents, make_envelope
from tests.provider.stores.test_opening import CLIENTS, UNSHARED
from tests.pyjms.demo.command_line import runner

NEWS = Address(AddressKind.TOPIC, "news")
QUEUES = [Address(AddressKind.QUEUE, f"orders-{number}") for number in range(2 * SHARDS)]
ALL_NEWS = SubscribeRequest(address=NEWS, selector=None, no_local=False, durable_name="all")
PREPARED = Xid(7, b"transaction", b"branch")


@contextmanager
def broker_of(url: str) -> Iterator[VmConnection]:
    broker = EmbeddedBroker("shop", SystemClock(), BrokerSettings(store=StoreSettings(url=url)))
    connection = VmConnection(broker, RecordedEvents())
    try:
        yield connection
    finally:
        broker.stop()


def fill(connection: VmConnection) -> None:
    """Have a broker keep something of each kind that 0.1.0 knew."""
    connection.set_client_id("desk")
    session = connection.open_session(transacted=False)
    session.subscribe(ALL_NEWS, lambda: None).close()
    for address in (*QUEUES, NEWS):
        for number in range(3):
            session.send(make_envelope(f"{address.name} {number}", destination=address, persistent=True))
    unit = connection.open_session(transacted=True)
    unit.xa_start(PREPARED)
    unit.send(make_envelope("prepared", destination=QUEUES[0], persistent=True))
    unit.xa_end(PREPARED)
    assert unit.xa_prepare(PREPARED)


def change(url: str, *statements: str) -> None:
    """Run statements on a store, as somebody else."""
    engine = create_engine(make_url(url))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def taken(session: ProviderSession, consumer: ProviderConsumer, ready: Event, many: int) -> list[Delivery]:
    """Take and acknowledge messages, and close the consumer."""
    found = []
    for _ in range(many):
        found.append(take(consumer, ready))
        session.acknowledge(found[-1:])
    consumer.close()
    return found


def received(session: ProviderSession, address: Address, many: int) -> list[object]:
    return [each.envelope.body for each in taken(session, *consume(session, address), many)]


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, world: ClusterWorld, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'old.db'}" if request.param == "sqlite" else world.server.make_store()


def adopt(world: ClusterWorld, store: str) -> Adopted:
    return adopt_store(
        store,
        world.url,
        SystemClock(),
        cluster="shop",
        virtual_host="shop",
        shards=SHARDS,
        shard_of_registered=Placement(SHARDS).shard_of_registered,
    )


def test_a_store_of_0_1_0_becomes_a_clusters(world: ClusterWorld, store: str) -> None:
    with broker_of(store) as connection:
        fill(connection)
    change(store, *(f"DROP TABLE {name}" for name in CLIENTS), UNSHARED, "UPDATE pyjms_meta SET version = 3")
    done = adopt(world, store)
    assert done == Adopted(
        shard=0,
        messages=3 * len(QUEUES) + 3 + 1,
        destinations=len(QUEUES) + 1,
        subscriptions=1,
        branches=1,
        clients=0,
    )

    first, second = world.start("first"), world.start("second")
    wait_until(lambda: balanced(first, second))
    for member in (first, second):
        client = ClusterConnection(member, RecordedEvents(), SystemClock())
        client.start()
        session = client.open_session(transacted=False)
        if member is first:
            for address in QUEUES[1:]:
                assert received(session, address, 3) == [f"{address.name} {number}" for number in range(3)]
        else:
            unit = client.open_session(transacted=True)
            assert list(unit.xa_recover()) == [PREPARED]
            unit.xa_commit(PREPARED)
            assert received(session, QUEUES[0], 4) == [
                *(f"{QUEUES[0].name} {number}" for number in range(3)),
                "prepared",
            ]
            client.set_client_id("desk")
            ready = Event()
            found = taken(session, session.subscribe(ALL_NEWS, ready.set), ready, 3)
            assert [each.envelope.body for each in found] == [f"news {number}" for number in range(3)]
            session.unsubscribe("all")
        client.close()


def test_registered_clients_and_sinks_are_found_by_their_names(world: ClusterWorld, store: str) -> None:
    names = [f"client-{number}" for number in range(2 * SHARDS)]
    with broker_of(store) as connection:
        for name in names:
            connection.persistent_sessions().register(name)
        change_while_closed = [f"INSERT INTO pyjms_stage_marker VALUES ('sink-{n}', {n})" for n in range(2 * SHARDS)]
    change(store, *change_while_closed)
    assert adopt(world, store).clients == len(names)
    first = world.start("first")
    client = ClusterConnection(first, RecordedEvents(), SystemClock())
    for name in names:
        client.persistent_sessions().register(name)
    assert [client.stages().marker(f"sink-{n}") for n in range(2 * SHARDS)] == list(range(2 * SHARDS))
    found = [world.execute(f"SELECT count(*) FROM shop_{shard}.pyjms_client")[0][0] for shard in range(SHARDS)]
    assert sum(found) == len(names), "each was found, and none made again"
    client.close()


def test_what_was_delivered_before_a_crash_is_flagged_in_the_cluster(world: ClusterWorld, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'old.db'}"
    with broker_of(store) as connection:
        fill(connection)
    change(
        store,
        "UPDATE pyjms_meta SET clean = false",
        "INSERT INTO pyjms_mark SELECT queue, 4, max(id) FROM pyjms_message WHERE queue IS NOT NULL GROUP BY queue",
    )
    adopt(world, store)
    first = world.start("first")
    client = ClusterConnection(first, RecordedEvents(), SystemClock())
    client.start()
    session = client.open_session(transacted=False)
    found = taken(session, *consume(session, QUEUES[0]), 3)
    assert [each.redelivered for each in found] == [True] * 3
    client.close()


def test_a_store_that_a_broker_has_is_refused_and_nothing_is_made(world: ClusterWorld, store: str) -> None:
    with broker_of(store), pytest.raises(HeldStoreError):
        adopt(world, store)
    assert world.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'shop%'") == []


def test_a_cluster_that_exists_is_refused(world: ClusterWorld, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'old.db'}"
    with broker_of(store) as connection:
        fill(connection)
    adopt(world, store)
    with pytest.raises(UnusableStoreError, match=r"there is a cluster shop in .* already"):
        adopt(world, store)
    with broker_of(store) as connection:
        consumer, ready = consume(connection.open_session(transacted=False), QUEUES[0])
        connection.start()
        assert take(consumer, ready).envelope.body == f"{QUEUES[0].name} 0", "the old store is as it was"


def test_a_command_takes_a_store_in(
    world: ClusterWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"sqlite:///{tmp_path / 'old.db'}"
    with broker_of(store) as connection:
        fill(connection)
    run = runner(monkeypatch, capsys)
    code, _, told = run("broker", "adopt", store, world.url, "--cluster", "Shop", "--name", "shop")
    assert (code, "is no name of a cluster" in told) == (2, True)
    code, told, _ = run(
        "broker", "adopt", store, world.url, "--cluster", "shop", "--name", "shop", "--shards", "2", "--json"
    )
    assert (code, json.loads(told)["messages"]) == (0, 28)
    code, _, told = run("broker", "adopt", store, world.url, "--cluster", "shop", "--name", "shop")
    assert (code, "there is a cluster shop" in told) == (2, True)
    code, told, _ = run("broker", "adopt", store, world.url, "--cluster", "other", "--name", "shop")
    assert code == 0
    assert "whose shard 0 has 28 messages, 9 queues and topics, 1 durable subscription, 1 prepared branch" in told
