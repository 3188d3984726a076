"""Admission control of messages that are sent: overrides, duplicates, capacity. Most messages need none of it, and are never checked here.

The controller's lock guards its caches of duplicate ids; it is taken alone. A sender waits for room without any lock,
until there is room, its time is over, or its session, connection or broker closes.

A producer may give its messages duplicate ids. An id is *claimed* when its message is sent, *marked* with a serial when that is about to be written, and
*confirmed* when the message is safe and visible: at once, or with its transaction. A second message with a confirmed id is dropped, as the first one has
arrived. While the first is in an open transaction its arrival is uncertain, so the second is refused with an error: if it were dropped, and that
transaction rolled back, the message would be lost.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, count
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from pyjms.spi.clock import Clock, Signal
from pyjms.spi.envelope import DELIVER_AT, Address, ConnectionId, Envelope
from pyjms.spi.errors import CapabilityError, ClosedError, ProviderError, ResourceError
from pyjms.spi.interrupts import deferred
from pyjms.spi.words import counted
from pyjms.types import Long
from pyjms_provider.core.journal.journal import DuplicateMark, QueueNumber
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.queue_rules import CapacityReservation, QueueFullError
from pyjms_provider.core.queue_types import QueueType
from pyjms_provider.core.store import approximate_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyjms.spi.envelope import Address, Envelope
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.message_trace import MessageTrace
    from pyjms_provider.core.topic import Topic
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork


_log = logging.getLogger(__name__)

# Overrides and delivery time: the headers that the owner of a queue sets, and the time for which a message is sent.

_PERSISTENT: Final = 2


def with_overrides(envelope: Envelope, policy: QueuePolicy, now_ms: int, *, keeps_mode: bool = False) -> Envelope:
    """Return the message with the headers that the queue's owner has set (JMS 1.1 §3.4.12); `keeps_mode`: but for the delivery mode.

    An overriding time to live counts from now. Then the bounds apply: a message lives at least the lower, and at most the upper
    one; a message that would never expire gets the upper bound. No time exceeds the largest long.
    """
    expiration_ms = envelope.expiration_ms
    if policy.time_to_live_ms is not None:
        expiration_ms = now_ms + policy.time_to_live_ms if policy.time_to_live_ms else 0
    if expiration_ms and policy.min_time_to_live_ms:
        expiration_ms = max(expiration_ms, now_ms + policy.min_time_to_live_ms)
    if policy.max_time_to_live_ms:
        latest_ms = now_ms + policy.max_time_to_live_ms
        expiration_ms = min(expiration_ms, latest_ms) if expiration_ms else latest_ms
    return replace(
        envelope,
        expiration_ms=min(expiration_ms, Long.maximum),
        delivery_mode=envelope.delivery_mode if policy.delivery_mode is None or keeps_mode else policy.delivery_mode,
        priority=envelope.priority if policy.priority is None else policy.priority,
    )


def with_delivery_time(envelope: Envelope) -> Envelope:
    """Return the message with the delivery time in its field alone: a client that knows no such field says it as a property.

    The field takes precedence. Raises `ProviderError` for a property that is no time.
    """
    properties = dict(envelope.properties)
    value = properties.pop(DELIVER_AT, None)
    # bool is an int to Python, but a boolean property is no time.
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= Long.maximum):
        raise ProviderError(
            f"{DELIVER_AT} is {value!r}; set it as a long property: the time in milliseconds since 1970 UTC"
        )
    return replace(envelope, properties=properties, deliver_at_ms=envelope.deliver_at_ms or int(value or 0))


class IgnoredDeliveryModes:
    """Makes every message of a host PERSISTENT, as its owner has chosen, and records the senders whose delivery mode is ignored.

    Its lock guards the count and the connections, and is taken alone.
    """

    def __init__(self, host: str) -> None:
        """`host`: its name, for the log."""
        self._host = host
        self._lock = Lock()
        self._count = 0
        self._logged: set[ConnectionId] = set()

    @property
    def count(self) -> int:
        """The number of messages that were sent NON_PERSISTENT since the broker started."""
        return self._count

    def persistent(self, envelope: Envelope, origin: ConnectionId | None) -> Envelope:
        """Return a NON_PERSISTENT message as a PERSISTENT one; it is counted, and the first one of each connection is logged."""
        with self._lock:
            self._count += 1
            is_first = origin is not None and origin not in self._logged
            if origin is not None and is_first:
                self._logged.add(origin)
        if is_first:
            _log.info(
                "PYJMS-BROKER-32 connection %s sends NON_PERSISTENT messages to %s; virtual host %s ignores that, and treats them as "
                "PERSISTENT (persist_all)",
                origin,
                envelope.destination,
                self._host,
            )
        return replace(envelope, delivery_mode=_PERSISTENT)

    def forget(self, connection: ConnectionId) -> None:
        """Forget a connection that has closed."""
        with self._lock:
            self._logged.discard(connection)


# Send permits: the reservations for a message until it is enqueued, and its sender's timeout.


class SendTimeout:
    """How long a sender waits for room: until `end` is called."""

    __slots__ = ("is_over", "signal")

    def __init__(self) -> None:
        self.signal = Signal()
        self.is_over = False

    def end(self) -> None:
        """End every wait, now and later. Any thread."""
        self.is_over = True
        self.signal.set()


class DuplicateClaim:
    """The duplicate id of one message that is being sent; `end` must be called, once or more often."""

    __slots__ = ("_controller", "address", "channel", "duplicate_id", "is_kept", "mark", "window")

    def __init__(
        self,
        controller: AdmissionController,
        duplicate_id: str,
        address: Address,
        channel: Queue | Topic,
        *,
        is_kept: bool,
    ) -> None:
        """`channel`: the destination of the message, at `address`; `is_kept`: it is PERSISTENT, so a journal stores its id, too."""
        self._controller = controller
        self.duplicate_id = duplicate_id
        self.address = address
        self.channel = channel
        self.is_kept = is_kept
        self.window: DuplicateIdCache | None = None
        """The cache of its destination's ids; the controller's lock guards it. None: the id is not claimed yet."""
        self.mark: DuplicateMark | None = None
        """The mark to be written together with the message; None: it is in a transaction that has not begun to commit."""

    def mark_commit(self) -> DuplicateMark | None:
        """Return the mark to be written with a commit that begins now; None: none, as the message is not durable, or its queue has ended.

        A new one for each call: a branch may be decided again much later.
        """
        if not self.is_kept:
            return None
        if not isinstance(self.channel, Queue):
            return self._controller.mark(self, None)
        # Read once: the queue may end at this moment.
        kept = self.channel.journal
        return None if kept is None else self._controller.mark(self, kept.number)

    def end(self, *, arrived: bool) -> None:
        """Record whether the message has arrived. May be repeated, with the same answer."""
        self._controller.end_claim(self, arrived)


@dataclass(slots=True)
class SendPermit:
    """The permit to send one message."""

    envelope: Envelope
    deliver_at_ms: int
    duplicate: DuplicateClaim | None
    room: tuple[Queue, CapacityReservation] | None
    """The queue that reserves room for it, and the reservation."""
    is_enqueued: bool = False
    """Whether its channel has enqueued it; it is then in the journal, if it is durable, or in its transaction."""

    @property
    def mark(self) -> DuplicateMark | None:
        """The mark to be written together with the message."""
        return None if self.duplicate is None else self.duplicate.mark

    def enqueue(
        self, channel: Queue | Topic, reference: MessageReference, transaction: UnitOfWork | None = None
    ) -> None:
        """Have `channel` enqueue the message, into the reserved room. Raises as `Channel.enqueue`."""
        if self.room is None:
            channel.enqueue(reference, transaction)
        else:
            queue, request = self.room
            queue.enqueue(reference, transaction, request)
            # The queue has ended the claim in the step that counted the message, so it must not be ended again.
            self.room = None
        self.is_enqueued = True

    def end(self, transaction: UnitOfWork | None) -> None:
        """Release the reservations that remain, as the message was enqueued, or is not sent. May be repeated.

        If there is a transaction, that decides whether an enqueued message has arrived.
        """
        if self.room is not None:
            queue, request = self.room
            queue.release_reservation(request)
        if self.duplicate is None:
            return
        # In a transaction the id counts from the commit on; until then it stays claimed.
        if self.is_enqueued and transaction is not None:
            transaction.add_duplicate(self.duplicate)
        else:
            self.duplicate.end(arrived=self.is_enqueued)


class AdmissionController:
    """Admission control for the destinations of one virtual host."""

    def __init__(
        self,
        clock: Clock,
        trace: MessageTrace | None = None,
        *,
        persists_all: bool = False,
        keeps_transient: bool = False,
    ) -> None:
        """`trace` records messages that are refused; `persists_all`: all messages are PERSISTENT, and no queue's policy changes that."""
        self._clock = clock
        self._persists_all = persists_all
        self.keeps_transient = keeps_transient
        """Whether NON_PERSISTENT messages are written, too."""
        self._trace = trace
        self._lock = Lock()
        self._windows: dict[Address, DuplicateIdCache] = {}
        self._restored: dict[Address, list[DuplicateMark]] = {}
        self._serials = count(1)

    def admit(
        self,
        channel: Queue | Topic,
        envelope: Envelope,
        timeout: SendTimeout | None,
        transaction: UnitOfWork | None = None,
    ) -> SendPermit | None:
        """Return the permit for a message; None for a duplicate of a message that has arrived. May wait for room.

        It does not wait for room that only the end of its own transaction can free.

        Raises `QueueFullError`, `ClosedError`, `ChannelClosedError`; `ProviderError` for invalid properties.
        """
        policy = channel.policy
        if DELIVER_AT in envelope.properties:
            envelope = with_delivery_time(envelope)
        # Overrides first, since a changed delivery mode decides whether the id is durable, too.
        if policy.changes_messages:
            envelope = with_overrides(envelope, policy, self._clock.time_ms(), keeps_mode=self._persists_all)
        at_ms = envelope.deliver_at_ms
        if not 0 <= at_ms <= Long.maximum:
            raise ProviderError(
                f"the delivery time is {at_ms}; it is in milliseconds since 1970 UTC, and 0 for at once"
            )
        if at_ms and at_ms <= self._clock.time_ms():
            at_ms = 0  # it is due; a message that was forwarded says so still
        if at_ms and policy.type is QueueType.TOTAL_ORDER:
            raise CapabilityError(
                f"{channel.name} has a total order, in which a message for later would hold back all behind it: send it without a "
                f"delivery time ({DELIVER_AT}), or when it is due"
            )
        admission = SendPermit(envelope, at_ms, None, None)
        if policy.duplicate_count and DUPLICATE_ID in envelope.properties:
            admission.duplicate = _claim_of(self, channel, envelope)
        is_admitted = False
        try:
            # The id before the room: a duplicate is dropped even if the
            # queue is full, as its first message has arrived.
            if admission.duplicate is not None and not self._claim(admission.duplicate, marks=transaction is None):
                if self._trace is not None:
                    self._trace.refused(channel.name, envelope)
                return None
            if isinstance(channel, Queue):
                self._claim_room(channel, admission, timeout, transaction)
            is_admitted = True
        except QueueFullError as error:
            if self._trace is not None:
                self._trace.refused(channel.name, envelope, error.reason)
            raise
        finally:
            # Also when a signal's handler has ended the wait for room: no claim may stay behind.
            if not is_admitted:
                admission.end(None)
        return admission

    # Duplicates

    def claim_again(self, channel: Queue | Topic, envelope: Envelope) -> DuplicateClaim | None:
        """Claim the duplicate id of a message in a branch in doubt, as its first send did; before the host is used."""
        policy = channel.policy
        if not policy.duplicate_count or DUPLICATE_ID not in envelope.properties:
            return None
        claim = _claim_of(self, channel, envelope)
        return claim if self._claim(claim, marks=False) else None

    def _claim(self, claim: DuplicateClaim, *, marks: bool) -> bool:
        """Claim the id; return False if a message with it has arrived. Raises `ResourceError`.

        `marks`: its message is written at once, and not with the commit of a transaction.
        """
        identity, channel, now_ms = claim.duplicate_id, claim.channel, self._clock.monotonic_ms()
        kept = channel.journal if claim.is_kept and isinstance(channel, Queue) else None
        with self._lock:
            window = claim.window = self._window(claim.address, channel.policy)
            sighting = window.claim(identity, now_ms, claim)
            if marks and sighting is DuplicateStatus.NEW:
                self._mark(claim, window, None if kept is None else kept.number, is_kept=claim.is_kept)
        if sighting is DuplicateStatus.CLAIMED:
            raise ResourceError(
                f"a message with {DUPLICATE_ID} {identity!r} was sent to {window.address} in a transaction that has "
                f"not ended, so nobody knows yet whether this one is a duplicate; send it again when that one has ended"
            )
        return sighting is DuplicateStatus.NEW

    def mark(self, claim: DuplicateClaim, queue: QueueNumber | None) -> DuplicateMark:
        """Return the mark of a claim that is about to be written, for that queue: its id is remembered from now on (decision 0124)."""
        with self._lock:
            assert claim.window is not None, "it is claimed"
            # A commit that is tried again must not move the time of an id that has arrived.
            if claim.mark is not None and not claim.window.is_claimed(claim.duplicate_id, claim):
                return claim.mark  # it has arrived
            # Not for a destination that was destroyed: its cache does not know the ids of the next one of that name.
            is_kept = self._windows.get(claim.address) is claim.window
            return self._mark(claim, claim.window, queue, is_kept=is_kept)

    def _mark(
        self, claim: DuplicateClaim, window: DuplicateIdCache, queue: QueueNumber | None, *, is_kept: bool
    ) -> DuplicateMark:
        """Make, set and return the mark of a claim. The lock is held."""
        mark = window.mark(claim.duplicate_id, self._clock.time_ms(), next(self._serials), queue, is_kept=is_kept)
        claim.mark = mark
        return mark

    def _window(self, address: Address, policy: QueuePolicy) -> DuplicateIdCache:
        """Return the cache of a destination. The lock is held."""
        window = self._windows.get(address)
        if window is None:
            window = DuplicateIdCache(address, policy.duplicate_window_ms, policy.duplicate_count)
            window.restore(self._restored.get(address, ()), self._clock.time_ms(), self._clock.monotonic_ms())
            self._windows[address] = window
            self._restored.pop(address, None)
        # An operator may have altered the policy since the last message.
        window.window_ms, window.most = policy.duplicate_window_ms, policy.duplicate_count
        return window

    def end_claim(self, claim: DuplicateClaim, arrived: bool) -> None:
        """Record how a claim has ended. May be repeated, with the same answer."""
        with self._lock:
            window = claim.window
            if window is None:
                return
            if not arrived:
                window.drop(claim.duplicate_id, claim)
                return
            # A message that is not durable was not written, so it has no mark yet if it was in a transaction.
            mark = claim.mark or self._mark(claim, window, None, is_kept=False)
            window.confirm(mark, self._clock.monotonic_ms())

    def restore(self, marks: Iterable[DuplicateMark], last_serial: int) -> None:
        """Restore the ids that a journal has stored; before the host is used. `last_serial`: the highest in the journal, 0 if there is none."""
        self._serials = count(last_serial + 1)
        for mark in marks:
            self._restored.setdefault(mark.address, []).append(mark)

    def forget(self, address: Address) -> None:
        """Drop the cache of a destination that was destroyed."""
        with self._lock:
            self._windows.pop(address, None)
            self._restored.pop(address, None)

    # Capacity

    def _claim_room(
        self, queue: Queue, admission: SendPermit, timeout: SendTimeout | None, transaction: UnitOfWork | None
    ) -> None:
        """Reserve room for a message, if its queue requires it."""
        # A ring makes room by itself, and a queue that flows to disk needs none in memory.
        if not queue.policy.is_limited or queue.policy.overflow in {Overflow.RING, Overflow.FLOW_TO_DISK}:
            return
        # Measured only where bytes are limited, as that walks over all properties.
        size = approximate_size(admission.envelope) if queue.policy.max_bytes else 0
        waiting = CapacityReservation(Signal() if timeout is None else timeout.signal, size)
        admission.room = queue, waiting
        if not queue.reserve(waiting):
            if queue.policy.overflow is not Overflow.BLOCK or timeout is None:
                raise _full(queue, "receive messages from it, raise its limits, or choose another overflow")
            self._await_room(queue, waiting, timeout, transaction)

    def _await_room(
        self, queue: Queue, waiting: CapacityReservation, timeout: SendTimeout, transaction: UnitOfWork | None
    ) -> None:
        timeout_ms = queue.policy.block_timeout_ms
        until_ms = self._clock.monotonic_ms() + timeout_ms if timeout_ms else None
        try:
            while not timeout.is_over:
                # One step under the queue's lock, so that room which is freed at this moment is not missed.
                if queue.reserve(waiting, or_wait=True):
                    return
                if queue.policy.is_limited and queue.policy.overflow is not Overflow.BLOCK:
                    raise _full(queue, "its overflow was altered while the sender waited")
                # Only the end of this transaction could free room,
                # and the thread that would end it would wait here for ever.
                if transaction is not None and _is_filled_by(queue.policy, transaction.held_in(queue), waiting.size):
                    raise _full(
                        queue, "this transaction alone takes that, so commit it, and send the rest in another one"
                    )
                if not deferred.wait(self._clock.wait, timeout.signal, until_ms):
                    # The time is over, but room may have been freed at this moment.
                    if queue.reserve(waiting):
                        return
                    raise _full(queue, f"there was no room within {timeout_ms} ms, so receive faster or wait longer")
            raise ClosedError(f"the session was closed while it waited for room in {queue.name}")
        finally:
            # Also after an error: an absent sender would keep those behind it waiting.
            queue.stop_waiting(waiting)


