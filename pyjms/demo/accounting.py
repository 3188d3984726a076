"""Does it add up? What arrived at a destination is held against what was to arrive, by ids and by sums. Pure.

Sums are made of fractions, so they are exact and do not depend on the order of arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Entry", "Verdict", "judge", "total"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One record as it was sent, or as it arrived."""

    record_id: int
    amount: int | float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one destination had. The tuples hold record ids, in order."""

    destination: str
    expected: int
    found: int
    expected_total: Fraction
    found_total: Fraction
    lost: tuple[int, ...]
    doubled: tuple[int, ...]
    unexpected: tuple[int, ...]
    altered: tuple[int, ...]

    @property
    def adds_up(self) -> bool:
        """Whether each expected record was there, once, unaltered, and nothing else; and so the sum."""
        faults = self.lost or self.doubled or self.unexpected or self.altered
        return not faults and self.expected == self.found and self.expected_total == self.found_total


def judge(destination: str, expected: Iterable[Entry], found: Iterable[Entry]) -> Verdict:
    """Hold what was found at a destination against what was expected there; `expected` names each record once."""
    wanted = {entry.record_id: entry for entry in expected}
    arrived = list(found)
    times = Counter(entry.record_id for entry in arrived)
    altered = {entry.record_id for entry in arrived if wanted.get(entry.record_id, entry) != entry}
    return Verdict(
        destination=destination,
        expected=len(wanted),
        found=len(arrived),
        expected_total=total(wanted.values()),
        found_total=total(arrived),
        lost=tuple(sorted(wanted.keys() - times.keys())),
        doubled=tuple(sorted(record_id for record_id, count in times.items() if count > 1)),
        unexpected=tuple(sorted(times.keys() - wanted.keys())),
        altered=tuple(sorted(altered)),
    )


def total(entries: Iterable[Entry]) -> Fraction:
    """Return the exact sum of the amounts."""
    return sum((Fraction(entry.amount) for entry in entries), Fraction(0))
