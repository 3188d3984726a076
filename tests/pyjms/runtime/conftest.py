"""Fixtures of the runtime's tests: connections and latches that a failing test cannot leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Protocol

import pytest

from pyjms import JMSContext, Session
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.spi import ProviderUrl, find_provider
from tests.pyjms.runtime.contexts import PROVIDERS, url_of
from tests.pyjms.runtime.helpers import Call, WatchedClock
from tests.pyjms.runtime.wrapping import Wrapped


class Connect(Protocol):
    """Makes a connection to the test's broker; it is closed when the test ends."""

    def __call__(self, client_id: str | None = None, *, started: bool = True) -> JmsConnection: ...


@pytest.fixture
def virtual_clock() -> WatchedClock:
    """The virtual clock of these tests knows who waits."""
    return WatchedClock()


@pytest.fixture
def connect(jms_connection_factory: ConnectionFactory) -> Iterator[Connect]:
    """Connections, as many as a test needs."""
    opened: list[JmsConnection] = []

    def open_one(client_id: str | None = None, *, started: bool = True) -> JmsConnection:
        connection = jms_connection_factory.create_connection()
        opened.append(connection)
        if client_id is not None:
            connection.client_id = client_id
        if started:
            connection.start()
        return connection

    yield open_one
    for connection in opened:
        Call(connection.close).result()


@pytest.fixture
def connection(connect: Connect) -> JmsConnection:
    """A started connection."""
    return connect()


@pytest.fixture
def wrapped(jms_broker_url: str) -> Iterator[Wrapped]:
    """The test's broker, behind a provider that a test can get in between."""
    with Wrapped(jms_broker_url) as each:
        yield each


@pytest.fixture
def session(connection: JmsConnection) -> Session:
    """A session of it, AUTO_ACKNOWLEDGE."""
    return connection.create_session(False, Session.AUTO_ACKNOWLEDGE)


@pytest.fixture
def latch(connect: Connect) -> Iterator[Callable[[], Event]]:
    """Events to hold listeners at; all are set before connections close."""
    made: list[Event] = []

    def make() -> Event:
        made.append(Event())
        return made[-1]

    yield make
    for event in made:
        event.set()


@pytest.fixture
def stop_broker(jms_broker_url: str) -> Callable[[], None]:
    """Stops the test's broker, as its administrator would."""

    def stop() -> None:
        find_provider("vm").stop_broker(ProviderUrl.parse(jms_broker_url))

    return stop


@pytest.fixture(params=PROVIDERS)
def each_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ConnectionFactory]:
    """A factory for a fresh broker, by each bundled provider."""
    with url_of(request.param, tmp_path) as url:
        yield ConnectionFactory(url)


@pytest.fixture
def each_context(each_factory: ConnectionFactory) -> Iterator[JMSContext]:
    """A context of it, AUTO_ACKNOWLEDGE."""
    with each_factory.create_context() as context:
        yield context


@pytest.fixture
def context(jms_connection_factory: ConnectionFactory) -> Iterator[JMSContext]:
    """A context of the test's broker, AUTO_ACKNOWLEDGE."""
    with jms_connection_factory.create_context() as context:
        yield context
