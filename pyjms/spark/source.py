"""The streaming and the batch source, in Spark's interfaces: `pyjms.spark.planning` does the work.

Spark creates a reader in the planner's process, which calls all methods but `read`, and in other processes only to
pickle it for `read`. So a reader's constructor opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyjms.spark.connecting import link_of, require
from pyjms.spark.options import JmsOptions, Mode, OptionError, parse_options
from pyjms.spark.planning import (
    GroupPlanner,
    Limits,
    Offset,
    Page,
    Piece,
    Planner,
    Range,
    group_request,
    pieces_of_group,
    reserve_all,
    rows,
    source_address,
)
from pyjms.spi.capability import Capability
from pyjms.spi.envelope import AddressKind
from pyjms.spi.provider import ProviderConnection
from pyjms.spi.replay import OpenGroup, ReservedMessage
from pyjms.spi.selector import quote, selector_or_none

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class PiecePartition(InputPartition):
    """The object that Spark passes to a task: one piece of a batch."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(None)
        self.piece = piece

    def __repr__(self) -> str:
        return f"PiecePartition({self.piece!r})"


def stream_reader(options: Mapping[str, Any], schema: StructType) -> JmsStreamReader:
    """Return the reader of a stream. Raises `OptionError`."""
    parsed = parse_options(options)
    if parsed.mode in (Mode.BROWSE, Mode.RESERVE):
        raise OptionError(f"mode={parsed.mode.value} is for spark.read; a stream has replay, spool or at-least-once")
    source_address(parsed)
    # A planner is created and dropped, as its constructor checks the options of its mode: the user gets an error before
    # the query starts.
    planner_of(parsed)
    return JmsStreamReader(parsed, schema)


def planner_of(options: JmsOptions) -> Planner:
    """Return the planner of a mode. Raises `OptionError`."""
    if options.mode is Mode.SPOOL:
        from pyjms.spark.spool_planning import SpoolPlanner

        return SpoolPlanner(options)
    if options.mode is Mode.AT_LEAST_ONCE:
        from pyjms.spark.spool_planning import HoldingPlanner

        return HoldingPlanner(options)
    return GroupPlanner(options)


class JmsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. One process calls all methods but `read`, one call at a time."""

    def __init__(self, options: JmsOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._made: Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The planner has connections, locks and files, which cannot be pickled; a
        # task only needs the options and the schema.
        return {**self.__dict__, "_made": None}

    @property
    def _planner(self) -> Planner:
        if self._made is None:
            self._made = planner_of(self._options)
        return self._made

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.messages_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.prepare_available_now()

    def initialOffset(self) -> dict[str, Any]:
        return self._planner.initial().to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._planner.latest(Offset.from_json(start), self._limits(limit)).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        # Spark may call this on a reader that has planned nothing; a report must not open a connection or take over the
        # group.
        found = None if self._made is None else self._made.reported()
        return None if found is None else found.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        pieces = self._planner.pieces(Offset.from_json(start), Offset.from_json(end))
        return [PiecePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, PiecePartition)
        return partition.piece.rows(self._schema, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        self._planner.commit(Offset.from_json(end))

    def stop(self) -> None:
        # Spark also stops readers that never planned anything: creating a planner only to close it would open
        # connections.
        if self._made is not None:
            self._made.close()

    def _limits(self, limit: ReadLimit) -> Limits:
        options = self._options
        # Spark wants all messages in one batch, as for its trigger `once`: the limits of the options do not apply.
        if isinstance(limit, ReadAllAvailable):
            return Limits(max_messages=None)
        if isinstance(limit, ReadMaxRows):
            return Limits(max_messages=limit.max_rows, max_bytes=options.max_bytes)
        if isinstance(limit, ReadMaxBytes):
            return Limits(max_messages=options.messages_per_batch, max_bytes=limit.max_bytes)
        return Limits(max_messages=options.messages_per_batch, max_bytes=options.max_bytes)


# Filters of a table as a message selector (JMS 1.1 §3.8). Pure; a filter that a selector cannot express is left out, as
# Spark filters again.

_TEXTS: Mapping[str, str] = {
    "type": "JMSType",
    "correlation_id": "JMSCorrelationID",
    "message_id": "JMSMessageID",
    "delivery_mode": "JMSDeliveryMode",
}
_NUMBERS: Mapping[str, str] = {"priority": "JMSPriority", "timestamp": "JMSTimestamp"}
_MOST = 32_000
"""Maximum length of all clauses: a selector has at most 65,536 characters, and the user's option `selector` is part of
it, too.
"""
_COMPARISONS = frozenset({"=", "<", "<=", ">", ">="})


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One filter: a column, an operator, and the value."""

    operator: str
    """``=``, ``<``, ``<=``, ``>``, ``>=``, ``IN``, ``STARTS``, ``IS NOT NULL``; anything else is not understood."""
    column: str
    value: Any = None


