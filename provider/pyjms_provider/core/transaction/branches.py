"""The branches of distributed transactions at one broker, for coordinators and for operators (X/Open XA; JMS 1.1 §8).

*Coordinators* start, end, prepare and settle branches through sessions; the session of a call matters only for
the work itself. A prepared branch is in doubt until its coordinator decides: it survives the broker's death.

*Operators* see the branches in doubt, and may decide when the coordinator will not come back. Such a decision is heuristic:
it is remembered until the coordinator has been told, and has forgotten the branch.

Locks: the one lock guards the table, and the state and workers of a branch; it is held for a few steps, never
while messages move, consumers are woken, or a journal writes. The states PREPARING, COMMITTING and SETTLING keep other calls
away meanwhile. It is taken without another lock held, and no lock but a unit's is taken under it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, NoReturn

from pyjms.spi.errors import BranchError, CapabilityError, ClosedError, InDoubtError, ProviderError, RolledBackError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.core.journal.in_doubt_writes import is_outcome_unknown
from pyjms_provider.core.journal.journal import BranchOutcome, Changes
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.queue.consumer import ConsumerSession
from pyjms_provider.core.queue.recovery import restore_message
from pyjms_provider.core.state_machine import StateMachine
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.core.host.admission import DuplicateClaim
    from pyjms_provider.core.journal.in_doubt_writes import InDoubtWrites
    from pyjms_provider.core.journal.journal import Journal
    from pyjms_provider.core.message.entry import QueueEntry
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store import MessageStore
    from pyjms_provider.core.transaction.registered_clients import RegisteredClients

# The states of a branch of a distributed transaction, as a table (X/Open XA, table 6-4: state of a branch).
# The values name the states of XA. Where a journal is written between, one call of XA has two halves here: PREPARING,
# COMMITTING and SETTLING keep all other calls away meanwhile.
# Elsewhere by intent: whether a session may start, suspend or end (XA's table 6-3; `branches.py`), and the work of a branch
# (`unit_of_work.py`).


class BranchState(Enum):
    """The states of a branch that has been started."""

    ACTIVE = "a session works in it (XA: Active)"
    SUSPENDED = "no session works in it, and one that did will go on (XA: Active, with its association suspended)"
    IDLE = "all work in it has ended (XA: Idle)"
    ROLLBACK_ONLY = "its work is undone; its coordinator does not know yet (XA: Rollback Only)"
    PREPARING = "it is being written as prepared"
    PREPARED = "it is kept, and in doubt until its coordinator decides (XA: Prepared)"
    COMMITTING = "it is being written as committed, in one phase"
    SETTLING = "the decision about it is being written"
    COMMITTED = "it has taken effect (XA: Non-existent Transaction)"
    ROLLED_BACK = "it has had no effect (XA: Non-existent Transaction)"
    HEURISTICALLY_COMMITTED = (
        "an operator has committed it; its coordinator does not know yet (XA: Heuristically Completed)"
    )
    HEURISTICALLY_ROLLED_BACK = (
        "an operator has rolled it back; its coordinator does not know yet (XA: Heuristically Completed)"
    )
    FORGOTTEN = "its coordinator knows what the operator did (XA: Non-existent Transaction)"
    LOST = "nobody knows whether it was written as committed; the next start of the broker will tell"


class BranchEvent(Enum):
    """An event of a branch."""

    WORK = "a session begins or resumes work, or another one that works remains"
    SUSPEND = "no session works in it any more, and one has suspended its work"
    END = "the last session has ended its work"
    DOOM = "it can only be rolled back: its work failed, its time is over, or a session that worked in it was closed"
    PREPARE = "its coordinator asks for the promise"
    PREPARE_NOTHING = "the same, of a branch that has done nothing"
    COMMIT_AT_ONCE = "its coordinator commits in one phase"
    ROLLBACK = "its coordinator rolls it back, or it is forgotten after nobody asked"
    SETTLE = "its coordinator, or an operator, decides about what is prepared"
    WRITTEN = "the journal has it as prepared, or as committed in one phase"
    REFUSED = "the journal could not take it"
    LOSE = "the journal does not know whether it has it"
    COMMIT_WRITTEN = "the journal has the coordinator's decision"
    ROLLBACK_WRITTEN = "the journal has the coordinator's other decision"
    HEURISTIC_COMMIT_WRITTEN = "the journal has the operator's decision"
    HEURISTIC_ROLLBACK_WRITTEN = "the journal has the operator's other decision"
    FORGET = "its coordinator has been told what the operator did"


_STATE = BranchState
_EVENT = BranchEvent

_HEURISTIC_FAILURE: Final = {
    _STATE.HEURISTICALLY_COMMITTED: BranchFailure.HEURISTICALLY_COMMITTED,
    _STATE.HEURISTICALLY_ROLLED_BACK: BranchFailure.HEURISTICALLY_ROLLED_BACK,
}
_DECISIONS = frozenset({_EVENT.SETTLE, _EVENT.ROLLBACK, _EVENT.COMMIT_AT_ONCE})
_BEING_WRITTEN = frozenset({_STATE.PREPARING, _STATE.COMMITTING, _STATE.SETTLING})


class _BranchMachine(StateMachine[BranchState, BranchEvent]):
    """Raises, for a missing pair, the XA error that tells the application's coordinator the reason."""

    def __missing__(self, pair: tuple[BranchState, BranchEvent]) -> NoReturn:
        state, event = pair
        failure = _HEURISTIC_FAILURE.get(state) if event in _DECISIONS else None
        if failure is not None:
            raise BranchError(f"{state.value}: call forget when that is noted", failure)
        # The coordinator may know nothing of its earlier call, as it lost the connection.
        if state in _BEING_WRITTEN and (event in _DECISIONS or event is _EVENT.PREPARE):
            raise BranchError(
                f"{state.value}, as an earlier call asked: wait a moment, and call again", BranchFailure.UNREACHABLE
            )
        raise BranchError(f"the call came at a wrong time: {event.value}, but {state.value}", BranchFailure.PROTOCOL)


