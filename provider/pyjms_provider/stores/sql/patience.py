"""How long somebody who asks PostgreSQL's server waits for its answer.

A server that is stopped, or whose disk hangs, still confirms what it is sent: its system does that. So no time-out of the network ends
the wait for it, and whoever wrote waited without an end, and with him all who write after him, and who stops the broker. Here each wait has an
end: a connection on which nothing has moved for so long is given up, which is told as the loss of a connection is (decision 0212).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pyjms.spi.clock import Clock, Signal

__all__ = ["DEFAULT_LIMIT_MS", "UNLOCKING_MS", "Patience", "PatientConnection", "unhurried"]

_T = TypeVar("_T")

DEFAULT_LIMIT_MS: Final = 30_000.0
"""As long as the system waits for the confirmation of what was sent."""
CLOSING_MS: Final = 10_000.0
"""So long, at most, once the store is about to be closed."""
UNLOCKING_MS: Final = 1_000.0
"""So long for who frees the lock: when the connection is closed the server does that, too, a moment later."""


class Patience:
    """That of one store, for all connections to its server. All calls may come from any thread."""

    def __init__(self, clock: Clock, limit_ms: float = DEFAULT_LIMIT_MS, *, cancelled: Signal | None = None) -> None:
        """`limit_ms`: how long a connection may be silent that was asked something. `cancelled`: what ends the opening."""
        self.clock = clock
        self.limit_ms = limit_ms
        self.has_given_up = False
        """The server was silent while the store is about to be closed: nobody asks it any more."""
        self._is_closing = False
        self._cancelled = cancelled

    def hasten(self) -> None:
        """Hear that the store is about to be closed. May be repeated."""
        self._is_closing = True

    def connect(self, *arguments: Any, **options: Any) -> PatientConnection:
        """Connect as psycopg does. Raises its errors."""
        if self.has_given_up:
            raise psycopg.OperationalError("the server has not answered before, and the store is being closed")
        try:
            connection = PatientConnection.connect(*arguments, **options)
        except psycopg.errors.ConnectionTimeout:
            self.has_given_up = self._is_closing
            raise
        connection.patience = self
        connection.limit_ms = self.limit_ms
        return connection

    def lack(self, silent_ms: float, limit_ms: float) -> str | None:
        """Return why nobody waits any more on a connection that was silent for so long, and may be for `limit_ms`; None: he does."""
        if math.isinf(limit_ms) and self._was_cancelled():
            return "the start was cancelled"
        if self._is_closing:
            limit_ms = min(limit_ms, CLOSING_MS)
            if self.has_given_up or silent_ms >= limit_ms:
                self.has_given_up = True
                return f"the server has not answered for {silent_ms / 1000:.1f} s, and the store is being closed"
        if silent_ms >= limit_ms:
            return f"the server has not answered for {silent_ms / 1000:.1f} s"
        return None

    def _was_cancelled(self) -> bool:
        if self._cancelled is None or not self._cancelled.wait(0):
            return False
        self._cancelled.set()  # for whoever looks next
        return True


class PatientConnection(psycopg.Connection[Any]):
    """A connection that is closed, with an `OperationalError`, when the server does not answer for too long."""

    patience: Patience | None = None
    """Whose limits it has; None: it is being opened."""
    limit_ms: float = math.inf
    """How long it may be silent; infinite: as long as the server needs, unless the start is cancelled or the store closed."""

    def wait(self, gen: Generator[Any, Any, _T], *arguments: Any, **options: Any) -> _T:
        """Do as psycopg, which resumes `gen` when the connection is ready, and each tenth of a second while it is not."""
        if self.patience is None:
            return super().wait(gen, *arguments, **options)
        return super().wait(self._watched(gen, self.patience), *arguments, **options)

    def _watched(self, gen: Generator[Any, Any, _T], patience: Patience) -> Generator[Any, Any, _T]:
        silent_since_ms: float | None = None  # as most answers come at once, nobody looks at the clock for them
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    silent_since_ms = None
                else:
                    now_ms = patience.clock.monotonic_ms()
                    silent_since_ms = now_ms if silent_since_ms is None else silent_since_ms
                    self._look(patience, now_ms - silent_since_ms)
                wanted = gen.send(ready)
        except StopIteration as end:
            result: _T = end.value
            return result

    def _look(self, patience: Patience, silent_ms: float) -> None:
        lack = patience.lack(silent_ms, self.limit_ms)
        if lack is not None:
            self.pgconn.finish()  # nobody knows where it stands, so it is of no use
            raise psycopg.OperationalError(lack)


@contextmanager
def unhurried(connection: Connection) -> Iterator[None]:
    """Let the server answer as late as it needs to, as it upgrades a schema, or begins to read all that is kept."""
    driver: Any = connection.connection.driver_connection
    driver.limit_ms = math.inf
    try:
        yield
    finally:
        driver.limit_ms = driver.patience.limit_ms
