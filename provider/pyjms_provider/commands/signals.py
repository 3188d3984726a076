"""Ctrl-C and SIGTERM for a broker that ends in order."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

__all__ = ["ending_signals", "stopped_early"]

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopped_early() -> Iterator[None]:
    """Have SIGTERM end what goes on as Ctrl-C does, and the process with 0: it may wait for a store that another broker holds.

    The main thread's to call. `ending_signals` within it takes its place.
    """
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(*_: object) -> NoReturn:
    raise SystemExit(0)


@contextmanager
def ending_signals() -> Iterator[Callable[[], int]]:
    """Give what waits for SIGTERM or Ctrl-C, and returns its number; afterwards both do nothing. The main thread's to call.

    They come through a socket, into which Python's own handler writes. To have a handler of ours set an event is not safe:
    it runs when the main thread gets to it, and that may be about to wait for this event, or be interrupted with its lock;
    then it waits for ever.
    """
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        for number in _ENDING:
            signal.signal(number, lambda *_: None)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

        def wait() -> int:
            while (number := reader.recv(1)[0]) not in _ENDING:
                pass
            return number

        try:
            yield wait
        finally:
            signal.set_wakeup_fd(before)
