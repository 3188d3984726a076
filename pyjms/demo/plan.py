"""What is to happen with the records, decided before a message is sent. Pure.

A record is routed by the values of some columns: the most frequent values get a lane each, everything else goes to one
more. Each lane is a message selector; the selectors are disjoint and together select every message. An amount, the
value of one column, is added up wherever records arrive.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import TypeAlias, TypeGuard

from pyjms.demo.records import InputError, Record, Table, Value
from pyjms.spi.selector import quote
from pyjms.spi.selector.identifiers import is_reserved
from pyjms.spi.words import counted

__all__ = ["ELSE", "Kind", "Lane", "Plan", "make_plan"]

Key: TypeAlias = tuple[str | None, ...]

ELSE = "everything else"
_OWN_PROPERTIES = ("record_id", "amount", "complete", "label")
"""Properties that the demo sets; a column of such a name gets another property name."""
_DISTINCT_MAX = 50
"""A column with more values than this is not proposed for routing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One way out: the messages that `selector` selects. `key` is None for everything else."""

    name: str
    key: Key | None
    selector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the desk knows about the records of one key."""

    label: str
    records: int
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answers for every record of `table`. Columns are given as positions."""

    table: Table
    route: tuple[int, ...]
    amount: int | None
    properties: tuple[str, ...]
    lanes: tuple[Lane, ...]
    kinds: Mapping[Key, Kind]

    def key_of(self, record: Record) -> Key:
        """Return the values that route the record, as text."""
        return tuple(_text(record.values[column]) for column in self.route)

    def lane_of(self, record: Record) -> Lane:
        """Return the lane in which the record must arrive; found without selectors."""
        key = self.key_of(record)
        return next((lane for lane in self.lanes if lane.key == key), self.lanes[-1])

    def amount_of(self, record: Record) -> int | float:
        """Return the record's amount: the value of the column, 0 where it is empty; 1 if there is no such column."""
        if self.amount is None:
            return 1
        value = record.values[self.amount]
        return value if _is_number(value) else 0

    def is_complete(self, record: Record) -> bool:
        """Tell whether every field has a value."""
        return None not in record.values

    def label_of(self, record: Record) -> str:
        """Return what the desk must answer for the record."""
        return self.kinds[self.key_of(record)].label

    def properties_of(self, record: Record) -> dict[str, Value]:
        """Return the properties of the record's message. Those that route are text, so that they compare alike."""
        properties = dict(zip(self.properties, record.values, strict=True))
        for column in self.route:
            properties[self.properties[column]] = _text(record.values[column])
        return {name: value for name, value in properties.items() if value is not None}

    @property
    def route_names(self) -> str:
        """The names of the columns that route."""
        return ", ".join(self.table.columns[column] for column in self.route)

    @property
    def amount_name(self) -> str:
        """The name of the column that is added up."""
        return "records" if self.amount is None else self.table.columns[self.amount]

    @property
    def title(self) -> str:
        """What is to happen, in a line."""
        records = f"{self.table.name}: {counted(len(self.table.records), 'record')}"
        return f"{records}, routed by {self.route_names}, adding up {self.amount_name}"

    @property
    def fingerprint(self) -> str:
        """The same for plans with the same answers for the same records, and for no others."""
        table, lanes = self.table, [lane.selector for lane in self.lanes]
        records = [record.values for record in table.records]
        labels = sorted((key_name(key), kind.label) for key, kind in self.kinds.items())
        text = repr((table.columns, records, self.route, self.amount, self.properties, lanes, labels))
        return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def make_plan(
    table: Table,
    *,
    route: Sequence[str] = (),
    amount: str | None = None,
    lanes: int = 4,
    labels: Mapping[str, str] | None = None,
) -> Plan:
    """Decide what the caller left open: the columns that route, and the one that is added up.

    `lanes` is the number of values that get a lane of their own. `labels` has the names behind the values of the first
    column that routes.

    Raises:
        InputError: There is no such column, or one to be added up holds text.
    """
    routing = tuple(_position(table, name) for name in dict.fromkeys(route)) or (_proposed_route(table),)
    adding = _amount_column(table, amount, routing)
    properties = _property_names(table.columns)
    keys = Counter(tuple(_text(record.values[column]) for column in routing) for record in table.records)
    ranked = sorted(keys, key=lambda key: (-keys[key], key_name(key)))[:lanes]
    names = [properties[column] for column in routing]
    return Plan(
        table=table,
        route=routing,
        amount=adding,
        properties=properties,
        lanes=(*(_lane(names, key) for key in ranked), _lane_for_the_rest(names, ranked)),
        kinds=_kinds(table, routing, adding, labels or {}),
    )