BRANCH_TRANSITIONS: Final = _BranchMachine(
    "a branch",
    {
        _STATE.ACTIVE: {
            _EVENT.WORK: _STATE.ACTIVE,
            _EVENT.SUSPEND: _STATE.SUSPENDED,
            _EVENT.END: _STATE.IDLE,
            _EVENT.DOOM: _STATE.ROLLBACK_ONLY,
        },
        _STATE.SUSPENDED: {
            _EVENT.WORK: _STATE.ACTIVE,
            _EVENT.SUSPEND: _STATE.SUSPENDED,
            _EVENT.END: _STATE.IDLE,
            _EVENT.DOOM: _STATE.ROLLBACK_ONLY,
        },
        _STATE.IDLE: {
            _EVENT.WORK: _STATE.ACTIVE,
            _EVENT.DOOM: _STATE.ROLLBACK_ONLY,
            _EVENT.PREPARE: _STATE.PREPARING,
            _EVENT.PREPARE_NOTHING: _STATE.COMMITTED,
            _EVENT.COMMIT_AT_ONCE: _STATE.COMMITTING,
            _EVENT.ROLLBACK: _STATE.ROLLED_BACK,
        },
        _STATE.ROLLBACK_ONLY: {
            _EVENT.SUSPEND: _STATE.ROLLBACK_ONLY,
            _EVENT.WORK: _STATE.ROLLBACK_ONLY,
            _EVENT.END: _STATE.ROLLBACK_ONLY,
            _EVENT.DOOM: _STATE.ROLLBACK_ONLY,
            _EVENT.ROLLBACK: _STATE.ROLLED_BACK,
        },
        _STATE.PREPARING: {
            _EVENT.WRITTEN: _STATE.PREPARED,
            _EVENT.REFUSED: _STATE.ROLLBACK_ONLY,
        },
        _STATE.PREPARED: {
            _EVENT.SETTLE: _STATE.SETTLING,
        },
        _STATE.COMMITTING: {
            _EVENT.WRITTEN: _STATE.COMMITTED,
            _EVENT.REFUSED: _STATE.ROLLED_BACK,
            _EVENT.LOSE: _STATE.LOST,
        },
        _STATE.SETTLING: {
            _EVENT.COMMIT_WRITTEN: _STATE.COMMITTED,
            _EVENT.ROLLBACK_WRITTEN: _STATE.ROLLED_BACK,
            _EVENT.HEURISTIC_COMMIT_WRITTEN: _STATE.HEURISTICALLY_COMMITTED,
            _EVENT.HEURISTIC_ROLLBACK_WRITTEN: _STATE.HEURISTICALLY_ROLLED_BACK,
            _EVENT.REFUSED: _STATE.PREPARED,
        },
        _STATE.HEURISTICALLY_COMMITTED: {
            _EVENT.FORGET: _STATE.FORGOTTEN,
        },
        _STATE.HEURISTICALLY_ROLLED_BACK: {
            _EVENT.FORGET: _STATE.FORGOTTEN,
        },
    },
)
"""All transitions. Any other pair raises the XA error that fits."""


# One branch of a distributed transaction: a unit of work that several sessions may share, and that outlives them.


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchReport:
    """A branch, as operators see it."""

    xid: Xid
    state: BranchState
    prepared_ms: int | None
    """When it was prepared, in milliseconds since 1970 UTC; None: it is not."""
    sent: int
    """How many messages it adds to queues and subscriptions."""
    received: int
    """How many messages it removes."""


