"""TLS as a layer: OpenSSL with memory buffers, so that the connection controls buffers, time limits and the choice by the first byte."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Final

from pyjms_provider.transport.layers import Bytes, Layer, LayerError
from pyjms_provider.transport.settings import ClientCertificates, ListenerKind, ListenerSettingsError, TlsSettings

_READ: Final = 64 * 2**10

_VERIFY: Final = {
    ClientCertificates.NONE: ssl.CERT_NONE,
    ClientCertificates.WANTED: ssl.CERT_OPTIONAL,
    ClientCertificates.REQUIRED: ssl.CERT_REQUIRED,
}


def make_context(settings: TlsSettings, kind: ListenerKind) -> ssl.SSLContext:
    """Read the files of `settings`, and return the TLS context. Raises `ListenerSettingsError`, which names the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = settings.minimum_version
    # Renegotiation would let a client load the server again and again (CVE-2011-1473).
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = _VERIFY[settings.client_certificates]
    if kind is ListenerKind.WEB_SOCKET:
        context.set_alpn_protocols(["http/1.1"])
    # Without a password, OpenSSL would ask for one at the terminal if the key is encrypted.
    password = settings.key_password or ""
    key = settings.key_file or settings.certificate_file
    try:
        context.load_cert_chain(settings.certificate_file, settings.key_file, password=lambda: password)
    except (OSError, ValueError) as error:
        raise ListenerSettingsError(
            f"certificate {settings.certificate_file} with key {key} cannot be used: {why_unusable(error)}; both must be PEM, "
            f"belong together, and be readable by the broker; an encrypted key needs its password"
        ) from error
    if settings.trust_file is not None:
        try:
            context.load_verify_locations(settings.trust_file)
        except (OSError, ValueError) as error:
            raise ListenerSettingsError(
                f"trusted authorities {settings.trust_file} cannot be used: {why_unusable(error)}; it must be a PEM file with "
                f"at least one certificate, and readable by the broker"
            ) from error
    return context


def why_unusable(error: Exception) -> str:
    """Return the reason for which OpenSSL could not use a file, worded for operators where OpenSSL has no good text."""
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the key belongs to another certificate"
        return error.reason or "it is no PEM, or encrypted with another password"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


class TlsLayer(Layer):
    """The server side of one TLS connection."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_open = False
        self._is_over = False
        self._is_finished = False

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def certificate(self) -> bytes | None:
        return self._tls.getpeercert(binary_form=True)

    def received(self, data: bytes) -> Sequence[bytes]:
        if self._is_over:
            return ()
        self._incoming.write(data)
        chunks: list[bytes] = []
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            while chunk := self._tls.read(_READ):
                chunks.append(chunk)
            # `read` returns nothing at the peer's close_notify.
            self._is_over = True
        except ssl.SSLWantReadError:
            return chunks
        except ssl.SSLError as error:
            raise LayerError(_explain(error)) from error
        return chunks

    def wrap(self, chunks: Sequence[Bytes]) -> Bytes:
        # Small chunks are joined to one record: each record costs 22 bytes and a call of OpenSSL.
        self._tls.write(chunks[0] if len(chunks) == 1 else b"".join(chunks))
        return self._outgoing.read()

    def pending(self) -> bytes:
        return self._outgoing.read()

    def finish(self) -> None:
        # Before the end of the handshake there is no session to close.
        if not self._is_open or self._is_finished:
            return
        self._is_finished = True
        try:
            # Writes close_notify, and raises an error, as the peer's is not received yet; it is not awaited.
            self._tls.unwrap()
        except ssl.SSLError:
            return


def _explain(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    reason = error.reason or str(error)
    advice = {
        "HTTP_REQUEST": "the client spoke HTTP without TLS; it must use https or wss",
        "WRONG_VERSION_NUMBER": "the client spoke no TLS; it must use the URL with TLS",
        # OpenSSL takes STOMP's CONNECT for the request of a browser to a proxy.
        "HTTPS_PROXY_REQUEST": "the client spoke no TLS; it must use the URL with TLS",
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client showed no certificate, which this port requires",
        "UNSUPPORTED_PROTOCOL": "the client knows no version of TLS that is allowed here",
    }
    return advice.get(reason, reason)
