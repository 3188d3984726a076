"""Recovery: reads the records of a database at its opening; the entries are streamed, without bodies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, starmap
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, Boolean, Integer, LargeBinary, Select, and_, case, cast, func, null, select
from sqlalchemy.engine import result_tuple

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.replay import StageName
from pyjms.spi.xid import Xid
from pyjms_provider.core.journal.journal import (
    BranchOutcome,
    ClientRecord,
    DuplicateMark,
    GroupNumber,
    GroupRecord,
    QueueNumber,
    QueueRecord,
    RecoveredBranch,
    RecoveredEntry,
    RecoveredGroup,
    RecoveredRun,
    RecoveredRuns,
    RecoveredStage,
    StageRecord,
    SubscriptionKey,
)
from pyjms_provider.core.message.reference import MESSAGE_OVERHEAD, MessageReference, ReferenceId
from pyjms_provider.stores.sql import schema as t
from pyjms_provider.stores.sql.batch import text_from_column

if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, Dialect, Row, Table

    from pyjms_provider.stores.sql.database import Database

# Reading the small tables. A damaged file of SQLite may have anything in any column, and one such row must not prevent
# the start. So rows are read as the driver returns them, even with text that is not UTF-8, and rows with values that
# pyjms never writes are logged and skipped.

UNDECODABLE: Final = "surrogateescape"
"""The error handler for text that is not UTF-8: it decodes to lone surrogates, which text written by pyjms never has (`text_to_column`)."""
_log = logging.getLogger("pyjms.store")


def is_whole(table: Table, row: Row[Any]) -> bool:
    """Return whether each value is of its column's type."""
    return all(_fits(column, value) for column, value in zip(table.columns, row, strict=True))


def log_damage(table: Table, row: Row[Any], what: str) -> None:
    """Log a damaged row; `what` says what happens to it."""
    _log.error(
        "PYJMS-STORE-10 a row of %s has values that pyjms never writes, so the file is damaged; %s: %r",
        table.name,
        what,
        tuple(row),
    )


def _fits(column: Column[Any], value: Any) -> bool:
    if value is None:
        return bool(column.nullable)
    kind = column.type
    # Before Integer, as SQLite stores booleans as 0 and 1.
    if isinstance(kind, Boolean):
        return type(value) in {bool, int} and value in {0, 1}
    # The exact type, as Python's bool is an int, too.
    if isinstance(kind, Integer):
        return type(value) is int
    if isinstance(kind, LargeBinary):
        return isinstance(value, (bytes, memoryview))
    # A lone surrogate stands for a byte that is not UTF-8 (`UNDECODABLE`).
    return type(value) is str and not any("\ud800" <= character <= "\udfff" for character in value)


_RUN: Final = 10_000
"""The number of messages that are read at a time, and after which progress is reported."""
_PRIORITIES: Final = 10
_KINDS: Final = frozenset(kind.value for kind in AddressKind)
_SERIALS_END: Final = 1 << 62
"""A serial this high is damaged: no store has written so many, and there would be no room for later ones."""
_HIGHEST: Final = 2**53
"""The highest number of a queue; a higher one is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredRecords:
    """Everything that recovery finds, except for the entries."""

    queues: Sequence[QueueRecord]
    branches: Sequence[RecoveredBranch]
    heuristics: Sequence[BranchOutcome]
    duplicates: Sequence[DuplicateMark]
    marks: Sequence[tuple[QueueNumber, int, ReferenceId]]
    groups: Sequence[RecoveredGroup]
    lost_groups: Sequence[GroupNumber]
    """The groups with damaged rows; their messages go back to their queues."""
    stages: Sequence[RecoveredStage]
    stage_markers: Sequence[tuple[str, int]]
    clients: Sequence[ClientRecord]
    last_id: ReferenceId
    last_branch: int
    """The highest number of a branch or a staged unit."""


_SORTED: Final[Mapping[Table, Sequence[Column[Any]]]] = {
    t.MARK: (),
    t.QUEUE: (t.QUEUE.c.number,),
    t.BRANCH: (t.BRANCH.c.number,),
    t.BRANCH_CLIENT: (),
    t.HEURISTIC: (),
    t.DUPLICATE: (),
    t.GROUP: (t.GROUP.c.number,),
    t.RESERVED: (t.RESERVED.c.group_number, t.RESERVED.c.number),
    t.STAGE: (t.STAGE.c.number,),
    t.STAGE_MARKER: (),
    t.CLIENT: (t.CLIENT.c.name,),
}
"""The tables that are read as a whole, with the order of their rows."""
_FEW: Final = 1_000
"""So many messages of a server's store are read at once with the other tables; more are streamed."""


