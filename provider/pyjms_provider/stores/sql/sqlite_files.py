"""The files of a database of SQLite that is open: each must stay the one that was opened, and none is made anew."""

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

# What SQLite notes in the index of a write-ahead log: how many pages of the log the database has. SQLite forces the
# database only when it has all of the log. When that fails, Linux takes the pages that it could not write for written,
# and the next checkpoint repeats only pages that are not noted. A noted page was copied earlier, was never forced, and
# is lost with the power once the log has restarted. So the note is taken back, and all of the log is copied again. The
# format is documented (https://www.sqlite.org/walformat.html, 2.1).

try:
    from fcntl import F_OFD_SETLK, F_UNLCK, F_WRLCK, fcntl

    _HAS_LOCKS = sys.platform == "linux"  # elsewhere they look otherwise
except ImportError:  # not on this system
    _HAS_LOCKS = False


_LENGTH: Final = 16
"""mxFrame: so many pages are in the log since it began."""
_BACKFILLED: Final = 96
"""nBackfill: so many pages of the log are in the database. Whoever changes it has the lock of checkpoints."""
_ATTEMPTED: Final = 128
"""nBackfillAttempted: so many should have been, when somebody tried last. If that is more, he failed, was interrupted, had no room, or is under way."""
_CHECKPOINTS: Final = 121
"""The byte that is locked by whoever carries over."""
_ATTEMPTS: Final = 500
_PAUSE_S: Final = 0.01
_WHY: Final = "the disk has failed, or the store was not closed"
_T = TypeVar("_T")


class LogIndex:
    """The index of the log of one database, of which a process has one. Any thread, while a connection to the database is open there.

    It is reached by the descriptor that SQLite has: to close another one would free all locks that this process has on the file.
    Locks are those of a descriptor, and of one thread at a time: those of a process would not keep its own connections out, and freeing one would free theirs. Linux has them. Where they
    are not, or open files are not listed in ``/dev/fd``, nothing is read or changed here.
    """

    def __init__(self, path: str) -> None:
        """`path`: of the database."""
        self._path = f"{path}-shm"
        self._found: int | None = None
        self._one_thread = Lock()
        """The lock of a descriptor is that of all threads of this process: the first one to let go of it would do so for all."""

    def pages(self) -> int | None:
        """Return how many pages are in the log since it began; None: that cannot be seen here."""
        with suppress(StoreError, OSError, struct.error):
            # Read without the lock of checkpoints: a wrong number only makes a checkpoint come early or late.
            index = self._descriptor()
            return None if index is None else _number(index, _LENGTH)
        return None

    def reset_backfill(self, write_log: Callable[[], None] = lambda: None) -> None:
        """Have all of the log carried over next time, whatever was before, and call `write_log` while nobody can carry over. Nobody may write meanwhile.

        Raises `StoreError`, and the errors of `write_log`.
        """
        index = self._descriptor()

        def mend(index: int) -> bool:
            self._take_back(index)
            write_log()
            return True

        try:
            if index is not None:
                for _ in range(_ATTEMPTS):
                    # The log is written over within the same lock: a checkpoint between
                    # the two would copy pages behind the hole.
                    if self._alone(index, mend):
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

    def _take_back(self, index: int) -> None:
        try:
            # Both, as SQLite itself does when the log restarts: with one of them
            # set a failure would be seen where none is.
            for at in _BACKFILLED, _ATTEMPTED:
                os.pwrite(index, bytes(4), at)
        except OSError as error:
            raise StoreError(
                f"{_WHY}, and {self._path} cannot be written ({error.strerror}); nothing was written. Kill the broker, and start it again"
            ) from error

    def tells_of_failure(self) -> bool | None:
        """Return whether whoever carried over last has failed, or None while somebody is at it. SQLite tells nobody when that was within a commit."""
        with suppress(StoreError, OSError, struct.error):
            index = self._descriptor()
            if index is not None:
                return self._alone(index, lambda index: _number(index, _ATTEMPTED) > _number(index, _BACKFILLED))
        return False

    def _alone(self, index: int, work: Callable[[int], _T]) -> _T | None:
        """Return what `work` returns, which nobody carries over beside; None: somebody is at it. Raises `OSError` where there are no such locks."""
        let_in = _lock(F_UNLCK)
        # Around the unlock too: a lock of a descriptor is shared by all threads,
        # and the first to unlock would end it for all.
        with self._one_thread:
            try:
                return work(index) if _keep_out(index) else None
            finally:
                fcntl(index, F_OFD_SETLK, let_in)

    def _descriptor(self) -> int | None:
        """Return SQLite's descriptor of the index; None: there is no index, and so no log, or no such lock, or no list. Raises `StoreError`."""
        if not _HAS_LOCKS:
            return None
        try:
            expected = os.stat(self._path)  # noqa: PTH116 - a Path costs three times as much
        except FileNotFoundError:
            return None
        # Checked each time: SQLite may have closed its index since, and the number may be another file's.
        if _is_open(self._found, expected):
            return self._found
        try:
            names = os.listdir("/dev/fd")  # noqa: PTH208 - the names are numbers, not paths
        except OSError:
            return None
        # SQLite tells no one its descriptors, and opening the file once more would
        # free the locks of this process at the close.
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


