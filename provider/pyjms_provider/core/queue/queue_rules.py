"""The rules of a queue's policy beyond the order of messages: capacity, last values, sort values, exclusive consumers and groups.

A queue calls its rules under its own lock; they have none. A queue whose policy needs none of them has no rules object.

`Capacity` counts every message in the queue, also one that is held or not committed, so that a transaction that has sent a message has room for it
when it commits. A message larger than the limit in bytes fits into an empty queue: it could never be sent otherwise.

`MemoryWindow` decides which messages of a queue with `Overflow.FLOW_TO_DISK` are in memory: the first ones that fit into the queue's limits. While there are
others on the disk, new messages go there, too. A message that is read back is about to be delivered, so others leave memory for it, the newest first.

`LastValues` knows the last message of each key (Broker-J's last-value queue). As there, a newer message takes its own place at the tail, and the
older one of its key is removed, unless a consumer holds it; then it is removed on its release, even if the newer one has been consumed meanwhile. Their places
in the queue tell which one is newer: a message that is returned, after a delay, a restart or a failed write, is as old as before.
Only the queue knows that a newer message existed and was consumed; the journal does not. So an older one that is held at that
moment is redelivered, flagged, if the broker dies before the older one is settled, or if a prepared branch that holds it is
rolled back after another start. The journal cannot remove the older one earlier: its absence there is the proof that the write
which settles it, with all its other changes, was made (decision 0197).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pyjms.spi.errors import ResourceError
from pyjms.spi.words import reason_of
from pyjms.types import Stored
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageSequencer
from pyjms_provider.core.policy import Overflow, PolicyError, QueuePolicy
from pyjms_provider.core.queue.consumer import ConsumerList
from pyjms_provider.core.queue.message_groups import ExclusiveConsumer, MessageGroups, RedeliveryBarrier, group_place
from pyjms_provider.core.queue.sorted_entry_list import SortValue, sort_value
from pyjms_provider.core.queue_types import InstalledQueueType, MissingQueueType, MissingQueueTypeError, QueueType
from pyjms_provider.core.store import NotInMemoryError, approximate_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyjms.spi.clock import Signal
    from pyjms.spi.envelope import Envelope
    from pyjms_provider.core.message.entry import Holder, QueueEntry
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId
    from pyjms_provider.core.queue.consumer import Consumer, ConsumerManager
    from pyjms_provider.core.queue.cursor import Cursor
    from pyjms_provider.core.queue.entry_list import QueueEntryList
    from pyjms_provider.core.queue.message_groups import GroupPlace
    from pyjms_provider.core.queue.scheduled_messages import DelayIndex
    from pyjms_provider.core.queue.sorted_entry_list import Place

_log = logging.getLogger(__name__)


class QueueFullError(ResourceError):
    """The queue holds as much as its policy allows."""

    code = "PYJMS-QUEUE-FULL"


class CapacityReservation:
    """A sender that needs room for a message, and may have to wait for it."""

    __slots__ = ("signal", "size")

    def __init__(self, signal: Signal, size: int) -> None:
        self.signal = signal
        """Set when the sender is to try again."""
        self.size = size


class Capacity:
    """The capacity of one queue. A claim reserves room for a message that is being sent."""

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
        """How many senders are waiting."""
        return len(self._waiting)

    @property
    def is_exceeded(self) -> bool:
        """Whether the queue has more messages than allowed; a single message is always allowed."""
        return self.messages > 1 and not self._fits(self.messages, self.size)

    def _fits(self, messages: int, size: int) -> bool:
        return (not self.max_messages or messages <= self.max_messages) and (not self.max_size or size <= self.max_size)

    def has_room(self, size: int) -> bool:
        """Return whether a message of `size` bytes fits."""
        # Messages being sent count, too: two senders must not get the same room.
        messages = self.messages + len(self._claims)
        # Into an empty queue any message fits; one larger than the limit could never be sent otherwise.
        return not messages or self._fits(messages + 1, self.size + self._claimed_size + size)

    def claim(self, waiting: CapacityReservation) -> bool:
        """Reserve room for a message; return False when there is none, or others have waited longer.

        On success the sender no longer waits.
        """
        first = next(iter(self._waiting), None)
        # First come, first served: a small message that fits must not overtake a large one for ever.
        if first not in {None, waiting} or not self.has_room(waiting.size):
            return False
        self._waiting.pop(waiting, None)
        self._claimed_size += waiting.size
        self._claims.add(waiting)
        return True

    def unclaim(self, waiting: CapacityReservation) -> None:
        """End a claim: the message was added and is counted, or is not sent. Without a claim nothing happens."""
        if waiting in self._claims:
            self._claimed_size -= waiting.size
            self._claims.remove(waiting)

    def follow(self, other: Capacity) -> None:
        """Take over the claims and waiting senders of `other`; before anything is counted."""
        self._claims = other._claims
        self._claimed_size = other._claimed_size
        self._waiting = other._waiting

    def add(self, size: int) -> None:
        """Count a message that was added."""
        self.messages += 1
        self.size += size

    def remove(self, size: int) -> None:
        """Count a message out."""
        self.messages -= 1
        self.size -= size

    def wait(self, waiting: CapacityReservation) -> None:
        """Put a sender at the end of the waiting senders, if it is not among them."""
        # Assigning an existing key keeps its place, so a sender that tries again does not lose its turn.
        self._waiting[waiting] = None

    def stop_waiting(self, waiting: CapacityReservation) -> None:
        """Remove a sender that no longer waits. May be repeated."""
        self._waiting.pop(waiting, None)

    def next_signal(self) -> Signal | None:
        """Return the signal of the sender that has waited longest, if there is room for its message."""
        # One at a time: the end of its wait, or of its claim, wakes the next one.
        first = next(iter(self._waiting), None)
        return None if first is None or not self.has_room(first.size) else first.signal

    def all_signals(self) -> list[Signal]:
        """Return the signals of all waiting senders, because the queue closes or its limits change."""
        return [waiting.signal for waiting in self._waiting]


def check_disk(policy: QueuePolicy, *, has_disk: bool) -> None:
    """Raise `PolicyError` for a policy that needs a disk where there is none."""
    if policy.overflow is Overflow.FLOW_TO_DISK and not has_disk:
        raise PolicyError(
            "overflow=flow_to_disk needs a disk, and this broker keeps all messages in memory: start it with store= or memory=, "
            "or choose reject, block or ring"
        )


class MemoryWindow:
    """The messages of one queue that are in memory."""

    __slots__ = ("_in_memory", "_max_messages", "_max_size", "_on_disk", "_size")

    def __init__(self, max_messages: int, max_size: int) -> None:
        """Limits in messages and bytes; 0: no limit."""
        self._max_messages = max_messages
        self._max_size = max_size
        self._in_memory: OrderedDict[ReferenceId, MessageReference] = OrderedDict()
        self._size = 0
        self._on_disk: set[ReferenceId] = set()

    def add(self, reference: MessageReference) -> bool:
        """Add a message of the queue; return whether it must leave memory. May be repeated."""
        if reference.id in self._in_memory:
            return False
        # While older messages are on the disk, newer ones follow them there:
        # memory is for those that are delivered first.
        if self._on_disk or (self._in_memory and not self._fits(len(self._in_memory) + 1, self._size + reference.size)):
            self._on_disk.add(reference.id)
            return True
        self._in_memory[reference.id] = reference
        self._size += reference.size
        return False

    def remove(self, reference: MessageReference) -> None:
        """Remove a message that has left the queue. May be repeated."""
        if self._in_memory.pop(reference.id, None) is not None:
            self._size -= reference.size
        else:
            self._on_disk.discard(reference.id)

    def fitting(self, references: Sequence[MessageReference]) -> list[MessageReference]:
        """Return the messages to read at once: the first one, and as many of the others as fit."""
        chosen: list[MessageReference] = []
        size = 0
        for reference in references:
            size += reference.size
            if chosen and not self._fits(len(chosen) + 1, size):
                break
            chosen.append(reference)
        return chosen

    def page_in(self, references: Sequence[MessageReference]) -> list[MessageReference]:
        """Record messages that were read, of which the first one is about to be delivered; return those that must leave memory."""
        # The first one last, so that it ends up at the very front: messages leave from the other end.
        for reference in reversed(references):
            if reference.id in self._on_disk:
                self._on_disk.discard(reference.id)
                self._in_memory[reference.id] = reference
                self._size += reference.size
            if reference.id in self._in_memory:  # not if it has left the queue meanwhile
                self._in_memory.move_to_end(reference.id, last=False)
        leaving: list[MessageReference] = []
        # One message stays in any case, as it is about to be delivered.
        while len(self._in_memory) > 1 and not self._fits(len(self._in_memory), self._size):
            reference_id, reference = self._in_memory.popitem()
            self._size -= reference.size
            self._on_disk.add(reference_id)
            leaving.append(reference)
        return leaving

    def _fits(self, messages: int, size: int) -> bool:
        return (not self._max_messages or messages <= self._max_messages) and (
            not self._max_size or size <= self._max_size
        )


LastKey: TypeAlias = tuple[type, Stored]


def last_key(value: Stored) -> LastKey | None:
    """Return the key that stands for a property's value: values of two types differ. None: the message has no key."""
    # With its type: 1, True and "1" are different values, though Python calls the first two equal.
    return None if value is None else (type(value), value)


