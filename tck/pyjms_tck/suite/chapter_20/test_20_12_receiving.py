"""JMSConsumer (20.12)."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import (
    IllegalStateRuntimeException,
    JMSConsumer,
    JMSContext,
    Message,
    MessageFormatRuntimeException,
    Queue,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import RunBackground
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_20.conftest import MakeContext
from pyjms_tck.suite.exchange import Collector

BODIES: list[Any] = [("text", str), ({"name": 1}, dict), (b"bytes", bytes), ([1, 2], list)]
by_body = pytest.mark.parametrize(("body", "kind"), BODIES, ids=[kind.__name__ for _, kind in BODIES])


@requirement("20.12-a")
def test_20_12_a_receive_returns_the_next_message(context: JMSContext, queue: Queue, waits: Waits) -> None:
    consumer = context.create_consumer(queue)
    assert consumer.receive(waits.nothing_ms) is None
    context.create_producer().send(queue, "one").send(queue, "two")
    assert [consumer.receive().get_body(str), consumer.receive(waits.something_ms).get_body(str)] == ["one", "two"]  # type: ignore[union-attr]


@requirement("20.12-b")
def test_20_12_b_receive_no_wait_returns_what_is_there(context: JMSContext, queue: Queue, waits: Waits) -> None:
    consumer = context.create_consumer(queue)
    assert consumer.receiveNoWait() is None
    context.create_producer().send(queue, "text")
    found: list[Message] = []

    def is_here() -> bool:
        message = consumer.receive_no_wait()
        if message is not None:
            found.append(message)
        return bool(found)

    waits.until(is_here, "the message was there")
    assert found[0].get_body(str) == "text"


@requirement("20.12-c")
@needs("SELECTORS")
def test_20_12_c_a_consumer_tells_its_selector(context: JMSContext, queue: Queue) -> None:
    assert context.create_consumer(queue, "number = 2").getMessageSelector() == "number = 2"
    assert context.create_consumer(queue).message_selector is None


@requirement("20.12-d")
def test_20_12_d_a_listener_is_called_with_each_message(
    context: JMSContext, make_context: MakeContext, queue: Queue, waits: Waits
) -> None:
    consumer = context.create_consumer(queue)
    assert consumer.message_listener is None
    collector = Collector()
    consumer.setMessageListener(collector)
    assert consumer.getMessageListener() is collector
    make_context().create_producer().send(queue, "one").send(queue, "two")
    assert collector.wait_for(2, waits) == ["one", "two"]


@requirement("20.12-e")
def test_20_12_e_close_ends_a_pending_receive(
    context: JMSContext, queue: Queue, waits: Waits, background: RunBackground
) -> None:
    consumer = context.create_consumer(queue)
    receiving = background(consumer.receive)
    waits.pause()
    assert receiving.is_running
    consumer.close()
    assert receiving.result() is None
    consumer.close()


@requirement("20.12-f")
@by_body
def test_20_12_f_receive_body_returns_the_body(context: JMSContext, queue: Queue, body: Any, kind: type[Any]) -> None:
    context.create_producer().send(queue, body)
    assert context.create_consumer(queue).receiveBody(kind) == body


@requirement("20.12-g")
@by_body
@pytest.mark.parametrize("waiting", [True, False], ids=["limit", "no wait"])
def test_20_12_g_receive_body_returns_none_without_a_message(
    context: JMSContext, queue: Queue, waits: Waits, body: Any, kind: type[Any], waiting: bool
) -> None:
    consumer = context.create_consumer(queue)
    assert _body(consumer, kind, waits.nothing_ms if waiting else None) is None
    context.create_producer().send(queue, body)
    found: list[Any] = []

    def is_here() -> bool:
        received = _body(consumer, kind, waits.something_ms if waiting else None)
        if received is not None:
            found.append(received)
        return bool(found)

    waits.until(is_here, "the body was there")
    assert found == [body]


def _body(consumer: JMSConsumer, kind: type[Any], limit_ms: int | None) -> Any:
    return consumer.receive_body_no_wait(kind) if limit_ms is None else consumer.receive_body(kind, limit_ms)


@requirement("20.12-h")
@pytest.mark.parametrize("form", ["plain", "limit", "no wait"])
@pytest.mark.parametrize(("body", "kind"), [("text", dict), (b"bytes", str), (None, str)])
def test_20_12_h_a_body_of_another_type_is_refused(
    make_context: MakeContext, queue: Queue, waits: Waits, form: str, body: Any, kind: type[Any]
) -> None:
    context = make_context(JMSContext.CLIENT_ACKNOWLEDGE)
    context.create_producer().send(queue, body)
    consumer = context.create_consumer(queue)

    def fails() -> bool:
        try:
            if form == "plain":
                consumer.receive_body(kind)
            elif form == "limit":
                consumer.receive_body(kind, waits.something_ms)
            else:
                consumer.receive_body_no_wait(kind)
        except MessageFormatRuntimeException:
            return True
        return False

    waits.until(fails, "the body was refused")


@requirement("20.12-i")
@pytest.mark.parametrize("mode", [JMSContext.AUTO_ACKNOWLEDGE, JMSContext.DUPS_OK_ACKNOWLEDGE])
def test_20_12_i_a_message_whose_body_was_refused_comes_again(
    make_context: MakeContext, queue: Queue, waits: Waits, mode: int
) -> None:
    context = make_context(mode)
    context.create_producer().send(queue, "text")
    consumer = context.create_consumer(queue)
    with pytest.raises(MessageFormatRuntimeException):
        consumer.receive_body(dict, waits.something_ms)
    assert consumer.receive_body(str, waits.something_ms) == "text"
    assert consumer.receive(waits.nothing_ms) is None


@requirement("20.12-j")
@pytest.mark.parametrize(
    "mode", [JMSContext.CLIENT_ACKNOWLEDGE, pytest.param(JMSContext.SESSION_TRANSACTED, marks=needs("TRANSACTIONS"))]
)
def test_20_12_j_a_message_whose_body_was_refused_counts_as_received(
    make_context: MakeContext, queue: Queue, waits: Waits, mode: int
) -> None:
    make_context().create_producer().send(queue, "text")
    context = make_context(mode)
    consumer = context.create_consumer(queue)
    with pytest.raises(MessageFormatRuntimeException):
        consumer.receive_body(dict, waits.something_ms)
    assert consumer.receive(waits.nothing_ms) is None
    if mode == JMSContext.CLIENT_ACKNOWLEDGE:
        context.recover()
    else:
        context.rollback()
    assert consumer.receive_body(str, waits.something_ms) == "text"
    if mode == JMSContext.CLIENT_ACKNOWLEDGE:
        context.acknowledge()
    else:
        context.commit()
    context.close()
    assert make_context().create_consumer(queue).receive(waits.nothing_ms) is None


@requirement("20.12-k")
def test_20_12_k_a_consumer_with_a_listener_is_not_asked(context: JMSContext, queue: Queue) -> None:
    consumer = context.create_consumer(queue)
    consumer.message_listener = Collector()
    with pytest.raises(IllegalStateRuntimeException):
        consumer.receive(1)
