"""Statements that psycopg has PostgreSQL prepare: none of them is taken for prepared that a refused write has kept from it.

psycopg does not look whether it was prepared, if that was asked for in a pipeline. It forgets what it had prepared with a ROLLBACK, but with none that it
executes after one at which there was nothing to forget: as when the first write of a connection is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.errors import StoreError
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.sql.postgresql import take_back
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.unwatched import UnwatchedClock

if TYPE_CHECKING:
    from typing import LiteralString

_UNTIL_PREPARED: Final = 5
"""So often psycopg runs a statement before it has it prepared."""
_FAILS: Final = "DO $$ BEGIN PERFORM pg_sleep(0.2); RAISE division_by_zero; END $$"
"""A statement that fails when all of its pipeline has been sent."""


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    return postgresql.make_store()


@pytest.fixture
def world(url: str) -> Iterator[World]:
    clock = UnwatchedClock()
    home = JournalHome(lambda holder: open_journal(StoreSettings(url=url), holder, clock))
    yield World(home)
    home.close()


def refuse_messages(administrator: psycopg.Connection[Any], schema: str) -> None:
    """Refuse each new message, as a full disk does, until the trigger `full_disk` is dropped."""
    administrator.execute(
        f"CREATE FUNCTION {schema}.be_full() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE disk_full USING MESSAGE = 'could not extend file'; END $$".encode()
    )
    administrator.execute(
        f"CREATE TRIGGER full_disk BEFORE INSERT ON {schema}.pyjms_message EXECUTE FUNCTION {schema}.be_full()".encode()
    )


def test_a_journal_goes_on_after_a_refused_write_that_was_to_have_its_commit_prepared(
    postgresql: PostgresqlServer, url: str, world: World
) -> None:
    """Every write was refused from then on, until the connection was lost or the broker stopped."""
    refused, *others = (world.message() for _ in range(_UNTIL_PREPARED + 2))
    world.add(*others)
    with postgresql.connect() as administrator:
        schema = url.rpartition("%3D")[2]
        refuse_messages(administrator, schema)
        postgresql.cut_holder(url)
        with pytest.raises(StoreError, match="is full"):
            world.add(refused)
        for message in others[:_UNTIL_PREPARED]:
            world.remove((world.queue, message.reference))
        with pytest.raises(StoreError, match="is full"):
            world.add(refused)
        administrator.execute(f"DROP TRIGGER full_disk ON {schema}.pyjms_message".encode())
    world.add(refused)
    assert [message for message, _ in world.reopen().ids] == [refused.reference.id, others[-1].reference.id]


@pytest.mark.parametrize("begins", [True, False], ids=["in a transaction", "before it began"])
def test_what_is_taken_back_leaves_no_statement_that_only_the_driver_knows(
    postgresql: PostgresqlServer, *, begins: bool
) -> None:
    statements: list[LiteralString] = [_FAILS, "SELECT 1", "COMMIT"]
    if begins:
        statements.insert(0, "BEGIN")
    with postgresql.connect() as connection:
        connection.execute("ROLLBACK")
        for _ in range(_UNTIL_PREPARED):
            connection.execute("SELECT 1")
        with pytest.raises(psycopg.Error), connection.pipeline():
            for statement in statements:
                connection.execute(statement)
        take_back(connection)
        assert connection.info.transaction_status == TransactionStatus.IDLE
        assert connection.execute("SELECT 1").fetchone() == (1,)
