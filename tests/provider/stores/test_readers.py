"""Threads that read from a database: many of them, by few connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest
from sqlalchemy import URL, Engine, event
from sqlalchemy.exc import SQLAlchemyError

from pyjms_provider.stores.errors import StoreError, UnavailableStoreError
from pyjms_provider.stores.sql import database as readers_module
from pyjms_provider.stores.sql.database import READERS, Database, Reader, Readers
from pyjms_provider.stores.sql.sqlite import make_engine
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.needs.declaring import needing
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.parts import SqlStore
from tests.pyjms.runtime.helpers import PATIENCE_S, Call, eventually

THREADS = 40


@pytest.fixture(params=["sqlite", needing("postgresql")])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server.make_store()


@pytest.fixture
def store(url: str) -> SqlStore:
    return SqlStore(url)


@pytest.fixture
def world(store: SqlStore) -> Iterator[World]:
    home = JournalHome(store.open)
    yield World(home)
    home.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = make_engine(URL.create("sqlite", database=str(tmp_path / "some.db")))
    yield engine
    engine.dispose()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield pool


class Reads:
    """What threads do with a cursor, until they may end; counts how many do so at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = Lock()
        self.asked = self.inside = self.most = 0
        self.may_end = Event()

    def read(self) -> Any:
        """Read, as any thread does."""
        with self._lock:
            self.asked += 1
        readers = self._database.readers
        reader = readers.take()
        try:
            return self._work(reader.cursor or reader.open(self._database.engine))
        finally:
            readers.give(reader)

    def _work(self, cursor: Any) -> Any:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        assert self.may_end.wait(PATIENCE_S)
        cursor.execute("SELECT 7")
        with self._lock:
            self.inside -= 1
        return cursor.fetchone()[0]

    def fill(self, threads: ThreadPoolExecutor, number: int) -> list[Future[Any]]:
        """Have so many threads read, and wait until as many as may are at it."""
        found = [threads.submit(self.read) for _ in range(number)]
        eventually(lambda: self.asked == number and self.inside >= READERS, "readers")
        return found


def test_many_threads_read_at_once_by_few_connections(
    store: SqlStore, world: World, threads: ThreadPoolExecutor
) -> None:
    """The sixteenth was once refused after half a minute, and so were all who came later."""
    database = store.database
    opened: list[object] = []
    event.listen(database.engine, "connect", lambda connection, _: opened.append(connection))
    reads = Reads(database)
    found = reads.fill(threads, THREADS)
    reads.may_end.set()
    assert [each.result(PATIENCE_S + 30) for each in found] == [7] * THREADS
    assert reads.most == READERS
    assert len(opened) <= READERS
    sent = world.add(world.message())
    assert world.bodies(sent.reference.id)
    with database.reading() as connection:
        assert connection.exec_driver_sql("SELECT 8").scalar() == 8


def test_who_reads_by_sqlalchemy_is_one_of_them(store: SqlStore, world: World, threads: ThreadPoolExecutor) -> None:
    database, lock = store.database, Lock()
    counts = [0, 0]

    def read() -> None:
        with database.reading() as connection:
            with lock:
                counts[0] += 1
                counts[1] = max(counts)
            connection.exec_driver_sql("SELECT 7")
            with lock:
                counts[0] -= 1

    for each in [threads.submit(read) for _ in range(THREADS)]:
        each.result(PATIENCE_S)
    assert 1 <= counts[1] <= READERS


def test_a_journal_that_closes_turns_away_who_waits(
    store: SqlStore, world: World, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(store.database)
    closed: set[Reader] = set()
    close = Reader.close

    def note_closed(reader: Reader) -> None:
        closed.add(reader)
        close(reader)

    monkeypatch.setattr(Reader, "close", note_closed)
    found = reads.fill(threads, THREADS)
    world.journal.close(clean=True)
    eventually(lambda: sum(each.done() for each in found) == THREADS - READERS, "those who wait to be turned away")
    reads.may_end.set()
    errors = [each.exception(PATIENCE_S) for each in found]
    assert errors.count(None) == READERS
    assert {str(error).endswith("is being closed; nothing was read") for error in errors if error} == {True}
    assert len(closed) == READERS, "no connection is left open"


def test_an_error_of_sqlalchemy_is_one_of_the_store(
    store: SqlStore, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_reader: Reader, _engine: Engine) -> None:
        raise SQLAlchemyError("no more connections")

    sent = world.add(world.message()).reference
    store.database.close_readers()
    monkeypatch.setattr(Reader, "open", refuse)
    with pytest.raises(StoreError, match="no more connections"):
        world.journal.read([sent.id])


def test_readers_are_handed_on_in_turn() -> None:
    readers, order = Readers("shop.db", 1), list[int]()
    held = readers.take()

    def wait(number: int) -> Reader:
        reader = readers.take()
        order.append(number)
        readers.give(reader)
        return reader

    waiting: list[Call[Reader]] = []
    for number in range(5):
        waiting.append(Call(wait, number))
        assert waiting[-1].is_blocked()
    readers.give(held)
    assert [each.result() for each in waiting] == [held] * 5
    assert order == [0, 1, 2, 3, 4]
    assert readers.take() is held


def test_who_waits_too_long_is_told_so_and_takes_no_reader_away() -> None:
    readers = Readers("shop.db", 2, 0.01)
    held = [readers.take(), readers.take()]
    with pytest.raises(
        UnavailableStoreError, match=r"shop\.db was not read: 2 other threads have been reading .* 0\.01 s; try"
    ):
        readers.take()
    for each in held:
        readers.give(each)
    assert {readers.take(), readers.take()} == set(held)


def test_a_reader_that_came_as_the_wait_ended_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = Readers("shop.db", 1)
    held = readers.take()

    class Turn(readers_module._ReaderWait):
        def __init__(self) -> None:
            super().__init__()
            self.wait = self._end

        def _end(self, _: float) -> bool:
            readers.give(held)
            return False

    monkeypatch.setattr(readers_module, "_ReaderWait", Turn)
    assert readers.take() is held


def test_another_reader_is_made_for_one_that_nobody_has_any_more() -> None:
    readers = Readers("shop.db", 1, 0.01)
    taken: list[Reader] = [readers.take()]
    with pytest.raises(UnavailableStoreError):
        readers.take()
    taken.clear()  # as a thread's that a second signal has ended before it gave it back
    assert isinstance(readers.take(), Reader)


@pytest.mark.parametrize("end", [Readers.close, Readers.interrupt])
def test_a_connection_in_use_is_closed_when_it_is_given_back(engine: Engine, end: Callable[[Readers], None]) -> None:
    readers = Readers("some.db", 1)
    held = readers.take()
    held.open(engine)
    end(readers)
    assert held.cursor is not None
    readers.give(held)
    assert held.cursor is None
