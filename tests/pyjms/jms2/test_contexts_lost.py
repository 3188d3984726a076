"""Contexts whose connection is cut at any step, whose broker is restarted, or is gone: nothing is lost, nothing comes twice unflagged,
each outcome is told once, and `close` ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyjms import (
    ConnectionFactory,
    IllegalStateException,
    IllegalStateRuntimeException,
    JMSConsumer,
    JMSContext,
    JMSException,
    JMSRuntimeException,
    ResourceAllocationException,
    ResourceAllocationRuntimeException,
    TransactionRolledBackRuntimeException,
)
from tests.pyjms.jms2.lossy import Losses, LossyBroker, Outcomes, Received, is_in_doubt, lossy
from tests.pyjms.runtime.contexts import received, received_texts
from tests.pyjms.runtime.helpers import PATIENCE_MS, PATIENCE_S, Call, text_of
from tests.system.network.proxy import Cut, Place, Way

MANY = 40
CUTS = [
    Cut(Way.UP, 3, Place.WITHIN),
    Cut(Way.DOWN, 5, Place.BEFORE),
    Cut(Way.UP, 9, Place.BEFORE),
    Cut(Way.DOWN, 7, Place.WITHIN),
    Cut(Way.UP, 12, Place.LATE),
]


@pytest.fixture(params=["stomp", "amqp"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LossyBroker]:
    with lossy(request.param, tmp_path) as broker:
        yield broker


NOT_SENT = (ResourceAllocationException, ResourceAllocationRuntimeException)
LOSSES = pytest.mark.parametrize("lose", [LossyBroker.cut, LossyBroker.restart], ids=["cut", "restarted"])


def drained(broker: LossyBroker, name: str) -> list[str | None]:
    """Return the texts in a queue."""
    with broker.direct.create_context() as context:
        consumer, texts = context.create_consumer(context.create_queue(name)), []
        while (message := consumer.receive(300)) is not None:
            texts.append(text_of(message))
        return texts


@pytest.mark.parametrize("is_async", [False, True], ids=["waiting", "async"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["cut", "restarted"])
def test_each_send_is_told_once_and_what_was_told_as_sent_is_there(
    broker: LossyBroker, is_async: bool, is_restarted: bool
) -> None:
    outcomes, errors = Outcomes(), dict[str | None, JMSException | JMSRuntimeException]()
    with ConnectionFactory(broker.url).create_context() as context:
        queue, producer = context.create_queue("orders"), context.create_producer()
        if is_async:
            producer.set_async(outcomes)
        if not is_restarted:
            broker.proxy.arm(CUTS)
        for number in range(MANY):
            if is_restarted and number % 15 == 14:
                broker.restart()
            try:
                producer.send(queue, str(number))
            except JMSRuntimeException as error:
                errors[str(number)] = error
        broker.proxy.arm([])
    sent = [str(number) for number in range(MANY)]
    if is_async:
        assert errors == {}
        assert [text for text, _ in outcomes.told] == sent
        errors = {text: error for text, error in outcomes.told if isinstance(error, JMSException)}
    in_doubt = {text for text, error in errors.items() if is_in_doubt(error)}
    refused = [error for text, error in errors.items() if text not in in_doubt]
    assert all(isinstance(error, NOT_SENT) for error in refused), refused
    there = drained(broker, "orders")
    assert len(there) == len(set(there))
    in_order = [
        text for text in there if text not in in_doubt
    ]  # one in doubt may come late, by the connection that was lost
    assert in_order == [text for text in sent if text in in_order]
    assert set(sent) - errors.keys() <= set(there) <= set(sent) - (errors.keys() - in_doubt)


@LOSSES
@pytest.mark.parametrize("mode", [JMSContext.AUTO_ACKNOWLEDGE, JMSContext.DUPS_OK_ACKNOWLEDGE])
def test_a_listener_and_a_receiver_miss_nothing(
    broker: LossyBroker, lose: Callable[[LossyBroker], None], mode: int
) -> None:
    with ConnectionFactory(broker.url).create_context(mode) as listening, listening.create_context(mode) as receiving:
        losses = Losses(listening)
        heard, taken = Received(), Received()
        listening.create_consumer(listening.create_queue("heard")).message_listener = heard.add
        consumer = receiving.create_consumer(receiving.create_queue("taken"))
        for turn in range(3):
            if turn:
                lose(broker)
            with broker.direct.create_context() as sender:
                for number in range(10):
                    for name in ("heard", "taken"):
                        sender.create_producer().send(sender.create_queue(name), f"{turn}-{number}")
            while len(set(taken.texts)) < 10 * (turn + 1):
                try:
                    taken.add(received(consumer))
                except JMSRuntimeException as error:
                    raise AssertionError("a receive never fails because of a loss") from error
            heard.wait(10 * (turn + 1))
        losses.wait(2)
    assert set(losses.codes) == {"PYJMS-INTERRUPTED"}
    assert heard.unflagged == taken.unflagged == []
    assert (drained(broker, "heard"), drained(broker, "taken")) == ([], [])


@LOSSES
def test_a_commit_after_a_loss_rolls_back_and_the_next_transaction_has_all_of_it(
    broker: LossyBroker, lose: Callable[[LossyBroker], None]
) -> None:
    with broker.direct.create_context() as sender:
        for text in "abc":
            sender.create_producer().send(sender.create_queue("orders"), text)
    with ConnectionFactory(broker.url).create_context(JMSContext.SESSION_TRANSACTED) as context:
        losses, outcomes = Losses(context), Outcomes()
        orders, bills = context.create_queue("orders"), context.create_queue("bills")
        consumer, producer = context.create_consumer(orders), context.create_producer()
        assert received_texts(consumer, 2) == ["a", "b"]
        producer.send(bills, "lost")
        producer.set_async(outcomes).send(bills, "lost, too")
        lose(broker)
        losses.wait(1)
        with pytest.raises(TransactionRolledBackRuntimeException):
            context.commit()
        outcomes.wait(1)
        again = [received(consumer) for _ in range(3)]
        assert [text_of(each) for each in again] == ["a", "b", "c"]
        assert [each.jms_redelivered for each in again[:2]] == [True, True]
        assert [each.get_int_property("JMSXDeliveryCount") > 1 for each in again[:2]] == [True, True]
        for each in again:
            producer.send(bills, f"bill for {text_of(each)}")
        context.commit()
        assert len(outcomes.told) == 4
    assert drained(broker, "bills") == ["bill for a", "bill for b", "bill for c"]
    assert drained(broker, "orders") == []


@LOSSES
def test_what_a_client_has_not_acknowledged_comes_again(
    broker: LossyBroker, lose: Callable[[LossyBroker], None]
) -> None:
    with broker.direct.create_context() as sender:
        for text in "abcd":
            sender.create_producer().send(sender.create_queue("orders"), text)
    with ConnectionFactory(broker.url).create_context(JMSContext.CLIENT_ACKNOWLEDGE) as context:
        losses = Losses(context)
        consumer = context.create_consumer(context.create_queue("orders"))
        assert received_texts(consumer, 1) == ["a"]
        context.acknowledge()
        assert received_texts(consumer, 2) == ["b", "c"]
        lose(broker)
        losses.wait(1)
        with pytest.raises(JMSRuntimeException):
            context.acknowledge()  # too late: they go to the next receive
        again = [received(consumer) for _ in range(3)]
        assert [text_of(each) for each in again] == ["b", "c", "d"]
        assert [each.jms_redelivered for each in again[:2]] == [True, True]
        context.acknowledge()
    assert drained(broker, "orders") == []


@LOSSES
def test_durable_and_shared_consumers_miss_nothing(broker: LossyBroker, lose: Callable[[LossyBroker], None]) -> None:
    alone, together = Received(), Received()
    with ExitStack() as opened:
        contexts = [opened.enter_context(ConnectionFactory(broker.url).create_context()) for _ in range(2)]
        contexts[0].client_id = "till"
        losses = Losses(contexts[0])
        topic = contexts[0].create_topic("news")
        consumers: list[JMSConsumer] = []
        consumers.append(contexts[0].create_durable_consumer(topic, "alone"))
        consumers[0].message_listener = alone.add
        # One subscription per client identifier: two contexts of one connection, and one of clients without an identifier.
        other = opened.enter_context(contexts[0].create_context(JMSContext.AUTO_ACKNOWLEDGE))
        for context in (other, opened.enter_context(other.create_context(JMSContext.AUTO_ACKNOWLEDGE))):
            consumers.append(context.create_shared_durable_consumer(topic, "together"))
            consumers[-1].message_listener = together.add
        anonymous = Received()
        consumers.append(contexts[1].create_shared_durable_consumer(topic, "anonymous"))
        consumers[-1].message_listener = anonymous.add
        for turn in range(3):
            if turn:
                lose(broker)
            with broker.direct.create_context() as sender:
                for number in range(10):
                    sender.create_producer().send(topic, f"{turn}-{number}")
            for each in (alone, together, anonymous):
                each.wait(10 * (turn + 1))
        losses.wait(2)
        for each in (alone, together, anonymous):
            assert each.unflagged == []
        for consumer in consumers:
            consumer.close()
        contexts[0].unsubscribe("alone")
        contexts[0].unsubscribe("together")
        contexts[1].unsubscribe("anonymous")


def busy_context(broker: LossyBroker, options: str, opened: ExitStack) -> tuple[JMSContext, Outcomes, Call[Any]]:
    """Return a context with a listener and incomplete sends, whose sibling receives on another thread."""
    context, outcomes = ConnectionFactory(f"{broker.url}&{options}").create_context(), Outcomes()
    opened.callback(context.close)
    context.create_consumer(context.create_queue("others")).message_listener = lambda _: None
    sibling = context.create_context(JMSContext.SESSION_TRANSACTED)
    opened.callback(sibling.close)
    sibling.create_producer().send(sibling.create_queue("orders"), "never committed")
    receiving = Call(sibling.create_consumer(sibling.create_queue("nothing")).receive)
    context.create_producer().set_async(outcomes).send(context.create_queue("orders"), "first")
    outcomes.wait(1)
    return context, outcomes, receiving


def test_close_ends_while_the_broker_is_gone(broker: LossyBroker) -> None:
    with ExitStack() as opened:
        context, outcomes, receiving = busy_context(broker, "timeout_ms=10000", opened)
        losses = Losses(context)
        broker.stop()
        losses.wait(1)
        sending = Call(context.create_producer().set_async(outcomes).send, context.create_queue("orders"), "second")
        assert sending.is_blocked()
        Call(opened.close).result()
        assert receiving.result() is None
        sending.result()
    (first, none), (second, error) = outcomes.told
    assert (first, none, second) == ("first", None, "second")
    assert isinstance(error, IllegalStateException)


def test_close_ends_while_the_broker_is_silent(broker: LossyBroker) -> None:
    with ExitStack() as opened:
        context, outcomes, receiving = busy_context(broker, "timeout_ms=300", opened)
        with broker.proxy.frozen():
            producer = context.create_producer().set_async(outcomes)
            for text in ("second", "third"):
                producer.send(context.create_queue("orders"), text)
            Call(opened.close).result()
        assert receiving.result() is None
    assert [text for text, _ in outcomes.told] == ["first", "second", "third"]
    first, *later = [error for _, error in outcomes.told]
    assert first is None
    assert all(isinstance(error, JMSException) and is_in_doubt(error) for error in later), later


def test_a_final_loss_is_told_to_all_and_a_listener_for_it_may_close(broker: LossyBroker) -> None:
    outcomes, closed = Outcomes(), Event()
    context = ConnectionFactory(f"{broker.url}&reconnect=no").create_context()
    other = context.create_context(JMSContext.CLIENT_ACKNOWLEDGE)
    consumer = other.create_consumer(other.create_queue("orders"))
    receiving = Call(consumer.receive, PATIENCE_MS)
    producer = context.create_producer().set_async(outcomes)
    assert receiving.is_blocked()

    def on_exception(_: JMSException) -> None:
        context.close()
        other.close()
        closed.set()

    context.exception_listener = on_exception
    producer.send(context.create_queue("news"), "first")
    outcomes.wait(1)
    broker.cut()
    assert closed.wait(PATIENCE_S)
    with suppress(JMSRuntimeException):  # the receive hears of the loss, or of the close
        assert receiving.result() is None
    with pytest.raises(IllegalStateRuntimeException):
        producer.send(context.create_queue("news"), "second")
    assert [text for text, _ in outcomes.told] == ["first"]
