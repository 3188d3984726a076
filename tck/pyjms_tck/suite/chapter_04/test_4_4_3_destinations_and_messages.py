"""What sessions create besides producers and consumers: destinations, temporary ones, messages (4.4.3 to 4.4.5)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pyjms import (
    BytesMessage,
    Connection,
    Destination,
    JMSException,
    MapMessage,
    Message,
    MessageEOFException,
    ObjectMessage,
    Queue,
    Session,
    StreamMessage,
    TemporaryQueue,
    TemporaryTopic,
    TextMessage,
    Topic,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeSession
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_03.foreign import foreign
from pyjms_tck.suite.exchange import leftovers, send_texts, take, take_texts

# ------------------------------------------------------------------------------------------------------- 4.4.3


@requirement("4.4.3-a")
def test_4_4_3_a_a_temporary_queue_carries_messages(session: Session, waits: Waits) -> None:
    temporary = session.createTemporaryQueue()
    assert isinstance(temporary, TemporaryQueue)
    assert temporary.getQueueName(), "a temporary queue has a name"
    send_texts(session, temporary, "one", "two")
    assert take_texts(session.createConsumer(temporary), waits, 2) == ["one", "two"]


@requirement("4.4.3-b")
@needs("TOPICS")
def test_4_4_3_b_a_temporary_topic_carries_messages(session: Session, waits: Waits) -> None:
    temporary = session.createTemporaryTopic()
    assert isinstance(temporary, TemporaryTopic)
    assert temporary.getTopicName(), "a temporary topic has a name"
    consumers = [session.createConsumer(temporary) for _ in range(2)]
    send_texts(session, temporary, "to all")
    assert [take(consumer, waits).getText() for consumer in consumers] == ["to all", "to all"]


@requirement("4.4.3-c")
@pytest.mark.parametrize("kind", ["queue", pytest.param("topic", marks=needs("TOPICS"))])
def test_4_4_3_c_other_connections_cannot_consume_from_a_temporary_destination(
    session: Session, connect: Connect, queue: Queue, waits: Waits, kind: str
) -> None:
    temporary = _temporary(session, kind)
    other = connect(started=True).createSession(False, Session.AUTO_ACKNOWLEDGE)
    with pytest.raises(JMSException):
        other.createConsumer(temporary)
    request = session.createTextMessage("request")
    request.setJMSReplyTo(temporary)
    session.createProducer(queue).send(request)
    reply_to = take(other.createConsumer(queue), waits).getJMSReplyTo()
    assert reply_to is not None, "the request names the temporary destination"
    with pytest.raises(JMSException):
        other.createConsumer(reply_to)
    answers = session.createConsumer(temporary)
    send_texts(other, reply_to, "reply")
    assert take(answers, waits).getText() == "reply", "every connection can send to it"


@requirement("4.4.3-d")
@pytest.mark.parametrize("kind", ["queue", pytest.param("topic", marks=needs("TOPICS"))])
def test_4_4_3_d_all_sessions_of_the_connection_can_consume(
    session: Session, make_session: MakeSession, waits: Waits, kind: str
) -> None:
    temporary = _temporary(session, kind)
    consumer = make_session().createConsumer(temporary)
    send_texts(session, temporary, "text")
    assert take(consumer, waits).getText() == "text"


@requirement("4.4.3-e")
@pytest.mark.parametrize("kind", ["queue", pytest.param("topic", marks=needs("TOPICS"))])
def test_4_4_3_e_every_temporary_destination_is_unique(
    session: Session, connect: Connect, waits: Waits, kind: str
) -> None:
    other = connect().createSession(False, Session.AUTO_ACKNOWLEDGE)
    names = [_name(_temporary(each, kind)) for each in (session, session, other, other)]
    assert len(set(names)) == 4, f"four temporary destinations with four names, not {names}"
    first, second = _temporary(session, kind), _temporary(session, kind)
    consumer = session.createConsumer(second)
    send_texts(session, first, "to the first")
    assert leftovers(consumer, waits) == [], "what is sent to one does not reach another"


@requirement("4.4.3-f")
@pytest.mark.parametrize("kind", ["queue", pytest.param("topic", marks=needs("TOPICS"))])
def test_4_4_3_f_temporary_destinations_end_with_their_connection(
    session: Session, connect: Connect, waits: Waits, kind: str
) -> None:
    owner: Connection = connect(started=True)
    temporary = _temporary(owner.createSession(False, Session.AUTO_ACKNOWLEDGE), kind)
    send_texts(session, temporary, "while its connection is open")
    owner.close()
    waits.until(
        lambda: _is_gone(session, temporary), "sending to the temporary destination of a closed connection failed"
    )


def _temporary(session: Session, kind: str) -> TemporaryQueue | TemporaryTopic:
    return session.createTemporaryQueue() if kind == "queue" else session.createTemporaryTopic()


def _name(temporary: TemporaryQueue | TemporaryTopic) -> str:
    return temporary.getQueueName() if isinstance(temporary, TemporaryQueue) else temporary.getTopicName()


def _is_gone(session: Session, temporary: Destination) -> bool:
    with suppress(JMSException):
        send_texts(session, temporary, "too late")
        return False
    return True


# ------------------------------------------------------------------------------------------------------- 4.4.4


@requirement("4.4.4-a")
def test_4_4_4_a_a_queue_is_made_from_its_name(session: Session, queue: Queue, waits: Waits) -> None:
    made = session.createQueue(queue.getQueueName())
    assert isinstance(made, Queue)
    assert made.getQueueName() == queue.getQueueName()
    send_texts(session, made, "text")
    assert take(session.createConsumer(queue), waits).getText() == "text", "both objects stand for one queue"


@requirement("4.4.4-b")
def test_4_4_4_b_a_topic_is_made_from_its_name(session: Session, topic: Topic, waits: Waits) -> None:
    made = session.createTopic(topic.getTopicName())
    assert isinstance(made, Topic)
    assert made.getTopicName() == topic.getTopicName()
    consumer = session.createConsumer(topic)
    send_texts(session, made, "text")
    assert take(consumer, waits).getText() == "text", "both objects stand for one topic"


# ------------------------------------------------------------------------------------------------------- 4.4.5


@requirement("4.4.5-a")
def test_4_4_5_a_messages_of_all_types_are_new_and_empty(session: Session) -> None:
    text, mapping, thing = session.createTextMessage(), session.createMapMessage(), session.createObjectMessage()
    assert isinstance(text, TextMessage)
    assert text.getText() is None, "a new text message has no text"
    assert isinstance(mapping, MapMessage)
    assert list(mapping.getMapNames()) == [], "a new map message has no entries"
    assert isinstance(thing, ObjectMessage)
    assert thing.getObject() is None, "a new object message has no object"
    stream, content, plain = session.createStreamMessage(), session.createBytesMessage(), session.createMessage()
    assert isinstance(plain, Message)
    assert isinstance(stream, StreamMessage)
    stream.reset()
    with pytest.raises(MessageEOFException):
        stream.readObject()
    assert isinstance(content, BytesMessage)
    content.reset()
    assert content.getBodyLength() == 0, "a new bytes message has no bytes"


@requirement("4.4.5-a")
def test_4_4_5_a_each_call_makes_another_message(session: Session) -> None:
    makers = (
        session.createMessage,
        session.createTextMessage,
        session.createBytesMessage,
        session.createMapMessage,
        session.createStreamMessage,
        session.createObjectMessage,
    )
    for make in makers:
        first, second = make(), make()
        first.setStringProperty("word", "of the first")
        assert second.propertyExists("word") is False, f"{make.__name__} returns a new message each time"


@requirement("4.4.5-b")
def test_4_4_5_b_messages_are_made_with_a_body(session: Session) -> None:
    assert session.createTextMessage("text").getText() == "text"
    assert session.createObjectMessage([1, "two"]).getObject() == [1, "two"]


@requirement("4.4.5-c")
def test_4_4_5_c_a_session_sends_messages_that_another_one_made(
    session: Session, connect: Connect, queue: Queue, waits: Waits
) -> None:
    other = connect().createSession(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.createConsumer(queue)
    session.createProducer(queue).send(other.createTextMessage("made by another connection"))
    received = take(consumer, waits)
    assert received.getText() == "made by another connection"
    other.createProducer(queue).send(received)
    assert take(consumer, waits).getText() == "made by another connection", "a received message can be sent on"


@requirement("4.4.5-c")
def test_4_4_5_c_a_session_sends_messages_of_another_make(session: Session, queue: Queue, waits: Waits) -> None:
    message = foreign(session.createTextMessage("of another make"))
    message.setStringProperty("word", "value")
    session.createProducer(queue).send(message)
    received = take(session.createConsumer(queue), waits)
    assert (received.getText(), received.getStringProperty("word")) == ("of another make", "value")
