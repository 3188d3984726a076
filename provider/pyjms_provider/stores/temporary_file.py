"""The temporary file of a broker without a store: messages that do not fit into memory wait in it (Broker-J, flow to disk).

It is a database of SQLite, by the standard library alone, without a log and without a name: it is removed from its directory as soon as it is open,
so that the system frees it with the process, however that ends. Nobody but its owner may read it (mode 0600). A system that cannot remove an
open file keeps it until the broker stops.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.envelope import ObjectBody
from pyjms_provider.forks import forget_in_children
from pyjms_provider.stores.errors import CodecError, PagingFullError, StoreError, UnusableStoreError
from pyjms_provider.stores.message_format import decode, encode

if TYPE_CHECKING:
    from pyjms.spi.envelope import Envelope
    from pyjms_provider.core.message.reference import MessageReference, ReferenceId
    from pyjms_provider.settings import PagingSettings

__all__ = ["TemporaryFile", "default_directory"]

_log = logging.getLogger("pyjms.store")

_PURGE: Final = 512
"""The number of dropped messages that are deleted together."""
_AT_ONCE: Final = 256  # ids in one statement
_MB: Final = 1_000_000
_SPARE_PAGES: Final = 4096
"""The free pages that the file keeps, 16 MB: to give each back, and take it again, would cost more than it saves."""


def default_directory() -> Path:
    """Return the directory of temporary files that may be large."""
    # /tmp is in memory on many systems, and /var/tmp is for larger files (the file system hierarchy of Linux); TMPDIR is the user's choice.
    large = Path("/var/tmp")  # noqa: S108 - `mkstemp` makes the file
    chosen = os.environ.get("TMPDIR")
    return Path(chosen) if chosen else large if large.is_dir() else Path(tempfile.gettempdir())


class TemporaryFile:
    """The messages of one broker that are not in memory. Safe to use from any thread.

    The file is made when the first message is written. `_reader` is the right to use the connection: it is held during I/O.
    """

    def __init__(self, settings: PagingSettings) -> None:
        """Raises `UnusableStoreError` if no file can be made in the directory."""
        self._directory = settings.directory or default_directory()
        self._limit_bytes = settings.limit_bytes
        self._keep_free_bytes = settings.keep_free_bytes
        self._lock = Lock()
        self._dropped: dict[ReferenceId, None] = {}
        self._connection_right = Lock()
        self._connection: sqlite3.Connection | None = None
        self._path: Path | None = None
        """Of a file that could not be removed while it is open."""
        self._is_closed = False
        self._bytes = 0
        self._count = 0
        if not (self._directory.is_dir() and os.access(self._directory, os.W_OK | os.X_OK)):
            raise UnusableStoreError(
                f"{self._directory} is no directory in which files can be made, and messages beyond the memory of the broker go to a "
                "file there: make it, name another one as paging_directory, or set TMPDIR"
            )
        forget_in_children(self)

    @property
    def bytes_stored(self) -> int:
        """How many bytes the messages in the file take."""
        return self._bytes

    # What `PagingMessageStore` calls

    def page_out(self, messages: Sequence[tuple[MessageReference, Envelope]]) -> None:
        """Write messages. Raises `PagingFullError`, `StoreError`: none was written."""
        rows = [_row(reference, envelope) for reference, envelope in messages]
        size = sum(len(payload) for _, _, payload in rows)
        with self._connection_right:
            with self._lock:
                for number, _, _ in rows:
                    self._dropped.pop(number, None)
            # First, as this makes room.
            if len(self._dropped) >= _PURGE or not self._has_room(size):
                self._purge()
            self._check_room(size)
            try:
                connection = self._open()
                with connection:
                    replaced = _sizes(connection, [number for number, _, _ in rows])
                    connection.executemany("INSERT OR REPLACE INTO message VALUES (?, ?, ?)", rows)
            except sqlite3.Error as error:
                raise self._error(error, "written") from error
            self._bytes += size - sum(replaced)
            self._count += len(rows) - len(replaced)

    def read(self, ids: Sequence[ReferenceId]) -> dict[ReferenceId, Envelope]:
        """Return those of the messages that are in the file. Raises `StoreError`."""
        found: dict[ReferenceId, Envelope] = {}
        with self._connection_right:
            if not self._count:
                return found
            try:
                rows = _select(self._open(), "number, is_local, payload", ids)
            except sqlite3.Error as error:
                raise self._error(error, "read") from error
            if len(self._dropped) >= _PURGE:
                # A reader waits for the disk anyway; an acknowledgement, which drops messages, must not.
                with suppress(StoreError):
                    self._purge()
        for number, is_local, payload in rows:
            try:
                found[number] = _envelope(payload, is_local=bool(is_local))
            except CodecError as error:
                # Left out: the queue skips what cannot be read.
                _log.error(
                    "PYJMS-STORE-11 a message in the temporary file in %s is lost: %s", self._directory, error.reason
                )
        return found

    def drop_paged(self, ids: Sequence[ReferenceId]) -> None:
        """Mark messages for deletion. Does not wait for the disk. May be repeated."""
        with self._lock:
            self._dropped.update(dict.fromkeys(ids))

    def close(self) -> None:
        """Give the file back. May be repeated."""
        with self._connection_right:
            self._is_closed = True
            connection, self._connection = self._connection, None
            path, self._path = self._path, None
            if connection is not None:
                connection.close()
            if path is not None:
                with suppress(OSError):
                    path.unlink()

    def forget(self) -> None:
        """Leave the file to the parent, in a forked child: closing SQLite's connection there would be unsafe."""
        self._lock, self._connection_right = Lock(), Lock()
        self._is_closed, self._path = True, None

    # With the right to use the connection

    def _open(self) -> sqlite3.Connection:
        """Return the connection, to a file that is made now if there is none. Raises `StoreError`, `sqlite3.Error`."""
        if self._is_closed:
            raise StoreError("the broker has stopped, and its messages are gone")
        if self._connection is None:
            try:
                descriptor, name = tempfile.mkstemp(prefix="pyjms-paged-", dir=self._directory)
            except OSError as error:
                raise PagingFullError(
                    f"no file can be made in {self._directory}: {error.strerror}; make room there, or name another directory as "
                    "paging_directory"
                ) from error
            os.close(descriptor)
            self._connection = _connect(name)
            try:
                Path(name).unlink()
            except OSError:
                self._path = Path(name)
        return self._connection

    def _has_room(self, size: int) -> bool:
        return not self._limit_bytes or self._bytes + size <= self._limit_bytes

    def _check_room(self, size: int) -> None:
        """Raise `PagingFullError` if that many bytes do not fit."""
        if not self._has_room(size):
            raise PagingFullError(
                f"the messages beyond the memory of the broker take {self._bytes / _MB:.0f} MB in its temporary file, and {self._limit_bytes / _MB:g} MB "
                "are allowed (paging_limit): receive messages, or raise the limit"
            )
        try:
            free = shutil.disk_usage(self._directory).free
        except OSError:
            return  # the write that follows reports its own error
        if free < self._keep_free_bytes + size:
            raise PagingFullError(
                f"the disk of {self._directory} is full: {free / _MB:.0f} MB are left, and {self._keep_free_bytes / _MB:g} MB are kept free "
                "(keep_free); make room, receive messages, or name another directory as paging_directory"
            )

    def _purge(self) -> None:
        """Delete dropped messages, and give space back. Raises `StoreError`."""
        with self._lock:
            dropped, self._dropped = list(self._dropped), {}
        if not dropped or self._connection is None:
            return
        connection = self._connection
        try:
            with connection:
                sizes = _sizes(connection, dropped)
                connection.executemany("DELETE FROM message WHERE number = ?", [(number,) for number in dropped])
            self._bytes -= sum(sizes)
            self._count -= len(sizes)
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            if free > _SPARE_PAGES:
                connection.execute(f"PRAGMA incremental_vacuum({free - _SPARE_PAGES})").fetchall()
        except sqlite3.Error as error:
            with self._lock:
                self._dropped.update(dict.fromkeys(dropped))
            raise self._error(error, "deleted") from error

    def _error(self, error: sqlite3.Error, done: str) -> StoreError:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            return PagingFullError(
                f"the disk of {self._directory} is full, and the messages beyond the memory of the broker are there: make room, receive "
                "messages, or name another directory as paging_directory"
            )
        return StoreError(
            f"messages cannot be {done} in the temporary file in {self._directory}: {error}; look at the disk"
        )


