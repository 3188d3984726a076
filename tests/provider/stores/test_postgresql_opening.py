"""A store in PostgreSQL that is opened while others are at it: the next holder, an application's transaction, a backup."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from pyjms.spi.errors import ProviderError
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.errors import UnavailableStoreError, UnusableStoreError
from pyjms_provider.stores.sql import SqlJournal, open_journal, postgresql
from pyjms_provider.stores.sql.configuration import SqlConfigurationStore
from pyjms_provider.stores.sql.postgresql import AnswerTimeout
from pyjms_provider.stores.sql.postgresql_connections import make_engine
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World, queue_record
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.unwatched import UnwatchedClock

LONG_S = 30
TRIES = 3000


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    return postgresql.make_store()


@pytest.fixture
def administrator(postgresql: PostgresqlServer, url: str) -> Iterator[psycopg.Connection[Any]]:
    with postgresql.connect() as connection:
        connection.execute(f"SET search_path = {url.rpartition('%3D')[2]}".encode())
        yield connection


def opened(url: str, holder: str = "a broker", lost: list[ProviderError] | None = None) -> SqlJournal:
    on_lost = (lambda _: None) if lost is None else lost.append
    return open_journal(StoreSettings(url=url), holder, UnwatchedClock(), on_lost=on_lost)


def cut_holder(administrator: psycopg.Connection[Any]) -> None:
    """End the connection that holds the schema of `administrator`."""
    administrator.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'"
        " AND objid::bigint = (hashtext(current_schema())::bigint & 4294967295)"
    )


@pytest.mark.parametrize("has_all_tables", [True, False])
def test_who_loses_the_lock_while_it_opens_has_not_opened(
    url: str, administrator: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, has_all_tables: bool
) -> None:
    """Else there are two holders: the first one's epoch is the later one, and what the second one has paged out is gone."""
    World(JournalHome(lambda holder: opened(url, holder))).journal.close(clean=True)
    owner: Any = postgresql.LockConnection if has_all_tables else postgresql
    name = "take" if has_all_tables else "prepare_schema"
    if not has_all_tables:
        administrator.execute("DROP TABLE pyjms_paged")
    lost, seconds = list[ProviderError](), list[World]()
    usual = getattr(owner, name)

    def open_late(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(owner, name, usual)
        cut_holder(administrator)
        seconds.append(World(JournalHome(lambda _: opened(url, "second", lost))))
        return usual(*arguments, **options)

    monkeypatch.setattr(owner, name, open_late)
    with pytest.raises(UnavailableStoreError):
        opened(url, "first")
    (second,) = seconds
    sent = second.add(second.message()).reference
    cut_holder(administrator)
    assert second.reopen().ids == [(sent.id, second.queue)]
    second.journal.close(clean=True)
    assert lost == []


def test_a_number_that_an_application_is_about_to_give_to_a_queue_is_not_given_to_another(
    url: str, administrator: psycopg.Connection[Any]
) -> None:
    """It joins a broker that has just lost its lock; its commit comes before that of who takes the store over."""
    opened(url).close(clean=True)
    found: list[SqlJournal] = []
    with administrator.transaction():
        administrator.execute("UPDATE pyjms_meta SET next_queue = 7 WHERE next_queue < 7")
        opener = Thread(target=lambda: found.append(opened(url)))
        opener.start()
        await_waiting(administrator)
    opener.join(LONG_S)
    (journal,) = found
    assert journal.number_of(queue_record("next")) == 7
    journal.close(clean=True)


def await_waiting(administrator: psycopg.Connection[Any]) -> None:
    """Return when somebody waits for a lock that `administrator` has."""
    pause = Event()
    for _ in range(TRIES):
        query = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        if administrator.execute(query).fetchone() is not None:
            return
        pause.wait(0.01)
    pytest.fail("nobody waits")


@pytest.mark.parametrize("left", ["nothing", "paged-out messages"])
def test_a_backup_keeps_no_broker_from_starting(url: str, administrator: psycopg.Connection[Any], left: str) -> None:
    """`pg_dump` locks all tables as who reads them does, and until it is done, which may be for hours."""
    world = World(JournalHome(lambda holder: opened(url, holder)))
    sent = world.add(world.message()).reference
    if left != "nothing":
        paged = world.message()
        world.journal.page_out([(paged.reference, paged.envelope)])
    world.journal.close(clean=True)
    with administrator.transaction():
        for (table,) in administrator.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        ).fetchall():
            administrator.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE".encode())
        assert world.reopen(clean=True).ids == [(sent.id, world.queue)]
    assert administrator.execute("SELECT count(*) FROM pyjms_paged").fetchone() == (0,)
    world.journal.close(clean=True)


def test_a_schema_that_is_not_there_is_not_taken_for_one_that_is_held(url: str) -> None:
    """Else a stand-by broker waits for ever for the end of nobody."""
    misspelt = f"{url}_misspelt"
    with pytest.raises(UnusableStoreError, match="has no schema to keep the store in: search_path names none"):
        opened(misspelt)
    with pytest.raises(UnusableStoreError, match="has no schema to keep the store in: search_path names none"):
        SqlConfigurationStore(misspelt).open("a broker")


@pytest.mark.parametrize(
    ("setting", "given", "wanted"),
    [
        ("idle_session_timeout", "60000", "0"),  # else a holder without work loses its lock, to a stand-by broker
        ("synchronous_commit", "off", "on"),  # else nothing is forced that was to be
        ("synchronous_commit", "local", "local"),
        ("client_encoding", "LATIN1", "UTF8"),  # else not every name could be written
    ],
)
def test_a_server_of_many_has_its_settings_for_others(url: str, setting: str, given: str, wanted: str) -> None:
    engine = make_engine(make_url(f"{url}%20-c{setting}%3D{given}"), AnswerTimeout(UnwatchedClock()))
    with engine.connect() as connection:
        assert connection.exec_driver_sql(f"SHOW {setting}").scalar() == wanted
    engine.dispose()


def test_a_database_of_an_encoding_that_is_none_is_a_store(postgresql: PostgresqlServer) -> None:
    """As initdb makes it where the locale is C."""
    with postgresql.connect() as administrator:
        administrator.execute(
            "CREATE DATABASE plain ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    url = postgresql.make_store().partition("/postgres?")[0] + "/plain"
    world = World(JournalHome(lambda holder: opened(url, holder)))
    sent = world.add(world.message(text="\u20ac")).reference
    assert world.reopen().ids == [(sent.id, world.queue)]
    assert world.journal.read([sent.id])[sent.id].body == "\u20ac"
    world.journal.close(clean=True)
