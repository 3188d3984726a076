"""stop and close while listeners run: they wait, and the listener keeps all facilities (JMS 1.1 §4.3.4, §4.3.5, §4.4.1)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from pyjms import IllegalStateException, JMSException, Message, Session
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.dispatch import Dispatcher
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    PATIENCE_S,
    Call,
    Recorder,
    await_event,
    drain,
    eventually,
    holding,
    send_texts,
    take,
    take_texts,
    text_of,
    within_patience,
)


class Busy:
    """A session whose listener is in the middle of its work, until `release`."""

    def __init__(
        self, connect: Connect, release: Event, work: Callable[[Message], object] = lambda message: None
    ) -> None:
        self.release = release
        self.running = Event()
        self.returned = Event()
        self.errors: list[Exception] = []
        self._work = work
        self.connection = connect(started=False)
        self.early = self.connection.create_session(True, Session.SESSION_TRANSACTED)
        self.session = self.connection.create_session()
        self.late = self.connection.create_session(True, Session.SESSION_TRANSACTED)
        self.queue = self.session.create_queue("orders")
        self.consumer = self.session.create_consumer(self.queue)
        self.recorder = Recorder(self._listen)
        self.consumer.message_listener = self.recorder
        self.connection.start()
        self.sending = connect().create_session()
        send_texts(self.sending, self.queue, "one", "two")
        await_event(self.running)

    def _listen(self, message: Message) -> None:
        self.running.set()
        self.release.wait(PATIENCE_S)
        try:
            self._work(message)
        except Exception as error:
            self.errors.append(error)
        self.returned.set()

    def end(self, way: str) -> Call[bool]:
        """Stop or close something on another thread; the result says whether the listener had returned by then."""
        action: Callable[[], None] = {
            "stop": self.connection.stop,
            "connection": self.connection.close,
            "session": self.session.close,
            "consumer": self.consumer.close,
        }[way]

        def act() -> bool:
            action()
            return self.returned.is_set()

        return Call(act)


ENDS = ["stop", "connection", "session", "consumer"]


@pytest.mark.realises("BOIL-CONN-8", "BOIL-CONN-11", "BOIL-SESS-6")
@pytest.mark.parametrize("way", ENDS)
def test_it_waits_for_the_listener(connect: Connect, latch: Callable[[], Event], way: str) -> None:
    busy = Busy(connect, latch())
    ending = busy.end(way)
    assert ending.is_blocked()
    busy.release.set()
    assert ending.result(), "the listener had not returned"
    assert busy.recorder.texts == ["one"]


@pytest.mark.realises("BOIL-CONN-8")
def test_after_a_stop_the_next_message_waits_for_the_start(connect: Connect, latch: Callable[[], Event]) -> None:
    busy = Busy(connect, latch())
    stopping = busy.end("stop")
    assert stopping.is_blocked()
    busy.release.set()
    stopping.result()
    assert busy.recorder.texts == ["one"]
    busy.connection.start()
    assert busy.recorder.wait_for(2) == ["one", "two"]


@pytest.mark.realises("BOIL-CONN-8")
def test_stop_waits_for_the_listeners_of_all_sessions(connect: Connect, latch: Callable[[], Event]) -> None:
    releases = [latch() for _ in range(3)]
    running = [Event() for _ in range(3)]
    connection, sending = connect(started=False), connect().create_session()

    def hold(number: int) -> Callable[[Message], object]:
        return holding(running[number], releases[number])

    for number in range(3):
        session = connection.create_session()
        queue = session.create_queue(f"orders-{number}")
        session.create_consumer(queue).message_listener = Recorder(hold(number))
        send_texts(sending, queue, "espresso")
    connection.start()
    for event in running:
        await_event(event)
    stopping = Call(connection.stop)
    for release in (releases[1], releases[0], releases[2]):
        assert stopping.is_blocked()
        release.set()
    stopping.result()


def use_everything(busy: list[Busy]) -> Callable[[Message], None]:
    """Return listener's work that uses the connection and all of its sessions."""

    def work(message: Message) -> None:
        one = busy[0]
        one.connection.meta_data.jms_version.encode()
        reply = one.session.create_text_message("from the listener's session")
        one.session.create_producer(one.session.create_queue("replies")).send(reply)
        for name in ("early", "late"):
            session: Any = getattr(one, name)
            send_texts(session, session.create_queue("replies"), f"from the {name} session")
            session.commit()
        if message.jms_redelivered:
            raise AssertionError("it came twice")

    return work


