"""The branches of distributed transactions at one broker, for coordinators and for operators (X/Open XA; JMS 1.1 §8).

*Coordinators* start, end, prepare and settle branches through sessions; which session a call comes through matters only for
the work itself. A prepared branch is in doubt until its coordinator decides: it survives the broker's death.

*Operators* see what is in doubt, and may decide when the coordinator will not come back. Such a decision is heuristic:
it is remembered until the coordinator has been told, and has forgotten the branch.

Locks: the one lock guards the table, and what a branch says of its state and its workers; it is held for a few steps, never
while messages move, consumers are woken, or a journal writes. The states PREPARING, COMMITTING and SETTLING keep others
away meanwhile. It is taken without another lock held, and no lock but a unit's is taken under it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import BranchError, CapabilityError, InDoubtError, ProviderError, RolledBackError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.core.journal.in_doubt_writes import is_doubt
from pyjms_provider.core.journal.journal import BranchOutcome, Changes
from pyjms_provider.core.queue.recovery import restore_message
from pyjms_provider.core.transaction.branch import Branch, BranchReport
from pyjms_provider.core.transaction.branch_state import BranchEvent, BranchState, next_branch_state

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.core.host.admission import DuplicateClaim
    from pyjms_provider.core.journal.in_doubt_writes import Doubts
    from pyjms_provider.core.journal.journal import Journal
    from pyjms_provider.core.message.reference import MessageReference
    from pyjms_provider.core.queue.consumer import ConsumerSession
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.queue import Queue
    from pyjms_provider.core.store.store import MessageStore

__all__ = ["DEFAULT_TIMEOUT_MS", "NEEDS_STORE", "Branches"]

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
        doubts: Doubts | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        expired_rolls_back: bool = True,
        on_due: Callable[[Branches, int], None] | None = None,
    ) -> None:
        """Make an empty table.

        `journal` None: there can be no branches. `doubts`: of its host. `timeout_ms`: after which a branch that is not prepared is rolled back,
        unless its session has set another time; 0: never. `on_due` asks for a call of `do_what_is_due`, as in
        `Queue`.
        """
        self._store = store
        self._clock = clock
        self._journal = journal if journal is not None and journal.is_reliable else None
        self._doubts = doubts
        self.timeout_ms = timeout_ms
        self._expired_rolls_back = expired_rolls_back
        self._on_due = on_due
        self._lock = Lock()
        self._branches: dict[Xid, Branch] = {}
        self._due_ms: float | None = None

    @property
    def are_kept(self) -> bool:
        """Whether a prepared branch would survive, so that there can be branches."""
        return self._journal is not None

    # Work in a branch

    def start(self, xid: Xid, worker: ConsumerSession, *, timeout_ms: int | None = None) -> Branch:
        """Begin a branch in which `worker` works; `timeout_ms` None: the default. Raises `BranchError`."""
        self._need_journal()
        branch = Branch(xid, expired_rolls_back=self._expired_rolls_back)
        branch.workers[worker] = True
        timeout_ms = self.timeout_ms if timeout_ms is None else timeout_ms
        with self._lock:
            if xid in self._branches:
                raise BranchError(
                    f"branch {xid} is here already; start it with TMJOIN to work in it", BranchFailure.DUPLICATE
                )
            self._branches[xid] = branch
            due = bool(timeout_ms) and self._set_deadline(branch, timeout_ms)
        if due:
            self._ask(timeout_ms)
        return branch

    def join(self, xid: Xid, worker: ConsumerSession) -> Branch:
        """Let `worker` work in a branch that is there. Raises `BranchError`."""
        with self._lock:
            branch = self._find(xid)
            branch.check_alive()
            if worker in branch.workers:
                raise BranchError(f"the session works in branch {xid} already, or has suspended it: use TMRESUME")
            branch.step(BranchEvent.WORK)
            branch.workers[worker] = True
        return branch

    def resume(self, xid: Xid, worker: ConsumerSession) -> Branch:
        """Let `worker` go on in a branch that it suspended. Raises `BranchError`."""
        with self._lock:
            branch = self._find(xid)
            if branch.workers.get(worker) is not False:
                raise BranchError(f"the session has not suspended branch {xid}: use TMJOIN to work in it")
            branch.check_alive()
            branch.step(BranchEvent.WORK)
            branch.workers[worker] = True
        return branch

    def suspend(self, xid: Xid, worker: ConsumerSession) -> None:
        """Let `worker` do other things until `resume`. Raises `BranchError`; its work has ended then."""
        with self._lock:
            branch = self._find(xid)
            if not branch.workers.get(worker):
                raise BranchError(f"the session does not work in branch {xid} now, so it cannot suspend that")
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
            was_doomed = branch.state is BranchState.ROLLBACK_ONLY
            if fail:
                self._doom(branch, BranchFailure.ROLLED_BACK)
            del branch.workers[worker]
            branch.follow_workers()
        if was_doomed:
            raise branch.rolled_back()
        if fail:
            branch.undo()

    def find(self, xid: Xid) -> Branch | None:
        """Return the branch, if it is there."""
        with self._lock:
            return self._branches.get(xid)

    def abandon(self, worker: ConsumerSession) -> None:
        """Roll back what `worker` works in, or has suspended: it was closed. What it ended is its coordinator's. May be repeated."""
        with self._lock:
            left = [branch for branch in self._branches.values() if worker in branch.workers]
            for branch in left:
                self._doom(branch, BranchFailure.ROLLED_BACK)
                del branch.workers[worker]
        for branch in left:
            branch.undo()

    # Two-phase commit

    def prepare(self, xid: Xid) -> bool:
        """Promise that the branch can be committed, whatever dies; return False if it did nothing: it is over then.

        Raises `BranchError`. Waits for the journal, with force.
        """
        journal = self._need_journal()
        now_ms = self._clock.time_ms()
        with self._lock:
            branch = self._find(xid)
            branch.check_alive()
            if branch.state is BranchState.IDLE and branch.unit.is_empty:
                self._end(branch, BranchEvent.PREPARE_NOTHING)
                return False
            branch.step(BranchEvent.PREPARE)
        try:
            branch.unit.prepare(xid, now_ms, journal)
        except Exception as error:
            if not isinstance(error, RolledBackError):
                # It may be there as prepared; the coordinator, that was not promised anything, rolls it back.
                journal.note(Changes(outcomes=[BranchOutcome(xid, commit=False)]))
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
            branch.deadline_ms = None
        return True

    def commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        """Commit a prepared branch, or in one phase one that is not. Raises `BranchError`. Waits for the journal."""
        if one_phase:
            self._commit_at_once(xid)
        else:
            self._settle(xid, commit=True, heuristic=False)

    def rollback(self, xid: Xid) -> None:
        """Undo a branch, prepared or not. Raises `BranchError`. Waits for the journal if it is prepared."""
        with self._lock:
            branch = self._find(xid)
            is_prepared = branch.state is BranchState.PREPARED
            if not is_prepared:
                next_branch_state(branch.state, BranchEvent.ROLLBACK)  # it may be rolled back
                self._doom(branch, BranchFailure.ROLLED_BACK)
        if is_prepared:
            self._settle(xid, commit=False, heuristic=False)
            return
        branch.undo()
        with self._lock:
            if self._branches.get(xid) is branch:
                self._end(branch, BranchEvent.ROLLBACK)

    def recover(self) -> Sequence[Xid]:
        """Return the branches that are in doubt, and those that an operator settled, the oldest first."""
        self._need_journal()
        with self._lock:
            return [xid for xid, branch in self._branches.items() if branch.state in _IN_DOUBT]

    def forget(self, xid: Xid) -> None:
        """Forget a branch that an operator settled. Raises `BranchError`, `ResourceError`. Waits for the journal."""
        journal = self._need_journal()
        with self._lock:
            branch = self._find(xid)
            committed = _HEURISTIC.get(branch.state)
            if committed is None:
                raise BranchError(f"branch {xid} was not settled by an operator, so it cannot be forgotten")
        journal.write(Changes(outcomes=[BranchOutcome(xid, commit=committed)]), force=True)
        with self._lock:
            if branch.state in _HEURISTIC:  # another call may have been as fast
                self._end(branch, BranchEvent.FORGET)

    def _commit_at_once(self, xid: Xid) -> None:
        journal = self._need_journal()
        with self._lock:
            branch = self._find(xid)
            self._end_doomed(branch)
            branch.step(BranchEvent.COMMIT_AT_ONCE)
        try:
            branch.unit.commit(self._clock.time_ms(), journal, force_acknowledgements=True)
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

    def _end_doomed(self, branch: Branch) -> None:
        """Raise `BranchError` if a branch can only be rolled back: it is over then, as its coordinator knows. The lock is held."""
        if branch.state is BranchState.ROLLBACK_ONLY:
            self._end(branch, BranchEvent.ROLLBACK)
            raise branch.rolled_back()

    def _lose(self, branch: Branch) -> None:
        """Let go of a branch whose commit in one phase was not answered, or failed before it was written."""
        if branch.unit.is_in_doubt:
            if self._doubts is not None:
                self._doubts.add_unit(branch.unit)
        else:  # it was not begun to be written, or has taken effect
            branch.unit.end_unwritten()
            branch.undo()
        with self._lock:
            self._end(branch, BranchEvent.LOSE)

    def _settle(self, xid: Xid, *, commit: bool, heuristic: bool) -> None:
        """Decide about a prepared branch. If that fails, the same can be decided again."""
        journal = self._need_journal()
        with self._lock:
            branch = self._find(xid)
            _check_decision(branch, commit=commit)
            branch.step(BranchEvent.SETTLE)
        changes = Changes(outcomes=[BranchOutcome(xid, commit, heuristic)])
        is_begun = is_written = False
        try:
            if commit:
                self._load(branch)
                changes.duplicates = branch.unit.duplicate_marks()
            is_begun = True
            journal.write(changes, force=True)
            is_written = True
            branch.decide(commit=commit, now_ms=self._clock.time_ms())
        except Exception as error:
            with self._lock:
                branch.step(BranchEvent.REFUSED)
                if is_written or (is_begun and is_doubt(error)):
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
        """Have its messages in memory, where selectors can read them: after a restart they are on the disk."""
        entries = {entry.reference: entry for entry in branch.unit.sent()}
        for unreadable in self._store.load(list(entries)):
            entries[unreadable].queue.rollback(entries[unreadable])  # the journal has reported and kept it

    # Operators

    def reports(self) -> Sequence[BranchReport]:
        """Return what there is to say of each branch, prepared or not."""
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

    # Time

    def do_what_is_due(self, now_ms: int) -> int | None:
        """Roll back the branches whose time is over; return when to come again, in wall-clock ms; None: when asked.

        It is the monotonic clock that judges, so that a clock that is set rolls nothing back.
        """
        monotonic_ms = self._clock.monotonic_ms()
        doomed: list[Branch] = []
        with self._lock:
            for branch in list(self._branches.values()):
                if branch.deadline_ms is None or branch.deadline_ms > monotonic_ms:
                    continue
                branch.deadline_ms = monotonic_ms + (self.timeout_ms or DEFAULT_TIMEOUT_MS)
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
        """Return whether the housekeeper must come earlier than was asked. The lock is held."""
        branch.deadline_ms = self._clock.monotonic_ms() + timeout_ms
        if self._due_ms is not None and self._due_ms <= branch.deadline_ms:
            return False
        self._due_ms = branch.deadline_ms
        return True

    def _ask(self, timeout_ms: int) -> None:
        if self._on_due is not None:
            self._on_due(self, self._clock.time_ms() + timeout_ms)

    # The end

    def close(self) -> None:
        """Roll back what is not prepared, as the broker ends: what was received goes back, and is known as delivered."""
        with self._lock:
            ended = [branch for branch in self._branches.values() if branch.state in _TIMED]
            for branch in ended:
                self._doom(branch, BranchFailure.ROLLED_BACK)
        for branch in ended:
            branch.undo()

    # What a journal has kept

    def restore(
        self,
        xid: Xid,
        prepared_ms: int,
        sent: Iterable[tuple[Queue, MessageReference]],
        received: Iterable[QueueEntry],
        claims: Iterable[DuplicateClaim] = (),
    ) -> None:
        """Know a branch again that is in doubt; before the queues are used. `received` are in their queues."""
        branch = Branch(xid, expired_rolls_back=self._expired_rolls_back)
        for queue, reference in sent:
            restore_message(queue, reference, 0, branch.unit)
        for entry in received:
            branch.holder.take_queue(entry.queue)
            entry.queue.hold(entry, branch.unit, branch.holder)
        for claim in claims:
            branch.unit.add_duplicate(claim)
        branch.unit.restore_prepared()
        branch.state = BranchState.PREPARED
        branch.prepared_ms = prepared_ms
        with self._lock:
            self._branches[xid] = branch

    def restore_heuristic(self, xid: Xid, *, committed: bool) -> None:
        """Know a branch again that an operator settled, and whose coordinator has not been told."""
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

    def _doom(self, branch: Branch, failure: BranchFailure) -> None:
        if branch.state is not BranchState.ROLLBACK_ONLY:
            branch.failure = failure
        branch.step(BranchEvent.DOOM)

    def _end(self, branch: Branch, event: BranchEvent) -> None:
        """Change state; a branch that is over leaves the table."""
        after = next_branch_state(branch.state, event)
        if after not in _HEURISTIC:
            del self._branches[branch.xid]
        branch.state = after

    def _need_journal(self) -> Journal:
        if self._journal is None:
            raise CapabilityError(f"this broker has no distributed transactions (Capability.XA); {NEEDS_STORE}")
        return self._journal


_GONE: Final = BranchFailure.UNREACHABLE


def _check_decision(branch: Branch, *, commit: bool) -> None:
    """Raise `BranchError` if the other decision may have been written."""
    if branch.decision is (not commit):
        raise BranchError(
            f"branch {branch.xid} may have been {_done(not commit)}, as nobody answered when that was written; only the "
            f"same can be tried again"
        )


def _done(commit: bool) -> str:
    return "committed" if commit else "rolled back"
