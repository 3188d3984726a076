"""Messages, transactions and acknowledgement of contexts (20.9)."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import (
    BytesMessage,
    IllegalStateRuntimeException,
    InvalidDestinationRuntimeException,
    InvalidSelectorRuntimeException,
    JMSConsumer,
    JMSContext,
    MapMessage,
    Message,
    ObjectMessage,
    Queue,
    StreamMessage,
    TextMessage,
    Topic,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeName
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_20.conftest import MakeContext
from pyjms_tck.suite.exchange import INVALID_SELECTOR, NO_DESTINATION


@requirement("20.9-a")
@pytest.mark.parametrize(
    ("method", "arguments", "kind", "body"),
    [
        ("createMessage", (), Message, None),
        ("createTextMessage", (), TextMessage, None),
        ("createTextMessage", ("text",), TextMessage, "text"),
        ("createBytesMessage", (), BytesMessage, None),
        ("createMapMessage", (), MapMessage, None),
        ("createStreamMessage", (), StreamMessage, None),
        ("createObjectMessage", (), ObjectMessage, None),
        ("createObjectMessage", ([1, 2],), ObjectMessage, [1, 2]),
    ],
)
def test_20_9_a_a_context_makes_messages(
    context: JMSContext, method: str, arguments: tuple[Any, ...], kind: type[Any], body: Any
) -> None:
    made = getattr(context, method)(*arguments)
    assert isinstance(made, kind)
    if arguments:
        assert made.get_body(type(body)) == body


@requirement("20.9-b")
def test_20_9_b_a_context_names_destinations(context: JMSContext, queue: Queue) -> None:
    made = context.createQueue(queue.queue_name)
    assert (made.queue_name, made) == (queue.queue_name, queue)


@requirement("20.9-b")
@needs("TOPICS")
def test_20_9_b_a_context_names_topics(context: JMSContext, topic: Topic) -> None:
    assert context.create_topic(topic.topic_name) == topic


@requirement("20.9-c")
@pytest.mark.parametrize(
    "method", ["createTemporaryQueue", pytest.param("createTemporaryTopic", marks=needs("TOPICS"))]
)
def test_20_9_c_a_context_makes_temporary_destinations(context: JMSContext, waits: Waits, method: str) -> None:
    made = getattr(context, method)()
    consumer = context.create_consumer(made)
    context.create_producer().send(made, "text")
    assert consumer.receive_body(str, waits.something_ms) == "text"


@requirement("20.9-d")
def test_20_9_d_commit_has_a_transaction_take_effect(make_context: MakeContext, queue: Queue, waits: Waits) -> None:
    context, other = make_context(JMSContext.SESSION_TRANSACTED), make_context()
    consumer = other.create_consumer(queue)
    context.create_producer().send(queue, "text")
    assert consumer.receive(waits.nothing_ms) is None
    context.commit()
    assert consumer.receive_body(str, waits.something_ms) == "text"


@requirement("20.9-e")
def test_20_9_e_rollback_undoes_a_transaction(make_context: MakeContext, queue: Queue, waits: Waits) -> None:
    context = make_context(JMSContext.SESSION_TRANSACTED)
    make_context().create_producer().send(queue, "received")
    consumer = context.create_consumer(queue)
    assert consumer.receive_body(str, waits.something_ms) == "received"
    context.create_producer().send(queue, "sent")
    context.rollback()
    again = _next(consumer, waits)
    assert (again.get_body(str), again.jms_redelivered) == ("received", True)
    assert consumer.receive(waits.nothing_ms) is None
    context.commit()


def _next(consumer: JMSConsumer, waits: Waits) -> Message:
    message = consumer.receive(waits.something_ms)
    assert message is not None, "a message came"
    return message


@requirement("20.9-f")
def test_20_9_f_recover_delivers_again(make_context: MakeContext, queue: Queue, waits: Waits) -> None:
    context = make_context(JMSContext.CLIENT_ACKNOWLEDGE)
    for text in ("one", "two"):
        context.create_producer().send(queue, text)
    consumer = context.create_consumer(queue)
    assert [_next(consumer, waits).get_body(str) for _ in range(2)] == ["one", "two"]
    context.recover()
    again = [_next(consumer, waits) for _ in range(2)]
    assert [(message.get_body(str), message.jms_redelivered) for message in again] == [("one", True), ("two", True)]
    context.acknowledge()


@requirement("20.9-g")
def test_20_9_g_acknowledge_is_of_all_that_was_consumed(make_context: MakeContext, queue: Queue, waits: Waits) -> None:
    context = make_context(JMSContext.CLIENT_ACKNOWLEDGE)
    for text in ("one", "two"):
        context.create_producer().send(queue, text)
    consumer = context.create_consumer(queue)
    for _ in range(2):
        _next(consumer, waits)
    context.acknowledge()
    context.recover()
    assert consumer.receive(waits.nothing_ms) is None


@requirement("20.9-g")
@pytest.mark.parametrize(
    "mode", [JMSContext.AUTO_ACKNOWLEDGE, pytest.param(JMSContext.SESSION_TRANSACTED, marks=needs("TRANSACTIONS"))]
)
def test_20_9_g_acknowledge_does_nothing_in_other_modes(
    make_context: MakeContext, queue: Queue, waits: Waits, mode: int
) -> None:
    make_context().create_producer().send(queue, "text")
    context = make_context(mode)
    consumer = context.create_consumer(queue)
    message = _next(consumer, waits)
    context.acknowledge()
    assert message.get_body(str) == "text"
    if mode == JMSContext.SESSION_TRANSACTED:
        context.rollback()
        assert _next(consumer, waits).jms_redelivered, "it was not acknowledged"


@requirement("20.9-h")
@needs("TRANSACTIONS")
def test_20_9_h_a_transaction_ends_by_commit_and_rollback_alone(make_context: MakeContext) -> None:
    plain, transacted = make_context(), make_context(JMSContext.SESSION_TRANSACTED)
    for call in (plain.commit, plain.rollback, transacted.recover):
        with pytest.raises(IllegalStateRuntimeException):
            call()


@requirement("20.9-i")
def test_20_9_i_a_context_browses_a_queue(context: JMSContext, queue: Queue) -> None:
    for number in (1, 2):
        context.create_producer().set_property("number", number).send(queue, str(number))
    texts = [message.get_body(str) for message in context.create_browser(queue).enumeration]
    assert texts == ["1", "2"]


@requirement("20.9-i")
@needs("SELECTORS")
def test_20_9_i_a_context_browses_what_a_selector_lets_through(context: JMSContext, queue: Queue) -> None:
    for number in (1, 2):
        context.create_producer().set_property("number", number).send(queue, str(number))
    browser = context.createBrowser(queue, "number = 2")
    assert [message.get_body(str) for message in browser.enumeration] == ["2"]


@requirement("20.9-j")
@pytest.mark.parametrize("more", [(), ("TRUE",)], ids=["short", "long"])
def test_20_9_j_a_browser_needs_a_queue(context: JMSContext, more: tuple[str, ...]) -> None:
    with pytest.raises(InvalidDestinationRuntimeException):
        context.create_browser(NO_DESTINATION, *more)


@requirement("20.9-j")
@needs("SELECTORS")
def test_20_9_j_a_browser_needs_a_valid_selector(context: JMSContext, queue: Queue) -> None:
    with pytest.raises(InvalidSelectorRuntimeException):
        context.create_browser(queue, INVALID_SELECTOR)


@requirement("20.9-k")
def test_20_9_k_unsubscribe_ends_a_subscription(
    make_context: MakeContext, make_name: MakeName, topic: Topic, waits: Waits
) -> None:
    context = make_context()
    context.client_id = make_name("client")
    name = make_name("subscription")
    context.create_durable_consumer(topic, name).close()
    make_context().create_producer().send(topic, "text")
    context.unsubscribe(name)
    consumer = context.create_durable_consumer(topic, name)
    assert consumer.receive(waits.nothing_ms) is None
    consumer.close()
    context.unsubscribe(name)
    with pytest.raises(InvalidDestinationRuntimeException):
        context.unsubscribe(name)