@pytest.mark.realises("BOIL-CONN-8", "BOIL-CONN-10")
@pytest.mark.parametrize("way", ENDS)
def test_the_listener_keeps_all_facilities(connect: Connect, latch: Callable[[], Event], way: str) -> None:
    """Also those of the connection's other sessions, whichever was made first."""
    itself: list[Busy] = []
    busy = Busy(connect, latch(), use_everything(itself))
    itself.append(busy)
    ending = busy.end(way)
    assert ending.is_blocked()
    busy.release.set()
    ending.result()
    assert busy.errors == []
    replies = busy.sending.create_consumer(busy.sending.create_queue("replies"))
    assert sorted(map(str, drain(replies))) == [
        "from the early session",
        "from the late session",
        "from the listener's session",
    ]


@pytest.mark.realises("BOIL-CONN-10", "BOIL-ACK-2")
@pytest.mark.parametrize("way", ENDS)
def test_the_message_of_the_last_listener_is_acknowledged(
    connect: Connect, latch: Callable[[], Event], way: str
) -> None:
    busy = Busy(connect, latch())
    ending = busy.end(way)
    assert ending.is_blocked()
    busy.release.set()
    ending.result()
    busy.connection.close()
    assert drain(busy.sending.create_consumer(busy.queue)) == ["two"]


@pytest.mark.realises("BOIL-CONN-10", "BOIL-TX-1")
@pytest.mark.parametrize("way", ["connection", "session"])
def test_a_last_transaction_can_be_committed(connect: Connect, latch: Callable[[], Event], way: str) -> None:
    connection, release, running = connect(started=False), latch(), Event()
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    orders, bills = session.create_queue("orders"), session.create_queue("bills")
    producer = session.create_producer(bills)

    def work(message: Message) -> None:
        running.set()
        release.wait(PATIENCE_S)
        producer.send(session.create_text_message("bill"))
        session.commit()

    session.create_consumer(orders).message_listener = work
    connection.start()
    other = connect().create_session()
    send_texts(other, orders, "espresso")
    await_event(running)
    ending = Call((connection if way == "connection" else session).close)
    assert ending.is_blocked()
    release.set()
    ending.result()
    assert drain(other.create_consumer(bills)) == ["bill"]
    assert drain(other.create_consumer(orders)) == []


@pytest.mark.realises("BOIL-CONN-10", "BOIL-ACK-3")
def test_a_last_message_can_be_acknowledged_by_the_client(connect: Connect, latch: Callable[[], Event]) -> None:
    connection, release, running = connect(started=False), latch(), Event()
    session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    queue = session.create_queue("orders")

    def work(message: Message) -> None:
        running.set()
        release.wait(PATIENCE_S)
        message.acknowledge()

    session.create_consumer(queue).message_listener = work
    connection.start()
    other = connect().create_session()
    send_texts(other, queue, "espresso")
    await_event(running)
    closing = Call(connection.close)
    assert closing.is_blocked()
    release.set()
    closing.result()
    assert drain(other.create_consumer(queue)) == []


@pytest.mark.realises("BOIL-CONN-13", "BOIL-SESS-6")
@pytest.mark.parametrize("way", ["connection", "session"])
def test_what_the_last_listener_left_uncommitted_is_rolled_back(
    connect: Connect, latch: Callable[[], Event], way: str
) -> None:
    connection, release, running = connect(started=False), latch(), Event()
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    orders, bills = session.create_queue("orders"), session.create_queue("bills")

    def work(message: Message) -> None:
        running.set()
        release.wait(PATIENCE_S)
        send_texts(session, bills, "bill")

    session.create_consumer(orders).message_listener = work
    connection.start()
    other = connect().create_session()
    send_texts(other, orders, "espresso")
    await_event(running)
    ending = Call((connection if way == "connection" else session).close)
    assert ending.is_blocked()
    release.set()
    ending.result()
    assert drain(other.create_consumer(bills)) == []
    again = take(other.create_consumer(orders))
    assert (text_of(again), again.jms_redelivered) == ("espresso", True)


@pytest.mark.realises("BOIL-CONN-12")
def test_two_closers_of_different_kinds_both_wait(connect: Connect, latch: Callable[[], Event]) -> None:
    busy = Busy(connect, latch())
    endings = [busy.end(way) for way in ("session", "connection", "consumer", "session", "connection")]
    for ending in endings:
        assert ending.is_blocked()
    busy.release.set()
    assert all(ending.result() for ending in endings)


