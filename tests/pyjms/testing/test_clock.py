"""A clock that moves only when told to."""

from __future__ import annotations

from functools import partial
from threading import Event, Thread, get_ident
from typing import TYPE_CHECKING

import pytest

from pyjms import ConnectionFactory, Session
from pyjms.spi.clock import Signal
from pyjms.testing import VirtualClock
from pyjms_tck.spi.environment import Threads

if TYPE_CHECKING:
    from pyjms.api.connection import Connection
    from pyjms.api.message import Message


def test_time_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock()
    assert (clock.time_ms(), clock.monotonic_ms()) == (1_000_000_000_000, 0)
    assert (clock.time_ms(), clock.monotonic_ms()) == (1_000_000_000_000, 0)
    clock.advance(1500)
    clock.advance(0)
    assert (clock.time_ms(), clock.monotonic_ms()) == (1_000_000_001_500, 1500)


def test_time_begins_where_one_wants() -> None:
    clock = VirtualClock(start_ms=5)
    assert (clock.time_ms(), clock.monotonic_ms()) == (5, 0)


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        VirtualClock().advance(-1)


def test_many_threads_may_move_it() -> None:
    clock = VirtualClock()

    def move() -> None:
        for _ in range(1000):
            clock.advance(1)

    with Threads() as threads:
        for _ in range(4):
            threads.start(move)
    assert clock.monotonic_ms() == 4000


def test_a_wait_ends_when_its_time_has_come() -> None:
    clock, results = VirtualClock(), list[bool]()

    def wait(until_ms: int) -> None:
        results.append(clock.wait(Signal(), until_ms))

    with Threads() as threads:
        for timeout in (100, 200, 300):
            threads.start(partial(wait, timeout))
            clock.await_wait(timeout)
        clock.advance(99)
        assert results == []
        clock.advance(101)
        clock.await_wait(100)  # the third still waits
        clock.advance(100)
    assert results == [False] * 3


def test_a_wait_ends_with_its_signal() -> None:
    clock, signal, results = VirtualClock(), Signal(), list[bool]()
    with Threads() as threads:
        threads.start(lambda: results.append(clock.wait(signal, 100)))
        clock.await_wait(100)
        signal.set()
    assert results == [True]


@pytest.mark.parametrize("until", [0, -10, 50])
def test_a_wait_whose_time_has_come_does_not_wait(until: int) -> None:
    clock, signal = VirtualClock(), Signal()
    clock.advance(50)
    assert not clock.wait(signal, until)
    signal.set()
    assert clock.wait(signal, until)


def test_a_wait_without_limit_is_ended_by_its_signal_alone() -> None:
    clock, signal, results = VirtualClock(), Signal(), list[bool]()
    with Threads() as threads:
        threads.start(lambda: results.append(clock.wait(signal, None)))
        clock.advance(10**9)
        signal.set()
    assert results == [True]


def test_waiting_while_nobody_moves_the_clock_is_a_mistake_that_is_explained() -> None:
    clock = VirtualClock(patience_s=0.02)
    clock.advance(7)
    with pytest.raises(AssertionError, match=r"\+100 ms, and it stands at \+7 ms: call clock.advance"):
        clock.wait(Signal(), 100)
    with pytest.raises(TimeoutError):
        clock.await_wait(1000, patience_s=0)  # a wait that failed is a wait no more


def test_a_daemon_may_wait_for_as_long_as_the_test_runs() -> None:
    """As a broker's housekeeper does, for an expiry that a test never comes to."""
    clock, signal, outcome = VirtualClock(patience_s=0.01), Signal(), list[bool]()
    thread = Thread(target=lambda: outcome.append(clock.wait(signal, 1000.0)), daemon=True)
    thread.start()
    clock.await_wait(1000)
    thread.join(0.1)
    assert thread.is_alive(), "it lost its patience"
    clock.advance(1000)
    thread.join(10)
    assert outcome == [False]


def test_nobody_waits_for_less_than_asked() -> None:
    clock, signal = VirtualClock(), Signal()
    with Threads() as threads:
        threads.start(lambda: clock.wait(signal, 100))
        clock.await_wait(100)
        with pytest.raises(TimeoutError, match="99 ms"):
            clock.await_wait(99, patience_s=0)
        clock.advance(1)
        clock.await_wait(99)
        signal.set()


class _Late(Signal):
    """Wakes who waits for it late, as a busy machine does."""

    def __init__(self) -> None:
        super().__init__()
        self.may_wake = Event()
        self.wait = self.may_wake.wait


def test_a_wait_whose_time_has_come_is_none_though_its_thread_has_not_gone_on() -> None:
    """Who advances the clock again and again would do so before the thread waits again."""
    clock, signal = VirtualClock(), _Late()
    with Threads() as threads:
        threads.start(lambda: clock.wait(signal, 100))
        clock.await_wait(100)
        clock.advance(100)
        with pytest.raises(TimeoutError):
            clock.await_wait(100, patience_s=0)
        signal.may_wake.set()


# Through the API


@pytest.mark.realises("BOIL-HDR-9", "BOIL-HDR-11")
def test_a_day_passes_at_once_for_a_message_that_expires(jms_session: Session, virtual_clock: VirtualClock) -> None:
    queue = jms_session.create_queue("orders")
    producer = jms_session.create_producer(queue)
    producer.time_to_live = 24 * 3_600_000
    message = jms_session.create_text_message("today")
    producer.send(message)
    assert message.jms_timestamp == virtual_clock.time_ms()
    assert message.jms_expiration == virtual_clock.time_ms() + 24 * 3_600_000
    virtual_clock.advance(24 * 3_600_000 - 1)
    producer.send(jms_session.create_text_message("tomorrow"))
    virtual_clock.advance(1)
    received = jms_session.create_consumer(queue).receive_no_wait()
    assert received is not None
    assert received.text == "tomorrow"  # type: ignore[attr-defined]


