"""A message that a receive took and did not return, as a signal's handler raised at its end."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator

import pytest

from pyjms import ConnectionFactory, MessageConsumer, Session, TextMessage
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.session import JmsSession
from pyjms_provider.broker import stop_broker
from tests.pyjms.runtime.helpers import Recorder, eventually, send_texts, take_texts
from tests.pyjms.runtime.wrapping import Wrapped

NAME = "unreturned"
MODES = [
    Session.AUTO_ACKNOWLEDGE,
    Session.CLIENT_ACKNOWLEDGE,
    Session.DUPS_OK_ACKNOWLEDGE,
    Session.SESSION_TRANSACTED,
]


class InterruptError(BaseException):
    """What the handler raises."""


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    def answer(*_: object) -> None:
        raise InterruptError

    before = signal.signal(signal.SIGUSR1, answer)
    yield
    signal.signal(signal.SIGUSR1, before)


class Place:
    """A session that has received one of three messages; a signal came while it took the second one."""

    def __init__(self, mode: int) -> None:
        self._wrapped = Wrapped(f"vm://{NAME}")
        self.connection: JmsConnection = ConnectionFactory(self._wrapped.url).create_connection()
        self.connection.start()
        self.session: JmsSession = self.connection.create_session(mode == Session.SESSION_TRANSACTED, mode)
        self.queue = self.session.create_queue("orders")
        send_texts(self.connection.create_session(), self.queue, "one", "two", "three")
        self.consumer = self.session.create_consumer(self.queue)
        self.first = self.consumer.receive_no_wait()
        self._wrapped.before["poll"] = self._send_signal
        with pytest.raises(InterruptError):
            self.consumer.receive(10_000)

    def _send_signal(self) -> None:
        self._wrapped.before.clear()
        signal.raise_signal(signal.SIGUSR1)

    def other(self) -> MessageConsumer:
        """Return a consumer of another session."""
        return self.connection.create_session().create_consumer(self.queue)

    def end(self) -> None:
        self.connection.close()
        self._wrapped.__exit__(None, None, None)
        stop_broker(NAME)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def place(mode: int) -> Iterator[Place]:
    made = Place(mode)
    yield made
    made.end()


def test_the_next_receive_returns_it(place: Place, mode: int) -> None:
    assert take_texts(place.consumer, 2) == ["two", "three"]
    if mode == Session.SESSION_TRANSACTED:
        place.session.commit()
    elif mode == Session.CLIENT_ACKNOWLEDGE:
        assert place.first is not None
        place.first.acknowledge()
    place.session.close()
    assert place.other().receive_no_wait() is None


def test_a_listener_that_is_set_instead_begins_with_it(place: Place) -> None:
    recorder = Recorder()
    place.consumer.message_listener = recorder
    eventually(lambda: len(recorder.messages) == 2, "the listener has both")
    assert [each.text for each in recorder.messages if isinstance(each, TextMessage)] == ["two", "three"]


@pytest.mark.parametrize("mode", [Session.CLIENT_ACKNOWLEDGE])
def test_an_acknowledgement_of_those_before_does_not_cover_it(place: Place) -> None:
    assert place.first is not None
    place.first.acknowledge()
    place.session.close()
    assert take_texts(place.other(), 2) == ["two", "three"]


@pytest.mark.parametrize("mode", [Session.CLIENT_ACKNOWLEDGE, Session.SESSION_TRANSACTED])
def test_recover_and_rollback_give_it_back(place: Place, mode: int) -> None:
    place.session.rollback() if mode == Session.SESSION_TRANSACTED else place.session.recover()
    assert take_texts(place.consumer, 3) == ["one", "two", "three"]


def test_the_close_of_the_consumer_gives_it_back_or_warns_if_it_is_settled(
    place: Place, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pyjms.runtime"):
        place.consumer.close()
    if mode == Session.SESSION_TRANSACTED:
        place.session.commit()
    is_lost = mode == Session.AUTO_ACKNOWLEDGE
    assert ("PYJMS-UNRETURNED" in caplog.text) is is_lost
    assert take_texts(place.other(), 1 if is_lost else 2) == (["three"] if is_lost else ["two", "three"])
