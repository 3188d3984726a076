"""Messages whose time has not come: sent to be delivered later, or given back and to be kept away for a while.

A machine without a lock: its queue calls it under the queue's own.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.policy import QueuePolicy

__all__ = ["DelayIndex", "redelivery_delay_ms"]

_SPARE = 64
_STEP_MS = 1000
"""A clock that is set by less is not noticed."""
_LONGEST_MS = 2**63 - 1
_AT_ONCE = 2
"""A message that was delivered less often comes again at once: JMS programs roll back once for many reasons."""
_DOUBLINGS = 16
_BACK_OFF_MAX_MS = 5000


def redelivery_delay_ms(policy: QueuePolicy, delivery_count: int, back_off_ms: int = 0) -> int:
    """Return how long a message stays away that was delivered so often: the delay grows with each delivery.

    `back_off_ms`: of a policy without a delay, before the third delivery.
    """
    if not policy.redelivery_delay_ms:
        further = delivery_count - _AT_ONCE
        return 0 if further < 0 else min(back_off_ms << min(further, _DOUBLINGS), max(back_off_ms, _BACK_OFF_MAX_MS))
    delay_ms = float(policy.redelivery_delay_ms)
    longest_ms = policy.max_redelivery_delay_ms or _LONGEST_MS
    for _ in range(delivery_count - 1):
        delay_ms *= policy.redelivery_multiplier
        if delay_ms >= longest_ms or policy.redelivery_multiplier <= 1:
            break
    return int(min(delay_ms, longest_ms))


class DelayIndex:
    """The messages that wait, the next one first."""

    __slots__ = ("_ages", "_ahead_ms", "_due", "_heap", "_numbers")

    def __init__(self) -> None:
        self._due: dict[QueueEntry, int] = {}
        self._heap: list[tuple[int, int, QueueEntry]] = []
        self._numbers = count()
        self._ahead_ms = 0.0
        """By how much the clock on the wall, by which all times here are, was ahead of the monotonic one."""
        self._ages: list[tuple[int, int, QueueEntry]] | None = None
        """What `least` needs, once somebody has asked: priority, age and message, of those that have gone, too."""

    def __len__(self) -> int:
        return len(self._due)

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yield the messages by their time; nothing may change meanwhile."""
        return iter(sorted(self._due, key=lambda entry: self._due[entry]))

    def __contains__(self, entry: object) -> bool:
        return entry in self._due

    @property
    def next_ms(self) -> int | None:
        """When the next one is due, in milliseconds since 1970 UTC."""
        heap = self._heap
        while heap and self._due.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def follow(self, ahead_ms: float) -> None:
        """Hear by how much the clock on the wall is ahead of the monotonic one: before a message is added that waits for a while, and before
        those are taken that are due. If it was set, all that wait for a while wait for as long as they were to, and those
        that were sent to be delivered at a time wait for that time.
        """
        by_ms = round(ahead_ms - self._ahead_ms)
        if abs(by_ms) < _STEP_MS:
            return
        due = {
            entry: due_ms if due_ms in {0, entry.reference.deliver_at_ms} else due_ms + by_ms
            for entry, due_ms in self._due.items()
        }
        heap = [(due_ms, next(self._numbers), entry) for entry, due_ms in due.items()]
        heapify(heap)
        self._due, self._heap, self._ahead_ms = due, heap, ahead_ms

    def add(self, entry: QueueEntry, due_ms: int) -> None:
        """Note a message that waits until then, in milliseconds since 1970 UTC; 0: until somebody looks who is due."""
        heappush(self._heap, (due_ms, next(self._numbers), entry))
        if self._ages is not None:
            if len(self._ages) > 2 * len(self._due) + _SPARE:
                self._ages = None  # nobody asks any more, or it is mostly those that have gone
            else:
                heappush(self._ages, _aged(entry))
        self._due[entry] = due_ms

    def discard(self, entry: QueueEntry) -> bool:
        """Forget a message that has left the queue; return whether it waited."""
        if entry not in self._due:
            return False
        if len(self._heap) > 2 * len(self._due) + _SPARE:
            heap = [item for item in self._heap if self._due.get(item[2]) == item[0]]
            heapify(heap)
            self._heap = heap
        del self._due[entry]
        return True

    def least(self) -> QueueEntry | None:
        """Return the oldest message of the lowest priority: a ring queue that is full drops it."""
        ages = self._ages
        if ages is None:
            ages = list(map(_aged, self._due))
            heapify(ages)
            self._ages = ages
        while ages and ages[0][2] not in self._due:
            heappop(ages)
        return ages[0][2] if ages else None

    def take_due(self, now_ms: int, most: int) -> list[QueueEntry]:
        """Take out up to `most` messages whose time has come, in the order of their times."""
        due: list[QueueEntry] = []
        while len(due) < most and (next_ms := self.next_ms) is not None and next_ms <= now_ms:
            entry = self._heap[0][2]
            due.append(entry)
            del self._due[entry]  # the heap forgets it when it is looked at next
        return due


def _aged(entry: QueueEntry) -> tuple[int, int, QueueEntry]:
    return entry.reference.priority, entry.reference.id, entry
