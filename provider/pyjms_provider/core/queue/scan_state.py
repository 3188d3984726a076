"""What consumers have passed over, as somebody else is to have it: of a group that is another one's, or wanted by a consumer of higher priority.

One without a selector looks at all messages, one with a selector at those that its cursor has found to match and nobody has taken (`Cursor.matched`).

A machine without a lock: its queue calls it under the queue's own. What a consumer has passed over is asked again only when that may have changed:
a message came back (`note_returned`), a group is anybody's (`look_again`), or a consumer of higher priority waits no longer (`find`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from pyjms_provider.core.queue.cursor import (
    BEHIND_MAXIMUM,
    UNFINISHED,
    Cursor,
    Unfinished,
    forget_noted,
    is_noted,
    note_behind,
)
from pyjms_provider.core.queue.priority_level import SPARE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.priority_level import PriorityLevel

_by_sequence = attrgetter("sequence")


class ScanState(Cursor):
    """How far one consumer has looked."""

    __slots__ = ("cursor_went_back", "rivals")

    def __init__(self, cursor_went_back: int = 0) -> None:
        super().__init__(None)
        self.cursor_went_back = cursor_went_back
        """How often the cursor of its selector had gone back when it began."""
        self.rivals: frozenset[Cursor | None] = frozenset()
        """The selectors of the interested consumers of higher priority when it looked last."""

    def find(
        self, lane: PriorityLevel, priority: int, permits: Callable[[QueueEntry], bool], looks: int
    ) -> tuple[int, int]:
        """Return the index of the first message of a lane that `permits` allows, or -1, and how many looks are left of `looks`; 0: there may be more."""
        index = self._find_behind(lane, priority, permits)
        return (index, looks) if index >= 0 else self._find_beyond(lane, priority, permits, looks)

    def find_matched(
        self, lane: PriorityLevel, matched: dict[int, list[int]], priority: int, permits: Callable[[QueueEntry], bool]
    ) -> int:
        """Return the index of the first message of a lane that `permits` allows among those that match, or -1."""
        sequences = matched[priority]
        while behind := self.behind.get(priority):
            index = lane.find(behind[0]) if is_noted(sequences, behind[0]) else -1
            entry = None if index < 0 else lane.at(index)
            if entry is not None and permits(entry):
                return index
            forget_noted(self.behind, priority, behind[0])
        for position in range(bisect_right(sequences, self.passed[priority]), len(sequences)):
            sequence = sequences[position]
            index = lane.find(sequence)
            entry = None if index < 0 else lane.at(index)
            if entry is not None and permits(entry):
                return index
            self.passed[priority] = sequence
        if len(sequences) > 2 * lane.live + SPARE:  # others have taken most of them
            left = [sequence for sequence in sequences if lane.find(sequence) >= 0]
            if left:
                matched[priority] = left
            else:
                del matched[priority]
        return -1

    def _find_behind(self, lane: PriorityLevel, priority: int, permits: Callable[[QueueEntry], bool]) -> int:
        while behind := self.behind.get(priority):
            index = lane.find(behind[0])
            entry = None if index < 0 else lane.at(index)
            if entry is not None and permits(entry):
                return index
            forget_noted(self.behind, priority, behind[0])
        return -1

    def _find_beyond(
        self, lane: PriorityLevel, priority: int, permits: Callable[[QueueEntry], bool], looks: int
    ) -> tuple[int, int]:
        sequences = lane.sequences
        for index in range(bisect_right(sequences, self.passed[priority], lane.head), len(sequences)):
            entry = lane.at(index)
            if entry is not None:
                if not looks:
                    return -1, 0
                looks -= 1
                if permits(entry):
                    return index, looks
            self.passed[priority] = sequences[index]
        return -1, max(looks, 1)


class BlockedMessages:
    """What is known of all consumers of one queue that have passed over something."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: dict[object, ScanState] = {}

    def find(
        self,
        lanes: Sequence[PriorityLevel],
        consumer: object,
        rivals: Iterable[Cursor | None],
        permits: Callable[[QueueEntry], bool],
        looks: int,
    ) -> tuple[int, int] | Literal[Unfinished.UNFINISHED] | None:
        """Return the lane and the place of the first message that `permits` allows to `consumer`; `UNFINISHED` after so many looks.

        `rivals`: the selectors of interested consumers of higher priority. It begins anew when one of those has gone that were there: what it passed
        over for that one's sake may be its own.
        """
        turn = self.turn_of(consumer, rivals)
        for priority in range(len(lanes) - 1, -1, -1):
            if lanes[priority].live:
                index, looks = turn.find(lanes[priority], priority, permits, looks)
                if index >= 0:
                    return priority, index
                if not looks:
                    return UNFINISHED
        return None

    def turn_of(self, consumer: object, rivals: Iterable[Cursor | None], cursor_went_back: int = 0) -> ScanState:
        """Return how far a consumer has looked. `rivals` as in `find`; it begins anew, too, when the cursor of its selector has gone back."""
        now = frozenset(rivals)
        turn = self._turns.get(consumer)
        if turn is None or not turn.rivals <= now or turn.cursor_went_back != cursor_went_back:
            turn = self._turns[consumer] = ScanState(cursor_went_back)
        turn.rivals = now
        return turn

    def forget(self, consumer: object) -> None:
        """Have a consumer begin anew, if there is one. May be repeated."""
        self._turns.pop(consumer, None)

    def note_returned(self, priority: int, returned: list[QueueEntry]) -> None:
        """Have all ask for messages that came back, sorted."""
        for turn in self._turns.values():
            note_behind(turn, priority, returned)

    def look_again(self, lanes: Sequence[PriorityLevel], levels: Sequence[int], entries: Iterable[QueueEntry]) -> None:
        """Have all ask again for those of `entries` that are available; `lanes` and `levels`: by JMS priority."""
        if not self._turns:
            return
        there: dict[int, list[QueueEntry]] = {}
        for entry in entries:
            priority = entry.reference.priority
            if lanes[priority].find(entry.sequence) >= 0:
                there.setdefault(levels[priority], []).append(entry)
        for level, freed in there.items():
            # With one more than is noted singly a consumer goes back to the first of them, and so sees all.
            self.note_returned(level, nsmallest(BEHIND_MAXIMUM + 1, freed, key=_by_sequence))
