"""Whether a disk has room for more messages: the last of it is left for acknowledging those that are there."""

from __future__ import annotations

import logging
import math
import shutil
import sqlite3
from pathlib import Path
from typing import Final

from pyjms_provider.stores.errors import StoreError

__all__ = ["BELIEVED_MS", "DiskSpace"]

_log = logging.getLogger("pyjms.store")

BELIEVED_MS: Final = 100
"""For so long what was seen is believed, and until the next look at the files. To look at each write would cost as much as to encode a message."""
_MB: Final = 1_000_000


class DiskSpace:
    """What is left on the disk of one database. Used by who writes, one thread at a time.

    SQLite needs room to delete, too: for its log, and to carry that over. A disk that messages had filled to the last byte
    could not be emptied by receiving them.
    """

    def __init__(self, path: str, keep_free_bytes: int) -> None:
        """`keep_free_bytes`: so much is left; 0: nothing, and nobody looks."""
        self._path = path
        self._keep_free_bytes = keep_free_bytes
        self.looked_ms = -math.inf if keep_free_bytes else math.inf
        """When somebody has looked last, by the broker's clock."""
        self.is_short = False
        """Whether messages are to be refused."""
        self._room_within = 0
        """How many bytes of the file were free when the disk was found short last."""

    def look(self, now_ms: float, cursor: sqlite3.Cursor | None) -> None:
        """See how much there is. `cursor`: of a connection to the database; None: there is none."""
        self.looked_ms = now_ms
        was_short, self.is_short = self.is_short, self._is_short(cursor)
        if self.is_short and not was_short:
            _log.warning("PYJMS-STORE-7 %s", self.error().reason)
        elif was_short and not self.is_short:
            _log.info("PYJMS-STORE-7 the disk of %s has room for messages again", self._path)

    def check(self, cursor: sqlite3.Cursor) -> None:
        """Look for who writes by another connection, that of `cursor`. Raises `StoreError` if messages are to be refused. Any thread."""
        if self._keep_free_bytes and self._is_short(cursor):
            raise self.error()

    def is_low(self) -> bool:
        """Return whether messages would be refused now, for who watches: nobody may have written since. Any thread."""
        try:
            return max(shutil.disk_usage(Path(self._path).parent).free, self._room_within) < self._keep_free_bytes
        except OSError:
            return False  # as below

    def check_room(self, size: int) -> None:
        """Look whether what is about to be written has room, of so many bytes, in the log and once more in the database. Raises `StoreError`.

        For what may be larger than all that is left: SQLite would fill the disk with its log before it takes that back.
        """
        try:
            free = shutil.disk_usage(Path(self._path).parent).free
        except OSError:
            return  # as below
        if self._keep_free_bytes and free < 2 * size + self._keep_free_bytes:
            raise StoreError(
                f"the disk of {self._path} has no room for a transaction of {size / _MB:.0f} MB: it needs twice that, beside the "
                f"{self._keep_free_bytes / _MB:g} MB that are kept for acknowledging messages (keep_free), and {free / _MB:.0f} MB are left; "
                "nothing was written. Make room, or send less in a transaction"
            )

    def _is_short(self, cursor: sqlite3.Cursor | None) -> bool:
        try:
            free = shutil.disk_usage(Path(self._path).parent).free
            if free >= self._keep_free_bytes or cursor is None:
                return free < self._keep_free_bytes
            (pages,) = cursor.execute("PRAGMA freelist_count").fetchone()
            (page_bytes,) = cursor.execute("PRAGMA page_size").fetchone()
            self._room_within = pages * page_bytes  # what was deleted
        except (OSError, sqlite3.Error):
            return False  # whoever writes is told what is wrong
        return self._room_within < self._keep_free_bytes

    def error(self) -> StoreError:
        """Return why a message is refused."""
        return StoreError(
            f"the disk of {self._path} is full: less than {self._keep_free_bytes / _MB:g} MB are left, which are kept for "
            "acknowledging messages (keep_free); nothing was written. Make room, or receive messages, and try again"
        )
