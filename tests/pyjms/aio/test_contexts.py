"""Contexts for asyncio: their producers, consumers and life (JMS 2.0 §2.8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyjms import (
    IllegalArgumentException,
    IllegalStateRuntimeException,
    InvalidClientIDRuntimeException,
    InvalidDestinationRuntimeException,
    InvalidSelectorRuntimeException,
    JMSException,
    JMSRuntimeException,
    JMSSecurityRuntimeException,
    MessageFormatRuntimeException,
    TransactionInProgressRuntimeException,
    UnsupportedOperationException,
    XAResource,
    Xid,
)
from pyjms.aio import ConnectionFactory, JMSConsumer, JMSContext, XAConnectionFactory
from pyjms.testing import Fault, Faults, VirtualClock
from tests.pyjms.aio.helpers import LIMIT_S, SOON_MS, awaited, text_of, turn
from tests.pyjms.runtime.contexts import PROVIDERS, url_of


@pytest.fixture(params=PROVIDERS)
def each_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ConnectionFactory]:
    """A factory for a fresh broker, by each bundled provider."""
    with url_of(request.param, tmp_path) as url:
        yield ConnectionFactory(url)


async def received(consumer: JMSConsumer, count: int) -> list[str]:
    """Receive so many texts."""
    return [text_of(await consumer.receive(SOON_MS)) for _ in range(count)]


# --------------------------------------------------------------------------------------------------- send and receive


@awaited
async def test_what_is_sent_is_received(each_factory: ConnectionFactory) -> None:
    async with each_factory.create_context() as context:
        queue = context.create_queue("orders")
        producer = context.create_producer().set_property("cups", 2).set_priority(7)
        assert await producer.send(queue, "tea") is producer
        await (await producer.send(queue, {"milk": True})).send(queue, b"sugar")
        async with context.create_consumer(queue, "cups > 1") as consumer:
            assert consumer.message_selector == "cups > 1"
            message = await consumer.receive(SOON_MS)
            assert message is not None
            assert (text_of(message), message.jms_priority, message.get_int_property("cups")) == ("tea", 7, 2)
            assert await consumer.receive_body(dict, SOON_MS) == {"milk": True}
            assert await consumer.receive_body_no_wait(bytes) == b"sugar"
            assert await consumer.receive_no_wait() is None
            assert await consumer.receive(1) is None
            assert await consumer.receive_body(str, 1) is None


@awaited
async def test_each_message_is_iterated_over_until_the_consumer_is_closed(each_factory: ConnectionFactory) -> None:
    async with each_factory.create_context() as context:
        queue = context.create_queue("orders")
        for text in ("a", "b", "c"):
            await context.create_producer().send(queue, text)
        texts = []
        consumer = await context.create_consumer(queue)
        async for message in consumer:
            texts.append(text_of(message))
            if len(texts) == 3:
                await consumer.close()
        assert texts == ["a", "b", "c"]


@awaited
async def test_sends_of_many_tasks_keep_the_order_of_their_calls(each_factory: ConnectionFactory) -> None:
    async with each_factory.create_context() as context:
        queue = context.create_queue("orders")
        producer = context.create_producer()
        await asyncio.gather(*(producer.send(queue, str(number)) for number in range(200)))
        async with context.create_consumer(queue) as consumer:
            assert await received(consumer, 200) == [str(number) for number in range(200)]


@awaited
async def test_a_send_has_ended_when_the_provider_has_the_message(each_factory: ConnectionFactory) -> None:
    async with each_factory.create_context() as context, each_factory.create_context() as other:
        queue = context.create_queue("orders")
        consumer = await other.create_consumer(queue)
        message = context.create_text_message("tea")
        await context.create_producer().send(queue, message)
        assert message.jms_message_id is not None
        assert text_of(await consumer.receive_no_wait()) == "tea"


@awaited
async def test_a_send_that_fails_raises_in_its_task(jms_faults: Faults) -> None:
    async with ConnectionFactory(jms_faults.url).create_context() as context:
        queue = context.create_queue("orders")
        producer: Any = context.create_producer()
        jms_faults.inject(Fault.SEND_REFUSED)
        with pytest.raises(JMSRuntimeException) as caught:
            await producer.send(queue, "tea")
        assert isinstance(caught.value.__cause__, JMSException)
        with pytest.raises(InvalidDestinationRuntimeException):
            await producer.send(None, "tea")
        with pytest.raises(MessageFormatRuntimeException):
            await producer.send(queue, lambda: None)
        await producer.send(queue, "milk")
        async with context.create_consumer(queue) as consumer:
            assert await received(consumer, 1) == ["milk"]


class HeldClock(VirtualClock):
    """Holds the next call that asks for the time, which is a send here, on the session's thread."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self.is_held, self.go_on = Event(), Event()

    def time_ms(self) -> int:
        if self.holds:
            self.holds = False
            self.is_held.set()
            assert self.go_on.wait(LIMIT_S)
        return super().time_ms()


