"""Sockets that stomp.py opens for the client: TCP, TLS and WebSocket; and advice when one cannot be opened, or was closed."""

from __future__ import annotations

import logging
import math
import os
import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any, Final

from stomp.adapter.ws import WSTransport
from stomp.exception import ConnectFailedException
from stomp.transport import Transport
from websocket import ABNF, WebSocket, WebSocketException

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.spi.words import said_by_system
from pyjms_provider.clients.stomp.options import Endpoint, StompSettings, TlsFiles

# Advice when no connection was made: mostly the URL does not fit the port, or a TLS file cannot be used.

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
    """Return advice on `why` no connection was made, to be appended to it; empty if there is none."""
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


# The close codes of WebSockets (RFC 6455 §7.4), with advice. Pure.

_CODE: Final = Struct(">H")
_SHOWN: Final = 200
_CLOSED: Final = "the broker closed the connection"
_NORMAL: Final = 1000
_MEANINGS: Final = {
    1001: "it stops or goes away: connect again later",
    1002: "it got what breaks the WebSocket protocol: see whether a proxy in between changes what is sent",
    1003: "it does not take this kind of data: see whether it speaks STOMP at this path",
    1007: "it got text that is not UTF-8: see whether a proxy in between changes what is sent",
    1008: "its rules do not allow this: see its log for the rule",
    1009: "a message was larger than it takes over WebSockets: send smaller ones, have its limit raised, or connect over TCP",
    1010: "it lacks an extension of WebSockets: see the settings of the broker and of proxies in between",
    1011: "it failed: see its log",
    1012: "it starts anew: connect again later",
    1013: "it is busy: connect again later",
    1014: "a proxy in between got no good answer from it: see whether the broker runs",
}


def why_closed(data: bytes) -> str:
    """Return a text on why the other side closed a WebSocket; `data`: the body of its Close frame, a code and a reason, or nothing."""
    if len(data) < _CODE.size:
        return _CLOSED
    (code,) = _CODE.unpack_from(data)
    # The reason is not trusted: shortened, and without control characters, which a terminal or a log would obey.
    reason = " ".join(bytes(data[_CODE.size :]).decode("utf-8", "replace").split())[:_SHOWN]
    reason = "".join(each if each.isprintable() else "�" for each in reason)
    code_said = "" if code == _NORMAL else f" with code {code}"
    meaning = f", as {_MEANINGS[code]}" if code in _MEANINGS else ""
    return f"{_CLOSED}{code_said}{meaning}{f' (it says: {reason})' if reason else ''}"


# Connected sockets, with TLS or as a WebSocket, that stomp.py opens and a `PhysicalConnection` then owns.
#
# Only this module uses stomp.py. It uses the part that makes connections, and guards against the rest; docs/decisions has the
# reasons:
#
# - it tries once, at the given endpoint only; with TLS, the socket is checked to be TLS, for exactly that host;
# - the error of a failed attempt is kept when stomp.py drops it, since that only logs it;
# - no host names are looked up at import; TCP_NODELAY is set.

# Before stomp.py is imported: it asks a resolver, which may be slow.
os.environ.setdefault("STOMP_SKIP_HOSTNAME_SCAN", "1")


_log = logging.getLogger("pyjms.stomp")

_RECEIVE_BYTES = 256 * 1024
_MESSAGE_BYTES = 1024 * 1024
_BEAT = b"\n"
_QUICK: int | None = getattr(socket, "TCP_QUICKACK", None)


class StompSocket:
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


class _TlsSocket(StompSocket):
    is_shared = is_lendable = False

    @property
    def has_more(self) -> bool:  # type: ignore[override]  # computed at each access
        # Data that OpenSSL has decrypted is no longer in the socket, so no poll reports it.
        return bool(self._socket.pending())


class _WebSocketSocket(StompSocket):
    """A WebSocket; the bounds of its frames mean nothing, as their payloads are one stream."""

    has_more = is_framed = True
    is_lendable = False
    is_one_stream = False
    """Whether the broker joins messages, so that a frame of STOMP may be cut, and be larger than one message; other brokers want it whole.
    """

    def __init__(self, web_socket: Any) -> None:
        super().__init__(web_socket.sock)
        web_socket.settimeout(0)
        self._web_socket = web_socket
        self._answers: list[bytes] = []

    def read(self) -> bytes | None:
        try:
            frame = self._web_socket.recv_frame()
        except (BlockingIOError, ssl.SSLWantReadError):
            return None  # it keeps the part of a frame that it has
        except WebSocketException as error:
            # An `OSError`, as for every other socket that fails.
            raise ConnectionError(str(error) or type(error).__name__) from error
        if frame.opcode == ABNF.OPCODE_CLOSE:
            raise ConnectionError(why_closed(frame.data))
        if frame.opcode == ABNF.OPCODE_PING:
            self._answers.append(ABNF.create_frame(frame.data, ABNF.OPCODE_PONG).format())
        if frame.opcode in (ABNF.OPCODE_TEXT, ABNF.OPCODE_BINARY, ABNF.OPCODE_CONT) and frame.data:
            data: bytes = frame.data
            if self.is_hasty:
                self._acknowledge_at_once()
            return data
        return _BEAT  # a sign of life

    def frame(self, data: bytes) -> bytes:
        if self.is_one_stream and len(data) > _MESSAGE_BYTES:
            parts = (data[at : at + _MESSAGE_BYTES] for at in range(0, len(data), _MESSAGE_BYTES))
            return b"".join(map(self._message, parts))
        return self._message(data)

    def _message(self, data: bytes) -> bytes:
        message: bytes = ABNF.create_frame(data, ABNF.OPCODE_BINARY).format()
        return message

    def answers(self) -> list[bytes]:
        answers, self._answers = self._answers, []
        return answers


