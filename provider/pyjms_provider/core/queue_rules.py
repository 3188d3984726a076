"""What a queue with a policy does beside keeping messages in order: room, last values, sort values, whose turn it is.

A queue asks its rules under its own lock; they have none. A queue that needs none of this has no rules, and asks nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from pyjms_provider.core.consumer_manager import ConsumerList
from pyjms_provider.core.consumer_turns import ActiveConsumer, GroupOwners, group_place
from pyjms_provider.core.last_values import LastValues, last_key
from pyjms_provider.core.limits import Room
from pyjms_provider.core.paging import approximate_size
from pyjms_provider.core.policy import Overflow, QueuePolicy, QueueType
from pyjms_provider.core.shelf import Shelf
from pyjms_provider.core.sorted_ordering import sort_value
from pyjms_provider.core.sorted_turns import SortValue
from pyjms_provider.core.store import NotInMemoryError

if TYPE_CHECKING:
    from pyjms.spi.clock import Signal
    from pyjms.spi.envelope import Envelope
    from pyjms_provider.core.consumer import Consumer
    from pyjms_provider.core.consumer_manager import ConsumerManager
    from pyjms_provider.core.consumer_turns import GroupPlace
    from pyjms_provider.core.cursor import Cursor
    from pyjms_provider.core.delays import DelayIndex
    from pyjms_provider.core.entry import QueueEntry
    from pyjms_provider.core.last_values import LastKey
    from pyjms_provider.core.limits import RoomRequest
    from pyjms_provider.core.queue_types import MessageOrder
    from pyjms_provider.core.reference import MessageReference

__all__ = ["QueueRules", "needs_rules"]


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

    __slots__ = ("_active", "_groups", "_last_values", "_marks", "policy", "room", "shelf")

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self.room = Room(policy.max_messages, policy.max_bytes) if policy.is_limited else None
        self.shelf = _shelf(policy)
        """What is in memory, if the rest is to lie on the disk."""
        self._last_values = LastValues() if policy.type is QueueType.LAST_VALUE else None
        self._groups = GroupOwners() if policy.groups else None
        self._active = ActiveConsumer() if policy.exclusive else None
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
        self.shelf = _shelf(policy)
        self.room = Room(policy.max_messages, policy.max_bytes) if policy.is_limited else None
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
        self, entry: QueueEntry, read: Callable[[MessageReference], Envelope], claim: RoomRequest | None = None
    ) -> None:
        """Note a message that has come in, and is not available yet; it takes the room that was held for `claim`."""
        reference = entry.reference
        if self.room is not None:
            if not reference.size and self.policy.max_bytes:
                reference.size = approximate_size(read(reference))
            self.room.add(reference.size)
            if claim is not None:
                self.room.unclaim(claim)  # in the same step: nobody finds it counted twice
                self.wake_sender()  # it may be smaller than it was thought to be
        if self.reads_messages:
            properties = read(reference).properties
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

    def surplus(self, order: MessageOrder, delays: DelayIndex) -> QueueEntry | None:
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

    @property
    def taken_room(self) -> int | None:
        """How many messages take room; None: they are not counted."""
        return None if self.room is None else self.room.messages

    def gone(self, entry: QueueEntry) -> None:
        """Note that a message has left the queue; the sender that waited longest for room looks again. May be repeated where none is counted."""
        if entry in self._marks:
            if self._last_values is not None:
                self._last_values.gone(entry)
            if self._groups is not None:
                self._groups.gone(entry)
            del self._marks[entry]
        if self.room is not None:
            self.room.remove(entry.reference.size)
            if self.shelf is not None:
                self.shelf.gone(entry.reference)
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
        return self.policy.paused or self._active is not None or self._groups is not None

    @property
    def has_groups(self) -> bool:
        """Whether messages of a group go to one consumer."""
        return self._groups is not None

    def tell_freed(self, look_again: Callable[[Iterable[QueueEntry]], None]) -> None:
        """Tell of messages whose groups have become anybody's since this was called last."""
        freed = () if self._groups is None else self._groups.freed
        while freed:
            look_again(freed[-1])
            freed.pop()

    @property
    def is_exclusive(self) -> bool:
        """Whether one consumer gets all."""
        return self._active is not None

    def came(self, consumer: Consumer) -> None:
        """Note a consumer that takes messages."""
        if self._active is not None and consumer.acquires:
            self._active.came(consumer)

    def left(self, consumer: Consumer) -> None:
        """Note that a consumer has ended."""
        if self._active is not None:
            self._active.left(consumer)
        if self._groups is not None:
            self._groups.left(consumer)

    def holds_back(self, consumer: Consumer) -> bool:
        """Return whether `consumer` may take nothing at all now."""
        if self.policy.paused and (consumer.acquires or self.policy.non_destructive):
            return True
        return self._active is not None and consumer.acquires and self._active.active is not consumer

    def may_take(
        self,
        consumer: Consumer,
        rivals: Sequence[Cursor | None],
        is_wanted: Callable[[Cursor, QueueEntry], bool],
        entry: QueueEntry,
    ) -> bool:
        """Return whether `consumer` may take a message of a queue with groups.

        `rivals`: the selectors of interested consumers of higher priority, which come first for what nobody owns; `is_wanted`
        says whether one of them matches.
        """
        assert self._groups is not None
        owner = self._groups.owner(entry)
        if owner is not None:
            return owner is consumer
        return not any(rival is None or is_wanted(rival, entry) for rival in rivals)

    def took(
        self, consumer: Consumer, entry: QueueEntry, manager: ConsumerManager, order: MessageOrder
    ) -> list[Consumer]:
        """Note that `consumer` took a message; return whom to wake, as others may now take more than before."""
        if self._groups is None:
            return []
        if manager.has_priorities and self._groups.is_unowned(entry):
            order.forget_turn(consumer)  # it owns the group now, of which it may have left others some
        if not self._groups.took(consumer, entry) or not order:
            return []
        if self._groups.owner(entry) is not consumer:
            return self.successors(manager, order)  # the group was closed
        return manager.notify_if_interested([consumer])

    def choose(
        self, entry: QueueEntry, manager: ConsumerManager, mismatch: Callable[[Cursor, QueueEntry], None]
    ) -> list[Consumer]:
        """Return whom to wake for a message that is available now."""
        looking = manager.non_acquiring() if manager.non_acquiring_count else []
        if self.policy.paused:
            return [] if self.policy.non_destructive else looking
        owner = None if self._groups is None else self._groups.owner(entry)
        if self._active is not None:
            owner = self._active.active
        elif owner is None:
            chosen = manager.choose(entry, mismatch) if manager.interested_count else None
            return looking if chosen is None else [chosen, *looking]
        if owner is None or not _may_want(owner, entry):
            return looking
        return [*manager.notify_if_interested([owner]), *looking]

    def successors(self, manager: ConsumerManager, order: MessageOrder) -> list[Consumer]:
        """Return whom to wake because one who was woken will not pull, or more may be taken than before."""
        if self.policy.paused:
            return []
        if self._active is not None:
            wanting = [] if self._active.active is None else [self._active.active]
        elif self._groups is not None:
            wanting = manager.members(ConsumerList.INTERESTED)
        else:
            return manager.choose_successors(order.may_have)
        return manager.notify_if_interested([consumer for consumer in wanting if order.may_have(consumer.cursor)])


def _shelf(policy: QueuePolicy) -> Shelf | None:
    return Shelf(policy.max_messages, policy.max_bytes) if policy.overflow is Overflow.FLOW_TO_DISK else None


def _age(entry: QueueEntry) -> tuple[int, int]:
    return entry.reference.priority, entry.reference.id


def _may_want(consumer: Consumer, entry: QueueEntry) -> bool:
    cursor = consumer.cursor
    try:
        return cursor is None or cursor.matches is None or cursor.matches(entry)
    except NotInMemoryError:
        return True  # perhaps in vain: whoever is woken loads the message and looks
