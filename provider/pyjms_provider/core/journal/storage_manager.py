"""How a virtual host writes down what must survive: write first, let others see afterwards."""

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
"""How often `WorkUnderWay.end` looks again: a call that a second signal ended in the midst may not have set the signal."""


class RunsWork(Protocol):
    """Calls a function, and returns what that returns."""

    def __call__(self, act: Callable[[], _T], /) -> _T: ...


class WorkUnderWay:
    """Counts the work under way in a host, so that its journal is not closed before that has ended. Every durable send is counted, so it takes no lock."""

    __slots__ = ("_idle", "entries", "is_ending")

    def __init__(self) -> None:
        self.entries: deque[None] = deque()
        """One for each that works."""
        self.is_ending = False
        self._idle = Signal()

    def do(self, act: Callable[[], _T]) -> _T:
        """Return what `act` returns. Raises `ClosedError` if the end has begun."""
        entries = self.entries
        try:
            # Appended before the flag is read; `end` sets the flag before it looks at the entries. One sees the other.
            entries.append(None)
            if self.is_ending:
                raise self.closed()
            return act()
        finally:
            entries.pop()
            # Asked without a lock; `end` looks by itself every `_LOOK_S`, so a signal that is missed costs a moment.
            if self.is_ending:
                self.tell_if_idle()

    def tell_if_idle(self) -> None:
        """Wake `end` if this was the last entry."""
        if not self.entries:
            self._idle.set()

    def closed(self) -> ClosedError:
        """Return why nothing new begins."""
        return ClosedError("the broker is being stopped")

    def end(self) -> None:
        """Let nothing new begin, and return when what was begun has ended."""
        self.is_ending = True
        while self.entries:  # a worker waits for nothing but the disk
            self._idle.wait(_LOOK_S)


def _changes(reference: MessageReference, envelope: Envelope, queues: tuple[QueueJournal, ...]) -> Changes:
    """Return what is to be written of a message for these queues, which may not be kept yet."""
    # Set before the write: a journal keeps a message of one queue as one row, and others with rows for each queue.
    reference.shared = len(queues) > 1
    changes = Changes(messages=[NewMessage(reference, envelope, tuple([kept.number for kept in queues]))])
    for kept in queues:
        kept.add_definition(changes)
    return changes


def note_definitions(queues: Iterable[QueueJournal]) -> None:
    """Have queues hear that their definitions are written."""
    for kept in queues:
        kept.was_defined()


_log = logging.getLogger(__name__)


