"""PostgreSQL: one connection holds an advisory lock and writes, others read.

The broker commits on the very connection that holds the lock, so each commit is that of the holder, or fails. When the connection
is lost, so is the lock. The broker takes it again unless another one has held the store in the meantime, as `epoch` in the table of
meta data shows. The server grants the lock only when the old session has ended, so a commit that was under way is decided then.
"""

from __future__ import annotations

import logging
import math
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeVar

from sqlalchemy import ARRAY, URL, BigInteger, Engine, any_, bindparam, delete, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

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
from pyjms_provider.stores.sql.database import WAIT_S, Database, Lease, Paging, Readers
from pyjms_provider.stores.sql.schema import Meta, OpenRequest, name_of_opening, prepare_schema, take

try:
    import psycopg
    from psycopg import errors as sqlstates
    from psycopg.errors import LockNotAvailable
    from psycopg.pq import TransactionStatus
except ModuleNotFoundError as error:
    raise UnsupportedStoreError(
        f"PostgreSQL needs {error.name}; install it with: pip install 'pyjms-messaging[postgresql]'"
    ) from error

from pyjms_provider.stores.sql.postgresql_connections import ANSWER_OPTION, is_alive, make_engine

if TYPE_CHECKING:
    from sqlalchemy import Connection, PoolProxiedConnection, Table

    from pyjms_provider.core.message.reference import ReferenceId
    from pyjms_provider.stores.sql.batch import Batch, Row


# The timeout for answers of PostgreSQL's server. If a server is stopped, or its disk hangs, its system still confirms
# received packets. So no timeout of the network ends the wait, and the writer, all later writers and the close of the
# broker would wait without end. Here each wait has an end: a connection without any traffic for that time is closed, and
# reported as lost (decision 0212). A server that works on a long statement sends nothing either, so another connection
# first asks whether it is working.

_T = TypeVar("_T")
_log = logging.getLogger("pyjms.store")

DEFAULT_LIMIT_MS: Final = 30_000.0
"""The default answer timeout: as long as the system waits for the confirmation of sent packets (tcp_user_timeout)."""
CLOSING_MS: Final = 10_000.0
"""The upper limit of the answer timeout while the store is being closed."""
UNLOCKING_MS: Final = 1_000.0
"""The timeout for releasing the lock: the server also releases it a moment after the connection is closed. Once a wait of `CLOSING_MS` has
failed, it applies to all other connections."""
ASKING_MS: Final = 5_000.0
"""The timeout for the query whether the server is working for another connection; connecting for it has the same timeout by default."""
_AT_WORK: Final = (
    "SELECT state = 'active' AND coalesce(wait_event_type NOT IN ('Lock', 'Client') AND wait_event <> 'SyncRep', true), "
    "set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, 'pyjms', '') "
    "FROM pg_stat_activity WHERE pid = %s"
)
"""Whether a backend is active, and waits neither for a lock, nor for its client, nor for a standby server. The empty record makes the
server force its log: a server whose disk hangs does not answer this query."""

_FULL_MS: Final = 10_000.0
"""How long the disk is taken for full after it was: only the next message shows whether it still is."""


