"""The states of a STOMP connection, at the server and at the client, as tables (STOMP 1.2, "Connecting", "Client Frames",
"Server Frames").

Which frame may come when stands here, and nowhere else; what a frame does is its handler's affair. ERROR is the server's last
frame on a plain connection; on a profile connection it is only if it says so (`wire_errors.is_closing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeVar

from pyjms_provider.protocols.stomp.errors import SequenceError
from pyjms_provider.protocols.stomp.verbs import VERBS

__all__ = [
    "CLIENT_TRANSITIONS",
    "SERVER_TRANSITIONS",
    "ClientEvent",
    "ClientState",
    "ServerEvent",
    "ServerState",
    "client_event",
    "next_client_state",
    "next_server_state",
    "server_event",
]


class ServerState(Enum):
    """A connection as the server sees it."""

    NEW = "the client has said nothing yet: its first frame is CONNECT"
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


class ClientState(Enum):
    """A connection as the client sees it."""

    NEW = "nothing was sent yet"
    CONNECTING = "CONNECT was sent: CONNECTED or ERROR comes first"
    OPEN = "CONNECTED has come"
    LEAVING = "DISCONNECT was sent: RECEIPTs and messages may still come"
    OVER = "the connection is over"

    __hash__ = object.__hash__


class ClientEvent(Enum):
    """What can happen to it."""

    CONNECT = "CONNECT is sent"
    REQUEST = "a frame other than CONNECT and DISCONNECT is sent"
    DISCONNECT = "DISCONNECT is sent"
    CONNECTED = "CONNECTED"
    ANSWER = "MESSAGE, RECEIPT, or an ERROR that ends nothing"
    REFUSED = "an ERROR that ends the connection"
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

_C, _F = ClientState, ClientEvent
CLIENT_TRANSITIONS: Mapping[tuple[ClientState, ClientEvent], ClientState] = MappingProxyType(
    {
        (_C.NEW, _F.CONNECT): _C.CONNECTING,
        (_C.NEW, _F.END): _C.OVER,
        (_C.CONNECTING, _F.CONNECTED): _C.OPEN,
        (_C.CONNECTING, _F.REFUSED): _C.OVER,
        (_C.CONNECTING, _F.END): _C.OVER,
        (_C.OPEN, _F.REQUEST): _C.OPEN,
        (_C.OPEN, _F.ANSWER): _C.OPEN,
        (_C.OPEN, _F.REFUSED): _C.OVER,
        (_C.OPEN, _F.DISCONNECT): _C.LEAVING,
        (_C.OPEN, _F.END): _C.OVER,
        (_C.LEAVING, _F.ANSWER): _C.LEAVING,  # what was on its way
        (_C.LEAVING, _F.REFUSED): _C.OVER,
        (_C.LEAVING, _F.END): _C.OVER,
        (_C.OVER, _F.END): _C.OVER,
    }
)

_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)

_FROM_CLIENTS: Mapping[str, ServerEvent] = MappingProxyType(
    {
        **dict.fromkeys({"SEND", "ACK", "NACK", *(verb.COMMAND for verb in VERBS)}, ServerEvent.REQUEST),
        "CONNECT": ServerEvent.CONNECT,
        "STOMP": ServerEvent.CONNECT,
        "DISCONNECT": ServerEvent.DISCONNECT,
    }
)
_FROM_SERVERS: Mapping[str, ClientEvent] = MappingProxyType(
    {
        "CONNECTED": ClientEvent.CONNECTED,
        "MESSAGE": ClientEvent.ANSWER,
        "RECEIPT": ClientEvent.ANSWER,
        "ERROR": ClientEvent.REFUSED,
    }
)


def server_event(command: str) -> ServerEvent:
    """Return what a frame from a client is to the server. Raises `SequenceError` for a command that clients do not have."""
    try:
        return _FROM_CLIENTS[command]
    except KeyError:
        raise SequenceError(f"{command} is no command that a client sends") from None


def client_event(command: str, *, ends: bool = True) -> ClientEvent:
    """Return what a frame from a server is to the client; `ends`: an ERROR is the last frame.

    Raises `SequenceError` for a command that servers do not have.
    """
    try:
        event = _FROM_SERVERS[command]
    except KeyError:
        raise SequenceError(f"{command} is no command that a server sends") from None
    return event if ends or command != "ERROR" else ClientEvent.ANSWER


def next_server_state(state: ServerState, event: ServerEvent) -> ServerState:
    """Return the state after `event`. Raises `SequenceError` for what must not happen then."""
    return _next(SERVER_TRANSITIONS, state, event)


def next_client_state(state: ClientState, event: ClientEvent) -> ClientState:
    """Return the state after `event`. Raises `SequenceError` for what must not happen then."""
    return _next(CLIENT_TRANSITIONS, state, event)


def _next(table: Mapping[tuple[_State, _Event], _State], state: _State, event: _Event) -> _State:
    try:
        return table[state, event]
    except KeyError:
        raise SequenceError(f"{event.value} must not come now: {state.value}") from None
