"""Topics and the publish/subscribe domain but for durable subscriptions (6.1 to 6.14)."""

from __future__ import annotations

from functools import partial

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    DeliveryMode,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    Session,
    TemporaryTopic,
    TextMessage,
    Topic,
    TopicConnection,
    TopicPublisher,
    TopicRequestor,
    TopicSession,
    TopicSubscriber,
    UnsupportedOperationException,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination, MakeSession, RunBackground
from pyjms_tck.profile import Profile
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import (
    INVALID_SELECTOR,
    NO_DESTINATION,
    Collector,
    DurableClient,
    Holding,
    in_each_mode,
    leftovers,
    send_numbers,
    send_texts,
    sent_as,
    take,
    take_texts,
)


@requirement("6.1-a")
def test_6_1_a_the_common_interfaces_receive_what_the_topic_interfaces_publish(
    topic_session: TopicSession, session: Session, topic: Topic, waits: Waits
) -> None:
    # The consumer first, here and below: a nondurable one gets only messages published while it is active (§6.3).
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
    # Sent first: a topic that keeps messages, as a queue does, would deliver this one.
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
    # A provider that gives all topics one name would pass the other checks.
    assert make_topic().getTopicName() != topic.getTopicName(), "another topic has another name"
    assert session.createTopic(topic.getTopicName()).getTopicName() == topic.getTopicName()


@requirement("6.5-b")
def test_6_5_b_a_topic_has_a_readable_form(topic: Topic) -> None:
    assert topic.getTopicName() in topic.toString(), "the readable form shows the name"
    assert str(topic) == topic.toString()


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
        # The session that made the topic ends; the connection stays.
        making.close()
        other = connection.createTopicSession(False, Session.AUTO_ACKNOWLEDGE)
        subscriber = other.createSubscriber(temporary)
        send_texts(session, temporary, "text")
        assert take(subscriber, waits).getText() == "text", "it outlives the session that made it"
    # A broker may take a moment to delete the remains of a connection.
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
    # Without a subscriber the same call must work: the refusal was for the subscriber's sake.
    subscriber.close()
    temporary.delete()


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
    # A stopped connection already has its subscription: the message that comes now is delivered after the start.
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


HOUR_MS = 3_600_000
OPTIONS = (DeliveryMode.NON_PERSISTENT, 8, HOUR_MS)


@requirement("6.9-a")
@needs("DURABLE_SUBSCRIPTIONS")
def test_6_9_a_what_was_not_acknowledged_comes_again_to_durable_subscribers(
    durable: DurableClient, topic: Topic, waits: Waits
) -> None:
    connection = durable.open_topic()
    session = connection.create_topic_session(False, Session.CLIENT_ACKNOWLEDGE)
    subscriber = session.create_durable_subscriber(topic, durable.name)
    send_texts(session, topic, "one", "two")
    assert take_texts(subscriber, waits, 2) == ["one", "two"]
    # The session alone is closed: the connection keeps the client identifier that the subscription belongs to.
    session.close()
    session = connection.create_topic_session(False, Session.CLIENT_ACKNOWLEDGE)
    subscriber = session.create_durable_subscriber(topic, durable.name)
    again = [(message.text, message.jms_redelivered) for message in (take(subscriber, waits), take(subscriber, waits))]
    assert again == [("one", True), ("two", True)], "both come again, in their order, marked as redelivered"


@requirement("6.9-b")
def test_6_9_b_a_topic_session_makes_topics_from_their_names(
    topic_session: TopicSession, topic: Topic, waits: Waits
) -> None:
    made = topic_session.create_topic(topic.topic_name)
    assert isinstance(made, Topic)
    assert made.topic_name == topic.topic_name
    subscriber = topic_session.create_subscriber(topic)
    send_texts(topic_session, made, "text")
    assert take(subscriber, waits).text == "text"


