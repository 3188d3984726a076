"""PostgreSQL: one connection that holds an advisory lock and writes, others that read.

Who holds the lock is the broker; what it commits on that very connection it commits as the holder, or not at all. When the
connection is lost, so is the lock. It is taken again if nobody else had it in the meantime, which `epoch` in the table of
meta data tells; and as the server gives the lock only when the old connection is gone, it is then settled what became of a
commit that was under way.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeVar

from sqlalchemy import ARRAY, URL, BigInteger, Engine, any_, bindparam, create_engine, delete, event, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from pyjms.spi.clock import Clock, Signal
from pyjms.spi.errors import InDoubtError, UrlError
from pyjms_provider.forks import forget_in_children, let_go
from pyjms_provider.settings import Synchronous
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    HeldStoreError,
    LostStoreError,
    ReadOnlyStoreError,
    StoreError,
    UnavailableStoreError,
    UnsupportedStoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.file_lock import HOW_TO_STAND_BY, acquire, describe_holder
from pyjms_provider.stores.sql import schema as t
from pyjms_provider.stores.sql.batch import merge
from pyjms_provider.stores.sql.database import POOL_OPTIONS, WAIT_S, Database, Lease, Paging, Readers
from pyjms_provider.stores.sql.schema import Meta, OpenRequest, prepare_schema, take

try:
    import psycopg
    from psycopg import errors as sqlstates
    from psycopg.errors import LockNotAvailable
    from psycopg.pq import TransactionStatus
except ModuleNotFoundError as error:
    raise UnsupportedStoreError(
        f"PostgreSQL needs {error.name}; install it with: pip install 'pyjms-messaging[postgresql]'"
    ) from error

if TYPE_CHECKING:
    from sqlalchemy import Connection, PoolProxiedConnection, Table

    from pyjms_provider.core.message.reference import ReferenceId
    from pyjms_provider.stores.sql.batch import Batch, Row


# How long a thread waits for an answer of PostgreSQL's server. A server that is stopped, or whose disk hangs, still
# confirms what it is sent, as its system does that. So no time-out of the network ends the wait, and the writer, all
# later writers and the close of the broker would wait without end. Here each wait has an end: a connection on which
# nothing has moved for so long is given up, and is reported as lost (decision 0212). A server that works on one long
# statement sends nothing either, so it is asked by another connection before.

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


class AnswerTimeout:
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

    def connect(self, *arguments: Any, **options: Any) -> TimeoutConnection:
        """Connect as psycopg does. Raises its errors."""
        # Each reader and each retry would wait for the silent server once more,
        # one after the other, and hold up the close.
        if self.has_given_up:
            raise psycopg.OperationalError("the server has not answered before, and the store is being closed")
        try:
            connection = TimeoutConnection.connect(*arguments, **options)
        except psycopg.errors.ConnectionTimeout:
            # Only during a close: while the store is in use, a server that was silent
            # once may be back at the next attempt.
            self.has_given_up = self._closing_since_ms is not None
            raise
        forget_in_children(connection)
        # Set after the connection is open: while it is being opened, psycopg's own `connect_timeout` ends the wait.
        connection.answer_timeout = self
        connection.connect_beside = partial(self.connect, *arguments, **{**options, "autocommit": True})
        return connection

    def lack(self, silent_ms: float, limit_ms: float) -> str | None:
        """Return why nobody waits any more on a connection that was silent for so long, and may be for `limit_ms`; None: he does."""
        # Only a wait without a limit is ended this way; all others end by themselves.
        if math.isinf(limit_ms) and self._was_cancelled():
            return "the start was cancelled"
        silence = f"the server has not answered for {silent_ms / 1000:.1f} s"
        if self._closing_since_ms is not None:
            limit_ms = min(limit_ms, UNLOCKING_MS if self.has_given_up else CLOSING_MS)
            # Counted from the beginning of the close at the earliest, as an answer may be about to come.
            if min(silent_ms, self.clock.monotonic_ms() - self._closing_since_ms) >= limit_ms:
                self.has_given_up = True
                return f"{silence}, and the store is being closed"
        elif silent_ms >= limit_ms:
            return f"{silence}; {ANSWER_OPTION} in the store's URL gives it more time"
        return None

    def _was_cancelled(self) -> bool:
        if self._cancelled is None or not self._cancelled.wait(0):
            return False
        # The wait has used up the signal; it is set again for the next thread that asks.
        self._cancelled.set()
        return True


class TimeoutConnection(psycopg.Connection[Any]):
    """A connection that is closed, with an `OperationalError`, when the server does not answer for too long."""

    answer_timeout: AnswerTimeout | None = None
    """Whose limits it has; None: it is being opened."""
    limit_ms: float | None = None
    """How long it may be silent; infinite: as long as the server needs, unless the start is cancelled or the store closed.

    None: as long as `answer_timeout` has it, and then on if the server is at work for it."""
    connect_beside: Callable[[], TimeoutConnection]
    """Opens another connection to the same server."""

    def forget(self) -> None:
        """Let go of its socket in a child of this process, which must not keep the store's lock when its parent dies."""
        # The error says that the connection is closed, so there is no socket.
        with suppress(psycopg.Error):
            let_go(self.pgconn.socket)

    def wait(self, gen: Generator[Any, Any, _T], *arguments: Any, **options: Any) -> _T:
        """Do as psycopg, which resumes `gen` when the connection is ready, and each tenth of a second while it is not."""
        if self.answer_timeout is None:
            return super().wait(gen, *arguments, **options)
        return super().wait(self._watched(gen, self.answer_timeout), *arguments, **options)

    def _watched(self, gen: Generator[Any, Any, _T], timeout: AnswerTimeout) -> Generator[Any, Any, _T]:
        # Most answers come at once, so the clock is read only after a tenth of a second without one.
        silent_since_ms: float | None = None
        limit_ms = math.inf
        try:
            awaited = next(gen)
            while True:
                # psycopg sends a false value here after each tenth of a second in which nothing has moved.
                ready = yield awaited
                if ready:
                    silent_since_ms = None
                else:
                    now_ms = timeout.clock.monotonic_ms()
                    if silent_since_ms is None:
                        silent_since_ms = now_ms
                        # Read when the silence begins: `limit_ms` of the connection may change between two statements.
                        limit_ms = timeout.limit_ms if self.limit_ms is None else self.limit_ms
                    lack = timeout.lack(now_ms - silent_since_ms, limit_ms)
                    if lack is not None:
                        # Asked by another connection: a server that is at work on a long
                        # statement sends nothing on this one.
                        if self.limit_ms is None and timeout.may_last() and self._is_served():
                            limit_ms = timeout.clock.monotonic_ms() - silent_since_ms + timeout.limit_ms
                        else:
                            # The answer may have come while the server was asked.
                            ready = yield awaited
                            if not ready:
                                self._abandon(lack)
                            silent_since_ms = None
                awaited = gen.send(ready)
        except StopIteration as end:
            result: _T = end.value
            return result

    def _abandon(self, lack: str) -> NoReturn:
        # The state of the connection is unknown, and a late answer would be taken for that of the next statement.
        self.pgconn.finish()
        raise psycopg.OperationalError(lack)

    def _is_served(self) -> bool:
        """Return whether the server says that it is at work for this connection."""
        try:
            with closing(self.connect_beside()) as beside:
                # Without a limit of its own this question could itself ask whether the server is at work, without end.
                beside.limit_ms = ASKING_MS
                found = beside.execute(_AT_WORK, (self.info.backend_pid,)).fetchone()
        except psycopg.Error:
            return False
        return found is not None and bool(found[0])


