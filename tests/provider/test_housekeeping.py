"""The timer thread: it starts when needed, purges when time has come, survives faults, and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from gc import collect
from queue import Queue
from threading import Event, Thread
from threading import enumerate as all_threads
from weakref import ReferenceType, ref

import pytest

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.envelope import DELIVER_AT
from pyjms.testing import VirtualClock
from pyjms.types import Long
from pyjms_provider.broker import EmbeddedBroker, find_broker, running_broker, stop_broker
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.housekeeping import ScheduledTasks
from tests.provider.cost import kept, nearest
from tests.provider.helpers import QueueWorld, holders, make_envelope


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def broker(clock: VirtualClock) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker("kept", clock)
    yield broker
    broker.stop()


def threads_of(name: str) -> list[str]:
    return [
        thread.name for thread in all_threads() if thread.name == f"pyjms housekeeping {name}" and thread.is_alive()
    ]


def send(broker: EmbeddedBroker, expiration_ms: int) -> None:
    broker.virtual_host.route(make_envelope(expiration_ms=expiration_ms), None, None)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for another thread without sleeping a fixed time."""
    pause = Event()
    for _ in range(2_000):
        if condition():
            return
        pause.wait(0.005)
    raise AssertionError("it did not happen")


def test_the_thread_starts_with_the_first_message_that_can_expire(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    send(broker, 0)
    assert not threads_of("kept")
    for _ in range(3):
        send(broker, clock.time_ms() + 1_000)
    assert len(threads_of("kept")) == 1
    broker.stop()
    broker.stop()
    assert not threads_of("kept")


@pytest.mark.realises("QCM-7", "BOIL-HDR-10", "BOIL-PROD-5")
def test_expired_messages_go_though_nobody_receives(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    queue = broker.virtual_host.queue("orders")
    now_ms = clock.time_ms()
    for expiration_ms in [0, now_ms + 500, now_ms + 1_000, now_ms + 1_000]:
        send(broker, expiration_ms)
    clock.await_wait(500)
    clock.advance(500)
    wait_until(lambda: queue.count(MessageState.NEW) == 3)
    clock.await_wait(500)
    clock.advance(499)
    assert queue.count(MessageState.NEW) == 3
    clock.advance(1)
    wait_until(lambda: queue.count(MessageState.NEW) == 1)
    assert len(broker.virtual_host.store) == 1


def test_an_earlier_expiry_shortens_the_wait(broker: EmbeddedBroker, clock: VirtualClock) -> None:
    send(broker, clock.time_ms() + 10_000)
    clock.await_wait(10_000)
    send(broker, clock.time_ms() + 50)
    clock.await_wait(50)
    clock.advance(50)
    wait_until(lambda: len(broker.virtual_host.store) == 1)


class SetClock(VirtualClock):
    """A clock that may be set, as the one on a wall: what waits by it is not told."""

    ahead_ms = 0

    def time_ms(self) -> int:
        return super().time_ms() + self.ahead_ms


def test_a_clock_that_is_set_forward_is_seen_within_seconds() -> None:
    clock = SetClock()
    broker = EmbeddedBroker("set", clock)
    try:
        hour_ms = 3_600_000
        send(broker, clock.time_ms() + hour_ms)
        clock.await_wait(10_000)
        clock.ahead_ms = hour_ms
        clock.advance(10_000)
        wait_until(lambda: len(broker.virtual_host.store) == 0)
    finally:
        broker.stop()


def test_a_clock_that_is_put_back_keeps_nobody_away_who_comes_each_few_seconds() -> None:
    clock, visits = SetClock(), Queue[int]()

    class EachTenSeconds:
        def run_due(self, now_ms: int) -> int | None:
            visits.put(now_ms)
            return now_ms + 10_000

    regular, hour_ms = EachTenSeconds(), 3_600_000
    housekeeper = ScheduledTasks("back", clock)
    try:
        housekeeper.schedule(regular, clock.time_ms() + 10_000)
        for _ in range(2):
            clock.await_wait(10_000)
            clock.advance(10_000)
            visits.get(timeout=10)
        clock.ahead_ms = -hour_ms
        for _ in range(2):
            clock.await_wait(10_000)
            clock.advance(10_000)
            while visits.get(timeout=10) != clock.time_ms():
                pass  # the thread may have seen that the clock was put back before it was moved on
    finally:
        housekeeper.stop()


def test_a_fault_in_one_channel_stops_no_other(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    world = QueueWorld()
    good, bad = world.queue, world.make_queue("queue://bad")
    housekeeper = ScheduledTasks("faulty", clock)

    def fail(now_ms: int) -> int | None:
        raise RuntimeError(f"at {now_ms}")

    bad.run_due = fail  # type: ignore[method-assign]
    reference = world.send(expiration_ms=clock.time_ms() + 10)
    housekeeper.schedule(bad, clock.time_ms() + 5)
    housekeeper.schedule(good, clock.time_ms() + 10)
    clock.advance(5)
    wait_until(lambda: "queue://bad" in caplog.text)
    clock.advance(5)
    wait_until(lambda: holders(world.store, reference) == 0)
    housekeeper.stop()
    housekeeper.schedule(good, 0)
    assert not threads_of("faulty")


class Visited:
    """Notes when it is visited, and answers what it is told to."""

    def __init__(self, *answers: int | Exception | None) -> None:
        self.answers = list(answers)
        self.visits: list[int] = []

    def run_due(self, now_ms: int) -> int | None:
        self.visits.append(now_ms)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def housekeeper(clock: VirtualClock) -> Iterator[ScheduledTasks]:
    made = ScheduledTasks("alone", clock)
    yield made
    made.stop()


def test_what_was_due_is_tried_again_after_a_fault(clock: VirtualClock, housekeeper: ScheduledTasks) -> None:
    begin_ms = clock.time_ms()
    visited = Visited(RuntimeError("once"), None)
    housekeeper.schedule(visited, begin_ms + 5)
    clock.await_wait(5)
    clock.advance(5)
    wait_until(lambda: len(visited.visits) == 1)
    clock.await_wait(10_000)
    clock.advance(10_000)
    wait_until(lambda: len(visited.visits) == 2)
    assert visited.visits == [begin_ms + 5, begin_ms + 10_005]


def test_a_queue_that_asks_with_each_message_takes_no_memory_for_that(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    """As one does that has a message which is for tomorrow."""
    queue = broker.virtual_host.queue("orders")
    tomorrow_ms = clock.time_ms() + 86_400_000
    broker.virtual_host.route(make_envelope(properties={DELIVER_AT: Long(tomorrow_ms)}), None, None)
    world = QueueWorld()
    for number in range(1_000):
        unit = world.unit()
        soon_ms = clock.time_ms() + 5_000 - number  # each is due before the last one
        properties = {DELIVER_AT: Long(soon_ms)} if number % 2 else {}
        broker.virtual_host.route(make_envelope(properties=properties), None, unit)
        unit.commit(clock.time_ms())
    assert len(kept(nearest(broker, ScheduledTasks), tuple, without=[clock])) < 100
    clock.advance(5_000)
    wait_until(lambda: queue.delayed_count == 1)
    clock.advance(86_400_000)
    wait_until(lambda: queue.delayed_count == 0)


def test_who_has_gone_is_not_kept_until_its_time(
    clock: VirtualClock, housekeeper: ScheduledTasks, caplog: pytest.LogCaptureFixture
) -> None:
    """As a temporary queue that was deleted: a reply with a time to live of a day had come to it."""
    stays = Visited(None)
    tomorrow_ms = clock.time_ms() + 86_400_000
    housekeeper.schedule(stays, tomorrow_ms)
    gone: list[ReferenceType[Visited]] = []
    for number in range(1_000):
        visited = Visited()
        gone.append(ref(visited))
        housekeeper.schedule(visited, tomorrow_ms - number)
        del visited
    assert not any(each() for each in gone)
    assert len(kept(housekeeper, ReferenceType, without=[clock])) < 100
    assert len(kept(housekeeper, tuple, without=[clock])) < 100
    clock.advance(86_400_000)
    wait_until(lambda: len(stays.visits) == 1)
    assert not caplog.records


def test_a_queue_that_is_deleted_goes_though_a_message_of_it_could_still_expire(
    broker: EmbeddedBroker, clock: VirtualClock
) -> None:
    host = broker.virtual_host
    queue = ref(host.queue("orders"))
    send(broker, clock.time_ms() + 86_400_000)
    assert host.destroy_queue("orders")
    collect()
    assert queue() is None


def fail_to_start(_: Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_it_starts_later_if_the_system_has_no_thread_to_give(
    clock: VirtualClock,
    housekeeper: ScheduledTasks,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who asks has done what it wanted, as a sender whose message is in, and hears nothing of that; the log says it once."""
    visited = Visited(None)
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", fail_to_start)
        for _ in range(3):
            housekeeper.schedule(visited, clock.time_ms())
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "can't start new thread" in record.getMessage()
    housekeeper.schedule(visited, clock.time_ms() + 1)  # it is to come before that, as was asked already
    wait_until(lambda: len(visited.visits) == 1)


def test_each_time_without_a_thread_is_told(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two housekeepers."""
    monkeypatch.setattr(Thread, "start", fail_to_start)
    for name in ("one", "two"):
        ScheduledTasks(name, clock).schedule(Visited(), clock.time_ms())
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["one", "two"]


def test_a_send_does_not_fail_because_of_that(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thread, "start", fail_to_start)
    send(broker, broker.virtual_host.clock.time_ms() + 1_000)
    assert broker.virtual_host.queue("orders").count(MessageState.NEW) == 1


def test_a_visit_that_has_become_needless_is_left_out(clock: VirtualClock, housekeeper: ScheduledTasks) -> None:
    """As it was asked for an earlier one; and what is planned since then is not forgotten."""
    begin_ms = clock.time_ms()
    visited, other = Visited(begin_ms + 20, None), Visited(None)
    housekeeper.schedule(visited, begin_ms + 10)
    housekeeper.schedule(visited, begin_ms + 5)
    housekeeper.schedule(other, begin_ms + 10)  # it is visited after what is due with it
    for pause_ms, waits_for in ((5, visited), (5, other), (10, visited)):
        clock.await_wait(pause_ms)
        before = len(waits_for.visits)
        clock.advance(pause_ms)
        wait_until(lambda looked=waits_for, before=before: len(looked.visits) > before)  # type: ignore[misc]
    assert visited.visits == [begin_ms + 5, begin_ms + 20]


def test_it_obeys_the_system_clock_too() -> None:
    broker = EmbeddedBroker("real", SystemClock())
    try:
        send(broker, SystemClock().time_ms() + 20)
        wait_until(lambda: len(broker.virtual_host.store) == 0)
    finally:
        broker.stop()


def test_brokers_are_found_by_name(clock: VirtualClock) -> None:
    try:
        broker = find_broker("named", clock, None)
        assert find_broker("named", clock, None) is broker
        assert running_broker("named") is broker
        assert "named" in repr(broker)
    finally:
        stop_broker("named")
    stop_broker("named")
    assert running_broker("named") is None


def test_a_step_of_the_clock_waits_for_a_visit_that_is_under_way() -> None:
    """Else a test that moves the clock would look before the broker's thread has done what it has begun."""
    clock, begun, may_end = VirtualClock(), Event(), Event()

    class Slow:
        visits = 0

        def run_due(self, now_ms: int) -> int | None:
            begun.set()
            may_end.wait(10)
            self.visits += 1
            return None

    slow = Slow()
    housekeeper = ScheduledTasks("slow", clock)
    try:
        housekeeper.schedule(slow, clock.time_ms())
        assert begun.wait(10)
        mover = Thread(target=clock.advance, args=(1,))
        mover.start()
        mover.join(0.05)
        assert mover.is_alive()
        may_end.set()
        mover.join(10)
        assert slow.visits == 1
    finally:
        may_end.set()
        housekeeper.stop()


def test_a_step_of_the_clock_ends_a_wait_within_a_visit() -> None:
    """As of one that waits for a store, and looks again after a time by the same clock."""
    clock, ended = VirtualClock(), list[int]()

    class Waits:
        def run_due(self, now_ms: int) -> int | None:
            clock.wait(Signal(), clock.monotonic_ms() + 500)
            ended.append(now_ms)
            return None

    waits = Waits()
    housekeeper = ScheduledTasks("waits", clock)
    try:
        housekeeper.schedule(waits, clock.time_ms())
        clock.await_wait(500)
        clock.advance(499)
        assert not ended
        clock.advance(1)
        assert len(ended) == 1
    finally:
        housekeeper.stop()
