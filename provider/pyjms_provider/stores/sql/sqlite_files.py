"""The files of a database of SQLite that is open: each must stay the one that was opened, and none is made anew."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.errors import UrlError
from pyjms_provider.forks import forget_in_children, let_go
from pyjms_provider.stores.errors import LostStoreError, StoreError, UnavailableStoreError, UnsupportedStoreError
from pyjms_provider.stores.sql.log_index import LogIndex

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pyjms_provider.stores.file_lock import FileLock

__all__ = ["OpenFiles", "connect", "file_of", "table_names", "write_log_again"]

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
            while block := os.pread(descriptor, _BLOCK, at):
                at += os.pwrite(descriptor, block, at)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return  # as all of it is in the database
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
        self._beside = self._held
        self.has_failed = False
        """Whether the disk could not force something, and `mend_log` was not called since."""
        forget_in_children(self)

    def note(self, error: BaseException | None) -> bool:
        """Return whether `error` says that the disk could not force something, and remember that. Any thread."""
        is_failure = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_FSYNC
        if is_failure:
            self.has_failed = True
        return is_failure

    def log_pages(self) -> int | None:
        """Return how many pages are in the log; None: that cannot be seen. As `may_carry_over`."""
        return self._index.pages()

    def may_carry_over(self) -> bool:
        """Return whether nobody is carrying the log over, the log needs no mending, and the files are the same. Any thread, with a connection that is open.

        It sees, and remembers, that somebody else has failed, and also that another thread has, which is about to `note` it.
        """
        tells = self._index.tells_of_failure()
        if tells:
            self.has_failed = True
        try:
            self.look()
        except StoreError:
            return False  # who writes next looks, too, and is told
        return tells is False and not self.has_failed

    def mend_log(self) -> None:
        """After the disk has failed, write the log again, and have all of it carried over again. Nobody else may write meanwhile. Raises `StoreError`.

        The database may lack what was carried over and could not be forced: the log has it until all of that is in the database, and forced.
        And while the log has a hole nobody may carry over: a loss of power would leave pages from behind it in the database.
        """
        self._index.carry_over_again(self._write_log_again)

    def _write_log_again(self) -> None:
        self.has_failed = is_written = False  # first: another thread may find that it fails again
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
            self._inode = _inode(self.path)
            return connection
        self.look()  # a connection to another file of this name would apply this one's log to it
        return connect(self.path, **options)

    def forget(self) -> None:
        """Let go of them, in a child of this process, which closes the connections when it ends. None of their locks is its own, so that SQLite
        would take the database for one that nobody uses, and delete the log, which may be another process's by then.
        """
        known = []
        for name in (self.path, self._log, f"{self.path}-shm"):
            with suppress(OSError):
                known.append(os.stat(name))  # noqa: PTH116 - as in `_inode`
        with suppress(OSError):  # where they are not listed
            for descriptor in map(int, os.listdir("/dev/fd")):  # noqa: PTH208 - the names are numbers, not paths
                with suppress(OSError):  # that of the list itself is closed by now
                    found = os.fstat(descriptor)
                    if any(os.path.samestat(found, each) for each in known):
                        let_go(descriptor)

    def watch_log(self) -> None:
        """Note the log, which is there while the connection that writes is open."""
        with suppress(FileNotFoundError):  # SQLite goes without where a file system cannot share memory
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
