"""Heart-beats between a served broker and clients on sockets, by a clock that moves when told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from pyjms.testing import VirtualClock
from tests.system.network.served import anonymous_broker, port_of

PATIENCE_S = 20.0
_TOGETHER_MS = 100
"""Alarms may go off a moment late, together with others."""


class World:
    """A broker, and the clock that it lives by."""

    def __init__(self, port: int, clock: VirtualClock) -> None:
        self._port = port
        self.clock = clock

    def connect(self, heart_beat: str) -> Plain:
        return Plain(self._port, heart_beat)


class Plain:
    """A client that reads and writes the bytes of STOMP 1.2."""

    def __init__(self, port: int, heart_beat: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.sendall(f"CONNECT\naccept-version:1.2\nhost:\nheart-beat:{heart_beat}\n\n\0".encode())
        self.greeting = self.frame()
        assert self.greeting.startswith("CONNECTED")

    def close(self) -> None:
        self.socket.close()

    def frame(self) -> str:
        """Return the next frame, which has exactly one line end behind it: no heart-beat came before."""
        data = b""
        while not data.endswith(b"\0\n"):
            data += self._read()
            assert not data.startswith(b"\n"), "a heart-beat"
        return data.decode()

    def beat(self) -> None:
        """Read a heart-beat, and nothing else."""
        assert self._read() == b"\n"

    def round_trip(self) -> None:
        """Send a message, and read its RECEIPT and nothing else."""
        self.socket.sendall(b"SEND\ndestination:/topic/nobody\nreceipt:r\n\n\0")
        assert self.frame().startswith("RECEIPT")

    def rest(self) -> str:
        """Read until the broker ends the connection."""
        data = b""
        while more := self.socket.recv(4096):
            data += more
        return data.decode()

    def _read(self) -> bytes:
        data = self.socket.recv(4096)
        assert data, "the broker has ended the connection"
        return data


@pytest.fixture
def world() -> Iterator[World]:
    clock = VirtualClock()
    with anonymous_broker(clock) as broker:
        yield World(port_of(broker), clock)


@pytest.mark.realises("BJ-IDLE-1", "BJ-IDLE-2")
@pytest.mark.parametrize(("wanted_ms", "agreed_ms"), [(100, 1_000), (1_000, 1_000), (5_000, 5_000)])
def test_the_broker_sends_an_empty_line_in_the_time_that_was_agreed(
    world: World, wanted_ms: int, agreed_ms: int
) -> None:
    with closing(world.connect(f"0,{wanted_ms}")) as client:
        assert "\nheart-beat:1000,1000\n" in client.greeting, "what the broker offers, and wants"
        for _ in range(3):
            world.clock.advance(agreed_ms)
            client.beat()


@pytest.mark.realises("BJ-IDLE-2")
def test_a_broker_that_says_something_else_in_time_sends_no_empty_line(world: World) -> None:
    with closing(world.connect("0,1000")) as client:
        for _ in range(10):
            world.clock.advance(700)
            client.round_trip()
        world.clock.advance(1_000)
        client.beat()


@pytest.mark.realises("BJ-IDLE-1", "BJ-IDLE-3")
@pytest.mark.parametrize(("promised_ms", "agreed_ms"), [(100, 1_000), (1_000, 1_000), (5_000, 5_000)])
def test_a_client_that_breaks_its_promise_is_disconnected(world: World, promised_ms: int, agreed_ms: int) -> None:
    with closing(world.connect(f"{promised_ms},0")) as client, closing(world.connect("0,0")) as without:
        for _ in range(3):
            world.clock.advance(2 * agreed_ms - 1)
            client.round_trip()
        world.clock.advance(2 * agreed_ms + _TOGETHER_MS)
        assert "nothing was heard" in client.rest()
        without.round_trip()  # no promise, and so no end
