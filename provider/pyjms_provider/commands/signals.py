"""Ctrl-C, SIGTERM and the end of its terminal for a broker that ends in order."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from pyjms.spi.signals import ENDING, signals_as_bytes


@contextmanager
def stopped_early() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end what goes on as Ctrl-C does, and the process with 0: it may wait for a store that another broker holds.

    The main thread's to call. `ending_signals` within it takes its place for good.
    """
    before = {number: signal.signal(number, _stop) for number in _ending() if number != signal.SIGINT}
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is _stop:
                signal.signal(number, handler)


def _stop(*_: object) -> NoReturn:
    raise SystemExit(0)


def _ending() -> tuple[int, ...]:
    """Return what asks a broker to end: as any command, and SIGHUP, which comes when its terminal is closed, unless it is ignored, as nohup has it."""
    hangup: int | None = getattr(signal, "SIGHUP", None)  # which Windows does not have
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return ENDING
    return (*ENDING, hangup)


@contextmanager
def ending_signals() -> Iterator[Callable[[], int]]:
    """Give what waits for SIGTERM, SIGHUP or Ctrl-C, and returns its number; afterwards they do nothing. The main thread's to call.

    No former handler is restored: the broker is closed then, and a supervisor or person that signals once more
    must not break that off, nor change the exit code of the ending process.
    """
    reader, writer = socket.socketpair()
    numbers = _ending()
    with reader, writer, signals_as_bytes(numbers, writer, put_back=False):

        def wait() -> int:
            while (number := reader.recv(1)[0]) not in numbers:
                pass
            return number

        yield wait
