"""A provider that raises what it must not: the session goes on, and somebody is told (JMS 1.1 §4.3.8, §4.5.2, §7.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest

from pyjms import JMSException, Session
from pyjms.messages.freeze import thaw
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.runtime.waiting import WorkThread
from pyjms.spi import Delivery
from pyjms.testing import VirtualClock
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import Recorder, await_event, drain, eventually, send_texts, take, text_of
from tests.pyjms.runtime.server_pool import Pool, feeding
from tests.pyjms.runtime.test_exception_listener import Problems
from tests.pyjms.runtime.wrapping import Wrapped

MODES = [
    Session.AUTO_ACKNOWLEDGE,
    Session.DUPS_OK_ACKNOWLEDGE,
    Session.CLIENT_ACKNOWLEDGE,
    Session.SESSION_TRANSACTED,
]


def failing(times: int = 1) -> Callable[[], None]:
    """Return a hook that raises what no provider may."""
    left = [times]

    def fail() -> None:
        if left[0]:
            left[0] -= 1
            raise OverflowError("int too large to convert to float")

    return fail


@pytest.fixture
def failing_connection(wrapped: Wrapped) -> Iterator[JmsConnection]:
    """A connection to it; not started."""
    with ConnectionFactory(wrapped.url).create_connection() as connection:
        yield connection
        wrapped.before.clear()


@pytest.fixture
def problems(failing_connection: JmsConnection) -> Problems:
    """What its exception listener hears."""
    each = Problems()
    failing_connection.exception_listener = each
    return each


def read_unless_bad(delivery: Delivery, context: Any) -> Any:
    """Stand for `thaw` where the text "bad" cannot be read."""
    if delivery.envelope.body == "bad":
        raise OverflowError("int too large to convert to float")
    return thaw(delivery, context)


@pytest.fixture
def unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages with the text "bad" cannot be read."""
    monkeypatch.setattr("pyjms.runtime.dispatch.thaw", read_unless_bad)
    monkeypatch.setattr("pyjms.runtime.session.thaw", read_unless_bad)


class TestWorkThread:
    def test_it_goes_on_after_an_error(self) -> None:
        errors: list[Exception] = []
        done = Event()
        steps: Iterator[bool | Exception] = iter([True, OverflowError("no"), True, ValueError("no"), False])

        def work() -> bool:
            step = next(steps)
            if isinstance(step, Exception):
                raise step
            if not step:
                done.set()
            return step

        thread = WorkThread("test-work", VirtualClock(), work, errors.append)
        thread.start()
        thread.wake()
        await_event(done)
        thread.end()
        assert [str(each) for each in errors] == ["no", "no"]

    def test_it_does_not_run_in_a_circle(self) -> None:
        clock, told, calls = VirtualClock(), Event(), [0]

        def work() -> bool:
            calls[0] += 1
            raise OverflowError("no")

        def tell(_: Exception) -> None:
            if calls[0] in (7, 14):
                told.set()

        thread = WorkThread("test-work", clock, work, tell)
        thread.start()
        for expected in (7, 14):
            told.clear()
            thread.wake()
            await_event(told)
            assert calls[0] == expected
        thread.end()
        assert calls[0] == 14


class TestListeners:
    def test_a_poll_that_fails_keeps_nobody_from_anything(
        self, wrapped: Wrapped, failing_connection: JmsConnection, problems: Problems, connect: Connect
    ) -> None:
        session, recorder = failing_connection.create_session(), Recorder()
        one, two = session.create_queue("one"), session.create_queue("two")
        session.create_consumer(one).message_listener = recorder
        session.create_consumer(two).message_listener = recorder
        wrapped.before["poll"] = failing(3)
        sending = connect().create_session()
        send_texts(sending, one, "espresso")
        send_texts(sending, two, "tea")
        failing_connection.start()
        assert sorted(map(str, recorder.wait_for(2))) == ["espresso", "tea"]
        assert "OverflowError: int too large" in str(problems.wait_for(1)[0])
        assert failing_connection.state == "connected"

    @pytest.mark.parametrize("mode", MODES)
    def test_a_message_that_cannot_be_read_is_set_aside_in_the_end(
        self, failing_connection: JmsConnection, problems: Problems, connect: Connect, unreadable: None, mode: int
    ) -> None:
        session = failing_connection.create_session(mode == Session.SESSION_TRANSACTED, mode)
        queue, recorder = session.create_queue("orders"), Recorder()
        session.create_consumer(queue).message_listener = recorder
        sending = connect().create_session()
        send_texts(sending, queue, "bad", "good")
        failing_connection.start()
        assert recorder.wait_for(1) == ["good"]
        assert "OverflowError" in str(problems.wait_for(1)[0])
        letters = sending.create_browser(sending.create_queue("DLQ"))
        eventually(lambda: list(letters), "the message was set aside")
        (letter,) = letters
        reason = letter.get_string_property("JMS_pyjms_deadReason")
        assert reason is not None
        assert reason.startswith("the message could not be read: OverflowError")
        send_texts(sending, queue, "next")
        assert recorder.wait_for(2) == ["good", "next"]

    @pytest.mark.parametrize("mode", MODES[:2])
    def test_what_cannot_be_settled_comes_again(
        self,
        wrapped: Wrapped,
        failing_connection: JmsConnection,
        problems: Problems,
        connect: Connect,
        mode: int,
    ) -> None:
        session = failing_connection.create_session(False, mode)
        queue, recorder = session.create_queue("orders"), Recorder()
        session.create_consumer(queue).message_listener = recorder
        wrapped.before["acknowledge"] = failing()
        texts = [str(number) for number in range(20)]  # as many as DUPS_OK settles at once
        send_texts(connect().create_session(), queue, *texts)
        failing_connection.start()
        problems.wait_for(1)
        send_texts(connect().create_session(), queue, "last")
        eventually(lambda: "last" in recorder.texts, "the last message came")
        assert sorted(set(map(str, recorder.texts))) == sorted([*texts, "last"])
        failing_connection.close()
        other = connect().create_session()
        assert drain(other.create_consumer(queue)) == []


