"""Configuration threads: one after the other, at once from within, with a way out, and never waiting for each other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event, Thread, current_thread

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ClosedError, ResourceError
from pyjms_provider.model.configuration_thread import ConfigurationThread
from pyjms_provider.model.errors import ConfigurationTimeoutError

TIMEOUT_S = 20


@pytest.fixture
def threads() -> Iterator[tuple[ConfigurationThread, ConfigurationThread]]:
    pair = ConfigurationThread("broker", SystemClock()), ConfigurationThread("host", SystemClock())
    yield pair
    for each in pair:
        each.stop()


Pair = tuple[ConfigurationThread, ConfigurationThread]


@pytest.mark.realises("BJ-THR-1")
def test_all_calls_run_on_the_one_thread_in_their_order(threads: Pair) -> None:
    thread, _ = threads
    names: list[str] = []
    order: list[int] = []

    def note(number: int) -> None:
        names.append(current_thread().name)
        order.append(number)

    calls = [thread.submit(partial(note, number)) for number in range(100)]
    for call in calls:
        thread.wait_for(call)
    assert set(names) == {"pyjms configuration broker"}
    assert order == list(range(100))


def test_a_call_from_the_thread_itself_runs_at_once(threads: Pair) -> None:
    thread, _ = threads
    assert thread.call(lambda: [1, *thread.call(lambda: [2])]) == [1, 2]
    assert not thread.is_current


def test_what_a_call_raises_is_its_callers(threads: Pair) -> None:
    thread, _ = threads
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 // 0)
    assert thread.call(lambda: 1) == 1, "the thread goes on"


def test_threads_that_call_each_other_at_the_same_time_do_not_wait_for_ever(threads: Pair) -> None:
    first, second = threads
    both_inside = Barrier(2)

    def cross(own: str, other: ConfigurationThread) -> str:
        both_inside.wait(TIMEOUT_S)
        return own + other.call(lambda: current_thread().name)

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(lambda: first.call(lambda: cross("a ", second)))
        two = pool.submit(lambda: second.call(lambda: cross("b ", first)))
        assert one.result(TIMEOUT_S) == "a pyjms configuration host"
        assert two.result(TIMEOUT_S) == "b pyjms configuration broker"


def test_a_chain_of_calls_may_come_back(threads: Pair) -> None:
    first, second = threads
    assert first.call(lambda: second.call(lambda: first.call(lambda: second.call(lambda: "done")))) == "done"


def test_threads_cross_many_times(threads: Pair) -> None:
    first, second = threads

    def ping(own: ConfigurationThread, other: ConfigurationThread) -> int:
        return sum(own.call(lambda: other.call(lambda: 1)) for _ in range(200))

    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(ping, *pair) for pair in ((first, second), (second, first)) for _ in range(2)]
        assert [each.result(TIMEOUT_S) for each in found] == [200] * 4


def test_what_waits_for_its_turn_is_left_undone_when_it_takes_too_long() -> None:
    thread = ConfigurationThread("slow", SystemClock(), patience_ms=20)
    let_go, begun = Event(), Event()
    done: list[int] = []

    def hold() -> None:
        begun.set()
        let_go.wait(TIMEOUT_S)

    busy = thread.submit(hold)
    assert begun.wait(TIMEOUT_S)
    with pytest.raises(ConfigurationTimeoutError, match="did not come to the change within 20 ms; it was left undone"):
        thread.call(lambda: done.append(1))
    with pytest.raises(ConfigurationTimeoutError, match="has been at the change for 20 ms, and goes on"):
        thread.wait_for(busy)
    let_go.set()
    thread.stop()
    assert busy.done()
    assert not done


def test_the_end_of_the_thread_ends_what_waits() -> None:
    thread = ConfigurationThread("ending", SystemClock())
    let_go, begun = Event(), Event()

    def hold() -> None:
        begun.set()
        let_go.wait(TIMEOUT_S)

    thread.submit(hold)
    assert begun.wait(TIMEOUT_S)
    waiting = thread.submit(lambda: 1)
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(thread.stop)
        with pytest.raises(ClosedError, match="has ended before the change was made"):
            thread.wait_for(waiting)
        let_go.set()
        stopping.result(TIMEOUT_S)
    with pytest.raises(ClosedError, match="nothing there can be changed any more"):
        thread.call(lambda: 1)
    thread.stop()


def test_a_change_for_which_the_system_has_no_thread_is_refused_and_the_next_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread = ConfigurationThread("new", SystemClock(), patience_ms=TIMEOUT_S * 1000)
    done: list[int] = []

    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Thread, "start", refuse)
        with pytest.raises(ResourceError, match="new cannot be changed now: can't start new thread"):
            thread.call(lambda: done.append(1))
    thread.call(lambda: done.append(2))
    assert done == [2], "what was refused is not made later"
    thread.stop()


def test_the_thread_may_end_itself() -> None:
    thread = ConfigurationThread("itself", SystemClock())
    thread.call(thread.stop)
    with pytest.raises(ClosedError):
        thread.call(lambda: 1)
    thread.stop()
