"""The owners of exclusive queues and of message groups (JMSXGroupID, JMSXGroupSeq; JMS 1.1 §3.5.9).

No locks: their queue calls them under its own.

An ownership ends when the owner has been closed *and* no delivery of the queue, or the group, is outstanding, that is delivered and neither settled nor
released: otherwise the next owner would get later messages before those that are released afterwards. Until then only another consumer of the same session
may take over: messages that this session releases return to their places together. In an exclusive queue the oldest consumer of the highest priority is the owner.

The consumer that takes the first message of a group becomes the group's owner. A message with a negative sequence number ends the ownership, too. Of more than `_IDLE_MAX` groups
without messages in the queue or with their owner, the longest idle ones are forgotten: a new owner of one of these overtakes no message.

Messages that wait for a redelivery delay block those behind them (`RedeliveryBarrier`).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyjms.types import Stored
    from pyjms_provider.core.message.entry import Holder, QueueEntry
    from pyjms_provider.core.queue.consumer import Consumer
    from pyjms_provider.core.queue.sorted_entry_list import Place


class RedeliveryBarrier:
    """Delayed redeliveries in the queue's order."""

    __slots__ = ("_heap", "_places")

    def __init__(self) -> None:
        self._places: dict[QueueEntry, Place] = {}
        self._heap: list[tuple[Place, QueueEntry]] = []
        """By place; some are no longer delayed. Places differ, so entries are never compared."""

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, entry: QueueEntry, place: Place) -> None:
        """Add a message that was released, and is delayed."""
        heappush(self._heap, (place, entry))
        self._places[entry] = place

    def remove(self, entry: QueueEntry) -> bool:
        """Remove a message that is available again, or has left the queue; return whether it was delayed."""
        # The heap drops it when it is at the top: finding it there would cost a walk over all.
        return self._places.pop(entry, None) is not None

    @property
    def first(self) -> Place | None:
        """The place of the first delayed message; None: no message is delayed."""
        heap, places = self._heap, self._places
        while heap and heap[0][1] not in places:
            heappop(heap)
        return heap[0][0] if heap else None

    def is_before(self, place: Place) -> bool:
        """Return whether a delayed message comes before that place."""
        first = self.first
        return first is not None and first < place


class ExclusiveConsumer:
    """The active consumer, and the other consumers, of a queue that serves one at a time."""

    __slots__ = ("_outstanding", "_session", "_waiting", "active", "barrier", "is_freed")

    def __init__(self) -> None:
        self.active: Consumer | None = None
        self.barrier = RedeliveryBarrier()
        """Delayed redeliveries."""
        self.is_freed = False
        """Whether a consumer may take messages, and was not woken for them: set here, cleared by the rules."""
        self._session: Holder | None = None
        """The session of the last active consumer, which was closed while deliveries were outstanding."""
        self._outstanding: set[QueueEntry] = set()
        self._waiting: defaultdict[int, OrderedDict[Consumer, None]] = defaultdict(OrderedDict)
        """By priority, the consumers in the order in which they were attached."""

    # Consumers

    def add_consumer(self, consumer: Consumer) -> None:
        """Add a consumer: it becomes active if it may, and no other one is."""
        # A closed owner's session goes on: messages that it releases return to
        # their places, before those that its other consumers take.
        if self.active is None and (not self._outstanding or consumer.session is self._session):
            self._activate(consumer)
        else:
            self._waiting[consumer.priority][consumer] = None

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a closed consumer: if it was active, the next one becomes so, as soon as it may. May be repeated."""
        self._forget(consumer)
        if consumer is self.active:
            # Remembered while deliveries are outstanding, so that only this session's consumers may go on.
            self._session, self.active = consumer.session, None
        if self.active is None:
            self._choose()

    def _choose(self) -> None:
        """Activate the next consumer, if one may be active."""
        for priority in sorted(self._waiting, reverse=True):
            waiting = self._waiting[priority]
            if self._outstanding:
                following = next((each for each in waiting if each.session is self._session), None)
            else:
                following = next(iter(waiting), None)
            if following is not None:
                self._activate(following)
                self._forget(following)
                # No message was added that would wake it: the queue wakes the new owner for those that are there.
                self.is_freed = True
                return

    def _activate(self, consumer: Consumer) -> None:
        self.active = consumer
        self._session = None

    def _forget(self, consumer: Consumer) -> None:
        priority = consumer.priority
        if priority in self._waiting and consumer in self._waiting[priority]:
            del self._waiting[priority][consumer]
            if not self._waiting[priority]:
                del self._waiting[priority]

    # Deliveries

    def delivered(self, entry: QueueEntry) -> None:
        """Record a message that the active consumer takes."""
        self.barrier.remove(entry)
        self._outstanding.add(entry)

    def restored(self, entry: QueueEntry, holder: Holder) -> None:
        """Record a message that `holder` had received before the broker was restarted, by a consumer that no longer exists."""
        self._outstanding.add(entry)
        if (
            self._session is None or holder.is_delivering
        ):  # a branch has no consumers, a reader group goes on with others
            self._session = holder

    def released(self, entry: QueueEntry) -> None:
        """Record that a message was released, and is in its place, or delayed."""
        self._end_delivery(entry)

    def remove(self, entry: QueueEntry) -> None:
        """Record that a message has left the queue. May be repeated."""
        self._end_delivery(entry)
        if self.barrier.remove(entry):
            # Messages behind the delayed one may be taken now, and no event of their own will wake the owner.
            self.is_freed = True

    def _end_delivery(self, entry: QueueEntry) -> None:
        self._outstanding.discard(entry)
        # Not earlier: messages that the last owner releases would come after those that the next one had taken.
        if self.active is None and not self._outstanding:
            self._choose()


GroupPlace: TypeAlias = tuple[str, int]
"""A message's group and its sequence number there; 0: it has none."""

