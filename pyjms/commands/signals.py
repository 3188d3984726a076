"""Ctrl-C and SIGTERM for commands that end in order."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["interruptible", "told_of_signals"]

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
_NO_MORE: Final = b"\0"
"""Comes after the last signal; there is no signal 0."""
_POKE: Final = getattr(signal, "SIGURG", 0)
"""What interrupts a wait, and would be ignored by itself."""
_MOMENT_S: Final = 0.1
"""After so long whoever was about to wait when Ctrl-C came has begun to."""


@contextmanager
def told_of_signals(end: Callable[[], None]) -> Iterator[None]:
    """Have `end` called, on a thread of its own, at each Ctrl-C and SIGTERM; off the main thread, there are none.

    They come through a socket, into which Python's own handler writes. To have a handler of ours call `end` is not safe: it
    runs when the main thread gets to it, and that may be about to wait for what `end` does, or be interrupted with a lock
    that `end` takes; then it waits for ever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        teller = threading.Thread(target=_tell, args=(reader, end), name="pyjms signals", daemon=True)
        teller.start()
        handlers = {number: signal.signal(number, lambda *_: None) for number in _ENDING}
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            writer.setblocking(True)
            writer.send(_NO_MORE)
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
        writer.setblocking(False)
        poker = threading.Thread(
            target=_poke, args=(reader, threading.get_ident()), name="pyjms interrupts", daemon=True
        )
        poker.start()
        handler = signal.signal(_POKE, lambda *_: None)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            writer.setblocking(True)
            writer.send(_NO_MORE)
            poker.join()
            signal.signal(_POKE, handler)


def _poke(reader: socket.socket, main_thread: int) -> None:
    is_due = False
    while True:
        reader.settimeout(_MOMENT_S if is_due else None)
        try:
            number = reader.recv(1)
        except TimeoutError:
            is_due = False
            signal.pthread_kill(main_thread, _POKE)
            continue
        if number == _NO_MORE:
            return
        is_due = is_due or number[0] in _ENDING


def _tell(reader: socket.socket, end: Callable[[], None]) -> None:
    while (number := reader.recv(1)) != _NO_MORE:
        if number[0] in _ENDING:
            end()
