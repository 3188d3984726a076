"""SQLite: a file with a write-ahead log, one connection that writes, others that read, and a lock file beside it."""

from __future__ import annotations

import logging
import math
import os
import re
import shlex
import shutil
import sqlite3
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from pyjms.spi.errors import InDoubtError
from pyjms_provider.settings import Synchronous
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    ForeignStoreError,
    HeldStoreError,
    StoreError,
    UnavailableStoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.file_lock import FileLock, acquire, describe_holder
from pyjms_provider.stores.sql import schema as t
from pyjms_provider.stores.sql.batch import PagedRows
from pyjms_provider.stores.sql.database import POOL_OPTIONS, Database, Paging
from pyjms_provider.stores.sql.recovery import UNDECODABLE
from pyjms_provider.stores.sql.schema import Meta, OpenRequest, prepare_schema, refuse_foreign, take
from pyjms_provider.stores.sql.sqlite_files import Checkpoints, OpenFiles, file_of, table_names

if TYPE_CHECKING:
    from sqlalchemy import Connection, PoolProxiedConnection

    from pyjms.spi.clock import Clock
    from pyjms_provider.stores.sql.batch import Batch, Row


_CHECKED_WHOLE: Final = 100_000_000
"""Up to how many bytes a database is checked as a whole: a second or less."""
_PATH: Final = 498
_NAME: Final = 241
"""How many bytes a path, and its last part, may have: SQLite takes 512, and file systems take 255, with what is put behind the name."""
_CONFIGURATION: Final = "pyjmsconf_meta"
"""The table that a file has in which a broker's configuration is."""
_LOG: Final = 4_000_000
"""The bytes of the write-ahead log at which it has been carried over into the database, and begins anew."""
_ROOM: Final = 25
"""So many logs must fit on the disk, or the log is left as it is."""


def open_sqlite(request: OpenRequest) -> tuple[SqliteDatabase, Paging, Meta]:
    """Return the database, held, and how it was left. Raises as `open_journal`."""
    holder, path = describe_holder(request.holder), file_of(request.url)
    _check_names(path)
    # Before the file is opened: two brokers that prepare one file at once could both believe that it is theirs.
    lock = FileLock(f"{path}.lock", holder)
    acquire(lock.acquire, request.clock, waits=request.waits, cancelled=request.cancelled)
    try:
        with ExitStack() as undo:
            undo.callback(lock.release)
            files = OpenFiles(path, lock)
            # This connection reads only. The engine's connections switch the file to a log
            # of its own, which a foreign file must not get.
            first = files.connect(timeout=BUSY_MS / 1000)
            undo.callback(_let_go, first, files)
            _refuse_others(table_names(first), path, is_shared=request.is_shared)
            engine = make_engine(request.url.set(database=path), files)
            undo.callback(engine.dispose)
            meta = _prepare(engine, files, holder, request)
            if request.synchronous is Synchronous.FULL:
                _lengthen_log(engine, path)
            paging = _open_paging(path, request)
            undo.callback(paging.close)
            database = SqliteDatabase(
                engine, files, lock, request.synchronous, request.clock, keep_free_bytes=request.keep_free_bytes
            )
            # The writer is open before `first` closes: the last connection to close
            # deletes the log, and its length with it.
            database.open_writer()
            first.close()
            # From here on the database owns all of it, and its `close` undoes it.
            undo.pop_all()
    except SqliteDatabase.errors as error:
        raise understand(error, path) from error
    return database, paging, meta


def _let_go(first: sqlite3.Connection, files: OpenFiles) -> None:
    """Close the last connection to a store that is not opened."""
    if files.has_failed:
        # SQLite then copies nothing into the database, and the log stays for the broker that opens the file next.
        first.interrupt()
    first.close()


def _refuse_others(names: set[str], path: str, *, is_shared: bool) -> None:
    """Raise `ForeignStoreError` if the tables of a file are those of others, or of a broker's configuration."""
    if _CONFIGURATION in names:
        word = shlex.quote(path)
        raise ForeignStoreError(
            f"{path} has the configuration of a broker, and its messages cannot be there, too: name another file for one of them. If it "
            f"has both, copy the configuration: sqlite3 {word} \".dump 'pyjmsconf_%'\" | sqlite3 NEW-FILE; then remove "
            f"it here: sqlite3 {word} 'DROP TABLE pyjmsconf_object; DROP TABLE {_CONFIGURATION}'"
        )
    if t.META.name not in names:
        refuse_foreign(names, path, is_shared=is_shared)


