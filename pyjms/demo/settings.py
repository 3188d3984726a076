"""The user's choices for a run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random
from urllib.parse import quote

from pyjms.demo.plan import InputError

# When a worker fails: decided by the seed, the stage, the record and the attempt, and so independent of threads.
#
# The same seed gives the same failures in every run, whichever worker happens to get which message. Pure.

_CRASHES = 0.2
"""The share of the failures in which the worker's connection is lost, too."""


class Fate(Enum):
    """The end of the work on one unit."""

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
        # A generator for each question: a shared one would give answers in the order in which threads ask.
        drawn = Random(f"{self.seed}/{stage}/{record_id}/{attempt}").random()  # noqa: S311  no secret is made of it
        if drawn >= self.rate:
            return Fate.DONE
        return Fate.CRASHED if drawn < self.rate * _CRASHES else Fate.ROLLED_BACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The choices. `workers` counts those of one stage."""

    url: str
    workers: int
    chance: Chance
    store: str | None = None
    """The embedded broker's folder, so that a killed run can be resumed; None: messages are not stored."""
    is_clustered: bool = False
    """Whether the broker is a cluster, which keeps a run whose connections are lost."""

    def __post_init__(self) -> None:
        """Raise `InputError` if the broker is not the embedded one, or its URL names a store, too."""
        if self.store is None:
            return
        base, _, options = self.url.partition("?")
        if not base.startswith("vm:"):
            raise InputError(
                f"--store is for the embedded broker, vm://NAME; {base} keeps its messages where it chooses."
            )
        if "store=" in options:
            raise InputError("The URL of the broker names a store already; leave --store out, or store= in the URL.")

    @property
    def is_kept(self) -> bool:
        """Whether a run outlives its process, or its connections."""
        return self.store is not None or self.is_clustered

    @property
    def broker(self) -> str:
        """The URL to connect to."""
        if self.store is None:
            return self.url
        return f"{self.url}{'&' if '?' in self.url else '?'}store={quote(self.store, safe='')}"
