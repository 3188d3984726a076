"""Messages with a time: they expire (JMS 1.1 §3.4.9), are to be delivered later, or wait for a redelivery delay.

No locks: their queue calls them under its own.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from pyjms_provider.core.message.message_state import MessageState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.policy import QueuePolicy

_SPARE = 64


def is_expired(reference: MessageReference, now_ms: int) -> bool:
    """Return whether the message has expired at `now_ms`, in milliseconds since 1970 UTC."""
    return 0 < reference.expiration_ms <= now_ms


class ExpiryIndex:
    """The messages that can expire, the next one first. Settled ones are dropped when they outnumber the others."""

    __slots__ = ("_absent_count", "_deferred", "_heap", "due_ms")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, QueueEntry]] = []
        self._deferred: list[QueueEntry] = []
        """Messages that have expired, and had to stay at the last check."""
        self._absent_count = 0
        self.due_ms: int | None = None
        """The time of the next call that was scheduled; None: none."""

    def __len__(self) -> int:
        return len(self._heap) + len(self._deferred)

    def add(self, entry: QueueEntry) -> bool:
        """Add a message that can expire; return True if an earlier call must be scheduled."""
        expiration_ms = entry.reference.expiration_ms
        # The id decides between equal times, so that entries are never compared.
        heappush(self._heap, (expiration_ms, entry.reference.id, entry))
        if self.due_ms is None or expiration_ms < self.due_ms:
            self.due_ms = expiration_ms
            return True
        return False

    def forget_one(self) -> None:
        """Count a message that can expire and has left the channel in another way."""
        # Finding one in a heap costs as much as clearing all, so absent ones are counted, and cleared together.
        self._absent_count += 1
        # When they are the majority: clearing then costs each message a constant part.
        if self._absent_count > _SPARE and self._absent_count * 2 > len(self):
            self._deferred = [entry for entry in self._deferred if entry.state is not MessageState.ABSENT]
            self._heap = [item for item in self._heap if item[2].state is not MessageState.ABSENT]
            heapify(self._heap)
            self._absent_count = 0

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Keep expired messages that must stay for now; no call is scheduled for them."""
        # Beside the heap: on top of it they would be found and put back again and again in one call.
        self._deferred += entries

    def rewind(self) -> None:
        """Have `take_expired` return the messages that were put back, too."""
        for entry in self._deferred:
            heappush(self._heap, (entry.reference.expiration_ms, entry.reference.id, entry))
        self._deferred = []

    def take_expired(self, now_ms: int, most: int) -> list[QueueEntry]:
        """Remove and return up to `most` expired messages of the channel, and compute the time of the next call."""
        expired: dict[QueueEntry, None] = {}  # each once, although a message that was put back may be listed twice
        heap = self._heap
        # Absent messages are dropped on the way, whatever their time.
        while heap and len(expired) < most and (heap[0][0] <= now_ms or heap[0][2].state is MessageState.ABSENT):
            entry = heappop(heap)[2]
            if entry.state is MessageState.ABSENT:
                self._absent_count -= 1
            else:
                expired[entry] = None
        self.due_ms = heap[0][0] if heap else None
        return list(expired)


_STEP_MS = 1000
"""A smaller change of the clock is ignored."""
_LONGEST_MS = 2**63 - 1
_AT_ONCE = 2
"""A message delivered less often is redelivered at once: JMS programs roll back once for many reasons."""
_DOUBLINGS = 16
_BACK_OFF_MAX_MS = 5000


def redelivery_delay_ms(policy: QueuePolicy, delivery_count: int, back_off_ms: int = 0) -> int:
    """Return the redelivery delay after this many deliveries: it grows with each one.

    `back_off_ms`: of a policy without a delay, before the third delivery.
    """
    if not policy.redelivery_delay_ms:
        further = delivery_count - _AT_ONCE
        # The shift is limited: a message that was delivered a million times must not make a number of a million bits.
        return 0 if further < 0 else min(back_off_ms << min(further, _DOUBLINGS), max(back_off_ms, _BACK_OFF_MAX_MS))
    delay_ms = float(policy.redelivery_delay_ms)
    longest_ms = policy.max_redelivery_delay_ms or _LONGEST_MS
    # Ends at the longest delay, so a high count costs no long loop.
    for _ in range(delivery_count - 1):
        delay_ms *= policy.redelivery_multiplier
        if delay_ms >= longest_ms or policy.redelivery_multiplier <= 1:
            break
    return int(min(delay_ms, longest_ms))


