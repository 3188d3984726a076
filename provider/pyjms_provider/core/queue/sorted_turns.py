"""What consumers without a selector have passed over in a sorted queue, as somebody else is to have it: beside `passed_over.py`, for places that come anywhere.

A machine without a lock: its queue calls it under the queue's own. A consumer remembers the last place that it has passed. What has come before that place
since, came back, or became anybody's, stands in one list for all consumers: each reads on there when it looks, so a message costs the same however many consumers there
are. When that list is longer than twice the queue it is forgotten, and who has not read it begins anew.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pyjms_provider.core.queue.cursor import UNFINISHED, Cursor, Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyjms_provider.core.queue.entry import QueueEntry

__all__ = ["Place", "SortValue", "SortedBlockedMessages"]

SortValue: TypeAlias = tuple[int, float, str]
"""A rank for the kind of value, the number, the text."""
Place: TypeAlias = tuple[SortValue, int]
"""Where a message stands: its value, and its sequence number."""

_SPARE: Final = 64


class _Turn:
    """How far one consumer has looked."""

    __slots__ = ("behind", "passed", "read", "rivals")

    def __init__(self, read: int) -> None:
        self.passed: Place | None = None
        """All up to this place is somebody else's, save what is in `behind`; None: it has passed nothing."""
        self.behind: list[Place] = []
        """A heap. Some may have gone, and some stand there twice."""
        self.read = read
        """So many of all that came have been read."""
        self.rivals: frozenset[Cursor | None] = frozenset()
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
        if not self._turns:
            return
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
        rivals: Iterable[Cursor | None],
        permits: Callable[[QueueEntry], bool],
        looks: int,
    ) -> int | Literal[Unfinished.UNFINISHED] | None:
        """Return the index, in `places` from `head` on, of the first message that `permits` allows to `consumer`; `UNFINISHED` after so many looks.

        `entries`: the messages by their sequence numbers; `rivals` as in `BlockedMessages`.
        """
        turn = self._turn_of(consumer, frozenset(rivals))
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

    def _turn_of(self, consumer: object, rivals: frozenset[Cursor | None]) -> _Turn:
        turn = self._turns.get(consumer)
        if turn is None or not turn.rivals <= rivals or turn.read < self._forgotten:
            turn = self._turns[consumer] = _Turn(self._forgotten + len(self._came))
        turn.rivals = rivals
        return turn

    def _read_on(self, turn: _Turn, entries: Mapping[int, QueueEntry]) -> None:
        fresh = self._came[turn.read - self._forgotten :]
        if turn.passed is not None:
            for place in fresh:
                if place <= turn.passed:
                    heappush(turn.behind, place)
        turn.read += len(fresh)
        if len(turn.behind) > 2 * len(entries) + _SPARE:
            turn.behind = sorted({place for place in turn.behind if place[1] in entries})  # sorted, and so a heap