class AnswerTimeout:
    """The answer timeout of one store, shared by all connections to its server. Safe to use from any thread."""

    def __init__(self, clock: Clock, limit_ms: float = DEFAULT_LIMIT_MS, *, cancelled: Signal | None = None) -> None:
        """`limit_ms`: how long the server may take for an answer. `cancelled`: the signal that ends the opening of the store."""
        self.clock = clock
        self.limit_ms = limit_ms
        self.has_timed_out = False
        """Whether a wait has timed out during the close: no new connections are made, and open ones wait for `UNLOCKING_MS`, as the
        server may be well and only have been slow with one statement."""
        self._closing_since_ms: float | None = None
        self._cancelled = cancelled

    def hasten(self) -> None:
        """Shorten all waits, as the store is about to be closed. May be repeated."""
        if self._closing_since_ms is None:
            self._closing_since_ms = self.clock.monotonic_ms()

    def may_last(self) -> bool:
        """Return whether a wait may exceed its limit while the server works: not while the store is closed or its opening cancelled."""
        return self._closing_since_ms is None and not self._was_cancelled()

    def connect(self, *arguments: Any, **options: Any) -> TimeoutConnection:
        """Connect as psycopg does. Raises its errors."""
        # Each reader and each retry would wait for the silent server once more,
        # one after the other, and hold up the close.
        if self.has_timed_out:
            raise psycopg.OperationalError("the server has not answered before, and the store is being closed")
        try:
            connection = TimeoutConnection.connect(*arguments, **options)
        except psycopg.errors.ConnectionTimeout:
            # Only during a close: while the store is in use, a server that was silent
            # once may answer at the next attempt.
            self.has_timed_out = self._closing_since_ms is not None
            raise
        forget_in_children(connection)
        # Set once the connection is open: until then, psycopg's own `connect_timeout` ends the wait.
        connection.answer_timeout = self
        connection.connect_beside = partial(self.connect, *arguments, **{**options, "autocommit": True})
        return connection

    def reason_to_end(self, silent_ms: float, limit_ms: float) -> str | None:
        """Return why a wait that has lasted for `silent_ms` must end, given its limit; None: it may go on."""
        # Cancelling ends only waits without a limit; all others end by themselves.
        if math.isinf(limit_ms) and self._was_cancelled():
            return "the start was cancelled"
        silence = f"the server has not answered for {silent_ms / 1000:.1f} s"
        if self._closing_since_ms is not None:
            limit_ms = min(limit_ms, UNLOCKING_MS if self.has_timed_out else CLOSING_MS)
            # The time before the beginning of the close does not count, as an answer may be about to arrive.
            if min(silent_ms, self.clock.monotonic_ms() - self._closing_since_ms) >= limit_ms:
                self.has_timed_out = True
                return f"{silence}, and the store is being closed"
        elif silent_ms >= limit_ms:
            return f"{silence}; {ANSWER_OPTION} in the store's URL gives it more time"
        return None

    def _was_cancelled(self) -> bool:
        if self._cancelled is None or not self._cancelled.wait(0):
            return False
        # The wait has reset the signal; it is set again for the next caller.
        self._cancelled.set()
        return True


class TimeoutConnection(psycopg.Connection[Any]):
    """A connection that is closed, with an `OperationalError`, when the server does not answer in time."""

    answer_timeout: AnswerTimeout | None = None
    """The timeout of the store; None: the connection is being opened."""
    limit_ms: float | None = None
    """The limit of a wait for an answer; infinite: no limit, unless the start is cancelled or the store closed.

    None: the limit of `answer_timeout`, extended as long as the server works for this connection."""
    connect_beside: Callable[[], TimeoutConnection]
    """Opens another connection to the same server."""

    def forget(self) -> None:
        """Release the socket in a child process, which must not keep the store's lock when its parent dies."""
        # After an error the connection is closed, so there is no socket.
        with suppress(psycopg.Error):
            let_go(self.pgconn.socket)

    def wait(self, gen: Generator[Any, Any, _T], *arguments: Any, **options: Any) -> _T:
        """Run psycopg's wait, which resumes `gen` when the connection is ready and every tenth of a second otherwise, with a timeout."""
        if self.answer_timeout is None:
            return super().wait(gen, *arguments, **options)
        return super().wait(self._watched(gen, self.answer_timeout), *arguments, **options)

    def _watched(self, gen: Generator[Any, Any, _T], timeout: AnswerTimeout) -> Generator[Any, Any, _T]:
        # Most answers arrive immediately, so the clock is read only after a tenth of a second without one.
        silent_since_ms: float | None = None
        limit_ms = math.inf
        try:
            awaited = next(gen)
            while True:
                # psycopg sends a false value here after each tenth of a second without any traffic.
                ready = yield awaited
                if ready:
                    silent_since_ms = None
                else:
                    now_ms = timeout.clock.monotonic_ms()
                    if silent_since_ms is None:
                        silent_since_ms = now_ms
                        # Read when the silence begins: `limit_ms` of the connection may change between two statements.
                        limit_ms = timeout.limit_ms if self.limit_ms is None else self.limit_ms
                    reason_to_end = timeout.reason_to_end(now_ms - silent_since_ms, limit_ms)
                    if reason_to_end is not None:
                        # `_is_served` asks on another connection: a server that works on a long
                        # statement sends nothing on this one.
                        if self.limit_ms is None and timeout.may_last() and self._is_served():
                            limit_ms = timeout.clock.monotonic_ms() - silent_since_ms + timeout.limit_ms
                        else:
                            # The answer may have arrived while the server was asked.
                            ready = yield awaited
                            if not ready:
                                self._abandon(reason_to_end)
                            silent_since_ms = None
                awaited = gen.send(ready)
        except StopIteration as end:
            result: _T = end.value
            return result

    def _abandon(self, reason_to_end: str) -> NoReturn:
        # The state of the connection is unknown: a late answer would be taken for that of the next statement.
        self.pgconn.finish()
        raise psycopg.OperationalError(reason_to_end)

    def _is_served(self) -> bool:
        """Ask the server on another connection whether it is working for this one."""
        try:
            with closing(self.connect_beside()) as beside:
                # With a limit of its own, as otherwise this query's timeout would lead to the same query again, without end.
                beside.limit_ms = ASKING_MS
                found = beside.execute(_AT_WORK, (self.info.backend_pid,)).fetchone()
        except psycopg.Error:
            return False
        return found is not None and bool(found[0])


