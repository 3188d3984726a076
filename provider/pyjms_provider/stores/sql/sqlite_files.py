"""The files of an open SQLite database: checks that they are still the same, repairs the log, and runs checkpoints."""

from __future__ import annotations

import logging
import os
import sqlite3
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import UrlError
from pyjms_provider.forks import forget_in_children, let_go
from pyjms_provider.stores.errors import LostStoreError, StoreError, UnavailableStoreError, UnsupportedStoreError

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pyjms_provider.stores.file_lock import FileLock

# The index of a write-ahead log has a count of the pages of the log that were copied to the database (nBackfill). SQLite
# forces the database only when all of the log is copied. If that fails, Linux marks the pages that it could not write
# as written, and the next checkpoint copies only pages that are not counted. A counted page that was never forced would
# be lost at a power failure once the log has restarted. So the count is reset, and all of the log is copied again. The
# format is documented (https://www.sqlite.org/walformat.html, 2.1).

try:
    from fcntl import F_OFD_SETLK, F_UNLCK, F_WRLCK, fcntl

    _HAS_LOCKS = sys.platform == "linux"  # other systems have another layout of struct flock
except ImportError:  # not on this system
    _HAS_LOCKS = False


_LENGTH: Final = 16
"""The offset of mxFrame: the number of pages in the log since its last restart."""
_BACKFILLED: Final = 96
"""The offset of nBackfill: the number of pages copied to the database. Changed only with the checkpoint lock."""
_ATTEMPTED: Final = 128
"""The offset of nBackfillAttempted: the number of pages that the last checkpoint was to copy. If it is higher, that one failed, was interrupted, had no space, or is running."""
_CHECKPOINTS: Final = 121
"""The offset of the byte that a checkpoint locks."""
_ATTEMPTS: Final = 500
_PAUSE_S: Final = 0.01
_WHY: Final = "the disk has failed, or the store was not closed"
_T = TypeVar("_T")


class LogIndex:
    """The index of the write-ahead log of one database. Safe to use from any thread while this process has a connection to the database.

    It is accessed by SQLite's own descriptor: closing another one would release all locks of this process on the file. Locks are those
    of open file descriptions, used by one thread at a time: a lock of the process would not exclude its own connections, and releasing
    it would release theirs. Only Linux has such locks. Without them, or if ``/dev/fd`` does not list open files, nothing is read or
    changed here.
    """

    def __init__(self, path: str) -> None:
        """`path`: that of the database."""
        self._path = f"{path}-shm"
        self._found: int | None = None
        self._one_thread = Lock()
        """Serializes threads, as they share the lock of the descriptor: the first one to release it would release it for all."""

    def pages(self) -> int | None:
        """Return the number of pages in the log since its last restart; None: unknown on this system."""
        with suppress(StoreError, OSError, struct.error):
            # Read without the checkpoint lock: a wrong number only makes a checkpoint early or late.
            index = self._descriptor()
            return None if index is None else _number(index, _LENGTH)
        return None

    def reset_backfill(self, write_log: Callable[[], None] = lambda: None) -> None:
        """Make the next checkpoint copy all of the log, and call `write_log` while checkpoints are locked out. The caller has the write lock.

        Raises `StoreError`, and the errors of `write_log`.
        """
        index = self._descriptor()

        def repair(index: int) -> bool:
            self._reset_counts(index)
            write_log()
            return True

        try:
            if index is not None:
                for _ in range(_ATTEMPTS):
                    # The log is rewritten under the same lock: a checkpoint between
                    # the two would copy pages after the hole.
                    if self._with_checkpoint_lock(index, repair):
                        return
                    Signal().wait(_PAUSE_S)
                raise UnavailableStoreError(
                    f"{_WHY}, and somebody (this broker itself, or another program that has the database open) has been carrying the log "
                    f"{self._path.removesuffix('-shm')}-wal over for more than {_ATTEMPTS * _PAUSE_S:g} s; nothing was written. "
                    "Try again, or end that program"
                )
        except OSError:
            # This system or file system has no such locks.
            pass
        write_log()

    def _reset_counts(self, index: int) -> None:
        try:
            # Both, as SQLite itself does when the log restarts: if only one were
            # reset, it would look like a failure.
            for at in _BACKFILLED, _ATTEMPTED:
                os.pwrite(index, bytes(4), at)
        except OSError as error:
            raise StoreError(
                f"{_WHY}, and {self._path} cannot be written ({error.strerror}); nothing was written. Kill the broker, and start it again"
            ) from error

    def last_checkpoint_failed(self) -> bool | None:
        """Return whether the last checkpoint failed, or None while one is running. SQLite does not report failures of checkpoints within commits."""
        with suppress(StoreError, OSError, struct.error):
            index = self._descriptor()
            if index is not None:
                return self._with_checkpoint_lock(
                    index, lambda index: _number(index, _ATTEMPTED) > _number(index, _BACKFILLED)
                )
        return False

    def _with_checkpoint_lock(self, index: int, work: Callable[[int], _T]) -> _T | None:
        """Call `work` with the checkpoint lock, and return its result; None: a checkpoint is running. Raises `OSError` where there are no such locks."""
        unlock = _lock(F_UNLCK)
        # Around the unlock too: all threads share the lock of the descriptor,
        # and the first to unlock it would end it for all.
        with self._one_thread:
            try:
                return work(index) if _try_lock(index) else None
            finally:
                fcntl(index, F_OFD_SETLK, unlock)

    def _descriptor(self) -> int | None:
        """Return SQLite's descriptor of the index; None: there is no index, and so no log, or the system lacks such locks or ``/dev/fd``. Raises `StoreError`."""
        if not _HAS_LOCKS:
            return None
        try:
            expected = os.stat(self._path)  # noqa: PTH116 - a Path costs three times as much
        except FileNotFoundError:
            return None
        # Checked each time: SQLite may have closed its index since, and the number may belong to another file.
        if _is_open(self._found, expected):
            return self._found
        try:
            names = os.listdir("/dev/fd")  # noqa: PTH208 - the names are numbers, not paths
        except OSError:
            return None
        # SQLite does not expose its descriptors, and opening the file again would
        # release the locks of this process at the close.
        for name in names:
            if _is_open(int(name), expected):
                self._found = int(name)
                return self._found
        raise StoreError(
            f"{_WHY}, and {self._path} is not among the open files of this process in /dev/fd; nothing was written. "
            "Kill the broker, and start it again"
        )


