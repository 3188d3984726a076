"""SQLite: a file with a write-ahead log and a lock file; one connection writes, others read."""

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
"""The largest size in bytes at which the whole database is checked: this takes at most a second."""
_PATH: Final = 498
_NAME: Final = 241
"""The longest path and file name in bytes: SQLite allows 512, and file systems 255, including suffixes such as that of the log."""
_CONFIGURATION: Final = "pyjmsconf_meta"
"""The table by which a file with a broker's configuration is recognized."""
_LOG: Final = 4_000_000
"""The usual length in bytes of the write-ahead log at a restart after a checkpoint."""
_ROOM: Final = 25
"""The log is not lengthened in advance if the free space on the disk is less than this many logs."""


def open_sqlite(request: OpenRequest) -> tuple[SqliteDatabase, Paging, Meta]:
    """Open and lock the database; return it with its paging and its meta data. Raises as `open_journal`."""
    holder, path = describe_holder(request.holder), file_of(request.url)
    _check_names(path)
    # Before the file is opened: two brokers that prepare it at once could both believe that they hold it.
    lock = FileLock(f"{path}.lock", holder)
    acquire(lock.acquire, request.clock, waits=request.waits, cancelled=request.cancelled)
    try:
        with ExitStack() as undo:
            undo.callback(lock.release)
            files = OpenFiles(path, lock)
            # This connection only reads. The engine's connections switch the file to a write-ahead
            # log, which must not happen to a foreign file.
            first = files.connect(timeout=BUSY_MS / 1000)
            undo.callback(_close_first, first, files)
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
            # The writer is opened before `first` is closed: the close of the last connection
            # would delete the lengthened log.
            database.open_writer()
            first.close()
            # From here on the database owns all of these resources, and its `close` releases them.
            undo.pop_all()
    except SqliteDatabase.errors as error:
        raise understand(error, path) from error
    return database, paging, meta


def _close_first(first: sqlite3.Connection, files: OpenFiles) -> None:
    """Close the last connection after a failed opening."""
    if files.has_failed:
        # After an interrupt SQLite runs no checkpoint, and the log stays for the broker that opens the file next.
        first.interrupt()
    first.close()


def _refuse_others(names: set[str], path: str, *, is_shared: bool) -> None:
    """Raise `ForeignStoreError` if the file has tables of other applications, or of a broker's configuration."""
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
    """Raise `UnusableStoreError` if the path is too long, no file, or a file with several names (hard links).

    A program that uses another name finds neither the lock file nor SQLite's log. Of a path that is too long for the files beside it,
    SQLite would only say that it cannot be opened.
    """
    for kind, name, most in ("path", path, _PATH), ("name", Path(path).name, _NAME):
        if (size := len(os.fsencode(name))) > most:
            raise UnusableStoreError(
                f"{path} cannot be a store: the {kind} has {size} bytes, and {most} is the most, as other files are made beside it. Choose a shorter one"
            )
    try:
        found = Path(path).stat()
    except OSError:
        # A new file, or an error that SQLite reports better.
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
    """Raise `DamagedStoreError` if the file was truncated, unless the missing pages may be in the write-ahead log.

    The header is read by SQLite: opening and closing the file here would release all locks of this process on it, including those of
    an application's connections.
    """
    with suppress(FileNotFoundError):
        # After an unclean end the file may be shorter than its header says, until a checkpoint copies pages of the log.
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
        # Another program may just be running a checkpoint; a stand-by broker waits for it as for a holder.
        acquire(lambda: _repair_log(engine, files), request.clock, waits=request.waits, cancelled=request.cancelled)
    with engine.begin() as connection:
        # Last: if the file is refused above, it is still marked as closed cleanly by its last broker.
        return take(connection, holder, SqliteDatabase.opening_of)


