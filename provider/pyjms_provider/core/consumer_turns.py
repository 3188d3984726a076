"""Which consumer may take what, beside selectors and priorities: message groups, and the one active consumer.

Machines without a lock: their queue calls them under the queue's own.

*Groups* (JMSXGroupID, JMSXGroupSeq; JMS 1.1 §3.5.9): the first message of a group makes the consumer that takes it the
group's owner. It gets all others, until it ends, or until it has taken one whose sequence number is negative.

*Exclusive*: the consumer of the highest priority that came first is active, and stays so until it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyjms.types import Stored
    from pyjms_provider.core.consumer import Consumer
    from pyjms_provider.core.entry import QueueEntry

__all__ = ["ActiveConsumer", "GroupOwners", "GroupPlace", "group_place"]

GroupPlace: TypeAlias = tuple[str, int]
"""A message's group and its sequence number there; 0: it has none."""


def group_place(properties: Mapping[str, Stored]) -> GroupPlace | None:
    """Return the group that a message says it is in, if it says so."""
    group = properties.get("JMSXGroupID")
    if not isinstance(group, str) or not group:
        return None
    sequence = properties.get("JMSXGroupSeq")
    return group, sequence if isinstance(sequence, int) else 0


class GroupOwners:
    """The owners of groups, and the groups of messages."""

    __slots__ = ("_owned", "_owners", "_places")

    def __init__(self) -> None:
        self._places: dict[QueueEntry, GroupPlace] = {}
        self._owners: dict[str, Consumer] = {}
        self._owned: dict[Consumer, set[str]] = {}

    def arrived(self, entry: QueueEntry, place: GroupPlace | None) -> None:
        """Note the group of a message that has come."""
        if place is not None:
            self._places[entry] = place

    def gone(self, entry: QueueEntry) -> None:
        """Forget a message that has left the queue."""
        self._places.pop(entry, None)

    def owner(self, entry: QueueEntry) -> Consumer | None:
        """Return who owns the message's group; None: nobody, or it has no group."""
        place = self._places.get(entry)
        return None if place is None else self._owners.get(place[0])

    def permits(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Return whether `consumer` may take the message."""
        return self.owner(entry) in {None, consumer}

    def took(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Note that `consumer` takes a message that it may take; return whether it, or all, may now take others."""
        place = self._places.get(entry)
        if place is None:
            return False
        group, sequence = place
        if sequence < 0:
            owner = self._owners.pop(group, None)
            if owner is not None:
                self._owned[owner].discard(group)
            return owner is not None
        if group in self._owners:
            return False
        self._owners[group] = consumer
        self._owned.setdefault(consumer, set()).add(group)
        return True

    def left(self, consumer: Consumer) -> None:
        """Note that `consumer` has ended: its groups are anybody's."""
        for group in self._owned.pop(consumer, ()):
            del self._owners[group]

    def groups_of(self, consumer: Consumer) -> frozenset[str]:
        """Return the groups that `consumer` owns."""
        return frozenset(self._owned.get(consumer, ()))


class ActiveConsumer:
    """The consumers of a queue that serves one at a time."""

    __slots__ = ("_waiting", "active")

    def __init__(self) -> None:
        self.active: Consumer | None = None
        self._waiting: dict[Consumer, None] = {}

    def came(self, consumer: Consumer) -> None:
        """Note a new consumer: it is active if there is none."""
        if self.active is None:
            self.active = consumer
        else:
            self._waiting[consumer] = None

    def left(self, consumer: Consumer) -> bool:
        """Note that `consumer` has ended; return whether another one is active now."""
        self._waiting.pop(consumer, None)
        if consumer is not self.active:
            return False
        # max() returns the first of several: the one that came first.
        self.active = max(self._waiting, key=lambda waiting: waiting.priority, default=None)
        if self.active is not None:
            del self._waiting[self.active]
        return self.active is not None