def _check_names(path: str) -> None:
    """Find that it is no file, or one with two names: neither the lock of one nor SQLite's log is known to who comes by the other.

    Or a name that is too long for what comes beside it, of which SQLite would only say that it cannot be opened.
    """
    for kind, name, most in ("path", path, _PATH), ("name", Path(path).name, _NAME):
        if (size := len(os.fsencode(name))) > most:
            raise UnusableStoreError(
                f"{path} cannot be a store: the {kind} has {size} bytes, and {most} is the most, as other files are made beside it. Choose a shorter one"
            )
    try:
        found = Path(path).stat()
    except OSError:
        # A new file, or one that SQLite reports better than this function could.
        return
    if not stat.S_ISREG(found.st_mode):
        raise UnusableStoreError(
            f"{path} is not a file, but a directory or a device; name a file, which may be a new one"
        )
    if found.st_nlink > 1:
        raise UnusableStoreError(
            f"{path} has another name (a hard link), by which others could write it at the same time and damage it. "
            f"Delete the other name; a copy is made with: sqlite3 {shlex.quote(path)} \"VACUUM INTO 'COPY'\""
        )


def _check_length(connection: Connection, path: str) -> None:
    """Find that a file was cut short, unless the missing pages are in the write-ahead log.

    SQLite is asked what the header says: whoever opened and closed the file to read it would free all locks that this process
    has there, also those of an application's connections.
    """
    with suppress(FileNotFoundError):
        # After an unclean end the file may be shorter than its header says, until a checkpoint copies the log's pages.
        if Path(f"{path}-wal").stat().st_size:
            return
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    size, expected = Path(path).stat().st_size, pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one()
    if size < expected:
        raise damaged(path, f"was cut short: it has {size} of {expected} bytes")


def _prepare(engine: Engine, files: OpenFiles, holder: str, request: OpenRequest) -> Meta:
    path = files.path
    with engine.begin() as connection:
        _check_length(connection, path)
        was_clean = prepare_schema(connection, path, is_shared=request.is_shared)
    # The last broker may have ended because the disk failed, so its log is repaired as after a failure.
    files.has_failed = not was_clean
    with engine.connect().execution_options(**SqliteDatabase.reading_options) as connection:
        found = _check(connection, Path(path).stat().st_size)
    if found is not None:
        raise damaged(path, f"is damaged: {' '.join(found.split())}")
    if not was_clean:
        # Another program may be running a checkpoint just now; a stand-by broker waits for it as it does for a holder.
        acquire(lambda: _repair_log(engine, files), request.clock, waits=request.waits, cancelled=request.cancelled)
    with engine.begin() as connection:
        # Last: a file that is refused above keeps the mark of a clean end that its last broker left.
        return take(connection, holder, SqliteDatabase.opening_of)


def _repair_log(engine: Engine, files: OpenFiles) -> None:
    """Mend the log of a store that was not closed. Raises `HeldStoreError` while another program carries it over, and `StoreError`."""
    with engine.begin():
        try:
            files.repair_log()
        except UnavailableStoreError as error:
            raise HeldStoreError(error.reason) from error


def _check(connection: Connection, size: int) -> str | None:
    """Return what is wrong with the database, or None.

    An application's tables are its own, whether the URL says that they may be there or not: they may be sorted by what only its program knows, or have rows
    that break its rules, and cannot be checked here then.
    """
    # For a large table of messages the check would take many seconds at each
    # start, and recovery reads all its rows anyway.
    is_small = size <= _CHECKED_WHOLE
    ours = [name for name in t.SCHEMA.tables if is_small or name != t.MESSAGE.name]
    driver: Any = connection.connection.driver_connection
    is_whole = is_small and table_names(driver) <= set(ours)
    for table in ("1",) if is_whole else [f"'{name}'" for name in ours]:
        answer = connection.exec_driver_sql(f"PRAGMA quick_check({table})").scalar()
        if answer != "ok":
            return str(answer)
    return None