_texts: Final[dict[str, tuple[Sequence[str], Sequence[str]]]] = {}
"""What `_queries` has returned, by the name of the dialect."""


def _queries(dialect: Dialect) -> tuple[Sequence[str], Sequence[str]]:
    """Return the queries for the tables, and for the highest numbers; and those for the messages if they are few."""
    found = _texts.get(dialect.name)
    if found is None:
        highest = (t.MESSAGE.c.id, t.SET_ASIDE.c.id, t.BRANCH.c.number, t.STAGE.c.number)
        tables = (
            *(select(each).order_by(*order) for each, order in _SORTED.items()),
            select(*(select(func.max(each)).scalar_subquery() for each in highest)),
        )
        few = select(t.MESSAGE.c.id).where(_IN_QUEUES).order_by(t.MESSAGE.c.id).limit(_FEW + 1).subquery()
        messages = (
            _rows().limit(_FEW + 1),
            _places().limit(_FEW + 1),
            _messages().where(t.MESSAGE.c.id.in_(select(few)), _lane().is_(None)),
        )
        found = [_text(each, dialect) for each in tables], [_text(each, dialect) for each in messages]
        _texts[dialect.name] = found
    return found


def _text(query: Select[Any], dialect: Dialect) -> str:
    # Executed as text: SQLAlchemy's types would fail at the first value that is not of its column's type. With literals, as the driver's cursor
    # takes no parameters of SQLAlchemy, and all values are integers.
    return str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


class Snapshot:
    """What the tables of a store have at one moment. Of a server they are read in one round trip."""

    def __init__(self, database: Database) -> None:
        """Read the tables. The writer's thread. Raises `StoreError`."""
        tables, messages = _queries(database.engine.dialect)
        # A file is read as well in many steps, and its messages always as a stream.
        found = database.read_all(tables if database.is_local else (*tables, *messages))
        self._rows = dict(zip(_SORTED, found, strict=False))
        self.highest: Sequence[int] = [each or 0 for each in found[len(_SORTED)][0]]
        """The highest id of a message, and of one in quarantine; the highest number of a branch, and of a staged unit."""
        few = found[len(tables) :]
        self.messages = few if few and all(len(each) <= _FEW for each in few) else None
        """The rows of all messages, all entries, and the messages with more than a queue and a size; None: they are to be streamed."""

    def all(self, table: Table) -> Iterator[Row[Any]]:
        """Yield all rows, with the values that the driver returns."""
        return map(result_tuple(table.c.keys()), self._rows[table])

    def intact(self, table: Table) -> Sequence[Row[Any]]:
        """Return the rows that are intact; all others are logged."""
        found = []
        for row in self.all(table):
            if is_whole(table, row):
                found.append(row)
            else:
                log_damage(table, row, "it is passed over")
        return found