class Branch:
    """A branch and its work. Its fields are guarded by the lock of `Branches`.

    Messages that sessions received are transferred to `holder`, so that they stay held when the sessions are closed.
    """

    __slots__ = (
        "deadline_ms",
        "decision",
        "failure",
        "holder",
        "notes",
        "prepared_ms",
        "state",
        "unit",
        "workers",
        "xid",
    )

    def __init__(self, xid: Xid, *, expired_rolls_back: bool, unit: UnitOfWork | None = None) -> None:
        """`unit`: a local transaction that becomes the branch as it is prepared; None: sessions will work in the branch."""
        self.xid = xid
        self.state = BranchState.ACTIVE if unit is None else BranchState.PREPARING
        # A session of the branch's own, which no client closes:
        # messages that the branch received outlive the sessions that worked in it.
        self.holder = ConsumerSession(ReceiverId(f"branch {xid}"), is_delivering=False)
        self.unit = unit or UnitOfWork(UnitId(f"branch {xid}"), self.holder, expired_rolls_back=expired_rolls_back)
        self.workers: dict[ConsumerSession, bool] = {}
        """The sessions that have not ended their work: True, or False for one that suspended it."""
        self.deadline_ms: float | None = None
        """When its time is over, in monotonic milliseconds; None: never."""
        self.prepared_ms: int | None = None
        self.failure = BranchFailure.ROLLED_BACK
        """The reason why it can only be rolled back, if so."""
        self.notes: frozenset[str] = frozenset()
        """What those who work in it have noted for its coordinator."""
        self.decision: bool | None = None
        """The decision, commit or not, that may have been written, as its write was not answered."""

    def step(self, event: BranchEvent) -> None:
        """Change state. Raises `BranchError` for a forbidden event."""
        self.state = BRANCH_TRANSITIONS[self.state, event]

    def follow_workers(self) -> None:
        """Change state after a session has begun, suspended or ended its work."""
        if any(self.workers.values()):
            self.step(BranchEvent.WORK)
        elif self.workers:
            self.step(BranchEvent.SUSPEND)
        else:
            self.step(BranchEvent.END)

    def check_alive(self) -> None:
        """Raise `BranchError` if it can only be rolled back."""
        if self.state is BranchState.ROLLBACK_ONLY:
            raise self.rolled_back()

    def rolled_back(self) -> BranchError:
        """Return the error for a branch that can only be rolled back."""
        why = (
            "its time was over before it was prepared: set a longer timeout, or prepare sooner"
            if self.failure is BranchFailure.TIMED_OUT
            else "its work failed, could not be kept, or its session was closed"
        )
        return BranchError(f"branch {self.xid} was rolled back: {why}", self.failure)

    def report(self) -> BranchReport:
        """Return the branch as operators see it."""
        sent, received = self.unit.size
        return BranchReport(xid=self.xid, state=self.state, prepared_ms=self.prepared_ms, sent=sent, received=received)

    # Work. No lock is held.

    def take(self, entry: QueueEntry, delivery_count: int, session: ConsumerSession) -> bool:
        """Receive in the branch a message that `session` pulled; return False if the session no longer holds that delivery.

        If the branch has ended, the message is released at once, as one that was received before.
        """
        queue = entry.queue
        with suppress(ClosedError):
            # Recorded before the message is transferred, so that a concurrent `undo` releases it.
            self.holder.take_queue(queue)
            queue.change_holder(entry, delivery_count, session, self.holder)
            if queue.settle_in(self.unit, [(entry, delivery_count)], self.holder):
                return True
        # The branch is open, so the session no longer held the delivery: nothing is to be released.
        if not self.holder.is_closed:
            return False
        queue.give_back([(entry, delivery_count)], session)
        return True

    def undo(self) -> None:
        """Drop its sent messages, and release the received ones, marked redelivered. May be repeated."""
        self.unit.rollback()
        self.holder.close()

    def decide(self, *, commit: bool, now_ms: int) -> None:
        """End a prepared branch whose outcome is written. May be repeated."""
        # Before the decision, which empties the unit.
        expiring = {entry.queue for entry in self.unit.sent() if entry.reference.expiration_ms}
        try:
            self.unit.decide(commit=commit)
            self.holder.close()
        finally:
            for queue in expiring:
                queue.run_due(now_ms)  # while it was prepared, expiry left it alone


_log = logging.getLogger(__name__)

DEFAULT_TIMEOUT_MS: Final = 300_000
NEEDS_STORE: Final = (
    "a broker has it when its URL names a store that survives it, as in vm://shop?store=sqlite:///shop.db"
)

_DECIDED: Final = {
    (True, False): BranchEvent.COMMIT_WRITTEN,
    (False, False): BranchEvent.ROLLBACK_WRITTEN,
    (True, True): BranchEvent.HEURISTIC_COMMIT_WRITTEN,
    (False, True): BranchEvent.HEURISTIC_ROLLBACK_WRITTEN,
}
"""By commit and heuristic."""
_HEURISTIC: Final = {
    BranchState.HEURISTICALLY_COMMITTED: True,
    BranchState.HEURISTICALLY_ROLLED_BACK: False,
}
_IN_DOUBT: Final = (BranchState.PREPARED, BranchState.SETTLING, *_HEURISTIC)
_TIMED: Final = (BranchState.ACTIVE, BranchState.SUSPENDED, BranchState.IDLE)


