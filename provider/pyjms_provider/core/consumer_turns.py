"""Which consumer may take what, beside selectors and priorities: message groups, and the one active consumer.

Machines without a lock: their queue calls them under the queue's own.

*Groups* (JMSXGroupID, JMSXGroupSeq; JMS 1.1 §3.5.9): the first message of a group makes the consumer that takes it the
group's owner. It gets all others, until it ends, or until it has taken one whose sequence number is negative. Of more groups
than `_IDLE_MAX` those are forgotten, longest without messages first, that have none in the queue or with their owner: who
owns one of these anew overtakes nobody.

*Exclusive*: the consumer of the highest priority that came first is active, and stays so until it ends.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyjms.types import Stored
    from pyjms_provider.core.consumer import Consumer
    from pyjms_provider.core.entry import QueueEntry

__all__ = ["ActiveConsumer", "GroupOwners", "GroupPlace", "group_place"]

GroupPlace: TypeAlias = tuple[str, int]
"""A message's group and its sequence number there; 0: it has none."""

_IDLE_MAX: Final = 10_000
"""At most so many groups without messages have an owner: some 250 bytes each."""
_FORGOTTEN: Final = 100
"""So many of them are forgotten in one go, as finding the first ones of a dictionary takes a while."""


def group_place(properties: Mapping[str, Stored]) -> GroupPlace | None:
    """Return the group that a message says it is in, if it says so."""
    group = properties.get("JMSXGroupID")
    if not isinstance(group, str) or not group:
        return None
    sequence = properties.get("JMSXGroupSeq")
    return group, sequence if isinstance(sequence, int) else 0


class _Group:
    """One group that has an owner, or messages, or both."""

    __slots__ = ("entries", "owner")

    def __init__(self) -> None:
        self.owner: Consumer | None = None
        self.entries: set[QueueEntry] = set()
        """Its messages. If a thread was interrupted, too many, so that no owner is forgotten too soon."""


class GroupOwners:
    """The owners of groups, and the groups of messages."""

    __slots__ = ("_groups", "_idle", "_owned", "_places", "freed")

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._places: dict[QueueEntry, tuple[GroupPlace, _Group]] = {}
        self._owned: dict[Consumer, set[str]] = {}
        """The groups of each consumer, and those besides in which a thread was interrupted."""
        self._idle: dict[str, _Group] = {}
        """Groups that have an owner and no messages, first the one whose last message left first; and some that have changed since."""
        self.freed: list[set[QueueEntry]] = []
        """The messages of groups that have become anybody's, until others have been told."""

    def arrived(self, entry: QueueEntry, place: GroupPlace | None) -> None:
        """Note the group of a message that has come."""
        if place is None or entry in self._places:
            return
        group = self._groups.get(place[0])
        if group is None:
            group = self._groups[place[0]] = _Group()
        group.entries.add(entry)
        self._places[entry] = place, group

    def gone(self, entry: QueueEntry) -> None:
        """Forget a message that has left the queue, and what there is to be forgotten of groups without messages."""
        found = self._places.pop(entry, None)
        if found is None:
            return
        (name, _), group = found
        group.entries.discard(entry)
        if group.entries:
            return
        if group.owner is None:
            self._groups.pop(name, None)
            return
        self._idle.pop(name, None)
        self._idle[name] = group
        if len(self._idle) > _IDLE_MAX:
            self._forget_some()

    def _forget_some(self) -> None:
        for name, group in [*islice(self._idle.items(), _FORGOTTEN)]:
            del self._idle[name]
            if not group.entries and self._groups.get(name) is group:
                self._disown(name, group)
                del self._groups[name]

    def _disown(self, name: str, group: _Group) -> bool:
        """Have a group be anybody's; return whether it was not."""
        owner = group.owner
        if owner is None:
            return False
        self.freed.append(group.entries)  # first: if the thread is interrupted, others look again in vain
        group.owner = None
        self._owned.get(owner, set()).discard(name)
        return True

    def owner(self, entry: QueueEntry) -> Consumer | None:
        """Return who owns the message's group; None: nobody, or it has no group."""
        found = self._places.get(entry)
        return None if found is None else found[1].owner

    def is_unowned(self, entry: QueueEntry) -> bool:
        """Return whether the message has a group, which nobody owns."""
        found = self._places.get(entry)
        return found is not None and found[1].owner is None

    def took(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Note that `consumer` takes a message that it may take; return whether it, or all, may now take others."""
        found = self._places.get(entry)
        if found is None:
            return False
        (name, sequence), group = found
        if sequence < 0:
            return self._disown(name, group)
        if group.owner is not None:
            return False
        # First: wherever the thread is interrupted, the consumer's end finds the group.
        self._owned.setdefault(consumer, set()).add(name)
        group.owner = consumer
        return True

    def left(self, consumer: Consumer) -> None:
        """Note that `consumer` has ended: its groups are anybody's."""
        for name in tuple(self._owned.get(consumer, ())):
            group = self._groups.get(name)
            if group is None or group.owner is not consumer:
                continue
            self.freed.append(group.entries)
            group.owner = None
            self._idle.pop(name, None)
            if not group.entries:
                del self._groups[name]
        self._owned.pop(consumer, None)


class ActiveConsumer:
    """The consumers of a queue that serves one at a time."""

    __slots__ = ("_waiting", "active")

    def __init__(self) -> None:
        self.active: Consumer | None = None
        self._waiting: defaultdict[int, OrderedDict[Consumer, None]] = defaultdict(OrderedDict)
        """By priority, those that came first before the others."""

    def came(self, consumer: Consumer) -> None:
        """Note a new consumer: it is active if there is none."""
        if self.active is None:
            self.active = consumer
        else:
            self._waiting[consumer.priority][consumer] = None

    def left(self, consumer: Consumer) -> None:
        """Note that `consumer` has ended: if it was the active one, another one is."""
        self._forget(consumer)
        if consumer is not self.active:
            return
        highest = max(self._waiting, default=None)
        self.active = None if highest is None else next(iter(self._waiting[highest]))
        if self.active is not None:
            self._forget(self.active)

    def _forget(self, consumer: Consumer) -> None:
        priority = consumer.priority
        if priority in self._waiting and consumer in self._waiting[priority]:
            del self._waiting[priority][consumer]  # without a call in between, as no priority may be without consumers
            if not self._waiting[priority]:
                del self._waiting[priority]
