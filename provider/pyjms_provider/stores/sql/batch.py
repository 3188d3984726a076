"""Turns changes into batches of SQL statements and rows, which can be merged with those of other threads."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from pyjms.spi.replay import StageName
from pyjms.spi.xid import Xid
from pyjms_provider.core.journal.journal import (
    BranchOutcome,
    Changes,
    ClientChanges,
    ClientRecord,
    GroupRecord,
    NewMessage,
    PipelineChanges,
    QueueNumber,
    QueueRecord,
    Removal,
)
from pyjms_provider.core.message.reference import ReferenceId
from pyjms_provider.stores.errors import StoreError
from pyjms_provider.stores.message_format import encode

if TYPE_CHECKING:
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.stores.sql.schema import Statements


# The rows of messages. Paged-out bodies are read while the rows are written, a few at a time: the messages that an open
# transaction has sent are paged out like all others, and may be larger than memory.

Row = tuple[Any, ...]

_BYTES: Final = 1_000_000
_MESSAGES: Final = 256
"""The limits of one read of paged-out bodies: many small messages are read together, as each read costs a round trip."""
_LOST: Final = "a message that had left memory before its transaction was committed could not be read"


class BatchTarget(Protocol):
    """The part of `Database` that a batch needs."""

    statements: Statements
    read_paged: Callable[[Sequence[ReferenceId]], dict[ReferenceId, bytes]]

    def query(self, statement: str, parameters: Row = ()) -> list[Any]:
        """Return all rows of a query. Raises `StoreError`."""


def message_row(reference: MessageReference, queue: QueueNumber | None, branch: int | None, body: bytes) -> Row:
    """Return the row of a message; `queue` None: the message is in several queues, and has entries."""
    return (
        reference.id,
        queue,
        branch,
        reference.priority,
        reference.expiration_ms,
        reference.deliver_at_ms,
        reference.reliable,
        0,
        body,
    )


class PagedMessage(NamedTuple):
    """A message to be added whose body was paged out. The fields are the arguments of `message_row`."""

    reference: MessageReference
    queue: QueueNumber | None
    branch: int | None


class PagedRows(Collection[Row]):
    """The rows of paged-out messages; only a few are in memory at a time. May be iterated several times."""

    def __init__(
        self,
        messages: Sequence[PagedMessage],
        read: Callable[[Sequence[ReferenceId]], dict[ReferenceId, bytes]],
    ) -> None:
        """`read` returns the bodies of those messages that are still stored."""
        self._messages = messages
        self._read = read

    @property
    def size(self) -> int:
        """The approximate number of bytes of the bodies."""
        return sum([message.reference.size for message in self._messages])

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, row: object) -> bool:
        return any(row == each for each in self)

    def __iter__(self) -> Iterator[Row]:
        for portion in self.portions():
            yield from portion

    def portions(self) -> Iterator[Sequence[Row]]:
        """Yield the rows, in portions that are read at once. Raises `StoreError` if the body of a message with holders is lost."""
        portion: list[PagedMessage] = []
        size = 0
        for message in self._messages:
            portion.append(message)
            size += message.reference.size
            if size >= _BYTES or len(portion) == _MESSAGES:
                yield self._rows(portion)
                portion, size = [], 0
        yield self._rows(portion)

    def _rows(self, portion: Sequence[PagedMessage]) -> Sequence[Row]:
        try:
            bodies = self._read([message.reference.id for message in portion])
        except StoreError as error:  # concerns this batch alone: other batches need not read
            raise StoreError(f"{_LOST}: {error.reason}") from error
        rows: list[Row] = []
        for reference, queue, branch in portion:
            body = bodies.get(reference.id)
            if body is not None:
                rows.append(message_row(reference, queue, branch, body))
            elif reference.holders:
                raise StoreError(f"{_LOST}: it is not on the disk any more; nothing was written")
            # Without holders: its queue was dropped in the meantime.
        return rows


_ORDER: Final = (
    "drop_queue_duplicates",
    "add_queue",
    "raise_next_queue",
    "add_message",
    "add_entry",
    "count_single",
    "count_entry",
    "remove_single",
    "remove_entry",
    "remove_unreferenced",
    "drop_mark",
    "put_mark",
    "put_duplicate",
    "forget_duplicates",
    "drop_client",
    "leave_client",
    "put_client",
)
"""The order of the statements. The duplicate ids of a dropped queue are deleted before those of the next queue of its name are added; queues come
before additions, these before counts, and these before removals; marks, and registered clients, are deleted before others are put. Otherwise
the order does not matter."""
_LAST: Final = "put_queue_duplicate"
"""Runs after all other statements: it stores a duplicate id only if its queue still exists then."""

_AWKWARD = re.compile("[\\\\\0\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u([0-9a-f]{4})")


def text_to_column(text: str | None) -> str | None:
    """Return `text` with NUL and lone surrogates escaped, which PostgreSQL or UTF-8 do not accept."""
    if text is None or not _AWKWARD.search(text):
        return text
    return _AWKWARD.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def text_from_column(text: str | None) -> str | None:
    """Undo the escapes of `text_to_column`."""
    if text is None or "\\" not in text:
        return text
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


class Batch:
    """Rows by statement and key, executed in the order of `_ORDER`, followed by other statements.

    Batches may be merged, and be executed again, by `steps_again` where they were written: ids are used once, a message is removed only
    after its addition was written, and setting a count, a mark or a duplicate id again changes nothing.
    """

    __slots__ = ("others", "paged", "rows", "witness")

    def __init__(self) -> None:
        self.rows: dict[str, dict[Hashable, Row]] = {}
        """For each name of a statement in `Statements`: rows by key, so that a later row replaces an earlier one with the same key."""
        self.paged: list[PagedMessage] = []
        """Messages to be added whose bodies are read only when the batch is written."""
        self.others: list[tuple[str, Sequence[Row]]] = []
        """Statements that run last, in this order."""
        self.witness: tuple[str, Row] | None = None
        """A query that returns a row exactly if the batch was written; for batches of which no added message can prove it."""

    def steps(self, database: BatchTarget) -> Sequence[tuple[str, Collection[Row]]]:
        """Return the statements with their rows, in the order of their execution."""
        rows, statements = self.rows, database.statements
        if len(rows) == 1 and not self.others and not self.paged:  # the common case
            name, found = next(iter(rows.items()))
            return ((getattr(statements, name), found.values()),)
        steps: list[tuple[str, Collection[Row]]] = []
        # Rows of later tables refer to rows of earlier ones, and a removal must run after the addition of its message.
        for name in _ORDER:
            if name in rows:
                steps.append((getattr(statements, name), rows[name].values()))
            if name == "add_message" and self.paged:
                steps.append((statements.add_message, PagedRows(self.paged, database.read_paged)))
        steps += self.others
        # After the other statements, one of which may drop the queue: then the duplicate id must not be stored.
        if _LAST in rows:
            steps.append((getattr(statements, _LAST), rows[_LAST].values()))
        return steps

    def steps_again(self, database: BatchTarget) -> Sequence[tuple[str, Collection[Row]]]:
        """Return the statements for a batch that was written, and may or may not be in the database still: messages that are there stay."""
        statements = database.statements
        missing = {
            statements.add_message: statements.add_missing_message,
            statements.add_entry: statements.add_missing_entry,
        }
        return [(missing.get(statement, statement), rows) for statement, rows in self.steps(database)]

    def put(self, name: str, key: Hashable, row: Row) -> None:
        """Add `row` for the statement called `name`; it replaces an earlier row with the same key."""
        # Dictionaries keep the order of insertion, so of two records of one row
        # the last one counts, and is written once.
        self.rows.setdefault(name, {})[key] = row

    def absorb(self, later: Batch) -> None:
        """Append the rows and statements of `later`."""
        for name, rows in later.rows.items():
            # Several threads write marks of one queue: the highest counts, in whichever batch it is.
            if name == "put_mark":
                for key, row in rows.items():
                    self._put_mark(key, row)
            else:
                self.rows.setdefault(name, {}).update(rows)
        self.paged += later.paged
        self.others += later.others
        # One witness is enough: the merged batch is written as a whole, or not at all.
        self.witness = self.witness or later.witness

    def mark(self, queue: QueueNumber, priority: int, up_to: ReferenceId) -> None:
        """Set a delivery mark, or delete it (0)."""
        key = (queue, priority)
        if up_to:
            self._put_mark(key, (*key, up_to))
        else:
            self.put("drop_mark", key, key)

    def _put_mark(self, key: Hashable, row: Row) -> None:
        rows = self.rows.setdefault("put_mark", {})
        # A mark only rises. The keys are equal, so the comparison of the rows compares the ids.
        if key not in rows or rows[key] < row:
            rows[key] = row

    @property
    def first_message(self) -> ReferenceId | None:
        """The id of a message that the batch certainly adds; None: there is none."""
        added = self.rows.get("add_message")
        if added:
            return next(iter(added.values()))[0]  # type: ignore[no-any-return]
        # Messages without holders may be left out while the rows are written,
        # so their absence would prove nothing.
        return next((message.reference.id for message in self.paged if message.reference.holders), None)

    def add(self, message: NewMessage, branch: int | None) -> None:
        """Add a message, and its entries if it is in several queues. Raises `CodecError`."""
        reference, envelope, queues = message.reference, message.envelope, message.queues
        # A message of one queue names the queue in its own row, and needs no entry (decision 0111).
        shared = len(queues) != 1
        queue = None if shared else queues[0]
        if envelope is None:
            # The body is read when the batch is written: a transaction may have more messages than memory can hold.
            self.paged.append(PagedMessage(reference, queue, branch))
        else:
            row = message_row(reference, queue, branch, encode(envelope))
            # `put` inline, as this runs for each message sent.
            rows = self.rows.get("add_message")
            if rows is None:
                rows = self.rows["add_message"] = {}
            rows[row[0]] = row
        if shared:
            for queue in queues:
                # The count is 0: each queue counts its own deliveries of the message.
                self.put("add_entry", (reference.id, queue), (reference.id, queue, 0))

    def remove(self, removals: Sequence[Removal]) -> None:
        """Remove messages from queues."""
        for removal in removals:
            reference = removal.reference
            row = (reference.id, removal.queue)
            if reference.shared:
                self.put("remove_entry", row, row)
                # The row of the message is deleted with its last entry; the statement itself checks whether there is another one.
                self.put("remove_unreferenced", reference.id, (reference.id,))
            else:
                self.put("remove_single", row, row)


def batch_of(rows: Sequence[Row]) -> Batch:
    """Return a batch that adds these rows of messages."""
    batch = Batch()
    batch.rows["add_message"] = {row[0]: row for row in rows}
    return batch


def queue_row(record: QueueRecord) -> Row:
    """Return the row of a queue or a durable subscription."""
    address, key = record.address, record.subscription
    return (
        *(record.number, int(address.kind), text_to_column(address.name), address.temporary),
        None if key is None else text_to_column(key.client_id),
        None if key is None else text_to_column(key.name),
        *(text_to_column(record.selector_text), record.no_local, text_to_column(record.policy), record.is_shared),
    )


def next_queue(number: QueueNumber) -> Row:
    """Return the row that raises the next free number above a number in use."""
    return number + 1, number + 1


def make_batch(changes: Changes) -> Batch:
    """Return `changes` as rows, except for branches, reader groups and staged units. Raises `CodecError`."""
    batch = Batch()
    for record in changes.definitions:
        batch.put("add_queue", record.number, queue_row(record))
        # A number is never used again, even if the queue is dropped before the next
        # start, as rows of its messages may remain.
        batch.put("raise_next_queue", record.number, next_queue(record.number))
    pipelines = changes.pipelines
    # A branch and a staged unit write their messages under their own number, and remove nothing until they are decided.
    if changes.prepared is None and (pipelines is None or pipelines.staged is None):
        for message in changes.messages:
            batch.add(message, None)
        if changes.removals:
            batch.remove(changes.removals)
    for queue, reference, count in changes.counts:
        # The count is in the message's entry of that queue, or in its own row if it is in one queue only.
        name = "count_entry" if reference.shared else "count_single"
        batch.put(name, (reference.id, queue), (count, reference.id, queue))
    for mark in changes.marks:
        batch.mark(*mark)
    for duplicate in changes.duplicates:
        address, number = duplicate.address, duplicate.queue
        place = (int(address.kind), text_to_column(address.name), address.temporary)
        key = (*place, duplicate.serial)
        row = (*key, text_to_column(duplicate.duplicate_id), duplicate.until_ms)
        if number is None:
            batch.put("put_duplicate", key, row)
        else:
            batch.put("put_queue_duplicate", (*key, number), (*row, number))
        if duplicate.forgets_below:
            # The key is the destination: of several sends in one batch the last bound replaces the others.
            batch.put("forget_duplicates", place, (*place, duplicate.forgets_below))
    if changes.clients is not None:
        _add_clients(batch, changes.clients, is_prepared=changes.prepared is not None)
    return batch


def _add_clients(batch: Batch, clients: ClientChanges, *, is_prepared: bool) -> None:
    """Add the changes of registered clients; a prepared branch writes their records under its own number."""
    for name in map(text_to_column, clients.dropped):
        batch.put("drop_client", name, (name,))
    for client, left_ms in clients.left:
        name = text_to_column(client)
        batch.put("leave_client", name, (left_ms, name))
    if not is_prepared:
        for record in clients.put:
            row = client_row(record)
            batch.put("put_client", row[0], row)


def client_row(record: ClientRecord) -> Row:
    """Return the row of a registered client."""
    return (
        *(text_to_column(record.name), record.generation, record.incarnation, text_to_column(record.owner)),
        *(record.registered_ms, text_to_column(record.request_tag), record.request_ms),
        *(text_to_column(record.reply_tag), record.reply_ms, record.left_ms),
    )


def merge(batches: Sequence[Batch]) -> Batch:
    """Return one batch with the effect of `batches` in their order."""
    # Most commits have one batch, which is not copied.
    if len(batches) == 1:
        return batches[0]
    whole = Batch()
    for batch in batches:
        whole.absorb(batch)
    return whole


# Branches of distributed transactions as rows: the changes of a prepared branch are stored separately until it is decided.


def add_branches(batch: Batch, changes: Changes, database: BatchTarget, next_number: Callable[[], int]) -> None:
    """Add the branch that `changes` prepare, and the outcomes of branches that they decide.

    Reads from the database which messages the decided branches remove. Raises `StoreError`, `CodecError`.
    """
    statements = database.statements
    prepared = changes.prepared
    if prepared is not None:
        number = next_number()
        for message in changes.messages:
            batch.add(message, number)
        key = _key(prepared.xid)
        batch.others.append((statements.add_branch, [(number, *key, prepared.prepared_ms)]))
        removals = [(number, removal.reference.id, removal.queue) for removal in changes.removals]
        if removals:
            batch.others.append((statements.add_branch_removal, removals))
        if changes.clients is not None and changes.clients.put:
            clients = [(number, *client_row(record)) for record in changes.clients.put]
            batch.others.append((statements.add_branch_client, clients))
        # A branch may have no messages, only removals: then its own row proves that the batch was committed.
        batch.witness = (statements.has_branch, (number,))
    for outcome in changes.outcomes:
        _decide(batch, outcome, database)


def _key(xid: Xid) -> Row:
    return xid.format_id, xid.global_transaction_id, xid.branch_qualifier


def _decide(batch: Batch, outcome: BranchOutcome, database: BatchTarget) -> None:
    statements, key, others = database.statements, _key(outcome.xid), batch.others
    # No row: the decision is already written, for instance if a commit of unknown outcome is repeated.
    for (number,) in database.query(statements.find_branch, key):
        if outcome.commit:
            removals: list[Row] = database.query(statements.branch_removals, (number,))
            # One statement makes all messages of the branch visible, however many there are.
            others.append((statements.publish_branch, [(number,)]))
            clients: list[Row] = database.query(statements.branch_clients, (number,))
            if clients:
                others.append((statements.put_client, clients))
            if removals:
                others.append((statements.remove_single, removals))
                others.append((statements.remove_entry, removals))
                others.append((statements.remove_unreferenced, [(message,) for message, _ in removals]))
        else:
            others.append((statements.drop_branch_entries, [(number,)]))
            others.append((statements.drop_branch_messages, [(number,)]))
        others.append((statements.drop_branch_removals, [(number,)]))
        others.append((statements.drop_branch_clients, [(number,)]))
        others.append((statements.drop_branch, [(number,)]))
    if outcome.heuristic:
        # Kept until the transaction manager forgets the branch: XA requires that
        # it can learn of a heuristic outcome even after a restart.
        others.append((statements.put_heuristic, [(*key, outcome.commit)]))
    else:
        others.append((statements.drop_heuristic, [key]))


# Dropping a queue: one write deletes the queue, and its messages follow in bounded runs, between the writes of other
# threads. There is no index by queue, as each send would pay for it. So all messages are scanned, a run of ids at a time.
# If the process dies meanwhile, the next opening finds messages of an unknown queue, and removes them.

_RUN: Final = 1000
"""The number of ids scanned in one write, which blocks other writers for a few milliseconds."""


def drop_queue(statements: Statements, number: QueueNumber) -> Batch:
    """Return a batch that deletes a queue, but not its messages."""
    batch = Batch()
    # The queue's row is deleted last: its duplicate ids are found by its address, which is read from that row.
    batch.others = [
        (statement, [(number,)])
        for statement in (
            statements.drop_queue_removals,
            statements.drop_queue_marks,
            statements.drop_queue_reserved,
            statements.drop_queue_groups,
            statements.drop_queue_duplicates,
            statements.drop_queue,
        )
    ]
    return batch


def add_dropped(batch: Batch, statements: Statements, numbers: Sequence[QueueNumber]) -> None:
    """Add the deletion of queues to a batch; it, or one merged with it, may define the next queues of the same names."""
    for number in numbers:
        # Among the ordered rows and not after them: duplicate ids of the next queue of this name, in this batch, must survive.
        batch.put("drop_queue_duplicates", number, (number,))
        batch.others += [
            each for each in drop_queue(statements, number).others if each[0] != statements.drop_queue_duplicates
        ]


def drop_messages(database: BatchTarget, number: QueueNumber) -> Iterator[Batch]:
    """Yield batches that remove the messages of a queue, run by run; each must be written before the next one is requested.

    Raises `StoreError`.
    """
    statements = database.statements
    after = 0
    # Read once: messages sent from now on belong to other queues, as this one is deleted.
    ((last,),) = database.query(statements.last_message)
    while last is not None and after < last:
        # Gaps between ids are skipped, as each run costs a commit.
        ((first,),) = database.query(statements.next_message, (after,))
        if first is None:
            return
        until = first + _RUN - 1
        batch = Batch()
        batch.others = [
            (statements.drop_queue_entries, [(number, after, until)]),
            (statements.drop_queue_messages, [(number, after, until)]),
            (statements.drop_unreferenced, [(after, until)]),
        ]
        yield batch
        after = until


# Reader groups with their reservations, and staged units with messages that wait for their epoch.


def add_pipelines(batch: Batch, changes: Changes, database: BatchTarget, next_number: Callable[[], int]) -> None:
    """Add the changes of reader groups and staged units.

    Reads from the database which rows belong to the units that end. Raises `StoreError`, `CodecError`.
    """
    pipelines = changes.pipelines
    assert pipelines is not None
    _add_groups(batch, pipelines, database)
    statements, others = database.statements, batch.others
    staged = pipelines.staged
    if staged is not None:
        number = next_number()
        for message in changes.messages:
            batch.add(message, number)
        name = _name_row(staged.name)
        row = (number, *name, staged.messages, staged.staged_ms, staged.discarded_after_ms)
        others.append((statements.add_stage, [row]))
        # As with a branch: for a unit without messages its own row is the proof.
        batch.witness = (statements.has_stage, (number,))
    for stage_name, is_promoted in pipelines.outcomes:
        for (number,) in database.query(statements.find_stage, _name_row(stage_name)):
            if is_promoted:
                others.append((statements.publish_branch, [(number,)]))
            else:
                others.append((statements.drop_branch_entries, [(number,)]))
                others.append((statements.drop_branch_messages, [(number,)]))
            others.append((statements.drop_stage, [(number,)]))
    if pipelines.markers:
        others.append(
            (statements.put_stage_marker, [(text_to_column(sink), epoch) for sink, epoch in pipelines.markers])
        )


def _add_groups(batch: Batch, pipelines: PipelineChanges, database: BatchTarget) -> None:
    statements, others = database.statements, batch.others
    if pipelines.groups:
        others.append((statements.put_group, [_group_row(record) for record in pipelines.groups]))
    if pipelines.reserved:
        rows = [(each.group, each.number, each.reference.id, each.count) for each in pipelines.reserved]
        others.append((statements.put_reserved, rows))
    for group, upto in pipelines.acknowledged:
        # The reservations are deleted and the group's lower bound is raised in one write: a restart sees both or neither.
        others.append((statements.drop_acknowledged, [(group, upto)]))
        others.append((statements.raise_low, [(upto, group)]))
    for group in pipelines.released:
        others.append((statements.drop_reserved, [(group,)]))
        others.append((statements.drop_group, [(group,)]))


def _name_row(name: StageName) -> Row:
    return text_to_column(name.sink), name.epoch, name.partition, text_to_column(name.attempt)


def _group_row(record: GroupRecord) -> Row:
    return (
        *(record.number, text_to_column(record.name), record.queue, text_to_column(record.selector_text)),
        *(text_to_column(record.generation), record.low, record.fence, record.opened_ms),
    )