def _lengthen_log(engine: Engine, path: str) -> None:
    """Have the write-ahead log grow once, now, and not with each of the first thousand commits.

    Forcing a write is cheaper when the file does not become longer by it: 1.1 to 1.6 times as many commits a second. A
    transaction that is rolled back leaves the length, and nothing else.
    """
    # A longer log is only faster; on a full disk the space is worth more to messages.
    if shutil.disk_usage(Path(path).parent).free < _ROOM * _LOG:
        return
    lent = engine.raw_connection()
    cursor = lent.cursor()
    (pages,) = cursor.execute("PRAGMA cache_size").fetchone()
    try:
        # A cache of ten pages: what does not fit is written to the log at once, committed or not.
        cursor.execute("PRAGMA cache_size=10")
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute("CREATE TABLE pyjms_scratch (filling BLOB)")
        cursor.execute("INSERT INTO pyjms_scratch VALUES (zeroblob(?))", (_LOG,))
    except sqlite3.Error:
        # The store works without; a bad disk is reported to the first writer.
        pass
    finally:
        lent.rollback()
        # The connection goes back to the pool, and must read with the usual cache again.
        cursor.execute(f"PRAGMA cache_size={pages}")
        lent.close()


def _open_paging(path: str, request: OpenRequest) -> Paging:
    """Make the file for paged-out messages, beside the database, as temporary directories may be in memory."""
    paged = f"{path}-paged"

    def remove() -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{paged}{suffix}").unlink(missing_ok=True)

    # Paged-out messages do not outlive their broker, so a file of that name is what a broker left that was killed.
    try:
        remove()
    except OSError as error:
        raise UnusableStoreError(
            f"{error.filename} is left of a broker that has ended, and cannot be removed: {error.strerror}; remove it"
        ) from error
    files = OpenFiles(paged)
    # Never forced, as nothing in it survives a restart anyway.
    engine = make_engine(request.url.set(database=paged), files, synchronous="OFF")
    with engine.begin() as connection:
        t.PAGED.create(connection)
    database = SqliteDatabase(
        engine, files, None, Synchronous.OFF, request.clock, keep_free_bytes=request.keep_free_bytes
    )
    return Paging(database, remove)


# Whether a disk has room for more messages: the last of it is left for acknowledging those that are there.

_log = logging.getLogger("pyjms.store")

BELIEVED_MS: Final = 100
"""For so long what was seen is believed, and until the next look at the files. To look at each write would cost as much as to encode a message."""
_MB: Final = 1_000_000