@awaited
async def test_a_send_whose_task_is_cancelled_before_it_begins_is_not_made(jms_broker_url: str) -> None:
    clock = HeldClock()
    async with ConnectionFactory(jms_broker_url, clock=clock).create_context() as context:
        queue = context.create_queue("orders")
        producer, consumer = context.create_producer(), await context.create_consumer(queue)
        clock.holds = True
        first = asyncio.create_task(producer.send(queue, "tea"))
        await asyncio.to_thread(clock.is_held.wait)
        second = asyncio.create_task(producer.send(queue, "never"))
        await turn()
        second.cancel()
        await asyncio.wait([second])
        clock.go_on.set()
        await first
        await producer.send(queue, "milk")
        assert await received(consumer, 2) == ["tea", "milk"]


@awaited
async def test_a_producer_belongs_to_the_loop_of_its_context(factory: ConnectionFactory) -> None:
    async with factory.create_context() as context:
        queue = context.create_queue("orders")

        def elsewhere() -> None:
            with pytest.raises(IllegalStateRuntimeException):
                asyncio.run(context.create_producer().send(queue, "tea"))

        await asyncio.to_thread(elsewhere)


@awaited
async def test_a_producer_takes_no_completion_listener(factory: ConnectionFactory) -> None:
    async with factory.create_context() as context:
        with pytest.raises(UnsupportedOperationException, match="await send"):
            context.create_producer().set_async(None)


@awaited
async def test_a_receive_waits_while_others_use_the_context(factory: ConnectionFactory) -> None:
    async with factory.create_context() as context:
        queue = context.create_queue("orders")
        consumer = await context.create_consumer(queue)
        receive = asyncio.create_task(consumer.receive_body(str))
        await turn()
        with pytest.raises(IllegalStateRuntimeException):
            await consumer.receive(1)
        with pytest.raises(IllegalStateRuntimeException):
            await consumer.receive_body(bytes, 1)
        with pytest.raises(IllegalStateRuntimeException):
            await context.recover()
        await context.create_producer().send(queue, "tea")
        assert await receive == "tea"


@awaited
async def test_a_body_of_another_class_leaves_the_message(each_factory: ConnectionFactory) -> None:
    async with each_factory.create_context() as context:
        queue = context.create_queue("orders")
        await context.create_producer().send(queue, "tea")
        consumer = await context.create_consumer(queue)
        for receive in (lambda: consumer.receive_body(bytes, SOON_MS), lambda: consumer.receive_body_no_wait(dict)):
            with pytest.raises(MessageFormatRuntimeException):
                await receive()
        with pytest.raises(IllegalArgumentException):
            await consumer.receive_body(5)  # type: ignore[arg-type]
        message = await consumer.receive(SOON_MS)
        assert message is not None
        assert (text_of(message), message.jms_redelivered) == ("tea", False)


@awaited
async def test_a_cancelled_receive_of_a_body_loses_nothing(factory: ConnectionFactory) -> None:
    async with factory.create_context() as context:
        queue = context.create_queue("orders")
        consumer = await context.create_consumer(queue)
        receive = asyncio.create_task(consumer.receive_body(bytes))
        await turn()
        receive.cancel()
        await asyncio.wait([receive])
        await context.create_producer().send(queue, "tea")
        assert await consumer.receive_body(str, SOON_MS) == "tea"


