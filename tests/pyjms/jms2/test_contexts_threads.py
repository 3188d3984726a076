"""Contexts of one connection on many threads: each works for itself, any thread may close one, and no message is lost or comes twice."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Event
from typing import Any

import pytest

from pyjms import (
    CompletionListener,
    ConnectionFactory,
    IllegalStateRuntimeException,
    JMSContext,
    JMSRuntimeException,
    Message,
)
from tests.pyjms.jms2.lossy import Outcomes, Received, is_in_doubt
from tests.pyjms.runtime.contexts import received_texts
from tests.pyjms.runtime.helpers import PATIENCE_MS, PATIENCE_S, Call, text_of

EACH = 40
LAST = "last"


def sends(context: JMSContext, name: str, prefix: str, is_async: bool) -> Outcomes:
    """Send messages by a context of its own mode, and return what was told of them."""
    outcomes = Outcomes()
    producer, queue = context.create_producer(), context.create_queue(name)
    if is_async:
        producer.set_async(outcomes)
    for number in range(EACH):
        producer.send(queue, f"{prefix}-{number}")
        if context.transacted and number % 10 == 9:
            context.commit()
    return outcomes


def takes(context: JMSContext, name: str, received: Received) -> None:
    """Receive until the last message comes, or the context is closed."""
    consumer = context.create_consumer(context.create_queue(name))
    while (message := consumer.receive(PATIENCE_MS)) is not None:
        is_last = text_of(message) == LAST
        if not is_last:
            received.add(message)
        if context.transacted:
            context.commit()
        context.acknowledge()
        if is_last:
            consumer.close()  # a consumer over a network may have more messages than it has returned
            return


@pytest.mark.parametrize("is_base_first", [False, True], ids=["base last", "base first"])
def test_each_thread_works_by_its_own_context(factory: ConnectionFactory, name: str, is_base_first: bool) -> None:
    received, base = Received(), factory.create_context()
    senders = [base.create_context(mode) for mode in (0, 1, 1, 2)]
    takers = [base.create_context(mode) for mode in (0, 1, 2, 3)]
    listening = base.create_context(JMSContext.AUTO_ACKNOWLEDGE)
    listening.create_consumer(listening.create_queue(name), f"{LAST} IS NULL").message_listener = received.add
    sending = [Call(sends, each, name, f"sender {number}", number % 2 == 1) for number, each in enumerate(senders)]
    taking = [Call(takes, each, name, received) for each in takers]
    if is_base_first:
        base.close()
    told = [each.result() for each in sending]
    wanted = {f"sender {number}-{each}" for number in range(len(senders)) for each in range(EACH)}
    received.wait(len(wanted))
    for _ in takers:
        senders[1].create_producer().set_property(LAST, True).send(senders[1].create_queue(name), LAST)
    for each in taking:
        each.result()
    for context in (*senders, *takers, listening):
        Call(context.close).result()
    assert [len(each.told) for each in told] == [0, EACH, 0, EACH]
    assert all(error is None for each in told for _, error in each.told)
    assert received.unflagged == []
    assert sorted(map(str, received.texts)) == sorted(wanted)
    base.close()


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_a_context_that_another_thread_closes_while_it_receives_loses_nothing(
    factory: ConnectionFactory, name: str, mode: int
) -> None:
    received, in_doubt = Received(), set[str | None]()
    with factory.create_context() as base:
        sending = Call(sends, base.create_context(JMSContext.AUTO_ACKNOWLEDGE), name, "x", True)
        for _ in range(5):
            context, begun = base.create_context(mode), Event()

            def take(context: JMSContext, begun: Event) -> None:
                consumer = context.create_consumer(context.create_queue(name))
                begun.set()
                message: Message | None = None
                try:
                    while (message := consumer.receive(PATIENCE_MS)) is not None:
                        if mode == JMSContext.SESSION_TRANSACTED:
                            context.commit()
                        elif mode == JMSContext.CLIENT_ACKNOWLEDGE:
                            context.acknowledge()
                        received.add(message)
                except IllegalStateRuntimeException:
                    pass  # it is closed; a message that is not settled comes again
                except JMSRuntimeException as error:
                    if not is_in_doubt(error):
                        raise
                    in_doubt.add(text_of(message))

            taking = Call(take, context, begun)
            assert begun.wait(PATIENCE_S)
            Call(context.close).result()
            taking.result()
        sending.result()
        rest = base.create_context(JMSContext.AUTO_ACKNOWLEDGE)
        consumer = rest.create_consumer(rest.create_queue(name))
        while len({*received.texts} | in_doubt) < EACH:
            message = consumer.receive(PATIENCE_MS)
            assert message is not None
            received.add(message)
        while (message := consumer.receive(50)) is not None:  # those in doubt that were not settled
            assert text_of(message) in in_doubt
            received.add(message)
    wanted = [f"x-{number}" for number in range(EACH)]
    # One message may come again to a lazy consumer, with its flag.
    came = set(received.texts) if mode == JMSContext.DUPS_OK_ACKNOWLEDGE else received.texts
    assert sorted(map(str, came)) == sorted(text for text in wanted if text in came or text not in in_doubt)
    assert received.unflagged == []


def test_many_threads_close_one_context(factory: ConnectionFactory, name: str) -> None:
    context = factory.create_context()
    consumer = context.create_consumer(context.create_queue(name))
    receiving = Call(consumer.receive)
    gate = Barrier(5)

    def close() -> None:
        gate.wait(PATIENCE_S)
        context.close()

    for each in [Call(close) for _ in range(5)]:
        each.result()
    assert receiving.result() is None
    with pytest.raises(IllegalStateRuntimeException):
        context.create_producer()


def test_a_context_that_is_made_while_its_base_closes_works_or_is_refused(
    factory: ConnectionFactory, name: str
) -> None:
    made = 0
    for _ in range(20):
        base, gate = factory.create_context(), Barrier(2)
        base.create_queue(name)

        def make(base: JMSContext, gate: Barrier) -> JMSContext | None:
            gate.wait(PATIENCE_S)
            try:
                return base.create_context(JMSContext.AUTO_ACKNOWLEDGE)
            except IllegalStateRuntimeException:
                return None

        making = Call(make, base, gate)
        gate.wait(PATIENCE_S)
        base.close()
        context = making.result()
        if context is not None:
            made += 1
            context.create_producer().send(context.create_queue(name), "still there")
            context.close()
    with factory.create_context() as reader:
        received_texts(reader.create_consumer(reader.create_queue(name)), made)


class Told(CompletionListener):
    """Makes a call when a send is complete, and keeps what that raises."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.errors: list[Exception] = []
        self.told = Event()

    def on_completion(self, message: Message) -> None:
        try:
            self._call()
        except Exception as error:
            self.errors.append(error)
        self.told.set()

    def on_exception(self, message: Message, exception: Exception) -> None:
        raise exception


