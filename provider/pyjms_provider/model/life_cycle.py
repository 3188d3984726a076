"""The life cycle of managed objects as a table, and the phases in which one comes to be (Broker-J, "Lifecycle")."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from pyjms_provider.model.errors import WrongStateError


class State(Enum):
    """Where an object is in its life."""

    UNINITIALIZED = "uninitialized"
    """It is being created or recovered."""
    ACTIVE = "active"
    STOPPED = "stopped"
    """An operator has stopped it; it stays so after a restart."""
    ERRORED = "errored"
    """It could not be opened; its error says why, and the rest of the broker goes on."""
    CLOSED = "closed"
    """The broker has ended; what is durable comes back with it."""
    DELETED = "deleted"

    __hash__ = object.__hash__


class Event(Enum):
    """What happens to an object."""

    OPEN = "open"
    """It was opened."""
    START = "start"
    STOP = "stop"
    FAIL = "fail"
    """It could not be opened or started."""
    CLOSE = "close"
    DELETE = "delete"

    __hash__ = object.__hash__


class Phase(Enum):
    """One step on the way of an object into being."""

    RESOLVE = "resolve"
    """Variables are replaced and values converted."""
    VALIDATE = "validate"
    """The category's own rules are checked."""
    REGISTER = "register"
    """The parent knows it."""
    ON_CREATE = "on_create"
    """What happens once in its life."""
    ON_OPEN = "on_open"
    """What happens each time the broker starts."""

    __hash__ = object.__hash__


CREATION: Final = (Phase.RESOLVE, Phase.VALIDATE, Phase.REGISTER, Phase.ON_CREATE, Phase.ON_OPEN)
"""The phases of an object that is new."""
RECOVERY: Final = (Phase.RESOLVE, Phase.VALIDATE, Phase.ON_OPEN)
"""The phases of one that was found in a configuration store: its parent knows it from the store."""

TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.UNINITIALIZED, Event.OPEN): State.ACTIVE,
    (State.UNINITIALIZED, Event.STOP): State.STOPPED,  # recovered, and it had been stopped
    (State.UNINITIALIZED, Event.FAIL): State.ERRORED,
    (State.UNINITIALIZED, Event.DELETE): State.DELETED,  # its creation failed
    (State.UNINITIALIZED, Event.CLOSE): State.CLOSED,
    (State.ACTIVE, Event.START): State.ACTIVE,
    (State.ACTIVE, Event.STOP): State.STOPPED,
    (State.ACTIVE, Event.FAIL): State.ERRORED,
    (State.ACTIVE, Event.CLOSE): State.CLOSED,
    (State.ACTIVE, Event.DELETE): State.DELETED,
    (State.STOPPED, Event.START): State.ACTIVE,
    (State.STOPPED, Event.STOP): State.STOPPED,
    (State.STOPPED, Event.FAIL): State.ERRORED,
    (State.STOPPED, Event.CLOSE): State.CLOSED,
    (State.STOPPED, Event.DELETE): State.DELETED,
    (State.ERRORED, Event.START): State.ACTIVE,
    (State.ERRORED, Event.STOP): State.STOPPED,
    (State.ERRORED, Event.FAIL): State.ERRORED,
    (State.ERRORED, Event.CLOSE): State.CLOSED,
    (State.ERRORED, Event.DELETE): State.DELETED,
    (State.CLOSED, Event.CLOSE): State.CLOSED,
}
"""What is not here may not be: nothing leaves DELETED, and a closed object only comes back with its broker."""


def next_state(state: State, event: Event, what: str = "the object") -> State:
    """Return the state that follows; `what` names the object in the error. Raises `WrongStateError`."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise WrongStateError(f"{what} is {state.value}: it cannot {event.value} now") from None
