"""Who writes through an application's transaction still holds the store, or nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg.errors import LockNotAvailable
from sqlalchemy import Engine, create_engine, event, make_url, text
from sqlalchemy.exc import OperationalError

from pyjms import ConnectionFactory, JMSException, Queue, Session, TransactionRolledBackException
from pyjms.joining import joined
from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ClosedError
from pyjms_provider.broker import stop_broker
from pyjms_provider.core.journal.journal import Changes, Removal
from pyjms_provider.core.journal.storage_manager import StorageManager
from pyjms_provider.settings import StandBy, StoreSettings
from pyjms_provider.stores.sql import SqlJournal, open_journal
from pyjms_provider.stores.sql.postgresql import PostgresqlDatabase
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.parts import SqlStore
from tests.provider.stores.unwatched import UnwatchedClock
from tests.pyjms.runtime.helpers import Call

LONG_S = 30


@pytest.fixture
def store(postgresql: PostgresqlServer) -> str:
    return f"{postgresql.make_store()}&pyjms_shared=true"


@pytest.fixture
def engine(store: str) -> Iterator[Engine]:
    made = create_engine(make_url(store).difference_update_query(["pyjms_shared"]))
    yield made
    made.dispose()


@pytest.fixture
def factory(store: str) -> Iterator[ConnectionFactory]:
    yield ConnectionFactory(f"vm://first?store={quote(store, safe='')}", clock=UnwatchedClock())
    stop_broker("first")


def open_second(store: str) -> SqlJournal:
    settings = StoreSettings(url=store, stand_by=StandBy.WAIT)
    return open_journal(settings, "second", SystemClock())


@contextmanager
def with_an_order(factory: ConnectionFactory) -> Iterator[tuple[Session, Queue]]:
    """Give a transacted session, and the queue in which an order is."""
    with factory.create_connection() as client:
        client.start()
        session = client.create_session(True, Session.SESSION_TRANSACTED)
        orders = session.create_queue("orders")
        session.create_producer(orders).send(session.create_text_message("tea"))
        session.commit()
        yield session, orders


def test_a_transaction_is_refused_when_a_stand_by_takes_over_while_it_is_written(
    store: str, factory: ConnectionFactory, engine: Engine, postgresql: PostgresqlServer
) -> None:
    """Between the look at the store and the writes: else the order would be served twice."""
    found: list[int] = []

    def take_over(_1: Any, _2: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("DELETE FROM pyjms_message") or found:
            return
        with postgresql.connect() as administrator:
            administrator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)"
                " WHERE locktype = 'advisory' AND granted AND application_name = 'pyjms'"
            )
        second = open_second(store)
        found.append(sum(1 for _ in second.recover(lambda _: None).entries))
        second.close(clean=True)

    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE stock (number INTEGER)"))
        connection.execute(text("INSERT INTO stock VALUES (5)"))
    with with_an_order(factory) as (session, orders):
        event.listen(engine, "before_cursor_execute", take_over)
        with (
            engine.connect() as connection,
            pytest.raises(TransactionRolledBackException, match="another broker has taken the store over"),
            joined(session, connection),
        ):
            assert session.create_consumer(orders).receive(5000) is not None
            connection.execute(text("UPDATE stock SET number = number - 1"))
    assert found == [1]
    with engine.connect() as connection:
        assert connection.execute(text("SELECT number FROM stock")).scalar_one() == 5
        assert connection.execute(text("SELECT count(*) FROM pyjms_message")).scalar_one() == 1


def test_a_stop_waits_for_a_commit_that_an_application_shares(
    factory: ConnectionFactory, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the store is closed as clean although a message may come back that was delivered."""
    ending, stoppers, end = Event(), list[Call[None]](), StorageManager.end

    def end_storage(storage: StorageManager) -> None:
        ending.set()
        end(storage)

    def stop_meanwhile(_1: Any, _2: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("DELETE FROM pyjms_message"):
            return
        stoppers.append(Call(stop_broker, "first"))
        assert ending.wait(LONG_S)
        stoppers[0].is_blocked()  # or has ended: it waits for nobody
        raise OperationalError(statement, None, Exception("the application's part fails"))

    monkeypatch.setattr(StorageManager, "end", end_storage)
    with with_an_order(factory) as (session, orders):
        event.listen(engine, "before_cursor_execute", stop_meanwhile)
        with engine.connect() as connection, pytest.raises(JMSException), joined(session, connection):
            assert session.create_consumer(orders).receive(5000) is not None
    (stopper,) = stoppers
    stopper.result()
    with factory.create_connection() as client:
        client.start()
        session = client.create_session()
        again = session.create_consumer(session.create_queue("orders")).receive(5000)
        assert again is not None
        assert again.jms_redelivered


def test_a_take_over_waits_for_the_commit_and_not_for_ever(store: str, engine: Engine) -> None:
    second = SqlStore(store, is_shared=True)
    journal = second.open("second")
    try:
        database = second.database
        assert isinstance(database, PostgresqlDatabase)
        with engine.connect() as joining, engine.connect() as taking:
            own = database.opening_of(joining)
            assert own == second.meta.opening
            _lock(taking)  # who has only looked is no hindrance
            assert database.lock_opening(joining) == own
            assert joining.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one() == "4s"
            with pytest.raises(psycopg.Error) as refused:
                _lock(taking)
            assert isinstance(refused.value, LockNotAvailable)
            joining.commit()
            assert joining.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one() == "0"
            _lock(taking)
    finally:
        journal.close(clean=True)


def _lock(connection: Any) -> None:
    """Lock the row as who updates it does, or raise at once."""
    driver = connection.connection.driver_connection
    try:
        driver.execute("SELECT epoch FROM pyjms_meta FOR NO KEY UPDATE NOWAIT")
    finally:
        driver.rollback()


def test_a_closed_store_is_joined_no_more(store: str, engine: Engine) -> None:
    journal = open_second(store)
    journal.close(clean=True)
    with engine.begin() as connection, pytest.raises(ClosedError):
        journal.join(connection)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_message_written_without_force_does_not_come_back_when_an_application_has_removed_it(
    store: str, engine: Engine, postgresql: PostgresqlServer, mode: str
) -> None:
    """The store writes again what it has not forced, and does not know what others have written since."""
    world = World(JournalHome(lambda holder: open_journal(StoreSettings(url=store), holder, UnwatchedClock())))
    received, later = world.message(), world.message()
    world.journal.write(Changes(messages=[received]), force=False)
    with engine.connect() as connection, connection.begin():
        writer = world.journal.join(connection)
        writer.write(Changes(removals=[Removal(world.queue, received.reference)]), force=True)
    engine.dispose()
    postgresql.stop(mode)
    postgresql.start()
    world.add(later)
    assert [message for message, _ in world.reopen().ids] == [later.reference.id]
    world.home.close()
