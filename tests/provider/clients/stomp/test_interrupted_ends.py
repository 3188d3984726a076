"""The main thread is interrupted at each place of what ends a consumer at a plain broker, and calls again: it has ended, once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ClosedError, InDoubtError, RolledBackError
from pyjms.spi.provider import ProviderConsumer
from pyjms_provider.clients.stomp.session import StompSession
from pyjms_provider.clients.stomp.wire import Wire
from tests.provider.clients.stomp.fake_broker import FakeBroker
from tests.provider.clients.stomp.world import QUICKLY, Events, Told, connect, connected, consume
from tests.provider.interruptions import Interruption, each_interruption
from tests.pyjms.runtime.helpers import Call

CLASSIC, RABBITMQ = "ActiveMQ/5.17.2", "RabbitMQ/3.10.8"
FILES = (
    "clients/ending.py",
    *(
        f"clients/stomp/{name}.py"
        for name in (
            "subscription",
            "session",
            "epoch",
            "connection",
            "linked",
            "transactions",
            "held_message",
            "wire",
            "outbox",
        )
    ),
)


def last_is_acknowledged(session: StompSession, consumer: ProviderConsumer, delivery: Delivery) -> Callable[[], None]:
    consumer.close()
    return partial(session.acknowledge, [delivery])


def last_is_recovered(session: StompSession, consumer: ProviderConsumer, delivery: Delivery) -> Callable[[], None]:
    consumer.close()
    return partial(session.recover, [delivery])


def last_is_committed(session: StompSession, consumer: ProviderConsumer, delivery: Delivery) -> Callable[[], None]:
    session.acknowledge([delivery])
    consumer.close()
    return session.commit


def consumer_closes(session: StompSession, consumer: ProviderConsumer, delivery: Delivery) -> Callable[[], None]:
    session.recover([delivery])
    return consumer.close


def session_closes(session: StompSession, consumer: ProviderConsumer, delivery: Delivery) -> Callable[[], None]:
    return session.close


ENDS = [last_is_acknowledged, last_is_recovered, last_is_committed, consumer_closes, session_closes]


@pytest.mark.parametrize("then", ["once more", "its session closes"])
@pytest.mark.parametrize("server", [CLASSIC, RABBITMQ])
@pytest.mark.parametrize("end", ENDS)
def test_a_consumer_whose_end_was_interrupted_ends_with_the_next_call(
    end: Callable[[StompSession, ProviderConsumer, Delivery], Callable[[], None]], server: str, then: str
) -> None:
    """It stayed subscribed: the broker pushed messages to nobody until the connection ended."""

    def attempt(interruption: Interruption) -> None:
        options = f"{QUICKLY}&transactions=best-effort"
        with FakeBroker(server) as broker, connected(broker, options) as connection:
            session = connection.open_session(transacted=end is last_is_committed)
            told = Told()
            consumer = consume(session, told=told)
            broker.deliver(consumer.id, "T_s2@@x@@1")
            broker.deliver(consumer.id, "T_s2@@x@@2")
            told.wait(2)
            delivery = consumer.poll()
            assert delivery is not None
            epoch, act = connection.link.current(), end(session, consumer, delivery)
            with suppress(KeyboardInterrupt), interruption():
                act()
            with suppress(RolledBackError, InDoubtError):  # the interrupt has ended the connection
                act() if then == "once more" else session.close()
            if connection.link.current() is not epoch:
                return  # nothing of it is in the next one
            connection.flush()
            assert [each.headers["id"] for each in broker.of("UNSUBSCRIBE")] == [consumer.id], interruption.where
            assert session._subscriptions == {}, interruption.where
            assert session._held == {}, interruption.where
            assert connection._subscriptions == {}, interruption.where
            if server == RABBITMQ:
                aborted = {each.headers["transaction"] for each in broker.of("ABORT")}
                said = [*broker.of("ACK"), *broker.of("NACK")]
                ids = [each.headers["id"] for each in said if each.headers.get("transaction") not in aborted]
                assert sorted(each.rpartition("@@")[2] for each in ids) == ["1", "2"], interruption.where

    assert each_interruption(attempt, *FILES) > 20


def test_a_session_whose_making_was_interrupted_is_in_no_table() -> None:
    """It stayed there until the connection was closed."""
    with FakeBroker(CLASSIC) as broker, connected(broker) as connection:

        def attempt(interruption: Interruption) -> None:
            made: StompSession | None = None
            with suppress(KeyboardInterrupt), interruption():
                made = connection.open_session(transacted=False)
            if made is not None:
                made.close()
            assert not connection._sessions, interruption.where

        assert each_interruption(attempt, *FILES) > 3


def test_a_durable_subscription_may_be_taken_up_after_an_interrupted_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name was in use for good after a Ctrl-C while the answer to UNSUBSCRIBE was waited for."""
    news = Address(AddressKind.TOPIC, "news")

    def be_interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    with FakeBroker() as broker:
        connection = connect(f"{broker.url}?{QUICKLY}", client_id="me")
        session = connection.open_session(transacted=False)
        consume(session, news, durable_name="d")
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Wire, "wait", be_interrupted)
            session.close()
        session.close()
        consume(connection.open_session(transacted=False), news, durable_name="d")
        assert len(broker.of("UNSUBSCRIBE")) == 1
        connection.close()


@pytest.mark.parametrize("server", [CLASSIC, RABBITMQ])
def test_a_connection_whose_close_was_interrupted_closes_with_the_next_call(server: str) -> None:
    """Its socket and thread stayed, and at the broker all that it had."""

    def attempt(interruption: Interruption) -> None:
        with FakeBroker(server) as broker:
            connection, told = connect(f"{broker.url}?{QUICKLY}"), Told()
            consumer = consume(connection.open_session(transacted=False), told=told)
            broker.deliver(consumer.id, "T_s2@@x@@1")
            told.wait()
            assert consumer.poll() is not None
            wire = connection.link.current().wire
            with suppress(KeyboardInterrupt), interruption():
                connection.close()
            connection.close()
            assert connection.state == "closed", interruption.where
            for each in (wire, connection.link.newest.wire):
                each.join(10)  # `close` waits for the one that it ends; one that ended before may be about to
                assert not each._thread.is_alive(), interruption.where
            assert len(broker.of_newest("DISCONNECT")) <= 1, interruption.where

    assert each_interruption(attempt, *FILES, "clients/stomp/link.py") > 20


def test_who_waits_for_a_connection_is_told_that_it_was_closed_though_that_was_interrupted() -> None:
    def attempt(interruption: Interruption) -> None:
        events = Events()
        with FakeBroker() as broker:
            connection = connect(f"{broker.url}?reconnect_delay_ms=60000&timeout_ms=60000", events)
            broker.stop()
            events.wait_for(1)
            waiting = Call(connection.link.current)
            assert waiting.is_blocked()
            with suppress(KeyboardInterrupt), interruption():
                connection.close()
            connection.close()
            with pytest.raises(ClosedError):
                waiting.result()

    assert each_interruption(attempt, "clients/stomp/link.py") > 3
