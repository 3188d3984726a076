"""Listeners that are coroutines, on the event loop: one at a time, with the session's calls their own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pyjms import IllegalArgumentException, IllegalStateException, JMSException
from pyjms.aio import ConnectionFactory, Session
from pyjms.api.message import Message
from tests.pyjms.aio.helpers import awaited, sent, text_of, texts, turn


@awaited
async def test_a_coroutine_function_is_called_with_one_message_at_a_time(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        steps: list[str] = []
        is_done = asyncio.Event()

        async def listen(message: Message) -> None:
            steps.append(f"begin {text_of(message)}")
            await turn()
            steps.append(f"end {text_of(message)}")
            if text_of(message) == "c":
                is_done.set()

        await consumer.set_message_listener(listen)
        assert consumer.message_listener is listen
        await sent(session, producer, "a", "b", "c")
        await connection.start()
        await is_done.wait()
        assert steps == [f"{what} {text}" for text in "abc" for what in ("begin", "end")]


@awaited
async def test_objects_and_functions_listen_too(factory: ConnectionFactory) -> None:
    class Listener:
        def __init__(self) -> None:
            self.got: asyncio.Queue[str] = asyncio.Queue()

        async def on_message(self, message: Message) -> None:
            await self.got.put(text_of(message))

    async with factory.create_connection() as connection, connection.create_session() as session:
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        await connection.start()
        listener = Listener()
        await consumer.set_message_listener(listener)  # type: ignore[arg-type]
        await sent(session, producer, "to an object")
        assert await listener.got.get() == "to an object"
        await consumer.set_message_listener(lambda message: listener.got.put_nowait(text_of(message)))
        await sent(session, producer, "to a function")
        assert await listener.got.get() == "to a function"
        await consumer.set_message_listener(None)
        assert consumer.message_listener is None
        await sent(session, producer, "to a receive")
        assert await texts(consumer, 1) == ["to a receive"]
        with pytest.raises(IllegalArgumentException):
            await consumer.set_message_listener("no listener")  # type: ignore[arg-type]


@awaited
async def test_what_cannot_be_called_with_one_argument_is_refused(factory: ConnectionFactory) -> None:
    class Listener:
        async def on_message(self, message: Message) -> None: ...

        async def on_exception(self, error: JMSException) -> None: ...

    async def two(message: Message, more: object) -> None: ...

    async def generator(message: Message) -> AsyncIterator[Message]:
        yield message

    async with factory.create_connection() as connection, connection.create_session() as session:
        consumer = await session.create_consumer(session.create_queue("q"))
        wrong: Any
        for wrong, reason in (
            (Listener, "Listener is the class of a"),
            (two, "cannot be called with one"),
            (generator, "yields"),
            (Listener.on_message, "cannot be called with one"),
        ):
            with pytest.raises(IllegalArgumentException, match=reason):
                await consumer.set_message_listener(wrong)
            with pytest.raises(IllegalArgumentException, match=reason):
                connection.exception_listener = wrong
        assert (consumer.message_listener, connection.exception_listener) == (None, None)
        connection.exception_listener = Listener()  # type: ignore[assignment]


@awaited
async def test_a_listener_uses_its_own_session(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection:
        session = await connection.create_session(transacted=True)
        other = await connection.create_session()
        questions, answers = session.create_queue("questions"), session.create_queue("answers")
        consumer, replier = await session.create_consumer(questions), await session.create_producer(answers)

        async def answer(message: Message) -> None:
            await replier.send(session.create_text_message(f"re: {text_of(message)}"))
            await session.commit()  # which no other task may while listeners have the session

        await consumer.set_message_listener(answer)
        await connection.start()
        with pytest.raises(IllegalStateException, match="listener"):
            await session.commit()
        async with other.create_producer(questions) as asker, other.create_consumer(answers) as reader:
            await sent(other, asker, "one", "two")
            assert await texts(reader, 2) == ["re: one", "re: two"]


@awaited
async def test_a_listener_cannot_close_what_waits_for_it(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        errors: asyncio.Queue[Exception] = asyncio.Queue()

        async def listen(_: Message) -> None:
            for call in (session.close, connection.stop, connection.close):
                try:
                    await call()
                except IllegalStateException as error:
                    errors.put_nowait(error)

        await consumer.set_message_listener(listen)
        await connection.start()
        await sent(session, producer, "x")
        assert ["a listener cannot" in str(await errors.get()) for _ in range(3)] == [True] * 3


@awaited
async def test_a_task_that_outlives_its_listener_uses_the_session_as_others_do(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        queue = session.create_queue("q")
        consumer = await session.create_consumer(queue)
        may_send = asyncio.Event()
        tasks: asyncio.Queue[asyncio.Task[None]] = asyncio.Queue()

        async def send_later() -> None:
            await may_send.wait()
            await producer.send(session.create_queue("r"), session.create_text_message("late"))

        async with session.create_producer() as producer:
            await consumer.set_message_listener(lambda _: tasks.put_nowait(asyncio.create_task(send_later())))
            await connection.start()
            await producer.send(queue, session.create_text_message("begin"))
            task = await tasks.get()
            await connection.stop()  # returns when the listener has
            may_send.set()
            await task
        await connection.start()
        async with connection.create_session() as other, other.create_consumer(other.create_queue("r")) as reader:
            assert await texts(reader, 1) == ["late"]


@pytest.mark.parametrize("mode", [Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE])
@awaited
async def test_what_a_listener_raised_for_comes_again(factory: ConnectionFactory, mode: int) -> None:
    async with factory.create_connection() as connection, connection.create_session(False, mode) as session:
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        seen: list[bool] = []
        is_done = asyncio.Event()

        async def listen(message: Message) -> None:
            seen.append(message.jms_redelivered)
            if len(seen) == 1:
                raise ValueError("the first time")
            is_done.set()

        await consumer.set_message_listener(listen)
        await connection.start()
        await sent(session, producer, "x")
        await is_done.wait()
        assert seen == [False, True]


def test_an_event_loop_that_ended_loses_nothing(jms_broker_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A connection that nobody closed: what its listener was at work on, and what comes later, is there for others."""

    async def listen_and_leave() -> object:
        connection = await ConnectionFactory(jms_broker_url).create_connection()
        session = await connection.create_session()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        is_begun = asyncio.Event()

        async def listen(_: Message) -> None:
            is_begun.set()
            await asyncio.Event().wait()

        await consumer.set_message_listener(listen)
        await connection.start()
        await sent(session, producer, "first", "second")
        await is_begun.wait()
        return connection

    with caplog.at_level(logging.ERROR, "pyjms"):
        left = asyncio.run(listen_and_leave())

    @awaited
    async def others_get_them() -> None:
        await left.close()  # type: ignore[attr-defined]
        async with ConnectionFactory(jms_broker_url).create_connection() as connection:
            await connection.start()
            async with connection.create_session() as session:
                consumer = await session.create_consumer(session.create_queue("q"))
                assert sorted(await texts(consumer, 2)) == ["first", "second"]

    others_get_them()


@awaited
async def test_an_exception_listener_is_told_on_the_event_loop(
    factory: ConnectionFactory, stop_broker: Callable[[], None]
) -> None:
    connection = await factory.create_connection()
    told: asyncio.Queue[JMSException] = asyncio.Queue()

    async def listen(error: JMSException) -> None:
        await told.put(error)

    connection.exception_listener = listen
    assert connection.exception_listener is listen
    await asyncio.to_thread(stop_broker)
    assert (await told.get()).error_code == "PYJMS-LOST"
    connection.exception_listener = None
    await connection.close()
