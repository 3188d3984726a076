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
"""A signal that only interrupts a wait, and is ignored otherwise."""
_MOMENT_S: Final = 0.1
"""The delay after which a thread that was about to wait at the time of Ctrl-C has started to wait."""


@contextmanager
def told_of_signals(end: Callable[[], None]) -> Iterator[None]:
    """Call `end`, on another thread, at each Ctrl-C and SIGTERM; off the main thread, do nothing.

    Afterwards the former handlers apply: the rest of the command may be interrupted.
    """
    # Python sets signal handlers only in the main thread; tests run commands in others.
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
            # Closing the writer ends the thread's recv; it is joined so that `end` is not called after the command.
            writer.close()
            teller.join()


@contextmanager
def interruptible() -> Iterator[None]:
    """Make Ctrl-C raise `KeyboardInterrupt` in the main thread soon, even if it arrived just before that thread started
    to wait; and SIGTERM what its handler raises.

    Python raises it at the main thread's next bytecode; a thread that has just started to wait executes none. So
    another signal without effect interrupts it a moment later. For the main thread; does nothing where signals cannot
    be sent to threads.
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
            # Any signal interrupts a waiting system call; Python then runs the handler of the earlier Ctrl-C.
            signal.pthread_kill(main_thread, _POKE)
            continue
        if not number:
            return
        # The extra signal itself arrives as a byte, too, and must not be followed by another one.
        is_due = is_due or number[0] in ENDING


def _tell(reader: socket.socket, end: Callable[[], None]) -> None:
    while number := reader.recv(1):
        if number[0] in ENDING:
            end()
