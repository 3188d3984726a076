"""A coordinator of distributed transactions in the simulation: it logs its decisions, and remembers them over crashes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pyjms.spi.errors import BranchError, InDoubtError, ProviderError
from pyjms.spi.xid import BranchFailure, Xid
from tests.provider.simulation.oracle import Fate, Record, ViolationError
from tests.provider.simulation.site import LostAnswerError

if TYPE_CHECKING:
    from pyjms_provider.clients.vm import VmSession
    from tests.provider.simulation.world import Client, World

MOST = 3


class Phase(Enum):
    """How far a branch is, by what the coordinator was told."""

    ENDED = "its work is done"
    ASKED = "nobody knows whether it is prepared"
    PREPARED = "the broker has promised"


@dataclass(slots=True, eq=False)
class SimulatedBranch:
    """A branch, and what it sent and received."""

    xid: Xid
    sent: list[Record]
    taken: list[Record]
    phase: Phase = Phase.ENDED
    decision: bool | None = None
    """What stands in the coordinator's log: commit or not; None: nothing."""
    is_busy: bool = False
    may_let_go: bool = False
    """Whether what it has taken may go back now, before the coordinator hears of it."""

    def mark(self, *, in_doubt: bool) -> None:
        """Say whether the death of the broker leaves it."""
        for record in (*self.sent, *self.taken):
            record.in_doubt = in_doubt


