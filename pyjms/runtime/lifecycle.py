"""The life of connections and sessions: states, what is closed in place of a program that does not get it, and programs that end too early."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from contextlib import suppress
from enum import Enum, auto
from functools import cache
from typing import Protocol
from weakref import WeakValueDictionary

from pyjms.api.closing import Closeable
from pyjms.api.destination import TemporaryQueue, TemporaryTopic
from pyjms.errors import IllegalStateException, JMSException

__all__ = ["TRANSITIONS", "Event", "State", "close_made", "delete_made", "next_state", "note_start"]


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


_log = logging.getLogger("pyjms.runtime")


class Listening(Protocol):
    """What may be listening: a connection."""

    @property
    def is_listening(self) -> bool:
        """Whether it is started, open, and has listeners. Takes no lock: at the end of a program others may hold any."""


_started: WeakValueDictionary[tuple[int, int], Listening] = WeakValueDictionary()
"""Connections that were started, by process and identity. Its references are listed in one step, whatever other threads do."""


def note_start(connection: Listening) -> None:
    """Look at `connection` when the program ends. Any thread; once or several times."""
    _started[os.getpid(), id(connection)] = connection
    _be_called()


@cache
def _be_called() -> None:
    atexit.register(_warn)  # later than an embedded broker, and so called earlier: that one's end is the connection's


def _warn() -> None:
    process = os.getpid()
    listening = [
        connection
        for reference in _started.valuerefs()
        if reference.key[0] == process and (connection := reference()) is not None and connection.is_listening
    ]
    _started.clear()  # two threads that both start the first connection may have registered this twice
    if listening and getattr(sys, "last_value", None) is None and not hasattr(sys, "ps1"):
        _log.warning(
            "PYJMS-ENDED the program ends while %d connection(s) with listeners are open: threads of pyjms keep no program alive. To go on "
            "listening, have the main thread wait, as by threading.Event().wait(); otherwise close connections before the end, so that "
            "listeners finish what they do",
            len(listening),
        )


def close_made(made: Closeable) -> None:
    """Close a connection, session, consumer, producer or browser that the program does not get."""
    with suppress(JMSException):  # the interrupt is what the program hears of
        made.close()


def delete_made(made: TemporaryQueue | TemporaryTopic) -> None:
    """Delete a temporary destination that the program does not get."""
    with suppress(JMSException):  # as above; it ends with its connection
        made.delete()