def _is_filled_by(policy: QueuePolicy, held: tuple[int, int], size: int) -> bool:
    """Return whether a transaction holds so much of a queue that its next message has no room before it ends."""
    messages, total = held
    if not messages:
        return False
    has_places = not policy.max_messages or messages < policy.max_messages
    return not has_places or bool(policy.max_bytes and total + size > policy.max_bytes)


def _full(queue: Queue, remedy: str) -> QueueFullError:
    policy = queue.policy
    limits = [counted(policy.max_messages, "message")] if policy.max_messages else []
    limits += [f"{policy.max_bytes} bytes"] if policy.max_bytes else []
    return QueueFullError(f"{queue.name} is full: its limit is {' and '.join(limits)}; {remedy}")


def _claim_of(controller: AdmissionController, channel: Queue | Topic, envelope: Envelope) -> DuplicateClaim:
    """Return the claim for a message's id, not yet claimed. Raises `ProviderError` when the id is no text."""
    # A NON_PERSISTENT message is lost with the broker, so its id must not be remembered beyond that.
    is_kept = envelope.delivery_mode == _PERSISTENT or controller.keeps_transient
    return DuplicateClaim(controller, duplicate_id(envelope), envelope.destination, channel, is_kept=is_kept)


DUPLICATE_ID = "JMS_pyjms_duplicateId"
"""The string property with a producer's duplicate id."""
_FORGOTTEN_TOGETHER: Final = 1_000
"""After this many ids, or a twentieth of the remembered ones if that is more, a mark tells the journal which it may remove."""


