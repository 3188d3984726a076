"""Restoring a virtual host from its journal when it is opened."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector import selector_or_none
from pyjms_provider.core.journal.journal import Changes, PipelineChanges, RecoveredRun, RecoveredRuns, Removal
from pyjms_provider.core.journal.queue_journal import QueueJournal
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.policy import PolicyError, QueuePolicy
from pyjms_provider.core.queue.recovery import dead_letter_exhausted, restore_message, restore_run
from pyjms_provider.core.queue.selectors import durable_selector, unreadable_selector
from pyjms_provider.core.queue_types import MissingQueueType
from pyjms_provider.core.transaction.reader_groups import Group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyjms_provider.core.host.admission import DuplicateClaim
    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.journal.journal import (
        DuplicateMark,
        Journal,
        QueueNumber,
        QueueRecord,
        RecoveredEntry,
        RecoveredGroup,
        Recovery,
    )
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store import PagingMessageStore

# Branches in doubt, rebuilt from the messages of the restored queues.


class BranchesInDoubt:
    """Collects the messages of branches while a host is restored: the queues' messages come first, then the branches."""

    def __init__(self, recovery: Recovery) -> None:
        self._branches = recovery.branches
        self._heuristics = recovery.heuristics
        self._held: dict[tuple[QueueNumber, ReferenceId], QueueEntry | None] = {
            place: None for branch in recovery.branches for place in branch.removals
        }

    def __len__(self) -> int:
        return len(self._branches)

    def holds(self, number: QueueNumber, reference: MessageReference) -> bool:
        """Return whether a branch in doubt has received this message from this queue."""
        return (number, reference.id) in self._held

    def found(self, number: QueueNumber, entry: QueueEntry) -> None:
        """Record a message that is in its queue again."""
        if (number, entry.reference.id) in self._held:
            self._held[number, entry.reference.id] = entry

    def restore(
        self, host: VirtualHost, journal: Journal, queues: Mapping[QueueNumber, Queue], store: PagingMessageStore
    ) -> None:
        """Restore the branches; before the queues are used."""
        branches = host.branches
        for branch in self._branches:
            # A missing message had been quarantined, or its queue has ended.
            received = [entry for place in branch.removals if (entry := self._held[place]) is not None]
            sent = list(adopted(branch.messages, queues, store))
            claims = _claims(host, dict.fromkeys(reference for _, reference in sent), journal)
            restored = branches.restore(branch.xid, branch.prepared_ms, sent, received, claims)
            for record in branch.clients:
                host.clients.restore_prepared(restored.unit, record)
        for outcome in self._heuristics:
            branches.restore_heuristic(outcome.xid, committed=outcome.commit)


def _claims(host: VirtualHost, references: Iterable[MessageReference], journal: Journal) -> list[DuplicateClaim]:
    """Return the claims of duplicate ids of messages that a branch has sent: their arrival is uncertain."""
    claims: list[DuplicateClaim] = []
    # One by one, as the messages may be large.
    for reference in references:
        for envelope in journal.read([reference.id]).values():
            address = envelope.destination
            if address.temporary:
                continue
            channel = host.queue(address.name) if address.kind is AddressKind.QUEUE else host.topic(address.name)
            # Claimed again: until the branch is decided, a second message with that id is refused (decision 0124).
            claim = host.admission.claim_again(channel, envelope)
            if claim is not None:
                claims.append(claim)
    return claims


def adopted(
    messages: Iterable[tuple[QueueNumber, MessageReference]],
    queues: Mapping[QueueNumber, Queue],
    store: PagingMessageStore,
) -> Iterator[tuple[Queue, MessageReference]]:
    """Yield queue and reference of messages, the same reference for several queues; without queues that have ended."""
    known: dict[ReferenceId, MessageReference] = {}
    for number, found in messages:
        if number not in queues:
            continue
        # One reference for all queues of a message, as it is one message in the store with a count of holders.
        reference = known.setdefault(found.id, found)
        if reference is found and not reference.journaled:
            reference.journaled = True
            # The store counts them from here on, with each `adopt`.
            reference.holders = 0
        reference.shared = reference.shared or reference is not found
        store.adopt(reference)
        yield queues[number], reference


# Reader groups and staged units, and how they are restored.

_log = logging.getLogger(__name__)


