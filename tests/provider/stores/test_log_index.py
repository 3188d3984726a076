"""The index of SQLite's log: what the database has of the log can be taken back, and a failure that nobody was told of is seen."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from pyjms_provider.stores.errors import StoreError, UnavailableStoreError
from pyjms_provider.stores.sql import sqlite_files as log_index
from pyjms_provider.stores.sql.sqlite_files import LogIndex
from tests.provider.stores.log_lock import index_of, keep_out, let_in

PAGES = 20


def open_one(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    return connection


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def database(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_one(path)) as connection:
        connection.execute("CREATE TABLE a (b)")
        for _ in range(PAGES):
            connection.execute("INSERT INTO a VALUES (zeroblob(3000))")
        yield connection


def carry_over(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return whether somebody else was at it, how long the log is, and how much of that the database has."""
    is_busy, log, carried = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return is_busy, log, carried


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Read the present state, so that what comes next is not carried over."""
    with closing(open_one(path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM a").fetchone()
        yield
        reader.execute("ROLLBACK")


def damage(path: Path) -> None:
    """Have the file lack all but its first page, as if nothing had reached the disk. It is not closed, as that would free SQLite's locks."""
    for each in Path("/proc/self/fd").iterdir():
        try:
            is_it = os.path.samestat(os.fstat(int(each.name)), path.stat())
        except OSError:
            continue
        if is_it:
            os.pwrite(int(each.name), bytes(path.stat().st_size - 4096), 4096)
            return
    raise AssertionError("the database is not open")


def test_all_is_carried_over_again(path: Path, database: sqlite3.Connection) -> None:
    with reading(path):
        database.execute("INSERT INTO a VALUES (1)")
        _, log, carried = carry_over(database)
    assert 0 < carried < log
    damage(path)
    database.execute("BEGIN IMMEDIATE")
    LogIndex(str(path)).reset_backfill()
    database.execute("ROLLBACK")
    assert carry_over(database) == (0, log, log)
    database.execute("INSERT INTO a VALUES (2)")  # the log begins anew
    assert carry_over(database)[1] < PAGES
    with closing(open_one(path)) as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert other.execute("SELECT count(*) FROM a").fetchone() == (PAGES + 2,)


def test_who_reads_and_who_writes_goes_on(path: Path, database: sqlite3.Connection) -> None:
    carry_over(database)
    with closing(open_one(path)) as reader:
        reader.execute("BEGIN")  # it reads the database alone
        assert reader.execute("SELECT count(*) FROM a").fetchone() == (PAGES,)
        database.execute("BEGIN IMMEDIATE")
        LogIndex(str(path)).reset_backfill()
        database.execute("ROLLBACK")
        database.execute("INSERT INTO a VALUES (1)")
        carry_over(database)
        assert reader.execute("SELECT count(*), sum(length(b)) FROM a").fetchone() == (PAGES, 3000 * PAGES)
        reader.execute("ROLLBACK")
    _, log, carried = carry_over(database)
    assert log == carried
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_failure_is_seen_until_all_is_carried_over_again(path: Path, database: sqlite3.Connection) -> None:
    index = LogIndex(str(path))
    assert not index.last_checkpoint_failed()
    with closing(open_one(path)) as other:
        with reading(path):
            database.execute("INSERT INTO a VALUES (1)")
            carry_over(other)
        assert not index.last_checkpoint_failed()  # it did as much as it could
    attempt(path, 1000)
    assert index.last_checkpoint_failed()
    database.execute("BEGIN IMMEDIATE")
    index.reset_backfill()
    database.execute("ROLLBACK")
    assert not index.last_checkpoint_failed()


def attempt(path: Path, pages: int) -> None:
    """Note what SQLite notes before it carries over; then it fails."""
    os.pwrite(index_of(path), pages.to_bytes(4, sys.byteorder), 128)


