"""A clock for tests in which a store is taken over at a moment of their own."""

from __future__ import annotations

from threading import current_thread

from pyjms.spi.clock import Signal, SystemClock

__all__ = ["UnwatchedClock"]


class UnwatchedClock(SystemClock):
    """The machine's, by which no broker looks by itself, once a second, whether it still holds its store, and takes it again."""

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        is_watch = current_thread().name.startswith("pyjms holder")
        return super().wait(signal, None if is_watch else until_ms)
