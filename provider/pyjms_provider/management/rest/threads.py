"""The threads of one port for requests that may wait: for a database, or for a change by others.

Log-ins, metrics and readiness have threads of their own, and are answered even while all threads for requests are waiting. A session is
looked up without a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from anyio import CapacityLimiter, fail_after, to_thread

from pyjms_provider.management.errors import BusyError
from pyjms_provider.security.logins import network_of

_T = TypeVar("_T")

MOST: Final = 64
"""The most waiting requests of a port. More are seldom anything but one page that is requested again and again."""
MOST_OF_ONE: Final = 16
"""The most waiting log-ins of one network: a client that floods a port leaves three quarters of the threads to others."""
PATIENCE_S: Final = 10.0
"""The time that another request waits for its turn; then it is refused."""


class WaitingThreads:
    """A pool for requests that may wait. All calls on the event loop."""

    def __init__(
        self,
        most: int = MOST,
        patience_s: float = PATIENCE_S,
        waits: str = "requests to this port wait already, for a database or for changes",
    ) -> None:
        """`waits`: the reason in the error of a refused request."""
        self._turns = CapacityLimiter(most)
        self._patience_s = patience_s
        self._waits = f"{most} {waits}"

    async def run(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Run `function` on a thread, and return its result. Raises its error, and `BusyError`."""
        return await _run([self._turns], self._patience_s, self._waits, partial(function, *arguments))


class LogInThreads:
    """The threads of one port for checking passwords and tokens, which may wait for another server. All calls on the event loop.

    Each network may use a part of them, as with `Throttle`: a client without any password can make log-ins wait.
    """

    def __init__(self, most: int = MOST, most_of_one: int = MOST_OF_ONE, patience_s: float = PATIENCE_S) -> None:
        self._turns = CapacityLimiter(most)
        self._most_of_one = most_of_one
        self._patience_s = patience_s
        self._waits = f"{most_of_one} log-ins of your network, or {most} of all, wait already"
        self._networks: dict[str, _Part] = {}

    async def run(self, peer: str, function: Callable[..., _T], *arguments: object) -> _T:
        """Run `function` on a thread for the client at the address `peer`, and return its result. Raises its error, and `BusyError`."""
        network = network_of(peer)
        part = self._networks.get(network)
        if part is None:
            part = self._networks[network] = _Part(CapacityLimiter(self._most_of_one))
        part.users += 1
        try:
            # The network's own turn comes first: a log-in that waits for it takes no turn of the port.
            turns = [part.turns, self._turns]
            return await _run(turns, self._patience_s, self._waits, partial(function, *arguments))
        finally:
            part.users -= 1
            # The entry is removed with its last log-in: otherwise every address would stay in memory.
            if not part.users:
                del self._networks[network]


@dataclass(slots=True)
class _Part:
    turns: CapacityLimiter
    users: int = 0


async def _run(turns: Sequence[CapacityLimiter], patience_s: float, waits: str, function: Callable[[], _T]) -> _T:
    """Run `function` on a thread once it has a turn of each limiter, in their order."""
    turn = object()
    held: list[CapacityLimiter] = []
    try:
        try:
            with fail_after(patience_s):
                for each in turns:
                    await each.acquire_on_behalf_of(turn)
                    # Entered one by one: a wait that ends half way returns the turns that it has.
                    held.append(each)
        except TimeoutError as error:
            raise BusyError(f"{waits}; try again, and look in the log what keeps them") from error
        return await to_thread.run_sync(function, limiter=CapacityLimiter(1))  # the turns are the limit
    finally:
        for each in held:
            each.release_on_behalf_of(turn)
