"""The streaming and the batch source, as Spark calls them: `pyjms.spark.planning` has what they do.

Spark makes a reader in the planner's process, which calls all but `read`, and in others only to pickle it for `read`. So a reader
opens nothing by itself.
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
    """What Spark hands to a task: one piece of a batch."""

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
    # A planner is made and dropped, as its constructor checks the options of its mode:
    # the user hears of an error before the query starts.
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
    """Reads a stream. One process calls everything but `read`, one call at a time."""

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
        # Spark may ask on a reader that has planned nothing; a report must not
        # open a connection or take over the group.
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
        # Spark also stops readers that never planned anything: making a
        # planner only to close it would open connections.
        if self._made is not None:
            self._made.close()

    def _limits(self, limit: ReadLimit) -> Limits:
        options = self._options
        # Spark wants everything in one batch, as for its trigger `once`: the limits of the options do not apply.
        if isinstance(limit, ReadAllAvailable):
            return Limits(max_messages=None)
        if isinstance(limit, ReadMaxRows):
            return Limits(max_messages=limit.max_rows, max_bytes=options.max_bytes)
        if isinstance(limit, ReadMaxBytes):
            return Limits(max_messages=options.messages_per_batch, max_bytes=limit.max_bytes)
        return Limits(max_messages=options.messages_per_batch, max_bytes=options.max_bytes)


# Filters of a table as a message selector (JMS 1.1 §3.8). Pure; what cannot be said is left out, as Spark filters again.

_TEXTS: Mapping[str, str] = {
    "type": "JMSType",
    "correlation_id": "JMSCorrelationID",
    "message_id": "JMSMessageID",
    "delivery_mode": "JMSDeliveryMode",
}
_NUMBERS: Mapping[str, str] = {"priority": "JMSPriority", "timestamp": "JMSTimestamp"}
_MOST = 32_000
"""Characters of all clauses: a selector has 65,536 at most, and what a user wrote with the option `selector` stands in it, too."""
_COMPARISONS = frozenset({"=", "<", "<=", ">", ">="})


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One filter: a column, what is asked of it, and the value."""

    operator: str
    """``=``, ``<``, ``<=``, ``>``, ``>=``, ``IN``, ``STARTS``, ``IS NOT NULL``; anything else is not understood."""
    column: str
    value: Any = None


def selector_of(conditions: Iterable[Condition]) -> str | None:
    """Return a selector that chooses at least what all `conditions` choose; None: it would choose everything."""
    clauses: list[str] = []
    room = _MOST
    for each in conditions:
        clause = _clause(each)
        # A clause that is left out only makes the selector choose more: Spark filters the rows again.
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
        # the reverse does not hold: a column is NULL, too, where it cannot hold the header
        return f"{name} IS NOT NULL"
    if condition.operator == "=" and isinstance(value, str):  # selectors know no order of texts
        return f"{name} = {quote(value)}"
    if condition.operator == "IN" and _all(value, str):
        return f"{name} IN ({', '.join(map(quote, value))})"
    if condition.operator == "STARTS" and isinstance(value, str):
        # The escape character is escaped first, or the ones added for % and _ would be doubled.
        escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"{name} LIKE {quote(escaped + '%')} ESCAPE '\\'"
    return None


def _number_clause(name: str, condition: Condition) -> str | None:
    # IN takes strings alone (JMS 1.1 §3.8.1.1), so numbers become comparisons joined by OR.
    if condition.operator == "IN" and _all(condition.value, int):
        return f"({' OR '.join(f'{name} = {value}' for value in condition.value)})"
    if condition.operator not in _COMPARISONS:
        return None
    value = condition.value
    if isinstance(value, datetime):
        return _moment_clause(name, condition.operator, value)
    # `bool` is a subclass of `int`, and True is no number of a selector: so the type is compared exactly.
    return f"{name} {condition.operator} {value}" if type(value) is int else None


def _moment_clause(name: str, operator: str, value: datetime) -> str | None:
    """Compare with a whole millisecond, so that nothing is left out that the column would have chosen."""
    # Without a zone the moment is unknown; before 1970, `int` would round to the wrong side.
    if value.tzinfo is None or value.timestamp() < 0:
        return None
    # The float may be a little off, and Spark's moments have microseconds:
    # one millisecond more on each side covers both.
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
    # The default mode of a table is not that of a stream, so it is written into the options that tasks get.
    parsed = replace(parsed, mode=mode)
    # A reserved job has one selector for its whole life: a pushed filter would differ from
    # one action to the next, and the group would refuse it.
    if parsed.pushdown and mode is Mode.BROWSE:
        return PushingReader(parsed, schema)
    return JmsBatchReader(parsed, schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowsePiece:
    """The messages of a queue, as they are when the task runs."""

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
    """Reads a table. Spark plans it anew for each action."""

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
    """Open the job's group, and reserve for it if it was not there before: a job that is planned again reads the same, if that was nothing, too.

    Else messages that came between two looks would be held by the second, and acknowledged with an output that the first has made.
    """
    assert options.job_id is not None
    request = group_request(options, options.job_id)
    link = link_of(options, with_client_id=options.subscription is not None)

    attempts = 0

    def open_group(connection: ProviderConnection) -> OpenGroup:
        nonlocal attempts
        require(connection, Capability.REPLAY, "read with mode=browse, which changes nothing")
        # Counted per call and not per success: `Link.call` repeats an open whose
        # answer was lost, and each one raises the fence.
        attempts += 1
        return connection.reader_groups().open(request)

    opened = link.call(open_group)
    group = opened.group
    # A fence above our own attempts means that the job was opened before, and
    # reserved nothing then: it must read nothing again.
    if group.high > group.low or opened.fence > attempts:  # an attempt that nobody answered may have opened it, too
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
    """A reader that lets the broker choose: filters become a selector.

    A class of its own, as Spark refuses every reader that has `pushFilters` where push-down is switched off, as it is by default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what a selector can say of `filters`. All go back to Spark, too: the two may think differently of NULL."""
        selector = selector_of([_condition(each) for each in filters])
        self._selector = " AND ".join(f"({each})" for each in (self._options.selector, selector) if each) or None
        # All go back to Spark, which filters again: it may treat NULL differently from a selector.
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
    """Return a filter without Spark's classes; one that is not known has an empty operator."""
    return Condition(
        operator=_OPERATORS.get(type(given), ""),
        # A nested column, joined by dots, has the name of no header, so it stays with Spark.
        column=".".join(getattr(given, "attribute", ())),
        value=getattr(given, "value", None),
    )
