"""The delivery delay and JMSDeliveryTime (JMS 2.0 §3.4.13, §7.9)."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import pytest

from pyjms import (
    CompletionListener,
    Connection,
    ConnectionFactory,
    IllegalStateException,
    JMSException,
    Message,
    MessageConsumer,
    MessageProducer,
    Session,
)
from tests.pyjms.jms2.conftest import Connect
from tests.pyjms.runtime.helpers import PATIENCE_S, Recorder, drain, take, take_texts, text_of

DELAY_MS = 300
LATER_MS = 3_600_000


def now_ms() -> int:
    return int(time.time() * 1000)


class Completed(CompletionListener):
    """Tells that a send is complete."""

    def __init__(self) -> None:
        self.event = Event()
        self.errors: list[Exception] = []

    def on_completion(self, message: Message) -> None:
        self.event.set()

    def on_exception(self, message: Message, exception: Exception) -> None:
        self.errors.append(exception)
        self.event.set()


def sender(connection: Connection, name: str, mode: int = Session.AUTO_ACKNOWLEDGE) -> tuple[Session, MessageProducer]:
    """Return a session with a producer of a queue."""
    session = connection.create_session(mode)
    return session, session.create_producer(session.create_queue(name))


def receiver(connection: Connection, name: str) -> MessageConsumer:
    """Return a consumer of a queue, in a session of its own."""
    session = connection.create_session()
    return session.create_consumer(session.create_queue(name))


def queue_ends(connection: Connection, name: str) -> tuple[Session, MessageProducer, MessageConsumer]:
    """Return a session with a producer of a queue, and a consumer of it."""
    return *sender(connection, name), receiver(connection, name)


def test_a_message_arrives_when_its_delay_is_over(connect: Connect, name: str) -> None:
    session, producer, consumer = queue_ends(connect(), name)
    producer.delivery_delay = DELAY_MS
    message = session.create_text_message("later")
    assert message.jms_delivery_time == 0
    before = now_ms()
    producer.send(message)
    assert before + DELAY_MS <= message.jms_delivery_time <= now_ms() + DELAY_MS
    producer.delivery_delay = 0
    producer.send(session.create_text_message("at once"))
    assert take_texts(consumer, 1) == ["at once"]
    received = take(consumer)
    assert now_ms() >= message.jms_delivery_time
    assert text_of(received) == "later"
    assert received.jms_delivery_time == message.jms_delivery_time == message.jms_timestamp + DELAY_MS


def test_the_delay_of_a_transacted_send_begins_with_the_send(connect: Connect, name: str) -> None:
    session, producer = sender(connect(), name, Session.SESSION_TRANSACTED)
    consumer = receiver(connect(), name)
    producer.delivery_delay = DELAY_MS
    message = session.create_text_message("later")
    producer.send(message)
    # Another message with that delay tells when it is over.
    beside, early, waiting = queue_ends(connect(), f"{name}-beside")
    early.delivery_delay = DELAY_MS
    early.send(beside.create_text_message("it is over"))
    take(waiting)
    assert message.jms_delivery_time <= now_ms()
    session.commit()
    # So this one is there at once.
    assert consumer.receive(DELAY_MS // 2) is not None


def test_a_rolled_back_send_with_a_delay_never_arrives(connect: Connect, name: str) -> None:
    session, producer = sender(connect(), name, Session.SESSION_TRANSACTED)
    consumer = receiver(connect(), name)
    producer.delivery_delay = 1
    producer.send(session.create_text_message("dropped"))
    session.rollback()
    producer.send(session.create_text_message("kept"))
    session.commit()
    assert take_texts(consumer, 1) == ["kept"]


def test_subscribers_wait_too(connect: Connect, name: str) -> None:
    connection = connect(name)
    session = connection.create_session()
    topic = session.create_topic(name)
    consumers: list[MessageConsumer] = [
        session.create_consumer(topic),
        session.create_durable_consumer(topic, name),
        session.create_shared_consumer(topic, name),
    ]
    producer = session.create_producer(topic)
    producer.delivery_delay = DELAY_MS
    message = session.create_text_message("later")
    producer.send(message)
    for consumer in consumers:
        received = take(consumer)
        assert now_ms() >= message.jms_delivery_time == received.jms_delivery_time


def test_a_subscription_made_after_the_send_does_not_get_the_message(connect: Connect, name: str) -> None:
    session = connect(name).create_session()
    topic = session.create_topic(name)
    before = session.create_consumer(topic)
    producer = session.create_producer(topic)
    producer.delivery_delay = DELAY_MS
    producer.send(session.create_text_message("later"))
    after = [session.create_consumer(topic), session.create_durable_consumer(topic, name)]
    assert take_texts(before, 1) == ["later"]
    assert [drain(each) for each in after] == [[], []]


def test_a_message_that_waits_is_not_received(connect: Connect, name: str) -> None:
    session, producer, consumer = queue_ends(connect(), name)
    producer.delivery_delay = LATER_MS
    producer.send(session.create_text_message("in an hour"))
    assert drain(consumer) == []
    assert consumer.receive(20) is None


def test_messages_arrive_in_the_order_of_their_delivery_times(connect: Connect, name: str) -> None:
    session, producer, consumer = queue_ends(connect(), name)
    for delay in (2 * DELAY_MS, DELAY_MS, 0):
        producer.delivery_delay = delay
        producer.send(session.create_text_message(str(delay)))
    assert take_texts(consumer, 3) == ["0", str(DELAY_MS), str(2 * DELAY_MS)]


def test_a_listener_waits_too(connect: Connect, name: str) -> None:
    session, producer = sender(connect(), name)
    times: list[int] = []
    recorder = Recorder(lambda _: times.append(now_ms()))
    receiver(connect(), name).message_listener = recorder
    producer.delivery_delay = DELAY_MS
    message = session.create_text_message("later")
    producer.send(message)
    # The marker, whose delay is longer, comes when the first message has been processed.
    producer.delivery_delay = DELAY_MS + 1
    producer.send(session.create_text_message("marker"))
    assert recorder.wait_for(2) == ["later", "marker"]
    assert recorder.messages[0].jms_delivery_time == message.jms_delivery_time <= times[0]


def test_without_a_delay_the_delivery_time_is_that_of_the_send(connect: Connect, name: str) -> None:
    session, producer, consumer = queue_ends(connect(), name)
    message = session.create_text_message("at once")
    message.jms_delivery_time = 5
    producer.send(message)
    assert message.jms_delivery_time == message.jms_timestamp
    assert take(consumer).jms_delivery_time == message.jms_timestamp


def test_the_time_to_live_runs_from_the_send_too(connect: Connect, name: str) -> None:
    session, producer, consumer = queue_ends(connect(), name)
    producer.delivery_delay = DELAY_MS
    producer.send(session.create_text_message("expires before"), time_to_live=1)
    message = session.create_text_message("lives")
    producer.send(message, time_to_live=LATER_MS)
    assert message.jms_expiration == message.jms_timestamp + LATER_MS
    assert take_texts(consumer, 1) == ["lives"]


def test_a_browser_does_not_show_what_waits(connect: Connect, name: str) -> None:
    session, producer = sender(connect(), name)
    queue = session.create_queue(name)
    producer.send(session.create_text_message("at once"))
    producer.delivery_delay = LATER_MS
    producer.send(session.create_text_message("in an hour"))
    assert [text_of(each) for each in session.create_browser(queue)] == ["at once"]


def test_a_message_that_is_sent_on_gets_another_delivery_time(connect: Connect, name: str) -> None:
    session, producer, consumer = queue_ends(connect(), name)
    producer.delivery_delay = 1
    producer.send(session.create_text_message("on"))
    message = take(consumer)
    producer.delivery_delay = LATER_MS
    producer.send(message)
    assert message.jms_delivery_time == message.jms_timestamp + LATER_MS


@pytest.mark.parametrize("destination", [True, False], ids=["own destination", "a destination each"])
@pytest.mark.parametrize("named", [True, False], ids=["keywords", "positions"])
def test_every_form_of_send_has_the_delay(connect: Connect, name: str, destination: bool, named: bool) -> None:
    session = connect().create_session()
    queue = session.create_queue(name)
    producer = session.create_producer(queue if destination else None)
    producer.delivery_delay = LATER_MS
    message = session.create_message()
    first: tuple[Any, ...] = (message,) if destination else (queue, message)
    for options in ((), (2, 4, 0)):
        if named:
            names = ("delivery_mode", "priority", "time_to_live")[: len(options)]
            given: dict[str, Any] = dict(zip(names, options, strict=True))
            producer.send(*first, **given)
        else:
            producer.send(*first, *options)
        assert message.jms_delivery_time == message.jms_timestamp + LATER_MS


def test_an_asynchronous_send_has_the_delay(connect: Connect, name: str) -> None:
    session, producer = sender(connect(), name)
    consumer, completed = receiver(connect(), name), Completed()
    producer.delivery_delay = DELAY_MS
    message = session.create_text_message("later")
    producer.send(message, completed)
    assert completed.event.wait(PATIENCE_S)
    assert completed.errors == []
    assert message.jms_delivery_time == message.jms_timestamp + DELAY_MS
    received = take(consumer)
    assert now_ms() >= received.jms_delivery_time == message.jms_delivery_time


class TestTheProperty:
    def test_both_names(self, connect: Connect, name: str) -> None:
        producer: Any = sender(connect(), name)[1]
        assert producer.delivery_delay == producer.getDeliveryDelay() == Message.DEFAULT_DELIVERY_DELAY == 0
        producer.setDeliveryDelay(7)
        assert producer.delivery_delay == producer.getDeliveryDelay() == 7

    @pytest.mark.parametrize("value", [-1, 2**63, None, "1", True])
    def test_a_wrong_value_is_refused(self, connect: Connect, name: str, value: Any) -> None:
        _, producer = sender(connect(), name)
        producer.delivery_delay = 7
        with pytest.raises(JMSException):
            producer.delivery_delay = value
        assert producer.delivery_delay == 7

    def test_a_closed_producer_has_none(self, connect: Connect, name: str) -> None:
        session, producer = sender(connect(), name)
        other: MessageProducer = session.create_producer(None)
        producer.close()
        session.close()
        for closed in (producer, other):
            with pytest.raises(IllegalStateException):
                _ = closed.delivery_delay
            with pytest.raises(IllegalStateException):
                closed.delivery_delay = 5

    def test_the_longest_delay_does_not_overflow(self, connect: Connect, name: str) -> None:
        session, producer, consumer = queue_ends(connect(), name)
        producer.delivery_delay = 2**63 - 1
        message = session.create_message()
        producer.send(message)
        assert message.jms_delivery_time == 2**63 - 1
        assert drain(consumer) == []

    def test_the_other_settings_stay(self, connect: Connect, name: str) -> None:
        _, producer = sender(connect(), name)
        producer.priority, producer.time_to_live, producer.delivery_mode, producer.delivery_delay = 9, 8, 1, 7
        producer.priority, producer.time_to_live = 5, 6
        settings = (producer.priority, producer.time_to_live, producer.delivery_mode, producer.delivery_delay)
        assert settings == (5, 6, 1, 7)


def test_delivery_time_can_be_set_and_is_a_long(factory: ConnectionFactory) -> None:
    with factory.create_connection() as connection:
        message: Any = connection.create_session().create_message()
        message.setJMSDeliveryTime(12)
        assert message.jms_delivery_time == message.getJMSDeliveryTime() == 12
        for wrong in ("1", None, 2**63, True):
            with pytest.raises(JMSException):
                message.jms_delivery_time = wrong
