"""Producers: where they send to, their defaults, and their end (4.6)."""

from __future__ import annotations

import pytest

from pyjms import (
    DeliveryMode,
    Message,
    Queue,
    Session,
    Topic,
    UnsupportedOperationException,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_04 import endings
from pyjms_tck.suite.exchange import leftovers, take, take_texts

HOUR_MS = 3_600_000


@requirement("4.6-a")
def test_4_6_a_a_producer_without_destination_sends_to_the_given_one(
    session: Session, make_queue: MakeDestination, waits: Waits
) -> None:
    first, second = make_queue(), make_queue()
    producer = session.createProducer(None)
    producer.send(first, session.createTextMessage("to the first"))
    producer.send(second, session.createTextMessage("to the second"), DeliveryMode.NON_PERSISTENT, 3, 0)
    assert take(session.createConsumer(first), waits).getText() == "to the first"
    received = take(session.createConsumer(second), waits)
    facts = (received.getText(), received.getJMSDeliveryMode(), received.getJMSPriority())
    assert facts == ("to the second", DeliveryMode.NON_PERSISTENT, 3)


@requirement("4.6-a")
@needs("TOPICS")
def test_4_6_a_a_producer_without_destination_sends_to_queues_and_topics(
    session: Session, queue: Queue, topic: Topic, waits: Waits
) -> None:
    # The consumers first: that of the topic gets only messages published while it is active (§6.3).
    consumers = [session.createConsumer(queue), session.createConsumer(topic)]
    producer = session.createProducer(None)
    for destination in (queue, topic):
        producer.send(destination, session.createTextMessage("text"))
    assert [take(consumer, waits).getText() for consumer in consumers] == ["text", "text"]


@requirement("4.6-b")
@pytest.mark.parametrize("more", [(), (DeliveryMode.NON_PERSISTENT, 3, 0)], ids=["send(message)", "send(message, ...)"])
def test_4_6_b_a_producer_without_destination_needs_one(session: Session, more: tuple[int, ...]) -> None:
    producer, message = session.createProducer(None), session.createTextMessage("text")
    with pytest.raises(UnsupportedOperationException):
        producer.send(message, *more)


@requirement("4.6-c")
@pytest.mark.parametrize(
    "more", [(), (DeliveryMode.NON_PERSISTENT, 3, 0)], ids=["send(queue, message)", "send(queue, message, ...)"]
)
def test_4_6_c_a_producer_with_a_destination_takes_no_other(
    session: Session, make_queue: MakeDestination, waits: Waits, more: tuple[int, ...]
) -> None:
    own, other = make_queue(), make_queue()
    producer = session.createProducer(own)
    with pytest.raises(UnsupportedOperationException):
        producer.send(other, session.createTextMessage("text"), *more)
    assert leftovers(session.createConsumer(other), waits) == [], "nothing was sent"


@requirement("4.6-d")
def test_4_6_d_a_send_uses_the_defaults_of_its_producer(session: Session, queue: Queue, waits: Waits) -> None:
    producer = session.createProducer(queue)
    producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT)
    producer.setPriority(7)
    producer.setTimeToLive(HOUR_MS)
    producer.send(session.createTextMessage("text"))
    received = take(session.createConsumer(queue), waits)
    assert _facts(received) == (DeliveryMode.NON_PERSISTENT, 7, HOUR_MS)


@requirement("4.6-d")
def test_4_6_d_a_send_overrides_the_defaults_of_its_producer(session: Session, queue: Queue, waits: Waits) -> None:
    producer = session.createProducer(queue)
    producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT)
    producer.setPriority(7)
    producer.setTimeToLive(HOUR_MS)
    consumer = session.createConsumer(queue)
    producer.send(session.createTextMessage("overridden"), DeliveryMode.PERSISTENT, 2, 2 * HOUR_MS)
    assert _facts(take(consumer, waits)) == (DeliveryMode.PERSISTENT, 2, 2 * HOUR_MS)
    # A second send shows that the first one did not change the defaults.
    producer.send(session.createTextMessage("defaults again"))
    assert _facts(take(consumer, waits)) == (DeliveryMode.NON_PERSISTENT, 7, HOUR_MS), "one send changes no default"


def _facts(message: Message) -> tuple[int, int, int]:
    """Return delivery mode, priority, and the time to live that the header fields tell."""
    return (
        message.getJMSDeliveryMode(),
        message.getJMSPriority(),
        message.getJMSExpiration() - message.getJMSTimestamp(),
    )


