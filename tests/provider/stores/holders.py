"""The connection by which a journal on PostgreSQL holds its database."""

from __future__ import annotations

from pyjms_provider.stores.sql import SqlJournal
from pyjms_provider.stores.testing.world import World
from tests.provider.postgresql import PostgresqlServer


def backend_of(world: World) -> int:
    """Return the process of the server that serves the holder."""
    connection = journal_of(world)._database._lock_connection.connection  # type: ignore[attr-defined]
    pid: int = connection.info.backend_pid
    return pid


def journal_of(world: World) -> SqlJournal:
    """Return the journal, which is one of SQL."""
    assert isinstance(world.journal, SqlJournal)
    return world.journal


def cut_connection(postgresql: PostgresqlServer, world: World) -> None:
    """End the holder's connection from the server's side."""
    with postgresql.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", (backend_of(world),))
