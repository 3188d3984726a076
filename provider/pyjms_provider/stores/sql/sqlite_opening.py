"""Opening a file of SQLite."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import stat
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyjms_provider.settings import Synchronous
from pyjms_provider.stores.errors import (
    ForeignStoreError,
    HeldStoreError,
    UnavailableStoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.file_lock import FileLock, acquire, describe_holder
from pyjms_provider.stores.sql import tables as t
from pyjms_provider.stores.sql.paging import Paging
from pyjms_provider.stores.sql.schema import Meta, OpenRequest, prepare_schema, refuse_foreign, take
from pyjms_provider.stores.sql.sqlite import BUSY_MS, SqliteDatabase, damaged, make_engine, understand
from pyjms_provider.stores.sql.sqlite_files import OpenFiles, file_of, table_names

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

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
    lock = FileLock(f"{path}.lock", holder)
    acquire(lock.acquire, request.clock, waits=request.waits, cancelled=request.cancelled)
    try:
        with ExitStack() as undo:
            undo.callback(lock.release)
            files = OpenFiles(path, lock)
            first = files.connect(timeout=BUSY_MS / 1000)  # it changes nothing, as the next one does, which makes a log
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
            database.open_writer()  # now, as whoever closes the only connection takes the log away, and its length
            first.close()
            undo.pop_all()
    except SqliteDatabase.errors as error:
        raise understand(error, path) from error
    return database, paging, meta


def _let_go(first: sqlite3.Connection, files: OpenFiles) -> None:
    """Close the last connection to a store that is not opened."""
    if files.has_failed:
        first.interrupt()  # as `SqliteDatabase.close`: the log stays for who opens the file next
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
        return  # none there, or SQLite says it better
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
    files.has_failed = not was_clean  # for all that is known: who had it may have ended because the disk failed
    with engine.connect().execution_options(**SqliteDatabase.reading_options) as connection:
        found = _check(connection, Path(path).stat().st_size)
    if found is not None:
        raise damaged(path, f"is damaged: {' '.join(found.split())}")
    if not was_clean:
        acquire(lambda: _repair_log(engine, files), request.clock, waits=request.waits, cancelled=request.cancelled)
    with engine.begin() as connection:
        return take(connection, holder, SqliteDatabase.opening_of)


def _repair_log(engine: Engine, files: OpenFiles) -> None:
    """Mend the log of a store that was not closed. Raises `HeldStoreError` while another program carries it over, and `StoreError`."""
    with engine.begin():
        try:
            files.repair_log()
        except UnavailableStoreError as error:
            raise HeldStoreError(error.reason) from error


def _check(connection: Connection, size: int) -> str | None:
    """Return what is wrong with the database, or None. Recovery reads all rows of a large table of messages anyway.

    An application's tables are its own, whether the URL says that they may be there or not: they may be sorted by what only its program knows, or have rows
    that break its rules, and cannot be checked here then.
    """
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
    if shutil.disk_usage(Path(path).parent).free < _ROOM * _LOG:
        return
    lent = engine.raw_connection()
    cursor = lent.cursor()
    (pages,) = cursor.execute("PRAGMA cache_size").fetchone()
    try:
        cursor.execute("PRAGMA cache_size=10")  # what does not fit goes to the log, committed or not
        cursor.execute("BEGIN IMMEDIATE")
        cursor.execute("CREATE TABLE pyjms_scratch (filling BLOB)")
        cursor.execute("INSERT INTO pyjms_scratch VALUES (zeroblob(?))", (_LOG,))
    except sqlite3.Error:
        pass  # it goes without; if the disk is bad, whoever writes is told
    finally:
        lent.rollback()
        cursor.execute(f"PRAGMA cache_size={pages}")
        lent.close()


def _open_paging(path: str, request: OpenRequest) -> Paging:
    """Make the file for paged-out messages, beside the database, as temporary directories may be in memory."""
    paged = f"{path}-paged"

    def remove() -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{paged}{suffix}").unlink(missing_ok=True)

    try:
        remove()
    except OSError as error:
        raise UnusableStoreError(
            f"{error.filename} is left of a broker that has ended, and cannot be removed: {error.strerror}; remove it"
        ) from error
    files = OpenFiles(paged)
    engine = make_engine(request.url.set(database=paged), files, synchronous="OFF")
    with engine.begin() as connection:
        t.PAGED.create(connection)
    database = SqliteDatabase(
        engine, files, None, Synchronous.OFF, request.clock, keep_free_bytes=request.keep_free_bytes
    )
    return Paging(database, remove)
