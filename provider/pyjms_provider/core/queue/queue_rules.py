"""What a queue with a policy does beside keeping messages in order: room, last values, sort values, whose turn it is.

A queue asks its rules under its own lock; they have none. A queue that needs none of this has no rules, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pyjms_provider.core.queue.capacity import Capacity, MemoryWindow
from pyjms_provider.core.queue.consumer import ConsumerList
from pyjms_provider.core.queue.last_values import LastValues, last_key
from pyjms_provider.core.queue.message_groups import ExclusiveConsumer, MessageGroups, RedeliveryBarrier, group_place
from pyjms_provider.core.queue.policy import Overflow, QueuePolicy, QueueType
from pyjms_provider.core.queue.sorted_entry_list import SortValue, sort_value
from pyjms_provider.core.store.paging import approximate_size
from pyjms_provider.core.store.store import NotInMemoryError

if TYPE_CHECKING:
    from pyjms.spi.clock import Signal
    from pyjms.spi.envelope import Envelope
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.capacity import CapacityReservation
    from pyjms_provider.core.queue.consumer import Consumer, ConsumerManager, ConsumerSession
    from pyjms_provider.core.queue.cursor import Cursor
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.last_values import LastKey
    from pyjms_provider.core.queue.message_groups import GroupPlace
    from pyjms_provider.core.queue.queue_types import QueueEntryList
    from pyjms_provider.core.queue.scheduled_messages import DelayIndex
    from pyjms_provider.core.queue.sorted_entry_list import Place


def needs_rules(policy: QueuePolicy) -> bool:
    """Return whether a queue with this policy must ask rules on the way of each message."""
    return (
        policy.is_limited
        or policy.type in {QueueType.LAST_VALUE, QueueType.SORTED}
        or policy.exclusive
        or policy.groups
        or policy.non_destructive
        or policy.paused
    )


class _Marks(NamedTuple):
    """What is remembered of a message's properties, as its body may be elsewhere when it is asked for."""

    key: LastKey | None
    sort: SortValue
    group: GroupPlace | None


