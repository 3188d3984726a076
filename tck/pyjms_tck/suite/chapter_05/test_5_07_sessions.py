"""Queue sessions, senders and receivers, and what queues keep (5.7, 5.8, 5.11)."""

from __future__ import annotations

import pytest

from pyjms import (
    DeliveryMode,
    InvalidDestinationException,
    InvalidSelectorException,
    Queue,
    QueueConnection,
    QueueReceiver,
    QueueSender,
    QueueSession,
    Session,
    TemporaryQueue,
    UnsupportedOperationException,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import (
    INVALID_SELECTOR,
    NO_DESTINATION,
    Collector,
    leftovers,
    send_numbers,
    send_texts,
    sent_as,
    take,
    take_texts,
)

HOUR_MS = 3_600_000
OPTIONS = (DeliveryMode.NON_PERSISTENT, 8, HOUR_MS)


@requirement("5.7-a")
@pytest.mark.parametrize("end", ["session", "connection"])
def test_5_7_a_what_was_not_acknowledged_stays_on_its_queue(
    queue_connection: QueueConnection, session: Session, queue: Queue, waits: Waits, end: str
) -> None:
    send_texts(session, queue, "one", "two")
    receiving = queue_connection.create_queue_session(False, Session.CLIENT_ACKNOWLEDGE)
    assert take_texts(receiving.create_receiver(queue), waits, 2) == ["one", "two"]
    (receiving if end == "session" else queue_connection).close()
    consumer = session.create_consumer(queue)
    again = [(message.text, message.jms_redelivered) for message in (take(consumer, waits), take(consumer, waits))]
    assert again == [("one", True), ("two", True)], "both come again, in their order, marked as redelivered"


@requirement("5.7-b")
def test_5_7_b_a_queue_session_makes_queues_from_their_names(
    queue_session: QueueSession, queue: Queue, waits: Waits
) -> None:
    made = queue_session.create_queue(queue.queue_name)
    assert isinstance(made, Queue)
    assert made.queue_name == queue.queue_name
    send_texts(queue_session, made, "text")
    assert take(queue_session.create_receiver(queue), waits).text == "text"


@requirement("5.7-c")
def test_5_7_c_a_receiver_gets_the_messages_of_its_queue(
    queue_session: QueueSession, make_queue: MakeDestination, waits: Waits
) -> None:
    ours, other = make_queue(), make_queue()
    receiver = queue_session.create_receiver(ours)
    assert isinstance(receiver, QueueReceiver)
    send_texts(queue_session, other, "for the other queue")
    send_texts(queue_session, ours, "for our queue")
    assert take(receiver, waits).text == "for our queue"
    assert leftovers(receiver, waits) == []


@requirement("5.7-c")
@needs("SELECTORS")
def test_5_7_c_a_receiver_has_the_given_selector(queue_session: QueueSession, queue: Queue, waits: Waits) -> None:
    receiver = queue_session.create_receiver(queue, "number > 1")
    assert receiver.message_selector == "number > 1"
    send_numbers(queue_session, queue)
    assert take_texts(receiver, waits, 2) == ["2", "3"]
    assert leftovers(receiver, waits) == [], "the selector leaves the others out"


@requirement("5.7-d")
@pytest.mark.parametrize("more", [(), pytest.param(("number > 1",), marks=needs("SELECTORS"))], ids=repr)
def test_5_7_d_a_receiver_needs_a_queue(queue_session: QueueSession, more: tuple[str, ...]) -> None:
    with pytest.raises(InvalidDestinationException):
        queue_session.create_receiver(NO_DESTINATION, *more)


@requirement("5.7-e")
def test_5_7_e_a_receiver_needs_a_valid_selector(queue_session: QueueSession, queue: Queue) -> None:
    with pytest.raises(InvalidSelectorException):
        queue_session.create_receiver(queue, INVALID_SELECTOR)


@requirement("5.7-f")
def test_5_7_f_a_sender_is_made_for_a_queue_or_for_none(queue_session: QueueSession, queue: Queue) -> None:
    sender = queue_session.create_sender(queue)
    assert isinstance(sender, QueueSender)
    assert sender.queue is not None, "the sender has the queue that it was made for"
    assert sender.queue.queue_name == queue.queue_name
    assert queue_session.create_sender(None).queue is None, "a sender without queue"


@requirement("5.7-g")
@needs("TEMPORARY_DESTINATIONS")
def test_5_7_g_a_sender_needs_a_queue_that_exists(queue_session: QueueSession) -> None:
    deleted = queue_session.create_temporary_queue()
    deleted.delete()
    with pytest.raises(InvalidDestinationException):
        queue_session.create_sender(deleted).send(queue_session.create_text_message("text"))


@requirement("5.7-h")
def test_5_7_h_a_temporary_queue_lives_as_long_as_its_connection(
    queue_connection: QueueConnection, waits: Waits
) -> None:
    session = queue_connection.create_queue_session(False, Session.AUTO_ACKNOWLEDGE)
    temporary = session.create_temporary_queue()
    assert isinstance(temporary, TemporaryQueue)
    send_texts(session, temporary, "text")
    session.close()
    other = queue_connection.create_queue_session(False, Session.AUTO_ACKNOWLEDGE)
    assert take(other.create_receiver(temporary), waits).text == "text", "it outlives the session that made it"


# ----------------------------------------------------------------------------------------------------- senders


@requirement("5.7-i")
def test_5_7_i_a_sender_tells_its_queue(queue_session: QueueSession, queue: Queue) -> None:
    sender = queue_session.create_sender(queue)
    assert sender.queue is not None, "the queue of the sender"
    assert sender.queue.queue_name == queue.queue_name


@requirement("5.7-j")
def test_5_7_j_a_sender_sends_to_its_queue(queue_session: QueueSession, queue: Queue, waits: Waits) -> None:
    sender, receiver = queue_session.create_sender(queue), queue_session.create_receiver(queue)
    sender.send(queue_session.create_text_message("with the defaults"))
    assert sent_as(take(receiver, waits)) == ("with the defaults", DeliveryMode.PERSISTENT, 4, None)
    sender.send(queue_session.create_text_message("with options"), *OPTIONS)
    assert sent_as(take(receiver, waits)) == ("with options", *OPTIONS)


@requirement("5.7-k")
def test_5_7_k_a_sender_without_queue_sends_to_the_given_one(
    queue_session: QueueSession, make_queue: MakeDestination, waits: Waits
) -> None:
    sender = queue_session.create_sender(None)
    for queue in (make_queue(), make_queue()):
        sender.send(queue, queue_session.create_text_message("with the defaults"))
        sender.send(queue, queue_session.create_text_message("with options"), *OPTIONS)
        receiver = queue_session.create_receiver(queue)
        received = {facts[0]: facts[1:] for facts in (sent_as(take(receiver, waits)), sent_as(take(receiver, waits)))}
        assert received == {"with the defaults": (DeliveryMode.PERSISTENT, 4, None), "with options": OPTIONS}


@requirement("5.7-l")
@pytest.mark.parametrize("more", [(), OPTIONS], ids=["send(message)", "send(message, mode, priority, time)"])
def test_5_7_l_a_sender_without_queue_needs_one(queue_session: QueueSession, more: tuple[int, ...]) -> None:
    sender, message = queue_session.create_sender(None), queue_session.create_text_message("text")
    with pytest.raises(UnsupportedOperationException):
        sender.send(message, *more)


# ------------------------------------------------------------------------------------------- 5.8 receivers, 5.11


@requirement("5.8-a")
def test_5_8_a_what_a_selector_leaves_out_stays_on_the_queue(
    queue_session: QueueSession, queue: Queue, waits: Waits
) -> None:
    send_numbers(queue_session, queue)
    receiver = queue_session.create_receiver(queue, "number = 2")
    assert take(receiver, waits).text == "2"
    receiver.close()
    assert take_texts(queue_session.create_receiver(queue), waits, 2) == ["1", "3"], "the others are there still"


@requirement("5.8-b")
def test_5_8_b_a_receiver_reads_in_the_order_of_the_producer(
    queue_session: QueueSession, queue: Queue, waits: Waits
) -> None:
    texts = [f"text {number}" for number in range(20)]
    send_texts(queue_session, queue, *texts)
    receiver = queue_session.create_receiver(queue)
    assert take_texts(receiver, waits, 10) == texts[:10]
    receiver.close()
    assert take_texts(queue_session.create_receiver(queue), waits, 10) == texts[10:], "the next receiver goes on"


@requirement("5.8-c")
def test_5_8_c_a_receiver_tells_its_queue(queue_session: QueueSession, queue: Queue) -> None:
    assert queue_session.create_receiver(queue).queue.queue_name == queue.queue_name


@requirement("5.11-a")
def test_5_11_a_a_queue_holds_messages_while_nobody_consumes(connect: Connect, queue: Queue, waits: Waits) -> None:
    with connect() as sending:
        send_texts(sending.create_session(False, Session.AUTO_ACKNOWLEDGE), queue, "one", "two")
    session = connect(started=True).create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(queue)
    assert take(consumer, waits).text == "one", "a consumer that comes later gets what was sent before"
    consumer.close()
    send_texts(session, queue, "three")
    listener = Collector()
    session.create_consumer(queue).message_listener = listener
    assert listener.wait_for(2, waits) == ["two", "three"], "so does the next one"
