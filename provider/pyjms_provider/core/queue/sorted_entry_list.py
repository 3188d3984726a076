"""The available messages of a sorted queue, in the order of a property's value (Broker-J's sorted queue).

Messages without a value come first, then numbers by size, then texts by their characters; those of one value leave by age.

Places are kept in one sorted list. Taking the first costs O(1); a message that comes, or is taken from the middle, moves
the part of the list behind it, which is a copy of pointers. Each selector in use has a heap of the messages that may match,
so each message is evaluated once for a selector. A heap that is mostly messages which have gone is made again.

A consumer without a selector remembers the last place that it has passed, as the messages up to there are reserved for others. What has come before that
place since, came back, or was freed, stands in one list for all consumers: each reads on there when it polls, so a message costs the same however
many consumers there are. When that list is longer than twice the queue it is forgotten, and a consumer that has not read it begins from the start.

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
"""A rank for the kind of value, the number, the text."""
Place: TypeAlias = tuple[SortValue, int]
"""Where a message stands: its value, and its sequence number."""

_SPARE: Final = 64


class _Turn:
    """How far one consumer has looked."""

    __slots__ = ("behind", "higher_priority", "passed", "read")

    def __init__(self, read: int) -> None:
        self.passed: Place | None = None
        """All up to this place is somebody else's, save what is in `behind`; None: it has passed nothing."""
        self.behind: list[Place] = []
        """A heap. Some may have gone, and some stand there twice."""
        self.read = read
        """So many of all that came have been read."""
        self.higher_priority: frozenset[Cursor | None] = frozenset()
        """The selectors of the interested consumers of higher priority when it looked last."""


class SortedBlockedMessages:
    """What is known of all consumers of one sorted queue that have passed over something."""

    __slots__ = ("_came", "_forgotten", "_turns")

    def __init__(self) -> None:
        self._turns: dict[object, _Turn] = {}
        self._came: list[Place] = []
        """What came while there were turns, after the first `_forgotten` ones."""
        self._forgotten = 0

    def note(self, place: Place, many: int) -> None:
        """Hear that a message of a queue with so `many` came to this place, perhaps again, or that it is anybody's now."""
        # Nobody has passed anything, so nobody has to be told.
        if not self._turns:
            return
        # Longer than the queue: reading all of it again is cheaper than reading this list.
        if len(self._came) > 2 * many + _SPARE:
            self._forgotten += len(self._came)
            self._came = []
        self._came.append(place)

    def forget(self, consumer: object) -> None:
        """Have a consumer begin anew, if there is one. May be repeated."""
        self._turns.pop(consumer, None)

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
        """Return the index, in `places` from `head` on, of the first message that `permits` allows to `consumer`; `UNFINISHED` after so many looks.

        `entries`: the messages by their sequence numbers; `higher_priority` as in `BlockedMessages`.
        """
        turn = self._turn_of(consumer, frozenset(higher_priority))
        self._read_on(turn, entries)
        behind = turn.behind
        while behind:
            entry = entries.get(behind[0][1])
            if entry is not None:
                if not looks:
                    return UNFINISHED
                looks -= 1
                if permits(entry):
                    return bisect_left(places, behind[0], head)
            # After it was looked at: on `UNFINISHED` the next call begins with it.
            heappop(behind)
        first = head if turn.passed is None else bisect_right(places, turn.passed, head)
        for index in range(first, len(places)):
            if not looks:
                return UNFINISHED
            looks -= 1
            if permits(entries[places[index][1]]):
                return index
            turn.passed = places[index]
        return None

    def _turn_of(self, consumer: object, higher_priority: frozenset[Cursor | None]) -> _Turn:
        turn = self._turns.get(consumer)
        # A consumer of higher priority that left may have been the only reason;
        # or this one has missed a forgotten part.
        if turn is None or not turn.higher_priority <= higher_priority or turn.read < self._forgotten:
            turn = self._turns[consumer] = _Turn(self._forgotten + len(self._came))
        turn.higher_priority = higher_priority
        return turn

    def _read_on(self, turn: _Turn, entries: Mapping[int, QueueEntry]) -> None:
        fresh = self._came[turn.read - self._forgotten :]
        if turn.passed is not None:
            for place in fresh:
                # Places beyond are come to in any case.
                if place <= turn.passed:
                    heappush(turn.behind, place)
        turn.read += len(fresh)
        # Most of it has gone, or stands there twice.
        if len(turn.behind) > 2 * len(entries) + _SPARE:
            turn.behind = sorted({place for place in turn.behind if place[1] in entries})  # sorted, and so a heap


