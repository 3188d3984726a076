"""Connections (JMS 1.1 §4.3), those of one domain (§5, §6), and connection consumers (§8.2)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias, overload

from pyjms.api.base import Closeable, Enumeration
from pyjms.api.destination import Destination, Queue, Topic
from pyjms.api.names import Interface
from pyjms.api.session import AcknowledgeMode, QueueSession, Session, TopicSession
from pyjms.errors import JMSException


class ExceptionListener(Interface, declares=True):
    """A listener of an application for problems of a connection (JMS 1.1 §4.3.8)."""

    __slots__ = ()

    @abstractmethod
    def on_exception(self, exception: JMSException) -> None:
        """Handle a problem that no running call reports; one call at a time, on a thread of the connection."""


ExceptionListenerLike: TypeAlias = ExceptionListener | Callable[[JMSException], object]
"""The accepted listeners: an object, or a plain callable of one exception."""


class ConnectionMetaData(Interface, declares=True):
    """The facts about a connection's provider (JMS 1.1 §4.3.7)."""

    __slots__ = ()

    @property
    @abstractmethod
    def jms_version(self) -> str:
        """The version of the JMS API, ``2.0``."""

    @property
    @abstractmethod
    def jms_major_version(self) -> int:
        """The first number of `jms_version`."""

    @property
    @abstractmethod
    def jms_minor_version(self) -> int:
        """The second number of `jms_version`."""

    @property
    @abstractmethod
    def jms_provider_name(self) -> str:
        """The name of the provider."""

    @property
    @abstractmethod
    def provider_version(self) -> str:
        """The version of the provider."""

    @property
    @abstractmethod
    def provider_major_version(self) -> int:
        """The first number of `provider_version`."""

    @property
    @abstractmethod
    def provider_minor_version(self) -> int:
        """The second number of `provider_version`."""

    @property
    @abstractmethod
    def jmsx_property_names(self) -> Enumeration[str]:
        """A new enumeration of the JMSX properties that the connection supports (§3.5.9)."""


class Connection(Closeable, declares=True):
    """A client's open connection to a provider, stopped until `start` (JMS 1.1 §4.3).

    May be used by several threads at a time. Every method but `close` raises `IllegalStateException` once the
    connection is closed.
    """

    __slots__ = ()

    @overload
    @abstractmethod
    def create_session(
        self, transacted: bool = False, acknowledge_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> Session: ...

    @overload
    @abstractmethod
    def create_session(self, session_mode: int) -> Session: ...

    @abstractmethod
    def create_session(self, *arguments: Any, **named: Any) -> Session:
        """Return a new session: of a `session_mode`, or by `transacted` and `acknowledge_mode`; without arguments of AUTO_ACKNOWLEDGE (§4.4).

        `session_mode` is one of `AcknowledgeMode`. `acknowledge_mode` is one of the three others than SESSION_TRANSACTED, ignored if
        `transacted`. Raises `JMSException` for any other mode.
        """

    @property
    @abstractmethod
    def client_id(self) -> str | None:
        """The identifier of the client's durable subscriptions, or None (§4.3.2).

        It is set at most once, before anything else is done with the connection, and not when the factory has set it:
        `IllegalStateException`. Raises `InvalidClientIDException` when it is no identifier or in use by another client.
        """

    @client_id.setter
    @abstractmethod
    def client_id(self, client_id: str) -> None: ...

    @property
    @abstractmethod
    def meta_data(self) -> ConnectionMetaData:
        """The facts about the connection's provider."""

    @property
    @abstractmethod
    def exception_listener(self) -> ExceptionListenerLike | None:
        """The listener for the connection's problems, as it was set, or None (§4.3.8)."""

    @exception_listener.setter
    @abstractmethod
    def exception_listener(self, listener: ExceptionListenerLike | None) -> None: ...

    @abstractmethod
    def start(self) -> None:
        """Start, or resume, the delivery of messages. Does nothing on a started connection (§4.3.3)."""

    @abstractmethod
    def stop(self) -> None:
        """Pause delivery; returns when running listeners have returned. Sending goes on (§4.3.4).

        Does nothing on a stopped connection. Raises `IllegalStateException` when a listener of the connection calls.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection and all objects made from it; pending calls of `receive` return None (§4.3.5).

        Waits for running listeners; transactions in progress are rolled back, temporary destinations removed. Closing
        twice does nothing. Raises `IllegalStateException` when a listener of this connection calls it.
        """

    @abstractmethod
    def create_connection_consumer(
        self,
        destination: Destination,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        """Return a consumer that loads up to `max_messages` at a time into a session of `session_pool` (§8.2.4).

        Raises `InvalidDestinationException`, `InvalidSelectorException`.
        """

    @abstractmethod
    def create_durable_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        """Return such a consumer of a durable subscription (§8.2.4).

        Raises `InvalidDestinationException`, `InvalidSelectorException`; `JMSException` without a name for the subscription;
        `IllegalStateException` in the queue domain, and while the connection has no client identifier (§6.3).
        """

    @abstractmethod
    def create_shared_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        """Return such a consumer of a shared non-durable subscription, as `Session.create_shared_consumer` (JMS 2.0 §8.3.2).

        Raises the same exceptions, and those of `create_connection_consumer`.
        """

    @abstractmethod
    def create_shared_durable_connection_consumer(
        self,
        topic: Topic,
        subscription_name: str,
        message_selector: str | None,
        session_pool: ServerSessionPool,
        max_messages: int,
    ) -> ConnectionConsumer:
        """Return such a consumer of a shared durable subscription, as `Session.create_shared_durable_consumer` (JMS 2.0 §8.3.4).

        Raises the same exceptions, and those of `create_connection_consumer`.
        """


class ServerSession(Interface, declares=True):
    """A session together with the thread on which the application server runs it (§8.2.2)."""

    __slots__ = ()

    @property
    @abstractmethod
    def session(self) -> Session:
        """The session into which messages are loaded."""

    @abstractmethod
    def start(self) -> None:
        """Have the session's `Session.run` called on this server session's thread; returns without waiting for it."""


class ServerSessionPool(Interface, declares=True):
    """The pool from which a connection consumer gets its server sessions; the application server implements it (§8.2.3)."""

    __slots__ = ()

    @abstractmethod
    def get_server_session(self) -> ServerSession:
        """Take a server session out of the pool; may wait until one is free. Raises `JMSException` if there is none."""


class ConnectionConsumer(Closeable, declares=True):
    """A consumer that loads its messages into the sessions of a pool (§8.2.4)."""

    __slots__ = ()

    @property
    @abstractmethod
    def server_session_pool(self) -> ServerSessionPool:
        """The pool from which it takes sessions."""

    @abstractmethod
    def close(self) -> None:
        """Stop consuming and release the messages that the consumer holds. Closing twice does nothing."""


class QueueConnection(Connection, declares=True):
    """A connection of the point-to-point domain (§5.6).

    `create_durable_connection_consumer`, `create_shared_connection_consumer` and `create_shared_durable_connection_consumer` raise
    `IllegalStateException`.
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
