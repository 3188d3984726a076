"""WebSocket: the layer by itself against the library's client, and whole over sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect as async_connect
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.sync.client import ClientConnection, connect
from websockets.uri import parse_uri

from pyjms_provider.transport.layers import LayerError
from pyjms_provider.transport.listener import Listener
from pyjms_provider.transport.settings import ListenerKind, ListenerSettings, TlsSettings, WebSocketSettings
from pyjms_provider.transport.websocket import WebSocketLayer
from tests.provider.transport.certificates import Authority
from tests.provider.transport.world import PATIENCE_S, Engines, Net, is_cut_off, read_to_end
from tests.provider.transport.world import connect as connect_tcp

SETTINGS = ListenerSettings(kind=ListenerKind.WEB_SOCKET, scheme="ws", secure_scheme="wss")


class Pair:
    """Our layer and a client, joined by hand."""

    def __init__(self, settings: WebSocketSettings | None = None, *, path: str = "/stomp", origin: str = "") -> None:
        self.layer = WebSocketLayer(settings or WebSocketSettings())
        self.client = ClientProtocol(parse_uri(f"ws://127.0.0.1:80{path}"))
        self.heard = bytearray()
        self.status = 0
        request = self.client.connect()
        if origin:
            request.headers["Origin"] = origin
        self.client.send_request(request)

    def to_server(self, size: int = 1 << 20) -> list[bytes]:
        """Carry what the client said, in pieces of `size`; return what the engine gets."""
        data = b"".join(self.client.data_to_send())
        return [
            chunk for start in range(0, len(data), size) for chunk in self.layer.received(data[start : start + size])
        ]

    def to_client(self, data: bytes | None = None) -> list[Frame]:
        self.client.receive_data(self.layer.pending() if data is None else data)
        frames = []
        for event in self.client.events_received():
            if isinstance(event, Response):
                self.status = event.status_code
            elif isinstance(event, Frame):
                frames.append(event)
        return frames

    @property
    def close_code(self) -> int | None:
        """The code of our farewell, as the client got it."""
        return None if self.client.close_rcvd is None else self.client.close_rcvd.code

    def shake(self) -> Pair:
        self.to_server()
        self.to_client()
        assert self.layer.is_open
        return self


def test_the_handshake_opens_the_layer() -> None:
    pair = Pair()
    before = pair.layer.is_open
    assert pair.to_server(size=1) == []
    assert (before, pair.layer.is_open) == (False, True)
    pair.to_client()
    assert pair.client.state is State.OPEN
    assert pair.status == 101


@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_messages_and_fragments_become_one_stream(size: int) -> None:
    pair = Pair().shake()
    pair.client.send_text(b"SEND\n", fin=False)
    pair.client.send_continuation(b"a:b\n", fin=False)
    pair.client.send_ping(b"?")
    pair.client.send_continuation(b"\n\x00", fin=True)
    pair.client.send_binary(b"\xff\xfe")
    pair.client.send_text(b"")
    assert b"".join(pair.to_server(size)) == b"SEND\na:b\n\n\x00\xff\xfe"
    assert [(frame.opcode, frame.data) for frame in pair.to_client()] == [(Opcode.PONG, b"?")]


def test_each_chunk_is_one_message_of_the_kind_that_the_peer_speaks() -> None:
    pair = Pair().shake()
    frames = pair.to_client(bytes(pair.layer.wrap((b"one", b"two"))))
    assert [(frame.opcode, bytes(frame.data)) for frame in frames] == [
        (Opcode.BINARY, b"one"),
        (Opcode.BINARY, b"two"),
    ]
    pair.client.send_text(b"hello")
    pair.to_server()
    frames = pair.to_client(bytes(pair.layer.wrap(("grün".encode(), b"\xff", memoryview(b"view")))))
    assert [frame.opcode for frame in frames] == [Opcode.TEXT, Opcode.BINARY, Opcode.TEXT]


def test_text_that_is_not_utf_8_ends_the_connection() -> None:
    pair = Pair().shake()
    pair.client.send_text(b"gr\xc3", fin=False)
    pair.client.send_continuation(b"\xbcn", fin=True)
    assert b"".join(pair.to_server()) == "grün".encode(), "a character may be split between fragments"
    pair.client.send_text(b"gr\xc3", fin=True)
    with pytest.raises(LayerError, match="not UTF-8"):
        pair.to_server()
    pair.to_client()
    assert pair.close_code == 1007


def test_a_message_that_is_too_large_ends_the_connection() -> None:
    pair = Pair(WebSocketSettings(max_message_bytes=100)).shake()
    pair.client.send_binary(b"x" * 60, fin=False)
    pair.client.send_continuation(b"x" * 60, fin=True)
    with pytest.raises(LayerError, match="100"):
        pair.to_server()
    pair.to_client()
    assert pair.close_code == 1009


def test_a_client_that_begins_with_tls_is_told_from_one_that_is_slow() -> None:
    pair = Pair()
    with pytest.raises(LayerError, match="spoke TLS, which this port has not"):
        pair.layer.received(b"\x16\x03\x01\x02\x00\x01")
    assert pair.layer.is_over


@pytest.mark.parametrize("rubbish", [b"\xff" * 20, b"\x81\x05hello", b"\x83\x80\x00\x00\x00\x00"])
def test_rubbish_ends_the_connection(rubbish: bytes) -> None:
    pair = Pair().shake()
    with pytest.raises(LayerError, match="WebSocket: "):
        pair.layer.received(rubbish)
    pair.to_client()
    assert pair.close_code == 1002
    assert pair.layer.is_over


def test_the_peers_farewell_is_answered_and_is_the_end() -> None:
    pair = Pair().shake()
    pair.client.send_text(b"last")
    pair.client.send_close(1000)
    assert pair.to_server() == [b"last"]
    assert pair.layer.is_over
    pair.to_client()
    assert pair.close_code == 1000
    assert bytes(pair.layer.wrap((b"too late",))) == b""


def test_our_farewell_is_said_once() -> None:
    pair = Pair().shake()
    pair.layer.finish()
    pair.layer.finish()
    pair.to_client()
    assert pair.close_code == 1000


@pytest.mark.parametrize(
    ("path", "status"),
    [("/stomp", 101), ("/stomp?user=me", 101), ("/", 101), ("/?user=me", 101), ("/stomp/more", 404), ("/other", 404)],
)
def test_its_path_and_the_root_are_served(path: str, status: int) -> None:
    pair = Pair(path=path)
    if status == 101:
        pair.to_server()
    else:
        with pytest.raises(LayerError, match="404"):
            pair.to_server()
        assert not pair.layer.is_open
    pair.to_client()
    assert pair.status == status


@pytest.mark.parametrize(
    ("origins", "origin", "status"),
    [
        ((), "", 101),
        ((), "http://evil.example", 403),
        ((), "null", 403),
        (("https://shop.example",), "https://shop.example", 101),
        (("https://shop.example",), "https://shop.example.evil.example", 403),
        (("*",), "http://evil.example", 101),
    ],
)
def test_pages_of_other_sites_stay_out(origins: tuple[str, ...], origin: str, status: int) -> None:
    pair = Pair(WebSocketSettings(origins=origins), origin=origin)
    if status == 101:
        pair.to_server()
    else:
        with pytest.raises(LayerError, match="403"):
            pair.to_server()
    pair.to_client()
    assert pair.status == status


# ----------------------------------------------------------------------------------------------------------- over sockets


@contextmanager
def client_of(listener: Listener, **options: Any) -> Iterator[ClientConnection]:
    with connect(listener.url, open_timeout=PATIENCE_S, proxy=None, **options) as client:
        yield client


@pytest.mark.realises("BJ-NET-3", "BJ-WS-1")
@pytest.mark.parametrize("version", ["v10.stomp", "v11.stomp", "v12.stomp"])
def test_all_versions_are_carried(net: Net, version: str) -> None:
    listener = net.service.open(SETTINGS, Engines())
    with client_of(listener, subprotocols=[version]) as client:
        assert client.subprotocol == version
        client.send("hello")
        assert client.recv(PATIENCE_S) == "hello"
        client.send(b"\x00\xff")
        assert client.recv(PATIENCE_S) == b"\x00\xff"


def test_the_newest_common_version_is_chosen_and_none_is_none(net: Net) -> None:
    listener = net.service.open(SETTINGS, Engines())
    with client_of(listener, subprotocols=["v10.stomp", "v12.stomp", "other"]) as client:
        assert client.subprotocol == "v12.stomp"
    with client_of(listener) as client:
        assert client.subprotocol is None
    with pytest.raises(InvalidStatus, match="400"), client_of(listener, subprotocols=["mqtt"]):
        pass


@pytest.mark.realises("BJ-WS-1", "BJ-NET-4")
def test_websocket_over_tls(net: Net, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.sign("server")
    tls = TlsSettings(certificate_file=server.certificate, key_file=server.key)
    settings = ListenerSettings(kind=ListenerKind.WEB_SOCKET, secure_scheme="wss", tls=tls)
    engines = Engines()
    listener = net.service.open(settings, engines)

    async def talk() -> None:
        # Not the client with threads: it reads and writes one TLS object at once, which OpenSSL does not allow.
        async with async_connect(listener.url, ssl=authority.client_context(), proxy=None) as client:
            await client.send(b"x" * 300_000)
            got = 0
            while got < 300_000:
                got += len(await client.recv())
            assert engines.next().conduit.peer.is_secure
            await client.send("quit")
            assert await client.recv() == "quit"
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1000

    asyncio.run(asyncio.wait_for(talk(), PATIENCE_S))


def test_much_goes_through_whole(net: Net) -> None:
    listener = net.service.open(SETTINGS, Engines())
    with client_of(listener, max_size=None) as client:
        parts = [bytes([number]) * 100_000 for number in range(20)]
        client.send(parts)
        got = bytearray()
        while len(got) < 2_000_000:
            part = client.recv(PATIENCE_S)
            assert isinstance(part, bytes)
            got += part
    assert got == b"".join(parts)


def test_who_speaks_no_websocket_is_hung_up_on(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    listener = net.service.open(SETTINGS, engines := Engines())
    with connect_tcp(listener) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"426" in read_to_end(client)
    with connect_tcp(listener) as client:
        client.sendall(b"CONNECT\npasscode:sesame\n\n\x00\r\n\r\n")
        assert is_cut_off(client)
    assert "PYJMS-NET-7" in caplog.text
    assert "sesame" not in caplog.text
    assert engines.none_is_new


def test_a_handshake_that_drips_is_cut_off(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    listener = net.service.open(SETTINGS, Engines())
    with connect_tcp(listener) as client:
        client.sendall(b"GET /stomp HT")
        net.advance(SETTINGS.handshake_timeout_ms)
        assert is_cut_off(client)
    assert "PYJMS-NET-8" in caplog.text


def test_closing_says_farewell(net: Net) -> None:
    listener = net.service.open(SETTINGS, Engines())
    with client_of(listener) as client:
        closing = listener.begin_close(PATIENCE_S)
        assert client.recv(PATIENCE_S) == b"bye"
        with pytest.raises(ConnectionClosed):
            client.recv(PATIENCE_S)
        assert client.close_code == 1000
        closing.result(PATIENCE_S)


def test_who_vanishes_is_noticed(net: Net) -> None:
    engines = Engines()
    listener = net.service.open(SETTINGS, engines)
    with client_of(listener) as client:
        engine = engines.next()
        client.socket.shutdown(socket.SHUT_RDWR)
        engine.ends.get(timeout=PATIENCE_S)
