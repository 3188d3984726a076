"""The write-ahead log is carried over beside who writes."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self
from uuid import uuid4

import pytest

from pyjms import ConnectionFactory
from pyjms.spi.clock import SystemClock
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.sql import sqlite_files as checkpoints
from pyjms_provider.stores.sql.sqlite_files import PAGES, Checkpoints, LogIndex, OpenFiles
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.pyjms.runtime.helpers import NOTHING_S, eventually

PATIENCE_S = 30
ENOUGH = PAGES // 2
"""So many messages, each sent by itself, are more than half of what the thread is told after, and less than all."""


class Watched(sqlite3.Connection):
    """A connection that tells of checkpoints, and may be held up in one."""

    begun = threading.Event()
    gate = threading.Event()
    ended = threading.Event()
    interrupted = threading.Event()
    error: sqlite3.Error | None = None

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        if "wal_checkpoint" not in statement:
            return super().execute(statement, *parameters)
        self.begun.set()
        assert self.gate.wait(PATIENCE_S)
        try:
            if self.error is not None:
                raise self.error
            return super().execute(statement, *parameters)
        finally:
            self.ended.set()

    def interrupt(self) -> None:
        self.interrupted.set()
        self.gate.set()
        super().interrupt()


class Writer(sqlite3.Cursor):
    """The cursor of who writes, which counts what it is asked for, and may fail."""

    asked = 0
    error: sqlite3.Error | None = None

    def execute(self, statement: str, *parameters: Any) -> Self:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return super().execute(statement, *parameters)


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nobody see how long the log is, so that what is told is believed."""
    monkeypatch.setattr(OpenFiles, "log_pages", lambda _: None)