@requirement("6.9-c")
def test_6_9_c_a_subscriber_gets_the_messages_of_its_topic(
    topic_session: TopicSession, make_topic: MakeDestination, waits: Waits
) -> None:
    ours, other = make_topic(), make_topic()
    subscriber = topic_session.create_subscriber(ours)
    assert isinstance(subscriber, TopicSubscriber)
    # The other topic's message is sent first: a subscriber that gets everything would show it first.
    send_texts(topic_session, other, "for the other topic")
    send_texts(topic_session, ours, "for our topic")
    assert take(subscriber, waits).text == "for our topic"
    assert leftovers(subscriber, waits) == []


@requirement("6.9-c")
@needs("SELECTORS", "NO_LOCAL")
@pytest.mark.parametrize("no_local", [False, True])
def test_6_9_c_a_subscriber_has_the_given_selector_and_no_local(
    topic_session: TopicSession, session: Session, topic: Topic, waits: Waits, no_local: bool
) -> None:
    subscriber = topic_session.create_subscriber(topic, "number > 1", no_local)
    assert (subscriber.message_selector, subscriber.no_local) == ("number > 1", no_local)
    # The own connection first: where noLocal is not heeded, its messages are the next ones.
    send_numbers(topic_session, topic)
    send_numbers(session, topic)
    expected = ["2", "3"] if no_local else ["2", "3", "2", "3"]
    assert take_texts(subscriber, waits, len(expected)) == expected
    assert leftovers(subscriber, waits) == []


@requirement("6.9-d")
def test_6_9_d_a_subscriber_needs_a_topic(topic_session: TopicSession) -> None:
    with pytest.raises(InvalidDestinationException):
        topic_session.create_subscriber(NO_DESTINATION)


@requirement("6.9-d")
@needs("SELECTORS")
def test_6_9_d_a_subscriber_with_a_selector_needs_a_topic(topic_session: TopicSession) -> None:
    with pytest.raises(InvalidDestinationException):
        topic_session.create_subscriber(NO_DESTINATION, "number > 1", False)


@requirement("6.9-e")
@needs("TOPICS")
def test_6_9_e_a_subscriber_needs_a_valid_selector(topic_session: TopicSession, topic: Topic) -> None:
    with pytest.raises(InvalidSelectorException):
        topic_session.create_subscriber(topic, INVALID_SELECTOR, False)


@requirement("6.9-f")
def test_6_9_f_a_publisher_is_made_for_a_topic_or_for_none(topic_session: TopicSession, topic: Topic) -> None:
    publisher = topic_session.create_publisher(topic)
    assert isinstance(publisher, TopicPublisher)
    assert publisher.topic is not None, "the publisher has the topic that it was made for"
    assert publisher.topic.topic_name == topic.topic_name
    assert topic_session.create_publisher(None).topic is None, "a publisher without topic"


@requirement("6.9-g")
@needs("TEMPORARY_DESTINATIONS")
def test_6_9_g_a_publisher_needs_a_topic_that_exists(topic_session: TopicSession) -> None:
    # A deleted temporary topic is the one topic that no broker creates again at first use.
    deleted = topic_session.create_temporary_topic()
    deleted.delete()
    # Both calls: a provider may ask the broker when the publisher is made, or when it publishes.
    with pytest.raises(InvalidDestinationException):
        topic_session.create_publisher(deleted).publish(topic_session.create_text_message("text"))


@requirement("6.9-h")
@needs("TOPICS")
def test_6_9_h_a_temporary_topic_lives_as_long_as_its_connection(
    topic_connection: TopicConnection, waits: Waits
) -> None:
    session = topic_connection.create_topic_session(False, Session.AUTO_ACKNOWLEDGE)
    temporary = session.create_temporary_topic()
    assert isinstance(temporary, TemporaryTopic)
    session.close()
    other = topic_connection.create_topic_session(False, Session.AUTO_ACKNOWLEDGE)
    subscriber = other.create_subscriber(temporary)
    send_texts(other, temporary, "text")
    assert take(subscriber, waits).text == "text", "it outlives the session that made it"


