"""Queues, temporary queues, and connections of the point-to-point domain (5.1 to 5.6)."""

from __future__ import annotations

import pytest

from pyjms import (
    BytesMessage,
    ConnectionFactory,
    JMSException,
    MapMessage,
    Message,
    ObjectMessage,
    Queue,
    QueueConnection,
    QueueSession,
    Session,
    StreamMessage,
    TemporaryQueue,
    TextMessage,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination
from pyjms_tck.profile import Profile
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.exchange import leftovers, send_texts, take, take_texts
from pyjms_tck.suite.modes import in_each_mode

# ------------------------------------------------------------------------------------------------- 5.1, 5.3


@requirement("5.1-a")
def test_5_1_a_the_common_interfaces_receive_what_the_queue_interfaces_send(
    queue_session: QueueSession, session: Session, queue: Queue, waits: Waits
) -> None:
    sender = queue_session.createSender(queue)
    sender.send(queue_session.createTextMessage("from a queue sender"))
    assert take(session.createConsumer(queue), waits).getText() == "from a queue sender"


@requirement("5.1-a")
def test_5_1_a_the_queue_interfaces_receive_what_the_common_interfaces_send(
    queue_session: QueueSession, session: Session, queue: Queue, waits: Waits
) -> None:
    send_texts(session, queue, "from a producer")
    assert take(queue_session.createReceiver(queue), waits).getText() == "from a producer"


@requirement("5.1-a")
def test_5_1_a_a_queue_session_has_the_common_methods(queue_session: QueueSession, queue: Queue, waits: Waits) -> None:
    consumer = queue_session.createConsumer(queue)
    queue_session.createProducer(queue).send(queue_session.createTextMessage("text"))
    assert take(consumer, waits).getText() == "text"


@requirement("5.1-b")
def test_5_1_b_a_queue_holds_messages_of_all_types(session: Session, queue: Queue, waits: Waits) -> None:
    messages: list[Message] = [
        session.createTextMessage("text"),
        session.createBytesMessage(),
        session.createMapMessage(),
        session.createStreamMessage(),
        session.createObjectMessage([1, 2]),
        session.createMessage(),
    ]
    producer = session.createProducer(queue)
    for message in messages:
        producer.send(message)
    consumer = session.createConsumer(queue)
    received = [consumer.receive(waits.something_ms) for _ in messages]
    kinds = [TextMessage, BytesMessage, MapMessage, StreamMessage, ObjectMessage, Message]
    wrong = [
        f"{type(message).__name__} is no {kind.__name__}"
        for message, kind in zip(received, kinds, strict=True)
        if not isinstance(message, kind)
    ]
    assert wrong == [], "each message arrives, in order, with the type that it was sent with"


@requirement("5.3-a")
def test_5_3_a_a_queue_tells_its_name(make_queue: MakeDestination, session: Session) -> None:
    queue: Queue = make_queue()
    assert isinstance(queue.getQueueName(), str)
    assert queue.getQueueName(), "the name of a queue is not empty"
    assert make_queue().getQueueName() != queue.getQueueName(), "another queue has another name"
    assert session.createQueue(queue.getQueueName()).getQueueName() == queue.getQueueName()


@requirement("5.3-b")
def test_5_3_b_a_queue_has_a_readable_form(queue: Queue) -> None:
    assert queue.getQueueName() in queue.toString(), "the readable form shows the name"
    assert str(queue) == queue.toString()


# --------------------------------------------------------------------------------------------------------- 5.4


@requirement("5.4-a")
def test_5_4_a_a_temporary_queue_is_for_its_connection(
    queue_session: QueueSession, session: Session, connect: Connect, waits: Waits
) -> None:
    temporary = queue_session.createTemporaryQueue()
    assert isinstance(temporary, TemporaryQueue)
    with pytest.raises(JMSException):
        session.createConsumer(temporary)
    send_texts(connect().createSession(False, Session.AUTO_ACKNOWLEDGE), temporary, "from another connection")
    assert take(queue_session.createReceiver(temporary), waits).getText() == "from another connection"


@requirement("5.4-b")
def test_5_4_b_a_deleted_temporary_queue_is_gone(queue_session: QueueSession) -> None:
    temporary = queue_session.createTemporaryQueue()
    temporary.delete()
    with pytest.raises(JMSException):
        queue_session.createReceiver(temporary)


@requirement("5.4-b")
def test_5_4_b_a_temporary_queue_that_has_a_receiver_is_not_deleted(queue_session: QueueSession, waits: Waits) -> None:
    temporary = queue_session.createTemporaryQueue()
    receiver = queue_session.createReceiver(temporary)
    with pytest.raises(JMSException):
        temporary.delete()
    send_texts(queue_session, temporary, "still there")
    assert take(receiver, waits).getText() == "still there"
    receiver.close()
    temporary.delete()


# ---------------------------------------------------------------------------------------------------- 5.5, 5.6


@requirement("5.5-a")
def test_5_5_a_a_new_queue_connection_is_stopped(
    factory: ConnectionFactory, session: Session, queue: Queue, waits: Waits
) -> None:
    with factory.createQueueConnection() as connection:
        _starts_stopped(connection, session, queue, waits)


@requirement("5.5-b")
def test_5_5_b_a_new_queue_connection_with_credentials_is_stopped(
    factory: ConnectionFactory, profile: Profile, session: Session, queue: Queue, waits: Waits
) -> None:
    user_name, password = profile.user_name or "guest", profile.password or "guest"
    with factory.createQueueConnection(user_name, password) as connection:
        _starts_stopped(connection, session, queue, waits)


def _starts_stopped(connection: QueueConnection, session: Session, queue: Queue, waits: Waits) -> None:
    assert isinstance(connection, QueueConnection)
    send_texts(session, queue, "early")
    receiver = connection.createQueueSession(False, Session.AUTO_ACKNOWLEDGE).createReceiver(queue)
    assert leftovers(receiver, waits) == [], "a connection that was not started delivers nothing"
    connection.start()
    assert take_texts(receiver, waits, 1) == ["early"]


@requirement("5.6-a")
@in_each_mode
def test_5_6_a_a_queue_session_has_the_mode_that_was_asked_for(
    queue_connection: QueueConnection, transacted: bool, asked: int, mode: int
) -> None:
    session = queue_connection.createQueueSession(transacted, asked)
    assert isinstance(session, QueueSession)
    assert (session.getTransacted(), session.getAcknowledgeMode()) == (transacted, mode)
