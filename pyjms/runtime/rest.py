"""How long a consumer is left alone whose message could not be had: the provider's store is away, and the message is there again at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms.spi.back_off import BackOff, Delays

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock

__all__ = ["Rest"]

_BACK_OFF: Final = BackOff(first_ms=100, most_ms=1000, jitter=0.0)


class Rest:
    """The failures of one consumer, one after the other, and the pauses after them."""

    __slots__ = ("_clock", "_delays", "until_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._delays = Delays(_BACK_OFF, float)
        self.until_ms: float | None = None
        """When the pause ends, by the monotonic clock; None: there is none."""

    @property
    def lasts(self) -> bool:
        """Whether there is a pause now."""
        return self.until_ms is not None and self._clock.monotonic_ms() < self.until_ms

    def earlier(self, than_ms: float | None) -> float | None:
        """Return when the pause ends, or the other time if that comes first."""
        return than_ms if self.until_ms is None or (than_ms is not None and than_ms < self.until_ms) else self.until_ms

    def begin(self) -> None:
        """Hear of a failure: the pause is twice as long as the one before, up to a second."""
        self.until_ms = self._clock.monotonic_ms() + self._delays.next_ms()

    def end(self) -> None:
        """Hear that it worked."""
        if self.until_ms is not None:
            self._delays.reset()
            self.until_ms = None
