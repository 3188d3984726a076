"""CONNECT and CONNECTED at the broker: version, virtual host, credentials, heart-beats (STOMP 1.2, "Connecting")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.negotiation import agree_on_heart_beats, choose_version, read_heart_beat
from pyjms_provider.protocols.stomp.packed import PACKED_HEADER, PACKED_VERSION
from pyjms_provider.protocols.stomp.verbs import PROFILE_VERSION
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

__all__ = ["Login", "credentials_of", "negotiate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What a client asked for, and what was agreed."""

    version: Version
    host: str
    """The virtual host; "": the default one."""
    client_id: str | None
    speaks_profile: bool
    is_packed: bool
    """Whether messages go both ways in the form of stores, several in a frame."""
    out_ms: int
    """The broker says something so often; 0: never."""
    in_ms: int
    """The client does so; 0: never."""
    request_id: str | None = None
    """What CONNECTED answers as `response-id`, as ActiveMQ does."""

    def answer(self, settings: StompSettings, more: Mapping[str, str]) -> Frame:
        """Return CONNECTED."""
        headers = {"version": self.version.value, "server": settings.server_name}
        if self.version is not Version.V1_0:
            headers["heart-beat"] = f"{settings.heart_beat_ms},{settings.heart_beat_ms}"
        if self.request_id is not None:
            headers["response-id"] = self.request_id
        return Frame("CONNECTED", {**headers, **more})


def negotiate(frame: Frame, settings: StompSettings) -> Login:
    """Return what is agreed. Raises `VersionError`, and `FrameError` for heart-beats that are no numbers."""
    headers = frame.headers
    version = choose_version(headers.get("accept-version"))
    own = (settings.heart_beat_ms, settings.heart_beat_ms)
    beats = agree_on_heart_beats(own, read_heart_beat(headers.get("heart-beat")))
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
    """Return what the client shows: a password or token in CONNECT, or else its certificate; None: nothing."""
    user_name, password = frame.headers.get("login"), frame.headers.get("passcode")
    if user_name == TOKEN_USER and password is not None:
        return TokenCredentials(token=password)
    if user_name is not None or password is not None:
        return PasswordCredentials(user_name=user_name or "", password=password or "")
    if peer.certificate is not None:
        return CertificateCredentials(certificate=peer.certificate)
    return None
