"""What is found in a database when it is opened; entries come in a stream, without their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, func, select

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.xid import Xid
from pyjms_provider.core.journal import (
    BranchOutcome,
    DuplicateMark,
    QueueNumber,
    QueueRecord,
    RecoveredBranch,
    RecoveredEntry,
    SubscriptionKey,
)
from pyjms_provider.core.reference import MessageReference, ReferenceId
from pyjms_provider.stores.sql import tables as t
from pyjms_provider.stores.sql.batch import text_from_column

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from pyjms_provider.stores.sql.database import Database

__all__ = ["Found", "read_entries", "read_records"]

_FETCH: Final = 2000
_PROGRESS: Final = 10_000
_OVERHEAD: Final = 600
"""What a message takes in memory beside its encoded bytes, as `core.paging` counts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All but the entries."""

    queues: Sequence[QueueRecord]
    branches: Sequence[RecoveredBranch]
    heuristics: Sequence[BranchOutcome]
    duplicates: Sequence[DuplicateMark]
    marks: Sequence[tuple[QueueNumber, int, ReferenceId]]
    last_id: ReferenceId
    last_branch: int


def read_records(connection: Connection) -> Found:
    """Return what was kept, but for the entries of messages."""
    queues = [_queue(row) for row in connection.execute(select(t.QUEUE).order_by(t.QUEUE.c.number))]
    branches = [_branch(connection, row) for row in connection.execute(select(t.BRANCH).order_by(t.BRANCH.c.number))]
    heuristics = [
        BranchOutcome(_xid(row), commit=bool(row.committed), heuristic=True)
        for row in connection.execute(select(t.HEURISTIC))
    ]
    duplicates = [_duplicate(row) for row in connection.execute(select(t.DUPLICATE))]
    marks = [
        (QueueNumber(row.queue), row.priority, ReferenceId(row.message)) for row in connection.execute(select(t.MARK))
    ]
    highest = [
        connection.scalar(select(func.max(column))) or 0
        for column in (t.MESSAGE.c.id, t.MARK.c.message, t.SET_ASIDE.c.id)
    ]
    return Found(
        queues=queues,
        branches=branches,
        heuristics=heuristics,
        duplicates=duplicates,
        marks=marks,
        last_id=ReferenceId(max(highest)),
        last_branch=connection.scalar(select(func.max(t.BRANCH.c.number))) or 0,
    )


def _text(column: Any) -> str:
    return text_from_column(column) or ""


def _address(row: Row[Any]) -> Address:
    return Address(AddressKind(row.kind), _text(row.name), bool(row.temporary))


def _queue(row: Row[Any]) -> QueueRecord:
    is_subscription = row.subscription is not None
    return QueueRecord(
        number=QueueNumber(row.number),
        address=_address(row),
        subscription=SubscriptionKey(_text(row.client_id), _text(row.subscription)) if is_subscription else None,
        selector_text=text_from_column(row.selector),
        no_local=bool(row.no_local),
        policy=text_from_column(row.policy),
    )


def _xid(row: Row[Any]) -> Xid:
    return Xid(row.format_id, bytes(row.global_id), bytes(row.qualifier))


def _duplicate(row: Row[Any]) -> DuplicateMark:
    return DuplicateMark(_address(row), _text(row.duplicate_id), row.until_ms)


def _branch(connection: Connection, row: Row[Any]) -> RecoveredBranch:
    messages = [
        (entry.queue, entry.reference)
        for entry in _entries(connection.execute(_messages(t.MESSAGE.c.branch == row.number)))
    ]
    removals = connection.execute(
        select(t.REMOVAL.c.queue, t.REMOVAL.c.message).where(t.REMOVAL.c.branch == row.number)
    )
    return RecoveredBranch(
        xid=_xid(row),
        prepared_ms=row.prepared_ms,
        messages=messages,
        removals=[(QueueNumber(queue), ReferenceId(message)) for queue, message in removals],
    )


def _messages(condition: Any) -> Any:
    message, entry = t.MESSAGE.c, t.ENTRY.c
    in_several = and_(message.queue.is_(None), entry.message == message.id)
    return (
        select(
            *(message.id, message.queue, message.priority, message.expiration, message.deliver_at),
            *(
                message.reliable,
                message.deliveries,
                func.length(message.payload),
                entry.queue,
                entry.deliveries,
            ),
        )
        .select_from(t.MESSAGE.outerjoin(t.ENTRY, in_several))
        .where(condition)
        .order_by(message.id)
    )


def read_entries(database: Database, progress: Callable[[int], None]) -> Iterator[RecoveredEntry]:
    """Yield all entries in the order in which messages were added. Raises `StoreError`."""
    count = 0
    with database.reading() as connection:
        rows = connection.execution_options(yield_per=_FETCH).execute(_messages(t.MESSAGE.c.branch.is_(None)))
        for entry in _entries(rows):
            count += 1
            if not count % _PROGRESS:
                progress(count)
            yield entry
    progress(count)


def _entries(rows: Any) -> Iterator[RecoveredEntry]:
    last: MessageReference | None = None
    for message_id, queue, priority, expiration_ms, deliver_at_ms, reliable, deliveries, size, *shared in rows:
        shared_by, shared_deliveries = shared
        if queue is None and last is not None and last.id == message_id:
            yield RecoveredEntry(shared_by, last, shared_deliveries)
            continue
        reference = MessageReference(message_id, None, expiration_ms, priority, bool(reliable))
        reference.deliver_at_ms = deliver_at_ms
        reference.size = size + _OVERHEAD
        if queue is not None:
            yield RecoveredEntry(queue, reference, deliveries)
        elif shared_by is not None:
            reference.shared = True
            last = reference
            yield RecoveredEntry(shared_by, reference, shared_deliveries)