class _Failures:
    """Keeps the error of a failed attempt, and ends the attempt with it.

    stomp.py only logs the error, which a logger's level or `logging.disable` may suppress, and then computes a pause, with the program's
    random numbers, for an attempt that it does not make. While it handles the error it sets `socket` to None: the setter finds the error.
    """

    failure: BaseException | None = None
    running = False
    _made: Any = None

    @property
    def socket(self) -> Any:
        """The connected socket; None: not yet."""
        return self._made

    @socket.setter
    def socket(self, made: Any) -> None:
        self._made = made
        if made is None and self.running:
            self.failure = sys.exc_info()[1]
            raise ConnectFailedException from self.failure


class _TcpTransport(_Failures, Transport):  # type: ignore[misc]  # stomp.py has no types
    pass


class _BoundedSocket(socket.socket):
    """A socket with one deadline for all its reads."""

    until_ms = math.inf

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        left_ms = self.until_ms - SystemClock().monotonic_ms()
        if left_ms <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left_ms / 1000)
        return super().recv(size, flags)


class _BoundedWebSocket(WebSocket):
    """A WebSocket with one deadline for its handshake; the library's timeout is for each byte, and a peer may send many."""

    until_ms = math.inf
    _sock: Any = None

    @property
    def sock(self) -> Any:
        """The socket below."""
        return self._sock

    @sock.setter
    def sock(self, made: Any) -> None:
        if made is not None and self.until_ms < math.inf:
            left_s = made.gettimeout()
            made = _BoundedSocket(fileno=made.detach())
            made.settimeout(left_s)
            made.until_ms = self.until_ms
        self._sock = made

    def unbind(self) -> None:
        """Remove the deadline."""
        self.until_ms = math.inf
        self.sock = socket.socket(fileno=self.sock.detach())


class _WebSocketTransport(_Failures, WSTransport):  # type: ignore[misc]  # stomp.py has no types
    def __init__(self, endpoint: Endpoint, settings: StompSettings) -> None:
        super().__init__(host_and_ports=[(endpoint.host, endpoint.port)], auto_decode=False)
        self._url = f"ws://{endpoint}{settings.path}"
        self._timeout_ms = settings.connect_timeout_ms

    def attempt_connection(self) -> None:
        """Connect, and do the handshake, within the time limit. Raises `ConnectFailedException`."""
        made = _BoundedWebSocket()
        made.until_ms = SystemClock().monotonic_ms() + self._timeout_ms
        made.settimeout(self._timeout_ms / 1000)
        try:
            made.connect(self._url, header=["Sec-WebSocket-Protocol: v12.stomp"])  # type: ignore[no-untyped-call]  # it has no types
        except (OSError, WebSocketException) as error:
            self.failure = error
            raise ConnectFailedException from error
        made.unbind()
        self.socket = made


def connect(endpoint: Endpoint, settings: StompSettings) -> StompSocket:
    """Connect, with the handshakes of TLS and WebSocket. Raises `ResourceError`."""
    transport = _transport(endpoint, settings)
    transport.running = True
    try:
        transport.attempt_connection()
    except ConnectFailedException as error:
        failure = transport.failure or error
        why = said_by_system(failure)
        raise ResourceError(f"no connection to {endpoint}: {why}{advice(settings.scheme, endpoint, why)}") from failure
    return _guarded(transport, endpoint, settings)


def _transport(endpoint: Endpoint, settings: StompSettings) -> Any:
    """Return stomp.py's transport, with its own retries turned off."""
    if settings.scheme == "stomp+ws":
        return _WebSocketTransport(endpoint, settings)
    place = (endpoint.host, endpoint.port)
    arguments: dict[str, Any] = {
        "host_and_ports": [place],
        "prefer_localhost": False,
        "try_loopback_connect": False,  # it would connect to a place for which no TLS was set
        "reconnect_attempts_max": 1,
        "reconnect_sleep_initial": 0,
        "timeout": settings.connect_timeout_ms / 1000,
        "auto_decode": False,
    }
    transport = _TcpTransport(**arguments)
    if settings.tls is not None:
        tls = settings.tls
        if not tls.verify:
            _log.warning("PYJMS-TLS verify=no: nobody checks that %s is who it says; use ca_file= instead", endpoint)
        check_files(tls)  # stomp.py would try again without end, or name no file
        transport.set_ssl(
            for_hosts=[place],
            key_file=tls.key_file,
            cert_file=tls.certificate_file,
            ca_certs=tls.ca_file,
            verify=tls.verify,
        )
    return transport


def _guarded(transport: Any, endpoint: Endpoint, settings: StompSettings) -> StompSocket:
    """Return the socket that stomp.py made, checked to be of the kind that was asked for. Raises `ResourceError`."""
    made = transport.socket
    if settings.scheme == "stomp+ws":
        connected: StompSocket = _WebSocketSocket(made)
        plain = made.sock
    elif settings.tls is None:
        connected, plain = StompSocket(made), made
    else:
        if not isinstance(made, ssl.SSLSocket):
            made.close()
            raise ResourceError(f"the connection to {endpoint} is not encrypted though stomps:// asks for it")
        transport.shutdown_queue()
        connected, plain = _TlsSocket(made), made
    # Frames are written whole: Nagle's algorithm would only hold back the last part of each.
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
