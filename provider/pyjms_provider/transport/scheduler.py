"""The scheduler of the event loop: a run queue for the turns of connections, and timers."""

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
"""The number of steps after which the loop polls the sockets again, so that many writing connections do not delay the reading ones."""


class Scheduler:
    """Runs steps, in order, on the thread of `loop`, which must create this object. A step is short, and must not raise."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = get_ident()
        self._ready: deque[Callable[[], None]] = deque()
        self._is_due = False

    def is_here(self) -> bool:
        """Return whether the caller is on the loop's thread."""
        return get_ident() == self._thread

    def add(self, step: Callable[[], None]) -> None:
        """Schedule `step` to run soon. Any thread; never blocks. Has no effect once the loop is closed."""
        self._ready.append(step)
        # The step is in the list before the flag is read, and `_run` clears the flag before it reads the list: so
        # either this call finds the flag cleared, or `_run` finds the step.
        if not self._is_due:
            self._is_due = True
            self._schedule()

    def _schedule(self) -> None:
        # On the loop's own thread the loop does not sleep, so no write to its self-pipe is needed to wake it.
        if self.is_here():
            self._loop.call_soon(self._run)
            return
        try:
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            return  # the loop is closed, and with it all connections

    def _run(self) -> None:
        ready = self._ready
        self._is_due = False
        try:
            # Only the steps that are in the list now: those added by them run after the next poll of the sockets.
            for _ in range(min(len(ready), _TURN_STEPS)):
                ready.popleft()()
        finally:
            # Also after a step that raised: the following steps must not wait for the next `add`.
            if ready and not self._is_due:
                self._is_due = True
                self._loop.call_soon(self._run)


_GRAIN_MS: Final = 20
"""Alarms are rounded up to multiples of this: so even a thousand connections wake the loop at most fifty times a second."""

_LATE_MS: Final = 100
"""An alarm this late means that the process or the machine was suspended: bytes of the peers wait in the sockets."""


class Alarmed(Protocol):
    """An object with an alarm."""

    def alarm(self, due_ms: float) -> None:
        """Handle the alarm of `due_ms`, a result of `arm`; the call may be late, and the alarm obsolete. Must not raise."""
        ...


class Alarm:
    """The timers' reference to an object with an alarm; it is cleared when the object ends.

    Without it, a closed connection would stay in memory until the alarm of its heart-beats, or of its login timeout.
    """

    __slots__ = ("target",)

    def __init__(self, target: Alarmed | None) -> None:
        self.target = target
        """The object to be called; None: it has ended."""


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
        """Whether the sockets were polled before the late alarms."""
        self._thread = Thread(target=self._run, name=f"pyjms network timer {name}", daemon=True)
        self._thread.start()

    def arm(self, at_ms: float, alarm: Alarm, armed_ms: float = math.inf) -> float:
        """Call the alarm's object at `at_ms` on the monotonic clock, or up to 20 ms later; return that time. On the loop.

        `armed_ms`: the time of the object's present alarm, returned by an earlier call. If that is not later, nothing is changed.

        Alarms are cancelled only by the end of the object: one that is called too early sets an alarm again.
        """
        due_ms = math.ceil(at_ms / _GRAIN_MS) * _GRAIN_MS
        if due_ms >= armed_ms:
            return armed_ms
        # The number makes equal times comparable, as alarms are not.
        heappush(self._heap, (due_ms, next(self._numbers), alarm))
        # The timer's thread is woken only for an earlier time; it reads later ones when the present one is reached.
        if due_ms < self._next_ms:
            self._next_ms = due_ms
            self._signal.set()
        return due_ms

    def stop(self) -> None:
        """End the thread and wait for it; no alarm is called any more. May be repeated."""
        self._is_stopped = True
        self._signal.set()
        self._thread.join()

    def _run(self) -> None:
        fire: Callable[[], None] = self._fire
        is_scheduled = False  # whether `_fire` is scheduled, and has not set the next time yet
        while not self._is_stopped:
            # Until `_fire` has set the next time, the wait has no limit, as it would otherwise be scheduled again and again.
            until_ms = None if is_scheduled or self._next_ms == math.inf else self._next_ms
            is_scheduled = not self._clock.wait(self._signal, until_ms)
            if is_scheduled:
                self._scheduler.add(fire)

    def _fire(self) -> None:
        heap = self._heap
        now_ms = self._clock.monotonic_ms()
        if heap and now_ms >= heap[0][0] + _LATE_MS and not self._has_waited:
            self._has_waited = True
            self._scheduler.add(
                self._fire
            )  # after the next poll of the sockets, or peers with bytes in their sockets would count as silent
            return
        self._has_waited = False
        # Removed first: an alarm that is set in the loop below must not be called in it.
        due = []
        while heap and heap[0][0] <= now_ms:
            due.append(heappop(heap))
        for due_ms, _, alarm in due:
            target = alarm.target
            if target is not None:
                target.alarm(due_ms)
        self._next_ms = heap[0][0] if heap else math.inf
        self._signal.set()
