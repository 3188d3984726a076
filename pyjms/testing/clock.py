"""A clock that moves only when told to: expiry, delays and timeouts without sleeping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, current_thread, get_ident
from typing import TYPE_CHECKING
from weakref import WeakMethod

if TYPE_CHECKING:
    from pyjms.spi.clock import Signal

__all__ = ["VirtualClock"]

_START_MS = 1_000_000_000_000
"""2001-09-09 01:46:40 UTC."""


@dataclass(slots=True, eq=False)
class _Wait:
    until_ms: float
    signal: Signal
    thread: int
    is_over: bool = False
    """Whether the clock has ended it, though its thread may not have gone on yet."""
    has_signal: bool = False
    """Whether its signal had been raised before."""


class VirtualClock:
    """A `pyjms.spi.Clock` for tests. Safe to use from any thread.

    Give it to the first connection of a broker: ``ConnectionFactory("vm://test", clock=clock)``; the broker takes it
    too. `advance` moves time, has the broker do what is due, and ends every wait whose time has come.
    A thread that waits while nobody advances the clock is a mistake in a test: after `patience_s` seconds of real time its wait raises AssertionError, unless it is a
    daemon thread, as the broker's own are.
    """

    def __init__(self, start_ms: int = _START_MS, patience_s: float = 30.0) -> None:
        """`start_ms`: the time at the beginning, in milliseconds since 1970 UTC."""
        self._now_ms = start_ms
        self._start_ms = start_ms
        self._patience_s = patience_s
        self._changed = Condition()
        self._waits: list[_Wait] = []
        self._due_work: list[WeakMethod[Callable[[], bool]]] = []
        self._steps = 0
        """How many threads are moving it."""

    def time_ms(self) -> int:
        """Return the virtual time in milliseconds since 1970 UTC."""
        return self._now_ms

    def monotonic_ms(self) -> float:
        """Return the virtual milliseconds since this clock was made."""
        return float(self._now_ms - self._start_ms)

    def advance(self, milliseconds: int) -> None:
        """Move time forward; return when the broker has done what is due, such as making a delayed message available."""
        if milliseconds < 0:
            raise ValueError("a clock does not go back")
        with self._changed:
            self._now_ms += milliseconds
            self._steps += 1
            # Those whose object has gone are dropped here: a broker that was stopped tells nobody.
            self._due_work = [each for each in self._due_work if each() is not None]
            work = [run_due for each in self._due_work if (run_due := each()) is not None]
        try:
            # First, so that a message that is due comes to a receive whose time is over in the same step.
            kept = [run_due for run_due in work if not run_due()]
        finally:
            self._end_waits()
        # What a waiting thread kept from being done is done now that its wait has ended.
        for run_due in kept:
            run_due()

    def _end_waits(self) -> None:
        """End the waits whose time has come, at the end of a step."""
        with self._changed:
            self._steps -= 1
            now = self.monotonic_ms()
            for wait in self._waits:
                if wait.until_ms <= now and not wait.is_over:
                    wait.is_over, wait.has_signal = True, wait.signal.is_raised
                    wait.signal.set()

    def add_due_work(self, run_due: Callable[[], bool]) -> None:
        """Have a bound method called by each `advance`; see `pyjms.spi.clock.SteppedClock`."""
        with self._changed:
            self._due_work.append(WeakMethod(run_due))

    def is_waiting(self, thread: int) -> bool:
        """Return whether the thread of that identifier waits for a time that has not come; see `pyjms.spi.clock.SteppedClock`."""
        with self._changed:
            return any(each.thread == thread and not each.is_over for each in self._waits)

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        """Wait for `signal`, or for `advance` to reach `until_ms`; see `pyjms.spi.Clock`."""
        if until_ms is None:
            return signal.wait(-1)
        entry = _Wait(until_ms, signal, get_ident())
        with self._changed:
            # A step that is under way ends the wait when its work is done.
            if self.monotonic_ms() >= until_ms and not self._steps:
                return signal.wait(0)
            self._waits.append(entry)
            self._changed.notify_all()
        try:
            while not signal.wait(self._patience_s):
                if current_thread().daemon:
                    continue  # a broker's housekeeper, which may wait for an expiry for as long as the test runs
                raise AssertionError(
                    f"a thread has waited {self._patience_s} s for virtual time to reach +{until_ms:.0f} ms, "
                    f"and it stands at +{self.monotonic_ms():.0f} ms: call clock.advance()"
                )
        finally:
            with self._changed:
                self._waits.remove(entry)
        # If it has been raised again, it came first, and had this thread go on before the clock ended the wait.
        return not entry.is_over or entry.has_signal or signal.wait(0)

    def await_wait(self, timeout_ms: int, patience_s: float = 10.0) -> None:
        """Return once some thread waits for at most `timeout_ms` virtual milliseconds from now.

        So a test can be sure that another thread blocks in ``receive(timeout_ms)`` before it advances the clock.
        A wait whose time has come counts no more, though its thread may not have gone on yet. Raises TimeoutError after
        `patience_s` real seconds.
        """
        with self._changed:
            now = self.monotonic_ms()
            limit = now + timeout_ms
            if not self._changed.wait_for(
                lambda: any(now < each.until_ms <= limit for each in self._waits), patience_s
            ):
                raise TimeoutError(f"no thread waits for {timeout_ms} ms or less")
