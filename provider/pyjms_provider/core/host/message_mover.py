"""Puts messages elsewhere that leave their queue: dead letters, expired ones, and what an administrator moves.

The old message goes and the new one comes in one write of the journal, so that a message is never lost and never there
twice. All methods may wait for I/O, so no lock is held by who calls them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import ProviderError
from pyjms_provider.core.channel.channel import ChannelClosedError
from pyjms_provider.core.host.admission import SendPermit
from pyjms_provider.core.journal.in_doubt_writes import is_outcome_unknown
from pyjms_provider.core.journal.journal import Removal
from pyjms_provider.core.message.trace_events import Happening
from pyjms_provider.core.queue.dead_letters import DeadEntry, DeadKind, dead_letter

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.envelope import Address, ConnectionId, Envelope
    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.consumer import ConsumerSession
    from pyjms_provider.core.queue.entry import EntryQueue, QueueEntry
    from pyjms_provider.core.queue.queue import Queue

_log = logging.getLogger(__name__)
_PERSISTENT: Final = 2


class MessageMover:
    """Of one virtual host."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host

    def reject(self, delivery: Delivery, entry: QueueEntry, session: ConsumerSession, reason: str) -> None:
        """Settle a delivery and keep its message in its queue's queue of dead letters. Raises `ResourceError`.

        At once, whatever transaction the session is in: a message that cannot be processed must not come back with
        the rollback that it causes. A delivery that is no longer the session's is left alone.
        """
        queue = entry.queue
        envelope = delivery.envelope
        if not queue.take_out_held(entry, delivery.count, session, []):
            return
        dead = DeadEntry(
            entry=entry,
            kind=DeadKind.REJECTED,
            reason=reason,
            delivery_count=delivery.count,
            consumer=session.receiver_id,
            subscription=queue.subscription_name,
            at_ms=self._host.clock.time_ms(),
        )
        self._bury(dead, envelope, queue.policy.dead_letter)

    def set_aside(self, waiting: deque[DeadEntry]) -> None:
        """Keep messages that have left their queue where its policy says; what fails is logged, and comes back."""
        while waiting:
            self._set_one_aside(waiting.popleft())

    def _set_one_aside(self, dead: DeadEntry) -> None:
        queue = dead.entry.queue
        expired = dead.kind is DeadKind.EXPIRED
        target = queue.policy.expiry_queue if expired else queue.policy.dead_letter
        if not dead.is_kept or target is None:
            self._let_expire(dead)
            return
        try:
            envelope = queue.message_of(dead.entry.reference)
        except ProviderError as error:
            _log_failure(queue, error)
            self._put_back(dead.entry)
            return
        if envelope is None:
            self._host.store.release(dead.entry.reference)
            return
        try:
            self._bury(dead, envelope, target)
        except ProviderError as error:
            _log_failure(queue, error)
            return
        if expired:
            self._host.expiries.notify(dead, envelope)

    def _put_back(self, entry: QueueEntry) -> None:
        """Have a message in its queue again that did not go elsewhere."""
        storage = self._host.storage
        if storage is None:
            entry.queue.reinstate(entry)
        else:
            storage.reinstate(entry)

    def _let_expire(self, dead: DeadEntry) -> None:
        """Let go of a message that has expired and goes nowhere, and tell of it."""
        queue, envelope = dead.entry.queue, None
        with suppress(ProviderError):  # one that cannot be read goes as well, but nobody knows which it was
            envelope = queue.message_of(dead.entry.reference)
        queue.let_go_of_expired(dead.entry)
        if envelope is not None:
            self._host.expiries.notify(dead, envelope)

    def _bury(self, dead: DeadEntry, envelope: Envelope, target: str) -> None:
        """Put a message into the queue of dead letters. Raises as `relocate`: it is in its own queue again then."""
        try:
            letter = dead_letter(envelope, dead, target, self._host.clock.time_ms())
        except Exception:
            self._put_back(dead.entry)
            raise
        if self._host.trace is not None:
            facts = (dead.reason, dead.delivery_count, dead.consumer)
            self._host.trace.dead_lettered(dead.entry, envelope, target, *facts)
        self.relocate(dead.entry, letter, target)
        _log.warning(
            "PYJMS-BROKER-21 message %r of %r is in queue %r: %r",  # clients' texts, which a log may not be able to write
            _printable(str(envelope.message_id)),
            _printable(dead.entry.queue.name),
            _printable(target),
            _printable(dead.reason),
        )

    def put(self, envelope: Envelope, origin: ConnectionId | None, deliver_at_ms: int) -> None:
        """Put another message into the queue that is its destination, where it waits for its time. Raises `ResourceError`."""
        host = self._host
        host.store.relieve()
        queue = host.queue(envelope.destination.name)
        if host.storage is not None and envelope.delivery_mode == _PERSISTENT:
            host.storage.send(queue, envelope, origin, SendPermit(envelope, deliver_at_ms, None, None))
            return
        reference = host.store.refer(envelope, origin)
        reference.deliver_at_ms = deliver_at_ms
        try:
            host.store.keep(reference, envelope)
            queue.enqueue(reference)
        except ProviderError:
            host.store.take_back(reference)
            raise

    def delete(self, entries: Iterable[QueueEntry]) -> int:
        """Delete messages that nobody holds, in one write; return how many: the others are held, or have gone.

        Raises `ResourceError`: they are where they were; `InDoubtError`: they are there again, or gone, when the store has answered.
        """
        store, storage = self._host.store, self._host.storage
        deleted: list[QueueEntry] = []
        for entry in entries:
            entry.queue.take_out(entry, deleted, Happening.DELETED)
        if storage is not None:
            storage.write_deleted(deleted)
        store.release_all([entry.reference for entry in deleted])
        return len(deleted)

    def move(
        self, entry: QueueEntry, envelope: Envelope, target: str | Queue, cause: Happening, deliver_at_ms: int
    ) -> bool:
        """Take a message out of its queue that nobody holds, and put `envelope` elsewhere in its place; return False if it is held, or has gone.

        As `relocate`, also if it fails.
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
        """Put `envelope` into a queue in place of the message of `entry`, which was taken out of another one.

        `cause`: why, for the trace, which knows it already if None. `deliver_at_ms`: the time that it still
        waits for; 0: it is for whoever looks after the queue, at once.
        Raises `ResourceError`, and `ChannelClosedError` if it is a subscription's queue that has ended: the message is in its queue again, flagged
        as redelivered if it was delivered. `InDoubtError`: it is in one of the two when the store has answered.
        """
        host, storage = self._host, self._host.storage
        reference = host.store.refer(envelope, entry.reference.origin)
        reference.deliver_at_ms = deliver_at_ms
        host.store.keep(reference, envelope)
        kept: QueueJournal | None = None
        try:
            queue = host.queue(target) if isinstance(target, str) else target
            if cause is not None and host.trace is not None:
                host.trace.moved(entry, envelope, queue.name, cause)
            if storage is not None:
                queue, kept = self._place(queue, reference, envelope.destination)
                storage.replace(entry, reference, envelope, queue, kept)
        except Exception as error:
            if is_outcome_unknown(error):
                host.store.release(reference)  # the table of writes in doubt knows it, and adopts it if it was written
            else:
                host.store.take_back(reference)
                self._put_back(entry)
            raise
        try:
            self._put_written(queue, kept, reference, envelope)
        except ProviderError:
            if storage is None:
                self._put_back(entry)
            else:
                host.store.release(entry.reference)
            raise
        host.store.release(entry.reference)
        with suppress(ProviderError):  # the message is elsewhere; who sends next is told that there is no room
            host.store.relieve()

    def _place(self, queue: Queue, reference: MessageReference, address: Address) -> tuple[Queue, QueueJournal | None]:
        """Return where a message is to be written for: `queue`, or the next one of its name if that has ended.

        Raises `ChannelClosedError`.
        """
        kept = queue.kept
        while kept is None and reference.reliable and self._host.storage is not None:
            queue = self._successor(queue, address)
            kept = queue.kept
        return queue, kept

    def _successor(self, ended: Queue, address: Address) -> Queue:
        """Return the next queue of its name, made now if there is none. Raises `ChannelClosedError`."""
        is_queue = address.kind is AddressKind.QUEUE and not address.temporary
        queue = self._host.queue(address.name) if is_queue else ended
        if queue is ended:  # it was a subscription, which nobody makes but its subscriber; or the broker ends
            raise ChannelClosedError(f"{ended.name} no longer exists")
        return queue

    def _put_written(
        self, queue: Queue, kept: QueueJournal | None, reference: MessageReference, envelope: Envelope
    ) -> None:
        """Have a message in its queue that is written; if that has ended meanwhile, in the next one of its name.

        Who gave the message away does not hear of it any more, so it does not go with a queue that ends at this moment. It does
        with a subscription: there will be no other one for it.
        """
        store, storage = self._host.store, self._host.storage
        while not self._takes(queue, reference):
            lost, lost_kept = reference, kept
            try:
                queue, kept = self._place(self._successor(queue, envelope.destination), lost, envelope.destination)
            except ChannelClosedError:
                store.release(lost)
                if envelope.destination.kind is AddressKind.QUEUE:
                    raise
                return
            if storage is not None and kept is not None and lost_kept is not None and lost.journaled:
                reference = store.store(envelope, lost.origin)
                reference.deliver_at_ms = lost.deliver_at_ms
                storage.write_again(Removal(lost_kept.number, lost), reference, envelope, queue, kept)
                store.release(lost)

    def _takes(self, queue: Queue, reference: MessageReference) -> bool:
        """Have a queue take a message over; return False if it has ended. If it fails otherwise, the message is let go."""
        try:
            return queue.enqueue(reference)
        except ChannelClosedError:
            return False
        except ProviderError:
            self._host.store.release(reference)
            raise


def _log_failure(queue: EntryQueue, error: ProviderError) -> None:
    _log.error(
        "PYJMS-BROKER-20 a message of %r could not be set aside: %s", _printable(queue.name), _printable(error.reason)
    )


def _printable(text: str) -> str:
    """Return what clients wrote as a log can take it: half of a surrogate pair is no text anywhere else."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
