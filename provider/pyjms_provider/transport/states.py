"""The states of a connection, and what leads from one to the next: a table without behaviour."""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import Final

__all__ = ["NEXT", "Event", "State"]


class State(Enum):
    """What a connection is at."""

    SHAKING = "the handshakes of TLS and WebSocket go on; there is no engine"
    OPEN = "bytes go to and from the engine"
    CLOSING = "all is said; waiting for the peer to hang up"
    ENDED = "the socket is closed"


class Event(Enum):
    """What brings a connection to another state."""

    OPENED = "the handshakes are done"
    FINISHED = "there is nothing more to say"
    LOST = "the socket was closed"


NEXT: Final = MappingProxyType(
    {
        (State.SHAKING, Event.OPENED): State.OPEN,
        (State.SHAKING, Event.FINISHED): State.CLOSING,
        (State.OPEN, Event.FINISHED): State.CLOSING,
        (State.SHAKING, Event.LOST): State.ENDED,
        (State.OPEN, Event.LOST): State.ENDED,
        (State.CLOSING, Event.LOST): State.ENDED,
    }
)
"""Which state follows, of those that may."""
