"""What branches do, said again in the simplest way: a model for random sequences of calls, right and wrong ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pyjms.spi.xid import BranchFailure

__all__ = ["DEFAULT_TIMEOUT_MS", "Model", "ModelBranch", "RefusedError", "State"]

DEFAULT_TIMEOUT_MS = 300_000


class RefusedError(Exception):
    """The call must fail so."""

    def __init__(self, failure: BranchFailure) -> None:
        super().__init__(failure)
        self.failure = failure


class State(Enum):
    """What a coordinator can tell apart."""

    OPEN = "sessions work in it, have suspended work, or have ended"
    DOOMED = "it was rolled back, and its coordinator does not know"
    PREPARED = "in doubt"
    HEURISTIC_COMMIT = "an operator committed it"
    HEURISTIC_ROLLBACK = "an operator rolled it back"


HEURISTIC = {
    State.HEURISTIC_COMMIT: BranchFailure.HEURISTICALLY_COMMITTED,
    State.HEURISTIC_ROLLBACK: BranchFailure.HEURISTICALLY_ROLLED_BACK,
}


@dataclass(slots=True)
class ModelBranch:
    """One branch."""

    deadline_ms: int
    state: State = State.OPEN
    failure: BranchFailure = BranchFailure.ROLLED_BACK
    workers: dict[int, bool] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    received: list[str] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        """Whether all work in it has ended."""
        return self.state is State.OPEN and not self.workers


class Model:
    """Branches by name, sessions by number, and the texts that are in the queue for all to see."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.queue: list[str] = []
        self.branches: dict[str, ModelBranch] = {}
        self.working: dict[int, str] = {}
        """Which branch a session believes to be working in."""

    # Work

    def start(self, session: int, name: str, timeout_ms: int) -> None:
        """TMNOFLAGS."""
        self._must_be_free(session)
        if name in self.branches:
            raise RefusedError(BranchFailure.DUPLICATE)
        self.branches[name] = ModelBranch(self.now_ms + timeout_ms, workers={session: True})
        self.working[session] = name

    def join(self, session: int, name: str) -> None:
        """TMJOIN."""
        self._must_be_free(session)
        branch = self._find(name)
        self._must_live(branch)
        if branch.state is not State.OPEN or session in branch.workers:
            raise RefusedError(BranchFailure.PROTOCOL)
        branch.workers[session] = True
        self.working[session] = name

    def resume(self, session: int, name: str) -> None:
        """TMRESUME."""
        self._must_be_free(session)
        branch = self._find(name)
        if branch.workers.get(session) is not False:
            raise RefusedError(BranchFailure.PROTOCOL)
        self._must_live(branch)
        branch.workers[session] = True
        self.working[session] = name

    def suspend(self, session: int, name: str) -> None:
        """TMSUSPEND."""
        self._stop_working(session, name)
        branch = self._find(name)
        if not branch.workers.get(session):
            raise RefusedError(BranchFailure.PROTOCOL)
        if branch.state is State.DOOMED:
            del branch.workers[session]
        self._must_live(branch)
        branch.workers[session] = False

    def end(self, session: int, name: str, fail: bool) -> None:
        """TMSUCCESS, TMFAIL."""
        self._stop_working(session, name)
        branch = self._find(name)
        if branch.workers.pop(session, None) is None:
            raise RefusedError(BranchFailure.PROTOCOL)
        self._must_live(branch)
        if fail:
            self._doom(branch, BranchFailure.ROLLED_BACK)

    def send(self, session: int, text: str) -> None:
        """Send in the session's branch; in vain if it is over."""
        branch = self.branches.get(self.working[session])
        if branch is not None and branch.state is State.OPEN and branch.workers.get(session):
            branch.sent.append(text)

    def receive(self, session: int) -> None:
        """Receive the next message in the session's branch; if that is over, the message goes back."""
        branch = self.branches.get(self.working[session])
        if branch is not None and branch.state is State.OPEN and branch.workers.get(session):
            branch.received.append(self.queue.pop(0))

    # Two phases

    def prepare(self, name: str) -> bool:
        """Return what `xa_prepare` must."""
        branch = self._find(name)
        self._must_live(branch)
        if not branch.is_idle:
            raise RefusedError(BranchFailure.PROTOCOL)
        if not branch.sent and not branch.received:
            del self.branches[name]
            return False
        branch.state = State.PREPARED
        return True

    def commit(self, name: str) -> None:
        """In two phases."""
        branch = self._find(name)
        if branch.state is not State.PREPARED:
            raise RefusedError(HEURISTIC.get(branch.state, BranchFailure.PROTOCOL))
        self._apply(branch)
        del self.branches[name]

    def commit_at_once(self, name: str) -> None:
        """In one phase."""
        branch = self._find(name)
        if branch.state is State.DOOMED:
            del self.branches[name]
        self._must_live(branch)
        if not branch.is_idle:
            raise RefusedError(HEURISTIC.get(branch.state, BranchFailure.PROTOCOL))
        self._apply(branch)
        del self.branches[name]

    def rollback(self, name: str) -> None:
        """Of what is prepared, ended, or doomed."""
        branch = self._find(name)
        if not branch.is_idle and branch.state not in {State.PREPARED, State.DOOMED}:
            raise RefusedError(HEURISTIC.get(branch.state, BranchFailure.PROTOCOL))
        self._undo(branch)
        del self.branches[name]

    def forget(self, name: str) -> None:
        """Of what an operator settled."""
        if self._find(name).state not in HEURISTIC:
            raise RefusedError(BranchFailure.PROTOCOL)
        del self.branches[name]

    def settle(self, name: str, commit: bool) -> None:
        """As an operator."""
        branch = self._find(name)
        if branch.state is not State.PREPARED:
            raise RefusedError(HEURISTIC.get(branch.state, BranchFailure.PROTOCOL))
        self._apply(branch) if commit else self._undo(branch)
        branch.state = State.HEURISTIC_COMMIT if commit else State.HEURISTIC_ROLLBACK

    def recover(self) -> set[str]:
        """Return the names that a coordinator must get."""
        return {name for name, each in self.branches.items() if each.state is State.PREPARED or each.state in HEURISTIC}

    # What happens to them

    def close(self, session: int) -> None:
        """A session is closed."""
        self.working.pop(session, None)
        for branch in self.branches.values():
            if branch.workers.pop(session, None) is not None:
                self._doom(branch, BranchFailure.ROLLED_BACK)

    def crash(self) -> None:
        """The broker dies and starts again."""
        self.working.clear()
        for name, branch in list(self.branches.items()):
            if name not in self.recover():
                self._undo(branch)
                del self.branches[name]

    def advance(self, milliseconds: int) -> None:
        """Time goes by, and the housekeeper comes."""
        self.now_ms += milliseconds
        for name, branch in list(self.branches.items()):
            if branch.state not in {State.OPEN, State.DOOMED} or branch.deadline_ms > self.now_ms:
                continue
            branch.deadline_ms = self.now_ms + DEFAULT_TIMEOUT_MS
            if branch.state is State.OPEN:
                self._doom(branch, BranchFailure.TIMED_OUT)
            elif not branch.workers:
                del self.branches[name]

    # Parts of these

    def _must_be_free(self, session: int) -> None:
        if session in self.working:
            raise RefusedError(BranchFailure.PROTOCOL)

    def _stop_working(self, session: int, name: str) -> None:
        if self.working.get(session) == name:
            del self.working[session]

    def _find(self, name: str) -> ModelBranch:
        if name not in self.branches:
            raise RefusedError(BranchFailure.UNKNOWN)
        return self.branches[name]

    def _must_live(self, branch: ModelBranch) -> None:
        if branch.state is State.DOOMED:
            raise RefusedError(branch.failure)

    def _doom(self, branch: ModelBranch, failure: BranchFailure) -> None:
        if branch.state is State.OPEN:
            self._undo(branch)
            branch.state, branch.failure = State.DOOMED, failure

    def _apply(self, branch: ModelBranch) -> None:
        self.queue.extend(branch.sent)
        branch.sent, branch.received = [], []

    def _undo(self, branch: ModelBranch) -> None:
        """What was received is back in its place; texts are numbers that grow as they come into the queue."""
        self.queue.extend(branch.received)
        branch.sent, branch.received = [], []