@requirement("6.10-a")
def test_6_10_a_a_publisher_publishes_to_its_topic(topic_session: TopicSession, topic: Topic, waits: Waits) -> None:
    publisher, subscriber = topic_session.create_publisher(topic), topic_session.create_subscriber(topic)
    publisher.publish(topic_session.create_text_message("with the defaults"))
    assert sent_as(take(subscriber, waits)) == ("with the defaults", DeliveryMode.PERSISTENT, 4, None)
    publisher.publish(topic_session.create_text_message("with options"), *OPTIONS)
    assert sent_as(take(subscriber, waits)) == ("with options", *OPTIONS)


@requirement("6.10-b")
def test_6_10_b_a_publisher_without_topic_publishes_to_the_given_one(
    topic_session: TopicSession, make_topic: MakeDestination, waits: Waits
) -> None:
    publisher = topic_session.create_publisher(None)
    for topic in (make_topic(), make_topic()):
        subscriber = topic_session.create_subscriber(topic)
        publisher.publish(topic, topic_session.create_text_message("with the defaults"))
        assert sent_as(take(subscriber, waits)) == ("with the defaults", DeliveryMode.PERSISTENT, 4, None)
        publisher.publish(topic, topic_session.create_text_message("with options"), *OPTIONS)
        assert sent_as(take(subscriber, waits)) == ("with options", *OPTIONS)


@requirement("6.10-c")
def test_6_10_c_a_publisher_tells_its_topic(topic_session: TopicSession, topic: Topic) -> None:
    publisher = topic_session.create_publisher(topic)
    assert publisher.topic is not None, "the topic of the publisher"
    assert publisher.topic.topic_name == topic.topic_name


@requirement("6.10-d")
@pytest.mark.parametrize("more", [(), OPTIONS], ids=["publish(message)", "publish(message, mode, priority, time)"])
def test_6_10_d_a_publisher_without_topic_needs_one(topic_session: TopicSession, more: tuple[int, ...]) -> None:
    publisher, message = topic_session.create_publisher(None), topic_session.create_text_message("text")
    with pytest.raises(UnsupportedOperationException):
        publisher.publish(message, *more)


@requirement("6.11-a")
def test_6_11_a_a_subscription_ends_with_its_subscriber(
    topic_session: TopicSession, topic: Topic, waits: Waits
) -> None:
    first = topic_session.create_subscriber(topic)
    # Published while the first subscriber is there: the message is in its subscription when that ends.
    send_texts(topic_session, topic, "not received by the first")
    first.close()
    second = topic_session.create_subscriber(topic)
    assert leftovers(second, waits) == [], "its undelivered messages ended with the first subscriber"
    send_texts(topic_session, topic, "for the second")
    assert take(second, waits).text == "for the second"


@requirement("6.11-a")
def test_6_11_a_subscribers_of_all_sessions_have_subscriptions_of_their_own(
    connect: Connect, topic: Topic, waits: Waits
) -> None:
    # A connection for each, all without a client identifier: a provider must not take them for one subscriber.
    sessions = [connect(started=True).create_session(False, Session.AUTO_ACKNOWLEDGE) for _ in range(3)]
    consumers = [session.create_consumer(topic) for session in sessions]
    send_texts(sessions[0], topic, "one", "two")
    assert [take_texts(consumer, waits, 2) for consumer in consumers] == [["one", "two"]] * 3


@requirement("6.11-b")
@needs("TOPICS")
def test_6_11_b_a_selector_keeps_messages_from_its_subscriber(
    topic_session: TopicSession, topic: Topic, waits: Waits
) -> None:
    choosing = topic_session.create_subscriber(topic, "number = 2", False)
    # A second subscriber shows that the messages came, and that the selector is the first one's alone.
    everything = topic_session.create_subscriber(topic)
    send_numbers(topic_session, topic)
    assert take_texts(choosing, waits, 1) == ["2"]
    assert leftovers(choosing, waits) == [], "the others are never delivered to it"
    assert take_texts(everything, waits, 3) == ["1", "2", "3"], "a subscriber without selector gets all"


