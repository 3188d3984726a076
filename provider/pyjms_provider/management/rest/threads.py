"""The threads of one port for requests that may wait: for a database, or for a change that others make.

Who logs in has other threads, and so has who watches over the broker: however many requests wait, these are answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from anyio import CapacityLimiter, fail_after, to_thread

from pyjms_provider.management.errors import BusyError

__all__ = ["MOST", "WaitingThreads"]

_T = TypeVar("_T")

MOST: Final = 64
"""So many requests of a port wait at once. More are seldom anything but one page that is asked for again and again."""
PATIENCE_S: Final = 10.0
"""How long one more waits for its turn; then it is refused, which is an answer."""


class WaitingThreads:
    """All calls on the event loop."""

    def __init__(self, most: int = MOST, patience_s: float = PATIENCE_S) -> None:
        self._turns = CapacityLimiter(most)
        self._patience_s = patience_s
        self._threads = CapacityLimiter(math.inf)  # the turns are the limit

    async def run(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Return what `function` returns, called on a thread. Raises what it raises, and `BusyError`."""
        turn = object()
        try:
            with fail_after(self._patience_s):
                await self._turns.acquire_on_behalf_of(turn)
        except TimeoutError as error:
            raise BusyError(
                f"{self._turns.total_tokens:g} requests to this port are waiting already, for a database, for changes or for "
                "log-ins; try again, and look in the log what keeps them"
            ) from error
        try:
            return await to_thread.run_sync(partial(function, *arguments), limiter=self._threads)
        finally:
            self._turns.release_on_behalf_of(turn)
