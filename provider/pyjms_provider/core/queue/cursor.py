"""What is known of a selector, or a browser, in one queue: up to where nothing matches, and what was noted before that.

A `Cursor` remembers, for one selector text, up to where nothing matches. All consumers with that text share it, so each
message is evaluated once for a text, and a poll over a long backlog of others costs only what is new. A message that is
given back behind a cursor is noted with the cursor, and so is one that matches and that somebody else is to have; so nothing before it is
evaluated again.

Messages by what they say: those that may match selectors which ask for certain values of the same identifiers, as ``JMSCorrelationID = 'x'`` does.

A machine without a lock, a part of an order, whose queue calls it under its own. Each message is read once for all such selectors, and noted by its key
(`pyjms.spi.selector.equalities`); a cursor then looks at those alone that have its own key. What it has evaluated it remembers as other cursors do.

What has gone stays noted until many have: 16 bytes a message, in sorted blocks of some thousand. Messages that are given back have been noted, or are read again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from enum import Enum
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from pyjms.spi.selector.equalities import UNKNOWN_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.priority_level import PriorityLevel

PRIORITIES: Final = 10
BEHIND_MAXIMUM: Final = 64  # messages noted behind a cursor; beyond that the cursor itself goes back
_NO_END: Final = 2**63 - 1  # no sequence number is as high


class Places(Protocol):
    """Messages of one priority, by their places."""

    def find(self, sequence: int) -> int:
        """Return the index of the available message with `sequence`, or -1."""
        ...

    def at(self, index: int) -> QueueEntry | None:
        """Return the message at `index`; None: there is none any more."""
        ...


class Unfinished(Enum):
    """The type of `UNFINISHED`."""

    UNFINISHED = "the evaluations allowed were used up; call again to go on"


UNFINISHED: Final = Unfinished.UNFINISHED


class Cursor:
    """What is known of one selector text in one queue, or how far one browser has looked."""

    __slots__ = ("behind", "index", "key", "last", "matched", "matches", "passed", "users", "went_back")

    def __init__(self, matches: Callable[[QueueEntry], bool] | None) -> None:
        self.last = _NO_END
        """The last sequence number that a browser wants to see."""
        self.matches = matches
        """Whether the selector holds for an entry's message; None: for all."""
        self.passed = [0] * PRIORITIES
        """By priority: no available message up to this sequence number matches, save those in `behind` and `matched`."""
        self.behind: dict[int, list[int]] = {}
        """By priority: sequence numbers of messages that were given back behind `passed`, sorted."""
        self.matched: dict[int, list[int]] = {}
        """By priority: those of messages that match, and that nobody was permitted to take who came by, sorted. Some may have gone."""
        self.went_back = 0
        """How often it went back, so that what is not in `matched` any more may come there again."""
        self.users = 0
        self.index: ValueIndex | None = None
        """Where the messages are found that may match; None: all must be looked at."""
        self.key = 0
        """What those have in common there."""


_Cursor = TypeVar("_Cursor", bound=Cursor)


class SharedCursors(dict[str, _Cursor]):
    """The cursors of one queue, by the selector text that all their users have."""

    def open(self, text: str, make: Callable[[], _Cursor]) -> _Cursor:
        """Return the cursor of `text`, made now for its first user; to be closed as often as opened."""
        cursor = self.get(text)
        if cursor is None:
            cursor = self[text] = make()
        cursor.users += 1
        return cursor

    def close(self, text: str) -> None:
        """Forget the cursor of `text` with its last user."""
        cursor = self[text]
        cursor.users -= 1
        if not cursor.users:
            del self[text]


def first_noted(
    lane: Places,
    noted: dict[int, list[int]],
    priority: int,
    matches: Callable[[QueueEntry], bool] | None,
    permits: Callable[[QueueEntry], bool] | None,
) -> int:
    """Return the index of the first of `noted` that is permitted, or -1; forget those before it that have gone, or do not match."""
    sequences = noted[priority]
    kept: list[int] = []
    for position, sequence in enumerate(sequences):
        index = lane.find(sequence)
        entry = None if index < 0 else lane.at(index)
        if entry is not None and (matches is None or matches(entry)):
            if permits is None or permits(entry):
                sequences[:position] = kept
                return index
            kept.append(sequence)
    if kept:
        noted[priority] = kept
    else:
        del noted[priority]
    return -1


