"""Local transactions that stay open for too long are rolled back, and their clients hear of it when they commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms import ConnectionFactory, Session, TransactionRolledBackException
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import RolledBackError, UrlError
from pyjms.testing import VirtualClock
from pyjms_provider.broker import stop_broker
from pyjms_provider.clients.vm import VmConnection, VmSession
from tests.provider.clients.world import World, consume, poll
from tests.provider.helpers import ORDERS, HandClock, make_envelope, text_of
from tests.provider.simulation.site import HandScheduledTasks

LIMITED = "?transaction_timeout=10"
BILLS = Address(AddressKind.QUEUE, "bills")


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the housekeeper come only when the test says so."""
    monkeypatch.setattr("pyjms_provider.broker.ScheduledTasks", HandScheduledTasks)


@pytest.fixture
def connection(by_hand: None, world: World) -> Iterator[VmConnection]:
    made = world.connect(LIMITED)
    yield made
    made.close()


def pass_time(world: World, connection: VmConnection, seconds: int) -> None:
    """Let time pass, and the housekeeper come."""
    assert isinstance(world.clock, HandClock)
    world.clock.now_ms += seconds * 1000
    connection.broker.virtual_host.time_limit.run_due(world.clock.now_ms)


def seen(session: VmSession, address: Address = ORDERS) -> list[str]:
    return [text_of(delivery) for delivery in session.browse(address, None)]


def test_what_it_received_comes_again_and_what_it_sent_is_dropped(world: World, connection: VmConnection) -> None:
    session, observer = connection.open_session(transacted=True), connection.open_session(transacted=False)
    observer.send(make_envelope("order"))
    delivery = poll(consume(session))
    session.send(make_envelope("bill", destination=BILLS))
    pass_time(world, connection, 9)
    assert seen(observer) == []
    pass_time(world, connection, 1)
    again = poll(consume(observer))
    assert (text_of(again), again.count) == ("order", 2)
    session.acknowledge([delivery])
    with pytest.raises(RolledBackError, match="transaction_timeout"):
        session.commit()
    session.recover([delivery])
    observer.acknowledge([again])
    assert (seen(observer), seen(observer, BILLS)) == ([], [])


@pytest.mark.parametrize("acknowledged", [False, True])
def test_the_session_can_be_used_again(world: World, connection: VmConnection, acknowledged: bool) -> None:
    session, observer = connection.open_session(transacted=True), connection.open_session(transacted=False)
    observer.send(make_envelope("order"))
    consumer = consume(session)
    delivery = poll(consumer)
    if acknowledged:
        session.acknowledge([delivery])
    pass_time(world, connection, 10)
    session.send(make_envelope("too late", destination=BILLS))
    with pytest.raises(RolledBackError):
        session.commit()
    session.recover([delivery])
    session.acknowledge([poll(consumer)])
    session.send(make_envelope("bill", destination=BILLS))
    session.commit()
    assert (seen(observer), seen(observer, BILLS)) == ([], ["bill"])


def test_a_rollback_says_nothing_of_it(world: World, connection: VmConnection) -> None:
    session = connection.open_session(transacted=True)
    session.send(make_envelope("order"))
    pass_time(world, connection, 10)
    session.rollback()
    session.send(make_envelope("next"))
    session.commit()
    assert seen(session) == ["next"]


def test_time_begins_with_the_first_message_and_ends_with_the_transaction(
    world: World, connection: VmConnection
) -> None:
    session = connection.open_session(transacted=True)
    consumer = consume(session)
    assert consumer.poll() is None
    pass_time(world, connection, 60)
    for text in "ab":
        session.send(make_envelope(text))
        pass_time(world, connection, 9)
        session.commit()
    taken = [poll(consumer), poll(consumer)]
    pass_time(world, connection, 9)
    session.acknowledge(taken)
    session.commit()
    pass_time(world, connection, 60)
    assert seen(session) == []


def test_what_is_received_afterwards_is_not_held_for_ever_either(world: World, connection: VmConnection) -> None:
    session, observer = connection.open_session(transacted=True), connection.open_session(transacted=False)
    session.send(make_envelope("first"))
    pass_time(world, connection, 10)
    observer.send(make_envelope("order"))
    assert text_of(poll(consume(session))) == "order"
    pass_time(world, connection, 10)
    assert seen(observer) == ["order"]
    with pytest.raises(RolledBackError):
        session.commit()


@pytest.mark.usefixtures("by_hand")
def test_sessions_without_transactions_and_brokers_without_a_limit_hold_for_ever(world: World) -> None:
    limited = world.connect(LIMITED)
    session = limited.open_session(transacted=False)
    session.send(make_envelope("order"))
    delivery = poll(consume(session))
    pass_time(world, limited, 1000)
    session.acknowledge([delivery])
    assert len(limited.broker.virtual_host.store) == 0

    other = World()
    connection = other.connect()
    unlimited = connection.open_session(transacted=True)
    unlimited.send(make_envelope("order"))
    pass_time(other, connection, 1_000_000)
    unlimited.commit()
    assert seen(unlimited) == ["order"]
    other.stop()


def test_a_closed_session_is_left_alone(world: World, connection: VmConnection) -> None:
    session = connection.open_session(transacted=True)
    session.send(make_envelope("order"))
    session.close()
    pass_time(world, connection, 10)
    assert len(connection.broker.virtual_host.store) == 0


@pytest.mark.parametrize("value", ["soon", "-1", "1.5"])
def test_what_is_no_time_is_refused(world: World, value: str) -> None:
    with pytest.raises(UrlError, match="transaction_timeout=seconds"):
        world.connect(f"?transaction_timeout={value}")


def test_a_client_of_jms_hears_of_it_when_it_commits() -> None:
    clock = VirtualClock()
    with ConnectionFactory("vm://limited?transaction_timeout=5", clock=clock).create_connection() as connection:
        connection.start()
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        orders = session.create_queue("orders")
        session.create_producer(orders).send(session.create_text_message("order"))
        session.commit()
        assert session.create_consumer(orders).receive_no_wait() is not None
        clock.await_wait(5_000)  # the housekeeper's
        clock.advance(5_000)
        again = connection.create_session().create_consumer(orders).receive()
        assert again is not None
        assert again.jms_redelivered
        with pytest.raises(TransactionRolledBackException):
            session.commit()
        session.commit()
    stop_broker("limited")
