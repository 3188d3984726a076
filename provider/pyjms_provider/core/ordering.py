"""The order in which available messages leave a queue: by priority, then by age (§9, §10; JMS 1.1 §3.4.10, §4.4.10).

A machine without a lock: its queue calls it under the queue's own.

Each priority has a lane, sorted by sequence number. A message that is taken from the middle leaves a gap, which is
skipped, and closed when gaps outnumber messages; so adding and taking cost O(1) on average however the queue is used.
A message that is given back goes into its old place.

A message that was found again after a restart, or that came behind many others, and that nobody has asked for yet, may be
*dormant*: two numbers in its lane, no objects. It wakes when it is looked at, with another reference of the same id.

Invariants: a lane's `entries` and `sequences` are parallel and sorted from `head` on; the entry at `head` is available
unless the lane is empty, and before it there are gaps alone; bit P of the mask says that lane P is not empty.

Python may interrupt the main thread at any call. So what belongs together is worked out before, and stored without a call in between; where that
cannot be, who is interrupted mends the lane first: a message is in its place then, or was never given one (decision 0206).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal

from pyjms_provider.core.cursor import (
    PRIORITIES,
    UNFINISHED,
    Cursor,
    SharedCursors,
    Unfinished,
    first_noted,
    forget_noted,
    is_noted,
    note_behind,
    note_place,
)
from pyjms_provider.core.entry import QueueEntry
from pyjms_provider.core.message_state import MessageState
from pyjms_provider.core.passed_over import PassedOver
from pyjms_provider.core.recovered_runs import plain_reference
from pyjms_provider.core.reference import MESSAGE_OVERHEAD, MessageReference

if TYPE_CHECKING:
    from pyjms_provider.core.queue import Queue

__all__ = ["BACKLOG", "Ordering"]

BACKLOG: Final = 1000
"""Behind so many messages of its priority one is dormant if it can be: many objects cost memory, and time to collect."""
_SPARE: Final = 64  # gaps, or passed places, that are not worth tidying
_COPIES: Final = 8  # so many places that are moved by the list itself cost as one that is copied

_BITS: Final = tuple(1 << priority for priority in range(PRIORITIES))
_LEVELS: Final = tuple(range(PRIORITIES))  # each priority is a level of its own
_by_sequence = attrgetter("sequence")


class _Lane:
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
        self.queue: Queue | None = None
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
            if self.head > _SPARE:
                self._forget_passed()
            return True
        if index == self.head:
            index += 1
            while entries[index] is None:
                index += 1
            self.head = index
            if index > _SPARE and index * 2 > len(entries):
                self._forget_passed()
        elif len(entries) - self.head > 2 * self.live + _SPARE:
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

    def repair(self) -> None:
        """Make all agree again after an interrupt: what is in one of the two lists alone has no place."""
        entries, sequences = self.entries, self.sequences
        both = min(len(entries), len(sequences))
        del entries[both:], sequences[both:]
        self.head = next((index for index, entry in enumerate(entries) if entry is not None), both)
        self.live = both - entries.count(None)

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
        # With no call from here on, at which Python could interrupt the thread while one list is longer than the other.
        if goes_forward and head >= size:
            self.entries[head - size : last] = entries
            self.sequences[head - size : last] = sequences
            self.head = head - size
        elif goes_forward:  # with some room for those who give back one by one: they move the rest seldom
            self.entries[:last] = [None] * _SPARE + entries
            self.sequences[:last] = [0] * _SPARE + sequences
            self.head = _SPARE
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


class Ordering:
    """The available messages of one queue."""

    __slots__ = ("_by_priority", "_cursors", "_lanes", "_last", "_levels", "_mask", "may_sleep", "passed_over")

    def __init__(self, levels: tuple[int, ...] = _LEVELS) -> None:
        """`levels`: the lane of each JMS priority; the higher lane comes first."""
        self._levels = levels
        self.may_sleep = False
        """Whether messages may be dormant that have come: nobody else remembers entries."""
        self._make_lanes()
        self._mask = 0
        self._last = 0
        self._cursors: SharedCursors[Cursor] = SharedCursors()
        self.passed_over = PassedOver()

    def _make_lanes(self) -> None:
        lanes = tuple(map(_Lane, _BITS))
        self._by_priority = tuple(lanes[level] for level in self._levels)
        self._lanes = lanes

    def __len__(self) -> int:
        mask, total = self._mask, 0
        while mask:  # who watches over thousands of queues asks each of them, and most have one priority, if any
            priority = mask.bit_length() - 1
            total += self._lanes[priority].live
            mask ^= _BITS[priority]
        return total

    def __bool__(self) -> bool:
        return self._mask != 0

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yield the available messages in order; nothing may change meanwhile."""
        for lane in reversed(self._lanes):
            for index in range(len(lane.entries)):
                entry = lane.at(index)
                if entry is not None:
                    yield entry

    def awake(self) -> Iterator[QueueEntry]:
        """Yield the available messages that are not dormant, in order; nothing may change meanwhile."""
        for lane in reversed(self._lanes):
            for entry in lane.entries:
                if isinstance(entry, QueueEntry):
                    yield entry

    @property
    def dormant_size(self) -> int:
        """About how many bytes the dormant messages take."""
        return sum(entry + MESSAGE_OVERHEAD for lane in self._lanes for entry in lane.entries if entry.__class__ is int)

    def following(self, reference: MessageReference, most: int) -> list[MessageReference]:
        """Return up to `most` messages that will probably be wanted after that one, or about as many."""
        answer: list[MessageReference] = []
        level = self._levels[reference.priority]
        for priority in range(level, -1, -1):
            lane = self._lanes[priority]
            first = reference.id if priority == level else 0
            index = bisect_right(lane.sequences, first, lane.head)
            for place in range(index, min(index + 2 * most, len(lane.entries))):
                if len(answer) == most:
                    return answer
                entry = lane.at(place)
                if entry is not None:
                    answer.append(entry.reference)
        return answer

    def append_run(self, queue: Queue, priority: int, ids: Sequence[int], sizes: Sequence[int]) -> bool:
        """Give messages of `queue` the last places of their priority, dormant, as `RecoveredRun` has them.

        Return False, having done nothing, if they must come one by one.
        """
        if self._levels is not _LEVELS or ids[0] <= self._last:
            return False
        lane = self._lanes[priority]
        lane.queue = queue
        lane.entries += sizes
        lane.sequences += ids
        lane.live += len(ids)
        self._last = ids[-1]
        self._mask |= lane.bit
        return True

    def oldest(self) -> list[QueueEntry]:
        """Return the oldest message of each priority."""
        heads = (lane.at(lane.head) for lane in self._lanes if lane.live)
        return [entry for entry in heads if entry is not None]

    def first(self, most: int) -> list[QueueEntry]:
        """Return up to `most` messages of those that leave first; fewer where many have been taken from the middle."""
        answer: list[QueueEntry] = []
        for lane in reversed(self._lanes):
            if lane.live:
                places = map(lane.at, range(lane.head, min(lane.head + 2 * most, len(lane.entries))))
                answer += islice((entry for entry in places if entry is not None), most - len(answer))
        return answer

    @property
    def last_place(self) -> int:
        """The highest sequence number of all messages that have come."""
        return self._last

    def newest(self, most: int) -> list[QueueEntry]:
        """Return up to about `most` messages of each priority that came last."""
        places = ((lane, place) for lane in self._lanes if lane.live for place in _last_places(lane, most))
        return [entry for lane, place in places if (entry := lane.at(place)) is not None]

    def append(self, entry: QueueEntry) -> None:
        """Give `entry` the last place of its priority."""
        reference = entry.reference
        # The reference's own number serves when it grows, as it nearly always does: one integer less for each message.
        sequence: int = reference.id
        if sequence <= self._last:
            sequence = self._last + 1
        self._last = entry.sequence = sequence
        lane = self._by_priority[reference.priority]
        try:
            if lane.live >= BACKLOG and self.may_sleep and self._is_plain(entry):
                lane.queue = entry.queue
                lane.entries.append(max(reference.size - MESSAGE_OVERHEAD, 0))
            else:
                lane.entries.append(entry)
            lane.sequences.append(sequence)
            lane.live += 1
            self._mask |= lane.bit
        except BaseException:
            self._repair(lane)
            if lane.find(sequence) < 0:
                entry.sequence = 0
            raise

    def pass_by(self, entry: QueueEntry) -> None:
        """Give `entry`, which somebody takes at once, the sequence number of the place that it would have had."""
        sequence: int = entry.reference.id
        if sequence <= self._last:
            sequence = self._last + 1
        self._last = entry.sequence = sequence

    def _is_plain(self, entry: QueueEntry) -> bool:
        """Return whether all that there is to know of a message can be found again by its place."""
        reference = entry.reference
        is_special = reference.expiration_ms or reference.deliver_at_ms or reference.shared or entry.delivery_count
        is_alone = reference.holders == 1 and entry.sequence == reference.id
        return is_alone and not is_special and reference.journaled and reference.reliable and self._levels is _LEVELS

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        """Put entries that were taken back into their old places."""
        by_priority: dict[int, list[QueueEntry]] = {}
        for entry in entries:
            by_priority.setdefault(self._levels[entry.reference.priority], []).append(entry)
        try:
            self._put_back(by_priority)
        except BaseException:
            self._repair(*self._lanes)
            self._put_back(by_priority, again=True)
            raise

    def _put_back(self, by_priority: dict[int, list[QueueEntry]], *, again: bool = False) -> None:
        for priority, returned in by_priority.items():
            lane = self._lanes[priority]
            returned.sort(key=_by_sequence)
            lane.put_back([each for each in returned if lane.find(each.sequence) < 0] if again else returned)
            self._mask |= lane.bit
            for cursor in self._cursors.values():
                note_behind(cursor, priority, returned)
            self.passed_over.note_returned(priority, returned)

    def _repair(self, *lanes: _Lane) -> None:
        for lane in lanes:
            lane.repair()
            self._mask = self._mask | lane.bit if lane.live else self._mask & ~lane.bit

    def take_first(self) -> QueueEntry | None:
        """Take the first message, or return None when there is none."""
        mask = self._mask
        if not mask:
            return None
        priority = mask.bit_length() - 1
        lane = self._lanes[priority]
        head = lane.head
        entries = lane.entries
        entry = entries[head]
        if isinstance(entry, int):
            entry = lane.wake(head, entry)
        if lane.live == 1 and head < _SPARE:  # what `drop` does then, without the price of a call
            end = len(entries)
            entries[head] = None
            lane.live = 0
            lane.head = end
            self._mask = mask ^ _BITS[priority]
            return entry
        try:
            if lane.drop(head):
                self._mask = mask ^ _BITS[priority]
        except BaseException:
            assert entry is not None, "the lane was not empty"
            self._keep(lane, entry)
            raise
        return entry

    def _keep(self, lane: _Lane, entry: QueueEntry) -> None:
        """Have a message in its place, as the thread was interrupted while it took it out."""
        self._repair(lane)
        if lane.find(entry.sequence) < 0:
            self.restore([entry])

    def discard(self, entry: QueueEntry) -> bool:
        """Take out this very message; return whether it was available."""
        priority = self._levels[entry.reference.priority]
        index = self._lanes[priority].find(entry.sequence)
        if index < 0:
            return False
        self._drop(priority, index, entry)
        return True

    def holds(self, entry: QueueEntry) -> bool:
        """Return whether a message is available."""
        return self._lanes[self._levels[entry.reference.priority]].find(entry.sequence) >= 0

    def least(self) -> QueueEntry | None:
        """Return the oldest message of the lowest priority."""
        lane = next((lane for lane in self._lanes if lane.live), None)
        return None if lane is None else lane.at(lane.head)

    def clear(self) -> list[QueueEntry]:
        """Take out all messages and return them in order."""
        entries = list(self)
        self._make_lanes()
        self._mask = 0
        return entries

    def _drop(self, priority: int, index: int, entry: QueueEntry) -> None:
        lane = self._lanes[priority]
        try:
            if lane.drop(index):
                self._mask &= ~lane.bit
        except BaseException:
            self._keep(lane, entry)
            raise

    # Selectors

    def new_cursor(self, matches: Callable[[QueueEntry], bool] | None) -> Cursor:
        """Return the place of somebody who has seen nothing yet, for `look` and `take_matching`."""
        return Cursor(matches)

    def open_cursor(self, text: str, matches: Callable[[QueueEntry], bool]) -> Cursor:
        """Return the cursor that all users of the selector `text` share; to be closed as often as opened."""
        return self._cursors.open(text, lambda: Cursor(matches))

    def close_cursor(self, text: str) -> None:
        """Forget the cursor of `text` with its last user."""
        self._cursors.close(text)

    def may_have(self, cursor: Cursor | None) -> bool:
        """Return whether there may be a message for `cursor` (None: any message), without evaluating anything."""
        if cursor is None or not self._mask:
            return self._mask != 0
        passed = cursor.passed
        return bool(cursor.behind or cursor.matched) or any(
            lane.live and lane.sequences[-1] > passed[priority] for priority, lane in enumerate(self._lanes)
        )

    def is_wanted(self, cursor: Cursor, entry: QueueEntry) -> bool:
        """Return whether `entry`, which is available, matches; without evaluating it, if the cursor has passed it."""
        if cursor.matches is None:
            return True
        priority, sequence = self._levels[entry.reference.priority], entry.sequence
        if sequence > cursor.passed[priority] or is_noted(cursor.behind.get(priority), sequence):
            return cursor.matches(entry)
        return is_noted(cursor.matched.get(priority), sequence)

    def note_mismatch(self, cursor: Cursor, entry: QueueEntry) -> None:
        """Remember that `entry`, just appended, does not match, if nothing before it is unknown."""
        priority = self._levels[entry.reference.priority]
        sequences = self._lanes[priority].sequences
        if sequences[-1] == entry.sequence and (len(sequences) == 1 or sequences[-2] <= cursor.passed[priority]):
            cursor.passed[priority] = entry.sequence

    def take_matching(
        self, cursor: Cursor, permits: Callable[[QueueEntry], bool] | None, evaluations: int
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that matches `cursor` and that `permits` (None: all) allows.

        Returns `UNFINISHED` after about `evaluations` messages that do not match; what was learned is kept.
        """
        found = self._find(cursor, permits, evaluations)
        if found is None or found is UNFINISHED:
            return found
        priority, index = found
        sequence = self._lanes[priority].sequences[index]
        try:
            entry = self._lanes[priority].at(index)
            assert entry is not None, "a gap was found"
            self._drop(priority, index, entry)
        except BaseException:
            note_place(cursor, priority, sequence)
            raise
        return entry

    def take_permitted(
        self, consumer: object, rivals: Iterable[Cursor | None], permits: Callable[[QueueEntry], bool], looks: int
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that `permits` allows to `consumer`, who has no selector; `rivals` as in `PassedOver`.

        Returns `UNFINISHED` after about so many `looks`; what it passed over is kept.
        """
        found = self.passed_over.find(self._lanes, consumer, rivals, permits, looks)
        if found is None or found is UNFINISHED:
            return found
        priority, index = found
        entry = self._lanes[priority].at(index)
        assert entry is not None, "a gap was found"
        self._drop(priority, index, entry)
        return entry

    def look_again(self, entries: Iterable[QueueEntry]) -> None:
        """Have all consumers ask again for messages that somebody else was to have; for those that are available."""
        self.passed_over.look_again(self._by_priority, self._levels, entries)

    def look(self, cursor: Cursor, evaluations: int) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Return the next message for a browser's own `cursor`, leaving it in its place."""
        found = self._find(cursor, None, evaluations)
        if found is None or found is UNFINISHED:
            return found
        priority, index = found
        if self._lanes[priority].sequences[index] > cursor.last:
            cursor.passed[priority] = self._last  # all that come after it in its lane are newer still
            return self.look(cursor, evaluations)
        return self._lanes[priority].at(index)

    def _find(
        self, cursor: Cursor, permits: Callable[[QueueEntry], bool] | None, evaluations: int
    ) -> tuple[int, int] | Literal[Unfinished.UNFINISHED] | None:
        mask = self._mask
        while mask:
            priority = mask.bit_length() - 1
            mask ^= _BITS[priority]
            index = self._find_noted(cursor, priority, permits) if cursor.behind or cursor.matched else -1
            if index < 0:
                index, evaluations = self._find_beyond(cursor, priority, permits, evaluations)
            if index >= 0:
                return priority, index
            if evaluations <= 0:
                return UNFINISHED
        return None

    def _find_noted(self, cursor: Cursor, priority: int, permits: Callable[[QueueEntry], bool] | None) -> int:
        """Return the index of the first message behind `cursor` that matches and is permitted, or -1."""
        lane = self._lanes[priority]
        found = [
            index
            for noted, matches in ((cursor.matched, None), (cursor.behind, cursor.matches))
            if priority in noted and (index := first_noted(lane, noted, priority, matches, permits)) >= 0
        ]
        if not found:
            return -1
        index = min(found)
        sequence = lane.sequences[index]
        try:
            for noted in (cursor.matched, cursor.behind):
                forget_noted(noted, priority, sequence)
        except BaseException:
            note_place(cursor, priority, sequence)
            raise
        return index

    def _find_beyond(
        self, cursor: Cursor, priority: int, permits: Callable[[QueueEntry], bool] | None, evaluations: int
    ) -> tuple[int, int]:
        """Return the index of the first matching message after `cursor`, or -1, and the evaluations that are left."""
        lane = self._lanes[priority]
        sequences, matches = lane.sequences, cursor.matches
        for index in range(bisect_right(sequences, cursor.passed[priority], lane.head), len(sequences)):
            entry = lane.at(index)
            if entry is not None:
                if evaluations <= 0:
                    return -1, evaluations
                evaluations -= 1
                if matches is None or matches(entry):
                    if permits is None or permits(entry):
                        cursor.passed[priority] = sequences[index]
                        return index, evaluations
                    cursor.matched.setdefault(priority, []).append(sequences[index])
            cursor.passed[priority] = sequences[index]
        return -1, max(evaluations, 1)


def _last_places(lane: _Lane, most: int) -> range:
    return range(max(len(lane.entries) - most, 0), len(lane.entries))
