"""What strangers do with a TCP port: nothing grows, nothing hangs, the log stays quiet, nobody else suffers."""

from __future__ import annotations

import logging
import os
import socket
import struct
from contextlib import suppress
from threading import Event

import pytest

from pyjms_provider.transport.settings import ListenerSettings
from tests.provider.transport.world import (
    PATIENCE_S,
    AmplifyingEngine,
    EchoEngine,
    Engines,
    FloodEngine,
    Net,
    connect,
    read_exactly,
    read_to_end,
    send_until_full,
)


def reset(client: socket.socket) -> None:
    """Hang up so that the other side sees a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def test_a_peer_that_resets_while_the_broker_says_farewell_is_no_fault_of_the_broker(
    net: Net, caplog: pytest.LogCaptureFixture
) -> None:
    heard, gone = Event(), Event()

    class Farewell(EchoEngine):
        def received(self, data: bytes | bytearray | memoryview) -> None:
            heard.set()
            gone.wait(PATIENCE_S)
            self.is_ending = True

    engines = Engines(Farewell)
    listener = net.service.open(ListenerSettings(), engines)
    client = connect(listener)
    client.sendall(b"x")
    heard.wait(PATIENCE_S)
    reset(client)
    gone.set()
    engines.next().ends.get(timeout=PATIENCE_S)
    listener.close(0)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_connections_that_come_and_go_leave_nothing_and_log_nothing_loud(
    net: Net, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    listener = net.service.open(ListenerSettings(), Engines())
    for number in range(300):
        client = connect(listener)
        if number % 3:
            client.send(os.urandom(10))
        reset(client) if number % 2 else client.close()
    with connect(listener) as client:
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"
    listener.close(0)
    assert listener.connection_count == 0
    assert caplog.records == []


def test_who_reads_nothing_costs_a_bounded_amount_and_hinders_nobody(net: Net) -> None:
    engines = Engines(FloodEngine)
    settings = ListenerSettings(write_buffer_bytes=65_536)
    listener = net.service.open(settings, engines)
    echo = net.service.open(ListenerSettings(), Engines())
    silent = [connect(listener) for _ in range(20)]
    with connect(echo) as client:
        for _ in range(50):
            client.sendall(b"hello")
            assert read_exactly(client, 5) == b"hello"
    for one in silent:
        engine = engines.next()
        pulled = net.on_loop(lambda engine=engine: engine.pulled)  # type: ignore[misc]
        assert pulled < 16_000_000  # the buffers of the system, and one of ours
        reset(one)
    listener.close(0)


def test_who_sends_and_reads_nothing_is_not_read_for_ever(net: Net) -> None:
    listener = net.service.open(ListenerSettings(), Engines(AmplifyingEngine))
    with connect(listener) as client:
        assert send_until_full(client) < 64_000_000
    listener.close(0)


def test_one_address_can_be_kept_from_taking_all_places(net: Net) -> None:
    listener = net.service.open(ListenerSettings(max_connections_per_address=5), Engines())
    clients = [connect(listener) for _ in range(20)]
    for client in clients[5:]:
        assert read_to_end(client) == b""
    reset(clients[0])
    for client in clients[1:5]:
        client.sendall(b"hello")
        assert read_exactly(client, 5) == b"hello"
    listener.close(0)
    for client in clients:
        client.close()


def test_neither_passwords_nor_other_bytes_get_into_the_log(net: Net, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    listener = net.service.open(ListenerSettings(), Engines())
    with connect(listener) as client:
        client.sendall(b"CONNECT\npasscode:s3cret\n\n\x00quit")
        read_to_end(client)
    listener.close(0)
    assert "s3cret" not in caplog.text


def test_an_engine_that_fails_for_one_peer_fails_for_no_other(net: Net) -> None:
    class Fragile(EchoEngine):
        def received(self, data: bytes | bytearray | memoryview) -> None:
            if bytes(data).startswith(b"boom"):
                raise MemoryError("hostile")
            super().received(data)

    listener = net.service.open(ListenerSettings(), Engines(Fragile))
    with connect(listener) as good:
        for _ in range(20):
            with connect(listener) as bad:
                bad.sendall(b"boom")
                with suppress(ConnectionResetError):
                    assert read_to_end(bad) == b""
        good.sendall(b"hello")
        assert read_exactly(good, 5) == b"hello"
    listener.close(0)
