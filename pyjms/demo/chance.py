"""When a worker fails: decided by the seed, the stage, the record and the attempt, and so independent of threads.

The same seed gives the same failures in every run, whichever worker happens to get which message. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

__all__ = ["Chance", "Fate"]

_CRASHES = 0.2
"""The part of the failures in which the worker's connection goes, too."""


class Fate(Enum):
    """How the work on one unit ends."""

    DONE = "done"
    ROLLED_BACK = "rolled back"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """`rate` is the probability that an attempt fails, 0 or more and less than 1."""

    seed: int
    rate: float

    def fate(self, stage: str, record_id: int, attempt: int) -> Fate:
        """Return how this attempt at the record ends."""
        drawn = Random(f"{self.seed}/{stage}/{record_id}/{attempt}").random()  # noqa: S311  no secret is made of it
        if drawn >= self.rate:
            return Fate.DONE
        return Fate.CRASHED if drawn < self.rate * _CRASHES else Fate.ROLLED_BACK