@requirement("6.11-c")
@pytest.mark.parametrize("domain", ["common", "topic"])
def test_6_11_c_no_local_leaves_out_what_the_own_connection_publishes(
    topic_connection: TopicConnection, session: Session, topic: Topic, waits: Waits, domain: str
) -> None:
    subscribing = topic_connection.create_topic_session(False, Session.AUTO_ACKNOWLEDGE)
    if domain == "common":
        subscriber = subscribing.create_consumer(topic, None, True)
    else:
        subscriber = subscribing.create_subscriber(topic, None, True)
    # Another session of the same connection: noLocal is about connections, not sessions (§6.11).
    publishing = topic_connection.create_topic_session(False, Session.AUTO_ACKNOWLEDGE)
    send_texts(publishing, topic, "of the own connection, another session")
    send_texts(subscribing, topic, "of the own connection, the same session")
    send_texts(session, topic, "of another connection")
    assert take(subscriber, waits).text == "of another connection"
    assert leftovers(subscriber, waits) == []


@requirement("6.11-d")
def test_6_11_d_acknowledging_one_copy_leaves_the_others(
    session: Session, make_session: MakeSession, topic: Topic, waits: Waits
) -> None:
    first, second = (make_session(False, Session.CLIENT_ACKNOWLEDGE) for _ in range(2))
    consumers = [first.create_consumer(topic), second.create_consumer(topic)]
    send_texts(session, topic, "one", "two")
    take(consumers[0], waits).acknowledge()
    assert take(consumers[1], waits).text == "one"
    # The second session gets its copy again, although the first one's is acknowledged.
    second.recover()
    again = take(consumers[1], waits)
    assert (again.text, again.jms_redelivered) == ("one", True), "nobody acknowledged the copy of the second"
    rest = take(consumers[0], waits)
    assert (rest.text, rest.jms_redelivered) == ("two", False), "the recovery of the second does not touch the first"


@requirement("6.11-d")
def test_6_11_d_delaying_one_copy_does_not_delay_the_others(
    session: Session, make_session: MakeSession, topic: Topic, waits: Waits
) -> None:
    with Holding(waits) as slow:
        quick = Collector()
        # A session for each: the listeners of one session run one after the other (§4.4.14).
        make_session().create_consumer(topic).message_listener = slow
        make_session().create_consumer(topic).message_listener = quick
        send_texts(session, topic, "one", "two", "three")
        slow.wait_until_entered()
        assert quick.wait_for(3, waits) == ["one", "two", "three"], "while the other subscriber keeps the first message"


@requirement("6.11-d")
def test_6_11_d_changing_one_copy_does_not_change_the_others(
    session: Session, make_session: MakeSession, topic: Topic, waits: Waits
) -> None:
    consumers = [session.create_consumer(topic), make_session().create_consumer(topic)]
    send_texts(session, topic, "text")
    first = take(consumers[0], waits)
    # A broker in the same process could hand one object to both subscribers.
    first.clear_body()
    first.text = "changed"
    assert take(consumers[1], waits).text == "text"


@requirement("6.11-e")
def test_6_11_e_two_subscribers_of_one_session_get_a_copy_each(
    topic_session: TopicSession, topic: Topic, waits: Waits
) -> None:
    first, second = topic_session.create_subscriber(topic), topic_session.create_subscriber(topic)
    send_texts(topic_session, topic, "one", "two")
    assert [take_texts(each, waits, 2) for each in (first, second)] == [["one", "two"], ["one", "two"]]
    assert [leftovers(each, waits) for each in (first, second)] == [[], []], "no more than one copy"


@requirement("6.11-f")
def test_6_11_f_a_subscriber_tells_its_topic(topic_session: TopicSession, topic: Topic) -> None:
    assert topic_session.create_subscriber(topic).topic.topic_name == topic.topic_name


@requirement("6.11-g")
@needs("TOPICS")
def test_6_11_g_a_subscriber_tells_its_no_local(topic_session: TopicSession, topic: Topic) -> None:
    assert topic_session.create_subscriber(topic).no_local is False, "by default"
    assert topic_session.create_subscriber(topic, None, False).no_local is False
    assert topic_session.create_subscriber(topic, None, True).no_local is True


