"""How long to wait before the next round of attempts to connect: twice as long each time, up to a limit, with jitter."""

from __future__ import annotations

from random import Random

__all__ = ["Backoff"]

_JITTER = 0.5


class Backoff:
    """The waits between rounds. A random half keeps a thousand clients from coming back at one moment."""

    def __init__(self, first_ms: int, longest_ms: int, random: Random) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._random = random
        self._round = 0

    def next_ms(self) -> float:
        """Return the next wait in milliseconds: between a half and the whole of what its round has."""
        whole: float = min(self._longest_ms, self._first_ms * 2 ** min(self._round, 40))
        self._round += 1
        return whole * (1 - _JITTER * self._random.random())

    def reset(self) -> None:
        """Begin anew: a connection was made."""
        self._round = 0
