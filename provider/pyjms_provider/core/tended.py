"""What a housekeeper looks after."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Tended"]


class Tended(Protocol):
    """Holds things whose time may be over. A housekeeper calls it at the times that it asks for."""

    def purge_expired(self, now_ms: int) -> int | None:
        """Do what is due at `now_ms`; return when to come again, in milliseconds since 1970 UTC; None: when asked."""
        ...
