"""What strangers do with a WebSocket port: nothing grows, nothing hangs, nobody else suffers."""

from __future__ import annotations

import gc
import os
import socket
import tracemalloc
from collections.abc import Iterator
from threading import Thread

import pytest

from pyjms_provider.transport.layers import HELD_FOR_STRANGERS
from pyjms_provider.transport.listener import Listener
from pyjms_provider.transport.settings import ListenerKind, ListenerSettings, WebSocketSettings
from tests.provider.transport.world import PATIENCE_S, EchoEngine, Engines, Net, connect, read_to_end

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


@pytest.fixture
def engines() -> Engines:
    return Engines()


@pytest.fixture
def listener(net: Net, engines: Engines) -> Iterator[Listener]:
    settings = ListenerSettings(kind=ListenerKind.WEB_SOCKET, scheme="stomp+ws", write_buffer_bytes=4096)
    listener = net.service.open(settings, engines)
    yield listener
    listener.close(0)


def request(*headers: str, path: str = "/stomp", host: str = "127.0.0.1") -> bytes:
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {KEY}",
        "Sec-WebSocket-Version: 13",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def read_head(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        got = client.recv(1)
        assert got, data
        data += got
    return data


def shake_hands(listener: Listener) -> socket.socket:
    client = connect(listener)
    client.sendall(request())
    assert read_head(client).startswith(b"HTTP/1.1 101")
    return client


def frame(opcode: int, payload: bytes) -> bytes:
    """A frame of a client, masked with zeros; payloads of less than 126 bytes."""
    return bytes((0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0)) + payload


def send_as_long_as_taken(client: socket.socket, data: bytes, most: int) -> int:
    client.settimeout(1.0)
    sent = 0
    try:
        while sent < most:
            sent += client.send(data)
    except TimeoutError:
        return sent
    finally:
        client.settimeout(PATIENCE_S)
    return sent


def test_pings_of_a_peer_that_reads_no_pongs_are_not_answered_into_memory(listener: Listener, engines: Engines) -> None:
    with shake_hands(listener) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # All that systems hold between the two is some megabytes; the rest would be in the broker.
        assert send_as_long_as_taken(client, frame(9, b"x" * 125) * 500, 64_000_000) < 64_000_000
    with shake_hands(listener) as other:
        other.sendall(frame(2, b"hello"))
        assert other.recv(7) == b"\x82\x05hello"


@pytest.mark.parametrize(
    ("host", "origin", "welcome"),
    [
        ("127.0.0.1:61614", "http://127.0.0.1:61614", True),
        ("localhost:61614", "http://localhost:61614", True),
        ("[::1]:61614", "http://[::1]:61614", True),
        ("shop.example", "https://shop.example", True),
        ("evil.example:61614", "http://evil.example:61614", False),
        ("127.0.0.1:61614", "http://evil.example", False),
        ("localhost.evil.example", "http://localhost.evil.example", False),
        ("127.0.0.1.evil.example", "http://127.0.0.1.evil.example", False),
        ("127.0.0.1", "null", False),
        ("127.0.0.1", "", False),
        ("", "http://", False),
        ("127.0.0.1", "http://[::1", False),
        ("127.0.0.1", "http://127.0.0.1/page", False),
    ],
)
def test_a_page_whose_name_was_pointed_at_this_machine_may_not_connect(
    net: Net, engines: Engines, host: str, origin: str, welcome: bool
) -> None:
    """DNS rebinding: the browser takes the broker for the page's own server, and both headers name the page's host."""
    settings = ListenerSettings(
        kind=ListenerKind.WEB_SOCKET, websocket=WebSocketSettings(origins=("https://shop.example",))
    )
    listener = net.service.open(settings, engines)
    with connect(listener) as client:
        client.sendall(request(f"Origin: {origin}", host=host))
        assert read_head(client).startswith(b"HTTP/1.1 101" if welcome else b"HTTP/1.1 403")
    listener.close(0)


def test_a_path_that_is_none_is_no_fault_of_ours(listener: Listener, caplog: pytest.LogCaptureFixture) -> None:
    with connect(listener) as client:
        client.sendall(request(path="//[::1"))
        assert read_head(client).startswith(b"HTTP/1.1 404")
    assert "PYJMS-NET-10" not in caplog.text


@pytest.mark.parametrize(
    "bomb",
    [
        b"GET /stomp?" + b"x" * 1_000_000,
        b"GET /stomp HTTP/1.1\r\n" + b"a: b\r\n" * 100_000,
        b"GET /stomp HTTP/1.1\r\na: " + b"x" * 1_000_000,
        request("Content-Length: 99999999999"),
        request("Transfer-Encoding: chunked"),
        os.urandom(100_000),
        b"\r\n" * 100_000,
        b"\x00" * 100_000,
    ],
    ids=range(8),
)
def test_bombs_in_the_handshake_end_the_connection_and_hurt_nobody(
    listener: Listener, engines: Engines, bomb: bytes
) -> None:
    with shake_hands(listener) as other, connect(listener) as client:
        engines.next()
        try:
            client.sendall(bomb)
            client.shutdown(socket.SHUT_WR)
            assert not read_to_end(client).startswith(b"HTTP/1.1 101")
        except OSError:
            pass  # cut off before all was sent
        other.sendall(frame(2, b"hello"))
        assert other.recv(7) == b"\x82\x05hello"


@pytest.mark.parametrize(
    "data",
    [
        bytes((0x82, 0xFF, 0x7F, *b"\xff" * 7, 0, 0, 0, 0)),  # a frame of 2**63 bytes
        bytes((0x82, 0xFE, 0xFF, 0xFF)),
        bytes((0x82, 0x05)) + b"hello",  # not masked
        frame(0, b"continues nothing"),
        frame(3, b"no such opcode"),
        frame(1, b"\xff\xfe"),
        bytes((0x09, 0x80, 0, 0, 0, 0)),  # a ping in fragments
        bytes((0xF2, 0x80, 0, 0, 0, 0)),  # with extensions that nobody agreed on
        frame(8, b"\x00"),
        frame(8, b"\x03\xe8\xff"),
    ],
    ids=range(10),
)
def test_frames_that_break_the_rules_end_the_connection_and_hurt_nobody(
    listener: Listener, engines: Engines, data: bytes
) -> None:
    with shake_hands(listener) as other, shake_hands(listener) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        read_to_end(client)
        other.sendall(frame(2, b"hello"))
        assert other.recv(7) == b"\x82\x05hello"


def test_a_handshake_that_drips_is_cut_at_the_deadline(net: Net, listener: Listener, engines: Engines) -> None:
    with connect(listener) as client:
        net.clock.await_wait(10_000)
        text = request()
        for at in range(5):
            client.sendall(text[at : at + 1])
            net.clock.advance(2_000)
        try:
            assert read_to_end(client) == b""
        except ConnectionResetError:
            return  # cut with a byte unread


def test_a_peer_that_sends_tiny_frames_gets_no_more_of_the_loop_than_a_few_kilobytes_at_a_time(
    net: Net, listener: Listener, engines: Engines
) -> None:
    with shake_hands(listener) as client:
        engine = engines.next()
        client.sendall(frame(2, b"x") * 50_000)
        assert read_payload(client, 50_000) == b"x" * 50_000
        turns = net.on_loop(lambda: listener.bytes_in) / 8192
        # Others have their turns between two reads; each read is as large as its buffer at most.
        assert len(listener.buffer) == 8192
        assert turns >= 40
        assert engine.heard == 50_000


def read_payload(client: socket.socket, size: int) -> bytes:
    """Read frames of the server until their payloads have so many bytes."""
    payload = b""
    with client.makefile("rb") as stream:
        while len(payload) < size:
            length = stream.read(2)[1]
            if length == 126:
                length = int.from_bytes(stream.read(2))
            elif length == 127:
                length = int.from_bytes(stream.read(8))
            payload += stream.read(length)
    return payload


def test_a_ping_is_answered_although_the_engine_has_nothing_to_say(listener: Listener, engines: Engines) -> None:
    with shake_hands(listener) as client:
        for _ in range(3):
            client.sendall(frame(9, b"there?"))
            assert client.recv(8) == b"\x8a\x06there?"


class GuardedEngine(EchoEngine):
    """Knows its peer when the test says so; reads meanwhile, as long as it is not said otherwise."""

    is_known = False
    reads = True

    @property
    def knows_peer(self) -> bool:
        return self.is_known

    @property
    def is_reading(self) -> bool:
        return self.reads and super().is_reading


@pytest.fixture
def guarded(net: Net) -> Iterator[tuple[Listener, Engines]]:
    engines = Engines(GuardedEngine)
    settings = ListenerSettings(kind=ListenerKind.WEB_SOCKET, write_buffer_bytes=4096)
    listener = net.service.open(settings, engines)
    yield listener, engines
    listener.close(0)


def head_of(size: int) -> bytes:
    """The beginning of a binary frame of a client, masked with zeros."""
    return b"\x82\xff" + size.to_bytes(8) + bytes(4)


def send_all_that_is_taken(client: socket.socket, data: bytes) -> None:
    try:
        client.sendall(data)
    except ConnectionError:
        return  # cut off before all was sent


def test_a_stranger_has_no_large_frame_held_for_him(guarded: tuple[Listener, Engines]) -> None:
    listener, engines = guarded
    with shake_hands(listener) as client:
        engine = engines.next()
        client.sendall(head_of(16_000_000) + b"x" * 100_000)
        farewell = read_to_end(client)
        assert int.from_bytes(farewell[2:4]) == 1009
        assert b"log in" in farewell
        assert engine.heard == 0
    assert engine.ends.get(timeout=PATIENCE_S) is not None


def test_a_stranger_has_no_large_handshake_held_for_him(guarded: tuple[Listener, Engines]) -> None:
    listener, _ = guarded
    with connect(listener) as client:
        line = b"a: " + b"x" * 8_000 + b"\r\n"
        client.sendall(b"GET /stomp HTTP/1.1\r\n" + line * 10)
        assert read_to_end(client) == b""


def test_a_frame_waits_in_the_socket_while_its_sender_is_logged_in(net: Net, guarded: tuple[Listener, Engines]) -> None:
    listener, engines = guarded
    size = 30_000_000
    with shake_hands(listener) as client:
        engine = engines.next()
        assert isinstance(engine, GuardedEngine)
        net.on_loop(lambda: setattr(engine, "reads", False))
        rest = head_of(size // 2) + b"x" * (size // 2)
        sending = Thread(target=send_all_that_is_taken, args=(client, rest), daemon=True)
        sending.start()
        while net.on_loop(lambda: listener.bytes_in) <= HELD_FOR_STRANGERS:
            assert sending.is_alive()
        assert net.on_loop(lambda: listener.bytes_in) < 2 * HELD_FOR_STRANGERS

        def let_in() -> None:
            engine.reads = engine.is_known = True
            engine.conduit.wake()

        net.on_loop(let_in)
        assert engine.events.get(timeout=PATIENCE_S) == f"received {size // 2}"
        sending.join(PATIENCE_S)


def test_who_has_logged_in_may_send_large_frames(guarded: tuple[Listener, Engines]) -> None:
    listener, engines = guarded
    with shake_hands(listener) as client:
        engine = engines.next()
        assert isinstance(engine, GuardedEngine)
        engine.is_known = True
        client.sendall(head_of(200_000) + b"x" * 200_000)
        assert engine.events.get(timeout=PATIENCE_S) == "received 200000"


def test_what_had_come_of_a_frame_goes_with_its_connection(net: Net, guarded: tuple[Listener, Engines]) -> None:
    """The library's parser and its owner know each other, and Python looks for such circles now and then."""
    listener, engines = guarded
    size = 5_000_000
    half = head_of(2 * size) + b"x" * size
    with shake_hands(listener) as client:
        engine = engines.next()
        assert isinstance(engine, GuardedEngine)
        engine.is_known = True
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            client.sendall(half)
            while net.on_loop(lambda: listener.bytes_in) < size:
                pass
            assert tracemalloc.get_traced_memory()[0] > size
            client.close()
            engine.ends.get(timeout=PATIENCE_S)
            assert net.on_loop(lambda: tracemalloc.get_traced_memory()[0]) < size / 2
        finally:
            tracemalloc.stop()
            gc.enable()
