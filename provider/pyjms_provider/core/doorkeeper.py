"""What a message must pass on its way in: overrides, duplicates, room. Most messages pass none of it, and never come here.

The doorkeeper's lock guards what it remembers of duplicates; it is taken alone. Waiting for room is done without any lock,
and ends when there is room, in time, or when the session or its connection or broker closes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.clock import Clock, Signal
from pyjms.spi.envelope import Address, Envelope
from pyjms.spi.errors import ClosedError, ResourceError
from pyjms_provider.core.admission import deliver_at_ms, with_overrides
from pyjms_provider.core.duplicates import DUPLICATE_ID, DuplicateWindow, Sighting, duplicate_id
from pyjms_provider.core.limits import Waiting
from pyjms_provider.core.paging import approximate_size
from pyjms_provider.core.policed_queue import QueueFullError
from pyjms_provider.core.policy import Overflow, QueuePolicy
from pyjms_provider.core.queue import Queue

if TYPE_CHECKING:
    from pyjms_provider.core.journal import DuplicateMark
    from pyjms_provider.core.reference import MessageReference
    from pyjms_provider.core.topic import Topic
    from pyjms_provider.core.unit_of_work import UnitOfWork

__all__ = ["Admission", "Doorkeeper", "DuplicateClaim", "Patience"]


class Patience:
    """How long a sender waits for room: until somebody says that it is over."""

    __slots__ = ("is_over", "signal")

    def __init__(self) -> None:
        self.signal = Signal()
        self.is_over = False

    def end(self) -> None:
        """End every wait, now and later. Any thread."""
        self.is_over = True
        self.signal.set()


class DuplicateClaim:
    """The id of one message that is on its way; its end must be told, once."""

    __slots__ = ("_channel", "_doorkeeper", "_is_kept", "_window", "mark")

    def __init__(
        self,
        doorkeeper: Doorkeeper,
        window: DuplicateWindow,
        mark: DuplicateMark,
        channel: Queue | Topic,
        *,
        is_kept: bool,
    ) -> None:
        """`channel`: where the message goes; `is_kept`: it is PERSISTENT, so a journal keeps its id, too."""
        self._doorkeeper = doorkeeper
        self._window = window
        self.mark = mark
        """What a journal writes together with the message, but for the number of its queue."""
        self._channel = channel
        self._is_kept = is_kept

    def kept_mark(self) -> DuplicateMark | None:
        """Return what a journal writes; None: nothing, as the message is not kept, or its queue has ended."""
        if not self._is_kept:
            return None
        if not isinstance(self._channel, Queue):
            return self.mark
        kept = self._channel.kept
        return None if kept is None else replace(self.mark, queue=kept.number)

    def end(self, *, arrived: bool) -> None:
        """Hear whether the message has arrived."""
        self._doorkeeper.end_claim(self._window, self.mark, arrived)


@dataclass(slots=True)
class Admission:
    """A message that may come in."""

    envelope: Envelope
    deliver_at_ms: int
    duplicate: DuplicateClaim | None
    room: tuple[Queue, Waiting] | None
    """The queue that holds room for it, and for whom."""

    @property
    def mark(self) -> DuplicateMark | None:
        """What a journal must keep together with the message."""
        return None if self.duplicate is None else self.duplicate.mark

    def hand_over(
        self, channel: Queue | Topic, reference: MessageReference, transaction: UnitOfWork | None = None
    ) -> None:
        """Have `channel` take the message over, into the room that was held for it. Raises as `Channel.take_over`."""
        if self.room is None:
            channel.take_over(reference, transaction)
        else:
            queue, claim = self.room
            queue.take_over(reference, transaction, claim)
            self.room = None

    def end(self, *, arrived: bool) -> None:
        """Give back what is still held for the message, as it has come in, or does not come."""
        if self.room is not None:
            queue, claim = self.room
            queue.unclaim_room(claim)
        if self.duplicate is not None:
            self.duplicate.end(arrived=arrived)

    def pass_in(self, transaction: UnitOfWork | None) -> None:
        """Do so for a message that is in; whether it has arrived is the transaction's affair, if there is one."""
        if transaction is not None and self.duplicate is not None:
            duplicate, self.duplicate = self.duplicate, None
            transaction.add_duplicate(duplicate)
        self.end(arrived=True)