@awaited
async def test_a_listener_is_called_on_the_loop(each_factory: ConnectionFactory) -> None:
    async with each_factory.create_context() as context, context.create_context(1) as other:
        heard: asyncio.Queue[str] = asyncio.Queue()

        async def on_message(message: Any) -> None:
            await heard.put(text_of(message))
            await context.create_producer().send(context.create_queue("answers"), "yes")

        consumer = await context.create_consumer(context.create_queue("orders"))
        await consumer.set_message_listener(on_message)
        assert consumer.message_listener is on_message
        await other.create_producer().send(other.create_queue("orders"), "tea")
        assert await heard.get() == "tea"
        async with other.create_consumer(other.create_queue("answers")) as answers:
            assert await received(answers, 1) == ["yes"]
        await consumer.set_message_listener(None)
        assert consumer.message_listener is None


@pytest.mark.parametrize("call", ["close", "stop", "stop the other"])
@awaited
async def test_a_listener_may_neither_close_nor_stop(factory: ConnectionFactory, call: str) -> None:
    async with factory.create_context() as context, context.create_context(1) as other:
        raised: asyncio.Queue[BaseException] = asyncio.Queue()

        async def on_message(_: object) -> None:
            try:
                if call == "close":
                    await context.close()
                else:
                    await (context if call == "stop" else other).stop()
            except Exception as error:
                await raised.put(error)

        consumer = await context.create_consumer(context.create_queue("orders"))
        await consumer.set_message_listener(on_message)
        for _ in range(2):
            await other.create_producer().send(other.create_queue("orders"), "tea")
            assert isinstance(await raised.get(), IllegalStateRuntimeException)


# --------------------------------------------------------------------------------------------------------- contexts


@pytest.mark.parametrize(
    ("arguments", "named", "mode"),
    [
        ((), {}, 1),
        ((2,), {}, 2),
        (("tea", "pot"), {}, 1),
        (("tea", "pot", 0), {}, 0),
        ((), {"session_mode": 3}, 3),
    ],
)
@awaited
async def test_a_factory_makes_contexts(factory: ConnectionFactory, arguments: Any, named: Any, mode: int) -> None:
    async with factory.create_context(*arguments, **named) as context:
        assert (context.session_mode, context.transacted) == (mode, mode == JMSContext.SESSION_TRANSACTED)
        assert context.meta_data.jms_version == "2.0"
    context = await factory.create_context(*arguments, **named)
    await context.close()
    await context.close()


@awaited
async def test_a_context_that_cannot_be_made_says_why(jms_faults: Faults) -> None:
    factory = ConnectionFactory(jms_faults.url)
    with pytest.raises(JMSRuntimeException):
        await factory.create_context(17)
    jms_faults.inject(Fault.LOGIN_REFUSED)
    with pytest.raises(JMSSecurityRuntimeException):
        await factory.create_context("eve", "wrong")


@awaited
async def test_the_last_context_closes_the_connection(each_factory: ConnectionFactory) -> None:
    first = await each_factory.create_context()
    await first.set_client_id("till")
    assert first.client_id == "till"
    second = await first.create_context(JMSContext.CLIENT_ACKNOWLEDGE)
    temporary = await first.create_temporary_queue()
    await first.close()
    await second.create_producer().send(temporary, "still there")
    consumer = await second.create_consumer(temporary)
    assert await received(consumer, 1) == ["still there"]
    await second.acknowledge()
    await consumer.close()
    await second.delete_temporary(temporary)
    async with each_factory.create_context() as other:
        with pytest.raises(InvalidClientIDRuntimeException):
            await other.set_client_id("till")
    await second.close()
    async with each_factory.create_context() as other:
        await other.set_client_id("till")
        with pytest.raises(IllegalStateRuntimeException):
            await other.set_client_id("other")