def read_records(database: Database, snapshot: Snapshot) -> RecoveredRecords:
    """Return all records except for the entries of messages. Damaged rows are logged and skipped. Raises `StoreError`."""
    marks = snapshot.intact(t.MARK)
    xids, units = list(_xids(snapshot, t.BRANCH)), read_stages(snapshot)
    branches: list[RecoveredBranch] = []
    stages: list[RecoveredStage] = []
    if xids or units:  # nobody else writes meanwhile
        with database.reading(is_beginning=True) as connection:
            branches = [_branch(snapshot, connection, xid, row) for xid, row in xids]
            stages = [
                RecoveredStage(record=record, messages=_messages_of(connection, number)) for number, record in units
            ]
    last_message, last_set_aside, last_branch, last_stage = snapshot.highest
    groups, lost_groups = read_groups(snapshot)
    return RecoveredRecords(
        queues=_queues(snapshot),
        branches=branches,
        heuristics=[
            BranchOutcome(xid, commit=bool(row.committed), heuristic=True) for xid, row in _xids(snapshot, t.HEURISTIC)
        ],
        duplicates=_duplicates(snapshot),
        marks=[(QueueNumber(row.queue), row.priority, ReferenceId(row.message)) for row in marks],
        # Including quarantined messages: if an id were used again, it would replace the row of a quarantined message.
        # Including the marks: new messages below a mark would be flagged as redelivered.
        last_id=ReferenceId(max(last_message, last_set_aside, *(row.message for row in marks))),
        groups=groups,
        lost_groups=lost_groups,
        stages=stages,
        stage_markers=read_markers(snapshot),
        clients=[_client(row) for row in snapshot.intact(t.CLIENT)],
        # Branches and staged units share one count, as the column `branch` of a message refers to both.
        last_branch=max(last_branch, last_stage),
    )


def _queues(snapshot: Snapshot) -> list[QueueRecord]:
    """Return all queues. A queue with a damaged row gets another name, so that an operator can move its messages.

    Of two queues of one name the newer one keeps it: if the file is intact, the older one was deleted.
    """
    found: dict[object, QueueRecord] = {}
    # From the newest to the oldest, as the newest keeps its name.
    for row in reversed(list(snapshot.all(t.QUEUE))):
        is_queue = row.kind == AddressKind.QUEUE or row.subscription is not None
        record = _queue(row) if is_whole(t.QUEUE, row) and row.kind in _KINDS and is_queue else None
        # A damaged name may be that of another queue.
        if record is None or (record.address, record.subscription) in found:
            # Named by its number: the queue has the same name at each start, so that an operator finds it again.
            name = f"damaged queue {row.number}"
            while (Address(AddressKind.QUEUE, name), None) in found:
                name += ", too"
            log_damage(t.QUEUE, row, f"its messages are in a queue of the name {name!r}")
            record = QueueRecord(number=QueueNumber(row.number), address=Address(AddressKind.QUEUE, name))
        found[record.address, record.subscription] = record
    # In the order of their numbers, which is the order in which the queues were defined.
    return list(reversed(found.values()))


def _string(column: Any) -> str:
    return text_from_column(column) or ""


def _address(row: Row[Any]) -> Address:
    return Address(AddressKind(row.kind), _string(row.name), bool(row.temporary))


def _queue(row: Row[Any]) -> QueueRecord:
    is_subscription = row.subscription is not None
    return QueueRecord(
        number=QueueNumber(row.number),
        address=_address(row),
        subscription=SubscriptionKey(_string(row.client_id), _string(row.subscription)) if is_subscription else None,
        selector_text=text_from_column(row.selector),
        no_local=bool(row.no_local),
        policy=text_from_column(row.policy),
        is_shared=bool(row.shared),
    )


def _xids(snapshot: Snapshot, table: Table) -> Iterator[tuple[Xid, Row[Any]]]:
    for row in snapshot.intact(table):
        try:
            yield Xid(row.format_id, bytes(row.global_id), bytes(row.qualifier)), row
        except ValueError:
            log_damage(table, row, "it is passed over")


def _duplicates(snapshot: Snapshot) -> list[DuplicateMark]:
    return [
        DuplicateMark(_address(row), _string(row.duplicate_id), row.until_ms, row.serial)
        for row in snapshot.intact(t.DUPLICATE)
        # A damaged serial near 2**63 would leave no room for later ones.
        if row.kind in _KINDS and 0 < row.serial < _SERIALS_END
    ]


