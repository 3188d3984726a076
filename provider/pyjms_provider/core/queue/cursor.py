"""The available messages of one priority, and the scan positions of selectors, browsers and consumers.

`PriorityLevel` has the messages, by age, with gaps for those that were taken from the middle.

A `Cursor` remembers, for one selector text, up to where nothing matches. All consumers with that text share it, so each message is evaluated once for
a text, and a poll over a long backlog of other messages costs only what is new. A message that is released behind a cursor is noted with the cursor, and so is
one that matches and is reserved for another consumer; nothing else before the cursor is evaluated again.

A `ValueIndex` finds the messages for selectors that compare the same identifiers with values, as ``JMSCorrelationID = 'x'`` does: each message is
read once for all such selectors, and recorded by its key (`pyjms.spi.selector.headers`); a cursor then looks only at those with its own key. Absent
messages stay recorded until there are many: 16 bytes a message, in sorted blocks of some thousand.

A `ScanState` is the scan position of one consumer for messages that it may not take: they belong to another consumer's message group, or a consumer of
higher priority matches them. They are offered again only when that may have changed: a message was released, a group was freed, or a consumer of
higher priority no longer waits.

Without a lock: the queue calls all of it under its own.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from enum import Enum
from heapq import merge, nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeVar

from pyjms.spi.selector.headers import UNKNOWN_KEY
from pyjms_provider.core.journal.journal import plain_reference
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.store import NotInMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyjms_provider.core.message.entry import EntryQueue


SPARE: Final = 64  # gaps, or passed places, that are not worth tidying
_COPIES: Final = 8  # so many places moved by the list itself cost as much as one that is copied


class PriorityLevel:
    """The available messages of one priority."""

    __slots__ = ("bit", "entries", "head", "live", "queue", "sequences")

    def __init__(self, bit: int) -> None:
        self.bit = bit
        """The bit of this level in the mask of levels that are not empty."""
        self.entries: list[QueueEntry | int | None] = []
        """None: a gap. A number: the message is compact, and takes so many bytes in the journal; its sequence is its id."""
        self.sequences: list[int] = []
        self.head = 0
        self.live = 0
        self.queue: EntryQueue | None = None
        """The queue of the messages; set once there have been compact ones."""

    def at(self, index: int) -> QueueEntry | None:
        """Return the message at `index`, materialized; None: a gap."""
        entry = self.entries[index]
        return self.materialize(index, entry) if isinstance(entry, int) else entry

    def materialize(self, index: int, size: int) -> QueueEntry:
        """Make the objects of a compact message."""
        assert self.queue is not None
        sequence = self.sequences[index]
        # Another object of the same id serves: a compact message has one holder,
        # and the store knows messages by their ids.
        reference = plain_reference(sequence, self.bit.bit_length() - 1, size)
        reference.journaled = True
        entry = self.entries[index] = QueueEntry(self.queue, reference, MessageState.NEW)
        entry.sequence = sequence
        return entry

    def drop(self, index: int) -> bool:
        """Make a gap at `index`; return whether the level is empty now."""
        entries = self.entries
        # A gap, not a deletion: removing from the middle of a list would move all that is behind it.
        entries[index] = None
        self.live -= 1
        if not self.live:
            # The level is empty, so all places are passed; a new message is appended behind them.
            self.head = len(entries)
            if self.head > SPARE:
                self._forget_passed()
            return True
        # `head` must stand at a message, so that taking the first one needs no search.
        if index == self.head:
            index += 1
            while entries[index] is None:
                index += 1
            self.head = index
            if index > SPARE and index * 2 > len(entries):
                self._forget_passed()
        # Not before half of the places are gaps: so each removal pays for a constant part of the copying.
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
        # From `head` on: before it there are only gaps.
        index = bisect_left(self.sequences, sequence, self.head)
        if index < len(self.sequences) and self.sequences[index] == sequence and self.entries[index] is not None:
            return index
        return -1

    def put_back(self, returned: list[QueueEntry]) -> None:
        """Put `returned`, sorted by sequence, back into their places."""
        # An empty level has no order to keep: the lists are made of the returned messages, which also drops all gaps.
        if not self.live:
            self._rebuild(returned)
        else:
            homeless = self._put_into_gaps(returned)
            if homeless:
                self._squeeze_in(homeless)
        self.live += len(returned)

    def _put_into_gaps(self, returned: list[QueueEntry]) -> list[QueueEntry]:
        """Put back the messages whose gaps still exist; return the others."""
        sequences, entries, head = self.sequences, self.entries, self.head
        homeless: list[QueueEntry] = []
        # Each into its own gap first: that costs a binary search, and moves nothing.
        for entry in returned:
            index = bisect_left(sequences, entry.sequence, head)
            if index < len(sequences) and sequences[index] == entry.sequence:
                entries[index] = entry
            else:
                homeless.append(entry)
        return homeless

    def _squeeze_in(self, returned: list[QueueEntry]) -> None:
        """Make places for sorted messages that have none: the places before the last of them are moved towards the front, or those behind the first towards the back.

        No object is read, and none is materialized.
        """
        head, size = self.head, len(returned)
        first = bisect_left(self.sequences, returned[0].sequence, head)
        # The places between the first and the last of them must be merged; only one side of these is moved as a whole.
        last = bisect_left(self.sequences, returned[-1].sequence, first)
        goes_forward = (last - head) <= (len(self.sequences) - first) // _COPIES
        # The shorter side is moved; places behind are moved by the list itself, which is cheaper by `_COPIES`.
        low = head if goes_forward else first
        entries, sequences = self._merged(returned, low, last)
        # The passed places before `head` are used for them, so the list keeps its length.
        if goes_forward and head >= size:
            self.entries[head - size : last] = entries
            self.sequences[head - size : last] = sequences
            self.head = head - size
        elif goes_forward:  # with some spare places for single releases, so that these seldom move the rest
            self.entries[:last] = [None] * SPARE + entries
            self.sequences[:last] = [0] * SPARE + sequences
            self.head = SPARE
        else:
            self.entries[first:last] = entries
            self.sequences[first:last] = sequences

    def _merged(
        self, returned: list[QueueEntry], low: int, high: int
    ) -> tuple[list[QueueEntry | int | None], list[int]]:
        """Return the places from `low` to `high`, merged with `returned`."""
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


PRIORITIES: Final = 10
BEHIND_MAXIMUM: Final = 64  # messages noted behind a cursor; beyond that the cursor itself is set back
_NO_END: Final = 2**63 - 1  # above every sequence number


class Places(Protocol):
    """Messages of one priority, by their places."""

    def find(self, sequence: int) -> int:
        """Return the index of the available message with `sequence`, or -1."""

    def at(self, index: int) -> QueueEntry | None:
        """Return the message at `index`; None: there is none."""


class Unfinished(Enum):
    """The type of `UNFINISHED`."""

    UNFINISHED = "the evaluations allowed were used up; call again to go on"


UNFINISHED: Final = Unfinished.UNFINISHED


class Cursor:
    """The scan position of one selector text in one queue, or of one browser."""

    __slots__ = ("behind", "index", "key", "last", "matched", "matches", "passed", "users", "went_back")

    def __init__(self, matches: Callable[[QueueEntry], bool] | None) -> None:
        self.last = _NO_END
        """The highest sequence number that a browser returns."""
        self.matches = matches
        """Whether the selector holds for an entry's message; None: for all."""
        # By priority: within one, sequence numbers grow in the order in which messages leave.
        self.passed = [0] * PRIORITIES
        """By priority: no available message up to this sequence number matches, save those in `behind` and `matched`."""
        self.behind: dict[int, list[int]] = {}
        """By priority: sequence numbers of messages that were released behind `passed`, sorted."""
        self.matched: dict[int, list[int]] = {}
        """By priority: those of messages that match, and were not permitted to the consumers that polled, sorted. Some may be absent."""
        self.went_back = 0
        """How often it was set back, so that messages may enter `matched` again."""
        self.users = 0
        self.index: ValueIndex | None = None
        """The index that finds the messages that may match; None: all must be evaluated."""
        self.key = 0
        """The key of those messages in the index."""


