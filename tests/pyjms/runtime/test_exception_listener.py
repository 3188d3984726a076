"""The exception listener: told of what no call reports, one problem at a time, each once (JMS 1.1 §4.3.8)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Condition, Event, Lock, get_ident
from typing import Any

import pytest

from pyjms import ExceptionListener, IllegalArgumentException, JMSException
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.spi.errors import ConnectionLostError, ResourceError
from pyjms.testing import Fault, Faults
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    PATIENCE_S,
    Call,
    Recorder,
    await_event,
    eventually,
    send_texts,
    within_patience,
)
from tests.pyjms.runtime.wrapping import Wrapped


class Problems(ExceptionListener):
    """Keeps what it is told, then does `action`."""

    def __init__(self, action: Callable[[JMSException], object] | None = None) -> None:
        self._action = action
        self._changed = Condition()
        self.told: list[JMSException] = []
        self.threads: list[int] = []

    def on_exception(self, exception: JMSException) -> None:
        with self._changed:
            self.told.append(exception)
            self.threads.append(get_ident())
            self._changed.notify_all()
        if self._action is not None:
            self._action(exception)

    def wait_for(self, number: int) -> list[JMSException]:
        """Return the problems when there are `number` of them or more."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self.told) >= number, PATIENCE_S)
        assert enough, f"told of {self.told}, not of {number} problems"
        return list(self.told)


class TestSetting:
    @pytest.mark.realises("BOIL-CONN-17")
    def test_it_is_none_at_first_and_shown_as_it_was_given(self, connect: Connect) -> None:
        connection, problems = connect(started=False), Problems()
        assert connection.exception_listener is None
        assert connection.getExceptionListener() is None
        connection.exception_listener = problems
        assert connection.getExceptionListener() is problems
        connection.setExceptionListener(None)
        assert connection.exception_listener is None

    @pytest.mark.parametrize("wrong", [5, "listener", object()])
    def test_what_cannot_listen_is_refused(self, connection: JmsConnection, wrong: Any) -> None:
        with pytest.raises(IllegalArgumentException, match="on_exception"):
            connection.exception_listener = wrong
        assert connection.exception_listener is None

    @pytest.mark.realises("BOIL-CONN-17")
    def test_a_callable_and_the_java_name_will_do(self, jms_faults: Faults, connect: Connect) -> None:
        told: list[str] = []
        both = Event()

        class Listener(ExceptionListener):
            def onException(self, exception: JMSException) -> None:  # type: ignore[override,unused-ignore]
                told.append("java")
                if len(told) == 2:
                    both.set()

        def listen(exception: JMSException) -> None:
            told.append("callable")
            if len(told) == 2:
                both.set()

        connect().exception_listener = listen
        connect().setExceptionListener(Listener())
        jms_faults.drop_connections()
        await_event(both)
        assert sorted(told) == ["callable", "java"]


class TestTelling:
    @pytest.mark.realises("BOIL-CONN-17")
    def test_a_lost_connection_is_told_once(self, jms_faults: Faults, connect: Connect) -> None:
        connection, problems = connect(), Problems()
        connection.exception_listener = problems
        session = connection.create_session()
        consumer = session.create_consumer(session.create_queue("orders"))
        jms_faults.drop_connections()
        (told,) = problems.wait_for(1)
        assert type(told) is JMSException
        assert told.error_code == "PYJMS-LOST"
        assert isinstance(told.linked_exception, ConnectionLostError)
        assert get_ident() not in problems.threads
        for _ in range(3):
            with pytest.raises(JMSException):
                consumer.receive_no_wait()
        connection.close()
        assert len(problems.told) == 1

    @pytest.mark.realises("BOIL-CONN-17")
    def test_a_stopped_broker_is_told(self, connect: Connect, stop_broker: Callable[[], None]) -> None:
        connections, all_problems = [connect() for _ in range(2)], [Problems(), Problems()]
        for connection, problems in zip(connections, all_problems, strict=True):
            connection.exception_listener = problems
        stop_broker()
        for problems in all_problems:
            (told,) = problems.wait_for(1)
            assert isinstance(told, JMSException)
        for connection, problems in zip(connections, all_problems, strict=True):
            with pytest.raises(JMSException):
                connection.create_session()
            within_patience(connection.close)
            assert len(problems.told) == 1

    @pytest.mark.realises("BOIL-CONN-17")
    def test_it_is_told_while_threads_wait_and_listeners_listen(self, jms_faults: Faults, connect: Connect) -> None:
        connection, problems, recorder = connect(started=False), Problems(), Recorder()
        connection.exception_listener = problems
        receiving, listening = connection.create_session(), connection.create_session()
        consumer = receiving.create_consumer(receiving.create_queue("orders"))
        listening.create_consumer(listening.create_queue("other")).message_listener = recorder
        connection.start()
        waiting = Call(consumer.receive)
        waiting.is_blocked()
        jms_faults.drop_connections()
        assert len(problems.wait_for(1)) == 1
        with pytest.raises(JMSException):
            waiting.result()
        within_patience(connection.close)
        assert len(problems.told) == 1
        assert recorder.texts == []

    @pytest.mark.realises("BOIL-CONN-18")
    @pytest.mark.parametrize("fault", [Fault.SEND_REFUSED, Fault.COMMIT_ROLLED_BACK, Fault.COMMIT_IN_DOUBT])
    def test_what_a_call_raises_is_not_told_as_well(self, jms_faults: Faults, connect: Connect, fault: Fault) -> None:
        connection, problems = connect(), Problems()
        connection.exception_listener = problems
        session = connection.create_session(True, 0)
        queue = session.create_queue("orders")
        jms_faults.inject(fault)
        with pytest.raises(JMSException):
            if fault is Fault.SEND_REFUSED:
                send_texts(session, queue, "espresso")
            session.commit()
        jms_faults.drop_connections()
        (told,) = problems.wait_for(1)
        assert told.error_code == "PYJMS-LOST"

    @pytest.mark.realises("BOIL-CONN-17")
    def test_other_problems_are_told_too(self, wrapped: Wrapped) -> None:
        with ConnectionFactory(wrapped.url).create_connection() as connection:
            problems = Problems()
            connection.exception_listener = problems
            wrapped.events[0].on_exception(ResourceError("the disk is nearly full"))
            (told,) = problems.wait_for(1)
            assert told.message == "the disk is nearly full"
            session = connection.create_session()
            send_texts(session, session.create_queue("orders"), "espresso")


