"""Signals come as bytes, and their handlers come back where that is asked for."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from pyjms.spi.interrupts import ENDING, signals_as_bytes


@pytest.fixture(autouse=True)
def came() -> Iterator[list[int]]:
    """Give the numbers of what came to the former handlers."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number)) for number in (*ENDING, signal.SIGUSR1)
    }
    yield came
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("put_back", [True, False])
def test_a_signal_comes_as_a_byte_and_does_nothing_else(came: list[int], put_back: bool) -> None:
    reader, writer = socket.socketpair()
    with reader, writer:
        with signals_as_bytes(ENDING, writer, put_back=put_back):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGINT)
        writer.close()
        assert came == [signal.SIGUSR1]
        assert reader.recv(10) == bytes((signal.SIGTERM, signal.SIGUSR1, signal.SIGINT))
        assert reader.recv(10) == b""
    assert signal.set_wakeup_fd(-1) == -1
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    assert came[1:] == ([signal.SIGTERM, signal.SIGINT] if put_back else [])


def test_within_another_it_takes_its_place_for_so_long() -> None:
    reader, writer = socket.socketpair()
    inner_reader, inner_writer = socket.socketpair()
    with reader, writer, inner_reader, inner_writer:
        with signals_as_bytes((signal.SIGUSR1,), writer, put_back=True):
            with signals_as_bytes(ENDING, inner_writer, put_back=True):
                signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        assert inner_reader.recv(10) == bytes((signal.SIGINT,))
        assert reader.recv(10) == bytes((signal.SIGTERM,))


def test_more_signals_than_anybody_reads_do_no_harm() -> None:
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        with signals_as_bytes(ENDING, writer, put_back=True):
            for _ in range(3000):
                signal.raise_signal(signal.SIGTERM)
        assert set(reader.recv(10)) == {signal.SIGTERM}
