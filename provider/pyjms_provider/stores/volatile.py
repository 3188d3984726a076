"""A journal in memory: the reference model of journals, for tests of brokers and for simulations.

The medium outlives the journals that are opened on it, as a disk outlives processes. A *tap* is called at named points.
There it may raise `ResourceError` to let a write fail, or `Crash` to end the journal as the death of its process would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from threading import Lock
from typing import TypeAlias

from pyjms.spi.envelope import Address, Envelope, ObjectBody
from pyjms.spi.errors import ResourceError
from pyjms.spi.replay import StageName
from pyjms.spi.xid import Xid
from pyjms_provider.core.journal.journal import (
    BranchOutcome,
    Changes,
    ClientRecord,
    DuplicateMark,
    GroupNumber,
    GroupRecord,
    Journal,
    PipelineChanges,
    PreparedBranch,
    QueueNumber,
    QueueRecord,
    RecoveredBranch,
    RecoveredEntry,
    RecoveredGroup,
    RecoveredStage,
    Recovery,
    StageRecord,
    SubscriptionKey,
    in_runs,
)
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.stores.errors import HeldStoreError

Tap: TypeAlias = Callable[[str, Changes], None]
"""Called with the name of a point, such as ``before write`` or ``after write``, and the changes; no lock is held."""


class Crash(BaseException):
    """Raised by a tap to simulate the death of the process. The medium keeps everything written before."""


@dataclass(slots=True)
class KeptBranch:
    """A prepared branch, and the changes that its commit makes."""

    branch: PreparedBranch
    changes: Changes


@dataclass(slots=True)
class KeptStage:
    """A staged unit, and the changes that its promotion makes."""

    record: StageRecord
    changes: Changes


@dataclass(slots=True)
class Medium:
    """The written state, in dictionaries. `apply` and `drop_queue` define the effect of all changes to a store."""

    queues: dict[QueueNumber, QueueRecord] = field(default_factory=dict)
    messages: dict[ReferenceId, tuple[MessageReference, Envelope]] = field(default_factory=dict)
    entries: dict[tuple[ReferenceId, QueueNumber], int] = field(default_factory=dict)
    branches: dict[Xid, KeptBranch] = field(default_factory=dict)
    heuristics: dict[Xid, BranchOutcome] = field(default_factory=dict)
    duplicates: dict[tuple[str, int], DuplicateMark] = field(default_factory=dict)
    marks: dict[tuple[QueueNumber, int], ReferenceId] = field(default_factory=dict)
    groups: dict[GroupNumber, GroupRecord] = field(default_factory=dict)
    reserved: dict[GroupNumber, dict[int, tuple[ReferenceId, int]]] = field(default_factory=dict)
    stages: dict[StageName, KeptStage] = field(default_factory=dict)
    stage_markers: dict[str, int] = field(default_factory=dict)
    clients: dict[str, ClientRecord] = field(default_factory=dict)
    last_number: int = 0
    is_clean: bool = True
    holder: str | None = None

    def apply(self, changes: Changes) -> None:
        """Apply `changes` to the state."""
        # Dropped queues first, as in a database: the next queue of the same name may be in the same changes.
        for number in changes.dropped:
            self.drop_queue(number)
        for record in changes.definitions:
            # A definition may be repeated, and must not replace a record written by a later `corrected`.
            self.queues.setdefault(record.number, record)
            self.last_number = max(self.last_number, record.number)
        pipelines = changes.pipelines
        if changes.prepared is not None:
            # Messages are added and removed only when the branch is committed.
            self.branches[changes.prepared.xid] = KeptBranch(changes.prepared, changes)
        elif pipelines is not None and pipelines.staged is not None:
            self.stages[pipelines.staged.name] = KeptStage(pipelines.staged, changes)
        else:
            self._move(changes)
        for number, reference, delivery_count in changes.counts:
            # A count may be written after the acknowledgement of its message; it must not restore the entry.
            if (reference.id, number) in self.entries:
                self.entries[reference.id, number] = delivery_count
        for number, priority, up_to in changes.marks:
            if up_to:
                # Threads write marks in any order, so the highest one stays.
                self.marks[number, priority] = max(up_to, self.marks.get((number, priority), up_to))
            else:
                self.marks.pop((number, priority), None)
        for mark in changes.duplicates:
            # The queue may have been dropped since; its ids went with it.
            if mark.queue is None or mark.queue in self.queues:
                self.duplicates[str(mark.address), mark.serial] = replace(mark, queue=None, forgets_below=0)
            if mark.forgets_below:
                self._forget_marks(mark.address, mark.forgets_below)
        for outcome in changes.outcomes:
            self._end(outcome)
        if pipelines is not None:
            self._follow(pipelines)
        for record in changes.corrected:
            self.queues[record.number] = record
            self.last_number = max(self.last_number, record.number)

    def in_doubt(self) -> list[Changes]:
        """Return the changes of prepared branches and staged units."""
        return [
            *(branch.changes for branch in self.branches.values()),
            *(stage.changes for stage in self.stages.values()),
        ]

    def _follow(self, pipelines: PipelineChanges) -> None:
        for record in pipelines.groups:
            self.groups[record.number] = record
            self.reserved.setdefault(record.number, {})
        for each in pipelines.reserved:
            self.reserved[each.group][each.number] = (each.reference.id, each.count)
        for group, upto in pipelines.acknowledged:
            if group in self.groups:
                self.groups[group] = replace(self.groups[group], low=upto)
                held = self.reserved[group]
                self.reserved[group] = {number: held[number] for number in held if number > upto}
        for group in pipelines.released:
            self.groups.pop(group, None)
            self.reserved.pop(group, None)
        for name, is_promoted in pipelines.outcomes:
            # A repeated promotion finds no stage, and changes nothing.
            stage = self.stages.pop(name, None)
            if stage is not None and is_promoted:
                self._move(stage.changes)
        self.stage_markers.update(pipelines.markers)

    def _move(self, changes: Changes) -> None:
        if changes.clients is not None:
            for name in changes.clients.dropped:
                self.clients.pop(name, None)
            for name, left_ms in changes.clients.left:
                if name in self.clients:
                    self.clients[name] = replace(self.clients[name], left_ms=left_ms)
            self.clients.update((client.name, client) for client in changes.clients.put)
        for message in changes.messages:
            if not message.queues:
                # All queues of the message were dropped while its branch was in doubt.
                continue
            assert message.envelope is not None, "paged-out messages are read before"
            self.messages[message.reference.id] = (message.reference, message.envelope)
            for number in message.queues:
                self.entries[message.reference.id, number] = 0
        for removal in changes.removals:
            self.entries.pop((removal.reference.id, removal.queue), None)
            self._forget_unused(removal.reference.id)

    def _end(self, outcome: BranchOutcome) -> None:
        branch = self.branches.pop(outcome.xid, None)
        if branch is not None and outcome.commit:
            self._move(branch.changes)
        if outcome.heuristic:
            self.heuristics[outcome.xid] = outcome
        else:
            self.heuristics.pop(outcome.xid, None)

    def _forget_unused(self, message: ReferenceId) -> None:
        if not any(held == message for held, _ in self.entries):
            self.messages.pop(message, None)

    def _forget_marks(self, address: Address, below: int) -> None:
        old = [key for key, mark in self.duplicates.items() if mark.address == address and mark.serial < below]
        for key in old:
            del self.duplicates[key]

    def drop_queue(self, number: QueueNumber) -> None:
        """Delete a queue with its messages."""
        record = self.queues.pop(number, None)
        # Duplicate ids belong to the destination: those of a topic stay when one of its subscriptions ends.
        if record is not None and record.subscription is None:
            self.duplicates = {key: mark for key, mark in self.duplicates.items() if mark.address != record.address}
        for message, holder in [each for each in self.entries if each[1] == number]:
            del self.entries[message, holder]
            self._forget_unused(message)
        self.marks = {key: up_to for key, up_to in self.marks.items() if key[0] != number}
        for group in [each.number for each in self.groups.values() if each.queue == number]:
            del self.groups[group], self.reserved[group]
        # It is removed from branches in doubt, too: their commit must not put messages into a deleted queue.
        for changes in self.in_doubt():
            changes.removals = [each for each in changes.removals if each.queue != number]
            changes.messages = [
                replace(each, queues=tuple(queue for queue in each.queues if queue != number))
                for each in changes.messages
            ]


def _places(changes: Changes) -> list[tuple[QueueNumber, MessageReference]]:
    return [(number, _restored(message.reference)) for message in changes.messages for number in message.queues]


def _restored(reference: MessageReference) -> MessageReference:
    """Return the reference that another process would create for the message."""
    # A new object, as the core of a restarted broker must not share state with the one that died.
    made = MessageReference(reference.id, None, reference.expiration_ms, reference.priority, reference.reliable)
    made.deliver_at_ms, made.size, made.shared = reference.deliver_at_ms, reference.size, reference.shared
    return made


class VolatileJournal(Journal):
    """A journal on a `Medium`."""

    def __init__(self, medium: Medium, tap: Tap | None = None, *, holder: str = "volatile") -> None:
        """Raises `HeldStoreError`."""
        if medium.holder is not None:
            raise HeldStoreError(f"the medium is held by broker {medium.holder!r}; close its journal, or let it crash")
        medium.holder = holder
        self._medium = medium
        self._tap = tap
        self._lock = Lock()
        self._noted: list[Changes] = []
        self._paged: dict[ReferenceId, Envelope] = {}
        self._promised: dict[tuple[Address, SubscriptionKey | None], QueueNumber] = {}
        self._last_number = 0
        self._crashed = False
        self._closed = False

    def recover(self, progress: Callable[[int], None]) -> Recovery:
        medium = self._medium
        references = {number: _restored(reference) for number, (reference, _) in medium.messages.items()}
        in_doubt = [self._in_doubt(branch) for branch in medium.branches.values()]
        stages = [RecoveredStage(record=each.record, messages=_places(each.changes)) for each in medium.stages.values()]
        waiting = ([message.reference.id for message in changes.messages] for changes in medium.in_doubt())
        # Ids of messages in doubt count, too: a new message must not get one of them.
        kept = chain(medium.messages, *waiting)
        recovery = Recovery(
            queues=list(medium.queues.values()),
            entries=in_runs(self._entries(references, progress)),
            branches=in_doubt,
            heuristics=list(medium.heuristics.values()),
            duplicates=list(medium.duplicates.values()),
            marks=[(number, priority, up_to) for (number, priority), up_to in medium.marks.items()],
            was_closed=medium.is_clean,
            last_id=max(kept, default=ReferenceId(0)),
            groups=[
                RecoveredGroup(
                    record=record,
                    reserved=[(number, *found) for number, found in sorted(medium.reserved[record.number].items())],
                )
                for record in medium.groups.values()
            ],
            stages=stages,
            stage_markers=list(medium.stage_markers.items()),
            clients=list(medium.clients.values()),
        )
        # Not clean from now on: after a crash it stays so, as only `close` sets it again.
        medium.is_clean = False
        return recovery

    def _entries(
        self, references: dict[ReferenceId, MessageReference], progress: Callable[[int], None]
    ) -> Iterator[RecoveredEntry]:
        entries = sorted(self._medium.entries.items())
        for read, ((message, number), delivery_count) in enumerate(entries, 1):
            progress(read)
            yield RecoveredEntry(number, references[message], delivery_count)

    @staticmethod
    def _in_doubt(branch: KeptBranch) -> RecoveredBranch:
        messages = _places(branch.changes)
        removals = [(removal.queue, removal.reference.id) for removal in branch.changes.removals]
        return RecoveredBranch(
            xid=branch.branch.xid,
            prepared_ms=branch.branch.prepared_ms,
            messages=messages,
            removals=removals,
            clients=() if branch.changes.clients is None else tuple(branch.changes.clients.put),
        )

    def write(self, changes: Changes, *, force: bool) -> None:
        # Without the lock: a tap may call the journal.
        self._pass("before write", changes)
        # Outside the lock, which `read` takes.
        whole = changes.with_envelopes(self.read)
        with self._lock:
            self._check_open()
            # Deferred changes first, as the order of changes is the order of calls.
            for noted in self._noted:
                self._medium.apply(noted)
            self._noted.clear()
            self._medium.apply(whole)
        self._pass("after write", changes)

    def note(self, changes: Changes) -> None:
        with self._lock:
            if not self._crashed and not self._closed:
                self._noted.append(changes)
                self._forget_numbers(changes.dropped)

    def holds(self, queue: QueueNumber, reference: MessageReference) -> bool | None:
        self.write(Changes(), force=False)
        with self._lock:
            self._check_open()
            if queue not in self._medium.queues:
                return None
            return (reference.id, queue) in self._medium.entries

    def read(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        with self._lock:
            self._check_open()
            found = {number: self._message(number) for number in ids}
        return {number: _as_foreign(envelope) for number, envelope in found.items() if envelope is not None}

    def _message(self, number: ReferenceId) -> Envelope | None:
        if number in self._paged:
            return self._paged[number]
        kept = self._medium.messages.get(number)
        if kept is not None:
            return kept[1]
        for changes in self._medium.in_doubt():
            for message in changes.messages:
                if message.reference.id == number and message.queues:
                    return message.envelope
        return None

    def page_out(self, messages: Sequence[tuple[MessageReference, Envelope]]) -> None:
        self._pass("before page out", Changes())
        with self._lock:
            self._check_open()
            self._paged.update((reference.id, envelope) for reference, envelope in messages)

    def drop_paged(self, ids: Sequence[ReferenceId]) -> None:
        with self._lock:
            for number in ids:
                self._paged.pop(number, None)

    def define_queue(self, record: QueueRecord) -> QueueNumber:
        self._pass("before define", Changes())
        with self._lock:
            self._check_open()
            number = self._find_number(record)
            self._medium.last_number = max(self._medium.last_number, number)
            self._medium.queues[number] = replace(record, number=number)
        self._pass("after define", Changes())
        return number

    def number_of(self, record: QueueRecord, *, anew: bool = False) -> QueueNumber:
        with self._lock:
            return self._next_number() if anew else self._find_number(record)

    def _find_number(self, record: QueueRecord) -> QueueNumber:
        identity = (record.address, record.subscription)
        # A deferred drop is not applied yet, but the number of its queue must not be found any more.
        dropped = {number for noted in self._noted for number in noted.dropped}
        for known in self._medium.queues.values():
            if known.number not in dropped and (known.address, known.subscription) == identity:
                return record.number or known.number
        if not record.number and identity not in self._promised:
            # Stored before the queue is written, so that a second call gets the same number.
            self._promised[identity] = self._next_number()
        return record.number or self._promised[identity]

    def _next_number(self) -> QueueNumber:
        self._last_number = max(self._last_number, self._medium.last_number) + 1
        return QueueNumber(self._last_number)

    def drop_queue(self, number: QueueNumber) -> None:
        self._pass("before drop", Changes())
        with self._lock:
            self._check_open()
            # Deferred changes are written with the next write, as `note` promises.
            for noted in self._noted:
                self._medium.apply(noted)
            self._noted.clear()
            self._medium.drop_queue(number)
            self._forget_numbers([number])
        self._pass("after drop", Changes())

    def _forget_numbers(self, numbers: Sequence[QueueNumber]) -> None:
        """Forget promised numbers, so that a queue of the same identity gets another number. The lock is held."""
        self._promised = {identity: known for identity, known in self._promised.items() if known not in numbers}

    def close(self, *, clean: bool) -> None:
        with self._lock:
            if self._closed or self._crashed:
                return
            self._closed = True
            for noted in self._noted:
                self._medium.apply(noted)
            self._noted.clear()
            self._medium.is_clean = clean
            self._medium.holder = None
            if clean:
                # After a clean end no delivery is unknown, so no mark is needed to flag messages as redelivered.
                self._medium.marks.clear()

    def crash(self) -> None:
        """Simulate the death of the process: nothing more is written, and deferred changes are lost."""
        with self._lock:
            if not self._crashed and not self._closed:
                self._medium.holder = None
            self._crashed = True
            self._noted.clear()

    def _pass(self, point: str, changes: Changes) -> None:
        if self._tap is None:
            return
        try:
            self._tap(point, changes)
        # The journal ends here, before the exception unwinds through code that would still write.
        except Crash:
            self.crash()
            raise

    def _check_open(self) -> None:
        if self._closed or self._crashed:
            raise ResourceError("the journal was closed")


def _as_foreign(envelope: Envelope) -> Envelope:
    """Return a message as a store returns it: a pickled object in it counts as foreign."""
    body = envelope.body
    return replace(envelope, body=ObjectBody(body.data, local=False)) if isinstance(body, ObjectBody) else envelope
