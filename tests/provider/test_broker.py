"""Brokers of this process, by name: when they begin, when they end, and whose they are."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest

from pyjms import ConnectionFactory, Session, TextMessage
from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ConnectionLostError, ProviderError, ResourceError
from pyjms_provider import broker
from pyjms_provider.broker import EmbeddedBroker, find_broker, running_broker, stop_broker
from pyjms_provider.settings import BrokerSettings, StoreSettings
from pyjms_provider.stores.opening import open_store
from pyjms_provider.stores.sql import SqlJournal
from tests.needs.declaring import needing
from tests.pyjms.runtime.helpers import Call

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


@pytest.fixture(params=["sqlite", needing("postgresql")])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "postgresql":
        store = request.getfixturevalue("postgresql").make_store()
    yield f"vm://kept?store={quote(store, safe='')}"
    stop_broker("kept")


def test_a_broker_that_was_stopped_by_itself_makes_room_for_the_next(url: str) -> None:
    factory = ConnectionFactory(url)
    factory.create_connection().close()
    found = running_broker("kept")
    assert found is not None
    found.stop()
    assert running_broker("kept") is None
    with ThreadPoolExecutor(1) as threads:
        threads.submit(factory.create_connection).result(PATIENCE_S).close()
    assert running_broker("kept") not in {None, found}
    found.stop()
    assert running_broker("kept") is not None, "it stopped another one"


# Connecting while a broker is stopped


class Stopping:
    """A broker that a thread stops, whose store does not let go before it is told to."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings = BrokerSettings(store=StoreSettings(url=f"sqlite:///{tmp_path / 'store.db'}"))
        self.begun, self.go_on = Event(), Event()
        close = SqlJournal.close

        def close_later(journal: SqlJournal, *, clean: bool) -> None:
            self.begun.set()
            self.go_on.wait(PATIENCE_S)
            close(journal, clean=clean)

        opened, self._on_lost = open_store, list[Callable[[ProviderError], None]]()

        def open_later(*arguments: Any, on_lost: Callable[[ProviderError], None], **named: Any) -> Any:
            self._on_lost.append(on_lost)
            return opened(*arguments, on_lost=on_lost, **named)

        monkeypatch.setattr(SqlJournal, "close", close_later)
        monkeypatch.setattr(broker, "open_store", open_later)
        self.broker = self.find()

    def lose(self) -> None:
        """Have the store tell the broker that it is lost."""
        self._on_lost[0](ConnectionLostError("the store is lost"))

    def find(self) -> EmbeddedBroker:
        return find_broker("stopping", SystemClock(), self.settings)


@pytest.fixture
def stopping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stopping]:
    made = Stopping(tmp_path, monkeypatch)
    yield made
    made.go_on.set()
    stop_broker("stopping")


@pytest.mark.parametrize("is_lost", [False, True])
def test_who_connects_while_the_broker_stops_gets_a_new_one(stopping: Stopping, is_lost: bool) -> None:
    stopped = Call(stopping.lose if is_lost else partial(stop_broker, "stopping"))
    assert stopping.begun.wait(PATIENCE_S)
    assert running_broker("stopping") is None
    found = Call(stopping.find)
    assert found.is_blocked()
    stopping.go_on.set()
    assert found.result() is not stopping.broker
    stopped.result()
    assert running_broker("stopping") is found.result()


def test_who_connects_does_not_wait_for_ever(stopping: Stopping, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_STOPPING_S", 0.01)
    with ThreadPoolExecutor() as threads:
        stopped = threads.submit(stop_broker, "stopping")
        assert stopping.begun.wait(PATIENCE_S)
        with pytest.raises(ResourceError, match="still being stopped"):
            stopping.find()
        stopping.go_on.set()
        stopped.result(PATIENCE_S)


def test_the_thread_that_stops_a_broker_does_not_wait_for_itself(stopping: Stopping) -> None:
    raised: list[ProviderError] = []

    def connect_again(_: ConnectionLostError) -> None:
        stop_broker("stopping")
        try:
            stopping.find()
        except ResourceError as error:
            raised.append(error)

    stopping.broker.attach(connect_again)
    stopping.go_on.set()
    stop_broker("stopping")
    (error,) = raised
    assert "by this very thread" in error.reason
    assert stopping.find() is not stopping.broker


# A start that fails


@pytest.mark.parametrize("step", ["_open_stories", "_open_host", "_begin_serving"])
def test_a_broker_that_does_not_come_to_its_end_of_starting_lets_go_of_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    settings = BrokerSettings(store=StoreSettings(url=f"sqlite:///{tmp_path / 'store.db'}"))

    def fail(_: EmbeddedBroker) -> None:
        raise KeyboardInterrupt  # as a second signal does while a call is stuck

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedBroker, step, fail)
        with pytest.raises(KeyboardInterrupt):
            find_broker("failing", SystemClock(), settings)
    assert find_broker("failing", SystemClock(), settings) is running_broker("failing")
    stop_broker("failing")


def test_a_thread_that_waits_for_a_broker_whose_start_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Call[object]] = []

    def fail(*_: object, **__: object) -> None:
        waiting.append(Call(find_broker, "failing", SystemClock(), None))
        assert waiting[0].is_blocked()
        raise KeyboardInterrupt

    monkeypatch.setattr(broker, "EmbeddedBroker", fail)
    with pytest.raises(KeyboardInterrupt):
        find_broker("failing", SystemClock(), None)
    with pytest.raises(ResourceError, match="connect again"):
        waiting[0].result()


# Forks

PARENT = """
import os, signal, sys
from pyjms import ConnectionFactory, JMSException, Session
from pyjms_provider.forks import _known
from pyjms_provider.stores.sql.journal import SqlJournal

url, ending = sys.argv[1:]
signal.alarm(50)
connection = ConnectionFactory(url).create_connection()
connection.start()
session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
queue = session.create_queue("orders")
(journal,) = [each for each in _known if isinstance(each, SqlJournal)]
producer = session.create_producer(queue)
producer.send(session.create_text_message("before"))
consumer = session.create_consumer(queue)
if "beside" in ending:
    assert journal._group.right.acquire() and journal._lock.acquire()  # a thread that is not in the child writes at this moment
child = os.fork()
if not child:
    signal.alarm(25)
    if "closes" in ending:
        connection.close()
    if "sends" in ending:
        try:
            producer.send(session.create_text_message("the child's"))
        except JMSException:
            sys.exit(0)
        sys.exit(1)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
if "beside" in ending:
    journal._lock.release()
    journal._group.right.release()
assert consumer.receive(5000).text == "before"
producer.send(session.create_text_message("after"))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("ending", ["ends", "closes", "sends", "closes beside a writer", "sends beside a writer"])
def test_a_forked_child_that_ends_leaves_the_store_to_its_parent(url: str, ending: str) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", PARENT, url, ending], cwd=ROOT, timeout=PATIENCE_S, capture_output=True, check=False
    )
    assert parent.returncode == -signal.SIGKILL, parent.stderr.decode()
    with ConnectionFactory(f"{url}&stand_by=wait").create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        consumer = session.create_consumer(session.create_queue("orders"))
        first, second = consumer.receive(5000), consumer.receive(5000)
        assert isinstance(first, TextMessage)
        assert isinstance(second, TextMessage)
        assert [first.text, second.text] == ["before", "after"]
        assert first.jms_redelivered  # its parent was killed, so nobody may say that all was in good order