def _is_open(descriptor: int | None, expected: os.stat_result) -> bool:
    try:
        return descriptor is not None and os.path.samestat(os.fstat(descriptor), expected)
    except OSError:
        return False


def _try_lock(index: int) -> bool:
    """Take the checkpoint lock; return False if a checkpoint is running. Raises `OSError` where there are no such locks."""
    try:
        fcntl(index, F_OFD_SETLK, _lock(F_WRLCK))
    # POSIX allows EAGAIN and EACCES for a lock that is held.
    except (BlockingIOError, PermissionError):
        return False
    return True


def _lock(kind: int) -> bytes:
    # The layout of struct flock on 64-bit Linux; the process id must be 0 for a lock of an open file description (fcntl(2)).
    return struct.pack("hhqqi0q", kind, os.SEEK_SET, _CHECKPOINTS, 1, 0)


def _number(index: int, at: int) -> int:
    (number,) = struct.unpack("=I", os.pread(index, 4, at))
    return int(number)


_BLOCK: Final = 1 << 18


def file_of(url: URL) -> str:
    """Return the canonical path of the file that a URL names. Raises `UrlError`, `UnsupportedStoreError`."""
    if url.host or url.port or url.username or url.password:
        example = f"{url.host}/{url.database or ''}".rstrip("/") if url.host else "shop.db"
        raise UrlError(
            f"SQLite has no server and no users: a file has three slashes before it, an absolute path four; write sqlite:///{example}"
        )
    path = url.database
    if not path or path == ":memory:" or path.startswith("file:"):
        raise UnsupportedStoreError("a store needs a file: write sqlite:///shop.db, or sqlite:////var/lib/shop.db")
    if "\0" in path:
        raise UrlError("the name of the store's file has a null character; leave it out")
    if url.query:
        raise UnsupportedStoreError(f"sqlite has no option {next(iter(url.query))!r} here; leave it out")
    # Without symbolic links: the lock and the log are named after the file, so it must be known by one name.
    return os.path.realpath(path)


