"""The unit of work: the messages and acknowledgements of one transaction, which take effect together (§2.2, §5.1, §6.2.1).

A unit is used by its session's thread; two others may end it: the one that closes the session, and the timer thread when
a message in it expires. So it has a lock, which comes before those of queues in the lock order. It is not held while the
unit is written to a journal: COMMITTING keeps other threads away meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, NewType, Protocol, TypeVar

from pyjms.spi.errors import InDoubtError, ProviderError, RegistrationError, RolledBackError
from pyjms_provider.core.journal.journal import Changes, JoinedTransaction, NewMessage, PipelineChanges, PreparedBranch
from pyjms_provider.core.journal.queue_journal import removals_of
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.scheduled_messages import is_expired
from pyjms_provider.core.state_machine import StateMachine

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.sessions import ClientTags
    from pyjms.spi.xid import Xid
    from pyjms_provider.core.journal.journal import ClientChanges, DuplicateMark, Journal, QueueNumber, StageRecord
    from pyjms_provider.core.journal.queue_journal import QueueJournal
    from pyjms_provider.core.message.entry import EntryQueue, QueueEntry, ReceiverId
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.consumer import ConsumerSession


# The states of a unit of work and its events: one table; a missing pair is a fault of its session, never a guess.


class UnitState(Enum):
    """The state of a unit."""

    OPEN = "takes messages and acknowledgements"
    INCOMPLETE = "a message that it sends has expired: it may still be staged without that one, but not committed"
    DOOMED = "rolled back because a message in it expired; its session does not know yet"
    COMMITTING = "is being written: whether that succeeds decides, and nothing else"
    PREPARED = "is kept as a branch of a distributed transaction: its coordinator decides, and nothing else"
    COMMITTED = "has taken effect"
    ROLLED_BACK = "has had no effect"


class UnitEvent(Enum):
    """An event of a unit."""

    COMMIT = "the session commits"
    STAGE = "the session has it staged, without what expired in it"
    WRITTEN = "the journal has it, or nothing in it needs to be written"
    KEPT = "the journal has it as a prepared branch"
    REFUSED = "the journal could not take it"
    DECIDE_COMMIT = "the journal has it that the prepared branch is committed"
    DECIDE_ROLLBACK = "the journal has it that the prepared branch is rolled back"
    ROLLBACK = "the session rolls back, or closes"
    EXPIRE = "a message in it expires"
    LOSE_ONE = "a message in it expires, and it has received nothing"


_STATE = UnitState
_EVENT = UnitEvent

# A second ending comes from another thread, and the first one counts.
_ENDINGS = (_EVENT.ROLLBACK, _EVENT.EXPIRE, _EVENT.LOSE_ONE)

UNIT_TRANSITIONS: Final = StateMachine(
    "a unit of work",
    {
        _STATE.OPEN: {
            _EVENT.COMMIT: _STATE.COMMITTING,
            _EVENT.STAGE: _STATE.COMMITTING,
            _EVENT.ROLLBACK: _STATE.ROLLED_BACK,
            _EVENT.EXPIRE: _STATE.DOOMED,  # §5.1.3
            _EVENT.LOSE_ONE: _STATE.INCOMPLETE,
        },
        _STATE.DOOMED: {
            _EVENT.COMMIT: _STATE.ROLLED_BACK,
            _EVENT.STAGE: _STATE.ROLLED_BACK,
            _EVENT.ROLLBACK: _STATE.ROLLED_BACK,
            _EVENT.EXPIRE: _STATE.DOOMED,
            _EVENT.LOSE_ONE: _STATE.DOOMED,
        },
        _STATE.INCOMPLETE: {
            _EVENT.COMMIT: _STATE.ROLLED_BACK,
            _EVENT.STAGE: _STATE.COMMITTING,
            _EVENT.ROLLBACK: _STATE.ROLLED_BACK,
            _EVENT.EXPIRE: _STATE.DOOMED,
            _EVENT.LOSE_ONE: _STATE.INCOMPLETE,
        },
        _STATE.COMMITTING: {
            _EVENT.WRITTEN: _STATE.COMMITTED,
            _EVENT.KEPT: _STATE.PREPARED,
            _EVENT.REFUSED: _STATE.ROLLED_BACK,
            **dict.fromkeys(_ENDINGS, _STATE.COMMITTING),
        },
        _STATE.PREPARED: {
            _EVENT.DECIDE_COMMIT: _STATE.COMMITTED,
            _EVENT.DECIDE_ROLLBACK: _STATE.ROLLED_BACK,
            **dict.fromkeys(_ENDINGS, _STATE.PREPARED),
        },
        _STATE.COMMITTED: dict.fromkeys(_ENDINGS, _STATE.COMMITTED),
        _STATE.ROLLED_BACK: dict.fromkeys((_EVENT.COMMIT, _EVENT.STAGE, *_ENDINGS), _STATE.ROLLED_BACK),
    },
)
"""Forbidden: to commit or stage twice, to report the outcome of a write that was not begun or has been reported, and to decide a unit that
is not prepared."""


# The changes that a unit of work writes: functions of its sent and received messages. It is COMMITTING, so neither changes meanwhile.

_T = TypeVar("_T")


class DuplicateClaim(Protocol):
    """The producer's duplicate id of one message in a unit, which is confirmed when the unit commits."""

    def mark_commit(self) -> DuplicateMark | None:
        """Return the mark to be written with a commit that begins now; None: none."""
        ...

    def end(self, *, arrived: bool) -> None:
        """Record whether the message has arrived. May be repeated, with the same answer."""
        ...