def _repair_log(engine: Engine, files: OpenFiles) -> None:
    """Repair the log of a store that was not closed. Raises `HeldStoreError` while another program runs a checkpoint, and `StoreError`."""
    with engine.begin():
        try:
            files.repair_log()
        except UnavailableStoreError as error:
            raise HeldStoreError(error.reason) from error


def _check(connection: Connection, size: int) -> str | None:
    """Check the store's tables; return what is wrong with the database, or None.

    Other applications' tables are not checked, even without pyjms_shared: they may use collations that only the application defines, or
    have rows that violate its constraints.
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
    """Lengthen the write-ahead log in advance, instead of with each of the first thousand commits.

    Forcing a write is cheaper if the file does not grow: 1.1 to 1.6 times as many commits a second. The file is lengthened by a
    transaction that is rolled back, which has no other effect.
    """
    # A longer log only makes commits faster; on a nearly full disk messages need the space.
    if shutil.disk_usage(Path(path).parent).free < _ROOM * _LOG:
        return
    lent = engine.raw_connection()
    cursor = lent.cursor()
    (pages,) = cursor.execute("PRAGMA cache_size").fetchone()
    try:
        # A cache of ten pages: all other pages are written to the log immediately, before the commit.
        cursor.execute("PRAGMA cache_size=10")
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute("CREATE TABLE pyjms_scratch (filling BLOB)")
        cursor.execute("INSERT INTO pyjms_scratch VALUES (zeroblob(?))", (_LOG,))
    except sqlite3.Error:
        # The store works without it; a bad disk is reported to the first writer.
        pass
    finally:
        lent.rollback()
        # The connection goes back to the pool, and needs the usual cache again.
        cursor.execute(f"PRAGMA cache_size={pages}")
        lent.close()


def _open_paging(path: str, request: OpenRequest) -> Paging:
    """Create the file of paged-out messages, next to the database, as temporary directories may be in memory."""
    paged = f"{path}-paged"

    def remove() -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{paged}{suffix}").unlink(missing_ok=True)

    # Paged-out messages do not outlive their broker, so an existing file was left by a broker that was killed.
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


# Free space on the disk: new messages are refused while space is short, so that stored ones can still be acknowledged.

_log = logging.getLogger("pyjms.store")

BELIEVED_MS: Final = 100
"""How long a check of the disk is valid; it is repeated at the next check of the files after that. A check at each write would cost as much as encoding a message."""
_MB: Final = 1_000_000


class DiskSpace:
    """The free space on the disk of one database. Used by the writing thread, unless a method says otherwise.

    SQLite also needs space to delete: for its log, and for checkpoints. If messages could fill the disk to the last byte, receiving
    them could not empty it.
    """

    def __init__(self, path: str, keep_free_bytes: int) -> None:
        """`keep_free_bytes`: the reserved space; 0: none, and nothing is checked."""
        self._path = path
        self._keep_free_bytes = keep_free_bytes
        self.looked_ms = -math.inf if keep_free_bytes else math.inf
        """The time of the last check, by the broker's clock."""
        self.is_short = False
        """Whether messages are to be refused."""
        self._room_within = 0
        """The free bytes within the file when the disk was last found short."""

    def look(self, now_ms: float, cursor: sqlite3.Cursor | None) -> None:
        """Check the free space. `cursor`: of a connection to the database; None: there is none."""
        # Set before the check: a failing check is repeated after `BELIEVED_MS`, and not with each write.
        self.looked_ms = now_ms
        was_short, self.is_short = self.is_short, self._is_short(cursor)
        if self.is_short and not was_short:
            _log.warning("PYJMS-STORE-7 %s", self.error().reason)
        elif was_short and not self.is_short:
            _log.info("PYJMS-STORE-7 the disk of %s has room for messages again", self._path)

    def check(self, cursor: sqlite3.Cursor) -> None:
        """Check the free space for a write on another connection, that of `cursor`. Raises `StoreError` if messages are to be refused. Any thread."""
        if self._keep_free_bytes and self._is_short(cursor):
            raise self.error()

    def is_low(self) -> bool:
        """Return whether messages would be refused now. For monitoring: the last check may be old if nothing was written since. Any thread."""
        try:
            return max(shutil.disk_usage(Path(self._path).parent).free, self._room_within) < self._keep_free_bytes
        except OSError:
            # As in `_is_short`: the next writer is told what is wrong with the disk.
            return False

    def check_room(self, size: int) -> None:
        """Check that there is space for a transaction of `size` bytes, in the log and again in the database. Raises `StoreError`.

        For transactions that may be larger than the free space: SQLite would fill the disk with its log before it rolls back.
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
            # new messages can use them without growing it.
            self._room_within = pages * page_bytes
        except (OSError, sqlite3.Error):
            # The free space is unknown; the following write reports its own error.
            return False
        return self._room_within < self._keep_free_bytes

    def error(self) -> StoreError:
        """Return the error for refused messages."""
        return StoreError(
            f"the disk of {self._path} is full: less than {self._keep_free_bytes / _MB:g} MB are left, which are kept for "
            "acknowledging messages (keep_free); nothing was written. Make room, or receive messages, and try again"
        )


BUSY_MS: Final = 5000
"""How long to wait for another program's lock on the database."""
# Three `os.stat` in ten milliseconds take at most 0.2 % of the writer's time. One check a second would save no more than
# that, and lose the messages of a second if the file is deleted.
CHECK_MS: Final = 10
"""How long a check of the files is valid."""
_TOGETHER: Final = 64
"""The maximal number of messages added by one statement: seldom do more threads wait together."""
_PAGE: Final = 4096
_LONGEST_LOG: Final = 64_000_000
"""The length to which the log is truncated at a restart: otherwise a large transaction, even one rolled back, would occupy the disk as long as the broker runs."""
_OPENING: Final = "SELECT epoch, holder, (SELECT file FROM pragma_database_list WHERE name = 'main') FROM pyjms_meta"
_NO_SUCH_NAME: Final = re.compile(r"^no such (table|column): |has no column named ")
_LEVELS: Final = {
    Synchronous.FULL: ("FULL", "NORMAL"),
    Synchronous.NORMAL: ("NORMAL",) * 2,
    Synchronous.OFF: ("OFF",) * 2,
}
"""PRAGMA synchronous for forced writes, and for others."""