class LastValues:
    """The last message of each key that is available or held."""

    __slots__ = ("_keys", "_last", "_superseded")

    def __init__(self) -> None:
        self._last: dict[LastKey, QueueEntry] = {}
        self._keys: dict[QueueEntry, LastKey] = {}
        self._superseded: set[QueueEntry] = set()

    def __len__(self) -> int:
        return len(self._last)

    def add(self, entry: QueueEntry, key: LastKey | None) -> QueueEntry | None:
        """Record a message that has become available, perhaps again; return the one of its key that must be removed.

        That is the message itself, if a newer one exists.
        """
        if key is None:
            return None
        self._keys[entry] = key
        last = self._last.setdefault(key, entry)
        if last is entry:
            return None
        # By place, not by arrival: a released message is as old as before.
        older, newer = (entry, last) if entry.sequence < last.sequence else (last, entry)
        self._last[key] = newer
        # Recorded even if a consumer holds it: then it is removed on its release.
        self._superseded.add(older)
        return older

    def is_superseded(self, entry: QueueEntry) -> bool:
        """Return whether a newer message of its key has been added since."""
        return entry in self._superseded

    def remove(self, entry: QueueEntry) -> None:
        """Remove a message that has left the queue."""
        key = self._keys.pop(entry, None)
        self._superseded.discard(entry)
        # A newer message of the key may have replaced it, and stays.
        if key is not None and self._last.get(key) is entry:
            del self._last[key]