@contextmanager
def without_timeout(connection: Connection) -> Iterator[None]:
    """Let the server answer as late as it needs to, while it upgrades a schema or begins to read all stored messages."""
    driver: Any = connection.connection.driver_connection
    driver.limit_ms = math.inf
    try:
        yield
    finally:
        driver.limit_ms = None


SETTLE_MS: Final = 10_000
"""How long a commit whose outcome is unknown waits for the server to return before it is in doubt."""
RETRY_MS: Final = 100
_CONNECTING_S: Final = 10.0
"""A wait for a reader in use lasts this much longer than the answer timeout: until its user has timed out, and a new connection is open."""
_UNFORCED_MS: Final = 1000
"""A write is forced if an earlier unforced one is older than this, so that few batches must be kept for a replay after the server's death."""
_LOCK_CLASS: Final = 0x706A6D73
"""The first half of the key of the advisory lock: the letters pjms. The second half is a hash of the schema's name."""
_LOCK: Final = "SELECT pg_try_advisory_lock(%s, hashtext(current_schema())), pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s"
_EPOCH: Final = str(select(t.META.c.epoch))
_OPENING: Final = (
    "SELECT epoch, holder, tableoid, (SELECT oid FROM pg_database WHERE datname = current_database()) FROM pyjms_meta"
)
_TAKE: Final = (
    "UPDATE pyjms_meta SET epoch = epoch + 1, clean = false, holder = %s "
    # Locked first, as an application's joined transaction with the last holder may just be raising the next number of a queue.
    "FROM (SELECT clean AS was_clean FROM pyjms_meta FOR UPDATE) AS former WHERE product = %s AND version = %s "
    "AND (SELECT relpersistence FROM pg_class WHERE oid = 'pyjms_paged'::regclass) = 'u' AND NOT EXISTS (SELECT FROM pyjms_paged) "
    "RETURNING epoch, next_queue, was_clean, pyjms_meta.tableoid, (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_LOCKED_OPENING: Final = (
    _OPENING + ", set_config('idle_in_transaction_session_timeout', '4000', true) FOR SHARE OF pyjms_meta"
)
"""`_OPENING`, with a lock that makes the next opening wait for this transaction: for less than its lock_timeout even if the transaction's machine vanishes."""
_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ"
_FETCH: Final = 10_000
_FORCE: Final = "SELECT pg_logical_emit_message(true, 'pyjms', '')"
"""Changes nothing, but its forced commit makes all earlier commits as safe as itself: when the wait of a commit for a standby server is ended,
the commit becomes visible without being safe."""
_UNFORCED: Final = "SET LOCAL synchronous_commit TO OFF"


