"""One real object of each type, made through the public API over the broker in this process."""

from __future__ import annotations

import inspect
import uuid
from typing import Any

import pyjms

IMPLEMENTED_BY_APPLICATIONS = ("ExceptionListener", "MessageListener", "ServerSession", "ServerSessionPool")


def concrete_classes(name: str) -> list[type]:
    """Return the classes of this project that implement an interface and can have objects."""
    found, classes = [getattr(pyjms, name)], set()
    while found:
        cls = found.pop()
        found.extend(cls.__subclasses__())
        if cls.__module__.startswith("pyjms.") and not cls.__module__.startswith("pyjms.api."):
            classes.add(cls)
    return sorted((cls for cls in classes if not inspect.isabstract(cls)), key=lambda cls: cls.__qualname__)


class _Pool(pyjms.ServerSessionPool):
    def getServerSession(self) -> pyjms.ServerSession:
        raise pyjms.JMSException("this pool is empty")


class RealObjects:
    """Makes what is asked for, over one broker of its own, and closes it."""

    def __init__(self) -> None:
        self.url = f"vm://api-{uuid.uuid4().hex}"
        self._closing: list[Any] = []

    def get(self, name: str) -> Any:
        """Return an object of the type called `name`. Raises JMSException when the provider has no such thing."""
        if name.startswith("XA"):
            return self._xa(name)
        special = getattr(self, f"_make_{name}", None)
        if special:
            return special()
        if name.endswith("Factory"):
            return getattr(pyjms, name)(self.url)
        return self._from_session(name)

    def close(self) -> None:
        """Close the connections; all else goes with them."""
        for closing in reversed(self._closing):
            closing.close()

    def _connection(self, prefix: str = "") -> Any:
        factory = getattr(pyjms, f"{prefix}ConnectionFactory")(self.url)
        made = factory.createConnection() if not prefix else getattr(factory, f"create{prefix}Connection")()
        self._closing.append(made)
        return made

    def _session(self) -> Any:
        return self._connection().createSession(False, pyjms.Session.AUTO_ACKNOWLEDGE)

    def _from_session(self, name: str) -> Any:
        session = self._session()
        queue, topic = session.createQueue("q"), session.createTopic("t")
        makers = {
            "Destination": lambda: queue,
            "MessageConsumer": lambda: session.createConsumer(queue),
            "MessageProducer": lambda: session.createProducer(queue),
            "Queue": lambda: queue,
            "QueueBrowser": lambda: session.createBrowser(queue),
            "Session": lambda: session,
            "TemporaryQueue": session.createTemporaryQueue,
            "TemporaryTopic": session.createTemporaryTopic,
            "Topic": lambda: topic,
        }
        return makers[name]() if name in makers else getattr(session, f"create{name}")()

    def _make_Connection(self) -> Any:
        return self._connection()

    def _make_QueueConnection(self) -> Any:
        return self._connection("Queue")

    def _make_TopicConnection(self) -> Any:
        return self._connection("Topic")

    def _make_ConnectionMetaData(self) -> Any:
        return self._connection().getMetaData()

    def _make_ConnectionConsumer(self) -> Any:
        connection = self._connection()
        queue = connection.createSession(False, pyjms.Session.AUTO_ACKNOWLEDGE).createQueue("q")
        return connection.createConnectionConsumer(queue, None, _Pool(), 1)

    def _make_QueueSession(self) -> Any:
        return self._connection("Queue").createQueueSession(False, pyjms.Session.AUTO_ACKNOWLEDGE)

    def _make_QueueReceiver(self) -> Any:
        session = self._make_QueueSession()
        return session.createReceiver(session.createQueue("q"))

    def _make_QueueSender(self) -> Any:
        session = self._make_QueueSession()
        return session.createSender(session.createQueue("q"))

    def _make_QueueRequestor(self) -> Any:
        session = self._make_QueueSession()
        return pyjms.QueueRequestor(session, session.createQueue("q"))

    def _make_TopicSession(self) -> Any:
        return self._connection("Topic").createTopicSession(False, pyjms.Session.AUTO_ACKNOWLEDGE)

    def _make_TopicSubscriber(self) -> Any:
        session = self._make_TopicSession()
        return session.createSubscriber(session.createTopic("t"))

    def _make_TopicPublisher(self) -> Any:
        session = self._make_TopicSession()
        return session.createPublisher(session.createTopic("t"))

    def _make_TopicRequestor(self) -> Any:
        session = self._make_TopicSession()
        return pyjms.TopicRequestor(session, session.createTopic("t"))

    def _xa(self, name: str) -> Any:
        """Return an XA object. The factories exist in any case; they refuse connections without `Capability.XA`."""
        if name.endswith("Factory"):
            return getattr(pyjms, name)(self.url)
        domain = name.removesuffix("Connection").removesuffix("Session")  # XA, XAQueue or XATopic
        factory = getattr(pyjms, f"{domain}ConnectionFactory")(self.url)
        connection = getattr(factory, f"create{domain}Connection")()
        self._closing.append(connection)
        return connection if name.endswith("Connection") else getattr(connection, f"create{domain}Session")()
