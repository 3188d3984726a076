"""Which messages of a queue with `Overflow.FLOW_TO_DISK` are in memory. A machine without a lock.

The first ones stay that fit into the queue's limits, as they are wanted first. While others are on the disk, so is what
comes. What is read back is wanted now, so others leave for it, the newest first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyjms_provider.core.queue.policy import Overflow, PolicyError, QueuePolicy

if TYPE_CHECKING:
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId

__all__ = ["MemoryWindow", "check_disk"]


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
