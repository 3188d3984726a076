"""When the messages of one channel expire (JMS 1.1 §3.4.9). A machine without a lock."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference
from pyjms_provider.core.queue.entry import QueueEntry

__all__ = ["ExpiryIndex", "is_expired"]

_SPARE = 64


def is_expired(reference: MessageReference, now_ms: int) -> bool:
    """Return whether the message's time is over at `now_ms`, in milliseconds since 1970 UTC."""
    return 0 < reference.expiration_ms <= now_ms


class ExpiryIndex:
    """The messages that can expire, the next one first. Settled ones are dropped when they outnumber the others."""

    __slots__ = ("_gone", "_heap", "_staying", "due_ms")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, QueueEntry]] = []
        self._staying: list[QueueEntry] = []
        """Messages that have expired, and that were not to go when somebody looked last."""
        self._gone = 0
        self.due_ms: int | None = None
        """When the housekeeper has been asked to come; None: not at all."""

    def __len__(self) -> int:
        return len(self._heap) + len(self._staying)

    def add(self, entry: QueueEntry) -> bool:
        """Note a message that can expire; return True if the housekeeper must come earlier than was asked."""
        expiration_ms = entry.reference.expiration_ms
        heappush(self._heap, (expiration_ms, entry.reference.id, entry))
        if self.due_ms is None or expiration_ms < self.due_ms:
            self.due_ms = expiration_ms
            return True
        return False

    def forget_one(self) -> None:
        """Note that some message that can expire has left the channel in another way."""
        self._gone += 1
        if self._gone > _SPARE and self._gone * 2 > len(self):
            self._staying = [entry for entry in self._staying if entry.state is not MessageState.ABSENT]
            self._heap = [item for item in self._heap if item[2].state is not MessageState.ABSENT]
            heapify(self._heap)
            self._gone = 0

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Keep messages in mind that have expired and must not go yet; no visit of the housekeeper is planned for them."""
        self._staying += entries

    def look_again(self) -> None:
        """Have `take_expired` return those as well that were put back."""
        for entry in self._staying:
            heappush(self._heap, (entry.reference.expiration_ms, entry.reference.id, entry))
        self._staying = []

    def take_expired(self, now_ms: int, most: int) -> list[QueueEntry]:
        """Take out up to `most` messages in the channel that have expired, and plan the housekeeper's next visit."""
        expired: dict[QueueEntry, None] = {}  # once, although a message that came back may be listed twice
        heap = self._heap
        while heap and len(expired) < most and (heap[0][0] <= now_ms or heap[0][2].state is MessageState.ABSENT):
            entry = heappop(heap)[2]
            if entry.state is MessageState.ABSENT:
                self._gone -= 1
            else:
                expired[entry] = None
        self.due_ms = heap[0][0] if heap else None
        return list(expired)
