"""The states of a STOMP connection at the server, as a table (STOMP 1.2, "Connecting", "Client Frames").

Which frame may come when stands here, and nowhere else; what a frame does is its dialogue's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from pyjms_provider.protocols.stomp.errors import SequenceError

__all__ = ["SERVER_TRANSITIONS", "ServerEvent", "ServerState", "next_server_state", "server_event"]


class ServerState(Enum):
    """A connection as the server sees it."""

    NEW = "log in first: the first frame is CONNECT, with accept-version and host"
    LOGGING_IN = "it is being found out who the client is: it waits for CONNECTED"
    OPEN = "the client has logged in"
    LEAVING = "the client has said DISCONNECT: it sends nothing more"
    OVER = "the connection is over"

    __hash__ = object.__hash__


class ServerEvent(Enum):
    """What can happen to it."""

    CONNECT = "CONNECT"
    REQUEST = "a frame other than CONNECT and DISCONNECT"
    DISCONNECT = "DISCONNECT"
    ACCEPT = "CONNECTED is sent"
    REFUSE = "an ERROR is sent that ends the connection"
    END = "the connection is closed"

    __hash__ = object.__hash__


_S, _E = ServerState, ServerEvent
SERVER_TRANSITIONS: Mapping[tuple[ServerState, ServerEvent], ServerState] = MappingProxyType(
    {
        (_S.NEW, _E.CONNECT): _S.LOGGING_IN,
        (_S.NEW, _E.REFUSE): _S.OVER,  # what came was no frame, or not CONNECT
        (_S.NEW, _E.END): _S.OVER,
        (_S.LOGGING_IN, _E.ACCEPT): _S.OPEN,
        (_S.LOGGING_IN, _E.REFUSE): _S.OVER,
        (_S.LOGGING_IN, _E.END): _S.OVER,
        (_S.OPEN, _E.REQUEST): _S.OPEN,
        (_S.OPEN, _E.DISCONNECT): _S.LEAVING,
        (_S.OPEN, _E.REFUSE): _S.OVER,
        (_S.OPEN, _E.END): _S.OVER,
        (_S.LEAVING, _E.REFUSE): _S.OVER,  # what came before DISCONNECT may still fail
        (_S.LEAVING, _E.END): _S.OVER,
        (_S.OVER, _E.END): _S.OVER,
    }
)

_FROM_CLIENTS: Mapping[str, ServerEvent] = MappingProxyType(
    {"CONNECT": ServerEvent.CONNECT, "STOMP": ServerEvent.CONNECT, "DISCONNECT": ServerEvent.DISCONNECT}
)


def server_event(command: str) -> ServerEvent:
    """Return what a frame from a client is to the server; whether its command is one at all, the dialogue knows."""
    return _FROM_CLIENTS.get(command, ServerEvent.REQUEST)


def next_server_state(state: ServerState, event: ServerEvent) -> ServerState:
    """Return the state after `event`. Raises `SequenceError` for what must not happen then."""
    try:
        return SERVER_TRANSITIONS[state, event]
    except KeyError:
        raise SequenceError(f"{event.value} must not come now: {state.value}") from None
