"""What is known of a selector, or a browser, in one queue: up to where nothing matches, and what was noted before that.

A `Cursor` remembers, for one selector text, up to where nothing matches. All consumers with that text share it, so each
message is evaluated once for a text, and a poll over a long backlog of others costs only what is new. A message that is
given back behind a cursor is noted with the cursor, and so is one that matches and that somebody else is to have; so nothing before it is
evaluated again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.value_index import ValueIndex

__all__ = [
    "BEHIND_MAXIMUM",
    "PRIORITIES",
    "UNFINISHED",
    "Cursor",
    "Places",
    "SharedCursors",
    "Unfinished",
    "first_noted",
    "forget_noted",
    "is_noted",
    "note_behind",
]

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