def _messages_of(connection: Connection, number: int) -> list[tuple[QueueNumber, MessageReference]]:
    """Return the messages of a branch or a staged unit."""
    of_branch = t.MESSAGE.c.branch == number
    places = select(t.ENTRY).where(t.ENTRY.c.message.in_(select(t.MESSAGE.c.id).where(of_branch)))
    entries = _entries(
        connection.execute(_messages().where(of_branch)),
        # Read at once: a branch is one transaction, and no larger than that.
        _Places(iter(connection.execute(places.order_by(t.ENTRY.c.message, t.ENTRY.c.queue)).all())),
        [],
    )
    return [(entry.queue, entry.reference) for entry in entries]


def _branch(snapshot: Snapshot, connection: Connection, xid: Xid, row: Row[Any]) -> RecoveredBranch:
    removals = connection.execute(
        select(t.REMOVAL.c.queue, t.REMOVAL.c.message).where(t.REMOVAL.c.branch == row.number)
    )
    clients = snapshot.intact(t.BRANCH_CLIENT)
    return RecoveredBranch(
        xid=xid,
        prepared_ms=row.prepared_ms,
        messages=_messages_of(connection, row.number),
        removals=[(QueueNumber(queue), ReferenceId(message)) for queue, message in removals],
        clients=[_client(each) for each in clients if each.branch == row.number],
    )


def _client(row: Any) -> ClientRecord:
    return ClientRecord(
        name=_string(row.name),
        generation=row.generation,
        incarnation=row.incarnation,
        owner=_string(row.owner),
        registered_ms=row.registered_ms,
        request_tag=text_from_column(row.request_tag),
        request_ms=row.request_ms,
        reply_tag=text_from_column(row.reply_tag),
        reply_ms=row.reply_ms,
        left_ms=row.left_ms,
    )


def _messages() -> Select[Any]:
    message = t.MESSAGE.c
    return select(
        *(message.id, message.queue, message.priority, message.expiration, message.deliver_at, message.reliable),
        # The length and not the payload: recovery needs the size for memory limits;
        # the body is read only on delivery.
        *(message.deliveries, func.length(message.payload)),
    ).order_by(message.id)


def read_places(connection: Connection, reference_id: ReferenceId) -> str:
    """Return the names of the queues and durable subscriptions of a message, for logs and operators."""
    numbers = (
        select(t.MESSAGE.c.queue)
        .where(t.MESSAGE.c.id == reference_id)
        .union(select(t.ENTRY.c.queue).where(t.ENTRY.c.message == reference_id))
    )
    found = connection.execute(select(t.QUEUE).where(t.QUEUE.c.number.in_(numbers)).order_by(t.QUEUE.c.number))
    places = []
    for record in map(_queue, found):
        key = record.subscription
        places.append(f"{record.address}" if key is None else f"{record.address}, {key.name!r} of {key.client_id!r}")
    return "; ".join(places)


_IN_QUEUES: Final = t.MESSAGE.c.branch.is_(None)
"""Messages of undecided branches and units are in no queue yet, and are read with their branch or unit."""
_Rows = Sequence[Sequence[Any]]


def _rows() -> Select[Any]:
    message = t.MESSAGE.c
    return select(_lane(), message.id, func.length(message.payload)).where(_IN_QUEUES).order_by(message.id)


def _places() -> Select[Any]:
    return select(t.ENTRY).order_by(t.ENTRY.c.message, t.ENTRY.c.queue)


def read_entries(
    database: Database,
    found: Sequence[_Rows] | None,
    progress: Callable[[int], None],
    set_aside: Callable[[Sequence[ReferenceId]], None],
) -> RecoveredRuns:
    """Return all entries, which are read lazily during the iteration; `StoreError` is raised there.

    `found`: the messages of the snapshot, if they are few. `set_aside` is called at the end with the ids of messages with damaged rows.
    """
    return RecoveredRuns(_read_runs(database, found, progress, set_aside))


