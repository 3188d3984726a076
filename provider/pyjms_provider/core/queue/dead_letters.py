"""Dead letters: messages that a client rejected, that were delivered too often, or that expired; and their replay.

A dead letter is the message itself, with its id, headers, properties and body, in another queue. Properties of the
provider (JMS 1.1 §3.5.10) describe its origin:

| property | type | meaning |
|---|---|---|
| `JMS_pyjms_deadKind` | String | `rejected`, `deliveries` or `expired` |
| `JMS_pyjms_deadReason` | String | the reason in words: the exception of a listener, the number of deliveries |
| `JMS_pyjms_deadDestination` | String | its original destination, as `queue://orders` |
| `JMS_pyjms_deadSubscription` | String | the subscription that it was in, if any |
| `JMS_pyjms_deadCount` | int | how often it was delivered |
| `JMS_pyjms_deadConsumer` | String | the session that had it last |
| `JMS_pyjms_deadTime` | long | when, in milliseconds since 1970 UTC |
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.types import Long
from pyjms_provider.core.message.message_state import MessageEvent, MessageState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyjms.types import Stored
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.queue.contracts import QueueCore

DEAD_PREFIX: Final = "JMS_pyjms_dead"
DEAD_DESTINATION: Final = f"{DEAD_PREFIX}Destination"
_SUBSCRIPTION: Final = f"{DEAD_PREFIX}Subscription"
_ADDRESS: Final = re.compile(r"(?P<temporary>temp-)?(?P<kind>queue|topic)://(?P<name>.+)", re.DOTALL)


class DeadKind(Enum):
    """Why a message is dead-lettered."""

    REJECTED = "rejected"
    DELIVERIES = "deliveries"
    EXPIRED = "expired"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEntry:
    """A message that has left its queue and is to be dead-lettered."""

    entry: QueueEntry
    kind: DeadKind
    reason: str
    delivery_count: int
    consumer: str | None
    subscription: str | None
    at_ms: int
    """When it left, in milliseconds since 1970 UTC."""
    is_kept: bool = True
    """Whether it is moved to another queue; False: it is removed for good, and expiry listeners are notified."""

    @classmethod
    def of_entry(
        cls,
        entry: QueueEntry,
        kind: DeadKind,
        reason: str | None,
        subscription: str | None,
        at_ms: int,
        *,
        is_kept: bool,
    ) -> Self:
        """Return the record of a message that leaves its queue now. `reason` None: derived from the kind."""
        times = "once" if entry.delivery_count == 1 else f"{entry.delivery_count} times"
        said = (
            f"it was delivered {times}, and given back" if kind is DeadKind.DELIVERIES else "its time to live was over"
        )
        return cls(
            entry=entry,
            kind=kind,
            reason=said if reason is None else reason,
            delivery_count=entry.delivery_count,
            consumer=None if entry.holder is None else entry.holder.receiver_id,
            subscription=subscription,
            at_ms=at_ms,
            is_kept=is_kept,
        )


def dead_letter(envelope: Envelope, dead: DeadEntry, queue_name: str, now_ms: int) -> Envelope:
    """Return the message as it is put into the queue `queue_name`. It never expires; a dead letter keeps its first origin."""
    properties = dict(envelope.properties)
    # A dead letter that is rejected again keeps its first origin, so that a replay finds its original destination.
    if origin_of(properties) is None:
        properties[DEAD_DESTINATION] = str(envelope.destination)
        properties.pop(_SUBSCRIPTION, None)
        if dead.subscription is not None:
            properties[_SUBSCRIPTION] = dead.subscription
    properties[f"{DEAD_PREFIX}Kind"] = dead.kind.value
    properties[f"{DEAD_PREFIX}Reason"] = dead.reason
    properties[f"{DEAD_PREFIX}Count"] = dead.delivery_count
    properties[f"{DEAD_PREFIX}Time"] = Long(now_ms)
    if dead.consumer is not None:
        properties[f"{DEAD_PREFIX}Consumer"] = dead.consumer
    target = Address(AddressKind.QUEUE, queue_name)
    # It never expires: its time to live may have passed, and an operator may look at it days later.
    return replace(envelope, destination=target, properties=properties, expiration_ms=0)


def origin_of(properties: Mapping[str, Stored]) -> tuple[Address, str | None] | None:
    """Return the origin of a dead letter: the destination, and the subscription if it was in one.

    None: the message is no dead letter, or its origin is no valid destination: only the broker sets it, but a client may have sent anything.
    """
    text = properties.get(DEAD_DESTINATION)
    if not isinstance(text, str):
        return None
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return None
    address = Address(AddressKind[match["kind"].upper()], match["name"], temporary=match["temporary"] is not None)
    subscription = properties.get(_SUBSCRIPTION)
    return address, subscription if isinstance(subscription, str) else None


def returned_to(envelope: Envelope) -> Address | None:
    """Return the destination to which a replay would return a message; None: it is no dead letter, or that was a temporary one."""
    if DEAD_DESTINATION not in envelope.properties:
        return None
    origin = origin_of(envelope.properties)
    return None if origin is None or origin[0].temporary else origin[0]


def replayed(envelope: Envelope, origin: Address) -> Envelope:
    """Return a dead letter as it is replayed: as it was sent, without a time to live, which has passed meanwhile."""
    # The broker's properties are removed: the message is as its sender made it.
    properties = {name: value for name, value in envelope.properties.items() if not name.startswith(DEAD_PREFIX)}
    return replace(envelope, destination=origin, properties=properties)


class DeadLetterPolicy:
    """The messages of one queue that become dead letters, and those among them that wait to be moved.

    A message leaves the queue under the lock; `flush` moves it once the lock is released, as that may wait for I/O.
    """

    __slots__ = ("_on_dead", "_pending", "_queue")

    def __init__(self, queue: QueueCore, on_dead: Callable[[deque[DeadEntry]], None] | None) -> None:
        """`on_dead` moves messages that have left the queue, and removes from its argument each one for which it takes responsibility.

        It is called without a lock, and may wait for I/O. None: expired messages are dropped, and others are redelivered without a limit.
        """
        self._queue = queue
        self._on_dead = on_dead
        self._pending: deque[DeadEntry] = deque()

    @property
    def moves_expired(self) -> bool:
        """Whether expired messages go to another queue."""
        # An expired message is not moved to its own queue: it would expire there again at once.
        return self._on_dead is not None and self._queue.policy.expiry_queue not in {None, self._own_name}

    @property
    def leaves_expired(self) -> bool:
        """Whether only the timer removes expired messages that are not held, as that takes some time."""
        return self.moves_expired or self._is_watched

    @property
    def _is_watched(self) -> bool:
        watch = self._queue.watch
        return watch is not None and watch.is_on

    @property
    def _own_name(self) -> str:
        return self._queue.name.partition("://")[2]

    def exceeded_redeliveries(self, delivery_count: int, *, failed: bool) -> bool:
        """Return whether a message with this delivery count, which `failed` the last time, is not to be redelivered.

        A message in the dead letter queue always is: there is no further queue for it.
        """
        policy = self._queue.policy
        too_often = 0 < policy.max_deliveries <= delivery_count or (
            failed and 0 < policy.max_failures <= delivery_count
        )
        # In the dead letter queue a message is delivered without a limit, as there is nowhere else to put it.
        return too_often and self._on_dead is not None and policy.dead_letter != self._own_name

    def stays_while_held(self, entry: QueueEntry) -> bool:
        """Return whether an expired message must not be taken from the client that holds it: it may still be consumed, and otherwise is moved on its release."""
        return entry.holder is not None and self.moves_expired

    def remove_as_expired(self, entry: QueueEntry) -> bool:
        """Remove an expired message; return False, having done nothing, if it has no target queue and no listener. The lock is held."""
        # A DELIVERED message has a transaction, too: the one that is to acknowledge it, and does not own it.
        unit = entry.transaction if entry.state is MessageState.NOT_COMMITTED else None
        is_kept = entry.state is not MessageState.NOT_COMMITTED and self.moves_expired
        # A message whose expiry rolls its transaction back counts as never sent.
        if not is_kept and not (self._is_watched and not (unit is not None and unit.expired_rolls_back)):
            return False
        self._remove(entry, DeadKind.EXPIRED, MessageEvent.EXPIRE, None, is_kept=is_kept)
        return True

    def remove_as_exhausted(self, entry: QueueEntry, reason: str | None) -> None:
        """Remove a message that was delivered too often; `reason` as in `DeadEntry.of_entry`. The lock is held."""
        self._remove(entry, DeadKind.DELIVERIES, MessageEvent.REMOVE, reason, is_kept=True)

    def _remove(
        self, entry: QueueEntry, kind: DeadKind, event: MessageEvent, reason: str | None, *, is_kept: bool
    ) -> None:
        queue = self._queue
        now_ms = queue.clock.time_ms()
        dead = DeadEntry.of_entry(entry, kind, reason, queue.subscription_name, now_ms, is_kept=is_kept)
        queue.state.remove(entry, event)
        if queue.rules is not None:
            queue.rules.remove(entry)
        # Moved by `flush`: moving writes, which must not happen under the queue's lock.
        self._pending.append(dead)

    def flush(self) -> None:
        """Move the messages that have left. The lock is not held."""
        # Checked without the lock first: this is called after every release, and mostly there are none.
        if not self._pending or self._on_dead is None:
            return
        # Taken out under the lock: of two threads that flush at once, each moves its own.
        with self._queue.lock:
            dead, self._pending = self._pending, deque()
        try:
            self._on_dead(dead)
        except Exception:  # the messages that remain are tried again
            if dead:
                with self._queue.lock:
                    # In front, in their old order: they left before those that were added since.
                    self._pending.extendleft(reversed(dead))
                # The timer flushes again, since no client may call.
                self._queue.schedule(self._queue.clock.time_ms())
            raise
