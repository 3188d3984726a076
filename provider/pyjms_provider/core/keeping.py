"""How a virtual host writes down what must survive, and finds it again: write first, let others see afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import InDoubtError, InvalidSelectorError, ProviderError
from pyjms.spi.selector import selector_or_none
from pyjms_provider.core.branches_in_doubt import BranchesInDoubt
from pyjms_provider.core.doubts import Doubts, MoveInDoubt, RemovalInDoubt, is_doubt
from pyjms_provider.core.half_done import HalfDone
from pyjms_provider.core.journal import Changes, NewMessage, QueueNumber, QueueRecord, Removal, SubscriptionKey
from pyjms_provider.core.kept_queue import KeptQueue, removals_of
from pyjms_provider.core.pipelines import FoundPipelines
from pyjms_provider.core.policy import PolicyError, QueuePolicy
from pyjms_provider.core.recovered_runs import RecoveredRun, RecoveredRuns
from pyjms_provider.core.reference import MessageReference, ReferenceId
from pyjms_provider.core.topic import Topic

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.envelope import Address, ConnectionId, Envelope
    from pyjms_provider.core.doorkeeper import Admission
    from pyjms_provider.core.entry import QueueEntry
    from pyjms_provider.core.journal import DuplicateMark, JoinedTransaction, Journal, RecoveredEntry, Recovery
    from pyjms_provider.core.paging import PagingMessageStore
    from pyjms_provider.core.queue import Queue
    from pyjms_provider.core.subscription import SubscriptionTerms
    from pyjms_provider.core.timed import HasTimes
    from pyjms_provider.core.unit_of_work import UnitOfWork
    from pyjms_provider.core.virtual_host import VirtualHost

__all__ = ["Keeper", "Restored", "restore_host"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Restored:
    """What was found when a host was opened."""

    queues: int
    subscriptions: int
    messages: int
    redelivered: int
    """How many of the messages may have been seen by a client before the broker died."""
    in_doubt: int
    """How many branches of distributed transactions wait for their coordinators."""


class Keeper:
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
        self.journal = journal
        self.force_acknowledgements = force_acknowledgements
        self.doubts = Doubts(journal, clock, on_due)
        self._store = store
        self._clock = clock
        self._work = HalfDone()

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
        record = QueueRecord(
            number=QueueNumber(0),
            address=terms.topic,
            subscription=key,
            selector_text=terms.selector_text,
            no_local=terms.no_local,
        )
        kept = self._later(record)
        try:
            self.define(kept)
        except BaseException as error:
            if is_doubt(error):
                self.journal.note(Changes(dropped=[kept.number]))
            raise
        return kept

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

    # Messages

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
            except BaseException as error:
                self._take_back_sent(error, channel, kept, NewMessage(reference, envelope, (kept.number,)))
                raise
        finally:
            work.entries.pop()
            if work.is_ending:
                work.tell_if_idle()

    def _take_back_sent(
        self, error: BaseException, channel: Queue | Topic, kept: KeptQueue, message: NewMessage
    ) -> None:
        """Have the journal forget a message that its queue has not taken: it was refused, or the thread was interrupted."""
        reference = message.reference
        if not reference.journaled:
            if is_doubt(error):
                self._withdraw(Changes(messages=[message]))
        elif isinstance(channel, Topic) or not channel.took(reference):
            kept.note_removed(reference)
            self._store.take_back(reference)

    def _send_by_steps(
        self, channel: Queue | Topic, envelope: Envelope, origin: ConnectionId | None, admission: Admission | None
    ) -> None:
        reference = self._store.store(envelope, origin)
        reference.deliver_at_ms = 0 if admission is None else admission.deliver_at_ms
        try:
            if isinstance(channel, Topic):
                self._publish(channel, reference, envelope, None if admission is None else admission.mark)
            else:
                self._send_to_queue(channel, reference, envelope, admission)
        except ProviderError:
            self._store.release(reference)
            raise

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
        kept = queue.kept
        reference.journaled = True
        self._store.keep(reference, envelope)
        try:
            queue.take_over(reference)
        except ProviderError as error:
            if kept is not None:
                kept.note_removed(reference)
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
        if kept is not None:
            mark = None if admission is None else admission.mark
            mark = None if mark is None else replace(mark, queue=kept.number)
            self._write_message(reference, envelope, (kept,), mark)
        try:
            if admission is None:
                queue.take_over(reference)
            else:
                admission.hand_over(queue, reference)
        except ProviderError:
            if kept is not None:
                kept.note_removed(reference)
            raise

    def _publish(
        self, topic: Topic, reference: MessageReference, envelope: Envelope, mark: DuplicateMark | None
    ) -> None:
        """Write a message for the durable subscriptions that want it, and pass it on to all that do."""
        wanting = topic.wanting(reference)
        kept = tuple(subscription.kept for subscription in wanting if subscription.kept is not None)
        if kept:
            self._write_message(reference, envelope, kept, mark)
        topic.pass_on(reference, wanting)

    def _write_message(
        self,
        reference: MessageReference,
        envelope: Envelope,
        queues: tuple[KeptQueue, ...],
        mark: DuplicateMark | None,
    ) -> None:
        reference.shared = len(queues) > 1
        changes = Changes(messages=[NewMessage(reference, envelope, tuple([kept.number for kept in queues]))])
        if mark is not None:
            changes.duplicates.append(mark)
        for kept in queues:
            if kept.definition is not None:
                kept.add_definition(changes)
        try:
            self._write_new(changes)
        except BaseException as error:
            if not isinstance(error, ProviderError):
                self._store.release(reference)  # else who sends it does so
            raise
        reference.journaled = True
        if changes.definitions:
            _note_definitions(queues)

    def _write_new(self, changes: Changes) -> None:
        """Write what only adds. Raises `ResourceError`; `InDoubtError` when it may be there while this process lives no longer."""
        try:
            self.journal.write(changes, force=True)
        except BaseException as error:
            if is_doubt(error):
                self._withdraw(changes)
            raise

    def _withdraw(self, changes: Changes) -> None:
        """Have the journal forget messages that it may have, and that no queue has, before it writes anything else."""
        self.journal.note(changes.withdrawal())

    def finish_commit(self, unit: UnitOfWork) -> None:
        """Write a unit of work, and make it true. Raises `RolledBackError`, `InDoubtError`."""
        try:
            unit.finish_commit(self.journal, force_acknowledgements=self.force_acknowledgements)
        except BaseException:
            if unit.is_in_doubt:
                self.doubts.add_unit(unit)
            raise

    def finish_joined(self, unit: UnitOfWork, joined: JoinedTransaction) -> None:
        """Do so in the application's transaction."""
        try:
            unit.finish_commit(joined)
        except BaseException:
            if unit.is_in_doubt:
                self.doubts.add_lasting()  # nobody here knows when the application's connection has ended
            raise

    def write_settled(self, settled: list[QueueEntry]) -> None:
        """Write that messages were taken out of their queues; if that fails, they are there again.

        Raises `ResourceError`; `InDoubtError`: then they are there again, or gone, when the store has answered. What it has so provided for it
        takes out of `settled`; if that still has something after an error, nothing was begun.
        """
        changes = Changes(removals=removals_of(settled))
        try:
            self.journal.write(changes, force=self.force_acknowledgements)
        except BaseException as error:
            entries = tuple(settled)
            if is_doubt(error):
                self.doubts.add(RemovalInDoubt(changes, entries, self.take_back))
            else:
                self.take_back(entries)
            settled.clear()
            raise

    def take_back(self, settled: Sequence[QueueEntry]) -> None:
        """Have messages in their queues again whose removal was not written: now, or when they can be read."""
        for entry in settled:
            self._store.adopt(entry.reference)
            self.reinstate(entry)

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
        """Write that a settled message, in another form, is in `target` now, which is, or was, kept by `target_kept`.

        Raises `ResourceError`, `InDoubtError`; the message is then where it was, or will be when the store has answered.
        """
        changes = Changes(removals=removals_of([entry]))
        if target_kept is not None and reference.reliable:
            target_kept.add_definition(changes)
            changes.messages.append(NewMessage(reference, envelope, (target_kept.number,)))
        if not changes.removals and not changes.messages:
            return
        try:
            self.journal.write(changes, force=bool(changes.messages))
        except BaseException as error:
            if is_doubt(error):
                self.doubts.add(MoveInDoubt(changes, entry, target, self._store, self.take_back))
            else:
                self.take_back([entry])
            raise
        reference.journaled = bool(changes.messages)
        if changes.definitions and target_kept is not None:
            _note_definitions([target_kept])

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
            _note_definitions([target_kept])


