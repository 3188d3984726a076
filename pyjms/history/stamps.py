"""The times of events: nanoseconds since 1970, by the clock of the connection.

Real time is read from the system, finer than `Clock` gives it. A clock that a test moves stands still between two
moments: then each reading is one nanosecond later than the one before, so that the order of events is kept.

When the system's clock is put back, later events seem to be earlier. That cannot be corrected, as expirations go by the
time of day; but it is detected by the monotonic clock, and reported, so that it is not taken for the provider's fault.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from types import BuiltinFunctionType

from pyjms.spi.clock import Clock, SystemClock

NS_PER_MS = 1_000_000
STEP_NS = 10 * NS_PER_MS
"""A clock that is put back by less than this is not noticed: slewing looks the same where the monotonic clock is not slewed with it."""


class StepWatch:
    """Reads the time of day, and detects that it was put back. Any thread."""

    __slots__ = ("_least_ns", "_lock", "_most_ns", "_on_back", "_steady_ns", "_wall_ns")

    def __init__(
        self, on_back: Callable[[int, int], None], wall_ns: Callable[[], int], steady_ns: Callable[[], int]
    ) -> None:
        """`on_back(now_ns, by_ns)` is called, without a lock, by the thread that first reads the time after it was put back."""
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._on_back = on_back
        self._lock = Lock()
        self._least_ns = self._most_ns = 0
        self._set(self._offset()[0])

    def _set(self, offset_ns: int) -> None:
        self._least_ns, self._most_ns = offset_ns - STEP_NS, offset_ns + STEP_NS

    def _offset(self) -> tuple[int, int]:
        """Return the least and the greatest difference between the clocks: this thread may have to wait between two readings."""
        # The wall clock is read between two readings of the monotonic one: a thread that is held up here sees a range,
        # and not a step.
        before_ns = self._steady_ns()
        wall_ns = self._wall_ns()
        return wall_ns - self._steady_ns(), wall_ns - before_ns

    def read(self) -> int:
        """Return the time of day."""
        now_ns = self._wall_ns()
        # Without the lock, as this runs for each event: two bounds of different moments only lead to a closer check.
        if not self._least_ns < now_ns - self._steady_ns() < self._most_ns:
            self.look()
            return self._wall_ns()
        return now_ns

    def look(self) -> None:
        """Measure the present difference of the clocks. Called from time to time, so that drift is not taken for a step."""
        by_ns = 0
        with self._lock:
            least_ns, most_ns = self._offset()
            before_ns = self._least_ns + STEP_NS
            # Put back even if this thread was held up between the readings. A step forward harms no verdict, and is
            # only followed.
            if most_ns <= self._least_ns:
                by_ns = before_ns - most_ns
            if by_ns or not least_ns <= before_ns <= most_ns:
                self._set(most_ns if by_ns else least_ns)
        if by_ns:
            # Outside of the lock: it notes an event, which may write to a file.
            self._on_back(self._wall_ns(), by_ns)


class Ticker:
    """The readings of one recording. Any thread."""

    __slots__ = ("_last", "_lock", "steps")

    def __init__(self, on_back: Callable[[int, int], None] = lambda _now_ns, _by_ns: None) -> None:
        """`on_back`: as for `StepWatch`, of the system's clock."""
        self._lock = Lock()
        self._last = 0
        self.steps = StepWatch(on_back, time.time_ns, time.monotonic_ns)

    def reader(self, clock: Clock) -> Callable[[], int]:
        """Return the function that reads `clock`."""
        is_system = type(clock) is SystemClock

        def now() -> int:
            # A test that patches the time has put a Python function in its place; then readings go by the clock's
            # milliseconds.
            if is_system and type(time.time_ns) is BuiltinFunctionType:
                return self.steps.read()
            return self._tick(clock.time_ms() * NS_PER_MS)

        return now

    def _tick(self, time_ns: int) -> int:
        with self._lock:
            # Never the same twice: events within one millisecond keep their order.
            self._last = max(self._last + 1, time_ns)
            return self._last
