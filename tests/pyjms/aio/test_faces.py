"""What the conformance suite found `pyjms.aio` to do otherwise than `pyjms`, and what it does not ask."""

from __future__ import annotations

import pytest

from pyjms import IllegalStateException
from pyjms import XAConnectionFactory as OrdinaryXAConnectionFactory
from pyjms.aio import ConnectionFactory, XAConnectionFactory
from tests.pyjms.aio.helpers import awaited


@awaited
async def test_what_is_closed_tells_nothing_of_its_listener(factory: ConnectionFactory) -> None:
    async with factory.create_connection() as connection, connection.create_session() as session:
        consumer = await session.create_consumer(session.create_queue("q"))
        await consumer.set_message_listener(print)
        assert consumer.message_listener is print
        connection.exception_listener = print
        assert connection.exception_listener is print
        await consumer.close()
        with pytest.raises(IllegalStateException):
            _ = consumer.message_listener
    with pytest.raises(IllegalStateException):
        _ = connection.exception_listener
    with pytest.raises(IllegalStateException):
        connection.exception_listener = None


@awaited
async def test_the_resource_of_another_face_is_not_the_same(jms_broker_url: str, tmp_path: object) -> None:
    url = f"{jms_broker_url}?store=sqlite:///{tmp_path}/xa.db"
    ordinary = OrdinaryXAConnectionFactory(url).create_xa_connection()
    async with XAConnectionFactory(url).create_xa_connection() as connection:
        session = await connection.create_xa_session()
        with ordinary, ordinary.create_xa_session() as another:
            assert not session.xa_resource.is_same_rm(another.xa_resource)  # type: ignore[arg-type]
            assert not another.xa_resource.is_same_rm(session.xa_resource)  # type: ignore[arg-type]