class DiskSpace:
    """What is left on the disk of one database. Used by who writes, one thread at a time.

    SQLite needs room to delete, too: for its log, and to carry that over. A disk that messages had filled to the last byte
    could not be emptied by receiving them.
    """

    def __init__(self, path: str, keep_free_bytes: int) -> None:
        """`keep_free_bytes`: so much is left; 0: nothing, and nobody looks."""
        self._path = path
        self._keep_free_bytes = keep_free_bytes
        self.looked_ms = -math.inf if keep_free_bytes else math.inf
        """When somebody has looked last, by the broker's clock."""
        self.is_short = False
        """Whether messages are to be refused."""
        self._room_within = 0
        """How many bytes of the file were free when the disk was found short last."""

    def look(self, now_ms: float, cursor: sqlite3.Cursor | None) -> None:
        """See how much there is. `cursor`: of a connection to the database; None: there is none."""
        # Noted before the look: a failing look is repeated after `BELIEVED_MS`, and not with each write.
        self.looked_ms = now_ms
        was_short, self.is_short = self.is_short, self._is_short(cursor)
        if self.is_short and not was_short:
            _log.warning("PYJMS-STORE-7 %s", self.error().reason)
        elif was_short and not self.is_short:
            _log.info("PYJMS-STORE-7 the disk of %s has room for messages again", self._path)

    def check(self, cursor: sqlite3.Cursor) -> None:
        """Look for who writes by another connection, that of `cursor`. Raises `StoreError` if messages are to be refused. Any thread."""
        if self._keep_free_bytes and self._is_short(cursor):
            raise self.error()

    def is_low(self) -> bool:
        """Return whether messages would be refused now, for who watches: nobody may have written since. Any thread."""
        try:
            return max(shutil.disk_usage(Path(self._path).parent).free, self._room_within) < self._keep_free_bytes
        except OSError:
            # As in `_is_short`: the next writer is told what is wrong with the disk.
            return False

    def check_room(self, size: int) -> None:
        """Look whether what is about to be written has room, of so many bytes, in the log and once more in the database. Raises `StoreError`.

        For what may be larger than all that is left: SQLite would fill the disk with its log before it takes that back.
        """
        try:
            free = shutil.disk_usage(Path(self._path).parent).free
        except OSError:
            # As in `_is_short`: the next writer is told what is wrong with the disk.
            return
        if self._keep_free_bytes and free < 2 * size + self._keep_free_bytes:
            raise StoreError(
                f"the disk of {self._path} has no room for a transaction of {size / _MB:.0f} MB: it needs twice that, beside the "
                f"{self._keep_free_bytes / _MB:g} MB that are kept for acknowledging messages (keep_free), and {free / _MB:.0f} MB are left; "
                "nothing was written. Make room, or send less in a transaction"
            )

    def _is_short(self, cursor: sqlite3.Cursor | None) -> bool:
        try:
            free = shutil.disk_usage(Path(self._path).parent).free
            if free >= self._keep_free_bytes or cursor is None:
                return free < self._keep_free_bytes
            (pages,) = cursor.execute("PRAGMA freelist_count").fetchone()
            (page_bytes,) = cursor.execute("PRAGMA page_size").fetchone()
            # Pages of deleted messages are free within the file: on a full disk
            # they take new messages without growing it.
            self._room_within = pages * page_bytes
        except (OSError, sqlite3.Error):
            # The disk could not be asked; the write that follows reports its own error.
            return False
        return self._room_within < self._keep_free_bytes

    def error(self) -> StoreError:
        """Return why a message is refused."""
        return StoreError(
            f"the disk of {self._path} is full: less than {self._keep_free_bytes / _MB:g} MB are left, which are kept for "
            "acknowledging messages (keep_free); nothing was written. Make room, or receive messages, and try again"
        )


BUSY_MS: Final = 5000
"""How long to wait for a lock that another program has on the database."""
# Three `os.stat` in ten milliseconds are 0.2 % of the writer's time at most. A second instead would gain as little, and
# lose a second's messages when somebody deletes the file.
CHECK_MS: Final = 10
"""For so long it is believed that the file is still where it was."""
_TOGETHER: Final = 64
"""So many messages at most are added by one statement: more threads seldom wait together."""
_PAGE: Final = 4096
_LONGEST_LOG: Final = 64_000_000
"""The log is cut to so many bytes when it begins anew: a large transaction, or one that was taken back, would have the disk for as long as the broker runs."""
_OPENING: Final = "SELECT epoch, holder, (SELECT file FROM pragma_database_list WHERE name = 'main') FROM pyjms_meta"
_NO_SUCH_NAME: Final = re.compile(r"^no such (table|column): |has no column named ")
_LEVELS: Final = {
    Synchronous.FULL: ("FULL", "NORMAL"),
    Synchronous.NORMAL: ("NORMAL",) * 2,
    Synchronous.OFF: ("OFF",) * 2,
}
"""PRAGMA synchronous for writes that are forced, and for others."""