def is_noted(sequences: list[int] | None, sequence: int) -> bool:
    """Return whether a message is among those that are noted, sorted."""
    if not sequences:
        return False
    position = bisect_left(sequences, sequence)
    return position < len(sequences) and sequences[position] == sequence


def forget_noted(noted: dict[int, list[int]], priority: int, sequence: int) -> None:
    """Note a message no longer, if it is noted."""
    sequences = noted.get(priority)
    if is_noted(sequences, sequence):
        assert sequences is not None
        del sequences[bisect_left(sequences, sequence)]
        if not sequences:
            del noted[priority]


def note_behind(cursor: Cursor, priority: int, returned: list[QueueEntry]) -> None:
    """Make `cursor` look again at messages given back, sorted, behind it."""
    passed = cursor.passed[priority]
    if returned[0].sequence > passed:
        return
    behind = cursor.behind.setdefault(priority, [])
    for entry in returned:
        if entry.sequence > passed:
            break
        if len(behind) >= BEHIND_MAXIMUM:
            # Too many to note one by one: the cursor itself goes back to the first of them.
            cursor.went_back += 1
            passed = cursor.passed[priority] = min(behind[0], returned[0].sequence) - 1
            del cursor.behind[priority]
            matched = [each for each in cursor.matched.pop(priority, ()) if each <= passed]
            if matched:
                cursor.matched[priority] = matched
            return
        position = bisect_left(behind, entry.sequence)
        if position == len(behind) or behind[position] != entry.sequence:
            insort(behind, entry.sequence)


_BLOCK: Final = 2048  # messages: sorting so many takes a millisecond, and each block costs whoever comes a fraction of a microsecond
_THINNED_AT_ONCE: Final = 2
_FROM: Final = 4  # the first selectors of one kind look for themselves: a few that stay cost nothing more
_INDEXES: Final = 4  # in one queue
_KINDS: Final = 64  # of selectors of which is counted how many there were

_last = attrgetter("last")


class Asked(NamedTuple):
    """What a selector asks for."""

    names: tuple[str, ...]
    """The identifiers whose values it names."""
    key: int
    """The key of the messages that have those values."""
    read: Callable[[QueueEntry], int]
    """What gives the key of a message, or `UNKNOWN_KEY`; raises `NotInMemoryError`."""


class _Block:
    """Messages of one priority by their keys; those of one key by age."""

    __slots__ = ("keys", "last", "sequences")

    def __init__(self, keys: array[int], sequences: array[int], last: int) -> None:
        """`keys` and `sequences` are parallel and sorted; no message is beyond `last`."""
        self.keys = keys
        self.sequences = sequences
        self.last = last

    def of(self, key: int) -> tuple[int, int]:
        """Return from where to where messages have `key`."""
        low = bisect_left(self.keys, key)
        if low == len(self.keys) or self.keys[low] != key:
            return low, low
        return low, bisect_right(self.keys, key, low)

    def with_one_more(self, key: int, sequence: int) -> _Block:
        """Return a block that has this one, too."""
        low, high = self.of(key)
        at = bisect_left(self.sequences, sequence, low, high)
        if at < high and self.sequences[at] == sequence:
            return self
        keys, sequences = self.keys[:], self.sequences[:]  # nobody is to see one longer than the other
        keys.insert(at, key)
        sequences.insert(at, sequence)
        return _Block(keys, sequences, self.last)

    def places(self) -> Iterator[tuple[int, int]]:
        """Yield keys and sequence numbers, sorted."""
        return zip(self.keys, self.sequences, strict=True)


def _make_block(places: list[tuple[int, int]], last: int) -> _Block:
    """Return the block of `places`: keys and sequence numbers, sorted."""
    return _Block(array("q", [key for key, _ in places]), array("q", [sequence for _, sequence in places]), last)