def make_engine(
    url: URL,
    files: OpenFiles | None = None,
    *,
    synchronous: str = "NORMAL",
    erases: bool = False,
    checkpoints_in_commits: bool = False,
) -> Engine:
    """Return an engine with a write-ahead log, whose connections begin transactions explicitly.

    `files` checks that the files are still the same. `erases`: deleted rows are overwritten even if this needs an extra write of a page.
    `checkpoints_in_commits`: SQLite runs checkpoints within commits. It does not report a failure of the disk there, so this is only for
    files that no store shares, and that this engine alone writes, with one connection at a time.
    """
    # A reader is used by several threads, one at a time, which the driver's own check would refuse.
    options = {"timeout": BUSY_MS / 1000, "check_same_thread": False}
    engine = create_engine(url, connect_args=options, **POOL_OPTIONS)
    connect = (files or OpenFiles(str(url.database))).connect

    @event.listens_for(engine, "do_connect")
    def make(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> sqlite3.Connection:
        return connect(**options)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        # The driver must not begin transactions itself, as BEGIN IMMEDIATE must be the first statement of a write.
        connection.isolation_level = None
        cursor = connection.cursor()
        # In this mode readers are not blocked by a commit, and a commit forces one file, once.
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA synchronous={synchronous}")
        cursor.execute(f"PRAGMA secure_delete={'ON' if erases else 'FAST'}")
        if not checkpoints_in_commits:
            # SQLite does not report a failure of the disk in an automatic checkpoint; `Checkpoints` runs them instead.
            cursor.execute("PRAGMA wal_autocheckpoint=0")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        begins = connection.get_execution_options().get("sqlite_begin", "BEGIN IMMEDIATE")
        connection.exec_driver_sql(begins)

    return engine


class SqliteDatabase(Database):
    """A store in one file. A file that was moved or deleted in the meantime is not written any more."""

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
        """The cursor of the writing connection; None: there is none."""
        self._lent: PoolProxiedConnection | None = None
        self._files = files
        self._checkpoints = Checkpoints(files, synchronous=self._unforced)

    def commit(self, batch: Batch, *, force: bool) -> None:
        steps = batch.steps(self)
        # For a batch without rows SQLite would force nothing.
        if steps:
            self._write(steps, self._forced if force else self._unforced, self._pages(steps))

    def add_messages(self, rows: Sequence[Row]) -> None:
        size = len(rows[0][-1]) if len(rows) == 1 else sum([len(row[-1]) for row in rows])
        self._write(((self._add_message, rows),), self._forced, 2 + len(rows) // 2 + size // _PAGE)

    def _write(self, steps: Sequence[tuple[str, Collection[Row]]], level: str, pages: int) -> None:
        """Execute statements with their rows in one transaction. `level`: of PRAGMA synchronous; `pages`: as `_pages` returns it."""
        now_ms = self._clock.monotonic_ms()
        # Before anything is written: a file that was moved or replaced no longer belongs to this broker.
        if now_ms - self._checked_ms >= CHECK_MS:
            self._check_file(now_ms)
        # Only new messages are refused: acknowledgements must go on, as they free space.
        if self._space.is_short and self._grow(steps):
            raise self._space.error()
        for _, rows in steps:
            if type(rows) is PagedRows:
                self._space.check_room(rows.size)
        try:
            cursor = self._cursor or self.open_writer()
            # Before this commit: after a hole in the log it would be confirmed,
            # but lost at a power failure (decision 0108).
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
                # at its first write (SQLITE_BUSY_SNAPSHOT).
                cursor.execute("BEGIN IMMEDIATE")
                for statement, rows in steps:
                    cursor.executemany(statement, rows)
                cursor.execute("COMMIT")
            elif len(rows) == 1:
                # A statement outside a transaction is its own transaction: one
                # statement is executed instead of three.
                cursor.execute(statement, *rows)
            elif len(rows) <= _TOGETHER and statement is self._add_message:
                self._add_together(cursor, rows)
            else:
                cursor.execute("BEGIN IMMEDIATE")
                cursor.executemany(statement, rows)
                cursor.execute("COMMIT")
            # After the commit, which a failing checkpoint does not affect.
            self._checkpoints.wrote(pages, cursor)
        except self.errors as error:
            # Before `understand`, whose errors say that nothing was written: after
            # a failed fsync the log may contain the commit.
            if self.leaves_doubt(error):
                raise InDoubtError(
                    f"the disk of {self._path} failed when it was to keep what was written ({error}), so it is not known whether that is kept; "
                    "look after the disk"
                ) from error
            raise self.understand(error) from error
        finally:
            # An open transaction, for instance one ended by a second signal, would block all other writers.
            if self._writer is not None and self._writer.in_transaction:
                self._roll_back(self._writer)

    def _pages(self, steps: Sequence[tuple[str, Collection[Row]]]) -> int:
        """Estimate the number of pages that these steps write to the log."""
        pages = 2
        for statement, rows in steps:
            pages += len(rows) // 2
            if statement in self._growing:
                pages += (rows.size if type(rows) is PagedRows else sum([len(row[-1]) for row in rows])) // _PAGE
        return pages

    def _repair_log(self, cursor: sqlite3.Cursor) -> None:
        # BEGIN IMMEDIATE takes the write lock: an application may write the same file, and the log must not change meanwhile.
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
        # The interpreter may switch threads at each statement, at each row of `executemany`, and once more in `execute`,
        # which reads the last row's id.
        count = len(rows)
        # The texts are cached by the number of rows, as the driver caches compiled statements by their text.
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
        # Referenced here, as the pool closes a connection without references, even a detached one.
        self._lent = connection
        self._writer, self._level = writer, "NORMAL"
        self._cursor = writer.cursor()
        self._cursor.execute(f"PRAGMA journal_size_limit={_LONGEST_LOG}")
        # While a connection is open, the log exists; from here on it must stay the same file.
        self._files.watch_log()
        return self._cursor

    def _roll_back(self, writer: sqlite3.Connection) -> None:
        """Roll back the open transaction. If this fails, close the connection, which has the same effect."""
        try:
            writer.execute("ROLLBACK")
        except sqlite3.Error:
            self._close_writer()

    def _close_writer(self) -> None:
        writer, self._writer, self._cursor, self._lent = self._writer, None, None, None
        if writer is not None:
            if not self._files.has_log():
                # After an interrupt SQLite runs no checkpoint at the close, and deletes the log of that
                # name only if the database already has all of this one.
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
        # A damaged file may have text anywhere, and the driver fails at text that is not UTF-8.
        connection.text_factory = bytes
        # One read transaction for all queries, so that messages and entries are consistent.
        connection.execute("BEGIN")
        return lambda query: iter(connection.execute(query))

    @staticmethod
    def opening_of(connection: Connection) -> tuple[object, ...]:
        found = connection.exec_driver_sql(_OPENING).first()
        try:
            # The inode is included: a copy of the file has the same epoch and holder, but is another store.
            file = Path(found[-1]).stat() if found else None
        except OSError:
            file = None
        return () if found is None or file is None else (*found[:-1], file.st_dev, file.st_ino)

    def leaves_doubt(self, error: BaseException | None) -> bool:
        # The log may contain the whole transaction: the next opening finds it, unless something else is written before.
        return self._files.note(error)

    def understand(self, error: Exception) -> StoreError:
        return understand(error, self._path)

    def close(self) -> None:
        # First, so that no checkpoint runs while the last connection is closed.
        self._checkpoints.close()
        self.close_readers()
        # The writer's connection is closed last: the last one copies the log into the database and
        # deletes it, which the writer's can prevent (`_repair_at_end`, `_close_writer`).
        self.detect_failed_checkpoint()
        # At the level OFF nothing need survive a power failure, so there is nothing to repair.
        if self._files.has_failed and self._forced != "OFF":
            self._repair_at_end()
        self._close_writer()
        if self._lock is not None:
            # Last, as another broker may open the file as soon as the lock is free.
            self._lock.release()

    def _repair_at_end(self) -> None:
        try:
            self._repair_log(self._cursor or self.open_writer())
        except (*self.errors, StoreError):
            if self._writer is not None:
                with suppress(sqlite3.Error):
                    self._writer.rollback()
                # After an interrupt SQLite runs no checkpoint at the close, and the log
                # stays for the broker that opens the file next.
                self._writer.interrupt()


def damaged(path: str, what: str, *, has_messages: bool = True) -> DamagedStoreError:
    """Return the error about a damaged file. `what`: the damage; `has_messages`: it is a store of messages, not a configuration."""
    salvage = (
        f", or save what can be read with: pyjms broker salvage {shlex.quote(path)} NEW-FILE" if has_messages else ""
    )
    return DamagedStoreError(f"{path} {what}. Put a backup in its place{salvage}")


def understand(error: Exception, path: str, *, has_messages: bool = True) -> StoreError:
    """Translate an error of SQLite about the file `path` into one that says what to do. `has_messages`: as for `damaged`."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    # The low byte is the primary code; the rest says where in SQLite it happened.
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return DamagedStoreError(
            f"{path} is no database of SQLite, or its beginning was overwritten: nothing of it can be read. Name another file, which may "
            "be a new one, or put a backup in its place"
        )
    # A damaged name in the schema is only noticed by a statement that needs it.
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
