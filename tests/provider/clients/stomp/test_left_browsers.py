"""A look at a queue that is left half way may be ended by the garbage collector, which runs anywhere, also under a lock."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import pytest

from pyjms.spi.delivery import Delivery
from pyjms_provider.clients.stomp.provider import StompProvider
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import to_frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.profiled.peer import Peer
from tests.provider.clients.stomp.test_healing import request_of
from tests.provider.clients.stomp.world import ORDERS, Events, connected
from tests.provider.helpers import make_envelope
from tests.provider.interruptions import Interruption, each_interruption


class Node:
    """Holds a look at a queue, and itself: only the garbage collector lets go of it."""

    def __init__(self, messages: Iterator[Delivery]) -> None:
        self.messages = messages
        self.me = self


def show_one(broker: FakeBroker) -> None:
    """Have the broker answer each look with a message."""

    def show(number: int, frame: Frame) -> None:
        if frame.command == "BROWSE" or frame.headers.get("browser") == "true":
            shown = to_frame(make_envelope("m"), PYJMS, command="MESSAGE")
            shown.headers.update({"subscription": frame.headers["id"], "message-id": "m", "ack": "1"})
            broker.push(shown)

    if isinstance(broker, Peer):
        broker.before_answer = show
    else:
        broker.on_frame = show


@pytest.mark.parametrize("lock", ["receivers", "outbox"])
@pytest.mark.parametrize("kind", [FakeBroker, Peer])
def test_one_that_the_garbage_collector_ends_under_a_lock_of_its_connection(kind: type[FakeBroker], lock: str) -> None:
    with kind() as broker:
        connection: Any = StompProvider().connect(request_of(broker), Events())
        show_one(broker)
        gc.disable()
        try:
            node = Node(connection.open_session(transacted=False).browse(ORDERS, None))
            next(node.messages)
            del node

            def collect() -> None:
                with connection._lock if lock == "receivers" else connection.link.newest.wire._outbox._lock:
                    gc.collect()

            collecting = Thread(target=collect, daemon=True)
            collecting.start()
            collecting.join(PATIENCE_S)
            assert not collecting.is_alive(), "the end of the look waits for the lock that its own thread holds"
        finally:
            gc.enable()
        broker.wait_for("UNSUBSCRIBE")
        assert not (connection._receivers if kind is Peer else connection._subscriptions)
        connection.close()


def test_one_whose_connection_has_ended_is_forgotten() -> None:
    with Peer() as broker:
        events = Events()
        connection: Any = StompProvider().connect(request_of(broker), events)
        show_one(broker)
        messages = connection.open_session(transacted=False).browse(ORDERS, None)
        next(messages)
        broker.cut()
        events.wait_for(1)
        assert not connection._receivers
        messages.close()
        connection.close()


def show_all(broker: FakeBroker) -> None:
    """Have the broker answer each look with the end of its queue."""

    def show(number: int, frame: Frame) -> None:
        if frame.headers.get("browser") == "true":
            broker.push(Frame("MESSAGE", {"subscription": frame.headers["id"], "message-id": "m", "browser": "end"}))

    broker.on_frame = show


@pytest.mark.parametrize("what", ["begun", "left", "read to its end"])
def test_one_that_is_interrupted_ends_at_the_broker_and_is_forgotten(what: str) -> None:
    """At a broker that knows nothing of the profile it went on, and its connection knew it for ever."""

    def attempt(interruption: Interruption) -> None:
        events = Events()
        with FakeBroker() as broker, connected(broker, events=events) as connection:
            if what == "read to its end":
                show_all(broker)
            else:
                show_one(broker)
            session, epoch = connection.open_session(transacted=False), connection.link.current()
            if what == "left":
                messages: Any = session.browse(ORDERS, None)
                next(messages)
                with suppress(KeyboardInterrupt), interruption():
                    messages.close()
            else:
                messages = None
                with suppress(KeyboardInterrupt, StopIteration), interruption():
                    messages = session.browse(ORDERS, None)
                    next(messages)
            if messages is not None:
                messages.close()
            if connection.link.current() is not epoch:
                return  # nothing of it is in the next one
            is_done = Event()
            epoch.call_soon(is_done.set)  # after what else the I/O thread has to do
            assert is_done.wait(PATIENCE_S)
            connection.flush()
            made, ended = len(broker.of("SUBSCRIBE")), len(broker.of("UNSUBSCRIBE"))
            assert made <= ended <= 1, interruption.where
            assert connection._subscriptions == {}, interruption.where
            assert events.errors == [], interruption.where

    names = ("browsing", "session", "epoch", "connection", "wire", "outbox")
    assert each_interruption(attempt, *(f"clients/stomp/{name}.py" for name in names)) > 5


def test_one_of_a_pyjms_broker_that_is_interrupted_as_it_begins_is_forgotten() -> None:
    def attempt(interruption: Interruption) -> None:
        with Peer() as broker:
            connection: Any = StompProvider().connect(request_of(broker), Events())
            show_one(broker)
            messages = connection.open_session(transacted=False).browse(ORDERS, None)
            epoch = connection.link.current()
            with suppress(KeyboardInterrupt), interruption():
                next(messages)
            messages.close()
            if connection.link.current() is epoch:  # else nothing of it is in the next one
                is_done = Event()
                epoch.call_soon(is_done.set)  # after what else the I/O thread has to do
                assert is_done.wait(PATIENCE_S)
            assert not connection._receivers, interruption.where
            connection.close()

    assert each_interruption(attempt, "clients/stomp/profiled/browser.py", "clients/stomp/profiled/connection.py") > 5


def test_one_that_nobody_begins_is_not_kept() -> None:
    with FakeBroker() as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        session.browse(ORDERS, None)
        assert connection._subscriptions == {}