class DelayIndex:
    """The delayed messages, the next one first."""

    __slots__ = ("_ages", "_ahead_ms", "_due", "_heap", "_numbers")

    def __init__(self) -> None:
        self._due: dict[QueueEntry, int] = {}
        self._heap: list[tuple[int, int, QueueEntry]] = []
        self._numbers = count()
        self._ahead_ms = 0.0
        """By how much the wall clock, in which all times here are given, was ahead of the monotonic one."""
        self._ages: list[tuple[int, int, QueueEntry]] | None = None
        """The heap for `least_important`, once it was called: priority, age and message, absent ones included."""

    def __len__(self) -> int:
        return len(self._due)

    def __iter__(self) -> Iterator[QueueEntry]:
        """Yield the messages by their time; the index must not change meanwhile."""
        return iter(sorted(self._due, key=lambda entry: self._due[entry]))

    def __contains__(self, entry: object) -> bool:
        return entry in self._due

    @property
    def next_ms(self) -> int | None:
        """When the next one is due, in milliseconds since 1970 UTC."""
        heap = self._heap
        # A message that left, or was delayed again, is still in the heap with its old time.
        while heap and self._due.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def follow(self, ahead_ms: float) -> None:
        """Set by how much the wall clock is ahead of the monotonic one: before a message with a delay is added, and before due ones
        are taken. If the wall clock was set, delays keep their durations, and messages that were sent for a point in time keep
        that point.
        """
        by_ms = round(ahead_ms - self._ahead_ms)
        if abs(by_ms) < _STEP_MS:
            return
        due = {
            # A point in time stays: the message was sent to be delivered then. Only durations move with the clock.
            entry: due_ms if due_ms in {0, entry.reference.deliver_at_ms} else due_ms + by_ms
            for entry, due_ms in self._due.items()
        }
        heap = [(due_ms, next(self._numbers), entry) for entry, due_ms in due.items()]
        heapify(heap)
        self._due, self._heap, self._ahead_ms = due, heap, ahead_ms

    def add(self, entry: QueueEntry, due_ms: int) -> None:
        """Add a message that waits until then, in milliseconds since 1970 UTC; 0: until the next call of `take_due`."""
        heappush(self._heap, (due_ms, next(self._numbers), entry))
        if self._ages is not None:
            if len(self._ages) > 2 * len(self._due) + _SPARE:
                self._ages = None  # no longer used, or mostly absent messages
            else:
                heappush(self._ages, _aged(entry))
        self._due[entry] = due_ms

    def discard(self, entry: QueueEntry) -> bool:
        """Remove a message that has left the queue; return whether it was delayed."""
        if entry not in self._due:
            return False
        if len(self._heap) > 2 * len(self._due) + _SPARE:
            heap = [item for item in self._heap if self._due.get(item[2]) == item[0]]
            heapify(heap)
            self._heap = heap
        del self._due[entry]
        return True

    def least_important(self) -> QueueEntry | None:
        """Return the oldest message of the lowest priority, which a full ring queue drops."""
        ages = self._ages
        if ages is None:
            ages = list(map(_aged, self._due))
            heapify(ages)
            self._ages = ages
        while ages and ages[0][2] not in self._due:
            heappop(ages)
        return ages[0][2] if ages else None

    def take_due(self, now_ms: int, most: int) -> list[QueueEntry]:
        """Remove and return up to `most` due messages, in the order of their times."""
        due: list[QueueEntry] = []
        while len(due) < most and (next_ms := self.next_ms) is not None and next_ms <= now_ms:
            entry = self._heap[0][2]
            due.append(entry)
            del self._due[entry]  # the heap drops it at its next use
        return due


def _aged(entry: QueueEntry) -> tuple[int, int, QueueEntry]:
    return entry.reference.priority, entry.reference.id, entry