OWN: dict[str, Callable[[JMSContext], Any]] = {
    "close": lambda context: context.close(),
    "commit": lambda context: context.commit(),
    "rollback": lambda context: context.rollback(),
}


@pytest.mark.parametrize("call", OWN.values(), ids=OWN)
def test_a_completion_listener_may_not_end_its_own_context(
    factory: ConnectionFactory, name: str, call: Callable[[JMSContext], Any]
) -> None:
    with factory.create_context(JMSContext.SESSION_TRANSACTED) as context:
        told = Told(lambda: call(context))
        context.create_producer().set_async(told).send(context.create_queue(name), "first")
        assert told.told.wait(PATIENCE_S)
        assert [type(error) for error in told.errors] == [IllegalStateRuntimeException]
        context.commit()  # the refusal has changed nothing
        with factory.create_context() as other:
            assert received_texts(other.create_consumer(other.create_queue(name)), 1) == ["first"]


def test_listeners_may_close_other_contexts_of_their_connection(factory: ConnectionFactory, name: str) -> None:
    base = factory.create_context()
    first, second, last = (base.create_context(JMSContext.AUTO_ACKNOWLEDGE) for _ in range(3))
    receiving = Call(second.create_consumer(second.create_queue(f"{name}-nothing")).receive)
    heard, errors = Event(), list[Exception]()

    def on_message(_: Message) -> None:
        try:
            base.close()
            second.close()
        except JMSRuntimeException as error:
            errors.append(error)
        heard.set()

    first.create_consumer(first.create_queue(name)).message_listener = on_message
    told = Told(first.close)
    last.create_producer().send(last.create_queue(name), "close others")
    assert heard.wait(PATIENCE_S)
    assert errors == []
    assert receiving.result() is None
    last.create_producer().set_async(told).send(last.create_queue(f"{name}-told"), "close the last but one")
    assert told.told.wait(PATIENCE_S)
    assert told.errors == []
    for closed in (base, first, second):
        with pytest.raises(IllegalStateRuntimeException):
            closed.create_producer()
    assert received_texts(last.create_consumer(last.create_queue(f"{name}-told")), 1) == ["close the last but one"]
    Call(last.close).result()
