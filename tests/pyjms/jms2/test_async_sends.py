"""Asynchronous sends at each provider: order, certainty, failures, transactions (JMS 2.0 §7.3)."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Condition, Event, get_ident
from typing import Any, Final

import pytest

from pyjms import (
    CompletionListener,
    Connection,
    ConnectionFactory,
    DeliveryMode,
    IllegalStateException,
    InvalidDestinationException,
    Message,
    ResourceAllocationException,
    Session,
    TextMessage,
    TransactionRolledBackException,
)
from pyjms_provider.broker import stop_broker
from tests.pyjms.jms2.conftest import Connect, served
from tests.pyjms.runtime.helpers import Call

PATIENCE_S: Final = 30.0
ROOM: Final = 3


class Outcomes(CompletionListener):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self._changed = Condition()
        self.heard: list[tuple[str | None, Exception | None]] = []
        self.threads: set[int] = set()

    def on_completion(self, message: Message) -> None:
        self._hear(message, None)

    def on_exception(self, message: Message, exception: Exception) -> None:
        self._hear(message, exception)

    def _hear(self, message: Message, exception: Exception | None) -> None:
        assert isinstance(message, TextMessage)
        self.threads.add(get_ident())
        with self._changed:
            self.heard.append((message.text, exception))
            self._changed.notify_all()

    def wait(self, number: int) -> list[tuple[str | None, Exception | None]]:
        """Return the outcomes when there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.heard) >= number, PATIENCE_S), self.heard
            return list(self.heard)


def texts(consumer: Any, number: int) -> list[str | None]:
    """Receive so many messages, and return their texts."""
    return [consumer.receive(10_000).text for _ in range(number)]


@pytest.mark.parametrize("mode", DeliveryMode)
def test_messages_and_outcomes_keep_their_order(connect: Connect, name: str, mode: DeliveryMode) -> None:
    session, outcomes = connect().create_session(), Outcomes()
    queue = session.create_queue(name)
    producer, consumer = session.create_producer(queue), session.create_consumer(queue)
    producer.delivery_mode = mode
    sent = [str(number) for number in range(300)]
    for number, text in enumerate(sent):
        if number % 50 == 49:
            producer.send(session.create_text_message(text))  # one that waits, in between
        else:
            producer.send(session.create_text_message(text), outcomes)
    assert texts(consumer, 300) == sent
    session.close()
    assert outcomes.heard == [(text, None) for number, text in enumerate(sent) if number % 50 != 49]
    assert len(outcomes.threads) == 1
    assert get_ident() not in outcomes.threads


def test_a_message_is_there_when_its_success_is_told(connect: Connect, name: str) -> None:
    session, reader = connect().create_session(), connect().create_session()
    queue, found, told = session.create_queue(name), [], Event()
    consumer = reader.create_consumer(queue)

    class Reading(CompletionListener):
        def on_completion(self, message: Message) -> None:
            found.append((consumer.receive(10_000), message.jms_message_id))
            told.set()

        def on_exception(self, message: Message, exception: Exception) -> None:
            found.append((None, str(exception)))
            told.set()

    session.create_producer(queue).send(session.create_text_message("espresso"), Reading())
    assert told.wait(PATIENCE_S)
    ((received, message_id),) = found
    assert received is not None
    assert received.jms_message_id == message_id


def test_messages_of_a_transaction_arrive_with_its_commit(connect: Connect, name: str) -> None:
    session, reader, outcomes = connect().create_session(True), connect().create_session(), Outcomes()
    queue = session.create_queue(name)
    producer, consumer = session.create_producer(queue), reader.create_consumer(queue)
    for text in "abc":
        producer.send(session.create_text_message(text), outcomes)
    session.rollback()
    assert len(outcomes.heard) == 3
    for text in "def":
        producer.send(session.create_text_message(text), outcomes)
    session.commit()
    assert [text for text, _ in outcomes.heard] == [*"abcdef"]
    assert texts(consumer, 3) == ["d", "e", "f"]


