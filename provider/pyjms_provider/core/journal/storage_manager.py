"""How a virtual host writes down what must survive: write first, let others see afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pyjms.spi.errors import ProviderError
from pyjms_provider.core.journal.durable_send import DurableSending, note_definitions
from pyjms_provider.core.journal.in_doubt_writes import Doubts, MoveInDoubt, RemovalInDoubt, is_doubt
from pyjms_provider.core.journal.journal import Changes, NewMessage, QueueNumber, QueueRecord, Removal, SubscriptionKey
from pyjms_provider.core.journal.queue_journal import KeptQueue, removals_of

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address, Envelope
    from pyjms_provider.core.journal.journal import JoinedTransaction, Journal
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.policy import QueuePolicy
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store.paging import PagingMessageStore
    from pyjms_provider.core.timed import HasTimes
    from pyjms_provider.core.topic.subscription import SubscriptionTerms
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork

__all__ = ["Keeper"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Keeper(DurableSending):
    """Writes a host's changes to its journal. All methods may wait for I/O, so no lock is held by who calls them."""

    def __init__(
        self,
        journal: Journal,
        store: PagingMessageStore,
        clock: Clock,
        *,
        force_acknowledgements: bool = False,
        on_due: Callable[[HasTimes, int], None] | None = None,
    ) -> None:
        """`force_acknowledgements`: acknowledgements survive a loss of power too, not only the process's death.

        `on_due`: asks the housekeeper to come.
        """
        super().__init__(journal, store)
        self.force_acknowledgements = force_acknowledgements
        self.doubts = Doubts(journal, clock, on_due)
        self._clock = clock

    # The end

    def work(self, act: Callable[[], _T]) -> _T:
        """Return what `act` returns, and hold off the end of the journal until it does. Raises `ClosedError` once the end has begun."""
        return self._work.do(act)

    def end(self) -> None:
        """Let nothing new begin, and return when what is under way has been written or refused."""
        self._work.end()

    # Destinations

    def define_later(self, address: Address, policy: QueuePolicy | None = None) -> KeptQueue:
        """Keep a queue that somebody has named, and its own policy if it has one, from its first message on. Does not wait."""
        return self._later(_queue_record(QueueNumber(0), address, policy))

    def _later(self, record: QueueRecord) -> KeptQueue:
        number = self.journal.number_of(record)
        return KeptQueue(self.journal, self._clock, number, replace(record, number=number))

    def define(self, kept: KeptQueue) -> None:
        """Keep a queue from now on. Raises `ResourceError`."""
        assert kept.definition is not None, "it is new"
        self.journal.define_queue(kept.definition)
        kept.was_defined()

    def alter_queue(self, kept: KeptQueue, address: Address, policy: QueuePolicy) -> None:
        """Keep another policy of a queue. Raises `ResourceError`."""
        self.journal.define_queue(_queue_record(kept.number, address, policy))
        kept.was_defined()

    def correct(self, kept: KeptQueue, address: Address, policy: QueuePolicy | None) -> None:
        """Have the journal keep the policy that a queue has, whatever was written before. Does not wait."""
        self.journal.note(Changes(corrected=[_queue_record(kept.number, address, policy)]))

    def define_subscription(self, key: SubscriptionKey, terms: SubscriptionTerms) -> KeptQueue:
        """Keep a durable subscription. Raises `ResourceError`; with any other error none is kept."""
        kept = self._later(_subscription_record(key, terms))
        try:
            self.define(kept)
        except Exception as error:
            if is_doubt(error):
                self.journal.note(Changes(dropped=[kept.number]))
            raise
        return kept

    def succeed_later(self, key: SubscriptionKey, terms: SubscriptionTerms) -> KeptQueue:
        """Have a number for a durable subscription that is to take the place of one of its name. Does not wait."""
        record = _subscription_record(key, terms)
        number = self.journal.number_of(record, anew=True)
        return KeptQueue(self.journal, self._clock, number, replace(record, number=number))

    def succeed(self, ended: KeptQueue, successor: KeptQueue) -> None:
        """Keep a subscription in the place of another one, in one write. Raises `ResourceError`; after any other error `has_succeeded` must be called."""
        self.journal.write(_succession(ended, successor), force=True)
        successor.was_defined()

    def has_succeeded(self, ended: KeptQueue, successor: KeptQueue) -> None:
        """Have that so before anything else is written, whether it is already or not. Does not wait."""
        if successor.definition is not None:
            self.journal.note(_succession(ended, successor))
        ended.has_ended(was_unwritten=False)

    def remove_messages(self, ended: KeptQueue) -> None:
        """Have what a subscription had leave the store, that another one has taken the place of. If that fails, the next start does it."""
        with suppress(ProviderError):
            self.journal.drop_queue(ended.number)

    def drop(self, kept: KeptQueue) -> None:
        """Forget a queue or a subscription with its messages. Raises `ResourceError`; after any other error `forget` must be called."""
        was_unwritten = kept.definition is not None
        self.journal.drop_queue(kept.number)
        kept.has_ended(was_unwritten=was_unwritten)

    def forget(self, kept: KeptQueue) -> None:
        """Have a queue or a subscription forgotten before anything else is written, whether it is already or not. Does not wait."""
        was_unwritten = kept.definition is not None
        self.journal.note(Changes(dropped=[kept.number]))
        kept.has_ended(was_unwritten=was_unwritten)

    # Units of work, acknowledgements, moves

    def finish_commit(self, unit: UnitOfWork) -> None:
        """Write a unit of work, and make it true. Raises `RolledBackError`, `InDoubtError`."""
        try:
            unit.finish_commit(self.journal, force_acknowledgements=self.force_acknowledgements)
        except Exception:
            if unit.is_in_doubt:
                self.doubts.add_unit(unit)
            raise

    def finish_joined(self, unit: UnitOfWork, joined: JoinedTransaction) -> None:
        """Do so in the application's transaction."""
        try:
            unit.finish_commit(joined)
        except Exception:
            if not joined.may_be_committed:
                unit.was_not_written()
            elif unit.is_in_doubt:
                self.doubts.add_lasting()  # nobody here knows when the application's connection has ended
            raise

    def write_settled(self, settled: Sequence[QueueEntry]) -> None:
        """Write that messages were taken out of their queues; if that fails, they are there again.

        Raises `ResourceError`; `InDoubtError`: then they are there again, or gone, when the store has answered.
        """
        changes = Changes(removals=removals_of(settled))
        try:
            self.journal.write(changes, force=self.force_acknowledgements)
        except Exception as error:
            if is_doubt(error):
                self.doubts.add(RemovalInDoubt(changes, settled, self.take_back))
            else:
                self.take_back(settled)
            raise

    def remove_again(self, settled: Collection[QueueEntry]) -> bool:
        """Write once more that messages were settled, where that is in doubt; return whether it is in doubt no more."""
        return self.doubts.remove_again(settled, force=self.force_acknowledgements)

    def write_deleted(self, deleted: Sequence[QueueEntry]) -> None:
        """Write that messages are deleted that were taken out of their queues, and which the caller lets go of afterwards.

        Raises `ResourceError`: they are there again; `InDoubtError`: they will be, or are gone, when the store has answered.
        """
        changes = Changes(removals=removals_of(deleted))
        if not changes.removals:
            return
        try:
            self.journal.write(changes, force=self.force_acknowledgements)
        except Exception as error:
            if is_doubt(error):
                self.doubts.add(RemovalInDoubt(changes, deleted, self._put_back, self._let_go))
            else:
                self._put_back(deleted)
            raise

    def take_back(self, settled: Sequence[QueueEntry]) -> None:
        """Have messages in their queues again whose removal was not written: now, or when they can be read."""
        for entry in settled:
            self._store.adopt(entry.reference)
            self.reinstate(entry)

    def _put_back(self, entries: Sequence[QueueEntry]) -> None:
        """Have messages in their queues again that the store has not let go of."""
        for entry in entries:
            self.reinstate(entry)

    def _let_go(self, entries: Sequence[QueueEntry]) -> None:
        """Have the store let go of messages that are gone."""
        self._store.release_all([entry.reference for entry in entries])

    def reinstate(self, entry: QueueEntry) -> None:
        """Have a message in its queue again: now, or when it can be read, if the queue orders by what is in it."""
        try:
            entry.queue.reinstate(entry)
        except ProviderError:
            self.doubts.add_unread(entry)

    def replace(
        self,
        entry: QueueEntry,
        reference: MessageReference,
        envelope: Envelope,
        target: Queue,
        target_kept: KeptQueue | None,
    ) -> None:
        """Write that the message of `entry`, in another form, is in `target` now, which is, or was, kept by `target_kept`.

        Raises `ResourceError`: the caller puts the message back; `InDoubtError`: it will be where it was, or in `target`, when the
        store has answered.
        """
        changes = Changes(removals=removals_of([entry]))
        if target_kept is not None and reference.reliable:
            target_kept.add_definition(changes)
            changes.messages.append(NewMessage(reference, envelope, (target_kept.number,)))
        if not changes.removals and not changes.messages:
            return
        is_kept = bool(changes.messages)
        try:
            self.journal.write(changes, force=is_kept)
            reference.journaled = is_kept
            if changes.definitions and target_kept is not None:
                note_definitions([target_kept])
        except Exception as error:
            if is_doubt(error):
                self.doubts.add(MoveInDoubt(changes, entry, target, self._store, self._put_back))
            raise

    def write_again(
        self, lost: Removal, reference: MessageReference, envelope: Envelope, target: Queue, target_kept: KeptQueue
    ) -> None:
        """Write a message for `target` that was written for another queue, which ended just then, and has it no longer.

        Nobody waits for it who could be told of a failure: then the log is, and the message is in memory.
        """
        changes = Changes(removals=[lost], messages=[NewMessage(reference, envelope, (target_kept.number,))])
        target_kept.add_definition(changes)
        try:
            self._write_new(changes)
        except ProviderError as error:
            _log.error(
                "PYJMS-BROKER-26 a message that is in %r now, as its queue was destroyed when it came, could not be written, and is lost "
                "if the broker ends before somebody receives it: %s",
                target.name,
                error.reason,
            )
            return
        reference.journaled = True
        if changes.definitions:
            note_definitions([target_kept])


def _succession(ended: KeptQueue, successor: KeptQueue) -> Changes:
    assert successor.definition is not None, "it is not written yet"
    return Changes(dropped=[ended.number], corrected=[successor.definition])


def _subscription_record(key: SubscriptionKey, terms: SubscriptionTerms) -> QueueRecord:
    return QueueRecord(
        number=QueueNumber(0),
        address=terms.topic,
        subscription=key,
        selector_text=terms.selector_text,
        no_local=terms.no_local,
    )


def _queue_record(number: QueueNumber, address: Address, policy: QueuePolicy | None) -> QueueRecord:
    return QueueRecord(number=number, address=address, policy=None if policy is None else policy.to_json())
