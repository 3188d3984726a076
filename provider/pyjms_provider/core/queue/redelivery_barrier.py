"""The messages of one exclusive queue, or of one message group, that wait for their redelivery delay: messages behind the first of them wait, too.

A machine without a lock: its queue calls it under the queue's own.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.sorted_turns import Place

__all__ = ["RedeliveryBarrier"]


class RedeliveryBarrier:
    """Delayed redeliveries in the queue's order."""

    __slots__ = ("_heap", "_places")

    def __init__(self) -> None:
        self._places: dict[QueueEntry, Place] = {}
        self._heap: list[tuple[Place, QueueEntry]] = []
        """By place; some are delayed no longer. Places differ, so entries are never compared."""

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, entry: QueueEntry, place: Place) -> None:
        """Note a message that was released, and is delayed."""
        heappush(self._heap, (place, entry))
        self._places[entry] = place

    def remove(self, entry: QueueEntry) -> bool:
        """Forget a message that is available again, or has left the queue; return whether it was delayed."""
        return self._places.pop(entry, None) is not None

    @property
    def first(self) -> Place | None:
        """The place of the first delayed message; None: none is delayed."""
        heap, places = self._heap, self._places
        while heap and heap[0][1] not in places:
            heappop(heap)
        return heap[0][0] if heap else None

    def is_before(self, place: Place) -> bool:
        """Return whether a delayed message comes before that place."""
        first = self.first
        return first is not None and first < place
