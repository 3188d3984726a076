"""Connection factories (JMS 1.1 §4.2), those of one domain (§5, §6), and the contexts that they make (JMS 2.0)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, overload

from pyjms.api.connection import Connection, QueueConnection, TopicConnection
from pyjms.api.context import JMSContext
from pyjms.api.names import Interface
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import UnsupportedOperationException


class ConnectionFactory(Interface, declares=True):
    """The interface of the factories; `pyjms.ConnectionFactory` is the class that an application makes (§4.2).

    May be used by several threads at a time.
    """

    __slots__ = ()

    @abstractmethod
    def create_connection(self, user_name: str | None = None, password: str | None = None) -> Connection:
        """Return a new, stopped connection; without credentials, with those of the factory or of the process (§4.3.1).

        Raises `JMSSecurityException` when the credentials are refused, `InvalidClientIDException` for the factory's
        client identifier, `JMSException` when no connection can be made.
        """

    # Not abstract: a factory of an application may know no more than JMS 1.1.

    @overload
    def create_context(self, session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE) -> JMSContext: ...

    @overload
    def create_context(
        self,
        user_name: str | None,
        password: str | None = None,
        session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE,
    ) -> JMSContext: ...

    def create_context(self, *arguments: Any, **named: Any) -> JMSContext:
        """Return a new context with a connection of its own, stopped until it makes a consumer (JMS 2.0).

        Without credentials it has those of the factory or of the process. `session_mode` is one of `AcknowledgeMode`.

        Raises `JMSSecurityRuntimeException` when the credentials are refused, `InvalidClientIDRuntimeException` for the factory's client
        identifier, `JMSRuntimeException` when no connection can be made, and for any other mode.
        """
        raise UnsupportedOperationException(f"{type(self).__name__} makes no contexts: it implements JMS 1.1")


class QueueConnectionFactory(ConnectionFactory, declares=True):
    """Makes connections of the point-to-point domain (§5.5)."""

    __slots__ = ()

    @abstractmethod
    def create_queue_connection(self, user_name: str | None = None, password: str | None = None) -> QueueConnection:
        """Return a new, stopped connection, as `ConnectionFactory.create_connection` (§4.3.1)."""


class TopicConnectionFactory(ConnectionFactory, declares=True):
    """Makes connections of the publish/subscribe domain (§6.7)."""

    __slots__ = ()

    @abstractmethod
    def create_topic_connection(self, user_name: str | None = None, password: str | None = None) -> TopicConnection:
        """Return a new, stopped connection, as `ConnectionFactory.create_connection` (§4.3.1)."""
