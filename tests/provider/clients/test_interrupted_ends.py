"""The main thread is interrupted at each place at which a session gives back what it received: the call that is made again does it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms import ConnectionFactory, JMSException, Session
from pyjms.api.connection import Connection
from pyjms.runtime.session import JmsSession
from pyjms.spi.errors import ProviderError, ResourceError, RolledBackError
from pyjms_provider.broker import stop_broker
from tests.provider.clients.test_interrupted_receives import FILES, Reader
from tests.provider.interruptions import Interruption, each_interruption

NAME = "interrupted-ends"
RUNTIME = tuple(each for each in FILES if "/runtime/" in each)
"""Without the provider, which is to refuse what it is asked, wherever it is interrupted."""


@pytest.fixture
def connection() -> Iterator[Connection]:
    with ConnectionFactory(f"vm://{NAME}").create_connection() as connection:
        connection.start()
        yield connection
    stop_broker(NAME)


class _Reader(Reader):
    """One that has received two messages, and what comes to the same session again."""

    def __init__(self, connection: Connection, mode: int) -> None:
        super().__init__(connection, mode)
        assert isinstance(self.session, JmsSession)
        self.runtime = self.session
        self.texts = [self.send(), self.send()]
        assert self.received() == self.texts

    def received(self) -> list[str]:
        return [message.text for message in iter(self.consumer.receive_no_wait, None)]  # type: ignore[attr-defined]

    def refuse(self, call: str, error: ProviderError, *, is_undone: bool) -> None:
        """Have the provider refuse the next call of that name; the transaction is rolled back by then, or not."""
        provider = self.runtime.provider_session

        def refuse(*_: object) -> None:
            delattr(provider, call)
            if is_undone:
                provider.rollback()
            raise error

        setattr(provider, call, refuse)

    def is_refused_still(self, call: str) -> bool:
        return call in vars(self.runtime.provider_session)

    def end(self) -> None:
        """Settle what came again, so that nothing is left."""
        if self.mode == Session.SESSION_TRANSACTED:
            self.session.commit()
        else:
            self.runtime.acknowledge(None)  # type: ignore[arg-type]  # all that the session has received
        assert self.what_is_left() == []


@pytest.mark.parametrize("failure", [None, "it could not be served"])
@pytest.mark.parametrize(
    ("mode", "call"), [(Session.SESSION_TRANSACTED, "rollback"), (Session.CLIENT_ACKNOWLEDGE, "recover")]
)
def test_what_was_received_comes_again_when_it_is_given_back_again(
    connection: Connection, mode: int, call: str, failure: str | None
) -> None:
    """It was with nobody until the session closed: the second call found nothing to give back."""

    def attempt(interruption: Interruption) -> None:
        reader = _Reader(connection, mode)
        reader.runtime.failure = failure
        try:
            with interruption():
                getattr(reader.session, call)()
        except KeyboardInterrupt:
            getattr(reader.session, call)()
        assert reader.received() == reader.texts, interruption.where
        reader.end()

    assert each_interruption(attempt, *FILES) > 10


@pytest.mark.parametrize("then", ["commit", "rollback"])
@pytest.mark.parametrize("failure", [None, "it could not be served"])
@pytest.mark.parametrize(
    ("error", "is_undone"), [(RolledBackError, True), (ResourceError, True), (ResourceError, False)]
)
def test_what_a_refused_commit_had_received_comes_again(
    connection: Connection, error: type[ProviderError], failure: str | None, then: str, *, is_undone: bool
) -> None:
    """By the commit that tells of it, or by a rollback in its place."""

    def attempt(interruption: Interruption) -> None:
        reader = _Reader(connection, Session.SESSION_TRANSACTED)
        reader.runtime.failure = failure
        reader.refuse("commit", error("refused"), is_undone=is_undone)
        try:
            with interruption(), pytest.raises(JMSException, match="refused"):
                reader.session.commit()
        except KeyboardInterrupt:
            if then == "rollback":
                reader.session.rollback()
            else:
                with pytest.raises(JMSException, match="refused"):
                    reader.session.commit()
        if reader.is_refused_still("commit"):  # it was not even asked
            delattr(reader.runtime.provider_session, "commit")
        assert reader.received() == reader.texts, interruption.where
        reader.end()

    assert each_interruption(attempt, *RUNTIME) > 10


@pytest.mark.parametrize("is_refused", [False, True])
def test_the_close_of_a_consumer_that_is_made_again_settles_what_was_put_off(
    connection: Connection, *, is_refused: bool
) -> None:
    """Else it would come again when the session is closed, though its consumer was closed in order."""

    def attempt(interruption: Interruption) -> None:
        reader = _Reader(connection, Session.DUPS_OK_ACKNOWLEDGE)
        if is_refused:
            reader.refuse("acknowledge", ResourceError("refused"), is_undone=False)
        try:
            with interruption():
                reader.consumer.close()
        except KeyboardInterrupt:
            reader.consumer.close()
        if reader.is_refused_still("acknowledge"):
            delattr(reader.runtime.provider_session, "acknowledge")
        assert reader.what_is_left() == [], interruption.where

    assert each_interruption(attempt, *FILES) > 10


def test_a_refused_acknowledgement_can_be_made_again(connection: Connection) -> None:
    def attempt(interruption: Interruption) -> None:
        reader = _Reader(connection, Session.CLIENT_ACKNOWLEDGE)
        reader.refuse("acknowledge", ResourceError("refused"), is_undone=False)
        try:
            with interruption(), pytest.raises(JMSException, match="refused"):
                reader.runtime.acknowledge(None)  # type: ignore[arg-type]  # all that the session has received
        except KeyboardInterrupt:
            if reader.is_refused_still("acknowledge"):
                delattr(reader.runtime.provider_session, "acknowledge")
        reader.end()

    assert each_interruption(attempt, *RUNTIME) > 5
