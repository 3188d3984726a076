"""What an open transaction has put aside on a PostgreSQL server that dies, or whose answer is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.errors import StoreError
from pyjms_provider.stores.sql import open_journal
from pyjms_provider.stores.sql import postgresql as postgresql_module
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World, without_envelope
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.unwatched import UnwatchedClock


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    return postgresql.make_store()


@pytest.fixture
def world(url: str) -> Iterator[World]:
    clock = UnwatchedClock()
    home = JournalHome(lambda holder: open_journal(StoreSettings(url=url), holder, clock))
    yield World(home)
    home.close()


def test_what_was_paged_out_before_its_commit_goes_with_a_server_that_dies(
    postgresql: PostgresqlServer, world: World
) -> None:
    """The server empties that table when it is started again: nothing of the transaction is written, and the next one is."""
    sent = world.message()
    world.page_out(sent)
    postgresql.stop("immediate")
    postgresql.start()
    with pytest.raises(StoreError, match="left memory before its transaction was committed"):
        world.journal.write(Changes(messages=[without_envelope(sent), world.message()]), force=True)
    after = world.message()
    world.page_out(after)
    world.journal.write(Changes(messages=[without_envelope(after)]), force=True)
    assert world.reopen().ids == [(after.reference.id, world.queue)]


def test_what_was_paged_out_is_written_once_if_the_answer_to_its_commit_is_lost(
    postgresql: PostgresqlServer, url: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both when the server has it, and when it must be written again."""
    sent = [world.message(), world.message()]
    world.page_out(*sent)
    for each, is_written in zip(sent, (True, False), strict=True):
        with monkeypatch.context() as patched:
            write = postgresql_module.write

            def fails(
                connection: Any, steps: Any, *, force: bool, is_written: bool = is_written, write: Any = write
            ) -> None:
                patched.undo()
                if is_written:
                    write(connection, steps, force=force)
                postgresql.cut_holder(url)
                raise psycopg.OperationalError("the connection is lost")

            patched.setattr(postgresql_module, "write", fails)
            world.journal.write(Changes(messages=[without_envelope(each)]), force=True)
    assert [message for message, _ in world.reopen().ids] == [each.reference.id for each in sent]


def test_what_was_paged_out_is_read_after_the_server_was_restarted(postgresql: PostgresqlServer, world: World) -> None:
    """The connection that had paged it out was taken for a new one, and that it was closed for an error."""
    sent = world.message()
    world.page_out(sent)
    restart(postgresql)
    assert list(world.journal.read([sent.reference.id])) == [sent.reference.id]
    restart(postgresql)
    assert list(world.journal.read([sent.reference.id])) == [sent.reference.id], "by a connection that has read before"


def test_messages_are_paged_out_after_the_server_was_restarted(postgresql: PostgresqlServer, world: World) -> None:
    world.page_out(world.message())
    restart(postgresql)
    sent = world.message()
    world.page_out(sent)
    assert list(world.journal.read([sent.reference.id])) == [sent.reference.id]


def restart(postgresql: PostgresqlServer) -> None:
    postgresql.stop()
    postgresql.start()
