"""What a run came to: every destination held against the plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyjms.demo.accounting import Entry, Verdict, judge
from pyjms.demo.plan import Lane, Plan

__all__ = ["Found", "Outcome", "judge_all"]


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