class QueueRules:
    """The rules of one queue."""

    __slots__ = ("_exclusive", "_groups", "_last_values", "_marks", "memory_window", "policy", "room")

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self.room = Capacity(policy.max_messages, policy.max_bytes) if policy.is_limited else None
        self.memory_window = _shelf(policy)
        """What is in memory, if the rest is to lie on the disk."""
        self._last_values = LastValues() if policy.type is QueueType.LAST_VALUE else None
        self._groups = MessageGroups() if policy.groups else None
        self._exclusive = ExclusiveConsumer() if policy.exclusive else None
        self._marks: dict[QueueEntry, _Marks] = {}

    def change(
        self,
        policy: QueuePolicy,
        references: Sequence[MessageReference],
        read: Callable[[MessageReference], Envelope],
    ) -> Sequence[Signal]:
        """Obey another policy of the same type, while those messages are in the queue.

        Returns the signals of senders that wait for room, who must look again.
        """
        signals = [] if self.room is None else self.room.all_signals()
        before, self.policy = self.room, policy
        self.memory_window = _shelf(policy)
        if policy.non_blocking_redelivery:
            self._delay_none()
        self.room = Capacity(policy.max_messages, policy.max_bytes) if policy.is_limited else None
        if self.room is not None:
            if before is not None:
                self.room.follow(before)
            for reference in references:
                if policy.max_bytes and not reference.size:
                    with suppress(NotInMemoryError):  # what went to the disk was measured when it went
                        reference.size = approximate_size(read(reference))
                self.room.add(reference.size)
        return signals

    # Messages

    @property
    def reads_messages(self) -> bool:
        """Whether the properties of a message must be read when it comes in."""
        return self._last_values is not None or self._groups is not None or self.policy.type is QueueType.SORTED

    def accept(
        self, entry: QueueEntry, read: Callable[[MessageReference], Envelope], claim: CapacityReservation | None = None
    ) -> None:
        """Note a message that has come in, and is not available yet; it takes the room that was held for `claim`."""
        reference = entry.reference
        # What is read first may not be in memory: then nothing has been noted.
        properties = read(reference).properties if self.reads_messages else None
        if self.room is not None:
            if not reference.size and self.policy.max_bytes:
                reference.size = approximate_size(read(reference))
            self.room.add(reference.size)
            if claim is not None:
                self.room.unclaim(claim)  # in the same step: nobody finds it counted twice
                self.wake_sender()  # it may be smaller than it was thought to be
        if properties is not None:
            value = None if self.policy.key is None else properties.get(self.policy.key)
            group = None if self._groups is None else group_place(properties)
            self._marks[entry] = _Marks(last_key(value), sort_value(value), group)
            if self._groups is not None:
                self._groups.arrived(entry, group)

    def sort_value(self, entry: QueueEntry) -> SortValue:
        """Return the value by which a message is sorted."""
        return self._marks[entry].sort

    def arrived(self, entry: QueueEntry) -> QueueEntry | None:
        """Note a message that has become available, perhaps again; return the one, maybe itself, that is superseded now."""
        return None if self._last_values is None else self._last_values.arrived(entry, self._marks[entry].key)

    def is_superseded(self, entry: QueueEntry) -> bool:
        """Return whether a newer message of its key has arrived since."""
        return self._last_values is not None and self._last_values.is_superseded(entry)

    def surplus(self, order: QueueEntryList, delays: DelayIndex) -> QueueEntry | None:
        """Return the next message that a ring queue must drop; None: it is not too full, or all are held."""
        room = self.room
        if room is None or self.policy.overflow is not Overflow.RING or not room.is_exceeded:
            return None
        available, delayed = order.least(), delays.least() if delays else None
        if available is None or delayed is None:
            return available or delayed
        if self.policy.type is QueueType.SORTED:
            return available  # it is the last by its value, and nobody knows how old that is
        return min(available, delayed, key=_age)

    def gone(self, entry: QueueEntry) -> None:
        """Note that a message has left the queue; the sender that waited longest for room looks again."""
        if entry in self._marks:
            if self._last_values is not None:
                self._last_values.gone(entry)
            if self._groups is not None:
                self._groups.gone(entry)
            del self._marks[entry]
        if self._exclusive is not None:
            self._exclusive.gone(entry)
        if self.room is not None:
            self.room.remove(entry.reference.size)
            if self.memory_window is not None:
                self.memory_window.gone(entry.reference)
            self.wake_sender()

    def wake_sender(self) -> None:
        """Have the sender look again that has waited longest, if there is room for its message."""
        signal = None if self.room is None else self.room.next_signal()
        if signal is not None:
            signal.set()

    # Consumers

    @property
    def weighs(self) -> bool:
        """Whether a pull must ask whose turn it is."""
        return self.policy.paused or self._exclusive is not None or self._groups is not None

    @property
    def has_groups(self) -> bool:
        """Whether messages of a group go to one consumer."""
        return self._groups is not None

    @property
    def is_exclusive(self) -> bool:
        """Whether one consumer gets all."""
        return self._exclusive is not None

    def came(self, consumer: Consumer) -> None:
        """Note a consumer that takes messages."""
        if self._exclusive is not None and consumer.acquires:
            self._exclusive.came(consumer)

    def left(self, consumer: Consumer) -> None:
        """Note that a consumer has ended."""
        if self._exclusive is not None:
            self._exclusive.left(consumer)
        if self._groups is not None:
            self._groups.left(consumer)

    def holds_back(self, consumer: Consumer) -> bool:
        """Return whether `consumer` may take nothing at all now."""
        if self.policy.paused and (consumer.acquires or self.policy.non_destructive):
            return True
        return self._exclusive is not None and consumer.acquires and self._exclusive.active is not consumer

    @property
    def barrier(self) -> Place | None:
        """The place in the order of an exclusive queue from which on messages wait for a delayed redelivery; None: none does."""
        return None if self._exclusive is None or not self._exclusive.barrier else self._exclusive.barrier.first

    def may_take(
        self,
        consumer: Consumer,
        rivals: Sequence[Cursor | None],
        order: QueueEntryList,
        entry: QueueEntry,
    ) -> bool:
        """Return whether `consumer` may take a message of a queue with groups.

        `rivals`: the selectors of interested consumers of higher priority, which come first for what nobody owns.
        """
        assert self._groups is not None
        group = self._groups.group_of(entry)
        if group is not None:
            if group.is_blocked(entry, order.place_of):
                return False
            if not group.is_anybodys:
                return group.lets(consumer)
        return not any(rival is None or order.is_wanted(rival, entry) for rival in rivals)

    def choose(
        self,
        entry: QueueEntry,
        manager: ConsumerManager,
        order: QueueEntryList,
    ) -> list[Consumer]:
        """Return whom to wake for a message that is available now."""
        looking = manager.non_acquiring() if manager.non_acquiring_count else []
        if self.policy.paused:
            return [] if self.policy.non_destructive else looking
        candidates: Iterable[Consumer]
        if self._exclusive is not None:
            active, barrier = self._exclusive.active, self._exclusive.barrier
            is_blocked = active is None or (barrier and barrier.is_before(order.place_of(entry)))
            candidates = () if active is None or is_blocked else (active,)
        else:
            group = None if self._groups is None else self._groups.group_of(entry)
            if group is not None and group.is_blocked(entry, order.place_of):
                candidates = ()
            elif group is None or group.is_anybodys:
                chosen = manager.choose(entry, order.note_mismatch) if manager.interested_count else None
                return looking if chosen is None else [chosen, *looking]
            elif group.owner is not None:
                candidates = (group.owner,)
            else:
                candidates = (each for each in manager.members(ConsumerList.INTERESTED) if group.lets(each))
        return [*manager.notify_if_interested([each for each in candidates if _may_want(each, entry)]), *looking]

    def successors(self, manager: ConsumerManager, order: QueueEntryList) -> list[Consumer]:
        """Return whom to wake because one who was woken will not pull, or more may be taken than before."""
        if self.policy.paused:
            return []
        if self._exclusive is not None:
            wanting = [] if self._exclusive.active is None else [self._exclusive.active]
        elif self._groups is not None:
            wanting = manager.members(ConsumerList.INTERESTED)
        else:
            return manager.choose_successors(order.may_have)
        return manager.notify_if_interested([consumer for consumer in wanting if order.may_have(consumer.cursor)])

    # Deliveries, of exclusive queues and of groups

    def delivered(
        self, consumer: Consumer, entry: QueueEntry, manager: ConsumerManager, order: QueueEntryList
    ) -> list[Consumer]:
        """Note that `consumer` took a message; return whom to wake, as others may now take more than before."""
        if self._exclusive is not None:
            self._exclusive.delivered(entry)
        if self._groups is None:
            return []
        if manager.has_priorities and self._is_unowned(entry):
            order.forget_turn(consumer)  # it owns the group now, of which it may have left others some
        if not self._groups.delivered(consumer, entry) or not order:
            return []
        return manager.notify_if_interested([consumer])

    def _is_unowned(self, entry: QueueEntry) -> bool:
        group = None if self._groups is None else self._groups.group_of(entry)
        return group is not None and group.owner is None

    def restored(self, entry: QueueEntry, holder: ConsumerSession) -> None:
        """Note a message that `holder` had received before the broker was started."""
        if self._exclusive is not None:
            self._exclusive.restored(entry, holder)
        if self._groups is not None:
            self._groups.restored(entry, holder)

    def released(self, entries: Iterable[QueueEntry]) -> None:
        """Note that messages were given back, all of which are in their places, or delayed."""
        for entry in entries:
            if self._exclusive is not None:
                self._exclusive.released(entry)
            if self._groups is not None:
                self._groups.released(entry)

    def delayed(self, entries: Iterable[QueueEntry], order: QueueEntryList) -> None:
        """Note that messages that were delivered before are delayed: those behind them wait, unless the policy says otherwise."""
        if self.policy.non_blocking_redelivery:
            return
        for entry in entries:
            if self._exclusive is not None:
                self._exclusive.barrier.add(entry, order.place_of(entry))
            if self._groups is not None:
                self._groups.delayed(entry, order.place_of(entry))

    def due(self, entry: QueueEntry, manager: ConsumerManager) -> list[Consumer]:
        """Note that a message is delayed no longer, and available; return whom to wake for those behind it."""
        owner: Consumer | None = None
        if self._exclusive is not None and self._exclusive.barrier.remove(entry):
            owner = self._exclusive.active
        group = None if self._groups is None else self._groups.due(entry)
        if group is not None and self._groups is not None:
            owner = group.owner
            self._groups.is_freed = self._groups.is_freed or owner is None
        return [] if owner is None else manager.notify_if_interested([owner])

    def _delay_none(self) -> None:
        if self._exclusive is not None:
            self._exclusive.barrier = RedeliveryBarrier()
        if self._groups is not None:
            self._groups.delay_none()

    @property
    def has_freed(self) -> bool:
        """Whether consumers may take messages that they could not take before, and nobody was woken for."""
        if self._exclusive is not None:
            return self._exclusive.is_freed
        return self._groups is not None and self._groups.is_freed

    def freed_for(self, manager: ConsumerManager, order: QueueEntryList) -> list[Consumer]:
        """Return whom to wake for such messages."""
        if self._exclusive is not None:
            self._exclusive.is_freed = False
        if self._groups is not None:
            self._groups.is_freed = False
        return self.successors(manager, order)

    def tell_freed(self, look_again: Callable[[Iterable[QueueEntry]], None]) -> None:
        """Have consumers look again at messages that they passed over before they might take them."""
        freed = {} if self._groups is None else self._groups.freed
        while freed:
            name = next(iter(freed))
            look_again(freed[name])
            freed.pop(name, None)


def _shelf(policy: QueuePolicy) -> MemoryWindow | None:
    return MemoryWindow(policy.max_messages, policy.max_bytes) if policy.overflow is Overflow.FLOW_TO_DISK else None


def _age(entry: QueueEntry) -> tuple[int, int]:
    return entry.reference.priority, entry.reference.id


def _may_want(consumer: Consumer, entry: QueueEntry) -> bool:
    cursor = consumer.cursor
    try:
        return cursor is None or cursor.matches is None or cursor.matches(entry)
    except NotInMemoryError:
        return True  # perhaps in vain: whoever is woken loads the message and looks
