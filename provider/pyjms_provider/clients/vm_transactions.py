"""The transactions of a session at a broker in this process: a local one, or work in the branch of a distributed one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

from pyjms.spi.errors import BranchError, CapabilityError, ClosedError, ProviderError
from pyjms.spi.provider import ProviderSession
from pyjms.spi.replay import StageName
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.core.host.host_policy import ExpiredInTransaction
from pyjms_provider.core.queue.consumer import ConsumerSession
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork, UnitState

if TYPE_CHECKING:
    from pyjms_provider.core.host.virtual_host import VirtualHost
    from pyjms_provider.core.journal.journal import JoinedTransaction
    from pyjms_provider.core.transaction.branches import Branch, Branches
    from pyjms_provider.core.transaction.unit_of_work import OpenTransaction


class VmTransactions(ProviderSession):
    """The part of a session that begins and ends transactions; what is done in them is `VmSession`'s."""

    def __init__(self, host: VirtualHost, name: str, receiving: ConsumerSession, *, transacted: bool) -> None:
        self._host = host
        self._name = name
        self._receiving = receiving
        self._transacted = transacted
        self._expired_rolls_back = host.policy.expired_in_transaction is ExpiredInTransaction.ROLLBACK
        self._unit_numbers = count(1)
        self._lock = Lock()
        self._closed = False
        self._refusal: ProviderError | None = None
        """What every call raises in a process that was forked from the broker's."""
        self._unit: UnitOfWork | None = None
        self._limit = host.time_limit if transacted and host.time_limit.timeout_ms else None
        self._timed: OpenTransaction | None = None
        self._was_too_long = False
        self._branch: Branch | None = None
        self._unanswered: dict[Xid, Branch] = {}
        """What was being committed when the store did not answer: the next call about it tells what became of it."""
        self._branch_timeout_s = 0
        self._has_branches = False

    # Local transactions

    def _open_unit(self) -> UnitOfWork:
        branch = self._branch
        if branch is not None:
            return branch.unit
        unit = self._unit
        if unit is None:
            with self._lock:
                if self._closed:
                    raise self._closed_error()
                self._begin_time()
                unit = self._unit = UnitOfWork(
                    UnitId(f"{self._name}:{next(self._unit_numbers)}"),
                    self._receiving,
                    expired_rolls_back=self._expired_rolls_back,
                )
        return unit

    def commit(self) -> None:
        self._host.work(self._commit)

    def _commit(self, join: Callable[[], JoinedTransaction] | None = None) -> None:
        """Commit what was done; `join`: together with what the application has done."""
        unit = self._begin_commit()
        try:
            if join is None:
                if unit is not None:
                    self._host.finish_commit(unit)
                return
            joined = join()  # now, as it asks the database: whatever it raises ends the unit
            if unit is None:
                joined.commit()
            else:
                self._host.finish_joined(unit, joined)
        except Exception:
            if unit is not None:
                unit.end_unwritten()
            raise

    def _begin_commit(self, *, for_stage: bool = False) -> UnitOfWork | None:
        """Return what is to be committed, or staged, which nobody else can end any more. Raises `RolledBackError`."""
        with self._lock:
            self._check_local()
            unit = self._take_unit()
            was_too_long, self._was_too_long = self._was_too_long, False
            if unit is not None and not was_too_long:
                unit.begin_commit(self._host.clock.time_ms(), for_stage=for_stage)
        if was_too_long:
            if unit is not None:
                unit.rollback()
            raise self._host.time_limit.exceeded()
        return unit

    def commit_with(self, transaction: object) -> None:
        """Commit together with `transaction`, an SQLAlchemy connection with an open transaction in the store's database."""
        self._host.work(partial(self._commit, partial(self._host.join, transaction)))

    def stage(self, name: StageName, *, keep_s: int) -> int:
        if not self._transacted:
            raise CapabilityError("the session is not transacted")
        self._check_local()
        begin = partial(self._begin_commit, for_stage=True)
        return self._host.pipelines.stages.stage(name, keep_s, self._open_unit(), begin)

    def rollback(self) -> None:
        with self._lock:
            self._check_local()
            unit = self._take_unit()
            self._was_too_long = False
        if unit is not None:
            unit.rollback()

    def _check_local(self) -> None:
        if self._closed:
            raise self._closed_error()
        if self._branch is not None:
            raise BranchError(f"the session works in branch {self._branch.xid}, which only its coordinator ends")

    def _take_unit(self) -> UnitOfWork | None:
        """End the present transaction, and return what was done in it. The lock is held. Raises `CapabilityError`."""
        if not self._transacted:
            raise CapabilityError("the session is not transacted")
        self._end_time()
        unit, self._unit = self._unit, None
        return unit

    # Their time limit

    @property
    def is_timed(self) -> bool:
        """Whether its transactions may not stay open for ever."""
        return self._limit is not None

    def begin_time(self) -> None:
        """Let the time of a transaction begin, unless it has begun, there is no limit, or the work is a branch's."""
        if self._limit is not None and self._timed is None:
            with self._lock:
                self._begin_time()

    def _begin_time(self) -> None:
        """Do so with the lock held."""
        if self._limit is not None and self._timed is None and not self._closed and not self._has_branches:
            self._timed = self._limit.begin(self._time_out)

    def _end_time(self) -> None:
        """Let it end. The lock is held."""
        timed, self._timed = self._timed, None
        if timed is not None:
            self._host.time_limit.end(timed)

    def _time_out(self, timed: OpenTransaction) -> None:
        """Roll back, on the timer thread; the client hears of it when it commits."""
        with self._lock:
            if self._timed is not timed:
                return  # it has ended at this moment
            self._timed = None
            self._was_too_long = True
            unit, self._unit = self._unit, None
        if unit is not None:
            unit.rollback()
        self._receiving.give_back_all()

    # Distributed transactions: what a coordinator decides may come through any session.

    def xa_start(self, xid: Xid, *, join: bool = False, resume: bool = False) -> None:
        if join and resume:
            raise BranchError("a session joins a branch or resumes it, not both", BranchFailure.INVALID)
        branches, worker = self._host.branches, self._receiving
        self._unanswered.pop(xid, None)  # of one that had this name before
        with self._lock:
            self._check_local()
            if self._unit is not None and not self._unit.is_empty:
                raise BranchError(
                    "the session has sent or received outside of branches: commit that, or roll it back, first",
                    BranchFailure.OUTSIDE,
                )
            if join:
                self._branch = branches.join(xid, worker)
            elif resume:
                self._branch = branches.resume(xid, worker)
            else:
                timeout_ms = self._branch_timeout_s * 1000 or None
                self._branch = branches.start(xid, worker, timeout_ms=timeout_ms)
            self._has_branches = True
            self._end_time()  # what was received belongs to the branch

    def xa_end(self, xid: Xid, *, suspend: bool = False, fail: bool = False) -> None:
        if suspend and fail:
            raise BranchError("work is suspended or has failed, not both", BranchFailure.INVALID)
        with self._lock:
            if self._closed:
                raise self._closed_error()
            if self._branch is not None and self._branch.xid == xid:
                self._branch = None
        branches = self._host.branches
        if suspend:
            branches.suspend(xid, self._receiving)
            return
        branches.end(xid, self._receiving, fail=fail)

    def xa_prepare(self, xid: Xid) -> bool:
        return self._host.work(partial(self._branches().prepare, xid))

    def xa_commit(self, xid: Xid, *, one_phase: bool = False) -> None:
        branches = self._branches()
        found = branches.find(xid)
        over = self._unanswered.get(xid) if found is None else None
        try:
            if over is not None and (one_phase or over.unit.state is UnitState.COMMITTED):
                _tell_committed(over)
            else:
                self._host.work(partial(branches.commit, xid, one_phase=one_phase))
        except BranchError as error:
            if error.failure is not BranchFailure.UNREACHABLE:
                self._unanswered.pop(xid, None)
            elif found is not None:
                self._unanswered[xid] = found
            raise
        self._unanswered.pop(xid, None)
        with suppress(ProviderError):  # it is committed; who sends next is told that there is no room
            self._host.store.relieve()

    def xa_rollback(self, xid: Xid) -> None:
        self._host.work(partial(self._branches().rollback, xid))

    def xa_recover(self) -> Sequence[Xid]:
        return self._branches().recover()

    def xa_forget(self, xid: Xid) -> None:
        self._host.work(partial(self._branches().forget, xid))

    def xa_set_timeout(self, seconds: int) -> bool:
        self._branch_timeout_s = seconds
        return self._host.branches.are_kept

    def xa_get_timeout(self) -> int:
        return self._branch_timeout_s or self._host.branches.timeout_ms // 1000

    def _branches(self) -> Branches:
        if self._closed:
            raise self._closed_error()
        return self._host.branches

    # CloseOnce

    def _end_work(self) -> None:
        """Do nothing more, and roll back what is open. May be repeated."""
        with self._lock:
            self._closed = True
            self._end_time()
            unit, self._unit = self._unit, None
        if unit is not None:
            unit.rollback()
        if self._has_branches:
            self._host.branches.abandon(self._receiving)

    def _closed_error(self) -> ProviderError:
        return self._refusal or ClosedError(f"session {self._name} is closed")


def _tell_committed(branch: Branch) -> None:
    """Return if a branch that is over was committed. Raises `BranchError`: it was not, or nobody knows yet."""
    state = branch.unit.state
    if state is UnitState.ROLLED_BACK:
        raise BranchError(
            f"branch {branch.xid} was rolled back, as its write failed",
            BranchFailure.ROLLED_BACK,
        )
    if state is not UnitState.COMMITTED:
        raise BranchError(
            f"it is not known whether branch {branch.xid} is committed: the store has not been asked yet; ask again in a second",
            BranchFailure.UNREACHABLE,
        )
