"""One at a time: who works may wait for the disk, and others wait for him.

A turn is a plain lock. It guards no fields, but is the right to change
something whose changes are written, as the right to write is (decision 0104). Who has it waits for nothing but the disk, so that all others get it.
"""

from __future__ import annotations

from threading import Lock
from weakref import WeakValueDictionary

WritingTurn = Lock
"""The right to change something whose changes are written."""


class WritingTurns:
    """Turns by the name of what is changed; each is there while somebody has it, or waits for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._turns: WeakValueDictionary[str, Lock] = WeakValueDictionary()

    def of(self, name: str) -> Lock:
        """Return the turn of that name, for ``with turns.of(name):``."""
        with self._lock:
            return self._turns.setdefault(name, WritingTurn())
