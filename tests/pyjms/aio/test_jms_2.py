"""Sessions of one mode, shared and durable consumers, and the delivery delay, for asyncio (JMS 2.0)."""

from __future__ import annotations

import pytest

from pyjms import InvalidDestinationException, JMSException
from pyjms.aio import ConnectionFactory, Session
from tests.pyjms.aio.helpers import awaited

_PATIENCE_MS = 10_000


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@awaited
async def test_a_session_is_made_by_its_mode(factory: ConnectionFactory, mode: int) -> None:
    async with factory.create_connection() as connection:
        for making in (connection.create_session(mode), connection.create_session(session_mode=mode)):
            async with making as session:
                assert session.acknowledge_mode == mode
                assert session.transacted is (mode == Session.SESSION_TRANSACTED)
        with pytest.raises(JMSException):
            await connection.create_session(4)


@pytest.mark.parametrize("create", ["create_shared_consumer", "create_shared_durable_consumer"])
@awaited
async def test_consumers_divide_a_shared_subscription(factory: ConnectionFactory, create: str) -> None:
    async with factory.create_connection() as connection, factory.create_connection() as other:
        await connection.start()
        await other.start()
        sessions = [await each.create_session() for each in (connection, other)]
        topic = sessions[0].create_topic("prices")
        consumers = [await getattr(each, create)(topic, "desks") for each in sessions]
        producer = await sessions[0].create_producer(topic)
        for text in ("1.80", "1.90"):
            await producer.send(sessions[0].create_text_message(text))
        received = [await each.receive(_PATIENCE_MS) for each in consumers]
        assert sorted(each.get_body(str) for each in received) == ["1.80", "1.90"]
        with pytest.raises(JMSException):
            await getattr(sessions[1], create)(topic, "desks", "a = 1")
        with pytest.raises(InvalidDestinationException):
            await getattr(sessions[1], create)(sessions[1].create_queue("q"), "desks")
        for each in consumers:
            await each.close()
        if create == "create_shared_durable_consumer":
            await sessions[1].unsubscribe("desks")


@awaited
async def test_a_durable_consumer_keeps_messages(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection:
        await connection.set_client_id("desk")
        await connection.start()
        session = await connection.create_session()
        topic = session.create_topic("prices")
        async with session.create_durable_consumer(topic, "all", None, False):
            with pytest.raises(JMSException):
                await session.create_durable_consumer(topic, "all")
        producer = await session.create_producer(topic)
        await producer.send(session.create_text_message("kept"))
        async with session.create_durable_consumer(topic, "all") as consumer:
            message = await consumer.receive(_PATIENCE_MS)
            assert message is not None
            assert message.get_body(str) == "kept"


@awaited
async def test_a_message_is_delayed(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        queue = session.create_queue("orders")
        producer, consumer = await session.create_producer(queue), await session.create_consumer(queue)
        assert producer.delivery_delay == 0
        producer.delivery_delay = 50
        assert producer.delivery_delay == 50
        message = session.create_text_message("later")
        await producer.send(message)
        received = await consumer.receive(_PATIENCE_MS)
        assert received is not None
        assert received.jms_delivery_time == message.jms_delivery_time == message.jms_timestamp + 50
        with pytest.raises(JMSException):
            producer.delivery_delay = -1