class TestServerSessions:
    def test_the_application_server_hears_of_no_error_that_is_not_its_own(
        self, failing_connection: JmsConnection, problems: Problems, connect: Connect, unreadable: None
    ) -> None:
        recorder, sending = Recorder(), connect().create_session()
        queue = sending.create_queue("orders")
        pool = Pool(failing_connection, feeding(recorder))
        failing_connection.create_connection_consumer(queue, None, pool, 1)
        failing_connection.start()
        send_texts(sending, queue, "bad", "good")
        assert recorder.wait_for(1) == ["good"]
        problems.wait_for(1)
        letters = sending.create_browser(sending.create_queue("DLQ"))
        eventually(lambda: list(letters), "the message was set aside, so that no more runs begin")
        pool.join()
        assert pool.errors == []

    def test_a_connection_consumer_goes_on(
        self, wrapped: Wrapped, failing_connection: JmsConnection, problems: Problems, connect: Connect
    ) -> None:
        recorder, sending = Recorder(), connect().create_session()
        queue = sending.create_queue("orders")
        pool = Pool(failing_connection, feeding(recorder))
        failing_connection.create_connection_consumer(queue, None, pool, 2)
        send_texts(sending, queue, "one", "two", "three")
        polls = [0]

        def fail_at_the_second() -> None:
            polls[0] += 1
            if polls[0] == 2:  # with the first message in hand
                raise OverflowError("no")

        wrapped.before["poll"] = fail_at_the_second
        failing_connection.start()
        assert sorted(map(str, recorder.wait_for(3))) == ["one", "three", "two"]
        assert "OverflowError" in str(problems.wait_for(1)[0])
        pool.join()


class TestReceiving:
    def test_a_client_gets_a_jms_exception_and_the_message_again(
        self, failing_connection: JmsConnection, connect: Connect, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = failing_connection.create_session()
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        send_texts(connect().create_session(), queue, "espresso")
        failing_connection.start()
        with monkeypatch.context() as patched:
            hook = failing()

            def read(delivery: Delivery, context: Any) -> Any:
                hook()
                return thaw(delivery, context)

            patched.setattr("pyjms.runtime.session.thaw", read)
            with pytest.raises(JMSException, match="OverflowError"):
                consumer.receive(1_000)
        assert text_of(take(consumer)) == "espresso"

    def test_a_poll_that_fails_is_a_jms_exception(
        self, wrapped: Wrapped, failing_connection: JmsConnection, connect: Connect
    ) -> None:
        session = failing_connection.create_session()
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        send_texts(connect().create_session(), queue, "espresso")
        failing_connection.start()
        wrapped.before["poll"] = failing()
        with pytest.raises(JMSException, match="OverflowError"):
            consumer.receive(1_000)
        assert text_of(take(consumer)) == "espresso"

    @pytest.mark.parametrize("timeout", [None, "5", []])
    def test_a_timeout_that_is_none(self, failing_connection: JmsConnection, timeout: Any) -> None:
        session = failing_connection.create_session()
        with pytest.raises(JMSException, match="is no timeout"):
            session.create_consumer(session.create_queue("orders")).receive(timeout)


class TestBrowsers:
    def test_a_message_that_cannot_be_shown_is_a_jms_exception(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pyjms.runtime.consumer.thaw", read_unless_bad)
        queue = session.create_queue("orders")
        send_texts(session, queue, "good", "bad")
        with session.create_browser(queue) as browser:
            messages = browser.enumeration
            assert text_of(messages.next_element()) == "good"
            with pytest.raises(JMSException, match="a message could not be shown: OverflowError"):
                messages.next_element()
