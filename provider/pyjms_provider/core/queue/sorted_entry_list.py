"""The available messages of a sorted queue, in the order of a property's value (Broker-J's sorted queue).

Messages without a value are first, then numbers by size, then texts by their characters; messages of equal value leave by age.

Places are kept in one sorted list. Taking the first costs O(1); inserting a message, or taking one from the middle, moves
the part of the list behind it, which is a copy of pointers. Each selector in use has a heap of the messages that may match,
so each message is evaluated once for a selector. A heap of mostly absent messages is rebuilt.

A consumer without a selector remembers the last place that it has passed, as the messages up to there are reserved for others. Messages that are added, returned or freed before
that place are recorded in one list for all consumers, which each reads on when it polls, so a message costs the same however many consumers there are.
When that list is longer than twice the queue it is dropped, and a consumer that has not read it starts again from the beginning.

Without a lock: the queue calls it under its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from heapq import heappop, heappush
from itertools import islice
from math import isnan
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pyjms_provider.core.queue.cursor import UNFINISHED, Cursor, SharedCursors, Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyjms.types import Stored
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.cursor import Asked

SortValue: TypeAlias = tuple[int, float, str]
"""The rank of its type, the number, the text."""
Place: TypeAlias = tuple[SortValue, int]
"""A place in the order: value and sequence number."""

_SPARE: Final = 64


class _ScanPosition:
    """The scan position of one consumer."""

    __slots__ = ("behind", "higher_priority", "passed", "read")

    def __init__(self, read: int) -> None:
        self.passed: Place | None = None
        """All messages up to this place are reserved for others, save those in `behind`; None: it has passed nothing."""
        self.behind: list[Place] = []
        """A heap. Some messages may be absent, and some be listed twice."""
        self.read = read
        """How many of the recorded places it has read."""
        self.higher_priority: frozenset[Cursor | None] = frozenset()
        """The selectors of the interested consumers of higher priority at its last poll."""


class SortedBlockedMessages:
    """The scan positions of all consumers of one sorted queue that have passed over messages."""

    __slots__ = ("_forgotten", "_positions", "_recorded")

    def __init__(self) -> None:
        self._positions: dict[object, _ScanPosition] = {}
        self._recorded: list[Place] = []
        """The places recorded while there were scan positions, after the first `_forgotten` ones."""
        self._forgotten = 0

    def record(self, place: Place, many: int) -> None:
        """Record that a message was added or returned at this place, or that it is free for all consumers; `many`: the length of the queue."""
        # No consumer has passed anything, so no consumer must look again.
        if not self._positions:
            return
        # Longer than the queue: reading all of it again is cheaper than reading this list.
        if len(self._recorded) > 2 * many + _SPARE:
            self._forgotten += len(self._recorded)
            self._recorded = []
        self._recorded.append(place)

    def forget(self, consumer: object) -> None:
        """Drop the scan position of a consumer, if it has one. May be repeated."""
        self._positions.pop(consumer, None)

    def find(
        self,
        places: Sequence[Place],
        head: int,
        entries: Mapping[int, QueueEntry],
        consumer: object,
        higher_priority: Iterable[Cursor | None],
        permits: Callable[[QueueEntry], bool],
        looks: int,
    ) -> int | Literal[Unfinished.UNFINISHED] | None:
        """Return the index, in `places` from `head` on, of the first message that `permits` allows to `consumer`; `UNFINISHED` after `looks` checks.

        `entries`: the messages by their sequence numbers; `higher_priority` as in `BlockedMessages`.
        """
        position = self._position_of(consumer, frozenset(higher_priority))
        self._read_on(position, entries)
        behind = position.behind
        while behind:
            entry = entries.get(behind[0][1])
            if entry is not None:
                if not looks:
                    return UNFINISHED
                looks -= 1
                if permits(entry):
                    return bisect_left(places, behind[0], head)
            # After the check: on `UNFINISHED` the next call begins with it.
            heappop(behind)
        first = head if position.passed is None else bisect_right(places, position.passed, head)
        for index in range(first, len(places)):
            if not looks:
                return UNFINISHED
            looks -= 1
            if permits(entries[places[index][1]]):
                return index
            position.passed = places[index]
        return None

    def _position_of(self, consumer: object, higher_priority: frozenset[Cursor | None]) -> _ScanPosition:
        position = self._positions.get(consumer)
        # A consumer of higher priority that was removed may have been the only reason to skip messages;
        # or this one has missed a dropped part of the list.
        if position is None or not position.higher_priority <= higher_priority or position.read < self._forgotten:
            position = self._positions[consumer] = _ScanPosition(self._forgotten + len(self._recorded))
        position.higher_priority = higher_priority
        return position

    def _read_on(self, position: _ScanPosition, entries: Mapping[int, QueueEntry]) -> None:
        fresh = self._recorded[position.read - self._forgotten :]
        if position.passed is not None:
            for place in fresh:
                # The scan reaches later places in any case.
                if place <= position.passed:
                    heappush(position.behind, place)
        position.read += len(fresh)
        # Most of these are absent, or listed twice.
        if len(position.behind) > 2 * len(entries) + _SPARE:
            position.behind = sorted(
                {place for place in position.behind if place[1] in entries}
            )  # sorted, and so a heap


def sort_value(value: Stored) -> SortValue:
    """Return the sort key of a property's value; None, and values that are not numbers or texts, come first."""
    if isinstance(value, str):
        return (2, 0, value)
    # NaN has no place in an order: comparing with it is always false, and would break the sorted list.
    if value is None or isinstance(value, bytes) or isnan(value):
        return (0, 0, "")
    return (1, value, "")