class Doorkeeper:
    """Lets messages into the destinations of one virtual host."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._windows: dict[Address, DuplicateWindow] = {}
        self._restored: dict[Address, list[DuplicateMark]] = {}

    def admit(
        self,
        channel: Queue | Topic,
        envelope: Envelope,
        patience: Patience | None,
        transaction: UnitOfWork | None = None,
    ) -> Admission | None:
        """Return what may come in; None for a duplicate of a message that has arrived. May wait for room.

        It does not wait for room that only the end of its own transaction can make.

        Raises `QueueFullError`, `ClosedError`, `ChannelClosedError`; `ProviderError` for properties that make no sense.
        """
        policy = channel.policy
        if policy.changes_messages:
            envelope = with_overrides(envelope, policy, self._clock.time_ms())
        at_ms = deliver_at_ms(envelope)
        duplicate = None
        if policy.duplicate_count and DUPLICATE_ID in envelope.properties:
            duplicate = self._claim(channel, envelope)
            if duplicate is None:
                return None
        try:
            room = self._claim_room(channel, envelope, patience, transaction) if isinstance(channel, Queue) else None
        except BaseException:
            if duplicate is not None:
                duplicate.end(arrived=False)
            raise
        return Admission(envelope, at_ms, duplicate, room)

    # Duplicates

    def claim_again(self, channel: Queue | Topic, envelope: Envelope) -> DuplicateClaim | None:
        """Hold the producer's id of a message that is in a branch in doubt, as its first send did; before the host is used."""
        policy = channel.policy
        if not policy.duplicate_count or DUPLICATE_ID not in envelope.properties:
            return None
        return self._claim(channel, envelope)

    def _claim(self, channel: Queue | Topic, envelope: Envelope) -> DuplicateClaim | None:
        identity = duplicate_id(envelope)
        now_ms = self._clock.time_ms()
        with self._lock:
            window = self._window(envelope.destination, channel.policy)
            sighting = window.claim(identity, now_ms)
        if sighting is Sighting.SEEN:
            return None
        if sighting is Sighting.CLAIMED:
            raise ResourceError(
                f"a message with {DUPLICATE_ID} {identity!r} was sent to {envelope.destination} in a transaction that has "
                f"not ended, so nobody knows yet whether this one is a duplicate; send it again when that one has ended"
            )
        mark = window.mark(identity, now_ms)
        return DuplicateClaim(self, window, mark, channel, is_kept=envelope.delivery_mode == 2)

    def _window(self, address: Address, policy: QueuePolicy) -> DuplicateWindow:
        window = self._windows.get(address)
        if window is None:
            window = DuplicateWindow(address, policy.duplicate_window_ms, policy.duplicate_count)
            self._windows[address] = window
            window.restore(self._restored.pop(address, ()))
        window.window_ms, window.most = policy.duplicate_window_ms, policy.duplicate_count
        return window

    def end_claim(self, window: DuplicateWindow, mark: DuplicateMark, arrived: bool) -> None:
        """Hear how a claim has ended."""
        with self._lock:
            if arrived:
                window.confirm(mark)
            else:
                window.drop(mark.duplicate_id)

    def restore(self, marks: Iterable[DuplicateMark]) -> None:
        """Remember what a journal has kept; before the host is used."""
        for mark in marks:
            self._restored.setdefault(mark.address, []).append(mark)

    def forget(self, address: Address) -> None:
        """Forget a destination that was destroyed."""
        with self._lock:
            self._windows.pop(address, None)
            self._restored.pop(address, None)

    # Room

    def _claim_room(
        self, queue: Queue, envelope: Envelope, patience: Patience | None, transaction: UnitOfWork | None
    ) -> tuple[Queue, Waiting] | None:
        if not queue.policy.is_limited or queue.policy.overflow in {Overflow.RING, Overflow.FLOW_TO_DISK}:
            return None
        size = approximate_size(envelope) if queue.policy.max_bytes else 0
        waiting = Waiting(Signal() if patience is None else patience.signal, size)
        if not queue.claim_room(waiting):
            if queue.policy.overflow is not Overflow.BLOCK or patience is None:
                raise _full(queue, "receive messages from it, raise its limits, or choose another overflow")
            self._await_room(queue, waiting, patience, transaction)
        return queue, waiting

    def _await_room(self, queue: Queue, waiting: Waiting, patience: Patience, transaction: UnitOfWork | None) -> None:
        timeout_ms = queue.policy.block_timeout_ms
        until_ms = self._clock.monotonic_ms() + timeout_ms if timeout_ms else None
        try:
            while not patience.is_over:
                if queue.claim_room(waiting, or_wait=True):
                    return
                if queue.policy.is_limited and queue.policy.overflow is not Overflow.BLOCK:
                    raise _full(queue, "its overflow was altered while the sender waited")
                if transaction is not None and _is_filled_by(queue.policy, transaction.held_in(queue), waiting.size):
                    raise _full(
                        queue, "this transaction alone takes that, so commit it, and send the rest in another one"
                    )
                if not self._clock.wait(patience.signal, until_ms):
                    if queue.claim_room(waiting):
                        return
                    raise _full(queue, f"there was no room within {timeout_ms} ms, so receive faster or wait longer")
            raise ClosedError(f"the session was closed while it waited for room in {queue.name}")
        finally:
            queue.stop_waiting(waiting)


def _is_filled_by(policy: QueuePolicy, held: tuple[int, int], size: int) -> bool:
    """Whether a transaction holds so much of a queue that there is no room for its next message before it ends."""
    messages, total = held
    if not messages:
        return False
    has_places = not policy.max_messages or messages < policy.max_messages
    return not has_places or bool(policy.max_bytes and total + size > policy.max_bytes)


def _full(queue: Queue, remedy: str) -> QueueFullError:
    policy = queue.policy
    limits = [f"{policy.max_messages} messages"] if policy.max_messages else []
    limits += [f"{policy.max_bytes} bytes"] if policy.max_bytes else []
    return QueueFullError(f"{queue.name} is full: its limit is {' and '.join(limits)}; {remedy}")