def _keep_out(index: int) -> bool:
    """Keep everybody from carrying over; return False if somebody is at it. Raises `OSError` where there are no such locks."""
    try:
        fcntl(index, F_OFD_SETLK, _lock(F_WRLCK))
    # POSIX lets a system answer EAGAIN or EACCES for a lock that is held.
    except (BlockingIOError, PermissionError):
        return False
    return True


def _lock(kind: int) -> bytes:
    # The layout of struct flock on 64-bit Linux; the process id must be 0 for a lock of a descriptor (fcntl(2)).
    return struct.pack("hhqqi0q", kind, os.SEEK_SET, _CHECKPOINTS, 1, 0)


def _number(index: int, at: int) -> int:
    (number,) = struct.unpack("=I", os.pread(index, 4, at))
    return int(number)


_BLOCK: Final = 1 << 18


def file_of(url: URL) -> str:
    """Return the path of the file that a URL names, by which everybody knows it. Raises `UrlError`, `UnsupportedStoreError`."""
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
    # One file must have one name: the lock and the log stand beside it under that name.
    return os.path.realpath(path)


def connect(path: str, *, may_create: bool = False, **options: Any) -> sqlite3.Connection:
    """Open a connection to a database that is there; `options` are those of the driver. Raises `sqlite3.Error`.

    A file that was moved away must not be made anew: SQLite would delete the log beside an empty one, and with it what is not in
    the database yet. `may_create`: it is the first connection of all.
    """
    mode = "rwc" if may_create else "rw"
    made: sqlite3.Connection = sqlite3.connect(
        f"{Path(path).absolute().as_uri()}?mode={mode}", **options | {"uri": True}
    )
    return made


