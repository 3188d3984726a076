"""The exception listener of a connection (4.3.8)."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock

import pytest

from pyjms import (
    Connection,
    ExceptionListener,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    Queue,
    Session,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeName, Record, RestartBroker
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.exchange import NO_DESTINATION, send_texts


class Told(ExceptionListener):
    """Keeps what it is told, and counts how many calls run at the same time."""

    def __init__(self, waits: Waits) -> None:
        self.errors: list[JMSException] = []
        self.most_at_once = 0
        self._waits = waits
        self._running = 0
        self._lock = Lock()

    def onException(self, exception: JMSException) -> None:
        with self._lock:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
            self.errors.append(exception)
        self._waits.pause()  # a second call has its chance to begin
        with self._lock:
            self._running -= 1


@requirement("4.3.8-a")
def test_4_3_8_a_the_listener_that_was_set_is_returned(connect: Connect, waits: Waits) -> None:
    connection, listener = connect(), Told(waits)
    connection.setExceptionListener(listener)
    assert connection.getExceptionListener() is listener
    connection.setExceptionListener(None)
    assert connection.getExceptionListener() is None, "null removes the listener"


@requirement("4.3.8-c")
def test_4_3_8_c_a_new_connection_has_no_exception_listener(connect: Connect) -> None:
    assert connect().getExceptionListener() is None


@requirement("4.3.8-d")
def test_4_3_8_d_what_a_call_throws_does_not_go_to_the_listener(
    connection: Connection, make_name: MakeName, waits: Waits
) -> None:
    listener = Told(waits)
    connection.setExceptionListener(listener)
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    with pytest.raises(InvalidDestinationException):
        session.createConsumer(NO_DESTINATION)
    with pytest.raises(IllegalStateException):
        session.commit()
    with pytest.raises(IllegalStateException):
        connection.setClientID(make_name("client"))
    waits.pause()
    assert listener.errors == [], "each exception was thrown to the caller, and to nobody else"


@requirement("4.3.8-b", "4.3.8-e")
def test_4_3_8_b_the_listener_is_told_of_a_lost_connection_one_call_at_a_time(
    connect: Connect, queue: Queue, restart_broker: RestartBroker, record: Record, waits: Waits
) -> None:
    connection, listener = connect(started=True), Told(waits)
    connection.setExceptionListener(listener)
    session = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    restart_broker()
    waits.until(
        lambda: listener.errors or _works(session, queue),
        "the exception listener was told of the restart, or the connection worked again",
    )
    waits.pause()
    if not listener.errors:
        record("the connection survives a restart of the broker without telling its exception listener")
        return
    record(f"the exception listener is told of a restart of the broker: {type(listener.errors[0]).__name__}")
    strange = [type(error).__name__ for error in listener.errors if not isinstance(error, JMSException)]
    assert strange == [], "the listener gets JMSExceptions only"
    assert listener.most_at_once == 1, "the listener runs for one problem at a time"


def _works(session: Session, queue: Queue) -> bool:
    """Return whether the session sends a message."""
    with suppress(JMSException):
        send_texts(session, queue, "text")
        return True
    return False