@pytest.fixture
def watched(unseen: None, monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    connect = sqlite3.connect
    for name in ("begun", "gate", "ended", "interrupted"):
        monkeypatch.setattr(Watched, name, threading.Event())
    monkeypatch.setattr(sqlite3, "connect", lambda path, **options: connect(path, factory=Watched, **options))
    return Watched


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE a (b)")
        yield connection


@pytest.fixture
def writer() -> Iterator[Writer]:
    with closing(sqlite3.connect(":memory:")) as connection:
        yield connection.cursor(Writer)


def frames_left(connection: sqlite3.Connection) -> int:
    """Return how many pages of the log the database does not have; this looks by carrying over the others."""
    _, log, done = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return int(log - done)


def ask_for_the_rest(carried: Checkpoints, writer: Writer) -> None:
    """Write until who writes is asked to carry over what the thread has left."""

    def ask() -> int:
        carried.wrote(0, writer)
        return writer.asked

    eventually(ask, "the thread to know that it is done")


def path_of(connection: sqlite3.Connection) -> str:
    return str(connection.execute("PRAGMA database_list").fetchone()[2])


def test_nothing_is_begun_for_little(database: sqlite3.Connection, watched: type[Watched], writer: Writer) -> None:
    with closing(Checkpoints(OpenFiles(path_of(database)), synchronous="NORMAL")) as carried:
        carried.wrote(299, writer)
        assert not any(path_of(database) in thread.name for thread in threading.enumerate())
    assert not watched.begun.is_set()


def test_the_database_has_what_was_written_and_writing_goes_on_meanwhile(
    database: sqlite3.Connection, watched: type[Watched], writer: Writer
) -> None:
    path = path_of(database)
    with closing(Checkpoints(OpenFiles(path), synchronous="NORMAL")) as carried:
        database.execute("INSERT INTO a VALUES (zeroblob(1000000))")
        short = Path(path).stat().st_size
        carried.wrote(PAGES, writer)
        assert watched.begun.wait(PATIENCE_S)
        database.execute("INSERT INTO a VALUES (1)")
        watched.gate.set()
        assert watched.ended.wait(PATIENCE_S)
    assert Path(path).stat().st_size > short + 900_000
    assert frames_left(database) == 0
    assert database.execute("SELECT count(*) FROM a").fetchone() == (2,)


@pytest.mark.parametrize("error", [None, sqlite3.OperationalError("disk I/O error")], ids=["done", "failed"])
def test_who_writes_carries_over_once_what_is_left(
    database: sqlite3.Connection,
    watched: type[Watched],
    writer: Writer,
    error: sqlite3.Error | None,
) -> None:
    writer.error = error
    with closing(Checkpoints(OpenFiles(path_of(database)), synchronous="NORMAL")) as carried:
        carried.wrote(PAGES, writer)
        assert watched.begun.wait(PATIENCE_S)
        carried.wrote(2, writer)
        assert writer.asked == 0
        watched.gate.set()
        assert watched.ended.wait(PATIENCE_S)
        ask_for_the_rest(carried, writer)  # an error is not its business: what it wrote is written
        assert writer.asked == 1
        watched.begun.clear()
        for _ in range(PAGES - 1):  # it counts from there, as the log is a new one
            carried.wrote(1, writer)
        assert not watched.begun.wait(NOTHING_S)
        carried.wrote(1, writer)
        assert watched.begun.wait(PATIENCE_S)
        assert writer.asked == 1


def test_the_log_begins_anew_soon_after_the_thread_is_done(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    url = f"vm://{uuid4()}?store=sqlite:///{path}"
    with (
        ConnectionFactory(url).create_connection() as connection,
        connection.create_session() as session,
        session.create_producer(session.create_queue("log")) as producer,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        index, sent, before = LogIndex(str(path)), 0, path.stat().st_size
        while path.stat().st_size == before:  # until the thread carries over
            if sent == ENOUGH // 2:
                other.execute("BEGIN")  # what comes from here on the thread leaves, as if it had come meanwhile
                other.execute("SELECT count(*) FROM pyjms_message").fetchone()
            producer.send(session.create_text_message("a" * 500))
            sent += 1
        assert (index.pages() or 0) >= PAGES
        other.execute("COMMIT")
        # One carries over, the next one begins the log; under load the thread was done later, and it is tried again after some
        while (index.pages() or 0) >= PAGES:
            producer.send(session.create_text_message())
            sent += 1
        assert (index.pages() or 0) < 20
        assert other.execute("SELECT count(*) FROM pyjms_message").fetchone() == (sent,)
    find_provider("vm").stop_broker(ProviderUrl.parse(url))


def test_closing_interrupts_what_is_being_done(
    database: sqlite3.Connection, watched: type[Watched], writer: Writer
) -> None:
    carried = Checkpoints(OpenFiles(path_of(database)), synchronous="NORMAL")
    carried.wrote(PAGES, writer)
    assert watched.begun.wait(PATIENCE_S)
    carried.close()
    assert watched.interrupted.is_set()
    assert not [each for each in threading.enumerate() if each.name.startswith("pyjms checkpoints")]
    carried.close()
    carried.wrote(PAGES, writer)
    assert not [each for each in threading.enumerate() if each.name.startswith("pyjms checkpoints")]


def test_a_file_that_was_moved_away_is_not_made_anew(
    tmp_path: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr(logging.getLogger("pyjms.store"), "debug", lambda text, *values: told.put(text % values))
    with closing(Checkpoints(OpenFiles(str(tmp_path / "gone #1.db")), synchronous="NORMAL")) as carried:
        carried.wrote(PAGES, writer)
        assert "unable to open" in told.get(timeout=PATIENCE_S)
    assert not list(tmp_path.iterdir())


def test_after_an_error_it_is_tried_again(
    database: sqlite3.Connection, watched: type[Watched], writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.gate.set()
    told: SimpleQueue[str] = SimpleQueue()
    monkeypatch.setattr(logging.getLogger("pyjms.store"), "debug", lambda text, *values: told.put(text % values))
    monkeypatch.setattr(watched, "error", sqlite3.OperationalError("disk I/O error"))
    with closing(Checkpoints(OpenFiles(path_of(database)), synchronous="OFF")) as carried:
        carried.wrote(PAGES, writer)
        assert "was not carried over: disk I/O error" in told.get(timeout=PATIENCE_S)
        monkeypatch.setattr(watched, "error", None)
        watched.ended.clear()
        carried.wrote(2, writer)  # first by who writes
        assert writer.asked == 1
        database.execute("INSERT INTO a VALUES (zeroblob(1000000))")
        carried.wrote(PAGES, writer)
        assert watched.ended.wait(PATIENCE_S)
    assert Path(path_of(database)).stat().st_size > 900_000


@pytest.mark.parametrize("is_writers", [False, True], ids=["by_the_thread", "by_who_writes"])
def test_a_disk_that_fails_is_remembered(
    database: sqlite3.Connection,
    watched: type[Watched],
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
    is_writers: bool,
) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    files = OpenFiles(path_of(database))
    watched.gate.set()
    with closing(Checkpoints(files, synchronous="NORMAL")) as carried:
        if not is_writers:
            monkeypatch.setattr(watched, "error", error)
        carried.wrote(PAGES, writer)
        assert watched.ended.wait(PATIENCE_S)
        if is_writers:
            writer.error = error
            ask_for_the_rest(carried, writer)
    assert files.has_failed


def test_where_no_thread_can_be_begun_writing_goes_on(
    tmp_path: Path, unseen: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was to be written is: who sent it must not hear of an error."""

    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(checkpoints, "Thread", NoThread)
    settings = StoreSettings(url=f"sqlite:///{tmp_path / 'store.db'}")
    world = World(JournalHome(lambda holder: open_journal(settings, holder, SystemClock())))
    for _ in range(3):
        world.add(*(world.message() for _ in range(PAGES)))
    assert len(world.reopen(clean=True).ids) == 3 * PAGES
    world.journal.close(clean=True)
    assert "can't start new thread" in caplog.text


def test_a_log_that_is_longer_than_was_thought_is_seen_and_a_short_one_is_left(
    database: sqlite3.Connection, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("PRAGMA wal_autocheckpoint=0")
    wakes: list[int] = []

    def wake() -> bool:
        wakes.append(1)
        return True

    with closing(Checkpoints(OpenFiles(path_of(database)), synchronous="NORMAL")) as carried:
        monkeypatch.setattr(carried, "_wake", wake)
        carried.wrote(2 * PAGES, writer)
        assert wakes == []
        database.execute("INSERT INTO a VALUES (zeroblob(?))", (PAGES * 4096,))
        for _ in range(120):
            carried.wrote(1, writer)
        assert wakes == [1]


@pytest.mark.parametrize("size", [500, 3000, 100_000])
def test_the_log_stays_short_however_large_messages_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Also while the thread has no turn: SQLite itself is not to do it, as it would tell nobody that it failed."""
    monkeypatch.setattr(Checkpoints, "_run", lambda _: None)
    settings = StoreSettings(url=f"sqlite:///{tmp_path / 'store.db'}")
    world = World(JournalHome(lambda holder: open_journal(settings, holder, SystemClock())))
    index = LogIndex(str(tmp_path / "store.db"))
    longest = 0
    for _ in range(max(1_500_000 // size, 50)):
        world.add(world.message(text="x" * size))
        longest = max(longest, index.pages() or 0)
    assert PAGES < longest < 1500
    world.journal.close(clean=True)
