"""Ctrl-C and SIGTERM for commands that end in order."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pyjms.spi.interrupts import ENDING, signals_as_bytes

_POKE: Final = getattr(signal, "SIGURG", 0)
"""What interrupts a wait, and would be ignored by itself."""
_MOMENT_S: Final = 0.1
"""After so long whoever was about to wait when Ctrl-C came has begun to."""


@contextmanager
def told_of_signals(end: Callable[[], None]) -> Iterator[None]:
    """Have `end` called, on a thread of its own, at each Ctrl-C and SIGTERM; off the main thread, there are none.

    Afterwards they do again what they did: what is left of the command may be broken off.
    """
    # Python sets handlers of signals in the main thread alone; a test runs commands in others.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    with reader, writer:
        # A thread of its own: `end` may wait and take locks, which a handler in the main thread must not.
        teller = threading.Thread(target=_tell, args=(reader, end), name="pyjms signals", daemon=True)
        teller.start()
        try:
            with signals_as_bytes(ENDING, writer, put_back=True):
                yield
        finally:
            # Closing the writer ends the thread's recv; it is joined so that no call of `end` comes after the command.
            writer.close()
            teller.join()


@contextmanager
def interruptible() -> Iterator[None]:
    """Have Ctrl-C raise `KeyboardInterrupt` in the main thread soon, also if it came just before that began to wait; and SIGTERM
    what its handler raises.

    Python raises it where the main thread gets to; one that has just begun to wait gets nowhere. So it is interrupted once more, a moment
    later, by a signal that does nothing else. The main thread's to call; where threads cannot be sent signals, nothing is done.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_kill"):
        yield
        return
    reader, writer = socket.socketpair()
    with reader, writer:
        poker = threading.Thread(
            target=_poke, args=(reader, threading.get_ident()), name="pyjms interrupts", daemon=True
        )
        poker.start()
        try:
            with signals_as_bytes((_POKE,), writer, put_back=True):
                yield
        finally:
            writer.close()
            poker.join()


def _poke(reader: socket.socket, main_thread: int) -> None:
    is_due = False
    while True:
        reader.settimeout(_MOMENT_S if is_due else None)
        try:
            number = reader.recv(1)
        except TimeoutError:
            is_due = False
            # A system call that waits is cut by any signal; Python then runs the handler of the Ctrl-C before.
            signal.pthread_kill(main_thread, _POKE)
            continue
        if not number:
            return
        # The poke itself arrives as a byte, too, and must not be followed by another one.
        is_due = is_due or number[0] in ENDING


def _tell(reader: socket.socket, end: Callable[[], None]) -> None:
    while number := reader.recv(1):
        if number[0] in ENDING:
            end()
