"""How long a consumer is left alone whose message could not be had, and what the log hears of that: the provider's store is away, and the message
is there again at once.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyjms.spi.back_off import BackOff, Delays

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock

__all__ = ["Rest"]

_log = logging.getLogger("pyjms.runtime")

_BACK_OFF: Final = BackOff(first_ms=100, most_ms=1000, jitter=0.0)
_SILENCE_MS: Final = 60_000  # so long the same is not said again
_DIFFERENT: Final = 8  # so many problems are remembered


class Rest:
    """The failures of one consumer, one after the other, and the pauses after them."""

    __slots__ = ("_clock", "_delays", "_said", "until_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._delays = Delays(_BACK_OFF, float)
        self.until_ms: float | None = None
        """When the pause ends, by the monotonic clock; None: there is none."""
        self._said: dict[str, float] = {}
        """What the log has heard, and when it may hear it again."""

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

    def tell(self, problem: str, error: Exception) -> None:
        """Warn of a failure, unless the log has heard of the same one in the last minute. Raises nothing, whatever the application's logging does."""
        text = f"{problem}: {error}"
        now_ms = self._clock.monotonic_ms()
        if self._said.get(text, now_ms) > now_ms:
            return
        if len(self._said) >= _DIFFERENT:
            self._said = {}
        self._said[text] = now_ms + _SILENCE_MS
        with suppress(Exception):
            _log.warning("%s", text)

    def end(self) -> None:
        """Hear that it worked; the log hears it, too, if it has heard of failures. Raises nothing."""
        if self.until_ms is not None:
            self._delays.reset()
            self.until_ms = None
        if self._said:
            self._said = {}
            with suppress(Exception):
                _log.warning("a consumer that had failed gets its messages again")
