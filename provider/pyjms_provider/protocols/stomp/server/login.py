"""CONNECT and CONNECTED at the broker, the login's time limit, and heart-beats; and which frame is allowed when.

Version, virtual host, credentials (STOMP 1.2, "Connecting"); STOMP 1.2, "Heart-beating"; Broker-J's idle tickers. The states of a connection are a
table; handlers do the frames. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyjms_provider.protocols.profile.commands import PROFILE_VERSION
from pyjms_provider.protocols.stomp.errors import FrameError, SequenceError, VersionError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.packed import PACKED_HEADER, PACKED_VERSION
from pyjms_provider.security.contracts import (
    TOKEN_USER,
    CertificateCredentials,
    Credentials,
    PasswordCredentials,
    TokenCredentials,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyjms_provider.protocols.engine import Peer
    from pyjms_provider.protocols.stomp.server.settings import StompSettings

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The client's CONNECT, and what was negotiated."""

    version: Version
    host: str
    """The virtual host; "": the default one."""
    client_id: str | None
    speaks_profile: bool
    is_packed: bool
    """Whether messages go both ways in the packed form of stores, several in a frame."""
    out_ms: int
    """The longest time between bytes of the broker; 0: no limit."""
    in_ms: int
    """The longest time between bytes of the client; 0: no limit."""
    request_id: str | None = None
    """The `response-id` of CONNECTED, as with ActiveMQ."""

    def answer(self, settings: StompSettings, more: Mapping[str, str]) -> Frame:
        """Return CONNECTED."""
        headers = {"version": self.version.value, "server": settings.server_name}
        if self.version is not Version.V1_0:
            headers["heart-beat"] = f"{settings.heart_beat_ms},{settings.heart_beat_ms}"
        if self.request_id is not None:
            headers["response-id"] = self.request_id
        return Frame("CONNECTED", {**headers, **more})


def negotiate(frame: Frame, settings: StompSettings) -> Login:
    """Return the negotiated login. Raises `VersionError`, and `FrameError` for heart-beats that are no numbers."""
    headers = frame.headers
    version = choose_version(headers.get("accept-version"))
    own = (settings.heart_beat_ms, settings.heart_beat_ms)
    beats = agree_on_heart_beats(own, read_heart_beat(headers.get("heart-beat")))
    # The lines of properties in the profile are escaped as in STOMP 1.2.
    speaks_profile = version is Version.V1_2 and headers.get("pyjms-profile") == PROFILE_VERSION
    return Login(
        version=version,
        host=headers.get("host", "") if version is not Version.V1_0 else "",
        client_id=headers.get("client-id") or None,
        speaks_profile=speaks_profile,
        is_packed=speaks_profile and headers.get(PACKED_HEADER) == PACKED_VERSION,
        out_ms=beats.send_ms,
        in_ms=beats.expect_ms,
        request_id=headers.get("request-id"),
    )


def credentials_of(frame: Frame, peer: Peer) -> Credentials | None:
    """Return the client's credentials: a password or token in CONNECT, or else its certificate; None: there are none."""
    user_name, password = frame.headers.get("login"), frame.headers.get("passcode")
    if user_name == TOKEN_USER and password is not None:
        return TokenCredentials(token=password)
    if user_name is not None or password is not None:
        return PasswordCredentials(user_name=user_name or "", password=password or "")
    # Last: a client with a certificate may still log in as a user by password.
    if peer.certificate is not None:
        return CertificateCredentials(certificate=peer.certificate)
    return None


_SEND_AFTER: Final = 0.8  # of the agreed period: the wire takes time, too


class IdleMonitor:
    """Tells when a heart-beat is due, and when the client has been silent for too long. Times are of the monotonic clock, in ms."""

    def __init__(self, now_ms: float, settings: StompSettings) -> None:
        self._settings = settings
        self._login_until_ms: float | None = now_ms + settings.login_timeout_ms
        self._out_ms = 0.0
        self._in_ms = 0.0
        self._written_ms = now_ms
        self._stuck_ms = 0.0
        self.beat_is_due = False
        """Whether an empty line is due; no further time is set until something is written."""

    @property
    def is_awaited(self) -> bool:
        """Whether it has any time to keep."""
        return bool(self._out_ms or self._in_ms or self._login_until_ms is not None)

    def begin(self, out_ms: int, in_ms: int, *, takes_lines: bool) -> None:
        """Start heart-beats after the login, with both sides' periods; 0: none. `takes_lines`: this STOMP version allows empty lines
        between frames.
        """
        self._login_until_ms = None
        if takes_lines and not out_ms:
            self._stuck_ms = self._settings.probe_ms * _SEND_AFTER if self._settings.heart_beat_ms else 0.0
        self._out_ms = out_ms * _SEND_AFTER
        # Multiplied by a tolerance: clients send late, and networks are slow.
        self._in_ms = in_ms * self._settings.heart_beat_tolerance

    @property
    def follows_reading(self) -> bool:
        """Whether `note_reading` should be called."""
        return self._stuck_ms > 0

    def note_reading(self, now_ms: float, *, is_reading: bool) -> None:
        """Note whether the client is read from. While it is not, only a failed write shows that it has gone: so it is sent empty lines
        then, though it asked for none (STOMP 1.2, "Augmented BNF": they may follow each frame).
        """
        if is_reading:
            self._out_ms = 0.0
        elif not self._out_ms:
            self._out_ms = self._stuck_ms
            self._written_ms = now_ms

    def note_write(self, now_ms: float) -> None:
        """Note a write, which shows the client that the broker is alive."""
        self._written_ms = now_ms
        self.beat_is_due = False

    def pop_beat(self) -> bool:
        """Return, once, whether an empty line is due."""
        is_due, self.beat_is_due = self.beat_is_due, False
        return is_due

    def next_ms(self, heard_ms: float) -> int | None:
        """Return when `look` should be called. `heard_ms`: when the last byte of the client was received."""
        times = [self._login_until_ms] if self._login_until_ms is not None else []
        if self._out_ms and not self.beat_is_due:
            times.append(self._written_ms + self._out_ms)
        if self._in_ms:
            times.append(heard_ms + self._in_ms)
        # Rounded up: a tick that came a part of a millisecond early would find nothing to do.
        return int(min(times)) + 1 if times else None

    def look(self, now_ms: float, heard_ms: float) -> str | None:
        """Return why the connection must end, or None."""
        if self._login_until_ms is not None and now_ms >= self._login_until_ms:
            return f"nobody logged in within {self._settings.login_timeout_ms} ms"
        if self._in_ms and now_ms >= heard_ms + self._in_ms:
            return f"nothing was heard for {now_ms - heard_ms:.0f} ms, and heart-beats were promised"
        if self._out_ms and now_ms >= self._written_ms + self._out_ms:
            self.beat_is_due = True
        return None