def test_a_destination_that_is_gone_is_told(connect: Connect) -> None:
    other = connect()
    owner = other.create_session()
    gone, left = owner.create_temporary_queue(), owner.create_temporary_queue()
    session, outcomes = connect().create_session(), Outcomes()
    producer = session.create_producer(None)
    gone.delete()
    for destination, text in ((left, "first"), (gone, "second"), (left, "third")):
        producer.send(destination, session.create_text_message(text), outcomes)
    session.close()
    assert [(text, type(error)) for text, error in outcomes.heard] == [
        ("first", type(None)),
        ("second", InvalidDestinationException),
        ("third", type(None)),
    ]


def test_a_destination_that_is_gone_has_the_commit_roll_back(connect: Connect, name: str) -> None:
    owner = connect().create_session()
    gone = owner.create_temporary_queue()
    session, outcomes = connect().create_session(True), Outcomes()
    producer, kept = session.create_producer(None), session.create_queue(name)
    gone.delete()
    for destination, text in ((kept, "first"), (gone, "second")):
        producer.send(destination, session.create_text_message(text), outcomes)
    with pytest.raises(TransactionRolledBackException):
        session.commit()
    producer.send(kept, session.create_text_message("third"), outcomes)
    session.commit()
    assert texts(owner.create_consumer(kept), 1) == ["third"]


class TestFullQueue:
    @pytest.fixture(params=["vm", "stomp", "amqp"])
    def session(self, request: pytest.FixtureRequest, name: str) -> Iterator[Session]:
        """A session at a broker whose queues take a few messages."""
        if request.param == "vm":
            with ConnectionFactory(f"vm://{name}?max_messages={ROOM}").create_connection() as connection:
                yield self._of(connection)
            stop_broker(name)
            return
        with (
            served(request.param, {"max_messages": ROOM}) as url,
            ConnectionFactory(url).create_connection() as connection,
        ):
            yield self._of(connection)

    def _of(self, connection: Connection) -> Session:
        connection.start()
        return connection.create_session()

    @pytest.mark.parametrize("mode", DeliveryMode)
    def test_what_finds_no_room_is_told(self, session: Session, mode: DeliveryMode) -> None:
        outcomes, queue = Outcomes(), session.create_queue("orders")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        producer.delivery_mode = mode
        for number in range(ROOM + 2):
            producer.send(session.create_text_message(str(number)), outcomes)
        heard = outcomes.wait(ROOM + 2)
        assert [text for text, _ in heard] == [str(number) for number in range(ROOM + 2)]
        kinds = [type(error) for _, error in heard]
        assert kinds == [type(None)] * ROOM + [ResourceAllocationException] * 2
        assert texts(consumer, ROOM) == [str(number) for number in range(ROOM)]


class TestBlockingQueue:
    """A full queue whose senders wait for room, without limit."""

    @pytest.fixture(params=["vm", "stomp", "amqp"])
    def url(self, request: pytest.FixtureRequest, name: str) -> Iterator[str]:
        """A broker whose queues take a few messages, and have the next senders wait."""
        if request.param == "vm":
            yield f"vm://{name}?max_messages={ROOM}&overflow=block"
            stop_broker(name)
            return
        with served(request.param, {"max_messages": ROOM, "overflow": "block"}) as url:
            yield url

    @pytest.mark.parametrize("part", ["session", "connection"])
    def test_a_close_ends_sends_that_wait_for_room(self, url: str, part: str) -> None:
        outcomes = Outcomes()
        with (
            ConnectionFactory(url).create_connection() as other,
            ConnectionFactory(url).create_connection() as connection,
        ):
            session = connection.create_session()
            queue = session.create_queue("orders")
            producer = session.create_producer(queue)

            def send() -> None:
                for number in range(ROOM + 2):
                    producer.send(session.create_text_message(str(number)), outcomes)

            # Embedded, the call itself waits; over a network the broker does.
            sending = Call(send)
            outcomes.wait(ROOM)
            if not url.startswith("vm"):
                sending.result()
            else:
                assert sending.is_blocked()
            Call(session.close if part == "session" else connection.close).result()
            heard = outcomes.wait(len(outcomes.heard))
            told = [(str(number), None) for number in range(ROOM)]
            assert heard[:ROOM] == told
            assert {type(error) for _, error in heard[ROOM:]} == {IllegalStateException}
            other.start()
            reader = other.create_session()
            assert texts(reader.create_consumer(queue), ROOM) == [text for text, _ in told]
            assert reader.create_consumer(queue).receive_no_wait() is None
