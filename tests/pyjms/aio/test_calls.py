"""Calls of a session: their order, what cancelling them undoes, and who may make them."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Sequence
from threading import Event

import pytest

from pyjms import (
    DeliveryMode,
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    TransactionInProgressException,
)
from pyjms.aio import ConnectionFactory, Session, XAConnectionFactory
from pyjms.aio.calls import SessionThread
from pyjms.api.xa import XAResource
from pyjms_provider.queue_manager import QueueManager
from tests.pyjms.aio.helpers import SOON_MS, awaited, sent, text_of, texts, turn


@awaited
async def test_calls_that_are_made_together_are_done_in_their_order(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        await asyncio.gather(*(producer.send(session.create_text_message(str(n))) for n in range(100)))
        assert await texts(consumer, 100) == [str(n) for n in range(100)]


@awaited
async def test_what_had_not_begun_is_not_done_when_its_task_is_cancelled() -> None:
    thread, may_go, is_there = SessionThread("pyjms-aio-session-test", asyncio.get_running_loop()), Event(), Event()
    done: list[str] = []

    def hold() -> str:
        is_there.set()
        may_go.wait()
        return "held"

    undone: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    first = asyncio.create_task(
        thread.call(hold, undo=lambda result: loop.call_soon_threadsafe(undone.put_nowait, result))
    )
    second = asyncio.create_task(thread.call(lambda: done.append("second")))
    third = asyncio.create_task(thread.call(lambda: done.append("third")))
    await asyncio.to_thread(is_there.wait)
    first.cancel()
    second.cancel()
    await asyncio.wait([first, second])
    may_go.set()
    await third
    assert done == ["third"]
    assert await undone.get() == "held"
    thread.end()
    assert await thread.call(lambda: "at once") == "at once"


@awaited
async def test_a_consumer_that_nobody_got_is_closed(factory: ConnectionFactory) -> None:
    async with factory.create_connection(None) as connection:
        await connection.set_client_id("once")
        session = await connection.create_session()
        topic = session.create_topic("t")
        made = asyncio.ensure_future(session.create_durable_subscriber(topic, "s").__aenter__())
        await turn()
        made.cancel()
        with pytest.raises(asyncio.CancelledError):
            await made
        async with session.create_durable_subscriber(topic, "s"):  # it would be in use
            pass
        await session.unsubscribe("s")


@awaited
async def test_the_threads_of_sessions_end(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection:
        closed = await connection.create_session()
        await connection.create_session()  # nobody has it
        gc.collect()
        left = await connection.create_session()
        await closed.close()
        assert left.transacted is False
    ended = [each for each in threading.enumerate() if each.name.startswith("pyjms-aio-session")]
    for each in ended:
        await asyncio.to_thread(each.join, 30)
        assert not each.is_alive()


@pytest.mark.parametrize("what", ["session", "connection"])
@awaited
async def test_a_send_that_waits_for_room_keeps_nobody_else_waiting(
    factory: ConnectionFactory, jms_broker_url: str, what: str
) -> None:
    async with factory.create_connection() as connection:
        session, other = await connection.create_session(), await connection.create_session()
        manager = QueueManager.of(jms_broker_url.removeprefix("vm://"))
        manager.create("full", max_messages=1, overflow="block")
        queue = session.create_queue("full")
        producer = await session.create_producer(queue)
        await sent(session, producer, "first")
        sending = asyncio.create_task(sent(session, producer, "second"))
        await turn()
        async with other.create_producer(other.create_queue("q")) as another:
            await sent(other, another, "beside it")
        assert not sending.done()
        await {"session": session, "connection": connection}[what].close()
        with pytest.raises(JMSException):
            await sending


@awaited
async def test_a_closed_session_refuses_all_calls(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection:
        session = await connection.create_session(transacted=True)
        producer = await session.create_producer(session.create_queue("q"))
        consumer = await session.create_consumer(session.create_queue("q"))
        await session.close()
        await session.close()
        calls: Sequence[Callable[[], object]] = [
            session.commit,
            session.rollback,
            lambda: producer.send(None),  # type: ignore[call-overload]
            consumer.receive,
            consumer.receive_no_wait,
            session.create_producer,
            session.create_temporary_queue,
            lambda: session.unsubscribe("s"),
        ]
        for call in calls:
            with pytest.raises(JMSException):
                await call()  # type: ignore[misc]
        with pytest.raises(IllegalStateException):
            session.create_text_message("x")
        await consumer.close()
        await producer.close()
        await connection.close()
        with pytest.raises(IllegalStateException):
            await connection.create_session()


@awaited
async def test_errors_are_those_of_the_specification(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        with pytest.raises(IllegalStateException):
            await connection.set_client_id("too late")
        with pytest.raises(InvalidSelectorException):
            await session.create_consumer(session.create_queue("q"), "a >")
        with pytest.raises(InvalidDestinationException):
            await session.create_consumer(None)  # type: ignore[arg-type]
        with pytest.raises(InvalidDestinationException):
            await session.delete_temporary(session.create_queue("q"))  # type: ignore[arg-type]
        with pytest.raises(JMSException):
            await connection.create_session(False, 7)
    async with factory.create_connection() as connection:
        with pytest.raises(InvalidClientIDException):
            await connection.set_client_id("")


@awaited
async def test_client_acknowledge_is_awaited(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection:
        session = await connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        await connection.start()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        await sent(session, producer, "a", "b", "c")
        first = await consumer.receive(SOON_MS)
        assert first is not None
        with pytest.raises(IllegalStateException, match=r"await session\.acknowledge\(message\)"):
            first.acknowledge()
        await session.acknowledge(first)
        await consumer.receive(SOON_MS)
        await session.recover()
        assert await texts(consumer, 2) == ["b", "c"]


@awaited
async def test_transactions(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection:
        session = await connection.create_session(transacted=True)
        await connection.start()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        await sent(session, producer, "undone")
        await session.rollback()
        await sent(session, producer, "done")
        await session.commit()
        assert await texts(consumer, 1) == ["done"]
        await session.rollback()
        message = await consumer.receive(SOON_MS)
        assert message is not None
        assert message.jms_redelivered
        await session.commit()
        assert await consumer.receive_no_wait() is None


@awaited
async def test_the_properties_of_a_producer(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        queue = session.create_queue("q")
        async with session.create_producer(queue) as producer, session.create_browser(queue) as browser:
            producer.delivery_mode = DeliveryMode.NON_PERSISTENT
            producer.priority = 7
            producer.time_to_live = 100_000
            producer.disable_message_id = False
            producer.disable_message_timestamp = False
            assert producer.destination == queue
            await sent(session, producer, "one")
            await producer.send(session.create_text_message("two"), DeliveryMode.PERSISTENT, 1, 0)
            assert producer.delivery_mode == DeliveryMode.NON_PERSISTENT
            assert browser.queue == queue
            assert browser.message_selector is None
            seen = [message async for message in browser]
            assert [(text_of(each), each.jms_priority, each.jms_expiration > 0) for each in seen] == [
                ("one", 7, True),
                ("two", 1, False),
            ]


@awaited
async def test_temporary_destinations_are_deleted(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        queue, topic = await session.create_temporary_queue(), await session.create_temporary_topic()
        await session.delete_temporary(topic)
        async with session.create_consumer(queue):
            with pytest.raises(JMSException):
                await session.delete_temporary(queue)
        await session.delete_temporary(queue)
        with pytest.raises(InvalidDestinationException):
            await session.create_consumer(queue)


class _Branch:
    """A branch of a distributed transaction."""

    format_id = 1
    global_transaction_id = b"global"
    branch_qualifier = b"branch"


@awaited
async def test_a_branch_is_prepared_and_committed(jms_broker_url: str, tmp_path: object) -> None:
    url = f"{jms_broker_url}?store=sqlite:///{tmp_path}/xa.db"
    branch = _Branch()
    async with XAConnectionFactory(url).create_xa_connection() as connection:
        session = await connection.create_xa_session()
        resource = session.xa_resource
        queue = session.create_queue("q")
        producer = await session.create_producer(queue)
        assert resource.is_same_rm(resource)
        assert await resource.set_transaction_timeout(60)
        assert await resource.get_transaction_timeout() == 60
        await resource.start(branch, XAResource.TMNOFLAGS)  # type: ignore[arg-type]
        await sent(session, producer, "in the branch")
        with pytest.raises(TransactionInProgressException):
            await session.commit()
        await resource.end(branch, XAResource.TMSUCCESS)  # type: ignore[arg-type]
        assert await resource.prepare(branch) == XAResource.XA_OK  # type: ignore[arg-type]
        assert [each.branch_qualifier for each in await resource.recover(XAResource.TMSTARTRSCAN)] == [b"branch"]
        await resource.commit(branch, False)  # type: ignore[arg-type]
        async with connection.create_session() as plain, plain.create_consumer(queue) as consumer:
            await connection.start()
            assert await texts(consumer, 1) == ["in the branch"]
