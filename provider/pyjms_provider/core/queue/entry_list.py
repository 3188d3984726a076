"""The entry lists of queues: the order in which available messages leave (Broker-J's queue types; §9, §10; JMS 1.1 §3.4.10, §4.4.10).

A standard queue and a last-value queue order by priority, then by age. A priority queue maps the ten priorities of JMS to fewer levels, as
Broker-J does: the levels lie around the default priority 4, so that with two of them 0 to 4 are normal and 5 to 9 are expedited. A sorted queue
has its own list (`sorted_entry_list.py`).

Each priority has a level, sorted by sequence number. A message that is taken from the middle leaves a gap, which is
skipped, and closed when gaps outnumber messages; so adding and taking cost O(1) on average however the queue is used.
A released message returns to its old place.

A message that was recovered after a restart, or added behind many others, may be *compact* until it is first needed: two
numbers in its level, no objects. It is materialized when it is looked at, with a new reference of the same id.

Invariants: a level's `entries` and `sequences` are parallel and sorted from `head` on; the entry at `head` is available
unless the level is empty, and before it there are only gaps; bit P of the mask is set if level P is not empty.

Without a lock: the queue calls it under its own.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, Protocol

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.reference import MESSAGE_OVERHEAD, MessageReference
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.core.queue.cursor import (
    PRIORITIES,
    SPARE,
    UNFINISHED,
    BlockedMessages,
    Cursor,
    PriorityLevel,
    ScanState,
    SharedCursors,
    Unfinished,
    ValueIndex,
    ValueIndexes,
    first_noted,
    forget_noted,
    is_noted,
    note_behind,
)
from pyjms_provider.core.queue.sorted_entry_list import SortedQueueEntryList
from pyjms_provider.core.queue_types import InstalledQueueType, QueueType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyjms_provider.core.message.entry import EntryQueue
    from pyjms_provider.core.queue.cursor import Asked
    from pyjms_provider.core.queue.sorted_entry_list import Place, SortValue


class QueueEntryList(Protocol):
    """The available messages of one queue, in the order in which they leave it. Not safe for several threads."""

    def __len__(self) -> int: ...

    def __bool__(self) -> bool: ...

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yield the messages in order; the list must not change meanwhile."""

    @property
    def last_place(self) -> int:
        """The highest sequence number ever assigned."""

    def oldest(self) -> list[QueueEntry]:
        """Return a few messages, the oldest one among them."""

    def first(self, most: int) -> list[QueueEntry]:
        """Return up to `most` of the messages that leave first, or some of them."""

    def newest(self, most: int) -> list[QueueEntry]:
        """Return about `most` messages, or a few times as many, with those added last among them."""

    def append(self, entry: QueueEntry) -> None:
        """Give a new message its place, and a sequence number."""

    def assign_sequence(self, entry: QueueEntry) -> None:
        """Give a new message that is taken at once the sequence number that it would have had in the order."""

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        """Put released messages back into their old places."""

    def take_first(self) -> QueueEntry | None:
        """Take the first message; None when there is none."""

    def least_important(self) -> QueueEntry | None:
        """Return the least important message, which a full ring queue drops."""

    def discard(self, entry: QueueEntry) -> bool:
        """Remove this entry; return whether it was available."""

    def holds(self, entry: QueueEntry) -> bool:
        """Return whether a message is available."""

    def place_of(self, entry: QueueEntry) -> Place:
        """Return the place of a message that has a sequence number: lower places come first."""

    def clear(self) -> list[QueueEntry]:
        """Remove all messages and return them in order."""

    def following(self, reference: MessageReference, most: int) -> list[MessageReference]:
        """Return up to `most` messages that will probably be delivered after that one."""

    def new_cursor(self, matches: Callable[[QueueEntry], bool] | None) -> Cursor:
        """Return a cursor at the beginning, for `peek`."""

    def open_cursor(self, text: str, matches: Callable[[QueueEntry], bool], asked: Asked | None = None) -> Cursor:
        """Return the cursor that all users of the selector `text` share; to be closed as often as opened. `asked`: its equality comparisons, if any."""

    def close_cursor(self, text: str) -> None:
        """Close the cursor of `text` for one user; the last one removes it."""

    def may_have(self, cursor: Cursor | None) -> bool:
        """Return whether there may be a message for `cursor` (None: any message), without evaluating anything."""

    def is_wanted(self, cursor: Cursor, entry: QueueEntry) -> bool:
        """Return whether `entry`, which is available, matches; without an evaluation, if that is known."""

    def note_mismatch(self, cursor: Cursor, entry: QueueEntry) -> None:
        """Record, if that helps, that `entry`, just appended, does not match."""

    def take_matching(
        self, cursor: Cursor, permits: Callable[[QueueEntry], bool] | None, evaluations: int
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that matches `cursor` and that `permits` (None: all) allows."""

    def poll_permitted(
        self,
        consumer: object,
        higher_priority: Iterable[Cursor | None],
        permits: Callable[[QueueEntry], bool],
        looks: int,
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that `permits` allows to `consumer`, which has no selector; `higher_priority`: the selectors of consumers that are preferred."""

    def rewind(self, entries: Iterable[QueueEntry]) -> None:
        """Have all consumers look again at messages that were reserved for others."""

    def forget_scan(self, consumer: object) -> None:
        """Drop the scan position of a consumer, as it must look at all again or has ended. May be repeated."""

    def peek(self, cursor: Cursor, evaluations: int) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Return the next message for a browser's own `cursor`, leaving it in its place."""


def priority_levels(levels: int) -> tuple[int, ...]:
    """Return, by JMS priority, the number of its level when there are this many levels."""
    # As AMQP 0-10 maps priorities to fewer levels: around the default priority 4.
    lowest = PRIORITIES // 2 - (levels + 1) // 2
    return tuple(min(max(priority - lowest, 0), levels - 1) for priority in range(PRIORITIES))


def make_order(policy: QueuePolicy, sort_value: Callable[[QueueEntry], SortValue] | None) -> QueueEntryList:
    """Return an empty order of the policy's type; `sort_value` gives a sorted queue, or one of a package's type, the value of a message."""
    if policy.type is QueueType.SORTED or isinstance(policy.type, InstalledQueueType):
        assert sort_value is not None
        return SortedQueueEntryList(sort_value)
    if policy.type is QueueType.TOTAL_ORDER:
        return TotalOrderEntryList()
    if policy.type is QueueType.PRIORITY:
        return PriorityQueueEntryList(priority_levels(policy.priorities))
    return PriorityQueueEntryList()


BACKLOG: Final = 1000
"""A message with so many others of its priority before it is compact if possible: many objects cost memory, and garbage collection time."""

_BITS: Final = tuple(1 << priority for priority in range(PRIORITIES))
_LEVELS: Final = tuple(range(PRIORITIES))  # each priority is a level of its own
_by_sequence = attrgetter("sequence")


class PriorityQueueEntryList:
    """The available messages of one queue."""

    __slots__ = (
        "_by_priority",
        "_cursors",
        "_indexed",
        "_indexes",
        "_last",
        "_level_numbers",
        "_levels",
        "_mask",
        "blocked",
        "may_compact",
    )

    def __init__(self, numbers: tuple[int, ...] = _LEVELS) -> None:
        """`numbers`: the number of the level of each JMS priority; the higher level comes first."""
        self._level_numbers = numbers
        self.may_compact = False
        """Whether new messages may be compact: no other object refers to entries."""
        self._make_levels()
        self._mask = 0
        self._last = 0
        self._cursors: SharedCursors[Cursor] = SharedCursors()
        self._indexed: SharedCursors[Cursor] = SharedCursors()
        """The cursors that have an index."""
        self._indexes = ValueIndexes()
        self.blocked = BlockedMessages()

    def _make_levels(self) -> None:
        levels = tuple(map(PriorityLevel, _BITS))
        self._by_priority = tuple(levels[number] for number in self._level_numbers)
        self._levels = levels

    def __len__(self) -> int:
        mask, total = self._mask, 0
        while mask:  # monitoring asks each of thousands of queues, and most have one priority, if any
            priority = mask.bit_length() - 1
            total += self._levels[priority].live
            mask ^= _BITS[priority]
        return total

    def __bool__(self) -> bool:
        return self._mask != 0

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yield the available messages in order; the list must not change meanwhile."""
        for level in reversed(self._levels):
            for index in range(len(level.entries)):
                entry = level.at(index)
                if entry is not None:
                    yield entry

    def materialized(self) -> Iterator[QueueEntry]:
        """Yield the available messages that are not compact, in order; the list must not change meanwhile."""
        for level in reversed(self._levels):
            for entry in level.entries:
                if isinstance(entry, QueueEntry):
                    yield entry

    @property
    def compact_size(self) -> int:
        """About how many bytes the compact messages take."""
        return sum(
            entry + MESSAGE_OVERHEAD for level in self._levels for entry in level.entries if entry.__class__ is int
        )

    def following(self, reference: MessageReference, most: int) -> list[MessageReference]:
        """Return about `most` messages that will probably be delivered after that one."""
        answer: list[MessageReference] = []
        number = self._level_numbers[reference.priority]
        for priority in range(number, -1, -1):
            level = self._levels[priority]
            # In lower levels from the first message on: those are delivered once this level is empty.
            first = reference.id if priority == number else 0
            index = bisect_right(level.sequences, first, level.head)
            # Twice as many places, as some are gaps; if there are more gaps, fewer messages are found, which does no harm.
            for place in range(index, min(index + 2 * most, len(level.entries))):
                if len(answer) == most:
                    return answer
                entry = level.at(place)
                if entry is not None:
                    answer.append(entry.reference)
        return answer

    def append_run(self, queue: EntryQueue, priority: int, ids: Sequence[int], sizes: Sequence[int]) -> bool:
        """Give messages of `queue` the last places of their priority, compact, from a `RecoveredRun`.

        Return False, having done nothing, if they must be added one by one.
        """
        # A compact message has the priority of its level, and its sequence number as id: both must be its own.
        if self._level_numbers is not _LEVELS or ids[0] <= self._last:
            return False
        level = self._levels[priority]
        level.queue = queue
        level.entries += sizes
        level.sequences += ids
        level.live += len(ids)
        self._last = ids[-1]
        self._mask |= level.bit
        return True

    def oldest(self) -> list[QueueEntry]:
        """Return the oldest message of each priority."""
        heads = (level.at(level.head) for level in self._levels if level.live)
        return [entry for entry in heads if entry is not None]

    def first(self, most: int) -> list[QueueEntry]:
        """Return up to `most` of the messages that leave first; fewer where many have been taken from the middle."""
        answer: list[QueueEntry] = []
        for level in reversed(self._levels):
            if level.live:
                places = map(level.at, range(level.head, min(level.head + 2 * most, len(level.entries))))
                answer += islice((entry for entry in places if entry is not None), most - len(answer))
        return answer

    @property
    def last_place(self) -> int:
        """The highest sequence number ever assigned."""
        return self._last

    def newest(self, most: int) -> list[QueueEntry]:
        """Return up to about `most` messages of each priority that were added last."""
        places = ((level, place) for level in self._levels if level.live for place in _last_places(level, most))
        return [entry for level, place in places if (entry := level.at(place)) is not None]

    def append(self, entry: QueueEntry) -> None:
        """Give `entry` the last place of its priority."""
        reference = entry.reference
        # The reference's own number is used if it is ascending, as nearly always: one integer less for each message.
        sequence: int = reference.id
        if sequence <= self._last:
            # A message that waited in a transaction has a lower number than those added
            # meanwhile; the order is that of commits.
            sequence = self._last + 1
        self._last = entry.sequence = sequence
        level = self._by_priority[reference.priority]
        # Behind a backlog the message is delivered late, and meanwhile the garbage collector would have to traverse its objects.
        if level.live >= BACKLOG and self.may_compact and self._is_plain(entry):
            level.queue = entry.queue
            level.entries.append(max(reference.size - MESSAGE_OVERHEAD, 0))
        else:
            level.entries.append(entry)
        level.sequences.append(sequence)
        level.live += 1
        self._mask |= level.bit

    def assign_sequence(self, entry: QueueEntry) -> None:
        """Give `entry`, which is taken at once, the sequence number that it would have had in the order."""
        sequence: int = entry.reference.id
        if sequence <= self._last:
            sequence = self._last + 1
        self._last = entry.sequence = sequence

    def _is_plain(self, entry: QueueEntry) -> bool:
        """Return whether all attributes of a message can be rebuilt from its place."""
        reference = entry.reference
        is_special = reference.expiration_ms or reference.deliver_at_ms or reference.shared or entry.delivery_count
        is_alone = reference.holders == 1 and entry.sequence == reference.id
        return (
            is_alone
            and not is_special
            and reference.journaled
            and reference.reliable
            and self._level_numbers is _LEVELS
        )

    def restore(self, entries: Iterable[QueueEntry]) -> None:
        """Put released entries back into their old places."""
        by_priority: dict[int, list[QueueEntry]] = {}
        for entry in entries:
            by_priority.setdefault(self._level_numbers[entry.reference.priority], []).append(entry)
        for priority, returned in by_priority.items():
            level = self._levels[priority]
            # Each level's lists are sorted by sequence, and messages are released in any order.
            returned.sort(key=_by_sequence)
            level.put_back(returned)
            self._mask |= level.bit
            # Cursors with an index are not told: the index is, and tells those with the key of the message.
            for cursor in (*self._cursors.values(), *self._indexes.values()):
                note_behind(cursor, priority, returned)
            # Consumers that passed their places would never reach them again.
            self.blocked.note_returned(priority, returned)

    def take_first(self) -> QueueEntry | None:
        """Take the first message, or return None when there is none."""
        mask = self._mask
        if not mask:
            return None
        priority = mask.bit_length() - 1
        level = self._levels[priority]
        head = level.head
        entries = level.entries
        entry = entries[head]
        if isinstance(entry, int):
            entry = level.materialize(head, entry)
        if level.live == 1 and head < SPARE:  # the same as `drop`, without the cost of a call
            end = len(entries)
            entries[head] = None
            level.live = 0
            level.head = end
            self._mask = mask ^ _BITS[priority]
            return entry
        if level.drop(head):
            self._mask = mask ^ _BITS[priority]
        return entry

    def discard(self, entry: QueueEntry) -> bool:
        """Remove this entry; return whether it was available."""
        priority = self._level_numbers[entry.reference.priority]
        index = self._levels[priority].find(entry.sequence)
        if index < 0:
            return False
        self._drop(priority, index)
        return True

    def holds(self, entry: QueueEntry) -> bool:
        """Return whether a message is available."""
        return self._levels[self._level_numbers[entry.reference.priority]].find(entry.sequence) >= 0

    def place_of(self, entry: QueueEntry) -> Place:
        """Return the place of a message that has a sequence number: lower places come first."""
        return (0, -self._level_numbers[entry.reference.priority], ""), entry.sequence

    def least_important(self) -> QueueEntry | None:
        """Return the oldest message of the lowest priority."""
        level = next((level for level in self._levels if level.live), None)
        return None if level is None else level.at(level.head)

    def clear(self) -> list[QueueEntry]:
        """Remove all messages and return them in order."""
        entries = list(self)
        self._make_levels()
        self._mask = 0
        return entries

    def _drop(self, priority: int, index: int) -> None:
        level = self._levels[priority]
        if level.drop(index):
            self._mask &= ~level.bit

    # Selectors

    def new_cursor(self, matches: Callable[[QueueEntry], bool] | None) -> Cursor:
        """Return a cursor at the beginning, for `peek`."""
        return Cursor(matches)

    def open_cursor(self, text: str, matches: Callable[[QueueEntry], bool], asked: Asked | None = None) -> Cursor:
        """Return the cursor that all users of the selector `text` share; to be closed as often as opened. `asked`: its equality comparisons, if any."""
        # A text that has a cursor keeps it: all its users must share one, with an index or without.
        if asked is None or text in self._cursors:
            return self._cursors.open(text, lambda: Cursor(matches))
        if text in self._indexed:
            return self._indexed.open(text, lambda: Cursor(matches))
        index = self._indexes.wanted(asked, lambda: ValueIndex(asked.read, lambda: self._levels, self._level_numbers))
        if index is None:
            return self._cursors.open(text, lambda: Cursor(matches))
        return self._indexed.open(text, lambda: index.open_cursor(matches, asked.key))

    def close_cursor(self, text: str) -> None:
        """Close the cursor of `text` for one user; the last one removes it."""
        if text in self._cursors:
            self._cursors.close(text)
            return
        cursor = self._indexed[text]
        if cursor.users == 1 and cursor.index is not None:
            cursor.index.close_cursor(cursor)
        self._indexed.close(text)

    def may_have(self, cursor: Cursor | None) -> bool:
        """Return whether there may be a message for `cursor` (None: any message), without evaluating anything."""
        if cursor is None or not self._mask:
            return self._mask != 0
        if cursor.index is not None:
            # A message that the index has not read may match, so a wake-up may be needless, but is never missing.
            return cursor in cursor.index.ready or cursor.index.lags
        passed, behind, matched = cursor.passed, cursor.behind, cursor.matched
        return any(
            level.live and (priority in behind or priority in matched or level.sequences[-1] > passed[priority])
            for priority, level in enumerate(self._levels)
        )

    def is_wanted(self, cursor: Cursor, entry: QueueEntry) -> bool:
        """Return whether `entry`, which is available, matches; without an evaluation, if the cursor has passed it."""
        if cursor.matches is None:
            return True
        priority, sequence = self._level_numbers[entry.reference.priority], entry.sequence
        if cursor.index is not None:
            is_unknown = cursor.index.is_unknown(cursor, priority, sequence)
        else:
            is_unknown = sequence > cursor.passed[priority] or is_noted(cursor.behind.get(priority), sequence)
        # Messages beyond the cursor are unknown; before it, matching ones are noted.
        if is_unknown:
            return cursor.matches(entry)
        return is_noted(cursor.matched.get(priority), sequence)

    def note_mismatch(self, cursor: Cursor, entry: QueueEntry) -> None:
        """Record that `entry`, just appended, does not match, if the cursor has passed all before it and has no index."""
        if cursor.index is not None:
            return
        priority = self._level_numbers[entry.reference.priority]
        sequences = self._levels[priority].sequences
        # Only if the cursor is at the message before it: otherwise it would pass others that it has not evaluated.
        if sequences[-1] == entry.sequence and (len(sequences) == 1 or sequences[-2] <= cursor.passed[priority]):
            cursor.passed[priority] = entry.sequence

    def take_matching(
        self, cursor: Cursor, permits: Callable[[QueueEntry], bool] | None, evaluations: int
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that matches `cursor` and that `permits` (None: all) allows.

        Returns `UNFINISHED` after about `evaluations` messages that do not match; their results are kept.
        """
        return self._take_matching(cursor, permits, evaluations, None)

    def poll_unblocked(
        self,
        consumer: object,
        cursor: Cursor,
        higher_priority: Iterable[Cursor | None],
        permits: Callable[[QueueEntry], bool],
        evaluations: int,
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take as `take_matching` does, for `consumer`, whose scan state records the messages that it may not take; `higher_priority` as in `BlockedMessages`.

        A matching message is removed from the records some time after it has left, so until then `may_have` may return True needlessly.
        """
        state = self.blocked.state_of(consumer, higher_priority, cursor.went_back)
        return self._take_matching(cursor, permits, evaluations, state)

    def _take_matching(
        self, cursor: Cursor, permits: Callable[[QueueEntry], bool] | None, evaluations: int, state: ScanState | None
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        found = self._find(cursor, permits, evaluations, state)
        if found is None or found is UNFINISHED:
            return found
        return self._take(*found)

    def poll_permitted(
        self,
        consumer: object,
        higher_priority: Iterable[Cursor | None],
        permits: Callable[[QueueEntry], bool],
        looks: int,
    ) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Take the first message that `permits` allows to `consumer`, which has no selector; `higher_priority` as in `BlockedMessages`.

        Returns `UNFINISHED` after about `looks` checks; the scan state is kept.
        """
        found = self.blocked.find(self._levels, consumer, higher_priority, permits, looks)
        if found is None or found is UNFINISHED:
            return found
        return self._take(*found)

    def _take(self, priority: int, index: int) -> QueueEntry:
        entry = self._levels[priority].at(index)
        assert entry is not None, "a gap was found"
        self._drop(priority, index)
        return entry

    def rewind(self, entries: Iterable[QueueEntry]) -> None:
        """Have all consumers look again at messages that were reserved for others, as far as these are available."""
        self.blocked.rewind(self._by_priority, self._level_numbers, entries)

    def forget_scan(self, consumer: object) -> None:
        """Drop the scan state of a consumer, as it must look at all again or has ended. May be repeated."""
        self.blocked.forget(consumer)

    def peek(self, cursor: Cursor, evaluations: int) -> QueueEntry | Literal[Unfinished.UNFINISHED] | None:
        """Return the next message for a browser's own `cursor`, leaving it in its place."""
        found = self._find(cursor, None, evaluations)
        if found is None or found is UNFINISHED:
            return found
        priority, index = found
        sequence = self._levels[priority].sequences[index]
        # A browser sees the messages that were there when it was opened (JMS 1.1 §5.9 leaves that open); it would not end in a queue that is filled.
        if sequence > cursor.last:
            cursor.passed[priority] = self._last  # all later ones of this level are newer still
            return self.peek(cursor, evaluations)
        return self._levels[priority].at(index)

    def _find(
        self,
        cursor: Cursor,
        permits: Callable[[QueueEntry], bool] | None,
        evaluations: int,
        state: ScanState | None = None,
    ) -> tuple[int, int] | Literal[Unfinished.UNFINISHED] | None:
        mask = self._mask
        by_value = cursor.index
        while mask:
            priority = mask.bit_length() - 1
            mask ^= _BITS[priority]
            # The index first: a message that it has not read might match, and come before the one that the cursor finds.
            if by_value is not None:
                evaluations = by_value.read_on(priority, evaluations)
                if not evaluations:
                    return UNFINISHED
            # Noted messages come first: they are older than all beyond the cursor.
            index = self._find_noted(cursor, priority, permits, state) if cursor.behind or cursor.matched else -1
            if index < 0 and by_value is not None:
                index, evaluations = self._find_by_value(by_value, cursor, priority, permits, evaluations)
            elif index < 0:
                index, evaluations = self._find_beyond(cursor, priority, permits, evaluations)
            if index >= 0:
                return priority, index
            if evaluations <= 0:
                return UNFINISHED
        if by_value is not None:
            by_value.found_nothing(cursor)
        return None

    def _find_noted(
        self, cursor: Cursor, priority: int, permits: Callable[[QueueEntry], bool] | None, state: ScanState | None
    ) -> int:
        """Return the index of the first message behind `cursor` that matches and is permitted, or -1."""
        level = self._levels[priority]
        found: list[int] = []
        if priority in cursor.matched:
            if state is None or permits is None:
                found.append(first_noted(level, cursor.matched, priority, None, permits))
            else:
                found.append(state.find_matched(level, cursor.matched, priority, permits))
        if priority in cursor.behind:
            found.append(first_noted(level, cursor.behind, priority, cursor.matches, permits))
        # Both lists are by age, and the older message of the two leaves first.
        index = min((each for each in found if each >= 0), default=-1)
        if index < 0:
            return -1
        sequence = level.sequences[index]
        # From both lists, as a message that matched and was released again is in both.
        for noted in (cursor.matched, cursor.behind):
            forget_noted(noted, priority, sequence)
        return index

    def _find_beyond(
        self, cursor: Cursor, priority: int, permits: Callable[[QueueEntry], bool] | None, evaluations: int
    ) -> tuple[int, int]:
        """Return the index of the first matching message after `cursor`, or -1, and the remaining evaluations."""
        level = self._levels[priority]
        sequences, matches = level.sequences, cursor.matches
        for index in range(bisect_right(sequences, cursor.passed[priority], level.head), len(sequences)):
            entry = level.at(index)
            if entry is not None:
                if evaluations <= 0:
                    return -1, evaluations
                evaluations -= 1
                if matches is None or matches(entry):
                    if permits is None or permits(entry):
                        cursor.passed[priority] = sequences[index]
                        return index, evaluations
                    # It matches, but is reserved for another consumer: a later poll finds it without an evaluation.
                    cursor.matched.setdefault(priority, []).append(sequences[index])
            # After the evaluation: if that raises, as the message is not in memory, the next call evaluates it again.
            cursor.passed[priority] = sequences[index]
        return -1, max(evaluations, 1)

    def _find_by_value(
        self,
        by_value: ValueIndex,
        cursor: Cursor,
        priority: int,
        permits: Callable[[QueueEntry], bool] | None,
        evaluations: int,
    ) -> tuple[int, int]:
        """Find as `_find_beyond` does, evaluating only messages that may match, all of which the index has read."""
        level = self._levels[priority]
        passed = cursor.passed
        for sequence in by_value.after(cursor, priority):
            if sequence > passed[priority]:  # otherwise it was noted twice
                if evaluations <= 0:
                    return -1, evaluations
                evaluations -= 1
                index = level.find(sequence)
                entry = None if index < 0 else level.at(index)
                if entry is not None and (cursor.matches is None or cursor.matches(entry)):
                    if permits is None or permits(entry):
                        passed[priority] = sequence
                        return index, evaluations
                    cursor.matched.setdefault(priority, []).append(sequence)
                passed[priority] = sequence
        # No other message that the index has read can match.
        passed[priority] = max(passed[priority], by_value.passed[priority])
        return -1, max(evaluations, 1)


class TotalOrderEntryList(PriorityQueueEntryList):
    """The available messages of one queue in the order of their ids, whenever each becomes available."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(priority_levels(1))

    def append(self, entry: QueueEntry) -> None:
        """Give `entry` the place of its id."""
        if entry.reference.id > self._last:
            super().append(entry)
        else:
            # It was on its way into the queue for longer than later ones, or in a transaction.
            entry.sequence = entry.reference.id
            self.restore([entry])

    def assign_sequence(self, entry: QueueEntry) -> None:
        """Give `entry`, which is not available yet, the sequence number of its place."""
        entry.sequence = entry.reference.id
        self._last = max(self._last, entry.sequence)


def _last_places(level: PriorityLevel, most: int) -> range:
    return range(max(len(level.entries) - most, 0), len(level.entries))
