"""The main thread is interrupted at each place at which a session is made, or a consumer made or closed: the next call does it, and nothing stays that nobody has."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from pyjms import ConnectionFactory, Session
from pyjms.api.consumer import MessageConsumer
from pyjms.api.server_sessions import ConnectionConsumer, ServerSession, ServerSessionPool
from pyjms.runtime.session import JmsSession
from pyjms_provider.broker import stop_broker
from pyjms_provider.clients.vm_session import VmSession
from tests.provider.clients.test_interrupted_receives import FILES
from tests.provider.interruptions import Interruption, each_interruption

NAME = "interrupted-consumers"
MAKES: dict[str, Callable[[Session], MessageConsumer]] = {
    "of a queue": lambda session: session.create_consumer(session.create_queue("q")),
    "of a topic": lambda session: session.create_consumer(session.create_topic("t")),
    "durable": lambda session: session.create_durable_subscriber(session.create_topic("t"), "d"),
}
WATCHED = (*FILES, "<string>")


@pytest.fixture
def session() -> Iterator[Session]:
    with ConnectionFactory(f"vm://{NAME}", client_id="me").create_connection() as connection:
        connection.start()
        yield connection.create_session()
    stop_broker(NAME)


def assert_empty(session: Session, interruption: Interruption) -> None:
    assert isinstance(session, JmsSession)
    beneath = session.provider_session
    assert isinstance(beneath, VmSession)
    assert not session._consumers, interruption.where
    assert not beneath._consumers, interruption.where
    assert not beneath._receiving._targets, interruption.where


def test_a_session_whose_making_was_interrupted_is_in_no_table(session: Session) -> None:
    """It stayed there until the connection was closed."""
    assert isinstance(session, JmsSession)
    connection, beneath = session.connection, session.provider_session
    assert isinstance(beneath, VmSession)

    def attempt(interruption: Interruption) -> None:
        made: Session | None = None
        with suppress(KeyboardInterrupt), interruption():
            made = connection.create_session()
        if made is not None:
            made.close()
        assert list(connection._sessions) == [session], interruption.where
        assert list(beneath._connection._sessions) == [beneath], interruption.where

    assert each_interruption(attempt, *FILES, "clients/vm.py", "runtime/connection.py") > 5


class _NoServers(ServerSessionPool):
    def get_server_session(self) -> ServerSession:
        raise AssertionError("no message is there")


def test_a_connection_consumer_whose_making_was_interrupted_is_in_no_table(session: Session) -> None:
    """It took messages until the connection was closed, or kept them from others, and its thread lived on."""
    assert isinstance(session, JmsSession)
    connection, beneath = session.connection, session.provider_session
    assert isinstance(beneath, VmSession)

    def attempt(interruption: Interruption) -> None:
        made: ConnectionConsumer | None = None
        with suppress(KeyboardInterrupt), interruption():
            made = connection.create_connection_consumer(session.create_topic("t"), None, _NoServers(), 1)
        if made is not None:
            made.close()
        assert not connection._consumers, interruption.where
        assert list(beneath._connection._sessions) == [beneath], interruption.where
        for thread in threading.enumerate():
            if thread.name.startswith("pyjms-connection-consumer"):
                thread.join(10)
                assert not thread.is_alive(), interruption.where

    assert each_interruption(attempt, *FILES, "clients/vm.py", "runtime/connection.py") > 20


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_one_that_is_made_again_is_the_only_one(session: Session, make: Callable[[Session], MessageConsumer]) -> None:
    def attempt(interruption: Interruption) -> None:
        consumer: MessageConsumer | None = None
        with suppress(KeyboardInterrupt), interruption():
            consumer = make(session)
        (consumer or make(session)).close()
        assert_empty(session, interruption)

    assert each_interruption(attempt, *WATCHED) > 10


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_one_that_is_closed_again_is_closed(session: Session, make: Callable[[Session], MessageConsumer]) -> None:
    """It returned though the subscription was in use for as long as the session lived."""

    def attempt(interruption: Interruption) -> None:
        consumer = make(session)
        with suppress(KeyboardInterrupt), interruption():
            consumer.close()
        consumer.close()
        assert_empty(session, interruption)

    assert each_interruption(attempt, *WATCHED) > 10
