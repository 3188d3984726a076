"""Signals as bytes of a socket, for commands that end in order: those of pyjms here, and of the bundled broker.

A handler of ours that sets an event, or ends what goes on, is not safe: it runs when the main thread gets to it, and that may
be about to wait for this very event, or be interrupted with a lock that the handler takes; then it waits for ever. Python's
own handler, in C, runs at once, and only writes the signal's number into a socket. Who reads that may wait and lock.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["ENDING", "signals_as_bytes"]

ENDING: Final = (signal.SIGINT, signal.SIGTERM)
"""What asks a command to end: Ctrl-C, and a supervisor."""


@contextmanager
def signals_as_bytes(numbers: Iterable[int], to: socket.socket, *, put_back: bool) -> Iterator[None]:
    """Have each signal's number come through `to` as a byte, and `numbers` do nothing else. The main thread's to call.

    Signals that are not among `numbers` come as bytes, too, and still do what they did. `to` is the caller's, to close afterwards:
    then who reads at its other end comes to an end. `put_back`: in the end the former handlers are set again; without it `numbers`
    go on doing nothing, also while what they have ended is being closed.
    """
    to.setblocking(False)
    handlers = {number: signal.signal(number, _nothing) for number in numbers}
    before = signal.set_wakeup_fd(to.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        if put_back:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _nothing(*_: object) -> None:
    """Handle a signal: that it is handled at all has Python write its number."""
