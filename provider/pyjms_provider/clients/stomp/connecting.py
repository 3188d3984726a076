"""What stomp.py makes of an endpoint: a connected socket, with TLS or as a WebSocket, which `wire` owns from then on.

This is the one module that touches stomp.py. It keeps of it what makes connections, and guards against the rest; docs/decisions
says why for each:

- it tries once, at the one place that was named; when TLS was asked for, the socket is seen to be TLS, for exactly that host;
- why no connection was made is kept as it is thrown away, since stomp.py tells that to its log alone;
- no host names are looked up at import; TCP_NODELAY is set.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import ssl
import sys
from contextlib import suppress
from typing import Any

# Before stomp.py is imported: it asks a resolver, which may be slow.
os.environ.setdefault("STOMP_SKIP_HOSTNAME_SCAN", "1")

from stomp.adapter.ws import WSTransport
from stomp.exception import ConnectFailedException
from stomp.transport import Transport
from websocket import ABNF, WebSocket, WebSocketException

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms.spi.words import said_by_system
from pyjms_provider.clients.stomp.advice import advice, check_files
from pyjms_provider.clients.stomp.close_codes import why_closed
from pyjms_provider.clients.stomp.options import Endpoint, StompSettings

__all__ = ["Channel", "connect"]

_log = logging.getLogger("pyjms.stomp")

_RECEIVE_BYTES = 256 * 1024
_MESSAGE_BYTES = 1024 * 1024
_BEAT = b"\n"
_QUICK: int | None = getattr(socket, "TCP_QUICKACK", None)


class Channel:
    """A connected socket, which never blocks."""

    is_shared = True
    """Whether a caller may write while the I/O thread reads."""
    is_lendable = True
    """Whether a caller may read: what the socket has says all that there is."""
    has_more = False
    """Whether `read` may have more without the socket being ready."""
    is_hasty = _QUICK is not None
    """Whether to acknowledge TCP segments without delay; our broker waits for none of them."""
    is_one_stream = True
    """Whether it does not matter how what is sent is cut."""

    def __init__(self, connected: Any) -> None:
        self._socket = connected
        self._socket.setblocking(False)
        if self.is_hasty:
            self._acknowledge_at_once()

    def fileno(self) -> int:
        """Return what to poll."""
        number: int = self._socket.fileno()
        return number

    def read(self) -> bytes | None:
        """Return what came; nothing at the end; None: nothing now. Raises `OSError`."""
        try:
            data: bytes = self._socket.recv(_RECEIVE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
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
        """Write what the socket takes now, and return how much that was."""
        try:
            written: int = self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        return written

    def frame(self, data: bytes) -> bytes:
        """Return `data` as it goes over this kind of connection."""
        return data

    def answers(self) -> list[bytes]:
        """Return what must be sent because of what was read."""
        return []

    def close(self) -> None:
        """Close it; the other side sees the end of the stream."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self._socket.close()


class _TlsChannel(Channel):
    is_shared = is_lendable = False

    @property
    def has_more(self) -> bool:  # type: ignore[override]  # decided anew each time
        return bool(self._socket.pending())


class _WebSocketChannel(Channel):
    """Frames of a WebSocket; their bounds mean nothing, as what is in them is one stream."""

    has_more = True
    is_lendable = False
    is_one_stream = False
    """Whether the broker joins messages: it takes a frame in parts, and so larger ones than a message may be. Others want each whole."""

    def __init__(self, web_socket: Any) -> None:
        super().__init__(web_socket.sock)
        web_socket.settimeout(0)
        self._web_socket = web_socket
        self._answers: list[bytes] = []

    def read(self) -> bytes | None:
        try:
            frame = self._web_socket.recv_frame()
        except (BlockingIOError, ssl.SSLWantReadError):
            return None  # what it has of a frame, it keeps
        except WebSocketException as error:
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
    """Keeps why an attempt failed, and ends with it. stomp.py drops that but for a line in its log, which the level of a logger, or
    `logging.disable`, does away with, and goes on to work out a pause, by the program's random numbers, for an attempt that it does
    not make. While it handles the error it takes the socket back, and there the error is seen.
    """

    failure: BaseException | None = None
    running = False
    _made: Any = None

    @property
    def socket(self) -> Any:
        """What was made; None: nothing yet."""
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
    """Reads until a certain time, however much comes."""

    until_ms = math.inf

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        left_ms = self.until_ms - SystemClock().monotonic_ms()
        if left_ms <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left_ms / 1000)
        return super().recv(size, flags)


class _BoundedWebSocket(WebSocket):
    """Shakes hands until a certain time. By itself it waits so long for each byte, and a peer may send many."""

    until_ms = math.inf
    _sock: Any = None

    @property
    def sock(self) -> Any:
        """What it is on."""
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
        """Go on without that time."""
        self.until_ms = math.inf
        self.sock = socket.socket(fileno=self.sock.detach())


class _WebSocketTransport(_Failures, WSTransport):  # type: ignore[misc]  # stomp.py has no types
    def __init__(self, endpoint: Endpoint, settings: StompSettings) -> None:
        super().__init__(host_and_ports=[(endpoint.host, endpoint.port)], auto_decode=False)
        self._url = f"ws://{endpoint}{settings.path}"
        self._patience_ms = settings.connect_timeout_ms

    def attempt_connection(self) -> None:
        """Connect, and shake hands, in a limited time. Raises `ConnectFailedException`."""
        made = _BoundedWebSocket()
        made.until_ms = SystemClock().monotonic_ms() + self._patience_ms
        made.settimeout(self._patience_ms / 1000)
        try:
            made.connect(self._url, header=["Sec-WebSocket-Protocol: v12.stomp"])  # type: ignore[no-untyped-call]  # it has no types
        except (OSError, WebSocketException) as error:
            self.failure = error
            raise ConnectFailedException from error
        made.unbind()
        self.socket = made


def connect(endpoint: Endpoint, settings: StompSettings) -> Channel:
    """Connect, and shake hands. Raises `ResourceError`."""
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
    """Return stomp.py's transport with all that it does by itself turned off."""
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


def _guarded(transport: Any, endpoint: Endpoint, settings: StompSettings) -> Channel:
    """Return the socket that stomp.py made, if it is what was asked for."""
    made = transport.socket
    if settings.scheme == "stomp+ws":
        channel: Channel = _WebSocketChannel(made)
        plain = made.sock
    elif settings.tls is None:
        channel, plain = Channel(made), made
    else:
        if not isinstance(made, ssl.SSLSocket):
            made.close()
            raise ResourceError(f"the connection to {endpoint} is not encrypted though stomps:// asks for it")
        transport.shutdown_queue()
        channel, plain = _TlsChannel(made), made
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return channel
