"""What became of the orders, held against what had to become of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pyjms.demo.accounting import Entry, Verdict, judge, total
from pyjms.demo.plan import Plan, Record
from pyjms.demo.sites.chain import WORKS, Work
from pyjms.flows import Status

# From records to orders, and what must become of each: decided from the file alone. Pure.

_RECORDS_MAX = 50
_ORDERS_WANTED = 20
"""A small file makes so many orders of few records, rather than one of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Some records that stay together. One with a record that lacks a value cannot be delivered, and is taken back."""

    number: int
    records: tuple[Record, ...]
    missing: tuple[int, ...]
    """The ids of the records that lack a value."""

    @property
    def instance(self) -> str:
        """The id of its instance: the same one each time, so that it is begun once."""
        return f"order-{self.number}"

    def data(self, plan: Plan) -> dict[str, Any]:
        """Return what the companies are told of it, as JSON has it."""
        return {
            "order": self.number,
            "records": [[record.id, plan.amount_of(record)] for record in self.records],
            "missing": list(self.missing),
        }

    def entries(self, plan: Plan) -> Iterator[Entry]:
        """Yield what a company must write that works on it."""
        for record in self.records:
            yield Entry(record.id, plan.amount_of(record), str(self.number))


def make_orders(plan: Plan) -> tuple[Order, ...]:
    """Return the orders, in the order of the file."""
    records = plan.table.records
    size = min(_RECORDS_MAX, max(1, len(records) // _ORDERS_WANTED))
    parts = [records[first : first + size] for first in range(0, len(records), size)]
    return tuple(
        Order(
            number=number,
            records=part,
            missing=tuple(record.id for record in part if not plan.is_complete(record)),
        )
        for number, part in enumerate(parts, 1)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The orders that had to end in one way."""

    status: Status
    orders: int
    found: int
    records: int
    total: Fraction
    wrong: tuple[str, ...]
    """Those that ended otherwise, or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All verdicts. `left_over` has the number of messages in each queue that should be empty and is not."""

    works: tuple[tuple[Work, Verdict], ...]
    fates: tuple[Fate, ...]
    left_over: Mapping[str, int]

    @property
    def adds_up(self) -> bool:
        """Whether all is as it must be."""
        is_right = all(verdict.adds_up for _, verdict in self.works) and not any(fate.wrong for fate in self.fates)
        return is_right and not self.left_over


def judge_orders(
    plan: Plan,
    orders: Sequence[Order],
    statuses: Mapping[str, Status],
    written: Mapping[str, Sequence[Entry]],
    left_over: Mapping[str, int],
) -> Outcome:
    """Judge. statuses: by instance. written: by kind of work."""
    works = []
    for work in WORKS:
        comes_by = [
            order for order in orders if (work.done_for_incomplete if order.missing else work.done_for_complete)
        ]
        expected = [entry for order in comes_by for entry in order.entries(plan)]
        works.append((work, judge(work.name, expected, written.get(work.name, ()))))
    fates = (
        _fate(plan, Status.COMPLETED, [order for order in orders if not order.missing], statuses),
        _fate(plan, Status.COMPENSATED, [order for order in orders if order.missing], statuses),
    )
    left = {queue: count for queue, count in left_over.items() if count}
    return Outcome(works=tuple(works), fates=fates, left_over=left)


def _fate(plan: Plan, status: Status, orders: Sequence[Order], statuses: Mapping[str, Status]) -> Fate:
    wrong = tuple(order.instance for order in orders if statuses.get(order.instance) is not status)
    return Fate(
        status=status,
        orders=len(orders),
        found=len(orders) - len(wrong),
        records=sum(len(order.records) for order in orders),
        total=total(entry for order in orders for entry in order.entries(plan)),
        wrong=wrong,
    )
