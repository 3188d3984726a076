"""What a broker writes down so that it survives: changes, and the contract of the journals that keep them.

A journal knows queues by number and messages by reference id. What must become true together is one `Changes`; it is
written whole or not at all. The core decides, writes, and only then lets anybody see: a message is available after the
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


Witness: TypeAlias = tuple[QueueNumber, MessageReference, bool]
"""A queue, a message, and whether that is there if a write was made: if not, it is the other way round."""


@fact
class NewMessage:
    """A message, and the queues that it is added to: several for a topic with several durable subscriptions."""

    reference: MessageReference
    envelope: Envelope | None
    """None: it was paged out while its transaction was open, which may be larger than memory, and the journal has it. One that is not
    there any more is left out if nobody holds the reference; else nothing of the changes may be written."""
    queues: tuple[QueueNumber, ...]


@fact
class Removal:
    """A message leaves one queue; with the last one the journal forgets it. Repeating it changes nothing."""

    queue: QueueNumber
    reference: MessageReference


@fact
class DuplicateMark:
    """The producer's id of a message that was sent, remembered until then so that a second one is refused."""

    address: Address
    duplicate_id: str
    until_ms: int
    """Milliseconds since 1970; 0: the message did not arrive after all."""
    serial: int
    """Marks of one address have different ones, in the order in which they were about to be written. Of two with the same the later one written stays."""
    queue: QueueNumber | None = None
    """Of the queue that its message is for: while that is not kept, the id is neither written nor forgotten, as it is written after the
    queue has ended, and may be known to the next one of its name. None: it is a topic's, and written in any case."""
    forgets_below: int = 0
    """All marks of the address with lower serials may go: nobody remembers them any more."""

    def of_queue(self, queue: QueueNumber) -> DuplicateMark:
        """Return it for that queue."""
        return self if self.queue == queue else replace(self, queue=queue)


@dataclass(frozen=True, slots=True)
class PreparedBranch:
    """A branch of a distributed transaction that is prepared (two-phase commit): its part is kept, and not yet true."""

    xid: Xid
    prepared_ms: int


@dataclass(frozen=True, slots=True)
class BranchOutcome:
    """A prepared branch ends. `heuristic`: decided here, so it is remembered until the coordinator forgets it."""

    xid: Xid
    commit: bool
    heuristic: bool = False


GroupNumber = NewType("GroupNumber", int)
"""The number under which a journal knows a reader group; never given twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A reader group as it is kept, but for what it holds (`pyjms.spi.replay`)."""

    number: GroupNumber
    name: str
    queue: QueueNumber
    """Of the queue, or the durable subscription, that it reads; it goes with that."""
    selector_text: str | None
    generation: str
    low: int
    fence: int
    opened_ms: int


@fact
class Reservation:
    """A message is a reader group's: `number` in it. Repeating it changes nothing."""

    group: GroupNumber
    number: int
    reference: MessageReference
    count: int
    """How often it was handed out then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """A staged unit as it is kept, but for its messages (`pyjms.spi.replay`)."""

    name: StageName
    messages: int
    staged_ms: int
    discarded_after_ms: int


@dataclass(slots=True, kw_only=True)
class PipelineChanges:
    """What reader groups and staged units add to `Changes`. With `staged`, the messages of the changes are that unit's."""

    groups: list[GroupRecord] = field(default_factory=list)
    """Groups that are made, or taken over."""
    reserved: list[Reservation] = field(default_factory=list)
    acknowledged: list[tuple[GroupNumber, int]] = field(default_factory=list)
    """Up to this number a group holds nothing any more; the messages are among the removals."""
    released: list[GroupNumber] = field(default_factory=list)
    """Groups that end; what they hold stays where it is."""
    staged: StageRecord | None = None
    outcomes: list[tuple[StageName, bool]] = field(default_factory=list)
    """Staged units that end, and whether their messages are there from now on. One that is not there is passed over."""
    markers: list[tuple[str, int]] = field(default_factory=list)
    """Sinks, and the last epoch that was promoted."""


