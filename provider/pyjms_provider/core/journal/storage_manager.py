"""The storage manager of a virtual host: durable changes are written first, and become visible afterwards."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import ClosedError, InDoubtError, ProviderError
from pyjms_provider.core.journal.in_doubt_writes import InDoubtWrites, MoveInDoubt, RemovalInDoubt, is_outcome_unknown
from pyjms_provider.core.journal.journal import Changes, NewMessage, QueueNumber, QueueRecord, Removal, SubscriptionKey
from pyjms_provider.core.journal.queue_journal import QueueJournal, removals_of
from pyjms_provider.core.message.reference import next_place
from pyjms_provider.core.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address, ConnectionId, Envelope
    from pyjms_provider.core.host.admission import SendPermit
    from pyjms_provider.core.journal.journal import JoinedTransaction, Journal
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.policy import QueuePolicy
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.scheduled import Scheduled
    from pyjms_provider.core.store import PagingMessageStore
    from pyjms_provider.core.topic import SubscriptionTerms
    from pyjms_provider.core.transaction.unit_of_work import UnitOfWork


_T = TypeVar("_T")

_LOOK_S: Final = 0.1
"""How often `WorkUnderWay.end` polls: a call that a second signal cut short may not have set the event."""


class RunsWork(Protocol):
    """Calls a function and returns its result."""

    def __call__(self, act: Callable[[], _T], /) -> _T: ...


class WorkUnderWay:
    """Counts the operations under way in a host, so that its journal is closed only after they have ended. Every durable send is counted, so it takes no lock."""

    __slots__ = ("_idle", "entries", "is_ending")

    def __init__(self) -> None:
        self.entries: deque[None] = deque()
        """One entry for each operation."""
        self.is_ending = False
        self._idle = Signal()

    def do(self, act: Callable[[], _T]) -> _T:
        """Return the result of `act`. Raises `ClosedError` once `end` has begun."""
        entries = self.entries
        try:
            # Appended before the flag is read, while `end` sets the flag before it looks at the entries: one of the two sees the other.
            entries.append(None)
            if self.is_ending:
                raise self.closed()
            return act()
        finally:
            entries.pop()
            # Read without a lock; `end` polls every `_LOOK_S`, so a missed signal costs a moment.
            if self.is_ending:
                self.signal_if_idle()

    def signal_if_idle(self) -> None:
        """Wake `end` if this was the last entry."""
        if not self.entries:
            self._idle.set()

    def closed(self) -> ClosedError:
        """Return the error for an operation that would begin now."""
        return ClosedError("the broker is being stopped")

    def end(self) -> None:
        """Refuse new operations, and return when those under way have ended."""
        self.is_ending = True
        while self.entries:  # an operation waits for nothing but the disk
            self._idle.wait(_LOOK_S)


def _changes(reference: MessageReference, envelope: Envelope, queues: tuple[QueueJournal, ...]) -> Changes:
    """Return the changes that add a message to these queues, whose definitions may not be written yet."""
    # Set before the write: a journal stores a message of one queue as one row, and a shared one with a row for each queue.
    reference.shared = len(queues) > 1
    changes = Changes(messages=[NewMessage(reference, envelope, tuple([kept.number for kept in queues]))])
    for kept in queues:
        kept.add_definition(changes)
    return changes


def note_definitions(queues: Iterable[QueueJournal]) -> None:
    """Note that the definitions of these queues are written."""
    for kept in queues:
        kept.was_defined()


_log = logging.getLogger(__name__)


class StorageManager:
    """Writes a host's changes to its journal. All methods may wait for I/O, so the caller holds no lock."""

    def __init__(
        self,
        journal: Journal,
        store: PagingMessageStore,
        clock: Clock,
        *,
        force_acknowledgements: bool = False,
        schedule: Callable[[Scheduled, int], None] | None = None,
    ) -> None:
        """`force_acknowledgements`: acknowledgements survive a loss of power too, not only the process's death.

        `schedule`: asks the timer thread for a call at a time.
        """
        self.journal = journal
        self._store = store
        self._work = WorkUnderWay()
        self.work: Final[RunsWork] = self._work.do
        """Returns the result of a function, and keeps the journal open until it has ended. Raises `ClosedError` once the end has begun."""
        self.force_acknowledgements = force_acknowledgements
        self.in_doubt_writes = InDoubtWrites(journal, clock, schedule)
        self._clock = clock

    # The end

    def end(self) -> None:
        """Refuse new operations, and return when those under way have been written or refused."""
        self._work.end()

    # Destinations

    def define_later(self, address: Address, policy: QueuePolicy | None = None) -> QueueJournal:
        """Return the journal record of a queue that a client has named; its definition, with its own policy if any, is written with its first message. Does not wait."""
        return self._later(_queue_record(QueueNumber(0), address, policy))

    def _later(self, record: QueueRecord, *, anew: bool = False) -> QueueJournal:
        number = self.journal.number_of(record, anew=anew)
        return QueueJournal(self.journal, self._clock, number, replace(record, number=number))

    def define(self, kept: QueueJournal) -> None:
        """Write the definition of a new queue or subscription. Raises `ResourceError`."""
        assert kept.definition is not None, "it is new"
        self.journal.define_queue(kept.definition)
        kept.was_defined()

    def alter_queue(self, kept: QueueJournal, address: Address, policy: QueuePolicy) -> None:
        """Write a new policy of a queue. Raises `ResourceError`."""
        self.journal.define_queue(_queue_record(kept.number, address, policy))
        kept.was_defined()

    def correct(self, kept: QueueJournal, address: Address, policy: QueuePolicy | None) -> None:
        """Have the journal store the queue's present policy, whatever was written before. Does not wait."""
        self.journal.note(Changes(corrected=[_queue_record(kept.number, address, policy)]))

    def define_subscription(self, key: SubscriptionKey, terms: SubscriptionTerms) -> QueueJournal:
        """Write the definition of a durable subscription. Raises `ResourceError`; after any other error there is none."""
        kept = self._later(_subscription_record(key, terms))
        try:
            self.define(kept)
        except Exception as error:
            if is_outcome_unknown(error):
                # It may be in the store: its removal is written before any other change.
                self.journal.note(Changes(dropped=[kept.number]))
            raise
        return kept

    def succeed_later(self, key: SubscriptionKey, terms: SubscriptionTerms) -> QueueJournal:
        """Return the record, with a new number, of a durable subscription that is to replace one of the same name. Does not wait."""
        return self._later(_subscription_record(key, terms), anew=True)

    def succeed(self, ended: QueueJournal, successor: QueueJournal) -> None:
        """Replace a subscription by another one, in one write. Raises `ResourceError`; after any other error `has_succeeded` must be called."""
        self.journal.write(_succession(ended, successor), force=True)
        successor.was_defined()

    def has_succeeded(self, ended: QueueJournal, successor: QueueJournal) -> None:
        """Have the journal replace the subscription before it writes any other change, if it has not yet. Does not wait."""
        if successor.definition is not None:
            self.journal.note(_succession(ended, successor))
        # A subscription's definition is written at once, never with its first message, so none is still to come.
        ended.has_ended(was_unwritten=False)

    def remove_messages(self, ended: QueueJournal) -> None:
        """Remove the messages of a subscription that was replaced from the store. If that fails, the next start does it."""
        # Rows that stay belong to no queue, and recovery removes them (decision 0111).
        with suppress(ProviderError):
            self.journal.drop_queue(ended.number)

    def drop(self, kept: QueueJournal) -> None:
        """Remove a queue or a subscription with its messages. Raises `ResourceError`; after any other error `forget` must be called."""
        # Read before the write: a sender may write the queue's definition meanwhile.
        was_unwritten = kept.definition is not None
        self.journal.drop_queue(kept.number)
        kept.has_ended(was_unwritten=was_unwritten)

    def forget(self, kept: QueueJournal) -> None:
        """Have the journal remove a queue or a subscription before it writes any other change, if it has not yet. Does not wait."""
        was_unwritten = kept.definition is not None
        self.journal.note(Changes(dropped=[kept.number]))
        kept.has_ended(was_unwritten=was_unwritten)

    # Units of work, acknowledgements, moves

    def finish_commit(self, unit: UnitOfWork) -> None:
        """Write a unit of work, and apply it. Raises `RolledBackError`, `InDoubtError`."""
        try:
            unit.finish_commit(self.journal, force_acknowledgements=self.force_acknowledgements)
        except Exception:
            if unit.is_in_doubt:
                # The unit stays COMMITTING, so the messages that it received are delivered to nobody until the store has answered.
                self.in_doubt_writes.add_unit(unit)
            raise

    def finish_joined(self, unit: UnitOfWork, joined: JoinedTransaction) -> None:
        """Write and apply a unit of work in the application's transaction. Raises as `finish_commit`."""
        try:
            unit.finish_commit(joined)
        except Exception:
            if not joined.may_be_committed:
                # The database has rolled the application's transaction back, so nothing of the unit is in doubt.
                unit.was_not_written()
            elif unit.is_in_doubt:
                self.in_doubt_writes.add_until_restart()  # the broker cannot know when the application's connection has ended
            raise

    def write_settled(self, settled: Sequence[QueueEntry]) -> None:
        """Write that messages were taken out of their queues; if that fails, put them back.

        Raises `ResourceError`; `InDoubtError`: they are put back, or gone, once the store has answered.
        """
        changes = Changes(removals=removals_of(settled))
        try:  # written here and in `write_deleted`, as each call counts in an acknowledgement
            self.journal.write(changes, force=self.force_acknowledgements)
        except Exception as error:
            self._undo_removal(error, changes, settled, self.take_back)
            raise

    def write_early(self, entries: Sequence[QueueEntry]) -> None:
        """Write that messages leave their queues, which have them for a moment longer. Raises `ResourceError`, `InDoubtError`."""
        self.journal.write(Changes(removals=removals_of(entries)), force=self.force_acknowledgements)

    def remove_again(self, settled: Collection[QueueEntry]) -> bool:
        """Write again that messages were settled, where the first write is in doubt; return whether none of it is in doubt any more."""
        return self.in_doubt_writes.remove_again(settled, force=self.force_acknowledgements)

    def write_deleted(self, deleted: Sequence[QueueEntry]) -> None:
        """Write that messages were deleted that have left their queues; the caller releases them in the store afterwards.

        Raises `ResourceError`: they are back; `InDoubtError`: they are put back, or gone, once the store has answered.
        """
        changes = Changes(removals=removals_of(deleted))
        if not changes.removals:
            return
        try:
            self.journal.write(changes, force=self.force_acknowledgements)
        except Exception as error:
            self._undo_removal(error, changes, deleted, self._put_back, self._let_go)
            raise

    def _undo_removal(
        self,
        error: Exception,
        changes: Changes,
        entries: Sequence[QueueEntry],
        reinstate: Callable[[Sequence[QueueEntry]], None],
        let_go: Callable[[Sequence[QueueEntry]], None] | None = None,
    ) -> None:
        if is_outcome_unknown(error):
            self.in_doubt_writes.add(RemovalInDoubt(changes, entries, reinstate, let_go))
        else:
            reinstate(entries)

    def take_back(self, settled: Sequence[QueueEntry]) -> None:
        """Put messages whose removal was not written back into their queues: now, or when they can be read."""
        for entry in settled:
            # Settling released the message in the store, so the store must have it again before its queue does.
            self._store.adopt(entry.reference)
            self.reinstate(entry)

    def _put_back(self, entries: Sequence[QueueEntry]) -> None:
        """Put messages that the store still holds back into their queues."""
        for entry in entries:
            self.reinstate(entry)

    def _let_go(self, entries: Sequence[QueueEntry]) -> None:
        """Release removed messages in the store."""
        self._store.release_all([entry.reference for entry in entries])

    def reinstate(self, entry: QueueEntry) -> None:
        """Put a message back into its queue: now, or, if the queue orders by properties, when it can be read."""
        try:
            entry.queue.reinstate(entry)
        except ProviderError:
            self.in_doubt_writes.add_unread(entry)

    def replace(
        self,
        entry: QueueEntry,
        reference: MessageReference,
        envelope: Envelope,
        target: Queue,
        target_kept: QueueJournal | None,
    ) -> None:
        """Write that the message of `entry`, in another form, has moved to `target`, whose journal record is, or was, `target_kept`.

        Raises `ResourceError`: the caller puts the message back; `InDoubtError`: it will be in its old queue, or in `target`, once the
        store has answered.
        """
        changes = Changes(removals=removals_of([entry]))
        if target_kept is not None and (reference.reliable or self.journal.keeps_transient):
            target_kept.add_definition(changes)
            changes.messages.append(NewMessage(reference, envelope, (target_kept.number,)))
        if not changes.removals and not changes.messages:
            return
        is_kept = bool(changes.messages)
        try:
            # A loss of power may undo a removal, which only causes a redelivery; it must not undo an addition.
            self.journal.write(changes, force=is_kept and reference.reliable)
            # Not earlier: a message that counts as journaled leaves memory without a write.
            reference.journaled = is_kept
            if changes.definitions and target_kept is not None:
                note_definitions([target_kept])
        except Exception as error:
            if is_outcome_unknown(error):
                self.in_doubt_writes.add(MoveInDoubt(changes, entry, target, self._store, self._put_back))
            raise

    def write_again(
        self, lost: Removal, reference: MessageReference, envelope: Envelope, target: Queue, target_kept: QueueJournal
    ) -> None:
        """Write a message for `target` that was first written for another queue, which ended at that moment and has lost it.

        No caller waits who could get the error: a failure is logged, and the message is in memory alone.
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

    # Single sends: written first, then passed to their destination

    def send(
        self, channel: Queue | Topic, envelope: Envelope, origin: ConnectionId | None, admission: SendPermit | None
    ) -> None:
        """Write a message outside of any transaction, and pass it to its destination.

        Raises `ResourceError`, `ChannelClosedError`.
        """
        kept = channel.journal
        if admission is not None or kept is None or kept.definition is not None:  # rarely
            self._work.do(partial(self._send_by_steps, channel, envelope, origin, admission))
            return
        # The code of `work` in line, as each call counts here.
        store, work = self._store, self._work
        try:
            work.entries.append(None)
            if work.is_ending:
                raise work.closed()
            reference = store.refer(envelope, origin)
            # Written before its queue has it: a crash between the two leaves a message that was never confirmed to the sender.
            try:
                if reference.reliable:
                    self.journal.add(reference, envelope, kept.number)
                else:
                    message = NewMessage(reference, envelope, (kept.number,))
                    self.journal.write(Changes(messages=[message]), force=False)
                reference.journaled = True
                # After the write, so that a refused message need not be taken out of memory again.
                store.keep(reference, envelope)
                channel.enqueue(reference)
            except Exception as error:
                self._take_back_sent(error, kept, NewMessage(reference, envelope, (kept.number,)))
                raise
        finally:
            # After the message is in its queue: until then `end` must not let the journal close.
            work.entries.pop()
            if work.is_ending:
                work.signal_if_idle()

    def _take_back_sent(self, error: Exception, kept: QueueJournal, message: NewMessage) -> None:
        """Have the journal forget a message whose write is in doubt, or that its queue has refused."""
        reference = message.reference
        if not reference.journaled:
            # It may be in the store, while the sender gets an error: its removal goes with the next write.
            if is_outcome_unknown(error):
                self._withdraw(Changes(messages=[message]))
        # Written, but refused by its queue, which has ended meanwhile.
        elif isinstance(error, ProviderError):
            kept.defer_removal(reference)
            self._store.take_back(reference)

    def _send_by_steps(
        self, channel: Queue | Topic, envelope: Envelope, origin: ConnectionId | None, admission: SendPermit | None
    ) -> None:
        with next_place(channel, partial(self._store.refer, envelope, origin)) as reference:
            reference.deliver_at_ms = 0 if admission is None else admission.deliver_at_ms
            if isinstance(channel, Topic):
                self._publish(channel, reference, envelope, admission)
            else:
                self._send_to_queue(channel, reference, envelope, admission)

    def send_together(
        self, sends: Sequence[tuple[Queue, Envelope, ConnectionId | None]]
    ) -> Sequence[ProviderError | None]:
        """Write PERSISTENT messages to durable queues, each outside of any transaction, in one write, and pass them to their queues.

        Returns for each its error, or None. If the write fails, each is tried alone: one of them may be at fault.
        """
        store = self._store
        try:
            store.relieve()
            return self._work.do(partial(self._send_all, sends))
        except InDoubtError as error:
            # Not sent again: they may be in the store, and would be duplicated.
            return [error] * len(sends)
        except ProviderError:
            return [self._send_alone(*send) for send in sends]

    def _send_all(self, sends: Sequence[tuple[Queue, Envelope, ConnectionId | None]]) -> Sequence[ProviderError | None]:
        kept = [queue.journal for queue, _, _ in sends]
        references = [self._store.refer(envelope, origin) for _, envelope, origin in sends]
        messages = [
            NewMessage(reference, envelope, (each.number,))
            for reference, each, (_, envelope, _) in zip(references, kept, sends, strict=True)
            if each is not None
        ]
        if len(messages) < len(sends):
            return [self._send_alone(*send) for send in sends]  # a queue has just been dropped
        self._write_new(Changes(messages=messages))
        return [
            self._enqueue_written(queue, reference, envelope)
            for reference, (queue, envelope, _) in zip(references, sends, strict=True)
        ]

    def _enqueue_written(self, queue: Queue, reference: MessageReference, envelope: Envelope) -> ProviderError | None:
        """Pass a written message to its queue; return the error if the queue refuses it."""
        # Before its queue has it: a message that the journal has leaves memory without another write.
        reference.journaled = True
        self._store.keep(reference, envelope)
        try:
            queue.enqueue(reference)
        except ProviderError as error:
            queue.defer_refused(reference)
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
        self, queue: Queue, reference: MessageReference, envelope: Envelope, admission: SendPermit | None
    ) -> None:
        """Write a message, with its producer's duplicate id if it has one, and pass it to its queue."""
        kept = queue.journal
        mark = None if admission is None or kept is None else admission.mark
        changes = _changes(reference, envelope, () if kept is None else (kept,))
        if mark is not None and kept is not None:
            # In the same write as the message: after a crash the id is known if and only if its message is there.
            changes.duplicates.append(mark.of_queue(kept.number))
        try:
            self._store.keep(reference, envelope)
            if kept is not None:
                self._write_message(reference, changes, (kept,))
            if admission is None:
                queue.enqueue(reference)
            else:
                admission.enqueue(queue, reference)
        except ProviderError:
            self._take_back(reference, changes)
            raise

    def _publish(
        self, topic: Topic, reference: MessageReference, envelope: Envelope, admission: SendPermit | None
    ) -> None:
        """Write a message for the durable subscriptions that match it, and pass it on to all that do."""
        changes = Changes()
        try:
            self._store.keep(reference, envelope)
            # Matched once: the message is passed on to those subscriptions for which it is written, also if others are added meanwhile.
            wanting = topic.wanting(reference)
            kept = tuple(subscription.journal for subscription in wanting if subscription.journal is not None)
            if kept:
                changes = _changes(reference, envelope, kept)
                if admission is not None and admission.mark is not None:
                    changes.duplicates.append(admission.mark)
                self._write_message(reference, changes, kept)
            elif not self.journal.is_held:
                # Nothing is written, so another broker that holds the store, and may have durable subscriptions, would not be noticed.
                self.journal.confirm()
            topic.pass_on(reference, wanting)
        except ProviderError:
            # A subscription has it already, and its client may have read it: only the publisher's hold is released.
            if reference.holders > 1:
                self._store.release(reference)
            else:
                self._take_back(reference, changes)
            raise
        if admission is not None:
            admission.is_enqueued = True

    def _write_message(self, reference: MessageReference, changes: Changes, queues: tuple[QueueJournal, ...]) -> None:
        self._write_new(changes)
        reference.journaled = True
        if changes.definitions:
            note_definitions(queues)

    def _take_back(self, reference: MessageReference, changes: Changes) -> None:
        """Have the store and the journal forget a message that no queue has taken, and its producer's duplicate id."""
        if reference.journaled:  # otherwise it is not written, or withdrawn already
            self._withdraw(changes)
        self._store.take_back(reference)

    def _write_new(self, changes: Changes) -> None:
        """Write changes that only add. Raises `ResourceError`; `InDoubtError` when they stay in the store if the broker dies before their removal is written."""
        try:
            self.journal.write(changes, force=any(each.reference.reliable for each in changes.messages))
        except Exception as error:
            # The outcome of a write that only adds is not asked for later: its removal settles it, whether it was made or not.
            if is_outcome_unknown(error):
                self._withdraw(changes)
            raise

    def _withdraw(self, changes: Changes) -> None:
        """Have the journal remove messages that it may have, and no queue has, before it writes any other change."""
        self.journal.note(changes.withdrawal())


