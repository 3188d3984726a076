"""The times of events: nanoseconds since 1970, by the clock that the connection goes by.

Real time is read from the system, finer than `Clock` gives it. A clock that a test moves stands still between two
moves: then each reading is one nanosecond later than the one before, so that the order of events is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from types import BuiltinFunctionType

from pyjms.spi.clock import Clock, SystemClock

__all__ = ["NS_PER_MS", "Ticker"]

NS_PER_MS = 1_000_000


class Ticker:
    """Gives the readings of one recording. Any thread."""

    __slots__ = ("_last", "_lock")

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0

    def reader(self, clock: Clock) -> Callable[[], int]:
        """Return what reads `clock`."""
        is_system = type(clock) is SystemClock

        def now() -> int:
            if is_system and type(time.time_ns) is BuiltinFunctionType:
                real_ns: int = time.time_ns()
                return real_ns
            return self._tick(clock.time_ms() * NS_PER_MS)

        return now

    def _tick(self, time_ns: int) -> int:
        with self._lock:
            self._last = max(self._last + 1, time_ns)
            return self._last
