"""Counts the work under way in a host, so that its journal is not closed before that has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import ClosedError

__all__ = ["WorkUnderWay"]

_T = TypeVar("_T")

_LOOK_S: Final = 0.1
"""So often who ends looks whether others still work: one who was interrupted at the end of its work may not have said so."""


class WorkUnderWay:
    """The work under way, which holds off the end. Every durable send comes by, so it counts without a lock.

    Who works first makes an entry, and then looks whether the end has begun; who ends does both the other way round. So one of them sees the other.

    Python may interrupt the main thread at any call, also before the first line of an `__exit__`. So there is none: the entry is made by the
    first call in a `try`, and taken away by the first call in its `finally`.
    """

    __slots__ = ("_idle", "entries", "is_ending")

    def __init__(self) -> None:
        self.entries: deque[None] = deque()
        """One for each that works."""
        self.is_ending = False
        self._idle = Signal()

    def do(self, act: Callable[[], _T]) -> _T:
        """Return what `act` returns. Raises `ClosedError` if the end has begun."""
        entries = self.entries
        try:
            entries.append(None)
            if self.is_ending:
                raise self.closed()
            return act()
        finally:
            entries.pop()
            if self.is_ending:
                self.tell_if_idle()

    def tell_if_idle(self) -> None:
        """Let who ends go on, if this was the last entry."""
        if not self.entries:
            self._idle.set()

    def closed(self) -> ClosedError:
        """Return why nothing new begins."""
        return ClosedError("the broker is being stopped")

    def end(self) -> None:
        """Let nothing new begin, and return when what was begun has ended."""
        self.is_ending = True
        while self.entries:  # who works waits for nothing but the disk
            self._idle.wait(_LOOK_S)
