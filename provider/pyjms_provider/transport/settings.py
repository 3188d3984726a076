"""What an operator may choose about a listener: where, over what, for whom, and how much."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from ssl import TLSVersion
from typing import Final

from pyjms.spi.errors import ProviderError

_KIB: Final = 2**10
_MIB: Final = 2**20


class ListenerSettingsError(ProviderError):
    """A listener's settings contradict each other, or name a file that cannot be used."""

    code = "PYJMS-NET-SETTINGS"


class ListenerKind(Enum):
    """What carries the bytes of the protocol (BJ-NET-3)."""

    TCP = "tcp"
    WEB_SOCKET = "websocket"


class ClientCertificates(Enum):
    """Whether a client proves with a certificate who it is."""

    NONE = "none"
    """It is not asked."""
    WANTED = "wanted"
    """It is asked; one that has none may come in; one that is not trusted may not."""
    REQUIRED = "required"
    """Without a certificate that is trusted, nobody comes in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How a listener proves who it is, and whom it believes. Files are PEM; they are read when the listener opens, and
    again on `Listener.reload_tls`, the port's operation `reload_certificates`.
    """

    certificate_file: Path
    """The server's certificate, followed by those of the authorities between it and the root."""
    key_file: Path | None = None
    """Its private key; None: it stands in `certificate_file`."""
    key_password: str | None = field(default=None, repr=False)
    """What the key is encrypted with; None: it is not."""
    client_certificates: ClientCertificates = ClientCertificates.NONE
    trust_file: Path | None = None
    """The authorities whose clients are believed. Needed unless no client is asked: the system's list is no substitute,
    since everybody can get a certificate from one of those."""
    minimum_version: TLSVersion = TLSVersion.TLSv1_2

    def __post_init__(self) -> None:
        if self.minimum_version < TLSVersion.TLSv1_2:
            raise ListenerSettingsError(
                "TLS before 1.2 is broken and not offered; set minimum_version to TLSv1_2 or 1_3"
            )
        if self.client_certificates is not ClientCertificates.NONE and self.trust_file is None:
            raise ListenerSettingsError(
                f"client certificates are {self.client_certificates.value}, but nobody is trusted; set trust_file to "
                f"the PEM file of the authorities that sign your clients' certificates"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSocketSettings:
    """What a listener for WebSockets needs besides (RFC 6455)."""

    path: str = "/stomp"
    """The path that the listener's URL names. ``/`` is served, too, as that is what a URL without a path asks for; no other is."""
    subprotocols: tuple[str, ...] = ("v12.stomp", "v11.stomp", "v10.stomp")
    """In order of preference. A client that names none is served all the same; one that names others only is not."""
    origins: tuple[str, ...] = ()
    """The web sites, as ``https://shop.example``, whose pages may connect; ``*``: all. Besides, those pages may that came
    from the listener's own address, or from localhost; a host with another name must be listed. A browser sends its
    page's origin; programs, which send none, are not concerned."""
    max_message_bytes: int = 16 * _MIB
    """A larger message ends the connection. A WebSocket frame is held in memory until it is whole."""

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ListenerSettingsError(f"the WebSocket's path is {self.path!r}; write /{self.path}")
        _at_least(self, "max_message_bytes", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """One port. Times in milliseconds; None as a limit: there is none."""

    kind: ListenerKind = ListenerKind.TCP
    scheme: str = "stomp"
    """The scheme of the listener's URL for connections without TLS."""
    secure_scheme: str = "stomps"
    """The same with TLS."""
    host: str = "127.0.0.1"
    """The address, or a name with one, to listen at. ``0.0.0.0`` and ``::`` are all addresses, and must be written:
    an empty host is an error. If a name has several addresses, the first is taken."""
    port: int = 0
    """0: the system picks a free one; the listener's URL tells which."""
    tls: TlsSettings | None = None
    plain_and_tls: bool = False
    """With `tls`: whether connections without TLS are served on the same port, too (BJ-TLS-1)."""
    websocket: WebSocketSettings = field(default_factory=WebSocketSettings)
    max_connections: int | None = 10_000
    """Who comes when so many are there is hung up on at once."""
    max_connections_per_address: int | None = None
    """The same for the connections from one address."""
    handshake_timeout_ms: int = 10_000
    """How long the handshakes of TLS and WebSocket may take together."""
    login_timeout_ms: int = 30_000
    """How long a client may take to log in. The engine watches over it, for it alone knows when that has happened."""
    closing_timeout_ms: int = 5_000
    """How long a peer may take to accept what is left when its connection ends, and to hang up."""
    stalled_timeout_ms: int | None = None
    """How long a peer may accept no byte while there are some for it; None: for ever, at the price of `write_buffer_bytes`
    and one frame. A client whose only thread works on a message for an hour reads nothing for an hour."""
    read_buffer_bytes: int = 64 * _KIB
    """How much is read at once; a connection that must wait with reading may hold as much."""
    write_buffer_bytes: int = 64 * _KIB
    """How much is pulled from an engine, and sent, at once: the share of one connection in one turn (BJ-PE-6)."""
    backlog: int = 1024
    """How many connections may wait in the system to be accepted."""

    def __post_init__(self) -> None:
        if not self.host:
            raise ListenerSettingsError("the listener's host is empty; write 127.0.0.1, or 0.0.0.0 for all addresses")
        if not 0 <= self.port <= 65_535:
            raise ListenerSettingsError(f"{self.port} is no port; write 0 for a free one, or a number up to 65535")
        if self.plain_and_tls and self.tls is None:
            raise ListenerSettingsError("plain_and_tls needs tls, which says what certificate to show")
        for name in ("read_buffer_bytes", "write_buffer_bytes"):
            _at_least(self, name, 1024)
        for name in ("max_connections", "max_connections_per_address", "stalled_timeout_ms"):
            if getattr(self, name) is not None:
                _at_least(self, name, 1)
        for name in ("handshake_timeout_ms", "login_timeout_ms", "closing_timeout_ms", "backlog"):
            _at_least(self, name, 1)


def _at_least(settings: object, name: str, least: int) -> None:
    value = getattr(settings, name)
    if value < least:
        raise ListenerSettingsError(f"{name} is {value}; it must be at least {least}")
