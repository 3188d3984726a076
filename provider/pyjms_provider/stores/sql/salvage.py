"""Salvage: copies all readable rows of a damaged SQLite store to a new, consistent store.

Related rows may be damaged independently. A message whose queue is lost goes to a new queue, and a message whose prepared transaction is
lost is quarantined, as the outcome of the transaction is unknown. All messages are flagged as redelivered, as the marks of delivered ones
may be lost.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL, and_, delete, func, insert, inspect, literal, or_, select, union, update
from sqlalchemy.exc import DBAPIError

from pyjms.spi.envelope import AddressKind
from pyjms_provider.stores.errors import (
    DamagedStoreError,
    ForeignStoreError,
    HeldStoreError,
    NewerStoreError,
    UnusableStoreError,
)
from pyjms_provider.stores.file_lock import FileLock, describe_holder
from pyjms_provider.stores.sql import schema as t
from pyjms_provider.stores.sql.schema import ADDED_COLUMNS, FIRST, PRODUCT, create_missing_tables, prepare_schema
from pyjms_provider.stores.sql.sqlite import make_engine, understand

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

    from pyjms.spi.clock import Clock

# Reading a table of SQLite with damaged pages. SQLite finds rows by their keys, and raises an error at the first damaged
# page on its way. So rows are read from both ends up to the damage, then from a key in the middle of the remaining gap,
# and so on, until only small gaps are left.

_LOWEST_KEY: Final = -(2**63)
_HIGHEST_KEY: Final = 2**63 - 1
_TRIES: Final = 200_000
"""The maximal number of keys to try: a few seconds, and enough for far more damage than is common."""
_STEP: Final = 1.01
"""The factor by which the distance of tried keys grows where an end of a table is damaged; a few leaves between damaged pages may be missed there."""
_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_TOOBIG}


class DamagedTable:
    """A damaged table with an integer key; `read` finds all readable rows."""

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
        """`keep` is called with each row, in no particular order, sometimes twice. `is_unique`: no two rows have the same key."""
        # In brackets: SQLite would treat an unknown column name in "quotes" as a string, and return that for each row.
        names = ", ".join(f"[{name}]" for name in columns)
        self._query = f"SELECT [{key}], {names} FROM [{table}] WHERE [{key}] BETWEEN ? AND ? ORDER BY [{key}]"  # noqa: S608
        self._down_query = f"{self._query} DESC"
        self._connection = connection
        self._keep = keep
        self._step = 1 if is_unique else 0
        self._gaps: list[tuple[int, int, int]] = []
        self.is_whole = True
        self.unread = 0
        """The number of unreadable keys between those that were read; how many of them existed is unknown."""
        self.lacks_ends = False
        """Whether rows before the first or after the last readable one may be lost, too."""

    def read(self) -> None:
        """Read all readable rows. Raises `sqlite3.Error` for errors other than damage."""
        low = self._up(_LOWEST_KEY, _HIGHEST_KEY)
        high = None if low is None else self._down(low, _HIGHEST_KEY)
        self.is_whole = low is None
        if low is None or high is None:
            return
        # If an end was not reached, there may be rows beyond the last readable one.
        has_begin, has_end = low > _LOWEST_KEY, high < _HIGHEST_KEY
        self.lacks_ends = not (has_begin and has_end)
        begin = low if has_begin else self._farthest(high if has_end else 0, -1)
        end = high if has_end else self._farthest(low if has_begin else 0, 1)
        self._add_gap(begin, end)
        self._read_gaps()

    def _read_gaps(self) -> None:
        """Read from the middle of the widest gap, repeatedly, until no gap can be narrowed any more."""
        tries = _TRIES
        while self._gaps and tries:
            tries -= 1
            # The widest gap first: it may hold most rows, and the number of tries is limited.
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
            # The negative width, as a heap returns its smallest item first.
            heappush(self._gaps, (low - high, low, high))

    def _farthest(self, start: int, direction: int) -> int:
        """Return the farthest key from `start` that can be found although the end cannot be read, or `start`."""
        farthest = key = start
        while _LOWEST_KEY <= key <= _HIGHEST_KEY:
            last, _ = (
                self._run(self._query, key, _HIGHEST_KEY)
                if direction > 0
                else self._run(self._down_query, _LOWEST_KEY, key)
            )
            if last is not None:
                farthest = key = last
            # The distance grows with each miss, so that even 2**63 keys take a few thousand tries.
            key += direction * (1 + int(abs(key - start) * (_STEP - 1)))
        return farthest

    def _up(self, low: int, high: int) -> int | None:
        """Read upwards from `low`; return the key from which on rows may be unread, or None."""
        last, is_whole = self._run(self._query, low, high)
        if is_whole:
            return None
        return low if last is None else last + self._step

    def _down(self, low: int, high: int) -> int | None:
        """Read downwards from `high`; return the key down from which rows may be unread, or None."""
        last, is_whole = self._run(self._down_query, low, high)
        if is_whole:
            return None
        return high if last is None else last - self._step

    def _run(self, query: str, low: int, high: int) -> tuple[int | None, bool]:
        """Read rows up to the first damage; return the last key, and whether there was no damage."""
        last: int | None = None
        equal = 0
        try:
            for key, *row in self._connection.execute(query, (low, high)):
                self._keep(row)
                # In a damaged tree SQLite also finds keys outside the range, from which the search must not go on.
                if type(key) is int and low <= key <= high:
                    equal = equal + 1 if key == last else 1
                    last = key
        except sqlite3.DatabaseError as error:
            _check(error)
        else:
            return last, True
        # The driver fetches one row ahead: the row before the damage was read, but never returned.
        if last is not None:
            low, high = (low, last) if query is self._down_query else (last, high)
        return self._read_dropped_row(query, low, high, equal, last), False

    def _read_dropped_row(self, query: str, low: int, high: int, offset: int, last: int | None) -> int | None:
        """Read the row that the driver had fetched, but dropped when the next one was unreadable; return its key, or `last`."""
        try:
            for key, *row in self._connection.execute(f"{query} LIMIT 1 OFFSET {offset}", (low, high)):
                self._keep(row)
                return key if type(key) is int and low <= key <= high else last
        except sqlite3.DatabaseError as error:
            _check(error)
        return last


def _check(error: sqlite3.DatabaseError) -> None:
    """Raise `error` unless it means damage."""
    # A lock or a full disk is no damage, and must not count as lost rows.
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
        raise error


SALVAGED: Final = "salvaged"
"""The name of the queue for messages without any known queue; a dot and a number follow for queues whose name is lost."""
_CHUNK: Final = 10_000
"""The number of rows per transaction; progress is reported after each."""
_COPIED: Final = [table for table in t.SCHEMA.sorted_tables if table is not t.META]
_HIGHEST: Final = 2**53
_PRIORITIES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedTable:
    """The result of the salvage of one table."""

    name: str
    saved: int
    unread: int
    """The number of unreadable keys; how many of them existed is unknown."""
    lacks_ends: bool
    """Whether rows before the first or after the last readable one may be lost, too."""
    refused: int
    """The maximal number of rows that were read and are lost, as they lack values, or other rows have their keys."""
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageResult:
    """The result of a salvage."""

    tables: Sequence[SalvagedTable]
    messages: int
    made_queues: Sequence[str]
    """The names of the new queues, for messages whose own queue is lost."""
    set_aside: int
    """The number of quarantined messages; the outcome of their transaction is unknown."""


def salvage(
    damaged: Path, new: Path, clock: Clock, progress: Callable[[str, int], None] = lambda *_: None
) -> SalvageResult:
    """Copy the readable rows of the store in the file `damaged` to the file `new`, which must not exist.

    `progress` is called with the name of a table and the number of rows read so far. Raises `StoreError`: `UnusableStoreError`,
    `HeldStoreError` if a broker uses the damaged file, `ForeignStoreError`, `NewerStoreError`, and `DamagedStoreError` if not even the
    list of tables can be read.
    """
    if not damaged.is_file():
        raise UnusableStoreError(f"there is no file {damaged}")
    if new.exists():
        raise UnusableStoreError(f"{new} is there already; name a file that is not")
    path = os.path.realpath(damaged)
    # A running broker would go on writing, and the copy would be inconsistent.
    lock = FileLock(f"{path}.lock", describe_holder("salvage"))
    try:
        lock.acquire()
    except HeldStoreError as error:
        # Without the advice about stand-by, as salvage cannot wait.
        raise HeldStoreError(f"{error.reason.partition('; ')[0]}; stop that first") from None
    # Under another name until it is complete: if a store without its last tables were opened, messages would be lost.
    part = new.with_name(f"{new.name}.part")
    # An earlier attempt may have been killed.
    _remove(part)
    engine = make_engine(URL.create("sqlite", database=str(part)), synchronous="FULL", checkpoints_in_commits=True)
    try:
        with closing(_open(path)) as source:
            found = _look(source, path)
            with engine.begin() as connection:
                _make_tables(source, connection, found)
            saved = [_copy(source, table, engine, progress) for table in _COPIED if table.name in found.names]
        with engine.begin() as connection:
            # This migrates a store of an older version.
            prepare_schema(connection, str(new), is_shared=False)
            # Tables that were lost as a whole are created empty.
            t.SCHEMA.create_all(connection)
            set_aside = _quarantine_lost(connection, clock.time_ms())
            made = _repair_queues(connection)
            messages = connection.scalar(select(func.count()).select_from(t.MESSAGE)) or 0
        # Before the rename: the log is named after the file, and would be left behind.
        _end_log(engine)
        engine.dispose()
        part.rename(new)
    except (sqlite3.Error, DBAPIError) as error:
        raise understand(error, str(new)) from error
    finally:
        engine.dispose()
        # After a success there is nothing to remove: the file was renamed.
        _remove(part)
        lock.release()
    return SalvageResult(tables=saved, messages=messages, made_queues=made, set_aside=set_aside)


def _end_log(engine: Engine) -> None:
    """Move the whole log into the database. Closing the last connection would do this, too, but not report that the disk is full."""
    lent = engine.raw_connection()
    try:
        lent.cursor().execute("PRAGMA journal_mode=DELETE")
    finally:
        lent.close()


def _remove(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)


def _open(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{Path(path).as_uri()}?mode=rw", uri=True, isolation_level=None)
    # Text that is not UTF-8 is kept as far as it can be decoded, instead of raising an error.
    connection.text_factory = lambda text: text.decode(errors="replace")
    # With this, SQLite also opens a truncated file.
    connection.execute("PRAGMA writable_schema=ON")
    # The damaged file is not changed, for another attempt or another tool.
    connection.execute("PRAGMA query_only=ON")
    return connection


@dataclass(frozen=True, slots=True, kw_only=True)
class _SourceTables:
    """The tables and the meta data of a damaged store."""

    names: Collection[str]
    """The names of its tables."""
    version: int
    next_queue: int
    epoch: int


def _look(source: sqlite3.Connection, path: str) -> _SourceTables:
    """Read the tables and the meta data of the store. Raises `DamagedStoreError`, `ForeignStoreError`, `NewerStoreError`."""
    try:
        names = {name for (name,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError as error:
        raise DamagedStoreError(
            f"nothing of {path} can be read, not even which tables it has: {error}. Put a backup in its place"
        ) from error
    if t.META.name not in names:
        raise ForeignStoreError(f"{path} has no table {t.META.name}: it is no store of {PRODUCT}, or that is lost")
    found: list[Sequence[Any]] = []
    columns = ["version", "next_queue", "epoch"]
    # This row, too, may be on a damaged page.
    DamagedTable(source, t.META.name, "rowid", columns, found.append, is_unique=True).read()
    # If the values are damaged, the version follows from the existing columns.
    if not found or any(type(value) is not int or value < 0 for value in found[0]) or found[0][0] < FIRST:
        return _SourceTables(names=names, version=_version_by_columns(source), next_queue=1, epoch=0)
    version, next_queue, epoch = found[0]
    if version > t.VERSION:
        raise NewerStoreError(
            f"{path} has schema {version}, and this pyjms knows schema {t.VERSION}: install the pyjms that wrote it, or a newer one"
        )
    return _SourceTables(names=names, version=version, next_queue=next_queue, epoch=epoch)


def _version_by_columns(source: sqlite3.Connection) -> int:
    def has(table: str, column: str) -> bool:
        return any(name == column for _, name, *_ in source.execute(f"PRAGMA table_info([{table}])"))

    return max((version for version, added in ADDED_COLUMNS.items() if has(*added)), default=1)


def _make_tables(source: sqlite3.Connection, connection: Connection, found: _SourceTables) -> None:
    """Create the tables of the version that was found, so that only `MIGRATIONS` have to interpret older rows."""
    if found.version == t.VERSION:
        t.SCHEMA.create_all(connection)
    else:
        # By the statements of the damaged store itself, so that all columns of the older version exist.
        made = "SELECT sql FROM sqlite_master WHERE substr(tbl_name, 1, ?) = ? AND sql IS NOT NULL ORDER BY type DESC"
        # Tables first, and then their indexes.
        for (statement,) in source.execute(made, (len(t.PREFIX), t.PREFIX)):
            connection.exec_driver_sql(statement)
        create_missing_tables(connection, found.version)
    # Not clean: the next opening then counts deliveries by the marks.
    row = {"version": found.version, "next_queue": found.next_queue, "epoch": found.epoch}
    connection.execute(insert(t.META).values(one=1, product=PRODUCT, clean=False, holder="", **row))


def _copy(
    source: sqlite3.Connection, table: Table, engine: Engine, progress: Callable[[str, int], None]
) -> SalvagedTable:
    with engine.connect() as connection:
        columns = [column["name"] for column in inspect(connection).get_columns(table.name)]
    names, places = ", ".join(f"[{name}]" for name in columns), ", ".join("?" * len(columns))
    # A damaged tree may yield a row twice, or two rows with one key; the first one stays.
    add = f"INSERT OR IGNORE INTO {table.name} ({names}) VALUES ({places})"  # noqa: S608
    find = f"SELECT 1 FROM {table.name} WHERE {' AND '.join(f'[{name}] IS ?' for name in columns)}"  # noqa: S608
    rows: list[tuple[Any, ...]] = []
    count = refused = 0

    def keep(row: Sequence[Any]) -> None:
        rows.append(tuple(row))
        if len(rows) == _CHUNK:
            write()

    def write() -> None:
        nonlocal count, refused
        if rows:
            with engine.begin() as connection:
                # Rows are looked up only if some were ignored: one that is stored unchanged was merely read twice.
                if connection.exec_driver_sql(add, rows).rowcount < len(rows):
                    refused += sum(connection.exec_driver_sql(find, row).first() is None for row in rows)
        count += len(rows)
        rows.clear()
        progress(table.name, count)

    has_rowid = table.dialect_options["sqlite"]["with_rowid"]
    key = "rowid" if has_rowid else next(iter(table.primary_key)).name
    reader = DamagedTable(source, table.name, key, columns, keep, is_unique=has_rowid)
    reader.read()
    write()
    with engine.connect() as connection:
        saved = connection.scalar(select(func.count()).select_from(table)) or 0
    return SalvagedTable(
        name=table.name,
        saved=saved,
        unread=reader.unread,
        lacks_ends=reader.lacks_ends,
        refused=refused,
        is_whole=reader.is_whole and not refused,
    )


def _quarantine_lost(connection: Connection, now_ms: int) -> int:
    """Quarantine the messages of lost branches and staged units, and return their number; delete rows that refer to lost rows."""
    message = t.MESSAGE.c
    units = select(t.BRANCH.c.number).union(select(t.STAGE.c.number))
    lost = and_(message.branch.is_not(None), message.branch.not_in(units))
    why = "it was sent in a transaction that was prepared, and which is lost"
    rows = select(message.id, literal(""), literal(now_ms), literal(why), message.payload).where(lost)
    put = insert(t.SET_ASIDE).prefix_with("OR IGNORE").from_select(list(t.SET_ASIDE.columns), rows)
    count = connection.execute(put).rowcount
    # In the same transaction: each message is either in its own table or in quarantine.
    connection.execute(delete(t.MESSAGE).where(lost))
    for table, column, known in (
        (t.ENTRY, t.ENTRY.c.message, select(message.id)),
        (t.REMOVAL, t.REMOVAL.c.branch, select(t.BRANCH.c.number)),
        (t.GROUP, t.GROUP.c.queue, select(t.QUEUE.c.number)),
        (t.RESERVED, t.RESERVED.c.group_number, select(t.GROUP.c.number)),
        (t.BRANCH_CLIENT, t.BRANCH_CLIENT.c.branch, select(t.BRANCH.c.number)),
    ):
        connection.execute(delete(table).where(column.not_in(known)))
    return count


def _repair_queues(connection: Connection) -> list[str]:
    """Give each message a queue, and flag all as redelivered; return the names of the new queues."""
    message, queue, entry = t.MESSAGE.c, t.QUEUE.c, t.ENTRY.c
    known = select(queue.number)
    places = [select(column).where(column.not_in(known)) for column in (message.queue, entry.queue)]
    strays = connection.scalars(union(*places)).all()
    # One new queue for each lost one, so that the messages of a queue stay together.
    made = {number: f"{SALVAGED}.{number}" for number in strays if type(number) is int and 0 < number <= _HIGHEST}
    _make_queues(connection, made)
    connection.execute(delete(t.ENTRY).where(entry.queue.not_in(known)))
    highest = connection.scalar(select(func.max(queue.number))) or 0
    # The stored next number may be lost, or lower than the numbers of the queues that were found.
    another = max(highest + 1, connection.scalar(select(t.META.c.next_queue)) or 1)
    is_nowhere = or_(
        message.queue.not_in(known), and_(message.queue.is_(None), message.id.not_in(select(entry.message)))
    )
    nowhere = update(t.MESSAGE).where(message.branch.is_(None), is_nowhere).values(queue=another)
    if connection.execute(nowhere).rowcount:
        made[another] = SALVAGED
        _make_queues(connection, {another: SALVAGED})
    connection.execute(update(t.META).values(next_queue=another + 1))
    _flag_all(connection)
    return list(made.values())


def _make_queues(connection: Connection, names: Mapping[int, str]) -> None:
    for number, name in names.items():
        row = {"number": number, "kind": AddressKind.QUEUE, "name": name, "temporary": False, "no_local": False}
        connection.execute(insert(t.QUEUE).values(**row))


def _flag_all(connection: Connection) -> None:
    """Flag all messages as redelivered, as the marks of those that were delivered may be lost."""
    last = connection.scalar(select(func.max(t.MESSAGE.c.id))) or 0
    marks = [
        {"queue": number, "priority": priority, "message": last}
        for number in connection.scalars(select(t.QUEUE.c.number)).all()
        for priority in range(_PRIORITIES)
    ]
    # The salvaged marks are deleted first, as the new rows have the same keys.
    connection.execute(delete(t.MARK))
    if marks:
        connection.execute(insert(t.MARK), marks)