class UnitChanges(NamedTuple):
    """The changes that a unit writes, and the queues whose definitions are among them."""

    changes: Changes
    defining: Sequence[QueueJournal] = ()
    """Recorded here, as a queue that ends meanwhile loses its record."""

    def mark_written(self) -> None:
        """Record that the changes have been written. Does not wait."""
        for message in self.changes.messages:
            message.reference.journaled = True
        for kept in self.defining:
            kept.was_defined()


def changes_of(
    sent: Iterable[QueueEntry], settled: Iterable[tuple[QueueEntry, int]], *, with_transient: bool = False
) -> UnitChanges | None:
    """Return the changes to be written; None: none. `with_transient`: NON_PERSISTENT messages, too."""
    changes = Changes()
    defining: list[QueueJournal] = []
    messages: dict[MessageReference, NewMessage] = {}
    for queue, entries in entries_by_queue(sent).items():
        kept = queue.journal
        if kept is None:
            continue
        # One tuple for all messages of the queue: a transaction may have a hundred thousand.
        alone = (kept.number,)
        for reference, envelope in queue.uncommitted_messages(entries, with_transient=with_transient):
            queues: tuple[QueueNumber, ...] = alone
            if reference in messages:
                queues = (*messages[reference].queues, kept.number)
                # Set before the write, as the journal stores a message of several queues in other rows.
                reference.shared = True
            messages[reference] = NewMessage(reference, envelope, queues)
            if kept.definition is not None:
                kept.add_definition(changes)
                defining.append(kept)
    removals = removals_of(dict.fromkeys(entry for entry, _ in settled))  # each once, even if it was acknowledged twice
    if not messages and not removals:
        return None
    changes.messages, changes.removals = list(messages.values()), removals
    return UnitChanges(changes, defining)


def prepared_changes(
    sent: Iterable[QueueEntry], settled: Sequence[tuple[QueueEntry, int]], xid: Xid, now_ms: int
) -> UnitChanges:
    """Return the changes to be written for a prepared branch.

    Its producers' duplicate ids are not included: the messages have not arrived; they are written with the decision.
    """
    written = changes_of(sent, settled) or UnitChanges(Changes())
    written.changes.prepared = PreparedBranch(xid, now_ms)
    # Exactly, as no delivery mark covers it when the branch has been in doubt over several starts.
    written.changes.counts = [
        (kept.number, entry.reference, delivery_count)
        for entry, delivery_count in settled
        if (kept := entry.queue.journal) is not None and entry.reference.journaled  # as in `removals_of`
    ]
    return written


def staged_changes(
    sent: Iterable[QueueEntry], settled: Iterable[tuple[QueueEntry, int]], record: StageRecord
) -> UnitChanges:
    """Return the changes to be written for a staged unit: all its sent messages. Its producers' ids as in `prepared_changes`."""
    written = changes_of(sent, settled, with_transient=True) or UnitChanges(Changes())
    written.changes.pipelines = PipelineChanges(staged=record)
    return written


