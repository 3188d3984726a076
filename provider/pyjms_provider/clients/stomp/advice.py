"""What to do about a connection that was not made: most are a URL that does not fit the port, or a file of TLS that is none."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from pyjms.spi.errors import ResourceError
from pyjms_provider.clients.stomp.options import Endpoint, TlsFiles

__all__ = ["advice", "check_files"]

_NO_TLS: Final = (
    "WRONG_VERSION_NUMBER",
    "PACKET_LENGTH_TOO_LONG",
    "EOF occurred",
    "handshake operation timed out",
    "reset by peer",
)
_UNKNOWN_AUTHORITY: Final = ("self-signed certificate", "self signed certificate", "unable to get local issuer")
_NO_WEB_SOCKET: Final = (
    "Invalid status line",
    "Handshake status",
    "remote host was lost",
    "timed out",
    "reset by peer",
)
_NO_ANSWER: Final = "before it answered"
_NOBODY: Final = (
    "Connection refused",
    "Name or service not known",
    "No route to host",
    "Temporary failure in name resolution",
)


def advice(scheme: str, endpoint: Endpoint, why: str) -> str:
    """Return what to do about `why` no connection was made, to be added to it; nothing if there is no advice."""
    if _has(why, _NOBODY):
        return "; see whether the broker runs, and whether the URL names its host and port"
    if scheme == "stomps":
        return _about_tls(endpoint, why)
    if scheme == "stomp+ws":
        if _has(why, _NO_WEB_SOCKET):
            return f"; does it open WebSockets there, without TLS? For a port of plain STOMP write stomp://{endpoint}"
    elif _NO_ANSWER in why:
        return f"; does it speak STOMP there, without TLS? For a port with TLS write stomps://{endpoint}"
    return ""


def _about_tls(endpoint: Endpoint, why: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in why:
        if _has(why, _UNKNOWN_AUTHORITY):
            return "; name whom to trust as ca_file=FILE.pem: the authority's certificate, or the broker's own if it is self-signed"
        if "expired" in why:
            return "; the broker needs a new certificate"
        return ""
    if "CERTIFICATE_REQUIRED" in why or "HANDSHAKE_FAILURE" in why:
        return "; if the broker asks for a certificate of the client, name it as certificate_file=FILE.pem"
    if _has(why, _NO_TLS):
        return f"; does it speak TLS there? For a port without TLS write stomp://{endpoint}"
    return ""


def _has(why: str, words: tuple[str, ...]) -> bool:
    return any(each in why for each in words)


def check_files(tls: TlsFiles) -> None:
    """Raise `ResourceError` that names the file which cannot be used."""
    for name, file in (
        ("ca_file", tls.ca_file),
        ("certificate_file", tls.certificate_file),
        ("key_file", tls.key_file),
    ):
        if file is not None and not Path(file).is_file():
            raise ResourceError(f"there is no file {file!r}, which the URL names as {name}=")
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
            # A password that is not given would be asked of the terminal.
            context.load_cert_chain(tls.certificate_file, key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise ResourceError(
                f"certificate_file={tls.certificate_file} with the key in {key} cannot be used ({_why(error)}): both must be PEM, "
                "belong together, and the key must not be encrypted"
            ) from error


def _why(error: Exception) -> str:
    return (error.reason or str(error)) if isinstance(error, ssl.SSLError) else str(error)