def table_names(connection: sqlite3.Connection) -> set[str]:
    """Return the names of all tables but SQLite's own. Raises `sqlite3.Error`."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {name for (name,) in found}


def write_log_again(path: str) -> None:
    """Write the log of the database `path` over itself, and force that. Nobody else may write meanwhile. Raises `StoreError`.

    Linux takes what it could not write for written, and forces it no second time: some of the log may be in memory alone, and with a
    loss of power whatever was written behind it would be gone, too. SQLite has no locks on the log, which closing it would free.
    """
    log = f"{path}-wal"
    try:
        descriptor = os.open(log, os.O_RDWR)
        try:
            at = 0
            # The bytes come from the system's memory, which has what the disk refused;
            # the write marks them as unwritten again.
            while block := os.pread(descriptor, _BLOCK, at):
                at += os.pwrite(descriptor, block, at)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        # Without a log, all of it is in the database.
        return
    except OSError as error:
        raise StoreError(
            f"the disk failed to keep {log}, and fails still ({error.strerror}); nothing was written. Look after the disk, and try again"
        ) from error


class OpenFiles:
    """A database and what is beside it, each known by its inode. Who writes says when to watch the log; any thread looks.

    SQLite would go on writing to a file that nobody finds any more. A file may be moved at any moment between a look and a
    write, so a look in ten milliseconds is nearly as good as one for each write, which would cost as much as encoding it, and more
    after a forced write, when the processor's caches are cold.
    """

    def __init__(self, path: str, lock: FileLock | None = None) -> None:
        """`lock`: what is held as long as the database is used."""
        self.path = path
        self._log = f"{path}-wal"
        self._index = LogIndex(path)
        self._inode: int | None = None
        self._held = {} if lock is None else {lock.path: lock.inode}
        # Without the log until `watch_log`: it exists only while a connection is open.
        self._beside = self._held
        self.has_failed = False
        """Whether the disk could not force something, and `repair_log` was not called since."""
        forget_in_children(self)

    def note(self, error: BaseException | None) -> bool:
        """Return whether `error` says that the disk could not force something, and remember that. Any thread."""
        # Only a failed fsync: other errors of the disk leave the transaction uncommitted, and SQLite takes it back.
        is_failure = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_FSYNC
        if is_failure:
            self.has_failed = True
        return is_failure

    def log_pages(self) -> int | None:
        """Return how many pages are in the log; None: that cannot be seen. As `may_checkpoint`."""
        return self._index.pages()

    def may_checkpoint(self) -> bool:
        """Return whether nobody is carrying the log over, the log needs no mending, and the files are the same. Any thread, with a connection that is open.

        It sees, and remembers, that somebody else has failed, and also that another thread has, which is about to `note` it.
        """
        # Before the files are checked: a failure that is visible now must be remembered, whatever `look` raises.
        tells = self._index.tells_of_failure()
        if tells:
            self.has_failed = True
        try:
            self.look()
        except StoreError:
            # The next writer checks the files, too, and is told.
            return False
        return tells is False and not self.has_failed

    def repair_log(self) -> None:
        """After the disk has failed, write the log again, and have all of it carried over again. Nobody else may write meanwhile. Raises `StoreError`.

        The database may lack what was carried over and could not be forced: the log has it until all of that is in the database, and forced.
        And while the log has a hole nobody may carry over: a loss of power would leave pages from behind it in the database.
        """
        self._index.reset_backfill(self._write_log_again)

    def _write_log_again(self) -> None:
        # Cleared first: another thread may find a new failure during the repair, which must not be forgotten.
        self.has_failed = is_written = False
        try:
            write_log_again(self.path)
            is_written = True
        finally:
            if not is_written:
                self.has_failed = True

    def connect(self, **options: Any) -> sqlite3.Connection:
        """Open a connection; the first one makes the file if there is none. Raises `sqlite3.Error`, and as `look`."""
        if self._inode is None:
            connection = connect(self.path, may_create=True, **options)
            # By the first connection, after SQLite has made the file: from now on only this inode is the store.
            self._inode = _inode(self.path)
            return connection
        # A connection to another file of this name would apply this file's log to it.
        self.look()
        return connect(self.path, **options)

    def forget(self) -> None:
        """Let go of them, in a child of this process, which closes the connections when it ends. None of their locks is its own, so that SQLite
        would take the database for one that nobody uses, and delete the log, which may be another process's by then.
        """
        known = []
        for name in (self.path, self._log, f"{self.path}-shm"):
            with suppress(OSError):
                # The descriptors are SQLite's own and unknown here, so they are found by device and inode.
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
        """Note the log, which is there while the connection that writes is open."""
        # Where a file system cannot share memory, SQLite works without this log.
        with suppress(FileNotFoundError):
            self._beside = {self._log: _inode(self._log), **self._held}

    def unwatch_log(self) -> None:
        """Hear that this connection closes: with the last one the log goes, and the next one makes another."""
        self._beside = self._held

    def has_log(self) -> bool:
        """Return whether the log that is watched still has its name.

        Else another program took the database for one that nobody uses, and may have written to it since: what a deleted log has must not
        be carried over any more, and the log of that name is not ours to delete.
        """
        try:
            # Only the log: this is asked where its name decides, and an exchanged
            # lock file is no reason to lose the log.
            return all(_inode(path) == inode for path, inode in self._beside.items() if path == self._log)
        except OSError:
            return False

    def look(self) -> None:
        """Raise `UnavailableStoreError` when the database is gone, `LostStoreError` when a file is not the same any more.

        Another program that opens the database, and finds no lock on it, takes it for one that nobody uses, and deletes the log
        when it is done. The locks of a whole process are gone when any part of it closes the file by other ways than SQLite.
        And who deletes the lock's file lets another broker in.
        """
        if self._inode is None:
            return  # nothing was opened yet
        try:
            is_same = _inode(self.path) == self._inode
        except OSError as error:
            # No loss yet: the same file may come back, as after a short unmount.
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


# Checkpoints beside the writer, and not in its place. By itself SQLite runs a checkpoint within the commit that makes
# the log a thousand pages long: one commit in some hundred then takes as long as writing and forcing four megabytes,
# and a failure of the disk is reported to nobody. Here a thread copies most of the log while commits go on. The little
# that they write meanwhile is copied by the next commit, as only the writer can restart the log while commits never
# stop. Where the thread cannot start, or gets no turn, the writer copies all of it. Once a failure of the disk is
# known, no checkpoint starts here until `OpenFiles.repair_log` is done: the log could restart before all of it is in
# the database. During the repair a lock keeps all checkpoints out; one that was decided just before the failure, or an
# application's, may run between the two.

_log = logging.getLogger("pyjms.store")

_CHECKPOINT: Final = "PRAGMA wal_checkpoint(PASSIVE)"
PAGES: Final = 900
"""After so many in a log the thread carries over."""
_LONG: Final = 1000
"""After so many who writes does so, as SQLite would: the thread has not come to it."""
_LOOK: Final = 100
"""After so many, as far as is known, somebody looks how many there are: as often it is tried again when it could not be done."""


class Checkpoints:
    """The thread of one database, which starts with the first work that there is.

    `wrote` is called by who writes, one thread at a time; `close` by any.
    """

    def __init__(self, files: OpenFiles, *, synchronous: str) -> None:
        """`files` hear of a disk that fails. `synchronous`: the PRAGMA by which the database is forced before the log begins anew."""
        self._files = files
        self._path = files.path
        self._synchronous = synchronous
        self._pages = 0
        """So many were written since the thread was told, as far as is known."""
        self._look_at = _LOOK
        self._is_told = False
        """The thread is told, and not done."""
        self._lock = Lock()
        self._changed = Signal()
        self._is_wanted = self._is_closed = False
        self._is_left = False
        """The thread is done, or cannot do it, and who writes is not told yet that the rest is his."""
        self._thread: Thread | None = None
        self._connection: sqlite3.Connection | None = None

    def wrote(self, pages: int, writer: sqlite3.Cursor) -> None:
        """Hear that a commit of `writer` wrote about so many pages; if the thread is done, carry over by `writer` what little is left."""
        self._pages += pages
        # The thread has copied most of it; only the writer can restart the log while commits go on.
        if self._is_left:
            self._checkpoint_rest(writer)
        elif self._pages >= self._look_at:
            self._look_at = self._pages + _LOOK
            # `_pages` is an estimate by this process, and an application may write to the same log.
            seen = self._files.log_pages()
            written = self._pages if seen is None else seen
            if written >= _LONG or (written >= PAGES and not self._is_told and not self._wake()):
                self._checkpoint_rest(writer)

    def _checkpoint_rest(self, writer: sqlite3.Cursor) -> None:
        if not self._files.may_checkpoint():
            # The checkpoint waits until the log is repaired, or is tried again soon.
            return
        # Before the checkpoint: what fails now is tried again after `_LOOK` more pages.
        self._is_left = self._is_told = False
        self._pages, self._look_at = 0, _LOOK
        try:
            writer.execute(_CHECKPOINT).fetchone()
        # The commit itself is done; only the checkpoint failed, and the log goes on as it is.
        except sqlite3.Error as error:
            self._files.note(error)

    def _wake(self) -> bool:
        """Have the thread carry over. Return False when there is none."""
        with self._lock:
            # True, so that the writer does nothing either: the last connection runs the checkpoint when it closes.
            if self._is_closed:
                return True
            self._is_wanted = self._is_told = True
            if self._thread is None:
                thread = Thread(target=self._run, name=f"pyjms checkpoints {self._path}", daemon=True)
                try:
                    thread.start()
                # The system has no more threads; the writer runs the checkpoint itself.
                except RuntimeError as error:
                    _log.warning("%s could not be started: %s", thread.name, error)
                    self._is_told = False
                    return False
                self._thread = thread
        self._changed.set()
        return True

    def close(self) -> None:
        """End the thread, which gives up what it is doing: nothing of it is lost. May be repeated."""
        with self._lock:
            self._is_closed = True
            connection, thread = self._connection, self._thread
            if connection is not None:
                # Under the lock, under which the thread clears `_connection` before it closes it.
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
            # The writer is told by its own commit, if this concerns it.
            except (sqlite3.Error, StoreError) as error:
                self._files.note(error)
                # After `note`: the writer that sees this flag must already see the failure.
                self._is_left = True
                _log.debug("the log of %s was not carried over: %s", self._path, error)
                self._let_go(connection)
                connection = None
        self._let_go(connection)

    def _has_work(self) -> bool:
        """Wait for work; return False when there is none any more."""
        while True:
            with self._lock:
                if self._is_closed:
                    return False
                if self._is_wanted:
                    self._is_wanted = False
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
            # Known from here on to `close`, which interrupts it.
            self._connection = connection
            # `close` may have come before the connection was known here, and could not interrupt it then.
            if self._is_closed:
                return
        if self._files.may_checkpoint():
            connection.execute(_CHECKPOINT).fetchone()
        self._is_left = True

    def _let_go(self, connection: sqlite3.Connection | None) -> None:
        if connection is not None:
            with self._lock:
                if self._connection is connection:
                    self._connection = None
            with suppress(sqlite3.Error):
                connection.close()