class StorageManager:
    """Writes a host's changes to its journal. All methods may wait for I/O, so no lock is held by who calls them."""

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

        `schedule`: asks the housekeeper to come.
        """
        self.journal = journal
        self._store = store
        self._work = WorkUnderWay()
        self.work: Final[RunsWork] = self._work.do
        """Returns what the act returns, and holds off the end of the journal until it does. Raises `ClosedError` once the end has begun."""
        self.force_acknowledgements = force_acknowledgements
        self.in_doubt_writes = InDoubtWrites(journal, clock, schedule)
        self._clock = clock

    # The end

    def end(self) -> None:
        """Let nothing new begin, and return when what is under way has been written or refused."""
        self._work.end()

    # Destinations

    def define_later(self, address: Address, policy: QueuePolicy | None = None) -> QueueJournal:
        """Keep a queue that somebody has named, and its own policy if it has one, from its first message on. Does not wait."""
        return self._later(_queue_record(QueueNumber(0), address, policy))

    def _later(self, record: QueueRecord, *, anew: bool = False) -> QueueJournal:
        number = self.journal.number_of(record, anew=anew)
        return QueueJournal(self.journal, self._clock, number, replace(record, number=number))

    def define(self, kept: QueueJournal) -> None:
        """Keep a queue from now on. Raises `ResourceError`."""
        assert kept.definition is not None, "it is new"
        self.journal.define_queue(kept.definition)
        kept.was_defined()

    def alter_queue(self, kept: QueueJournal, address: Address, policy: QueuePolicy) -> None:
        """Keep another policy of a queue. Raises `ResourceError`."""
        self.journal.define_queue(_queue_record(kept.number, address, policy))
        kept.was_defined()

    def correct(self, kept: QueueJournal, address: Address, policy: QueuePolicy | None) -> None:
        """Have the journal keep the policy that a queue has, whatever was written before. Does not wait."""
        self.journal.note(Changes(corrected=[_queue_record(kept.number, address, policy)]))

    def define_subscription(self, key: SubscriptionKey, terms: SubscriptionTerms) -> QueueJournal:
        """Keep a durable subscription. Raises `ResourceError`; with any other error none is kept."""
        kept = self._later(_subscription_record(key, terms))
        try:
            self.define(kept)
        except Exception as error:
            if is_outcome_unknown(error):
                # It may be in the store: its removal is written before anything else.
                self.journal.note(Changes(dropped=[kept.number]))
            raise
        return kept

    def succeed_later(self, key: SubscriptionKey, terms: SubscriptionTerms) -> QueueJournal:
        """Have a number for a durable subscription that is to take the place of one of its name. Does not wait."""
        return self._later(_subscription_record(key, terms), anew=True)

    def succeed(self, ended: QueueJournal, successor: QueueJournal) -> None:
        """Keep a subscription in the place of another one, in one write. Raises `ResourceError`; after any other error `has_succeeded` must be called."""
        self.journal.write(_succession(ended, successor), force=True)
        successor.was_defined()

    def has_succeeded(self, ended: QueueJournal, successor: QueueJournal) -> None:
        """Have that so before anything else is written, whether it is already or not. Does not wait."""
        if successor.definition is not None:
            self.journal.note(_succession(ended, successor))
        # A subscription's definition is written at once, never with its first message, so none is still to come.
        ended.has_ended(was_unwritten=False)

    def remove_messages(self, ended: QueueJournal) -> None:
        """Have what a subscription had leave the store, that another one has taken the place of. If that fails, the next start does it."""
        # Rows that stay belong to no queue, and recovery removes those (decision 0111).
        with suppress(ProviderError):
            self.journal.drop_queue(ended.number)

    def drop(self, kept: QueueJournal) -> None:
        """Forget a queue or a subscription with its messages. Raises `ResourceError`; after any other error `forget` must be called."""
        # Read before the write: a sender may have the queue defined meanwhile.
        was_unwritten = kept.definition is not None
        self.journal.drop_queue(kept.number)
        kept.has_ended(was_unwritten=was_unwritten)

    def forget(self, kept: QueueJournal) -> None:
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
                # The unit stays COMMITTING, so nobody gets what it received until the store has answered.
                self.in_doubt_writes.add_unit(unit)
            raise

    def finish_joined(self, unit: UnitOfWork, joined: JoinedTransaction) -> None:
        """Do so in the application's transaction."""
        try:
            unit.finish_commit(joined)
        except Exception:
            if not joined.may_be_committed:
                # The database has rolled the application's transaction back, so nothing of the unit is in doubt.
                unit.was_not_written()
            elif unit.is_in_doubt:
                self.in_doubt_writes.add_until_restart()  # nobody here knows when the application's connection has ended
            raise

    def write_settled(self, settled: Sequence[QueueEntry]) -> None:
        """Write that messages were taken out of their queues; if that fails, they are there again.

        Raises `ResourceError`; `InDoubtError`: then they are there again, or gone, when the store has answered.
        """
        changes = Changes(removals=removals_of(settled))
        try:  # here and in `write_deleted`, as each call counts in an acknowledgement
            self.journal.write(changes, force=self.force_acknowledgements)
        except Exception as error:
            self._undo_removal(error, changes, settled, self.take_back)
            raise

    def remove_again(self, settled: Collection[QueueEntry]) -> bool:
        """Write once more that messages were settled, where that is in doubt; return whether it is in doubt no more."""
        return self.in_doubt_writes.remove_again(settled, force=self.force_acknowledgements)

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
        """Have messages in their queues again whose removal was not written: now, or when they can be read."""
        for entry in settled:
            # Settling let go of the message in memory: the store must know it again before its queue has it.
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
            self.in_doubt_writes.add_unread(entry)

    def replace(
        self,
        entry: QueueEntry,
        reference: MessageReference,
        envelope: Envelope,
        target: Queue,
        target_kept: QueueJournal | None,
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
            # A loss of power may undo a removal, after which a message only comes again; it must not undo an addition.
            self.journal.write(changes, force=is_kept)
            # Only now: a message that is said to be in the journal leaves memory without a write.
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

    # Messages that are sent by themselves: written first, and then passed to their destination

    def send(
        self, channel: Queue | Topic, envelope: Envelope, origin: ConnectionId | None, admission: SendPermit | None
    ) -> None:
        """Write a PERSISTENT message that is sent by itself, and pass it to its destination.

        Raises `ResourceError`, `ChannelClosedError`.
        """
        kept = channel.journal
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
            # Written before its queue has it: a crash between the two leaves a message that was never confirmed.
            try:
                self.journal.add(reference, envelope, kept.number)
                reference.journaled = True
                # After the write, so that a refused message need not be taken out of memory again.
                store.keep(reference, envelope)
                channel.enqueue(reference)
            except Exception as error:
                self._take_back_sent(error, kept, NewMessage(reference, envelope, (kept.number,)))
                raise
        finally:
            # After the message is in its queue: `end` must not let the journal close before.
            work.entries.pop()
            if work.is_ending:
                work.tell_if_idle()

    def _take_back_sent(self, error: Exception, kept: QueueJournal, message: NewMessage) -> None:
        """Have the journal forget a message that was not written for certain, or that its queue has refused."""
        reference = message.reference
        if not reference.journaled:
            # It may be in the store, and the sender is told of an error: its removal goes with the next write.
            if is_outcome_unknown(error):
                self._withdraw(Changes(messages=[message]))
        # Written, and refused by its queue, which has ended meanwhile.
        elif isinstance(error, ProviderError):
            kept.defer_removal(reference)
            self._store.take_back(reference)

    def _send_by_steps(
        self, channel: Queue | Topic, envelope: Envelope, origin: ConnectionId | None, admission: SendPermit | None
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
            # Not sent again: they may be in the store, and would be there twice.
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
            return [self._send_alone(*send) for send in sends]  # a queue has been dropped at this moment
        self._write_new(Changes(messages=messages))
        return [
            self._hand_over(queue, reference, envelope)
            for reference, (queue, envelope, _) in zip(references, sends, strict=True)
        ]

    def _hand_over(self, queue: Queue, reference: MessageReference, envelope: Envelope) -> ProviderError | None:
        """Pass a message that is written to its queue; return why that did not take it."""
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
        """Write a message, with its producer's id if it has one, and hand it to its queue."""
        kept = queue.journal
        mark = None if admission is None or kept is None else admission.mark
        changes = _changes(reference, envelope, () if kept is None else (kept,))
        if mark is not None and kept is not None:
            # In the same write as the message: after a crash the id is known exactly if its message is there.
            changes.duplicates.append(mark.of_queue(kept.number))
        try:
            self._store.keep(reference, envelope)
            if kept is not None:
                self._write_message(reference, changes, (kept,))
            if admission is None:
                queue.enqueue(reference)
            else:
                admission.hand_over(queue, reference)
        except ProviderError:
            self._take_back(reference, changes)
            raise

    def _publish(
        self, topic: Topic, reference: MessageReference, envelope: Envelope, admission: SendPermit | None
    ) -> None:
        """Write a message for the durable subscriptions that want it, and pass it on to all that do."""
        changes = Changes()
        try:
            self._store.keep(reference, envelope)
            # Found once: the message is written for these, so it must be passed on to these, whoever comes meanwhile.
            wanting = topic.wanting(reference)
            kept = tuple(subscription.journal for subscription in wanting if subscription.journal is not None)
            if kept:
                changes = _changes(reference, envelope, kept)
                if admission is not None and admission.mark is not None:
                    changes.duplicates.append(admission.mark)
                self._write_message(reference, changes, kept)
            topic.pass_on(reference, wanting)
        except ProviderError:
            # A subscription has it already, and its client may have read it: only the publisher's own hold ends.
            if reference.holders > 1:
                self._store.release(reference)
            else:
                self._take_back(reference, changes)
            raise
        if admission is not None:
            admission.has_arrived = True

    def _write_message(self, reference: MessageReference, changes: Changes, queues: tuple[QueueJournal, ...]) -> None:
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
            # A write that only adds is not asked about later: its removal settles it, whether it is there or not.
            if is_outcome_unknown(error):
                self._withdraw(changes)
            raise

    def _withdraw(self, changes: Changes) -> None:
        """Have the journal forget messages that it may have, and that no queue has, before it writes anything else."""
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
    )


def _queue_record(number: QueueNumber, address: Address, policy: QueuePolicy | None) -> QueueRecord:
    return QueueRecord(number=number, address=address, policy=None if policy is None else policy.to_json())


@contextmanager
def _unless_refused(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` after a write, unless that was refused: also if nobody knows whether it was made."""
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
    """Have it written that there is a queue, and call `make`, which returns False if a sender has made one; return what it did.

    Waits for the journal; the caller keeps others away who would make it by name. Raises `ResourceError`: then none is made;
    after any other error there is one, and the journal keeps, or will keep, what there is.
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

    # The queue appears after the write: an operator who is refused finds no queue, and a restart agrees.
    with _unless_refused(take_in):
        storage.define(kept)
    return answers[0]


def alter_when_written(
    queue: Queue, storage: StorageManager | None, address: Address, policy: QueuePolicy, default: QueuePolicy
) -> None:
    """Have it written that a queue has another policy, and obeyed; `default` is that of a queue without one of its own.

    Waits for the journal; the caller keeps others away who would end or alter it. Raises `ResourceError`, and as `Queue.alter`;
    after any error the journal keeps, or will keep, what the queue obeys.
    """
    # A policy that cannot be obeyed must not be written: the next start would obey it.
    queue.alter(policy, only_check=True)
    kept = queue.journal
    if storage is None or kept is None:
        queue.alter(policy)
        return
    try:
        storage.alter_queue(kept, address, policy)
        # This may fail although it was checked: a message or a consumer may have come during the write.
        queue.alter(policy)
    except Exception:
        # The journal is told again what the queue obeys, whatever became of the write.
        storage.correct(kept, address, None if queue.policy == default else queue.policy)
        raise


def end_when_written(queue: Queue, storage: StorageManager | None, forget: Callable[[], None]) -> None:
    """Have it written that a queue or a subscription ends, and end it; `forget` takes it out of its host's tables.

    Waits for the journal; the caller keeps others away who would end or alter it. Raises `ResourceError`: then all is as
    it was; after any other error it has ended.
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
    """Have it written, in one step, that a subscription ends and the one of `kept` takes its place; `exchange` does so in its host's tables.

    Waits for the journal; the caller keeps others away who would end or alter them. Raises `ResourceError`: then all is as it was;
    after any other error the other one is in its place.
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
    # After the successor is in its place: removing many messages takes long, and nothing depends on it.
    storage.remove_messages(ended)


def end_at_once(
    queue: Queue, storage: StorageManager | None, kept: QueueJournal | None, forget: Callable[[], None]
) -> None:
    """End a queue or a subscription that is kept as `kept`, whether that is written or not; `forget` as above. Does not wait."""
    if storage is not None and kept is not None:
        storage.forget(kept)
    _end(queue, kept, forget)


def _end(queue: Queue, kept: QueueJournal | None, forget: Callable[[], None]) -> None:
    # Out of the tables first: a dead letter that finds the queue closed goes to the next one of its name.
    forget()
    queue.ended_journal = kept
    queue.journal = None  # the journal knows that all of it is gone, but for what was being written
    queue.close()
