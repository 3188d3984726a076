"""Receives that wait on the event loop: what ends them, and that nothing is lost when they are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from threading import Event

import pytest

from pyjms import IllegalStateException, JMSException
from pyjms.aio import Connection, ConnectionFactory, Session
from pyjms.runtime.machines import DUPS_OK_BATCH
from pyjms.spi.delivery import Delivery
from pyjms.testing import VirtualClock
from pyjms_provider.clients.vm import VmSession
from tests.pyjms.aio.helpers import SOON_MS, awaited, sent, text_of, texts, turn, until_it_waits


@awaited
async def test_a_receive_waits_while_others_use_its_session(near_and_far: ConnectionFactory) -> None:
    async with near_and_far.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        receive = asyncio.create_task(consumer.receive())
        await until_it_waits(session)
        assert not receive.done()
        await sent(session, producer, "first")
        assert text_of(await receive) == "first"


@awaited
async def test_many_receives_wait_without_a_thread_each(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection:
        await connection.start()
        sessions = [await connection.create_session() for _ in range(50)]
        queues = [session.create_queue(f"q{number}") for number, session in enumerate(sessions)]
        consumers = [await session.create_consumer(queue) for session, queue in zip(sessions, queues, strict=True)]
        receives = [asyncio.create_task(consumer.receive(SOON_MS)) for consumer in consumers]
        async with connection.create_session() as sender, sender.create_producer() as producer:
            for number, queue in enumerate(queues):
                await producer.send(queue, sender.create_text_message(str(number)))
        assert [text_of(message) for message in await asyncio.gather(*receives)] == [str(n) for n in range(50)]


@awaited
async def test_a_timeout_ends_it(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        async with session.create_consumer(session.create_queue("q")) as consumer:
            assert await consumer.receive(1) is None
            assert await consumer.receive(-1) is None
            assert await consumer.receive_no_wait() is None


@awaited
async def test_a_virtual_clock_ends_it(jms_broker_url: str, virtual_clock: VirtualClock) -> None:
    factory = ConnectionFactory(jms_broker_url, clock=virtual_clock)
    async with factory.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        async with session.create_consumer(session.create_queue("q")) as consumer:
            receive = asyncio.create_task(consumer.receive(3_600_000))
            await asyncio.to_thread(virtual_clock.await_wait, 3_600_000)
            assert not receive.done()
            virtual_clock.advance(3_600_000)
            assert await receive is None


@pytest.mark.parametrize("what", ["consumer", "session", "connection"])
@awaited
async def test_a_close_ends_it(near_and_far: ConnectionFactory, what: str) -> None:
    async with near_and_far.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        consumer = await session.create_consumer(session.create_queue("q"))
        receive = asyncio.create_task(consumer.receive())
        await until_it_waits(session)
        await {"consumer": consumer, "session": session, "connection": connection}[what].close()
        assert await receive is None
        with pytest.raises(IllegalStateException):
            await consumer.receive()


@awaited
async def test_iterating_ends_with_the_consumer(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        await sent(session, producer, "a", "b", "end")
        seen = []
        async for message in consumer:
            seen.append(text_of(message))
            if seen[-1] == "end":
                await consumer.close()
        assert seen == ["a", "b", "end"]


@awaited
async def test_a_cancelled_receive_leaves_the_message_to_the_next_one(near_and_far: ConnectionFactory) -> None:
    async with near_and_far.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        receive = asyncio.create_task(consumer.receive())
        await until_it_waits(session)
        receive.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receive
        await sent(session, producer, "kept")
        assert await texts(consumer, 1) == ["kept"]
        assert await consumer.receive_no_wait() is None


MODES = [
    (False, Session.AUTO_ACKNOWLEDGE),
    (False, Session.CLIENT_ACKNOWLEDGE),
    (False, Session.DUPS_OK_ACKNOWLEDGE),
    (True, Session.SESSION_TRANSACTED),
]


@pytest.mark.parametrize(("transacted", "mode"), MODES)
@awaited
async def test_messages_that_come_while_receives_are_cancelled_come_once(
    near_and_far: ConnectionFactory, transacted: bool, mode: int
) -> None:
    count = 300
    async with near_and_far.create_connection() as connection:
        await connection.start()
        session, other = await connection.create_session(transacted, mode), await connection.create_session()
        queue = session.create_queue("q")
        consumer = await session.create_consumer(queue)

        async def send_all() -> None:
            async with other.create_producer(queue) as producer:
                await sent(other, producer, *map(str, range(count)))

        sending = asyncio.create_task(send_all())
        seen: list[str] = []
        turns = 0
        while len(seen) < count:
            receive = asyncio.create_task(consumer.receive(SOON_MS))
            for _ in range(turns % 7):  # so that it is at another place each time
                await turn()
            turns += 1
            if turns % 3:
                receive.cancel()
            try:
                seen.append(text_of(await receive))
            except asyncio.CancelledError:
                continue
        await sending
        assert seen == [str(number) for number in range(count)]
        if transacted:
            await session.commit()
        assert await consumer.receive_no_wait() is None


@pytest.mark.parametrize("moment", ["before the task is told", "while it is told"])
@pytest.mark.parametrize("next_one", ["a receive", "a listener"])
@awaited
async def test_what_a_cancelled_receive_took_is_the_next_ones(
    factory: ConnectionFactory, moment: str, next_one: str
) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        await sent(session, producer, "taken")
        receive = asyncio.create_task(consumer.receive())
        await turn()
        loop, is_taken = asyncio.get_running_loop(), Event()
        if moment == "while it is told":
            session._thread.post(lambda: loop.call_soon_threadsafe(receive.cancel))
        session._thread.post(is_taken.set)
        is_taken.wait()  # on the event loop, so that it cannot tell the task
        if moment == "before the task is told":
            receive.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receive
        if next_one == "a receive":
            assert await texts(consumer, 1) == ["taken"]
            assert await consumer.receive_no_wait() is None
        else:
            got: asyncio.Queue[str] = asyncio.Queue()
            await consumer.set_message_listener(lambda message: got.put_nowait(text_of(message)))
            assert await got.get() == "taken"


@awaited
async def test_what_a_cancelled_receive_has_settled_is_not_settled_again(
    factory: ConnectionFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[object] = []
    acknowledge = VmSession.acknowledge

    def noted(session: VmSession, deliveries: Sequence[Delivery]) -> None:
        settled.extend(each.envelope.body for each in deliveries)
        acknowledge(session, deliveries)

    monkeypatch.setattr(VmSession, "acknowledge", noted)
    count = 2 * DUPS_OK_BATCH
    async with (
        factory.create_connection() as connection,
        connection.create_session(False, Session.DUPS_OK_ACKNOWLEDGE) as session,
    ):
        await connection.start()
        queue = session.create_queue("q")
        consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
        await sent(session, producer, *map(str, range(count)))
        await texts(consumer, DUPS_OK_BATCH - 1)
        receive, is_taken = asyncio.create_task(consumer.receive()), Event()
        await turn()
        session._thread.post(is_taken.set)
        is_taken.wait()  # on the event loop, so that it cannot tell the task
        receive.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receive
        assert settled == [*map(str, range(DUPS_OK_BATCH))]
        assert await texts(consumer, DUPS_OK_BATCH + 1) == [*map(str, range(DUPS_OK_BATCH - 1, count))]
        assert settled == [*map(str, range(count))]


@awaited
async def test_one_receive_at_a_time_in_a_session(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        await connection.start()
        consumer = await session.create_consumer(session.create_queue("q"))
        other = await session.create_consumer(session.create_queue("r"))
        receive = asyncio.create_task(consumer.receive())
        await until_it_waits(session)
        calls: list[Callable[[], object]] = [other.receive, consumer.receive_no_wait]
        for call in calls:
            with pytest.raises(IllegalStateException, match="another task waits in a receive of this session"):
                await call()  # type: ignore[misc]
        with pytest.raises(IllegalStateException):
            await other.set_message_listener(print)
        await consumer.close()
        assert await receive is None


@awaited
async def test_no_transaction_ends_while_a_receive_is_under_way(factory: ConnectionFactory) -> None:
    """It would settle, or give back, a message that no task has yet."""
    async with factory.create_connection() as connection:
        await connection.start()
        session, other = await connection.create_session(transacted=True), await connection.create_session()
        consumers = [await each.create_consumer(each.create_queue("q")) for each in (session, other)]
        receives = [asyncio.create_task(consumer.receive()) for consumer in consumers]
        for each in (session, other):
            await until_it_waits(each)
        for call in (session.commit, session.rollback, other.recover):
            with pytest.raises(IllegalStateException, match="another task waits in a receive of this session"):
                await call()
        for consumer in consumers:
            await consumer.close()
        assert await asyncio.gather(*receives) == [None, None]
        await session.commit()
        await other.recover()


@awaited
async def test_a_lost_connection_ends_it(jms_broker_url: str, stop_broker: Callable[[], None]) -> None:
    async with ConnectionFactory(jms_broker_url).create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        consumer = await session.create_consumer(session.create_queue("q"))
        receive = asyncio.create_task(consumer.receive())
        await until_it_waits(session)
        await asyncio.to_thread(stop_broker)
        with pytest.raises(JMSException):
            await receive
        assert connection.state == "lost"


@awaited
async def test_another_event_loop_is_refused(factory: ConnectionFactory) -> None:
    async def made_elsewhere() -> tuple[Connection, Session]:
        connection = await factory.create_connection()
        return connection, await connection.create_session()

    connection, session = await asyncio.to_thread(lambda: asyncio.run(made_elsewhere()))
    for call in (connection.start, session.recover, connection.create_session().__aenter__):
        with pytest.raises(IllegalStateException, match="another event loop"):
            await call()
    await session.close()  # whose own loop has ended
    await connection.close()
