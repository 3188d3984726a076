"""By when one connection must be done with what it is at, and the alarm that tells when one of these times has come."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyjms_provider.transport.timers import Alarm

if TYPE_CHECKING:
    from pyjms_provider.transport.timers import Alarmed, Timers

__all__ = ["Deadlines"]


class Deadlines:
    """Those of one connection; `math.inf`: there is none. On the loop."""

    __slots__ = ("_alarm", "_now_ms", "_timers", "armed_ms", "leaves_ms", "over_ms", "stalls_ms")

    def __init__(self, timers: Timers, now_ms: Callable[[], float], who: Alarmed) -> None:
        self._timers = timers
        self._now_ms = now_ms
        self._alarm = Alarm(who)
        self.armed_ms = math.inf
        """When the alarm goes off."""
        self.over_ms = math.inf
        """When its handshake, or its end, must be over."""
        self.stalls_ms = math.inf
        """When the peer must have taken any of what waits for it."""
        self.leaves_ms = math.inf
        """When jobs end that wait for other clients, as the peer sends nothing more."""

    def limit(self, timeout_ms: int) -> None:
        """Have it over after so long, unless it must be earlier."""
        self.over_ms = min(self.over_ms, self._now_ms() + timeout_ms)
        self.arm(self.over_ms)

    def await_taking(self, timeout_ms: int) -> None:
        """Give the peer so long to take any of what waits for it."""
        self.stalls_ms = self._now_ms() + timeout_ms
        self.arm(self.stalls_ms)

    def await_leaving(self, timeout_ms: int) -> None:
        """Give jobs so long that wait for other clients, however many come one after the other."""
        if self.leaves_ms == math.inf:
            self.leaves_ms = self._now_ms() + timeout_ms
            self.arm(self.leaves_ms)

    def arm(self, at_ms: float) -> None:
        """Set the alarm, unless it goes off by then."""
        if at_ms < self.armed_ms:
            self.armed_ms = self._timers.arm(at_ms, self._alarm, self.armed_ms)

    def arm_next(self) -> None:
        """Set the alarm for the first of them."""
        self.arm(min(self.over_ms, self.stalls_ms, self.leaves_ms))

    def went_off(self, due_ms: float) -> bool:
        """Note that the alarm has gone off; return whether it is the one that was set last.

        An earlier one was armed after any other; to arm again for each that is left would leave ever more of them.
        """
        is_last = due_ms == self.armed_ms
        if is_last:
            self.armed_ms = math.inf
        return is_last

    def end(self) -> None:
        """Have nobody called any more."""
        self._alarm.who = None
