"""The order in which messages arrive (4.4.10)."""

from __future__ import annotations

from pyjms import DeliveryMode, Queue, Session, Topic
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeDestination, MakeSession
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.exchange import Collector, send_texts, take, take_texts

NUMBERS = [f"text {number}" for number in range(30)]


@requirement("4.4.10.1-a")
def test_4_4_10_1_a_a_queue_keeps_the_order_of_a_session(session: Session, queue: Queue, waits: Waits) -> None:
    consumer = session.create_consumer(queue)
    send_texts(session, queue, *NUMBERS)
    assert take_texts(consumer, waits, len(NUMBERS)) == NUMBERS


@requirement("4.4.10.1-a")
def test_4_4_10_1_a_a_queue_without_consumer_keeps_the_order(session: Session, queue: Queue, waits: Waits) -> None:
    send_texts(session, queue, *NUMBERS)
    listener = Collector()
    session.create_consumer(queue).message_listener = listener
    assert listener.wait_for(len(NUMBERS), waits) == NUMBERS


@requirement("4.4.10.1-a")
def test_4_4_10_1_a_a_topic_keeps_the_order_of_a_session(session: Session, topic: Topic, waits: Waits) -> None:
    consumer = session.create_consumer(topic)
    send_texts(session, topic, *NUMBERS)
    assert take_texts(consumer, waits, len(NUMBERS)) == NUMBERS


@requirement("4.4.10.1-a")
def test_4_4_10_1_a_order_holds_across_the_producers_of_a_session(session: Session, queue: Queue, waits: Waits) -> None:
    producers = [session.create_producer(queue), session.create_producer(queue), session.create_producer(None)]
    for number, text in enumerate(NUMBERS):
        producer = producers[number % 3]
        message = session.create_text_message(text)
        if producer.destination is None:
            producer.send(queue, message)
        else:
            producer.send(message)
    assert take_texts(session.create_consumer(queue), waits, len(NUMBERS)) == NUMBERS


@requirement("4.4.10.2-a")
def test_4_4_10_2_a_order_holds_within_each_delivery_mode(session: Session, queue: Queue, waits: Waits) -> None:
    producer = session.create_producer(queue)
    modes = [DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT]
    for number, text in enumerate(NUMBERS):
        producer.send(session.create_text_message(text), modes[number % 2], 4, 0)
    consumer = session.create_consumer(queue)
    received = [take(consumer, waits) for _ in NUMBERS]
    for number, mode in enumerate(modes):
        texts = [message.text for message in received if message.jms_delivery_mode == mode]
        assert texts == NUMBERS[number::2], f"the order of the {mode.name} messages"


@requirement("4.4.10.2-b")
def test_4_4_10_2_b_a_transaction_keeps_the_order_at_each_destination(
    session: Session, make_session: MakeSession, make_queue: MakeDestination, waits: Waits
) -> None:
    queues = [make_queue(), make_queue()]
    transacted = make_session(True)
    for number, text in enumerate(NUMBERS):
        send_texts(transacted, queues[number % 2], text)
    transacted.commit()
    for number, queue in enumerate(queues):
        received = take_texts(session.create_consumer(queue), waits, len(NUMBERS) // 2)
        assert received == NUMBERS[number::2], "the order of one destination's messages in the transaction"


@requirement("4.4.10.2-b")
def test_4_4_10_2_b_order_holds_from_one_transaction_to_the_next(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    transacted = make_session(True)
    for text in NUMBERS:
        send_texts(transacted, queue, text)
        transacted.commit()
    assert take_texts(session.create_consumer(queue), waits, len(NUMBERS)) == NUMBERS