class FromWithin:
    """Calls that a listener makes; what they raised or returned, by name."""

    def __init__(self, connect: Connect, actions: Callable[[Any, Any, Any], dict[str, Callable[[], object]]]) -> None:
        self.results: dict[str, object] = {}
        self.connection = connect(started=False)
        self.session = self.connection.create_session()
        self.queue = self.session.create_queue("orders")
        self.consumer = self.session.create_consumer(self.queue)
        self._actions = actions(self.connection, self.session, self.consumer)
        self.recorder = Recorder(self._listen)
        self.consumer.message_listener = self.recorder
        self.connection.start()
        self.sending = connect().create_session()

    def _listen(self, message: Message) -> None:
        for name, action in self._actions.items():
            try:
                self.results[name] = action()
            except JMSException as error:
                self.results[name] = type(error)
        self._actions = {}


@pytest.mark.realises("BOIL-CONN-8", "BOIL-CONN-11", "BOIL-SESS-6")
def test_a_listener_cannot_wait_for_itself(connect: Connect) -> None:
    within = FromWithin(
        connect,
        lambda connection, session, consumer: {
            "connection.close": connection.close,
            "connection.stop": connection.stop,
            "session.close": session.close,
        },
    )
    send_texts(within.sending, within.queue, "one", "two")
    assert within.recorder.wait_for(2) == ["one", "two"]
    assert within.results == dict.fromkeys(
        ("connection.close", "connection.stop", "session.close"), IllegalStateException
    )
    within_patience(within.connection.stop)
    within_patience(within.connection.close)


@pytest.mark.realises("BOIL-CONN-10", "BOIL-CONN-11")
@pytest.mark.parametrize("within", ["connection.close", "connection.stop", "session.close"])
@pytest.mark.parametrize("way", ["stop", "connection", "session"])
def test_a_listener_cannot_wait_for_itself_while_another_thread_ends_it(
    connect: Connect, latch: Callable[[], Event], way: str, within: str
) -> None:
    itself: list[Busy] = []

    def work(message: Message) -> None:
        thing, method = within.split(".")
        getattr(getattr(itself[0], thing), method)()

    busy = Busy(connect, latch(), work)
    itself.append(busy)
    ending = busy.end(way)
    assert ending.is_blocked()
    busy.release.set()
    assert ending.result()
    assert [type(error) for error in busy.errors] == [IllegalStateException]


@pytest.mark.realises("BOIL-CONN-10")
@pytest.mark.parametrize("other", ["early", "late"])
def test_a_listener_may_close_another_session_while_the_connection_closes(
    connect: Connect, latch: Callable[[], Event], other: str
) -> None:
    itself: list[Busy] = []
    busy = Busy(connect, latch(), lambda message: getattr(itself[0], other).close())
    itself.append(busy)
    ending = busy.end("connection")
    assert ending.is_blocked()
    busy.release.set()
    assert ending.result()
    assert busy.errors == []


@pytest.mark.realises("BOIL-CONN-9", "BOIL-CONN-10")
@pytest.mark.parametrize("timeout", [(), (1000,), (-1,)], ids=["for ever", "a second", "no wait"])
@pytest.mark.parametrize("other", ["early", "late"])
def test_a_listener_that_receives_while_the_connection_closes_gets_none(
    connect: Connect, latch: Callable[[], Event], other: str, timeout: tuple[int, ...]
) -> None:
    """Its other sessions are not closed yet, so they raise nothing; but nothing is delivered any more."""
    itself: list[Busy] = []
    got: list[object] = []

    def work(message: Message) -> None:
        session = getattr(itself[0], other)
        got.append(session.create_consumer(session.create_queue("replies")).receive(*timeout))

    busy = Busy(connect, latch(), work)
    itself.append(busy)
    ending = busy.end("connection")
    assert ending.is_blocked()
    busy.release.set()
    assert ending.result()
    assert busy.errors == []
    assert got == [None]


@pytest.mark.realises("BOIL-CONN-10")
def test_a_listener_may_make_a_session_while_the_connection_closes(
    connect: Connect, latch: Callable[[], Event]
) -> None:
    itself: list[Busy] = []
    made: list[Session] = []

    def work(message: Message) -> None:
        session = itself[0].connection.create_session()
        made.append(session)
        send_texts(session, session.create_queue("replies"), "from a new session")

    busy = Busy(connect, latch(), work)
    itself.append(busy)
    ending = busy.end("connection")
    assert ending.is_blocked()
    busy.release.set()
    assert ending.result()
    assert busy.errors == []
    assert drain(busy.sending.create_consumer(busy.sending.create_queue("replies"))) == ["from a new session"]
    with pytest.raises(IllegalStateException, match="closed"):
        made[0].create_message()


