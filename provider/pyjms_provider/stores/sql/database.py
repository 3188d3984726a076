"""What the journal needs of a database, beside its statements: one writer's connection, readers, a lock owner, paging, its errors."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from weakref import WeakSet

from pyjms.spi.clock import Signal, SystemClock
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


# The connections by which threads read from a database: few, however many threads there are.

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
            # Closed and not returned to SQLAlchemy's pool, as it may be broken.
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
            # Without the lock: `list.pop` is one step, and a free reader is what nearly every call finds.
            return self._idle.pop()
        except IndexError:
            pass
        with self._lock:
            # A weak set: a reader that an interrupted thread has lost leaves it, and its place is free again.
            if len(self._made) < self._limit:
                reader = Reader()
                self._made.add(reader)
                return reader
            turn = _Turn()
            self._waiting.append(turn)
        try:
            # A reader may have been given back before this turn was in the list.
            self._serve()
            turn.wait(self._wait_s)
        finally:
            # Also when the wait was interrupted: a turn that stays in the list would take a reader that nobody uses.
            self._leave(turn)
        if turn.reader is None:
            raise self._refusal()
        return turn.reader

    def give(self, reader: Reader) -> None:
        """Give back what was taken, open or closed."""
        # Put back before the list of waiting threads is read: a thread that enters
        # it later looks at the idle readers itself.
        self._idle.append(reader)
        if self._waiting:
            self._serve()
        # `close` may have emptied the list just before this reader came back.
        if self._is_closing:
            self._close_idle()

    def _serve(self) -> None:
        """Hand on what is idle to those who wait, and turn them away if there is nothing to wait for."""
        with self._lock:
            while self._waiting:
                # At the close the threads are woken without a reader, and report that the store is being closed.
                if not self._is_closing:
                    try:
                        self._waiting[0].reader = self._idle.pop()
                    except IndexError:
                        return
                self._waiting.popleft().set()

    def _leave(self, turn: _Turn) -> None:
        """Wait no more; from now on the turn is given no reader."""
        with self._lock:
            # It was served already otherwise, and the reader is the caller's.
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


_T = TypeVar("_T")


class Database(ABC):
    """One database that is held. `commit` is called by one thread at a time, all else by any."""

    name: ClassVar[str]
    """As it stands in URLs."""
    is_local: ClassVar[bool] = False
    """Whether it is a file of this machine, so that nobody waits for a network."""
    has_one_writer: ClassVar[bool] = False
    """Whether nobody else can write from the first write of a transaction to its end."""
    lease: Lease | None = None
    """For one that may get another holder while this one lives, so that somebody must `look`."""
    reading_options: ClassVar[Mapping[str, str]] = {}
    """Execution options of a connection for `reading`."""

    def __init__(self, engine: Engine, where: str) -> None:
        """`engine` waits for no connection of others, as `POOL_OPTIONS` have it; `where` names the database."""
        self.engine = engine
        self.statements = compile_statements(engine.dialect)
        self.readers = Readers(where)
        self.read_paged: Callable[[Sequence[ReferenceId]], dict[ReferenceId, bytes]] = lambda _: {}
        """Returns the payloads that were paged out, for `Batch.paged`; set by who pages out. Raises `StoreError`."""

    @abstractmethod
    def commit(self, batch: Batch, *, force: bool) -> None:
        """Write all of `batch` or nothing; with `force` it survives a loss of power.

        Raises `StoreError` when nothing was written, `LostStoreError` when nothing ever will be, `InDoubtError`.
        """

    def add_messages(self, rows: Sequence[Row]) -> None:
        """Do so with rows of messages, forced. It is what most writes are, so a database may have a shorter way for it."""
        self.commit(batch_of(rows), force=True)

    @abstractmethod
    def understand(self, error: Exception) -> StoreError:
        """Return what an error of the driver, or of SQLAlchemy, means, and what to do about it."""

    def leaves_doubt(self, error: BaseException | None) -> bool:
        """Return whether what was being committed may be found later, as after a death, although that failed with this error of the driver.

        What the error says of the disk is remembered.
        """
        return False

    def repair_log(self) -> None:  # noqa: B027 - a server looks after its own log
        """Have what was written before on the disk, if that has failed, before somebody commits who has the right to write. Raises `StoreError`."""

    def detect_failed_checkpoint(self) -> None:  # noqa: B027 - a server looks after its own disk
        """Find out whether the disk has failed in a commit of somebody else's, who was not told. The connection that committed is open."""

    def check_space(self, connection: Connection, steps: Sequence[tuple[str, Collection[Row]]]) -> None:  # noqa: B027 - a server's disk is the server's
        """Refuse what somebody is about to execute by `connection` if it would take the last of the disk. Raises `StoreError`."""

    @property
    def trouble(self) -> str | None:
        """Why no message can be written now though it is held; None: nothing is known. Any thread; does not wait."""
        return None

    @property
    def is_held(self) -> bool:
        """Whether it was still held when that was looked at last. Any thread; does not wait."""
        return True

    def look(self) -> None:  # noqa: B027 - not every database can be lost
        """Find out whether it is still held, and take it again if it was lost and nobody else had it. The writer's thread.

        Raises `StoreError` when it is not known, `LostStoreError` when another one has held it.
        """

    @contextmanager
    def reading(self, *, is_beginning: bool = False) -> Iterator[Connection]:
        """Lend a connection of SQLAlchemy that sees one state of the database. Raises `StoreError`.

        `is_beginning`: the store is being opened, so that a server may need as long as it likes.
        """
        reader = self.readers.take()
        try:
            # Closed, as the connection of SQLAlchemy takes its place: there are never more connections than readers.
            reader.close()
            with self.engine.connect().execution_options(**self.reading_options) as connection, connection.begin():
                yield connection
        except self.errors as error:
            raise self.understand(error) from error
        finally:
            self.readers.give(reader)

    @contextmanager
    def streaming(self) -> Iterator[Callable[[str], Iterator[Row]]]:
        """Lend what runs queries that see one state of the database, and yields their rows as they come.

        Raises `StoreError`, also while rows are read. On the driver's cursor, as there may be a million rows.
        """
        try:
            lent = self.engine.raw_connection()
            try:
                with ExitStack() as cursors:
                    yield self.stream(lent, cursors)
            finally:
                # A stream that is left half way has its transaction open, so the
                # connection does not go back to the pool.
                lent.invalidate()
        except self.errors as error:
            raise self.understand(error) from error

    @abstractmethod
    def stream(self, lent: PoolProxiedConnection, cursors: ExitStack) -> Callable[[str], Iterator[Row]]:
        """Begin a transaction on a connection, and return what runs queries in it; `cursors` closes what they open."""

    @property
    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """All errors that a statement may raise."""

    def fetch(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
        """Return the payloads of those messages that are there. Raises `StoreError`."""
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
        """Return what `work` reads through a connection that nobody else uses. Raises `StoreError`."""
        reader = self.readers.take()
        try:
            while True:
                # A connection that has been idle may be dead, so an error on it is
                # tried again on a new one, and only once.
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
        """Return what tells this opening of the database from all others, and from its copies, as a connection of anybody's sees it.

        Raises errors of SQLAlchemy.
        """

    def lock_opening(self, connection: Connection) -> tuple[object, ...]:
        """Return the same to a connection that has written something; until its transaction ends, nobody else opens the database."""
        return self.opening_of(connection)

    def hasten(self) -> None:  # noqa: B027 - not every database is a server's
        """Hear that the store is about to be closed, so that nobody waits long any more for a server that does not answer. Any thread."""

    def interrupt(self) -> None:
        """End the wait of a commit for a server that went away, and of who reads for others; from now on none waits. Any thread."""
        self.readers.interrupt()

    def close_readers(self) -> None:
        """Close the connections of readers."""
        self.readers.close()
        self.engine.dispose()

    @abstractmethod
    def close(self) -> None:
        """Close all connections, and let go of the database. May be repeated; raises nothing."""


# Messages that need not survive, on the disk for as long as memory is short.

_PURGE: Final = 512
"""How many forgotten messages are deleted at once."""


class Paging:
    """A table of payloads, made empty by whoever opens it."""

    def __init__(self, database: Database, remove: Callable[[], None]) -> None:
        """`remove` removes what is left of the table after it was closed."""
        self._database = database
        self._remove = remove
        self._group: GroupCommit[Batch] = GroupCommit(self._commit)
        self._lock = Lock()
        self._count = 0
        self._dropped: dict[ReferenceId, None] = {}

    def add(self, rows: Sequence[tuple[ReferenceId, bytes]]) -> None:
        """Keep payloads. Raises `StoreError`."""
        # First, as it makes room for what is added.
        self._purge_many()
        try:
            self._add(rows)
        except StoreError:
            if not self._dropped:
                raise
            # The error may be for want of room, which forgotten messages still take.
            self._purge()
            self._add(rows)

    def _add(self, rows: Sequence[tuple[ReferenceId, bytes]]) -> None:
        batch = Batch()
        batch.others.append((self._database.statements.add_paged, rows))
        self._group.submit(batch, force=False)
        with self._lock:
            self._count += len(rows)

    def fetch(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, bytes]:
        """Return the payloads of those that are there. Raises `StoreError`."""
        # No query while nothing is paged out.
        if not self._count:
            return {}
        found = self._database.fetch_from(self._database.statements.read_paged, ids)
        self._purge_many()
        return found

    def drop(self, ids: Sequence[ReferenceId]) -> None:
        """Forget payloads, sooner or later. Does not wait. May be repeated."""
        with self._lock:
            # Only noted: acknowledgements come here, and must not wait for the disk.
            self._dropped.update(dict.fromkeys(ids))

    def _purge_many(self) -> None:
        """Delete what was forgotten, if it is much. It is done by who waits for the disk anyway."""
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
            # It was only tidying up, and is done another time: deleting an id twice changes nothing.
            with self._lock:
                self._dropped.update(dropped)
                self._count += len(dropped)

    def _commit(self, requests: Sequence[CommitRequest[Batch]]) -> None:
        # One transaction each, as a failure must not concern the messages of other threads.
        for request in requests:
            try:
                self._database.commit(request.work, force=False)
            except (StoreError, InDoubtError) as error:
                request.error = error
            else:
                request.error = None

    def interrupt(self) -> None:
        """Have nobody wait who reads for others, from now on. Any thread."""
        self._database.interrupt()

    def close(self) -> None:
        """Let go of the disk."""
        self._database.close()
        # The disk may be read-only by now; the next opening empties the table.
        with suppress(OSError):
            self._remove()


# Checking whether a store is still held while nobody writes: an idle broker
# would not learn otherwise that it has lost it.

BETWEEN_LOOKS_MS: Final = 1000
"""How long a broker may serve that has lost its store."""


class LeaseMonitor:
    """The thread of one store, from `start` to `stop`. It calls `look` with no lock held."""

    def __init__(self, look: Callable[[], None], clock: Clock, *, name: str | None) -> None:
        """`look` may wait for the network, for some seconds."""
        self._look = look
        self._clock = clock
        self._signal = Signal()
        self._is_stopped = False
        self._thread = Thread(target=self._run, name=f"pyjms holder {name}", daemon=True)

    def start(self) -> None:
        """Begin. Once."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it, unless this is it. May be repeated."""
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
"""From the beginning of a look, or of a commit. Twice the time between two looks, as the thread that looks may come late."""


class Lease:
    """Who has the right to write renews it, and ends it; any thread may ask."""

    __slots__ = ("is_ended", "now_s", "until_s")

    def __init__(self, clock: Clock) -> None:
        self.now_s: Final = _seconds_since_boot(clock)
        self.until_s = -math.inf
        self.is_ended = False
        """Whether the lock is not known to be held, whatever the time."""

    @property
    def is_valid(self) -> bool:
        """Whether the lock was held a moment ago."""
        return not self.is_ended and self.now_s() < self.until_s

    def renew(self, since_s: float) -> None:
        """Hear that the lock was held at this time, which `now_s` told before that was found out."""
        # Before `is_ended` is cleared: a reader that sees the old time and no end would only refuse once too often.
        self.until_s = since_s + LEASE_S
        self.is_ended = False

    def end(self) -> None:
        """Hear that nobody knows whether the lock is held."""
        self.is_ended = True

    def extend(self, since_s: float) -> None:
        """Have it last if it has not run out: a commit is under way, whose thread ends it as soon as the connection is lost. Any thread."""
        # A lease that has run out means that the committing thread stood still as well, and knows nothing either.
        if self.is_valid:
            self.until_s = since_s + LEASE_S


def _seconds_since_boot(clock: Clock) -> Callable[[], float]:
    """Return what tells seconds that go on while the machine is suspended, where the system counts that; those of an injected clock are its own."""
    since_boot = getattr(time, "CLOCK_BOOTTIME", None)
    # CLOCK_MONOTONIC stops while a machine is suspended, and a lease would outlive the lock.
    if since_boot is None or not isinstance(clock, SystemClock):
        return lambda: clock.monotonic_ms() / 1000
    return partial(time.clock_gettime, since_boot)