@requirement("4.6-e")
@pytest.mark.parametrize(
    ("is_bound", "more"),
    [
        pytest.param(True, (), id="send(message)"),
        pytest.param(True, (DeliveryMode.PERSISTENT, 4, 0), id="send(message, mode, priority, time)"),
        pytest.param(False, (), id="send(destination, message)"),
        pytest.param(False, (DeliveryMode.PERSISTENT, 4, 0), id="send(destination, message, mode, priority, time)"),
    ],
)
def test_4_6_e_what_was_sent_is_there_when_send_returns(
    session: Session, connect: Connect, queue: Queue, waits: Waits, is_bound: bool, more: tuple[int, ...]
) -> None:
    consumer = session.createConsumer(queue)
    # A connection for each message, closed at once: whatever a client still had to send would be lost.
    for number in range(3):
        connection = connect()
        sending = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
        message = sending.createTextMessage(f"text {number}")
        if is_bound:
            sending.createProducer(queue).send(message, *more)
        else:
            sending.createProducer(None).send(queue, message, *more)
        connection.close()  # nothing can follow a send that has returned
    received = take_texts(consumer, waits, 3)
    assert received == ["text 0", "text 1", "text 2"], "each message was with the provider when its send returned"


@requirement("4.6-f")
def test_4_6_f_the_hint_about_message_ids_is_kept(session: Session, queue: Queue) -> None:
    producer = session.createProducer(queue)
    assert producer.getDisableMessageID() is False, "at first"
    # The value is kept; whether the provider heeds the hint is its own choice (§3.4.3).
    producer.setDisableMessageID(True)
    assert producer.getDisableMessageID() is True
    producer.setDisableMessageID(False)
    assert producer.getDisableMessageID() is False


@requirement("4.6-g")
def test_4_6_g_the_hint_about_time_stamps_is_kept(session: Session, queue: Queue) -> None:
    producer = session.createProducer(queue)
    assert producer.getDisableMessageTimestamp() is False, "at first"
    # The value is kept; whether the provider heeds the hint is its own choice (§3.4.4).
    producer.setDisableMessageTimestamp(True)
    assert producer.getDisableMessageTimestamp() is True
    producer.setDisableMessageTimestamp(False)
    assert producer.getDisableMessageTimestamp() is False


@requirement("4.6-h")
def test_4_6_h_the_default_delivery_mode(session: Session, queue: Queue, waits: Waits) -> None:
    producer, consumer = session.createProducer(queue), session.createConsumer(queue)
    assert producer.getDeliveryMode() == DeliveryMode.PERSISTENT, "at first"
    for mode in (DeliveryMode.NON_PERSISTENT, DeliveryMode.PERSISTENT):
        producer.setDeliveryMode(mode)
        assert producer.getDeliveryMode() == mode
        producer.send(session.createTextMessage("text"))
        assert take(consumer, waits).getJMSDeliveryMode() == mode


@requirement("4.6-i")
def test_4_6_i_the_default_priority(session: Session, queue: Queue, waits: Waits) -> None:
    producer, consumer = session.createProducer(queue), session.createConsumer(queue)
    assert producer.getPriority() == 4, "at first"
    for priority in range(10):
        producer.setPriority(priority)
        assert producer.getPriority() == priority
        producer.send(session.createTextMessage("text"))
        assert take(consumer, waits).getJMSPriority() == priority


@requirement("4.6-j")
def test_4_6_j_the_default_time_to_live(session: Session, queue: Queue, waits: Waits) -> None:
    producer, consumer = session.createProducer(queue), session.createConsumer(queue)
    assert producer.getTimeToLive() == 0, "at first"
    producer.setTimeToLive(HOUR_MS)
    assert producer.getTimeToLive() == HOUR_MS
    producer.send(session.createTextMessage("for an hour"))
    message = take(consumer, waits)
    assert message.getJMSExpiration() == message.getJMSTimestamp() + HOUR_MS, "milliseconds from the time of sending"
    producer.setTimeToLive(0)
    assert producer.getTimeToLive() == 0
    producer.send(session.createTextMessage("for ever"))
    assert take(consumer, waits).getJMSExpiration() == 0, "0 means that the message does not expire"


@requirement("4.6-k")
def test_4_6_k_a_producer_tells_its_destination(session: Session, queue: Queue) -> None:
    destination = session.createProducer(queue).getDestination()
    assert isinstance(destination, Queue), "the destination of the producer"
    assert destination.getQueueName() == queue.getQueueName()
    assert session.createProducer(None).getDestination() is None, "a producer without destination"


@requirement("4.6-l")
def test_4_6_l_a_closed_producer_refuses_every_call_and_can_be_closed_again(session: Session, queue: Queue) -> None:
    producer, message = session.createProducer(queue), session.createTextMessage("text")
    producer.close()
    producer.close()
    calls = endings.producer_calls(producer, message)
    assert endings.not_refused(calls) == {}, "calls that do not raise IllegalStateException"
