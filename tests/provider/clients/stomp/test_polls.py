"""A poll never waits, whatever becomes of the connection meanwhile: who polls holds what others need who close the session."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import DestinationError
from pyjms_provider.clients.stomp.foreign.connection import ForeignConnection
from pyjms_provider.clients.stomp.foreign.session import Subscription
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import from_frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.world import QUICKLY, Events, Told, connected, consume
from tests.provider.helpers import make_envelope

PAST_MS = "1000"
CLASSIC, RABBITMQ = "ActiveMQ/5.17.2", "RabbitMQ/3.10.8"
ERRORS = [DestinationError("it has no destination"), ValueError("it has a number that is none")]


def in_time(call: Callable[[], object]) -> object:
    """Return what the call returns, if it does not wait."""
    returned: list[object] = []
    thread = Thread(target=lambda: returned.append(call()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S / 6)
    assert returned, "it waits"
    return returned[0]


def expired(broker: FakeBroker, connection: ForeignConnection) -> tuple[Subscription, Any]:
    """Return a consumer, and a message of it that it has just taken, and will find to be expired."""
    told = Told()
    consumer = consume(connection.open_session(transacted=False), told=told)
    broker.deliver(consumer.id, "7", expires=PAST_MS)
    told.wait()
    return consumer, consumer._take()


def test_what_expired_on_a_lost_connection_is_not_settled_on_the_next() -> None:
    with FakeBroker() as broker, connected(broker) as connection:
        consumer, held = expired(broker, connection)
        broker.cut()
        broker.wait_for("SUBSCRIBE", 2)
        connection.link.current()
        assert not consumer._session.discard(held)
        assert broker.of("ACK") == []


def test_what_expired_is_not_settled_before_a_connection_is_back() -> None:
    events = Events()
    with FakeBroker() as broker, connected(broker, events=events) as connection:
        consumer, held = expired(broker, connection)
        broker.stop()
        events.wait_for(1)
        assert not in_time(lambda: consumer._session.discard(held))


@pytest.mark.parametrize("what", ["expired", "stuck"])
def test_a_broker_that_does_not_read_holds_up_no_poll(what: str) -> None:
    with FakeBroker() as broker, connected(broker, f"{QUICKLY}&prefetch_messages=1") as connection:
        told = Told()
        consumer = consume(connection.open_session(transacted=False), told=told)
        broker.deliver(consumer.id, "7", **({"expires": PAST_MS} if what == "expired" else {}))
        told.wait()
        outbox = connection.link.current()._buffer
        if what == "stuck":
            assert consumer.poll() is not None
        outbox._limit = 10
        outbox._size += 100  # as if so many bytes waited for a broker that does not read
        outbox._is_writing = True
        assert in_time(consumer.poll) is None
        outbox._is_writing, outbox._size = False, outbox._size - 100
        outbox.uncork()
        broker.wait_for("ACK" if what == "expired" else "SUBSCRIBE", 1 if what == "expired" else 2)
        connection.open_session(transacted=False).send(make_envelope("goes on", persistent=True))


def fail_to_read(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Have nobody be able to read a message whose text is "bad"."""

    def read(frame: Frame, *arguments: Any) -> Envelope:
        if bytes(frame.body) == b"bad":
            raise error
        return from_frame(frame, *arguments)

    monkeypatch.setattr("pyjms_provider.clients.stomp.foreign.session.from_frame", read)


@pytest.mark.parametrize("server", [CLASSIC, RABBITMQ])
@pytest.mark.parametrize("error", ERRORS, ids=["foreseen", "not foreseen"])
def test_a_message_that_cannot_be_read_is_passed_and_goes_back_with_the_end_of_the_consumer(
    error: Exception, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed at the front for ever, if the error was not foreseen, or had the consumer stay at the broker when it was closed."""
    fail_to_read(monkeypatch, error)
    events, told = Events(), Told()
    with FakeBroker(server) as broker, connected(broker, events=events) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "T_s2@@x@@1", "bad")
        broker.deliver(consumer.id, "T_s2@@x@@2", "good")
        told.wait(2)
        if error is not ERRORS[0]:
            with pytest.raises(ValueError, match="a number that is none"):
                consumer.poll()
        delivery = consumer.poll()
        assert delivery is not None
        assert events.errors == ([error] if error is ERRORS[0] else [])
        consumer.close()
        session.acknowledge([delivery])
        connection.flush()
        assert len(broker.of("UNSUBSCRIBE")) == 1
        assert [frame.headers["id"].rpartition("@@")[2] for frame in broker.of("ACK")] == ["2"]
        returned = [frame.headers["id"].rpartition("@@")[2] for frame in broker.of("NACK")]
        assert returned == (["1"] if server == RABBITMQ else [])


def test_messages_that_cannot_be_read_do_not_keep_the_broker_from_pushing_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail_to_read(monkeypatch, ERRORS[1])
    told = Told()
    with FakeBroker() as broker, connected(broker, f"{QUICKLY}&prefetch_messages=1") as connection:
        consumer = consume(connection.open_session(transacted=False), told=told)
        broker.deliver(consumer.id, "1", "bad")
        told.wait()
        with pytest.raises(ValueError, match="a number that is none"):
            consumer.poll()
        assert consumer.poll() is None
        broker.wait_for("SUBSCRIBE", 2)
