"""What a worker is told to do, and its end when nobody is left who could tell it anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import RawIOBase
from queue import SimpleQueue
from threading import Event, Thread

_FAREWELL_S = 3.0
"""How long after the last order a worker may take to end by itself, in seconds; less than its controller would wait."""


class Orders:
    """The lines on `source`, for one thread. Once they have ended, so does the process, even if a test hangs in it."""

    def __init__(self, source: RawIOBase) -> None:
        """`source` is read without a buffer, which a thread that reads for ever could not give back at the end."""
        self._source = source
        self._lines: SimpleQueue[bytes] = SimpleQueue()
        Thread(target=self._listen, name="pyjms-tck-orders", daemon=True).start()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines.get, b"")

    def _listen(self) -> None:
        for line in iter(self._source.readline, b""):
            self._lines.put(line)
        self._lines.put(b"")
        Event().wait(_FAREWELL_S)
        os._exit(1)
