"""What has times at which something is due: expiry, the end of a delay, a limit. The housekeeper visits it then."""

from __future__ import annotations

from typing import Protocol


class Scheduled(Protocol):
    """Is visited by the housekeeper at the times that it asks for."""

    def run_due(self, now_ms: int) -> int | None:
        """Do what is due at `now_ms`; return when to come again, in milliseconds since 1970 UTC; None: when asked."""