class SortedCursor(Cursor):
    """The candidates of one selector text, or the position of one browser."""

    __slots__ = ("candidates", "place")

    def __init__(self, matches: Callable[[QueueEntry], bool] | None) -> None:
        super().__init__(matches)
        self.candidates: list[Place] = []
        """A heap of the messages that may match; some are absent."""
        self.place: Place | None = None
        """The last message that the browser has reached."""


class SortedQueueEntryList:
    """The available messages of one queue that is sorted by a property."""

    __slots__ = ("_blocked", "_cursors", "_entries", "_head", "_last", "_places", "_value_of")

    def __init__(self, value_of: Callable[[QueueEntry], SortValue]) -> None:
        """`value_of` returns the sort value of a message in the queue, which never changes."""
        self._value_of = value_of
        self._places: list[Place] = []
        self._head = 0
        self._entries: dict[int, QueueEntry] = {}
        self._last = 0
        self._cursors: SharedCursors[SortedCursor] = SharedCursors()
        self._blocked = SortedBlockedMessages()

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yield the available messages in order; the list must not change meanwhile."""
        places, entries = self._places, self._entries
        return (entries[places[index][1]] for index in range(self._head, len(places)))

    def following(self, reference: MessageReference, most: int) -> list[MessageReference]:
        """Return up to `most` messages that will probably be delivered after that one: the first ones."""
        return [entry.reference for entry in islice(self, most + 1) if entry.reference is not reference][:most]

    def oldest(self) -> list[QueueEntry]:
        """Return the message that was added first, as far as messages were added in their order."""
        return list(islice(self._entries.values(), 1))

    def first(self, most: int) -> list[QueueEntry]:
        """Return up to `most` of the messages that leave first."""
        return list(islice(self, most))

    @property
    def last_place(self) -> int:
        """The highest sequence number ever assigned."""
        return self._last

    def newest(self, most: int) -> list[QueueEntry]:
        """Return up to `most` messages that were added last."""
        return list(islice(reversed(self._entries.values()), most))

    def append(self, entry: QueueEntry) -> None:
        """Give `entry` its place, behind others of the same value."""
        self.assign_sequence(entry)
        self._insert(entry)

    def assign_sequence(self, entry: QueueEntry) -> None:
        """Give `entry`, which is taken at once, the sequence number that it would have had in the order."""
        sequence: int = entry.reference.id
        if sequence <= self._last:
            sequence = self._last + 1
        self._last = entry.sequence = sequence

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        """Put released entries back into their old places."""
        for entry in entries:
            self._insert(entry)

    def _insert(self, entry: QueueEntry) -> None:
        place = (self._value_of(entry), entry.sequence)
        self._entries[entry.sequence] = entry
        # From `head` on: places before it are empty.
        insort(self._places, place, self._head)
        self._blocked.record(place, len(self._entries))
        for cursor in self._cursors.values():
            heappush(cursor.candidates, place)
            # The heap of a selector that matches little would grow with all messages ever added;
            # it is rebuilt from the available ones.
            if len(cursor.candidates) > 2 * len(self._entries) + _SPARE:
                known = {sequence for _, sequence in cursor.candidates}
                cursor.candidates = [
                    each for each in self._places[self._head :] if each[1] in known
                ]  # sorted, and so a heap

    def take_first(self) -> QueueEntry | None:
        """Take the first message, or return None when there is none."""
        if not self._entries:
            return None
        head = self._head
        # Deleting the first place of a list moves all others, so empty places are dropped in bulk.
        if head > _SPARE and head * 2 > len(self._places):
            del self._places[:head]
            self._head = head = 0
        sequence = self._places[head][1]
        entry = self._entries[sequence]
        self._head = head + 1
        del self._entries[sequence]
        return entry

    def discard(self, entry: QueueEntry) -> bool:
        """Remove this entry; return whether it was available."""
        if not self.holds(entry):
            return False
        index = bisect_left(self._places, (self._value_of(entry), entry.sequence), self._head)
        del self._entries[entry.sequence]
        del self._places[index]
        return True

    def holds(self, entry: QueueEntry) -> bool:
        """Return whether a message is available."""
        return self._entries.get(entry.sequence) is entry

    def place_of(self, entry: QueueEntry) -> Place:
        """Return the place of a message that has a sequence number: lower places come first."""
        return self._value_of(entry), entry.sequence

    def least_important(self) -> QueueEntry | None:
        """Return the last message."""
        return self._entries[self._places[-1][1]] if self._entries else None

    def clear(self) -> list[QueueEntry]:
        """Remove all messages and return them in order."""
        entries = list(self)
        self._places = []
        self._head = 0
        self._entries = {}
        self._blocked = SortedBlockedMessages()
        for cursor in self._cursors.values():
            cursor.candidates.clear()
        return entries

    # Selectors

    def new_cursor(self, matches: Callable[[QueueEntry], bool] | None) -> SortedCursor:
        """Return a cursor at the beginning, for `peek`."""
        return SortedCursor(matches)

    def open_cursor(self, text: str, matches: Callable[[QueueEntry], bool], asked: Asked | None = None) -> SortedCursor:
        """Return the cursor that all users of the selector `text` share; to be closed as often as opened. There is no index, so `asked` is ignored."""
        return self._cursors.open(text, lambda: self._make_cursor(matches))

    def _make_cursor(self, matches: Callable[[QueueEntry], bool]) -> SortedCursor:
        cursor = SortedCursor(matches)
        cursor.candidates = self._places[self._head :]  # sorted, and so a heap
        return cursor

    def close_cursor(self, text: str) -> None:
        """Close the cursor of `text` for one user; the last one removes it."""
        self._cursors.close(text)

    def may_have(self, cursor: Cursor | None) -> bool:
        """Return whether there may be a message for `cursor` (None: any message), without evaluating anything."""
        if not isinstance(cursor, SortedCursor) or not self._entries or not cursor.users:
            return bool(self._entries)
        self._drop_gone(cursor.candidates)
        return bool(cursor.candidates)

    def is_wanted(self, cursor: Cursor, entry: QueueEntry) -> bool:
        """Return whether `entry` matches."""
        return cursor.matches is None or cursor.matches(entry)

    def note_mismatch(self, cursor: Cursor, entry: QueueEntry) -> None:
        """Record, if that costs no search, that `entry`, just appended, does not match."""
        if isinstance(cursor, SortedCursor):
            candidates = cursor.candidates
            # Without a search: a place that was just pushed is at the heap's end if it is not before its parent there.
            if candidates and candidates[-1][1] == entry.sequence:
                candidates.pop()

    def take_matching(
        self, cursor: Cursor, permits: Callable[[QueueEntry], bool] | None, evaluations: int
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that matches `cursor` and that `permits` (None: all) allows.

        Returns `UNFINISHED` after about `evaluations` messages that do not match; their results are kept.
        """
        assert isinstance(cursor, SortedCursor), "it was opened here"
        candidates, matches = cursor.candidates, cursor.matches
        not_now: list[Place] = []
        found: QueueEntry | None = None
        try:
            self._drop_gone(candidates)
            while candidates and evaluations > 0:
                entry = self._entries[candidates[0][1]]
                is_match = matches is None or matches(
                    entry
                )  # raises for a message that is not in memory, which stays a candidate
                is_permitted = is_match and (permits is None or permits(entry))
                place = heappop(candidates)
                if is_permitted:
                    found = entry
                    break
                if is_match:
                    # Kept apart during the search: on top of the heap it would be found again at once.
                    not_now.append(place)
                else:
                    evaluations -= 1
                self._drop_gone(candidates)
            # Before the others are pushed back: those have been checked, and do not make the search unfinished.
            is_unfinished = bool(candidates)
        finally:
            for each in not_now:
                # Also after an error: a matching message must stay a candidate.
                heappush(candidates, each)
        if found is not None:
            self.discard(found)
        return UNFINISHED if found is None and is_unfinished else found

    def _drop_gone(self, candidates: list[Place]) -> None:
        """Remove absent messages and duplicates from the top of the heap."""
        while candidates and candidates[0][1] not in self._entries:
            heappop(candidates)

    def poll_permitted(
        self,
        consumer: object,
        higher_priority: Iterable[Cursor | None],
        permits: Callable[[QueueEntry], bool],
        looks: int,
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that `permits` allows to `consumer`, which has no selector; `higher_priority` as in `BlockedMessages`.

        Returns `UNFINISHED` after about `looks` checks; the scan position is kept.
        """
        found = self._blocked.find(self._places, self._head, self._entries, consumer, higher_priority, permits, looks)
        if found is None or found is UNFINISHED:
            return found
        entry = self._entries[self._places[found][1]]
        self.discard(entry)
        return entry

    def rewind(self, entries: Iterable[QueueEntry]) -> None:
        """Have all consumers look again at messages that were reserved for others, as far as these are available."""
        for entry in entries:
            if self.holds(entry):
                self._blocked.record((self._value_of(entry), entry.sequence), len(self._entries))

    def forget_scan(self, consumer: object) -> None:
        """Drop the scan position of a consumer without a selector, as it must look at all again or has ended. May be repeated."""
        self._blocked.forget(consumer)

    def peek(self, cursor: Cursor, evaluations: int) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Return the next message for a browser's own `cursor`, leaving it in its place."""
        if not isinstance(cursor, SortedCursor):
            return None  # it was opened before the queue was sorted, when the queue had no messages
        places = self._places
        index = self._head if cursor.place is None else bisect_right(places, cursor.place, self._head)
        for at in range(index, min(index + evaluations, len(places))):
            place = places[at]
            entry = self._entries[place[1]]
            is_new = place[1] > cursor.last
            # the place is passed after the evaluation: if that raises, the message is evaluated again
            is_match = not is_new and (cursor.matches is None or cursor.matches(entry))
            cursor.place = place
            if is_match:
                return entry
        return UNFINISHED if index + evaluations < len(places) else None