@pytest.mark.parametrize("late", [False, True])
def test_a_receive_waits_in_virtual_time(
    jms_connection_factory: ConnectionFactory, virtual_clock: VirtualClock, late: bool
) -> None:
    received: list[Message | None] = []
    with jms_connection_factory.create_connection() as connection, Threads() as threads:
        connection.start()
        waiting, sending = (connection.create_session(False, Session.AUTO_ACKNOWLEDGE) for _ in range(2))
        queue = sending.create_queue("orders")
        consumer = waiting.create_consumer(queue)
        threads.start(lambda: received.append(consumer.receive(60_000)))
        virtual_clock.await_wait(60_000)
        virtual_clock.advance(59_999)
        assert received == []
        if late:
            virtual_clock.advance(1)
        else:
            sending.create_producer(queue).send(sending.create_text_message("just in time"))
        threads.join()
    assert [message is None for message in received] == [late]


def test_a_wait_that_ends_leaves_nothing_behind() -> None:
    clock, signal = VirtualClock(), Signal()
    with Threads() as threads:
        threads.start(lambda: clock.wait(signal, 100))
        clock.await_wait(100)
        signal.set()
    clock.advance(1000)
    assert not signal.wait(0)


# What is due is done when `advance` returns


@pytest.mark.parametrize("after_ms", [1, 1000, 60_000])
def test_a_message_that_was_sent_for_later_is_there_when_its_time_has_come(
    jms_session: Session, virtual_clock: VirtualClock, after_ms: int
) -> None:
    queue = jms_session.create_queue("orders")
    producer, consumer = jms_session.create_producer(queue), jms_session.create_consumer(queue)
    for number in range(100):
        message = jms_session.create_text_message(f"{number}")
        message.set_long_property("JMS_pyjms_deliverAt", virtual_clock.time_ms() + after_ms)
        producer.send(message)
        virtual_clock.advance(after_ms - 1)
        assert consumer.receive_no_wait() is None
        virtual_clock.advance(1)
        received = consumer.receive_no_wait()
        assert received is not None
        assert received.text == f"{number}"  # type: ignore[attr-defined]


def test_a_message_that_was_rolled_back_is_there_when_its_delay_is_over(
    jms_broker_url: str, virtual_clock: VirtualClock
) -> None:
    factory = ConnectionFactory(f"{jms_broker_url}?redelivery_delay_ms=500&max_deliveries=0", clock=virtual_clock)
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        queue = session.create_queue("orders")
        session.create_producer(queue).send(session.create_text_message("again"))
        session.commit()
        consumer = session.create_consumer(queue)
        assert consumer.receive_no_wait() is not None
        for _ in range(100):
            session.rollback()
            virtual_clock.advance(500)
            assert consumer.receive_no_wait() is not None


def test_an_expired_message_is_in_the_expiry_queue_when_its_time_is_over(
    jms_broker_url: str, virtual_clock: VirtualClock
) -> None:
    factory = ConnectionFactory(f"{jms_broker_url}?expiry_queue=late", clock=virtual_clock)
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("orders"))
        late = session.create_consumer(session.create_queue("late"))
        for _ in range(100):
            producer.send(session.create_text_message("offer"), time_to_live=500)
            virtual_clock.advance(500)
            assert late.receive_no_wait() is not None


def test_a_receive_gets_what_is_due_when_its_own_time_is_over(
    jms_connection: Connection, virtual_clock: VirtualClock
) -> None:
    session = jms_connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("orders")
    consumer = jms_connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
    received: list[Message | None] = []
    for _ in range(20):
        message = session.create_message()
        message.set_long_property("JMS_pyjms_deliverAt", virtual_clock.time_ms() + 100)
        session.create_producer(queue).send(message)
        with Threads() as threads:
            threads.start(lambda: received.append(consumer.receive(100)))
            virtual_clock.await_wait(100)
            virtual_clock.advance(100)
    assert [each is not None for each in received] == [True] * 20


class _DueWork:
    """Something that a broker does at a time, on a thread of its own that may be in the middle of it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.calls = list[float]()
        self.held_by: int | None = None
        clock.add_due_work(self.run_due)

    def run_due(self) -> bool:
        self.calls.append(self.clock.monotonic_ms())
        return self.held_by is None or not self.clock.is_waiting(self.held_by)


def test_due_work_is_done_in_each_step_as_long_as_there_is_somebody_to_do_it() -> None:
    clock = VirtualClock()
    work = _DueWork(clock)
    calls = work.calls
    clock.advance(5)
    clock.advance(0)
    assert calls == [5, 5]
    del work
    clock.advance(1)
    assert calls == [5, 5]


def test_due_work_that_a_waiting_thread_holds_up_is_asked_for_again_when_the_wait_is_over() -> None:
    clock = VirtualClock()
    work = _DueWork(clock)
    with Threads() as threads:

        def wait() -> None:
            work.held_by = get_ident()
            clock.wait(Signal(), 100)

        threads.start(wait)
        clock.await_wait(100)
        clock.advance(50)
        assert work.calls == [50, 50]
        clock.advance(50)
        assert work.calls == [50, 50, 100, 100]
