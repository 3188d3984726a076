"""Carrying SQLite's write-ahead log over into the database, beside who writes and not in its place.

By itself SQLite does that within the commit which makes the log a thousand pages long: one commit in some hundred then takes as long as
writing and forcing four megabytes. Here a thread does the most of it sooner, while commits go on. What they wrote meanwhile is little, and the
next one of them carries it over, as only who writes can begin the log anew while commits never stop.
"""

from __future__ import annotations

import logging
import sqlite3
from contextlib import suppress
from threading import Lock, Thread
from typing import Final

from pyjms.spi.clock import Signal
from pyjms_provider.stores.sql.sqlite_files import OpenFiles, connect

__all__ = ["PAGES", "Checkpoints"]

_log = logging.getLogger("pyjms.store")

_CARRY_OVER: Final = "PRAGMA wal_checkpoint(PASSIVE)"
PAGES: Final = 900
"""After so many in a log the thread carries over: somewhat sooner than SQLite would."""


class Checkpoints:
    """The thread of one database, which starts with the first work that there is. It does nothing that SQLite would not do itself.

    `wrote` is called by who writes, one thread at a time; `close` by any.
    """

    def __init__(self, files: OpenFiles, *, synchronous: str) -> None:
        """`files` hear of a disk that fails. `synchronous`: the PRAGMA by which the database is forced before the log begins anew."""
        self._files = files
        self._path = files.path
        self._synchronous = synchronous
        self._pages = 0
        # Not a condition: Python may interrupt the main thread, which writes, between two lines of its `__enter__` and `__exit__`.
        self._lock = Lock()
        self._changed = Signal()
        self._is_wanted = self._is_closed = False
        self._is_carried_over = False
        """The thread is done, and who writes is not told yet."""
        self._thread: Thread | None = None
        self._connection: sqlite3.Connection | None = None

    def wrote(self, pages: int, writer: sqlite3.Cursor) -> None:
        """Hear that a commit of `writer` wrote about so many pages; if the thread is done, carry over by `writer` what little is left."""
        self._pages += pages
        if self._is_carried_over:
            self._is_carried_over = False
            self._pages = 0
            try:
                writer.execute(_CARRY_OVER).fetchone()
            except sqlite3.Error as error:  # what was to be written is; the log goes on as it is
                self._files.note(error)
        elif self._pages >= PAGES:
            self._pages = 0
            self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._is_wanted = True
            # it may be that who began it was interrupted before
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name=f"pyjms checkpoints {self._path}", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError as error:  # the system has no more threads: SQLite carries over within a commit
                    _log.warning("%s could not be started: %s", self._thread.name, error)
        self._changed.set()

    def close(self) -> None:
        """End the thread, which gives up what it is doing: nothing of it is lost. May be repeated."""
        with self._lock:
            self._is_closed = True
            connection, thread = self._connection, self._thread
            if connection is not None:
                connection.interrupt()
        self._changed.set()
        if thread is not None and thread.is_alive():
            thread.join()

    def _run(self) -> None:
        while self._is_to_go_on():
            try:
                self._carry_over()
            except sqlite3.Error as error:  # whoever writes is told by its own commit, if it concerns it
                self._files.note(error)
                _log.debug("the log of %s was not carried over: %s", self._path, error)
                self._let_go()
        self._let_go()

    def _is_to_go_on(self) -> bool:
        """Wait for work; return False when there is none any more."""
        while True:
            with self._lock:
                if self._is_wanted or self._is_closed:
                    self._is_wanted = False
                    return not self._is_closed
            self._changed.wait(-1)

    def _carry_over(self) -> None:
        connection = self._connection
        if connection is None:
            connection = connect(self._path, isolation_level=None, check_same_thread=False)
            connection.execute(f"PRAGMA synchronous={self._synchronous}")
            with self._lock:
                self._connection = connection
                if self._is_closed:
                    return
        connection.execute(_CARRY_OVER).fetchone()
        self._is_carried_over = True

    def _let_go(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()