_Cursor = TypeVar("_Cursor", bound=Cursor)


class SharedCursors(dict[str, _Cursor]):
    """The cursors of one queue, by the selector text that their users share."""

    def open(self, text: str, make: Callable[[], _Cursor]) -> _Cursor:
        """Return the cursor of `text`, made now for its first user; to be closed as often as opened."""
        cursor = self.get(text)
        if cursor is None:
            cursor = self[text] = make()
        cursor.users += 1
        return cursor

    def close(self, text: str) -> None:
        """Close the cursor of `text` for one user; the last one removes it."""
        cursor = self[text]
        cursor.users -= 1
        if not cursor.users:
            del self[text]


def first_noted(
    level: Places,
    noted: dict[int, list[int]],
    priority: int,
    matches: Callable[[QueueEntry], bool] | None,
    permits: Callable[[QueueEntry], bool] | None,
) -> int:
    """Return the index of the first permitted message of `noted`, or -1; remove absent and unmatched ones before it.

    Raises `NotInMemoryError`; the messages before the one that must be loaded have been checked by then, and the next call does not read
    those that do not match.
    """
    sequences = noted[priority]
    kept: list[int] = []
    for position, sequence in enumerate(sequences):
        index = level.find(sequence)
        # A noted message may be absent: when a message is taken, its number is not removed here.
        entry = None if index < 0 else level.at(index)
        try:
            if entry is None or (matches is not None and not matches(entry)):
                continue
            is_permitted = permits is None or permits(entry)
        except NotInMemoryError:
            # The messages checked so far are removed now: loading this one may page them out, and they would be loaded again.
            sequences[:position] = kept
            raise
        if is_permitted:
            sequences[:position] = kept
            return index
        kept.append(sequence)
    # Rewritten only at the end: most polls find a permitted message, and cut off the numbers before it.
    if kept:
        noted[priority] = kept
    else:
        del noted[priority]
    return -1


