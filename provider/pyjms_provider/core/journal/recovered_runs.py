"""Messages that a journal found again, many at a time: a million of them must not take as many objects to be known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby

from pyjms_provider.core.journal.journal import QueueNumber, RecoveredEntry
from pyjms_provider.core.message.reference import MESSAGE_OVERHEAD, MessageReference, ReferenceId

__all__ = ["RecoveredRun", "RecoveredRuns", "in_runs", "plain_reference"]


@dataclass(frozen=True, slots=True)
class RecoveredRun:
    """Messages of one queue and one priority about which there is nothing else to know.

    They are PERSISTENT, in this queue alone, never expire, are not scheduled, and were never delivered as far as is
    written.
    """

    queue: QueueNumber
    priority: int
    ids: Sequence[int]
    """Growing."""
    sizes: Sequence[int]
    """So many bytes each of them takes in the journal."""

    def __iter__(self) -> Iterator[RecoveredEntry]:
        for message_id, size in zip(self.ids, self.sizes, strict=True):
            yield RecoveredEntry(self.queue, plain_reference(message_id, self.priority, size), 0)


class RecoveredRuns(Iterator[RecoveredEntry]):
    """The entries of a recovery, one by one; or, for who can take many at once, `but_for`. Either is read, and once.

    Those of a queue come in the order in which they were added.
    """

    def __init__(self, runs: Iterator[Iterable[RecoveredEntry]]) -> None:
        self.runs = runs
        """`RecoveredRun`, and other entries a few at a time. Those of a queue and a priority come in the order in which they
        were added, and no run begins before another one that it follows, or before other entries that it follows."""
        self._entries = self.but_for(lambda _: False)

    def __next__(self) -> RecoveredEntry:
        return next(self._entries)

    def but_for(self, takes: Callable[[RecoveredRun], bool]) -> Iterator[RecoveredEntry]:
        """Yield, one by one, all entries but those of runs that `takes` has taken, and returned True for.

        To a queue whose order is not that of priorities, runs that overlap are one.
        """
        waiting: list[RecoveredRun] = []
        last = 0
        for run in self.runs:
            if waiting and not (isinstance(run, RecoveredRun) and run.ids[0] < last):
                yield from merge(*waiting, key=_message)
                waiting.clear()
            if not isinstance(run, RecoveredRun):
                yield from run
            elif not takes(run):
                last = max(last, run.ids[-1])
                waiting.append(run)
        yield from merge(*waiting, key=_message)


def _message(entry: RecoveredEntry) -> ReferenceId:
    return entry.reference.id


def plain_reference(message_id: int, priority: int, size: int) -> MessageReference:
    """Return the reference of a message of a run, as a journal finds it."""
    reference = MessageReference(ReferenceId(message_id), None, 0, priority, True)
    reference.size = size + MESSAGE_OVERHEAD
    return reference


def in_runs(entries: Iterable[RecoveredEntry]) -> RecoveredRuns:
    """Return entries, which come one by one, as runs as far as that can be."""
    return RecoveredRuns(
        found if lane is None else _run(*lane, found)
        for lane, found in ((lane, list(found)) for lane, found in groupby(entries, _lane))
    )


def _lane(entry: RecoveredEntry) -> tuple[QueueNumber, int] | None:
    reference = entry.reference
    is_special = reference.expiration_ms or reference.deliver_at_ms or reference.shared or entry.delivery_count
    return None if is_special or not reference.reliable else (entry.queue, reference.priority)


def _run(queue: QueueNumber, priority: int, entries: Sequence[RecoveredEntry]) -> RecoveredRun:
    references = [entry.reference for entry in entries]
    sizes = [max(reference.size - MESSAGE_OVERHEAD, 0) for reference in references]
    return RecoveredRun(queue, priority, [reference.id for reference in references], sizes)