@dataclass(slots=True, kw_only=True)
class Changes:
    """What must become durable together.

    With `prepared`, its messages and removals belong to that branch: they are kept, and take effect when the branch's
    `BranchOutcome` is a commit; everything else takes effect at once.
    """

    messages: list[NewMessage] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    counts: list[tuple[QueueNumber, MessageReference, int]] = field(default_factory=list)
    """How often a message was delivered that came back to its queue."""
    marks: list[tuple[QueueNumber, int, ReferenceId]] = field(default_factory=list)
    """Of a queue and a priority: no message above this id was delivered yet. After a crash the others are flagged. Of two the
    higher one stays, whichever was written first, as several threads write them; 0 has a mark forgotten."""
    duplicates: list[DuplicateMark] = field(default_factory=list)
    definitions: list[QueueRecord] = field(default_factory=list)
    """Queues of its messages that are not kept yet, with their numbers; one that is kept stays as it is."""
    dropped: list[QueueNumber] = field(default_factory=list)
    """Queues and subscriptions that end, before all else in these changes; repeating it changes nothing. They become unknown, as
    by `Journal.drop_queue`; their messages may stay until the journal is opened again."""
    corrected: list[QueueRecord] = field(default_factory=list)
    """Queues, with their numbers, that are kept in this form from now on, after all else, as by `Journal.define_queue`."""
    prepared: PreparedBranch | None = None
    outcomes: list[BranchOutcome] = field(default_factory=list)
    pipelines: PipelineChanges | None = None

    def witnesses(self) -> Iterator[Witness]:
        """Yield of each queue a message, and whether it is there once this is written: before, it is the other way round.

        Those first that a message leaves, as these queues were kept before.
        """
        of_removals = ((removal.queue, removal.reference, False) for removal in self.removals)
        of_messages = ((queue, each.reference, True) for each in self.messages for queue in each.queues)
        # One for each queue: of a queue that has ended the journal says nothing, and the next one is asked.
        known: set[QueueNumber] = set()
        # Removals first: a message that leaves was there for certain, and its queue was kept.
        for witness in chain(of_removals, of_messages):
            if witness[0] not in known:
                known.add(witness[0])
                yield witness

    def with_envelopes(self, read: Callable[[Sequence[ReferenceId]], Mapping[ReferenceId, Envelope]]) -> Changes:
        """Return the same with the messages that were paged out, for a journal that has all of them in memory anyway.

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
        """Return what has a journal forget their messages, which it may have, and the producers' ids of these."""
        return Changes(
            # Removing what is not there changes nothing, so this is right whether the write was made or not.
            removals=[Removal(queue, message.reference) for message in self.messages for queue in message.queues],
            duplicates=[replace(mark, until_ms=0) for mark in self.duplicates],
        )


@dataclass(frozen=True, slots=True)
class SubscriptionKey:
    """What names a durable subscription (JMS 1.1 §6.3)."""

    client_id: str
    name: str

    def __str__(self) -> str:
        """Return how operators and access rules call it: ``CLIENT_ID:NAME``, and no other one so.

        A colon in the client id is ``~1``, and a tilde in it ``~0``: they mean nothing in URLs, shells and patterns.
        """
        # The tilde first: replaced after the colon, it would change the tildes that stand for colons.
        return f"{self.client_id.replace('~', '~0').replace(':', '~1')}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRecord:
    """A queue, or a durable subscription, as it is kept."""

    number: QueueNumber
    address: Address
    """Of the queue; of the topic, for a subscription."""
    subscription: SubscriptionKey | None = None
    selector_text: str | None = None
    no_local: bool = False
    policy: str | None = None
    """The queue's policy as JSON; None: the host's default."""