def is_noted(sequences: list[int] | None, sequence: int) -> bool:
    """Return whether a message is in this sorted list."""
    if not sequences:
        return False
    position = bisect_left(sequences, sequence)
    return position < len(sequences) and sequences[position] == sequence


def forget_noted(noted: dict[int, list[int]], priority: int, sequence: int) -> None:
    """Remove a message from the noted ones, if it is noted."""
    sequences = noted.get(priority)
    if is_noted(sequences, sequence):
        assert sequences is not None
        del sequences[bisect_left(sequences, sequence)]
        if not sequences:
            del noted[priority]


def note_behind(cursor: Cursor, priority: int, returned: list[QueueEntry]) -> None:
    """Make `cursor` look again at messages released behind it, which are sorted."""
    passed = cursor.passed[priority]
    # All of them are beyond the cursor, which will reach them.
    if returned[0].sequence > passed:
        return
    behind = cursor.behind.setdefault(priority, [])
    for entry in returned:
        if entry.sequence > passed:
            break
        if len(behind) >= BEHIND_MAXIMUM:
            # Too many to note one by one: the cursor itself is set back to the first of them.
            # Consumers with a position in `matched` start again, as messages may enter it again.
            cursor.went_back += 1
            passed = cursor.passed[priority] = min(behind[0], returned[0].sequence) - 1
            del cursor.behind[priority]
            # Messages beyond the new position are evaluated again, and would be noted twice.
            matched = [each for each in cursor.matched.pop(priority, ()) if each <= passed]
            if matched:
                cursor.matched[priority] = matched
            return
        position = bisect_left(behind, entry.sequence)
        if position == len(behind) or behind[position] != entry.sequence:
            insort(behind, entry.sequence)


