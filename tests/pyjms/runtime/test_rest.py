"""Messages that cannot be handed to a listener, as the provider's store is away: their consumer rests, and goes on by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from pyjms import DeliveryMode, Session
from pyjms.runtime.factory import ConnectionFactory
from pyjms.runtime.waiting import Rest
from pyjms.spi import ProviderUrl, find_provider
from pyjms.spi.errors import ResourceError
from pyjms.testing import VirtualClock
from pyjms_provider.core.journal.queue_journal import QueueJournal
from pyjms_provider.stores.errors import UnavailableStoreError
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import PATIENCE_S, Recorder, WatchedClock, eventually, send_texts, within_patience
from tests.pyjms.runtime.server_pool import Pool, feeding
from tests.pyjms.runtime.test_exception_listener import Problems
from tests.pyjms.runtime.wrapping import Wrapped, raising


@pytest.fixture
def jms_broker_url(tmp_path: Path) -> Iterator[str]:
    """A broker with a store."""
    url = f"vm://resting?store=sqlite:///{tmp_path}/a.db"
    yield url
    find_provider("vm").stop_broker(ProviderUrl.parse(url))


class Store:
    """A store that is away until it is back: deliveries cannot be noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_away = True
        self.asked: Queue[None] = Queue()
        real = QueueJournal.cover

        def mark(*arguments: Any) -> None:
            if self.is_away:
                self.asked.put(None)
                raise UnavailableStoreError("the server is away")
            real(*arguments)

        monkeypatch.setattr(QueueJournal, "cover", mark)

    def await_asked(self) -> None:
        self.asked.get(timeout=PATIENCE_S)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    return Store(monkeypatch)


def outlast(clock: VirtualClock, store: Store, *pauses_ms: int) -> None:
    """See that it is asked once after each of these pauses, and not before."""
    for pause_ms in pauses_ms:
        clock.await_wait(pause_ms)
        clock.advance(pause_ms - 1)
        clock.await_wait(1)
        assert store.asked.empty(), "it was asked again before the pause was over"
        clock.advance(1)
        store.await_asked()


def test_a_listener_rests_longer_and_longer(virtual_clock: WatchedClock, connect: Connect, store: Store) -> None:
    connection, recorder, other = connect(started=False), Recorder(), Recorder()
    session, sending = connection.create_session(), connect().create_session()
    session.create_consumer(session.create_queue("orders")).message_listener = recorder
    session.create_consumer(session.create_queue("news")).message_listener = other
    send_texts(sending, sending.create_queue("orders"), "one", "two")
    connection.start()
    store.await_asked()
    outlast(virtual_clock, store, 100, 200, 400, 800, 1000, 1000)
    virtual_clock.await_wait(1000)
    send_texts(sending, sending.create_queue("news"), "kept nowhere", delivery_mode=DeliveryMode.NON_PERSISTENT)
    assert other.wait_for(1) == ["kept nowhere"], "the session's other consumers go on"
    store.is_away = False
    virtual_clock.await_wait(1000)
    assert recorder.texts == []
    virtual_clock.advance(1000)
    assert recorder.wait_for(2) == ["one", "two"]
    assert recorder.redelivered == [False, False], "nobody had seen them"


def test_after_a_success_the_pauses_begin_anew(virtual_clock: WatchedClock, connect: Connect, store: Store) -> None:
    connection, recorder = connect(), Recorder()
    session, sending = connection.create_session(), connect().create_session()
    session.create_consumer(session.create_queue("orders")).message_listener = recorder
    for number in (1, 2):
        store.is_away = True
        send_texts(sending, sending.create_queue("orders"), *["a"] * 200)  # more than one mark covers
        store.await_asked()
        outlast(virtual_clock, store, 100, 200)
        store.is_away = False
        virtual_clock.await_wait(400)
        virtual_clock.advance(400)
        recorder.wait_for(200 * number)
        virtual_clock.advance(1000)


def test_who_rests_can_be_closed(virtual_clock: WatchedClock, connect: Connect, store: Store) -> None:
    connection = connect()
    session = connection.create_session()
    queue = session.create_queue("orders")
    send_texts(connect().create_session(), queue, "one")
    session.create_consumer(queue).message_listener = Recorder()
    store.await_asked()
    virtual_clock.await_wait(100)
    within_patience(connection.stop)
    within_patience(connection.close)
    assert store.asked.empty()


