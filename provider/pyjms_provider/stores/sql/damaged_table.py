"""Reading what can be read of a table of SQLite some of whose pages are damaged.

SQLite finds rows by their keys, and raises an error at the first page on its way that it does not understand. So rows are read from both ends until
there is damage, and then from a key in the middle of what is left, and so on, until that is a few keys here and there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Final

__all__ = ["DamagedTable"]

_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1
_TRIES: Final = 200_000
"""So many keys are tried: a few seconds, for far more damage than a table mostly has."""
_STEP: Final = 1.01
"""Where an end of a table is damaged, each key that is tried is so many times as far away as the last one, so a few leaves between damages may be missed there."""
_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_TOOBIG}


class DamagedTable:
    """A table with a key of one integer, of which `read` finds what it can."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        table: str,
        key: str,
        columns: Sequence[str],
        keep: Callable[[Sequence[Any]], None],
        *,
        is_unique: bool,
    ) -> None:
        """`keep` is given each row, in no order, and sometimes twice. `is_unique`: no two rows have the same key."""
        # In brackets, as SQLite takes a name in "quotes" that no column has for a text, and returns that from each row.
        names = ", ".join(f"[{name}]" for name in columns)
        self._query = f"SELECT [{key}], {names} FROM [{table}] WHERE [{key}] BETWEEN ? AND ? ORDER BY [{key}]"  # noqa: S608
        self._down_query = f"{self._query} DESC"
        self._connection = connection
        self._keep = keep
        self._step = 1 if is_unique else 0
        self._gaps: list[tuple[int, int, int]] = []
        self.is_whole = True
        self.unread = 0
        """Keys between those that were read that could not be; which of them there were is not known."""
        self.lacks_ends = False
        """Rows before the first or behind the last one that was read may be lost, too."""

    def read(self) -> None:
        """Read. Raises `sqlite3.Error` for what is no damage."""
        low = self._up(_LOWEST, _HIGHEST)
        high = None if low is None else self._down(low, _HIGHEST)
        self.is_whole = low is None
        if low is None or high is None:
            return
        has_begin, has_end = low > _LOWEST, high < _HIGHEST
        self.lacks_ends = not (has_begin and has_end)
        begin = low if has_begin else self._farthest(high if has_end else 0, -1)
        end = high if has_end else self._farthest(low if has_begin else 0, 1)
        self._add_gap(begin, end)
        self._read_gaps()

    def _read_gaps(self) -> None:
        """Read from the middle of the widest gap, until there are none, or each is one key that cannot be read."""
        tries = _TRIES
        while self._gaps and tries:
            tries -= 1
            _, low, high = heappop(self._gaps)
            if low == high:
                self.unread += self._up(low, low) is not None and self._down(low, low) is not None
            else:
                middle = (low + high + 1) // 2
                self._add_gap(self._up(middle, high), high)
                self._add_gap(low, self._down(low, middle - 1))
        self.unread += sum([high - low + 1 for _, low, high in self._gaps])

    def _add_gap(self, low: int | None, high: int | None) -> None:
        if low is not None and high is not None and low <= high:
            heappush(self._gaps, (low - high, low, high))

    def _farthest(self, start: int, direction: int) -> int:
        """Return the key farthest from `start` that can be found although the end cannot be read, or `start`."""
        farthest = key = start
        while _LOWEST <= key <= _HIGHEST:
            last, _ = (
                self._run(self._query, key, _HIGHEST) if direction > 0 else self._run(self._down_query, _LOWEST, key)
            )
            if last is not None:
                farthest = key = last
            key += direction * (1 + int(abs(key - start) * (_STEP - 1)))
        return farthest

    def _up(self, low: int, high: int) -> int | None:
        """Read from `low` on; return the first key of which there may be more, or None."""
        last, is_whole = self._run(self._query, low, high)
        if is_whole:
            return None
        return low if last is None else last + self._step

    def _down(self, low: int, high: int) -> int | None:
        """Read from `high` down; return the last key of which there may be more, or None."""
        last, is_whole = self._run(self._down_query, low, high)
        if is_whole:
            return None
        return high if last is None else last - self._step

    def _run(self, query: str, low: int, high: int) -> tuple[int | None, bool]:
        """Keep what can be read one after the other; return the last key, and whether there was no damage."""
        last: int | None = None
        equal = 0
        try:
            for key, *row in self._connection.execute(query, (low, high)):
                self._keep(row)
                if (
                    type(key) is int and low <= key <= high
                ):  # in a damaged tree SQLite finds others, too, from which nobody gets on
                    equal = equal + 1 if key == last else 1
                    last = key
        except sqlite3.DatabaseError as error:
            _check(error)
        else:
            return last, True
        if last is not None:
            low, high = (low, last) if query is self._down_query else (last, high)
        return self._one_more(query, low, high, equal, last), False

    def _one_more(self, query: str, low: int, high: int, offset: int, last: int | None) -> int | None:
        """Keep the row that the driver had and forgot when the one after it could not be read; return its key, or `last`."""
        try:
            for key, *row in self._connection.execute(f"{query} LIMIT 1 OFFSET {offset}", (low, high)):
                self._keep(row)
                return key if type(key) is int and low <= key <= high else last
        except sqlite3.DatabaseError as error:
            _check(error)
        return last


def _check(error: sqlite3.DatabaseError) -> None:
    """Raise an error that is no damage."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
        raise error