def entries_by_queue(entries: Iterable[QueueEntry]) -> dict[EntryQueue, list[QueueEntry]]:
    """Group messages by their queues, both in the order given."""
    answer: dict[EntryQueue, list[QueueEntry]] = {}
    last: EntryQueue | None = None
    found: list[QueueEntry] = []
    # Most messages of a unit are for one queue, so the queue is looked up only when it changes.
    for entry in entries:
        if entry.queue is not last:
            last = entry.queue
            found = answer.setdefault(last, [])
        found.append(entry)
    return answer


def by_queue(items: Iterable[tuple[QueueEntry, _T]]) -> dict[EntryQueue, list[tuple[QueueEntry, _T]]]:
    """Group pairs of a message and a value by the queues of the messages, both in the order given."""
    answer: dict[EntryQueue, list[tuple[QueueEntry, _T]]] = {}
    last: EntryQueue | None = None
    found: list[tuple[QueueEntry, _T]] = []
    for item in items:
        if item[0].queue is not last:
            last = item[0].queue
            found = answer.setdefault(last, [])
        found.append(item)
    return answer


def merged_tags(earlier: ClientTags, later: ClientTags) -> ClientTags:
    """Return the later tags of a client, with the earlier one where the later one is None."""
    return replace(later, request=later.request or earlier.request, reply=later.reply or earlier.reply)


UnitId = NewType("UnitId", str)


