"""The channel that stores what it cannot deliver at once (JBoss Messaging Core §2, §7): state, pushing, expiry.

`Queue` adds how messages come in and the consumers that pull. Locking: decisions are taken under the channel's one lock; receivers are called,
consumers woken and units of work rolled back after it is released. Lock order: `docs/design/threads.md`.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.clock import Clock
from pyjms.spi.envelope import Envelope
from pyjms_provider.core.channel import Channel, Filter, NotAcceptedError, Receiver, UnknownDeliveryError
from pyjms_provider.core.channel_state import ChannelState
from pyjms_provider.core.entry import QueueEntry, ReceiverId
from pyjms_provider.core.expiry import ExpiryIndex, is_expired
from pyjms_provider.core.message_state import MessageEvent, MessageState
from pyjms_provider.core.reference import MessageReference, ReferenceId
from pyjms_provider.core.store import MessageStore
from pyjms_provider.core.stories import Happening

if TYPE_CHECKING:
    from pyjms_provider.core.consumer import Consumer, ConsumerSession
    from pyjms_provider.core.expiry_watch import ExpiryWatch
    from pyjms_provider.core.kept_queue import KeptQueue
    from pyjms_provider.core.queue_rules import QueueRules
    from pyjms_provider.core.unit_of_work import UnitOfWork

__all__ = ["AsynchronousChannel", "PushTo"]

_log = logging.getLogger(__name__)


class PushTo(Enum):
    """To whom a channel pushes a message."""

    FIRST = "to the first receiver that takes it, in turn: point to point"
    ALL = "to all receivers that accept it"


class AsynchronousChannel(Channel):
    """A channel with a state of its own."""

    def __init__(
        self,
        name: str,
        store: MessageStore,
        state: ChannelState,
        clock: Clock,
        *,
        on_due: Callable[[AsynchronousChannel, int], None] | None = None,
        push_to: PushTo = PushTo.FIRST,
        kept: KeptQueue | None = None,
    ) -> None:
        """Make an empty channel. `kept`: how it is kept in a journal; None: not at all.

        `on_due(channel, at_ms)` asks for a call of `do_what_is_due` at that wall-clock time; it is called without a
        lock. None: expired messages are found only when their turn comes.
        """
        super().__init__(name, store)
        self._state = state
        self._ordering = state.ordering
        self._clock = clock
        self._on_due = on_due
        self._push_to = push_to
        self._refuses_reliable = state.refuses_reliable
        self._lock = Lock()
        self._expiry = ExpiryIndex()
        self._receivers: tuple[Receiver, ...] = ()
        self._closed = False
        self._rules: QueueRules | None = None
        self.kept = kept
        self.was_kept: KeptQueue | None = None
        """How it was kept, once it has ended: messages that were being written then are to be forgotten."""
        self.watch: ExpiryWatch | None = None
        """Who is told of what expires here; set before the channel is used."""

    # What it is

    @property
    def is_synchronous(self) -> bool:
        return False

    @property
    def is_reliable(self) -> bool:
        return self._state.is_reliable

    @property
    def is_transactional(self) -> bool:
        return self._state.is_transactional

    @property
    def is_storing_undeliverable(self) -> bool:
        return True

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def accept(self, reference: MessageReference) -> bool:
        """Return whether the message would be taken: the channel is open and need not refuse it (§2.1)."""
        return not self._closed and not (reference.reliable and self._refuses_reliable)

    def add_receiver(self, receiver: Receiver) -> None:
        """Connect a receiver: messages are pushed to it from now on, older ones with the next `deliver`."""
        with self._lock:
            self._receivers = (*self._receivers, receiver)

    def remove_receiver(self, receiver: Receiver) -> None:
        """Disconnect a receiver; what it owes stays, and it may still ask for redelivery (§7.5)."""
        with self._lock:
            self._receivers = tuple(other for other in self._receivers if other is not receiver)

    # Pushing

    def deliver(self) -> bool:
        with self._lock:
            waiting = list(self._ordering)
        for entry in waiting:
            self._push(entry)
        return not self.has_messages(MessageState.NEW)

    def redeliver(self, receiver: Receiver) -> None:
        receiver_id = receiver.receiver_id
        with self._lock:
            owed = self._state.owed_by(receiver_id)
        for entry in owed:
            with self._lock:
                begun = self._state.begin_push_again(entry, receiver_id)
            if begun:
                # A refusal leaves all as it was: the receiver owes what it owed (§8.1.2).
                self._end_push(entry, receiver_id, self._offer(receiver, entry) or False)

    def _push(self, entry: QueueEntry) -> None:
        """Offer an available message to the receivers (§5.2.3, §5.3.2)."""
        with self._lock:
            if self._remove_if_expired(entry) or self._state.begin_push(entry) is None:
                return
            receivers = self._receivers
        handled = False
        for receiver in receivers:
            answer = self._offer(receiver, entry)
            if answer is None:
                continue
            handled = True
            with self._lock:
                self._state.update(entry, receiver.receiver_id, answer)
                if self._push_to is PushTo.FIRST:
                    # In turn: who took this message is asked last for the next.
                    self._receivers = (*(other for other in self._receivers if other is not receiver), receiver)
            if self._push_to is PushTo.FIRST:
                break
        with self._lock:
            if self._state.end_push(entry, handled=handled):
                self._forget(entry)

    def _offer(self, receiver: Receiver, entry: QueueEntry) -> bool | None:
        """Return the receiver's acknowledgement, or None if there is none: it does not accept, or is broken."""
        try:
            if not receiver.accept(entry.reference):
                return None
            return receiver.handle(entry.reference, None, entry.redelivered)
        except NotAcceptedError:
            return None
        except Exception:
            # §5.2: a receiver that raises anything else is broken; the message must not be lost with it.
            _log.exception("%s: receiver %s is broken; the message is kept", self._name, receiver.receiver_id)
            return None

    def _end_push(self, entry: QueueEntry, receiver_id: ReceiverId, positive: bool) -> None:
        with self._lock:
            self._state.update(entry, receiver_id, positive)
            if self._state.end_push(entry, handled=True):
                self._forget(entry)

    def _push_or_choose(self, entry: QueueEntry) -> None:
        """Push a message that has just become available; when nobody takes it, wake a consumer that may."""
        self._push(entry)
        with self._lock:
            woken = self._choose(entry) if entry.state is MessageState.NEW else ()
        for consumer in woken:
            consumer.notify_work()

    def acknowledge(
        self, message_id: ReferenceId, receiver_id: ReceiverId, transaction: UnitOfWork | None = None
    ) -> None:
        with self._lock:
            entry = self._state.pushed(message_id)
            if entry is None:
                # §5.3.4: without a message that is being delivered there is nothing that could be acknowledged.
                raise UnknownDeliveryError(
                    f"{self._name} is not delivering message {message_id}, so {receiver_id} cannot acknowledge it; "
                    f"it may have been acknowledged before, or have expired"
                )
            if transaction is None:
                if self._state.update_later(entry, receiver_id):
                    self._forget(entry)
                return
            if entry.state is MessageState.DELIVERED:
                self._state.record_acknowledgement(entry, transaction)
        transaction.add_acknowledgement(entry, receiver_id)

    def apply_acknowledgements(self, acknowledged: Iterable[tuple[QueueEntry, ReceiverId]]) -> None:
        """Apply acknowledgements of pushed messages whose unit of work commits (§6.2.1)."""
        with self._lock:
            for entry, receiver_id in acknowledged:
                entry.transaction = None
                if self._state.update_later(entry, receiver_id):
                    self._forget(entry)

    def drop_acknowledgement(self, entry: QueueEntry, unit: UnitOfWork) -> None:
        """Forget an acknowledgement, of a pushed or pulled message, whose unit of work rolls back (§6.2.1)."""
        with self._lock:
            if entry.transaction is unit and entry.state is MessageState.DELIVERED:
                self._state.drop_acknowledgement(entry)

    # Looking

    def browse(self, message_filter: Filter | None = None) -> list[Envelope]:
        now_ms = self._clock.time_ms()
        with self._lock:
            waiting = [entry.reference for entry in self._ordering if not is_expired(entry.reference, now_ms)]
        found: list[Envelope] = []
        for reference in waiting:
            self._read([reference])
            with suppress(KeyError):  # it was taken meanwhile
                if message_filter is not None and not message_filter.accept(reference):
                    continue
            envelope = self._store.fetch(reference)
            if envelope is not None:
                found.append(envelope)
        return found

    def _read(self, references: Sequence[MessageReference]) -> Sequence[MessageReference]:
        """Bring messages into memory; return those that cannot be read. Waits for a disk. Raises `ResourceError`."""
        return self._store.load(references)

    def has_messages(self, state: MessageState) -> bool:
        return self.count(state) > 0

    def count(self, state: MessageState) -> int:
        """Return how many messages are in `state`."""
        with self._lock:
            return self._state.count(state)

    def get_messages(self, state: MessageState) -> list[MessageReference]:
        with self._lock:
            return [entry.reference for entry in self._state.entries(state)]

    # Branches in doubt

    def hold(self, entry: QueueEntry, unit: UnitOfWork, holder: ConsumerSession) -> None:
        """Let `holder` have received, in `unit`, a message that was restored; before the channel is used."""
        with self._lock:
            entry.delivery_count -= 1  # it was counted when the branch was prepared
            count = self._state.deliver(entry, holder)
            self._state.record_acknowledgement(entry, unit)
        unit.add_settled([(entry, count)])

    # Ending

    @abstractmethod
    def do_what_is_due(self, now_ms: int) -> int | None:
        """Do as `HasTimes` says."""

    def _purge_expired(self, now_ms: int) -> int | None:
        """Remove what has expired at `now_ms`; return when something expires next, None: nothing does.

        What a prepared branch has sent or received stays until its coordinator has decided, however late it is; and what
        is being committed, until that is written.
        """
        doomed: list[UnitOfWork] = []
        staying: list[QueueEntry] = []
        with self._lock:
            for entry in self._expiry.take_expired(now_ms):
                unit = entry.transaction
                if self._stays_while_held(entry) or (unit is not None and (unit.is_prepared or unit.is_committing)):
                    staying.append(entry)
                    continue
                if entry.state is MessageState.NOT_COMMITTED and unit is not None and unit.expired_rolls_back:
                    doomed.append(unit)
                self._expire(entry)
            due_ms = self._expiry.due_ms
            self._expiry.put_back(staying)
        for unit in doomed:
            unit.expire()  # §5.1.3: the expiry of one message rolls its transaction back
        return due_ms

    def let_go_of_expired(self, entry: QueueEntry) -> None:
        """Let go of a message that was taken out as it had expired, and then told of."""
        holders = entry.reference.holders
        try:
            with self._lock:
                if self.kept is not None:
                    self.kept.note_removed(entry.reference)
            self._store.release(entry.reference)
        except BaseException:  # the thread was interrupted
            with self._lock:
                if self.kept is not None:
                    self.kept.note_removed(entry.reference)
            if entry.reference.holders == holders:
                self._store.release(entry.reference)
            raise

    @property
    def last_place(self) -> int:
        """The last place in the order that a message has been given."""
        return self._ordering.last_place

    def note_refused(self, reference: MessageReference) -> None:
        """Have the journal forget a message that was written for this channel, which has not taken it. Does not wait."""
        kept = self.kept or self.was_kept
        if kept is not None:
            kept.note_removed(reference)

    def close(self) -> None:
        """Let go of all messages, save those that a client has pulled: they go when they are settled or given back."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._receivers = ()
            for entry in self._state.clear_available():
                self._forget(entry)
            for state in (MessageState.NEW, MessageState.NOT_COMMITTED, MessageState.DELIVERED):
                for entry in self._state.entries(state):
                    if entry.holder is None:
                        self._remove(entry, MessageEvent.REMOVE, Happening.CLOSED)

    @property
    def _is_watched(self) -> bool:
        return self.watch is not None and self.watch.is_on

    # With the lock held

    @abstractmethod
    def _choose(self, entry: QueueEntry) -> Sequence[Consumer]:
        """Return the consumers to wake, after the lock is released, for a message that is available now."""

    @abstractmethod
    def _stays_while_held(self, entry: QueueEntry) -> bool:
        """Return whether a message must not be taken from the client that has it, although it has expired."""

    def _expire(self, entry: QueueEntry) -> None:
        """Take out a message that has expired, and is no longer in the index of those that will."""
        self._state.remove(entry, MessageEvent.EXPIRE)
        self._let_go(entry)

    def _remove_if_expired(self, entry: QueueEntry) -> bool:
        if not entry.reference.expiration_ms or not is_expired(entry.reference, self._clock.time_ms()):
            return False
        if entry.state is not MessageState.ABSENT:
            self._remove(entry, MessageEvent.EXPIRE)
        return True

    def _remove(self, entry: QueueEntry, event: MessageEvent, cause: Happening | None = None) -> None:
        was_here = entry.state is not MessageState.ABSENT
        holders, room = entry.reference.holders, None if self._rules is None else self._rules.taken_room
        try:
            self._state.remove(entry, event, cause)
            self._forget(entry)
        except (
            BaseException
        ):  # the thread was interrupted: what is out of the channel must not come again with the next start
            if was_here and entry.state is MessageState.ABSENT:
                self._let_go_of_rest(entry, holders, room)
            raise

    def _let_go_of_rest(self, entry: QueueEntry, holders: int, room: int | None) -> None:
        """Do what `_let_go` has not done, which began when so many held the message, and so many took room."""
        if self._rules is not None and self._rules.taken_room in {room, None}:
            self._rules.gone(entry)
        if self.kept is not None:
            self.kept.note_removed(entry.reference)
        if entry.reference.holders == holders:
            self._store.release(entry.reference)

    def _forget(self, entry: QueueEntry) -> None:
        """Let go of the message of an entry that has just become ABSENT."""
        if entry.reference.expiration_ms:
            self._expiry.forget_one()
        self._let_go(entry)

    def _let_go(self, entry: QueueEntry) -> None:
        if self._rules is not None:
            self._rules.gone(entry)
        if self.kept is not None:
            self.kept.note_removed(entry.reference)
        elif self.was_kept is not None:
            self.was_kept.note_late(entry)
        self._store.release(entry.reference)
