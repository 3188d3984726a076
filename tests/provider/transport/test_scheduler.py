from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Barrier, Thread
from typing import cast

import pytest

from pyjms_provider.transport.scheduler import Scheduler
from tests.provider.transport.world import PATIENCE_S


class Loop:
    """Counts how often the loop is told to come."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.from_outside = 0
        self.is_closed = False

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        if self.is_closed:
            raise RuntimeError("Event loop is closed")
        self.from_outside += 1
        self.calls.append(call)

    def run(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def make() -> tuple[Loop, Scheduler]:
    loop = Loop()
    return loop, Scheduler(cast("asyncio.AbstractEventLoop", loop))


def from_another_thread(call: Callable[[], None]) -> None:
    thread = Thread(target=call)
    thread.start()
    thread.join(PATIENCE_S)


def test_steps_run_in_order() -> None:
    loop, scheduler = make()
    done: list[int] = []
    for number in range(3):
        scheduler.add(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == []
    loop.run()
    assert done == [0, 1, 2]


@pytest.mark.realises("BJ-TCP-5")
def test_a_storm_from_many_threads_wakes_the_loop_once() -> None:
    loop, scheduler = make()
    done: list[int] = []
    threads, each = 8, 500
    barrier = Barrier(threads)

    def storm() -> None:
        barrier.wait(PATIENCE_S)
        for _ in range(each):
            scheduler.add(lambda: done.append(1))

    storms = [Thread(target=storm) for _ in range(threads)]
    for thread in storms:
        thread.start()
    for thread in storms:
        thread.join(PATIENCE_S)
    # Two threads may both find the flag low; a third look is then for nothing.
    assert loop.from_outside <= threads
    while loop.calls:
        loop.run()
    assert len(done) == threads * each


def test_a_wake_up_after_the_list_was_emptied_is_not_lost() -> None:
    loop, scheduler = make()
    done: list[int] = []
    scheduler.add(lambda: scheduler.add(lambda: done.append(1)))
    loop.run()
    loop.run()
    assert done == [1]


@pytest.mark.realises("BJ-PE-7")
def test_a_long_list_lets_the_sockets_be_looked_at_in_between() -> None:
    loop, scheduler = make()
    done: list[int] = []
    for _ in range(200):
        scheduler.add(lambda: done.append(1))
    turns = 0
    while loop.calls:
        loop.run()
        turns += 1
    assert len(done) == 200
    assert turns == 4


def test_who_never_ends_delays_nobody() -> None:
    loop, scheduler = make()
    done: list[int] = []

    def again() -> None:
        scheduler.add(again)

    scheduler.add(again)
    scheduler.add(lambda: done.append(1))
    loop.run()
    assert done == [1]


def test_nobody_is_woken_when_the_loop_is_closed() -> None:
    loop, scheduler = make()
    loop.is_closed = True
    from_another_thread(lambda: scheduler.add(lambda: None))
    assert loop.calls == []


def test_a_step_that_raises_does_not_keep_the_others_back() -> None:
    loop, scheduler = make()
    done: list[int] = []

    def fail() -> None:
        raise RuntimeError("a fault of ours")

    scheduler.add(fail)
    scheduler.add(lambda: done.append(1))
    with pytest.raises(RuntimeError):
        loop.run()
    loop.run()
    assert done == [1]
