"""What CONNECT and CONNECTED negotiate: the version and the heart-beats (STOMP 1.2, "Connecting"); and which frame is allowed when.

The states of a connection at the server are a table; handlers do the frames. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from pyjms_provider.protocols.stomp.errors import FrameError, SequenceError, VersionError
from pyjms_provider.protocols.stomp.frames import Frame, Version

ALL_VERSIONS = tuple(Version)
_LONGEST_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartBeats:
    """The periods of one side, in milliseconds; 0: none."""

    send_ms: int
    """The longest time between bytes that it sends."""
    expect_ms: int
    """The longest time between bytes of the other side."""


def accepted_versions(versions: Iterable[Version]) -> str:
    """Return the header `accept-version` of CONNECT."""
    return ",".join(version.value for version in versions)


def choose_version(accept_version: str | None, supported: Iterable[Version] = ALL_VERSIONS) -> Version:
    """Return the highest version that both sides speak; None: a client of 1.0, which has no such header.

    Raises `VersionError`: answer with `refusal`, and close (Broker-J, "AMQP Protocol Engines": unsupported versions).
    """
    known = tuple(supported)
    # Only clients of STOMP 1.0 send no such header (STOMP 1.2, "Protocol Negotiation").
    offered = {"1.0"} if accept_version is None else {text.strip() for text in accept_version.split(",")}
    common = [version for version in Version if version.value in offered and version in known]
    if not common:
        spoken = accepted_versions(known)
        raise VersionError(f"no version of STOMP is known to both sides: here are spoken {spoken}")
    return common[-1]


def refusal(error: VersionError, supported: Iterable[Version] = ALL_VERSIONS) -> Frame:
    """Return the ERROR that lists the versions spoken here (STOMP 1.2, "Protocol Negotiation")."""
    body = error.reason.encode()
    headers = {
        "version": accepted_versions(supported),
        "message": "no common version",
        "content-type": "text/plain;charset=utf-8",
        "content-length": str(len(body)),
    }
    return Frame("ERROR", headers, body)


def version_of_connected(frame: Frame, offered: Iterable[Version] = ALL_VERSIONS) -> Version:
    """Return the broker's choice of version; without the header it is 1.0. Raises `VersionError`."""
    text = frame.headers.get("version", "1.0")
    for version in offered:
        if version.value == text:
            return version
    raise VersionError(f"the broker chose version {text[:20]!r}, which was not offered to it")


def read_heart_beat(text: str | None) -> tuple[int, int]:
    """Return the periods in which the other side can send and wants heart-beats, in milliseconds; 0, 0 without a header.

    Raises `FrameError` if it is not a pair of numbers.
    """
    if text is None:
        return 0, 0
    can, comma, wants = text.partition(",")
    pair = can.strip(), wants.strip()
    if not comma or not all(each.isascii() and each.isdigit() and len(each) <= 15 for each in pair):
        raise FrameError("the header heart-beat has two numbers of milliseconds, such as heart-beat:10000,10000")
    return min(int(pair[0]), _LONGEST_MS), min(int(pair[1]), _LONGEST_MS)


def agree_on_heart_beats(own: tuple[int, int], other: tuple[int, int]) -> HeartBeats:
    """Return the periods of a side that can send and wants `own`, if the other one can send and wants `other`.

    STOMP 1.2, "Heart-beating": the larger of what one side can do and the other one wants; 0 on either side: none.
    """
    (can_ms, wants_ms), (other_can_ms, other_wants_ms) = own, other
    return HeartBeats(
        send_ms=max(can_ms, other_wants_ms) if can_ms and other_wants_ms else 0,
        expect_ms=max(wants_ms, other_can_ms) if wants_ms and other_can_ms else 0,
    )


class ServerState(Enum):
    """The state of a connection at the server."""

    NEW = "log in first: the first frame is CONNECT, with accept-version and host"
    LOGGING_IN = "it is being found out who the client is: it waits for CONNECTED"
    OPEN = "the client has logged in"
    LEAVING = "the client has said DISCONNECT: it sends nothing more"
    OVER = "the connection is over"

    # `Enum` hashes a member's name in Python code; identity is enough for the table, which is used for each frame.
    __hash__ = object.__hash__


class ServerEvent(Enum):
    """The events of a connection at the server."""

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
        (_S.NEW, _E.REFUSE): _S.OVER,  # the input was no frame, or not CONNECT
        (_S.NEW, _E.END): _S.OVER,
        (_S.LOGGING_IN, _E.ACCEPT): _S.OPEN,
        (_S.LOGGING_IN, _E.REFUSE): _S.OVER,
        (_S.LOGGING_IN, _E.END): _S.OVER,
        (_S.OPEN, _E.REQUEST): _S.OPEN,
        (_S.OPEN, _E.DISCONNECT): _S.LEAVING,
        (_S.OPEN, _E.REFUSE): _S.OVER,
        (_S.OPEN, _E.END): _S.OVER,
        (_S.LEAVING, _E.REFUSE): _S.OVER,  # earlier frames may still fail
        (_S.LEAVING, _E.END): _S.OVER,
        (_S.OVER, _E.END): _S.OVER,
    }
)

_FROM_CLIENTS: Mapping[str, ServerEvent] = MappingProxyType(
    {"CONNECT": ServerEvent.CONNECT, "STOMP": ServerEvent.CONNECT, "DISCONNECT": ServerEvent.DISCONNECT}
)


def server_event(command: str) -> ServerEvent:
    """Return the event for a frame from a client; the handler refuses unknown commands."""
    return _FROM_CLIENTS.get(command, ServerEvent.REQUEST)


def next_server_state(state: ServerState, event: ServerEvent) -> ServerState:
    """Return the state after `event`. Raises `SequenceError` if the event is not allowed then."""
    try:
        return SERVER_TRANSITIONS[state, event]
    except KeyError:
        raise SequenceError(f"{event.value} must not come now: {state.value}") from None
