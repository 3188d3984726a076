"""Changes as rows of statements, ready to be executed together with those of others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyjms_provider.core.journal import Changes, QueueNumber, Removal
from pyjms_provider.core.reference import MessageReference, ReferenceId
from pyjms_provider.stores.codec import encode

if TYPE_CHECKING:
    from pyjms_provider.stores.sql.statements import Statements

__all__ = ["Batch", "Row", "make_batch", "merge", "text_from_column", "text_to_column"]

Row = tuple[Any, ...]

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
    """Rows by statement. Their order among each other does not matter but for this: additions, counts, removals, others.

    Ids are used once, a message is removed only after its addition was written, and setting a count, a mark or a
    duplicate id again changes nothing: so batches may be merged, and be executed again.
    """

    __slots__ = (
        "add_entry",
        "add_message",
        "counts",
        "duplicates",
        "entry_counts",
        "marks",
        "others",
        "remove_entry",
        "remove_single",
        "witness",
    )

    def __init__(self) -> None:
        self.add_message: list[Row] = []
        self.add_entry: list[Row] = []
        self.counts: dict[tuple[int, int], int] = {}
        self.entry_counts: dict[tuple[int, int], int] = {}
        self.remove_single: list[Row] = []
        self.remove_entry: list[Row] = []
        self.marks: dict[tuple[QueueNumber, int], ReferenceId] = {}
        self.duplicates: list[Row] = []
        self.others: list[tuple[str, Sequence[Row]]] = []
        """Statements that run last, in this order."""
        self.witness: tuple[str, Row] | None = None
        """A query that finds a row exactly when the batch was written, for one whose additions do not tell."""

    def steps(self, statements: Statements) -> list[tuple[str, Sequence[Row]]]:
        """Return what is to be executed, in this order."""
        steps: list[tuple[str, Sequence[Row]]] = []
        if self.add_message:
            steps.append((statements.add_message, self.add_message))
        if self.add_entry:
            steps.append((statements.add_entry, self.add_entry))
        if self.counts:
            steps.append((statements.count_single, [(count, *key) for key, count in self.counts.items()]))
        if self.entry_counts:
            steps.append((statements.count_entry, [(count, *key) for key, count in self.entry_counts.items()]))
        if self.remove_single:
            steps.append((statements.remove_single, self.remove_single))
        if self.remove_entry:
            steps.append((statements.remove_entry, self.remove_entry))
            unreferenced = [(message,) for message in dict.fromkeys(row[0] for row in self.remove_entry)]
            steps.append((statements.remove_unreferenced, unreferenced))
        if self.marks:
            steps.append((statements.put_mark, [(*key, message) for key, message in self.marks.items()]))
        if self.duplicates:
            steps.append((statements.put_duplicate, self.duplicates))
        steps += self.others
        return steps

    def absorb(self, later: Batch) -> None:
        """Do what `later` does, too, and after the rest."""
        self.add_message += later.add_message
        self.add_entry += later.add_entry
        self.counts |= later.counts
        self.entry_counts |= later.entry_counts
        self.remove_single += later.remove_single
        self.remove_entry += later.remove_entry
        self.marks |= later.marks
        self.duplicates += later.duplicates
        self.others += later.others
        self.witness = self.witness or later.witness

    def add(self, reference: MessageReference, queues: Sequence[QueueNumber], branch: int | None, body: bytes) -> None:
        """Add a message, and its entries if it is in several queues."""
        shared = len(queues) != 1
        self.add_message.append(
            (
                reference.id,
                None if shared else queues[0],
                branch,
                reference.priority,
                reference.expiration_ms,
                reference.deliver_at_ms,
                reference.reliable,
                0,
                body,
            )
        )
        if shared:
            self.add_entry += [(reference.id, queue, 0) for queue in queues]

    def remove(self, removals: Sequence[Removal]) -> None:
        """Take messages out of queues."""
        for removal in removals:
            row = (removal.reference.id, removal.queue)
            (self.remove_entry if removal.reference.shared else self.remove_single).append(row)


def make_batch(changes: Changes) -> Batch:
    """Return `changes` as rows, all but their branches. Raises `CodecError`."""
    batch = Batch()
    if changes.prepared is None:
        for message in changes.messages:
            batch.add(message.reference, message.queues, None, encode(message.envelope))
        batch.remove(changes.removals)
    for queue, reference, count in changes.counts:
        (batch.entry_counts if reference.shared else batch.counts)[reference.id, queue] = count
    for queue, priority, message_id in changes.marks:
        batch.marks[queue, priority] = message_id
    for mark in changes.duplicates:
        address, duplicate_id = mark.address, text_to_column(mark.duplicate_id)
        name = text_to_column(address.name)
        batch.duplicates.append((int(address.kind), name, address.temporary, duplicate_id, mark.until_ms))
    return batch


def merge(batches: Sequence[Batch]) -> Batch:
    """Return one batch that does what `batches` do, one after the other."""
    if len(batches) == 1:
        return batches[0]
    whole = Batch()
    for batch in batches:
        whole.absorb(batch)
    return whole
