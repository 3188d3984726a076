"""Tasks that are cancelled, closed and answered at the worst moment: no message is lost, and none comes twice."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from random import Random
from threading import Event, Thread, current_thread
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pyjms import IllegalStateException, JMSException
from pyjms.aio import Connection, ConnectionFactory, Session
from pyjms.api.message import Message
from pyjms.runtime.session import JmsSession
from pyjms.telemetry import instrument, uninstrument
from tests.pyjms.aio.helpers import SOON_MS, awaited, sent, text_of, texts, turn

HOLDING = [(False, Session.CLIENT_ACKNOWLEDGE), (True, Session.SESSION_TRANSACTED)]
"""The modes whose sessions hold on to messages until the client says that he has them."""


def taken(session: Session) -> None:
    """Return when the session's thread has done what was asked of it; meanwhile the event loop can tell nobody."""
    is_done = Event()
    session._thread.post(is_done.set)
    assert is_done.wait(SOON_MS / 1000)


@pytest.mark.parametrize(("transacted", "mode"), HOLDING)
@pytest.mark.parametrize("call", ["receive", "receive_no_wait"])
@awaited
async def test_what_nobody_got_is_not_settled_by_the_next_call(
    factory: ConnectionFactory, transacted: bool, mode: int, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was settled with what came before, and lost when the consumer was closed."""
    async with factory.create_connection() as connection:
        await connection.start()
        session, other = await connection.create_session(transacted, mode), await connection.create_session()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await other.create_producer(queue)
        await sent(other, producer, "first", "second")
        first = await consumer.receive(SOON_MS)
        assert first is not None

        async def give_up() -> None:
            with pytest.raises(asyncio.CancelledError):
                await {"receive": consumer.receive, "receive_no_wait": consumer.receive_no_wait}[call]()
            await (session.commit() if transacted else session.acknowledge(first))
            await consumer.close()

        is_in, may_go, take = Event(), Event(), JmsSession.take

        def slow_take(*arguments: Any, **named: Any) -> Any:
            is_in.set()
            assert may_go.wait(SOON_MS / 1000)
            return take(*arguments, **named)

        monkeypatch.setattr(JmsSession, "take", slow_take)
        giving_up = asyncio.create_task(give_up())
        await asyncio.to_thread(is_in.wait)
        giving_up.cancel()
        await turn()
        await turn()  # so that its next call is asked for
        may_go.set()
        await giving_up
        async with other.create_consumer(queue) as reader:
            await session.close()
            assert await texts(reader, 1) == ["second"]


@pytest.mark.parametrize(("transacted", "mode"), HOLDING)
@awaited
async def test_a_consumer_that_closes_leaves_the_message_to_the_task_that_gets_it(
    factory: ConnectionFactory, transacted: bool, mode: int
) -> None:
    """It came again, as it was given back while the event loop was about to hand it over."""
    async with factory.create_connection() as connection:
        await connection.start()
        session, other = await connection.create_session(transacted, mode), await connection.create_session()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await other.create_producer(queue)
        receive = asyncio.create_task(consumer.receive())
        await turn()
        other._thread.post(lambda: producer._sync.send(other.create_text_message("only")))
        taken(other)
        taken(session)
        closing = asyncio.create_task(consumer.close())
        asyncio.get_running_loop().call_soon(taken, session)
        message = await receive
        assert text_of(message) == "only"
        assert message is not None
        await closing
        await (session.commit() if transacted else session.acknowledge(message))
        await session.close()
        async with other.create_consumer(queue) as reader:
            assert await reader.receive_no_wait() is None


@pytest.mark.parametrize(("transacted", "mode"), HOLDING)
@awaited
async def test_what_a_task_gets_away_from_after_the_consumer_was_closed_comes_again(
    factory: ConnectionFactory, transacted: bool, mode: int
) -> None:
    async with factory.create_connection() as connection:
        await connection.start()
        session, other = await connection.create_session(transacted, mode), await connection.create_session()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await other.create_producer(queue)
        await sent(other, producer, "only")
        receive = asyncio.create_task(consumer.receive())
        await turn()
        taken(session)
        session._thread.post(consumer._sync.close)
        taken(session)
        receive.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receive
        await (session.rollback() if transacted else session.recover())
        async with other.create_consumer(queue) as reader:
            assert await texts(reader, 1) == ["only"]


@awaited
async def test_a_listener_is_not_set_while_a_task_is_about_to_get_a_message(factory: ConnectionFactory) -> None:
    """The listener got it, too."""
    async with factory.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        await sent(session, producer, "only")
        heard: list[str] = []
        receive = asyncio.create_task(consumer.receive())
        await turn()
        taken(session)
        setting = asyncio.create_task(consumer.set_message_listener(lambda message: heard.append(text_of(message))))
        asyncio.get_running_loop().call_soon(taken, session)
        assert text_of(await receive) == "only"
        with pytest.raises(IllegalStateException):
            await setting
        await consumer.set_message_listener(print)
        assert heard == []


@awaited
async def test_the_thread_of_a_session_that_nobody_has_ends(factory: ConnectionFactory) -> None:
    """What it had done last kept the session alive, and so the thread, until the connection was closed."""
    async with factory.create_connection() as connection:
        session = await connection.create_session()
        threads: asyncio.Queue[Thread] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        session._thread.post(lambda: loop.call_soon_threadsafe(threads.put_nowait, current_thread()))
        thread = await threads.get()
        await sent(session, await session.create_producer(session.create_queue("q")), "last")
        del session
        gc.collect()
        await asyncio.to_thread(thread.join, SOON_MS / 1000)
        assert not thread.is_alive()


@awaited
async def test_an_exception_listener_may_close_its_connection(
    factory: ConnectionFactory, stop_broker: Callable[[], None]
) -> None:
    connection = await factory.create_connection()
    is_closed = asyncio.Event()

    async def close(_: JMSException) -> None:
        await connection.close()
        is_closed.set()

    connection.exception_listener = close
    await asyncio.to_thread(stop_broker)
    await is_closed.wait()
    assert connection.state == "closed"


@awaited
async def test_what_is_cancelled_within_a_listener_ends_nothing_else(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        seen: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()

        async def listen(message: Message) -> None:
            if text_of(message) == "a timeout":
                with suppress(TimeoutError):
                    async with asyncio.timeout(0):
                        await asyncio.Event().wait()
            if text_of(message) == "raised" and not message.jms_redelivered:
                raise asyncio.CancelledError
            seen.put_nowait((text_of(message), message.jms_redelivered))

        await consumer.set_message_listener(listen)
        await sent(session, producer, "a timeout", "raised", "the end")
        await connection.start()
        got = [await seen.get() for _ in range(3)]
        assert got == [("a timeout", False), ("raised", True), ("the end", False)]


@awaited
async def test_a_close_that_is_cancelled_goes_on(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection:
        session, other = await connection.create_session(), await connection.create_session()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await other.create_producer(queue)
        is_begun, may_end = asyncio.Event(), asyncio.Event()

        async def listen(_: Message) -> None:
            is_begun.set()
            await may_end.wait()

        await consumer.set_message_listener(listen)
        await connection.start()
        await sent(other, producer, "in hand")
        await is_begun.wait()
        closing = asyncio.create_task(connection.close())
        await turn()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        may_end.set()
        await connection.close()
        assert connection.state == "closed"


@pytest.mark.parametrize(("transacted", "mode"), [(False, Session.AUTO_ACKNOWLEDGE), *HOLDING])
@awaited
async def test_consumers_whose_tasks_are_cancelled_all_the_time_share_a_queue(
    factory: ConnectionFactory, transacted: bool, mode: int
) -> None:
    """Each message is one task's, although receives are cancelled at whatever point they are."""
    count, seen = 300, list[str]()

    async def consume(connection: Connection, seed: int) -> None:
        chance = Random(seed)
        session = await connection.create_session(transacted, mode)
        consumer = await session.create_consumer(session.create_queue("q"))
        while len(seen) < count:
            receive = asyncio.create_task(chance.choice([consumer.receive, consumer.receive_no_wait])())
            for _ in range(chance.randrange(5)):
                await turn()
            receive.cancel()
            with suppress(asyncio.CancelledError):
                message = await receive
                if message is not None:
                    seen.append(text_of(message))
                    await (session.commit() if transacted else session.acknowledge(message))
                    if mode != Session.AUTO_ACKNOWLEDGE and chance.random() < 0.2:
                        await consumer.close()
                        consumer = await session.create_consumer(session.create_queue("q"))

    async with factory.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        async with session.create_producer(session.create_queue("q")) as producer:
            consumers = [asyncio.create_task(consume(connection, seed)) for seed in range(3)]
            await sent(session, producer, *map(str, range(count)))
            await asyncio.gather(*consumers)
    assert sorted(seen, key=int) == [str(number) for number in range(count)]


@awaited
async def test_spans_are_children_of_the_span_of_the_task(factory: ConnectionFactory) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("application")
    instrument(provider)
    try:
        async with factory.create_connection() as connection:
            await connection.start()
            session, other = await connection.create_session(), await connection.create_session()
            questions, answers = session.create_queue("questions"), session.create_queue("answers")
            asker, reader = await session.create_producer(questions), await session.create_consumer(answers)
            consumer, replier = await other.create_consumer(questions), await other.create_producer(answers)

            async def answer(_: Message) -> None:
                with tracer.start_as_current_span("answers"):
                    await sent(other, replier, "answer")

            await consumer.set_message_listener(answer)
            with tracer.start_as_current_span("asks"):
                await sent(session, asker, "question")
            with tracer.start_as_current_span("reads"):
                assert await texts(reader, 1) == ["answer"]
    finally:
        uninstrument()
    spans = exporter.get_finished_spans()
    names = {each.context.span_id: each.name for each in spans}
    assert {each.name: names[each.parent.span_id] for each in spans if each.parent is not None} == {
        "send questions": "asks",
        "process questions": "send questions",
        "answers": "process questions",
        "send answers": "answers",
        "receive answers": "reads",
    }
