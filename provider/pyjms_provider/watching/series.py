"""The last hour in a fixed amount of memory: a few numbers of a bounded number of things, once each step.

Numbers lie in arrays that are written round and round; what is not known is NaN there, and None to who reads it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import isnan, nan
from threading import Lock
from typing import Final

__all__ = ["POINTS", "STEP_MS", "History", "Past"]

STEP_MS: Final = 10_000
POINTS: Final = 360
"""An hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What was noted of one thing, the oldest first."""

    times_ms: Sequence[int]
    """In milliseconds since 1970 UTC."""
    columns: Mapping[str, Sequence[float | None]]
    """By their names, as many values each as there are times; None: nobody knows."""


class _Series:
    """The arrays of one thing."""

    __slots__ = ("columns",)

    def __init__(self, width: int) -> None:
        self.columns = tuple(array("d", [nan]) * POINTS for _ in range(width))

    def put(self, at: int, values: Iterable[float]) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column[at] = value


class History:
    """Of several things, by their names. One thread notes, any thread reads."""

    def __init__(self, columns: Sequence[str]) -> None:
        """`columns`: what is noted of each thing."""
        self._names = tuple(columns)
        self._lock = Lock()
        self._times = array("q", [0]) * POINTS
        self._step = -1
        self._series: dict[str, _Series] = {}

    @property
    def names(self) -> frozenset[str]:
        """The things that have a past here."""
        with self._lock:
            return frozenset(self._series)

    def note(self, now_ms: int, values: Mapping[str, Sequence[float]]) -> None:
        """Note values of all things that are to have a past from now on: a number for each column, NaN for what is not known.

        Things that are not named have none any more.
        """
        with self._lock:
            if self._step >= 0 and self._times[self._step % POINTS] >= now_ms:
                self._forget_from(now_ms)
            self._step += 1
            at = self._step % POINTS
            self._times[at] = now_ms
            for name in self._series.keys() - values.keys():
                del self._series[name]
            for name, row in values.items():
                series = self._series.get(name)
                if series is None:
                    series = self._series[name] = _Series(len(self._names))
                series.put(at, row)

    def _forget_from(self, now_ms: int) -> None:
        """Forget what has times that are still to come, as the clock was put back. The lock is held."""
        for at in (at for at in range(POINTS) if self._times[at] >= now_ms):
            for series in self._series.values():
                series.put(at, repeat(nan, len(self._names)))

    def read(self, name: str, since_ms: int = 0) -> Past | None:
        """Return what was noted after `since_ms`, in milliseconds since 1970 UTC; None: nothing is noted of that thing."""
        with self._lock:
            series = self._series.get(name)
            if series is None:
                return None
            order = [step % POINTS for step in range(max(0, self._step + 1 - POINTS), self._step + 1)]
            order = [at for at in order if self._times[at] > since_ms]
            known = [at for at in order if not all(isnan(column[at]) for column in series.columns)]
            return Past(
                times_ms=[self._times[at] for at in known],
                columns={
                    column: [None if isnan(values[at]) else values[at] for at in known]
                    for column, values in zip(self._names, series.columns, strict=True)
                },
            )