class FoundPipelines:
    """Collects the messages of reader groups and staged units while a host is restored: the queues' messages come first, then these."""

    def __init__(self, recovery: Recovery) -> None:
        self._groups = {group.record.name: group for group in recovery.groups}  # of one name the newest counts
        # Two groups of one name: the broker died after a write that was not answered, and the group was made again.
        self._surplus = [group for group in recovery.groups if self._groups[group.record.name] is not group]
        self._stages = recovery.stages
        self._markers = recovery.stage_markers
        self._records = {record.number: record for record in recovery.queues}
        self._counts = {
            (group.record.queue, message): count
            for group in self._groups.values()
            for _, message, count in group.reserved
        }
        self._entries: dict[tuple[QueueNumber, ReferenceId], QueueEntry] = {}

    def count_of(self, number: QueueNumber, reference: MessageReference) -> int | None:
        """Return how often a message of a group was handed out; None: no group holds it."""
        return self._counts.get((number, reference.id))

    def found(self, number: QueueNumber, entry: QueueEntry) -> None:
        """Record a message that is in its queue again."""
        if (number, entry.reference.id) in self._counts:
            self._entries[number, entry.reference.id] = entry

    def restore(
        self, host: VirtualHost, journal: Journal, queues: Mapping[QueueNumber, Queue], store: PagingMessageStore
    ) -> None:
        """Restore groups and units; before the queues are used."""
        if self._surplus:  # their creation was never confirmed to a reader
            released = [group.record.number for group in self._surplus]
            journal.note(Changes(pipelines=PipelineChanges(released=released)))
        for found in self._groups.values():
            queue = queues.get(found.record.queue)
            # A group ends with its queue, which may have been deleted when the broker died.
            if queue is not None:
                self._restore_group(host, found, self._records[found.record.queue], queue)
        stages = host.pipelines.stages
        for sink, epoch in self._markers:
            stages.restore_marker(sink, epoch)
        for stage in self._stages:
            # After the markers, which show that a unit came too late.
            stages.restore(stage.record, adopted(stage.messages, queues, store))

    def _restore_group(self, host: VirtualHost, found: RecoveredGroup, kept: QueueRecord, queue: Queue) -> None:
        record = found.record
        is_own = kept.subscription is None
        try:
            selector = selector_or_none(record.selector_text) if is_own else None
        except InvalidSelectorError as error:
            _log.error(
                "PYJMS-BROKER-25 reader group %r has a selector that this version does not understand, so it reserves what "
                "comes: release it. %s",
                record.name,
                error.problem,
            )
            selector = None
        group = Group(record, kept.address, kept.subscription, selector, queue)
        for number, message, count in found.reserved:
            # By number, also without a message: numbers that a reader has in its checkpoint must not shift.
            group.restore(number, self._entries.get((record.queue, message)), count)
        host.pipelines.groups.restore(group)


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of restoring a host."""

    queues: int
    subscriptions: int
    messages: int
    redelivered: int
    """How many of the messages may have been seen by a client before the broker died."""
    in_doubt: int
    """How many branches of distributed transactions wait for their coordinators."""


def restore_host(host: VirtualHost, journal: Journal, store: PagingMessageStore, recovery: Recovery) -> Restored:
    """Restore a new host from its journal; before it is used."""
    queues: dict[QueueNumber, Queue] = {}
    missing: dict[str, str] = {}
    # All queues first: messages, branches and groups are put into them.
    for record in recovery.queues:
        kept = QueueJournal(journal, host.clock, record.number)
        queues[record.number] = _restore_queue(host, record, kept, missing)
    # After an orderly stop no message was being delivered, so none need be flagged.
    marks = {} if recovery.was_closed else {(number, priority): up_to for number, priority, up_to in recovery.marks}
    # Messages that clients may have seen get a count, and the marks are reset.
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
        # A recorded count is exact; a mark only says that a client may have had the message.
        was_seen = not entry.delivery_count and reference.id <= marks.get((entry.queue, reference.priority), 0)
        reserved_count = pipelines.count_of(entry.queue, reference)
        is_held = reserved_count is not None or in_doubt.holds(entry.queue, reference)
        was_seen = was_seen and not is_held  # that delivery is counted by its branch, or its group
        # Adopted before it is in its queue, which may read its body at once.
        store.adopt(reference)
        delivery_count = entry.delivery_count + was_seen if reserved_count is None else reserved_count
        restored = restore_message(queue, reference, delivery_count, is_held=is_held)
        if restored is None:
            continue
        in_doubt.found(entry.queue, restored)
        pipelines.found(entry.queue, restored)
        messages += 1
        if was_seen:
            # Written, since the mark is removed: after another crash the message must still be flagged.
            seen.counts.append((entry.queue, reference, 1))
    # Deferred: if the broker dies before it is written, the marks are still there and say the same.
    journal.note(seen)
    host.admission.restore(_standing_marks(recovery), max((mark.serial for mark in recovery.duplicates), default=0))
    for client in recovery.clients:
        host.clients.restore(client)
    # After the queues' own messages, among which are those that branches and groups have received.
    in_doubt.restore(host, journal, queues, store)
    pipelines.restore(host, journal, queues, store)
    for queue in queues.values():
        # Last: dead-lettering writes, and sends to other queues, which must be complete by then.
        dead_letter_exhausted(queue)
    subscriptions = sum(record.subscription is not None for record in recovery.queues)
    return Restored(
        len(recovery.queues) - subscriptions, subscriptions, plain.count + messages, len(seen.counts), len(in_doubt)
    )


def _standing_marks(recovery: Recovery) -> list[DuplicateMark]:
    """Return the marks of producers, without those of a queue that was destroyed while they were written: nothing arrived there."""
    known = {record.address for record in recovery.queues if record.subscription is None}
    return [mark for mark in recovery.duplicates if mark.address.kind is AddressKind.TOPIC or mark.address in known]


class _PlainMessages:
    """Restores messages without special attributes to their queues, many at a time."""

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
        # In queues of which a branch or a group holds messages each message has to be checked.
        self._held = {number for branch in recovery.branches for number, _ in branch.removals}
        self._held |= {group.record.queue for group in recovery.groups}
        self.count = 0

    def take_in(self) -> Iterator[RecoveredEntry]:
        """Restore them to their queues, and yield all other entries, one by one, each in its turn."""
        entries = self._entries
        return entries.entries_not_taken(self._take) if isinstance(entries, RecoveredRuns) else entries

    def _take(self, run: RecoveredRun) -> bool:
        """Restore a run to its queue, unless the queue needs its messages one by one, or a client may have seen one of them."""
        number = run.queue
        is_plain = (
            number in self._queues
            and number not in self._held
            and run.ids[0] > self._marks.get((number, run.priority), 0)
        )
        if not is_plain or not restore_run(self._queues[number], run):
            return False
        self._store.adopt_run(len(run.ids))
        self.count += len(run.ids)
        return True


def _restore_policy(record: QueueRecord, missing: dict[str, str]) -> QueuePolicy | None:
    if record.policy is None:
        return None
    try:
        policy = QueuePolicy.from_journal(record.policy, missing)
    except PolicyError as error:
        _log.error(
            "PYJMS-BROKER-22 %s has a policy that this version does not understand, so it has the default one until it "
            "is altered: %s",
            record.address,
            error.reason,
        )
        # The default policy instead of a failed start: its messages can be received.
        return None
    if isinstance(policy.type, MissingQueueType):
        _log.error(
            "PYJMS-BROKER-33 %s is of a type that cannot be used here: it keeps its messages, takes new ones, and delivers none. %s",
            record.address,
            policy.type.reason,
        )
    return policy


def _restore_queue(host: VirtualHost, record: QueueRecord, kept: QueueJournal, missing: dict[str, str]) -> Queue:
    key = record.subscription
    if key is None:
        return host.restore_queue(record.address, kept, _restore_policy(record, missing))
    try:
        selector = durable_selector(record.selector_text)
    except InvalidSelectorError as error:
        _log.error(
            "PYJMS-BROKER-10 durable subscription %r of client %r has a selector that this version does not "
            "understand: its messages are kept, and it gets no others. Start a version that does, or have the client "
            "subscribe with another selector, or unsubscribe, which drops them. %s",
            key.name,
            key.client_id,
            error.problem,
        )
        # It matches nothing, so that the subscription keeps its messages until an operator decides.
        selector = unreadable_selector(record.selector_text or "")
    return host.subscriptions.restore(key, record, selector, kept)
