"""Pauses between attempts to connect."""

from __future__ import annotations

import random
import threading

__all__ = ["Pauses"]

_SHORTEST_S = 0.1
_LONGEST_S = 10.0


class Pauses:
    """From 0.1 to 10 seconds, doubled each time, with jitter, and ended by `stopped`."""

    def __init__(self, stopped: threading.Event) -> None:
        self._stopped = stopped
        self._next_s = _SHORTEST_S
        self.has_been_well = False
        """Whether there ever was a connection: before that, an error is the caller's mistake."""

    def begin_anew(self) -> None:
        """Make the next pause a short one: all is well."""
        self._next_s = _SHORTEST_S

    def wait(self) -> None:
        """Wait, and twice as long the next time."""
        self._stopped.wait(self._next_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        self._next_s = min(self._next_s * 2, _LONGEST_S)
