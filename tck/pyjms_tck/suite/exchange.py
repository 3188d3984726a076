"""Common steps of conformance tests: send texts, receive them, check that nothing more arrives, and listen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event
from types import TracebackType
from typing import Any, Self, TypeVar

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    Destination,
    InvalidDestinationException,
    JMSException,
    Message,
    MessageConsumer,
    MessageListener,
    Session,
    TextMessage,
    TopicConnection,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeName
from pyjms_tck.requirements import needs

NO_DESTINATION: Any = None
"""A destination that no provider understands."""
INVALID_SELECTOR = "=TEST 'test'"
"""A selector that breaks the grammar of section 3.8.1."""


def send_texts(session: Session, destination: Destination, *texts: str) -> None:
    """Send a text message for each of `texts`, with a producer of `session` that is closed again."""
    with session.create_producer(destination) as producer:
        for text in texts:
            producer.send(session.create_text_message(text))


def send_numbers(session: Session, destination: Destination) -> None:
    """Send 1, 2 and 3, each with its number as the property `number`."""
    producer = session.create_producer(destination)
    for number in (1, 2, 3):
        message = session.create_text_message(str(number))
        message.set_int_property("number", number)
        producer.send(message)


def sent_as(message: TextMessage) -> tuple[str | None, int, int, int | None]:
    """Return text, delivery mode, priority, and the time to live, None for ever."""
    expires = message.jms_expiration
    life_ms = expires - message.jms_timestamp if expires else None
    return message.text, message.jms_delivery_mode, message.jms_priority, life_ms


def take(consumer: MessageConsumer, waits: Waits, what: str = "a message") -> TextMessage:
    """Return the next message, which must be a text. Raises AssertionError if it does not arrive in time."""
    message = consumer.receive(waits.something_ms)
    assert message is not None, f"expected {what}, but none came within {waits.something_ms} ms"
    assert isinstance(message, TextMessage), f"expected a text message, got {type(message).__name__}"
    return message


def take_texts(consumer: MessageConsumer, waits: Waits, count: int) -> list[str | None]:
    """Return the texts of the next `count` messages, or of fewer if one does not arrive in time."""
    texts: list[str | None] = []
    # The texts so far are returned when a message is late: the comparison in the test then shows which one is missing.
    while len(texts) < count and (message := consumer.receive(waits.something_ms)) is not None:
        texts.append(text_of(message))
    return texts


def leftovers(consumer: MessageConsumer, waits: Waits) -> list[str | None]:
    """Return the texts of unexpected messages; [] if none arrives within `nothing_ms`."""
    texts: list[str | None] = []
    # A provider that delivers without end fails the test, and does not hang it.
    while len(texts) < 100 and (message := consumer.receive(waits.nothing_ms)) is not None:
        texts.append(text_of(message))
    return texts


def text_of(message: Message) -> str | None:
    """Return the text of a text message, or the name of another message's class."""
    return message.text if isinstance(message, TextMessage) else f"<{type(message).__name__}>"


class Collector(MessageListener):
    """A listener that stores its messages, and calls `also` with each."""

    def __init__(self, also: Callable[[Message], object] | None = None) -> None:
        self.messages: list[Message] = []
        self._also = also

    def on_message(self, message: Message) -> None:
        # Kept before `also` is called, so that a message whose listener raises is counted, too.
        self.messages.append(message)
        if self._also is not None:
            self._also(message)

    @property
    def texts(self) -> list[str | None]:
        """The texts of all messages so far."""
        return [text_of(message) for message in self.messages]

    def wait_for(self, count: int, waits: Waits) -> list[str | None]:
        """Return the texts when there are `count` of them. Raises AssertionError if that takes too long."""
        waits.until(lambda: len(self.messages) >= count, f"the listener had been called {count} times")
        return self.texts


class Holding(MessageListener):
    """A listener that stays in its first call until `release`, or until the end of the ``with`` block.

    `meanwhile` is called before the first call returns; `error` has its exception.
    """

    def __init__(self, waits: Waits, meanwhile: Callable[[Message], object] | None = None) -> None:
        self.entered = Event()
        self.returned = Event()
        self.texts: list[str | None] = []
        self.error: Exception | None = None
        self._released = Event()
        self._waits = waits
        self._meanwhile = meanwhile

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def on_message(self, message: Message) -> None:
        self.texts.append(text_of(message))
        if self.returned.is_set():
            return
        self.entered.set()
        # With a limit: a test that fails before `release` must not hold the
        # provider's thread, for which close would wait.
        self._released.wait(self._waits.something_ms / 1000)
        try:
            if self._meanwhile is not None:
                self._meanwhile(message)
        except Exception as error:  # passed to the test: an exception of a listener has a meaning of its own
            self.error = error
        self.returned.set()

    def wait_until_entered(self) -> None:
        """Return when the first call has started. Raises AssertionError if none starts in time."""
        assert self.entered.wait(self._waits.something_ms / 1000), (
            f"expected a call of the listener, but none came within {self._waits.something_ms} ms"
        )

    def release(self) -> None:
        """Let the first call return."""
        self._released.set()


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
        # First: two connections cannot have one client identifier.
        self.close()
        connection = connect()
        # Before the identifier is set: if that is refused, `close` still ends the new connection.
        self._connection = connection
        # Before any other use of the connection (§4.3.2).
        connection.client_id = self.client_id
        connection.start()
        return connection

    def close(self) -> None:
        """Close the connection that is open, if any."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def forget(self) -> None:
        """Delete all subscriptions. If that fails, the provider keeps unused ones."""
        # `open` closes the client's connection first: a subscription with an
        # active subscriber cannot be deleted (§6.11.1).
        with suppress(JMSException), self.open() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            for name in self._names:
                with suppress(InvalidDestinationException):
                    session.unsubscribe(name)
        self._connection = None


in_each_mode = pytest.mark.parametrize(
    ("transacted", "asked", "mode"),
    [
        (False, Session.AUTO_ACKNOWLEDGE, 1),
        (False, Session.CLIENT_ACKNOWLEDGE, 2),
        (False, Session.DUPS_OK_ACKNOWLEDGE, 3),
        pytest.param(True, Session.AUTO_ACKNOWLEDGE, 0, marks=needs("TRANSACTIONS")),
        pytest.param(True, Session.CLIENT_ACKNOWLEDGE, 0, marks=needs("TRANSACTIONS")),
    ],
)
"""Runs a test with the arguments of `createSession`, and the number that `getAcknowledgeMode` must return."""
