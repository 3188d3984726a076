"""The durable changes of a broker, and the contract of the journals that store them.

A journal knows queues by number and messages by reference id. Changes that must take effect together are one `Changes`; it is
written whole or not at all. The core decides, writes, and only then makes a change visible: a message is available after the
change that added it was written, and an acknowledgement has returned after the change that removed the message was.

All methods may be called from any thread, without a lock held, as they wait for I/O; none calls back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import chain, groupby
from typing import NewType, TypeAlias

from pyjms.spi.envelope import Address, Envelope, fact
from pyjms.spi.errors import CapabilityError, ResourceError
from pyjms.spi.replay import StageName
from pyjms.spi.xid import Xid
from pyjms_provider.core.message.reference import MESSAGE_OVERHEAD, MessageReference, ReferenceId

QueueNumber = NewType("QueueNumber", int)
"""The number under which a journal knows a queue, or the queue of a durable subscription; never given twice."""


Probe: TypeAlias = tuple[QueueNumber, MessageReference, bool]
"""A queue, a message, and whether the message is there if a write was made; if not, it is the other way round."""


@fact
class NewMessage:
    """A message and the queues that it is added to: several for a topic with several durable subscriptions."""

    reference: MessageReference
    envelope: Envelope | None
    """None: it was paged out while its transaction was open, which may be larger than memory, and the journal has it. If it is no
    longer there, it is left out when no queue holds the reference; otherwise nothing of the changes may be written."""
    queues: tuple[QueueNumber, ...]


@fact
class Removal:
    """A message leaves one queue; when it has left the last one the journal forgets it. Repeating it changes nothing."""

    queue: QueueNumber
    reference: MessageReference


@fact
class DuplicateMark:
    """The duplicate id that a producer gave to a message, remembered until `until_ms` so that a second one is refused."""

    address: Address
    duplicate_id: str
    until_ms: int
    """Milliseconds since 1970 UTC; 0: the message did not arrive after all."""
    serial: int
    """Unique among the marks of one address, in the order in which they were about to be written. Of two marks of an id the one written later counts."""
    queue: QueueNumber | None = None
    """The queue of its message: while that is not in the journal, the id is neither written nor forgotten, as it would be written after
    the queue has ended, and apply to the next queue of that name. None: it is a topic's, and written in any case."""
    forgets_below: int = 0
    """Marks of the address with lower serials may be removed: they are no longer remembered."""

    def of_queue(self, queue: QueueNumber) -> DuplicateMark:
        """Return the mark for that queue."""
        return self if self.queue == queue else replace(self, queue=queue)


@dataclass(frozen=True, slots=True)
class PreparedBranch:
    """A branch of a distributed transaction that is prepared (two-phase commit): its changes are stored, and not yet in effect."""

    xid: Xid
    prepared_ms: int


@dataclass(frozen=True, slots=True)
class BranchOutcome:
    """The end of a prepared branch. `heuristic`: an operator has decided, so it is remembered until the coordinator forgets it."""

    xid: Xid
    commit: bool
    heuristic: bool = False


GroupNumber = NewType("GroupNumber", int)
"""The number under which a journal knows a reader group; never given twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """The stored definition of a reader group, without the messages that it holds (`pyjms.spi.replay`)."""

    number: GroupNumber
    name: str
    queue: QueueNumber
    """The queue, or durable subscription, that it reads; the group ends with it."""
    selector_text: str | None
    generation: str
    low: int
    fence: int
    opened_ms: int


@fact
class Reservation:
    """A message is reserved for a reader group, as `number` in it. Repeating it changes nothing."""

    group: GroupNumber
    number: int
    reference: MessageReference
    count: int
    """How often it had been handed out by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """The stored definition of a staged unit, without its messages (`pyjms.spi.replay`)."""

    name: StageName
    messages: int
    staged_ms: int
    discarded_after_ms: int


