"""The expected handling of the records, decided before a message is sent. Pure.

A record is routed by the values of some columns: the most frequent values get a lane each, all others share one more.
Each lane is a message selector; the selectors are disjoint and together select every message. An amount, the value of
one column, is summed at each destination.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias, TypeGuard

from pyjms.spi.selector import quote
from pyjms.spi.selector.lexical import is_reserved
from pyjms.spi.words import counted

# Reading the file: a CSV with a header row becomes records of typed values.
#
# The type is found value by value: empty is None; true and false are bools; whole numbers that fit 64 bits are ints;
# other decimal numbers are floats; all else is text. A number with a leading zero or plus sign stays text, because
# postcodes and telephone numbers are written so.

Value: TypeAlias = bool | int | float | str | None

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
_DELIMITERS = ",;\t|"
_GZIP = b"\x1f\x8b"


class InputError(Exception):
    """The file cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One row. `id` is its number in the file, from 1; `values` are in the order of the table's columns."""

    id: int
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The content of the file."""

    name: str
    columns: tuple[str, ...]
    records: tuple[Record, ...]


def typed(text: str) -> Value:
    """Return the typed value of `text`."""
    text = text.strip()
    if not text:
        return None
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if _INTEGER.fullmatch(text):
        # A number of 64 bits has 19 digits and a sign; Python refuses to read texts of more than 4,300 digits.
        number = int(text) if len(text) < 21 else 2**64
        return number if -(2**63) <= number < 2**63 else text
    if _DECIMAL.fullmatch(text):
        decimal = float(text)
        # 1e999 is read as infinity, which no sum survives.
        return decimal if math.isfinite(decimal) else text
    return text


def read_table(path: Path, limit: int | None = None) -> Table:
    """Read the first `limit` records of a CSV file, or all; it may be compressed with gzip.

    Raises:
        InputError: There is no such file, or it is not a CSV file with a header and records.
    """
    # newline="": the csv module finds the ends of lines itself, also within quotation marks.
    text = io.StringIO(_decompressed(path), newline="")
    rows = csv.reader(text, delimiter=_delimiter(text), strict=True)
    try:
        columns = _columns(path, next(rows, []))
        records = tuple(_records(path, rows, len(columns), limit))
    except csv.Error as error:
        raise InputError(f"{path}, line {rows.line_num}: {error}. Is it a CSV file?") from error
    if not records:
        raise InputError(f"{path} has a header and no records: there is nothing to send.")
    return Table(name=path.name, columns=columns, records=records)


def _decompressed(path: Path) -> str:
    try:
        data = path.read_bytes()
        # By the first bytes and not by the name, which may be anything.
        if data.startswith(_GZIP):
            data = gzip.decompress(data)
        # Spreadsheets write a byte order mark, which would become a part of the first column's name.
        text = data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"There is no file {path}.") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder; name a CSV file in it.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}). Save it as CSV in UTF-8.") from error
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}.") from error
    if "\0" in text:
        raise InputError(f"{path} holds NUL characters: it is not a CSV file. Save it as CSV in UTF-8.")
    return text


def _delimiter(text: io.StringIO) -> str:
    """Return the most frequent delimiter in the first line."""
    header = text.readline()
    text.seek(0)
    return max(_DELIMITERS, key=header.count)


def _columns(path: Path, header: list[str]) -> tuple[str, ...]:
    columns = tuple(name.strip() or f"column_{number}" for number, name in enumerate(header, 1))
    if not columns:
        raise InputError(f"{path} is empty: it needs a header row with the names of the columns, then records.")
    if doubled := sorted({name for name in columns if columns.count(name) > 1}):
        raise InputError(f"{path}: the header has {', '.join(doubled)} more than once; give each column its own name.")
    return columns


def _records(path: Path, rows: Iterator[list[str]], width: int, limit: int | None) -> Iterator[Record]:
    number = 0
    for row in rows:
        # csv returns an empty list for an empty line.
        if not row:
            continue
        if limit is not None and number >= limit:
            return
        number += 1
        if len(row) != width:
            raise InputError(
                f"{path}, record {number}: {len(row)} fields where the header has {width} columns. "
                "A field that holds the delimiter needs quotation marks around it."
            )
        yield Record(id=number, values=tuple(typed(field) for field in row))


Key: TypeAlias = tuple[str | None, ...]

ELSE = "everything else"
_OWN_PROPERTIES = ("record_id", "amount", "complete", "label")
"""Properties that the demo sets; a column of such a name gets another property name."""
_DISTINCT_MAX = 50
"""A column with more values than this is not proposed for routing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One exit: the messages that `selector` selects. `key` is None for the lane of all others."""

    name: str
    key: Key | None
    selector: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The desk's data about the records of one key."""

    label: str
    records: int
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The expected results for every record of `table`. Columns are given as positions."""

    table: Table
    route: tuple[int, ...]
    amount: int | None
    properties: tuple[str, ...]
    lanes: tuple[Lane, ...]
    kinds: Mapping[Key, Kind]

    def key_of(self, record: Record) -> Key:
        """Return the record's routing values, as text."""
        return tuple(_text(record.values[column]) for column in self.route)

    def lane_of(self, record: Record) -> Lane:
        """Return the lane in which the record must arrive; computed without selectors."""
        key = self.key_of(record)
        # Without selectors, on purpose: the broker's selectors are checked against this expectation.
        return next((lane for lane in self.lanes if lane.key == key), self.lanes[-1])

    def amount_of(self, record: Record) -> int | float:
        """Return the record's amount: the value of the column, 0 where it is empty; 1 if there is no such column."""
        if self.amount is None:
            return 1
        value = record.values[self.amount]
        return value if _is_number(value) else 0

    def is_complete(self, record: Record) -> bool:
        """Say whether every field has a value."""
        return None not in record.values

    def label_of(self, record: Record) -> str:
        """Return the label that the desk must answer for the record."""
        return self.kinds[self.key_of(record)].label

    def properties_of(self, record: Record) -> dict[str, Value]:
        """Return the properties of the record's message. Routing values are text, so that they compare alike."""
        properties = dict(zip(self.properties, record.values, strict=True))
        for column in self.route:
            # As text, so that one selector fits: a text and a number are never equal in a selector (JMS 1.1 §3.8.1.1).
            properties[self.properties[column]] = _text(record.values[column])
        # A missing value is a missing property, which a selector finds by IS NULL.
        return {name: value for name, value in properties.items() if value is not None}

    @property
    def route_names(self) -> str:
        """The names of the routing columns."""
        return ", ".join(self.table.columns[column] for column in self.route)

    @property
    def amount_name(self) -> str:
        """The name of the summed column."""
        return "records" if self.amount is None else self.table.columns[self.amount]

    @property
    def title(self) -> str:
        """A summary in one line."""
        records = f"{self.table.name}: {counted(len(self.table.records), 'record')}"
        return f"{records}, routed by {self.route_names}, adding up {self.amount_name}"

    @property
    def fingerprint(self) -> str:
        """Equal for plans with the same results for the same records, and only for these."""
        table, lanes = self.table, [lane.selector for lane in self.lanes]
        records = [record.values for record in table.records]
        labels = sorted((key_name(key), kind.label) for key, kind in self.kinds.items())
        text = repr((table.columns, records, self.route, self.amount, self.properties, lanes, labels))
        # A text may hold half of a surrogate pair, which UTF-8 refuses.
        return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def make_plan(
    table: Table,
    *,
    route: Sequence[str] = (),
    amount: str | None = None,
    lanes: int = 4,
    labels: Mapping[str, str] | None = None,
) -> Plan:
    """Make a plan, and choose the routing columns and the summed column unless they are given.

    `lanes` is the number of values with a lane of their own. `labels` has the names behind the values of the first
    routing column.

    Raises:
        InputError: There is no such column, or the summed one holds text.
    """
    routing = tuple(_position(table, name) for name in dict.fromkeys(route)) or (_proposed_route(table),)
    adding = _amount_column(table, amount, routing)
    properties = _property_names(table.columns)
    keys = Counter(tuple(_text(record.values[column]) for column in routing) for record in table.records)
    # The name orders equal counts, so that a resumed run has the same lanes.
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
    """Return the key for display."""
    return " / ".join("(empty)" if value is None else value for value in key)


