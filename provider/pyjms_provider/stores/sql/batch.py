"""Changes as rows of statements, ready to be executed together with those of others."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Final

from pyjms_provider.core.journal.journal import Changes, NewMessage, QueueNumber, QueueRecord, Removal
from pyjms_provider.core.message.reference import ReferenceId
from pyjms_provider.stores.codec import encode
from pyjms_provider.stores.sql.message_rows import PagedMessage, PagedRows, Row, message_row

if TYPE_CHECKING:
    from pyjms_provider.stores.sql.database import Database

__all__ = [
    "Batch",
    "Row",
    "batch_of",
    "make_batch",
    "merge",
    "next_queue",
    "queue_row",
    "text_from_column",
    "text_to_column",
]

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
)
"""Ids of a queue that is gone, before those of the next one of its name; queues, additions, counts, removals; marks that are forgotten before those that are put. Beyond that the order does not matter."""
_LAST: Final = "put_queue_duplicate"
"""Ids of queues that are still there when all else has been done."""

_AWKWARD = re.compile("[\\\\\0\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u([0-9a-f]{4})")


def text_to_column(text: str | None) -> str | None:
    """Return `text` without what PostgreSQL or UTF-8 do not take: NUL, and half of a surrogate pair."""
    if text is None or not _AWKWARD.search(text):
        return text
    return _AWKWARD.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def text_from_column(text: str | None) -> str | None:
    """Return what `text_to_column` was given."""
    if text is None or "\\" not in text:
        return text
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


class Batch:
    """Rows by statement and key, to be executed in the order of `_ORDER`, and other statements after them.

    Ids are used once, a message is removed only after its addition was written, and setting a count, a mark or a
    duplicate id again changes nothing: so batches may be merged, and be executed again.
    """

    __slots__ = ("others", "paged", "rows", "witness")

    def __init__(self) -> None:
        self.rows: dict[str, dict[Hashable, Row]] = {}
        """By the name of a statement in `Statements`: rows by what they are about, so that of two the later one stays."""
        self.paged: list[PagedMessage] = []
        """Messages that are added besides, and read only then."""
        self.others: list[tuple[str, Sequence[Row]]] = []
        """Statements that run last, in this order."""
        self.witness: tuple[str, Row] | None = None
        """A query that finds a row exactly when the batch was written, for one whose additions do not tell."""

    def steps(self, database: Database) -> Sequence[tuple[str, Collection[Row]]]:
        """Return what is to be executed, in this order."""
        rows, statements = self.rows, database.statements
        if len(rows) == 1 and not self.others and not self.paged:  # what most batches are
            name, found = next(iter(rows.items()))
            return ((getattr(statements, name), found.values()),)
        steps: list[tuple[str, Collection[Row]]] = []
        for name in _ORDER:
            if name in rows:
                steps.append((getattr(statements, name), rows[name].values()))
            if name == "add_message" and self.paged:
                steps.append((statements.add_message, PagedRows(self.paged, database.read_paged)))
        steps += self.others
        if _LAST in rows:
            steps.append((getattr(statements, _LAST), rows[_LAST].values()))
        return steps

    def put(self, name: str, key: Hashable, row: Row) -> None:
        """Have the statement called `name` run with `row`, and no longer with what was put under that key before."""
        self.rows.setdefault(name, {})[key] = row

    def absorb(self, later: Batch) -> None:
        """Do what `later` does, too, and after the rest."""
        for name, rows in later.rows.items():
            if name == "put_mark":
                for key, row in rows.items():
                    self._put_mark(key, row)
            else:
                self.rows.setdefault(name, {}).update(rows)
        self.paged += later.paged
        self.others += later.others
        self.witness = self.witness or later.witness

    def mark(self, queue: QueueNumber, priority: int, up_to: ReferenceId) -> None:
        """Put a delivery mark, or forget it (0)."""
        key = (queue, priority)
        if up_to:
            self._put_mark(key, (*key, up_to))
        else:
            self.put("drop_mark", key, key)

    def _put_mark(self, key: Hashable, row: Row) -> None:
        rows = self.rows.setdefault("put_mark", {})
        if key not in rows or rows[key] < row:  # the keys are equal, so the ids decide
            rows[key] = row

    @property
    def first_message(self) -> ReferenceId | None:
        """The id of a message that is added; None: none is."""
        added = self.rows.get("add_message")
        if added:
            return next(iter(added.values()))[0]  # type: ignore[no-any-return]
        # others may be left out
        return next((message.reference.id for message in self.paged if message.reference.holders), None)

    def add(self, message: NewMessage, branch: int | None) -> None:
        """Add a message, and its entries if it is in several queues. Raises `CodecError`."""
        reference, envelope, queues = message.reference, message.envelope, message.queues
        shared = len(queues) != 1
        queue = None if shared else queues[0]
        if envelope is None:
            self.paged.append(PagedMessage(reference, queue, branch))
        else:
            row = message_row(reference, queue, branch, encode(envelope))
            rows = self.rows.get("add_message")
            if rows is None:
                rows = self.rows["add_message"] = {}
            rows[row[0]] = row
        if shared:
            for queue in queues:
                self.put("add_entry", (reference.id, queue), (reference.id, queue, 0))

    def remove(self, removals: Sequence[Removal]) -> None:
        """Take messages out of queues."""
        for removal in removals:
            reference = removal.reference
            row = (reference.id, removal.queue)
            if reference.shared:
                self.put("remove_entry", row, row)
                self.put("remove_unreferenced", reference.id, (reference.id,))
            else:
                self.put("remove_single", row, row)


def batch_of(rows: Sequence[Row]) -> Batch:
    """Return what adds messages, and nothing else."""
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
        *(text_to_column(record.selector_text), record.no_local, text_to_column(record.policy)),
    )


def next_queue(number: QueueNumber) -> Row:
    """Return the row that says that a number is in use."""
    return number + 1, number + 1


def make_batch(changes: Changes) -> Batch:
    """Return `changes` as rows, all but branches, reader groups and staged units. Raises `CodecError`."""
    batch = Batch()
    for record in changes.definitions:
        batch.put("add_queue", record.number, queue_row(record))
        batch.put("raise_next_queue", record.number, next_queue(record.number))
    pipelines = changes.pipelines
    if changes.prepared is None and (pipelines is None or pipelines.staged is None):
        for message in changes.messages:
            batch.add(message, None)
        if changes.removals:
            batch.remove(changes.removals)
    for queue, reference, count in changes.counts:
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
            batch.put("forget_duplicates", place, (*place, duplicate.forgets_below))
    return batch


def merge(batches: Sequence[Batch]) -> Batch:
    """Return one batch that does what `batches` do, one after the other."""
    if len(batches) == 1:
        return batches[0]
    whole = Batch()
    for batch in batches:
        whole.absorb(batch)
    return whole