def selector_of(conditions: Iterable[Condition]) -> str | None:
    """Return a selector that selects at least the messages that all `conditions` select; None if that would be all
    messages.
    """
    clauses: list[str] = []
    room = _MOST
    for each in conditions:
        clause = _clause(each)
        # Leaving out a clause only makes the selector match more: Spark filters the rows again.
        if clause is not None and len(clause) <= room:
            clauses.append(clause)
            room -= len(clause)
    return " AND ".join(clauses) or None


def _clause(condition: Condition) -> str | None:
    if condition.column in _TEXTS:
        return _text_clause(_TEXTS[condition.column], condition)
    if condition.column in _NUMBERS:
        return _number_clause(_NUMBERS[condition.column], condition)
    return None


def _text_clause(name: str, condition: Condition) -> str | None:
    value = condition.value
    if condition.operator == "IS NOT NULL":
        # the reverse does not hold: a column is also NULL where it cannot hold the header
        return f"{name} IS NOT NULL"
    if condition.operator == "=" and isinstance(value, str):  # selectors cannot order texts
        return f"{name} = {quote(value)}"
    if condition.operator == "IN" and _all(value, str):
        return f"{name} IN ({', '.join(map(quote, value))})"
    if condition.operator == "STARTS" and isinstance(value, str):
        # The escape character is escaped first, or the ones added for % and _ would be doubled.
        escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"{name} LIKE {quote(escaped + '%')} ESCAPE '\\'"
    return None


def _number_clause(name: str, condition: Condition) -> str | None:
    # IN accepts only strings (JMS 1.1 §3.8.1.1), so numbers become comparisons joined by OR.
    if condition.operator == "IN" and _all(condition.value, int):
        return f"({' OR '.join(f'{name} = {value}' for value in condition.value)})"
    if condition.operator not in _COMPARISONS:
        return None
    value = condition.value
    if isinstance(value, datetime):
        return _moment_clause(name, condition.operator, value)
    # `bool` is a subclass of `int`, and True is no number in a selector: so the type is compared exactly.
    return f"{name} {condition.operator} {value}" if type(value) is int else None


def _moment_clause(name: str, operator: str, value: datetime) -> str | None:
    """Compare with a whole millisecond, so that no message is excluded that the column would have selected."""
    # Without a zone the moment is unknown; before 1970, `int` would round to the wrong side.
    if value.tzinfo is None or value.timestamp() < 0:
        return None
    # The float may be slightly off, and Spark's moments have microseconds: one millisecond more on each side covers
    # both.
    low = int(value.timestamp() * 1000)
    if operator in ("<", "<="):
        return f"{name} <= {low + 1}"
    if operator in (">", ">="):
        return f"{name} >= {max(0, low - 1)}"
    return f"{name} BETWEEN {max(0, low - 1)} AND {low + 1}"


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, (tuple, list)) and bool(values) and all(type(value) is kind for value in values)


_PAGE = 1_000


