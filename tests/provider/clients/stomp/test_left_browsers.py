"""A look at a queue that is left half way may be ended by the garbage collector, which runs anywhere, also under a lock."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from pyjms.spi.delivery import Delivery
from pyjms_provider.clients.stomp.foreign.session import Browser
from pyjms_provider.clients.stomp.native.consumer import NativeBrowser
from pyjms_provider.clients.stomp.provider import StompProvider
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import to_frame
from tests.provider.clients.stomp.fake_broker import PATIENCE_S, FakeBroker
from tests.provider.clients.stomp.native.peer import Peer
from tests.provider.clients.stomp.test_healing import request_of
from tests.provider.clients.stomp.world import ORDERS, Events, connected
from tests.provider.cost import kept
from tests.provider.helpers import make_envelope
from tests.pyjms.runtime.helpers import eventually


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


@pytest.fixture(autouse=True)
def collection_of_this_test_alone() -> Iterator[None]:
    """Have collections look at what this test makes: what a worker has kept from others takes seconds each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def looks() -> int:
    """Return how many looks at a queue somebody keeps."""
    gc.collect()
    return sum(isinstance(each, (Browser, NativeBrowser)) for each in gc.get_objects())


@pytest.mark.parametrize("lock", ["receivers", "outbox"])
@pytest.mark.parametrize("kind", [FakeBroker, Peer])
def test_one_that_the_garbage_collector_ends_under_a_lock_of_its_connection(kind: type[FakeBroker], lock: str) -> None:
    before = looks()
    with kind() as broker:
        connection: Any = StompProvider().connect(request_of(broker), Events())
        show_one(broker)
        gc.disable()
        try:
            node = Node(connection.open_session(transacted=False).browse(ORDERS, None))
            next(node.messages)
            del node

            def collect() -> None:
                with connection._lock if lock == "receivers" else connection.link.newest._buffer._lock:
                    gc.collect()

            collecting = Thread(target=collect, daemon=True)
            collecting.start()
            collecting.join(PATIENCE_S)
            assert not collecting.is_alive(), "the end of the look waits for the lock that its own thread holds"
        finally:
            gc.enable()
        broker.wait_for("UNSUBSCRIBE")
        eventually(lambda: looks() == before, "the look to be forgotten")
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
        assert not kept(connection, NativeBrowser)
        messages.close()
        connection.close()


def test_one_that_nobody_begins_is_not_kept() -> None:
    before = looks()
    with FakeBroker() as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        session.browse(ORDERS, None)
        eventually(lambda: looks() == before, "the look to be forgotten")
