"""A message that is being read for a listener is not the listener's yet: what ends others in the meantime does not end it.

A provider may read a message from a disk only now, and find it gone if it was settled or given back. Listeners commonly hand
their messages over to the threads of an executor, which acknowledge them (JMS 1.1 §3.6) while the next ones are read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Event

import pytest

from pyjms import IllegalStateException, Session
from pyjms.messages.base import JmsMessage, MessageContext
from pyjms.messages.freeze import thaw
from pyjms.runtime.factory import ConnectionFactory
from pyjms.runtime.session import JmsSession
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import GoneError, ResourceError
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    Call,
    Recorder,
    await_event,
    eventually,
    holding,
    left_over,
    send_texts,
    within_patience,
)
from tests.pyjms.runtime.server_pool import Pool, feeding
from tests.pyjms.runtime.wrapping import Wrapped, raising

CLIENT, TRANSACTED = Session.CLIENT_ACKNOWLEDGE, Session.SESSION_TRANSACTED


def reading_second(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """Have `meanwhile` called while "two" is read for a listener, the first time."""
    waiting = [meanwhile]

    def read(delivery: Delivery, context: MessageContext) -> JmsMessage:
        if delivery.envelope.body == "two" and waiting:
            waiting.pop()()
        return thaw(delivery, context)

    monkeypatch.setattr("pyjms.runtime.dispatch.thaw", read)


def listen(connect: Connect, recorder: Recorder, way: str, mode: int, *texts: str) -> Session:
    """Have `texts` come to `recorder`: by a consumer's listener, or in a server session. Return the session."""
    connection = connect(started=False)
    session: Session
    if way == "consumer":
        session = connection.create_session(mode == TRANSACTED, mode)
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = recorder
    else:
        pool = Pool(connection, feeding(recorder), transacted=mode == TRANSACTED, mode=mode)
        session = pool.sessions[0]
        queue = session.create_queue("orders")
        connection.create_connection_consumer(queue, None, pool, len(texts))
    send_texts(connect().create_session(), queue, *texts)
    connection.start()
    return session


def close(session: Session) -> None:
    assert isinstance(session, JmsSession)
    within_patience(session.connection.close)


@pytest.mark.realises("BOIL-ACK-3", "BOIL-ACK-8")
@pytest.mark.parametrize("way", ["consumer", "server session"])
class TestAcknowledgedByAnotherThread:
    @pytest.mark.parametrize(
        "error",
        [GoneError("it was settled"), ResourceError("the disk is away"), OverflowError("int too large")],
        ids=lambda each: type(each).__name__,
    )
    def test_what_its_listener_did_not_get_is_not_settled(
        self, connect: Connect, monkeypatch: pytest.MonkeyPatch, way: str, error: Exception
    ) -> None:
        recorder = Recorder()

        def acknowledge_and_fail() -> None:
            within_patience(recorder.messages[0].acknowledge)
            raise error

        reading_second(monkeypatch, acknowledge_and_fail)
        session = listen(connect, recorder, way, CLIENT, "one", "two", "three")
        eventually(lambda: "three" in recorder.texts, "the third one came")
        close(session)
        assert set(recorder.texts + left_over(connect)) == {"one", "two", "three"}
        assert "one" not in left_over(connect)

    def test_what_its_listener_gets_is_settled_by_the_next_acknowledgement(
        self, connect: Connect, monkeypatch: pytest.MonkeyPatch, way: str
    ) -> None:
        recorder = Recorder()
        reading_second(monkeypatch, lambda: within_patience(recorder.messages[0].acknowledge))
        session = listen(connect, recorder, way, CLIENT, "one", "two", "three")
        assert recorder.wait_for(3) == ["one", "two", "three"]
        recorder.messages[-1].acknowledge()
        close(session)
        assert left_over(connect) == []


class TestEndedWhileStopping:
    """When a connection is being stopped, its listeners' thread controls the session no longer, and may be reading still."""

    @pytest.mark.realises("BOIL-ACK-3", "BOIL-ACK-9", "BOIL-HDR-7")
    @pytest.mark.parametrize(
        ("mode", "end", "again"),
        [
            (TRANSACTED, "commit", []),
            (TRANSACTED, "rollback", ["one"]),
            (CLIENT, "recover", ["one"]),
        ],
    )
    def test_it_covers_what_its_listener_got(
        self,
        connect: Connect,
        monkeypatch: pytest.MonkeyPatch,
        mode: int,
        end: str,
        again: Sequence[str],
    ) -> None:
        recorder, is_read, ended = Recorder(), Event(), Event()
        reading_second(monkeypatch, holding(is_read, ended))
        session = listen(connect, recorder, "consumer", mode, "one", "two")
        assert isinstance(session, JmsSession)
        await_event(is_read)
        stopping = Call(session.connection.stop)

        def try_to_end() -> bool:
            try:
                getattr(session, end)()
            except IllegalStateException:  # it is not being stopped yet
                return False
            return True

        eventually(try_to_end, "the session is nobody's")
        ended.set()
        stopping.result()
        assert recorder.texts == ["one", "two"]
        assert recorder.redelivered == [False, False]
        session.connection.start()
        assert recorder.wait_for(2 + len(again)) == ["one", "two", *again]
        close(session)
        assert left_over(connect) == [*again, "two"]


class TestNotGivenBack:
    """A message that can neither be read nor given back at once."""

    @pytest.mark.realises("BOIL-ACK-8")
    def test_it_comes_again_and_the_log_does_not_say_that_its_listener_ran(
        self, wrapped: Wrapped, connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        recorder = Recorder(lambda message: message.acknowledge())
        with ConnectionFactory(wrapped.url).create_connection() as connection:
            session = connection.create_session(False, CLIENT)
            queue = session.create_queue("orders")
            session.create_consumer(queue).message_listener = recorder
            send_texts(connect().create_session(), queue, "one", "two", "three")

            def fail() -> None:
                wrapped.before["recover"] = raising(ResourceError("the disk is full"))
                raise OverflowError("int too large")

            reading_second(monkeypatch, fail)
            with caplog.at_level(logging.WARNING, logger="pyjms.runtime"):
                connection.start()
                recorder.wait_for(3)
            assert sorted(map(str, recorder.texts)) == ["one", "three", "two"]
            assert "the disk is full" in caplog.text
            assert "after its listener ran" not in caplog.text
        assert left_over(connect) == []