def batch_reader(options: Mapping[str, Any], schema: StructType) -> JmsBatchReader:
    """Return the reader of a table. Raises `OptionError`."""
    parsed = parse_options(options)
    mode = parsed.mode or Mode.BROWSE
    if mode is Mode.RESERVE:
        if parsed.job_id is None:
            raise OptionError(
                "mode=reserve needs jobId: the name under which the broker holds the messages until pyjms.spark.acknowledge"
            )
    elif mode is not Mode.BROWSE:
        raise OptionError(f"mode={mode.value} is for spark.readStream; spark.read has browse (the default) and reserve")
    elif parsed.destination is not None and parsed.destination.kind is AddressKind.TOPIC:
        raise OptionError("mode=browse looks at a queue; a topic keeps no messages")
    source_address(parsed)
    # A table's default mode differs from a stream's, so it is written into the options that tasks get.
    parsed = replace(parsed, mode=mode)
    # A reserved job has one selector for its whole life: a pushed filter would differ between actions, and the group
    # would refuse it.
    if parsed.pushdown and mode is Mode.BROWSE:
        return PushingReader(parsed, schema)
    return JmsBatchReader(parsed, schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowsePiece:
    """The messages of a queue at the time when the task runs."""

    selector: str | None

    def rows(self, schema: StructType, options: JmsOptions) -> Iterator[Any]:
        """Yield the messages in order."""
        return rows(self._pages(options), schema, options)

    def _pages(self, options: JmsOptions) -> Iterator[Page]:
        connection = link_of(options).call(_browsable)
        # The session is this task's own, and the connection is shared by the process, so only the session is closed.
        session = connection.open_session(transacted=False)
        try:
            page: list[ReservedMessage] = []
            looked = session.browse(source_address(options), selector_or_none(self.selector))
            for number, seen in enumerate(looked, 1):
                page.append(
                    ReservedMessage(
                        number=number, envelope=seen.envelope, count=seen.count, redelivered=seen.redelivered
                    )
                )
                if len(page) >= _PAGE:
                    yield page
                    page = []
            if page:
                yield page
        finally:
            session.close()


def _browsable(connection: ProviderConnection) -> ProviderConnection:
    require(connection, Capability.BROWSING, "this provider's queues cannot be looked at")
    connection.start()
    return connection


class JmsBatchReader(DataSourceReader):
    """Reads a table. Spark plans it again for each action."""

    def __init__(self, options: JmsOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._selector = options.selector

    def partitions(self) -> Sequence[InputPartition]:
        return [PiecePartition(piece) for piece in self._pieces()]

    def _pieces(self) -> Sequence[Piece]:
        if self._options.mode is Mode.BROWSE:
            # One task: a browser cannot begin in the middle of a queue, so several tasks would each read all of it.
            return [BrowsePiece(selector=self._selector)]
        opened, high = _reserve(self._options)
        group = opened.group
        return pieces_of_group(
            group.name, group.generation, Range(after=group.low, upto=high), self._options.partitions
        )

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, PiecePartition)
        return partition.piece.rows(self._schema, self._options)


def _reserve(options: JmsOptions) -> tuple[OpenGroup, int]:
    """Open the job's group, and reserve messages if the job is new: a job that is planned again reads the same
    messages, even if there were none.

    Otherwise the second planning would reserve messages that arrived in between, and they would be acknowledged with an
    output that was made without them.
    """
    assert options.job_id is not None
    request = group_request(options, options.job_id)
    link = link_of(options, with_client_id=options.subscription is not None)

    attempts = 0

    def open_group(connection: ProviderConnection) -> OpenGroup:
        nonlocal attempts
        require(connection, Capability.REPLAY, "read with mode=browse, which changes nothing")
        # Counted per call and not per success: `Link.call` repeats an open whose answer was lost, and each one raises
        # the fence.
        attempts += 1
        return connection.reader_groups().open(request)

    opened = link.call(open_group)
    group = opened.group
    # A fence above our own attempts means that the job was opened before, and reserved nothing then: it must read
    # nothing again.
    if group.high > group.low or opened.fence > attempts:  # an attempt whose answer was lost may have opened it, too
        return opened, group.high
    if options.max_messages is None:
        return opened, reserve_all(link, opened, options.max_bytes)
    most = options.max_messages
    high = link.call(
        lambda connection: connection.reader_groups().reserve(
            opened, after=group.low, max_messages=most, max_bytes=options.max_bytes, wait_ms=0
        )
    )
    return opened, high


class PushingReader(JmsBatchReader):
    """A reader that lets the broker filter: filters become a selector.

    A class of its own, as Spark refuses every reader that has `pushFilters` where push-down is switched off, as it is by default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Build a selector from `filters`. All are returned to Spark, too: the two may treat NULL differently."""
        selector = selector_of([_condition(each) for each in filters])
        self._selector = " AND ".join(f"({each})" for each in (self._options.selector, selector) if each) or None
        # All are returned to Spark, which filters again: it may treat NULL differently from a selector.
        return filters


_OPERATORS: Mapping[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: "IN",
    StringStartsWith: "STARTS",
    IsNotNull: "IS NOT NULL",
}


def _condition(given: Filter) -> Condition:
    """Return a filter without Spark's classes; an unknown one has an empty operator."""
    return Condition(
        operator=_OPERATORS.get(type(given), ""),
        # A nested column, joined by dots, has the name of no header, so it stays with Spark.
        column=".".join(getattr(given, "attribute", ())),
        value=getattr(given, "value", None),
    )