def connect(path: str, *, may_create: bool = False, **options: Any) -> sqlite3.Connection:
    """Open a connection to an existing database; `options` are those of the driver. Raises `sqlite3.Error`.

    A file that was moved away must not be created again: SQLite would delete the log next to an empty file, and with it the pages that
    are not in the database yet. `may_create`: it is the very first connection.
    """
    mode = "rwc" if may_create else "rw"
    made: sqlite3.Connection = sqlite3.connect(
        f"{Path(path).absolute().as_uri()}?mode={mode}", **options | {"uri": True}
    )
    return made


def table_names(connection: sqlite3.Connection) -> set[str]:
    """Return the names of all tables except SQLite's own. Raises `sqlite3.Error`."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {name for (name,) in found}


def write_log_again(path: str) -> None:
    """Rewrite the log of the database `path` with its own content, and force it. The caller has the write lock. Raises `StoreError`.

    Linux marks pages that it could not write as written, and does not force them again: some of the log may be in memory alone, and at a
    power failure all later pages would be lost, too. SQLite has no locks on the log, so closing it here releases none.
    """
    log = f"{path}-wal"
    try:
        descriptor = os.open(log, os.O_RDWR)
        try:
            at = 0
            # The bytes are read from the system's cache, which has those that the disk refused;
            # the write marks them as unwritten again.
            while block := os.pread(descriptor, _BLOCK, at):
                at += os.pwrite(descriptor, block, at)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        # Without a log, everything is in the database.
        return
    except OSError as error:
        raise StoreError(
            f"the disk failed to keep {log}, and fails still ({error.strerror}); nothing was written. Look after the disk, and try again"
        ) from error


class OpenFiles:
    """The files of a database, with their inodes. The writer says when to watch the log; any thread may check the files.

    SQLite would go on writing to a file that was moved or deleted. As a file may be moved at any moment between a check and a write, one
    check in ten milliseconds is nearly as good as one for each write, which would cost as much as encoding it, and more after a forced
    write, when the processor's caches are cold.
    """

    def __init__(self, path: str, lock: FileLock | None = None) -> None:
        """`lock`: the lock that is held as long as the database is in use."""
        self.path = path
        self._log = f"{path}-wal"
        self._index = LogIndex(path)
        self._inode: int | None = None
        self._held = {} if lock is None else {lock.path: lock.inode}
        # Without the log until `watch_log`: it exists only while a connection is open.
        self._beside = self._held
        self.has_failed = False
        """Whether forcing a write has failed since the last `repair_log`."""
        forget_in_children(self)

    def note(self, error: BaseException | None) -> bool:
        """Return whether `error` is a failure to force a write, and remember it. Any thread."""
        # Only a failed fsync: after other errors of the disk the transaction is not committed, and SQLite rolls it back.
        is_failure = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_FSYNC
        if is_failure:
            self.has_failed = True
        return is_failure

    def log_pages(self) -> int | None:
        """Return the number of pages in the log; None: unknown. Any thread, while a connection is open."""
        return self._index.pages()

    def may_checkpoint(self) -> bool:
        """Return whether no checkpoint is running, the log needs no repair, and the files are the same. Any thread, while a connection is open.

        It also detects and remembers failures of other programs, and of other threads that have not called `note` yet.
        """
        # Before the files are checked: a failure that is visible now must be remembered even if `look` raises.
        failed = self._index.last_checkpoint_failed()
        if failed:
            self.has_failed = True
        try:
            self.look()
        except StoreError:
            # The next writer checks the files, too, and gets the error.
            return False
        return failed is False and not self.has_failed

    def repair_log(self) -> None:
        """After a failure of the disk, rewrite the log, and make the next checkpoint copy all of it. The caller has the write lock. Raises `StoreError`.

        The database may lack pages that were copied but not forced; the log keeps them until all of it is in the database, and forced. While
        the log has a hole there must be no checkpoint: after a power failure the database would have pages from after the hole.
        """
        self._index.reset_backfill(self._write_log_again)

    def _write_log_again(self) -> None:
        # Cleared first: a new failure found by another thread during the repair must not be lost.
        self.has_failed = is_written = False
        try:
            write_log_again(self.path)
            is_written = True
        finally:
            if not is_written:
                self.has_failed = True

    def connect(self, **options: Any) -> sqlite3.Connection:
        """Open a connection; the first one creates the file if necessary. Raises `sqlite3.Error`, and as `look`."""
        if self._inode is None:
            connection = connect(self.path, may_create=True, **options)
            # After the first connection, as SQLite has created the file by now: from now on only this inode is the store.
            self._inode = _inode(self.path)
            return connection
        # A connection to another file of this name would apply this file's log to it.
        self.look()
        return connect(self.path, **options)

    def forget(self) -> None:
        """Release the descriptors in a child process, before its end closes the connections. The child has none of their locks, so SQLite would
        consider the database unused, and delete the log, which another process may use.
        """
        known = []
        for name in (self.path, self._log, f"{self.path}-shm"):
            with suppress(OSError):
                # SQLite does not expose its descriptors, so they are found by device and inode.
                known.append(os.stat(name))  # noqa: PTH116 - as in `_inode`
        # This system may not list open files in /dev/fd.
        with suppress(OSError):
            for descriptor in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - the names are numbers, not paths
                # The descriptor of the list itself is closed by now.
                with suppress(OSError):
                    found = os.fstat(descriptor)
                    if any(os.path.samestat(found, each) for each in known):
                        let_go(descriptor)

    def watch_log(self) -> None:
        """Begin to watch the log, which exists while the writing connection is open."""
        # On a file system without shared memory SQLite works without this log.
        with suppress(FileNotFoundError):
            self._beside = {self._log: _inode(self._log), **self._held}

    def unwatch_log(self) -> None:
        """Stop watching the log, as the writing connection is closed: the last close deletes the log, and the next connection creates another."""
        self._beside = self._held

    def has_log(self) -> bool:
        """Return whether the watched log still has its name.

        Otherwise another program has considered the database unused, deleted the log, and may have written to the database since: the deleted
        log must not be copied any more, and the log of that name must not be deleted here.
        """
        try:
            # Only the log: a replaced lock file is no reason to discard the log.
            return all(_inode(path) == inode for path, inode in self._beside.items() if path == self._log)
        except OSError:
            return False

    def look(self) -> None:
        """Raise `UnavailableStoreError` when the database has disappeared, `LostStoreError` when a file is not the same any more.

        Another program that opens the database and finds no lock on it considers it unused, and deletes the log at its end. SQLite's locks of
        this process are lost when any part of it closes the file by other means than SQLite. And if the lock file is deleted, another
        broker can take the lock.
        """
        if self._inode is None:
            return  # no connection was opened yet
        try:
            is_same = _inode(self.path) == self._inode
        except OSError as error:
            # Not lost yet: the same file may reappear, for instance after a short unmount.
            raise UnavailableStoreError(f"{self.path} is gone ({error.strerror}); put the same file back") from error
        if not is_same:
            raise LostStoreError(f"{self.path} is another file than the one that was opened; start the broker again")
        for path, inode in self._beside.items():
            try:
                is_same = _inode(path) == inode
            except OSError:
                is_same = False
            if not is_same:
                raise LostStoreError(
                    f"{path} was deleted or replaced, so another program may have had {self.path} to itself; start the "
                    "broker again"
                )


def _inode(path: str) -> int:
    return os.stat(path).st_ino  # noqa: PTH116 - a Path costs three times as much


# Checkpoints in a thread of their own. By default SQLite runs a checkpoint within the commit that makes the log a
# thousand pages long: one commit in some hundred then takes as long as writing and forcing four megabytes, and a failure
# of the disk is not reported. Here a thread copies most of the log while commits go on. The pages written meanwhile are
# copied by the next commit, as only the writer can restart the log while commits never stop. If the thread cannot be
# started, or is too late, the writer copies all of it. Once a failure of the disk is known, no checkpoint starts here
# until `OpenFiles.repair_log` is done: the log could restart before all of it is in the database. During the repair a
# lock excludes all checkpoints; between failure and repair a checkpoint of an application may run, or one that was
# started just before the failure.

_log = logging.getLogger("pyjms.store")

_CHECKPOINT: Final = "PRAGMA wal_checkpoint(PASSIVE)"
PAGES: Final = 900
"""The length of the log, in pages, at which the thread runs a checkpoint."""
_LONG: Final = 1000
"""The length at which the writer runs the checkpoint, as SQLite would: the thread is late."""
_LOOK: Final = 100
"""The estimated number of written pages after which the length of the log is read, and a failed checkpoint is tried again."""


class Checkpoints:
    """The checkpoints of one database, and their thread, which is started on demand.

    `wrote` is called by the writing thread, `close` by any.
    """

    def __init__(self, files: OpenFiles, *, synchronous: str) -> None:
        """`files` is informed of failures of the disk. `synchronous`: the level of the PRAGMA by which the database is forced before the log restarts."""
        self._files = files
        self._path = files.path
        self._synchronous = synchronous
        self._pages = 0
        """The estimated number of pages written since the last checkpoint of the writer."""
        self._look_at = _LOOK
        self._is_requested = False
        """Whether the thread was asked for a checkpoint, and the writer has not done its part yet."""
        self._lock = Lock()
        self._changed = Signal()
        self._has_request = self._is_closed = False
        self._is_rest_due = False
        """Whether the thread has finished or failed, so that the writer must copy the rest."""
        self._thread: Thread | None = None
        self._connection: sqlite3.Connection | None = None

    def wrote(self, pages: int, writer: sqlite3.Cursor) -> None:
        """Count the pages of a commit of `writer`, an estimate; start a checkpoint if it is due, or copy the rest after the thread's."""
        self._pages += pages
        # The thread has copied most of the log; only the writer can restart the log while commits go on.
        if self._is_rest_due:
            self._checkpoint_rest(writer)
        elif self._pages >= self._look_at:
            self._look_at = self._pages + _LOOK
            # `_pages` is an estimate by this process, and an application may write to the same log.
            seen = self._files.log_pages()
            written = self._pages if seen is None else seen
            if written >= _LONG or (written >= PAGES and not self._is_requested and not self._wake()):
                self._checkpoint_rest(writer)

    def _checkpoint_rest(self, writer: sqlite3.Cursor) -> None:
        if not self._files.may_checkpoint():
            # The checkpoint waits until the log is repaired, or is tried again soon.
            return
        # Before the checkpoint: if it fails, it is tried again after `_LOOK` more pages.
        self._is_rest_due = self._is_requested = False
        self._pages, self._look_at = 0, _LOOK
        try:
            writer.execute(_CHECKPOINT).fetchone()
        # The commit itself has succeeded; only the checkpoint has failed, and the log continues to grow.
        except sqlite3.Error as error:
            self._files.note(error)

    def _wake(self) -> bool:
        """Ask the thread for a checkpoint. Return False if it cannot be started."""
        with self._lock:
            # True, so that the writer runs no checkpoint either: the close of the last connection does.
            if self._is_closed:
                return True
            self._has_request = self._is_requested = True
            if self._thread is None:
                thread = Thread(target=self._run, name=f"pyjms checkpoints {self._path}", daemon=True)
                try:
                    thread.start()
                # The system cannot start more threads; the writer runs the checkpoint itself.
                except RuntimeError as error:
                    _log.warning("%s could not be started: %s", thread.name, error)
                    self._is_requested = False
                    return False
                self._thread = thread
        self._changed.set()
        return True

    def close(self) -> None:
        """End the thread and interrupt its checkpoint; no data is lost. May be repeated."""
        with self._lock:
            self._is_closed = True
            connection, thread = self._connection, self._thread
            if connection is not None:
                # Under the lock, with which the thread clears `_connection` before it closes the connection.
                connection.interrupt()
        self._changed.set()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while self._has_work():
            try:
                connection = connection or self._connect()
                self._checkpoint(connection)
            # If this concerns the writer, its own commit fails.
            except (sqlite3.Error, StoreError) as error:
                self._files.note(error)
                # After `note`: the writer that sees this flag must already see the failure.
                self._is_rest_due = True
                _log.debug("the log of %s was not carried over: %s", self._path, error)
                self._close(connection)
                connection = None
        self._close(connection)

    def _has_work(self) -> bool:
        """Wait for a request; return False when the thread is to end."""
        while True:
            with self._lock:
                if self._is_closed:
                    return False
                if self._has_request:
                    self._has_request = False
                    return True
            self._changed.wait(-1)

    def _connect(self) -> sqlite3.Connection:
        # A connection to another file of this name would copy this file's log into it.
        self._files.look()
        connection = connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute(f"PRAGMA synchronous={self._synchronous}")
        return connection

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            # From here on `close` can interrupt it.
            self._connection = connection
            # `close` may have been called before, and could not interrupt the connection.
            if self._is_closed:
                return
        if self._files.may_checkpoint():
            connection.execute(_CHECKPOINT).fetchone()
        self._is_rest_due = True

    def _close(self, connection: sqlite3.Connection | None) -> None:
        if connection is not None:
            with self._lock:
                if self._connection is connection:
                    self._connection = None
            with suppress(sqlite3.Error):
                connection.close()
