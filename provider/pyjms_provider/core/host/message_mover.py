"""Moves messages between queues: dead letters, expired ones, and those that an administrator moves.

One write of the journal removes the old message and adds the new one, so that a message is never lost and never
duplicated. All methods may wait for I/O, so the caller holds no lock.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ExpiredMessage
from pyjms_provider.core.channel import ChannelClosedError
from pyjms_provider.core.host.admission import SendPermit
from pyjms_provider.core.journal.in_doubt_writes import is_outcome_unknown
from pyjms_provider.core.journal.journal import Removal
from pyjms_provider.core.message.reference import next_place
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.queue.dead_letters import DeadEntry, DeadKind, dead_letter

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Address, ConnectionId, Envelope
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.journal.storage_manager import StorageManager
    from pyjms_provider.core.message.entry import EntryQueue, QueueEntry
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.consumer import ConsumerSession
    from pyjms_provider.core.queue.message_trace import MessageTrace
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store import MessageStore


_log = logging.getLogger(__name__)
_PERSISTENT: Final = 2


class MessageMover:
    """The mover of one virtual host."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        storage: StorageManager | None,
        queue: Callable[[str], Queue],
        expiries: ExpiryWatch,
        trace: MessageTrace | None,
    ) -> None:
        """`queue` returns the queue of a name, made now if there is none."""
        self._store = store
        self._clock = clock
        self._storage = storage
        self._queue = queue
        self._expiries = expiries
        self._trace = trace

    def reject(self, delivery: Delivery, entry: QueueEntry, session: ConsumerSession, reason: str) -> None:
        """Settle a delivery and move its message to the dead letter queue of its queue. Raises `ResourceError`.

        At once, independently of the session's transaction: a message that cannot be processed must not be redelivered after
        the rollback that it causes. A delivery that the session no longer holds is left alone.
        """
        queue = entry.queue
        envelope = delivery.envelope
        # Out of the queue first, and only there: the move removes it from the store and the journal, in one write.
        if not queue.take_out_held(entry, delivery.count, session, []):
            return
        dead = DeadEntry(
            entry=entry,
            kind=DeadKind.REJECTED,
            reason=reason,
            delivery_count=delivery.count,
            consumer=session.receiver_id,
            subscription=queue.subscription_name,
            at_ms=self._clock.time_ms(),
        )
        self._move_to_dead_letters(dead, envelope, queue.policy.dead_letter)

    def dead_letter_all(self, waiting: deque[DeadEntry]) -> None:
        """Move messages that have left their queue to the queue of its policy; failures are logged, and the message is put back."""
        # One by one: messages that an error leaves in the deque are moved with the next ones.
        while waiting:
            self._dead_letter_one(waiting.popleft())

    def _dead_letter_one(self, dead: DeadEntry) -> None:
        queue = dead.entry.queue
        expired = dead.kind is DeadKind.EXPIRED
        target = queue.policy.expiry_queue if expired else queue.policy.dead_letter
        if not dead.is_kept or target is None:
            self._drop_expired(dead)
            return
        try:
            envelope = queue.message_of(dead.entry.reference)
        except ProviderError as error:
            _log_failure(queue, error)
            # It cannot be read now: it goes back to its queue, which dead-letters it again later.
            self._put_back(dead.entry)
            return
        if envelope is None:
            # It was damaged: the journal has quarantined it.
            self._store.release(dead.entry.reference)
            return
        try:
            self._move_to_dead_letters(dead, envelope, target)
        except ProviderError as error:
            _log_failure(queue, error)
            return
        if expired:
            self._expiries.notify(dead, envelope)

    def _put_back(self, entry: QueueEntry) -> None:
        """Put a message that was not moved back into its queue."""
        storage = self._storage
        if storage is None:
            entry.queue.reinstate(entry)
        else:
            storage.reinstate(entry)

    def _drop_expired(self, dead: DeadEntry) -> None:
        """Remove an expired message that is not moved, and notify of its expiry."""
        queue, envelope = dead.entry.queue, None
        with suppress(ProviderError):  # an unreadable one is removed as well, but cannot be reported
            envelope = queue.message_of(dead.entry.reference)
        queue.release_removed(dead.entry)
        if envelope is not None:
            self._expiries.notify(dead, envelope)

    def _move_to_dead_letters(self, dead: DeadEntry, envelope: Envelope, target: str) -> None:
        """Move a message to the dead letter queue. Raises as `relocate`: it is back in its own queue then."""
        try:
            # The message is in no queue at this moment, so no error, expected or not, may lose it.
            letter = dead_letter(envelope, dead, target, self._clock.time_ms())
        except Exception:
            self._put_back(dead.entry)
            raise
        if self._trace is not None:
            facts = (dead.reason, dead.delivery_count, dead.consumer)
            self._trace.dead_lettered(dead.entry, envelope, target, *facts)
        self.relocate(dead.entry, letter, target)
        _log.warning(
            "PYJMS-BROKER-21 message %r of %r is in queue %r: %r",  # clients' texts, which a log may not be able to write
            _printable(str(envelope.message_id)),
            _printable(dead.entry.queue.name),
            _printable(target),
            _printable(dead.reason),
        )

    def put(self, envelope: Envelope, origin: ConnectionId | None, deliver_at_ms: int) -> None:
        """Add a new message to the queue that is its destination, where it waits for its time. Raises `ResourceError`."""
        # First, as for a client's send: a full disk refuses the copy before anything is done.
        self._store.relieve()
        queue = self._queue(envelope.destination.name)
        storage = self._storage
        if storage is not None and (envelope.delivery_mode == _PERSISTENT or storage.journal.keeps_transient):
            storage.send(queue, envelope, origin, SendPermit(envelope, deliver_at_ms, None, None))
            return
        with next_place(queue, partial(self._store.refer, envelope, origin)) as reference:
            reference.deliver_at_ms = deliver_at_ms
            try:
                self._store.keep(reference, envelope)
                queue.enqueue(reference)
            except ProviderError:
                self._store.take_back(reference)
                raise

    def delete(self, entries: Iterable[QueueEntry]) -> int:
        """Delete messages that are not held, in one write; return how many: the others are held, or have left.

        Raises `ResourceError`: they are where they were; `InDoubtError`: they are put back, or gone, once the store has answered.
        """
        store, storage = self._store, self._storage
        deleted: list[QueueEntry] = []
        for entry in entries:
            entry.queue.take_out(entry, deleted, Happening.DELETED)
        # Out of memory first, then written: the other order would let a
        # consumer get a message that is deleted in the store.
        if storage is not None:
            storage.write_deleted(deleted)
        store.release_all([entry.reference for entry in deleted])
        return len(deleted)

    def move(
        self, entry: QueueEntry, envelope: Envelope, target: str | Queue, cause: Happening, deliver_at_ms: int
    ) -> bool:
        """Take a message that is not held out of its queue, and put `envelope` into another one instead; return False if it is held, or has left.

        Raises as `relocate`.
        """
        if not entry.queue.take_out(entry, []):
            return False
        self.relocate(entry, envelope, target, cause, deliver_at_ms)
        return True

    def relocate(
        self,
        entry: QueueEntry,
        envelope: Envelope,
        target: str | Queue,
        cause: Happening | None = None,
        deliver_at_ms: int = 0,
    ) -> None:
        """Put `envelope` into a queue instead of the message of `entry`, which was taken out of another one.

        `cause`: the reason for the trace; None: it has been traced. `deliver_at_ms`: its time, if it still waits for one; 0: it is
        available at once.
        Raises `ResourceError`, and `ChannelClosedError` if the target is a subscription's queue that has ended: the message is in its old queue again, flagged
        as redelivered if it was delivered. `InDoubtError`: it is in one of the two once the store has answered.
        """
        try:
            queue = self._queue(target) if isinstance(target, str) else target
        except Exception:
            self._put_back(entry)
            raise
        with next_place(queue, partial(self._store.refer, envelope, entry.reference.origin)) as reference:
            reference.deliver_at_ms = deliver_at_ms
            self._relocate(entry, reference, envelope, queue, cause)

    def _relocate(
        self, entry: QueueEntry, reference: MessageReference, envelope: Envelope, queue: Queue, cause: Happening | None
    ) -> None:
        """Put a message that is not stored yet into a queue, as `relocate`."""
        storage = self._storage
        # In memory from the start: the queue that takes it may read its body at once.
        self._store.keep(reference, envelope)
        kept: QueueJournal | None = None
        try:
            if cause is not None and self._trace is not None:
                self._trace.moved(entry, envelope, queue.name, cause)
            if storage is not None:
                queue, kept = self._place(queue, reference, envelope.destination)
                # One write removes the message here and adds it there:
                # after a crash it is in exactly one of the two queues.
                storage.replace(entry, reference, envelope, queue, kept)
        except Exception as error:
            if is_outcome_unknown(error):
                self._store.release(reference)  # `InDoubtWrites` has it, and adopts it if it was written
            else:
                self._store.take_back(reference)
                self._put_back(entry)
            raise
        try:
            self._put_written(queue, kept, reference, envelope)
        # The write is made, so the message is not put back: the store has it elsewhere.
        except ProviderError:
            if storage is None:
                self._put_back(entry)
            else:
                self._store.release(entry.reference)
            raise
        # Not earlier: until the message is in the other queue, an error puts this one back.
        self._store.release(entry.reference)
        with suppress(ProviderError):  # the message has been moved; the next sender gets the error
            self._store.relieve()

    def _place(self, queue: Queue, reference: MessageReference, address: Address) -> tuple[Queue, QueueJournal | None]:
        """Return the queue for which a message is to be written: `queue`, or the next one of its name if that has ended.

        Raises `ChannelClosedError`.
        """
        kept = queue.journal
        # A queue that has ended has no record in the journal; the message would be lost at the next start.
        storage = self._storage
        is_written = storage is not None and (reference.reliable or storage.journal.keeps_transient)
        while kept is None and is_written:
            queue = self._successor(queue, address)
            kept = queue.journal
        return queue, kept

    def _successor(self, ended: Queue, address: Address) -> Queue:
        """Return the next queue of its name, made now if there is none. Raises `ChannelClosedError`."""
        is_queue = address.kind is AddressKind.QUEUE and not address.temporary
        queue = self._queue(address.name) if is_queue else ended
        if queue is ended:  # it was a subscription, which only its subscriber can make; or the broker ends
            raise ChannelClosedError(f"{ended.name} no longer exists")
        return queue

    def _put_written(
        self, queue: Queue, kept: QueueJournal | None, reference: MessageReference, envelope: Envelope
    ) -> None:
        """Put a written message into its queue; if that has ended meanwhile, into the next one of its name.

        The client that released the message gets no error any more, so it is not lost with a queue that ends at this moment. It is
        lost with a subscription: there will be no other one for it.
        """
        store, storage = self._store, self._storage
        # The next queue of that name may end, too, before it has taken the message.
        while not self._takes(queue, reference):
            lost, lost_kept = reference, kept
            try:
                queue, kept = self._place(self._successor(queue, envelope.destination), lost, envelope.destination)
            except ChannelClosedError:
                store.release(lost)
                if envelope.destination.kind is AddressKind.QUEUE:
                    raise
                return
            # Written for a queue that has ended, the message would be removed at
            # the next start: it is written again for this one.
            if storage is not None and kept is not None and lost_kept is not None and lost.journaled:
                reference = store.store(envelope, lost.origin)
                reference.deliver_at_ms = lost.deliver_at_ms
                storage.write_again(Removal(lost_kept.number, lost), reference, envelope, queue, kept)
                store.release(lost)

    def _takes(self, queue: Queue, reference: MessageReference) -> bool:
        """Have a queue enqueue a message; return False if it has ended. After any other error the message is released."""
        try:
            return queue.enqueue(reference)
        except ChannelClosedError:
            return False
        except ProviderError:
            self._store.release(reference)
            raise


