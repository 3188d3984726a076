"""How long to wait before the next attempt. Pure: chance comes in."""

from __future__ import annotations

from collections.abc import Callable

from pyjms.forwarding.settings import BackOff

__all__ = ["Delays"]


class Delays:
    """The waits of one series of failures; a success begins anew."""

    def __init__(self, settings: BackOff, chance: Callable[[], float]) -> None:
        """`chance` returns a number from 0 up to 1, such as `random.random`."""
        self._settings = settings
        self._chance = chance
        self.failures = 0

    def next_ms(self) -> float:
        """Return how long to wait now, in milliseconds, and count one failure more."""
        settings = self._settings
        # The exponent is bounded, as a float is.
        full = min(settings.first_ms * settings.factor ** min(self.failures, 64), settings.most_ms)
        self.failures += 1
        return full * (1 - settings.jitter * self._chance())

    def reset(self) -> None:
        """Forget the failures: it worked."""
        self.failures = 0