def test_a_refused_close_changes_nothing(connect: Connect) -> None:
    within = FromWithin(
        connect,
        lambda connection, session, consumer: {"close": session.close, "stop": connection.stop},
    )
    send_texts(within.sending, within.queue, "one", "two", "three")
    assert within.recorder.wait_for(3) == ["one", "two", "three"]
    eventually(lambda: drain(within.sending.create_consumer(within.queue)) == [], "all were acknowledged")


def test_a_listener_may_close_its_own_consumer(connect: Connect) -> None:
    within = FromWithin(connect, lambda connection, session, consumer: {"consumer.close": consumer.close})
    send_texts(within.sending, within.queue, "one", "two")
    within.recorder.wait_for(1)
    within_patience(within.connection.close)
    assert within.results == {"consumer.close": None}
    assert within.recorder.texts == ["one"]
    assert drain(within.sending.create_consumer(within.queue)) == ["two"]


def test_a_listener_may_start_its_connection_and_make_sessions(connect: Connect) -> None:
    within = FromWithin(
        connect,
        lambda connection, session, consumer: {
            "start": connection.start,
            "other session": lambda: connection.create_session().close(),
        },
    )
    send_texts(within.sending, within.queue, "one", "two")
    assert within.recorder.wait_for(2) == ["one", "two"]
    assert within.results == {"start": None, "other session": None}


def test_a_listener_may_close_another_session_and_another_connection(connect: Connect) -> None:
    other = connect()
    other_session = other.create_session()
    within = FromWithin(
        connect,
        lambda connection, session, consumer: {"session": other_session.close, "connection": other.close},
    )
    send_texts(within.sending, within.queue, "one")
    within.recorder.wait_for(1)
    within_patience(within.connection.close)
    assert within.results == {"session": None, "connection": None}
    with pytest.raises(IllegalStateException):
        other.create_session()


def test_a_listener_may_close_the_other_consumer_of_its_session(connect: Connect) -> None:
    connection = connect(started=False)
    session = connection.create_session()
    first_queue, second_queue = session.create_queue("first"), session.create_queue("second")
    first, second = session.create_consumer(first_queue), session.create_consumer(second_queue)
    closed = Recorder(lambda message: second.close())
    never = Recorder()
    first.message_listener = closed
    second.message_listener = never
    sending = connect().create_session()
    send_texts(sending, first_queue, "one")
    connection.start()
    closed.wait_for(1)
    send_texts(sending, second_queue, "two")
    send_texts(sending, first_queue, "three")
    assert closed.wait_for(2) == ["one", "three"]
    assert never.texts == []
    assert take_texts(sending.create_consumer(second_queue), 1) == ["two"]


@pytest.mark.realises("BOIL-CONN-11")
def test_closing_from_the_receive_thread_of_another_session_is_fine(
    connection: JmsConnection, connect: Connect
) -> None:
    """Who has just received may close the whole connection; nothing waits for it."""
    session = connection.create_session()
    queue = session.create_queue("orders")
    consumer = session.create_consumer(queue)
    send_texts(session, queue, "espresso")

    def receive_and_close() -> str | None:
        message = consumer.receive()
        connection.close()
        return text_of(message)

    assert Call(receive_and_close).result() == "espresso"


@pytest.mark.realises("BOIL-CONN-9")
def test_a_listener_learns_nothing_of_the_close(connect: Connect) -> None:
    """Closing an idle session with a listener calls nobody."""
    connection, recorder = connect(started=False), Recorder()
    session = connection.create_session()
    session.create_consumer(session.create_queue("orders")).message_listener = recorder
    connection.start()
    within_patience(connection.close)
    assert recorder.messages == []


@pytest.mark.parametrize("closes", ["consumer", "session", "connection"])
def test_a_listener_that_comes_while_another_thread_closes_begins_no_thread(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, closes: str
) -> None:
    """Nobody would end it: the closing, which does, is over."""
    connection = connect()
    session = connection.create_session()
    consumer = session.create_consumer(session.create_queue("orders"))
    closing = {"consumer": consumer, "session": session, "connection": connection}[closes]
    listen = Dispatcher.listen

    def close_first(*arguments: Any) -> None:
        within_patience(closing.close)
        listen(*arguments)

    monkeypatch.setattr(Dispatcher, "listen", close_first)
    with pytest.raises(IllegalStateException, match="closed"):
        consumer.message_listener = Recorder()
    name = f"pyjms-session-{connection.connection_id}"
    assert [thread.name for thread in enumerate_threads() if thread.name.startswith(name)] == []
    assert not session.has_listeners