class DuplicateStatus(Enum):
    """The status of an id."""

    NEW = "it was not seen within the window, and is claimed now"
    CLAIMED = "a message with it is in a transaction that has not ended"
    SEEN = "a message with it has arrived"


def duplicate_id(envelope: Envelope) -> str:
    """Return the duplicate id of a message. Raises `ProviderError` when it is no text."""
    value = envelope.properties[DUPLICATE_ID]
    if not isinstance(value, str) or not value:
        raise ProviderError(f"{DUPLICATE_ID} is {value!r}; set it as a string property that is not empty")
    return value


class _Claimed(NamedTuple):
    """An id whose message is being sent."""

    claimant: object | None
    serial: int | None
    """None: it is not marked yet; in a transaction this happens at the commit."""


class DuplicateIdCache:
    """The ids of one destination, each with the serial of its mark."""

    __slots__ = ("_claimed", "_forgets_below", "_marked", "_seen", "address", "most", "window_ms")

    def __init__(self, address: Address, window_ms: int, most: int) -> None:
        """Remember ids for `window_ms`, and at most `most` of them: the oldest are forgotten first."""
        self.address = address
        self.window_ms = window_ms
        self.most = most
        self._seen: OrderedDict[str, tuple[DuplicateMark, float]] = OrderedDict()
        """Each with its expiry by the monotonic clock: a changed wall clock makes no id forgotten early, nor remembered for ever."""
        self._claimed: dict[str, _Claimed] = {}
        self._marked = 0
        """How many marks were made since the journal was last told which it may remove."""
        self._forgets_below = 0
        """Not 0: to be told to the journal with each mark until one of them is confirmed."""

    def __len__(self) -> int:
        return len(self._seen)

    def claim(self, identity: str, now_ms: float, claimant: object | None = None) -> DuplicateStatus:
        """Return the status of an id at `now_ms`, by the monotonic clock; a NEW one is claimed by `claimant`, and must be marked and
        confirmed, or dropped, later.
        """
        self._forget_old(now_ms)
        known = self._seen.get(identity)
        if known is not None and known[1] > now_ms:
            return DuplicateStatus.SEEN
        if identity in self._claimed:
            return DuplicateStatus.CLAIMED
        self._claimed[identity] = _Claimed(claimant, None)
        return DuplicateStatus.NEW

    def is_claimed(self, identity: str, claimant: object) -> bool:
        """Return whether `claimant` claims an id, which is neither confirmed nor dropped."""
        claimed = self._claimed.get(identity)
        return claimed is not None and claimed.claimant is claimant

    def mark(
        self, identity: str, now_ms: int, serial: int, queue: QueueNumber | None = None, *, is_kept: bool = True
    ) -> DuplicateMark:
        """Return the mark of a claimed id. `is_kept`: it is to be written together with the message, for that queue.

        `now_ms`: by the wall clock, as the mark may outlive the process; `serial`: higher than all before, as forgotten ids are told to the journal by serials.
        """
        self._claimed[identity] = _Claimed(self._claimed[identity].claimant, serial)
        below = 0
        if is_kept:
            self._marked += 1
            # Seldom, as finding the lowest serial looks at all remembered ids.
            if not self._forgets_below and self._marked >= max(_FORGOTTEN_TOGETHER, len(self._seen) // 20):
                seen = (each.serial for each, _ in self._seen.values())
                marked = (each.serial for each in self._claimed.values() if each.serial is not None)
                self._forgets_below = min(chain(seen, marked))  # others will get higher ones
            below = self._forgets_below
        return DuplicateMark(self.address, identity, now_ms + self.window_ms, serial, queue, below)

    def confirm(self, mark: DuplicateMark, now_ms: float) -> None:
        """Remember the id of a message that has arrived, by the monotonic clock at `now_ms`. May be repeated."""
        # The journal has it now, so the next mark need not repeat it.
        # After a mark whose write failed, it is repeated.
        if mark.forgets_below and mark.forgets_below == self._forgets_below:
            self._forgets_below = self._marked = 0
        self._remember(mark, now_ms + self.window_ms)
        self._claimed.pop(mark.duplicate_id, None)

    def drop(self, identity: str, claimant: object | None = None) -> None:
        """Drop an id if `claimant` claims it: its message did not arrive. May be repeated."""
        if identity in self._claimed and self._claimed[identity].claimant is claimant:
            del self._claimed[identity]

    def restore(self, marks: Iterable[DuplicateMark], wall_ms: int, now_ms: float) -> None:
        """Restore the marks of a journal, in any order; no longer than the window, as the wall clock, `wall_ms`, may have been put
        back since. `now_ms`: by the monotonic clock.
        """
        for mark in sorted(marks, key=lambda each: each.serial):
            self._marked += 1
            # At most the window: with a wall clock that was put back the id would be remembered for longer.
            self._remember(mark, now_ms + min(mark.until_ms - wall_ms, self.window_ms))

    def _remember(self, mark: DuplicateMark, until_ms: float) -> None:
        self._seen[mark.duplicate_id] = mark, until_ms
        # At the end, so that the first ones are those to be forgotten.
        self._seen.move_to_end(mark.duplicate_id)
        while len(self._seen) > self.most:
            self._seen.popitem(last=False)

    def _forget_old(self, now_ms: float) -> None:
        while self._seen and next(iter(self._seen.values()))[1] <= now_ms:
            self._seen.popitem(last=False)