class _Places:
    """All messages of one priority that have been read, by their keys."""

    __slots__ = ("_blocks", "_count", "_recent")

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        """The older ones, by age."""
        self._recent: dict[int, list[int]] = {}
        """The others: sequence numbers, sorted, by key."""
        self._count = 0
        """About how many those are."""

    def add(self, key: int, sequence: int, lane: PriorityLevel) -> None:
        """Note a message of `lane`; it may have been noted."""
        blocks = self._blocks
        if blocks and sequence <= blocks[-1].last:
            at = bisect_left(blocks, sequence, key=_last)
            blocks[at] = blocks[at].with_one_more(key, sequence)
            return
        sequences = self._recent.get(key)
        if sequences is None:
            self._recent[key] = [sequence]
        elif sequences[-1] < sequence:
            sequences.append(sequence)
        elif not is_noted(sequences, sequence):
            insort(sequences, sequence)
        self._count += 1
        if self._count >= _BLOCK:
            self._seal(lane)

    def after(self, key: int, passed: int) -> Iterator[int]:
        """Yield the sequence numbers beyond `passed` of messages that have `key`, sorted; some have gone."""
        blocks = self._blocks
        for at in range(bisect_right(blocks, passed, key=_last), len(blocks)):
            low, high = blocks[at].of(key)
            if low < high:
                sequences = blocks[at].sequences
                yield from sequences[bisect_right(sequences, passed, low, high) : high]
        recent = self._recent.get(key)
        if recent is not None:
            yield from recent[bisect_right(recent, passed) :]

    def _seal(self, lane: PriorityLevel) -> None:
        """Make a block of those that came last, and let go of what has gone."""
        places = [(key, each) for key, sequences in self._recent.items() for each in sequences if lane.find(each) >= 0]
        blocks = self._thinned(lane)
        if places:
            blocks.append(_make_block(sorted(places), max(sequence for _, sequence in places)))
        self._blocks = blocks
        self._recent = {}
        self._count = 0

    def _thinned(self, lane: PriorityLevel) -> list[_Block]:
        blocks: list[_Block] = []
        first, thinned = lane.head, 0
        for each in self._blocks:
            block = each
            end = bisect_right(lane.sequences, block.last, first)
            live = end - first  # or gaps
            first = end
            if live * 2 < len(block.keys) and thinned < _THINNED_AT_ONCE:
                thinned += live > 0
                places = [place for place in block.places() if lane.find(place[1]) >= 0] if live > 0 else []
                block = _make_block(places, block.last)
            if block.keys:
                blocks.append(block)
        return blocks


