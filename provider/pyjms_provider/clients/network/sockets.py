"""Connected sockets that one I/O thread owns, over TCP or TLS; and advice when one cannot be opened."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from pyjms.spi.errors import ResourceError
from pyjms_provider.clients.network.endpoints import Endpoint, TlsFiles

# Advice when no connection was made: mostly the URL does not fit the port, or a TLS file cannot be used.

_NO_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "PACKET_LENGTH_TOO_LONG",
    "EOF occurred",
    "handshake operation timed out",
    "reset by peer",
)
_UNKNOWN_AUTHORITY: Final = ("self-signed certificate", "self signed certificate", "unable to get local issuer")
_NOBODY: Final = (
    "Connection refused",
    "Name or service not known",
    "No route to host",
    "Temporary failure in name resolution",
)


def no_broker_advice(why: str) -> str:
    """Return advice if nothing listens there, or the host is not found; else empty."""
    if has_words(why, _NOBODY):
        return "; see whether the broker runs, and whether the URL names its host and port"
    return ""


def tls_advice(endpoint: Endpoint, why: str, plain: str) -> str:
    """Return advice on `why` no connection with TLS was made; `plain`: the scheme without TLS."""
    if "CERTIFICATE_VERIFY_FAILED" in why:
        if has_words(why, _UNKNOWN_AUTHORITY):
            return "; name whom to trust as ca_file=FILE.pem: the authority's certificate, or the broker's own if it is self-signed"
        if "expired" in why:
            return "; the broker needs a new certificate"
        return ""
    if "CERTIFICATE_REQUIRED" in why or "HANDSHAKE_FAILURE" in why:
        return "; if the broker asks for a certificate of the client, name it as certificate_file=FILE.pem"
    if has_words(why, _NO_TLS):
        return f"; does it speak TLS there? For a port without TLS write {plain}://{endpoint}"
    return ""


def has_words(why: str, words: tuple[str, ...]) -> bool:
    """Return whether one of `words` is in a system's text."""
    return any(each in why for each in words)


def check_files(tls: TlsFiles) -> None:
    """Raise `ResourceError` that names a file which cannot be used."""
    for name, file in (
        ("ca_file", tls.ca_file),
        ("certificate_file", tls.certificate_file),
        ("key_file", tls.key_file),
    ):
        if file is not None and not Path(file).is_file():
            raise ResourceError(f"there is no file {file!r}, which the URL names as {name}=")
    # Loaded here only to see whether they can be used, and to name the file that cannot.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca_file is not None:
        try:
            context.load_verify_locations(tls.ca_file)
        except (OSError, ValueError) as error:
            raise ResourceError(
                f"ca_file={tls.ca_file} cannot be used ({_why(error)}): it must be a PEM file with the certificates to trust"
            ) from error
    if tls.certificate_file is not None:
        key = tls.key_file or tls.certificate_file
        try:
            # Without this, OpenSSL would ask for the password on the terminal.
            context.load_cert_chain(tls.certificate_file, key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise ResourceError(
                f"certificate_file={tls.certificate_file} with the key in {key} cannot be used ({_why(error)}): both must be PEM, "
                "belong together, and the key must not be encrypted"
            ) from error


def _why(error: Exception) -> str:
    return (error.reason or str(error)) if isinstance(error, ssl.SSLError) else str(error)


_RECEIVE_BYTES: Final = 256 * 1024
_QUICK: int | None = getattr(socket, "TCP_QUICKACK", None)


class ClientSocket:
    """A connected, non-blocking socket."""

    is_shared = True
    """Whether a caller may write while the I/O thread reads."""
    is_lendable = True
    """Whether a caller may read: a poll of the socket reports all data, as no layer above it holds any."""
    has_more = False
    """Whether `read` may return data though a poll reports none."""
    is_hasty = _QUICK is not None
    """Whether to acknowledge TCP segments without delay; our broker waits for none of them."""
    is_framed = False
    """Whether data must be passed through `frame` before a write."""
    is_one_stream = True
    """Whether the data sent may be cut anywhere."""

    def __init__(self, connected: Any) -> None:
        self._socket = connected
        self._socket.setblocking(False)
        if self.is_hasty:
            self._acknowledge_at_once()

    def fileno(self) -> int:
        """Return the file descriptor to poll."""
        number: int = self._socket.fileno()
        return number

    def read(self) -> bytes | None:
        """Return the bytes received; empty at the end of the stream; None: none now. Raises `OSError`."""
        try:
            data: bytes = self._socket.recv(_RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            # TLS may have to write before it can read, and the other way round (key updates of TLS 1.3).
            return None
        if self.is_hasty:
            self._acknowledge_at_once()
        return data

    def _acknowledge_at_once(self) -> None:
        """Have the next TCP segment acknowledged without delay: some brokers leave Nagle's algorithm on.

        With that, a MESSAGE and the RECEIPT after it take 40 ms. The setting is Linux's, and holds for a while only.
        """
        assert _QUICK is not None
        self._socket.setsockopt(socket.IPPROTO_TCP, _QUICK, 1)

    def write(self, data: bytes) -> int:
        """Write as much as the socket takes now, and return how much."""
        try:
            written: int = self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        return written

    def frame(self, data: bytes) -> bytes:
        """Return `data` as it goes over this kind of connection."""
        return data

    def answers(self) -> list[bytes]:
        """Return replies that must be sent to the frames that were read."""
        return []

    def close(self) -> None:
        """Close it; the other side sees the end of the stream."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._socket.close()


class TlsSocket(ClientSocket):
    """A connected socket with TLS."""

    is_shared = is_lendable = False

    @property
    def has_more(self) -> bool:  # type: ignore[override]  # computed at each access
        # Data that OpenSSL has decrypted is no longer in the socket, so no poll reports it.
        return bool(self._socket.pending())


def open_socket(endpoint: Endpoint, tls: TlsFiles | None, timeout_ms: int) -> ClientSocket:
    """Connect over TCP, and with `tls` do its handshake, within the time. Raises `OSError`, `ResourceError` for a file that cannot be used."""
    context = None if tls is None else tls_context(tls)
    with ExitStack() as opened:
        # The time is for each step: the addresses of the host one after the other, and the handshake.
        made = socket.create_connection((endpoint.host, endpoint.port), timeout_ms / 1000)
        opened.callback(made.close)
        # Frames are written whole: Nagle's algorithm would only hold back the last part of each.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            connected = ClientSocket(made)
        else:
            encrypted = context.wrap_socket(made, server_hostname=endpoint.host)
            opened.callback(encrypted.close)
            connected = TlsSocket(encrypted)
        opened.pop_all()
        return connected


def tls_context(tls: TlsFiles) -> ssl.SSLContext:
    """Return how TLS is spoken. Raises `ResourceError` that names a file which cannot be used."""
    check_files(tls)
    context = ssl.create_default_context(cafile=tls.ca_file)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.certificate_file is not None:
        context.load_cert_chain(tls.certificate_file, tls.key_file)
    return context
