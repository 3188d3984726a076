"""PostgreSQL's tables are locked by somebody else when a broker opens its store: by one who alters them, or by pg_dump where a newer pyjms alters them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from pyjms.spi.clock import SystemClock
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.errors import UnavailableStoreError
from pyjms_provider.stores.sql import SqlJournal, open_journal
from tests.provider.postgresql import PostgresqlServer

TABLES = b"pyjms_paged, pyjms_meta, pyjms_message, pyjms_duplicate"


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    """Of a store that has been opened once. Who waits for a lock gives up after a tenth of a second."""
    url = postgresql.make_store() + "%20-clock_timeout%3D100"
    opened(url).close(clean=True)
    return url


def opened(url: str) -> SqlJournal:
    return open_journal(StoreSettings(url=url), "test", SystemClock())


def schema_of(url: str) -> bytes:
    return url.partition("search_path%3D")[2].partition("%20")[0].encode()


@contextmanager
def somebody(postgresql: PostgresqlServer, url: str, name: str = "pg_dump") -> Iterator[psycopg.Connection[object]]:
    with closing(postgresql.connect()) as connection:
        connection.execute(b"SET search_path TO " + schema_of(url))
        connection.execute(f"SET application_name TO '{name}'".encode())
        yield connection


@contextmanager
def locked(postgresql: PostgresqlServer, url: str, name: str) -> Iterator[int]:
    """Yields the process that has locks on the store's tables."""
    with somebody(postgresql, url, name) as connection, connection.transaction():
        connection.execute(b"LOCK TABLE " + TABLES + b" IN ACCESS EXCLUSIVE MODE")
        yield connection.info.backend_pid


def test_what_was_paged_out_is_gone_at_once_where_nobody_reads_it(postgresql: PostgresqlServer, url: str) -> None:
    """And the table is unlogged, so that a server that died has emptied it, too."""
    with somebody(postgresql, url) as connection:
        connection.execute("INSERT INTO pyjms_paged VALUES (1, 'x'), (2, 'y')")
        kind = connection.execute("SELECT relpersistence::text FROM pg_class WHERE oid = 'pyjms_paged'::regclass")
        assert kind.fetchone() == ("u",)
        opened(url).close(clean=True)
        size = connection.execute("SELECT pg_relation_size('pyjms_paged'), count(*) FROM pyjms_paged")
        assert size.fetchone() == (0, 0)


def test_a_table_that_was_restored_as_an_ordinary_one_becomes_unlogged(postgresql: PostgresqlServer, url: str) -> None:
    with somebody(postgresql, url) as connection:
        connection.execute("ALTER TABLE pyjms_paged SET LOGGED")
        opened(url).close(clean=True)
        kind = connection.execute("SELECT relpersistence::text FROM pg_class WHERE oid = 'pyjms_paged'::regclass")
        assert kind.fetchone() == ("u",)


@pytest.mark.parametrize("name", ["pg_dump", ""])
def test_who_locks_the_tables_is_named(postgresql: PostgresqlServer, url: str, name: str) -> None:
    with locked(postgresql, url, name) as pid, pytest.raises(UnavailableStoreError) as caught:
        opened(url)
    assert f"locked by {name or 'a program without a name'} (process {pid}); nothing was written" in str(caught.value)
    opened(url).close(clean=True)
