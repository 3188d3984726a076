"""What a unit of work has written: functions of what it sends and has received. It is COMMITTING, so nobody changes either."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pyjms_provider.core.journal.journal import Changes, NewMessage, PipelineChanges, PreparedBranch
from pyjms_provider.core.journal.queue_journal import removals_of
from pyjms_provider.core.queue.recovery import uncommitted_messages

if TYPE_CHECKING:
    from pyjms.spi.xid import Xid
    from pyjms_provider.core.journal.journal import QueueNumber, StageRecord
    from pyjms_provider.core.journal.queue_journal import KeptQueue
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.entry import EntryQueue, QueueEntry

__all__ = ["UnitChanges", "by_queue", "changes_of", "entries_by_queue", "prepared_changes", "staged_changes"]

_T = TypeVar("_T")


class UnitChanges(NamedTuple):
    """What is written of a unit, and what is defined with it."""

    changes: Changes
    defining: Sequence[KeptQueue] = ()
    """Kept here, as a queue that ends meanwhile no longer knows."""

    def note_written(self) -> None:
        """Note that it has been written. Does not wait."""
        for message in self.changes.messages:
            message.reference.journaled = True
        for kept in self.defining:
            kept.was_defined()


def changes_of(
    sent: Iterable[QueueEntry], settled: Iterable[tuple[QueueEntry, int]], *, with_transient: bool = False
) -> UnitChanges | None:
    """Return what must be written; None: nothing. `with_transient`: also messages that are NON_PERSISTENT."""
    changes = Changes()
    defining: list[KeptQueue] = []
    messages: dict[MessageReference, NewMessage] = {}
    for queue, entries in entries_by_queue(sent).items():
        kept = queue.kept
        if kept is None:
            continue
        alone = (kept.number,)
        for reference, envelope in uncommitted_messages(queue, entries, with_transient=with_transient):
            queues: tuple[QueueNumber, ...] = alone
            if reference in messages:
                queues = (*messages[reference].queues, kept.number)
                reference.shared = True
            messages[reference] = NewMessage(reference, envelope, queues)
            if kept.definition is not None:
                kept.add_definition(changes)
                defining.append(kept)
    removals = removals_of(dict.fromkeys(entry for entry, _ in settled))  # once each, also if it was acknowledged twice
    if not messages and not removals:
        return None
    changes.messages, changes.removals = list(messages.values()), removals
    return UnitChanges(changes, defining)


def prepared_changes(
    sent: Iterable[QueueEntry], settled: Sequence[tuple[QueueEntry, int]], xid: Xid, now_ms: int
) -> UnitChanges:
    """Return what must be written of a prepared branch.

    The ids of its producers are not in it: they have not arrived; who decides writes them with the decision.
    """
    written = changes_of(sent, settled) or UnitChanges(Changes())
    written.changes.prepared = PreparedBranch(xid, now_ms)
    # Exactly, as no delivery mark tells of it when the branch has been in doubt over several starts.
    written.changes.counts = [
        (kept.number, entry.reference, delivery_count)
        for entry, delivery_count in settled
        if (kept := entry.queue.kept) is not None and entry.reference.journaled  # as in `removals_of`
    ]
    return written


def staged_changes(
    sent: Iterable[QueueEntry], settled: Iterable[tuple[QueueEntry, int]], record: StageRecord
) -> UnitChanges:
    """Return what must be written of a staged unit: all that it sends. The ids of its producers as in `prepared_changes`."""
    written = changes_of(sent, settled, with_transient=True) or UnitChanges(Changes())
    written.changes.pipelines = PipelineChanges(staged=record)
    return written


def entries_by_queue(entries: Iterable[QueueEntry]) -> dict[EntryQueue, list[QueueEntry]]:
    """Return messages by their queues, both in the order given."""
    answer: dict[EntryQueue, list[QueueEntry]] = {}
    last: EntryQueue | None = None
    found: list[QueueEntry] = []
    for entry in entries:  # most are of one queue
        if entry.queue is not last:
            last = entry.queue
            found = answer.setdefault(last, [])
        found.append(entry)
    return answer


def by_queue(items: Iterable[tuple[QueueEntry, _T]]) -> dict[EntryQueue, list[tuple[QueueEntry, _T]]]:
    """Return messages, each with something, by their queues, both in the order given."""
    answer: dict[EntryQueue, list[tuple[QueueEntry, _T]]] = {}
    last: EntryQueue | None = None
    found: list[tuple[QueueEntry, _T]] = []
    for item in items:
        if item[0].queue is not last:
            last = item[0].queue
            found = answer.setdefault(last, [])
        found.append(item)
    return answer
