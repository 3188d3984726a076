"""One timeout carried through several waits."""

from __future__ import annotations

from pyjms.spi.clock import Clock

__all__ = ["Deadline"]


class Deadline:
    """The moment when a call gives up, on the injected clock's monotonic scale."""

    __slots__ = ("until_ms",)

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        """`timeout_ms` is 0 for never (JMS 1.1 §4.5.1)."""
        self.until_ms = clock.monotonic_ms() + timeout_ms if timeout_ms else None
