"""A stand-by broker that loses the store's server, or the store, while it takes it over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final
from urllib.parse import quote

import pytest

from pyjms import ConnectionFactory
from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import ClosedError, InDoubtError
from pyjms_provider.broker import EmbeddedBroker, stop_broker
from pyjms_provider.core.journal.journal import Recovery
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.settings import BrokerSettings, StandBy, StoreSettings
from pyjms_provider.stores.errors import LostStoreError, UnavailableStoreError
from pyjms_provider.stores.sql import SqlJournal, open_journal
from tests.provider.postgresql import PostgresqlServer

_LOOKS = 3
_END_OTHERS: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'pyjms%'"
_TAKE_WRITES: Final = "ALTER DATABASE postgres RESET default_transaction_read_only"


class Watched(SystemClock):
    """Tells of each wait for the store."""

    def __init__(self, cancelled: Signal, on_wait: Callable[[int], None]) -> None:
        self._cancelled = cancelled
        self._on_wait = on_wait
        self.waits = 0

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        if signal is self._cancelled:
            self.waits += 1
            self._on_wait(self.waits)
        return super().wait(signal, until_ms)


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    """A store with one message."""
    made = postgresql.make_store()
    with ConnectionFactory(f"vm://before?store={quote(made, safe='')}").create_connection() as connection:
        session = connection.create_session()
        session.create_producer(session.create_queue("orders")).send(session.create_text_message("one"))
    stop_broker("before")
    return made


def at_first_recovery(monkeypatch: pytest.MonkeyPatch, fault: Callable[[SqlJournal], None]) -> None:
    """Have `fault` come when a store is read for the first time."""
    real = SqlJournal.recover

    def recover(journal: SqlJournal, progress: Callable[[int], None]) -> Recovery:
        monkeypatch.setattr(SqlJournal, "recover", real)
        fault(journal)
        return real(journal, progress)

    monkeypatch.setattr(SqlJournal, "recover", recover)


def lose_to_another(postgresql: PostgresqlServer, url: str, journal: SqlJournal) -> SqlJournal:
    """Have another broker take the store; return its journal when this one has found out."""
    postgresql.cut_holder(url)
    other = open_journal(StoreSettings(url=url), "another", SystemClock())
    with pytest.raises(InDoubtError, match="another broker has held the store"):
        journal.confirm()
    return other


def open_broker(
    url: str, clock: SystemClock, cancelled: Signal, stand_by: StandBy = StandBy.WAIT, wait_ms: int = 0
) -> EmbeddedBroker:
    settings = BrokerSettings(store=StoreSettings(url=url, stand_by=stand_by, wait_ms=wait_ms))
    return EmbeddedBroker("standing", clock, settings, cancelled=cancelled)


def check_has_all(broker: EmbeddedBroker) -> None:
    try:
        assert broker.virtual_host.queue("orders").count(MessageState.NEW) == 1
    finally:
        broker.stop()


def test_who_loses_the_server_in_mid_recovery_waits_until_it_is_back(
    postgresql: PostgresqlServer, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What ends a holder is often the server, which may go again; nobody else was left who would have served."""
    cancelled = Signal()
    at_first_recovery(monkeypatch, lambda _: postgresql.stop("immediate"))
    clock = Watched(cancelled, lambda waits: postgresql.start() if waits == _LOOKS else None)
    with ExitStack() as lent:
        lent.callback(lambda: postgresql.start() if clock.waits < _LOOKS else None)
        with caplog.at_level(logging.WARNING):
            broker = open_broker(url, clock, cancelled)
    check_has_all(broker)
    told = [record.message for record in caplog.records if "PYJMS-BROKER-27" in record.message]
    assert len(told) == 1
    assert "waits on" in told[0]


