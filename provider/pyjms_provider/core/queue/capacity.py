"""How much a queue holds and may hold, and who waits for room. A machine without a lock.

Counted is every message that is in the queue, also one that is held or not committed, so that a transaction that has sent
a message finds room for it when it commits. A message larger than the limit in bytes fits into an empty queue: no other
way would ever let it pass.

Which messages of a queue with `Overflow.FLOW_TO_DISK` are in memory. A machine without a lock.

The first ones stay that fit into the queue's limits, as they are wanted first. While others are on the disk, so is what
comes. What is read back is wanted now, so others leave for it, the newest first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyjms.spi.clock import Signal
from pyjms.spi.errors import ResourceError
from pyjms_provider.core.queue.policy import Overflow, PolicyError, QueuePolicy

if TYPE_CHECKING:
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId


class QueueFullError(ResourceError):
    """The queue holds as much as its policy allows."""

    code = "PYJMS-QUEUE-FULL"


class CapacityReservation:
    """One sender that wants room for a message, and may have to wait for it."""

    __slots__ = ("signal", "size")

    def __init__(self, signal: Signal, size: int) -> None:
        self.signal = signal
        """Raised when it is worth to look again."""
        self.size = size


class Capacity:
    """The room of one queue. A claim holds room for a message that is on its way."""

    __slots__ = ("_claimed_size", "_claims", "_waiting", "max_messages", "max_size", "messages", "size")

    def __init__(self, max_messages: int, max_size: int) -> None:
        """Limits in messages and bytes; 0: no limit."""
        self.max_messages = max_messages
        self.max_size = max_size
        self.messages = 0
        self.size = 0
        self._claims: set[CapacityReservation] = set()
        self._claimed_size = 0
        self._waiting: dict[CapacityReservation, None] = {}

    @property
    def waiting_count(self) -> int:
        """How many senders wait."""
        return len(self._waiting)

    @property
    def is_exceeded(self) -> bool:
        """Whether the messages in the queue are more than allowed; one alone is always allowed."""
        return self.messages > 1 and not self._fits(self.messages, self.size)

    def _fits(self, messages: int, size: int) -> bool:
        return (not self.max_messages or messages <= self.max_messages) and (not self.max_size or size <= self.max_size)

    def has_room(self, size: int) -> bool:
        """Return whether a message of `size` bytes fits."""
        messages = self.messages + len(self._claims)
        return not messages or self._fits(messages + 1, self.size + self._claimed_size + size)

    def claim(self, waiting: CapacityReservation) -> bool:
        """Hold room for a message; return False when there is none, or others have waited longer.

        Who has waited does so no longer if this succeeds.
        """
        first = next(iter(self._waiting), None)
        if first not in {None, waiting} or not self.has_room(waiting.size):
            return False
        self._waiting.pop(waiting, None)
        self._claimed_size += waiting.size
        self._claims.add(waiting)
        return True

    def unclaim(self, waiting: CapacityReservation) -> None:
        """End a claim: the message has come in and is counted, or does not come. Nothing happens if there is none."""
        if waiting in self._claims:
            self._claimed_size -= waiting.size
            self._claims.remove(waiting)

    def follow(self, other: Capacity) -> None:
        """Take the place of `other`, with its claims and those that wait there; before anything is counted."""
        self._claims = other._claims
        self._claimed_size = other._claimed_size
        self._waiting = other._waiting

    def add(self, size: int) -> None:
        """Count a message that has come in."""
        self.messages += 1
        self.size += size

    def remove(self, size: int) -> None:
        """Count a message out."""
        self.messages -= 1
        self.size -= size

    def wait(self, waiting: CapacityReservation) -> None:
        """Put a sender at the end of those that wait, if it is not among them."""
        self._waiting[waiting] = None

    def stop_waiting(self, waiting: CapacityReservation) -> None:
        """Let a sender go that waits no longer. May be repeated."""
        self._waiting.pop(waiting, None)

    def next_signal(self) -> Signal | None:
        """Return the signal of the sender that has waited longest, if there is room for its message."""
        first = next(iter(self._waiting), None)
        return None if first is None or not self.has_room(first.size) else first.signal

    def all_signals(self) -> list[Signal]:
        """Return the signals of all that wait, because the queue closes or its limits change."""
        return [waiting.signal for waiting in self._waiting]


def check_disk(policy: QueuePolicy, *, has_disk: bool) -> None:
    """Raise `PolicyError` for a policy that asks for a disk where there is none."""
    if policy.overflow is Overflow.FLOW_TO_DISK and not has_disk:
        raise PolicyError(
            "overflow=flow_to_disk needs a disk, and this broker keeps all messages in memory: start it with store=, or "
            "choose reject, block or ring"
        )


class MemoryWindow:
    """What one queue has in memory."""

    __slots__ = ("_away", "_here", "_max_messages", "_max_size", "_size")

    def __init__(self, max_messages: int, max_size: int) -> None:
        """Limits in messages and bytes; 0: no limit."""
        self._max_messages = max_messages
        self._max_size = max_size
        self._here: OrderedDict[ReferenceId, MessageReference] = OrderedDict()
        self._size = 0
        self._away: set[ReferenceId] = set()

    def came(self, reference: MessageReference) -> bool:
        """Note a message that is in the queue; return whether it is to leave memory. May be repeated."""
        if reference.id in self._here:
            return False
        if self._away or (self._here and not self._fits(len(self._here) + 1, self._size + reference.size)):
            self._away.add(reference.id)
            return True
        self._here[reference.id] = reference
        self._size += reference.size
        return False

    def gone(self, reference: MessageReference) -> None:
        """Note that a message has left the queue. May be repeated."""
        if self._here.pop(reference.id, None) is not None:
            self._size -= reference.size
        else:
            self._away.discard(reference.id)

    def at_once(self, references: Sequence[MessageReference]) -> list[MessageReference]:
        """Return which of these may be read in one go: the first one, and as many of the others as fit."""
        chosen: list[MessageReference] = []
        size = 0
        for reference in references:
            size += reference.size
            if chosen and not self._fits(len(chosen) + 1, size):
                break
            chosen.append(reference)
        return chosen

    def read(self, references: Sequence[MessageReference]) -> list[MessageReference]:
        """Note messages that were read, the first one because it is wanted now; return those that are to leave memory."""
        for reference in reversed(references):
            if reference.id in self._away:
                self._away.discard(reference.id)
                self._here[reference.id] = reference
                self._size += reference.size
            if reference.id in self._here:  # else it has left the queue meanwhile
                self._here.move_to_end(reference.id, last=False)
        leaving: list[MessageReference] = []
        while len(self._here) > 1 and not self._fits(len(self._here), self._size):
            reference_id, reference = self._here.popitem()
            self._size -= reference.size
            self._away.add(reference_id)
            leaving.append(reference)
        return leaving

    def _fits(self, messages: int, size: int) -> bool:
        return (not self._max_messages or messages <= self._max_messages) and (
            not self._max_size or size <= self._max_size
        )