@pytest.mark.parametrize("mode", [Session.AUTO_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE])
def test_a_connection_consumer_rests(virtual_clock: WatchedClock, connect: Connect, store: Store, mode: int) -> None:
    connection, recorder = connect(), Recorder()
    sending = connect().create_session()
    queue = sending.create_queue("orders")
    pool = Pool(connection, feeding(recorder), mode=mode)
    connection.create_connection_consumer(queue, None, pool, 1)
    send_texts(sending, queue, "one", "two")
    for _ in range(3):  # once, or twice, as the message is there again before its reader tells that it has failed
        store.await_asked()
        virtual_clock.await_wait(1000)
        virtual_clock.advance(1000)
    store.is_away = False

    def go_on() -> bool:
        virtual_clock.advance(1000)
        return len(recorder.texts) == 2

    eventually(go_on, "both messages came")
    pool.join()
    within_patience(connection.close)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log was told so far, by the runtime."""
    return [record.getMessage() for record in caplog.records if record.name == "pyjms.runtime"]


@pytest.mark.parametrize("is_loaded", [False, True], ids=["listener", "connection consumer"])
def test_the_log_is_told_once_a_minute_and_that_it_is_over(
    virtual_clock: WatchedClock, connect: Connect, store: Store, is_loaded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    connection, recorder = connect(), Recorder()
    sending = connect().create_session()
    queue = sending.create_queue("orders")
    pool = Pool(connection, feeding(recorder))
    if is_loaded:
        connection.create_connection_consumer(queue, None, pool, 1)
    else:
        connection.create_session().create_consumer(queue).message_listener = recorder
    begin_ms = virtual_clock.monotonic_ms()
    send_texts(sending, queue, "one")

    def go_on() -> bool:
        virtual_clock.advance(1000)
        return len(told(caplog)) == 3

    eventually(go_on, "it was told three times")
    assert virtual_clock.monotonic_ms() - begin_ms > 100_000
    assert len(set(told(caplog))) == 1
    assert told(caplog)[0].endswith("could not be read for its listener, so it will come again: the server is away")
    store.is_away = False

    def come() -> bool:
        virtual_clock.advance(1000)
        return bool(recorder.texts)

    eventually(come, "the message came")
    eventually(lambda: told(caplog)[3:] == ["a consumer that had failed gets its messages again"], "that was told")
    pool.join()
    within_patience(connection.close)


def test_the_log_is_told_of_another_problem_at_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    rest = Rest(clock)
    for error in ("away", "away", "full", "away", "full"):
        rest.tell("it failed", ResourceError(error))
        clock.advance(1000)
    assert told(caplog) == ["it failed: away", "it failed: full"]
    for number in range(10):
        rest.tell("it failed", ResourceError(str(number)))
    assert told(caplog)[2:] == [f"it failed: {number}" for number in range(10)]
    rest.tell("it failed", ResourceError("0"))
    assert told(caplog)[12:] == ["it failed: 0"], "few are remembered"
    rest.end()
    rest.end()
    rest.tell("it failed", ResourceError("away"))
    assert told(caplog)[-2:] == ["a consumer that had failed gets its messages again", "it failed: away"]


@pytest.mark.realises("BOIL-CONN-17")
def test_an_exception_listener_hears_of_each_outage_of_a_connection_consumer(
    virtual_clock: WatchedClock, wrapped: Wrapped, connect: Connect
) -> None:
    """Once; also of one that comes before there was a message."""
    problems = Problems()
    with ConnectionFactory(wrapped.url, clock=virtual_clock).create_connection() as connection:
        connection.exception_listener = problems
        queue = connection.create_session().create_queue("orders")
        connection.create_connection_consumer(queue, None, Pool(connection, feeding(Recorder())), 1)
        polled = Queue[None]()
        for outage in ("first", "second"):
            fail = raising(ResourceError(outage), times=3)

            def poll(fail: Callable[[], None] = fail) -> None:
                fail()
                polled.put(None)

            wrapped.before["poll"] = poll
            if outage == "first":
                connection.start()
            else:
                send_texts(connect().create_session(), queue, "one")

            def go_on() -> bool:
                virtual_clock.advance(1000)
                return not polled.empty()

            eventually(go_on, "it could be asked again")
            polled.get()
        assert [str(each) for each in problems.wait_for(2)] == ["first", "second"]
        within_patience(connection.close)


@pytest.mark.parametrize("by", ["listener", "connection consumer"])
def test_who_could_not_be_asked_for_a_message_is_asked_again(
    virtual_clock: WatchedClock, wrapped: Wrapped, connect: Connect, by: str
) -> None:
    """A provider wakes a consumer for a message once: it does not know that the consumer has looked in vain."""
    recorder, problems = Recorder(), Problems()
    with ConnectionFactory(wrapped.url, clock=virtual_clock).create_connection() as connection:
        connection.exception_listener = problems
        session = connection.create_session()
        queue = session.create_queue("orders")
        if by == "listener":
            session.create_consumer(queue).message_listener = recorder
        else:
            connection.create_connection_consumer(queue, None, Pool(connection, feeding(recorder)), 1)
        wrapped.before["poll"] = raising(ResourceError("the disk is away"), times=6)
        connection.start()
        send_texts(connect().create_session(), queue, "one")

        def go_on() -> bool:
            virtual_clock.advance(1000)
            return bool(recorder.texts)

        eventually(go_on, "the message came")
        within_patience(connection.close)
    assert recorder.texts == ["one"]
    assert recorder.redelivered == [False]
    if by != "listener":
        assert [str(each) for each in problems.wait_for(1)] == ["the disk is away"], "once, however often it is met"
