"""How far a branch of a distributed transaction is, as a table (X/Open XA, table 6-4: state of a branch).

XA's own names are in the states' values. What it calls one call has two halves here where a journal is written between:
PREPARING, COMMITTING and SETTLING keep all others away meanwhile.

Deliberately elsewhere: whether a session may start, suspend or end (XA's table 6-3; `branches.py`), and what a
branch has done (`unit_of_work.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from pyjms.spi.errors import BranchError
from pyjms.spi.xid import BranchFailure

__all__ = ["BRANCH_TRANSITIONS", "BranchEvent", "BranchState", "next_branch_state"]


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
    """What moves a branch on."""

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

BRANCH_TRANSITIONS: Mapping[tuple[BranchState, BranchEvent], BranchState] = MappingProxyType(
    {
        (_STATE.ACTIVE, _EVENT.WORK): _STATE.ACTIVE,
        (_STATE.ACTIVE, _EVENT.SUSPEND): _STATE.SUSPENDED,
        (_STATE.ACTIVE, _EVENT.END): _STATE.IDLE,
        (_STATE.ACTIVE, _EVENT.DOOM): _STATE.ROLLBACK_ONLY,
        (_STATE.SUSPENDED, _EVENT.WORK): _STATE.ACTIVE,
        (_STATE.SUSPENDED, _EVENT.SUSPEND): _STATE.SUSPENDED,
        (_STATE.SUSPENDED, _EVENT.END): _STATE.IDLE,
        (_STATE.SUSPENDED, _EVENT.DOOM): _STATE.ROLLBACK_ONLY,
        (_STATE.IDLE, _EVENT.WORK): _STATE.ACTIVE,
        (_STATE.IDLE, _EVENT.DOOM): _STATE.ROLLBACK_ONLY,
        (_STATE.IDLE, _EVENT.PREPARE): _STATE.PREPARING,
        (_STATE.IDLE, _EVENT.PREPARE_NOTHING): _STATE.COMMITTED,
        (_STATE.IDLE, _EVENT.COMMIT_AT_ONCE): _STATE.COMMITTING,
        (_STATE.IDLE, _EVENT.ROLLBACK): _STATE.ROLLED_BACK,
        (_STATE.ROLLBACK_ONLY, _EVENT.SUSPEND): _STATE.ROLLBACK_ONLY,
        (_STATE.ROLLBACK_ONLY, _EVENT.WORK): _STATE.ROLLBACK_ONLY,
        (_STATE.ROLLBACK_ONLY, _EVENT.END): _STATE.ROLLBACK_ONLY,
        (_STATE.ROLLBACK_ONLY, _EVENT.DOOM): _STATE.ROLLBACK_ONLY,
        (_STATE.ROLLBACK_ONLY, _EVENT.ROLLBACK): _STATE.ROLLED_BACK,
        (_STATE.PREPARING, _EVENT.WRITTEN): _STATE.PREPARED,
        (_STATE.PREPARING, _EVENT.REFUSED): _STATE.ROLLBACK_ONLY,
        (_STATE.PREPARED, _EVENT.SETTLE): _STATE.SETTLING,
        (_STATE.COMMITTING, _EVENT.WRITTEN): _STATE.COMMITTED,
        (_STATE.COMMITTING, _EVENT.REFUSED): _STATE.ROLLED_BACK,
        (_STATE.COMMITTING, _EVENT.LOSE): _STATE.LOST,
        (_STATE.SETTLING, _EVENT.COMMIT_WRITTEN): _STATE.COMMITTED,
        (_STATE.SETTLING, _EVENT.ROLLBACK_WRITTEN): _STATE.ROLLED_BACK,
        (_STATE.SETTLING, _EVENT.HEURISTIC_COMMIT_WRITTEN): _STATE.HEURISTICALLY_COMMITTED,
        (_STATE.SETTLING, _EVENT.HEURISTIC_ROLLBACK_WRITTEN): _STATE.HEURISTICALLY_ROLLED_BACK,
        (_STATE.SETTLING, _EVENT.REFUSED): _STATE.PREPARED,
        (_STATE.HEURISTICALLY_COMMITTED, _EVENT.FORGET): _STATE.FORGOTTEN,
        (_STATE.HEURISTICALLY_ROLLED_BACK, _EVENT.FORGET): _STATE.FORGOTTEN,
    }
)
"""All that may happen. Any other pair is refused by the code of XA that fits (`next_branch_state`)."""

_HEURISTIC: Mapping[BranchState, BranchFailure] = MappingProxyType(
    {
        _STATE.HEURISTICALLY_COMMITTED: BranchFailure.HEURISTICALLY_COMMITTED,
        _STATE.HEURISTICALLY_ROLLED_BACK: BranchFailure.HEURISTICALLY_ROLLED_BACK,
    }
)
_DECISIONS = frozenset({_EVENT.SETTLE, _EVENT.ROLLBACK, _EVENT.COMMIT_AT_ONCE})
_BEING_WRITTEN = frozenset({_STATE.PREPARING, _STATE.COMMITTING, _STATE.SETTLING})


def next_branch_state(state: BranchState, event: BranchEvent) -> BranchState:
    """Return the state after `event`.

    Raises `BranchError` for a pair that may not be: heuristically committed or rolled back when a coordinator decides
    about a branch that an operator has settled; UNREACHABLE when it calls again while its earlier call is being written, of which it may
    know nothing as the connection was lost; else PROTOCOL.
    """
    after = BRANCH_TRANSITIONS.get((state, event))
    if after is not None:
        return after
    failure = _HEURISTIC.get(state) if event in _DECISIONS else None
    if failure is not None:
        raise BranchError(f"{state.value}: call forget when that is noted", failure)
    if state in _BEING_WRITTEN and (event in _DECISIONS or event is _EVENT.PREPARE):
        raise BranchError(
            f"{state.value}, as an earlier call asked: wait a moment, and call again", BranchFailure.UNREACHABLE
        )
    raise BranchError(f"the call came at a wrong time: {event.value}, but {state.value}", BranchFailure.PROTOCOL)
