"""Concurrent processing of one subscription by an application server's sessions (JMS 1.1 §8.2)."""

from __future__ import annotations

from abc import abstractmethod

from pyjms.api.closing import Closeable
from pyjms.api.names import Interface
from pyjms.api.session import Session


class ServerSession(Interface, declares=True):
    """A session together with the thread that the application server runs it on (§8.2.2)."""

    __slots__ = ()

    @property
    @abstractmethod
    def session(self) -> Session:
        """The session that messages are loaded into."""

    @abstractmethod
    def start(self) -> None:
        """Have the session's `Session.run` called on this server session's thread; returns without waiting for it."""


class ServerSessionPool(Interface, declares=True):
    """Where a connection consumer gets its server sessions from; the application server implements it (§8.2.3)."""

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
        """The pool that it takes sessions from."""

    @abstractmethod
    def close(self) -> None:
        """End consuming and give back what the consumer holds. Closing twice does nothing."""
