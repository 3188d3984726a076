"""What the event loop does next: connections with work, in the order of their turns, and timers."""

from __future__ import annotations

import math
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from threading import Thread, get_ident
from typing import Final, Protocol

from pyjms.spi.clock import Clock, Signal

_TURN_STEPS = 64
"""After so many the sockets are looked at again, however many wait: so who reads is not delayed by who writes."""


class Scheduler:
    """Runs steps, in order, on the thread of `loop`, which makes this object. A step must not raise, and is short."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = get_ident()
        self._ready: deque[Callable[[], None]] = deque()
        self._is_due = False

    def is_here(self) -> bool:
        """Whether the caller is on the loop's thread."""
        return get_ident() == self._thread

    def add(self, step: Callable[[], None]) -> None:
        """Have `step` run soon. Any thread; never blocks. Once the loop is closed, nothing happens."""
        self._ready.append(step)
        # The step is in the list before the flag is read, and `_run` lowers the flag before it reads the list: so
        # either this call sees the flag low, or that reading finds the step.
        if not self._is_due:
            self._is_due = True
            self._schedule()

    def _schedule(self) -> None:
        # Without a write to the loop's self-pipe, which wakes a loop that sleeps; this one does not.
        if self.is_here():
            self._loop.call_soon(self._run)
            return
        try:
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            return  # the loop is closed, and so is every connection that could want something

    def _run(self) -> None:
        ready = self._ready
        self._is_due = False
        try:
            # As many as there are now: steps that these add come after a look at the sockets.
            for _ in range(min(len(ready), _TURN_STEPS)):
                ready.popleft()()
        finally:
            # Also after a step that raised: those behind it are not to wait for the next `add`.
            if ready and not self._is_due:
                self._is_due = True
                self._loop.call_soon(self._run)


_GRAIN_MS: Final = 20
"""Alarms go off together, at multiples of this: so a thousand connections wake the loop fifty times a second at most."""

_LATE_MS: Final = 100
"""So late the process, or the machine, has stood still: what peers said meanwhile lies in their sockets."""


class Alarmed(Protocol):
    """An object that is called at a time."""

    def alarm(self, due_ms: float) -> None:
        """The time that `arm` returned has come, or has long passed; what it was asked for may have changed. Must not raise."""
        ...


class Alarm:
    """The timers' reference to an object that is to be called: it is cleared when the object ends.

    A connection arms for its heart-beats, and for the time limit of a login; without this, a closed one would stay in
    memory until then.
    """

    __slots__ = ("who",)

    def __init__(self, who: Alarmed | None) -> None:
        self.who = who
        """None: the object has ended."""


class Timers:
    """The alarms of one loop."""

    def __init__(self, name: str, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._heap: list[tuple[float, int, Alarm]] = []
        self._numbers = count()
        self._next_ms = math.inf
        self._signal = Signal()
        self._is_stopped = False
        self._has_waited = False
        """Whether alarms that are late have let the sockets be read before them."""
        self._thread = Thread(target=self._run, name=f"pyjms network timer {name}", daemon=True)
        self._thread.start()

    def arm(self, at_ms: float, alarm: Alarm, armed_ms: float = math.inf) -> float:
        """Call `alarm.who` at `at_ms` on the monotonic clock, or up to 20 ms later; return the time. On the loop.

        `armed_ms`: when `who` will be called anyway, as an earlier call returned it. If that is not later, it is left at that.

        An alarm is disarmed only by the end: an object that is called too early arms again.
        """
        due_ms = math.ceil(at_ms / _GRAIN_MS) * _GRAIN_MS
        if due_ms >= armed_ms:
            return armed_ms
        # The number decides between equal times, as alarms cannot be compared.
        heappush(self._heap, (due_ms, next(self._numbers), alarm))
        # The timer's thread is woken only for an earlier time: the others are found when that has come.
        if due_ms < self._next_ms:
            self._next_ms = due_ms
            self._signal.set()
        return due_ms

    def stop(self) -> None:
        """End the thread and wait for it. May be repeated; nobody is called any more."""
        self._is_stopped = True
        self._signal.set()
        self._thread.join()

    def _run(self) -> None:
        fire: Callable[[], None] = self._fire
        is_told = False  # whether the loop knows that something is due, and has not yet answered with the next time
        while not self._is_stopped:
            # Until the loop has answered it waits without a limit, or it would tell the loop again and again.
            until_ms = None if is_told or self._next_ms == math.inf else self._next_ms
            is_told = not self._clock.wait(self._signal, until_ms)
            if is_told:
                self._scheduler.add(fire)

    def _fire(self) -> None:
        heap = self._heap
        now_ms = self._clock.monotonic_ms()
        if heap and now_ms >= heap[0][0] + _LATE_MS and not self._has_waited:
            self._has_waited = True
            self._scheduler.add(
                self._fire
            )  # after what the loop finds in the sockets now, or peers that spoke would pass for silent
            return
        self._has_waited = False
        # Taken out first: an alarm that is armed in the loop below must not go off in it.
        due = []
        while heap and heap[0][0] <= now_ms:
            due.append(heappop(heap))
        for due_ms, _, alarm in due:
            who = alarm.who
            if who is not None:
                who.alarm(due_ms)
        self._next_ms = heap[0][0] if heap else math.inf
        self._signal.set()