def _connect(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(name, check_same_thread=False)
    # The file has no name any more when it is written: no other file may belong to it, and no other connection needs locks.
    for pragma in (
        "auto_vacuum=INCREMENTAL",
        "journal_mode=MEMORY",
        "locking_mode=EXCLUSIVE",
        "synchronous=OFF",
        "temp_store=MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute(
        "CREATE TABLE message (number INTEGER PRIMARY KEY, is_local INTEGER NOT NULL, payload BLOB NOT NULL)"
    )
    connection.commit()
    return connection


def _row(reference: MessageReference, envelope: Envelope) -> tuple[ReferenceId, bool, bytes]:
    body = envelope.body
    return reference.id, isinstance(body, ObjectBody) and body.local, encode(envelope)


def _envelope(payload: bytes, *, is_local: bool) -> Envelope:
    """Return a message. Raises `CodecError`."""
    envelope = decode(payload)
    body = envelope.body
    # The object has never left this process: only it can read the file.
    if is_local and isinstance(body, ObjectBody):
        return replace(envelope, body=ObjectBody(body.data, True))
    # Most messages are delivered in their encoded form, so the decoded body is dropped, and decoded again on demand.
    envelope.forget()
    return envelope


def _sizes(connection: sqlite3.Connection, ids: Sequence[ReferenceId]) -> list[int]:
    """Return the sizes of those messages that are in the file."""
    return [size for (size,) in _select(connection, "length(payload)", ids)]


def _select(connection: sqlite3.Connection, columns: str, ids: Sequence[ReferenceId]) -> list[Any]:
    """Return those columns of the messages that are in the file."""
    rows: list[Any] = []
    for first in range(0, len(ids), _AT_ONCE):
        some = ids[first : first + _AT_ONCE]
        marks = ",".join("?" * len(some))
        rows += connection.execute(f"SELECT {columns} FROM message WHERE number IN ({marks})", some).fetchall()  # noqa: S608 - no text of others
    return rows