class LockConnection:
    """The connection that holds the advisory lock; it is opened again after it was lost."""

    def __init__(self, engine: Engine, clock: Clock, held_until_s: Callable[[], float] | None = None) -> None:
        """`held_until_s`: as in `StoreSettings`."""
        self.lease = Lease(clock, held_until_s)
        """Ends with the connection, and is renewed after each successful use of it."""
        self._engine = engine
        self._lent: PoolProxiedConnection | None = None
        self._backend: Row | None = None
        self.epoch: int | None = None
        """The epoch of this opening; None: not yet known."""

    @property
    def connection(self) -> psycopg.Connection[Row] | None:
        """The connection, if it is open."""
        if self._lent is None:
            return None
        connection: Any = self._lent.driver_connection
        return None if connection.closed else connection

    def acquire(self) -> bool:
        """Connect, and take the lock; return whether it was free. Raises `LostStoreError`, errors of the driver."""
        # The old connection is closed first: otherwise the new one would find the lock held by this broker itself.
        self.release()
        lent = self._engine.raw_connection()
        connection: Any = lent.driver_connection
        try:
            # Outside a transaction: the advisory lock lasts as long as the session,
            # and an open transaction would block VACUUM.
            connection.autocommit = True
            is_free, *backend = connection.execute(_LOCK, (_LOCK_CLASS,)).fetchone()
            # Also when the lock is not free: a greater epoch proves that
            # the store is lost, and no retry can help.
            self._check_epoch(connection)
            if not is_free and self._backend is not None:
                # End the broker's own lost session, which the server considers alive. It is identified by
                # its start, too, as the process id may have been reused.
                connection.execute(_END, self._backend)
        except Exception:
            lent.invalidate()
            raise
        if not is_free:
            lent.invalidate()
            return False
        self._lent, self._backend = lent, tuple(backend)
        return True

    def take(self, holder: str) -> Meta | None:
        """Record a new opening on this very connection; None, and nothing is changed, if the schema or the table of paged-out messages needs work.

        One round trip, as clients wait when a shard of a cluster gets another leader. Raises errors of the driver.
        """
        connection: Any = self.connection
        if connection is None:
            return None
        named = name_of_opening(holder)
        connection.limit_ms = math.inf
        try:
            row = connection.execute(_TAKE, (named, t.PRODUCT, t.VERSION)).fetchone()
        except sqlstates.UndefinedTable:
            return None
        finally:
            connection.limit_ms = None
        if row is None:
            return None
        epoch, next_queue, was_clean, *rest = row
        return Meta(epoch=epoch, opening=(epoch, named, *rest), next_queue=next_queue, was_closed=was_clean)

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
        """Connect again after a loss, and take the lock. Raises `LostStoreError`, `UnavailableStoreError`, errors of the driver."""
        is_free = self.acquire()
        connection = self.connection
        if not is_free or connection is None:
            raise UnavailableStoreError("the store's lock in PostgreSQL is not free yet; try again")
        return connection

    def confirm(self) -> None:
        """Check that the connection, and so the lock, was not lost. Raises `UnavailableStoreError`, errors of the driver."""
        connection = self.connection
        if connection is None:
            raise UnavailableStoreError("the connection that holds the store was lost while it was opened; try again")
        # A round trip: the local state of a connection does not show that the server has ended it.
        connection.execute("SELECT 1")

    def unlock(self) -> None:
        """Release the lock, and close the connection. The close alone releases it a moment later, when the server notices."""
        connection: Any = self.connection
        if connection is not None:
            connection.limit_ms = UNLOCKING_MS
            with suppress(psycopg.Error):
                connection.execute("SELECT pg_advisory_unlock_all()")
        self.release()

    def release(self) -> None:
        """Close the connection, which releases the lock. May be repeated."""
        # The lease first: no thread may deliver a message without a write once another broker may have the lock.
        self.lease.end()
        lent, self._lent = self._lent, None
        if lent is not None:
            # Closed and not returned: a connection in the pool would keep the lock.
            lent.invalidate()


