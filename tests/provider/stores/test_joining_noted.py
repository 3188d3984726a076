"""What a journal has noted to be written before anything else is in the store before what an application's transaction writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, text

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ResourceError
from pyjms_provider.core.journal.journal import BranchOutcome, Changes, DuplicateMark, QueueNumber
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import SqlJournal, open_journal
from pyjms_provider.stores.sql.journal import DeferredRecords
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World, queue_record, xid
from tests.needs.declaring import needing
from tests.provider.cost import nearest
from tests.provider.postgresql import PostgresqlServer

FIRST = queue_record("first")


@pytest.fixture(params=["sqlite", needing("postgresql")])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server = request.getfixturevalue("postgresql")
    assert isinstance(server, PostgresqlServer)
    return server.make_store()


@pytest.fixture
def world(url: str) -> Iterator[World]:
    separator = "&" if "?" in url else "?"
    settings = StoreSettings(url=f"{url}{separator}pyjms_shared=true")
    home = JournalHome(lambda holder: open_journal(settings, holder, SystemClock()))
    yield World(home)
    home.close()


@pytest.fixture
def engine(url: str, world: World) -> Iterator[Engine]:
    made = create_engine(url)
    with made.begin() as connection:
        connection.execute(text("CREATE TABLE stock (number INTEGER)"))
    yield made
    made.dispose()


def journal_of(world: World) -> SqlJournal:
    assert isinstance(world.journal, SqlJournal)
    return world.journal


def join(world: World, connection: Connection, changes: Changes) -> None:
    """Commit as an application does that has written before."""
    connection.execute(text("INSERT INTO stock VALUES (1)"))
    world.journal.join(connection).write(changes, force=True)


def rows(engine: Engine, query: str) -> list[tuple[object, ...]]:
    """Return what another process would find."""
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def mark(queue: QueueNumber, until_ms: int = 2**62) -> DuplicateMark:
    return DuplicateMark(FIRST.address, "7", until_ms, 7, queue)


def end_and_begin_again(world: World) -> tuple[QueueNumber, Changes]:
    """Note the end of a queue, as of one that was in doubt, and return what sends to the next one of its name."""
    world.journal.write(Changes(messages=[world.message()], duplicates=[mark(world.queue)]), force=True)
    world.journal.note(Changes(dropped=[world.queue]))
    number = world.journal.number_of(FIRST)
    sent = Changes(
        messages=[world.message(number)], definitions=[replace(FIRST, number=number)], duplicates=[mark(number)]
    )
    return number, sent


def test_a_queue_has_ended_before_the_next_one_of_its_name_has_messages(world: World, engine: Engine) -> None:
    number, sent = end_and_begin_again(world)
    with engine.connect() as connection:
        join(world, connection, sent)
    for _ in range(2):
        assert rows(engine, "SELECT number FROM pyjms_queue WHERE name = 'first'") == [(number,)]
        assert rows(engine, "SELECT duplicate_id FROM pyjms_duplicate") == [("7",)]
        world.reopen()


def test_what_was_withdrawn_comes_back_with_the_next_send(world: World, engine: Engine) -> None:
    world.journal.note(Changes(duplicates=[mark(world.queue, 0)]))
    with engine.connect() as connection:
        join(world, connection, Changes(messages=[world.message()], duplicates=[mark(world.queue)]))
    world.add(world.message())
    assert [each.until_ms for each in world.reopen().recovery.duplicates] == [2**62]


def test_the_end_of_a_branch_is_written_first(world: World, engine: Engine) -> None:
    """Which rows that are is looked up when it is written."""
    world.prepare(1, prepared := world.message())
    world.journal.note(Changes(outcomes=[BranchOutcome(xid(1), commit=True)]))
    with engine.connect() as connection:
        join(world, connection, Changes(messages=[world.message()]))
    assert rows(engine, "SELECT count(*) FROM pyjms_branch") == [(0,)]
    assert (prepared.reference.id, world.queue) in world.reopen().ids


def test_what_was_noted_is_written_also_if_the_application_fails(world: World, engine: Engine) -> None:
    number, sent = end_and_begin_again(world)
    taken = world.add(world.message(world.other))
    with engine.connect() as connection, pytest.raises(ResourceError, match="could not be written in the application"):
        join(world, connection, Changes(messages=[*sent.messages, taken]))
    assert rows(engine, "SELECT number FROM stock") == []
    world.journal.write(sent, force=True)
    assert rows(engine, "SELECT number FROM pyjms_queue WHERE name = 'first'") == [(number,)]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_another_thread_has_yet_to_write_first_is_not_overtaken(world: World, engine: Engine) -> None:
    """It cannot, as an application that has written something keeps it from writing."""
    _, sent = end_and_begin_again(world)
    noted = nearest(journal_of(world), DeferredRecords)
    taken = noted.take()
    assert taken is not None
    with engine.connect() as connection, pytest.raises(ResourceError, match="so do the transaction again"):
        join(world, connection, sent)
    noted.end(taken, was_written=False)
    with engine.connect() as connection:
        join(world, connection, sent)
    assert len(rows(engine, "SELECT number FROM pyjms_queue WHERE name = 'first'")) == 1


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_is_said_of_messages_alone_may_be_overtaken(world: World, engine: Engine) -> None:
    """Else who joins would be refused whenever others roll back at the same time."""
    there = world.add(world.message())
    world.journal.note(Changes(counts=[(world.queue, there.reference, 3)]))
    noted = nearest(journal_of(world), DeferredRecords)
    taken = noted.take()
    assert taken is not None
    with engine.connect() as connection:
        join(world, connection, Changes(messages=[world.message()]))
    noted.end(taken, was_written=False)
    assert world.reopen().counts()[there.reference.id, world.queue] == 3


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_transaction_that_has_only_read_keeps_others_from_writing_before_it_takes_what_was_noted(
    world: World, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sent = end_and_begin_again(world)
    journal = journal_of(world)
    refused: list[bool] = []
    noted = nearest(journal, DeferredRecords)
    take = noted.take

    def write_meanwhile(*, unless_urgent_is_taken: bool) -> object:
        other = create_engine(engine.url, connect_args={"timeout": 0})
        with other.connect() as connection, pytest.raises(Exception, match="locked"):
            connection.exec_driver_sql("DELETE FROM pyjms_message")
        other.dispose()
        refused.append(True)
        return take(unless_urgent_is_taken=unless_urgent_is_taken)

    monkeypatch.setattr(noted, "take", write_meanwhile)
    with engine.connect() as connection, connection.begin():
        journal.join(connection).write(sent, force=True)
    assert refused == [True]
