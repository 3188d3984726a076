"""Saving what can be read of a damaged SQLite store into a new one, which is whole and which a broker opens.

What belongs together may be damaged apart: a message whose queue is lost goes to a queue that is made for it, and a message of a transaction that was prepared and is lost
is set aside, as nobody knows how that was to end. All messages are flagged as redelivered, as it may be lost which of them were.
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
from pyjms_provider.stores.sql.schema import BROUGHT, FIRST, PRODUCT, make_lost, prepare_schema
from pyjms_provider.stores.sql.sqlite import make_engine, understand

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

    from pyjms.spi.clock import Clock

# Reading what can be read of a table of SQLite some of whose pages are damaged. SQLite finds rows by their keys, and
# raises an error at the first page on its way that it does not understand. So rows are read from both ends up to the
# damage, then from a key in the middle of what is left, and so on, until only a few keys here and there are left.

_LOWEST_KEY: Final = -(2**63)
_HIGHEST_KEY: Final = 2**63 - 1
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
        low = self._up(_LOWEST_KEY, _HIGHEST_KEY)
        high = None if low is None else self._down(low, _HIGHEST_KEY)
        self.is_whole = low is None
        if low is None or high is None:
            return
        # An end that was not reached is unknown: there may be rows beyond the last one that was read.
        has_begin, has_end = low > _LOWEST_KEY, high < _HIGHEST_KEY
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
        """Return the key farthest from `start` that can be found although the end cannot be read, or `start`."""
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
                # In a damaged tree SQLite finds keys outside the range, too, and no search may go on from those.
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
    # A lock or a full disk is no damage, and must not pass for lost rows.
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
        raise error


SALVAGED: Final = "salvaged"
"""The queue of messages of which it is lost where they were; a dot and its number follow for queues whose name is lost."""
_CHUNK: Final = 10_000
"""So many rows are written in one transaction; as often, progress is told."""
_COPIED: Final = [table for table in t.SCHEMA.sorted_tables if table is not t.META]
_HIGHEST: Final = 2**53
_PRIORITIES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedTable:
    """What became of the rows of one table."""

    name: str
    saved: int
    unread: int
    """So many keys could not be read; rows may or may not have been there."""
    lacks_ends: bool
    """Rows before the first or behind the last one that was read may be lost, too."""
    refused: int
    """So many rows were read and are lost, at most: values are missing in them, or others have their keys."""
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """What was saved."""

    tables: Sequence[SalvagedTable]
    messages: int
    made_queues: Sequence[str]
    """Queues that were made for messages whose own is lost."""
    set_aside: int
    """Messages that are in no queue, as it is not known how their transaction ended."""


def salvage(damaged: Path, new: Path, clock: Clock, progress: Callable[[str, int], None] = lambda *_: None) -> Salvaged:
    """Copy what can be read of the store in the file `damaged` to the file `new`, which must not be there.

    `progress` is told tables, and how many rows of them were read. Raises `StoreError`: `UnusableStoreError`, `HeldStoreError` if a broker works with
    the damaged file, `ForeignStoreError`, `NewerStoreError`, and `DamagedStoreError` if not even its list of tables can be read.
    """
    if not damaged.is_file():
        raise UnusableStoreError(f"there is no file {damaged}")
    if new.exists():
        raise UnusableStoreError(f"{new} is there already; name a file that is not")
    path = os.path.realpath(damaged)
    # A running broker goes on writing, and the copy would have parts of different moments.
    lock = FileLock(f"{path}.lock", describe_holder("salvage"))
    try:
        lock.acquire()
    except HeldStoreError as error:
        # The part of the message about stand-by is cut off, as salvage cannot wait.
        raise HeldStoreError(f"{error.reason.partition('; ')[0]}; stop that first") from None
    # Under another name until it is complete: a store without its last tables would lose messages when it is opened.
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
            # This brings a store of an older version to the present one.
            prepare_schema(connection, str(new), is_shared=False)
            # Tables that were lost as a whole are created empty.
            t.SCHEMA.create_all(connection)
            set_aside = _set_aside(connection, clock.time_ms())
            made = _mend(connection)
            messages = connection.scalar(select(func.count()).select_from(t.MESSAGE)) or 0
        # Before the rename: the log has its name from the file, and would be left behind.
        _end_log(engine)
        engine.dispose()
        part.rename(new)
    except (sqlite3.Error, DBAPIError) as error:
        raise understand(error, str(new)) from error
    finally:
        engine.dispose()
        # After a success this finds nothing: the file was renamed.
        _remove(part)
        lock.release()
    return Salvaged(tables=saved, messages=messages, made_queues=made, set_aside=set_aside)


def _end_log(engine: Engine) -> None:
    """Have all in the file itself. Who closes the last connection would do so, too, but would not hear that the disk is full."""
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
    # Text that is not UTF-8 is kept as far as it can be read, and does not end the search.
    connection.text_factory = lambda text: text.decode(errors="replace")
    # With this, SQLite also opens a file that was cut short.
    connection.execute("PRAGMA writable_schema=ON")
    # The damaged file stays as it is, for another attempt or another tool.
    connection.execute("PRAGMA query_only=ON")
    return connection


@dataclass(frozen=True, slots=True, kw_only=True)
class _SourceTables:
    """What a damaged store says of itself."""

    names: Collection[str]
    """Of its tables."""
    version: int
    next_queue: int
    epoch: int


def _look(source: sqlite3.Connection, path: str) -> _SourceTables:
    """Return what is known of the store. Raises `DamagedStoreError`, `ForeignStoreError`, `NewerStoreError`."""
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
    # Damaged values are as good as none: the version then follows from the columns that are there.
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

    return max((version for version, brought in BROUGHT.items() if has(*brought)), default=1)


def _make_tables(source: sqlite3.Connection, connection: Connection, found: _SourceTables) -> None:
    """Make the tables of the version that was found, so that only `MIGRATIONS` know what older rows mean."""
    if found.version == t.VERSION:
        t.SCHEMA.create_all(connection)
    else:
        # The statements of the damaged store itself, so that each column of the older version is there.
        made = "SELECT sql FROM sqlite_master WHERE substr(tbl_name, 1, ?) = ? AND sql IS NOT NULL ORDER BY type DESC"
        # Tables first, and then their indexes.
        for (statement,) in source.execute(made, (len(t.PREFIX), t.PREFIX)):
            connection.exec_driver_sql(statement)
        make_lost(connection, found.version)
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
                # Only then is each row looked up: a row that is there as it was read was only read twice.
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


def _set_aside(connection: Connection, now_ms: int) -> int:
    """Set aside the messages of branches and staged units that are lost, and return how many they are; forget what refers to what is lost."""
    message = t.MESSAGE.c
    units = select(t.BRANCH.c.number).union(select(t.STAGE.c.number))
    lost = and_(message.branch.is_not(None), message.branch.not_in(units))
    why = "it was sent in a transaction that was prepared, and which is lost"
    rows = select(message.id, literal(""), literal(now_ms), literal(why), message.payload).where(lost)
    put = insert(t.SET_ASIDE).prefix_with("OR IGNORE").from_select(list(t.SET_ASIDE.columns), rows)
    count = connection.execute(put).rowcount
    # Afterwards, in the same transaction: each message is either in its queue's table or in quarantine.
    connection.execute(delete(t.MESSAGE).where(lost))
    for table, column, known in (
        (t.ENTRY, t.ENTRY.c.message, select(message.id)),
        (t.REMOVAL, t.REMOVAL.c.branch, select(t.BRANCH.c.number)),
        (t.GROUP, t.GROUP.c.queue, select(t.QUEUE.c.number)),
        (t.RESERVED, t.RESERVED.c.group_number, select(t.GROUP.c.number)),
    ):
        connection.execute(delete(table).where(column.not_in(known)))
    return count


def _mend(connection: Connection) -> list[str]:
    """Give each message a queue, and flag all; return the names of the queues that were made."""
    message, queue, entry = t.MESSAGE.c, t.QUEUE.c, t.ENTRY.c
    known = select(queue.number)
    places = [select(column).where(column.not_in(known)) for column in (message.queue, entry.queue)]
    strays = connection.scalars(union(*places)).all()
    # One new queue for each lost number, so that messages that were together stay together.
    made = {number: f"{SALVAGED}.{number}" for number in strays if type(number) is int and 0 < number <= _HIGHEST}
    _make_queues(connection, made)
    connection.execute(delete(t.ENTRY).where(entry.queue.not_in(known)))
    highest = connection.scalar(select(func.max(queue.number))) or 0
    # The stored next number may be lost, or older than the queues that were found.
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
    """Have each message come as redelivered, as the marks of those that were delivered may be among what is lost."""
    last = connection.scalar(select(func.max(t.MESSAGE.c.id))) or 0
    marks = [
        {"queue": number, "priority": priority, "message": last}
        for number in connection.scalars(select(t.QUEUE.c.number)).all()
        for priority in range(_PRIORITIES)
    ]
    # The salvaged marks go first, as the new rows have the same keys.
    connection.execute(delete(t.MARK))
    if marks:
        connection.execute(insert(t.MARK), marks)
