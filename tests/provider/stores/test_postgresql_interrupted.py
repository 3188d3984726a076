"""The main thread is interrupted while it writes to PostgreSQL: who writes next finds the connection as if nothing had been, and hears of it alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg.pq import PipelineStatus, TransactionStatus
from sqlalchemy.exc import SQLAlchemyError

from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ProviderError
from pyjms_provider.core.journal.journal import NewMessage
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.sql import SqlJournal, open_journal
from pyjms_provider.stores.sql import postgresql as postgresql_module
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.postgresql import PostgresqlServer

LONG_S = 30
FILES = ("sql/postgresql.py", "psycopg/_pipeline.py", "psycopg/_pipeline_base.py", "psycopg/connection.py")


@pytest.fixture
def world(postgresql: PostgresqlServer) -> Iterator[World]:
    url = postgresql.make_store()
    home = JournalHome(lambda holder: open_journal(StoreSettings(url=url), holder, SystemClock()))
    yield World(home)
    home.close()


def database_of(world: World) -> Any:
    assert isinstance(world.journal, SqlJournal)
    return world.journal._database


def send_elsewhere(world: World) -> NewMessage:
    """Send in another thread, which must not be told of what was interrupted."""
    message = world.message()
    errors: list[ProviderError] = []

    def send() -> None:
        try:
            world.add(message)
        except ProviderError as error:
            errors.append(error)

    thread = Thread(target=send)
    thread.start()
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert errors == []
    return message


def assert_at_rest(connection: psycopg.Connection[Any] | None, where: str | None = None) -> None:
    assert connection is not None, where
    found = (connection.info.transaction_status, connection.info.pipeline_status, connection._pipeline)
    assert found == (TransactionStatus.IDLE, PipelineStatus.OFF, None), where


class Interrupted:
    """Rows of which reading is interrupted after the first: the driver has begun a transaction then."""

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        yield ()
        raise KeyboardInterrupt


def interrupt_next_write(monkeypatch: pytest.MonkeyPatch, last: str = "SELECT 1") -> None:
    """Have the next write be interrupted after the statement `last`, and before it is committed."""
    real = postgresql_module.write
    interrupted: Any = Interrupted()

    def write(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
        monkeypatch.setattr(postgresql_module, "write", real)
        real(connection, [*steps, (last, interrupted)], force=force)

    monkeypatch.setattr(postgresql_module, "write", write)


def be_interrupted() -> None:
    raise KeyboardInterrupt


def stop_clearing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the interrupted thread be interrupted again before it has left the connection as it was."""
    real = postgresql_module.bring_to_rest

    def bring_to_rest(connection: psycopg.Connection[Any]) -> bool:
        monkeypatch.setattr(postgresql_module, "bring_to_rest", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(postgresql_module, "bring_to_rest", bring_to_rest)


def test_a_removal_that_is_interrupted_anywhere(world: World) -> None:
    """The thread hears of it, the connection is at rest before the next write, and that is done."""
    sent: list[int] = []

    def attempt(interruption: Interruption) -> None:
        message = world.add(world.message())
        was_interrupted = False
        try:
            with interruption():
                world.remove((world.queue, message.reference))
        except KeyboardInterrupt:
            was_interrupted = True
        assert was_interrupted is (interruption.where is not None), interruption.where
        world.journal._look()  # type: ignore[attr-defined]
        assert_at_rest(database_of(world)._holder.connection, interruption.where)
        sent.append(send_elsewhere(world).reference.id)

    assert each_interruption(attempt, *FILES) > 50
    assert set(sent) <= {message for message, _ in world.reopen().ids}


def test_a_send_that_is_interrupted_anywhere(world: World) -> None:
    sent: list[int] = []

    def attempt(interruption: Interruption) -> None:
        was_interrupted = False
        try:
            with interruption():
                world.add(world.message())
        except KeyboardInterrupt:
            was_interrupted = True
        assert was_interrupted is (interruption.where is not None), interruption.where
        sent.append(send_elsewhere(world).reference.id)
        assert_at_rest(database_of(world)._holder.connection, interruption.where)

    assert each_interruption(attempt, *FILES) > 50
    assert set(sent) <= {message for message, _ in world.reopen().ids}


def test_a_late_look_that_is_interrupted_anywhere(world: World) -> None:
    database = database_of(world)

    def attempt(interruption: Interruption) -> None:
        database.lease.until_s = 0.0
        was_interrupted = False
        try:
            with interruption(), world.journal._group.right:  # type: ignore[attr-defined]
                database.look()
        except KeyboardInterrupt:
            was_interrupted = True
        assert was_interrupted is (interruption.where is not None), interruption.where
        send_elsewhere(world)
        assert_at_rest(database._holder.connection, interruption.where)

    assert each_interruption(attempt, *FILES) > 10


def test_what_is_sent_after_an_interrupted_removal_outlives_the_server(
    postgresql: PostgresqlServer, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went into the removal's open transaction, whose commit the server was told not to force."""
    first = world.add(world.message())
    interrupt_next_write(monkeypatch)
    stop_clearing_up(monkeypatch)
    with postgresql.forgetful() as die:
        with pytest.raises(KeyboardInterrupt):
            world.remove((world.queue, first.reference))
        second = send_elsewhere(world)
        die()
        assert [message for message, _ in world.reopen().ids] == [first.reference.id, second.reference.id]


def test_the_write_after_an_interrupted_one_is_forced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was interrupted may be written, and others see it then, but nobody noted that it may have to be written again."""
    first = world.add(world.message())
    real = postgresql_module.write
    forced: list[bool] = []

    def write(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
        real(connection, steps, force=force)
        forced.append(force)
        if len(forced) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(postgresql_module, "write", write)
    with pytest.raises(KeyboardInterrupt):
        world.remove((world.queue, first.reference))
    assert world.journal.holds(world.queue, first.reference) is False
    world.remove((world.queue, first.reference))
    assert forced == [False, True, False]


@pytest.mark.parametrize("is_again", [True, False])
@pytest.mark.parametrize("failed", [True, False])
def test_a_transaction_that_was_left_open_is_ended_also_while_nobody_writes(
    postgresql: PostgresqlServer, world: World, monkeypatch: pytest.MonkeyPatch, is_again: bool, failed: bool
) -> None:
    """The server may end a connection that is idle in a transaction, and then the store is another broker's."""
    first = world.add(world.message())
    connection = database_of(world)._holder.connection
    interrupt_next_write(monkeypatch, "SELECT 1 / 0" if failed else "SELECT 1")
    if is_again:
        stop_clearing_up(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        world.remove((world.queue, first.reference))
    if is_again:
        world.journal._look()  # type: ignore[attr-defined]
    assert database_of(world)._holder.connection is connection, "the lock was let go of"
    assert_at_rest(connection)
    send_elsewhere(world)


def test_an_interrupt_that_is_being_handled_is_not_raised_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program ends by it, and sends its last message, on a connection that is lost just then."""
    real = postgresql_module.write

    def cut(connection: psycopg.Connection[Any], steps: Sequence[Any], *, force: bool) -> None:
        monkeypatch.setattr(postgresql_module, "write", real)
        connection.close()
        real(connection, steps, force=force)

    monkeypatch.setattr(postgresql_module, "write", cut)
    message = world.message()
    try:
        be_interrupted()
    except KeyboardInterrupt:
        world.add(message)
    assert [each for each, _ in world.reopen().ids] == [message.reference.id]


@pytest.mark.parametrize(
    ("error", "is_refusal"),
    [
        (OverflowError(), True),
        (ValueError(), True),
        (TypeError(), True),
        (SQLAlchemyError(), False),
        (AssertionError(), False),
    ],
)
def test_only_what_a_value_caused_was_refused_by_the_driver(error: Exception, is_refusal: bool) -> None:
    assert postgresql_module.was_refused(error) is is_refusal
