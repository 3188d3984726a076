"""A broker that writes nothing hears that it may have lost its store, takes it again, or stops serving (decision 0195)."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Queue
from threading import Event, Thread, current_thread
from threading import enumerate as all_threads
from typing import Any
from urllib.parse import quote

import pytest

from pyjms import Connection, ConnectionFactory, JMSException, MessageConsumer, ResourceAllocationException
from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.errors import ProviderError
from pyjms.testing import VirtualClock
from pyjms_provider import broker as broker_module
from pyjms_provider.broker import running_broker, stop_broker
from pyjms_provider.core.journal.journal import Journal
from pyjms_provider.settings import StandBy, StoreSettings
from pyjms_provider.stores.errors import HeldStoreError, LostStoreError
from pyjms_provider.stores.opening import open_store
from pyjms_provider.stores.sql import SqlJournal, open_journal
from pyjms_provider.stores.sql import postgresql as postgresql_store
from pyjms_provider.stores.sql.database import BETWEEN_LOOKS_MS, LEASE_S, Lease, LeaseMonitor
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.parts import group_of

LONG_S = 30
LEASE_MS = int(LEASE_S * 1000)
NAME = "idle"


class Looked(VirtualClock):
    """Tells when the watch waits again: it has looked then."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: Queue[float | None] = Queue()
        self.may_look = Event()
        """While it is down, the watch is late."""
        self.may_look.set()

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        if current_thread().name.startswith("pyjms holder"):
            self.begun.put(until_ms)
            came = super().wait(signal, until_ms)
            self.may_look.wait(LONG_S)
            return came
        return super().wait(signal, until_ms)

    def begin_look(self) -> None:
        """Have the watch look once. It may be the last time."""
        self.begun.get(timeout=LONG_S)
        self.advance(BETWEEN_LOOKS_MS)

    def look(self) -> None:
        """Have the watch look once, and return when it has."""
        self.begin_look()
        self.begun.put(self.begun.get(timeout=LONG_S))  # for the next look


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    return postgresql.make_store()


@pytest.fixture
def clock() -> Looked:
    return Looked()


class Idle:
    """A journal that nobody writes to."""

    def __init__(self, postgresql: PostgresqlServer, url: str, clock: Looked) -> None:
        self._postgresql, self._url = postgresql, url
        self.told: Queue[ProviderError] = Queue()
        self.journal = open_journal(StoreSettings(url=url), NAME, clock, on_lost=self.told.put)

    @property
    def backend(self) -> int:
        return self._postgresql.holder(self._url)


@pytest.fixture
def idle(postgresql: PostgresqlServer, url: str, clock: Looked) -> Iterator[Idle]:
    idle = Idle(postgresql, url, clock)
    yield idle
    idle.journal.close(clean=False)


def is_holder(idle: Idle) -> bool:
    return is_held(idle.journal)


def is_held(journal: SqlJournal) -> bool:
    return journal.is_held


def cut(postgresql: PostgresqlServer, backend: int) -> None:
    with postgresql.connect() as administrator:
        administrator.execute("SELECT pg_terminate_backend(%s, 10000)", (backend,))