def _read_runs(
    database: Database,
    found: Sequence[_Rows] | None,
    progress: Callable[[int], None],
    set_aside: Callable[[Sequence[ReferenceId]], None],
) -> Iterator[Sequence[RecoveredEntry] | RecoveredRun]:
    bad: list[ReferenceId] = []
    if found is not None:
        rows, places, others = found

        def within(first: int, last: int) -> Iterable[Any]:
            return (row for row in others if first <= row[0] <= last)

        yield from _runs(iter(rows), _Places(iter(places)), within, progress, bad)
    else:
        dialect = database.engine.dialect
        with database.streaming() as stream:

            def read_others(first: int, last: int) -> Iterable[Any]:
                span = t.MESSAGE.c.id.between(first, last)
                return stream(_text(_messages().where(_IN_QUEUES, span, _lane().is_(None)), dialect))

            entries = _Places(stream(_text(_places(), dialect)))
            yield from _runs(stream(_text(_rows(), dialect)), entries, read_others, progress, bad)
    if bad:
        # After the stream is closed: the quarantine writes, and on SQLite a long
        # read would keep the log from restarting.
        set_aside(bad)


def _runs(
    rows: Iterator[Any],
    places: _Places,
    read_others: Callable[[int, int], Iterable[Any]],
    progress: Callable[[int], None],
    bad: list[ReferenceId],
) -> Iterator[Sequence[RecoveredEntry] | RecoveredRun]:
    """Yield the messages of `rows`; `read_others` returns those with more than a queue and a size, by their first and last id."""
    count = 0
    # Payloads stay in the database: a million messages must be recovered without loading them.
    while found := list(islice(rows, _RUN)):
        others: dict[ReferenceId, list[RecoveredEntry]] = {}
        lanes, ids, sizes = zip(*found, strict=True)
        # `count` is one call in C: a backlog of one queue and priority needs no loop over its messages.
        if lanes.count(lanes[0]) == len(lanes) and lanes[0] is not None:
            count += len(ids)
            yield _run(lanes[0], ids, sizes)
            progress(count)
            continue
        if None in lanes:
            # A second query for the same ids, with all columns: only messages with more
            # than a queue and a size need it.
            for entry in _entries(read_others(ids[0], ids[-1]), places, bad):
                others.setdefault(entry.reference.id, []).append(entry)
        for run in _in_order(found, others):
            count += len(run) if isinstance(run, list) else len(run.ids)
            yield run
        progress(count)


def _lane() -> ColumnElement[int | None]:
    """Return the expression for the lane of a message: a number for its queue and priority; NULL if other columns matter, too.

    Messages of one lane can be in one `RecoveredRun`. A file of SQLite may hold anything in any column. It sorts numbers before all
    other values, so these conditions are false for other values; the comparisons with casts exclude fractions.
    """
    message = t.MESSAGE.c
    is_plain = and_(
        message.queue.between(1, _HIGHEST),
        message.queue == cast(message.queue, BigInteger),
        message.priority.between(0, _PRIORITIES - 1),
        message.priority == cast(message.priority, BigInteger),
        message.expiration == 0,
        message.deliver_at == 0,
        message.reliable,
        message.deliveries == 0,
        func.length(message.payload) >= 0,
    )
    return case((is_plain, cast(message.queue * _PRIORITIES + message.priority, BigInteger)), else_=null())


def _in_order(
    found: Sequence[tuple[int | None, int, int]], others: Mapping[ReferenceId, list[RecoveredEntry]]
) -> Iterator[list[RecoveredEntry] | RecoveredRun]:
    """Yield runs of the rows with a lane, and `others`; the messages of each queue and priority come in the order of their ids."""
    lanes: dict[int, list[tuple[int, int]]] = {}
    for lane, message_id, size in found:
        if lane is not None:
            lanes.setdefault(lane, []).append((message_id, size))
        elif message_id in others:
            # The runs so far are yielded first: within a queue and priority, ids must be ascending.
            yield from starmap(_run_of, lanes.items())
            lanes = {}
            yield others[ReferenceId(message_id)]
    yield from starmap(_run_of, lanes.items())


def _run_of(lane: int, found: Sequence[tuple[int, int]]) -> RecoveredRun:
    ids, sizes = zip(*found, strict=True)
    return _run(lane, ids, sizes)


