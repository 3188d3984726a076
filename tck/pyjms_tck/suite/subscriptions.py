"""A client with durable subscriptions, which are gone when its test ends, also on a provider that keeps everything."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from pyjms import (
    Connection,
    ConnectionFactory,
    InvalidDestinationException,
    JMSException,
    Session,
    TopicConnection,
)
from pyjms_tck.fixtures import MakeName

_Connection = TypeVar("_Connection", bound=Connection)


class DurableClient:
    """One client identifier, `client_id`, with at most one connection at a time; and names for its subscriptions."""

    def __init__(self, factory: ConnectionFactory, make_name: MakeName) -> None:
        self.client_id = make_name("client")
        self._factory = factory
        self._make_name = make_name
        self._names: list[str] = []
        self._connection: Connection | None = None
        self.name = self.another_name()

    def another_name(self) -> str:
        """Return a name for one more subscription, which is removed after the test."""
        self._names.append(self._make_name("subscription"))
        return self._names[-1]

    def open(self) -> Connection:
        """Close the connection that is open and return a new one, started, with the same client identifier."""
        return self._open(self._factory.create_connection)

    def open_topic(self) -> TopicConnection:
        """As `open`, with a connection of the publish/subscribe domain."""
        return self._open(self._factory.create_topic_connection)

    def _open(self, connect: Callable[[], _Connection]) -> _Connection:
        self.close()
        connection = connect()
        self._connection = connection
        connection.client_id = self.client_id
        connection.start()
        return connection

    def close(self) -> None:
        """Close the connection that is open, if any."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def forget(self) -> None:
        """Unsubscribe everything. Where that fails, the provider keeps what nobody will ask for again."""
        with suppress(JMSException), self.open() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            for name in self._names:
                with suppress(InvalidDestinationException):
                    session.unsubscribe(name)
        self._connection = None