def test_what_somebody_is_carrying_over_is_no_failure_and_is_waited_for(
    path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = LogIndex(str(path))
    attempt(path, PAGES)
    own = index_of(path)
    somebody = os.open(f"{path}-shm", os.O_RDWR)
    assert keep_out(somebody)
    assert index.last_checkpoint_failed() is None
    assert carry_over(database)[0] == 1
    monkeypatch.setattr(log_index, "_ATTEMPTS", 2)
    with pytest.raises(UnavailableStoreError, match=r"a\.db-wal over for more than 0\.02 s; nothing was written\. Try"):
        index.reset_backfill()
    let_in(somebody)
    assert index_of(path) == own, "it is open still"
    index.reset_backfill()
    assert carry_over(database)[0] == 0
    os.close(somebody)


def test_what_is_to_be_done_while_nobody_carries_over_is_done_where_there_is_nothing_to_lock(
    path: Path, database: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    LogIndex(str(tmp_path / "none.db")).reset_backfill(lambda: done.append("no index"))

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "no such lock")

    monkeypatch.setattr(log_index, "fcntl", refuse)
    LogIndex(str(path)).reset_backfill(lambda: done.append("no locks"))
    assert done == ["no index", "no locks"]


def test_where_there_is_no_log_nothing_is_done(tmp_path: Path) -> None:
    index = LogIndex(str(tmp_path / "none.db"))
    index.reset_backfill()
    assert not index.last_checkpoint_failed()
    assert not list(tmp_path.iterdir())


def test_where_the_index_is_not_found_the_broker_is_to_be_started_again(
    path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = LogIndex(str(path))
    monkeypatch.setattr(os, "listdir", lambda _: [])
    with pytest.raises(
        StoreError, match=r"a\.db-shm is not among the open files .* Kill the broker, and start it again"
    ):
        index.reset_backfill()
    assert not index.last_checkpoint_failed()


def test_where_open_files_are_not_listed_nothing_is_changed(
    path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(path, PAGES)
    index = LogIndex(str(path))

    def fail(_: str) -> list[str]:
        raise FileNotFoundError

    monkeypatch.setattr(os, "listdir", fail)
    index.reset_backfill()
    assert not index.last_checkpoint_failed()
    assert index.pages() is None
    monkeypatch.undo()
    assert index.last_checkpoint_failed()


def test_where_there_are_no_such_locks_nothing_is_changed(
    path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = LogIndex(str(path))
    attempt(path, PAGES)
    monkeypatch.setattr(log_index, "_HAS_LOCKS", False)
    index.reset_backfill()
    assert not index.last_checkpoint_failed()
    monkeypatch.undo()
    assert index.last_checkpoint_failed()


def test_where_the_file_system_has_no_such_locks_sqlite_is_left_to_itself(
    path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody would ever carry over: it would seem as if somebody was always at it."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "no such lock")

    index = LogIndex(str(path))
    attempt(path, PAGES)
    monkeypatch.setattr(log_index, "fcntl", refuse)
    assert index.last_checkpoint_failed() is False
    index.reset_backfill()
    monkeypatch.undo()
    assert index.last_checkpoint_failed()


def test_who_asks_does_not_let_go_for_the_thread_that_takes_the_note_back(
    path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, somebody = LogIndex(str(path)), os.open(f"{path}-shm", os.O_RDWR)
    attempt(path, PAGES)
    answers: list[bool | None] = []
    asking = Thread(target=lambda: answers.append(index.last_checkpoint_failed()), daemon=True)
    write, is_kept_out = os.pwrite, list[bool]()

    def slowly(descriptor: int, number: bytes, at: int) -> int:
        if not is_kept_out:
            asking.start()
            asking.join(0.05)
            is_kept_out.append(not keep_out(somebody))
        return write(descriptor, number, at)

    monkeypatch.setattr(os, "pwrite", slowly)
    index.reset_backfill()
    asking.join(10)
    assert (answers, is_kept_out) == ([False], [True])
    os.close(somebody)


def test_an_index_that_cannot_be_written_or_read_is_named(
    path: Path, database: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = LogIndex(str(path))

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", fail)
    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(
        StoreError, match=r"a\.db-shm cannot be written \(Input/output error\); nothing was written\. Kill"
    ):
        index.reset_backfill()
    assert not index.last_checkpoint_failed()
    assert index.pages() is None
    monkeypatch.undo()
    index.reset_backfill()
