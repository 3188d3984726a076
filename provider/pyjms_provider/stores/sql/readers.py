"""The connections by which threads read from a database: few, however many threads there are."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from pyjms.spi.clock import Signal
from pyjms_provider.stores.errors import UnavailableStoreError

if TYPE_CHECKING:
    from sqlalchemy import Engine, PoolProxiedConnection
    from sqlalchemy.engine.interfaces import DBAPICursor

__all__ = ["POOL_OPTIONS", "READERS", "WAIT_S", "Reader", "Readers"]

POOL_OPTIONS: Final[Mapping[str, Any]] = {"pool_size": 1, "max_overflow": -1}
"""For an engine: it keeps one connection that nobody uses, and has nobody wait for another, as by its defaults the sixteenth would."""
READERS: Final = 8
"""So many threads read from one database at once. A server of PostgreSQL has a hundred connections, for all its clients."""
WAIT_S: Final = 40.0
"""How long to wait for another thread's connection: longer than a server that is gone keeps one that reads."""


class Reader:
    """One connection, used by one thread at a time; it is opened when it is needed, also after it was closed."""

    __slots__ = ("__weakref__", "_lent", "cursor")

    def __init__(self) -> None:
        self.cursor: DBAPICursor | None = None
        """What runs queries, if it is open."""
        self._lent: PoolProxiedConnection | None = None

    def open(self, engine: Engine) -> DBAPICursor:
        """Connect, and return what runs queries. Raises errors of the driver, of SQLAlchemy, `StoreError`."""
        self._lent = engine.raw_connection()
        self.cursor = cursor = self._lent.cursor()
        return cursor

    def close(self) -> None:
        """Close the connection. May be repeated."""
        lent, self._lent, self.cursor = self._lent, None, None
        if lent is not None:
            lent.invalidate()


class _Turn(Signal):
    """A thread that waits, and the reader that it is given."""

    __slots__ = ("reader",)

    def __init__(self) -> None:
        super().__init__()
        self.reader: Reader | None = None


class Readers:
    """The readers of one database. All calls may come from any thread.

    This is a pool, as SQLAlchemy's check-out and check-in cost three times as much as reading a message. Who waits is served in
    turn: a reader is handed on, not put back for whoever comes first.
    """

    def __init__(self, where: str, limit: int = READERS, wait_s: float = WAIT_S) -> None:
        """`where` names the database, in errors; at most `limit` readers, and `wait_s` is the longest wait for one."""
        self._where = where
        self._limit = limit
        self._wait_s = wait_s
        self._lock = Lock()
        self._made: WeakSet[Reader] = WeakSet()
        """Those that somebody has: what an interrupted thread had is gone by itself, and another is made in its place."""
        self._idle: list[Reader] = []
        self._waiting: deque[_Turn] = deque()
        self._is_closing = False

    def take(self) -> Reader:
        """Return a reader that nobody else has; it is to be given back. Raises `UnavailableStoreError` when none comes free."""
        try:
            return self._idle.pop()
        except IndexError:
            pass
        with self._lock:
            if len(self._made) < self._limit:
                reader = Reader()
                self._made.add(reader)
                return reader
            turn = _Turn()
            self._waiting.append(turn)
        try:
            self._serve()  # one may have been put back before we were seen to wait
            turn.wait(self._wait_s)
        finally:
            self._leave(turn)
        if turn.reader is None:
            raise self._refusal()
        return turn.reader

    def give(self, reader: Reader) -> None:
        """Give back what was taken, open or closed."""
        self._idle.append(reader)
        if self._waiting:
            self._serve()
        if self._is_closing:
            self._close_idle()

    def _serve(self) -> None:
        """Hand on what is idle to those who wait, and turn them away if there is nothing to wait for."""
        with self._lock:
            while self._waiting:
                if not self._is_closing:
                    try:
                        self._waiting[0].reader = self._idle.pop()
                    except IndexError:
                        return
                self._waiting.popleft().set()

    def _leave(self, turn: _Turn) -> None:
        """Wait no more; from now on the turn is given no reader."""
        with self._lock:
            if turn in self._waiting:
                self._waiting.remove(turn)

    def _refusal(self) -> UnavailableStoreError:
        if self._is_closing:
            return UnavailableStoreError(f"{self._where} is being closed; nothing was read")
        return UnavailableStoreError(
            f"{self._where} was not read: {self._limit} other threads have been reading for more than {self._wait_s:g} s; "
            "try again, and look what keeps the database"
        )

    def interrupt(self) -> None:
        """Have nobody wait any more, from now on. May be repeated."""
        self._is_closing = True
        self._serve()

    def close(self) -> None:
        """Close all connections, those in use when they are given back. May be repeated."""
        self.interrupt()
        self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                reader = self._idle.pop()
            except IndexError:
                return
            reader.close()
