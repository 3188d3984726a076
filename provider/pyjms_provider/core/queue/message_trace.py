"""The trace of message events for life stories: a channel has one where stories are kept, and None elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyjms_provider.core.message.message_state import MessageEvent
from pyjms_provider.core.message.trace_events import ACTING, Happening
from pyjms_provider.core.store import NotInMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyjms.spi.envelope import Envelope
    from pyjms_provider.core.message.entry import EntryQueue, QueueEntry
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.message.trace_events import StoryBuffer
    from pyjms_provider.core.store import MessageStore


class MessageTrace:
    """Emits the events of one host's messages. Its methods are called with a queue's lock held, so they never wait."""

    __slots__ = ("_buffer", "_store", "every_step")

    def __init__(self, buffer: StoryBuffer, store: MessageStore) -> None:
        self._buffer = buffer
        self._store = store
        self.every_step = buffer.everything
        """Whether it records each step of each message; otherwise only those that leave without having been consumed."""

    # Each step

    def accepted(self, queue: EntryQueue, reference: MessageReference, unit_id: str | None = None) -> None:
        """Emit that a queue has enqueued a message, in a transaction if it has a `unit_id`."""
        try:
            envelope: Envelope = self._store.retrieve(reference)
        except (NotInMemoryError, KeyError):
            return  # a recovered message, whose story began earlier
        facts = (
            envelope.message_id,
            envelope.correlation_id,
            reference.reliable,
            reference.reliable and queue.journal is not None,
            reference.expiration_ms,
            reference.origin,
            unit_id,
            self._buffer.chosen(envelope),
        )
        happening = Happening.ACCEPTED if unit_id is None else Happening.SENT
        self._buffer.emit(happening, reference.id, queue.name, facts)

    def committed(self, entry: QueueEntry) -> None:
        """Emit that the sender's transaction has committed."""
        self._emit(Happening.COMMITTED, entry)

    def delivered(self, entry: QueueEntry, session: object | None = None, consumer: object | None = None) -> None:
        """Emit a delivery to `consumer` of `session`; None: to a receiver that messages are pushed to."""
        # The log's thread looks up names, as that takes longer than all of this.
        self._emit(Happening.DELIVERED, entry, entry.delivery_count, session, consumer)

    def acknowledged(self, entry: QueueEntry, holder: object | None, unit_id: str | None = None) -> None:
        """Emit an acknowledgement by `holder`; `unit_id`: of the transaction with whose commit it takes effect."""
        if unit_id is None:
            self._emit(Happening.ACKNOWLEDGED, entry, holder)
        else:
            self._emit(Happening.ACKNOWLEDGED_IN_TRANSACTION, entry, holder, unit_id)

    def acknowledgement_dropped(self, entry: QueueEntry, unit_id: str | None) -> None:
        """Emit that the transaction that was to acknowledge a message has rolled back."""
        self._emit(Happening.ACKNOWLEDGEMENT_ROLLED_BACK, entry, entry.holder, unit_id)

    def returned(self, entry: QueueEntry, holder: object | None) -> None:
        """Emit that `holder` has released a message."""
        self._emit(Happening.RETURNED, entry, holder, entry.delivery_count)

    def unwanted(self, where: str, reference: MessageReference) -> None:
        """Emit that a topic had no receiver for a message."""
        facts = (*self._ids_of(reference), reference.origin)
        self._buffer.emit(Happening.UNWANTED, 0, where, facts)

    # Final events

    def removed(self, entry: QueueEntry, event: MessageEvent, cause: Happening | None, holder: object | None) -> None:
        """Emit that a message has left its queue because of `event`; `cause`: the reason, if `event` does not tell it."""
        if event is MessageEvent.EXPIRE:
            cause = Happening.EXPIRED
        elif self.every_step and event is MessageEvent.FINAL_POSITIVE_ACKNOWLEDGEMENT:
            self.acknowledged(entry, holder)
        elif self.every_step and event is MessageEvent.ROLLBACK:
            cause = Happening.ROLLED_BACK
        if cause is not None:
            acting = (ACTING.get() or None,) if cause is Happening.DELETED else ()
            self._emit(cause, entry, *self._ids_of(entry.reference), *acting)

    def closed(self, entries: Iterable[QueueEntry]) -> None:
        """Emit that messages were removed with their queue."""
        for entry in entries:
            self._emit(Happening.CLOSED, entry, *self._ids_of(entry.reference))

    def reinstated(self, entry: QueueEntry) -> None:
        """Emit that a message is in its queue again, as its removal could not be written."""
        self._emit(Happening.REINSTATED, entry)

    def dead_lettered(
        self,
        entry: QueueEntry,
        envelope: Envelope,
        target: str,
        reason: str,
        delivery_count: int,
        consumer: str | None,
    ) -> None:
        """Emit that a message is moved to a dead letter queue after this many deliveries, the last one to `consumer`."""
        ids = (envelope.message_id, envelope.correlation_id)
        facts = (*ids, reason, target, delivery_count, consumer)
        # Also during recovery: a message that may have crashed the broker is dead-lettered before anything else.
        self._buffer.emit_early(Happening.DEAD, entry.reference.id, entry.queue.name, facts)

    def moved(self, entry: QueueEntry, envelope: Envelope, target: str, cause: Happening) -> None:
        """Emit that an operator has moved a message, or replayed it."""
        self._emit(cause, entry, envelope.message_id, envelope.correlation_id, target, ACTING.get() or None)

    def refused(self, where: str, envelope: Envelope, reason: str | None = None) -> None:
        """Emit that a message was refused, for that reason; None: it is a duplicate."""
        facts = (envelope.message_id, envelope.correlation_id)
        if reason is None:
            self._buffer.emit(Happening.DUPLICATE, 0, where, facts)
        else:
            self._buffer.emit(Happening.REFUSED, 0, where, (*facts, reason))

    def _emit(self, happening: Happening, entry: QueueEntry, *facts: Any) -> None:
        self._buffer.emit(happening, entry.reference.id, entry.queue.name, facts)

    def _ids_of(self, reference: MessageReference) -> tuple[str | None, str | bytes | None]:
        """Return the message's ids if it is in memory: tracing never waits for a disk."""
        try:
            envelope = self._store.retrieve(reference)
        except (NotInMemoryError, KeyError):
            return None, None
        return envelope.message_id, envelope.correlation_id
