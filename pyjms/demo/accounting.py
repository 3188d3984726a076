"""Does it add up? What arrived at a destination is held against what was to arrive, by ids and by sums. Pure.

Sums are made of fractions, so they are exact and do not depend on the order of arrival.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pyjms.demo.plan import Lane, Plan


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


# What a run came to: every destination held against the plan. Pure.


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found, in order of arrival. `lanes` is in the order of the plan's lanes."""

    lanes: Sequence[Sequence[Entry]]
    ledger: Sequence[Entry]
    board: Sequence[Entry]
    attention: Sequence[Entry]
    left_over: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The verdicts. `left_over` has the number of messages in each work queue that should be empty and is not."""

    lanes: tuple[tuple[Lane, Verdict], ...]
    all_lanes: Verdict
    ledger: Verdict
    board: Verdict
    attention: Verdict
    left_over: Mapping[str, int]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """All of them."""
        return (*(verdict for _, verdict in self.lanes), self.all_lanes, self.ledger, self.board, self.attention)

    @property
    def nothing_lost(self) -> bool:
        """Whether every record is where it must be, and no message stayed on the way."""
        return not self.left_over and not any(verdict.lost for verdict in self.verdicts)

    @property
    def nothing_twice(self) -> bool:
        """Whether no record is anywhere more than once."""
        return not any(verdict.doubled for verdict in self.verdicts)

    @property
    def adds_up(self) -> bool:
        """Whether all is as it must be: ids, places, labels and sums."""
        return not self.left_over and all(verdict.adds_up for verdict in self.verdicts)


def judge_all(plan: Plan, found: Found) -> Outcome:
    """Hold what was found against what the plan says, which knows nothing of messages and selectors."""
    records = plan.table.records
    sent = [Entry(record.id, plan.amount_of(record), plan.label_of(record)) for record in records]
    placed = list(zip((plan.lane_of(record) for record in records), sent, strict=True))
    incomplete = [entry for entry, record in zip(sent, records, strict=True) if not plan.is_complete(record)]
    lanes = tuple(
        (lane, judge(lane.name, [entry for place, entry in placed if place is lane], entries))
        for lane, entries in zip(plan.lanes, found.lanes, strict=True)
    )
    return Outcome(
        lanes=lanes,
        all_lanes=judge("all lanes", sent, [entry for entries in found.lanes for entry in entries]),
        ledger=judge("ledger", sent, found.ledger),
        board=judge("board", sent, found.board),
        attention=judge("attention", incomplete, found.attention),
        left_over={queue: count for queue, count in found.left_over.items() if count},
    )
