"""Sockets over which a stream goes in the messages of a WebSocket (RFC 6455)."""

from __future__ import annotations

import math
import socket
import ssl
from struct import Struct
from typing import Any, Final

from websocket import ABNF, WebSocket, WebSocketException

from pyjms.spi.clock import SystemClock
from pyjms_provider.clients.network.endpoints import Endpoint, TlsFiles
from pyjms_provider.clients.network.sockets import ClientSocket, tls_context

NO_WEB_SOCKET: Final = (
    "Invalid status line",
    "Handshake status",
    "remote host was lost",
    "timed out",
    "reset by peer",
)
"""Words in the texts of systems and libraries that tell that no WebSocket was opened."""

# The close codes of WebSockets (RFC 6455 §7.4), with advice.

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


_MESSAGE_BYTES: Final = 1024 * 1024


class WebSocketSocket(ClientSocket):
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
        while True:
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
            # Control frames may come between the pieces of a message, and are no part of the stream.
            if frame.opcode in (ABNF.OPCODE_TEXT, ABNF.OPCODE_BINARY, ABNF.OPCODE_CONT) and frame.data:
                data: bytes = frame.data
                if self.is_hasty:
                    self._acknowledge_at_once()
                return data

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


class _BoundedSocket(socket.socket):
    """A socket with one deadline for all its reads."""

    until_ms = math.inf

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        left_ms = self.until_ms - SystemClock().monotonic_ms()
        if left_ms <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left_ms / 1000)
        return super().recv(size, flags)


class BoundedWebSocket(WebSocket):
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


def open_web_socket(
    endpoint: Endpoint, path: str, subprotocol: str, tls: TlsFiles | None, timeout_ms: int
) -> WebSocketSocket:
    """Connect, with the handshakes of TLS and WebSocket, within the time.

    Raises `OSError`, `ConnectionError` for a refused handshake, `ResourceError` for a file that cannot be used.
    """
    options = {} if tls is None else {"context": tls_context(tls)}
    made = BoundedWebSocket(sslopt=options) if tls is not None else BoundedWebSocket()
    if tls is None:
        made.until_ms = SystemClock().monotonic_ms() + timeout_ms
    made.settimeout(timeout_ms / 1000)
    try:
        made.connect(f"ws{'s' if tls else ''}://{endpoint}{path}", subprotocols=[subprotocol])  # type: ignore[no-untyped-call]  # it has no types
    except WebSocketException as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    if tls is None:
        made.unbind()
    made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened = WebSocketSocket(made)
    opened.is_one_stream = True
    opened.is_shared = tls is None
    return opened
