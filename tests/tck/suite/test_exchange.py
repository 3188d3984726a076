"""The helpers of the suite fail with a reason, end their waits, and leave nothing behind."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest

from pyjms import ConnectionFactory, JMSException, Session
from pyjms_tck.environment import Waits
from pyjms_tck.suite.exchange import Collector, DurableClient, Holding, leftovers, send_texts, take, take_texts

if TYPE_CHECKING:
    from pyjms import Connection

WAITS = Waits(something_ms=5000, nothing_ms=5)
HASTY = Waits(something_ms=5, nothing_ms=5)


def test_texts_are_taken_in_order_until_one_is_missing(jms_session: Session) -> None:
    queue = jms_session.create_queue("orders")
    consumer = jms_session.create_consumer(queue)
    send_texts(jms_session, queue, "one", "two", "three")
    assert take(consumer, WAITS).text == "one"
    assert take_texts(consumer, HASTY, 5) == ["two", "three"]
    assert leftovers(consumer, WAITS) == []


def test_what_should_not_be_there_is_told(jms_session: Session) -> None:
    queue = jms_session.create_queue("orders")
    send_texts(jms_session, queue, "one")
    jms_session.create_producer(queue).send(jms_session.create_map_message())
    assert leftovers(jms_session.create_consumer(queue), WAITS) == ["one", "<JmsMapMessage>"]


def test_a_missing_message_and_one_of_another_type_have_a_reason(jms_session: Session) -> None:
    queue = jms_session.create_queue("orders")
    consumer = jms_session.create_consumer(queue)
    with pytest.raises(AssertionError, match="expected the reply, but none came within 5 ms"):
        take(consumer, HASTY, "the reply")
    jms_session.create_producer(queue).send(jms_session.create_map_message())
    with pytest.raises(AssertionError, match="expected a text message, got JmsMapMessage"):
        take(consumer, WAITS)


def test_a_listener_that_is_not_called_has_a_reason(jms_session: Session) -> None:
    with pytest.raises(AssertionError, match="the listener had been called 2 times"):
        Collector().wait_for(2, HASTY)
    with pytest.raises(AssertionError, match="expected a call of the listener"):
        Holding(HASTY).wait_until_entered()


def test_a_holding_listener_stays_until_it_is_released(jms_session: Session) -> None:
    message = jms_session.create_text_message("one")
    error = ValueError("meanwhile")

    def fail(_: object) -> None:
        raise error

    with Holding(WAITS, meanwhile=fail) as listener:
        call = Thread(target=listener.on_message, args=(message,))
        call.start()
        listener.wait_until_entered()
        assert not listener.returned.is_set()
    call.join(10)
    assert listener.returned.is_set()
    assert listener.error is error, "what it met with is told to the test, not raised"
    listener.on_message(message)
    assert listener.texts == ["one", "one"], "further calls return at once"


def test_a_durable_client_leaves_no_subscription(jms_connection_factory: ConnectionFactory) -> None:
    names = iter(f"name-{number}" for number in range(9))
    client = DurableClient(jms_connection_factory, lambda prefix: f"{prefix}-{next(names)}")
    first = client.open()
    topic = first.create_session(False, Session.AUTO_ACKNOWLEDGE).create_topic("prices")
    second: Connection = client.open_topic()
    with pytest.raises(JMSException):
        first.start()
    assert second.client_id == client.client_id
    session = second.create_session(False, Session.AUTO_ACKNOWLEDGE)
    for name in (client.name, client.another_name()):
        session.create_durable_subscriber(topic, name)
    client.forget()
    session = client.open().create_session(False, Session.AUTO_ACKNOWLEDGE)
    with pytest.raises(JMSException):
        session.unsubscribe(client.name)
    client.close()