@awaited
async def test_transactions_are_committed_and_rolled_back(each_factory: ConnectionFactory) -> None:
    async with each_factory.create_context(JMSContext.SESSION_TRANSACTED) as context:
        queue = context.create_queue("orders")
        await context.create_producer().send(queue, "tea")
        await context.rollback()
        await context.create_producer().send(queue, "milk")
        await context.commit()
        consumer = await context.create_consumer(queue)
        assert await received(consumer, 1) == ["milk"]
        await context.rollback()
        assert await received(consumer, 1) == ["milk"]
        await context.commit()
        with pytest.raises(IllegalStateRuntimeException):
            await context.recover()
    async with each_factory.create_context() as context:
        with pytest.raises(IllegalStateRuntimeException):
            await context.commit()
        consumer = await context.create_consumer(queue)
        assert await consumer.receive_no_wait() is None


@awaited
async def test_without_auto_start_only_start_delivers(factory: ConnectionFactory) -> None:
    async with factory.create_context() as context:
        context.auto_start = False
        assert context.auto_start is False
        queue = context.create_queue("orders")
        await context.create_producer().send(queue, "tea")
        consumer = await context.create_consumer(queue)
        assert await consumer.receive_no_wait() is None
        await context.start()
        assert await received(consumer, 1) == ["tea"]
        await context.stop()
        await context.create_producer().send(queue, "milk")
        assert await consumer.receive_no_wait() is None
        await context.start()
        assert await received(consumer, 1) == ["milk"]


@awaited
async def test_subscriptions_of_each_kind(each_factory: ConnectionFactory) -> None:
    async with each_factory.create_context() as context:
        await context.set_client_id("till")
        topic = context.create_topic("news")
        durable = await context.create_durable_consumer(topic, "mine")
        shared = [await context.create_shared_consumer(topic, "ours") for _ in range(2)]
        both = await context.create_shared_durable_consumer(topic, "theirs", "")
        await context.create_producer().send(topic, "tea")
        assert await received(durable, 1) == await received(both, 1) == ["tea"]
        found = [await consumer.receive(200) for consumer in shared]
        assert sorted(map(bool, found)) == [False, True]
        for consumer in (durable, both):
            await consumer.close()
        for name in ("mine", "theirs"):
            await context.unsubscribe(name)
        with pytest.raises(InvalidDestinationRuntimeException):
            await context.unsubscribe("mine")


@awaited
async def test_a_browser_shows_messages(factory: ConnectionFactory) -> None:
    async with factory.create_context() as context:
        queue = context.create_queue("orders")
        await context.create_producer().send(queue, "tea")
        async with context.create_browser(queue) as browser:
            assert [text_of(message) async for message in browser] == ["tea"]
        with pytest.raises(InvalidSelectorRuntimeException):
            await context.create_browser(queue, "= 5")


@awaited
async def test_each_kind_of_message_is_made_without_a_wait(factory: ConnectionFactory) -> None:
    async with factory.create_context() as context:
        queue = context.create_queue("orders")
        stream = context.create_stream_message()
        stream.write_string("tea")
        consumer = await context.create_consumer(queue)
        made = (
            context.create_message(),
            context.create_bytes_message(),
            context.create_map_message(),
            context.create_text_message("tea"),
            context.create_object_message([1]),
            stream,
        )
        for message in made:
            await context.create_producer().send(queue, message)
            got = await consumer.receive(SOON_MS)
            assert type(got) is type(message)
        with pytest.raises(MessageFormatRuntimeException):
            context.create_object_message(lambda: None)


@asynccontextmanager
async def closed(factory: ConnectionFactory) -> AsyncIterator[JMSContext]:
    """A closed context."""
    context = await factory.create_context()
    await context.close()
    yield context


