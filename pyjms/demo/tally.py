"""What has happened so far, counted by the threads that do it and read by the screen."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from threading import Lock

__all__ = ["Happening", "Tally"]


class Happening(Enum):
    """What a stage counts."""

    DONE = "done"
    ROLLED_BACK = "rolled back"
    CRASHED = "crashed"
    REDELIVERED = "redelivered"


class Tally:
    """The counts of one stage. Any thread may call any method."""

    def __init__(self, name: str, total: int) -> None:
        self.name = name
        self.total = total
        self._lock = Lock()
        self._counts: Counter[Happening] = Counter()
        self._attempts: Counter[int] = Counter()

    def add(self, happening: Happening, count: int = 1) -> None:
        """Count it."""
        with self._lock:
            self._counts[happening] += count

    def attempt(self, record_id: int) -> int:
        """Count one more attempt at the record; return which one it is, from 1."""
        with self._lock:
            self._attempts[record_id] += 1
            return self._attempts[record_id]

    def __getitem__(self, happening: Happening) -> int:
        with self._lock:
            return self._counts[happening]