class UnitOfWork:
    """The sends and acknowledgements of one local transaction, or of one branch of a distributed one."""

    __slots__ = (
        "_acknowledged",
        "_duplicates",
        "_in_doubt",
        "_lock",
        "_sent",
        "_session",
        "_settled",
        "_settled_in",
        "_state",
        "client_changes",
        "expired_rolls_back",
        "tags",
        "unit_id",
    )

    def __init__(self, unit_id: UnitId, session: ConsumerSession, *, expired_rolls_back: bool = True) -> None:
        self.unit_id = unit_id
        self.expired_rolls_back = expired_rolls_back
        """Whether a message that expires before the commit rolls all back (True), or is merely left out."""
        self._session = session
        self._lock = Lock()
        self._state = UnitState.OPEN
        self._sent: list[QueueEntry] = []
        self._settled: list[tuple[QueueEntry, int]] = []
        self._acknowledged: list[tuple[QueueEntry, ReceiverId]] = []
        self._settled_in: Sequence[EntryQueue] = ()
        """The queues where its commit has settled messages, until their consumers have been woken."""
        self._duplicates: list[DuplicateClaim] = []
        self.tags: ClientTags | None = None
        """The tags of its registered client."""
        self.client_changes: ClientChanges | None = None
        """The record with these tags, once its commit or prepare has begun."""
        self._in_doubt: UnitChanges | None = None
        """The changes that may have been written, once the write was begun."""

    def __str__(self) -> str:
        return f"transaction {self.unit_id}"

    @property
    def state(self) -> UnitState:
        """The state of the unit."""
        return self._state

    @property
    def is_committing(self) -> bool:
        """Whether the unit is being written, so that its messages must be left alone. Read without the lock."""
        return self._state is UnitState.COMMITTING

    @property
    def is_prepared(self) -> bool:
        """Whether a coordinator decides, so that not even expiry changes its messages. Read without the lock."""
        return self._state is UnitState.PREPARED

    @property
    def is_empty(self) -> bool:
        """Whether it has never had a message or tags: a unit that lost a message to expiry is not empty."""
        with self._lock:
            nothing = not (self._sent or self._settled or self._acknowledged or self.tags)
            return nothing and self._state is UnitState.OPEN

    @property
    def size(self) -> tuple[int, int]:
        """How many messages it has sent, and how many it has received."""
        with self._lock:
            return len(self._sent), len(self._settled) + len(self._acknowledged)

    @property
    def _has_ended(self) -> bool:
        """Whether it accepts no more. The lock is held."""
        return self._state is not UnitState.OPEN and self._state is not UnitState.INCOMPLETE

    def held_in(self, queue: EntryQueue) -> tuple[int, int]:
        """Return how many messages of a queue, and of what total size, leave it at the end of the unit at the earliest."""
        with self._lock:
            entries = [*self._sent, *(entry for entry, _ in self._settled)]
        # Expired ones have left already.
        sizes = [
            entry.reference.size for entry in entries if entry.queue is queue and entry.state is not MessageState.ABSENT
        ]
        return len(sizes), sum(sizes)

    def add_sent(self, entry: QueueEntry) -> bool:
        """Add a NOT_COMMITTED message; return False if the unit has ended and the message must go."""
        with self._lock:
            # The timer or a closing session may have ended the unit while the message was being sent.
            if self._has_ended:
                return False
            self._sent.append(entry)
            return True

    def add_duplicate(self, claim: DuplicateClaim) -> None:
        """Add the producer's duplicate id of a message, which is confirmed when the unit commits. May be repeated at once."""
        with self._lock:
            if not self._has_ended:
                if self._duplicates[-1:] != [claim]:
                    self._duplicates.append(claim)
                return
        # Without the unit's lock; the id must not stay claimed, or the producer could never send the message again.
        claim.end(arrived=False)

    def tag(self, tags: ClientTags) -> None:
        """Set the tags of its registered client; one that is None keeps an earlier call's. Raises `RegistrationError` for a second client."""
        with self._lock:
            if self._has_ended:
                return
            known = self.tags
            if known is None or known.name == tags.name:
                self.tags = tags if known is None else merged_tags(known, tags)
                return
        raise RegistrationError(
            f"{self} has tags of client {known.name!r}, so it cannot have those of {tags.name!r}: commit first"
        )

    def add_settled(self, settled: Sequence[tuple[QueueEntry, int]]) -> None:
        """Add the acknowledgements of pulled messages, each with the number of its delivery."""
        with self._lock:
            if not self._has_ended:
                self._settled += settled

    def add_acknowledgement(self, entry: QueueEntry, receiver_id: ReceiverId) -> None:
        """Add the acknowledgement of a message that was pushed to `receiver_id`."""
        with self._lock:
            if not self._has_ended:
                self._acknowledged.append((entry, receiver_id))

    def commit(self, now_ms: int, journal: Journal | None = None, *, force_acknowledgements: bool = False) -> None:
        """Write and apply the unit. Raises `RolledBackError` when it was rolled back instead, `InDoubtError`."""
        self.begin_commit(now_ms)
        self.finish_commit(journal, force_acknowledgements=force_acknowledgements)

    def begin_commit(self, now_ms: int, *, for_stage: bool = False) -> None:
        """Do the first half of `commit` or `stage`: from then on no other thread can end the unit. Does not wait.

        A session calls this under its lock, so that a concurrent close releases either none or all of the messages that the session
        acknowledged. `for_stage`: expired messages are left out, and the rest is staged; a repeated attempt sends the same messages, and
        would find the same one expired each time. Raises `RolledBackError`.
        """
        with self._lock:
            if for_stage:
                self._end(UnitEvent.STAGE)
                if self._state is not UnitState.COMMITTING:
                    raise RolledBackError(
                        f"transaction {self.unit_id} was rolled back: a message expired in it, which also received, or its session was closed"
                    )
                return
            # Checked under the lock: the expiry thread finds the unit either OPEN or COMMITTING, and leaves the latter alone.
            may_expire = [entry.reference for entry in self._sent if entry.reference.expiration_ms]
            if self.expired_rolls_back and any(is_expired(reference, now_ms) for reference in may_expire):
                self._end(UnitEvent.EXPIRE)
            self._end(UnitEvent.COMMIT)
            if self._state is not UnitState.COMMITTING:
                raise RolledBackError(
                    f"transaction {self.unit_id} was rolled back: a message in it expired before the commit, "
                    f"or its session was closed; give messages a longer time to live, or commit sooner"
                )

    def finish_commit(
        self, journal: Journal | JoinedTransaction | None, *, force_acknowledgements: bool = False
    ) -> None:
        """Do the second half: write, settle, and make the messages available. Waits for the journal.

        Raises `RolledBackError` when the journal refused, `InDoubtError` when the outcome is unknown.
        """
        if journal is not None:
            # Without the lock: the unit is COMMITTING, so no other thread changes its messages.
            written = changes_of(self._sent, [*self._settled, *self._final_acknowledgements()])
            if written is None and (isinstance(journal, JoinedTransaction) or self.client_changes is not None):
                written = UnitChanges(Changes())  # the application's part, or the client's tags
            if written is not None:
                changes = written.changes
                changes.clients = self.client_changes
                # Marked now and not at the send, so that serials are in the order of commits (decision 0124).
                changes.duplicates = self.duplicate_marks()
                # A commit that adds messages is forced; one that only acknowledges
                # survives the process, as other acknowledgements do.
                adds = any(message.reference.reliable for message in changes.messages)
                force = adds or changes.clients is not None or force_acknowledgements
                self._write(journal, written, force=force)
            elif not isinstance(journal, JoinedTransaction) and not journal.is_held:
                # Messages to topics without subscriptions: another broker that holds the store may have durable ones.
                self._confirm(journal)
        self._make_true(UnitEvent.WRITTEN)

    def _final_acknowledgements(self) -> list[tuple[QueueEntry, int]]:
        """Return the pushed messages that its acknowledgements settle: no other receiver owes one."""
        given: dict[QueueEntry, set[ReceiverId]] = {}
        for entry, receiver_id in self._acknowledged:
            given.setdefault(entry, set()).add(receiver_id)
        return [(entry, entry.delivery_count) for entry, receivers in given.items() if entry.outstanding <= receivers]

    def prepare(self, xid: Xid, now_ms: int, journal: Journal) -> None:
        """Store it as a prepared branch, which only `decide` ends. Waits for the journal.

        Raises `RolledBackError` when it was rolled back instead, `InDoubtError` when it was, and may be in the store nevertheless.
        """
        self.begin_commit(now_ms)
        self.finish_prepare(xid, now_ms, journal)

    def finish_prepare(self, xid: Xid, now_ms: int, journal: Journal, heir: ConsumerSession | None = None) -> None:
        """Do the second half of `prepare`; `begin_commit` was called. Raises as `prepare`.

        `heir`: takes the received messages over from the session; after `RolledBackError` they stay with that.
        """
        written = prepared_changes(self._sent, self._settled, xid, now_ms)
        written.changes.clients = self.client_changes
        self._write_promise(journal, written, heir)

    def stage(self, record: StageRecord, journal: Journal | None) -> None:
        """Store its sent messages as a staged unit, which only `decide` ends; `begin_commit` was called.

        All messages are stored, NON_PERSISTENT ones too: the unit is promoted as a whole. Waits for the journal. Raises as
        `prepare`.
        """
        written = None if journal is None else staged_changes(self._sent, self._settled, record)
        self._write_promise(journal, written)

    def _write_promise(
        self, journal: Journal | None, written: UnitChanges | None, heir: ConsumerSession | None = None
    ) -> None:
        """Store it until `decide`; if that fails, no promise was made, and it is rolled back."""
        if journal is not None and written is not None:
            try:
                self._write(journal, written, force=True)
            except Exception:
                with self._lock:
                    # A refused write has ended it already; after any other error
                    # no promise was made, so it is rolled back.
                    if self._state is UnitState.COMMITTING:
                        self._change_holder(heir)
                        self._end(UnitEvent.REFUSED)
                raise
        with self._lock:
            # While it is COMMITTING: a session that closes leaves its messages alone.
            self._change_holder(heir)
            self._end(UnitEvent.KEPT)

    def _change_holder(self, heir: ConsumerSession | None) -> None:
        """Transfer the received messages to `heir`; None: they stay. The lock is held."""
        if heir is None:
            return
        for entry, delivery_count in self._settled:
            heir.take_queue(entry.queue)
            entry.queue.change_holder(entry, delivery_count, self._session, heir)
        self._session = heir

    # In doubt: COMMITTING, after `finish_commit` was not answered

    @property
    def is_in_doubt(self) -> bool:
        """Whether it is unknown if its commit was written, or has taken effect. For the thread that has tried the commit."""
        return self._in_doubt is not None and self._state is UnitState.COMMITTING

    @property
    def may_be_written(self) -> bool:
        """Whether its write was begun. For the thread that has tried it."""
        return self._in_doubt is not None

    def was_not_written(self) -> None:
        """Record that its changes are in no store, so that `end_unwritten` may end it."""
        self._in_doubt = None

    def end_unwritten(self) -> None:
        """End it without effect if its commit was begun, and failed before the write. May be repeated."""
        # After a write of unknown outcome the store has to be asked first.
        if self._in_doubt is None:
            self._refuse()

    def withdraw(self) -> Changes | None:
        """End it without effect, and return the changes that withdraw it from the journal; None: it has received messages, so the store must be asked."""
        changes = self.changes
        if changes.removals:
            return None
        self._refuse()
        return changes.withdrawal()

    @property
    def changes(self) -> Changes:
        """The changes that may have been written."""
        assert self._in_doubt is not None
        return self._in_doubt.changes

    def end_doubt(self, now_ms: int, *, is_written: bool) -> None:
        """Apply it, or release its received messages; as `InDoubtWrite`."""
        if is_written:
            # Before `_make_true`, which empties the unit.
            expiring = {entry.queue for entry in self._sent if entry.reference.expiration_ms}
            assert self._in_doubt is not None
            # Before messages are visible: journaled messages may then leave memory without another write.
            self._in_doubt.mark_written()
            self._make_true(UnitEvent.WRITTEN)
            for queue in expiring:
                queue.run_due(now_ms)  # while it was in doubt, expiry left it alone
        else:
            self._refuse()

    def _refuse(self) -> None:
        """End it without effect if it is COMMITTING, and release its received messages: its client was told that the outcome is unknown."""
        with self._lock:
            if self._state is not UnitState.COMMITTING:
                return
            settled = self._settled
            self._end(UnitEvent.REFUSED)
        # Outside of the unit's lock, as queues wake consumers.
        for queue, received in by_queue(settled).items():
            queue.give_back(received, self._session)

    def restore_prepared(self) -> None:
        """Become a prepared branch again, whose messages have been added from the journal; before any client uses it."""
        with self._lock:
            self._end(UnitEvent.COMMIT)
            self._end(UnitEvent.KEPT)

    def decide(self, *, commit: bool) -> None:
        """End a prepared branch whose outcome is written. May be repeated."""
        if commit:
            self._make_true(UnitEvent.DECIDE_COMMIT)
            return
        with self._lock:
            # ROLLBACK does nothing to a unit that has ended, so the call may be repeated.
            self._end(UnitEvent.DECIDE_ROLLBACK if self._state is UnitState.PREPARED else UnitEvent.ROLLBACK)

    def duplicate_marks(self) -> list[DuplicateMark]:
        """Return the marks to be written together with its commit, which begins now."""
        with self._lock:
            marks = [claim.mark_commit() for claim in self._duplicates]
        return [mark for mark in marks if mark is not None]

    def sent(self) -> list[QueueEntry]:
        """Return its sent messages."""
        with self._lock:
            return list(self._sent)

    def queues(self) -> set[EntryQueue]:
        """Return the queues of its sent and received messages."""
        with self._lock:
            entries = (*self._sent, *(entry for entry, _ in (*self._settled, *self._acknowledged)))
            return {entry.queue for entry in entries}

    def _make_true(self, event: UnitEvent) -> None:
        with self._lock:
            # Taken before `_end` empties the unit. Its lock is released before consumers are woken.
            sent = self._sent
            # A repeated call follows an error while consumers were woken: the effects are there already.
            if self._state is not UnitState.COMMITTED:
                self._end(event)
            settled_in, self._settled_in = self._settled_in, ()
        for queue, entries in entries_by_queue(sent).items():
            queue.commit(entries)  # in the order sent (§9.2); consumers are woken
        for queue in settled_in:
            queue.wake_freed()

    def _write(self, journal: Journal | JoinedTransaction, written: UnitChanges, *, force: bool) -> None:
        # Before the write, so that after any error the changes that may be in the store are known.
        self._in_doubt = written
        try:
            journal.write(written.changes, force=force)
        # The unit stays COMMITTING until the store has answered; any other error of the journal ends it here.
        except InDoubtError:
            raise
        except ProviderError as error:
            raise self._refused(error) from error
        # Before `_make_true`: once its queue has a message, it may be released, which checks whether it is journaled.
        written.mark_written()

    def _confirm(self, journal: Journal) -> None:
        try:
            journal.confirm()
        except ProviderError as error:  # an `InDoubtError`, too: there is nothing to write
            raise self._refused(error) from error

    def _refused(self, error: ProviderError) -> RolledBackError:
        with self._lock:
            settled = self._settled
            self._end(UnitEvent.REFUSED)
        if self._session.is_closed:  # it has released its other messages
            for queue in by_queue(settled):
                queue.give_back_all(self._session)
        return RolledBackError(
            f"transaction {self.unit_id} was rolled back, as it could not be written: {error.reason}"
        )

    def rollback(self) -> None:
        """Roll it back. May be repeated."""
        with self._lock:
            self._end(UnitEvent.ROLLBACK)

    def expire(self) -> None:
        """Prevent its commit, as a message in it expired (§5.1.3); the session gets the error when it commits."""
        with self._lock:
            # A unit that only sends can still be staged without the message (decision 0172).
            has_received = bool(self._settled or self._acknowledged)
            self._end(UnitEvent.EXPIRE if has_received else UnitEvent.LOSE_ONE)

    def _end(self, event: UnitEvent) -> None:
        """Change state, and settle or drop its messages. The lock is held.

        Acknowledgements take effect here, so that a concurrent close of the session releases either none or
        all of the messages that it acknowledged.
        """
        before = self._state
        after = UNIT_TRANSITIONS[before, event]
        if after is not UnitState.COMMITTED:
            self._state = after
        if before is after is UnitState.COMMITTED:
            return
        if after in (UnitState.OPEN, UnitState.INCOMPLETE, UnitState.COMMITTING, UnitState.PREPARED):
            return
        if after is UnitState.COMMITTED:
            # The state follows the effects: a concurrent close of the session leaves COMMITTING units alone, and would
            # release the messages of a COMMITTED one that are not yet settled.
            settled_in = by_queue(self._settled)
            self._settled_in = tuple(settled_in)
            for queue, settled in settled_in.items():
                queue.settle_committed(settled, self._session)
            for queue, acknowledged in by_queue(self._acknowledged).items():
                queue.apply_acknowledgements(acknowledged)
        else:
            for entry in self._sent:
                entry.queue.rollback(entry)
            for entry, _ in (*self._settled, *self._acknowledged):
                entry.queue.drop_acknowledgement(entry, self)
        for claim in self._duplicates:
            claim.end(arrived=after is UnitState.COMMITTED)
        self._duplicates = []
        self._sent = []
        self._settled = []
        self._acknowledged = []
        self._state = after


