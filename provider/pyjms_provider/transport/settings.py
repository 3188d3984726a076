"""The settings of a listener: address, transport, TLS, and limits."""

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
    """A listener's settings contradict each other, or name an unusable file."""

    code = "PYJMS-NET-SETTINGS"


class ListenerKind(Enum):
    """The transport of the protocol's bytes (BJ-NET-3)."""

    TCP = "tcp"
    WEB_SOCKET = "websocket"


class ClientCertificates(Enum):
    """Whether clients authenticate with a certificate."""

    NONE = "none"
    """No certificate is requested."""
    WANTED = "wanted"
    """A certificate is requested; clients without one are accepted, clients with an untrusted one are not."""
    REQUIRED = "required"
    """Only clients with a trusted certificate are accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """A listener's certificate, and the authorities that it trusts. Files are PEM; they are read when the listener is opened,
    and again by `Listener.reload_tls`, the port's operation `reload_certificates`.
    """

    certificate_file: Path
    """The server's certificate, followed by those of the intermediate authorities."""
    key_file: Path | None = None
    """Its private key; None: it is in `certificate_file`."""
    key_password: str | None = field(default=None, repr=False)
    """The password of the key; None: it is not encrypted."""
    client_certificates: ClientCertificates = ClientCertificates.NONE
    trust_file: Path | None = None
    """The trusted authorities of client certificates. Needed if certificates are requested: the system's list is no substitute,
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
    """The additional settings of a listener for WebSockets (RFC 6455)."""

    path: str = "/stomp"
    """The path in the listener's URL. ``/`` is served, too, for URLs without a path; all other paths are refused."""
    subprotocols: tuple[str, ...] = ("v12.stomp", "v11.stomp", "v10.stomp")
    """In order of preference. A client that requests none is accepted; one that requests only others is not."""
    origins: tuple[str, ...] = ()
    """The web sites, such as ``https://shop.example``, whose pages may connect; ``*``: all. Pages loaded from the listener's own
    address, or from localhost, may always connect; a host with another name must be listed. Only browsers send an origin, so
    other programs are not affected."""
    max_message_bytes: int = 16 * _MIB
    """A larger message ends the connection. A WebSocket frame is buffered in memory until it is complete."""

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ListenerSettingsError(f"the WebSocket's path is {self.path!r}; write /{self.path}")
        _at_least(self, "max_message_bytes", 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    """The settings of one port. Times are in milliseconds; None as a limit: unlimited."""

    kind: ListenerKind = ListenerKind.TCP
    scheme: str = "stomp"
    """The scheme of the listener's URL for connections without TLS."""
    secure_scheme: str = "stomps"
    """The scheme for connections with TLS."""
    host: str = "127.0.0.1"
    """The address to listen at, or a name for it. ``0.0.0.0`` and ``::`` mean all addresses, and must be given explicitly:
    an empty host is an error. If a name has several addresses, the first is used."""
    port: int = 0
    """0: the system chooses a free one, which is in the listener's URL."""
    tls: TlsSettings | None = None
    plain_and_tls: bool = False
    """With `tls`: whether connections without TLS are served on the same port, too (BJ-TLS-1)."""
    websocket: WebSocketSettings = field(default_factory=WebSocketSettings)
    max_connections: int | None = 10_000
    """The maximal number of connections; further ones are closed immediately."""
    max_connections_per_address: int | None = None
    """The maximal number of connections from one address."""
    handshake_timeout_ms: int = 10_000
    """The time limit for the handshakes of TLS and WebSocket together."""
    login_timeout_ms: int = 30_000
    """The time limit for the login of a client. The engine enforces it, as only the engine knows when a login is complete."""
    closing_timeout_ms: int = 5_000
    """The time limit for a peer to accept the remaining bytes when its connection ends, and to close its side."""
    stalled_timeout_ms: int | None = None
    """How long a peer may accept no byte while some wait for it; None: for ever, which costs `write_buffer_bytes` and one frame.
    A client whose only thread works on a message for an hour reads nothing for an hour."""
    read_buffer_bytes: int = 64 * _KIB
    """The size of one read; a connection that cannot process its input may buffer as much."""
    write_buffer_bytes: int = 64 * _KIB
    """The number of bytes pulled from an engine and sent in one turn of a connection (BJ-PE-6)."""
    backlog: int = 1024
    """The number of connections that may wait in the system to be accepted."""

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
