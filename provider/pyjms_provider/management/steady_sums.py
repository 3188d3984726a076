"""Sums of counters over those queues that have no series of their own: such a sum is a counter itself, and must not fall.

Which queues these are changes with each look, and queues are deleted. A sum that fell would be taken by Prometheus for one that began
anew, so that all that was ever counted came once more. So what each queue has counted since the last look is added up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock

__all__ = ["SteadySums"]

_Key = tuple[tuple[str, ...], str]


@dataclass(slots=True)
class _Sum:
    """One sum, and what each queue had counted at the last look."""

    look: int
    counts: Mapping[str, float]
    value: float


class SteadySums:
    """The sums of all virtual hosts, by their names and that of the statistic. Safe to use from any thread; the lock is taken alone."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._looks = 0
        self._sums: dict[_Key, _Sum] = {}

    def begin(self, hosts: Iterable[tuple[str, ...]]) -> int:
        """Return the number of a look at these virtual hosts: to be called before their queues are looked at. Others are forgotten."""
        there = set(hosts)
        with self._lock:
            self._looks += 1
            self._sums = {key: each for key, each in self._sums.items() if key[0] in there}
            return self._looks

    def sum_of(self, key: _Key, look: int, counts: Mapping[str, float], own: Collection[str]) -> float:
        """Return the sum over the queues of `counts`, save those in `own`. `look`: as `begin` returned it."""
        without = set(own)
        with self._lock:
            before = self._sums.get(key)
            if before is None:
                before = self._sums[key] = _Sum(0, {}, 0.0)
            if look > before.look:  # else somebody who began later was quicker
                known = before.counts
                for name, count in counts.items():
                    if name not in without:
                        last = known.get(name, 0)
                        before.value += count - last if count >= last else count  # one that fell has begun anew
                before.look, before.counts = look, counts
            return before.value