@dataclass(slots=True, kw_only=True)
class PipelineChanges:
    """The part of `Changes` for reader groups and staged units. With `staged`, the messages of the changes are that unit's."""

    groups: list[GroupRecord] = field(default_factory=list)
    """Groups that are made, or opened by another reader."""
    reserved: list[Reservation] = field(default_factory=list)
    acknowledged: list[tuple[GroupNumber, int]] = field(default_factory=list)
    """Up to this number a group no longer holds messages; the messages are among the removals."""
    released: list[GroupNumber] = field(default_factory=list)
    """Groups that end; the messages that they hold stay in the queue."""
    staged: StageRecord | None = None
    outcomes: list[tuple[StageName, bool]] = field(default_factory=list)
    """Staged units that end, and whether their messages are available from now on. A unit that is not there is ignored."""
    markers: list[tuple[str, int]] = field(default_factory=list)
    """Sinks, and the last epoch that each has promoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRecord:
    """The stored registration of a client, with the tags of its last committed request and reply (`pyjms.spi.sessions`)."""

    name: str
    generation: str
    incarnation: int
    owner: str
    """The user who registered it first; "": a program in the broker's process."""
    registered_ms: int
    request_tag: str | None = None
    request_ms: int = 0
    reply_tag: str | None = None
    reply_ms: int = 0
    left_ms: int | None = None
    """When its connection ended; None: it is connected, or was when the broker died."""


@dataclass(slots=True, kw_only=True)
class ClientChanges:
    """The part of `Changes` for registered clients; it takes effect in this order."""

    dropped: list[str] = field(default_factory=list)
    left: list[tuple[str, int]] = field(default_factory=list)
    """Clients whose connections have ended, and when."""
    put: list[ClientRecord] = field(default_factory=list)
    """Records that replace those of the same names. In the changes of a prepared branch they belong to the branch."""
    before: list[ClientRecord] = field(default_factory=list)
    """The records that `put` replaces, for a withdrawal; not written."""

    def withdrawal(self) -> ClientChanges:
        """Return the changes that restore the records as they were."""
        return ClientChanges(put=list(self.before))


@dataclass(slots=True, kw_only=True)
class Changes:
    """Changes that become durable together.

    With `prepared`, its messages and removals, and the records that `clients` puts, belong to that branch: they are stored, and take
    effect when the branch's `BranchOutcome` is a commit; everything else takes effect at once.
    """

    messages: list[NewMessage] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    counts: list[tuple[QueueNumber, MessageReference, int]] = field(default_factory=list)
    """Delivery counts of messages that were released to their queues."""
    marks: list[tuple[QueueNumber, int, ReferenceId]] = field(default_factory=list)
    """By queue and priority: no message above this id has been delivered yet. After a crash the others are flagged. Of two marks the
    higher one counts, in whatever order they were written, as several threads write them; 0 removes a mark."""
    duplicates: list[DuplicateMark] = field(default_factory=list)
    definitions: list[QueueRecord] = field(default_factory=list)
    """Queues of its messages whose definitions are not stored yet, with their numbers; a stored definition is not changed."""
    dropped: list[QueueNumber] = field(default_factory=list)
    """Queues and subscriptions that end, before all other changes of this write; repeating it changes nothing. They become unknown, as
    by `Journal.drop_queue`; their messages may stay until the journal is opened again."""
    corrected: list[QueueRecord] = field(default_factory=list)
    """Queues, with their numbers, whose definitions are replaced by these, after all other changes, as by `Journal.define_queue`."""
    prepared: PreparedBranch | None = None
    outcomes: list[BranchOutcome] = field(default_factory=list)
    pipelines: PipelineChanges | None = None
    clients: ClientChanges | None = None

    def probes(self) -> Iterator[Probe]:
        """Yield for each queue a message, and whether it is there once this is written: before, it is the other way round.

        Queues that messages leave come first, as these were in the journal before.
        """
        of_removals = ((removal.queue, removal.reference, False) for removal in self.removals)
        of_messages = ((queue, each.reference, True) for each in self.messages for queue in each.queues)
        # One for each queue: a journal cannot answer for a queue that has ended, and the next one is asked.
        known: set[QueueNumber] = set()
        # Removals first: a message that leaves was there for certain, and its queue was in the journal.
        for witness in chain(of_removals, of_messages):
            if witness[0] not in known:
                known.add(witness[0])
                yield witness

    def with_envelopes(self, read: Callable[[Sequence[ReferenceId]], Mapping[ReferenceId, Envelope]]) -> Changes:
        """Return the changes with the messages that were paged out, for a journal that has all of them in memory anyway.

        `read`: as `Journal.read`. Raises `ResourceError` if one is lost.
        """
        wanted = [each.reference.id for each in self.messages if each.envelope is None]
        if not wanted:
            return self
        found = read(wanted)
        messages = [replace(each, envelope=each.envelope or found.get(each.reference.id)) for each in self.messages]
        # A lost copy that a queue still holds must fail the commit; one that has expired meanwhile is merely left out.
        if any(each.envelope is None and each.reference.holders for each in messages):
            raise ResourceError("a message that had left memory is not there any more; nothing was written")
        return replace(self, messages=[each for each in messages if each.envelope is not None])

    def withdrawal(self) -> Changes:
        """Return the changes that remove these messages, which a journal may have, with their producers' duplicate ids and their client's tags."""
        return Changes(
            # Removing an absent message changes nothing, so this is right whether the write was made or not.
            removals=[Removal(queue, message.reference) for message in self.messages for queue in message.queues],
            duplicates=[replace(mark, until_ms=0) for mark in self.duplicates],
            clients=None if self.clients is None else self.clients.withdrawal(),
        )


