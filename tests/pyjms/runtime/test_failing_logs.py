"""An application whose logging raises: a filter with an error, or a handler that cannot print the error that it gets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from threading import Event

import pytest

from pyjms import JMSException, Message, Session
from pyjms.messages.freeze import thaw
from pyjms.runtime.factory import ConnectionFactory
from pyjms.runtime.session import JmsSession
from pyjms.runtime.waiting import WorkThread
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ResourceError
from pyjms.testing import VirtualClock
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import Recorder, await_event, drain, eventually, send_texts, take, text_of
from tests.pyjms.runtime.server_pool import Pool, feeding
from tests.pyjms.runtime.test_exception_listener import Problems
from tests.pyjms.runtime.test_failing_listeners import BY_THEMSELVES, failing, listen
from tests.pyjms.runtime.test_failing_servers import Failing
from tests.pyjms.runtime.test_unexpected_errors import read_unless_bad
from tests.pyjms.runtime.wrapping import Wrapped, raising


@pytest.fixture(autouse=True)
def not_logged() -> Iterator[list[str]]:
    """Have the logging raise for each error and warning; what was to be logged."""
    seen: list[str] = []

    def fail_at_problems(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            seen.append(record.getMessage())
            raise ZeroDivisionError("a filter of the application")
        return True

    log = logging.getLogger("pyjms.runtime")
    log.addFilter(fail_at_problems)
    yield seen
    log.removeFilter(fail_at_problems)


@pytest.mark.realises("BOIL-LSN-1")
@pytest.mark.parametrize("mode", BY_THEMSELVES)
def test_what_a_listener_did_not_do_comes_again(connect: Connect, mode: int, not_logged: list[str]) -> None:
    recorder = Recorder(failing(2, RuntimeError("no")))
    listen(connect, mode, recorder, "bad", "next")
    assert recorder.wait_for(4) == ["bad", "bad", "bad", "next"]
    assert recorder.counts == [1, 2, 3, 1]
    assert "PYJMS-LISTENER" in not_logged[0]


@pytest.mark.parametrize("mode", BY_THEMSELVES)
def test_what_cannot_be_read_is_set_aside_in_the_end(
    connect: Connect, mode: int, not_logged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyjms.runtime.dispatch.thaw", read_unless_bad)
    recorder = Recorder()
    listen(connect, mode, recorder, "bad", "next")
    assert recorder.wait_for(1) == ["next"]
    other = connect().create_session()
    letters = other.create_browser(other.create_queue("DLQ"))
    eventually(lambda: list(letters), "the message was set aside")
    eventually(lambda: any("could not be read" in each for each in not_logged), "it was told")


def test_what_an_application_server_does_not_take_goes_back(connect: Connect, not_logged: list[str]) -> None:
    connection, sending = connect(), connect().create_session()
    connection.exception_listener = problems = Problems()
    queue = sending.create_queue("orders")
    pool = Failing(Pool(connection, feeding(Recorder())), RuntimeError("empty"))
    connection.create_connection_consumer(queue, None, pool, 1)
    send_texts(sending, queue, "espresso")
    problems.wait_for(1)
    assert text_of(take(sending.create_consumer(queue))) == "espresso"
    eventually(lambda: any("server session could not be started" in each for each in not_logged), "it was told")


@pytest.mark.parametrize(
    ("mode", "step"),
    [*((mode, step) for mode in BY_THEMSELVES for step in ("poll", "read")), (Session.AUTO_ACKNOWLEDGE, "acknowledge")],
)
def test_what_a_provider_could_not_do_is_done_later(
    jms_broker_url: str,
    connect: Connect,
    not_logged: list[str],
    mode: int,
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder, fail = Recorder(), raising(ResourceError("the disk is away"), times=2)
    with Wrapped(jms_broker_url) as wrapped, ConnectionFactory(wrapped.url).create_connection() as connection:
        session = connection.create_session(False, mode)
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = recorder
        if step == "read":

            def read_unless_away(delivery: Delivery, owner: JmsSession) -> Message:
                fail()
                return thaw(delivery, owner)

            monkeypatch.setattr("pyjms.runtime.dispatch.thaw", read_unless_away)
        else:
            wrapped.before[step] = fail
        send_texts(connect().create_session(), queue, "one", "two")
        connection.start()
        eventually(lambda: {"one", "two"} <= set(recorder.texts), "both came")
    if mode == Session.AUTO_ACKNOWLEDGE:
        assert drain(connect().create_session().create_consumer(queue)) == []
    assert "the disk is away" in not_logged[0]


@pytest.mark.realises("BOIL-CONN-17")
def test_an_exception_listener_is_told_of_the_next_problem(jms_broker_url: str, not_logged: list[str]) -> None:
    def fail_first(problem: JMSException) -> None:
        if problem.message == "first":
            raise RuntimeError("no")

    with Wrapped(jms_broker_url) as wrapped, ConnectionFactory(wrapped.url).create_connection() as connection:
        connection.exception_listener = problems = Problems(fail_first)
        for text in ("first", "second"):
            wrapped.events[0].on_exception(ResourceError(text))
        assert [each.message for each in problems.wait_for(2)] == ["first", "second"]
    assert "an exception listener raised" in not_logged[0]


@pytest.mark.parametrize("can_be_told", [True, False])
def test_a_thread_goes_on(not_logged: list[str], can_be_told: bool) -> None:
    done, steps = Event(), iter((True, OverflowError("no"), True, False))

    def work() -> bool:
        step = next(steps)
        if isinstance(step, Exception):
            raise step
        if not step:
            done.set()
        return step

    def tell(error: Exception) -> None:
        if not can_be_told:
            raise error

    thread = WorkThread("test-work", VirtualClock(), work, tell)
    thread.start()
    thread.wake()
    await_event(done)
    thread.end()
    assert len(not_logged) == (1 if can_be_told else 2)