_BLOCK: Final = 2048  # messages: sorting these takes a millisecond; a block costs a poll a fraction of a microsecond
_THINNED_AT_ONCE: Final = 2
_FROM: Final = 4  # the first selectors of one kind scan without an index: for a few of them it would save nothing
_INDEXES: Final = 4  # in one queue
_KINDS: Final = 64  # kinds of selectors whose uses are counted

_last = attrgetter("last")


class Asked(NamedTuple):
    """The equality comparisons of a selector."""

    names: tuple[str, ...]
    """The identifiers that it compares."""
    key: int
    """The key of the messages with those values."""
    read: Callable[[QueueEntry], int]
    """Returns the key of a message, or `UNKNOWN_KEY`; raises `NotInMemoryError`."""


class _Block:
    """Messages of one priority by their keys; those of one key by age."""

    __slots__ = ("keys", "last", "sequences")

    def __init__(self, keys: array[int], sequences: array[int], last: int) -> None:
        """`keys` and `sequences` are parallel and sorted; no message is beyond `last`."""
        # Arrays instead of lists of objects: 16 bytes a message, for queues of a million.
        self.keys = keys
        self.sequences = sequences
        self.last = last

    def of(self, key: int) -> tuple[int, int]:
        """Return the range of messages with `key`."""
        low = bisect_left(self.keys, key)
        if low == len(self.keys) or self.keys[low] != key:
            return low, low
        return low, bisect_right(self.keys, key, low)

    def with_one_more(self, key: int, sequence: int) -> _Block:
        """Return a block with one more message."""
        low, high = self.of(key)
        at = bisect_left(self.sequences, sequence, low, high)
        if at < high and self.sequences[at] == sequence:
            return self
        keys, sequences = self.keys[:], self.sequences[:]  # no reader may see one longer than the other
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
        """About how many the others are."""

    def add(self, key: int, sequence: int, level: PriorityLevel) -> None:
        """Record a message of `level`; it may have been recorded before."""
        blocks = self._blocks
        # A released message, older than the newest block: it belongs into the block of its age.
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
        # In blocks, so that no single message pays for sorting a long list.
        if self._count >= _BLOCK:
            self._seal(level)

    def after(self, key: int, passed: int) -> Iterator[int]:
        """Yield the sequence numbers beyond `passed` of messages with `key`, sorted; some are absent."""
        blocks = self._blocks
        for at in range(bisect_right(blocks, passed, key=_last), len(blocks)):
            low, high = blocks[at].of(key)
            if low < high:
                sequences = blocks[at].sequences
                yield from sequences[bisect_right(sequences, passed, low, high) : high]
        recent = self._recent.get(key)
        if recent is not None:
            yield from recent[bisect_right(recent, passed) :]

    def _seal(self, level: PriorityLevel) -> None:
        """Make a block of the latest messages, and drop absent ones."""
        places = [(key, each) for key, sequences in self._recent.items() for each in sequences if level.find(each) >= 0]
        blocks = self._thinned(level)
        if places:
            blocks.append(_make_block(sorted(places), max(sequence for _, sequence in places)))
        # Replaced at once: an iterator of `after` over the old blocks goes on over them.
        self._blocks = blocks
        self._recent = {}
        self._count = 0

    def _thinned(self, level: PriorityLevel) -> list[_Block]:
        blocks: list[_Block] = []
        first, thinned = level.head, 0
        for each in self._blocks:
            block = each
            end = bisect_right(level.sequences, block.last, first)
            live = end - first  # or gaps
            first = end
            # Two blocks at a time: cleaning all of a long queue at once would hold the queue's lock for long.
            if live * 2 < len(block.keys) and thinned < _THINNED_AT_ONCE:
                thinned += live > 0
                places = [place for place in block.places() if level.find(place[1]) >= 0] if live > 0 else []
                block = _make_block(places, block.last)
            if block.keys:
                blocks.append(block)
        return blocks


