"""The life of a connection, a session, a producer, a consumer and a browser, as one table (JMS 1.1 §4.3.3 to §4.3.5).

Everything that decides whether a call is allowed in a state stands in `TRANSITIONS`. CLOSING is the time in which
`close` waits for running listeners: to them, all facilities stay available.
"""

from __future__ import annotations

from enum import Enum, auto

from pyjms.errors import IllegalStateException


class State(Enum):
    """Where an object is in its life."""

    STOPPED = auto()
    STARTED = auto()
    CLOSING = auto()
    CLOSED = auto()


class Event(Enum):
    """What happens to it."""

    START = auto()
    STOP = auto()
    CLOSE = auto()
    FINISH = auto()


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.STOPPED, Event.START): State.STARTED,  # §4.3.3
    (State.STARTED, Event.START): State.STARTED,  # §4.3.3: starting a started connection is ignored
    (State.STARTED, Event.STOP): State.STOPPED,  # §4.3.4
    (State.STOPPED, Event.STOP): State.STOPPED,  # §4.3.4: stopping a stopped connection is ignored
    (State.STOPPED, Event.CLOSE): State.CLOSING,  # §4.3.5
    (State.STARTED, Event.CLOSE): State.CLOSING,  # §4.3.5
    (State.CLOSING, Event.CLOSE): State.CLOSING,  # a second closer waits for the first
    (State.CLOSING, Event.FINISH): State.CLOSED,  # §4.3.5: listeners have returned
    (State.CLOSED, Event.CLOSE): State.CLOSED,  # §4.3.5: closing a closed connection is no error
    (State.CLOSED, Event.FINISH): State.CLOSED,
}
"""All that may happen. A pair that is missing raises IllegalStateException."""


def next_state(state: State, event: Event, what: str) -> State:
    """Return the state after `event`. Raises IllegalStateException that names `what` (for instance "connection")."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalStateException(f"the {what} is {state.name.lower()}: it cannot {event.name.lower()}") from None
