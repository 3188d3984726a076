"""How long somebody who asks PostgreSQL's server waits for its answer.

A server that is stopped, or whose disk hangs, still confirms what it is sent: its system does that. So no time-out of the network ends
the wait for it, and whoever wrote waited without an end, and with him all who write after him, and who stops the broker. Here each wait has an
end: a connection on which nothing has moved for so long is given up, which is told as the loss of a connection is (decision 0212). But a
server sends nothing either while it is at work on one statement that takes long. So it is asked before, by another connection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import psycopg

from pyjms_provider.forks import forget_in_children, let_go

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pyjms.spi.clock import Clock, Signal

__all__ = ["ANSWER_OPTION", "DEFAULT_LIMIT_MS", "UNLOCKING_MS", "Patience", "PatientConnection", "unhurried"]

_T = TypeVar("_T")

ANSWER_OPTION: Final = "pyjms_answer_timeout"
"""The option of a store's URL that says how long the server may be silent, in seconds."""
DEFAULT_LIMIT_MS: Final = 30_000.0
"""As long as the system waits for the confirmation of what was sent."""
CLOSING_MS: Final = 10_000.0
"""So long, at most, once the store is about to be closed."""
UNLOCKING_MS: Final = 1_000.0
"""So long for who frees the lock: when the connection is closed the server does that, too, a moment later. And for all others once somebody
has waited for `CLOSING_MS` in vain."""
ASKING_MS: Final = 5_000.0
"""So long for the answer whether the server is at work for another connection; and before for connecting, as it does by default."""
_AT_WORK: Final = (
    "SELECT state = 'active' AND coalesce(wait_event_type NOT IN ('Lock', 'Client') AND wait_event <> 'SyncRep', true), "
    "set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, 'pyjms', '') "
    "FROM pg_stat_activity WHERE pid = %s"
)
"""Whether a process of the server's is at work, and waits neither for others, nor for its client, nor for a stand-by server. The record
that changes nothing has the server force its log: one whose disk hangs does not answer this."""


class Patience:
    """That of one store, for all connections to its server. All calls may come from any thread."""

    def __init__(self, clock: Clock, limit_ms: float = DEFAULT_LIMIT_MS, *, cancelled: Signal | None = None) -> None:
        """`limit_ms`: how long a connection may be silent that was asked something. `cancelled`: what ends the opening."""
        self.clock = clock
        self.limit_ms = limit_ms
        self.has_given_up = False
        """The server was silent while the store is about to be closed: nobody connects to it any more, and who is connected waits for
        `UNLOCKING_MS`. Not for less: perhaps it is well, and was slow with one statement."""
        self._closing_since_ms: float | None = None
        self._cancelled = cancelled

    def hasten(self) -> None:
        """Hear that the store is about to be closed. May be repeated."""
        if self._closing_since_ms is None:
            self._closing_since_ms = self.clock.monotonic_ms()

    def may_last(self) -> bool:
        """Return whether a wait may go on beyond its time if the server is at work: nobody ends the start, or closes the store."""
        return self._closing_since_ms is None and not self._was_cancelled()

    def connect(self, *arguments: Any, **options: Any) -> PatientConnection:
        """Connect as psycopg does. Raises its errors."""
        if self.has_given_up:
            raise psycopg.OperationalError("the server has not answered before, and the store is being closed")
        try:
            connection = PatientConnection.connect(*arguments, **options)
        except psycopg.errors.ConnectionTimeout:
            self.has_given_up = self._closing_since_ms is not None
            raise
        forget_in_children(connection)
        connection.patience = self
        connection.connect_beside = partial(self.connect, *arguments, **{**options, "autocommit": True})
        return connection

    def lack(self, silent_ms: float, limit_ms: float) -> str | None:
        """Return why nobody waits any more on a connection that was silent for so long, and may be for `limit_ms`; None: he does."""
        if math.isinf(limit_ms) and self._was_cancelled():
            return "the start was cancelled"
        silence = f"the server has not answered for {silent_ms / 1000:.1f} s"
        if self._closing_since_ms is not None:
            limit_ms = min(limit_ms, UNLOCKING_MS if self.has_given_up else CLOSING_MS)
            # from then on: an answer may be about to come
            if min(silent_ms, self.clock.monotonic_ms() - self._closing_since_ms) >= limit_ms:
                self.has_given_up = True
                return f"{silence}, and the store is being closed"
        elif silent_ms >= limit_ms:
            return f"{silence}; {ANSWER_OPTION} in the store's URL gives it more time"
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
    limit_ms: float | None = None
    """How long it may be silent; infinite: as long as the server needs, unless the start is cancelled or the store closed.

    None: as long as `patience` has it, and then on if the server is at work for it."""
    connect_beside: Callable[[], PatientConnection]
    """Opens another connection to the same server."""

    def forget(self) -> None:
        """Let go of its socket in a child of this process, which must not keep the store's lock when its parent dies."""
        with suppress(psycopg.Error):  # which says that it is closed
            let_go(self.pgconn.socket)

    def wait(self, gen: Generator[Any, Any, _T], *arguments: Any, **options: Any) -> _T:
        """Do as psycopg, which resumes `gen` when the connection is ready, and each tenth of a second while it is not."""
        if self.patience is None:
            return super().wait(gen, *arguments, **options)
        return super().wait(self._watched(gen, self.patience), *arguments, **options)

    def _watched(self, gen: Generator[Any, Any, _T], patience: Patience) -> Generator[Any, Any, _T]:
        silent_since_ms: float | None = None  # as most answers come at once, nobody looks at the clock for them
        limit_ms = math.inf
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    silent_since_ms = None
                else:
                    now_ms = patience.clock.monotonic_ms()
                    if silent_since_ms is None:
                        silent_since_ms = now_ms
                        limit_ms = patience.limit_ms if self.limit_ms is None else self.limit_ms
                    lack = patience.lack(now_ms - silent_since_ms, limit_ms)
                    if lack is not None:
                        if self.limit_ms is None and patience.may_last() and self._is_served():
                            limit_ms = patience.clock.monotonic_ms() - silent_since_ms + patience.limit_ms
                        else:
                            ready = yield wanted  # the answer may have come meanwhile
                            if not ready:
                                self._give_up(lack)
                            silent_since_ms = None
                wanted = gen.send(ready)
        except StopIteration as end:
            result: _T = end.value
            return result

    def _give_up(self, lack: str) -> NoReturn:
        self.pgconn.finish()  # nobody knows where it stands, so it is of no use
        raise psycopg.OperationalError(lack)

    def _is_served(self) -> bool:
        """Return whether the server says that it is at work for this connection."""
        try:
            with closing(self.connect_beside()) as beside:
                beside.limit_ms = ASKING_MS
                found = beside.execute(_AT_WORK, (self.info.backend_pid,)).fetchone()
        except psycopg.Error:
            return False
        return found is not None and bool(found[0])


@contextmanager
def unhurried(connection: Connection) -> Iterator[None]:
    """Let the server answer as late as it needs to, as it upgrades a schema, or begins to read all that is kept."""
    driver: Any = connection.connection.driver_connection
    driver.limit_ms = math.inf
    try:
        yield
    finally:
        driver.limit_ms = None