def key_name(key: Key) -> str:
    """Return the key as it is shown."""
    return " / ".join("(empty)" if value is None else value for value in key)


def _kinds(table: Table, route: tuple[int, ...], amount: int | None, labels: Mapping[str, str]) -> dict[Key, Kind]:
    records: Counter[Key] = Counter()
    totals: dict[Key, Fraction] = {}
    for record in table.records:
        key = tuple(_text(record.values[column]) for column in route)
        value = 1 if amount is None else record.values[amount]
        records[key] += 1
        totals[key] = totals.get(key, Fraction(0)) + Fraction(value if _is_number(value) else 0)
    return {
        key: Kind(label=labels.get(key[0] or "", key_name(key)), records=records[key], total=float(totals[key]))
        for key in records
    }


def _position(table: Table, name: str) -> int:
    if name not in table.columns:
        raise InputError(f"{table.name} has no column {name!r}; it has: {', '.join(table.columns)}.")
    return table.columns.index(name)


def _proposed_route(table: Table) -> int:
    """Return the first column in which a few values come again and again; text before numbers, full before sparse."""

    def rank(column: int) -> tuple[bool, bool, int, int]:
        values = [record.values[column] for record in table.records]
        distinct = len(set(values))
        useful = 2 <= distinct <= _DISTINCT_MAX and distinct < len(values)
        return not useful, all(value is None or _is_number(value) for value in values), values.count(None), column

    return min(range(len(table.columns)), key=rank)


def _amount_column(table: Table, name: str | None, route: tuple[int, ...]) -> int | None:
    """Return the named column, or the last one that holds numbers and does not route, or None."""
    if name is None:
        numeric = (column for column in reversed(range(len(table.columns))) if column not in route)
        return next((column for column in numeric if _holds_numbers(table, column)), None)
    column = _position(table, name)
    for record in table.records:
        value = record.values[column]
        if value is not None and not _is_number(value):
            raise InputError(
                f"{table.name}, record {record.id}: {name} is {value!r}, which cannot be added up. "
                "Choose a column of numbers with --amount, or correct the record."
            )
    return column


def _holds_numbers(table: Table, column: int) -> bool:
    values = [record.values[column] for record in table.records]
    return all(value is None or _is_number(value) for value in values) and any(map(_is_number, values))


def _is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Value) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def _property_names(columns: Iterable[str]) -> tuple[str, ...]:
    """Return a legal, distinct property name for each column: what selectors may call it (JMS 1.1 §3.8.1.1)."""
    names: list[str] = []
    for column in columns:
        name = re.sub(r"[^A-Za-z0-9_]", "_", column)
        if not re.match(r"[A-Za-z]", name) or name.upper().startswith("JMS"):
            name = "c_" + name
        while name in names or name in _OWN_PROPERTIES or is_reserved(name):
            name += "_"
        names.append(name)
    return tuple(names)


def _lane(names: Sequence[str], key: Key) -> Lane:
    tests = (
        f"{name} IS NULL" if value is None else f"{name} = {quote(value)}"
        for name, value in zip(names, key, strict=True)
    )
    return Lane(name=key_name(key), key=key, selector=" AND ".join(tests))


def _lane_for_the_rest(names: Sequence[str], keys: Sequence[Key]) -> Lane:
    """Select what no other lane selects.

    ``NOT (carrier = 'UA')`` would not do: without a value it is unknown, and what is unknown is not selected
    (JMS 1.1 §3.8.1.2). So a value that is missing is always asked for by name.
    """
    if not keys:
        return Lane(name=ELSE, key=None, selector="record_id > 0")
    if len(names) == 1:
        return Lane(name=ELSE, key=None, selector=_none_of(names[0], [key[0] for key in keys]))
    others = (
        f"({' OR '.join(_none_of(name, [value]) for name, value in zip(names, key, strict=True))})" for key in keys
    )
    return Lane(name=ELSE, key=None, selector=" AND ".join(others))


def _none_of(name: str, values: Sequence[str | None]) -> str:
    """Return the condition that a property has none of the values, of which None is a missing one."""
    literals = ", ".join(quote(value) for value in values if value is not None)
    if None not in values:
        return f"{name} IS NULL OR {name} NOT IN ({literals})"
    return f"{name} NOT IN ({literals})" if literals else f"{name} IS NOT NULL"