class ValueIndex(Cursor):
    """The messages of one queue by the values of certain identifiers. As a cursor it says which messages it has read."""

    __slots__ = ("_cursors", "_has_unknown", "_lanes", "_levels", "_places", "_read", "ready")

    def __init__(
        self, read: Callable[[QueueEntry], int], lanes: Callable[[], Sequence[PriorityLevel]], levels: tuple[int, ...]
    ) -> None:
        """`read` as in `Asked`; `lanes`: those of the order, the highest priority last; `levels` by JMS priority."""
        super().__init__(None)
        self._read = read
        self._lanes = lanes
        self._levels = levels
        self._places = tuple(_Places() for _ in range(PRIORITIES))
        self._has_unknown = False
        self._cursors: dict[int, dict[Cursor, None]] = {}
        self.ready: dict[Cursor, None] = {}
        """Of its cursors those that may have a message among what was read."""

    # Cursors

    def open_cursor(self, matches: Callable[[QueueEntry], bool], key: int) -> Cursor:
        """Return the cursor of a selector that only messages with `key` can match."""
        cursor = Cursor(matches)
        cursor.index = self
        cursor.key = key
        cursors = self._cursors.get(key)
        if cursors is None:
            cursors = self._cursors[key] = {}
        self.ready[cursor] = None
        cursors[cursor] = None
        return cursor

    def close_cursor(self, cursor: Cursor) -> None:
        """Forget a cursor that `open_cursor` made. May be repeated."""
        self.ready.pop(cursor, None)
        cursors = self._cursors.get(cursor.key)
        if cursors is not None:
            cursors.pop(cursor, None)
            if not cursors:
                del self._cursors[cursor.key]

    @property
    def is_used(self) -> bool:
        """Whether it has cursors."""
        return bool(self._cursors)

    def cursors_of(self, key: int) -> Sequence[Cursor]:
        """Return the cursors for which a message with `key` may be, which is not `UNKNOWN_KEY`."""
        return tuple(self._cursors.get(key, ()))

    @property
    def lags(self) -> bool:
        """Whether there are messages that it has not read."""
        return any(
            lane.live and (priority in self.behind or lane.sequences[-1] > self.passed[priority])
            for priority, lane in enumerate(self._lanes())
        )

    # Messages

    def key_of(self, entry: QueueEntry) -> int:
        """Return the key of a message that has just come, and note it if nothing before it is unread. Raises `NotInMemoryError`."""
        key = self._read(entry)
        priority, sequence = self._levels[entry.reference.priority], entry.sequence
        sequences = self._lanes()[priority].sequences
        if sequences and sequences[-1] == sequence and (len(sequences) == 1 or sequences[-2] <= self.passed[priority]):
            self._note(priority, entry, key)
            self.passed[priority] = max(self.passed[priority], sequence)
        return key

    def read_on(self, priority: int, most: int) -> int:
        """Read up to `most` messages that came, or came back; return how many more are allowed, 0: there may be more. Raises `NotInMemoryError`."""
        lane = self._lanes()[priority]
        while behind := self.behind.get(priority):
            index = lane.find(behind[0])
            entry = None if index < 0 else lane.at(index)
            if entry is not None:
                self._note(priority, entry, self._read(entry))
            forget_noted(self.behind, priority, behind[0])
        sequences = lane.sequences
        for index in range(bisect_right(sequences, self.passed[priority], lane.head), len(sequences)):
            entry = lane.at(index)
            if entry is not None:
                if most <= 0:
                    return 0
                most -= 1
                self._note(priority, entry, self._read(entry))
            self.passed[priority] = sequences[index]
        return max(most, 1)

    def _note(self, priority: int, entry: QueueEntry, key: int) -> None:
        if key == UNKNOWN_KEY:
            self._has_unknown = True
        self._places[priority].add(key, entry.sequence, self._lanes()[priority])
        if key == UNKNOWN_KEY:
            for cursors in self._cursors.values():
                self._tell(cursors, priority, entry)
        elif key in self._cursors:
            self._tell(self._cursors[key], priority, entry)

    def _tell(self, cursors: dict[Cursor, None], priority: int, entry: QueueEntry) -> None:
        for cursor in cursors:
            note_behind(cursor, priority, [entry])
            self.ready[cursor] = None

    def after(self, cursor: Cursor, priority: int) -> Iterator[int]:
        """Yield the sequence numbers of messages that have been read, and may match beyond what `cursor` has passed, sorted; some have gone."""
        places, passed = self._places[priority], cursor.passed[priority]
        found = places.after(cursor.key, passed)
        return merge(found, places.after(UNKNOWN_KEY, passed)) if self._has_unknown else found

    def is_unknown(self, cursor: Cursor, priority: int, sequence: int) -> bool:
        """Return whether a message is yet to be evaluated for `cursor`."""
        if sequence > min(cursor.passed[priority], self.passed[priority]):
            return True
        return is_noted(cursor.behind.get(priority), sequence) or is_noted(self.behind.get(priority), sequence)

    def found_nothing(self, cursor: Cursor) -> None:
        """Hear that there is nothing for `cursor` among all that there is."""
        lanes = self._lanes()
        if not any(lanes[priority].live for priority in (*cursor.behind, *cursor.matched)):
            self.ready.pop(cursor, None)


class ValueIndexes(dict[tuple[str, ...], ValueIndex]):
    """The indexes of one order, by the names of the identifiers; made for the selectors that many use."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, ...], int] = {}

    def wanted(self, asked: Asked, make: Callable[[], ValueIndex]) -> ValueIndex | None:
        """Return the index for a selector that is now in use; None: it is to look for itself."""
        index = self.get(asked.names)
        if index is not None:
            return index
        seen = self._seen.pop(asked.names, 0) + 1
        if seen < _FROM or not self._has_room():
            if len(self._seen) >= _KINDS:
                self._seen.clear()
            self._seen[asked.names] = seen
            return None
        index = self[asked.names] = make()
        return index

    def _has_room(self) -> bool:
        if len(self) >= _INDEXES:
            unused = next((names for names, index in self.items() if not index.is_used), None)
            if unused is None:
                return False
            del self[unused]
        return True
