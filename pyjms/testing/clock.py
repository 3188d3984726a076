"""A clock that moves only when told to: expiry, delays and timeouts without sleeping."""

from __future__ import annotations

from threading import Condition, current_thread

from pyjms.spi.clock import Signal

__all__ = ["VirtualClock"]

_START_MS = 1_000_000_000_000
"""2001-09-09 01:46:40 UTC."""


class VirtualClock:
    """A `pyjms.spi.Clock` for tests. Safe to use from any thread.

    Give it to the first connection of a broker: ``ConnectionFactory("vm://test", clock=clock)``; the broker takes it
    too. `advance` moves time and ends every wait whose time has come. A thread that waits while nobody advances the
    clock is a mistake in a test: after `patience_s` seconds of real time its wait raises AssertionError, unless it is a
    daemon thread, as the broker's own are.
    """

    def __init__(self, start_ms: int = _START_MS, patience_s: float = 30.0) -> None:
        """`start_ms`: the time at the beginning, in milliseconds since 1970 UTC."""
        self._now_ms = start_ms
        self._start_ms = start_ms
        self._patience_s = patience_s
        self._changed = Condition()
        self._waits: list[tuple[float, Signal]] = []

    def time_ms(self) -> int:
        """Return the virtual time in milliseconds since 1970 UTC."""
        return self._now_ms

    def monotonic_ms(self) -> float:
        """Return the virtual milliseconds since this clock was made."""
        return float(self._now_ms - self._start_ms)

    def advance(self, milliseconds: int) -> None:
        """Move time forward and wake who waited for that."""
        if milliseconds < 0:
            raise ValueError("a clock does not go back")
        with self._changed:
            self._now_ms += milliseconds
            now = self.monotonic_ms()
            due = [signal for until, signal in self._waits if until <= now]
        for signal in due:
            signal.set()

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        """Wait for `signal`, or for `advance` to reach `until_ms`; see `pyjms.spi.Clock`."""
        if until_ms is None:
            return signal.wait(-1)
        entry = (until_ms, signal)
        with self._changed:
            if self.monotonic_ms() >= until_ms:
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
            return self.monotonic_ms() < until_ms
        finally:
            with self._changed:
                self._waits.remove(entry)

    def await_wait(self, timeout_ms: int, patience_s: float = 10.0) -> None:
        """Return once some thread waits for at most `timeout_ms` virtual milliseconds from now.

        So a test can be sure that another thread blocks in ``receive(timeout_ms)`` before it advances the clock.
        A wait whose time has come counts no more, though its thread may not have gone on yet. Raises TimeoutError after
        `patience_s` real seconds.
        """
        with self._changed:
            now = self.monotonic_ms()
            limit = now + timeout_ms
            if not self._changed.wait_for(lambda: any(now < until <= limit for until, _ in self._waits), patience_s):
                raise TimeoutError(f"no thread waits for {timeout_ms} ms or less")
