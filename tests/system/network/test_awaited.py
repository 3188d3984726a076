"""Tasks whose calls are cancelled while their broker goes away and comes back: nothing is lost, and nothing hangs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pyjms.aio import ConnectionFactory, Session
from tests.pyjms.aio.helpers import awaited, sent, texts, turn
from tests.system.network.proxy import Proxy
from tests.system.network.served import anonymous_broker, port_of

MODES = {
    "auto": Session.AUTO_ACKNOWLEDGE,
    "dups ok": Session.DUPS_OK_ACKNOWLEDGE,
    "client": Session.CLIENT_ACKNOWLEDGE,
}


@pytest.mark.parametrize("mode", MODES)
@awaited
async def test_what_a_cancelled_receive_has_settled_is_returned_after_the_connection_was_lost(mode: str) -> None:
    """It was settled once more, which the lost connection refused: so it counted as one that comes again, and never did."""
    with anonymous_broker() as broker, Proxy(("127.0.0.1", port_of(broker))) as proxy:
        async with (
            ConnectionFactory(f"stomp://127.0.0.1:{proxy.port}").create_connection() as connection,
            connection.create_session(False, MODES[mode]) as session,
        ):
            lost = asyncio.Event()
            connection.exception_listener = lambda _: lost.set()
            await connection.start()
            queue = session.create_queue("q")
            consumer, producer = await session.create_consumer(queue), await session.create_producer(queue)
            await sent(session, producer, "taken")
            receive = asyncio.create_task(consumer.receive())
            await turn()
            while consumer._sync.latest is None:  # on the event loop, so that nobody can tell the task
                pass
            is_settled = threading.Event()
            session._thread.post(is_settled.set)
            is_settled.wait()
            receive.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receive
            proxy.cut_all()
            await lost.wait()
            assert await texts(consumer, 1) == ["taken"]
