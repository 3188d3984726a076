"""The main thread is interrupted at each place at which a consumer is closed: the next call closes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from pyjms import ConnectionFactory, Session
from pyjms.api.consumer import MessageConsumer
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
