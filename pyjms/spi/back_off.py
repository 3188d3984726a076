"""How long to wait before the next attempt, for whoever makes connections anew. Pure: chance comes in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["BackOff", "Delays"]

_MOST_STEPS = 64
"""A wait has long reached its limit then, and a float has limits, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """How long to wait for a site that is away: growing, and never the same for all who wait."""

    first_ms: int = 100
    most_ms: int = 30_000
    factor: float = 2.0
    jitter: float = 0.25
    """The part of each wait that chance takes away, 0 to 1."""


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
        full = min(settings.first_ms * settings.factor ** min(self.failures, _MOST_STEPS), settings.most_ms)
        self.failures += 1
        return full * (1 - settings.jitter * self._chance())

    def reset(self) -> None:
        """Forget the failures: it worked."""
        self.failures = 0
