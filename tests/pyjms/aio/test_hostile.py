"""Tasks that are cancelled, closed and answered at the worst moment: no message is lost, and none comes twice."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import pytest

from pyjms import IllegalStateException
from pyjms.aio import ConnectionFactory, Session
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

        is_in, may_go, take = Event(), Event(), session._beneath.take

        def slow_take(*arguments: Any, **named: Any) -> Any:
            is_in.set()
            assert may_go.wait(SOON_MS / 1000)
            return take(*arguments, **named)

        monkeypatch.setattr(session._beneath, "take", slow_take)
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
        other._thread.post(lambda: producer._beneath.send(other.create_text_message("only")))
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
