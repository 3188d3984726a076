"""What was read from a peer and cannot be fed to its engine yet."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["Unfed"]

_JOINED_BYTES: Final = 4 * 2**10


class Unfed(deque[bytes]):
    """In the order in which it came. Small pieces are joined, as heart-beats of one byte would each cost forty."""

    def add(self, data: bytes) -> None:
        """Hold `data`, too."""
        if self and len(self[-1]) + len(data) <= _JOINED_BYTES:
            self[-1] += data
        else:
            self.append(data)

    def has(self, size: int) -> bool:
        """Return whether it is `size` bytes or more."""
        return sum(map(len, self)) >= size