class Coordinator:
    """Lets clients work in branches, and ends these."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._branches: list[SimulatedBranch] = []
        self._unsure: list[SimulatedBranch] = []
        """Those that were not promised, and may be found after a crash nevertheless, as nobody answered."""
        self._numbers = 0

    # Work

    def work(self, client: Client) -> None:
        """Have a client do something in a new branch, and end that."""
        world = self._world
        if not client.transacted or client.is_late or client.held or client.sent or len(self._branches) >= MOST:
            return
        self._numbers += 1
        xid = Xid(1, b"%d" % self._numbers, b"")
        try:
            client.session.xa_start(xid)
        except ProviderError:
            return
        client.has_branches, client.began_ms = True, None
        world.log.append(f"start {self._numbers} by {client.number}")
        for _ in range(world.random.randint(1, 3)):
            (world.send if world.random.random() < 0.5 else world.receive)(client)
        try:
            client.session.acknowledge([delivery for delivery, _ in client.held])
            client.session.xa_end(xid)
        except ProviderError:
            assert client.session._closed  # so its work is undone
            world.undo(client)
            return
        branch = SimulatedBranch(xid, client.sent, [record for _, record in client.held])
        client.sent, client.held = [], []
        for record in branch.taken:
            record.holder = branch
        for record in branch.sent:
            record.has_no_place = True  # among what is committed before and after it
        self._branches.append(branch)
        world.log.append(f"end {self._numbers}: {_shown(branch)}")

    # Ends

    def settle(self) -> None:
        """Go a step on with some branch."""
        idle = [branch for branch in self._branches if not branch.is_busy]
        if not idle:
            return
        branch = self._world.random.choice(idle)
        branch.is_busy = True
        session = self._world.site.session(transacted=True)
        self._go_on(branch, session)
        session._connection.close()
        branch.is_busy = branch.may_let_go = False

    def _go_on(self, branch: SimulatedBranch, session: VmSession) -> None:
        if branch.phase is Phase.PREPARED:
            if branch.decision is None:
                branch.decision = self._world.random.random() < 0.7
            self._end(branch, session, commit=branch.decision)
            return
        chance = self._world.random.random()
        if chance < 0.15:
            self._end(branch, session, commit=False)
        elif chance < 0.35:
            self._commit_at_once(branch, session)
        else:
            self._prepare(branch, session)

    def _prepare(self, branch: SimulatedBranch, session: VmSession) -> None:
        self._world.log.append(f"prepare {_shown(branch)}")
        branch.phase = Phase.ASKED
        branch.mark(in_doubt=True)
        branch.may_let_go = True
        try:
            has_work = session.xa_prepare(branch.xid)
        except BranchError as error:
            self._world.log.append(f"… {error.failure.name}")
            self._forget(branch, committed=False)
            if isinstance(error.__cause__, InDoubtError):
                self._unsure.append(branch)
            return
        branch.phase = Phase.PREPARED
        if not has_work:
            self._forget(branch, committed=True)

    def _commit_at_once(self, branch: SimulatedBranch, session: VmSession) -> None:
        self._world.log.append(f"commit in one phase {_shown(branch)}")
        self._branches.remove(branch)
        branch.may_let_go = True
        self._try(branch)
        try:
            session.xa_commit(branch.xid, one_phase=True)
        except BranchError as error:
            self._world.log.append(f"… {error.failure.name}")
            if isinstance(error.__cause__, LostAnswerError):
                self._world.settled_later(branch.sent, branch.taken, is_written=error.__cause__.is_written)
            else:
                self._close(branch, committed=False)
            return
        self._close(branch, committed=True)

    def _end(self, branch: SimulatedBranch, session: VmSession, *, commit: bool) -> None:
        self._world.log.append(f"{'commit' if commit else 'roll back'} {_shown(branch)}")
        branch.may_let_go = not commit
        if commit:
            self._try(branch)
        try:
            session.xa_commit(branch.xid) if commit else session.xa_rollback(branch.xid)
        except BranchError as error:
            self._world.log.append(f"… {error.failure.name}")
            if error.failure is BranchFailure.UNKNOWN:
                raise ViolationError(f"the broker does not know branch {branch.xid}") from error
            self._hold(branch)
            return
        self._forget(branch, committed=commit)

    def _try(self, branch: SimulatedBranch) -> None:
        """Note that a commit is being written."""
        for record in branch.sent:
            if record.fate is Fate.PENDING:
                record.fate = Fate.UNKNOWN
        for record in branch.taken:
            if record.fate is Fate.THERE:
                record.fate = Fate.PERHAPS_CONSUMED

    def _hold(self, branch: SimulatedBranch) -> None:
        """Note that it is prepared still."""
        for record in branch.sent:
            if record.fate is Fate.UNKNOWN:
                record.fate = Fate.PENDING
        for record in branch.taken:
            if record.fate is Fate.PERHAPS_CONSUMED:
                record.fate = Fate.THERE
            if record.fate is Fate.THERE:
                record.holder = branch

    def _forget(self, branch: SimulatedBranch, *, committed: bool) -> None:
        self._branches.remove(branch)
        self._close(branch, committed=committed)

    def _close(self, branch: SimulatedBranch, *, committed: bool) -> None:
        """Note how a branch has ended."""
        branch.mark(in_doubt=False)
        if committed:
            for record in branch.sent:
                if record.fate in (Fate.PENDING, Fate.UNKNOWN):  # else somebody has it already
                    record.fate = Fate.THERE
            for record in branch.taken:
                if record.fate in (Fate.THERE, Fate.PERHAPS_CONSUMED):
                    record.fate, record.holder = Fate.CONSUMED, None
            return
        for record in branch.sent:
            if record.fate in (Fate.PENDING, Fate.UNKNOWN):
                record.fate = Fate.NEVER
        back = [record for record in branch.taken if record.holder is branch]
        for record in back:
            if record.fate is Fate.PERHAPS_CONSUMED:
                record.fate = Fate.THERE
        self._world.give_back(back)

    # Death and recovery

    def recover(self) -> None:
        """Compare what the broker has kept with what it promised. Raises `ViolationError`."""
        session = self._world.site.session(transacted=True)
        found = set(session.xa_recover())
        for branch in self._unsure:
            if branch.xid in found:
                branch.phase, branch.decision, branch.sent = Phase.PREPARED, False, []
                branch.taken = [record for record in branch.taken if record.fate is Fate.THERE]
                branch.mark(in_doubt=True)
                self._branches.append(branch)
        self._unsure.clear()
        known = {branch.xid for branch in self._branches}
        if found - known:
            raise ViolationError(f"branches in doubt that nobody prepared, or that have ended: {found - known}")
        for branch in list(self._branches):
            branch.is_busy = branch.may_let_go = False
            if branch.xid in found:
                branch.phase = Phase.PREPARED
                self._hold(branch)
            elif branch.phase is Phase.PREPARED and branch.decision is None:
                raise ViolationError(f"branch {branch.xid} was prepared, and is gone: {_shown(branch)}")
            else:
                self._forget(branch, committed=branch.phase is Phase.PREPARED and bool(branch.decision))
        session._connection.close()

    def finish(self) -> None:
        """End all that is in doubt, as the log says."""
        while self._branches:
            self.settle()


def _shown(branch: SimulatedBranch) -> str:
    number = branch.xid.global_transaction_id.decode()
    return f"{number} sends {[each.text for each in branch.sent]}, takes {[each.text for each in branch.taken]}"
