"""One of each object of a connection, and the arguments of each call, for the tests of closed objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyjms import JMSException, ServerSession, ServerSessionPool, Session
from pyjms.runtime.factory import ConnectionFactory
from pyjms.runtime.requestor import QueueRequestor, TopicRequestor
from pyjms.runtime.xa import XAConnectionFactory, XAQueueConnectionFactory, XATopicConnectionFactory

API = json.loads(Path(__file__).parents[2].joinpath("data", "spec", "jms11-api.json").read_text(encoding="utf-8"))
TYPES: dict[str, dict[str, Any]] = {each["name"]: each for each in API["types"]}

CONNECTIONS = (
    "Connection",
    "QueueConnection",
    "TopicConnection",
    "XAConnection",
    "XAQueueConnection",
    "XATopicConnection",
)
SESSIONS = ("Session", "QueueSession", "TopicSession", "XASession", "XAQueueSession", "XATopicSession")
CHILDREN = (
    "MessageProducer",
    "QueueSender",
    "TopicPublisher",
    "MessageConsumer",
    "QueueReceiver",
    "TopicSubscriber",
    "QueueBrowser",
    "QueueRequestor",
    "TopicRequestor",
)
WAYS = {
    **dict.fromkeys(CONNECTIONS, ("itself",)),
    "ConnectionConsumer": ("itself", "connection"),
    **dict.fromkeys(SESSIONS, ("itself", "connection")),
    **dict.fromkeys(CHILDREN, ("itself", "session", "connection")),
}
"""How an object of each type is closed: by its own close, or by that of what it was made from."""


class Pool(ServerSessionPool):
    """A pool without sessions."""

    def get_server_session(self) -> ServerSession:
        raise JMSException("this pool is empty")


class Use(NamedTuple):
    """One overload of one method of a type."""

    type_name: str
    java: str
    python: str
    role: str  # method, getter or setter
    params: tuple[tuple[str, str], ...]  # (name, type)

    def __str__(self) -> str:
        return f"{self.type_name}.{self.java}({','.join(kind for _, kind in self.params)})"


def uses_of(type_name: str) -> Iterator[Use]:
    """Yield each overload of each method of a type and of the types that it extends, except close."""
    seen = set()
    for owner in _lineage(type_name):
        for method in TYPES[owner]["methods"]:
            python = method["python"]
            for overload in method["overloads"]:
                params = tuple((each["py"], each["type"]) for each in overload["params"])
                use = Use(type_name, method["java"], python["name"], python.get("role", "method"), params)
                key = (use.java, tuple(kind for _, kind in params))
                if use.java != "close" and key not in seen:
                    seen.add(key)
                    yield use


def _lineage(type_name: str) -> Iterator[str]:
    yield type_name
    for base in TYPES[type_name]["extends"]:
        if base in TYPES:
            yield from _lineage(base)


EVERY_USE = [(use, way) for type_name, ways in WAYS.items() for use in uses_of(type_name) for way in ways]


class World:
    """Objects over one broker; `url` must have XA for the XA types."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connections: list[Any] = []

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    def get(self, type_name: str) -> tuple[Any, dict[str, Any]]:
        """Return an object of a type, and what can be closed: itself, its session, its connection."""
        connection = self._connection(type_name)
        chain = {"connection": connection}
        if type_name in CONNECTIONS:
            return connection, {"itself": connection}
        session = chain["session"] = self._session(type_name, connection)
        made = session if type_name in SESSIONS else self._child(type_name, connection, session)
        return made, {**chain, "itself": made}

    def _connection(self, type_name: str) -> Any:
        if type_name.startswith("XAQueue"):
            made: Any = XAQueueConnectionFactory(self._url).create_xa_queue_connection()
        elif type_name.startswith("XATopic"):
            made = XATopicConnectionFactory(self._url).create_xa_topic_connection()
        elif type_name.startswith("XA"):
            made = XAConnectionFactory(self._url).create_xa_connection()
        elif type_name.startswith("Queue") and type_name != "QueueBrowser":
            made = ConnectionFactory(self._url).create_queue_connection()
        elif type_name.startswith("Topic"):
            made = ConnectionFactory(self._url).create_topic_connection()
        else:
            made = ConnectionFactory(self._url).create_connection()
        self._connections.append(made)
        made.client_id = f"client-{len(self._connections)}"
        return made

    @staticmethod
    def _session(type_name: str, connection: Any) -> Any:
        if type_name.startswith("XA"):
            return connection.create_xa_session()
        return connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)

    def _child(self, type_name: str, connection: Any, session: Any) -> Any:
        queue, topic = self.queue, self.topic
        makers: dict[str, Callable[[], Any]] = {
            "ConnectionConsumer": lambda: connection.create_connection_consumer(queue, None, Pool(), 1),
            "MessageProducer": session.create_producer,
            "QueueSender": lambda: session.create_sender(queue),
            "TopicPublisher": lambda: session.create_publisher(topic),
            "MessageConsumer": lambda: session.create_consumer(queue),
            "QueueReceiver": lambda: session.create_receiver(queue),
            "TopicSubscriber": lambda: session.create_subscriber(topic),
            "QueueBrowser": lambda: session.create_browser(queue),
            "QueueRequestor": lambda: QueueRequestor(session, queue),
            "TopicRequestor": lambda: TopicRequestor(session, topic),
        }
        return makers[type_name]()

    @property
    def queue(self) -> Any:
        """A queue."""
        return self._spare_session().create_queue("closed-world")

    @property
    def topic(self) -> Any:
        """A topic."""
        return self._spare_session().create_topic("closed-world")

    def _spare_session(self) -> Any:
        connection = ConnectionFactory(self._url).create_connection()
        self._connections.append(connection)
        return connection.create_session()

    def argument(self, name: str, kind: str) -> Any:
        """Return something that the open object would take for a parameter."""
        made: dict[str, Callable[[], Any]] = {
            "boolean": lambda: False,
            "int": lambda: 1,
            "long": lambda: 1,
            "String": lambda: None if name == "message_selector" else "name",
            "Serializable": lambda: "object",
            "Destination": lambda: self.queue,
            "Queue": lambda: self.queue,
            "Topic": lambda: self.topic,
            "Message": lambda: self._spare_session().create_text_message("late"),
            "MessageListener": lambda: lambda message: None,
            "ExceptionListener": lambda: lambda exception: None,
            "ServerSessionPool": Pool,
        }
        return made[kind]()
