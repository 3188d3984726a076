"""Messages of a broker, put there and looked at without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyjms import ConnectionFactory, Session, TextMessage

AUTO = Session.AUTO_ACKNOWLEDGE


@contextmanager
def session_of(url: str, *, transacted: bool = False) -> Iterator[Session]:
    """Give a session of a connection of its own."""
    connection = ConnectionFactory(url).create_connection()
    try:
        connection.start()
        yield connection.create_session(transacted, AUTO)
    finally:
        connection.close()


def fill(url: str, count: int, *, first: int = 0, queue: str = "orders") -> list[str]:
    """Send numbered texts, and return them."""
    texts = [f"order {number}" for number in range(first, first + count)]
    with session_of(url) as session:
        producer = session.create_producer(session.create_queue(queue))
        for number, text in enumerate(texts, first):
            message = session.create_text_message(text)
            message.set_int_property("number", number)
            producer.send(message)
    return texts


def look(url: str, queue: str) -> list[str]:
    """Return the texts of a queue, which stay there."""
    with session_of(url) as session:
        browser = session.create_browser(session.create_queue(queue))
        return [text_of(message) for message in browser]


def take(url: str, queue: str, count: int, *, wait_ms: int | None = None) -> list[str]:
    """Receive messages, as a competing consumer does: those that are there, or come within `wait_ms`."""
    found: list[str] = []
    with session_of(url) as session:
        consumer = session.create_consumer(session.create_queue(queue))
        while len(found) < count:
            message = consumer.receive_no_wait() if wait_ms is None else consumer.receive(wait_ms)
            if message is None:
                break
            found.append(text_of(message))
    return found


def text_of(message: object) -> str:
    return (message.text or "") if isinstance(message, TextMessage) else type(message).__name__
