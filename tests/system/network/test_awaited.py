"""Tasks whose calls are cancelled while their broker goes away and comes back: nothing is lost, and nothing hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import pyjms
from pyjms.aio import ConnectionFactory, Session
from pyjms.spi.delivery import Delivery
from pyjms_provider.clients.stomp.native.session import NativeSession
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.protocols.stomp.frames import Frame
from tests.pyjms.aio.helpers import LIMIT_S, SOON_MS, awaited, sent, text_of, texts, turn
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
            while consumer._beneath.unreturned is None:  # on the event loop, so that nobody can tell the task
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


def interrupt_behind_acknowledging(monkeypatch: pytest.MonkeyPatch, consumer: pyjms.MessageConsumer) -> None:
    """Have a receive interrupted when it has told the broker that its message is settled."""
    acknowledge: Callable[..., None] = NativeSession.acknowledge

    def be_interrupted(session: NativeSession, deliveries: Sequence[Delivery]) -> None:
        acknowledge(session, deliveries)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(NativeSession, "acknowledge", be_interrupted)
        consumer.receive(SOON_MS)


@pytest.mark.parametrize("confirm", ["yes", "no"])
def test_what_an_interrupted_receive_has_settled_is_returned_after_the_connection_was_lost(
    confirm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same of a Ctrl-C when the broker had been told: nobody knows whether it is settled, so it is returned, and perhaps comes again."""
    with anonymous_broker() as broker, Proxy(("127.0.0.1", port_of(broker))) as proxy:
        url = f"stomp://127.0.0.1:{proxy.port}?confirm_acknowledge={confirm}"
        with pyjms.ConnectionFactory(url).create_connection() as connection:
            lost = threading.Event()
            connection.exception_listener = lambda _: lost.set()
            connection.start()
            session = connection.create_session()
            queue = session.create_queue("q")
            consumer, producer = session.create_consumer(queue), session.create_producer(None)
            producer.send(queue, session.create_text_message("taken"))
            interrupt_behind_acknowledging(monkeypatch, consumer)
            producer.send(
                session.create_queue("another"), session.create_text_message("answered after the acknowledgement")
            )
            proxy.cut_all()
            assert lost.wait(LIMIT_S)
            assert text_of(consumer.receive(SOON_MS)) == "taken"
            assert consumer.receive_no_wait() is None


def test_a_connection_that_is_lost_while_it_is_said_again_leaves_the_same_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with anonymous_broker() as broker, Proxy(("127.0.0.1", port_of(broker))) as proxy:
        url = f"stomp://127.0.0.1:{proxy.port}"
        with pyjms.ConnectionFactory(url).create_connection() as connection:
            lost = threading.Event()
            connection.exception_listener = lambda _: lost.set()
            connection.start()
            session = connection.create_session()
            queue = session.create_queue("q")
            consumer, producer = session.create_consumer(queue), session.create_producer(None)
            producer.send(queue, session.create_text_message("taken"))
            interrupt_behind_acknowledging(monkeypatch, consumer)
            ask: Callable[..., Frame] = PhysicalConnection.ask

            def ask_of_nobody(epoch: PhysicalConnection, *frames: Frame, **options: Any) -> Frame:
                if frames[0].command == "ACK":
                    proxy.cut_all()
                    assert lost.wait(LIMIT_S)
                return ask(epoch, *frames, **options)

            with monkeypatch.context() as patched:
                patched.setattr(PhysicalConnection, "ask", ask_of_nobody)
                assert text_of(consumer.receive(SOON_MS)) == "taken"
            assert consumer.receive_no_wait() is None