def has_sort_values(policy: QueuePolicy) -> bool:
    """Return whether a queue with this policy is ordered by a value of each message, not by priority."""
    return policy.type is QueueType.SORTED or isinstance(policy.type, InstalledQueueType)


def needs_rules(policy: QueuePolicy) -> bool:
    """Return whether a queue with this policy must apply rules to each message."""
    return (
        policy.is_limited
        or policy.type in {QueueType.LAST_VALUE, QueueType.TOTAL_ORDER}
        or has_sort_values(policy)
        or policy.exclusive
        or policy.groups
        or policy.non_destructive
        or policy.paused
    )


_FIRST: Final = sort_value(None)


class _Marks(NamedTuple):
    """The properties of a message that the rules need, as its body may be on the disk when they are applied."""

    key: LastKey | None
    sort: SortValue
    group: GroupPlace | None


class QueueRules:
    """The rules of one queue."""

    __slots__ = (
        "_exclusive",
        "_groups",
        "_has_failed",
        "_is_freed",
        "_last_values",
        "_marks",
        "_open",
        "_ranked",
        "memory_window",
        "policy",
        "ranks",
        "room",
        "sequencer",
    )

    def __init__(self, policy: QueuePolicy, on_freed: Callable[[], None] = lambda: None) -> None:
        """`on_freed`: as in `MessageSequencer`."""
        self.policy = policy
        self.room = Capacity(policy.max_messages, policy.max_bytes) if policy.is_limited else None
        self.memory_window = _memory_window(policy)
        """The messages in memory, if the rest is to be on the disk."""
        self._last_values = LastValues() if policy.type is QueueType.LAST_VALUE else None
        self._groups = MessageGroups() if policy.groups else None
        self._exclusive = ExclusiveConsumer() if policy.exclusive else None
        has_total_order = policy.type is QueueType.TOTAL_ORDER
        self.sequencer = MessageSequencer(on_freed) if has_total_order else None
        """In a total order: knows the messages on their way; a subscription is given that of its topic."""
        self._open = RedeliveryBarrier() if has_total_order else None
        """In a total order: messages that hold back those behind them: not committed, or delayed redeliveries."""
        self._is_freed = False
        """Whether one of these has ended, and no consumer was woken for those behind it."""
        # For each message of queues that read properties; others have no entry here.
        self._marks: dict[QueueEntry, _Marks] = {}
        kind = policy.type
        self.ranks = kind.plugin.ranks(policy.key) if isinstance(kind, InstalledQueueType) else None
        """The function of a package's queue type that ranks messages; None: another type."""
        # The ranks of messages that are on their way into the queue: a package's code never runs under its lock.
        self._ranked: dict[ReferenceId, SortValue] = {}
        self._has_failed = False

    def change(
        self,
        policy: QueuePolicy,
        references: Sequence[MessageReference],
        read: Callable[[MessageReference], Envelope],
    ) -> Sequence[Signal]:
        """Apply another policy of the same type, while those messages are in the queue.

        Returns the signals of senders that wait for room, and must try again.
        """
        signals = [] if self.room is None else self.room.all_signals()
        before, self.policy = self.room, policy
        self.memory_window = _memory_window(policy)
        # Messages behind a delayed one no longer wait for it.
        if policy.non_blocking_redelivery:
            self._delay_none()
        self.room = Capacity(policy.max_messages, policy.max_bytes) if policy.is_limited else None
        if self.room is not None:
            if before is not None:
                # Waiting senders and claims move to the new object: their threads know the queue, not its capacity.
                self.room.follow(before)
            for reference in references:
                if policy.max_bytes and not reference.size:
                    with suppress(NotInMemoryError):  # messages on the disk were measured when they were paged out
                        reference.size = approximate_size(read(reference))
                self.room.add(reference.size)
        return signals

    # Messages

    @property
    def reads_messages(self) -> bool:
        """Whether each incoming message must be read."""
        return self._last_values is not None or self._groups is not None or has_sort_values(self.policy)

    def rank(self, reference: MessageReference, read: Callable[[MessageReference], Envelope]) -> None:
        """Have a package's queue type rank a message that is about to be accepted; for other types nothing is done. No lock is held."""
        if self.ranks is None:
            return
        envelope = read(reference)
        rank: object = None
        try:
            rank = self.ranks(envelope)
        except Exception as error:
            self._note_failure(reason_of(error))
        if not (rank is None or isinstance(rank, int | float | str)):
            self._note_failure(f"a rank is a number, a text or None, and it has returned a {type(rank).__name__}")
            rank = None
        self._ranked[reference.id] = sort_value(rank)

    def _note_failure(self, reason: str) -> None:
        # Once for each queue: an operator needs one line, not one for each message.
        if not self._has_failed:
            self._has_failed = True
            _log.error(
                "PYJMS-BROKER-34 the queue type %s has failed for a message, which comes first; later failures are not told: %s",
                self.policy.type,
                reason,
            )

    def accept(
        self, entry: QueueEntry, read: Callable[[MessageReference], Envelope], claim: CapacityReservation | None = None
    ) -> None:
        """Record an incoming message, which is not available yet; it takes the room reserved for `claim`."""
        reference = entry.reference
        # Read first, as the message may not be in memory: then nothing has been recorded.
        properties = read(reference).properties if self.reads_messages else None
        if self.room is not None:
            if not reference.size and self.policy.max_bytes:
                reference.size = approximate_size(read(reference))
            self.room.add(reference.size)
            if claim is not None:
                self.room.unclaim(claim)  # in the same step: it is never counted twice
                self.wake_sender()  # the message may be smaller than estimated
        if properties is not None:
            value = None if self.policy.key is None else properties.get(self.policy.key)
            group = None if self._groups is None else group_place(properties)
            # Remembered, as the message may have been paged out when the rules are applied again, and they never wait.
            # Without a rank only if the type was altered just now, when the queue was empty.
            sort = sort_value(value) if self.ranks is None else self._ranked.pop(reference.id, _FIRST)
            self._marks[entry] = _Marks(last_key(value), sort, group)
            if self._groups is not None:
                self._groups.add(entry, group)
        if self._open is not None and entry.state is MessageState.NOT_COMMITTED:
            self._open.add(entry, _place_in_total_order(reference.id))

    def sort_value(self, entry: QueueEntry) -> SortValue:
        """Return the value by which a message is sorted."""
        return self._marks[entry].sort

    def add_available(self, entry: QueueEntry) -> QueueEntry | None:
        """Record a message that has become available, perhaps again; return the one, maybe itself, that is now superseded."""
        self._end_open(entry)
        return None if self._last_values is None else self._last_values.add(entry, self._marks[entry].key)

    def free_held_back(self) -> None:
        """Record that messages on their way no longer hold back those behind them. Any thread, without the lock."""
        self._is_freed = True

    def _end_open(self, entry: QueueEntry) -> None:
        """Record that a message no longer holds back those behind it, if it did."""
        if self._open is not None and self._open.remove(entry):
            self._is_freed = True

    def is_superseded(self, entry: QueueEntry) -> bool:
        """Return whether a newer message of its key has been added since."""
        return self._last_values is not None and self._last_values.is_superseded(entry)

    def surplus(self, order: QueueEntryList, delays: DelayIndex) -> QueueEntry | None:
        """Return the next message that a ring queue must drop; None: it is not too full, or all are held."""
        room = self.room
        if room is None or self.policy.overflow is not Overflow.RING or not room.is_exceeded:
            return None
        available, delayed = order.least_important(), delays.least_important() if delays else None
        if available is None or delayed is None:
            return available or delayed
        if has_sort_values(self.policy):
            return available  # it is the last by its value, and its age is unknown
        # A delayed message counts, too: the older of the two candidates is dropped.
        return min(available, delayed, key=_age)

    def remove(self, entry: QueueEntry) -> None:
        """Remove a message that has left the queue; the sender that has waited longest for room tries again."""
        # Only queues whose rules read properties have marks.
        if entry in self._marks:
            if self._last_values is not None:
                self._last_values.remove(entry)
            if self._groups is not None:
                self._groups.remove(entry)
            del self._marks[entry]
        if self._exclusive is not None:
            self._exclusive.remove(entry)
        self._end_open(entry)
        if self.room is not None:
            self.room.remove(entry.reference.size)
            if self.memory_window is not None:
                self.memory_window.remove(entry.reference)
            self.wake_sender()

    def wake_sender(self) -> None:
        """Wake the sender that has waited longest, if there is room for its message."""
        signal = None if self.room is None else self.room.next_signal()
        if signal is not None:
            signal.set()

    # Consumers

    @property
    def needs_search(self) -> bool:
        """Whether a pull must check which messages the consumer may take."""
        return self.policy.paused or self._exclusive is not None or self._groups is not None or self._open is not None

    @property
    def has_total_order(self) -> bool:
        """Whether messages are delivered in the order of their ids."""
        return self._open is not None

    @property
    def has_groups(self) -> bool:
        """Whether the messages of a group are delivered to one consumer."""
        return self._groups is not None

    @property
    def is_exclusive(self) -> bool:
        """Whether one consumer gets all messages."""
        return self._exclusive is not None

    def add_consumer(self, consumer: Consumer) -> None:
        """Record a consumer. Raises `MissingQueueTypeError`."""
        kind = self.policy.type
        if isinstance(kind, MissingQueueType):
            raise MissingQueueTypeError(
                f"the queue keeps its messages and delivers none, as its type cannot be used: {kind.reason}"
            )
        if self._exclusive is not None and consumer.acquires:
            self._exclusive.add_consumer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """Record that a consumer has been closed."""
        if self._exclusive is not None:
            self._exclusive.remove_consumer(consumer)
        if self._groups is not None:
            self._groups.remove_consumer(consumer)

    def holds_back(self, consumer: Consumer) -> bool:
        """Return whether `consumer` may take nothing at all now."""
        # Browsers of a paused queue go on. Consumers of a non-destructive queue only look, too, but they wait.
        if self.policy.paused and (consumer.acquires or self.policy.non_destructive):
            return True
        return self._exclusive is not None and consumer.acquires and self._exclusive.active is not consumer

    @property
    def barrier(self) -> Place | None:
        """The place in the order of an exclusive queue, or in a total order, from which messages wait for one before it; None: there is none."""
        first = None if self._exclusive is None or not self._exclusive.barrier else self._exclusive.barrier.first
        if self._open is None or self.sequencer is None:
            return first
        horizon = self.sequencer.horizon
        # The message at the horizon itself may be delivered by the queues that have it already.
        on_way = None if horizon == inf else _place_in_total_order(int(horizon) + 1)
        return min((each for each in (first, self._open.first, on_way) if each is not None), default=None)

    def may_take(
        self,
        consumer: Consumer,
        higher_priority: Sequence[Cursor | None],
        order: QueueEntryList,
        entry: QueueEntry,
    ) -> bool:
        """Return whether `consumer` may take a message of a queue with groups.

        `higher_priority`: the selectors of interested consumers of higher priority, which are preferred for messages without an owner.
        """
        assert self._groups is not None
        group = self._groups.group_of(entry)
        if group is not None:
            if group.is_blocked(entry, order.place_of):
                return False
            if not group.is_unowned:
                return group.permits(consumer)
        # The group has no owner, or there is no group: consumers of higher priority are preferred.
        return not any(each is None or order.is_wanted(each, entry) for each in higher_priority)

    def choose(
        self,
        entry: QueueEntry,
        manager: ConsumerManager,
        order: QueueEntryList,
    ) -> list[Consumer]:
        """Return the consumers to wake for a message that is available now."""
        looking = manager.non_acquiring() if manager.non_acquiring_count else []
        if self.policy.paused:
            return [] if self.policy.non_destructive else looking
        candidates: Iterable[Consumer]
        if self._open is not None and (before := self.barrier) is not None and not order.place_of(entry) < before:
            candidates = ()
        elif self._exclusive is not None:
            active, barrier = self._exclusive.active, self._exclusive.barrier
            # A message behind a delayed redelivery would leave out of order; the owner is woken when that message is due.
            is_blocked = active is None or (barrier and barrier.is_before(order.place_of(entry)))
            candidates = () if active is None or is_blocked else (active,)
        else:
            group = None if self._groups is None else self._groups.group_of(entry)
            if group is not None and group.is_blocked(entry, order.place_of):
                candidates = ()
            # The first consumer that takes it becomes the group's owner.
            elif group is None or group.is_unowned:
                chosen = manager.choose(entry, order.note_mismatch) if manager.interested_count else None
                return looking if chosen is None else [chosen, *looking]
            elif group.owner is not None:
                candidates = (group.owner,)
            else:
                # The owner was closed with deliveries outstanding: other consumers of its session may take its place.
                candidates = (each for each in manager.members(ConsumerList.INTERESTED) if group.permits(each))
        return [*manager.notify_if_interested([each for each in candidates if _may_want(each, entry)]), *looking]

    def next_consumers(self, manager: ConsumerManager, order: QueueEntryList) -> list[Consumer]:
        """Return the consumers to wake because a woken one will not pull, or more messages may be taken than before."""
        if self.policy.paused:
            return []
        if self._exclusive is not None:
            wanting = [] if self._exclusive.active is None else [self._exclusive.active]
        elif self._groups is not None or self._open is not None:
            # All of them: only when it looks can each consumer tell which messages it may take, and many may have been freed.
            wanting = manager.members(ConsumerList.INTERESTED)
        else:
            return manager.choose_next(order.may_have)
        return manager.notify_if_interested([consumer for consumer in wanting if order.may_have(consumer.cursor)])

    # Deliveries, of exclusive queues and of groups

    def delivered(
        self, consumer: Consumer, entry: QueueEntry, manager: ConsumerManager, order: QueueEntryList
    ) -> list[Consumer]:
        """Record that `consumer` took a message; return the consumers to wake, as others may now take more than before."""
        if self._exclusive is not None:
            self._exclusive.delivered(entry)
        if self._groups is None:
            return []
        if manager.has_priorities and self._is_unowned(entry):
            order.forget_scan(consumer)  # it owns the group now, whose messages it may have skipped
        # A new owner may take messages of the group that it skipped before,
        # so it is woken without a message of its own.
        if not self._groups.delivered(consumer, entry) or not order:
            return []
        return manager.notify_if_interested([consumer])

    def _is_unowned(self, entry: QueueEntry) -> bool:
        group = None if self._groups is None else self._groups.group_of(entry)
        return group is not None and group.owner is None

    def restored(self, entry: QueueEntry, holder: Holder) -> None:
        """Record a message that `holder` had received before the broker was restarted."""
        if self._exclusive is not None:
            self._exclusive.restored(entry, holder)
        if self._groups is not None:
            self._groups.restored(entry, holder)

    def released(self, entries: Iterable[QueueEntry]) -> None:
        """Record that messages were released, all of which are in their places, or delayed."""
        for entry in entries:
            if self._exclusive is not None:
                self._exclusive.released(entry)
            if self._groups is not None:
                self._groups.released(entry)

    def delayed(self, entries: Iterable[QueueEntry], order: QueueEntryList) -> None:
        """Record that redeliveries are delayed: messages behind them wait, unless the policy says otherwise."""
        if self.policy.non_blocking_redelivery:
            return
        for entry in entries:
            if self._exclusive is not None:
                self._exclusive.barrier.add(entry, order.place_of(entry))
            if self._groups is not None:
                self._groups.delayed(entry, order.place_of(entry))
            if self._open is not None:
                self._open.add(entry, order.place_of(entry))

    def due(self, entry: QueueEntry, manager: ConsumerManager) -> list[Consumer]:
        """Record that a delayed message is available; return the consumers to wake for those behind it."""
        owner: Consumer | None = None
        self._end_open(entry)
        if self._exclusive is not None and self._exclusive.barrier.remove(entry):
            owner = self._exclusive.active
        group = None if self._groups is None else self._groups.due(entry)
        if group is not None and self._groups is not None:
            owner = group.owner
            # Without an owner all waiting consumers have to look, which `freed_for` does.
            self._groups.is_freed = self._groups.is_freed or owner is None
        return [] if owner is None else manager.notify_if_interested([owner])

    def _delay_none(self) -> None:
        if self._exclusive is not None:
            self._exclusive.barrier = RedeliveryBarrier()
        if self._groups is not None:
            self._groups.delay_none()

    @property
    def has_freed(self) -> bool:
        """Whether consumers may take messages that they could not take before, and none was woken for them."""
        if self._is_freed:
            return True
        if self._exclusive is not None:
            return self._exclusive.is_freed
        return self._groups is not None and self._groups.is_freed

    def freed_for(self, manager: ConsumerManager, order: QueueEntryList) -> list[Consumer]:
        """Return the consumers to wake for such messages."""
        if self._exclusive is not None:
            # Cleared before consumers are chosen: messages that are freed from here on set it again.
            self._exclusive.is_freed = False
        self._is_freed = False
        if self._groups is not None:
            self._groups.is_freed = False
        return self.next_consumers(manager, order)

    def rewind_freed(self, rewind: Callable[[Iterable[QueueEntry]], None]) -> None:
        """Have consumers look again at messages that they skipped before they could take them."""
        freed = {} if self._groups is None else self._groups.freed
        # One group at a time, each removed after its rewind: an error leaves the others for the next call.
        while freed:
            name = next(iter(freed))
            rewind(freed[name])
            freed.pop(name, None)


def _place_in_total_order(number: int) -> Place:
    # As `TotalOrderEntryList.place_of`.
    return (0, 0, ""), number


def _memory_window(policy: QueuePolicy) -> MemoryWindow | None:
    return MemoryWindow(policy.max_messages, policy.max_bytes) if policy.overflow is Overflow.FLOW_TO_DISK else None


def _age(entry: QueueEntry) -> tuple[int, int]:
    return entry.reference.priority, entry.reference.id


def _may_want(consumer: Consumer, entry: QueueEntry) -> bool:
    cursor = consumer.cursor
    try:
        return cursor is None or cursor.matches is None or cursor.matches(entry)
    except NotInMemoryError:
        return True  # perhaps needlessly: the woken consumer loads the message and evaluates it
