"""What has happened so far, counted by the threads that do it and read by the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import Enum
from threading import Lock


class Happening(Enum):
    """What a stage counts."""

    DONE = "done"
    ROLLED_BACK = "rolled back"
    CRASHED = "crashed"
    REDELIVERED = "redelivered"
    SET_ASIDE = "set aside"


class Tally:
    """The counts of one stage. Any thread may call any method."""

    def __init__(self, name: str, total: int) -> None:
        self.name = name
        self.total = total
        self.before = 0
        """How many records were done before this process took part."""
        self._lock = Lock()
        self._counts: Counter[Happening] = Counter()
        self._attempts: Counter[int] = Counter()

    def resume(self, counts: Mapping[Happening, int]) -> None:
        """Go on from what was counted before."""
        with self._lock:
            self._counts.update(counts)
            self.before = self._counts[Happening.DONE]

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
