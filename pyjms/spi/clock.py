"""Time for both sides of the SPI: the present time, and waits that a test can end by moving the clock.

Expiry, time stamps and timeouts ask the injected `Clock`. The default, `SystemClock`, reads the `time` module at each
call, so that freezegun's frozen time is obeyed; `pyjms.testing.VirtualClock` moves only when told to.

`Delays` gives the waits between attempts after failures. It is pure: randomness is passed in as a function.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from types import BuiltinFunctionType
from typing import Protocol, runtime_checkable

__all__ = ["BackOff", "Clock", "Delays", "Signal", "SteppedClock", "SystemClock", "seconds_since_boot"]


_FROZEN_SLICE_S = 0.01
_LONGEST_WAIT_S = 1e6  # the platform's limit may be lower than the longest timeout of JMS, 292 million years
_FRAMES = 8


class Signal:
    """A flag that one thread waits for and any thread raises; raising it twice is raising it once.

    Built on a bare lock, the cheapest thing that one thread can wait on with a timeout.
    """

    __slots__ = ("_lock", "ring", "wait")

    def __init__(self) -> None:
        self._lock = Lock()
        # A locked lock is a lowered flag: `wait` takes it, and `set` releases it.
        self._lock.acquire()
        self.ring: Callable[[], None] | None = None
        """Called when the flag was raised. A thread that sleeps in a system call, and not on the flag, sets it before its last check
        of the flag. Must not block."""
        self.wait: Callable[[float], bool] = partial(self._lock.acquire, True)
        """Lower the flag and return True, or return False after that number of seconds (-1: wait for ever)."""

    @property
    def is_raised(self) -> bool:
        """Whether it was raised and no waiting thread has lowered it yet."""
        return not self._lock.locked()

    def set(self) -> None:
        """Raise the flag. Any thread; never blocks."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # it is raised already
        # `ring` is read after the flag is raised: a sleeper sets it before its last look at the
        # flag, so one of the two sees the other.
        ring = self.ring
        if ring is not None:
            ring()


@runtime_checkable
class Clock(Protocol):
    """A source of time. All calls may come from any thread."""

    def time_ms(self) -> int:
        """Return the wall-clock time in milliseconds since 1970-01-01 00:00 UTC."""
        ...

    def monotonic_ms(self) -> float:
        """Return a time in milliseconds that only grows; its origin has no meaning."""
        ...

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        """Wait for `signal`; return True when it was raised, False when `monotonic_ms` reached `until_ms` (None: never)."""
        ...


@runtime_checkable
class SteppedClock(Clock, Protocol):
    """A clock that moves in steps, each a call that returns when the work that became due by it is done."""

    def add_due_work(self, run_due: Callable[[], bool]) -> None:
        """Have a bound method called within each step, on the thread that moves the clock, as long as its object exists.

        It does all due work, and returns False if a thread that waits by this clock prevents that: it is then called
        again when the waits that end with this step have ended.
        """
        ...

    def is_waiting(self, thread: int) -> bool:
        """Return whether the thread of that identifier waits by this clock for a later time."""
        ...


class SystemClock:
    """The machine's clock, seen through the `time` module.

    Under freezegun the time is the frozen one; a wait then ends at whichever comes first: its timeout in real time, or
    the moment when the frozen clock has been moved past it. So a wait in frozen time always ends.
    """

    @property
    def is_real(self) -> bool:
        """Whether it follows the machine's clock, and is not frozen: then a system call may do the waiting."""
        return type(time.monotonic) is BuiltinFunctionType

    def time_ms(self) -> int:
        # The function is looked up at each call: freezegun replaces it in the module by one that is not built in.
        now = time.time
        return int((now() if type(now) is BuiltinFunctionType else _from_below(now)) * 1000)

    def monotonic_ms(self) -> float:
        now = time.monotonic
        return (now() if type(now) is BuiltinFunctionType else _from_below(now)) * 1000

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        if until_ms is None:
            return signal.wait(-1)
        remaining_s = (until_ms - self.monotonic_ms()) / 1000
        if type(time.monotonic) is BuiltinFunctionType:
            # The wait is made in parts, as Python raises OverflowError for a timeout beyond the platform's limit.
            while remaining_s > _LONGEST_WAIT_S:
                if signal.wait(_LONGEST_WAIT_S):
                    return True
                remaining_s -= _LONGEST_WAIT_S
            return signal.wait(max(0.0, remaining_s))
        return self._wait_frozen(signal, until_ms, remaining_s)

    def _wait_frozen(self, signal: Signal, until_ms: float, remaining_s: float) -> bool:
        # The wait is made in slices: a test moves the frozen clock without notifying anybody.
        while remaining_s > 0:
            if signal.wait(min(remaining_s, _FROZEN_SLICE_S)):
                return True
            remaining_s -= _FROZEN_SLICE_S
            if self.monotonic_ms() >= until_ms:
                break
        return signal.wait(0)


def seconds_since_boot(clock: Clock) -> Callable[[], float]:
    """Return a function for the time in seconds: it also counts a suspended machine's time where the system can; of an injected clock, its own time."""
    since_boot = getattr(time, "CLOCK_BOOTTIME", None)
    # CLOCK_MONOTONIC stops while a machine is suspended, and a lease would outlive the lock.
    if since_boot is None or not isinstance(clock, SystemClock):
        return lambda: clock.monotonic_ms() / 1000
    return partial(time.clock_gettime, since_boot)


def _from_below(now: Callable[[], float], frames: int = _FRAMES) -> float:
    """Call the replacement of a function of `time`, from so many stack frames further down.

    freezegun shows the real time to callers within five frames of `threading`, which a thread's first functions are:
    without this, one session's thread would see the frozen time and another the real one.
    """
    return _from_below(now, frames - 1) if frames else now()


_MOST_STEPS = 64
"""After so many steps a wait has reached its limit, and a float would overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """The waits before new attempts to reach an unavailable site: growing, and with a random part, so that clients do not retry together."""

    first_ms: int = 100
    most_ms: int = 30_000
    factor: float = 2.0
    jitter: float = 0.25
    """The part of each wait that is random, 0 to 1; it shortens the wait."""


class Delays:
    """The waits in one series of failures; a success starts a new series."""

    def __init__(self, settings: BackOff, chance: Callable[[], float]) -> None:
        """`chance` returns a number from 0 up to 1, such as `random.random`."""
        self._settings = settings
        self._chance = chance
        self.failures = 0

    def next_ms(self) -> float:
        """Return the next wait in milliseconds, and count one more failure."""
        settings = self._settings
        full = min(settings.first_ms * settings.factor ** min(self.failures, _MOST_STEPS), settings.most_ms)
        self.failures += 1
        return full * (1 - settings.jitter * self._chance())

    def reset(self) -> None:
        """Start a new series, after a success."""
        self.failures = 0