class TestOneAtATime:
    @pytest.mark.realises("BOIL-CONN-17")
    def test_its_calls_are_serialized_and_in_order(self, wrapped: Wrapped) -> None:
        inside, overlaps = Lock(), list[JMSException]()

        def work(exception: JMSException) -> None:
            if not inside.acquire(blocking=False):
                overlaps.append(exception)
                return
            Event().wait(0.002)
            inside.release()

        with ConnectionFactory(wrapped.url).create_connection() as connection:
            problems = Problems(work)
            connection.exception_listener = problems
            (events,) = wrapped.events
            for number in range(20):
                events.on_exception(ResourceError(str(number)))
            told = problems.wait_for(20)
        assert [each.message for each in told] == [str(number) for number in range(20)]
        assert overlaps == []
        assert len(set(problems.threads)) == 1

    @pytest.mark.realises("BOIL-CONN-17")
    def test_many_threads_may_have_problems_at_once(self, wrapped: Wrapped) -> None:
        with ConnectionFactory(wrapped.url).create_connection() as connection:
            problems = Problems()
            connection.exception_listener = problems
            (events,) = wrapped.events
            calls = [Call(events.on_exception, ResourceError(str(number))) for number in range(16)]
            for call in calls:
                call.result()
            told = problems.wait_for(16)
        assert sorted(int(str(each.message)) for each in told) == list(range(16))

    @pytest.mark.realises("BOIL-CONN-17")
    @pytest.mark.parametrize("error", [RuntimeError("mine"), SystemExit(1)], ids=lambda each: type(each).__name__)
    def test_a_listener_that_raises_is_told_of_the_next_problem(self, wrapped: Wrapped, error: BaseException) -> None:
        def work(exception: JMSException) -> None:
            if exception.message == "first":
                raise error

        with ConnectionFactory(wrapped.url).create_connection() as connection:
            problems = Problems(work)
            connection.exception_listener = problems
            wrapped.events[0].on_exception(ResourceError("first"))
            problems.wait_for(1)
            wrapped.events[0].on_exception(ResourceError("second"))
            assert [each.message for each in problems.wait_for(2)] == ["first", "second"]

    def test_a_slow_listener_blocks_nobody(self, wrapped: Wrapped, latch: Callable[[], Event]) -> None:
        release = latch()
        connection = ConnectionFactory(wrapped.url).create_connection()
        problems = Problems(lambda exception: release.wait(PATIENCE_S))
        connection.exception_listener = problems
        within_patience(wrapped.events[0].on_exception, ResourceError("first"))
        problems.wait_for(1)
        within_patience(wrapped.events[0].on_exception, ResourceError("second"))
        session = connection.create_session()
        within_patience(send_texts, session, session.create_queue("orders"), "espresso")
        within_patience(connection.close)
        release.set()


class TestWithin:
    def test_it_may_close_its_connection(self, jms_faults: Faults, connect: Connect) -> None:
        connection, closed = connect(), Event()
        session = connection.create_session()
        waiting = Call(session.create_consumer(session.create_queue("orders")).receive)

        def work(exception: JMSException) -> None:
            connection.close()
            closed.set()

        connection.exception_listener = Problems(work)
        waiting.is_blocked()
        jms_faults.drop_connections()
        await_event(closed)
        with suppress(JMSException):  # whichever it saw first, the loss or the close
            assert waiting.result() is None
        within_patience(connection.close)

    def test_it_may_connect_again(self, jms_faults: Faults, connect: Connect) -> None:
        """The usual way of clients to go on after a loss."""
        connection, again, done = connect(), list[JmsConnection](), Event()

        def work(exception: JMSException) -> None:
            connection.close()
            again.append(connect("shop"))
            done.set()

        connection.exception_listener = work
        jms_faults.drop_connections()
        await_event(done)
        session = again[0].create_session()
        send_texts(session, session.create_queue("orders"), "espresso")

    def test_it_may_be_exchanged_while_it_runs(self, wrapped: Wrapped) -> None:
        with ConnectionFactory(wrapped.url).create_connection() as connection:
            second = Problems()
            first = Problems(lambda exception: setattr(connection, "exception_listener", second))
            connection.exception_listener = first
            wrapped.events[0].on_exception(ResourceError("one"))
            first.wait_for(1)
            eventually(lambda: connection.exception_listener is second, "the second listener is set")
            wrapped.events[0].on_exception(ResourceError("two"))
            assert [each.message for each in second.wait_for(1)] == ["two"]
            assert len(first.told) == 1


def test_without_a_listener_a_problem_is_logged(
    jms_faults: Faults, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    connect()
    jms_faults.drop_connections()
    eventually(lambda: any("PYJMS-LOST" in record.getMessage() for record in caplog.records), "the loss is logged")