def _succession(ended: QueueJournal, successor: QueueJournal) -> Changes:
    assert successor.definition is not None, "it is not written yet"
    return Changes(dropped=[ended.number], corrected=[successor.definition])


def _subscription_record(key: SubscriptionKey, terms: SubscriptionTerms) -> QueueRecord:
    return QueueRecord(
        number=QueueNumber(0),
        address=terms.topic,
        subscription=key,
        selector_text=terms.selector_text,
        no_local=terms.no_local,
        is_shared=terms.is_shared,
    )


def _queue_record(number: QueueNumber, address: Address, policy: QueuePolicy | None) -> QueueRecord:
    return QueueRecord(number=number, address=address, policy=None if policy is None else policy.to_json())


@contextmanager
def _unless_refused(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` after a write, unless that was refused: also if the outcome of the write is unknown."""
    try:
        yield
    except Exception as error:
        if is_outcome_unknown(error):
            act()
        raise
    act()


def make_when_written(
    storage: StorageManager | None,
    address: Address,
    policy: QueuePolicy | None,
    make: Callable[[QueueJournal | None], bool],
) -> bool:
    """Write the definition of a queue, then call `make`, which returns False if a sender has made the queue; return its result.

    Waits for the journal; the caller prevents others from making it by name. Raises `ResourceError`: none is made; after any other
    error the queue exists, and the journal has, or will have, its definition.
    """
    if storage is None:
        return make(None)
    kept = storage.define_later(address, policy)
    answers: list[bool] = []

    def take_in() -> None:
        is_made = make(kept)
        if not is_made or kept.definition is not None:
            storage.correct(kept, address, policy if is_made else None)  # a sender's own queue has no policy
        answers.append(is_made)

    # The queue appears after the write: an operator who gets an error finds no queue, and a restart agrees.
    with _unless_refused(take_in):
        storage.define(kept)
    return answers[0]


def alter_when_written(
    queue: Queue, storage: StorageManager | None, address: Address, policy: QueuePolicy, default: QueuePolicy
) -> None:
    """Write another policy of a queue, and apply it; `default` is the policy of a queue without one of its own.

    Waits for the journal; the caller prevents others from ending or altering the queue. Raises `ResourceError`, and as `Queue.alter`;
    after any error the journal has, or will have, the policy that applies.
    """
    # A policy that cannot be applied must not be written: the next start would apply it.
    queue.alter(policy, only_check=True)
    kept = queue.journal
    if storage is None or kept is None:
        queue.alter(policy)
        return
    try:
        storage.alter_queue(kept, address, policy)
        # May fail although it was checked: a message or a consumer may have been added during the write.
        queue.alter(policy)
    except Exception:
        # The journal is given the policy that applies, whatever became of the write.
        storage.correct(kept, address, None if queue.policy == default else queue.policy)
        raise


def end_when_written(queue: Queue, storage: StorageManager | None, forget: Callable[[], None]) -> None:
    """Write that a queue or a subscription ends, and end it; `forget` takes it out of its host's tables.

    Waits for the journal; the caller prevents others from ending or altering it. Raises `ResourceError`: nothing has changed;
    after any other error it has ended.
    """
    kept = None if storage is None else queue.journal
    try:
        if storage is not None and kept is not None:
            # Before the write: messages that come later are not dropped with the queue.
            kept.is_to_end(queue.ordering.last_place)
            storage.drop(kept)
        _end(queue, kept, forget)
    except Exception as error:
        if is_outcome_unknown(error):
            end_at_once(queue, storage, kept, forget)
        raise


def succeed_when_written(old: Queue, kept: QueueJournal, storage: StorageManager, exchange: Callable[[], None]) -> None:
    """Write, in one step, that a subscription ends and that of `kept` takes its place; `exchange` swaps them in the host's tables.

    Waits for the journal; the caller prevents others from ending or altering them. Raises `ResourceError`: nothing has changed;
    after any other error the successor is in place.
    """
    ended = old.journal
    assert ended is not None, "it is kept"

    def take_place() -> None:
        storage.has_succeeded(ended, kept)
        _end(old, ended, exchange)

    # Before the write, as in `end_when_written`.
    ended.is_to_end(old.ordering.last_place)
    with _unless_refused(take_place):
        storage.succeed(ended, kept)
    # After the successor is in place: removing many messages takes long, and nothing depends on it.
    storage.remove_messages(ended)


def end_at_once(
    queue: Queue, storage: StorageManager | None, kept: QueueJournal | None, forget: Callable[[], None]
) -> None:
    """End a queue or a durable subscription with the journal record `kept`, whether its end is written or not; `forget` as above. Does not wait."""
    if storage is not None and kept is not None:
        storage.forget(kept)
    _end(queue, kept, forget)


def _end(queue: Queue, kept: QueueJournal | None, forget: Callable[[], None]) -> None:
    # Out of the tables first: a dead letter that finds the queue closed goes to the next queue of that name.
    forget()
    queue.ended_journal = kept
    queue.journal = None  # the journal removes all of it by itself, except messages that were being written
    queue.close()
