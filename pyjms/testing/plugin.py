"""Fixtures for pytest. No broker is made, nor imported, until a test asks for one.

- ``jms_broker_url``: the URL of a fresh embedded broker, stopped after the test.
- ``jms_connection_factory``: a `ConnectionFactory` for it. It uses ``virtual_clock`` and ``jms_faults`` when the test
  asks for these too.
- ``jms_connection``: a started connection. ``jms_session``: a session of it, AUTO_ACKNOWLEDGE.
- ``virtual_clock``: a `VirtualClock`. ``jms_faults``: `Faults` before the broker.
- ``jms_cluster``: a fresh `Cluster` of two members over PostgreSQL. The option ``--jms-postgresql URL`` names the database; without it
  a server is started, where it is installed, for all tests of the process.
- ``jms_recording``: records the connections of ``jms_connection_factory``, and fails the test when the recorded history
  breaks a guarantee of JMS. The option ``--jms-record DIR`` records those of all tests, a folder of DIR for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pyjms.api.connection import Connection
    from pyjms.api.session import Session
    from pyjms.history import Recording
    from pyjms.runtime.factory import ConnectionFactory
    from pyjms.testing import Cluster, Faults, VirtualClock

__all__ = [
    "jms_broker_url",
    "jms_cluster",
    "jms_connection",
    "jms_connection_factory",
    "jms_faults",
    "jms_postgresql_url",
    "jms_recording",
    "jms_session",
    "virtual_clock",
]

_numbers = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--jms-record`` and ``--jms-postgresql``."""
    options = parser.getgroup("pyjms")
    options.addoption(
        "--jms-record", metavar="DIR", help="record what the connections of jms_connection_factory do, below DIR"
    )
    options.addoption(
        "--jms-postgresql",
        metavar="URL",
        help="the database of jms_cluster, postgresql+psycopg://USER@HOST/DATABASE; otherwise a server is started",
    )


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock that moves only when the test says so."""
    from pyjms.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def jms_broker_url() -> Iterator[str]:
    """The URL of an embedded broker that no other test uses."""
    from pyjms.spi.registry import find_provider
    from pyjms.spi.url import ProviderUrl

    # Each test has a name of its own: connections to one name in a process share one broker.
    url = f"vm://pytest-{next(_numbers)}"
    yield url
    find_provider("vm").stop_broker(ProviderUrl.parse(url))


@pytest.fixture(scope="session")
def jms_postgresql_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of the database for clusters: that of ``--jms-postgresql``, or of a server that ends with the tests."""
    from pyjms.testing.postgresql import PostgresqlServer

    given: str | None = request.config.getoption("--jms-postgresql")
    if given is not None:
        yield given
        return
    with PostgresqlServer() as server:
        yield server.url


@pytest.fixture
def jms_cluster(jms_postgresql_url: str) -> Iterator[Cluster]:
    """A cluster of two members that no other test uses; connect by ``ConnectionFactory(jms_cluster.url)``."""
    from pyjms.testing.cluster import Cluster

    with Cluster(jms_postgresql_url) as cluster:
        yield cluster


@pytest.fixture
def jms_faults(jms_broker_url: str) -> Iterator[Faults]:
    """Failures on demand for the connections of ``jms_connection_factory``."""
    from pyjms.testing.faults import Faults

    with Faults(jms_broker_url) as faults:
        yield faults


@pytest.fixture
def jms_recording(tmp_path: Path) -> Iterator[Recording]:
    """A recording of what the connections of ``jms_connection_factory`` do; the test fails if a guarantee was broken."""
    from pyjms.history import record

    with record(tmp_path / "jms-history") as recording:
        yield recording
        violations = recording.check().violations
    assert not violations, "\n".join(each.text for each in violations)


@pytest.fixture
def jms_connection_factory(request: pytest.FixtureRequest, jms_broker_url: str) -> ConnectionFactory:
    """A factory of connections to the test's broker."""
    from pyjms.runtime.factory import ConnectionFactory

    url = jms_broker_url
    options: dict[str, Any] = {}
    # The fixture is asked for by name: as an argument it would be made for every test.
    if "jms_faults" in request.fixturenames:
        url = request.getfixturevalue("jms_faults").url
    if "virtual_clock" in request.fixturenames:
        options["clock"] = request.getfixturevalue("virtual_clock")
    if "jms_recording" in request.fixturenames:
        options["record"] = request.getfixturevalue("jms_recording")
    elif directory := request.config.getoption("--jms-record"):
        # The id of a test has characters that no folder's name may have, such as : and /.
        options["record"] = f"{directory}/{re.sub(r'[^A-Za-z0-9._-]+', '-', request.node.nodeid)}"
    return ConnectionFactory(url, **options)


@pytest.fixture
def jms_connection(jms_connection_factory: ConnectionFactory) -> Iterator[Connection]:
    """A started connection, closed after the test."""
    with jms_connection_factory.create_connection() as connection:
        connection.start()
        yield connection


@pytest.fixture
def jms_session(jms_connection: Connection) -> Session:
    """A session of ``jms_connection`` with AUTO_ACKNOWLEDGE."""
    from pyjms.api.session import Session

    return jms_connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