def sort_value(value: Stored) -> SortValue:
    """Return what stands for a property's value in the order; None, and what is not a number, come first."""
    if isinstance(value, str):
        return (2, 0, value)
    # NaN has no place in an order: comparing with it is always false, and would break the sorted list.
    if value is None or isinstance(value, bytes) or isnan(value):
        return (0, 0, "")
    return (1, value, "")


class SortedCursor(Cursor):
    """What is known of one selector text, or how far one browser has looked."""

    __slots__ = ("candidates", "place")

    def __init__(self, matches: Callable[[QueueEntry], bool] | None) -> None:
        super().__init__(matches)
        self.candidates: list[Place] = []
        """A heap of the messages that are not known to be of no interest; some have gone."""
        self.place: Place | None = None
        """The last message that the browser saw."""


class SortedQueueEntryList:
    """The available messages of one queue that is sorted by a property."""

    __slots__ = ("_cursors", "_entries", "_head", "_last", "_places", "_turns", "_value_of")

    def __init__(self, value_of: Callable[[QueueEntry], SortValue]) -> None:
        """`value_of` returns the value of a message that is in the queue, always the same."""
        self._value_of = value_of
        self._places: list[Place] = []
        self._head = 0
        self._entries: dict[int, QueueEntry] = {}
        self._last = 0
        self._cursors: SharedCursors[SortedCursor] = SharedCursors()
        self._turns = SortedBlockedMessages()

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yield the available messages in order; nothing may change meanwhile."""
        places, entries = self._places, self._entries
        return (entries[places[index][1]] for index in range(self._head, len(places)))

    def following(self, reference: MessageReference, most: int) -> list[MessageReference]:
        """Return up to `most` messages that will probably be wanted after that one: the first ones."""
        return [entry.reference for entry in islice(self, most + 1) if entry.reference is not reference][:most]

    def oldest(self) -> list[QueueEntry]:
        """Return the message that came first, as far as messages came in their order."""
        return list(islice(self._entries.values(), 1))

    def first(self, most: int) -> list[QueueEntry]:
        """Return up to `most` messages of those that leave first."""
        return list(islice(self, most))

    @property
    def last_place(self) -> int:
        """The highest sequence number of all messages that have come."""
        return self._last

    def newest(self, most: int) -> list[QueueEntry]:
        """Return up to `most` messages that came last."""
        return list(islice(reversed(self._entries.values()), most))

    def append(self, entry: QueueEntry) -> None:
        """Give `entry` its place, behind others of the same value."""
        self.assign_sequence(entry)
        self._insert(entry)

    def assign_sequence(self, entry: QueueEntry) -> None:
        """Give `entry`, which somebody takes at once, the sequence number of the place that it would have had."""
        sequence: int = entry.reference.id
        if sequence <= self._last:
            sequence = self._last + 1
        self._last = entry.sequence = sequence

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        """Put entries that were taken back into their old places."""
        for entry in entries:
            self._insert(entry)

    def _insert(self, entry: QueueEntry) -> None:
        place = (self._value_of(entry), entry.sequence)
        self._entries[entry.sequence] = entry
        # From `head` on: places before it have been taken.
        insort(self._places, place, self._head)
        self._turns.note(place, len(self._entries))
        for cursor in self._cursors.values():
            heappush(cursor.candidates, place)
            # A selector that matches little would gather all that came and went;
            # the heap is made again from what is there.
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
        # Deleting the first place of a list moves all others, so taken places are dropped in bulk.
        if head > _SPARE and head * 2 > len(self._places):
            del self._places[:head]
            self._head = head = 0
        sequence = self._places[head][1]
        entry = self._entries[sequence]
        self._head = head + 1
        del self._entries[sequence]
        return entry

    def discard(self, entry: QueueEntry) -> bool:
        """Take out this very message; return whether it was available."""
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
        """Return the place in the order of a message that has had one: lower places come first."""
        return self._value_of(entry), entry.sequence

    def least(self) -> QueueEntry | None:
        """Return the last message."""
        return self._entries[self._places[-1][1]] if self._entries else None

    def clear(self) -> list[QueueEntry]:
        """Take out all messages and return them in order."""
        entries = list(self)
        self._places = []
        self._head = 0
        self._entries = {}
        self._turns = SortedBlockedMessages()
        for cursor in self._cursors.values():
            cursor.candidates.clear()
        return entries

    # Selectors

    def new_cursor(self, matches: Callable[[QueueEntry], bool] | None) -> SortedCursor:
        """Return the place of somebody who has seen nothing yet, for `peek`."""
        return SortedCursor(matches)

    def open_cursor(self, text: str, matches: Callable[[QueueEntry], bool], asked: Asked | None = None) -> SortedCursor:
        """Return the cursor that all users of the selector `text` share; to be closed as often as opened. Each looks for itself, whatever was `asked`."""
        return self._cursors.open(text, lambda: self._make_cursor(matches))

    def _make_cursor(self, matches: Callable[[QueueEntry], bool]) -> SortedCursor:
        cursor = SortedCursor(matches)
        cursor.candidates = self._places[self._head :]  # sorted, and so a heap
        return cursor

    def close_cursor(self, text: str) -> None:
        """Forget the cursor of `text` with its last user."""
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
        """Remember, if that costs no search, that `entry`, just appended, does not match."""
        if isinstance(cursor, SortedCursor):
            candidates = cursor.candidates
            # Without a search: a place that was just pushed is at the heap's end if it is not before its parent there.
            if candidates and candidates[-1][1] == entry.sequence:
                candidates.pop()

    def take_matching(
        self, cursor: Cursor, permits: Callable[[QueueEntry], bool] | None, evaluations: int
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that matches `cursor` and that `permits` (None: all) allows.

        Returns `UNFINISHED` after about `evaluations` messages that do not match; what was learned is kept.
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
                )  # raises where the message is not in memory: it stays a candidate
                is_permitted = is_match and (permits is None or permits(entry))
                place = heappop(candidates)
                if is_permitted:
                    found = entry
                    break
                if is_match:
                    # Set apart while the search goes on: on top of the heap it would be found again at once.
                    not_now.append(place)
                else:
                    evaluations -= 1
                self._drop_gone(candidates)
            # Before the others are pushed back: they have been looked at, and leave nothing to go on with.
            is_unfinished = bool(candidates)
        finally:
            for each in not_now:
                # Also after an error: what matches must stay a candidate.
                heappush(candidates, each)
        if found is not None:
            self.discard(found)
        return UNFINISHED if found is None and is_unfinished else found

    def _drop_gone(self, candidates: list[Place]) -> None:
        """Take from the top of the heap what is no longer available, and what stands there twice."""
        while candidates and candidates[0][1] not in self._entries:
            heappop(candidates)

    def poll_permitted(
        self,
        consumer: object,
        higher_priority: Iterable[Cursor | None],
        permits: Callable[[QueueEntry], bool],
        looks: int,
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that `permits` allows to `consumer`, who has no selector; `higher_priority` as in `BlockedMessages`.

        Returns `UNFINISHED` after about so many `looks`; what it passed over is kept.
        """
        found = self._turns.find(self._places, self._head, self._entries, consumer, higher_priority, permits, looks)
        if found is None or found is UNFINISHED:
            return found
        entry = self._entries[self._places[found][1]]
        self.discard(entry)
        return entry

    def rewind(self, entries: Iterable[QueueEntry]) -> None:
        """Have all consumers ask again for messages that somebody else was to have; for those that are available."""
        for entry in entries:
            if self.holds(entry):
                self._turns.note((self._value_of(entry), entry.sequence), len(self._entries))

    def forget_scan(self, consumer: object) -> None:
        """Have a consumer without a selector ask for all again, or be forgotten if it has ended. May be repeated."""
        self._turns.forget(consumer)

    def peek(self, cursor: Cursor, evaluations: int) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Return the next message for a browser's own `cursor`, leaving it in its place."""
        if not isinstance(cursor, SortedCursor):
            return None  # it began before the queue was sorted, which had no messages then
        places = self._places
        index = self._head if cursor.place is None else bisect_right(places, cursor.place, self._head)
        for at in range(index, min(index + evaluations, len(places))):
            place = places[at]
            entry = self._entries[place[1]]
            is_new = place[1] > cursor.last
            # if that cannot be said, it is looked at again
            is_match = not is_new and (cursor.matches is None or cursor.matches(entry))
            cursor.place = place
            if is_match:
                return entry
        return UNFINISHED if index + evaluations < len(places) else None