@contextmanager
def without_timeout(connection: Connection) -> Iterator[None]:
    """Let the server answer as late as it needs to, as it upgrades a schema, or begins to read all that is kept."""
    driver: Any = connection.connection.driver_connection
    driver.limit_ms = math.inf
    try:
        yield
    finally:
        driver.limit_ms = None


SETTLE_MS: Final = 10_000
"""How long a commit whose outcome is unknown waits for the server to come back, before it is in doubt."""
RETRY_MS: Final = 100
_CONNECTING_S: Final = 10.0
"""So much longer a thread waits for another one's reader than that for the server, and a new connection after it."""
_UNFORCED_MS: Final = 1000
"""A write is forced if one before it was not, and is older: so little has to be kept that a dying server may forget."""
_LOCK_CLASS: Final = 0x706A6D73
"""The first half of the key of the advisory lock: the letters of pjms. The second is the schema's."""
_LOCK: Final = "SELECT pg_try_advisory_lock(%s, hashtext(current_schema()))"
_ME: Final = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"
_EPOCH: Final = str(select(t.META.c.epoch))
_OPENING: Final = (
    "SELECT epoch, holder, tableoid, (SELECT oid FROM pg_database WHERE datname = current_database()) FROM pyjms_meta"
)
_LOCKED_OPENING: Final = (
    _OPENING + ", set_config('idle_in_transaction_session_timeout', '4000', true) FOR SHARE OF pyjms_meta"
)
"""The same, and who opens it waits for the transaction: for less than its lock_timeout, should the transaction's machine vanish now."""
_FETCH: Final = 2000
_FORCE: Final = "SELECT pg_logical_emit_message(true, 'pyjms', '')"
"""Changes nothing, but its commit has what was committed before as safe as a forced commit: a server that had waited for its stand-by server
to have a commit lets others see it when that wait is ended."""
_UNFORCED: Final = "SET LOCAL synchronous_commit TO OFF"


