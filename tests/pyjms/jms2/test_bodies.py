"""`get_body` and `is_body_assignable_to`, before a send and after it (JMS 2.0 §3.10)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from pyjms import (
    ConnectionFactory,
    IllegalArgumentException,
    Message,
    MessageFormatException,
    MessageNotWriteableException,
    Session,
    UnsupportedOperationException,
)
from tests.pyjms.messages.foreign import JavaTextMessage
from tests.pyjms.runtime.helpers import take


@dataclass
class Order:
    cups: int


class BigOrder(Order):
    pass


class ForTypeCheckers(Protocol):
    cups: int


Make = Callable[[Session], Message]


def text(session: Session) -> Message:
    return session.create_text_message("espresso")


def empty_text(session: Session) -> Message:
    return session.create_text_message("")


def bytes_(session: Session) -> Message:
    message = session.create_bytes_message()
    message.write_bytes(b"abc")
    return message


def map_(session: Session) -> Message:
    message = session.create_map_message()
    message.set_int("a", 1)
    message.set_string("b", "two")
    message.set_bytes("c", b"3")
    return message


def object_(session: Session) -> Message:
    return session.create_object_message(BigOrder(2))


def number(session: Session) -> Message:
    return session.create_object_message(5)


def stream(session: Session) -> Message:
    message = session.create_stream_message()
    message.write_int(1)
    return message


BODIES: list[tuple[Make, object, list[Any], list[Any]]] = [
    (text, "espresso", [str, object, Any, Sequence, Hashable], [bytes, int, dict, Mapping]),
    (empty_text, "", [str, object], [bytes, dict]),
    (bytes_, b"abc", [bytes, object, Sequence], [str, bytearray, dict]),
    (
        map_,
        {"a": 1, "b": "two", "c": b"3"},
        [dict, Mapping, MutableMapping, Collection, object, dict[str, object], Mapping[str, Any]],
        [str, list],
    ),
    (object_, BigOrder(2), [BigOrder, Order, object], [str, int, ForTypeCheckers]),
    (number, 5, [int, object], [str, bool, float]),
]
BODILESS: list[Make] = [
    lambda session: session.create_message(),
    lambda session: session.create_text_message(None),
    lambda session: session.create_object_message(None),
]
CLASSES: list[Any] = [str, bytes, dict, Mapping, Order, object]


@pytest.fixture(params=["new", "sent", "received"])
def state(request: pytest.FixtureRequest, name: str, broker_url: str) -> Iterator[Callable[[Make], Message]]:
    """Return what makes a message, sends it, and receives it, as far as the parameter says."""
    connection = ConnectionFactory(broker_url, trusted=[f"{__name__}.*"]).create_connection()
    connection.start()
    session = connection.create_session()
    queue = session.create_queue(name)
    producer, consumer = session.create_producer(queue), session.create_consumer(queue)

    def make(maker: Make) -> Message:
        message = maker(session)
        if request.param == "new":
            return message
        producer.send(message)
        received = take(consumer)
        return message if request.param == "sent" else received

    yield make
    connection.close()


@pytest.mark.parametrize(("maker", "body", "fitting", "others"), BODIES)
def test_a_body_is_had_as_each_class_that_it_is_of(
    state: Callable[[Make], Message], maker: Make, body: object, fitting: list[Any], others: list[Any]
) -> None:
    message = state(maker)
    for kind in fitting:
        assert message.is_body_assignable_to(kind) is message.isBodyAssignableTo(kind) is True
        assert message.get_body(kind) == message.getBody(kind) == body
    for kind in others:
        assert message.is_body_assignable_to(kind) is False
        with pytest.raises(MessageFormatException):
            message.get_body(kind)


@pytest.mark.parametrize("maker", BODILESS, ids=["message", "text", "object"])
def test_no_body_is_of_every_class(state: Callable[[Make], Message], maker: Make) -> None:
    message = state(maker)
    for kind in CLASSES:
        assert message.is_body_assignable_to(kind) is True
        assert message.get_body(kind) is None


def test_a_stream_has_no_body_as_a_whole(state: Callable[[Make], Message]) -> None:
    for maker in (stream, lambda session: session.create_stream_message()):
        message = state(maker)
        for kind in CLASSES:
            assert message.is_body_assignable_to(kind) is False
            with pytest.raises(MessageFormatException):
                message.get_body(kind)


def test_empty_bytes_and_an_empty_map_are_bodies(state: Callable[[Make], Message]) -> None:
    message = state(lambda session: session.create_bytes_message())
    assert message.get_body(bytes) == b""
    assert not message.is_body_assignable_to(str)
    message = state(lambda session: session.create_map_message())
    assert message.get_body(dict) == {}
    assert not message.is_body_assignable_to(str)


@pytest.mark.parametrize("maker", [text, bytes_, map_, object_, stream, BODILESS[0]])
@pytest.mark.parametrize("wrong", [None, "str", 5, b"bytes"])
def test_what_is_no_class_is_refused(state: Callable[[Make], Message], maker: Make, wrong: Any) -> None:
    message = state(maker)
    with pytest.raises(IllegalArgumentException):
        message.get_body(wrong)
    with pytest.raises(IllegalArgumentException):
        message.is_body_assignable_to(wrong)


def test_bytes_are_reset_before_and_after(state: Callable[[Make], Message]) -> None:
    message: Any = state(bytes_)
    assert message.get_body(bytes) == b"abc"
    assert message.read_byte() == ord("a")
    assert message.get_body(bytes) == b"abc"
    assert message.read_byte() == ord("a")
    with pytest.raises(MessageNotWriteableException):
        message.write_byte(1)
    message.clear_body()
    message.write_byte(1)
    assert message.get_body(bytes) == b"\1"


def test_a_map_is_a_copy(state: Callable[[Make], Message]) -> None:
    message: Any = state(map_)
    found = message.get_body(dict)
    found["a"] = 2
    assert message.get_body(dict)["a"] == 1
    message.clear_body()
    message.set_int("a", 3)
    assert found["a"] == 2


def test_an_object_is_a_copy(state: Callable[[Make], Message]) -> None:
    message = state(object_)
    first, second = message.get_body(Order), message.get_body(Order)
    assert first == second
    assert first is not second


def test_an_object_that_is_not_trusted_is_of_no_class(broker_url: str, name: str) -> None:
    # In this process an object need not be trusted: it is the program's own.
    with ConnectionFactory(broker_url).create_connection() as connection:
        connection.start()
        session = connection.create_session()
        queue = session.create_queue(name)
        session.create_producer(queue).send(session.create_object_message(BigOrder(2)))
        message = take(session.create_consumer(queue))
        if broker_url.startswith("vm://"):
            assert message.get_body(Order) == BigOrder(2)
            return
        for kind in (Order, object):
            assert message.is_body_assignable_to(kind) is False
            with pytest.raises(MessageFormatException):
                message.get_body(kind)


def test_a_message_of_an_application_written_for_jms_1_1_can_be_sent(broker_url: str, name: str) -> None:
    with ConnectionFactory(broker_url).create_connection() as connection:
        connection.start()
        session = connection.create_session()
        queue = session.create_queue(name)
        message: Any = JavaTextMessage()
        message.text = "of an application"
        session.create_producer(queue).send(message)
        assert take(session.create_consumer(queue)).get_body(str) == "of an application"
        with pytest.raises(UnsupportedOperationException):
            message.getJMSDeliveryTime()
        with pytest.raises(UnsupportedOperationException):
            _ = message.jms_delivery_time
        for call in (message.get_body, message.is_body_assignable_to):
            with pytest.raises(UnsupportedOperationException):
                call(str)


class LaterTextMessage(JavaTextMessage):
    """A message of an application that was written for JMS 2.0."""

    delivery_time = 0

    def getJMSDeliveryTime(self) -> int:
        return self.delivery_time

    def setJMSDeliveryTime(self, value: int) -> None:
        self.delivery_time = value


def test_a_message_of_an_application_has_its_delivery_time_after_the_send(broker_url: str, name: str) -> None:
    with ConnectionFactory(broker_url).create_connection() as connection:
        session = connection.create_session()
        message: Any = LaterTextMessage()
        producer = session.create_producer(session.create_queue(name))
        producer.delivery_delay = 5
        producer.send(message)
        assert message.jms_delivery_time == message.getJMSDeliveryTime() == message.jms_timestamp + 5
