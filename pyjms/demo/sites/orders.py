"""From records to orders, and what must become of each: decided from the file alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyjms.demo.accounting import Entry
from pyjms.demo.plan import Plan
from pyjms.demo.records import Record

__all__ = ["Order", "make_orders"]

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
