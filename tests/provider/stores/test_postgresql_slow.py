"""PostgreSQL that is well, and at work on one statement for longer than a server may be silent, as on a branch of a million messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import URL

from pyjms.spi.clock import Clock, Signal, SystemClock
from pyjms.spi.errors import InDoubtError, ProviderError
from pyjms.testing import VirtualClock
from pyjms_provider.core.journal.journal import BranchOutcome, Changes
from pyjms_provider.stores.errors import StoreError, UnavailableStoreError
from pyjms_provider.stores.sql import SqlJournal
from pyjms_provider.stores.sql import postgresql as patience_module
from pyjms_provider.stores.sql import postgresql as postgresql_module
from pyjms_provider.stores.sql.postgresql import (
    CLOSING_MS,
    DEFAULT_LIMIT_MS,
    UNLOCKING_MS,
    AnswerTimeout,
)
from pyjms_provider.stores.testing import JournalHome
from pyjms_provider.stores.testing.world import World, xid
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.parts import SqlStore
from tests.provider.stores.unwatched import UnwatchedClock

LONG_S = 30
LIMIT_MS = 200.0
"""So long the server may be silent here."""


class ShortTimeout(AnswerTimeout):
    """Tells when the server is about to be asked whether it is at work."""

    asked: Signal
    on_question: Callable[[], bool] | None = None
    """What has the server asked, or not, in place of what is so."""

    def may_last(self) -> bool:
        if self.on_question is not None:
            return self.on_question()
        if not super().may_last():
            return False
        self.asked.set()
        return True


class Slow:
    """A store whose server needs as long as it is told to."""

    def __init__(self, postgresql: PostgresqlServer, asked: Signal) -> None:
        self.postgresql = postgresql
        self.asked = asked
        self.url = postgresql.make_store()
        self.schema = self.url.rpartition("%3D")[2]
        self.cancelled = Signal()
        self.home = JournalHome(self._open)

    def begin(self) -> None:
        """Open the store."""
        self.world = World(self.home)

    def _open(self, holder: str) -> SqlJournal:
        self.store = SqlStore(self.url, UnwatchedClock(), cancelled=self.cancelled)
        return self.store.open(holder)

    def make_timeout(self, _url: URL, clock: Clock, cancelled: Signal | None) -> AnswerTimeout:
        """Return the limits of a store that is opened."""
        self.timeout = ShortTimeout(clock, LIMIT_MS, cancelled=cancelled)
        self.timeout.asked = self.asked
        return self.timeout

    @property
    def journal(self) -> SqlJournal:
        return self.store.journal

    def query(self, statement: str) -> list[Any]:
        """Run a statement of the broker's."""
        return self.store.database.query(statement)

    def run(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement of an administrator's, in which SCHEMA is the store's; return the rows, if it has some."""
        with self.postgresql.connect() as connection:
            cursor = connection.execute(statement.replace("SCHEMA", self.schema).encode())
            return cursor.fetchall() if cursor.description else []

    def slow_down(self, event: str, table: str, seconds: float) -> None:
        """Have each statement on a table need so long."""
        self.run(
            f"CREATE FUNCTION SCHEMA.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep({seconds}); "
            f"RETURN NULL; END $$; CREATE TRIGGER slow AFTER {event} ON SCHEMA.{table} FOR EACH STATEMENT "
            "EXECUTE FUNCTION SCHEMA.slow()"
        )


@pytest.fixture
def slow(postgresql: PostgresqlServer, asked: Signal, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    slow = Slow(postgresql, asked)
    monkeypatch.setattr(postgresql_module, "timeout_of", slow.make_timeout)
    slow.begin()
    yield slow
    slow.home.close()


@pytest.fixture
def asked() -> Signal:
    """Is set when the server is asked whether it is at work."""
    return Signal()


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_a_large_branch_is_waited_for(slow: Slow, asked: Signal, commit: bool) -> None:
    """It was begun again each time, was never done, and kept the others from writing: a noted end goes along with what is sent next."""
    prepared, sent = slow.world.message(), slow.world.message()
    slow.world.prepare(1, prepared)
    slow.slow_down("UPDATE" if commit else "DELETE", "pyjms_message", 1.0)
    before = slow.postgresql.holder(slow.url)
    if commit:
        slow.world.decide(1, commit=True)
    else:
        slow.journal.note(Changes(outcomes=[BranchOutcome(xid(1), commit=False)]))
    slow.world.add(sent)
    assert asked.wait(0)
    assert slow.postgresql.holder(slow.url) == before
    found = slow.world.reopen()
    assert [message for message, _ in found.ids] == [
        each.reference.id for each in ([prepared] if commit else []) + [sent]
    ]
    assert found.recovery.branches == []


def test_a_query_that_takes_long_is_waited_for(slow: Slow, asked: Signal) -> None:
    assert slow.query("SELECT 7 FROM pg_sleep(1.0)") == [(7,)]
    assert asked.wait(0)


def test_an_answer_that_comes_while_the_server_is_asked_is_taken(slow: Slow) -> None:
    def wait_for_answer() -> bool:
        statement = "SELECT state FROM pg_stat_activity WHERE query = 'SELECT 7 FROM pg_sleep(0.5)'"
        while slow.run(statement) != [("idle",)]:
            pass
        return False

    slow.timeout.on_question = wait_for_answer
    assert slow.query("SELECT 7 FROM pg_sleep(0.5)") == [(7,)]


def test_a_server_that_waits_for_somebody_else_is_not_waited_for(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the option that gives it more time."""
    monkeypatch.setattr(postgresql_module, "SETTLE_MS", 0)
    with slow.postgresql.connect() as other, other.transaction():
        other.execute(f"LOCK TABLE {slow.schema}.pyjms_message IN ACCESS EXCLUSIVE MODE".encode())
        with pytest.raises(InDoubtError, match=r"not answered for \d+\.\d s; pyjms_answer_timeout in the store's URL"):
            slow.world.add(slow.world.message())


@pytest.mark.parametrize("answer", ["none", "an error"])
def test_a_server_that_does_not_say_that_it_is_at_work_is_given_up(
    slow: Slow, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """Its disk hangs, perhaps, so that it cannot force what the question has it write."""
    monkeypatch.setattr(patience_module, "ASKING_MS", LIMIT_MS)
    question = f"SELECT true, pg_sleep({LONG_S}) WHERE 0 < %s" if answer == "none" else "SELECT 1 / 0 WHERE 0 < %s"
    monkeypatch.setattr(patience_module, "_AT_WORK", question)
    with pytest.raises(StoreError, match=r"not answered for \d"):
        slow.query(f"SELECT pg_sleep({LONG_S})")


def test_a_stop_ends_the_wait_for_a_statement_that_takes_long(
    slow: Slow, asked: Signal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience_module, "CLOSING_MS", 3 * LIMIT_MS)
    slow.slow_down("INSERT", "pyjms_message", 4 * LONG_S)
    errors: list[ProviderError] = []

    def send() -> None:
        try:
            slow.world.add(slow.world.message())
        except ProviderError as error:
            errors.append(error)

    sending = Thread(target=send)
    sending.start()
    assert asked.wait(LONG_S)
    slow.journal.close(clean=True)
    sending.join(LONG_S)
    assert [type(error) for error in errors] == [InDoubtError]
    assert "the store is being closed" in str(errors[0])


def test_a_stuck_write_that_a_second_signal_ends_leaves_a_store_that_goes_on(slow: Slow) -> None:
    slow.slow_down("INSERT", "pyjms_message", 4 * LONG_S)

    def interrupt() -> bool:
        raise KeyboardInterrupt

    slow.timeout.on_question = interrupt
    with pytest.raises(KeyboardInterrupt):
        slow.world.add(slow.world.message())
    slow.timeout.on_question = None
    slow.run("DROP TRIGGER slow ON SCHEMA.pyjms_message")
    sent = slow.world.message()
    for _ in range(100):
        with suppress(UnavailableStoreError):  # the server still takes the lost connection for alive
            slow.world.add(sent)
            break
        SystemClock().wait(Signal(), SystemClock().monotonic_ms() + 50)
    assert [message for message, _ in slow.world.reopen().ids] == [sent.reference.id]


def test_who_cancels_the_start_does_not_wait_for_a_statement_that_takes_long(slow: Slow, asked: Signal) -> None:
    slow.cancelled.set()
    with pytest.raises(StoreError, match=r"not answered for \d"):
        slow.query(f"SELECT pg_sleep({LONG_S})")
    assert not asked.wait(0)


def test_a_query_that_was_slow_while_the_store_is_closed_leaves_it_clean(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody connects any more, but the last commit had no time at all: messages came flagged that nobody had received."""
    monkeypatch.setattr(patience_module, "CLOSING_MS", LIMIT_MS)
    slow.slow_down("UPDATE", "pyjms_meta", 0.3)
    slow.timeout.limit_ms = DEFAULT_LIMIT_MS
    slow.journal.hasten()
    with pytest.raises(StoreError, match="the store is being closed"):
        slow.query(f"SELECT pg_sleep({LONG_S})")
    slow.journal.close(clean=True)
    assert slow.run("SELECT clean FROM SCHEMA.pyjms_meta") == [(True,)]


def test_the_time_of_who_stops_begins_with_the_stop() -> None:
    clock = VirtualClock()
    timeout = AnswerTimeout(clock)
    clock.advance(20_000)
    timeout.hasten()
    assert timeout.reason_to_end(20_000, timeout.limit_ms) is None
    clock.advance(int(CLOSING_MS) - 1)
    timeout.hasten()
    assert timeout.reason_to_end(20_000 + CLOSING_MS - 1, timeout.limit_ms) is None
    clock.advance(1)
    assert timeout.reason_to_end(20_000 + CLOSING_MS, timeout.limit_ms) is not None
    assert timeout.reason_to_end(UNLOCKING_MS - 1, timeout.limit_ms) is None
    assert timeout.reason_to_end(UNLOCKING_MS, timeout.limit_ms) is not None
