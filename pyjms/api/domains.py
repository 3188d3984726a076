"""The point-to-point (JMS 1.1 §5) and publish/subscribe (§6) interfaces, older than the common ones and equal to them.

An object of one domain refuses what belongs to the other: `IllegalStateException` (§4.11).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, overload

from pyjms.api.connection import Connection, ConnectionFactory
from pyjms.api.consumer import MessageConsumer
from pyjms.api.destination import Destination, Queue, Topic
from pyjms.api.message import Message
from pyjms.api.producer import MessageProducer
from pyjms.api.server_sessions import ConnectionConsumer, ServerSessionPool
from pyjms.api.session import AcknowledgeMode, Session


class QueueReceiver(MessageConsumer, declares=True):
    """A consumer of a queue (§5.8)."""

    __slots__ = ()

    @property
    @abstractmethod
    def queue(self) -> Queue:
        """The queue whose messages it receives."""


class QueueSender(MessageProducer, declares=True):
    """A producer for queues (§5.7)."""

    __slots__ = ()

    @property
    @abstractmethod
    def queue(self) -> Queue | None:
        """The queue it sends to; None if each call names its queue."""

    @overload
    @abstractmethod
    def send(
        self,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        destination: Destination,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    def send(
        self,
        queue: Queue,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @abstractmethod
    def send(self, *arguments: Any, **named: Any) -> None:
        """Send a message, as `MessageProducer.send`; the destination may be called `queue`."""


class QueueSession(Session, declares=True):
    """A session of the point-to-point domain (§5.7).

    `create_durable_subscriber`, `create_temporary_topic`, `create_topic`, `unsubscribe` raise `IllegalStateException`.
    """

    __slots__ = ()

    @abstractmethod
    def create_receiver(self, queue: Queue, message_selector: str | None = None) -> QueueReceiver:
        """Return a receiver of the messages of `queue` that `message_selector` chooses; None or "": all (§5.8).

        Raises `InvalidDestinationException`, `InvalidSelectorException`.
        """

    @abstractmethod
    def create_sender(self, queue: Queue | None = None) -> QueueSender:
        """Return a sender to `queue`; None: each `send` will name its own. Raises `InvalidDestinationException`."""


class QueueConnection(Connection, declares=True):
    """A connection of the point-to-point domain (§5.6).

    `create_durable_connection_consumer` raises `IllegalStateException`.
    """

    __slots__ = ()

    @abstractmethod
    def create_queue_session(
        self, transacted: bool = False, acknowledge_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> QueueSession:
        """Return a new session, as `Connection.create_session`."""

    @overload
    @abstractmethod
    def create_connection_consumer(
        self, queue: Queue, message_selector: str | None, session_pool: ServerSessionPool, max_messages: int
    ) -> ConnectionConsumer: ...

    @overload
    @abstractmethod
    def create_connection_consumer(
        self, destination: Destination, message_selector: str | None, session_pool: ServerSessionPool, max_messages: int
    ) -> ConnectionConsumer: ...

    @abstractmethod
    def create_connection_consumer(self, *arguments: Any, **named: Any) -> ConnectionConsumer:
        """Return a consumer of a queue for a pool of sessions, as `Connection.create_connection_consumer` (§8.2.4)."""


class QueueConnectionFactory(ConnectionFactory, declares=True):
    """Makes connections of the point-to-point domain (§5.5)."""

    __slots__ = ()

    @abstractmethod
    def create_queue_connection(self, user_name: str | None = None, password: str | None = None) -> QueueConnection:
        """Return a new, stopped connection, as `ConnectionFactory.create_connection` (§4.3.1)."""


class TopicSubscriber(MessageConsumer, declares=True):
    """A consumer of a topic (§6.11)."""

    __slots__ = ()

    @property
    @abstractmethod
    def topic(self) -> Topic:
        """The topic it subscribes to."""

    @property
    @abstractmethod
    def no_local(self) -> bool:
        """Whether it leaves out what its own connection published."""


class TopicPublisher(MessageProducer, declares=True):
    """A producer for topics (§6.10)."""

    __slots__ = ()

    @property
    @abstractmethod
    def topic(self) -> Topic | None:
        """The topic it publishes to; None if each call names its topic."""

    @overload
    @abstractmethod
    def publish(
        self,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @overload
    @abstractmethod
    def publish(
        self,
        topic: Topic,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @abstractmethod
    def publish(self, *arguments: Any, **named: Any) -> None:
        """Send a message, as `MessageProducer.send`; the destination is called `topic`."""


class TopicSession(Session, declares=True):
    """A session of the publish/subscribe domain (§6.9).

    `create_browser`, `create_queue` and `create_temporary_queue` raise `IllegalStateException`.
    """

    __slots__ = ()

    @abstractmethod
    def create_subscriber(
        self, topic: Topic, message_selector: str | None = None, no_local: bool = False
    ) -> TopicSubscriber:
        """Return a subscriber that gets what is published while it is open, as `Session.create_consumer` (§6.11).

        Raises `InvalidDestinationException`, `InvalidSelectorException`.
        """

    @abstractmethod
    def create_publisher(self, topic: Topic | None = None) -> TopicPublisher:
        """Return a publisher to `topic`; None: each `publish` names its own. Raises `InvalidDestinationException`."""


class TopicConnection(Connection, declares=True):
    """A connection of the publish/subscribe domain (§6.8)."""

    __slots__ = ()

    @abstractmethod
    def create_topic_session(
        self, transacted: bool = False, acknowledge_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> TopicSession:
        """Return a new session, as `Connection.create_session`."""

    @overload
    @abstractmethod
    def create_connection_consumer(
        self, topic: Topic, message_selector: str | None, session_pool: ServerSessionPool, max_messages: int
    ) -> ConnectionConsumer: ...

    @overload
    @abstractmethod
    def create_connection_consumer(
        self, destination: Destination, message_selector: str | None, session_pool: ServerSessionPool, max_messages: int
    ) -> ConnectionConsumer: ...

    @abstractmethod
    def create_connection_consumer(self, *arguments: Any, **named: Any) -> ConnectionConsumer:
        """Return a consumer of a topic for a pool of sessions, as `Connection.create_connection_consumer` (§8.2.4)."""


class TopicConnectionFactory(ConnectionFactory, declares=True):
    """Makes connections of the publish/subscribe domain (§6.7)."""

    __slots__ = ()

    @abstractmethod
    def create_topic_connection(self, user_name: str | None = None, password: str | None = None) -> TopicConnection:
        """Return a new, stopped connection, as `ConnectionFactory.create_connection` (§4.3.1)."""
