"""The interface between the journal and a database: the writer's connection, a pool of readers, the lock, paging, and errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from weakref import WeakSet

from pyjms.spi.clock import Signal, seconds_since_boot
from pyjms.spi.errors import InDoubtError
from pyjms_provider.stores.errors import StoreError, UnavailableStoreError
from pyjms_provider.stores.group_commit import CommitRequest, GroupCommit
from pyjms_provider.stores.sql.batch import Batch, Row, batch_of
from pyjms_provider.stores.sql.schema import compile_statements

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, PoolProxiedConnection
    from sqlalchemy.engine.interfaces import DBAPICursor

    from pyjms.spi.clock import Clock
    from pyjms_provider.core.message.reference import ReferenceId


# The pool of connections for reading: few, however many threads there are.

POOL_OPTIONS: Final[Mapping[str, Any]] = {"pool_size": 1, "max_overflow": -1}
"""Options of an engine: its pool keeps one idle connection, and opens others without limit; by default a sixteenth one would have to wait."""
READERS: Final = 8
"""The maximal number of concurrent reads of one database. A server of PostgreSQL has a hundred connections, for all its clients."""
WAIT_S: Final = 40.0
"""How long to wait for a reader in use by another thread: longer than a read waits for a server that does not answer."""


class Reader:
    """One pooled connection, used by one thread at a time; it is opened on demand, and may be opened again after it was closed."""

    __slots__ = ("__weakref__", "_lent", "cursor")

    def __init__(self) -> None:
        self.cursor: DBAPICursor | None = None
        """The cursor for queries; None: the connection is closed."""
        self._lent: PoolProxiedConnection | None = None

    def open(self, engine: Engine) -> DBAPICursor:
        """Connect, and return the cursor. Raises errors of the driver, of SQLAlchemy, `StoreError`."""
        self._lent = engine.raw_connection()
        self.cursor = cursor = self._lent.cursor()
        return cursor

    def close(self) -> None:
        """Close the connection. May be repeated."""
        lent, self._lent, self.cursor = self._lent, None, None
        if lent is not None:
            # Closed and not returned to SQLAlchemy's pool, as it may be broken.
            lent.invalidate()


class _ReaderWait(Signal):
    """The wait of one thread, and the reader that it gets."""

    __slots__ = ("reader",)

    def __init__(self) -> None:
        super().__init__()
        self.reader: Reader | None = None


class Readers:
    """A pool of the readers of one database. Safe to use from any thread.

    SQLAlchemy's own check-out and check-in cost three times as much as reading a message. Waiting threads are served in the order
    of their arrival: a returned reader is passed to the first of them.
    """

    def __init__(self, where: str, limit: int = READERS, wait_s: float = WAIT_S) -> None:
        """`where`: the name of the database, for errors; `limit`: the maximal number of readers; `wait_s`: the longest wait for one."""
        self._where = where
        self._limit = limit
        self._wait_s = wait_s
        self._lock = Lock()
        self._existing: WeakSet[Reader] = WeakSet()
        """All existing readers. A reader that an interrupted thread has lost disappears from the set, and another can be created."""
        self._idle: list[Reader] = []
        self._waiting: deque[_ReaderWait] = deque()
        self._is_closing = False

    def take(self) -> Reader:
        """Check out a reader; the caller must return it by `give`. Raises `UnavailableStoreError` when none becomes free in time."""
        try:
            # Without the lock: `list.pop` is atomic, and nearly every call finds an idle reader.
            return self._idle.pop()
        except IndexError:
            pass
        with self._lock:
            if len(self._existing) < self._limit:
                reader = Reader()
                self._existing.add(reader)
                return reader
            turn = _ReaderWait()
            self._waiting.append(turn)
        try:
            # A reader may have been returned before this turn was in the list.
            self._assign_idle()
            turn.wait(self._wait_s)
        finally:
            # Also when the wait was interrupted: a turn that stays in the list would get a reader, which would be lost.
            self._cancel(turn)
        if turn.reader is None:
            raise self._refusal()
        return turn.reader

    def give(self, reader: Reader) -> None:
        """Return a reader to the pool, open or closed."""
        # Put back before the list of waiting threads is read: a thread that enters
        # it later checks the idle readers itself.
        self._idle.append(reader)
        if self._waiting:
            self._assign_idle()
        # `close` may have emptied the list just before this reader was returned.
        if self._is_closing:
            self._close_idle()

    def _assign_idle(self) -> None:
        """Pass idle readers to waiting threads; when the pool is closing, wake the threads without one."""
        with self._lock:
            while self._waiting:
                # Threads woken without a reader report that the store is being closed.
                if not self._is_closing:
                    try:
                        self._waiting[0].reader = self._idle.pop()
                    except IndexError:
                        return
                self._waiting.popleft().set()

    def _cancel(self, turn: _ReaderWait) -> None:
        """Remove a turn from the list, so that it gets no reader any more."""
        with self._lock:
            # If it is not in the list it has a reader, which the caller uses.
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
        """End all waits, and let later calls of `take` not wait. May be repeated."""
        self._is_closing = True
        self._assign_idle()

    def close(self) -> None:
        """Close all connections; those in use are closed when they are returned. May be repeated."""
        self.interrupt()
        self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                reader = self._idle.pop()
            except IndexError:
                return
            reader.close()


_T = TypeVar("_T")


class Database(ABC):
    """One locked database. `commit` is called by one thread at a time, all other methods by any."""

    name: ClassVar[str]
    """The name in URLs."""
    is_local: ClassVar[bool] = False
    """Whether it is a file of this machine, so that no call waits for a network."""
    has_one_writer: ClassVar[bool] = False
    """Whether a transaction excludes all other writers from its first write to its end."""
    has_unforced: bool = False
    """Whether batches were written unforced that are written again when the server has crashed."""
    lease: Lease | None = None
    """The lease of a database that may get another holder while this process lives, so that `look` must be called regularly."""
    reading_options: ClassVar[Mapping[str, str]] = {}
    """Execution options of the connections of `reading`."""

    def __init__(self, engine: Engine, where: str) -> None:
        """`engine`: with `POOL_OPTIONS`, so that its pool never makes a thread wait; `where`: the name of the database."""
        self.engine = engine
        self.statements = compile_statements(engine.dialect)
        self.readers = Readers(where)
        self.read_paged: Callable[[Sequence[ReferenceId]], dict[ReferenceId, bytes]] = lambda _: {}
        """Returns paged-out payloads, for `Batch.paged`; set by the journal. Raises `StoreError`."""

    @abstractmethod
    def commit(self, batch: Batch, *, force: bool) -> None:
        """Write all of `batch` or nothing; with `force` it survives a loss of power.

        Raises `StoreError` when nothing was written, `LostStoreError` when nothing can be written any more, `InDoubtError`.
        """

    def add_messages(self, rows: Sequence[Row]) -> None:
        """Write rows of messages, forced. Most writes are of this kind, so a database may have a faster implementation."""
        self.commit(batch_of(rows), force=True)

    @abstractmethod
    def understand(self, error: Exception) -> StoreError:
        """Translate an error of the driver or of SQLAlchemy into one that says what to do."""

    def leaves_doubt(self, error: BaseException | None) -> bool:
        """Return whether the commit that failed with this error of the driver may still turn out to be written, for instance after a crash.

        Also remembers if the error says that the disk failed.
        """
        return False

    def repair_log(self) -> None:  # noqa: B027 - a server looks after its own log
        """After a failure of the disk, force all earlier writes again. Called before a commit, with the write lock. Raises `StoreError`."""

    def detect_failed_checkpoint(self) -> None:  # noqa: B027 - a server looks after its own disk
        """Detect a failure of the disk in a checkpoint during another program's commit, which was not told. Its connection must still be open."""

    def check_space(self, connection: Connection, steps: Sequence[tuple[str, Collection[Row]]]) -> None:  # noqa: B027 - a server's disk is the server's
        """Check that there is enough space on the disk for the `steps` to be executed on `connection`. Raises `StoreError`."""

    @property
    def trouble(self) -> str | None:
        """The reason why no message can be written now although the store is held; None: none is known. Any thread; does not block."""
        return None

    @property
    def is_held(self) -> bool:
        """Whether the store was still held at the last check. Any thread; does not block."""
        return True

    def look(self) -> None:  # noqa: B027 - not every database can be lost
        """Check whether the store is still held; if the lock was lost and no other broker has had it, take it again. The writer's thread.

        Raises `StoreError` when this is unknown, `LostStoreError` when another broker has held the store.
        """

    @contextmanager
    def reading(self, *, is_beginning: bool = False) -> Iterator[Connection]:
        """Provide a connection of SQLAlchemy in a transaction that sees one snapshot of the database. Raises `StoreError`.

        `is_beginning`: the store is being opened, so that the server may answer as late as it needs to.
        """
        reader = self.readers.take()
        try:
            # Closed, as SQLAlchemy's connection takes its place: there are never more connections than readers.
            reader.close()
            with self.engine.connect().execution_options(**self.reading_options) as connection, connection.begin():
                yield connection
        except self.errors as error:
            raise self.understand(error) from error
        finally:
            self.readers.give(reader)

    def read_all(self, queries: Sequence[str]) -> Sequence[Sequence[Any]]:
        """Return the rows of queries without parameters, as the driver returns them, all of one moment. The writer's thread, while the store is being
        opened. Raises `StoreError`.
        """
        with self.reading(is_beginning=True) as connection:
            return [connection.exec_driver_sql(each).all() for each in queries]

    @contextmanager
    def streaming(self) -> Iterator[Callable[[str], Iterator[Row]]]:
        """Provide a function that runs queries on one snapshot of the database, and yields their rows as they arrive.

        Raises `StoreError`, also while rows are read. It uses the driver's cursor, as there may be a million rows.
        """
        try:
            lent = self.engine.raw_connection()
            try:
                with ExitStack() as cursors:
                    yield self.stream(lent, cursors)
            finally:
                # A stream that was not read to its end has its transaction open, so the
                # connection does not go back to the pool.
                lent.invalidate()
        except self.errors as error:
            raise self.understand(error) from error

    @abstractmethod
    def stream(self, lent: PoolProxiedConnection, cursors: ExitStack) -> Callable[[str], Iterator[Row]]:
        """Begin a transaction on a connection, and return a function that runs queries in it; `cursors` closes their cursors."""

    @property
    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """The classes of errors that a statement may raise."""

    def fetch(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
        """Return the payloads of those messages that are stored. Raises `StoreError`."""
        return self.fetch_from(self.statements.read_message, ids)

    def fetch_from(self, statement: str, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
        """Run a query by id for each of `ids`. Raises `StoreError`."""

        def work(cursor: DBAPICursor) -> dict[ReferenceId, bytes]:
            found: dict[ReferenceId, bytes] = {}
            for reference_id in ids:
                cursor.execute(statement, (reference_id,))
                for row in cursor.fetchall():
                    # A damaged file may have NULL here, which the decoder then refuses as an empty message.
                    found[reference_id] = row[0] or b""
            return found

        return self._read(work)

    def query(self, statement: str, parameters: Row = ()) -> list[Any]:
        """Return all rows of a query. Raises `StoreError`."""

        def work(cursor: DBAPICursor) -> list[Any]:
            cursor.execute(statement, parameters)
            return list(cursor.fetchall())

        return self._read(work)

    def _read(self, work: Callable[[DBAPICursor], _T]) -> _T:
        """Call `work` with the cursor of a reader, and return its result. Raises `StoreError`."""
        reader = self.readers.take()
        try:
            while True:
                # A connection that was idle may be dead, so after an error on it the work
                # is tried once more, on a new connection.
                is_fresh = reader.cursor is None
                try:
                    return work(reader.cursor or reader.open(self.engine))
                except self.errors as error:
                    reader.close()
                    if is_fresh:
                        raise self.understand(error) from error
        finally:
            self.readers.give(reader)

    @staticmethod
    @abstractmethod
    def opening_of(connection: Connection) -> tuple[object, ...]:
        """Return the identity of this opening, different from that of all other openings and of copies, as read by any `connection`.

        Raises errors of SQLAlchemy.
        """

    def lock_opening(self, connection: Connection) -> tuple[object, ...]:
        """Return `opening_of` for a connection that has written something, and prevent other openings until its transaction ends."""
        return self.opening_of(connection)

    def hasten(self) -> None:  # noqa: B027 - not every database is a server's
        """Shorten all waits for a server that does not answer, as the store is about to be closed. Any thread."""

    def interrupt(self) -> None:
        """End the wait of a commit for a lost server, and all waits for readers; later calls do not wait either. Any thread."""
        self.readers.interrupt()

    def close_readers(self) -> None:
        """Close the connections of the readers."""
        self.readers.close()
        self.engine.dispose()

    @abstractmethod
    def close(self) -> None:
        """Close all connections, and release the database. May be repeated; raises nothing."""


# Paged-out messages: they are on the disk because memory is short, and need not survive a restart.

_PURGE: Final = 512
"""The number of dropped messages that are deleted together."""


class Paging:
    """The table of paged-out payloads, which is emptied when it is opened."""

    def __init__(self, database: Database, remove: Callable[[], None]) -> None:
        """`remove` deletes the table's file, if it has one, after the close."""
        self._database = database
        self._remove = remove
        self._group: GroupCommit[Batch] = GroupCommit(self._commit)
        self._lock = Lock()
        self._count = 0
        self._dropped: dict[ReferenceId, None] = {}

    def add(self, rows: Sequence[tuple[ReferenceId, bytes]]) -> None:
        """Store payloads. Raises `StoreError`."""
        # First, as this makes room for the new payloads.
        self._purge_many()
        try:
            self._add(rows)
        except StoreError:
            if not self._dropped:
                raise
            # The disk may be full, while dropped messages still take space.
            self._purge()
            self._add(rows)

    def _add(self, rows: Sequence[tuple[ReferenceId, bytes]]) -> None:
        batch = Batch()
        batch.others.append((self._database.statements.add_paged, rows))
        self._group.submit(batch, force=False)
        with self._lock:
            self._count += len(rows)

    def fetch(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
        """Return the payloads of those messages that are stored. Raises `StoreError`."""
        # No query while nothing is paged out.
        if not self._count:
            return {}
        found = self._database.fetch_from(self._database.statements.read_paged, ids)
        self._purge_many()
        return found

    def drop(self, ids: Sequence[ReferenceId]) -> None:
        """Mark payloads for a later deletion. Does not wait. May be repeated."""
        with self._lock:
            # Only marked: acknowledgements call this, and must not wait for the disk.
            self._dropped.update(dict.fromkeys(ids))

    def _purge_many(self) -> None:
        """Delete dropped payloads if there are many. Called only by threads that wait for the disk anyway."""
        if len(self._dropped) >= _PURGE:
            self._purge()

    def _purge(self) -> None:
        with self._lock:
            # Taken under the lock and deleted outside it, so that `drop` never waits for the disk.
            dropped, self._dropped = self._dropped, {}
            self._count -= len(dropped)
        batch = Batch()
        batch.others.append((self._database.statements.drop_paged, [(each,) for each in dropped]))
        try:
            self._group.submit(batch, force=False)
        except (StoreError, InDoubtError):
            # The payloads are marked again, to be deleted later: deleting an id twice changes nothing.
            with self._lock:
                self._dropped.update(dropped)
                self._count += len(dropped)

    def _commit(self, requests: Sequence[CommitRequest[Batch]]) -> None:
        # One transaction each, as a failure must not affect the messages of other threads.
        for request in requests:
            try:
                self._database.commit(request.work, force=False)
            except (StoreError, InDoubtError) as error:
                request.error = error
            else:
                request.error = None

    def interrupt(self) -> None:
        """End all waits for readers; later calls do not wait either. Any thread."""
        self._database.interrupt()

    def close(self) -> None:
        """Close the connections, and delete the table's file."""
        self._database.close()
        # The disk may be read-only by now; the next opening empties the table.
        with suppress(OSError):
            self._remove()


# Regular checks whether the store is still held: an idle broker would otherwise not learn that it has lost it.

BETWEEN_LOOKS_MS: Final = 1000
"""The time between two checks, and so the longest time that a broker goes on after it has lost its store."""


class LeaseMonitor:
    """A thread that calls `look` regularly from `start` to `stop`, with no lock held."""

    def __init__(self, look: Callable[[], None], clock: Clock, *, name: str | None) -> None:
        """`look` may wait for the network for some seconds."""
        self._look = look
        self._clock = clock
        self._signal = Signal()
        self._is_stopped = False
        self._thread = Thread(target=self._run, name=f"pyjms holder {name}", daemon=True)

    def start(self) -> None:
        """Start the thread. Called once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and wait for it unless it is the caller. May be repeated."""
        self._is_stopped = True
        self._signal.set()
        if self._thread is not current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped:
            self._clock.wait(self._signal, self._clock.monotonic_ms() + BETWEEN_LOOKS_MS)
            # Checked after the wait: `stop` ends the wait, and the database may be closed by then.
            if not self._is_stopped:
                self._look()


LEASE_S: Final = 2 * BETWEEN_LOOKS_MS / 1000
"""The duration of a lease, counted from the beginning of a check or commit. Twice the time between two checks, which may be late."""


class Lease:
    """A lease on the lock. The thread with the right to write renews and ends it; any thread may check it."""

    __slots__ = ("_limit_s", "is_ended", "now_s", "until_s")

    def __init__(self, clock: Clock, limit_s: Callable[[], float] | None = None) -> None:
        """`limit_s`: returns the time of `now_s` until which the lock can be held at most; None: no limit is known."""
        self.now_s: Final = seconds_since_boot(clock)
        self._limit_s = limit_s
        self.until_s = -math.inf
        self.is_ended = False
        """Whether the lease has ended before its time, as it is unknown whether the lock is held."""

    @property
    def is_valid(self) -> bool:
        """Whether the lease has neither ended nor run out: the lock was held a moment ago."""
        return not self.is_ended and self.now_s() < self.until_s

    def renew(self, since_s: float) -> None:
        """Renew the lease: the lock was held at `since_s`, a time of `now_s` read before the check began."""
        # Before `is_ended` is cleared: a reader that sees the old time and no end would only refuse once too often.
        self.until_s = self._end_of(since_s)
        self.is_ended = False

    def end(self) -> None:
        """End the lease, as it is unknown whether the lock is held."""
        self.is_ended = True

    def extend(self, since_s: float) -> None:
        """Extend the lease unless it has run out: a commit is under way, whose thread ends it as soon as the connection is lost. Any thread."""
        # If it has run out, the committing thread may have been suspended as well, and know nothing either.
        if self.is_valid:
            self.until_s = self._end_of(since_s)

    def _end_of(self, since_s: float) -> float:
        until_s = since_s + LEASE_S
        return until_s if self._limit_s is None else min(until_s, self._limit_s())