class Branches:
    """The table of branches. Safe to use from any thread."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        journal: Journal | None,
        *,
        clients: RegisteredClients | None = None,
        in_doubt_writes: InDoubtWrites | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        expired_rolls_back: bool = True,
        schedule: Callable[[Branches, int], None] | None = None,
    ) -> None:
        """Make an empty table.

        `journal` None: there can be no branches. `clients`, `in_doubt_writes`: of its host; without `clients` branches have no tags. `timeout_ms`: a branch that is not prepared is rolled back after this time,
        unless its session has set another one; 0: never. `schedule` asks for a call of `run_due`, as in
        `Queue`.
        """
        self._store = store
        self._clock = clock
        # Without a journal that survives, a prepared branch would be a promise that the broker cannot keep.
        self._journal = journal if journal is not None and journal.is_reliable else None
        self._clients = clients
        self._in_doubt_writes = in_doubt_writes
        self.timeout_ms = timeout_ms
        self._expired_rolls_back = expired_rolls_back
        self._schedule = schedule
        self._lock = Lock()
        self._branches: dict[Xid, Branch] = {}
        self._due_ms: float | None = None

    @property
    def are_kept(self) -> bool:
        """Whether prepared branches would survive, so that there can be branches."""
        return self._journal is not None

    # Work in a branch

    def start(self, xid: Xid, worker: ConsumerSession, *, timeout_ms: int | None = None) -> Branch:
        """Begin a branch in which `worker` works; `timeout_ms` None: the default. Raises `BranchError`."""
        self._need_journal()
        branch = Branch(xid, expired_rolls_back=self._expired_rolls_back)
        # Before it is in the table: a session that closes at this moment finds its branch by this (`abandon`).
        branch.workers[worker] = True
        timeout_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        with self._lock:
            self._add(branch, "start it with TMJOIN to work in it")
            due = bool(timeout_ms) and self._set_deadline(branch, timeout_ms)
        if due:
            self._ask(timeout_ms)
        return branch

    def join(self, xid: Xid, worker: ConsumerSession) -> Branch:
        """Let `worker` work in an existing branch. Raises `BranchError`."""
        with self._lock:
            branch = self._find(xid)
            # The table allows a doomed branch until its sessions end, so this check refuses new work.
            branch.check_alive()
            if worker in branch.workers:
                raise BranchError(f"the session works in branch {xid} already, or has suspended it: use TMRESUME")
            branch.step(BranchEvent.WORK)
            branch.workers[worker] = True
        return branch

    def resume(self, xid: Xid, worker: ConsumerSession) -> Branch:
        """Let `worker` continue in a branch that it suspended. Raises `BranchError`."""
        with self._lock:
            branch = self._find(xid)
            if branch.workers.get(worker) is not False:
                raise BranchError(f"the session has not suspended branch {xid}: use TMJOIN to work in it")
            branch.check_alive()
            branch.step(BranchEvent.WORK)
            branch.workers[worker] = True
        return branch

    def suspend(self, xid: Xid, worker: ConsumerSession) -> None:
        """Suspend the work of `worker` until `resume`. Raises `BranchError`; its work has ended then."""
        with self._lock:
            branch = self._find(xid)
            if not branch.workers.get(worker):
                raise BranchError(f"the session does not work in branch {xid} now, so it cannot suspend that")
            # X/Open XA, xa_end: an answer of XA_RB ends the session's work in the branch, too.
            if branch.state is BranchState.ROLLBACK_ONLY:
                del branch.workers[worker]
                raise branch.rolled_back()
            branch.workers[worker] = False
            branch.follow_workers()

    def end(self, xid: Xid, worker: ConsumerSession, *, fail: bool = False) -> None:
        """End the work of `worker`; `fail`: the branch can only be rolled back. Raises `BranchError`; it has ended then."""
        with self._lock:
            branch = self._find(xid)
            if worker not in branch.workers:
                raise BranchError(f"the session has not started branch {xid}, or has ended it")
            # Read before `fail` dooms it: an end that fails the branch is no error of its own.
            was_doomed = branch.state is BranchState.ROLLBACK_ONLY
            if fail:
                self._doom(branch, BranchFailure.ROLLED_BACK)
            del branch.workers[worker]
            branch.follow_workers()
        if was_doomed:
            raise branch.rolled_back()
        if fail:
            # Without the lock, as consumers are woken.
            branch.undo()

    def note(self, xid: Xid, notes: Iterable[str]) -> frozenset[str]:
        """Add notes to a branch that is not prepared; return all of them. Raises `BranchError`."""
        added = frozenset(notes)
        with self._lock:
            branch = self._find(xid)
            if added:
                branch.check_alive()
            if branch.state not in (*_TIMED, BranchState.ROLLBACK_ONLY):
                raise BranchError(
                    f"the notes of a branch are those of its work, but {branch.state.value}",
                    BranchFailure.UNREACHABLE if branch.state in _BEING_WRITTEN else BranchFailure.PROTOCOL,
                )
            branch.notes |= added
            return branch.notes

    def find(self, xid: Xid) -> Branch | None:
        """Return the branch, if it is there."""
        with self._lock:
            return self._branches.get(xid)

    def abandon(self, worker: ConsumerSession) -> None:
        """Roll back the branches in which the closed session `worker` works, or has suspended its work; those that it ended are left to their coordinators. May be repeated."""
        with self._lock:
            left = [branch for branch in self._branches.values() if worker in branch.workers]
            for branch in left:
                self._doom(branch, BranchFailure.ROLLED_BACK)
                del branch.workers[worker]
        for branch in left:
            # Without the lock, as consumers are woken.
            branch.undo()

    # Two-phase commit

    def prepare(self, xid: Xid) -> bool:
        """Promise that the branch can be committed, even after a crash; return False if it did nothing: it has ended then.

        Raises `BranchError`. Waits for the journal, with force.
        """
        journal = self._need_journal()
        now_ms = self._clock.time_ms()
        with self._lock:
            branch = self._find(xid)
            branch.check_alive()
            # A read-only branch needs no second phase (X/Open XA, xa_prepare: XA_RDONLY). If another broker may hold the store, it may have
            # durable subscriptions for what was published: the write fails then.
            if branch.state is BranchState.IDLE and branch.unit.is_empty and journal.is_held:
                self._end(branch, BranchEvent.PREPARE_NOTHING)
                return False
            # The journal is written without the lock; the state keeps other callers away.
            branch.step(BranchEvent.PREPARE)
        self._write_prepared(branch, now_ms, journal)
        return True

    def prepare_as(self, xid: Xid, name: Xid) -> bool:
        """Prepare a branch that becomes the branch `name`, as `ProviderSession.xa_prepare_as` says. Waits for the journal, with force."""
        journal = self._need_journal()
        now_ms = self._clock.time_ms()
        with self._lock:
            branch = self._find(xid)
            self._end_doomed(branch)
            if branch.state is BranchState.IDLE and branch.unit.is_empty:
                self._end(branch, BranchEvent.PREPARE_NOTHING)
                return False
            self._check_free(name, "give each branch a name of its own")
            branch.step(BranchEvent.PREPARE)
            # Before it is written: only its new coordinator may decide about what may be in the journal.
            del self._branches[xid]
            branch.xid = name
            self._branches[name] = branch
        self._write_prepared(branch, now_ms, journal)
        return True

    def _write_prepared(self, branch: Branch, now_ms: int, journal: Journal) -> None:
        """Write a branch that is PREPARING. Raises `BranchError`; it can only be rolled back then."""
        xid = branch.xid
        try:
            self._with_tags(branch, partial(branch.unit.prepare, xid, now_ms, journal))
        except Exception as error:
            if not isinstance(error, RolledBackError):
                # It may be in the store as prepared; the coordinator, which got no promise, rolls it back.
                journal.note(Changes(outcomes=[BranchOutcome(xid, commit=False)]))
            # Before the state changes: until it is ROLLBACK_ONLY the coordinator is told to wait.
            branch.undo()
            with self._lock:
                branch.step(BranchEvent.REFUSED)
            if not isinstance(error, ProviderError):
                raise
            failure = BranchFailure.ROLLED_BACK if isinstance(error, RolledBackError) else BranchFailure.UNREACHABLE
            raise BranchError(f"branch {xid} is not prepared: {error.reason}", failure) from error
        with self._lock:
            branch.step(BranchEvent.WRITTEN)
            branch.prepared_ms = now_ms
            # From here on the coordinator alone decides, however long it takes (decision 0130).
            branch.deadline_ms = None

    def prepare_transaction(self, xid: Xid, unit: UnitOfWork, begin_commit: Callable[[], object]) -> bool:
        """Make a session's local transaction a prepared branch, as `ProviderSession.prepare` says. Waits for the journal, with force.

        `unit`: its work; `begin_commit` takes it from the session, so that no other call ends it. Raises `BranchError` before that
        if a branch `xid` is there; `RolledBackError`, `InDoubtError`.
        """
        journal = self._need_journal()
        if unit.is_empty and journal.is_held:  # as in `prepare`
            begin_commit()
            unit.end_unwritten()
            return False
        branch = Branch(xid, expired_rolls_back=unit.expired_rolls_back, unit=unit)
        # In the table before the unit is taken from its session: nothing can prevent the name from being used then.
        with self._lock:
            self._add(branch, "give each transaction a name of its own")
        now_ms = self._clock.time_ms()
        try:
            begin_commit()
            self._with_tags(branch, partial(unit.finish_prepare, xid, now_ms, journal, branch.holder))
        except Exception as error:
            unit.end_unwritten()
            self._refuse_transaction(branch, journal, error)
            raise
        with self._lock:
            branch.step(BranchEvent.WRITTEN)
            branch.prepared_ms = now_ms
        return True

    def _refuse_transaction(self, branch: Branch, journal: Journal, error: Exception) -> None:
        """End a branch that its session's transaction did not become. It stays, rolled back, if it may be in the store as prepared."""
        if not branch.unit.may_be_written or not is_outcome_unknown(error):
            with self._lock:
                branch.step(BranchEvent.REFUSED)
                self._end(branch, BranchEvent.ROLLBACK)
            return
        # As in `prepare`; its coordinator, which got no promise, rolls it back.
        journal.note(Changes(outcomes=[BranchOutcome(branch.xid, commit=False)]))
        branch.undo()
        timeout_ms = self.timeout_ms or DEFAULT_TIMEOUT_MS
        with self._lock:
            branch.step(BranchEvent.REFUSED)
            due = self._set_deadline(branch, timeout_ms)
        if due:
            self._ask(timeout_ms)

    def commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        """Commit a prepared branch, or in one phase one that is not. Raises `BranchError`. Waits for the journal."""
        if one_phase:
            self._commit_at_once(xid)
        else:
            self._settle(xid, commit=True, heuristic=False)

    def rollback(self, xid: Xid) -> None:
        """Roll back a branch, prepared or not. Raises `BranchError`. Waits for the journal if it is prepared."""
        with self._lock:
            branch = self._find(xid)
            is_prepared = branch.state is BranchState.PREPARED
            if not is_prepared:
                BRANCH_TRANSITIONS[branch.state, BranchEvent.ROLLBACK]  # raises if a rollback is forbidden
                self._doom(branch, BranchFailure.ROLLED_BACK)
        # Without the lock, as the journal is written; `_settle` checks the state again.
        if is_prepared:
            self._settle(xid, commit=False, heuristic=False)
            return
        branch.undo()
        with self._lock:
            # Another call, or `run_due`, may have ended it while it was undone.
            if self._branches.get(xid) is branch:
                self._end(branch, BranchEvent.ROLLBACK)

    def recover(self) -> Sequence[Xid]:
        """Return the branches in doubt, and those that an operator settled, the oldest first."""
        self._need_journal()
        with self._lock:
            # A branch whose decision is being written is in doubt still:
            # a coordinator that scans must not consider it ended.
            return [xid for xid, branch in self._branches.items() if branch.state in _IN_DOUBT]

    def forget(self, xid: Xid) -> None:
        """Forget a branch that an operator settled. Raises `BranchError`, `ResourceError`. Waits for the journal."""
        journal = self._need_journal()
        with self._lock:
            branch = self._find(xid)
            committed = _HEURISTIC.get(branch.state)
            if committed is None:
                raise BranchError(f"branch {xid} was not settled by an operator, so it cannot be forgotten")
        # Forced: a coordinator that got the answer never asks about the branch again.
        journal.write(Changes(outcomes=[BranchOutcome(xid, commit=committed)]), force=True)
        with self._lock:
            if branch.state in _HEURISTIC:  # another call may have been faster
                self._end(branch, BranchEvent.FORGET)

    def _commit_at_once(self, xid: Xid) -> None:
        journal = self._need_journal()
        with self._lock:
            branch = self._find(xid)
            # In one phase the coordinator learns of the rollback from this call,
            # so nothing has to be remembered for another.
            self._end_doomed(branch)
            branch.step(BranchEvent.COMMIT_AT_ONCE)
        try:
            # Acknowledgements are forced: after XA_OK the coordinator forgets the
            # transaction, so a loss of power must not undo it.
            commit = partial(branch.unit.commit, self._clock.time_ms(), journal, force_acknowledgements=True)
            self._with_tags(branch, commit)
        except RolledBackError as error:
            branch.undo()
            with self._lock:
                self._end(branch, BranchEvent.REFUSED)
            raise BranchError(error.reason, BranchFailure.ROLLED_BACK) from error
        except Exception as error:
            self._lose(branch)
            if not isinstance(error, ProviderError):
                raise
            raise BranchError(f"it is not known whether branch {xid} is committed: {error.reason}", _GONE) from error
        branch.holder.close()
        with self._lock:
            self._end(branch, BranchEvent.WRITTEN)

    def _with_tags(self, branch: Branch, act: Callable[[], None]) -> None:
        """Prepare or commit the branch, with the tags of its registered client if it has some."""
        if branch.unit.tags is None or self._clients is None:
            act()
        else:
            self._clients.commit(branch.unit, act)

    def _end_doomed(self, branch: Branch) -> None:
        """Raise `BranchError` if a branch can only be rolled back: it ends then, as its coordinator gets the error. The lock is held."""
        if branch.state is BranchState.ROLLBACK_ONLY:
            self._end(branch, BranchEvent.ROLLBACK)
            raise branch.rolled_back()

    def _lose(self, branch: Branch) -> None:
        """Give up a branch whose commit in one phase was not answered, or failed before it was written."""
        if branch.unit.is_in_doubt:
            if self._in_doubt_writes is not None:
                self._in_doubt_writes.add_unit(branch.unit)
        else:  # its write was not begun, or has taken effect
            branch.unit.end_unwritten()
            branch.undo()
        with self._lock:
            self._end(branch, BranchEvent.LOSE)

    def _settle(self, xid: Xid, *, commit: bool, heuristic: bool) -> None:
        """Decide about a prepared branch. If that fails, the same decision can be made again."""
        journal = self._need_journal()
        with self._lock:
            branch = self._find(xid)
            # Before SETTLING: a refused call leaves the branch unchanged.
            _check_decision(branch, commit=commit)
            # As in `prepare`: SETTLING keeps a second decision away while the first one is written.
            branch.step(BranchEvent.SETTLE)
        changes = Changes(outcomes=[BranchOutcome(xid, commit, heuristic)])
        is_begun = is_written = False
        try:
            if commit:
                # Before the write: a message that cannot be loaded refuses the decision while that is still possible.
                self._load(branch)
                # The producers' ids count from this commit, so they are written
                # with the decision and not with the prepare.
                changes.duplicates = branch.unit.duplicate_marks()
            is_begun = True
            journal.write(changes, force=True)
            is_written = True
            branch.decide(commit=commit, now_ms=self._clock.time_ms())
        except Exception as error:
            with self._lock:
                branch.step(BranchEvent.REFUSED)
                # This decision may be in the store: a later call may repeat it, and the opposite one is refused.
                if is_written or (is_begun and is_outcome_unknown(error)):
                    branch.decision = commit
            if not isinstance(error, ProviderError):
                raise
            failure = BranchFailure.RETRY if commit and not isinstance(error, InDoubtError) else _GONE
            raise BranchError(
                f"branch {xid} is still prepared, as its outcome could not be written: {error.reason}", failure
            ) from error
        with self._lock:
            self._end(branch, _DECIDED[commit, heuristic])

    def _load(self, branch: Branch) -> None:
        """Load its messages into memory, where selectors can read them: after a restart they are on the disk."""
        entries = {entry.reference: entry for entry in branch.unit.sent()}
        for unreadable in self._store.load(list(entries)):
            entries[unreadable].queue.rollback(entries[unreadable])  # the journal has reported and quarantined it

    # Operators

    def reports(self) -> Sequence[BranchReport]:
        """Return each branch, prepared or not, as operators see it."""
        with self._lock:
            return [branch.report() for branch in self._branches.values()]

    def in_doubt_at(self, queue: Queue) -> Sequence[Xid]:
        """Return the prepared branches that send to a queue, or have received from it."""
        with self._lock:
            prepared = [branch for branch in self._branches.values() if branch.unit.is_prepared]
            return [branch.xid for branch in prepared if queue in branch.unit.queues()]

    def settle_heuristically(self, xid: Xid, *, commit: bool) -> None:
        """Decide about a prepared branch in place of its coordinator, which is told when it comes back.

        The other resources of the transaction may be settled otherwise: ask its coordinator's log first. Raises
        `BranchError` unless the branch is prepared. Waits for the journal.
        """
        self._settle(xid, commit=commit, heuristic=True)
        _log.warning("PYJMS-BROKER-12 an operator has %s branch %s", _done(commit), xid)

    # Timed work

    def run_due(self, now_ms: int) -> int | None:
        """Roll back the branches whose time is over; return when to call again, in wall-clock ms; None: when asked.

        Deadlines are by the monotonic clock, so that changing the wall clock rolls nothing back.
        """
        monotonic_ms = self._clock.monotonic_ms()
        doomed: list[Branch] = []
        with self._lock:
            for branch in list(self._branches.values()):
                if branch.deadline_ms is None or branch.deadline_ms > monotonic_ms:
                    continue
                # The same time again: a branch whose coordinator does not ask until then is forgotten.
                branch.deadline_ms = monotonic_ms + (self.timeout_ms or DEFAULT_TIMEOUT_MS)
                # A branch that is being written is left alone: the outcome of its write decides.
                if branch.state in _TIMED:
                    self._doom(branch, BranchFailure.TIMED_OUT)
                    doomed.append(branch)
                elif branch.state is BranchState.ROLLBACK_ONLY and not branch.workers:
                    self._end(branch, BranchEvent.ROLLBACK)  # its coordinator has not asked for so long
            deadlines = [each.deadline_ms for each in self._branches.values() if each.deadline_ms is not None]
            self._due_ms = min(deadlines, default=None)
            remaining_ms = None if self._due_ms is None else self._due_ms - monotonic_ms
        for branch in doomed:
            branch.undo()
            _log.warning("PYJMS-BROKER-13 branch %s was rolled back, as its time was over", branch.xid)
        return None if remaining_ms is None else now_ms + max(1, round(remaining_ms))

    def _set_deadline(self, branch: Branch, timeout_ms: int) -> bool:
        """Set the deadline; return whether an earlier call of `run_due` must be scheduled. The lock is held."""
        branch.deadline_ms = self._clock.monotonic_ms() + timeout_ms
        # A later call need not be scheduled: the earlier one computes the next time.
        if self._due_ms is not None and self._due_ms <= branch.deadline_ms:
            return False
        self._due_ms = branch.deadline_ms
        return True

    def _ask(self, timeout_ms: int) -> None:
        if self._schedule is not None:
            self._schedule(self, self._clock.time_ms() + timeout_ms)

    # The end

    def close(self) -> None:
        """Roll back branches that are not prepared, as the broker ends: received messages are released, and count as delivered."""
        with self._lock:
            # Prepared branches stay unchanged, in the journal, and are in doubt after the next start.
            ended = [branch for branch in self._branches.values() if branch.state in _TIMED]
            for branch in ended:
                self._doom(branch, BranchFailure.ROLLED_BACK)
        for branch in ended:
            branch.undo()

    # Restoring from a journal

    def restore(
        self,
        xid: Xid,
        prepared_ms: int,
        sent: Iterable[tuple[Queue, MessageReference]],
        received: Iterable[QueueEntry],
        claims: Iterable[DuplicateClaim] = (),
    ) -> Branch:
        """Restore a branch in doubt, and return it; before the queues are used. `received` are in their queues."""
        branch = Branch(xid, expired_rolls_back=self._expired_rolls_back)
        # Uncommitted, in their queues: they take room there, and appear with the commit.
        for queue, reference in sent:
            restore_message(queue, reference, 0, branch.unit)
        for entry in received:
            branch.holder.take_queue(entry.queue)
            # Delivered to the branch's own session again, before any consumer is attached.
            entry.queue.hold(entry, branch.unit, branch.holder)
        for claim in claims:
            branch.unit.add_duplicate(claim)
        # After everything was added: a PREPARED unit accepts no more.
        branch.unit.restore_prepared()
        branch.state = BranchState.PREPARED
        branch.prepared_ms = prepared_ms
        with self._lock:
            self._branches[xid] = branch
        return branch

    def restore_heuristic(self, xid: Xid, *, committed: bool) -> None:
        """Restore a branch that an operator settled, and whose coordinator has not been told."""
        branch = Branch(xid, expired_rolls_back=self._expired_rolls_back)
        branch.state = BranchState.HEURISTICALLY_COMMITTED if committed else BranchState.HEURISTICALLY_ROLLED_BACK
        with self._lock:
            self._branches[xid] = branch

    # With the lock held

    def _find(self, xid: Xid) -> Branch:
        self._need_journal()
        branch = self._branches.get(xid)
        if branch is None:
            raise BranchError(
                f"there is no branch {xid}: it was never started, or has ended, or was not prepared when the broker died",
                BranchFailure.UNKNOWN,
            )
        return branch

    def _add(self, branch: Branch, advice: str) -> None:
        """Add a new branch. Raises `BranchError` with that advice if there is one of its name."""
        self._check_free(branch.xid, advice)
        self._branches[branch.xid] = branch

    def _check_free(self, xid: Xid, advice: str) -> None:
        """Raise `BranchError` with that advice if there is a branch of that name."""
        if xid in self._branches:
            raise BranchError(f"branch {xid} is here already; {advice}", BranchFailure.DUPLICATE)

    def _doom(self, branch: Branch, failure: BranchFailure) -> None:
        if branch.state is not BranchState.ROLLBACK_ONLY:
            # The first reason stays: it is the one that the coordinator gets.
            branch.failure = failure
        branch.step(BranchEvent.DOOM)

    def _end(self, branch: Branch, event: BranchEvent) -> None:
        """Change state; a branch that has ended leaves the table."""
        # Looked up before the table is changed: a forbidden step must leave the branch where it is.
        after = BRANCH_TRANSITIONS[branch.state, event]
        # A heuristic decision is remembered until `forget` (X/Open XA), so that the coordinator is told.
        if after not in _HEURISTIC:
            del self._branches[branch.xid]
        branch.state = after

    def _need_journal(self) -> Journal:
        if self._journal is None:
            raise CapabilityError(f"this broker has no distributed transactions (Capability.XA); {NEEDS_STORE}")
        return self._journal


_GONE: Final = BranchFailure.UNREACHABLE


def _check_decision(branch: Branch, *, commit: bool) -> None:
    """Raise `BranchError` if the opposite decision may have been written."""
    if branch.decision is (not commit):
        raise BranchError(
            f"branch {branch.xid} may have been {_done(not commit)}, as nobody answered when that was written; only the "
            f"same can be tried again"
        )


def _done(commit: bool) -> str:
    return "committed" if commit else "rolled back"
