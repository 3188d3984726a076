"""Fixtures for the tests of the message model: sending a message and receiving it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from pyjms import Message, Queue, Session
from pyjms_tck.environment import Waits

_Message = TypeVar("_Message", bound=Message)

RoundTrip = Callable[[_Message], _Message]


@pytest.fixture
def roundtrip(session: Session, queue: Queue, waits: Waits) -> Callable[[Any], Any]:
    """Send a message to a queue and return the received one."""
    producer = session.create_producer(queue)
    consumer = session.create_consumer(queue)

    def send_and_receive(message: Any) -> Any:
        producer.send(message)
        received = consumer.receive(waits.something_ms)
        assert received is not None, f"a {type(message).__name__} was sent and not received in {waits.something_ms} ms"
        return received

    return send_and_receive


@pytest.fixture
def receive(session: Session, queue: Queue, waits: Waits) -> Callable[[], Any]:
    """Receive the next message of `queue`."""
    consumer = session.create_consumer(queue)

    def receive_next() -> Any:
        message = consumer.receive(waits.something_ms)
        assert message is not None, f"a message was sent and not received in {waits.something_ms} ms"
        return message

    return receive_next
