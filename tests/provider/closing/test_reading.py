"""A message that its listener's thread reads from the store, while another thread acknowledges an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from pyjms import ConnectionFactory, Message, Session
from pyjms.messages.base import JmsMessage, MessageContext
from pyjms.messages.freeze import thaw
from pyjms.spi.delivery import Delivery
from tests.provider.closing.crowd import PATIENCE_S, text_of


@pytest.mark.realises("BOIL-ACK-3")
def test_what_is_being_read_is_not_acknowledged(
    broker: Callable[[], AbstractContextManager[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All come for the second time, so that their delivery is noted in the store when they are read."""
    is_read, acknowledged = Event(), Event()
    heard: SimpleQueue[Message] = SimpleQueue()

    def read(delivery: Delivery, context: MessageContext) -> JmsMessage:
        if not heard.empty() and not is_read.is_set():
            is_read.set()
            assert acknowledged.wait(PATIENCE_S)
        return thaw(delivery, context)

    def work() -> None:
        assert is_read.wait(PATIENCE_S)
        heard.get().acknowledge()
        acknowledged.set()

    with broker() as url, ConnectionFactory(url).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        for text in ("one", "two", "three"):
            producer.send(session.create_text_message(text))
        consumer = session.create_consumer(queue)
        assert [consumer.receive(PATIENCE_S * 1000) is None for _ in range(3)] == [False] * 3
        session.recover()
        monkeypatch.setattr("pyjms.runtime.dispatch.thaw", read)
        worker = Thread(target=work, daemon=True)
        worker.start()
        consumer.message_listener = heard.put
        worker.join(PATIENCE_S)
        assert [text_of(heard.get(timeout=PATIENCE_S)) for _ in range(2)] == ["two", "three"]
