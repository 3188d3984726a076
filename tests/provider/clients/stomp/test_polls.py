"""A poll never waits, whatever becomes of the connection meanwhile: who polls holds what others need who close the session."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from pyjms_provider.clients.stomp.connection import StompConnection
from pyjms_provider.clients.stomp.subscription import Subscription
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.world import QUICKLY, Events, Told, connected, consume
from tests.provider.helpers import make_envelope

PAST_MS = "1000"


def in_time(call: Callable[[], object]) -> object:
    """Return what the call returns, if it does not wait."""
    returned: list[object] = []
    thread = Thread(target=lambda: returned.append(call()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S / 6)
    assert returned, "it waits"
    return returned[0]


def expired(broker: FakeBroker, connection: StompConnection) -> tuple[Subscription, Any]:
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
        outbox = connection.link.current().wire._outbox
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
