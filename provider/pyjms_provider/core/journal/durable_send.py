"""How messages come in that survive, each sent by itself: written first, and then passed to their destination."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyjms.spi.errors import InDoubtError, ProviderError
from pyjms_provider.core.journal.in_doubt_writes import is_doubt
from pyjms_provider.core.journal.journal import Changes, NewMessage
from pyjms_provider.core.journal.work_under_way import WorkUnderWay
from pyjms_provider.core.topic.topic import Topic

if TYPE_CHECKING:
    from pyjms.spi.envelope import ConnectionId, Envelope
    from pyjms_provider.core.host.admission import Admission
    from pyjms_provider.core.journal.journal import Journal
    from pyjms_provider.core.journal.queue_journal import KeptQueue
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store.paging import PagingMessageStore

__all__ = ["DurableSending", "note_definitions"]


class DurableSending:
    """The part of a `Keeper` that sends. All methods may wait for I/O, so no lock is held by who calls them."""

    def __init__(self, journal: Journal, store: PagingMessageStore) -> None:
        self.journal = journal
        self._store = store
        self._work = WorkUnderWay()

    def send(
        self, channel: Queue | Topic, envelope: Envelope, origin: ConnectionId | None, admission: Admission | None
    ) -> None:
        """Write a PERSISTENT message that is sent by itself, and pass it to its destination.

        Raises `ResourceError`, `ChannelClosedError`.
        """
        kept = channel.kept
        if admission is not None or kept is None or kept.definition is not None:  # rarely
            self._work.do(partial(self._send_by_steps, channel, envelope, origin, admission))
            return
        # Without a call in between, as each one counts here: this is what `work` does.
        store, work = self._store, self._work
        try:
            work.entries.append(None)
            if work.is_ending:
                raise work.closed()
            reference = store.refer(envelope, origin)
            try:
                self.journal.add(reference, envelope, kept.number)
                reference.journaled = True
                store.keep(reference, envelope)
                channel.take_over(reference)
            except Exception as error:
                self._take_back_sent(error, kept, NewMessage(reference, envelope, (kept.number,)))
                raise
        finally:
            work.entries.pop()
            if work.is_ending:
                work.tell_if_idle()

    def _take_back_sent(self, error: Exception, kept: KeptQueue, message: NewMessage) -> None:
        """Have the journal forget a message that was not written for certain, or that its queue has refused."""
        reference = message.reference
        if not reference.journaled:
            if is_doubt(error):
                self._withdraw(Changes(messages=[message]))
        elif isinstance(error, ProviderError):
            kept.note_removed(reference)
            self._store.take_back(reference)

    def _send_by_steps(
        self, channel: Queue | Topic, envelope: Envelope, origin: ConnectionId | None, admission: Admission | None
    ) -> None:
        reference = self._store.refer(envelope, origin)
        reference.deliver_at_ms = 0 if admission is None else admission.deliver_at_ms
        if isinstance(channel, Topic):
            self._publish(channel, reference, envelope, admission)
        else:
            self._send_to_queue(channel, reference, envelope, admission)

    def send_together(
        self, sends: Sequence[tuple[Queue, Envelope, ConnectionId | None]]
    ) -> Sequence[ProviderError | None]:
        """Write PERSISTENT messages, each sent by itself to a queue that is kept, in one write, and pass them to their queues.

        Returns of each why it was not sent, or None. If the write fails, each is tried alone: another one may be at fault.
        """
        store = self._store
        try:
            store.relieve()
            return self._work.do(partial(self._send_all, sends))
        except InDoubtError as error:
            return [error] * len(sends)
        except ProviderError:
            return [self._send_alone(*send) for send in sends]

    def _send_all(self, sends: Sequence[tuple[Queue, Envelope, ConnectionId | None]]) -> Sequence[ProviderError | None]:
        kept = [queue.kept for queue, _, _ in sends]
        references = [self._store.refer(envelope, origin) for _, envelope, origin in sends]
        messages = [
            NewMessage(reference, envelope, (each.number,))
            for reference, each, (_, envelope, _) in zip(references, kept, sends, strict=True)
            if each is not None
        ]
        if len(messages) < len(sends):
            return [self._send_alone(*send) for send in sends]  # a queue has been dropped at this moment
        self._write_new(Changes(messages=messages))
        return [
            self._hand_over(queue, reference, envelope)
            for reference, (queue, envelope, _) in zip(references, sends, strict=True)
        ]

    def _hand_over(self, queue: Queue, reference: MessageReference, envelope: Envelope) -> ProviderError | None:
        """Pass a message that is written to its queue; return why that did not take it."""
        reference.journaled = True
        self._store.keep(reference, envelope)
        try:
            queue.take_over(reference)
        except ProviderError as error:
            queue.note_refused(reference)
            self._store.release(reference)
            return error
        return None

    def _send_alone(self, queue: Queue, envelope: Envelope, origin: ConnectionId | None) -> ProviderError | None:
        try:
            self._store.relieve()
            self.send(queue, envelope, origin, None)
        except ProviderError as error:
            return error
        return None

    def _send_to_queue(
        self, queue: Queue, reference: MessageReference, envelope: Envelope, admission: Admission | None
    ) -> None:
        """Write a message, with its producer's id if it has one, and hand it to its queue."""
        kept = queue.kept
        mark = None if admission is None or kept is None else admission.mark
        changes = _changes(reference, envelope, () if kept is None else (kept,))
        if mark is not None and kept is not None:
            changes.duplicates.append(mark.of_queue(kept.number))
        try:
            self._store.keep(reference, envelope)
            if kept is not None:
                self._write_message(reference, changes, (kept,))
            if admission is None:
                queue.take_over(reference)
            else:
                admission.hand_over(queue, reference)
        except ProviderError:
            self._take_back(reference, changes)
            raise

    def _publish(
        self, topic: Topic, reference: MessageReference, envelope: Envelope, admission: Admission | None
    ) -> None:
        """Write a message for the durable subscriptions that want it, and pass it on to all that do."""
        changes = Changes()
        try:
            self._store.keep(reference, envelope)
            wanting = topic.wanting(reference)
            kept = tuple(subscription.kept for subscription in wanting if subscription.kept is not None)
            if kept:
                changes = _changes(reference, envelope, kept)
                if admission is not None and admission.mark is not None:
                    changes.duplicates.append(admission.mark)
                self._write_message(reference, changes, kept)
            topic.pass_on(reference, wanting)
        except ProviderError:
            if reference.holders > 1:  # a subscription has it already
                self._store.release(reference)
            else:
                self._take_back(reference, changes)
            raise
        if admission is not None:
            admission.has_arrived = True

    def _write_message(self, reference: MessageReference, changes: Changes, queues: tuple[KeptQueue, ...]) -> None:
        self._write_new(changes)
        reference.journaled = True
        if changes.definitions:
            note_definitions(queues)

    def _take_back(self, reference: MessageReference, changes: Changes) -> None:
        """Have the store and the journal forget a message that nobody has taken, and its producer's id."""
        if reference.journaled:  # else it is not written, or withdrawn already
            self._withdraw(changes)
        self._store.take_back(reference)

    def _write_new(self, changes: Changes) -> None:
        """Write what only adds. Raises `ResourceError`; `InDoubtError` when it may be there while this process lives no longer."""
        try:
            self.journal.write(changes, force=True)
        except Exception as error:
            if is_doubt(error):
                self._withdraw(changes)
            raise

    def _withdraw(self, changes: Changes) -> None:
        """Have the journal forget messages that it may have, and that no queue has, before it writes anything else."""
        self.journal.note(changes.withdrawal())


def _changes(reference: MessageReference, envelope: Envelope, queues: tuple[KeptQueue, ...]) -> Changes:
    """Return what is to be written of a message for these queues, which may not be kept yet."""
    reference.shared = len(queues) > 1
    changes = Changes(messages=[NewMessage(reference, envelope, tuple([kept.number for kept in queues]))])
    for kept in queues:
        kept.add_definition(changes)
    return changes


def note_definitions(queues: Iterable[KeptQueue]) -> None:
    """Have queues hear that their definitions are written."""
    for kept in queues:
        kept.was_defined()
