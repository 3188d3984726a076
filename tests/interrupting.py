"""Signals that come at bad moments: between two lines of the main thread, and while another thread runs."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["interrupted_at", "interrupted_elsewhere"]


@contextmanager
def interrupted_at(line: int) -> Iterator[list[int]]:
    """Raise SIGTERM before the main thread's `line`-th line of Python from here on; the list has what was left of them."""
    left = [line]

    def trace(_: FrameType, event: str, __: Any) -> Any:
        if event == "line" and left[0] >= 0:
            left[0] -= 1
            if left[0] < 0:
                signal.raise_signal(signal.SIGTERM)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield left
    finally:
        sys.settrace(before)


@contextmanager
def interrupted_elsewhere(after_s: float, number: signal.Signals = signal.SIGTERM) -> Iterator[None]:
    """Send a signal, after so many seconds, to a thread that is not the main one.

    The main thread then knows as little of it as when it comes just before that begins to wait: nothing interrupts its wait.
    """
    told = threading.Event()

    def send() -> None:
        told.wait(after_s)
        signal.pthread_kill(threading.get_ident(), number)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        told.set()
        thread.join()