class ValueIndex(Cursor):
    """The messages of one queue by the values of certain identifiers. As a cursor it records which messages it has read."""

    __slots__ = ("_cursors", "_has_unknown", "_level_numbers", "_levels", "_places", "_read", "ready")

    def __init__(
        self, read: Callable[[QueueEntry], int], levels: Callable[[], Sequence[PriorityLevel]], numbers: tuple[int, ...]
    ) -> None:
        """`read` as in `Asked`; `levels`: those of the order, the highest priority last; `numbers`: their numbers by JMS priority."""
        # As a cursor without a selector: `restore` notes released messages behind it, so they are read again.
        super().__init__(None)
        self._read = read
        self._levels = levels
        self._level_numbers = numbers
        self._places = tuple(_Places() for _ in range(PRIORITIES))
        self._has_unknown = False
        self._cursors: dict[int, dict[Cursor, None]] = {}
        self.ready: dict[Cursor, None] = {}
        """Those of its cursors that may have a message among the ones that were read."""

    # Cursors

    def open_cursor(self, matches: Callable[[QueueEntry], bool], key: int) -> Cursor:
        """Return the cursor of a selector that only messages with `key` can match."""
        cursor = Cursor(matches)
        cursor.index = self
        cursor.key = key
        cursors = self._cursors.get(key)
        if cursors is None:
            cursors = self._cursors[key] = {}
        # A message that was read may match it; the first poll finds out.
        self.ready[cursor] = None
        cursors[cursor] = None
        return cursor

    def close_cursor(self, cursor: Cursor) -> None:
        """Remove a cursor that `open_cursor` made. May be repeated."""
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
        """Return the cursors that a message with `key` may match; not for `UNKNOWN_KEY`."""
        return tuple(self._cursors.get(key, ()))

    @property
    def lags(self) -> bool:
        """Whether there are messages that it has not read."""
        return any(
            level.live and (priority in self.behind or level.sequences[-1] > self.passed[priority])
            for priority, level in enumerate(self._levels())
        )

    # Messages

    def key_of(self, entry: QueueEntry) -> int:
        """Return the key of a new message, and record it if no message before it is unread. Raises `NotInMemoryError`."""
        key = self._read(entry)
        priority, sequence = self._level_numbers[entry.reference.priority], entry.sequence
        sequences = self._levels()[priority].sequences
        # Recorded at once if all before it are known; otherwise `read_on` reaches it in turn.
        if sequences and sequences[-1] == sequence and (len(sequences) == 1 or sequences[-2] <= self.passed[priority]):
            self._note(priority, entry, key)
            self.passed[priority] = max(self.passed[priority], sequence)
        return key

    def read_on(self, priority: int, most: int) -> int:
        """Read up to `most` added or released messages; return how many more are allowed, 0: there may be more. Raises `NotInMemoryError`."""
        level = self._levels()[priority]
        while behind := self.behind.get(priority):
            index = level.find(behind[0])
            # A released message may have been taken again since.
            entry = None if index < 0 else level.at(index)
            if entry is not None:
                self._note(priority, entry, self._read(entry))
            # After it was read: a message that is not in memory stays noted, and is read on the next call.
            forget_noted(self.behind, priority, behind[0])
        sequences = level.sequences
        for index in range(bisect_right(sequences, self.passed[priority], level.head), len(sequences)):
            entry = level.at(index)
            if entry is not None:
                if most <= 0:
                    return 0
                most -= 1
                self._note(priority, entry, self._read(entry))
            # After the message was read, so that one that is not in memory is not passed.
            self.passed[priority] = sequences[index]
        return max(most, 1)

    def _note(self, priority: int, entry: QueueEntry, key: int) -> None:
        # Its value has no key, so it is a candidate for every cursor.
        if key == UNKNOWN_KEY:
            self._has_unknown = True
        self._places[priority].add(key, entry.sequence, self._levels()[priority])
        if key == UNKNOWN_KEY:
            for cursors in self._cursors.values():
                self._tell(cursors, priority, entry)
        elif key in self._cursors:
            self._tell(self._cursors[key], priority, entry)

    def _tell(self, cursors: dict[Cursor, None], priority: int, entry: QueueEntry) -> None:
        for cursor in cursors:
            # The message may have been released behind the cursor.
            note_behind(cursor, priority, [entry])
            self.ready[cursor] = None

    def after(self, cursor: Cursor, priority: int) -> Iterator[int]:
        """Yield the sequence numbers of messages that were read, and may match beyond the position of `cursor`, sorted; some are absent."""
        places, passed = self._places[priority], cursor.passed[priority]
        found = places.after(cursor.key, passed)
        return merge(found, places.after(UNKNOWN_KEY, passed)) if self._has_unknown else found

    def is_unknown(self, cursor: Cursor, priority: int, sequence: int) -> bool:
        """Return whether a message has yet to be evaluated for `cursor`."""
        if sequence > min(cursor.passed[priority], self.passed[priority]):
            return True
        return is_noted(cursor.behind.get(priority), sequence) or is_noted(self.behind.get(priority), sequence)

    def found_nothing(self, cursor: Cursor) -> None:
        """Record that no message matches `cursor`."""
        levels = self._levels()
        # A cursor with noted messages stays ready: they may become permitted without being read again.
        if not any(levels[priority].live for priority in (*cursor.behind, *cursor.matched)):
            self.ready.pop(cursor, None)