class _Postgresql(Database):
    """The common part of both kinds of database: the store, and the table of paged-out messages."""

    name: ClassVar[str] = "postgresql"
    reading_options: ClassVar[Mapping[str, str]] = {"isolation_level": "REPEATABLE READ"}
    errors = (psycopg.Error, SQLAlchemyError, OverflowError, ValueError, TypeError)

    def __init__(self, engine: Engine, where: str, timeout: AnswerTimeout) -> None:
        """`engine`: in autocommit mode; `where`: the name of the database; `timeout`: that of the engine's connections."""
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
        # No limit until the connection is closed: it reads all stored messages, which the server may have to sort first.
        connection.limit_ms = math.inf
        # One snapshot for all queries, so that messages and entries are consistent.
        connection.execute(_SNAPSHOT)
        names = count()

        def run(query: str) -> Iterator[Row]:
            # A named cursor is a server-side one: otherwise psycopg fetches all rows before it returns the first.
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
    """The store in one schema of a database."""

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
        """The batches written since the last forced one, oldest first; they are written again after the server has crashed."""
        self._unforced_ms = math.inf
        self._is_in_use = False
        """A thread writes, or was ended by a second signal during a write: then the state of the connection is unknown."""
        self._closing = Signal()
        self._full: tuple[str, float] | None = None
        """What the server said when its disk was full, and until when that is believed; None: it has written since."""
        self._read_many = _by_ids(engine, t.MESSAGE)

    def commit(self, batch: Batch, *, force: bool) -> None:
        steps = batch.steps(self)
        if not steps:
            return
        # Read before the write: the lease must count from a time at which the lock was certainly held.
        begun_s = self.lease.now_s()
        connection = self._ready()
        now_ms = self._clock.monotonic_ms()
        # After a second without a forced write this one is forced, so that few batches must be kept for a replay.
        force = self._forces and (force or now_ms - self._unforced_ms > _UNFORCED_MS)
        # Set during the whole write, and not cleared in a `finally`: after a second signal
        # it is still set, and `_ready` reconnects.
        self._is_in_use = True
        try:
            lost = self._write(connection, steps, force=force)
            if lost is not None:
                self._settle(batch, steps, lost, force=force)
            self._note_written(batch, now_ms, force=force)
        except Exception as error:
            self._is_in_use = False
            self._note_full(error)
            raise
        self._is_in_use = False
        self.lease.renew(begun_s)
        # A removal needs no room in the tables, so it proves nothing.
        if self._full is not None and batch.first_message is not None:
            self._full = None
            _log.info("PYJMS-STORE-7 the disk of %s has room for messages again", self._where)

    def _note_full(self, error: Exception) -> None:
        """Let operators know that the disk is full: senders get the error, and nobody else would hear of it."""
        if isinstance(error.__cause__, sqlstates.DiskFull) and isinstance(error, StoreError):
            was_full = self.trouble is not None
            self._full = (error.reason, self._clock.monotonic_ms() + _FULL_MS)
            if not was_full:
                _log.warning("PYJMS-STORE-7 %s", error.reason)

    @property
    def has_unforced(self) -> bool:  # type: ignore[override]  # only here it changes
        return bool(self._unforced)

    @property
    def trouble(self) -> str | None:
        full = self._full
        return None if full is None or self._clock.monotonic_ms() >= full[1] else full[0]

    @property
    def is_held(self) -> bool:
        return self._lock_connection.connection is not None

    def look(self) -> None:
        begun_s = self.lease.now_s()
        connection = self._ready()
        try:
            # While the lease is valid, checking the socket is enough. After a suspension, the
            # packet that ended the connection may have been lost.
            if not (is_alive(connection) if self.lease.is_valid else self._answers(connection)):
                self._connect_again()
        except self.errors as error:
            raise self.understand(error) from error
        self.lease.renew(begun_s)

    def _answers(self, connection: psycopg.Connection[Row]) -> bool:
        """Return whether the server answers. If the connection ended while the machine was suspended, only sending something shows it."""
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def _note_written(self, batch: Batch, now_ms: float, *, force: bool) -> None:
        if force:
            # A forced commit makes all earlier commits safe: the server's log is written in order.
            self._unforced.clear()
            self._unforced_ms = math.inf
        elif self._forces:
            self._unforced.append(batch)
            self._unforced_ms = min(self._unforced_ms, now_ms)

    def _ready(self) -> psycopg.Connection[Row]:
        """Return the connection for the next write, connecting again if necessary. Raises `StoreError`, also `LostStoreError`."""
        if self._is_in_use:
            # A second signal has ended a write, which may still be under way. Others may see its rows, so the next
            # write is forced, on a new connection that gets the lock only after the old session has ended.
            self._lock_connection.release()
            self._unforced_ms = -math.inf
            self._is_in_use = False
        try:
            return self._lock_connection.connection or self._connect_again()
        except self.errors as error:
            raise self.understand(error) from error

    def _may_retry(self, until_ms: float) -> bool:
        """Wait a little, and return whether there is time for another attempt."""
        if self._timeout.has_timed_out:
            return False
        if self._clock.wait(self._closing, min(until_ms, self._clock.monotonic_ms() + RETRY_MS)):
            # The wait has reset the signal; it is set again for the next retry.
            self._closing.set()
            return False
        return self._clock.monotonic_ms() < until_ms

    def _connect_again(self) -> psycopg.Connection[Row]:
        """Take the lock again, and rewrite the unforced batches, which a crashed server may have lost.

        Raises `LostStoreError`, `UnavailableStoreError`, errors of the driver. Then there is no connection.
        """
        connection = self._lock_connection.acquire_again()
        self._write_unforced(connection)
        return connection

    def _write_unforced(self, connection: psycopg.Connection[Row]) -> None:
        """Write the unforced batches again. Raises as `_connect_again`."""
        # Before anything else is written: a crashed server may have lost commits that this broker relies on.
        if self._unforced:
            try:
                write(connection, merge(self._unforced).steps_again(self), force=True)
            except Exception:
                # Without these batches the connection must not be used: the next attempt
                # takes the lock and writes them again.
                self._lock_connection.release()
                raise
            self._unforced.clear()
            self._unforced_ms = math.inf

    def _write(
        self, connection: psycopg.Connection[Row], steps: Sequence[tuple[str, Collection[Row]]], *, force: bool
    ) -> Exception | None:
        """Write; return the error if the connection was lost, perhaps after the commit. Raises `StoreError` when nothing was written."""
        try:
            write(connection, steps, force=force)
        # A paged-out message could not be read, so nothing was committed.
        except StoreError:
            self._take_back(connection)
            raise
        except self.errors as error:
            # The connection is still usable: the transaction is rolled back, and only this batch has failed.
            if was_refused(error):
                self._take_back(connection)
                raise self.understand(error) from error
            return error
        return None

    def _take_back(self, connection: psycopg.Connection[Row]) -> None:
        try:
            take_back(connection)
        except psycopg.Error:
            self._lock_connection.release()  # the end of the session rolls back, too

    def _settle(
        self, batch: Batch, steps: Sequence[tuple[str, Collection[Row]]], cause: Exception, *, force: bool
    ) -> None:
        """Find out whether the connection was lost before the commit or after it; if before, write again.

        A batch without a witness may be written twice, and is always written again.
        """
        until_ms = self._clock.monotonic_ms() + SETTLE_MS
        while True:
            try:
                # The server grants the lock only after the old session has ended, so
                # the lost commit is decided from here on.
                connection = self._lock_connection.acquire_again()
                # Then the server has the unforced batches as well, which came before it; a message of them that it removes must not be written again.
                if self._was_written(connection, batch, force=force):
                    return
                self._write_unforced(connection)
            except LostStoreError as error:
                raise InDoubtError(f"{error.reason}; it is not known whether the last changes were written") from error
            except (*self.errors, UnavailableStoreError):
                # Without an answer the outcome is still unknown; the next attempt connects again.
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
        # A message's id is used only once, so its row proves that the whole batch was committed.
        if message is not None:
            witness = (self.statements.has_message, (message,))
        if witness is None or connection.execute(_sql(witness[0]), witness[1]).fetchone() is None:
            return False
        # The old commit may be visible without being forced; this forces the server's log including it.
        if force:
            write(connection, [(_FORCE, [()])], force=True)
        return True

    def read_all(self, queries: Sequence[str]) -> Sequence[Sequence[Any]]:
        # On the connection that is there already, and in one round trip: clients wait when a shard of a cluster gets another leader.
        connection: Any = self._ready()
        connection.limit_ms = math.inf
        found = []
        try:
            cursor = connection.execute("; ".join((_SNAPSHOT, *queries, "COMMIT")), prepare=False)
            while cursor.nextset():
                if cursor.description is not None:
                    found.append(cursor.fetchall())
        except self.errors as error:
            self._take_back(connection)
            raise self.understand(error) from error
        finally:
            connection.limit_ms = None
        return found

    def fetch(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
        return fetch_many(self, self._read_many, ids)

    def interrupt(self) -> None:
        super().interrupt()
        self._closing.set()

    def close(self) -> None:
        # The lock first, so that a stand-by broker need not wait until all readers are closed.
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
    """Return a statement in the type that psycopg requires. It is compiled from the schema, and contains no text from outside."""
    return statement


def _by_ids(engine: Engine, table: Table) -> str:
    """Return the query for payloads by a list of ids."""
    ids = bindparam("ids", type_=ARRAY(BigInteger))
    # One array parameter: the statement's text is the same for any number of ids, so the server prepares it once.
    return str(select(table.c.id, table.c.payload).where(table.c.id == any_(ids)).compile(dialect=engine.dialect))


def fetch_many(database: Database, statement: str, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
    """Return payloads in one query. Raises `StoreError`."""
    if not ids:
        return {}
    return dict(database.query(statement, (list(ids),)))


def write(connection: psycopg.Connection[Row], steps: Sequence[tuple[str, Collection[Row]]], *, force: bool) -> None:
    """Execute `steps` in one transaction, and in one round trip."""
    handled = sys.exception()
    try:
        # In a pipeline: otherwise each statement, including BEGIN and COMMIT, would be a round trip.
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
        # The interrupt itself is raised: psycopg's error would look like a lost connection, and the write be repeated.
        raise interrupt from None


def _interrupt_behind(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """Return the interrupt that has caused `error`, or None: psycopg raises an error when it cannot leave its pipeline after an interrupt.

    `handled`: the exception that the thread was already handling, which is in the context of all that it raises.
    """
    behind: BaseException | None = error
    while behind is not None and behind is not handled:
        if not isinstance(behind, Exception):
            return behind
        behind = behind.__context__
    return None


def take_back(connection: psycopg.Connection[Row]) -> None:
    """Roll back a failed pipeline, and have psycopg forget the statements that it believes prepared. Raises errors of the driver.

    The server prepares no statement after the one that fails. psycopg believes that they are prepared, and each later write with one of
    them would be refused. It forgets them in `rollback`, if a transaction is open, but not when a ROLLBACK is merely executed.
    """
    if connection.pgconn.transaction_status == TransactionStatus.IDLE:
        connection.execute("BEGIN", prepare=False)
    connection.rollback()


def was_refused(error: Exception) -> bool:
    """Return whether certainly nothing was written: the server refused a statement, or the driver did before it was sent.

    All other errors may occur after the server has committed, even while the connection looks open. Among them are errors that end the
    session: the server may have answered COMMIT just before.
    """
    if not isinstance(error, psycopg.Error):
        # These errors are about a value that the driver could not send.
        return isinstance(error, (OverflowError, ValueError, TypeError))
    # An error without a code is the driver's own; these three kinds may occur after the COMMIT was sent.
    if error.sqlstate is None:
        return not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError))
    # The untranslated severity. FATAL ends the session, perhaps after the commit.
    return error.diag.severity_nonlocalized == "ERROR" and not error.sqlstate.startswith(_ABOUT_CONNECTIONS)


_ABOUT_CONNECTIONS: Final = ("08", "57P")
"""The first characters of the codes of errors about the connection or the server, rather than a statement."""
_UNUSABLE: Final = (
    sqlstates.InsufficientPrivilege,
    sqlstates.InvalidCatalogName,
    sqlstates.InvalidAuthorizationSpecification,
    sqlstates.InvalidPassword,
    sqlstates.UndefinedTable,
)
_USER_REFUSED: Final = ("authentication failed", "no password supplied", "no pg_hba.conf entry")
"""Texts of the server or its library about a user who may not log in; these errors have no code in the driver."""
_DAMAGED: Final = (sqlstates.DataCorrupted, sqlstates.IndexCorrupted)


def understand(error: Exception, where: str) -> StoreError:
    """Translate an error of PostgreSQL, of its driver or of SQLAlchemy into a `StoreError` that says what to do."""
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
    # Errors while connecting have no code in psycopg, so the text decides.
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


_LONGEST_S: Final = 86_400
_IS_LOGGED: Final = "SELECT relpersistence <> 'u' FROM pg_class WHERE oid = %s::regclass"
_LOCKING: Final = (
    "SELECT DISTINCT application_name, pid FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "JOIN pg_class ON pg_class.oid = pg_locks.relation "
    "WHERE granted AND pid <> pg_backend_pid() AND pg_stat_activity.datname = current_database() "
    "AND relnamespace = current_schema()::regnamespace AND relname LIKE :prefix ORDER BY pid"
)
"""The sessions with locks on the store's tables."""


def open_postgresql(request: OpenRequest) -> tuple[PostgresqlDatabase, Paging, Meta]:
    """Open and lock the database; return it with its paging and its meta data. Raises as `open_journal`."""
    url = request.url
    where = url.set(password=None, query={}).render_as_string()
    timeout = timeout_of(url, request.clock, request.cancelled)
    engine = make_engine(url, timeout)
    holding = LockConnection(engine, request.clock, request.held_until_s)
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
    """Return the answer timeout that a store's URL sets; `cancelled` ends the opening of the store. Raises `UrlError`."""
    request = url.query.get(ANSWER_OPTION)
    if request is None:
        return AnswerTimeout(clock, cancelled=cancelled)
    if not isinstance(request, str) or not re.fullmatch("[1-9][0-9]{0,4}", request) or int(request) > _LONGEST_S:
        raise UrlError(
            f"{request!r} is no value of {ANSWER_OPTION}; write seconds, from 1 to {_LONGEST_S}, as {DEFAULT_LIMIT_MS / 1000:.0f}"
        )
    return AnswerTimeout(clock, int(request) * 1000.0, cancelled=cancelled)


def _take_over(holding: LockConnection, engine: Engine, where: str, request: OpenRequest) -> Meta:
    """Take the lock, and prepare the schema. Raises `StoreError`; another attempt may follow."""
    try:
        # The lock before the schema, so that only its holder creates or migrates it.
        _hold(holding, engine, where)
        found = holding.take(describe_holder(request.holder))
        if found is not None:
            return found
        with (
            engine.connect().execution_options(isolation_level="READ COMMITTED") as connection,
            without_timeout(connection),
            connection.begin(),
        ):
            prepare_schema(connection, where, is_shared=request.is_shared)
            # From here on, a broker that takes the lock waits for this transaction;
            # one that has taken it before is detected here.
            holding.confirm()
            meta = take(connection, describe_holder(request.holder), PostgresqlDatabase.opening_of)
            _empty_paged(connection)
    except PostgresqlDatabase.errors as error:
        # Released explicitly: after a mere close the lock stays for a moment, and the next attempt would find it held.
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
    # The holder may just be creating its tables; its name is only needed for an error message.
    except SQLAlchemyError:
        holder = None
    return str(holder or "another broker")


def _empty_paged(connection: Connection) -> None:
    """Create the table of paged-out messages, or empty it, even while another session such as `pg_dump` reads it."""
    t.PAGED.create(connection, checkfirst=True)
    if connection.exec_driver_sql(_IS_LOGGED, (t.PAGED.name,)).scalar():
        connection.execute(text(f"ALTER TABLE {t.PAGED.name} SET UNLOGGED"))
    if connection.scalar(select(t.PAGED.c.id).limit(1)) is None:
        return
    try:
        # A savepoint: otherwise a lock that is not free would abort the whole transaction.
        with connection.begin_nested():
            connection.execute(text(f"LOCK TABLE {t.PAGED.name} IN ACCESS EXCLUSIVE MODE NOWAIT"))
            # The time of TRUNCATE does not depend on the number of rows.
            connection.execute(text(f"TRUNCATE {t.PAGED.name}"))
    except DBAPIError as error:
        if not _is_locked(error):
            raise
        # A reader such as pg_dump holds its lock for as long as it runs; DELETE does not wait for readers.
        connection.execute(delete(t.PAGED))


def _understand(error: Exception, engine: Engine, where: str) -> StoreError:
    """Translate an error; if it was caused by a lock, name the sessions that hold locks."""
    if not _is_locked(error):
        return understand(error, where)
    try:
        # On a connection of its own: the failed transaction runs no more queries.
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
    return isinstance(error.orig if isinstance(error, DBAPIError) else error, LockNotAvailable)