def make_engine(
    url: URL,
    files: OpenFiles | None = None,
    *,
    synchronous: str = "NORMAL",
    erases: bool = False,
    checkpoints_in_commits: bool = False,
) -> Engine:
    """Return an engine whose connections begin transactions when they are told to, and share a write-ahead log.

    `files` says which files these stay. `erases`: what is deleted is overwritten also where that needs a page to be written for nothing else.
    `checkpoints_in_commits`: SQLite carries the log over within commits. It tells nobody when the disk fails there, so it is for files that have nothing of a store's in them
    but what is written by this engine, with one connection at a time.
    """
    # Readers are handed from thread to thread, one thread at a time, which the driver's own check would refuse.
    options = {"timeout": BUSY_MS / 1000, "check_same_thread": False}
    engine = create_engine(url, connect_args=options, **POOL_OPTIONS)
    connect = (files or OpenFiles(str(url.database))).connect

    @event.listens_for(engine, "do_connect")
    def make(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> sqlite3.Connection:
        return connect(**options)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        # The driver begins no transactions by itself, as BEGIN IMMEDIATE must be the first statement of a write.
        connection.isolation_level = None
        cursor = connection.cursor()
        # In this mode readers go on while the writer commits, and a commit forces one file, once.
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA synchronous={synchronous}")
        cursor.execute(f"PRAGMA secure_delete={'ON' if erases else 'FAST'}")
        if not checkpoints_in_commits:
            # SQLite tells nobody when the disk fails in a checkpoint of its own; `Checkpoints` makes them.
            cursor.execute("PRAGMA wal_autocheckpoint=0")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        begins = connection.get_execution_options().get("sqlite_begin", "BEGIN IMMEDIATE")
        connection.exec_driver_sql(begins)

    return engine


class SqliteDatabase(Database):
    """One file. It stays the same file: one that was moved or deleted in the meantime is not written any more."""

    name: ClassVar[str] = "sqlite"
    is_local: ClassVar[bool] = True
    has_one_writer: ClassVar[bool] = True
    reading_options: ClassVar[Mapping[str, str]] = {"sqlite_begin": "BEGIN"}
    errors = (sqlite3.Error, SQLAlchemyError, OverflowError, ValueError, TypeError)

    def __init__(
        self,
        engine: Engine,
        files: OpenFiles,
        lock: FileLock | None,
        synchronous: Synchronous,
        clock: Clock,
        *,
        keep_free_bytes: int = 0,
    ) -> None:
        """`keep_free_bytes`: messages are refused while less than this is left on the disk."""
        super().__init__(engine, files.path)
        self._path = path = files.path
        self._lock = lock
        self._clock = clock
        self._checked_ms = -math.inf
        self._forced, self._unforced = _LEVELS[synchronous]
        self._level = "NORMAL"
        self._add_message = self.statements.add_message
        self._adding_several: dict[int, str] = {}
        self._growing = frozenset({self.statements.add_message, self.statements.add_paged})
        self._space = DiskSpace(path, keep_free_bytes)
        self._writer: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        """The one that writes; None: there is no connection."""
        self._lent: PoolProxiedConnection | None = None
        self._files = files
        self._checkpoints = Checkpoints(files, synchronous=self._unforced)

    def commit(self, batch: Batch, *, force: bool) -> None:
        steps = batch.steps(self)
        # A batch without rows is no transaction: SQLite would force nothing for it.
        if steps:
            self._write(steps, self._forced if force else self._unforced, self._pages(steps))

    def add_messages(self, rows: Sequence[Row]) -> None:
        size = len(rows[0][-1]) if len(rows) == 1 else sum([len(row[-1]) for row in rows])
        self._write(((self._add_message, rows),), self._forced, 2 + len(rows) // 2 + size // _PAGE)

    def _write(self, steps: Sequence[tuple[str, Collection[Row]]], level: str, pages: int) -> None:
        """Execute statements with their rows in one transaction, at this level of PRAGMA synchronous. `pages`: of the log, as `_pages`."""
        now_ms = self._clock.monotonic_ms()
        # Before anything is written: a file that was moved or replaced is not this broker's any more.
        if now_ms - self._checked_ms >= CHECK_MS:
            self._check_file(now_ms)
        # Only what adds messages is refused: acknowledgements must go on, as they are what makes room.
        if self._space.is_short and self._grow(steps):
            raise self._space.error()
        for _, rows in steps:
            if type(rows) is PagedRows:
                self._space.check_room(rows.size)
        try:
            cursor = self._cursor or self.open_writer()
            # Before this commit: behind a hole in the log it would be confirmed,
            # and lost with the power (decision 0108).
            if self._files.has_failed:
                self._repair_log(cursor)
            # The level is a property of the connection, and the PRAGMA would cost
            # as much as a small statement each time.
            if level != self._level:
                cursor.execute(f"PRAGMA synchronous={level}")
                self._level = level
            statement, rows = steps[0]
            if len(steps) > 1 or type(rows) is PagedRows:
                # IMMEDIATE takes the write lock now: a transaction that reads first could fail
                # when it goes on to write (SQLITE_BUSY_SNAPSHOT).
                cursor.execute("BEGIN IMMEDIATE")
                for statement, rows in steps:
                    cursor.executemany(statement, rows)
                cursor.execute("COMMIT")
            elif len(rows) == 1:
                # One statement outside a transaction is a transaction of its own,
                # and costs one statement in place of three.
                cursor.execute(statement, *rows)
            elif len(rows) <= _TOGETHER and statement is self._add_message:
                self._add_together(cursor, rows)
            else:
                cursor.execute("BEGIN IMMEDIATE")
                cursor.executemany(statement, rows)
                cursor.execute("COMMIT")
            # After the commit: a checkpoint that fails does not concern what was written.
            self._checkpoints.wrote(pages, cursor)
        except self.errors as error:
            # Before `understand`, whose errors say that nothing was written: after
            # a failed fsync the log may have the commit.
            if self.leaves_doubt(error):
                raise InDoubtError(
                    f"the disk of {self._path} failed when it was to keep what was written ({error}), so it is not known whether that is kept; "
                    "look after the disk"
                ) from error
            raise self.understand(error) from error
        finally:
            # An open transaction would keep all others from writing, also one that a second signal has ended.
            if self._writer is not None and self._writer.in_transaction:
                self._roll_back(self._writer)

    def _pages(self, steps: Sequence[tuple[str, Collection[Row]]]) -> int:
        """Return about how many pages of the log these steps took."""
        pages = 2
        for statement, rows in steps:
            pages += len(rows) // 2
            if statement in self._growing:
                pages += (rows.size if type(rows) is PagedRows else sum([len(row[-1]) for row in rows])) // _PAGE
        return pages

    def _repair_log(self, cursor: sqlite3.Cursor) -> None:
        # This takes the write lock: an application may write the same file, and the log must not change meanwhile.
        cursor.execute("BEGIN IMMEDIATE")
        self.repair_log()
        cursor.execute("ROLLBACK")

    def repair_log(self) -> None:
        # The log of this name may be another program's by now, and must not be written over.
        self._files.look()
        if self._files.has_failed:
            self._files.repair_log()

    def detect_failed_checkpoint(self) -> None:
        self._files.may_checkpoint()

    def _grow(self, steps: Sequence[tuple[str, Collection[Row]]]) -> bool:
        """Return whether these steps add messages."""
        return any(statement in self._growing for statement, _ in steps)

    @property
    def trouble(self) -> str | None:
        return self._space.error().reason if self._space.is_low() else None

    def check_space(self, connection: Connection, steps: Sequence[tuple[str, Collection[Row]]]) -> None:
        if self._grow(steps):
            lent: Any = connection.connection.driver_connection
            self._space.check(lent.cursor())

    def _add_together(self, cursor: sqlite3.Cursor, rows: Collection[Row]) -> None:
        # Python's interpreter may change hands with each statement, with each row of `executemany`, and once more in
        # `execute`, which asks for the last row's id.
        count = len(rows)
        # One statement text for each number of rows, as the driver caches compiled statements by their text.
        text = self._adding_several.get(count)
        if text is None:
            head, values, one = self._add_message.rpartition(" VALUES ")
            text = self._adding_several[count] = head + values + ", ".join([one] * count)
        cursor.executemany(text, ([value for row in rows for value in row],))

    def open_writer(self) -> sqlite3.Cursor:
        """Open the connection that writes, and return its cursor."""
        connection = self.engine.raw_connection()
        writer: sqlite3.Connection = connection.driver_connection  # type: ignore[assignment]
        connection.detach()
        # The pool closes a connection that nothing refers to, also one that was detached.
        self._lent = connection
        self._writer, self._level = writer, "NORMAL"
        self._cursor = writer.cursor()
        self._cursor.execute(f"PRAGMA journal_size_limit={_LONGEST_LOG}")
        # Now that a connection is open, the log exists; from here on it must stay the same file.
        self._files.watch_log()
        return self._cursor

    def _roll_back(self, writer: sqlite3.Connection) -> None:
        """Take back what was not committed. If even that fails the connection is thrown away, which does the same."""
        try:
            writer.execute("ROLLBACK")
        except sqlite3.Error:
            self._close_writer()

    def _close_writer(self) -> None:
        writer, self._writer, self._cursor, self._lent = self._writer, None, None, None
        if writer is not None:
            if not self._files.has_log():
                # SQLite then copies nothing into the database. It deletes a log of that
                # name only if the database has all of this one.
                writer.interrupt()
            self._files.unwatch_log()
            with suppress(sqlite3.Error):
                writer.close()

    def _check_file(self, now_ms: float) -> None:
        self._files.look()
        if now_ms - self._space.looked_ms >= BELIEVED_MS:
            self._space.look(now_ms, self._cursor)
        self._checked_ms = now_ms

    @contextmanager
    def reading(self, *, is_beginning: bool = False) -> Iterator[Connection]:
        with super().reading(is_beginning=is_beginning) as connection:
            driver: Any = connection.connection.driver_connection
            driver.text_factory = partial(str, encoding="utf-8", errors=UNDECODABLE)
            yield connection

    def stream(self, lent: PoolProxiedConnection, cursors: ExitStack) -> Callable[[str], Iterator[Row]]:
        connection: Any = lent.driver_connection
        # a damaged file may have text anywhere, and the driver fails at what is not UTF-8
        connection.text_factory = bytes
        # One read transaction for all queries, so that messages and entries are of the same state.
        connection.execute("BEGIN")
        return lambda query: iter(connection.execute(query))

    @staticmethod
    def opening_of(connection: Connection) -> tuple[object, ...]:
        found = connection.exec_driver_sql(_OPENING).first()
        try:
            # The inode is part of it: a copy of the file has the same epoch and holder, and is another store.
            file = Path(found[-1]).stat() if found else None
        except OSError:
            file = None
        return () if found is None or file is None else (*found[:-1], file.st_dev, file.st_ino)

    def leaves_doubt(self, error: BaseException | None) -> bool:
        # The log has the whole transaction: the next opening finds it there, unless something else is written before.
        return self._files.note(error)

    def understand(self, error: Exception) -> StoreError:
        return understand(error, self._path)

    def close(self) -> None:
        # First, so that no thread copies the log while the last connection decides about it.
        self._checkpoints.close()
        self.close_readers()
        # Last: the last connection copies the log into the database and deletes it, and
        # a writer's connection could keep it from that.
        self.detect_failed_checkpoint()
        # With the level OFF nothing need survive a loss of power, so there is nothing to repair.
        if self._files.has_failed and self._forced != "OFF":
            self._repair_at_end()
        self._close_writer()
        if self._lock is not None:
            # Last: another broker may open the file as soon as the lock is free.
            self._lock.release()

    def _repair_at_end(self) -> None:
        try:
            self._repair_log(self._cursor or self.open_writer())
        except (*self.errors, StoreError):
            if self._writer is not None:
                with suppress(sqlite3.Error):
                    self._writer.rollback()
                # SQLite then copies nothing into the database, and the log stays
                # for the broker that opens the file next.
                self._writer.interrupt()


def damaged(path: str, what: str, *, has_messages: bool = True) -> DamagedStoreError:
    """Return the error about a file that is damaged. `what`: how; `has_messages`: it is a store of messages."""
    salvage = (
        f", or save what can be read with: pyjms broker salvage {shlex.quote(path)} NEW-FILE" if has_messages else ""
    )
    return DamagedStoreError(f"{path} {what}. Put a backup in its place{salvage}")


def understand(error: Exception, path: str, *, has_messages: bool = True) -> StoreError:
    """Return what an error of SQLite on the file `path` means. `has_messages`: as for `damaged`."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    # The low byte is the primary code; the rest says where in SQLite it happened.
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return DamagedStoreError(
            f"{path} is no database of SQLite, or its beginning was overwritten: nothing of it can be read. Name another file, which may "
            "be a new one, or put a backup in its place"
        )
    # what is wrong with a name in the schema is found by nothing but the statement that needs it
    if code == sqlite3.SQLITE_CORRUPT or _NO_SUCH_NAME.search(str(cause)):
        return damaged(path, f"is damaged: {cause}", has_messages=has_messages)
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}:
        return UnusableStoreError(
            f"{path} cannot be opened or written: {cause}. The file and its directory must exist, and be writable by this user, as must the "
            "-wal and -shm beside it if they are there; or this process has too many files open (ulimit -n)"
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"the disk of {path} is full; nothing was written. Make room, and try again")
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return UnavailableStoreError(
            f"{path} is locked by another program for more than {BUSY_MS / 1000:g} s; nothing was written. End its "
            "transaction, and try again"
        )
    return StoreError(f"{path}: {cause}; nothing was written")
