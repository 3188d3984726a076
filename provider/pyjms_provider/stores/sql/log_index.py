"""What SQLite notes in the index of a write-ahead log: how many of its pages the database has.

SQLite forces the database only when it has all of the log. When that fails, and Linux takes what it could not write for written, the next carrying over
repeats what is not noted; what is noted was carried over earlier, was never forced, and is lost with the power once the log has begun anew. So the note is
taken back, and all of the log is carried over again. The format is part of SQLite's documentation (https://www.sqlite.org/walformat.html, 2.1).
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Final, TypeVar

from pyjms.spi.clock import Signal
from pyjms_provider.stores.errors import StoreError, UnavailableStoreError

try:
    from fcntl import F_OFD_SETLK, F_UNLCK, F_WRLCK, fcntl

    _HAS_LOCKS = sys.platform == "linux"  # elsewhere they look otherwise
except ImportError:  # not on this system
    _HAS_LOCKS = False

__all__ = ["LogIndex"]

_LENGTH: Final = 16
"""mxFrame: so many pages are in the log since it began."""
_BACKFILLED: Final = 96
"""nBackfill: so many pages of the log are in the database. Whoever changes it has the lock of checkpoints."""
_ATTEMPTED: Final = 128
"""nBackfillAttempted: so many should have been, when somebody tried last. If that is more, he failed, was interrupted, had no room, or is under way."""
_CHECKPOINTS: Final = 121
"""The byte that is locked by whoever carries over."""
_PATIENCE: Final = 500
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
            index = self._descriptor()
            return None if index is None else _number(index, _LENGTH)
        return None

    def carry_over_again(self, write_log: Callable[[], None] = lambda: None) -> None:
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
                for _ in range(_PATIENCE):
                    if self._alone(index, mend):
                        return
                    Signal().wait(_PAUSE_S)
                raise UnavailableStoreError(
                    f"{_WHY}, and somebody (this broker itself, or another program that has the database open) has been carrying the log "
                    f"{self._path.removesuffix('-shm')}-wal over for more than {_PATIENCE * _PAUSE_S:g} s; nothing was written. "
                    "Try again, or end that program"
                )
        except OSError:
            pass  # there are no such locks
        write_log()

    def _take_back(self, index: int) -> None:
        try:
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
            wanted = os.stat(self._path)  # noqa: PTH116 - a Path costs three times as much
        except FileNotFoundError:
            return None
        if _is_open(self._found, wanted):
            return self._found
        try:
            names = os.listdir("/dev/fd")  # noqa: PTH208 - the names are numbers, not paths
        except OSError:
            return None
        for name in names:
            if _is_open(int(name), wanted):
                self._found = int(name)
                return self._found
        raise StoreError(
            f"{_WHY}, and {self._path} is not among the open files of this process in /dev/fd; nothing was written. "
            "Kill the broker, and start it again"
        )


def _is_open(descriptor: int | None, wanted: os.stat_result) -> bool:
    try:
        return descriptor is not None and os.path.samestat(os.fstat(descriptor), wanted)
    except OSError:
        return False


def _keep_out(index: int) -> bool:
    """Keep everybody from carrying over; return False if somebody is at it. Raises `OSError` where there are no such locks."""
    try:
        fcntl(index, F_OFD_SETLK, _lock(F_WRLCK))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _lock(kind: int) -> bytes:
    return struct.pack("hhqqi0q", kind, os.SEEK_SET, _CHECKPOINTS, 1, 0)


def _number(index: int, at: int) -> int:
    (number,) = struct.unpack("=I", os.pread(index, 4, at))
    return int(number)