def test_who_loses_the_store_in_mid_recovery_stands_by_again(
    postgresql: PostgresqlServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = Signal()
    others: list[SqlJournal] = []

    def lose(journal: SqlJournal) -> None:
        others.append(lose_to_another(postgresql, url, journal))

    at_first_recovery(monkeypatch, lose)
    clock = Watched(cancelled, lambda waits: others[0].close(clean=True) if waits == _LOOKS else None)
    check_has_all(open_broker(url, clock, cancelled))
    assert clock.waits >= _LOOKS


def test_who_is_told_to_stop_waits_for_no_server(
    postgresql: PostgresqlServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled = Signal()
    at_first_recovery(monkeypatch, lambda _: postgresql.stop("immediate"))
    with ExitStack() as lent:
        lent.callback(postgresql.start)
        with pytest.raises(ClosedError, match="cancelled"):
            open_broker(url, Watched(cancelled, lambda waits: cancelled.set()), cancelled)


@pytest.mark.parametrize("fault", ["server", "store"])
def test_who_does_not_stand_by_is_told(
    postgresql: PostgresqlServer, url: str, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    cancelled = Signal()
    with ExitStack() as lent:
        if fault == "server":
            at_first_recovery(monkeypatch, lambda _: postgresql.stop("immediate"))
            lent.callback(postgresql.start)
        else:

            def lose(journal: SqlJournal) -> None:
                lent.callback(lose_to_another(postgresql, url, journal).close, clean=True)

            at_first_recovery(monkeypatch, lose)
        with pytest.raises(UnavailableStoreError if fault == "server" else LostStoreError):
            open_broker(url, SystemClock(), cancelled, StandBy.REFUSE)


def test_who_finds_the_store_free_while_its_server_takes_no_writes_waits_until_it_does(
    postgresql: PostgresqlServer, url: str
) -> None:
    """As a server of PostgreSQL's that stands by itself, until it is promoted."""
    cancelled = Signal()
    first = open_journal(StoreSettings(url=url), "first", SystemClock())
    with ExitStack() as lent:
        administrator = lent.enter_context(postgresql.connect())
        lent.callback(administrator.execute, _TAKE_WRITES)

        def on_wait(waits: int) -> None:
            if waits == 1:
                administrator.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
                first.close(clean=True)
                administrator.execute(_END_OTHERS)  # to sessions that are open it does not apply
            elif waits == _LOOKS:
                administrator.execute(_TAKE_WRITES)

        clock = Watched(cancelled, on_wait)
        check_has_all(open_broker(url, clock, cancelled))
        assert clock.waits >= _LOOKS


def test_who_finds_at_first_that_its_server_takes_no_writes_waits_until_it_does(
    postgresql: PostgresqlServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The server answers, and knows the user and the database, so the URL is right: it is failing over. Who does not stand by is told."""
    with ExitStack() as lent:
        administrator = lent.enter_context(postgresql.connect())
        lent.callback(administrator.execute, _TAKE_WRITES)
        administrator.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
        with pytest.raises(UnavailableStoreError, match=r"takes no writes.*Promote"):
            open_broker(url, SystemClock(), Signal(), StandBy.REFUSE)

        def on_wait(waits: int) -> None:
            if waits == _LOOKS:
                administrator.execute(_TAKE_WRITES)

        cancelled = Signal()
        clock = Watched(cancelled, on_wait)
        check_has_all(open_broker(url, clock, cancelled))
        assert clock.waits >= _LOOKS
    told = [(each.levelname, each.getMessage()) for each in caplog.records if "PYJMS-STORE-5" in each.getMessage()]
    assert [level for level, _ in told] == ["WARNING"]
    assert "takes no writes" in told[0][1]


def test_who_is_started_before_the_server_waits_for_it(
    postgresql: PostgresqlServer, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It could not be opened, and stayed so until somebody started it by hand."""
    cancelled = Signal()
    postgresql.stop()
    clock = Watched(cancelled, lambda waits: postgresql.start() if waits == _LOOKS else None)
    with ExitStack() as lent:
        lent.callback(lambda: postgresql.start() if clock.waits < _LOOKS else None)
        with caplog.at_level(logging.WARNING):
            broker = open_broker(url, clock, cancelled, StandBy.REFUSE, wait_ms=600_000)
    check_has_all(broker)
    told = [record.message for record in caplog.records if "PYJMS-BROKER-27" in record.message]
    assert len(told) == 1
    assert "cannot be reached" in told[0]


def test_who_has_waited_for_the_server_long_enough_says_why(postgresql: PostgresqlServer, url: str) -> None:
    cancelled = Signal()
    postgresql.stop()
    try:
        with pytest.raises(UnavailableStoreError, match="cannot be reached"):
            open_broker(url, SystemClock(), cancelled, StandBy.REFUSE, wait_ms=1)
    finally:
        postgresql.start()