@dataclass(frozen=True, slots=True)
class SubscriptionKey:
    """The identity of a durable or shared subscription (JMS 1.1 §6.3, JMS 2.0 §8.3)."""

    client_id: str
    """The client id of its consumers' connections; "": they have none, which only those of shared subscriptions may."""
    name: str

    def __str__(self) -> str:
        """Return its name for operators and access rules, ``CLIENT_ID:NAME``, which is unique.

        A colon in the client id is ``~1``, and a tilde in it ``~0``: they mean nothing in URLs, shells and patterns.
        """
        # The tilde first: replaced after the colon, it would change the tildes that stand for colons.
        return f"{self.client_id.replace('~', '~0').replace(':', '~1')}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRecord:
    """The stored definition of a queue, or of a durable subscription."""

    number: QueueNumber
    address: Address
    """The queue's, or, for a subscription, the topic's."""
    subscription: SubscriptionKey | None = None
    selector_text: str | None = None
    no_local: bool = False
    policy: str | None = None
    """The queue's policy as JSON; None: the host's default."""
    is_shared: bool = False
    """Whether the subscription is shared."""


@fact
class RecoveredEntry:
    """A recovered message in one queue; its body stays on the disk until it is read."""

    queue: QueueNumber
    reference: MessageReference
    delivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredBranch:
    """A prepared branch that is in doubt."""

    xid: Xid
    prepared_ms: int
    messages: Sequence[tuple[QueueNumber, MessageReference]]
    removals: Sequence[tuple[QueueNumber, ReferenceId]]
    clients: Sequence[ClientRecord] = ()
    """The records that its commit puts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredGroup:
    """A reader group and the messages that it holds: number, message, and how often it was handed out."""

    record: GroupRecord
    reserved: Sequence[tuple[int, ReferenceId, int]]
    """By number. A message that could not be understood was quarantined, and is not among the entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredStage:
    """A staged unit and its messages, which are not among the entries."""

    record: StageRecord
    messages: Sequence[tuple[QueueNumber, MessageReference]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """All that a journal has stored. `entries` is read once; those of a queue come in the order in which messages were added."""

    queues: Sequence[QueueRecord]
    entries: Iterator[RecoveredEntry]
    branches: Sequence[RecoveredBranch]
    heuristics: Sequence[BranchOutcome]
    duplicates: Sequence[DuplicateMark]
    marks: Sequence[tuple[QueueNumber, int, ReferenceId]]
    was_closed: bool
    """Whether the last owner closed the journal: then no message was being delivered, and marks mean nothing."""
    last_id: ReferenceId
    """The highest reference id in use; new ones must be higher."""
    groups: Sequence[RecoveredGroup] = ()
    stages: Sequence[RecoveredStage] = ()
    stage_markers: Sequence[tuple[str, int]] = ()
    clients: Sequence[ClientRecord] = ()


class JoinedTransaction(ABC):
    """A transaction of the application in the database of a journal; the broker's changes are committed or rolled back with it."""

    may_be_committed: bool = False
    """False until its commit is begun: an error of `write` before that rolls it back. False again when another error than a `ProviderError`
    has ended the commit while the database surely had the transaction open, so that it was rolled back."""

    @abstractmethod
    def write(self, changes: Changes, *, force: bool) -> None:
        """Write `changes` in the application's transaction, and commit it. Raises as `Journal.write`, and the errors of the application's hooks."""

    @abstractmethod
    def commit(self) -> None:
        """Commit it without changes of the broker. Raises as `write`."""


class Journal(ABC):
    """Stores changes. One broker owns it at a time; opening one that is owned raises `ResourceError`, which names the owner."""

    is_held: bool = True
    """Whether no other broker can own it now, as far as is known. While this is false, no durable message may be delivered before a
    write, or `confirm`, has succeeded."""

    keeps_transient: bool = False
    """Whether NON_PERSISTENT messages are written, too, without being forced; set before it is used."""

    failed_writes: int = 0
    """How many writes were refused, or not answered."""

    @property
    def trouble(self) -> str | None:
        """Why no message can be written now, as far as is known; None: no reason is known. Any thread; does not wait."""
        return None

    @property
    def is_reliable(self) -> bool:
        """Whether its content survives the process (JBoss Messaging Core §4)."""
        return True

    @property
    def is_local(self) -> bool:
        """Whether it waits for a disk of this machine at most, and for no network."""
        return False

    @abstractmethod
    def recover(self, progress: Callable[[int], None]) -> Recovery:
        """Return its content; called once, before anything is written. `progress` is called with the number of entries read so far.

        A row that cannot be understood is quarantined and reported in the log; it never keeps others from being read.
        """

    @abstractmethod
    def write(self, changes: Changes, *, force: bool) -> None:
        """Return when `changes` survive the death of this process; with `force` also the loss of power.

        Calls that wait at the same time share one commit. Raises `ResourceError` when nothing was written (disk full,
        database locked or gone), `InDoubtError` when the outcome is unknown.
        """

    def add(self, reference: MessageReference, envelope: Envelope, queue: QueueNumber) -> None:
        """Return when a message of one queue survives a loss of power. Raises as `write`.

        The write of each durable single send, so a journal may implement it in a faster way.
        """
        self.write(Changes(messages=[NewMessage(reference, envelope, (queue,))]), force=True)

    @property
    def can_join(self) -> bool:
        """Whether `join` is supported."""
        return False

    def join(self, transaction: object) -> JoinedTransaction:
        """Return a writer in the application's transaction. Raises `CapabilityError`, `ResourceError`."""
        raise CapabilityError("this store is no database that an application could have a transaction in")

    def confirm(self) -> None:  # noqa: B027 - most journals cannot lose their ownership unnoticed
        """Check that this broker still owns it, as an empty write would. Waits. Raises as `write`."""

    @abstractmethod
    def note(self, changes: Changes) -> None:
        """Write `changes` before or with the next write, and at the latest at `close`. Does not wait."""

    @abstractmethod
    def holds(self, queue: QueueNumber, reference: MessageReference) -> bool | None:
        """Return whether a message is in a queue, which tells the outcome of a write that was not answered.

        None: the queue is not stored, or no longer, which tells nothing. Earlier writes are finished by then, or never will be. Raises as `write` while the outcome cannot be told.
        """

    @abstractmethod
    def read(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        """Return messages that were added, or paged out; those that are no longer there are left out.

        Raises `ResourceError`. A body that cannot be decoded is quarantined, reported, and left out.
        """

    @abstractmethod
    def page_out(self, messages: Sequence[tuple[MessageReference, Envelope]]) -> None:
        """Store messages that need not survive, or whose transaction is open, to make room in memory; `read` returns them.

        Until they are dropped, `write` may add them without their envelopes. Raises `ResourceError`.
        """

    @abstractmethod
    def drop_paged(self, ids: Sequence[ReferenceId]) -> None:
        """Forget messages that were paged out. Does not wait, and takes no lock but its own. May be repeated."""

    @abstractmethod
    def define_queue(self, record: QueueRecord) -> QueueNumber:
        """Store the definition of a queue or a durable subscription, and return its number; `record.number` 0 asks for a new one.

        A definition with the same address and subscription key keeps its number, so that two threads that name a new queue at
        the same time get the same number.
        """

    @abstractmethod
    def number_of(self, record: QueueRecord, *, anew: bool = False) -> QueueNumber:
        """Return the number that a queue has, or will have when its definition is stored. Does not wait.

        `anew`: a number that no queue has, for a queue that replaces one of the same name: the old one is `dropped`, and this one `corrected`,
        in the same changes.
        """

    @abstractmethod
    def drop_queue(self, number: QueueNumber) -> None:
        """Remove a queue or a subscription with all its messages, and the reader groups that read it. Raises as `write`.

        The duplicate ids of a queue's messages are removed with it: they must not refuse messages to the next queue of
        its name. Those of a topic stay when a subscription to it ends.
        """

    def hasten(self) -> None:  # noqa: B027 - not every journal waits for another process
        """Announce that it is about to be closed: from now on calls wait no longer than they must for a store that does not answer. Does not wait."""

    @abstractmethod
    def close(self, *, clean: bool) -> None:
        """Write deferred changes and release the store. May be repeated; calls of `note` are ignored from then on.

        `clean`: no message is being delivered any more, so delivery marks are removed.
        """


# Recovered messages, many at a time: a million of them must not take a million objects.


@dataclass(frozen=True, slots=True)
class RecoveredRun:
    """Messages of one queue and one priority without any other attributes.

    They are PERSISTENT, in this queue alone, never expire, are not scheduled, and have no recorded delivery.
    """

    queue: QueueNumber
    priority: int
    ids: Sequence[int]
    """Ascending."""
    sizes: Sequence[int]
    """The bytes that each of them takes in the journal."""

    def __iter__(self) -> Iterator[RecoveredEntry]:
        for message_id, size in zip(self.ids, self.sizes, strict=True):
            yield RecoveredEntry(self.queue, plain_reference(message_id, self.priority, size), 0)


class RecoveredRuns(Iterator[RecoveredEntry]):
    """The entries of a recovery, one by one, or through `entries_not_taken`, many at once. Either is read, and once.

    Those of a queue come in the order in which they were added.
    """

    def __init__(self, runs: Iterator[Iterable[RecoveredEntry]]) -> None:
        self.runs = runs
        """`RecoveredRun`, and other entries a few at a time. Those of a queue and a priority come in the order in which they were added,
        and no run begins before a run, or entries, that it follows."""
        self._entries = self.entries_not_taken(lambda _: False)

    def __next__(self) -> RecoveredEntry:
        return next(self._entries)

    def entries_not_taken(self, takes: Callable[[RecoveredRun], bool]) -> Iterator[RecoveredEntry]:
        """Yield, one by one, all entries but those of runs for which `takes` has returned True.

        Overlapping runs are merged: a queue whose order is not by priority needs its messages by age.
        """
        waiting: list[RecoveredRun] = []
        last = 0
        for run in self.runs:
            # Runs that overlap are merged by id: a queue that is not ordered by priority needs its messages by age.
            if waiting and not (isinstance(run, RecoveredRun) and run.ids[0] < last):
                yield from merge(*waiting, key=_message)
                waiting.clear()
            if not isinstance(run, RecoveredRun):
                yield from run
            elif not takes(run):
                last = max(last, run.ids[-1])
                waiting.append(run)
        yield from merge(*waiting, key=_message)


def _message(entry: RecoveredEntry) -> ReferenceId:
    return entry.reference.id


def plain_reference(message_id: int, priority: int, size: int) -> MessageReference:
    """Return the reference of a message of a run, as a journal recovers it."""
    reference = MessageReference(ReferenceId(message_id), None, 0, priority, True)
    reference.size = size + MESSAGE_OVERHEAD
    return reference


def in_runs(entries: Iterable[RecoveredEntry]) -> RecoveredRuns:
    """Return entries, given one by one, in runs as far as possible."""
    return RecoveredRuns(
        found if key is None else _run(*key, found)
        for key, found in ((key, list(found)) for key, found in groupby(entries, _run_key))
    )


def _run_key(entry: RecoveredEntry) -> tuple[QueueNumber, int] | None:
    reference = entry.reference
    # A compact message is rebuilt from its id, priority and size, so it may have no other attributes.
    is_special = reference.expiration_ms or reference.deliver_at_ms or reference.shared or entry.delivery_count
    return None if is_special or not reference.reliable else (entry.queue, reference.priority)


def _run(queue: QueueNumber, priority: int, entries: Sequence[RecoveredEntry]) -> RecoveredRun:
    references = [entry.reference for entry in entries]
    sizes = [max(reference.size - MESSAGE_OVERHEAD, 0) for reference in references]
    return RecoveredRun(queue, priority, [reference.id for reference in references], sizes)