NAMES: Any = None
REFUSED: dict[str, Callable[[JMSContext], Any]] = {
    "create_context": lambda context: context.create_context(1),
    "create_producer": lambda context: context.create_producer(),
    "client_id": lambda context: context.client_id,
    "set_client_id": lambda context: context.set_client_id("till"),
    "meta_data": lambda context: context.meta_data,
    "exception_listener": lambda context: context.exception_listener,
    "auto_start": lambda context: context.auto_start,
    "start": lambda context: context.start(),
    "stop": lambda context: context.stop(),
    "create_message": lambda context: context.create_message(),
    "create_bytes_message": lambda context: context.create_bytes_message(),
    "create_map_message": lambda context: context.create_map_message(),
    "create_object_message": lambda context: context.create_object_message(),
    "create_stream_message": lambda context: context.create_stream_message(),
    "create_text_message": lambda context: context.create_text_message(),
    "create_queue": lambda context: context.create_queue("q"),
    "create_topic": lambda context: context.create_topic("t"),
    "create_temporary_queue": lambda context: context.create_temporary_queue(),
    "create_temporary_topic": lambda context: context.create_temporary_topic(),
    "create_consumer": lambda context: context.create_consumer(NAMES),
    "create_durable_consumer": lambda context: context.create_durable_consumer(NAMES, "n"),
    "create_shared_consumer": lambda context: context.create_shared_consumer(NAMES, "n"),
    "create_shared_durable_consumer": lambda context: context.create_shared_durable_consumer(NAMES, "n"),
    "create_browser": lambda context: context.create_browser(NAMES),
    "unsubscribe": lambda context: context.unsubscribe("n"),
    "commit": lambda context: context.commit(),
    "rollback": lambda context: context.rollback(),
    "recover": lambda context: context.recover(),
    "acknowledge": lambda context: context.acknowledge(),
    "transacted": lambda context: context.transacted,
    "session_mode": lambda context: context.session_mode,
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
@awaited
async def test_a_closed_context_refuses_each_call(factory: ConnectionFactory, call: Any) -> None:
    async with closed(factory) as context:
        with pytest.raises(IllegalStateRuntimeException):
            made = call(context)
            if hasattr(made, "__await__"):
                await made


@awaited
async def test_a_closed_consumer_refuses_each_call(factory: ConnectionFactory) -> None:
    async with factory.create_context() as context:
        consumer = await context.create_consumer(context.create_queue("orders"))
        await consumer.close()
        await consumer.close()
        for call in (
            lambda: consumer.receive(1),
            consumer.receive_no_wait,
            lambda: consumer.receive_body(str, 1),
            lambda: consumer.receive_body_no_wait(str),
            lambda: consumer.set_message_listener(print),
        ):
            with pytest.raises(IllegalStateRuntimeException):
                await call()
        with pytest.raises(IllegalStateRuntimeException):
            _ = consumer.message_listener
        with pytest.raises(IllegalStateRuntimeException):
            _ = consumer.message_selector


@awaited
async def test_an_exception_listener_is_called_on_the_loop(jms_faults: Faults) -> None:
    async with ConnectionFactory(jms_faults.url).create_context() as context:
        told: asyncio.Queue[Exception] = asyncio.Queue()

        async def on_exception(error: Exception) -> None:
            await told.put(error)

        assert context.exception_listener is None
        context.exception_listener = on_exception
        assert context.exception_listener is on_exception
        jms_faults.inject(Fault.CONNECTION_DROPS_ON_SEND)
        with pytest.raises(JMSRuntimeException):
            await context.create_producer().send(context.create_queue("orders"), "tea")
        assert isinstance(await told.get(), JMSException)
        context.exception_listener = None
        assert context.exception_listener is None


class Branch(Xid):
    format_id = 1
    global_transaction_id = b"order-7"
    branch_qualifier = b"till"


@awaited
async def test_a_context_of_a_transaction_manager(jms_broker_url: str, tmp_path: Path) -> None:
    factory = XAConnectionFactory(f"{jms_broker_url}?store=sqlite:///{tmp_path}/xa.db")
    async with factory.create_xa_context() as xa, factory.create_context() as other:
        queue, resource = xa.create_queue("orders"), await xa.get_xa_resource()
        assert xa.transacted
        await resource.start(Branch(), XAResource.TMNOFLAGS)
        await xa.context.create_producer().send(queue, "tea")
        await resource.end(Branch(), XAResource.TMSUCCESS)
        for call in (xa.commit, xa.rollback):
            with pytest.raises(TransactionInProgressRuntimeException):
                await call()
        consumer = await other.create_consumer(queue)
        assert await consumer.receive_no_wait() is None
        await resource.commit(Branch(), True)
        assert await received(consumer, 1) == ["tea"]