def _run(lane: int, ids: Sequence[int], sizes: Sequence[int]) -> RecoveredRun:
    return RecoveredRun(QueueNumber(lane // _PRIORITIES), lane % _PRIORITIES, ids, sizes)


class _Places:
    """A stream of the entries of messages in several queues, read by message."""

    def __init__(self, rows: Iterator[Any]) -> None:
        # Damaged rows are skipped.
        self._rows = (row for row in rows if all(type(value) is int for value in row))
        self._next = next(self._rows, None)

    def of(self, message: ReferenceId) -> Iterator[Any]:
        """Yield the rows of a message; must be called for messages in the order of their ids."""
        # Both streams are sorted by id, so one pass is enough; entries without a message are skipped.
        while self._next is not None and self._next[0] <= message:
            if self._next[0] == message:
                yield self._next
            self._next = next(self._rows, None)


def _entries(messages: Iterable[Any], places: _Places, bad: list[ReferenceId]) -> Iterator[RecoveredEntry]:
    """Yield the entries of `messages`; `places` has the entries of those in several queues. Both are sorted by id.

    A file of SQLite may hold anything in any column, so the values are checked; ids of rows with impossible ones are added to `bad`.
    """
    for message_id, queue, priority, expiration_ms, deliver_at_ms, reliable, deliveries, size in messages:
        # SQLite's columns take values of any type, and the core would fail later at a value of a wrong type.
        is_whole = type(priority) is type(expiration_ms) is type(deliver_at_ms) is type(deliveries) is type(size) is int
        if not (is_whole and 0 <= priority < _PRIORITIES and (queue is None or type(queue) is int)):
            bad.append(message_id)
            continue
        reference = MessageReference(message_id, None, expiration_ms, priority, bool(reliable))
        reference.deliver_at_ms = deliver_at_ms
        reference.size = size + MESSAGE_OVERHEAD
        if queue is not None:
            yield RecoveredEntry(QueueNumber(queue), reference, deliveries)
            continue
        reference.shared = True
        for _, entry_queue, entry_deliveries in places.of(message_id):
            yield RecoveredEntry(entry_queue, reference, entry_deliveries)


# Reader groups and staged units


def read_groups(snapshot: Snapshot) -> tuple[Sequence[RecoveredGroup], Sequence[GroupNumber]]:
    """Return the reader groups, by number, with their reservations; and the numbers of the damaged ones."""
    rows = snapshot.intact(t.RESERVED)
    held = {
        group: [(row.number, ReferenceId(row.message), row.deliveries) for row in found]
        for group, found in groupby(rows, key=lambda row: row.group_number)
    }
    found: list[RecoveredGroup] = []
    lost: list[GroupNumber] = []
    for row in snapshot.all(t.GROUP):
        if is_whole(t.GROUP, row):
            found.append(RecoveredGroup(record=_group(row), reserved=held.get(row.number, [])))
        else:
            log_damage(t.GROUP, row, "what the reader group held is its queue's again")
            # The number is SQLite's row id, which is an integer even if the rest of the row is damaged.
            lost.append(GroupNumber(row.number))
    return found, lost


def _group(row: Any) -> GroupRecord:
    return GroupRecord(
        number=GroupNumber(row.number),
        name=text_from_column(row.name) or "",
        queue=QueueNumber(row.queue),
        selector_text=text_from_column(row.selector),
        generation=text_from_column(row.generation) or "",
        low=row.low,
        fence=row.fence,
        opened_ms=row.opened_ms,
    )


def read_stages(snapshot: Snapshot) -> Sequence[tuple[int, StageRecord]]:
    """Return the staged units, by number."""
    return [
        (
            row.number,
            StageRecord(
                name=StageName(
                    text_from_column(row.sink) or "", row.epoch, row.partition, text_from_column(row.attempt) or ""
                ),
                messages=row.messages,
                staged_ms=row.staged_ms,
                discarded_after_ms=row.discard_ms,
            ),
        )
        for row in snapshot.intact(t.STAGE)
    ]


def read_markers(snapshot: Snapshot) -> Sequence[tuple[str, int]]:
    """Return the last promoted epoch of each sink."""
    return [(text_from_column(row.sink) or "", row.epoch) for row in snapshot.intact(t.STAGE_MARKER)]