_IDLE_MAX: Final = 10_000
"""At most this many groups without messages have an owner: some 300 bytes each."""
_FORGOTTEN: Final = 100
"""How many of them are forgotten at once, as finding the first ones of a dictionary takes a while."""


def group_place(properties: Mapping[str, Stored]) -> GroupPlace | None:
    """Return the group in a message's properties, if any."""
    group = properties.get("JMSXGroupID")
    if not isinstance(group, str) or not group:
        return None
    sequence = properties.get("JMSXGroupSeq")
    return group, sequence if isinstance(sequence, int) else 0


class MessageGroup:
    """A group that has an owner, or messages, or both."""

    __slots__ = ("barrier", "closing", "entries", "name", "outstanding", "owner", "session")

    def __init__(self, name: str) -> None:
        self.name = name
        self.owner: Consumer | None = None
        self.session: Holder | None = None
        """The session of an owner that was closed while deliveries were outstanding, until they are settled or released."""
        self.entries: set[QueueEntry] = set()
        """Its messages."""
        self.outstanding = 0
        """How many of its deliveries are outstanding."""
        self.closing: QueueEntry | None = None
        """The message with a negative sequence number that its owner has taken, and not released since: no further message of the group may be taken."""
        self.barrier: RedeliveryBarrier | None = None
        """Delayed redeliveries; None: there were none yet."""

    @property
    def is_unowned(self) -> bool:
        """Whether any consumer may become the owner."""
        return self.owner is None and self.session is None and self.closing is None

    def is_blocked(self, entry: QueueEntry, place_of: Callable[[QueueEntry], Place]) -> bool:
        """Return whether no consumer may take a message of the group now, for its order; `place_of` returns places in the queue's order."""
        if self.closing is not None:
            return True
        return bool(self.barrier) and self.barrier is not None and self.barrier.is_before(place_of(entry))

    def permits(self, consumer: Consumer) -> bool:
        """Return whether `consumer` may take messages of the group, unless any consumer may."""
        return consumer is self.owner if self.session is None else consumer.session is self.session


