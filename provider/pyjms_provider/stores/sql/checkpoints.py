"""Carrying SQLite's write-ahead log over into the database, beside who writes and not in its place.

By itself SQLite does that within the commit which makes the log a thousand pages long: one commit in some hundred then takes as long as
writing and forcing four megabytes, and nobody is told when the disk fails at that. Here a thread does the most of it, while commits go on. What they wrote
meanwhile is little, and the next one of them carries it over, as only who writes can begin the log anew while commits never stop. Where the thread cannot, or
has no turn, he does all of it.

Once a failure of the disk is known, nothing is begun here until `OpenFiles.mend_log` is done: the log could begin anew before all is in the database. While it
mends nobody carries over, whoever it is. Who had asked just before the failure, and an application's connection, may do so between the two.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from threading import Lock, Thread
from typing import Final

from pyjms.spi.clock import Signal
from pyjms_provider.stores.errors import StoreError
from pyjms_provider.stores.sql.sqlite_files import OpenFiles, connect

__all__ = ["PAGES", "Checkpoints"]

_log = logging.getLogger("pyjms.store")

_CARRY_OVER: Final = "PRAGMA wal_checkpoint(PASSIVE)"
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
        if self._is_left:
            self._carry_over_rest(writer)
        elif self._pages >= self._look_at:
            self._look_at = self._pages + _LOOK
            seen = self._files.log_pages()
            written = self._pages if seen is None else seen
            if written >= _LONG or (written >= PAGES and not self._is_told and not self._wake()):
                self._carry_over_rest(writer)

    def _carry_over_rest(self, writer: sqlite3.Cursor) -> None:
        if not self._files.may_carry_over():
            return  # it is left until the log is mended, or tried again soon
        self._is_left = self._is_told = False
        self._pages, self._look_at = 0, _LOOK
        try:
            writer.execute(_CARRY_OVER).fetchone()
        except sqlite3.Error as error:  # what was to be written is; the log goes on as it is
            self._files.note(error)

    def _wake(self) -> bool:
        """Have the thread carry over. Return False when there is none."""
        with self._lock:
            if self._is_closed:
                return True
            self._is_wanted = self._is_told = True
            if self._thread is None:
                thread = Thread(target=self._run, name=f"pyjms checkpoints {self._path}", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the system has no more threads
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
                connection.interrupt()
        self._changed.set()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while self._is_to_go_on():
            try:
                connection = connection or self._connect()
                self._carry_over(connection)
            except (sqlite3.Error, StoreError) as error:  # whoever writes is told by its own commit, if it concerns it
                self._files.note(error)
                self._is_left = True  # not before the failure is noted
                _log.debug("the log of %s was not carried over: %s", self._path, error)
                self._let_go(connection)
                connection = None
        self._let_go(connection)

    def _is_to_go_on(self) -> bool:
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
        self._files.look()  # a connection to another file of this name would carry this one's log over into it
        connection = connect(self._path, isolation_level=None, check_same_thread=False)
        connection.execute(f"PRAGMA synchronous={self._synchronous}")
        return connection

    def _carry_over(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            self._connection = connection  # for `close`, which interrupts it
            if self._is_closed:
                return
        if self._files.may_carry_over():
            connection.execute(_CARRY_OVER).fetchone()
        self._is_left = True

    def _let_go(self, connection: sqlite3.Connection | None) -> None:
        if connection is not None:
            with self._lock:
                if self._connection is connection:
                    self._connection = None
            with suppress(sqlite3.Error):
                connection.close()
