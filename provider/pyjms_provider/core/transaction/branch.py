"""One branch of a distributed transaction: a unit of work that several sessions may share, and that outlives them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyjms.spi.errors import BranchError, ClosedError
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.core.queue.consumer import ConsumerSession
from pyjms_provider.core.queue.entry import ReceiverId
from pyjms_provider.core.transaction.branch_state import BranchEvent, BranchState, next_branch_state
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork

if TYPE_CHECKING:
    from pyjms_provider.core.queue.entry import QueueEntry

__all__ = ["Branch", "BranchReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchReport:
    """What an operator is told of a branch."""

    xid: Xid
    state: BranchState
    prepared_ms: int | None
    """When it was prepared, in milliseconds since 1970 UTC; None: it is not."""
    sent: int
    """How many messages it adds to queues and subscriptions."""
    received: int
    """How many messages it takes away."""


class Branch:
    """A branch and what was done in it. Its fields are guarded by the lock of `Branches`.

    What sessions received is handed over to `holder`, so that it stays held when they are closed.
    """

    __slots__ = ("deadline_ms", "decision", "failure", "holder", "prepared_ms", "state", "unit", "workers", "xid")

    def __init__(self, xid: Xid, *, expired_rolls_back: bool) -> None:
        self.xid = xid
        self.state = BranchState.ACTIVE
        self.holder = ConsumerSession(ReceiverId(f"branch {xid}"), is_delivering=False)
        self.unit = UnitOfWork(UnitId(f"branch {xid}"), self.holder, expired_rolls_back=expired_rolls_back)
        self.workers: dict[ConsumerSession, bool] = {}
        """The sessions that have not ended their work: True, or False for one that suspended it."""
        self.deadline_ms: float | None = None
        """When its time is over, in monotonic milliseconds; None: never."""
        self.prepared_ms: int | None = None
        self.failure = BranchFailure.ROLLED_BACK
        """Why it can only be rolled back, once it can."""
        self.decision: bool | None = None
        """The decision, commit or not, that may have been written, as its write was not answered."""

    def step(self, event: BranchEvent) -> None:
        """Change state. Raises `BranchError` for what may not be."""
        self.state = next_branch_state(self.state, event)

    def follow_workers(self) -> None:
        """Change state as a session has begun, suspended or ended its work."""
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
        """Return the error that says so."""
        why = (
            "its time was over before it was prepared: set a longer timeout, or prepare sooner"
            if self.failure is BranchFailure.TIMED_OUT
            else "its work failed, could not be kept, or its session was closed"
        )
        return BranchError(f"branch {self.xid} was rolled back: {why}", self.failure)

    def report(self) -> BranchReport:
        """Return what an operator is told."""
        sent, received = self.unit.size
        return BranchReport(xid=self.xid, state=self.state, prepared_ms=self.prepared_ms, sent=sent, received=received)

    # Work. No lock is held.

    def take(self, entry: QueueEntry, delivery_count: int, session: ConsumerSession) -> bool:
        """Receive in the branch what `session` pulled; return False if that delivery is no longer the session's.

        When the branch is over, the message goes back at once, as if it had been received before.
        """
        queue = entry.queue
        with suppress(ClosedError):
            self.holder.take_queue(queue)
            queue.change_holder(entry, delivery_count, session, self.holder)
            if queue.settle_in(self.unit, [(entry, delivery_count)], self.holder):
                return True
        if not self.holder.is_closed:
            return False
        queue.give_back([(entry, delivery_count)], session)
        return True

    def undo(self) -> None:
        """Drop what was sent, and give back what was received, marked redelivered. May be repeated."""
        self.unit.rollback()
        self.holder.close()

    def decide(self, *, commit: bool, now_ms: int) -> None:
        """End it when it is prepared, and the outcome is written. May be repeated."""
        expiring = {entry.queue for entry in self.unit.sent() if entry.reference.expiration_ms}
        try:
            self.unit.decide(commit=commit)
            self.holder.close()
        finally:
            for queue in expiring:
                queue.do_what_is_due(now_ms)  # while it was prepared, expiry left it alone