class ValueIndexes(dict[tuple[str, ...], ValueIndex]):
    """The indexes of one order, by the names of the identifiers; made for the selectors that many use."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, ...], int] = {}

    def wanted(self, asked: Asked, make: Callable[[], ValueIndex]) -> ValueIndex | None:
        """Return the index for a selector that is now in use; None: it scans without one."""
        index = self.get(asked.names)
        if index is not None:
            return index
        seen = self._seen.pop(asked.names, 0) + 1
        if seen < _FROM or not self._has_room():
            if len(self._seen) >= _KINDS:
                # Cleared together: kinds of selectors that are used once must not take memory for ever.
                self._seen.clear()
            self._seen[asked.names] = seen
            return None
        index = self[asked.names] = make()
        return index

    def _has_room(self) -> bool:
        if len(self) >= _INDEXES:
            # An index without cursors only costs time for each message; it makes room for a kind that is in use.
            unused = next((names for names, index in self.items() if not index.is_used), None)
            if unused is None:
                return False
            del self[unused]
        return True


_by_sequence = attrgetter("sequence")


class ScanState(Cursor):
    """The scan position of one consumer."""

    __slots__ = ("cursor_went_back", "higher_priority")

    def __init__(self, cursor_went_back: int = 0) -> None:
        super().__init__(None)
        self.cursor_went_back = cursor_went_back
        """The value of `went_back` of its selector's cursor when it was made."""
        self.higher_priority: frozenset[Cursor | None] = frozenset()
        """The selectors of the interested consumers of higher priority at its last poll."""

    def find(
        self, level: PriorityLevel, priority: int, permits: Callable[[QueueEntry], bool], looks: int
    ) -> tuple[int, int]:
        """Return the index of the first message of a level that `permits` allows, or -1, and the remaining `looks`; 0: there may be more."""
        index = self._find_behind(level, priority, permits)
        return (index, looks) if index >= 0 else self._find_beyond(level, priority, permits, looks)

    def find_matched(
        self, level: PriorityLevel, matched: dict[int, list[int]], priority: int, permits: Callable[[QueueEntry], bool]
    ) -> int:
        """Return the index of the first message of a level that `permits` allows among those that match, or -1."""
        sequences = matched[priority]
        while behind := self.behind.get(priority):
            # Only if it matches: the cursor notes matching messages, and this state the places of all released ones.
            index = level.find(behind[0]) if is_noted(sequences, behind[0]) else -1
            entry = None if index < 0 else level.at(index)
            if entry is not None and permits(entry):
                return index
            # Not permitted now: it is offered again when its group is freed, or the state is reset.
            forget_noted(self.behind, priority, behind[0])
        for position in range(bisect_right(sequences, self.passed[priority]), len(sequences)):
            sequence = sequences[position]
            index = level.find(sequence)
            entry = None if index < 0 else level.at(index)
            if entry is not None and permits(entry):
                return index
            self.passed[priority] = sequence
        if len(sequences) > 2 * level.live + SPARE:  # other consumers have taken most of them
            left = [sequence for sequence in sequences if level.find(sequence) >= 0]
            if left:
                matched[priority] = left
            else:
                del matched[priority]
        return -1

    def _find_behind(self, level: PriorityLevel, priority: int, permits: Callable[[QueueEntry], bool]) -> int:
        while behind := self.behind.get(priority):
            index = level.find(behind[0])
            entry = None if index < 0 else level.at(index)
            # It stays noted: once it is taken, the next call finds it absent, and removes it.
            if entry is not None and permits(entry):
                return index
            forget_noted(self.behind, priority, behind[0])
        return -1

    def _find_beyond(
        self, level: PriorityLevel, priority: int, permits: Callable[[QueueEntry], bool], looks: int
    ) -> tuple[int, int]:
        sequences = level.sequences
        for index in range(bisect_right(sequences, self.passed[priority], level.head), len(sequences)):
            entry = level.at(index)
            if entry is not None:
                # The lock is released after so many looks; `passed` keeps the place.
                if not looks:
                    return -1, 0
                looks -= 1
                if permits(entry):
                    return index, looks
            self.passed[priority] = sequences[index]
        # Never 0 here: that would mean that there may be more.
        return -1, max(looks, 1)


