"""For how long a holder takes its lock for held without asking: its process may have been stopped, and hear last that another one has it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import Signal, SystemClock

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock

# Looking whether a store is still held while nobody writes: a broker that is idle would else not hear that it has lost its store.

BETWEEN_LOOKS_MS: Final = 1000
"""How long a broker may serve that has lost its store."""


class LeaseMonitor:
    """The thread of one store, from `start` to `stop`. It calls `look` with no lock held."""

    def __init__(self, look: Callable[[], None], clock: Clock, *, name: str | None) -> None:
        """`look` may wait for the network, for some seconds."""
        self._look = look
        self._clock = clock
        self._signal = Signal()
        self._is_stopped = False
        self._thread = Thread(target=self._run, name=f"pyjms holder {name}", daemon=True)

    def start(self) -> None:
        """Begin. Once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it, unless this is it. May be repeated."""
        self._is_stopped = True
        self._signal.set()
        if self._thread is not current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped:
            self._clock.wait(self._signal, self._clock.monotonic_ms() + BETWEEN_LOOKS_MS)
            if not self._is_stopped:
                self._look()


LEASE_S: Final = 2 * BETWEEN_LOOKS_MS / 1000
"""From the beginning of a look, or of a commit. Twice the time between two looks, as the thread that looks may come late."""


class Lease:
    """Who has the right to write renews it, and ends it; any thread may ask."""

    __slots__ = ("is_ended", "now_s", "until_s")

    def __init__(self, clock: Clock) -> None:
        self.now_s: Final = _seconds_since_boot(clock)
        self.until_s = -math.inf
        self.is_ended = False
        """Whether the lock is not known to be held, whatever the time."""

    @property
    def is_valid(self) -> bool:
        """Whether the lock was held a moment ago."""
        return not self.is_ended and self.now_s() < self.until_s

    def renew(self, since_s: float) -> None:
        """Hear that the lock was held at this time, which `now_s` told before that was found out."""
        self.until_s = since_s + LEASE_S
        self.is_ended = False

    def end(self) -> None:
        """Hear that nobody knows whether the lock is held."""
        self.is_ended = True

    def extend(self, since_s: float) -> None:
        """Have it last if it has not run out: a commit is under way, whose thread ends it as soon as the connection is lost. Any thread."""
        if self.is_valid:  # else that thread stood still as well
            self.until_s = since_s + LEASE_S


def _seconds_since_boot(clock: Clock) -> Callable[[], float]:
    """Return what tells seconds that go on while the machine is suspended, where the system counts that; those of an injected clock are its own."""
    since_boot = getattr(time, "CLOCK_BOOTTIME", None)
    if since_boot is None or not isinstance(clock, SystemClock):
        return lambda: clock.monotonic_ms() / 1000
    return partial(time.clock_gettime, since_boot)