def _kinds(table: Table, route: tuple[int, ...], amount: int | None, labels: Mapping[str, str]) -> dict[Key, Kind]:
    records: Counter[Key] = Counter()
    totals: dict[Key, Fraction] = {}
    for record in table.records:
        key = tuple(_text(record.values[column]) for column in route)
        value = 1 if amount is None else record.values[amount]
        records[key] += 1
        # Fractions, as sums of floats depend on their order.
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
    """Return the first column with a few, repeated values; text before numbers, full before sparse."""

    def rank(column: int) -> tuple[bool, bool, int, int]:
        values = [record.values[column] for record in table.records]
        distinct = len(set(values))
        useful = 2 <= distinct <= _DISTINCT_MAX and distinct < len(values)
        return not useful, all(value is None or _is_number(value) for value in values), values.count(None), column

    return min(range(len(table.columns)), key=rank)


def _amount_column(table: Table, name: str | None, route: tuple[int, ...]) -> int | None:
    """Return the named column, or the last numeric one that does not route, or None."""
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
    """Return a legal, distinct property name for each column, for use in selectors (JMS 1.1 §3.8.1.1)."""
    names: list[str] = []
    for column in columns:
        # ASCII only: a Java identifier may have more letters, but not every broker's selectors read them.
        name = re.sub(r"[^A-Za-z0-9_]", "_", column)
        if not re.match(r"[A-Za-z]", name) or name.upper().startswith("JMS"):
            name = "c_" + name
        # Words of the selector language, such as IN, are refused as property names (JMS 1.1 §3.5.1).
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
    """Return the selector of all messages that no other lane selects.

    ``NOT (carrier = 'UA')`` would not do: without a value it is unknown, and such a message is not selected (JMS 1.1
    §3.8.1.2). So a missing value is always tested explicitly.
    """
    if not keys:
        # Not an empty selector: the dead letters of this lane are found by the same text within an AND.
        return Lane(name=ELSE, key=None, selector="record_id > 0")
    if len(names) == 1:
        return Lane(name=ELSE, key=None, selector=_none_of(names[0], [key[0] for key in keys]))
    # NOT (a = 'x' AND b = 'y') is unknown where a is missing and b is 'y', and would not select that message. Hence an
    # OR of parts, each of which tests for NULL.
    others = (
        f"({' OR '.join(_none_of(name, [value]) for name, value in zip(names, key, strict=True))})" for key in keys
    )
    return Lane(name=ELSE, key=None, selector=" AND ".join(others))


