"""The available messages of one priority, by age, with gaps for those that were taken from the middle.

A machine without a lock, as `entry_list.py`, whose invariants these are. Places are counted from the beginning of the lists; they change with each call.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from pyjms_provider.core.journal.journal import plain_reference
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.entry import QueueEntry

if TYPE_CHECKING:
    from pyjms_provider.core.queue.entry import EntryQueue

SPARE: Final = 64  # gaps, or passed places, that are not worth tidying
_COPIES: Final = 8  # so many places that are moved by the list itself cost as one that is copied


class PriorityLevel:
    """The available messages of one priority."""

    __slots__ = ("bit", "entries", "head", "live", "queue", "sequences")

    def __init__(self, bit: int) -> None:
        self.bit = bit
        """What says in the ordering's mask that the lane is not empty."""
        self.entries: list[QueueEntry | int | None] = []
        """None: a gap. A number: the message is dormant, and takes so many bytes in the journal; its sequence is its id."""
        self.sequences: list[int] = []
        self.head = 0
        self.live = 0
        self.queue: EntryQueue | None = None
        """Whose messages they are; known once there have been dormant ones."""

    def at(self, index: int) -> QueueEntry | None:
        """Return the message at `index`, awake; None: a gap."""
        entry = self.entries[index]
        return self.wake(index, entry) if isinstance(entry, int) else entry

    def wake(self, index: int, size: int) -> QueueEntry:
        """Make the objects of a dormant message."""
        assert self.queue is not None
        sequence = self.sequences[index]
        reference = plain_reference(sequence, self.bit.bit_length() - 1, size)
        reference.journaled = True
        entry = self.entries[index] = QueueEntry(self.queue, reference, MessageState.NEW)
        entry.sequence = sequence
        return entry

    def drop(self, index: int) -> bool:
        """Make a gap at `index`; return whether the lane is empty now."""
        entries = self.entries
        entries[index] = None
        self.live -= 1
        if not self.live:
            self.head = len(entries)
            if self.head > SPARE:
                self._forget_passed()
            return True
        if index == self.head:
            index += 1
            while entries[index] is None:
                index += 1
            self.head = index
            if index > SPARE and index * 2 > len(entries):
                self._forget_passed()
        elif len(entries) - self.head > 2 * self.live + SPARE:
            self._close_gaps()
        return False

    def _forget_passed(self) -> None:
        del self.entries[: self.head]
        del self.sequences[: self.head]
        self.head = 0

    def _close_gaps(self) -> None:
        sequences = [each for each, entry in zip(self.sequences, self.entries, strict=True) if entry is not None]
        entries = [entry for entry in self.entries if entry is not None]
        self.sequences = sequences
        self.entries = entries  # type: ignore[assignment]  # a list of fewer types
        self.head = 0

    def _rebuild(self, returned: list[QueueEntry]) -> None:
        sequences = [entry.sequence for entry in returned]
        entries = list(returned)
        self.sequences = sequences
        self.entries = entries  # type: ignore[assignment]  # as before
        self.head = 0

    def find(self, sequence: int) -> int:
        """Return the index of the available message with `sequence`, or -1."""
        index = bisect_left(self.sequences, sequence, self.head)
        if index < len(self.sequences) and self.sequences[index] == sequence and self.entries[index] is not None:
            return index
        return -1

    def put_back(self, returned: list[QueueEntry]) -> None:
        """Restore `returned`, sorted by sequence, to their places."""
        if not self.live:
            self._rebuild(returned)
        else:
            homeless = self._put_into_gaps(returned)
            if homeless:
                self._squeeze_in(homeless)
        self.live += len(returned)

    def _put_into_gaps(self, returned: list[QueueEntry]) -> list[QueueEntry]:
        """Restore those whose gaps are there; return the others: theirs have been passed, or closed."""
        sequences, entries, head = self.sequences, self.entries, self.head
        homeless: list[QueueEntry] = []
        for entry in returned:
            index = bisect_left(sequences, entry.sequence, head)
            if index < len(sequences) and sequences[index] == entry.sequence:
                entries[index] = entry
            else:
                homeless.append(entry)
        return homeless

    def _squeeze_in(self, returned: list[QueueEntry]) -> None:
        """Make places for messages that have none, sorted: what is before the last of them moves towards the front, or what is behind them back.

        No object is looked at, and none is woken.
        """
        head, size = self.head, len(returned)
        first = bisect_left(self.sequences, returned[0].sequence, head)
        last = bisect_left(self.sequences, returned[-1].sequence, first)
        goes_forward = (last - head) <= (len(self.sequences) - first) // _COPIES
        low = head if goes_forward else first
        entries, sequences = self._merged(returned, low, last)
        if goes_forward and head >= size:
            self.entries[head - size : last] = entries
            self.sequences[head - size : last] = sequences
            self.head = head - size
        elif goes_forward:  # with some room for those who give back one by one: they move the rest seldom
            self.entries[:last] = [None] * SPARE + entries
            self.sequences[:last] = [0] * SPARE + sequences
            self.head = SPARE
        else:
            self.entries[first:last] = entries
            self.sequences[first:last] = sequences

    def _merged(
        self, returned: list[QueueEntry], low: int, high: int
    ) -> tuple[list[QueueEntry | int | None], list[int]]:
        """Return what stands from `low` to `high`, and `returned`, together."""
        entries: list[QueueEntry | int | None] = []
        sequences: list[int] = []
        for entry in returned:
            place = bisect_left(self.sequences, entry.sequence, low, high)
            entries += self.entries[low:place]
            sequences += self.sequences[low:place]
            entries.append(entry)
            sequences.append(entry.sequence)
            low = place
        entries += self.entries[low:high]
        sequences += self.sequences[low:high]
        return entries, sequences