class LockConnection:
    """The connection that holds the advisory lock, while it lives; opened again when it was lost."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self.lease = Lease(clock)
        """Ends with the connection; who has used that renews it."""
        self._engine = engine
        self._lent: PoolProxiedConnection | None = None
        self._backend: Row | None = None
        self.epoch: int | None = None
        """Of the opening whose lock this is; None: not yet known."""

    @property
    def connection(self) -> psycopg.Connection[Row] | None:
        """The connection, if it is open."""
        if self._lent is None:
            return None
        connection: Any = self._lent.driver_connection
        return None if connection.closed else connection

    def acquire(self) -> bool:
        """Connect, and take the lock; return whether it was free. Raises `LostStoreError`, errors of the driver."""
        # The old connection first: the new one would find the lock taken by this broker itself.
        self.release()
        lent = self._engine.raw_connection()
        connection: Any = lent.driver_connection
        try:
            # Outside a transaction: an advisory lock lives as long as the session,
            # and an open transaction would hold up VACUUM.
            connection.autocommit = True
            is_free = bool(connection.execute(_LOCK, (_LOCK_CLASS,)).fetchone()[0])
            # Also when the lock is not free: a greater epoch says at once that
            # the store is lost, and no retry can help.
            self._check_epoch(connection)
            if not is_free and self._backend is not None:
                # Our own lost session, which the server still takes for alive. Its
                # process id alone may be another's by now.
                connection.execute(_END, self._backend)
            backend = connection.execute(_ME).fetchone()
        except Exception:
            lent.invalidate()
            raise
        if not is_free:
            lent.invalidate()
            return False
        self._lent, self._backend = lent, backend
        return True

    def _check_epoch(self, connection: psycopg.Connection[Row]) -> None:
        # At the first opening there is no epoch to compare: any broker may have held the store before.
        if self.epoch is None:
            return
        row = connection.execute(_sql(_EPOCH)).fetchone()
        if row is None or row[0] != self.epoch:
            raise LostStoreError(
                "the connection to PostgreSQL was lost, and another broker has held the store since then"
            )

    def acquire_again(self) -> psycopg.Connection[Row]:
        """Connect after the connection was lost. Raises `LostStoreError`, `UnavailableStoreError`, errors of the driver."""
        is_free = self.acquire()
        connection = self.connection
        if not is_free or connection is None:
            raise UnavailableStoreError("the store's lock in PostgreSQL is not free yet; try again")
        return connection

    def confirm(self) -> None:
        """Raise `UnavailableStoreError`, or an error of the driver, if the connection was lost, so that another broker may have the lock."""
        connection = self.connection
        if connection is None:
            raise UnavailableStoreError("the connection that holds the store was lost while it was opened; try again")
        # A round trip: the local state of a connection does not show that the server has ended it.
        connection.execute("SELECT 1")

    def unlock(self) -> None:
        """Free the lock, and close the connection. Closing alone frees it a moment later, when the server notices."""
        connection: Any = self.connection
        if connection is not None:
            connection.limit_ms = UNLOCKING_MS
            with suppress(psycopg.Error):
                connection.execute("SELECT pg_advisory_unlock_all()")
        self.release()

    def release(self) -> None:
        """Close the connection, and so free the lock. May be repeated."""
        # First: no thread may deliver a message without a write once the lock can be another broker's.
        self.lease.end()
        lent, self._lent = self._lent, None
        if lent is not None:
            # Closed and not returned: a connection in the pool would keep the lock.
            lent.invalidate()


class _Postgresql(Database):
    """What holders and others have in common."""

    name: ClassVar[str] = "postgresql"
    reading_options: ClassVar[Mapping[str, str]] = {"isolation_level": "REPEATABLE READ"}
    errors = (psycopg.Error, SQLAlchemyError, OverflowError, ValueError, TypeError)

    def __init__(self, engine: Engine, where: str, timeout: AnswerTimeout) -> None:
        """`engine` commits each statement by itself; `where` names the database; `timeout`: of the engine's connections."""
        super().__init__(engine, where)
        self.readers = Readers(where, wait_s=max(WAIT_S, timeout.limit_ms / 1000 + _CONNECTING_S))
        self._where = where
        self._timeout = timeout

    @staticmethod
    def opening_of(connection: Connection) -> tuple[object, ...]:
        return tuple(connection.exec_driver_sql(_OPENING).first() or ())

    def lock_opening(self, connection: Connection) -> tuple[object, ...]:
        return tuple(connection.exec_driver_sql(_LOCKED_OPENING).first() or ())

    def understand(self, error: Exception) -> StoreError:
        return understand(error, self._where)

    @contextmanager
    def reading(self, *, is_beginning: bool = False) -> Iterator[Connection]:
        with super().reading() as connection, without_timeout(connection) if is_beginning else nullcontext():
            yield connection

    def stream(self, lent: PoolProxiedConnection, cursors: ExitStack) -> Callable[[str], Iterator[Row]]:
        connection: Any = lent.driver_connection
        # No limit until the connection is closed: all stored messages come by it, and the server may sort them first.
        connection.limit_ms = math.inf
        # One snapshot for all queries, so that messages and entries are of the same state.
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        names = count()

        def run(query: str) -> Iterator[Row]:
            # A named cursor stays at the server: without one, psycopg fetches all rows before it returns the first.
            cursor = cursors.enter_context(connection.cursor(name=f"stream_{next(names)}"))
            cursor.itersize = _FETCH
            return iter(cursor.execute(query))

        return run

    def hasten(self) -> None:
        self._timeout.hasten()

    def interrupt(self) -> None:
        super().interrupt()
        self.hasten()