_log = logging.getLogger(__name__)


class OpenTransaction:
    """One transaction, from the first message that is sent or received in it to its end."""

    __slots__ = ("deadline_ms", "on_over")

    def __init__(self, deadline_ms: float, on_over: Callable[[OpenTransaction], None]) -> None:
        self.deadline_ms = deadline_ms
        """In monotonic milliseconds."""
        self.on_over = on_over
        """Called without a lock, once, when its time is over; the transaction may just have ended."""


class TimeLimit:
    """The open transactions of one host. Safe to use from any thread."""

    def __init__(self, clock: Clock, timeout_ms: int, schedule: Callable[[TimeLimit, int], None] | None) -> None:
        """`timeout_ms` 0: there is no limit. `schedule` asks for a call of `run_due`, as in `Queue`."""
        self.timeout_ms = timeout_ms
        self._clock = clock
        self._schedule = schedule
        self._lock = Lock()
        self._open: dict[OpenTransaction, None] = {}  # the oldest first
        self._is_visit_planned = False

    def begin(self, on_over: Callable[[OpenTransaction], None]) -> OpenTransaction:
        """Note that a transaction has begun."""
        with self._lock:
            transaction = OpenTransaction(self._clock.monotonic_ms() + self.timeout_ms, on_over)
            self._open[transaction] = None
            # The first open transaction schedules a call; `run_due` schedules the next, so later ones need not.
            asks, self._is_visit_planned = not self._is_visit_planned, True
        # Without the lock: the timer has one of its own.
        if asks and self._schedule is not None:
            self._schedule(self, self._clock.time_ms() + self.timeout_ms)
        return transaction

    def end(self, transaction: OpenTransaction) -> None:
        """Forget a transaction that has ended. May be repeated."""
        with self._lock:
            self._open.pop(transaction, None)

    def exceeded(self) -> RolledBackError:
        """Return the error for a client that commits too late."""
        return RolledBackError(
            f"the transaction was rolled back, as it was open for more than {self.timeout_ms} ms: commit sooner, or let the "
            f"broker's owner raise transaction_timeout"
        )

    def run_due(self, now_ms: int) -> int | None:
        """End the transactions whose time is over; return when to call again, None: when asked."""
        monotonic_ms = self._clock.monotonic_ms()
        over: list[OpenTransaction] = []
        with self._lock:
            for transaction in self._open:
                # All have the same time limit, so they are sorted by their deadlines.
                if transaction.deadline_ms > monotonic_ms:
                    break
                over.append(transaction)
            for transaction in over:
                del self._open[transaction]
            first = next(iter(self._open), None)
            self._is_visit_planned = first is not None
        # Without the lock: the rollback takes locks of sessions, which come first, and wakes consumers.
        for transaction in over:
            transaction.on_over(transaction)
        if over:
            _log.warning("PYJMS-BROKER-14 %d transactions were rolled back, as their time was over", len(over))
        return None if first is None else now_ms + max(1, round(first.deadline_ms - monotonic_ms))
