"""Each way of waiting for a message, ended by each way of closing, from another thread (JMS 1.1 §4.3.5, §4.4.1, §4.5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pyjms import IllegalStateException, JMSException, Message, Session
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.runtime.requestor import QueueRequestor, TopicRequestor
from pyjms.testing import Faults
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    PATIENCE_MS,
    Call,
    WatchedClock,
    send_texts,
    take,
    text_of,
    within_patience,
)
from tests.pyjms.runtime.wrapping import Wrapped


@dataclass
class Waiter:
    """What waits, and what it was made from."""

    connection: Any
    session: Any
    consumer: Any
    wait: Callable[[], Message | None]


class Waiters:
    """Makes what waits."""

    def __init__(self, factory: ConnectionFactory) -> None:
        self._factory = factory
        self.connections: list[JmsConnection] = []

    def make(self, name: str) -> Waiter:
        """Return a waiter of one kind, with its connection started."""
        waiter: Waiter = getattr(self, name)()
        self.connections.append(waiter.connection)
        waiter.connection.start()
        return waiter

    def receive(self, *timeout: int, transacted: bool = False, mode: int = Session.AUTO_ACKNOWLEDGE) -> Waiter:
        connection = self._factory.create_connection()
        session = connection.create_session(transacted, mode)
        consumer = session.create_consumer(session.create_queue("orders"))
        return Waiter(connection, session, consumer, lambda: consumer.receive(*timeout))

    def receive_with_timeout(self) -> Waiter:
        return self.receive(60_000)

    def receive_zero(self) -> Waiter:
        return self.receive(0)

    def receive_transacted(self) -> Waiter:
        return self.receive(transacted=True)

    def receive_client(self) -> Waiter:
        return self.receive(mode=Session.CLIENT_ACKNOWLEDGE)

    def receive_dups_ok(self) -> Waiter:
        return self.receive(mode=Session.DUPS_OK_ACKNOWLEDGE)

    def receive_topic(self) -> Waiter:
        connection = self._factory.create_connection()
        session = connection.create_session()
        consumer = session.create_consumer(session.create_topic("prices"))
        return Waiter(connection, session, consumer, consumer.receive)

    def receive_durable(self) -> Waiter:
        connection = self._factory.create_connection()
        connection.client_id = "shop"
        session = connection.create_session()
        consumer = session.create_durable_subscriber(session.create_topic("prices"), "all")
        return Waiter(connection, session, consumer, consumer.receive)

    def receive_selected(self) -> Waiter:
        connection = self._factory.create_connection()
        session = connection.create_session()
        consumer = session.create_consumer(session.create_queue("orders"), "cups > 1")
        return Waiter(connection, session, consumer, consumer.receive)

    def queue_request(self) -> Waiter:
        connection = self._factory.create_queue_connection()
        session = connection.create_queue_session(False, Session.AUTO_ACKNOWLEDGE)
        requestor = QueueRequestor(session, session.create_queue("orders"))
        question = session.create_text_message("how much?")
        return Waiter(connection, session, requestor, lambda: requestor.request(question))

    def topic_request(self) -> Waiter:
        connection = self._factory.create_topic_connection()
        session = connection.create_topic_session(False, Session.AUTO_ACKNOWLEDGE)
        requestor = TopicRequestor(session, session.create_topic("prices"))
        question = session.create_text_message("how much?")
        return Waiter(connection, session, requestor, lambda: requestor.request(question))


RECEIVES = [
    "receive",
    "receive_zero",
    "receive_with_timeout",
    "receive_transacted",
    "receive_client",
    "receive_dups_ok",
    "receive_topic",
    "receive_durable",
    "receive_selected",
]
WAITS = [*RECEIVES, "queue_request", "topic_request"]


@pytest.fixture
def waiters(jms_connection_factory: ConnectionFactory) -> Iterator[Waiters]:
    """Makes what waits, on the virtual clock."""
    made = Waiters(jms_connection_factory)
    yield made
    for connection in made.connections:
        within_patience(connection.close)


@pytest.mark.realises("BOIL-CONN-9", "BOIL-CONN-11", "BOIL-SESS-6", "BOIL-CONC-3")
@pytest.mark.parametrize("paused", [False, True], ids=["started", "stopped"])
@pytest.mark.parametrize("closes", ["consumer", "session", "connection"])
@pytest.mark.parametrize("name", WAITS)
def test_a_close_ends_the_wait(
    virtual_clock: WatchedClock, waiters: Waiters, name: str, closes: str, paused: bool
) -> None:
    waiter = waiters.make(name)
    waiting = Call(waiter.wait)
    virtual_clock.await_blocked(waiting)
    if paused:
        within_patience(waiter.connection.stop)
        assert waiting.is_blocked()
    within_patience(getattr(waiter, closes).close)
    assert waiting.result() is None
    with pytest.raises(IllegalStateException, match="closed"):
        within_patience(waiter.wait)


@pytest.mark.realises("BOIL-CONN-11", "BOIL-SESS-6")
@pytest.mark.parametrize("closes", ["consumer", "session", "connection"])
@pytest.mark.parametrize("name", WAITS)
def test_when_a_close_has_returned_the_wait_is_over(
    virtual_clock: WatchedClock, waiters: Waiters, name: str, closes: str
) -> None:
    waiter = waiters.make(name)
    over = []

    def wait_and_note() -> None:
        waiter.wait()
        over.append(True)

    waiting = Call(wait_and_note)
    virtual_clock.await_blocked(waiting)
    within_patience(getattr(waiter, closes).close)
    waiting.result()
    assert over == [True]


@pytest.mark.parametrize("name", WAITS)
def test_a_stopped_broker_ends_the_wait(
    virtual_clock: WatchedClock, waiters: Waiters, stop_broker: Callable[[], None], name: str
) -> None:
    waiter = waiters.make(name)
    waiting = Call(waiter.wait)
    virtual_clock.await_blocked(waiting)
    within_patience(stop_broker)
    with pytest.raises(JMSException):
        waiting.result()
    with pytest.raises(JMSException):
        within_patience(waiter.wait)
    within_patience(waiter.connection.close)


@pytest.mark.parametrize("paused", [False, True], ids=["started", "stopped"])
@pytest.mark.parametrize("name", WAITS)
def test_a_dropped_connection_ends_the_wait(
    virtual_clock: WatchedClock, jms_faults: Faults, waiters: Waiters, name: str, paused: bool
) -> None:
    waiter = waiters.make(name)
    waiting = Call(waiter.wait)
    virtual_clock.await_blocked(waiting)
    if paused:
        within_patience(waiter.connection.stop)
    within_patience(jms_faults.drop_connections)
    with pytest.raises(JMSException):
        waiting.result()
    with pytest.raises(JMSException):
        within_patience(waiter.wait)
    within_patience(waiter.connection.close)


@pytest.mark.realises("BOIL-CONN-6")
@pytest.mark.parametrize("name", RECEIVES)
def test_a_stop_holds_the_message_until_the_start(
    virtual_clock: WatchedClock, waiters: Waiters, connect: Connect, name: str
) -> None:
    waiter = waiters.make(name)
    waiting = Call(waiter.wait)
    virtual_clock.await_blocked(waiting)
    within_patience(waiter.connection.stop)
    sending = connect().create_session()
    destination = sending.create_queue("orders")
    if name in ("receive_topic", "receive_durable"):
        producer = sending.create_producer(sending.create_topic("prices"))
    else:
        producer = sending.create_producer(destination)
    message = sending.create_text_message("espresso")
    message.set_int_property("cups", 2)
    producer.send(message)
    assert waiting.is_blocked()
    waiter.connection.start()
    assert text_of(waiting.result()) == "espresso"


@pytest.mark.realises("BOIL-CONN-6")
def test_the_timer_of_a_receive_goes_on_while_stopped(virtual_clock: WatchedClock, waiters: Waiters) -> None:
    waiter = waiters.make("receive_with_timeout")
    waiting = Call(waiter.wait)
    virtual_clock.await_blocked(waiting)
    within_patience(waiter.connection.stop)
    virtual_clock.advance(59_999)
    assert waiting.is_blocked()
    virtual_clock.advance(1)
    assert waiting.result() is None


@pytest.mark.realises("BOIL-CONN-6")
def test_a_stop_and_a_start_do_not_lengthen_the_timer(virtual_clock: WatchedClock, waiters: Waiters) -> None:
    waiter = waiters.make("receive_with_timeout")
    waiting = Call(waiter.wait)
    virtual_clock.await_blocked(waiting)
    virtual_clock.advance(30_000)
    within_patience(waiter.connection.stop)
    virtual_clock.advance(20_000)
    waiter.connection.start()
    assert waiting.is_blocked()
    virtual_clock.advance(10_000)
    assert waiting.result() is None


def test_who_is_woken_in_vain_all_the_time_waits_no_longer_than_asked(jms_broker_url: str) -> None:
    """A provider may wake whoever waits beside messages that its selector refuses; it did so for ever."""
    with Wrapped(jms_broker_url) as wrapped, ConnectionFactory(wrapped.url).create_connection() as connection:
        session = connection.create_session()
        queue = session.create_queue("orders")
        consumer: Any = session.create_consumer(queue, "JMSType = 'latte'")
        connection.start()
        wrapped.before["set_interested True"] = consumer.wake
        send_texts(session, queue, "espresso")
        assert within_patience(consumer.receive, 20) is None
        assert "set_interested True" in wrapped.calls


@pytest.mark.realises("BOIL-CONN-5")
def test_a_receive_before_the_first_start_waits_for_it(
    virtual_clock: WatchedClock, connect: Connect, jms_connection_factory: ConnectionFactory
) -> None:
    connection = connect(started=False)
    session = connection.create_session()
    queue = session.create_queue("orders")
    send_texts(session, queue, "espresso")
    consumer = session.create_consumer(queue)
    assert consumer.receive_no_wait() is None
    waiting = Call(consumer.receive)
    virtual_clock.await_blocked(waiting)
    assert waiting.is_blocked()
    connection.start()
    assert text_of(waiting.result()) == "espresso"


def test_a_message_ends_the_wait_of_one_receiver_only(
    virtual_clock: WatchedClock, waiters: Waiters, connect: Connect
) -> None:
    calls = [Call(waiters.make("receive").wait) for _ in range(2)]
    for call in calls:
        virtual_clock.await_blocked(call)
    session = connect().create_session()
    send_texts(session, session.create_queue("orders"), "one")
    ended = [call for call in calls if not call.is_blocked()]
    assert [text_of(call.result()) for call in ended] == ["one"]
    send_texts(session, session.create_queue("orders"), "two")
    assert sorted(str(text_of(call.result())) for call in calls) == ["one", "two"]


def test_closing_the_receiver_that_was_woken_leaves_the_message_to_the_other(
    virtual_clock: WatchedClock, waiters: Waiters, connect: Connect
) -> None:
    """Whoever was to be woken and goes away must not keep the message to itself."""
    sending = connect().create_session()
    for _ in range(20):
        going, staying = waiters.make("receive"), waiters.make("receive")
        calls = [Call(going.wait), Call(staying.wait)]
        for call in calls:
            virtual_clock.await_blocked(call)
        closing = Call(going.consumer.close)
        send_texts(sending, sending.create_queue("orders"), "espresso")
        closing.result()
        got = [text_of(calls[0].result())]
        if got == [None]:
            assert text_of(calls[1].result()) == "espresso"
        else:
            assert got == ["espresso"]
            within_patience(staying.consumer.close)
            assert calls[1].result() is None
        staying.connection.close()


class TestReceive:
    def test_a_timeout_ends_it(self, virtual_clock: WatchedClock, session: Session) -> None:
        consumer = session.create_consumer(session.create_queue("orders"))
        waiting = Call(consumer.receive, 500)
        virtual_clock.await_wait(500)
        virtual_clock.advance(499)
        assert waiting.is_blocked()
        virtual_clock.advance(1)
        assert waiting.result() is None

    @pytest.mark.parametrize("timeout", [-1, -1000])
    def test_a_negative_timeout_does_not_wait(self, session: Session, timeout: int) -> None:
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        assert within_patience(consumer.receive, timeout) is None
        send_texts(session, queue, "espresso")
        assert text_of(within_patience(consumer.receive, timeout)) == "espresso"

    def test_after_a_timeout_the_consumer_works_on(self, virtual_clock: WatchedClock, session: Session) -> None:
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue)
        waiting = Call(consumer.receive, 10)
        virtual_clock.await_wait(10)
        virtual_clock.advance(10)
        assert waiting.result() is None
        send_texts(session, queue, "espresso")
        assert text_of(take(consumer)) == "espresso"

    @pytest.mark.realises("BOIL-SESS-10")
    def test_who_waited_may_then_send_with_the_same_session(
        self, virtual_clock: WatchedClock, session: Session, connect: Connect
    ) -> None:
        orders, bills = session.create_queue("orders"), session.create_queue("bills")
        consumer, producer = session.create_consumer(orders), session.create_producer(bills)

        def answer_one() -> None:
            message = consumer.receive()
            producer.send(session.create_text_message(f"bill for {text_of(message)}"))

        answering = Call(answer_one)
        virtual_clock.await_blocked(answering)
        other = connect().create_session()
        send_texts(other, orders, "espresso")
        answering.result()
        assert text_of(take(other.create_consumer(bills))) == "bill for espresso"

    @pytest.mark.realises("BOIL-CONC-2")
    @pytest.mark.parametrize("timeout", [0, PATIENCE_MS])
    def test_two_threads_cannot_wait_in_one_session(
        self, virtual_clock: WatchedClock, session: Session, timeout: int
    ) -> None:
        first = session.create_consumer(session.create_queue("first"))
        second = session.create_consumer(session.create_queue("second"))
        waiting = Call(first.receive)
        virtual_clock.await_blocked(waiting)
        with pytest.raises(IllegalStateException, match="another thread"):
            within_patience(second.receive, timeout)
        assert waiting.is_blocked()

    @pytest.mark.realises("BOIL-CONC-2")
    def test_who_may_not_wait_takes_no_interest_from_the_one_who_waits(
        self, virtual_clock: WatchedClock, session: Session, connect: Connect
    ) -> None:
        orders = session.create_queue("orders")
        consumer = session.create_consumer(orders)
        waiting = Call(consumer.receive)
        virtual_clock.await_blocked(waiting)
        with pytest.raises(IllegalStateException, match="another thread"):
            consumer.receive(1)
        send_texts(connect().create_session(), orders, "espresso")
        assert text_of(waiting.result()) == "espresso"

    @pytest.mark.realises("BOIL-CONC-2")
    @pytest.mark.parametrize("method", ["commit", "rollback"])
    def test_nobody_ends_the_transaction_of_a_thread_that_waits(
        self, virtual_clock: WatchedClock, connection: JmsConnection, method: str
    ) -> None:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        waiting = Call(session.create_consumer(session.create_queue("orders")).receive)
        virtual_clock.await_blocked(waiting)
        with pytest.raises(IllegalStateException, match="another thread"):
            getattr(session, method)()
        assert waiting.is_blocked()
        within_patience(session.close)
        assert waiting.result() is None

    @pytest.mark.realises("BOIL-CONC-2")
    def test_nobody_recovers_a_session_that_waits(self, virtual_clock: WatchedClock, session: Session) -> None:
        waiting = Call(session.create_consumer(session.create_queue("orders")).receive)
        virtual_clock.await_blocked(waiting)
        with pytest.raises(IllegalStateException, match="another thread"):
            session.recover()

    @pytest.mark.realises("BOIL-CONC-2")
    def test_a_listener_cannot_come_to_a_session_that_waits(
        self, virtual_clock: WatchedClock, session: Session
    ) -> None:
        waiting = Call(session.create_consumer(session.create_queue("first")).receive)
        virtual_clock.await_blocked(waiting)
        other = session.create_consumer(session.create_queue("second"))
        with pytest.raises(IllegalStateException, match="receive"):
            other.message_listener = lambda message: None
        assert other.message_listener is None
