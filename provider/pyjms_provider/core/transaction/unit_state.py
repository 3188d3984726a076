"""How far a unit of work is, and what moves it on: one table; a miss is a fault of its session, never a guess."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

__all__ = ["UNIT_TRANSITIONS", "ForbiddenUnitEventError", "UnitEvent", "UnitState", "next_unit_state"]


class UnitState(Enum):
    """How far a unit is."""

    OPEN = "takes messages and acknowledgements"
    INCOMPLETE = "a message that it sends has expired: it may still be staged without that one, but not committed"
    DOOMED = "rolled back because a message in it expired; its session does not know yet"
    COMMITTING = "is being written: whether that succeeds decides, and nothing else"
    PREPARED = "is kept as a branch of a distributed transaction: its coordinator decides, and nothing else"
    COMMITTED = "has taken effect"
    ROLLED_BACK = "has had no effect"


class UnitEvent(Enum):
    """What moves a unit on."""

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

UNIT_TRANSITIONS: Mapping[tuple[UnitState, UnitEvent], UnitState] = MappingProxyType(
    {
        (_STATE.OPEN, _EVENT.COMMIT): _STATE.COMMITTING,
        (_STATE.OPEN, _EVENT.STAGE): _STATE.COMMITTING,
        (_STATE.OPEN, _EVENT.ROLLBACK): _STATE.ROLLED_BACK,
        (_STATE.OPEN, _EVENT.EXPIRE): _STATE.DOOMED,  # §5.1.3
        (_STATE.DOOMED, _EVENT.COMMIT): _STATE.ROLLED_BACK,
        (_STATE.DOOMED, _EVENT.STAGE): _STATE.ROLLED_BACK,
        (_STATE.DOOMED, _EVENT.ROLLBACK): _STATE.ROLLED_BACK,
        (_STATE.DOOMED, _EVENT.EXPIRE): _STATE.DOOMED,
        (_STATE.OPEN, _EVENT.LOSE_ONE): _STATE.INCOMPLETE,
        (_STATE.INCOMPLETE, _EVENT.COMMIT): _STATE.ROLLED_BACK,
        (_STATE.INCOMPLETE, _EVENT.STAGE): _STATE.COMMITTING,
        (_STATE.INCOMPLETE, _EVENT.ROLLBACK): _STATE.ROLLED_BACK,
        (_STATE.INCOMPLETE, _EVENT.EXPIRE): _STATE.DOOMED,
        (_STATE.INCOMPLETE, _EVENT.LOSE_ONE): _STATE.INCOMPLETE,
        (_STATE.DOOMED, _EVENT.LOSE_ONE): _STATE.DOOMED,
        (_STATE.COMMITTING, _EVENT.WRITTEN): _STATE.COMMITTED,
        (_STATE.COMMITTING, _EVENT.KEPT): _STATE.PREPARED,
        (_STATE.COMMITTING, _EVENT.REFUSED): _STATE.ROLLED_BACK,
        (_STATE.PREPARED, _EVENT.DECIDE_COMMIT): _STATE.COMMITTED,
        (_STATE.PREPARED, _EVENT.DECIDE_ROLLBACK): _STATE.ROLLED_BACK,
        # What ends a unit twice comes from another thread, and the first one counts.
        (_STATE.COMMITTING, _EVENT.ROLLBACK): _STATE.COMMITTING,
        (_STATE.COMMITTING, _EVENT.EXPIRE): _STATE.COMMITTING,
        (_STATE.COMMITTING, _EVENT.LOSE_ONE): _STATE.COMMITTING,
        (_STATE.PREPARED, _EVENT.ROLLBACK): _STATE.PREPARED,
        (_STATE.PREPARED, _EVENT.EXPIRE): _STATE.PREPARED,
        (_STATE.PREPARED, _EVENT.LOSE_ONE): _STATE.PREPARED,
        (_STATE.COMMITTED, _EVENT.ROLLBACK): _STATE.COMMITTED,
        (_STATE.COMMITTED, _EVENT.EXPIRE): _STATE.COMMITTED,
        (_STATE.COMMITTED, _EVENT.LOSE_ONE): _STATE.COMMITTED,
        (_STATE.ROLLED_BACK, _EVENT.COMMIT): _STATE.ROLLED_BACK,
        (_STATE.ROLLED_BACK, _EVENT.STAGE): _STATE.ROLLED_BACK,
        (_STATE.ROLLED_BACK, _EVENT.ROLLBACK): _STATE.ROLLED_BACK,
        (_STATE.ROLLED_BACK, _EVENT.EXPIRE): _STATE.ROLLED_BACK,
        (_STATE.ROLLED_BACK, _EVENT.LOSE_ONE): _STATE.ROLLED_BACK,
    }
)
"""Forbidden is to commit or stage a second time, to hear of a write that was not begun, or has been heard of, and to decide what is
not prepared."""


class ForbiddenUnitEventError(Exception):
    """A unit was ended in a way that its state forbids: a fault of its session, never of a client."""


def next_unit_state(state: UnitState, event: UnitEvent) -> UnitState:
    """Return the state after `event`. Raises `ForbiddenUnitEventError` for a pair that must not happen."""
    try:
        return UNIT_TRANSITIONS[state, event]
    except KeyError:
        raise ForbiddenUnitEventError(f"a unit of work that is {state.name} cannot have {event.name}") from None
