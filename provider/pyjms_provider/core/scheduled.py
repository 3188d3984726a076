"""Objects with timed work, such as expiry, the end of a delay, or a time limit. The timer thread calls them when it is due."""

from __future__ import annotations

from typing import Protocol


class Scheduled(Protocol):
    """Is called by the timer thread at the times that it asks for."""

    def run_due(self, now_ms: int) -> int | None:
        """Do the work that is due at `now_ms`; return when to call again, in milliseconds since 1970 UTC; None: when asked."""
