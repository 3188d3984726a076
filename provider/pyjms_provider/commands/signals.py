"""Ctrl-C and SIGTERM for a broker that ends in order."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from pyjms.spi.signals import ENDING, signals_as_bytes

__all__ = ["ending_signals", "stopped_early"]


@contextmanager
def stopped_early() -> Iterator[None]:
    """Have SIGTERM end what goes on as Ctrl-C does, and the process with 0: it may wait for a store that another broker holds.

    The main thread's to call. `ending_signals` within it takes its place for good.
    """
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _stop:
            signal.signal(signal.SIGTERM, before)


def _stop(*_: object) -> NoReturn:
    raise SystemExit(0)


@contextmanager
def ending_signals() -> Iterator[Callable[[], int]]:
    """Give what waits for SIGTERM or Ctrl-C, and returns its number; afterwards both do nothing. The main thread's to call.

    No former handler is put back: the broker is closed then, and whoever asks it to end once more, as supervisors and people do,
    is not to break that off, nor to change the exit code of a process that is about to end as it was asked to.
    """
    reader, writer = socket.socketpair()
    with reader, writer, signals_as_bytes(ENDING, writer, put_back=False):

        def wait() -> int:
            while (number := reader.recv(1)[0]) not in ENDING:
                pass
            return number

        yield wait