@fact
class RecoveredEntry:
    """One message in one queue as it was found; its body stays where it is until somebody reads it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredGroup:
    """A reader group and what it holds: number, message, and how often that was handed out."""

    record: GroupRecord
    reserved: Sequence[tuple[int, ReferenceId, int]]
    """By number. One whose message is not among the entries was set aside, as it could not be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredStage:
    """A staged unit and its messages, which are not among the entries."""

    record: StageRecord
    messages: Sequence[tuple[QueueNumber, MessageReference]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """All that a journal has kept. `entries` is read once; those of a queue come in the order in which messages were added."""

    queues: Sequence[QueueRecord]
    entries: Iterator[RecoveredEntry]
    branches: Sequence[RecoveredBranch]
    heuristics: Sequence[BranchOutcome]
    duplicates: Sequence[DuplicateMark]
    marks: Sequence[tuple[QueueNumber, int, ReferenceId]]
    was_closed: bool
    """Whether the last holder closed the journal: then nothing was being delivered, and marks mean nothing."""
    last_id: ReferenceId
    """The highest reference id that is in use; new ones must be higher."""
    groups: Sequence[RecoveredGroup] = ()
    stages: Sequence[RecoveredStage] = ()
    stage_markers: Sequence[tuple[str, int]] = ()


class JoinedTransaction(ABC):
    """A transaction of the application's in the database where a journal keeps what it keeps; both end together."""

    may_be_committed: bool = False
    """False until its commit is begun: what ends `write` earlier rolls it back. And again when something else than a `ProviderError` has ended
    the commit while the database surely had the transaction open, so that it was rolled back."""

    @abstractmethod
    def write(self, changes: Changes, *, force: bool) -> None:
        """Write `changes` in the application's transaction, and commit it. Raises as `Journal.write`, and what the application's hooks raise."""

    @abstractmethod
    def commit(self) -> None:
        """Commit it without changes of the broker's. Raises as `write`."""


class Journal(ABC):
    """Keeps changes. One broker holds it at a time; opening a held one raises `ResourceError` that names the holder."""

    is_held: bool = True
    """Whether no other broker can hold it now, as far as is known. While that is not so, nothing that is kept may be handed out
    before a write, or `confirm`, has succeeded."""

    failed_writes: int = 0
    """How many writes were refused, or not answered."""

    @property
    def trouble(self) -> str | None:
        """Why no message can be kept now, as far as is known; None: nothing is known to be in the way. Any thread; does not wait."""
        return None

    @property
    def is_reliable(self) -> bool:
        """Whether what it keeps survives the process (JBoss Messaging Core §4)."""
        return True

    @property
    def is_local(self) -> bool:
        """Whether it waits for a disk of this machine at most, and for no network."""
        return False

    @abstractmethod
    def recover(self, progress: Callable[[int], None]) -> Recovery:
        """Return what was kept; called once, before anything is written. `progress` hears how many entries were read.

        A row that cannot be understood is set aside, reported in the log, and never keeps others from being read.
        """

    @abstractmethod
    def write(self, changes: Changes, *, force: bool) -> None:
        """Return when `changes` survive the death of this process; with `force` also the loss of power.

        Calls that wait at the same time share one commit. Raises `ResourceError` when nothing was written (disk full,
        database locked or gone), `InDoubtError` when it is not known whether it was.
        """

    def add(self, reference: MessageReference, envelope: Envelope, queue: QueueNumber) -> None:
        """Return when a message of one queue survives a loss of power. Raises as `write`.

        It is what every durable send by itself comes to, so a journal may have a shorter way for it.
        """
        self.write(Changes(messages=[NewMessage(reference, envelope, (queue,))]), force=True)

    @property
    def can_join(self) -> bool:
        """Whether `join` is there."""
        return False

    def join(self, transaction: object) -> JoinedTransaction:
        """Return what writes in a transaction of the application's. Raises `CapabilityError`, `ResourceError`."""
        raise CapabilityError("this store is no database that an application could have a transaction in")

    def confirm(self) -> None:  # noqa: B027 - most journals cannot get another holder unseen
        """Find out that it is held, as a write that changes nothing would. Waits. Raises as `write`."""

    @abstractmethod
    def note(self, changes: Changes) -> None:
        """Have `changes` written before or with what is written next, and at the latest by `close`. Does not wait."""

    @abstractmethod
    def holds(self, queue: QueueNumber, reference: MessageReference) -> bool | None:
        """Return whether a message is on a queue, which says what became of a write that was not answered.

        None: that queue is not kept, or no longer, so it says nothing. What was to be written before is written by then, or never will be. Raises as `write` while nobody can tell.
        """

    @abstractmethod
    def read(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        """Return messages that were added, or paged out; those that are no longer there are left out.

        Raises `ResourceError`. A body that cannot be decoded is set aside, reported, and left out.
        """

    @abstractmethod
    def page_out(self, messages: Sequence[tuple[MessageReference, Envelope]]) -> None:
        """Keep messages that need not survive, or whose transaction is open, to make room in memory; `read` gives them back.

        They may be added by `write` without their envelopes, while they were not dropped. Raises `ResourceError`.
        """

    @abstractmethod
    def drop_paged(self, ids: Sequence[ReferenceId]) -> None:
        """Forget messages that were paged out. Does not wait, and takes no lock but its own. May be repeated."""

    @abstractmethod
    def define_queue(self, record: QueueRecord) -> QueueNumber:
        """Keep a queue or a durable subscription, and return its number; `record.number` 0 asks for one.

        One that is kept under the same address and subscription key keeps its number, so that two threads which name a
        new queue at the same time get the same.
        """

    @abstractmethod
    def number_of(self, record: QueueRecord, *, anew: bool = False) -> QueueNumber:
        """Return the number that a queue has, or that it will have when it is kept. Does not wait.

        `anew`: one that no queue has, for a queue that takes the place of one of that name: that is `dropped`, and this one `corrected`, in the
        same changes.
        """

    @abstractmethod
    def drop_queue(self, number: QueueNumber) -> None:
        """Forget a queue or a subscription with all its messages, and the reader groups that read it. Raises as `write`.

        With a queue go the ids that producers chose for its messages: they must not keep new ones from the next queue of
        its name. Those of a topic stay when a subscription to it goes.
        """

    def hasten(self) -> None:  # noqa: B027 - not every journal waits for somebody else
        """Hear that it is about to be closed: from now on calls wait no longer than they must for what does not answer. Does not wait."""

    @abstractmethod
    def close(self, *, clean: bool) -> None:
        """Write what was noted and let go of the journal. May be repeated; calls of `note` are ignored from then on.

        `clean`: nothing is being delivered any more, so delivery marks are forgotten.
        """


# Messages that a journal found again, many at a time: a million of them must not take as many objects to be known.


@dataclass(frozen=True, slots=True)
class RecoveredRun:
    """Messages of one queue and one priority about which there is nothing else to know.

    They are PERSISTENT, in this queue alone, never expire, are not scheduled, and were never delivered as far as is
    written.
    """

    queue: QueueNumber
    priority: int
    ids: Sequence[int]
    """Growing."""
    sizes: Sequence[int]
    """So many bytes each of them takes in the journal."""

    def __iter__(self) -> Iterator[RecoveredEntry]:
        for message_id, size in zip(self.ids, self.sizes, strict=True):
            yield RecoveredEntry(self.queue, plain_reference(message_id, self.priority, size), 0)


class RecoveredRuns(Iterator[RecoveredEntry]):
    """The entries of a recovery, one by one; or, for who can take many at once, `but_for`. Either is read, and once.

    Those of a queue come in the order in which they were added.
    """

    def __init__(self, runs: Iterator[Iterable[RecoveredEntry]]) -> None:
        self.runs = runs
        """`RecoveredRun`, and other entries a few at a time. Those of a queue and a priority come in the order in which they
        were added, and no run begins before another one that it follows, or before other entries that it follows."""
        self._entries = self.but_for(lambda _: False)

    def __next__(self) -> RecoveredEntry:
        return next(self._entries)

    def but_for(self, takes: Callable[[RecoveredRun], bool]) -> Iterator[RecoveredEntry]:
        """Yield, one by one, all entries but those of runs that `takes` has taken, and returned True for.

        To a queue whose order is not that of priorities, runs that overlap are one.
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
    """Return the reference of a message of a run, as a journal finds it."""
    reference = MessageReference(ReferenceId(message_id), None, 0, priority, True)
    reference.size = size + MESSAGE_OVERHEAD
    return reference


def in_runs(entries: Iterable[RecoveredEntry]) -> RecoveredRuns:
    """Return entries, which come one by one, as runs as far as that can be."""
    return RecoveredRuns(
        found if lane is None else _run(*lane, found)
        for lane, found in ((lane, list(found)) for lane, found in groupby(entries, _lane))
    )


def _lane(entry: RecoveredEntry) -> tuple[QueueNumber, int] | None:
    reference = entry.reference
    # A compact message is made again from its id, priority and size, so nothing else may be known of it.
    is_special = reference.expiration_ms or reference.deliver_at_ms or reference.shared or entry.delivery_count
    return None if is_special or not reference.reliable else (entry.queue, reference.priority)


def _run(queue: QueueNumber, priority: int, entries: Sequence[RecoveredEntry]) -> RecoveredRun:
    references = [entry.reference for entry in entries]
    sizes = [max(reference.size - MESSAGE_OVERHEAD, 0) for reference in references]
    return RecoveredRun(queue, priority, [reference.id for reference in references], sizes)
