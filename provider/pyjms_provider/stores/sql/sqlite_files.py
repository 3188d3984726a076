"""The files of a database of SQLite that is open: each must stay the one that was opened."""

from __future__ import annotations

import os
from contextlib import suppress

from pyjms_provider.stores.errors import LostStoreError, UnavailableStoreError

__all__ = ["OpenFiles"]


class OpenFiles:
    """A database and what is beside it, each known by its inode. Used by who writes, one thread at a time.

    SQLite would go on writing to a file that nobody finds any more. A file may be moved at any moment between a look and a
    write, so a look a millisecond is as good as one for each write, which would cost as much as encoding it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = f"{path}-wal"
        self._inode = _inode(path)
        self._beside: dict[str, int] = {}

    def watch_log(self) -> None:
        """Note the log, which is there as long as a connection is open, and may be another one afterwards."""
        with suppress(FileNotFoundError):  # SQLite goes without where a file system cannot share memory
            self._beside[self._log] = _inode(self._log)

    def look(self) -> None:
        """Raise `UnavailableStoreError` when the database is gone, `LostStoreError` when a file is not the same any more.

        Another program that opens the database, and finds no lock on it, takes it for one that nobody uses, and deletes the log
        when it is done. The locks of a whole process are gone when any part of it closes the file by other ways than SQLite.
        """
        try:
            is_same = _inode(self._path) == self._inode
        except OSError as error:
            raise UnavailableStoreError(f"{self._path} is gone ({error.strerror}); put the same file back") from error
        if not is_same:
            raise LostStoreError(f"{self._path} is another file than the one that was opened; start the broker again")
        for path, inode in self._beside.items():
            try:
                is_same = _inode(path) == inode
            except OSError:
                is_same = False
            if not is_same:
                raise LostStoreError(
                    f"{path} was deleted or replaced, so another program may have had {self._path} to itself; start the "
                    "broker again"
                )


def _inode(path: str) -> int:
    return os.stat(path).st_ino  # noqa: PTH116 - a Path costs three times as much
