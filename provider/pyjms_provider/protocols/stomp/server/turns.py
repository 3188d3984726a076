"""Whose message is written next: consumers with work take turns (Broker-J, fairness within a connection).

A consumer is told of work by the broker, on any thread (QCM-13); from there on the way is: its session, the connection,
the transport's schedule, and back: the connection goes over the sessions that want to work, each over its consumers,
and each consumer tries to pull (QCM-14 to 22).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PULLS_OF_TURN", "Pulled", "Turns"]

PULLS_OF_TURN: Final = 16
"""For who pulls one message at a time."""


class Pulled(Protocol):
    """Something that has bytes for the wire as long as it has work."""

    is_queued: bool
    """Whether it waits for its turn; `Turns` alone sets it."""
    pulls_of_turn: int
    """How often it may pull before another one's turn."""
    may_have_more: bool
    """Whether it wants another turn after one that it has used up; else `Turns.want` is called when there is work again."""

    def pull(self) -> Iterable[bytes] | None:
        """Return a frame in parts, or None: there is no work, and `Turns.want` is called when there is again."""
        ...


class Turns:
    """The consumers of one connection that may have work, in the order of their turns."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.wanting: deque[Pulled] = deque()
        """Who waits for a turn; only to be looked at."""

    def __bool__(self) -> bool:
        return bool(self.wanting)

    def want(self, who: Pulled) -> None:
        """Give `who` a turn. Any thread; never waits."""
        if not who.is_queued:
            who.is_queued = True
            self.wanting.append(who)
            self._wake()

    def pull(self, size: int, parts: list[bytes]) -> int:
        """Add about `size` bytes to `parts`; return how many. The connection's thread."""
        wanting, taken = self.wanting, 0
        while taken < size and wanting:
            who = wanting.popleft()
            who.is_queued = False  # before it looks: what comes from now on gives it another turn
            pulled: Iterable[bytes] | None = None
            for _ in range(who.pulls_of_turn):
                pulled = who.pull()
                if pulled is None:
                    break
                for part in pulled:
                    parts.append(part)
                    taken += len(part)
                if taken >= size:
                    break
            if pulled is not None and who.may_have_more:
                self.want(who)
        return taken
