"""How much goes into one transaction: a queue may have room for less than a batch, and then a whole batch would never get in."""

from __future__ import annotations

from typing import Final

__all__ = ["Portion"]

_ALL: Final = 1 << 30


class Portion:
    """Halved by each failure, down to one message, and doubled by each success. One thread."""

    def __init__(self) -> None:
        self.most = _ALL
        """Messages of one transaction, for the time being."""

    def succeeded(self) -> None:
        """Hear that so much got in."""
        self.most = min(self.most * 2, _ALL)

    def failed(self, tried: int) -> bool:
        """Hear that so much did not get in; return whether less can be tried."""
        self.most = max(tried // 2, 1)
        return tried > 1
