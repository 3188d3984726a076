"""PostgreSQL that takes what it is sent, and does not answer: it is stopped, its disk hangs, or its stand-by server is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread
from time import monotonic
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from pyjms import ConnectionFactory, JMSException
from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import InDoubtError, ProviderError, UrlError
from pyjms.spi.registry import find_provider
from pyjms.spi.replay import StageName
from pyjms.spi.url import ProviderUrl
from pyjms_provider.core.journal.journal import BranchOutcome, Changes, PipelineChanges, Removal, StageRecord
from pyjms_provider.settings import StoreSettings
from pyjms_provider.stores.errors import StoreError, UnavailableStoreError
from pyjms_provider.stores.sql import SqlJournal, open_journal
from pyjms_provider.stores.sql import configuration as store_module
from pyjms_provider.stores.sql import postgresql as patience_module
from pyjms_provider.stores.sql import postgresql as postgresql_module
from pyjms_provider.stores.sql import schema as schema_module
from pyjms_provider.stores.sql.configuration import SqlConfigurationStore
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.configuration_suite import BROKER
from pyjms_provider.stores.testing.world import World, xid
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.parts import SqlStore
from tests.provider.stores.unwatched import UnwatchedClock

LONG_S = 30
QUICK = "&pyjms_answer_timeout=1&connect_timeout=2"


@pytest.fixture(autouse=True)
def settles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nobody try again for long: the server is still as it was."""
    monkeypatch.setattr(postgresql_module, "SETTLE_MS", 0)


@contextmanager
def opened(url: str, cancelled: Signal | None = None) -> Iterator[World]:
    home = JournalHome(
        lambda holder: open_journal(StoreSettings(url=url), holder, UnwatchedClock(), cancelled=cancelled)
    )
    yield World(home)
    home.close()


def test_what_a_server_that_stands_still_does_not_answer_is_in_doubt(postgresql: PostgresqlServer) -> None:
    """Its system confirms all that is sent, so that no time-out of the network ends the wait."""
    with opened(postgresql.make_store() + QUICK) as world:
        first, second, third = (world.message() for _ in range(3))
        world.add(first)
        with postgresql.standing_still():
            with pytest.raises(InDoubtError, match=r"not known whether .*has not answered for \d+\.\d s"):
                world.add(second)
            with pytest.raises(UnavailableStoreError, match="nothing was written"):
                world.add(third)
            world.journal.note(Changes(removals=[Removal(world.queue, second.reference)]))
        world.add(third)
        assert [message for message, _ in world.reopen().ids] == [first.reference.id, third.reference.id]


def test_what_it_does_not_send_is_not_read(postgresql: PostgresqlServer) -> None:
    with opened(postgresql.make_store() + QUICK) as world:
        sent = world.add(world.message())
        assert world.bodies(sent.reference.id)
        with (
            postgresql.standing_still(),
            pytest.raises(UnavailableStoreError, match="connection timeout expired"),  # with a second connection
        ):
            world.bodies(sent.reference.id)
        assert world.bodies(sent.reference.id)


