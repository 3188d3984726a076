"""A clock that moves only when told to."""

from __future__ import annotations

from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from pyjms import Session
from pyjms.spi.clock import Signal
from pyjms.testing import VirtualClock
from pyjms_tck.spi.environment import Threads

if TYPE_CHECKING:
    from pyjms.api.message import Message
    from pyjms.runtime.factory import ConnectionFactory


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