def _queue_record(number: QueueNumber, address: Address, policy: QueuePolicy | None) -> QueueRecord:
    return QueueRecord(number=number, address=address, policy=None if policy is None else policy.to_json())


def _note_definitions(queues: Iterable[KeptQueue]) -> None:
    for kept in queues:
        kept.was_defined()


def restore_host(host: VirtualHost, journal: Journal, store: PagingMessageStore, recovery: Recovery) -> Restored:
    """Give a new host what its journal has kept; before anybody uses it."""
    queues: dict[QueueNumber, Queue] = {}
    for record in recovery.queues:
        kept = KeptQueue(journal, host.clock, record.number)
        queue = _restore_queue(host, record, kept)
        if queue is not None:
            queues[record.number] = queue
    marks = {} if recovery.was_closed else {(number, priority): up_to for number, priority, up_to in recovery.marks}
    # Whoever may have been seen is counted once and for all, and the marks begin anew.
    seen = Changes(marks=[(number, priority, ReferenceId(0)) for number, priority in marks])
    in_doubt = BranchesInDoubt(recovery)
    pipelines = FoundPipelines(recovery)
    plain = _PlainMessages(recovery, queues, marks, store)
    messages = 0
    for entry in plain.take_in():
        reference = entry.reference
        if not reference.journaled:
            reference.journaled = True
            reference.holders = 0
        queue = queues.get(entry.queue)
        if queue is None:  # it was deleted while the message was on its way
            journal.note(Changes(removals=[Removal(entry.queue, reference)]))
            continue
        was_seen = not entry.delivery_count and reference.id <= marks.get((entry.queue, reference.priority), 0)
        reserved_count = pipelines.count_of(entry.queue, reference)
        is_held = reserved_count is not None or in_doubt.holds(entry.queue, reference)
        was_seen = was_seen and not is_held  # that delivery is counted by its branch, or its group
        store.adopt(reference)
        delivery_count = entry.delivery_count + was_seen if reserved_count is None else reserved_count
        restored = queue.restore(reference, delivery_count, is_held=is_held)
        if restored is None:
            continue
        in_doubt.found(entry.queue, restored)
        pipelines.found(entry.queue, restored)
        messages += 1
        if was_seen:
            seen.counts.append((entry.queue, reference, 1))
    journal.note(seen)
    host.doorkeeper.restore(_standing_marks(recovery))
    in_doubt.restore(host, journal, queues, store)
    pipelines.restore(host, journal, queues, store)
    for queue in queues.values():
        queue.bury_spent()
    subscriptions = sum(record.subscription is not None for record in recovery.queues)
    return Restored(
        len(recovery.queues) - subscriptions, subscriptions, plain.count + messages, len(seen.counts), len(in_doubt)
    )