class PostgresqlDatabase(_Postgresql):
    """One schema of one database."""

    def __init__(
        self,
        engine: Engine,
        lock_connection: LockConnection,
        clock: Clock,
        timeout: AnswerTimeout,
        *,
        where: str,
        forces: bool,
    ) -> None:
        """`forces`: whether writes are ever forced."""
        super().__init__(engine, where, timeout)
        self.lease: Lease = lock_connection.lease
        self._lock_connection = lock_connection
        self._clock = clock
        self._forces = forces
        self._unforced: list[Batch] = []
        """Written since the last forced one, oldest first: to be written again when the server has died."""
        self._unforced_ms = math.inf
        self._is_in_use = False
        """A thread writes, or was ended by a second signal while it did: then nobody knows in which state the connection is."""
        self._closing = Signal()
        self._read_many = _by_ids(engine, t.MESSAGE)

    def commit(self, batch: Batch, *, force: bool) -> None:
        steps = batch.steps(self)
        if not steps:
            return
        # Before the write: the lease counts from a moment at which the lock was certainly held.
        begun_s = self.lease.now_s()
        connection = self._ready()
        now_ms = self._clock.monotonic_ms()
        # After a second without a forced write this one is forced, so that few batches have to be kept for a replay.
        force = self._forces and (force or now_ms - self._unforced_ms > _UNFORCED_MS)
        # Set over the whole write, and cleared by no `finally`: a second signal
        # leaves it set, and `_ready` then reconnects.
        self._is_in_use = True
        try:
            lost = self._write(connection, steps, force=force)
            if lost is not None:
                self._settle(batch, steps, lost, force=force)
            self._note_written(batch, now_ms, force=force)
        except Exception:
            self._is_in_use = False
            raise
        self._is_in_use = False
        self.lease.renew(begun_s)

    @property
    def is_held(self) -> bool:
        return self._lock_connection.connection is not None

    def look(self) -> None:
        begun_s = self.lease.now_s()
        connection = self._ready()
        try:
            # While the lease is valid the socket tells enough. After a pause the
            # end of the connection may be lost on its way.
            if not (is_alive(connection) if self.lease.is_valid else self._answers(connection)):
                self._connect_again()
        except self.errors as error:
            raise self.understand(error) from error
        self.lease.renew(begun_s)

    def _answers(self, connection: psycopg.Connection[Row]) -> bool:
        """Ask the server. While the machine stood still, the end of a connection may have been told to nobody, and what is sent by it tells first."""
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def _note_written(self, batch: Batch, now_ms: float, *, force: bool) -> None:
        if force:
            # A forced commit makes all commits before it safe: the server's log is written in order.
            self._unforced.clear()
            self._unforced_ms = math.inf
        elif self._forces:
            self._unforced.append(batch)
            self._unforced_ms = min(self._unforced_ms, now_ms)

    def _ready(self) -> psycopg.Connection[Row]:
        """Return the connection for the next write. Raises `StoreError`, `LostStoreError` among them."""
        if self._is_in_use:
            # A second signal has ended a write, which may still be on its way. Others may see what it wrote, so the
            # next write is forced, on a connection that gets the lock only after the old session has ended.
            self._lock_connection.release()
            self._unforced_ms = -math.inf
            self._is_in_use = False
        try:
            return self._lock_connection.connection or self._connect_again()
        except self.errors as error:
            raise self.understand(error) from error

    def _may_retry(self, until_ms: float) -> bool:
        """Wait a little, and return whether there is time for another attempt."""
        if self._timeout.has_given_up:
            return False
        if self._clock.wait(self._closing, min(until_ms, self._clock.monotonic_ms() + RETRY_MS)):
            # The wait has used up the signal; it is set again for the next retry.
            self._closing.set()
            return False
        return self._clock.monotonic_ms() < until_ms

    def _connect_again(self) -> psycopg.Connection[Row]:
        """Take the lock again, and write what the server may have forgotten if it has died.

        Raises `LostStoreError`, `UnavailableStoreError`, errors of the driver. Then there is no connection.
        """
        connection = self._lock_connection.acquire_again()
        # Before anything else is written: a server that died may have forgotten commits that this broker relies on.
        if self._unforced:
            try:
                write(connection, merge(self._unforced).steps(self), force=True)
            except Exception:
                # Without these batches the connection must not be used: the next attempt
                # takes the lock and writes them again.
                self._lock_connection.release()
                raise
            self._unforced.clear()
            self._unforced_ms = math.inf
        return connection

    def _write(
        self, connection: psycopg.Connection[Row], steps: Sequence[tuple[str, Collection[Row]]], *, force: bool
    ) -> Exception | None:
        """Write; return the error of a connection that was lost, perhaps after the commit. Raises `StoreError` when the server refused it."""
        try:
            write(connection, steps, force=force)
        # A paged-out message could not be read, so nothing was committed.
        except StoreError:
            self._take_back(connection)
            raise
        except self.errors as error:
            # The connection is still good, so the transaction is rolled back and the error concerns this batch alone.
            if was_refused(error):
                self._take_back(connection)
                raise self.understand(error) from error
            return error
        return None

    def _take_back(self, connection: psycopg.Connection[Row]) -> None:
        try:
            take_back(connection)
        except psycopg.Error:
            self._lock_connection.release()  # which does the same

    def _settle(
        self, batch: Batch, steps: Sequence[tuple[str, Collection[Row]]], cause: Exception, *, force: bool
    ) -> None:
        """Find out whether the connection was lost before the commit or after it; if before, write again.

        Changes without a witness may be written again in any case.
        """
        until_ms = self._clock.monotonic_ms() + SETTLE_MS
        while True:
            try:
                # The server gives the lock only after the old session has ended, so
                # the lost commit is decided from here on.
                connection = self._connect_again()
                if self._was_written(connection, batch, force=force):
                    return
            except LostStoreError as error:
                raise InDoubtError(f"{error.reason}; it is not known whether the last changes were written") from error
            except (*self.errors, UnavailableStoreError):
                # Without an answer to the look the outcome is still unknown; the next attempt connects again.
                self._lock_connection.release()
            else:
                if self._write(connection, steps, force=force) is None:
                    return
                self._lock_connection.release()
            if not self._may_retry(until_ms):
                break
        raise InDoubtError(
            f"the connection to {self._where} was lost during a commit and did not come back, so it is not known whether "
            f"the changes were written: {cause}"
        ) from cause

    def _was_written(self, connection: psycopg.Connection[Row], batch: Batch, *, force: bool) -> bool:
        witness = batch.witness
        message = batch.first_message
        # A message's id is used once, so its row proves that the whole batch was committed.
        if message is not None:
            witness = (self.statements.has_message, (message,))
        if witness is None or connection.execute(_sql(witness[0]), witness[1]).fetchone() is None:
            return False
        # The old commit may be visible without being forced; this forces the server's log up to it.
        if force:
            write(connection, [(_FORCE, [()])], force=True)
        return True

    def fetch(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
        return fetch_many(self, self._read_many, ids)

    def interrupt(self) -> None:
        super().interrupt()
        self._closing.set()

    def close(self) -> None:
        # First: a stand-by broker need not wait until all readers are closed.
        self._lock_connection.unlock()
        self.close_readers()


class UnloggedDatabase(_Postgresql):
    """The table of paged-out messages, which the server neither logs nor forces."""

    def __init__(self, engine: Engine, where: str, timeout: AnswerTimeout) -> None:
        super().__init__(engine, where, timeout)
        self._read_many = _by_ids(engine, t.PAGED)

    def commit(self, batch: Batch, *, force: bool) -> None:
        try:
            lent = self.engine.raw_connection()
            try:
                connection: Any = lent.driver_connection
                write(connection, batch.steps(self), force=False)
            except Exception:
                # After an error the state of the connection is unknown, so it does not go back to the pool.
                lent.invalidate()
                raise
            lent.close()
        except self.errors as error:
            raise self.understand(error) from error

    def fetch_from(self, statement: str, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
        return fetch_many(self, self._read_many, ids)

    def close(self) -> None:
        self.close_readers()


def _sql(statement: str) -> Any:
    """Return a statement as psycopg's types want it: it was compiled, and holds nothing that somebody else wrote."""
    return statement


def _by_ids(engine: Engine, table: Table) -> str:
    """Return the query of payloads by a list of ids."""
    ids = bindparam("ids", type_=ARRAY(BigInteger))
    # One array parameter: the statement's text is the same for any number of ids, so the server prepares it once.
    return str(select(table.c.id, table.c.payload).where(table.c.id == any_(ids)).compile(dialect=engine.dialect))


def fetch_many(database: Database, statement: str, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
    """Return payloads in one query. Raises `StoreError`."""
    if not ids:
        return {}
    return dict(database.query(statement, (list(ids),)))


def write(connection: psycopg.Connection[Row], steps: Sequence[tuple[str, Collection[Row]]], *, force: bool) -> None:
    """Do `steps` in one transaction, and in one round trip."""
    handled = sys.exception()
    try:
        # Sent as one: without a pipeline each statement, BEGIN and COMMIT included, would be a round trip.
        with connection.pipeline():
            cursor = connection.cursor()
            cursor.execute("BEGIN")
            if not force:
                cursor.execute(_UNFORCED)
            for statement, rows in steps:
                cursor.executemany(_sql(statement), rows)
            cursor.execute("COMMIT")
    except Exception as error:
        interrupt = _interrupt_behind(error, handled)
        if interrupt is None:
            raise
        # The interrupt itself goes on: psycopg's error would look like a lost connection, and the write be repeated.
        raise interrupt from None


def _interrupt_behind(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """Return what interrupted the thread, if an error came of that: psycopg raises one when it then cannot leave its pipeline.

    `handled`: what the thread was handling before, which is behind all that it raises.
    """
    behind: BaseException | None = error
    while behind is not None and behind is not handled:
        if not isinstance(behind, Exception):
            return behind
        behind = behind.__context__
    return None


def take_back(connection: psycopg.Connection[Row]) -> None:
    """Roll back what a failed pipeline has begun, with what psycopg holds to be prepared since then. Raises errors of the driver.

    The server prepares nothing behind the statement that fails. psycopg does not look, and would have each write that needs such a statement
    be refused. It forgets all of that in `rollback`, if there is something to roll back, but not with every ROLLBACK that it executes.
    """
    if connection.pgconn.transaction_status == TransactionStatus.IDLE:
        connection.execute("BEGIN", prepare=False)
    connection.rollback()


def is_alive(connection: psycopg.Connection[Row]) -> bool:
    """Return False if the server, or the system, has ended a connection that nobody uses now. Takes a microsecond, and no round trip."""
    try:
        # Twice: what the server said last is read before the end of the connection is.
        for _ in range(2):
            connection.pgconn.consume_input()
            connection.pgconn.is_busy()
    except psycopg.Error:
        return False
    return not connection.closed


def was_refused(error: Exception) -> bool:
    """Return whether nothing was written for certain: the server refused a statement, or the driver did before it was sent.

    All else may come after the server has committed, also while the connection still looks open. An error that ends the session
    is one of these: the server may have answered COMMIT just before.
    """
    if not isinstance(error, psycopg.Error):
        # These errors are about a value that the driver could not send.
        return isinstance(error, (OverflowError, ValueError, TypeError))
    # Without a code the error is the driver's own; these three kinds may come after the COMMIT was sent.
    if error.sqlstate is None:
        return not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError))
    # The severity in English: the server translates the other one. FATAL ends the session, perhaps after the commit.
    return error.diag.severity_nonlocalized == "ERROR" and not error.sqlstate.startswith(_ABOUT_CONNECTIONS)


_ABOUT_CONNECTIONS: Final = ("08", "57P")
"""How the codes of errors begin that speak of the connection or of the server, and of no statement."""
_UNUSABLE: Final = (
    sqlstates.InsufficientPrivilege,
    sqlstates.InvalidCatalogName,
    sqlstates.InvalidAuthorizationSpecification,
    sqlstates.InvalidPassword,
    sqlstates.UndefinedTable,
)
_USER_REFUSED: Final = ("authentication failed", "no password supplied", "no pg_hba.conf entry")
"""What the server, or its library, says of who may not come in; the driver knows no code of such an error."""
_DAMAGED: Final = (sqlstates.DataCorrupted, sqlstates.IndexCorrupted)


def understand(error: Exception, where: str) -> StoreError:
    """Return what an error of PostgreSQL, of its driver or of SQLAlchemy means."""
    if isinstance(error, StoreError):
        return error
    cause = error.orig if isinstance(error, DBAPIError) else error
    text = " ".join(str(cause).split())
    if isinstance(cause, _DAMAGED):
        return DamagedStoreError(f"{where} is damaged: {text}. Restore it from a backup")
    if any(sign in text for sign in _USER_REFUSED):
        return UnusableStoreError(
            f"{where} cannot be used: {text}. See that user and password are right, which a broker's configuration has as "
            f"store_password, and that pg_hba.conf of the server lets this user in from here"
        )
    # Errors while connecting have no code in psycopg, so the text has to tell.
    if isinstance(cause, _UNUSABLE) or "does not exist" in text:
        return UnusableStoreError(
            f"{where} cannot be used: {text}. The database must exist, and the user must be allowed to create and write tables"
        )
    if isinstance(cause, sqlstates.ReadOnlySqlTransaction):
        return ReadOnlyStoreError(
            f"{where} takes no writes; nothing was written: {text}. Promote the server if it stands by itself, else see that "
            "default_transaction_read_only is off"
        )
    if isinstance(cause, sqlstates.DiskFull):
        return StoreError(f"the disk of {where} is full; nothing was written. Make room, and try again")
    if isinstance(cause, psycopg.OperationalError):
        return UnavailableStoreError(
            f"{where} cannot be reached or is busy; nothing was written, so try again when it answers: {text}"
        )
    return StoreError(f"{where}: {text}; nothing was written")


# The server must notice that a holder's machine is gone, and no writer waits for ever for an application's lock.
# Nothing is probed while an answer is on its way that nobody confirms: for that there is a timeout of its own, without
# which the system tries for a quarter of an hour.
_SESSION: Final = (
    "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=25000 "
    "-c lock_timeout=5000 -c application_name=pyjms"
)
_CONNECTING: Final = {
    "client_encoding": "utf8",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_SETTINGS: Final = (
    "SELECT current_schema(), count(set_config(name, CASE name WHEN 'synchronous_commit' THEN 'on' ELSE '0' END, false)) "
    "FROM pg_settings WHERE name = 'idle_session_timeout' OR (name = 'synchronous_commit' AND setting = 'off')"
)
"""Whatever the server has for all: an idle holder keeps its lock, and what is forced is forced. Not every version knows both names."""
_LONGEST_S: Final = 86_400
_IS_LOGGED: Final = "SELECT relpersistence <> 'u' FROM pg_class WHERE oid = %s::regclass"
_LOCKING: Final = (
    "SELECT DISTINCT application_name, pid FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "JOIN pg_class ON pg_class.oid = pg_locks.relation "
    "WHERE granted AND pid <> pg_backend_pid() AND pg_stat_activity.datname = current_database() "
    "AND relnamespace = current_schema()::regnamespace AND relname LIKE :prefix ORDER BY pid"
)
"""Who has locks on tables of ours."""


def open_postgresql(request: OpenRequest) -> tuple[PostgresqlDatabase, Paging, Meta]:
    """Return the database, held, and how it was left. Raises as `open_journal`."""
    url = request.url
    where = url.set(password=None, query={}).render_as_string()
    timeout = timeout_of(url, request.clock, request.cancelled)
    engine = make_engine(url, timeout)
    holding = LockConnection(engine, request.clock)
    try:
        meta = acquire(
            lambda: _take_over(holding, engine, where, request),
            request.clock,
            waits=request.waits,
            cancelled=request.cancelled,
        )
        holding.epoch = meta.epoch
        forces = request.synchronous is Synchronous.FULL
        database = PostgresqlDatabase(engine, holding, request.clock, timeout, where=where, forces=forces)
        return database, Paging(UnloggedDatabase(make_engine(url, timeout), where, timeout), lambda: None), meta
    except Exception:
        holding.unlock()
        engine.dispose()
        raise


def timeout_of(url: URL, clock: Clock, cancelled: Signal | None = None) -> AnswerTimeout:
    """Return how long to wait for answers, as a store's URL says; `cancelled` ends its opening. Raises `UrlError`."""
    request = url.query.get(ANSWER_OPTION)
    if request is None:
        return AnswerTimeout(clock, cancelled=cancelled)
    if not isinstance(request, str) or not re.fullmatch("[1-9][0-9]{0,4}", request) or int(request) > _LONGEST_S:
        raise UrlError(
            f"{request!r} is no value of {ANSWER_OPTION}; write seconds, from 1 to {_LONGEST_S}, as {DEFAULT_LIMIT_MS / 1000:.0f}"
        )
    return AnswerTimeout(clock, int(request) * 1000.0, cancelled=cancelled)


def make_engine(url: URL, timeout: AnswerTimeout) -> Engine:
    """Return an engine whose connections notice that the server is gone, or does not answer. Raises `UnsupportedStoreError`."""
    # SQLAlchemy hands everything in `connect_args` to the driver, after what the URL says itself.
    request = {name: value for name, value in _CONNECTING.items() if name not in url.query}
    # The user's options come last, so that they win over those of `_SESSION`.
    options = url.query.get("options", "")
    request["options"] = f"{_SESSION} {options if isinstance(options, str) else ' '.join(options)}".strip()
    try:
        engine = create_engine(
            url.difference_update_query(["options", ANSWER_OPTION]),
            paramstyle="format",
            isolation_level="AUTOCOMMIT",
            connect_args=request,
            # A connection may have been ended while it was in the pool.
            pool_pre_ping=True,
            **POOL_OPTIONS,
        )
    except (ArgumentError, SQLAlchemyError) as error:
        raise UnsupportedStoreError(f"PostgreSQL cannot be used as a store: {error}") from error

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, arguments: Sequence[Any], options: Mapping[str, Any]) -> object:
        # Autocommit from the beginning: `_begin_session` would otherwise leave a transaction open.
        connection = timeout.connect(*arguments, **{**options, "autocommit": True})
        try:
            _begin_session(connection, url)
        except Exception:
            connection.close()
            raise
        return connection

    return engine


def _begin_session(connection: TimeoutConnection, url: URL) -> None:
    """Have a new connection do what a store needs. Raises `UnusableStoreError`, errors of the driver."""
    (schema, _) = connection.execute(_SETTINGS).fetchone() or (None, 0)
    # Without a schema the key of the lock is NULL, and the lock would seem to be another broker's.
    if schema is None:
        raise UnusableStoreError(
            f"{url.set(password=None, query={}).render_as_string()} has no schema to keep the store in: "
            "search_path names none that is there, and that this user may use. Make one (CREATE SCHEMA), or name another"
        )


def _take_over(holding: LockConnection, engine: Engine, where: str, request: OpenRequest) -> Meta:
    """Take the lock, and have the schema ready. Raises `StoreError`; another attempt may follow."""
    try:
        # The lock before the schema, so that only its holder creates or migrates it.
        _hold(holding, engine, where)
        with (
            engine.connect().execution_options(isolation_level="READ COMMITTED") as connection,
            without_timeout(connection),
            connection.begin(),
        ):
            prepare_schema(connection, where, is_shared=request.is_shared)
            # From here on, a broker that takes the lock waits for this transaction;
            # one that has taken it before is found now.
            holding.confirm()
            meta = take(connection, describe_holder(request.holder), PostgresqlDatabase.opening_of)
            _empty_paged(connection)
    except PostgresqlDatabase.errors as error:
        # Unlocked explicitly: a closed connection keeps the lock for a moment, and the next attempt would find it held.
        holding.unlock()
        raise _understand(error, engine, where) from error
    return meta


def _hold(holding: LockConnection, engine: Engine, where: str) -> None:
    if not holding.acquire():
        raise HeldStoreError(f"{where} is held by {_holder_of(engine)}; {HOW_TO_STAND_BY}")


def _holder_of(engine: Engine) -> str:
    try:
        with engine.connect() as connection:
            holder: Any = connection.execute(select(t.META.c.holder)).scalar()
    # Only a name for the error message: the holder may just be creating its tables.
    except SQLAlchemyError:
        holder = None
    return str(holder or "another broker")


def _empty_paged(connection: Connection) -> None:
    """Have an empty table for paged-out messages, also while somebody reads it, as `pg_dump` does from its beginning to its end."""
    t.PAGED.create(connection, checkfirst=True)
    if connection.exec_driver_sql(_IS_LOGGED, (t.PAGED.name,)).scalar():
        connection.execute(text(f"ALTER TABLE {t.PAGED.name} SET UNLOGGED"))
    if connection.scalar(select(t.PAGED.c.id).limit(1)) is None:
        return
    try:
        # A savepoint: without it a lock that is not free would abort the whole transaction.
        with connection.begin_nested():
            connection.execute(text(f"LOCK TABLE {t.PAGED.name} IN ACCESS EXCLUSIVE MODE NOWAIT"))
            # TRUNCATE takes the same time however many rows there are.
            connection.execute(text(f"TRUNCATE {t.PAGED.name}"))
    except DBAPIError as error:
        if not _is_locked(error):
            raise
        # A reader such as pg_dump holds the table for as long as it runs; deleting waits for no reader.
        connection.execute(delete(t.PAGED))


def _understand(error: Exception, engine: Engine, where: str) -> StoreError:
    """Return what an error means, and if it came of another's locks, who that is."""
    if not _is_locked(error):
        return understand(error, where)
    try:
        # By a connection of its own: the transaction that failed runs no more queries.
        with engine.connect() as connection:
            found = connection.execute(text(_LOCKING), {"prefix": f"{t.PREFIX}%"}).all()
    except SQLAlchemyError:
        found = []
    names = ", ".join(f"{name or 'a program without a name'} (process {pid})" for name, pid in found)
    return UnavailableStoreError(
        f"{where} has tables that are locked by {names or 'another program, which has ended by now'}; nothing was written. "
        "Try again when it has ended; pg_locks shows all locks"
    )


def _is_locked(error: Exception) -> bool:
    return isinstance(error, DBAPIError) and isinstance(error.orig, LockNotAvailable)