def test_a_commit_that_waits_for_a_stand_by_server_is_not_confirmed_by_looking(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once that wait is ended the server shows what it has committed, and nobody else has it: its disk may be lost."""
    with opened(postgresql.make_store() + QUICK) as world:
        first, second = world.message(), world.message()
        with monkeypatch.context() as patient, postgresql.without_stand_by():
            patient.setattr(postgresql_module, "SETTLE_MS", 2000)
            with pytest.raises(InDoubtError, match="not answered"):
                world.add(first)
        _when_free(lambda: world.add(second))
        assert [message for message, _ in world.reopen().ids] == [first.reference.id, second.reference.id]


@pytest.mark.parametrize("ends", ["branch", "staged unit"])
def test_the_end_of_what_is_committed_later_finds_it(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """Nobody has answered when it was prepared, so its end is noted; and while the server commits it, nobody sees it."""
    name = StageName("sink", 1, 0, "attempt")
    staged = StageRecord(name=name, messages=0, staged_ms=1, discarded_after_ms=2)

    def refuse(_holder: object) -> bool:
        raise psycopg.OperationalError("connection refused")

    with opened(postgresql.make_store() + QUICK) as world:
        with postgresql.without_stand_by():
            with monkeypatch.context() as away, pytest.raises(InDoubtError):
                away.setattr(postgresql_module.LockConnection, "acquire", refuse)
                if ends == "branch":
                    world.prepare(1)
                else:
                    world.journal.write(Changes(pipelines=PipelineChanges(staged=staged)), force=True)
            if ends == "branch":
                world.journal.note(Changes(outcomes=[BranchOutcome(xid(1), commit=False)]))
            else:
                world.journal.note(Changes(pipelines=PipelineChanges(outcomes=[(name, False)])))
            with pytest.raises(UnavailableStoreError, match="lock in PostgreSQL is not free yet"):
                world.prepare(2)
        _when_free(lambda: world.prepare(2))
        found = world.reopen().recovery
        assert [branch.xid for branch in found.branches] == [xid(2)]
        assert [stage.record.name for stage in found.stages] == []


def _when_free(write: Callable[[], object]) -> None:
    """Write as soon as the server has ended what it has committed before, for which it may need a moment."""
    until_s = monotonic() + LONG_S
    while True:
        try:
            write()
        except UnavailableStoreError as error:
            if "not free yet" not in error.reason or monotonic() > until_s:
                raise
        else:
            return


def test_a_journal_can_be_closed_while_a_write_waits(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience_module, "CLOSING_MS", 300)
    errors: list[ProviderError] = []
    with opened(postgresql.make_store()) as world, postgresql.standing_still():
        journal = world.journal
        assert isinstance(journal, SqlJournal)
        began = Signal()
        real = postgresql_module.write

        def send() -> None:
            try:
                world.add(world.message())
            except ProviderError as error:
                errors.append(error)

        def begin(*arguments: object, force: bool) -> None:
            began.set()
            real(*arguments, force=force)  # type: ignore[arg-type]

        monkeypatch.setattr(postgresql_module, "write", begin)
        sending = Thread(target=send)
        sending.start()
        assert began.wait(LONG_S)
        journal.close(clean=True)
        sending.join(LONG_S)
    assert [type(error) for error in errors] == [InDoubtError]


def test_a_broker_can_be_stopped_while_clients_wait(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them waits for the server, and the others, the housekeeper too perhaps, for its turn to end."""
    monkeypatch.setattr(patience_module, "CLOSING_MS", 300)
    url = f"vm://stands-still?store={quote(postgresql.make_store(), safe='')}"
    began = Signal()
    real = postgresql_module.write

    def begin(*arguments: object, force: bool) -> None:
        began.set()
        real(*arguments, force=force)  # type: ignore[arg-type]

    errors: list[JMSException] = []
    with ConnectionFactory(url).create_connection() as connection:
        sessions = [connection.create_session() for _ in range(3)]

        def send(number: int) -> None:
            session = sessions[number]
            try:
                session.create_producer(session.create_queue("orders")).send(session.create_text_message("one"))
            except JMSException as error:
                errors.append(error)

        senders = [Thread(target=send, args=(number,)) for number in range(3)]
        send(0)
        assert errors == []
        monkeypatch.setattr(postgresql_module, "write", begin)
        with postgresql.standing_still():
            for sender in senders:
                sender.start()
            assert began.wait(LONG_S)
            began_s = monotonic()
            find_provider("vm").stop_broker(ProviderUrl.parse(url))
            assert monotonic() - began_s < LONG_S / 2
            for sender in senders:
                sender.join(LONG_S)
    assert len(errors) == 3


def test_who_reads_all_that_is_kept_waits_as_long_as_it_takes(postgresql: PostgresqlServer) -> None:
    cancelled, url = Signal(), postgresql.make_store()
    store = SqlStore(url + QUICK, UnwatchedClock(), cancelled=cancelled)
    with ExitStack() as ending:
        ending.callback(store.open("broker").close, clean=False)
        database = store.database
        with database.reading(is_beginning=True) as connection:
            connection.exec_driver_sql("SELECT pg_sleep(1.5)")
        with database.streaming() as run:
            assert len(list(run("SELECT pg_sleep(1.5)"))) == 1
        with postgresql.connect() as other, other.transaction():
            other.execute(f"LOCK TABLE {url.rpartition('%3D')[2]}.pyjms_message IN ACCESS EXCLUSIVE MODE".encode())
            with pytest.raises(StoreError, match=r"not answered for \d"):
                database.query("SELECT id FROM pyjms_message")
            with pytest.raises(StoreError, match=r"not answered for \d"), database.reading() as connection:
                connection.exec_driver_sql("SELECT id FROM pyjms_message")
        cancelled.set()
        with pytest.raises(StoreError, match="cancelled"), database.reading(is_beginning=True) as connection:
            connection.exec_driver_sql("SELECT pg_sleep(20)")


def test_who_frees_the_lock_does_not_wait_as_long_as_for_other_answers(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled start, and a configuration that is closed: the server frees it by itself when the connection is gone."""
    url = f"{postgresql.make_store()}&pyjms_answer_timeout={2 * LONG_S}&connect_timeout=2"
    configuration = SqlConfigurationStore(url)
    configuration.open("test")
    began, is_still, cancelled = Signal(), Signal(), Signal()
    real = schema_module.prepare_schema

    def prepare(*arguments: Any, **options: Any) -> bool:
        began.set()
        assert is_still.wait(LONG_S)
        return real(*arguments, **options)

    monkeypatch.setattr("pyjms_provider.stores.sql.postgresql.prepare_schema", prepare)
    errors: list[BaseException] = []

    def start() -> None:
        try:
            open_journal(StoreSettings(url=url), "test", SystemClock(), cancelled=cancelled)
        except ProviderError as error:
            errors.append(error)

    starting = Thread(target=start)
    starting.start()
    assert began.wait(LONG_S)
    with postgresql.standing_still():
        is_still.set()
        cancelled.set()
        starting.join(LONG_S)
        assert not starting.is_alive()
        began_s = monotonic()
        configuration.close()
        assert monotonic() - began_s < LONG_S
    assert len(errors) == 1


def test_a_configuration_in_doubt_is_closed_in_limited_time(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not answer is to take it back. Who stops waits no longer for that than for all else."""
    monkeypatch.setattr(store_module, "SETTLE_MS", 0)
    url = f"{postgresql.make_store()}&pyjms_answer_timeout={4 * LONG_S}&connect_timeout=2"
    configuration = SqlConfigurationStore(url)
    configuration.open("test")
    real = psycopg.Connection.commit

    def lose(connection: psycopg.Connection[Any]) -> None:
        real(connection)
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as lost, pytest.raises(InDoubtError):
        lost.setattr(psycopg.Connection, "commit", lose)
        configuration.update([BROKER])
    monkeypatch.setattr(patience_module, "CLOSING_MS", 300)
    with postgresql.standing_still():
        began_s = monotonic()
        configuration.close()
        assert monotonic() - began_s < LONG_S


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "86401", "long", "1&pyjms_answer_timeout=2"])
def test_a_time_that_is_none_is_refused(postgresql: PostgresqlServer, value: str) -> None:
    url = f"{postgresql.make_store()}&pyjms_answer_timeout={value}"
    with pytest.raises(UrlError, match="write seconds, from 1 to 86400, as 30"):
        open_journal(StoreSettings(url=url), "test", SystemClock())
    with pytest.raises(UrlError, match="write seconds, from 1 to 86400, as 30"):
        SqlConfigurationStore(url).open("test")
