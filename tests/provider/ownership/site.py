"""A broker with an exclusive queue, or one with groups, that programs reach in this process or by STOMP; and two programs: an owner, and one that waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import quote

from pyjms import Connection, ConnectionFactory, Message, MessageConsumer, Session, TextMessage
from pyjms_provider.broker import stop_broker
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.serving.served_broker import ServedBroker

__all__ = ["COUNT", "KINDS", "PATIENCE_MS", "TRANSPORTS", "Owner", "Site", "Waiting", "by_name", "opened", "received"]

COUNT = 30
PATIENCE_MS = 20_000
KINDS = ("exclusive", "groups")
TRANSPORTS = {
    "vm": ("vm", False, ""),
    "vm with a store": ("vm", True, ""),
    "stomp": ("stomp", False, ""),
    "stomp with a store": ("stomp", True, ""),
    "stomp, one message ahead": ("stomp", False, "?prefetch_messages=1"),
    "amqp": ("amqp", False, ""),
    "amqp with a store": ("amqp", True, ""),
    "amqp, one message ahead": ("amqp", False, "?prefetch_messages=1"),
}
_QUEUE = "orders"
_numbers = count(1)


@dataclass
class Site:
    """A broker with 30 messages in one queue, which are of one group."""

    url: str

    def connect(self, url: str | None = None) -> Connection:
        connection = ConnectionFactory(url or self.url).create_connection()
        connection.start()
        return connection

    def send(self) -> None:
        with self.connect() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            producer = session.create_producer(session.create_queue(_QUEUE))
            for number in range(COUNT):
                message = session.create_text_message(str(number))
                message.set_string_property("JMSXGroupID", "g")
                producer.send(message)


class Owner:
    """Receives first."""

    def __init__(self, site: Site, mode: int = Session.AUTO_ACKNOWLEDGE, url: str | None = None) -> None:
        self.connection = site.connect(url)
        self.session = self.connection.create_session(mode == Session.SESSION_TRANSACTED, mode)
        self.consumer = self.consume()

    def consume(self) -> MessageConsumer:
        return self.session.create_consumer(self.session.create_queue(_QUEUE))

    def receive(self, *texts: str) -> list[Message]:
        """Receive these, and return them."""
        messages = [received(self.consumer) for _ in texts]
        assert [message.text for message in messages] == list(texts)
        return [*messages]


def received(consumer: MessageConsumer) -> TextMessage:
    """Return the next message, which must come."""
    message = consumer.receive(PATIENCE_MS)
    assert isinstance(message, TextMessage)
    return message


class Waiting:
    """Receives all that it gets, on another thread, by a listener or by a `receive` that waits."""

    def __init__(self, site: Site, how: str) -> None:
        self.connection = site.connect()
        session = self.connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        self._consumer = session.create_consumer(session.create_queue(_QUEUE))
        self._came: SimpleQueue[tuple[str, bool]] = SimpleQueue()
        self._thread: Thread | None = None
        if how == "listener":
            self._consumer.message_listener = self._note
        else:
            self._thread = Thread(target=self._receive, daemon=True)
            self._thread.start()

    def _note(self, message: Any) -> None:
        self._came.put((message.text, message.jms_redelivered))

    def _receive(self) -> None:
        while (message := self._consumer.receive()) is not None:
            self._note(message)

    def texts(self, number: int) -> list[str]:
        """Return so many messages, and see to it that no more follow."""
        return [text for text, _ in self.received(number)]

    def received(self, number: int) -> list[tuple[str, bool]]:
        """Do so, and say of each whether it was redelivered."""
        found = [self._came.get(timeout=PATIENCE_MS / 1000) for _ in range(number)]
        self.connection.close()
        if self._thread is not None:
            self._thread.join(PATIENCE_MS / 1000)
        assert self._came.empty()
        return found


@contextmanager
def opened(transport: str, kind: str, folder: Path) -> Iterator[Site]:
    """Run a broker, and stop it in the end."""
    scheme, is_stored, options = TRANSPORTS[transport]
    store = f"sqlite:///{folder / 'broker.db'}" if is_stored else ""
    policy: dict[str, Any] = {kind: True}
    with _embedded(store, policy) if scheme == "vm" else _served(scheme, store, policy, options) as url:
        site = Site(url)
        site.send()
        yield site


@contextmanager
def _embedded(store: str, policy: dict[str, Any]) -> Iterator[str]:
    name = f"ownership-{next(_numbers)}"
    url = f"vm://{name}" + (f"?store={quote(store, safe='')}" if store else "")
    connection = ConnectionFactory(url).create_connection()
    try:
        QueueManager.of(name).create(_QUEUE, **policy)
        yield url
    finally:
        connection.close()
        stop_broker(name)


@contextmanager
def _served(scheme: str, store: str, policy: dict[str, Any], options: str) -> Iterator[str]:
    with ServedBroker.open() as served:
        served.broker.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        served.broker.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node: Any = served.broker.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        host = node.create_child("virtual_host", {"name": "broker"} | ({"store_url": store} if store else {}))
        host.create_child("queue", {"name": _QUEUE, **policy})
        port = {"name": scheme, "type": scheme, "host": "127.0.0.1", "transports": ["tcp"], "port": 0}
        served.broker.create_child(
            "port", port | {"authentication_providers": ["anonymous"], "access_control": "access"}
        )
        yield f"{scheme}://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}{options}"


def by_name(*ends: Callable[[Owner], None]) -> dict[str, Callable[[Owner], None]]:
    """Return functions by their names, as words."""
    return {end.__name__.replace("_", " "): end for end in ends}