@requirement("6.12-a")
def test_6_12_a_a_nondurable_subscriber_recovers_while_it_lives(
    session: Session, make_session: MakeSession, topic: Topic, waits: Waits
) -> None:
    acknowledging = make_session(False, Session.CLIENT_ACKNOWLEDGE)
    consumer = acknowledging.create_consumer(topic)
    send_texts(session, topic, "one", "two")
    assert take_texts(consumer, waits, 2) == ["one", "two"]
    acknowledging.recover()
    again = [(message.text, message.jms_redelivered) for message in (take(consumer, waits), take(consumer, waits))]
    assert again == [("one", True), ("two", True)]


@requirement("6.12-a", "6.12-c")
@pytest.mark.parametrize("mode", list(DeliveryMode))
def test_6_12_a_what_a_nondurable_subscriber_did_not_acknowledge_ends_with_it(
    session: Session, make_session: MakeSession, topic: Topic, waits: Waits, mode: DeliveryMode
) -> None:
    acknowledging = make_session(False, Session.CLIENT_ACKNOWLEDGE)
    consumer = acknowledging.create_consumer(topic)
    session.create_producer(topic).send(session.create_text_message("text"), mode, 4, 0)
    take(consumer, waits)
    # Closing would give the message back to a queue or to a durable subscription; here nothing must keep it.
    acknowledging.close()
    later = make_session().create_consumer(topic)
    assert leftovers(later, waits) == [], f"{mode.name} messages are not kept for subscribers that come later"


@requirement("6.12-c")
def test_6_12_c_persistent_messages_do_not_wait_for_a_nondurable_subscriber(
    session: Session, topic: Topic, waits: Waits
) -> None:
    consumer = session.create_consumer(topic)
    consumer.close()
    session.create_producer(topic).send(session.create_text_message("text"), DeliveryMode.PERSISTENT, 4, 0)
    assert leftovers(session.create_consumer(topic), waits) == []


@pytest.fixture
def other(connect: Connect) -> Connection:
    """The connection of the replying client."""
    return connect(started=True)


@requirement("6.14-a", "6.14-b")
def test_6_14_a_a_request_returns_its_reply(
    topic_session: TopicSession, other: Connection, topic: Topic, background: RunBackground, waits: Waits
) -> None:
    requestor = TopicRequestor(topic_session, topic)
    replying = other.createSession(False, Session.AUTO_ACKNOWLEDGE)
    # Before the first request: the topic keeps no request for a consumer that comes later.
    requests = replying.createConsumer(topic)
    # Twice: the requestor must still have its temporary topic, and the second reply must not be the first one.
    for number in (1, 2):
        # `request` waits for the reply, which this thread publishes.
        asking = background(partial(requestor.request, topic_session.createTextMessage(f"request {number}")))
        request = take(requests, waits, "the request")
        assert request.getText() == f"request {number}"
        assert isinstance(request.getJMSReplyTo(), TemporaryTopic), "JMSReplyTo is a temporary topic"
        with replying.createProducer(request.getJMSReplyTo()) as producer:
            producer.send(replying.createTextMessage(f"reply {number}"))
        reply = asking.result()
        assert isinstance(reply, TextMessage), "request returns the reply"
        assert reply.getText() == f"reply {number}"


@requirement("6.14-b")
@needs("TRANSACTIONS")
def test_6_14_b_a_requestor_is_of_no_use_to_a_transacted_session(
    topic_connection: TopicConnection, topic: Topic
) -> None:
    session = topic_connection.createTopicSession(True, Session.SESSION_TRANSACTED)
    with pytest.raises(JMSException):
        TopicRequestor(session, topic)


@requirement("6.14-c")
@needs("TOPICS")
def test_6_14_c_a_requestor_needs_a_topic(topic_session: TopicSession) -> None:
    with pytest.raises(InvalidDestinationException):
        TopicRequestor(topic_session, NO_DESTINATION)


@requirement("6.14-d")
def test_6_14_d_closing_a_requestor_closes_its_session(topic_session: TopicSession, topic: Topic) -> None:
    requestor, message = TopicRequestor(topic_session, topic), topic_session.createTextMessage("request")
    requestor.close()
    with pytest.raises(IllegalStateException):
        topic_session.createTextMessage()
    with pytest.raises(JMSException):
        requestor.request(message)