def test_a_lease_ends_when_others_may_take_the_store() -> None:
    clock = VirtualClock()
    limit_s = LEASE_S / 2
    lease = Lease(clock, lambda: limit_s)
    lease.renew(lease.now_s())
    clock.advance(LEASE_MS // 2 - 1)
    found = [lease.is_valid]
    lease.renew(lease.now_s())
    lease.extend(lease.now_s())
    clock.advance(1)
    found.append(lease.is_valid)
    limit_s = 10 * LEASE_S
    lease.renew(lease.now_s())
    clock.advance(LEASE_MS - 1)
    found.append(lease.is_valid)
    clock.advance(1)
    found.append(lease.is_valid)
    assert found == [True, False, True, False]


def test_a_connection_that_looks_open_does_not_hold_a_store_that_others_may_take(url: str, clock: Looked) -> None:
    limit_s = LEASE_S
    journal = open_journal(StoreSettings(url=url, held_until_s=lambda: limit_s), NAME, clock)
    clock.look()
    assert is_held(journal)
    clock.look()  # finds the connection open, as it would if the network were cut
    assert not is_held(journal)
    limit_s = 10 * LEASE_S  # a heartbeat was written
    clock.look()
    assert is_held(journal)
    journal.close(clean=False)


def test_an_idle_holder_that_lost_its_lock_takes_it_again(
    postgresql: PostgresqlServer, url: str, idle: Idle, clock: Looked
) -> None:
    postgresql.cut_holder(url)
    clock.look()
    assert is_holder(idle)
    assert idle.told.empty()
    with pytest.raises(HeldStoreError):
        open_journal(StoreSettings(url=url), "second", SystemClock())


def test_an_idle_holder_hears_that_another_broker_has_taken_over(
    postgresql: PostgresqlServer, url: str, idle: Idle, clock: Looked
) -> None:
    postgresql.cut_holder(url)
    second = open_journal(StoreSettings(url=url), "second", SystemClock())
    clock.look()
    assert not is_holder(idle)
    assert isinstance(idle.told.get(timeout=LONG_S), LostStoreError)
    clock.look()
    assert idle.told.empty(), "it is said once"
    second.close(clean=True)


def test_it_is_not_held_while_the_server_is_away(postgresql: PostgresqlServer, idle: Idle, clock: Looked) -> None:
    postgresql.stop()
    try:
        clock.look()
        assert not is_holder(idle)
        assert "was lost" in str(idle.journal.trouble), "operators are told"
    finally:
        postgresql.start()
    clock.look()
    assert is_holder(idle)
    assert idle.told.empty()
    assert idle.journal.trouble is None


def test_who_looks_leaves_a_commit_alone(postgresql: PostgresqlServer, idle: Idle, clock: Looked) -> None:
    """Whoever commits finds out itself; what it has found is seen."""
    right = group_of(idle.journal).writer_lock
    assert right.acquire(blocking=False)
    backend = idle.backend
    cut(postgresql, backend)
    clock.look()
    idle.journal._database._lock_connection.release()  # type: ignore[attr-defined]  # as who commits does
    clock.look()
    assert not is_holder(idle)
    right.release()
    clock.look()
    assert is_holder(idle)
    assert idle.backend != backend


class Writes:
    """A commit that takes as long as the test has it take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, idle: Idle) -> None:
        self._may_end, begun, real = Event(), Event(), postgresql_store.write

        def write(*arguments: Any, **options: Any) -> None:
            begun.set()
            assert self._may_end.wait(LONG_S)
            real(*arguments, **options)

        monkeypatch.setattr(postgresql_store, "write", write)
        self._thread = Thread(target=idle.journal.confirm)
        self._thread.start()
        assert begun.wait(LONG_S)

    def end(self) -> None:
        self._may_end.set()
        self._thread.join(LONG_S)
        assert not self._thread.is_alive()


def test_who_commits_for_long_is_the_holder_meanwhile_unless_all_stood_still(
    idle: Idle, clock: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock.look()
    writes = Writes(monkeypatch, idle)
    for _ in range(5):
        clock.look()
        assert is_holder(idle)
    clock.begun.get(timeout=LONG_S)
    clock.advance(LEASE_MS)
    assert not is_holder(idle)
    clock.look()
    assert not is_holder(idle)
    writes.end()
    clock.look()
    assert is_holder(idle)


def test_who_looks_late_asks_the_server(
    postgresql: PostgresqlServer, url: str, idle: Idle, clock: Looked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a machine that was suspended, the system had nobody to tell that the connection has ended."""
    clock.look()
    monkeypatch.setattr(postgresql_store, "is_alive", lambda _: True)
    postgresql.cut_holder(url)
    second = open_journal(StoreSettings(url=url), "second", SystemClock())
    clock.look()
    assert is_holder(idle), "it has not stood still"
    clock.begun.get(timeout=LONG_S)
    clock.advance(LEASE_MS)
    assert not is_holder(idle)
    assert isinstance(idle.told.get(timeout=LONG_S), LostStoreError)
    second.close(clean=True)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[SqlJournal]:
    """The journals that brokers open."""
    opened: list[SqlJournal] = []

    def open_and_note(*arguments: Any, **options: Any) -> Journal:
        journal = open_store(*arguments, **options)
        assert isinstance(journal, SqlJournal)
        opened.append(journal)
        return journal

    monkeypatch.setattr(broker_module, "open_store", open_and_note)
    return opened


@pytest.fixture
def connection(url: str, clock: Looked, opened: list[SqlJournal]) -> Iterator[Connection]:
    factory = ConnectionFactory(f"vm://{NAME}?store={quote(url, safe='')}", clock=clock)
    with factory.create_connection() as connection:
        connection.start()
        yield connection
    stop_broker(NAME)


def consumer_of_sent(connection: Connection) -> MessageConsumer:
    """Send two messages, and receive the first, so that the second is covered by the same delivery mark."""
    session = connection.create_session()
    producer = session.create_producer(session.create_queue("orders"))
    for text in ("first", "second"):
        producer.send(session.create_text_message(text))
    consumer = session.create_consumer(session.create_queue("orders"))
    assert consumer.receive_no_wait() is not None
    return consumer


def test_nothing_that_is_kept_is_delivered_while_the_lock_may_be_another_brokers(
    postgresql: PostgresqlServer, clock: Looked, connection: Connection
) -> None:
    consumer = consumer_of_sent(connection)
    postgresql.stop()
    try:
        clock.look()
        with pytest.raises(ResourceAllocationException, match="cannot be reached"):
            consumer.receive_no_wait()
    finally:
        postgresql.start()
    clock.look()
    message = consumer.receive_no_wait()
    assert message is not None
    assert not message.jms_redelivered


def test_who_stood_still_asks_before_it_delivers(
    clock: Looked, connection: Connection, opened: list[SqlJournal]
) -> None:
    consumer = consumer_of_sent(connection)
    (journal,) = opened
    assert is_held(journal)
    clock.may_look.clear()
    clock.advance(LEASE_MS)
    assert not is_held(journal)
    message = consumer.receive_no_wait()
    assert message is not None
    assert not message.jms_redelivered
    assert is_held(journal), "it was written that it is delivered"
    clock.may_look.set()


def test_who_stood_still_delivers_nothing_of_a_store_that_another_one_has(
    postgresql: PostgresqlServer, url: str, clock: Looked, connection: Connection
) -> None:
    told: Queue[JMSException] = Queue()
    connection.exception_listener = told.put
    consumer = consumer_of_sent(connection)
    clock.may_look.clear()
    postgresql.cut_holder(url)
    second = open_journal(StoreSettings(url=url), "second", SystemClock())
    clock.advance(LEASE_MS)
    with pytest.raises(JMSException, match="another broker has held the store"):
        consumer.receive_no_wait()
    assert "another broker has held the store" in str(told.get(timeout=LONG_S))
    clock.may_look.set()
    second.close(clean=True)


def test_an_idle_broker_whose_store_another_one_has_stops_serving(
    postgresql: PostgresqlServer, url: str, clock: Looked, connection: Connection
) -> None:
    """A stand-by broker waits through a restart of the server, and is there first."""
    told: Queue[JMSException] = Queue()
    connection.exception_listener = told.put
    consumer = consumer_of_sent(connection)
    waiting = Event()
    taken: Queue[SqlJournal] = Queue()

    class Watched(SystemClock):
        def wait(self, signal: Signal, until_ms: float | None) -> bool:
            waiting.set()
            return super().wait(signal, until_ms)

    def stand_by() -> None:
        taken.put(open_journal(StoreSettings(url=url, stand_by=StandBy.WAIT), "second", Watched()))

    thread = Thread(target=stand_by)
    thread.start()
    assert waiting.wait(LONG_S)
    postgresql.stop()
    waiting.clear()
    assert waiting.wait(LONG_S)
    postgresql.start()
    second = taken.get(timeout=LONG_S)
    thread.join(LONG_S)
    clock.begin_look()
    assert "another broker has held the store" in str(told.get(timeout=LONG_S))
    with pytest.raises(JMSException):
        consumer.receive_no_wait()
    assert running_broker(NAME) is None
    second.close(clean=True)


def test_a_watch_can_be_ended_by_what_it_calls() -> None:
    clock = VirtualClock()
    has_looked = Event()

    def look() -> None:
        watch.stop()
        has_looked.set()

    watch = LeaseMonitor(look, clock, name="store")
    watch.start()
    clock.await_wait(BETWEEN_LOOKS_MS)
    clock.advance(BETWEEN_LOOKS_MS)
    assert has_looked.wait(LONG_S)
    watch.stop()
    assert "pyjms holder store" not in {thread.name for thread in all_threads()}
