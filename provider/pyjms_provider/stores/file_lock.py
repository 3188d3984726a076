"""A lock on a file, held by one broker at a time. The system releases it when the process ends, in whatever way."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pyjms.spi.clock import Signal
from pyjms.spi.errors import ClosedError
from pyjms_provider.forks import forget_in_children
from pyjms_provider.stores.errors import (
    HeldStoreError,
    ReadOnlyStoreError,
    UnavailableStoreError,
    UnsupportedStoreError,
    UnusableStoreError,
)

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.stores.errors import StoreError

# Waiting for a store that another broker holds.

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

HOW_TO_STAND_BY: Final = (
    'stop it, or have this broker take over when it ends: stand_by=wait in a vm:// URL, `stand_by = "wait"` of a virtual host, '
    "--stand-by of `pyjms broker run`"
)
"""The advice at the end of the error about a store that another broker holds."""
RETRY_MS: Final = 200
"""How long a stand-by broker waits before it checks again whether the store is free."""


def acquire(take: Callable[[], _T], clock: Clock, *, waits: bool = True, cancelled: Signal | None = None) -> _T:
    """Call `take` until it no longer raises `HeldStoreError`, or once if not `waits`, and return its result.

    A server that is unreachable at the first attempt is an error, as the URL may be wrong. Once the store was found held, the wait
    goes on while the server is unreachable, as the holder may lose the store just then. A read-only server is waited for from the
    beginning: it may be about to fail over. Raises the errors of `take`, and `ClosedError` when `cancelled` ends the wait; None:
    the wait has no end.
    """
    told: set[type[StoreError]] = set()
    signal = cancelled or Signal()
    while True:
        try:
            return take()
        except (HeldStoreError, UnavailableStoreError) as error:
            is_away = isinstance(error, UnavailableStoreError) and not isinstance(error, ReadOnlyStoreError)
            if not waits or (not told and is_away):
                raise
            # Logged once for each kind of error: the wait may last for weeks, with five attempts a second.
            if type(error) not in told:
                level = logging.WARNING if isinstance(error, ReadOnlyStoreError) else logging.INFO
                _log.log(level, "PYJMS-STORE-5 waiting to take over: %s", error.reason.partition("; ")[0])
            told.add(type(error))
        if clock.wait(signal, clock.monotonic_ms() + RETRY_MS):
            raise ClosedError("the wait for the store was cancelled")


try:
    import fcntl
except ModuleNotFoundError:  # not on this system
    fcntl = None  # type: ignore[assignment]


_LONGEST: Final = 400


def describe_holder(name: str) -> str:
    """Return the text by which other brokers' errors name the holder of a store."""
    return f"broker {name!r}, process {os.getpid()} on {socket.gethostname()}"


class FileLock:
    """A lock file that names the holder of a database. It is not deleted at the release: two brokers could then hold the lock."""

    def __init__(self, path: str, holder: str) -> None:
        self.path = path
        self._holder = holder
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock. Raises a `HeldStoreError` that names the holder, `UnusableStoreError`, `UnsupportedStoreError`."""
        if fcntl is None:
            raise UnsupportedStoreError("this system has no file locks (fcntl); use PostgreSQL as the store")
        file = self._open()
        # The file may be deleted between open and lock; a lock on a file without a name excludes nobody.
        while not self._is_ours(file):
            os.close(file)
            file = self._open()
        self._file = file
        # A child shares the descriptor, and with it the lock, which would outlive the parent.
        forget_in_children(self)
        # On a full disk the holder's name cannot be written, but the lock is valid without it.
        with suppress(OSError):
            os.ftruncate(file, 0)
            os.pwrite(file, self._holder.encode()[:_LONGEST], 0)

    def _open(self) -> int:
        """Open the file, creating it if necessary; return its descriptor."""
        try:
            # Not truncated here: until the lock is taken, the text is that of the present holder.
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UnusableStoreError(
                f"{self.path} cannot be opened: {error.strerror}. Its directory must exist, and be writable by this user"
            ) from error

    def _is_ours(self, file: int) -> bool:
        """Lock an open file; return False if the path no longer names it, as it was deleted before it was locked."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = os.pread(file, _LONGEST, 0).decode(errors="replace").strip() or "another process"
            os.close(file)
            raise HeldStoreError(f"{self.path.removesuffix('.lock')} is held by {holder}; {HOW_TO_STAND_BY}") from None
        # This file system has no locks, so there is no holder to wait for.
        except OSError as error:
            os.close(file)
            raise UnusableStoreError(
                f"{self.path} cannot be locked: {error.strerror}. Keep the store on a local disk, or use PostgreSQL as the store"
            ) from error
        try:
            # Compared by inode: another process may have deleted the file and created a new one of the same name.
            return Path(self.path).stat().st_ino == os.fstat(file).st_ino
        except OSError:
            return False

    @property
    def inode(self) -> int:
        """The inode of the locked file. If the path names a file with another inode, another process may hold that one."""
        assert self._file is not None
        return os.fstat(self._file).st_ino

    def release(self) -> None:
        """Release the lock. May be repeated."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                # Emptied and not deleted: another process may have the file open, and its
                # lock would then be on a file without a name.
                os.ftruncate(file, 0)
            os.close(file)

    def forget(self) -> None:
        """Close the file in a child process, which would otherwise keep the lock after the parent's death."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
