"""The fixtures of conformance tests. Everything that a test opens through them is closed at its end.

Destinations, client identifiers and subscriptions get names that no other test uses, so tests may run in any order, at
the same time, and on a provider with data of an earlier run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Protocol, TypeVar

import pytest

from pyjms import Connection, ConnectionFactory, JMSException, Queue, Session, Topic
from pyjms_tck.background import Background
from pyjms_tck.environment import Environment, Waits
from pyjms_tck.profile import Profile

__all__ = [
    "ENVIRONMENT",
    "OBSERVED",
    "Connect",
    "MakeDestination",
    "MakeFactory",
    "MakeName",
    "MakeSession",
    "Record",
    "RestartBroker",
    "RunBackground",
]

_Factory = TypeVar("_Factory", bound=ConnectionFactory)
_Result = TypeVar("_Result")

ENVIRONMENT = pytest.StashKey[Environment]()
OBSERVED = pytest.StashKey[list[str]]()

Record = Callable[[str], None]
MakeName = Callable[[str], str]
RestartBroker = Callable[[], None]


class Connect(Protocol):
    """The fixture `connect`."""

    def __call__(
        self, *, started: bool = False, client_id: str | None = None, factory: ConnectionFactory | None = None
    ) -> Connection:
        """Return a new connection, of `factory` or of the default one, closed after the test."""
        ...


class MakeSession(Protocol):
    """The fixture `make_session`."""

    def __call__(
        self, transacted: bool = False, mode: int = Session.AUTO_ACKNOWLEDGE, *, connection: Connection | None = None
    ) -> Session:
        """Return a new session of `connection`, or of the fixture `connection`."""
        ...


class MakeFactory(Protocol):
    """The fixture `make_factory`."""

    def __call__(self, kind: type[_Factory], **options: Any) -> _Factory:
        """Return a factory of the class `kind` (ConnectionFactory, XAConnectionFactory, ...) for the provider."""
        ...


class MakeDestination(Protocol):
    """The fixtures `make_queue` and `make_topic`; the type is that of the destination."""

    def __call__(self) -> Any:
        """Return a fresh destination."""
        ...


class RunBackground(Protocol):
    """The fixture `background`."""

    def __call__(self, work: Callable[[], _Result]) -> Background[_Result]:
        """Call `work` on a thread; `.result()` waits for it, and raises its exception."""
        ...


@pytest.fixture
def environment(pytestconfig: pytest.Config) -> Environment:
    """The provider under test, for data without a fixture of their own."""
    return pytestconfig.stash[ENVIRONMENT]


@pytest.fixture
def profile(environment: Environment) -> Profile:
    """The provider's profile."""
    return environment.profile


@pytest.fixture
def waits(environment: Environment) -> Waits:
    """How long to wait: `something_ms`, `nothing_ms`, `until(condition, what)`, `pause()`."""
    return environment.waits


@pytest.fixture
def make_name(environment: Environment) -> MakeName:
    """Make unique names: ``make_name("client")``."""
    return environment.make_name


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Record:
    """Record, as a short sentence, what the provider does where the specification leaves it open."""
    observed: list[str] = request.node.stash.setdefault(OBSERVED, [])
    return observed.append


@pytest.fixture
def background(waits: Waits) -> RunBackground:
    """Run calls on threads: ``background(consumer.receive).result()``."""

    def run(work: Callable[[], _Result]) -> Background[_Result]:
        return Background(work, waits.something_ms / 1000)

    return run


@pytest.fixture
def make_factory(environment: Environment) -> MakeFactory:
    """Make connection factories of any class, with options."""
    return environment.factory


@pytest.fixture
def factory(make_factory: MakeFactory) -> ConnectionFactory:
    """A connection factory for the provider, with the profile's credentials."""
    return make_factory(ConnectionFactory)


@pytest.fixture
def connect(factory: ConnectionFactory) -> Iterator[Connect]:
    """Make connections, which are closed after the test, the last one first."""
    default = factory
    with ExitStack() as opened:

        def connect(
            *, started: bool = False, client_id: str | None = None, factory: ConnectionFactory | None = None
        ) -> Connection:
            connection: Connection = (factory or default).create_connection()
            opened.callback(_close, connection)
            if client_id is not None:
                connection.client_id = client_id
            if started:
                connection.start()
            return connection

        yield connect


def _close(connection: Connection) -> None:
    with suppress(JMSException):  # other tests judge closing
        connection.close()


@pytest.fixture
def connection(connect: Connect) -> Connection:
    """A started connection."""
    return connect(started=True)


@pytest.fixture
def make_session(request: pytest.FixtureRequest) -> MakeSession:
    """Make sessions: ``make_session(True)``, ``make_session(mode=Session.CLIENT_ACKNOWLEDGE)``."""

    def make(
        transacted: bool = False, mode: int = Session.AUTO_ACKNOWLEDGE, *, connection: Connection | None = None
    ) -> Session:
        owner: Connection = connection or request.getfixturevalue("connection")
        return owner.create_session(transacted, mode)

    return make


@pytest.fixture
def session(connection: Connection) -> Session:
    """A session of `connection`, AUTO_ACKNOWLEDGE."""
    return connection.create_session(False, Session.AUTO_ACKNOWLEDGE)


@contextmanager
def _made(
    environment: Environment,
    prefix: str,
    create: Callable[[str], str],
    delete: Callable[[str], None],
    find: Callable[[Session, str], Any],
) -> Iterator[Callable[[], Any]]:
    """Yield a factory of destinations, which the profile creates and deletes, and a session looks up."""
    factory = environment.factory(ConnectionFactory)
    with ExitStack() as made:

        def make() -> Any:
            name = create(environment.make_name(prefix))
            # Recorded before the look-up: if that fails, the destination is still deleted.
            made.callback(delete, name)
            # A separate connection: a session on the test's connection would be its first use, after which no client
            # identifier can be set (§4.3.2).
            with factory.create_connection() as connection:
                return find(connection.create_session(False, Session.AUTO_ACKNOWLEDGE), name)

        yield make


@pytest.fixture
def make_queue(environment: Environment, profile: Profile) -> Iterator[Callable[[], Queue]]:
    """Make empty queues."""
    with _made(
        environment,
        "tck_queue",
        profile.create_queue,
        profile.delete_queue,
        lambda session, name: session.create_queue(name),
    ) as make:
        yield make


@pytest.fixture
def queue(make_queue: Callable[[], Queue]) -> Queue:
    """An empty queue."""
    return make_queue()


@pytest.fixture
def make_topic(environment: Environment, profile: Profile) -> Iterator[Callable[[], Topic]]:
    """Make topics. A test that uses it needs TOPICS."""
    with _made(
        environment,
        "tck_topic",
        profile.create_topic,
        profile.delete_topic,
        lambda session, name: session.create_topic(name),
    ) as make:
        yield make


@pytest.fixture
def topic(make_topic: Callable[[], Topic]) -> Topic:
    """A fresh topic. A test that uses it needs TOPICS."""
    return make_topic()


@pytest.fixture
def restart_broker(profile: Profile) -> RestartBroker:
    """Restart the broker. A test that uses it is not supported where the profile cannot."""
    return profile.restart_broker


@pytest.fixture
def wrong_credentials(profile: Profile) -> tuple[str, str]:
    """A user name and a password that must be refused. A test that uses it is not supported where the profile has none."""
    assert profile.wrong_credentials is not None, "the test is not run without them"
    return profile.wrong_credentials