class MessageGroups:
    """The groups of one queue's messages, and their owners."""

    __slots__ = ("_groups", "_idle", "_outstanding", "_owned", "_places", "freed", "is_freed")

    def __init__(self) -> None:
        self._groups: dict[str, MessageGroup] = {}
        self._places: dict[QueueEntry, tuple[GroupPlace, MessageGroup]] = {}
        self._outstanding: dict[QueueEntry, MessageGroup] = {}
        self._owned: dict[Consumer, set[str]] = {}
        """The groups of each consumer."""
        self._idle: dict[str, MessageGroup] = {}
        """Groups that have an owner and no messages, the longest idle first; and some that have changed since."""
        self.freed: dict[str, set[QueueEntry]] = {}
        """By group, messages that consumers may take now and skipped before, until their scan positions are rewound."""
        self.is_freed = False
        """Whether consumers were not woken for some of these: set here, cleared by the rules."""

    # Messages

    def add(self, entry: QueueEntry, place: GroupPlace | None) -> None:
        """Record the group of a message that was added."""
        if place is None or entry in self._places:
            return
        group = self._groups.get(place[0])
        if group is None:
            group = self._groups[place[0]] = MessageGroup(place[0])
        group.entries.add(entry)
        self._places[entry] = place, group

    def remove(self, entry: QueueEntry) -> None:
        """Remove a message that has left the queue, and forget surplus idle groups. May be repeated."""
        found = self._places.get(entry)
        if found is None:
            return
        group = found[1]
        group.entries.discard(entry)
        if group.barrier is not None and group.barrier.remove(entry):
            self._free(group)
        self._end_delivery(entry, group)
        self._places.pop(entry, None)
        if group.entries or self._groups.get(group.name) is not group:
            return
        # An owner is remembered beyond the last message: the next one of the group must not overtake messages that it still processes.
        if group.owner is None:
            del self._groups[group.name]
            return
        # Removed and added again, so that it is at the end:
        # the group that has been idle longest is forgotten first.
        self._idle.pop(group.name, None)
        self._idle[group.name] = group
        if len(self._idle) > _IDLE_MAX:
            self._forget_some()

    def _forget_some(self) -> None:
        for name, group in [*islice(self._idle.items(), _FORGOTTEN)]:
            del self._idle[name]
            # It may have got messages since, or have ended, or have been made again: then it is not idle.
            if not group.entries and self._groups.get(name) is group:
                self._disown(group)
                self._groups.pop(name, None)

    def group_of(self, entry: QueueEntry) -> MessageGroup | None:
        """Return the message's group; None: it has none."""
        found = self._places.get(entry)
        return None if found is None else found[1]

    # Deliveries

    def delivered(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Record that `consumer` takes a message that it may take; return whether it may now take others that it could not take before."""
        found = self._places.get(entry)
        if found is None:
            return False
        (name, sequence), group = found
        if group.barrier is not None:
            group.barrier.remove(entry)
        self._note_outstanding(entry, group)
        if sequence < 0:
            # From here on no further message of the group is delivered, until this one and all before it are settled.
            group.closing = entry
        if group.owner is not None:
            return False
        self._owned.setdefault(consumer, set()).add(name)
        group.owner = consumer
        group.session = None
        return group.closing is None

    def restored(self, entry: QueueEntry, holder: Holder) -> None:
        """Record a message that `holder` had received before the broker was restarted, by a consumer that no longer exists."""
        found = self._places.get(entry)
        if found is None:
            return
        (_, sequence), group = found
        self._note_outstanding(entry, group)
        if sequence < 0:
            group.closing = entry
        if (
            group.session is None or holder.is_delivering
        ):  # a branch has no consumers, a reader group goes on with others
            group.session = holder

    def _note_outstanding(self, entry: QueueEntry, group: MessageGroup) -> None:
        if entry not in self._outstanding:
            self._outstanding[entry] = group
            group.outstanding += 1

    def delayed(self, entry: QueueEntry, place: Place) -> None:
        """Record that a message was released, and is delayed: messages of its group behind that place wait for it."""
        group = self.group_of(entry)
        if group is not None:
            if group.barrier is None:
                group.barrier = RedeliveryBarrier()
            group.barrier.add(entry, place)

    def due(self, entry: QueueEntry) -> MessageGroup | None:
        """Record that a message is no longer delayed; return its group, if it was."""
        group = self.group_of(entry)
        if group is None or group.barrier is None or not group.barrier.remove(entry):
            return None
        # The set itself, not a copy: it has the messages that are in the group when consumers are told.
        self.freed[group.name] = group.entries
        return group

    def delay_none(self) -> None:
        """End all waiting for delayed messages."""
        for group in self._groups.values():
            if group.barrier:
                self._free(group)
            group.barrier = None

    def released(self, entry: QueueEntry) -> None:
        """Record that a message was released, and is in its place, or delayed."""
        group = self._outstanding.get(entry)
        if group is not None:
            # The message that would end the group was released, so the group keeps its owner.
            if group.closing is entry:
                group.closing = None
                self._free(group)
            self._end_delivery(entry, group)

    def _end_delivery(self, entry: QueueEntry, group: MessageGroup) -> None:
        if entry not in self._outstanding:
            return
        group.outstanding -= 1
        del self._outstanding[entry]
        # Not earlier: a new owner would get later messages before those that this one may still release.
        if not group.outstanding and (group.closing is not None or group.owner is None):
            self._disown(group)

    # Owners

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a closed consumer: its groups belong to its session while deliveries are outstanding, afterwards to no one."""
        # A copy, as disowning a group changes the set.
        for name in tuple(self._owned.get(consumer, ())):
            group = self._groups.get(name)
            if group is None or group.owner is not consumer:
                continue
            if group.outstanding:
                # Other consumers of the owner's session may take its messages from now on, and are woken for them.
                self._free(group)
                group.session = consumer.session
                group.owner = None
            else:
                self._disown(group)
                self._idle.pop(name, None)
                if not group.entries:
                    self._groups.pop(name, None)
        self._owned.pop(consumer, None)

    def _disown(self, group: MessageGroup) -> None:
        """End the ownership of a group."""
        self._free(group)
        owner = group.owner
        group.owner = group.session = group.closing = None
        if owner is not None:
            self._owned.get(owner, set()).discard(group.name)

    def _free(self, group: MessageGroup) -> None:
        """Have consumers look again at the messages of a group, and be woken for them."""
        if group.entries:
            self.freed[group.name] = group.entries
            self.is_freed = True
