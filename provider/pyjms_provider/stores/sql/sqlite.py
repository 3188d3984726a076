"""SQLite: a file with a write-ahead log, one connection that writes, others that read, and a lock file beside it."""

from __future__ import annotations

import logging
import math
import re
import shlex
import shutil
import sqlite3
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
    StoreError,
    UnavailableStoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.sql.batch import PagedRows
from pyjms_provider.stores.sql.database import POOL_OPTIONS, Database
from pyjms_provider.stores.sql.recovery import UNDECODABLE
from pyjms_provider.stores.sql.sqlite_files import Checkpoints, OpenFiles

if TYPE_CHECKING:
    from sqlalchemy import Connection, PoolProxiedConnection

    from pyjms.spi.clock import Clock
    from pyjms_provider.stores.file_lock import FileLock
    from pyjms_provider.stores.sql.batch import Batch, Row

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
            return False  # as below

    def check_room(self, size: int) -> None:
        """Look whether what is about to be written has room, of so many bytes, in the log and once more in the database. Raises `StoreError`.

        For what may be larger than all that is left: SQLite would fill the disk with its log before it takes that back.
        """
        try:
            free = shutil.disk_usage(Path(self._path).parent).free
        except OSError:
            return  # as below
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
            self._room_within = pages * page_bytes  # what was deleted
        except (OSError, sqlite3.Error):
            return False  # whoever writes is told what is wrong
        return self._room_within < self._keep_free_bytes

    def error(self) -> StoreError:
        """Return why a message is refused."""
        return StoreError(
            f"the disk of {self._path} is full: less than {self._keep_free_bytes / _MB:g} MB are left, which are kept for "
            "acknowledging messages (keep_free); nothing was written. Make room, or receive messages, and try again"
        )


BUSY_MS: Final = 5000
"""How long to wait for a lock that another program has on the database."""
# Three `os.stat` in ten milliseconds are 0.2 % of the writer's time at most. A second in place of that would gain as little, and lose
# a second's messages when somebody deletes the file.
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
    options = {"timeout": BUSY_MS / 1000, "check_same_thread": False}
    engine = create_engine(url, connect_args=options, **POOL_OPTIONS)
    connect = (files or OpenFiles(str(url.database))).connect

    @event.listens_for(engine, "do_connect")
    def make(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> sqlite3.Connection:
        return connect(**options)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA synchronous={synchronous}")
        cursor.execute(f"PRAGMA secure_delete={'ON' if erases else 'FAST'}")
        if not checkpoints_in_commits:
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
    reading_options: ClassVar[Mapping[str, str]] = {"sqlite_begin": "BEGIN"}  # so that others may write meanwhile
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
        if steps:
            self._write(steps, self._forced if force else self._unforced, self._pages(steps))

    def add_messages(self, rows: Sequence[Row]) -> None:
        size = len(rows[0][-1]) if len(rows) == 1 else sum([len(row[-1]) for row in rows])
        self._write(((self._add_message, rows),), self._forced, 2 + len(rows) // 2 + size // _PAGE)

    def _write(self, steps: Sequence[tuple[str, Collection[Row]]], level: str, pages: int) -> None:
        """Execute statements with their rows in one transaction, at this level of PRAGMA synchronous. `pages`: of the log, as `_pages`."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._checked_ms >= CHECK_MS:
            self._check_file(now_ms)
        if self._space.is_short and self._grow(steps):
            raise self._space.error()
        for _, rows in steps:
            if type(rows) is PagedRows:
                self._space.check_room(rows.size)
        try:
            cursor = self._cursor or self.open_writer()
            if self._files.has_failed:
                self._repair_log(cursor)
            if level != self._level:
                cursor.execute(f"PRAGMA synchronous={level}")
                self._level = level
            statement, rows = steps[0]
            if len(steps) > 1 or type(rows) is PagedRows:
                cursor.execute("BEGIN IMMEDIATE")
                for statement, rows in steps:
                    cursor.executemany(statement, rows)
                cursor.execute("COMMIT")
            elif len(rows) == 1:
                cursor.execute(statement, *rows)  # alone it is a transaction, and costs one statement in place of three
            elif len(rows) <= _TOGETHER and statement is self._add_message:
                self._add_together(cursor, rows)
            else:
                cursor.execute("BEGIN IMMEDIATE")
                cursor.executemany(statement, rows)
                cursor.execute("COMMIT")
            self._checkpoints.wrote(pages, cursor)
        except self.errors as error:
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
        cursor.execute("BEGIN IMMEDIATE")  # an application may write the same file
        self.repair_log()
        cursor.execute("ROLLBACK")

    def repair_log(self) -> None:
        self._files.look()  # the log of this name may be another program's
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
        self._lent = connection  # the pool would close what nobody refers to
        self._writer, self._level = writer, "NORMAL"
        self._cursor = writer.cursor()
        self._cursor.execute(f"PRAGMA journal_size_limit={_LONGEST_LOG}")
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
                writer.interrupt()  # SQLite then carries nothing over; it deletes a log of that name only if the database has all of this one
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
        connection.execute("BEGIN")
        return lambda query: iter(connection.execute(query))

    @staticmethod
    def opening_of(connection: Connection) -> tuple[object, ...]:
        found = connection.exec_driver_sql(_OPENING).first()
        try:
            file = Path(found[-1]).stat() if found else None
        except OSError:
            file = None
        return () if found is None or file is None else (*found[:-1], file.st_dev, file.st_ino)

    def leaves_doubt(self, error: BaseException | None) -> bool:
        # The log has it as a whole, and whoever opens the file next finds it there, unless something else is written before.
        return self._files.note(error)

    def understand(self, error: Exception) -> StoreError:
        return understand(error, self._path)

    def close(self) -> None:
        self._checkpoints.close()
        self.close_readers()
        # Last: the last connection carries the log over and takes it away, and who writes can keep it from that.
        self.detect_failed_checkpoint()
        if self._files.has_failed and self._forced != "OFF":  # then nothing of it need survive a loss of power
            self._repair_at_end()
        self._close_writer()
        if self._lock is not None:
            self._lock.release()

    def _repair_at_end(self) -> None:
        try:
            self._repair_log(self._cursor or self.open_writer())
        except (*self.errors, StoreError):
            if self._writer is not None:
                with suppress(sqlite3.Error):
                    self._writer.rollback()
                self._writer.interrupt()  # SQLite then carries nothing over, and the log stays for who opens the file next


def damaged(path: str, what: str, *, has_messages: bool = True) -> DamagedStoreError:
    """Return the error about a file that is damaged. `what`: how; `has_messages`: it is a store of messages."""
    salvage = (
        f", or save what can be read with: pyjms broker salvage {shlex.quote(path)} NEW-FILE" if has_messages else ""
    )
    return DamagedStoreError(f"{path} {what}. Put a backup in its place{salvage}")


def understand(error: Exception, path: str, *, has_messages: bool = True) -> StoreError:
    """Return what an error of SQLite on the file `path` means. `has_messages`: as for `damaged`."""
    cause = error.orig if isinstance(error, DBAPIError) else error
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
