"""Topics, temporary topics, and connections of the publish/subscribe domain (6.1 to 6.8)."""

from __future__ import annotations

import pytest

from pyjms import (
    ConnectionFactory,
    JMSException,
    Session,
    TemporaryTopic,
    Topic,
    TopicConnection,
    TopicSession,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination
from pyjms_tck.profile import Profile
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import leftovers, send_texts, take, take_texts
from pyjms_tck.suite.modes import in_each_mode

# -------------------------------------------------------------------------------------------- 6.1, 6.3, 6.5


@requirement("6.1-a")
def test_6_1_a_the_common_interfaces_receive_what_the_topic_interfaces_publish(
    topic_session: TopicSession, session: Session, topic: Topic, waits: Waits
) -> None:
    consumer = session.createConsumer(topic)
    topic_session.createPublisher(topic).publish(topic_session.createTextMessage("from a publisher"))
    assert take(consumer, waits).getText() == "from a publisher"


@requirement("6.1-a")
def test_6_1_a_the_topic_interfaces_receive_what_the_common_interfaces_send(
    topic_session: TopicSession, session: Session, topic: Topic, waits: Waits
) -> None:
    subscriber = topic_session.createSubscriber(topic)
    send_texts(session, topic, "from a producer")
    assert take(subscriber, waits).getText() == "from a producer"


@requirement("6.1-a")
def test_6_1_a_a_topic_session_has_the_common_methods(topic_session: TopicSession, topic: Topic, waits: Waits) -> None:
    consumer = topic_session.createConsumer(topic)
    topic_session.createProducer(topic).send(topic_session.createTextMessage("text"))
    assert take(consumer, waits).getText() == "text"


@requirement("6.3-b")
@pytest.mark.parametrize("domain", ["common", "topic"])
def test_6_3_b_a_nondurable_subscriber_gets_what_is_published_while_it_is_active(
    topic_session: TopicSession, session: Session, topic: Topic, waits: Waits, domain: str
) -> None:
    send_texts(session, topic, "before")
    subscriber = session.createConsumer(topic) if domain == "common" else topic_session.createSubscriber(topic)
    send_texts(session, topic, "while active")
    assert take(subscriber, waits).getText() == "while active", "nothing that was published before it was there"
    subscriber.close()
    send_texts(session, topic, "after")
    again = session.createConsumer(topic) if domain == "common" else topic_session.createSubscriber(topic)
    assert leftovers(again, waits) == [], "nothing that was published while no subscriber was there"


@requirement("6.5-a")
def test_6_5_a_a_topic_tells_its_name(make_topic: MakeDestination, session: Session) -> None:
    topic: Topic = make_topic()
    assert isinstance(topic.getTopicName(), str)
    assert topic.getTopicName(), "the name of a topic is not empty"
    assert make_topic().getTopicName() != topic.getTopicName(), "another topic has another name"
    assert session.createTopic(topic.getTopicName()).getTopicName() == topic.getTopicName()


@requirement("6.5-b")
def test_6_5_b_a_topic_has_a_readable_form(topic: Topic) -> None:
    assert topic.getTopicName() in topic.toString(), "the readable form shows the name"
    assert str(topic) == topic.toString()


# --------------------------------------------------------------------------------------------------------- 6.6


@requirement("6.6-a")
@needs("TOPICS")
def test_6_6_a_a_temporary_topic_lives_as_long_as_its_connection(
    factory: ConnectionFactory, session: Session, waits: Waits
) -> None:
    with factory.createTopicConnection() as connection:
        connection.start()
        making = connection.createTopicSession(False, Session.AUTO_ACKNOWLEDGE)
        temporary = making.createTemporaryTopic()
        assert isinstance(temporary, TemporaryTopic)
        making.close()
        other = connection.createTopicSession(False, Session.AUTO_ACKNOWLEDGE)
        subscriber = other.createSubscriber(temporary)
        send_texts(session, temporary, "text")
        assert take(subscriber, waits).getText() == "text", "it outlives the session that made it"
    waits.until(lambda: _refuses(session, temporary), "publishing to it failed after its connection was closed")


def _refuses(session: Session, topic: Topic) -> bool:
    try:
        send_texts(session, topic, "too late")
    except JMSException:
        return True
    return False


@requirement("6.6-b")
@needs("TOPICS")
def test_6_6_b_a_temporary_topic_is_for_its_connection(
    topic_session: TopicSession, connect: Connect, waits: Waits
) -> None:
    temporary = topic_session.createTemporaryTopic()
    other = connect(started=True).createSession(False, Session.AUTO_ACKNOWLEDGE)
    with pytest.raises(JMSException):
        other.createConsumer(temporary)
    subscriber = topic_session.createSubscriber(temporary)
    send_texts(other, temporary, "from another connection")
    assert take(subscriber, waits).getText() == "from another connection", "other connections can publish to it"


@requirement("6.6-c")
@needs("TOPICS")
def test_6_6_c_a_deleted_temporary_topic_is_gone(topic_session: TopicSession) -> None:
    temporary = topic_session.createTemporaryTopic()
    temporary.delete()
    with pytest.raises(JMSException):
        topic_session.createSubscriber(temporary)


@requirement("6.6-c")
@needs("TOPICS")
def test_6_6_c_a_temporary_topic_that_has_a_subscriber_is_not_deleted(
    topic_session: TopicSession, waits: Waits
) -> None:
    temporary = topic_session.createTemporaryTopic()
    subscriber = topic_session.createSubscriber(temporary)
    with pytest.raises(JMSException):
        temporary.delete()
    send_texts(topic_session, temporary, "still there")
    assert take(subscriber, waits).getText() == "still there"
    subscriber.close()
    temporary.delete()


# ---------------------------------------------------------------------------------------------------- 6.7, 6.8


@requirement("6.7-a")
def test_6_7_a_a_new_topic_connection_is_stopped(
    factory: ConnectionFactory, session: Session, topic: Topic, waits: Waits
) -> None:
    with factory.createTopicConnection() as connection:
        _starts_stopped(connection, session, topic, waits)


@requirement("6.7-b")
def test_6_7_b_a_new_topic_connection_with_credentials_is_stopped(
    factory: ConnectionFactory, profile: Profile, session: Session, topic: Topic, waits: Waits
) -> None:
    user_name, password = profile.user_name or "guest", profile.password or "guest"
    with factory.createTopicConnection(user_name, password) as connection:
        _starts_stopped(connection, session, topic, waits)


def _starts_stopped(connection: TopicConnection, session: Session, topic: Topic, waits: Waits) -> None:
    assert isinstance(connection, TopicConnection)
    subscriber = connection.createTopicSession(False, Session.AUTO_ACKNOWLEDGE).createSubscriber(topic)
    send_texts(session, topic, "early")
    assert leftovers(subscriber, waits) == [], "a connection that was not started delivers nothing"
    connection.start()
    assert take_texts(subscriber, waits, 1) == ["early"], "the subscription was there before the start"


@requirement("6.8-a")
@in_each_mode
def test_6_8_a_a_topic_session_has_the_mode_that_was_asked_for(
    topic_connection: TopicConnection, transacted: bool, asked: int, mode: int
) -> None:
    session = topic_connection.createTopicSession(transacted, asked)
    assert isinstance(session, TopicSession)
    assert (session.getTransacted(), session.getAcknowledgeMode()) == (transacted, mode)