def _standing_marks(recovery: Recovery) -> list[DuplicateMark]:
    """Return the ids of producers, but for those of a queue that was destroyed while they were written: nothing arrived there."""
    known = {record.address for record in recovery.queues if record.subscription is None}
    return [mark for mark in recovery.duplicates if mark.address.kind is AddressKind.TOPIC or mark.address in known]


class _PlainMessages:
    """Those messages that go into their queues many at a time, as there is nothing to be said of each."""

    def __init__(
        self,
        recovery: Recovery,
        queues: Mapping[QueueNumber, Queue],
        marks: Mapping[tuple[QueueNumber, int], ReferenceId],
        store: PagingMessageStore,
    ) -> None:
        self._entries = recovery.entries
        self._queues = queues
        self._marks = marks
        self._store = store
        self._held = {number for branch in recovery.branches for number, _ in branch.removals}
        self._held |= {group.record.queue for group in recovery.groups}
        self.count = 0

    def take_in(self) -> Iterator[RecoveredEntry]:
        """Put them into their queues, and yield all others, one by one, each when it is its turn."""
        entries = self._entries
        return entries.but_for(self._take) if isinstance(entries, RecoveredRuns) else entries

    def _take(self, run: RecoveredRun) -> bool:
        """Put a run into its queue, unless that wants its messages one by one, or somebody may have seen one of them."""
        number = run.queue
        is_plain = (
            number in self._queues
            and number not in self._held
            and run.ids[0] > self._marks.get((number, run.priority), 0)
        )
        if not is_plain or not self._queues[number].restore_run(run):
            return False
        self._store.adopt_run(len(run.ids))
        self.count += len(run.ids)
        return True


def _restore_policy(record: QueueRecord) -> QueuePolicy | None:
    if record.policy is None:
        return None
    try:
        return QueuePolicy.from_json(record.policy)
    except PolicyError as error:
        _log.error(
            "PYJMS-BROKER-22 %s has a policy that this version does not understand, so it has the default one until it "
            "is altered: %s",
            record.address,
            error.reason,
        )
        return None


def _restore_queue(host: VirtualHost, record: QueueRecord, kept: KeptQueue) -> Queue | None:
    key = record.subscription
    if key is None:
        return host.restore_queue(record.address, kept, _restore_policy(record))
    try:
        selector = selector_or_none(record.selector_text)
    except InvalidSelectorError as error:
        _log.error(
            "PYJMS-BROKER-10 durable subscription %r of client %r has a selector that this version does not "
            "understand, so it gets nothing until it is made anew: %s",
            key.name,
            key.client_id,
            error.problem,
        )
        return None
    return host.subscriptions.restore(key, record, selector, kept)
