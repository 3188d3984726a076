"""Orders whose every field follows from their number, so that any of them can be judged alone, wherever it came to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pyjms import Message, Session, TextMessage
from pyjms.types import Byte, Double, Float, Int, Long, Short
from tests.pyjms.spark.messages_of import session_of

__all__ = ["facts_of", "fill", "order", "take_all"]

_TOGETHER = 1_000
Facts = tuple[str, str | None, str | None, int, tuple[tuple[str, str, object], ...]]


def order(number: int) -> Facts:
    """Return the facts of an order: text, type, correlation id, priority, and the properties with the names of their types."""
    properties: dict[str, object] = {
        "number": Int(number),
        "cups": Byte(number % 7 + 1),
        "place": Short(number % 300 - 150),
        "far": Long(2**53 + number),
        "price": Double(number % 1000 / 8),
        "ratio": Float(number % 16 / 16),
        "hot": number % 3 == 0,
        "shop": f"shop-{number % 5} \N{HOT BEVERAGE}",
    }
    text = json.dumps({"number": number, "what": "espresso" * (number % 4)})
    return text, ("order", "express")[number % 10 == 0], f"c-{number}", 3 + number % 3, _typed(properties)


def fill(url: str, queue: str, count: int, *, first: int = 0) -> None:
    """Send orders, the first ones or those from `first` on, in transactions of a thousand."""
    with session_of(url, transacted=True) as session:
        producer = session.create_producer(session.create_queue(queue))
        for number in range(first, first + count):
            producer.send(_message(session, order(number)), 2, order(number)[3], 0)
            if number % _TOGETHER == _TOGETHER - 1:
                session.commit()
        session.commit()


def take_all(url: str, queue: str) -> Iterator[Facts]:
    """Receive what is in a queue; our broker says when that is nothing."""
    with session_of(url, transacted=True) as session:
        consumer = session.create_consumer(session.create_queue(queue))
        count = 0
        while (message := consumer.receive_no_wait()) is not None:
            yield facts_of(message)
            count += 1
            if count % _TOGETHER == 0:
                session.commit()
        session.commit()


def facts_of(message: Message) -> Facts:
    """Return what a client sees of a message, in the form of `order`."""
    assert isinstance(message, TextMessage)
    names = [str(name) for name in message.property_names if not str(name).startswith("JMS")]
    properties = {name: message.get_object_property(name) for name in names}
    return message.text or "", message.jms_type, message.jms_correlation_id, message.jms_priority, _typed(properties)


def _message(session: Session, facts: Facts) -> Message:
    text, kind, correlation, _, properties = facts
    message = session.create_text_message(text)
    message.jms_type, message.jms_correlation_id = kind, correlation
    for name, _, value in properties:
        message.set_object_property(name, value)  # type: ignore[arg-type]  # a value with one of Java's types
    return message


def _typed(properties: Mapping[str, object]) -> tuple[tuple[str, str, object], ...]:
    return tuple((name, type(value).__name__, value) for name, value in sorted(properties.items()))
