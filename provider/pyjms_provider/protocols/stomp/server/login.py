"""CONNECT and CONNECTED at the broker, the login's time limit, and heart-beats.

Version, virtual host, credentials (STOMP 1.2, "Connecting"); STOMP 1.2, "Heart-beating"; Broker-J's idle tickers. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyjms_provider.protocols.profile.commands import PROFILE_VERSION
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.negotiation import agree_on_heart_beats, choose_version, read_heart_beat
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
