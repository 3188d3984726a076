"""Who is to be serviced next on the loop: the list that any thread may write to (BJ-TCP-5).

Whatever comes while the loop has not yet looked costs one entry, and no further wake-up of the loop: of a storm from
many threads, the loop's self-pipe sees one byte a turn.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from threading import get_ident

__all__ = ["Scheduler"]

_TURN_STEPS = 64
"""After so many the sockets are looked at again, however many wait: so who reads is not delayed by who writes."""


class Scheduler:
    """Runs steps, in order, on the thread of `loop`, which makes this object. A step must not raise, and is short."""

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = get_ident()
        self._ready: deque[Callable[[], None]] = deque()
        self._is_due = False

    def is_here(self) -> bool:
        """Whether the caller is on the loop's thread."""
        return get_ident() == self._thread

    def add(self, step: Callable[[], None]) -> None:
        """Have `step` run soon. Any thread; never blocks. Once the loop is closed, nothing happens."""
        self._ready.append(step)
        # The step is in the list before the flag is read, and `_run` lowers the flag before it reads the list: so
        # either this call sees the flag low, or that reading finds the step.
        if not self._is_due:
            self._is_due = True
            self._schedule()

    def _schedule(self) -> None:
        if self.is_here():
            self._loop.call_soon(self._run)
            return
        try:
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            return  # the loop is closed, and so is every connection that could want something

    def _run(self) -> None:
        ready = self._ready
        self._is_due = False
        try:
            for _ in range(min(len(ready), _TURN_STEPS)):
                ready.popleft()()
        finally:
            if ready and not self._is_due:
                self._is_due = True
                self._loop.call_soon(self._run)