def _none_of(name: str, values: Sequence[str | None]) -> str:
    """Return the condition that a property has none of the values, where None means a missing one."""
    literals = ", ".join(quote(value) for value in values if value is not None)
    if None not in values:
        # NOT IN alone is unknown for a missing value, and such a message is not selected (JMS 1.1 §3.8.1.2).
        return f"{name} IS NULL OR {name} NOT IN ({literals})"
    return f"{name} NOT IN ({literals})" if literals else f"{name} IS NOT NULL"


RUNS = "demo.runs"
"""The queue that names the run of a store."""
DEAD_LETTERS = "DLQ"
"""The embedded broker's dead-letter queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The destinations of one run. The prefix separates runs that share a broker."""

    prefix: str
    lanes: int

    @property
    def intake(self) -> str:
        """The queue into which the file is loaded."""
        return f"{self.prefix}.intake"

    @property
    def checked(self) -> str:
        """The queue between `check` and `look up`."""
        return f"{self.prefix}.checked"

    @property
    def looked_up(self) -> str:
        """The queue between `look up` and `dispatch`."""
        return f"{self.prefix}.looked-up"

    @property
    def desk(self) -> str:
        """The queue of requests to the desk."""
        return f"{self.prefix}.desk"

    @property
    def dispatched(self) -> str:
        """The topic with a message for each record dispatched."""
        return f"{self.prefix}.dispatched"

    @property
    def stamps(self) -> str:
        """The queue in which stages record their counts."""
        return f"{self.prefix}.stamps"

    @property
    def pages(self) -> str:
        """The queue in which collectors record the messages received."""
        return f"{self.prefix}.pages"

    def lane(self, number: int) -> str:
        """The queue at the end of lane `number`."""
        return f"{self.prefix}.lane-{number}"

    @property
    def work(self) -> tuple[str, ...]:
        """The queues that must be empty at the end."""
        return self.intake, self.checked, self.looked_up, self.desk

    @property
    def queues(self) -> tuple[str, ...]:
        """All queues of the run."""
        return *self.work, *map(self.lane, range(self.lanes)), self.stamps, self.pages

    def client_id(self, subscriber: str) -> str:
        """The client id of a durable subscriber."""
        return f"{self.prefix}-{subscriber}"

    @property
    def dead_letters(self) -> str:
        """The selector of this run's dead letters."""
        return f"JMS_pyjms_deadDestination LIKE '%://{self.prefix}.%'"

    def dead_letters_of(self, queue: str, selector: str | None = None) -> str:
        """The selector of dead letters from a queue that `selector` selects."""
        own = f"JMS_pyjms_deadDestination = 'queue://{queue}'"
        return own if selector is None else f"{own} AND ({selector})"

    def dead_letters_for(self, subscriber: str) -> str:
        """The selector of the dead letters of a durable subscriber."""
        return f"JMS_pyjms_deadSubscription LIKE '%#{self.client_id(subscriber)}/%'"