class BlockedMessages:
    """The scan states of all consumers of one queue that have skipped messages."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[object, ScanState] = {}

    def find(
        self,
        levels: Sequence[PriorityLevel],
        consumer: object,
        higher_priority: Iterable[Cursor | None],
        permits: Callable[[QueueEntry], bool],
        looks: int,
    ) -> tuple[int, int] | Literal[Unfinished.UNFINISHED] | None:
        """Return the level and the index of the first message that `permits` allows to `consumer`; `UNFINISHED` after so many looks.

        `higher_priority`: the selectors of interested consumers of higher priority. The state is reset when one of the earlier ones is missing: the messages
        skipped for that consumer may be free now.
        """
        state = self.state_of(consumer, higher_priority)
        for priority in range(len(levels) - 1, -1, -1):
            if levels[priority].live:
                index, looks = state.find(levels[priority], priority, permits, looks)
                if index >= 0:
                    return priority, index
                if not looks:
                    return UNFINISHED
        return None

    def state_of(
        self, consumer: object, higher_priority: Iterable[Cursor | None], cursor_went_back: int = 0
    ) -> ScanState:
        """Return the scan state of a consumer. `higher_priority` as in `find`; it is also reset when the cursor of its selector was set back."""
        now = frozenset(higher_priority)
        state = self._states.get(consumer)
        # A consumer of higher priority that was removed may have been the only reason why messages were skipped.
        if state is None or not state.higher_priority <= now or state.cursor_went_back != cursor_went_back:
            state = self._states[consumer] = ScanState(cursor_went_back)
        state.higher_priority = now
        return state

    def forget(self, consumer: object) -> None:
        """Drop the scan state of a consumer, if it has one. May be repeated."""
        self._states.pop(consumer, None)

    def note_returned(self, priority: int, returned: list[QueueEntry]) -> None:
        """Have all consumers look again at released messages, which are sorted."""
        for state in self._states.values():
            note_behind(state, priority, returned)

    def rewind(self, levels: Sequence[PriorityLevel], numbers: Sequence[int], entries: Iterable[QueueEntry]) -> None:
        """Have all consumers look again at those of `entries` that are available; `levels` and `numbers`: by JMS priority."""
        if not self._states:
            return
        there: dict[int, list[QueueEntry]] = {}
        for entry in entries:
            priority = entry.reference.priority
            if levels[priority].find(entry.sequence) >= 0:
                there.setdefault(numbers[priority], []).append(entry)
        for number, freed in there.items():
            # One more than is noted singly sets a consumer back to the first of them, so that it sees all.
            self.note_returned(number, nsmallest(BEHIND_MAXIMUM + 1, freed, key=_by_sequence))
