"""Consumers of contexts, and bodies received alone (JMS 2.0 §8.5 to §8.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Event
from typing import Any

import pytest

from pyjms import (
    ConnectionFactory,
    IllegalArgumentException,
    IllegalStateRuntimeException,
    JMSConsumer,
    JMSContext,
    JMSRuntimeException,
    MessageFormatException,
    MessageFormatRuntimeException,
    Queue,
)
from tests.pyjms.runtime.contexts import received, received_texts, send_texts
from tests.pyjms.runtime.helpers import PATIENCE_MS, PATIENCE_S, Call, Recorder, delivery_count, text_of

NO_WAIT: Callable[[JMSConsumer, Any], object] = lambda consumer, kind: consumer.receive_body_no_wait(kind)  # noqa: E731
WAITING: list[Callable[[JMSConsumer, Any], object]] = [
    lambda consumer, kind: consumer.receive_body(kind),
    lambda consumer, kind: consumer.receiveBody(kind, PATIENCE_MS),
    lambda consumer, kind: consumer.receive_body(c=kind, timeout=PATIENCE_MS),
]
EVERY_RECEIVE = pytest.mark.parametrize("receive_body", [*WAITING, NO_WAIT], ids=["plain", "timed", "named", "no_wait"])


class Tea:
    """An object of an application."""

    def __init__(self, cups: int) -> None:
        self.cups = cups

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tea) and other.cups == self.cups

    def __hash__(self) -> int:
        return self.cups


class Unreadable:
    """An object that cannot be decoded."""

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    raise OSError("the kettle is broken")


# --------------------------------------------------------------------------------------------------- whole messages


def test_a_message_is_received_in_each_way(each_context: JMSContext) -> None:
    send_texts(each_context, "orders", "a", "b", "c", "d")
    consumer = each_context.create_consumer(each_context.create_queue("orders"))
    first, second = consumer.receive(), consumer.receive(PATIENCE_MS)
    assert (text_of(first), text_of(second)) == ("a", "b")
    assert text_of(consumer.receive_no_wait()) == "c"
    assert text_of(consumer.receive(timeout=PATIENCE_MS)) == "d"
    assert consumer.receive(20) is None
    assert consumer.receive(-1) is None
    assert consumer.receiveNoWait() is None
    with pytest.raises(JMSRuntimeException):
        consumer.receive("soon")  # type: ignore[arg-type]


def test_a_close_ends_a_receive(each_context: JMSContext) -> None:
    with each_context.create_consumer(each_context.create_queue("orders")) as consumer:
        receiving = Call(consumer.receive)
        assert receiving.is_blocked()
    assert receiving.result() is None
    consumer.close()


def test_a_close_ends_a_receive_of_a_body(context: JMSContext) -> None:
    with context.create_consumer(context.create_queue("orders")) as consumer:
        receiving = Call(consumer.receive_body, str)
        assert receiving.is_blocked()
    assert receiving.result() is None


CALLS: dict[str, Any] = {
    "message_selector": lambda consumer: consumer.message_selector,
    "message_listener": lambda consumer: consumer.message_listener,
    "set message_listener": lambda consumer: consumer.setMessageListener(print),
    "receive": lambda consumer: consumer.receive(1),
    "receive_no_wait": lambda consumer: consumer.receive_no_wait(),
    "receive_body": lambda consumer: consumer.receive_body(str, 1),
    "receive_body_no_wait": lambda consumer: consumer.receive_body_no_wait(str),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("what", ["consumer", "context"])
def test_a_closed_consumer_refuses_each_call(jms_connection_factory: ConnectionFactory, call: Any, what: str) -> None:
    context = jms_connection_factory.create_context()
    consumer = context.create_consumer(context.create_queue("orders"))
    {"consumer": consumer, "context": context}[what].close()
    with pytest.raises(IllegalStateRuntimeException):
        call(consumer)
    context.close()
    consumer.close()


def test_each_member_of_a_consumer_is_among_these() -> None:
    assert {name.removeprefix("set ") for name in CALLS} | {"close"} == set(JMSConsumer.java_members)


def test_a_listener_is_returned_as_it_was_set(context: JMSContext) -> None:
    consumer = context.create_consumer(context.create_queue("orders"))
    assert consumer.message_listener is None
    listener = Recorder()
    for given in (listener, print, None):
        consumer.message_listener = given
        assert consumer.getMessageListener() is given
    with pytest.raises(IllegalArgumentException):
        consumer.message_listener = 5  # type: ignore[assignment]


@pytest.mark.parametrize("name", ["receive", "receive_no_wait", "receive_body", "receive_body_no_wait"])
def test_a_consumer_with_a_listener_does_not_receive(context: JMSContext, name: str) -> None:
    consumer = context.create_consumer(context.create_queue("orders"))
    consumer.message_listener = print
    with pytest.raises(IllegalStateRuntimeException):
        CALLS[name](consumer)
    consumer.message_listener = None
    assert CALLS[name](consumer) is None


def test_a_listener_may_close_its_consumer(context: JMSContext) -> None:
    done = Event()
    consumer = context.create_consumer(context.create_queue("orders"))

    def on_message(_: object) -> None:
        consumer.close()
        done.set()

    consumer.message_listener = on_message
    send_texts(context.create_context(1), "orders", "tea", "milk")
    assert done.wait(PATIENCE_S)
    with context.create_context(1) as other:
        assert received_texts(other.create_consumer(other.create_queue("orders")), 1) == ["milk"]


# ------------------------------------------------------------------------------------------------------------- bodies


@EVERY_RECEIVE
def test_each_body_is_received_as_its_class(each_context: JMSContext, receive_body: Any) -> None:
    queue = each_context.create_queue("orders")
    producer = each_context.create_producer()
    consumer = each_context.create_consumer(queue)
    cases: list[tuple[object, Any]] = [
        ("tea", str),
        ("", str),
        ("tea", object),
        (b"abc", bytes),
        (b"abc", object),
        ({"a": 1, "b": "x"}, dict),
        ({"a": 1}, Mapping),
        ({"a": 1}, object),
        ([1, 2], list),
        ([1, 2], object),
    ]
    for body, kind in cases:
        producer.send(queue, body)
        assert receive_body(consumer, kind) == body


def test_an_object_is_received_as_its_class_or_a_base(context: JMSContext) -> None:
    queue = context.create_queue("orders")
    context.create_producer().send(queue, Tea(2)).send(queue, Tea(3)).send(queue, Tea(4))
    consumer = context.create_consumer(queue)
    tea = consumer.receive_body(Tea, PATIENCE_MS)
    assert tea is not None
    assert tea.cups == 2
    assert consumer.receive_body(object, PATIENCE_MS) == Tea(3)
    with pytest.raises(MessageFormatRuntimeException):
        consumer.receive_body(list, PATIENCE_MS)


def test_no_body_comes_when_no_message_comes(each_context: JMSContext) -> None:
    consumer = each_context.create_consumer(each_context.create_queue("orders"))
    assert consumer.receive_body(str, 20) is None
    assert consumer.receive_body(str, -1) is None
    assert consumer.receive_body_no_wait(str) is None


def _send_text(context: JMSContext, queue: Queue) -> None:
    context.create_producer().send(queue, "tea")


def _send_stream(context: JMSContext, queue: Queue) -> None:
    message = context.create_stream_message()
    message.write_string("tea")
    context.create_producer().send(queue, message)


def _send_without_body(context: JMSContext, queue: Queue) -> None:
    context.create_producer().send(queue, None)


def _send_empty_text(context: JMSContext, queue: Queue) -> None:
    context.create_producer().send(queue, context.create_text_message())


def _send_empty_object(context: JMSContext, queue: Queue) -> None:
    context.create_producer().send(queue, context.create_object_message())


def _send_unreadable(context: JMSContext, queue: Queue) -> None:
    context.create_producer().send(queue, Unreadable())


NO_BODY = [
    (_send_text, bytes),
    (_send_text, dict),
    (_send_stream, object),
    (_send_stream, str),
    (_send_without_body, str),
    (_send_without_body, object),
    (_send_empty_text, str),
    (_send_empty_object, object),
    (_send_unreadable, object),
]
EVERY_BAD_BODY = pytest.mark.parametrize(("send", "kind"), NO_BODY)


@EVERY_BAD_BODY
@EVERY_RECEIVE
def test_a_body_that_is_none_of_the_class_is_a_format_exception(
    context: JMSContext, send: Any, kind: Any, receive_body: Any
) -> None:
    queue = context.create_queue("orders")
    consumer = context.create_consumer(queue)
    send(context, queue)
    with pytest.raises(MessageFormatRuntimeException) as caught:
        receive_body(consumer, kind)
    assert isinstance(caught.value.__cause__, MessageFormatException)


@pytest.mark.parametrize("mode", [JMSContext.AUTO_ACKNOWLEDGE, JMSContext.DUPS_OK_ACKNOWLEDGE], ids=["auto", "dups_ok"])
def test_a_message_whose_body_was_refused_is_the_next_one(each_factory: ConnectionFactory, mode: int) -> None:
    with each_factory.create_context(mode) as context:
        send_texts(context, "orders", "tea", "milk")
        consumer = context.create_consumer(context.create_queue("orders"))
        for _ in range(3):
            with pytest.raises(MessageFormatRuntimeException):
                consumer.receive_body(bytes, PATIENCE_MS)
            with pytest.raises(MessageFormatRuntimeException):
                consumer.receive_body_no_wait(bytes)
        message = received(consumer)
        assert (text_of(message), message.jms_redelivered, delivery_count(message)) == ("tea", False, 1)
        assert consumer.receive_body(str, PATIENCE_MS) == "milk"
        with pytest.raises(MessageFormatRuntimeException):
            send_texts(context, "orders", "sugar")
            consumer.receive_body(dict, PATIENCE_MS)
        assert consumer.receive_body(str, PATIENCE_MS) == "sugar"
    # What was received is settled.
    with each_factory.create_context() as context:
        assert context.create_consumer(context.create_queue("orders")).receive(50) is None


@pytest.mark.parametrize("mode", [JMSContext.AUTO_ACKNOWLEDGE, JMSContext.DUPS_OK_ACKNOWLEDGE], ids=["auto", "dups_ok"])
@pytest.mark.parametrize("what", ["consumer", "context"])
def test_a_message_whose_body_was_refused_is_not_lost_by_a_close(
    each_factory: ConnectionFactory, mode: int, what: str
) -> None:
    context = each_factory.create_context(mode)
    send_texts(context, "orders", "tea", "milk")
    consumer = context.create_consumer(context.create_queue("orders"))
    with pytest.raises(MessageFormatRuntimeException):
        consumer.receive_body(bytes, PATIENCE_MS)
    {"consumer": consumer, "context": context}[what].close()
    with each_factory.create_context() as other:
        consumer = other.create_consumer(other.create_queue("orders"))
        messages = [received(consumer), received(consumer)]
        assert [text_of(message) for message in messages] == ["tea", "milk"]
        # As if the failed call had not occurred.
        assert [(message.jms_redelivered, delivery_count(message)) for message in messages] == [(False, 1)] * 2
    context.close()


def test_a_listener_gets_the_message_whose_body_was_refused(context: JMSContext) -> None:
    send_texts(context, "orders", "tea", "milk")
    consumer = context.create_consumer(context.create_queue("orders"))
    with pytest.raises(MessageFormatRuntimeException):
        consumer.receive_body(bytes, PATIENCE_MS)
    listener = Recorder()
    consumer.message_listener = listener
    assert listener.wait_for(2) == ["tea", "milk"]
    assert (listener.redelivered, listener.counts) == ([False, False], [1, 1])


def test_with_client_acknowledgement_a_refused_body_counts_as_received(each_factory: ConnectionFactory) -> None:
    with each_factory.create_context(JMSContext.CLIENT_ACKNOWLEDGE) as context:
        send_texts(context, "orders", "tea", "milk")
        consumer = context.create_consumer(context.create_queue("orders"))
        with pytest.raises(MessageFormatRuntimeException):
            consumer.receive_body(bytes, PATIENCE_MS)
        assert consumer.receive_body(str, PATIENCE_MS) == "milk"
        context.recover()
        messages = [received(consumer), received(consumer)]
        assert [text_of(message) for message in messages] == ["tea", "milk"]
        assert all(message.jms_redelivered and delivery_count(message) == 2 for message in messages)
        with pytest.raises(MessageFormatRuntimeException):
            send_texts(context, "orders", "sugar")
            consumer.receive_body(bytes, PATIENCE_MS)
        context.acknowledge()
    with each_factory.create_context() as context:
        assert context.create_consumer(context.create_queue("orders")).receive(50) is None


def test_in_a_transaction_a_refused_body_counts_as_received(each_factory: ConnectionFactory) -> None:
    with each_factory.create_context(JMSContext.SESSION_TRANSACTED) as context:
        send_texts(context, "orders", "tea", "milk")
        context.commit()
        consumer = context.create_consumer(context.create_queue("orders"))
        with pytest.raises(MessageFormatRuntimeException):
            consumer.receive_body(bytes, PATIENCE_MS)
        assert consumer.receive_body(str, PATIENCE_MS) == "milk"
        context.rollback()
        messages = [received(consumer), received(consumer)]
        assert [text_of(message) for message in messages] == ["tea", "milk"]
        assert all(message.jms_redelivered and delivery_count(message) == 2 for message in messages)
        context.rollback()
        for _ in range(2):
            with pytest.raises(MessageFormatRuntimeException):
                consumer.receive_body(bytes, PATIENCE_MS)
        context.commit()
        assert consumer.receive(50) is None
    with each_factory.create_context() as context:
        assert context.create_consumer(context.create_queue("orders")).receive(50) is None


@EVERY_RECEIVE
@pytest.mark.parametrize("wrong", [None, 5, "str"])
def test_what_is_no_class_is_refused_before_a_message_is_taken(
    jms_connection_factory: ConnectionFactory, receive_body: Any, wrong: Any
) -> None:
    with jms_connection_factory.create_context(JMSContext.CLIENT_ACKNOWLEDGE) as context:
        send_texts(context, "orders", "tea")
        consumer = context.create_consumer(context.create_queue("orders"))
        with pytest.raises(IllegalArgumentException):
            receive_body(consumer, wrong)
        assert consumer.receive_body(str, PATIENCE_MS) == "tea"
