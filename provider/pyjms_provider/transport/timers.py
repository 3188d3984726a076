"""Time for all connections of a loop: one heap, and one thread that waits by the injected clock (BJ-IDLE-4).

The loop itself cannot wait by a clock that a test moves; a thread can, with `Clock.wait`. It does nothing but tell the
loop that something is due. All else happens on the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from threading import Thread
from typing import Final, Protocol

from pyjms.spi.clock import Clock, Signal
from pyjms_provider.transport.scheduler import Scheduler

__all__ = ["Alarm", "Alarmed", "Timers"]

_GRAIN_MS: Final = 20
"""Alarms go off together, at multiples of this: so a thousand connections wake the loop fifty times a second at most."""

_LATE_MS: Final = 100
"""So late the process, or the machine, has stood still: what peers said meanwhile lies in their sockets."""


class Alarmed(Protocol):
    """Who wants to be called at a time."""

    def alarm(self, due_ms: float) -> None:
        """The time that `arm` returned has come, or has long passed; what it was asked for may have changed. Must not raise."""
        ...


class Alarm:
    """What the timers hold of whoever is to be called, as long as an alarm of his is to come: it is emptied when he ends.

    A connection arms for its heart-beats, and for the time limit of a login; one that was closed after a moment would else be in
    memory until then.
    """

    __slots__ = ("who",)

    def __init__(self, who: Alarmed | None) -> None:
        self.who = who
        """None: nobody is to be called any more."""


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

        There is no disarming but for the end: who is called too early looks at what it wants now, and arms again.
        """
        due_ms = math.ceil(at_ms / _GRAIN_MS) * _GRAIN_MS
        if due_ms >= armed_ms:
            return armed_ms
        heappush(self._heap, (due_ms, next(self._numbers), alarm))
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
        due = []
        while heap and heap[0][0] <= now_ms:
            due.append(heappop(heap))
        for due_ms, _, alarm in due:
            who = alarm.who
            if who is not None:
                who.alarm(due_ms)
        self._next_ms = heap[0][0] if heap else math.inf
        self._signal.set()