def _log_failure(queue: EntryQueue, error: ProviderError) -> None:
    _log.error(
        "PYJMS-BROKER-20 a message of %r could not be set aside: %s", _printable(queue.name), _printable(error.reason)
    )


def _printable(text: str) -> str:
    """Return a client's text as a log can write it, without halves of surrogate pairs, which are no valid text."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


OnExpired: TypeAlias = Callable[[ExpiredMessage], None]
"""The callback of a connection, as in `ConnectRequest`."""


class ExpiryWatch:
    """The listeners to expired messages. Safe to use from any thread. The lock is innermost; no listener is called under it."""

    __slots__ = ("_by_connection", "_first", "_listeners", "_lock")

    def __init__(self) -> None:
        self._lock = Lock()
        self._first: OnExpired | None = None
        self._by_connection: dict[ConnectionId, OnExpired] = {}
        self._listeners: tuple[OnExpired, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether there are listeners. May be read at any time, with a lock held."""
        return bool(self._listeners)

    def add_first(self, listener: OnExpired) -> None:
        """Add the listener of the connection for which the broker is started: expired messages are found before it is there."""
        with self._lock:
            self._first = listener
            self._update_listeners()

    def add(self, connection_id: ConnectionId, listener: OnExpired) -> None:
        """Add the listener of a connection."""
        with self._lock:
            self._by_connection[connection_id] = listener
            # The connection is there now, so its listener is registered as such,
            # and no longer as that of the connection for which the broker is started.
            if listener == self._first:
                self._first = None
            self._update_listeners()

    def remove(self, connection_id: ConnectionId) -> None:
        """Remove the listener of a connection. May be repeated."""
        with self._lock:
            if self._by_connection.pop(connection_id, None) is not None:
                self._update_listeners()

    def _update_listeners(self) -> None:
        """Have each callable called once, however many connections have it. The lock is held."""
        wanted = dict.fromkeys(self._by_connection.values())
        if self._first is not None:
            wanted[self._first] = None
        # A tuple that is replaced: `notify` and `is_on` read it without the lock.
        self._listeners = tuple(wanted)

    def notify(self, dead: DeadEntry, envelope: Envelope) -> None:
        """Notify the listeners of a message that has expired. No lock may be held."""
        named = dead.subscription  # such as topic://prices#client/name
        expired = ExpiredMessage(
            message_id=envelope.message_id,
            destination=envelope.destination,
            subscription=None if named is None else named.removeprefix(f"{envelope.destination}#"),
            expiration_ms=envelope.expiration_ms,
            at_ms=dead.at_ms,
        )
        for listener in self._listeners:
            listener(expired)
