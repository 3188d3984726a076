"""The API on real brokers over AMQP, beyond what the conformance suite asks of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest

from pyjms import Connection, ConnectionFactory, JMSException, Message, Session, TextMessage
from pyjms.spi.clock import SystemClock
from pyjms.types import Byte, Float, Long, Short
from tests.brokers.running import Artemis
from tests.needs.declaring import needing

RECEIVE_MS = 60_000
_numbers = count(1)

PRODUCTS = {
    "artemis": ("ActiveMQ Artemis", 2),
    "activemq_amqp": ("ActiveMQ Classic", 5),
    "broker_j": ("Qpid Broker-J", 9),
}
"""What each says of itself: its name, and its major version."""


def fresh(name: str = "queue") -> str:
    return f"{name}-{uuid4().hex[:8]}-{next(_numbers)}"


def factory(port: int, options: str = "") -> ConnectionFactory:
    url = f"amqp://127.0.0.1:{port}?reconnect_delay_ms=20&reconnect_delay_max_ms=200{options}"
    return ConnectionFactory(url, user_name="guest", password="guest")


@pytest.fixture(params=[needing(kind) for kind in PRODUCTS])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of broker."""
    return str(request.param)


@pytest.fixture
def connection(kind: str, request: pytest.FixtureRequest) -> Iterator[Connection]:
    with factory(request.getfixturevalue(kind)["amqp"]).create_connection() as connection:
        connection.start()
        yield connection


def received(consumer: Any) -> Message:
    message = consumer.receive(RECEIVE_MS)
    assert message is not None, "no message came"
    return message  # type: ignore[no-any-return]


def text_of(message: Message) -> str | None:
    assert isinstance(message, TextMessage)
    return message.text


def test_the_broker_is_recognised(connection: Connection, kind: str) -> None:
    data = connection.getMetaData()
    name, version = PRODUCTS[kind]
    assert data.getJMSProviderName() == f"{name} over AMQP 1.0"
    assert data.getProviderMajorVersion() >= version


def test_types_of_properties_arrive(connection: Connection) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue(fresh())
    message = session.create_text_message("x")
    values: dict[str, Any] = {
        "b": Byte(1),
        "s": Short(2),
        "i": 3,
        "l": Long(4),
        "f": Float(0.5),
        "d": 0.25,
        "t": "text",
        "o": True,
    }
    for name, value in values.items():
        message.set_object_property(name, value)
    session.create_producer(queue).send(message)
    again = received(session.create_consumer(queue))
    for name in values:
        sent, found = message.get_object_property(name), again.get_object_property(name)
        assert (type(found), found) == (type(sent), sent)


def test_a_large_message_arrives(connection: Connection) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue(fresh())
    text = "0123456789" * 100_000
    session.create_producer(queue).send(session.create_text_message(text))
    assert text_of(received(session.create_consumer(queue))) == text


def test_recovered_messages_come_in_order(connection: Connection) -> None:
    session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    queue = session.create_queue(fresh())
    producer = session.create_producer(queue)
    for number in range(20):
        producer.send(session.create_text_message(str(number)))
    consumer = session.create_consumer(queue)
    for _ in range(7):
        received(consumer)
    session.recover()
    again = [received(consumer) for _ in range(20)]
    assert [text_of(each) for each in again] == [str(number) for number in range(20)]
    assert [each.getJMSRedelivered() for each in again] == [True] * 7 + [False] * 13


def test_what_a_closed_consumer_had_fetched_goes_back_to_its_place(connection: Connection) -> None:
    session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    queue = session.create_queue(fresh())
    producer = session.create_producer(queue)
    for number in range(20):
        producer.send(session.create_text_message(str(number)))
    consumer = session.create_consumer(queue)
    received(consumer).acknowledge()
    consumer.close()
    other = session.create_consumer(queue)
    again = [received(other) for _ in range(19)]
    assert [text_of(each) for each in again] == [str(number) for number in range(1, 20)]
    assert not any(each.getJMSRedelivered() for each in again)


def test_two_client_ids_are_not_the_same(kind: str, request: pytest.FixtureRequest) -> None:
    port = request.getfixturevalue(kind)["amqp"]
    with factory(port).create_connection() as first:
        name = first.client_id = fresh("client")
        with factory(port).create_connection() as second:
            with pytest.raises(JMSException) as caught:
                second.client_id = name
            assert type(caught.value).__name__ == "InvalidClientIDException"
            second.client_id = fresh("client")


def test_listeners_and_transactions(connection: Connection) -> None:
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    queue, answers = session.create_queue(fresh()), session.create_queue(fresh())
    done, producer = Event(), session.create_producer(answers)

    def answer(message: Message) -> None:
        producer.send(session.create_text_message(f"re: {text_of(message)}"))
        session.commit()
        done.set()

    session.create_consumer(queue).message_listener = answer
    other = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    other.create_producer(queue).send(other.create_text_message("espresso"))
    assert text_of(received(other.create_consumer(answers))) == "re: espresso"
    assert done.wait(10)


def test_a_delayed_message_comes_later_as_it_was_sent(kind: str, request: pytest.FixtureRequest) -> None:
    url = f"amqp://127.0.0.1:{request.getfixturevalue(kind)['amqp']}?delivery_delay=yes"
    with ConnectionFactory(url, user_name="guest", password="guest").create_context() as context:
        queue = context.create_queue(fresh())
        consumer = context.create_consumer(queue)
        context.create_producer().set_property("colour", "red").set_delivery_delay(400).send(queue, "delayed")
        delayed = received(consumer)
        assert SystemClock().time_ms() >= delayed.jms_delivery_time
        assert delayed.jms_delivery_time == delayed.jms_timestamp + 400
        assert {*delayed.property_names} == {"colour", "JMSXDeliveryCount"}


def test_a_delay_is_refused_with_the_reason_where_the_broker_may_not_keep_it(kind: str, connection: Connection) -> None:
    producer = connection.create_session().create_producer(None)
    if kind == "artemis":  # which tells that it keeps it
        producer.delivery_delay = 1
        return
    with pytest.raises(JMSException, match="delivery_delay=yes") as caught:
        producer.delivery_delay = 1
    assert caught.value.error_code == "PYJMS-CAPABILITY"


@pytest.mark.requires("artemis")
def test_a_connection_outlives_the_death_of_the_broker(tmp_path: Path) -> None:
    broker = Artemis(tmp_path)
    broker.start()
    try:
        with factory(broker.ports["amqp"], "&timeout_ms=60000").create_connection() as connection:
            interrupted = Event()
            connection.exception_listener = lambda _: interrupted.set()
            connection.start()
            session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
            queue = session.create_queue(fresh())
            producer, consumer = session.create_producer(queue), session.create_consumer(queue)
            producer.send(session.create_text_message("one"))
            producer.send(session.create_text_message("two"))
            assert text_of(received(consumer)) == "one"
            broker.kill()
            assert interrupted.wait(30)
            broker.start()
            again = [received(consumer), received(consumer)]
            assert [text_of(each) for each in again] == ["one", "two"]
            assert again[0].getJMSRedelivered()
            producer.send(session.create_text_message("three"))
            assert text_of(received(consumer)) == "three"
    finally:
        broker.kill()
