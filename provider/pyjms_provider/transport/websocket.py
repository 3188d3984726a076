"""WebSocket as a layer (RFC 6455, BJ-WS-1): the sans-I/O core of the library `websockets`, with the broker's rules.

The engine gets the same stream of bytes as over TCP: messages, and fragments of messages, are joined. Each chunk of the
engine is sent as one message, since some clients expect whole frames in a message; it is a text message if the peer's
last one was and the chunk is text, otherwise a binary one. Compression is off, so that the size of a message in memory
is known.
"""

from __future__ import annotations

import codecs
import logging
from collections.abc import Sequence
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from websockets.datastructures import MultipleValuesError
from websockets.exceptions import NegotiationError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from pyjms_provider.transport.layers import HELD_FOR_STRANGERS, Bytes, Layer, LayerError
from pyjms_provider.transport.settings import WebSocketSettings

# At the level DEBUG the library logs frames, which may contain passwords.
_log = logging.getLogger("pyjms.network.websocket")
_log.setLevel(logging.ERROR)

_DATA: Final = frozenset((Opcode.TEXT, Opcode.BINARY, Opcode.CONT))
_Decoder: Final = codecs.getincrementaldecoder("utf-8")


_ROOT: Final = "/"
"""The path in requests of clients whose URL has none."""
_TLS_HANDSHAKE: Final = b"\x16\x03"
"""The first bytes of a client that speaks TLS (RFC 8446 §5.1)."""


class WebSocketLayer(Layer):
    """The server side of one WebSocket."""

    def __init__(self, settings: WebSocketSettings) -> None:
        self._settings = settings
        self._protocol = ServerProtocol(
            subprotocols=[Subprotocol(name) for name in settings.subprotocols],
            select_subprotocol=_select,
            max_size=settings.max_message_bytes,
            logger=_log,
        )
        self._is_over = False
        self._decoder: codecs.IncrementalDecoder | None = None  # of the text message that is being received
        self._is_text = False
        self._held = 0

    @property
    def is_open(self) -> bool:
        return self._protocol.state is not State.CONNECTING and self._protocol.handshake_exc is None

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def held(self) -> int:
        return self._held

    def refuse_more(self) -> LayerError:
        if self._protocol.state is State.OPEN:
            self._protocol.fail(
                CloseCode.MESSAGE_TOO_BIG, f"log in before frames of more than {HELD_FOR_STRANGERS} bytes"
            )
        return super().refuse_more()

    def received(self, data: bytes) -> Sequence[bytes]:
        if self._is_over:
            return ()
        protocol = self._protocol
        if protocol.state is State.CONNECTING and data.startswith(_TLS_HANDSHAKE):
            self._is_over = True  # the client would wait for an answer in TLS, and this layer for the end of a line
            raise LayerError("the client spoke TLS, which this port has not; it must use ws://")
        protocol.receive_data(data)
        # Counted before the events are read: an incomplete frame, which `held` is about, causes no event.
        self._held += len(data)
        chunks: list[bytes] = []
        for event in protocol.events_received():
            self._held = 0  # ignores the bytes after the event in the same read, which are few
            if isinstance(event, Request):
                protocol.send_response(self._answer(event))
            elif isinstance(event, Frame):
                self._take(event, chunks)
        self._is_over = protocol.close_expected()
        if error := protocol.handshake_exc or protocol.parser_exc:
            raise LayerError(f"WebSocket: {error}")
        return chunks

    def wrap(self, chunks: Sequence[Bytes]) -> Bytes:
        protocol = self._protocol
        if protocol.state is State.OPEN:
            for chunk in chunks:
                # A text message must be UTF-8 (RFC 6455 §5.6): any other
                # chunk is sent as binary, even to a client that sends text.
                if self._is_text and _is_text(chunk):
                    protocol.send_text(chunk)
                else:
                    protocol.send_binary(chunk)
        return self.pending()

    def pending(self) -> bytes:
        return b"".join(self._protocol.data_to_send())

    def finish(self) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)

    def drop_input(self) -> None:
        # The library's parser and its owner refer to each other, so both would stay until the next garbage collection.
        self._protocol.reader.discard()

    def _answer(self, request: Request) -> Response:
        """Accept the upgrade or refuse it."""
        if _path_of(request) not in {self._settings.path, _ROOT}:
            return self._refuse(HTTPStatus.NOT_FOUND, f"there is nothing here; the broker is at {self._settings.path}")
        if not self._is_welcome(request):
            return self._refuse(
                HTTPStatus.FORBIDDEN, "pages of this site may not connect; the broker's origins say which may"
            )
        return self._protocol.accept(request)

    def _refuse(self, status: HTTPStatus, text: str) -> Response:
        self._protocol.handshake_exc = LayerError(f"{status.value} {text}")
        return self._protocol.reject(status, f"{text}\n")

    def _is_welcome(self, request: Request) -> bool:
        """Return whether the request's origin may connect: scripts of foreign web pages have their reader's network access and identity (RFC 6455 §10.2)."""
        try:
            origin, host = request.headers.get("Origin"), request.headers.get("Host", "")
        except MultipleValuesError:
            return False
        # Programs send no Origin, and a browser always does (RFC 6455 §4.1).
        if origin is None or "*" in self._settings.origins or origin in self._settings.origins:
            return True
        # The page was loaded from this host and port, and by its address, not by a name (DNS rebinding).
        return origin.partition("://")[2].lower() == host.lower() and _is_no_name(host)

    def _take(self, frame: Frame, chunks: list[bytes]) -> None:
        if frame.opcode not in _DATA:
            return
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
            self._decoder = _Decoder() if self._is_text else None
        data = bytes(frame.data)
        if self._decoder is not None:
            try:
                # Decoded only as a check: a whole text message must be UTF-8,
                # and a fragment may end within a character.
                self._decoder.decode(data, final=frame.fin)
            except UnicodeDecodeError as error:
                self._protocol.fail(CloseCode.INVALID_DATA, "text that is not UTF-8")
                raise LayerError("WebSocket: a text message is not UTF-8") from error
        if data:
            chunks.append(data)


def _select(protocol: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    served = protocol.available_subprotocols or ()
    # A client that requests no subprotocol is accepted (RFC 6455 §4.2.2).
    if not offered:
        return None
    for name in served:
        if name in offered:
            return name
    raise NegotiationError(f"no common subprotocol; this port has {', '.join(served)}")


def _path_of(request: Request) -> str | None:
    """Return the path of a request; None: it has no valid URL."""
    try:
        return urlsplit(request.path).path
    except ValueError:
        return None


def _is_no_name(host: str) -> bool:
    """Return whether `host` is an address, or localhost, which browsers resolve to this machine. The owner of any other name can
    point it at this machine, so that the browser considers the broker the server of the owner's page (DNS rebinding).
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ip_address(name))
    except ValueError:
        return False


def _is_text(chunk: Bytes) -> bool:
    try:
        str(chunk, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
