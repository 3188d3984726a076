"""Topic sessions, publishers and nondurable subscribers (6.9 to 6.12)."""

from __future__ import annotations

import pytest

from pyjms import (
    DeliveryMode,
    InvalidDestinationException,
    InvalidSelectorException,
    Session,
    TemporaryTopic,
    Topic,
    TopicConnection,
    TopicPublisher,
    TopicSession,
    TopicSubscriber,
    UnsupportedOperationException,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination, MakeSession
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import (
    INVALID_SELECTOR,
    NO_DESTINATION,
    Collector,
    Holding,
    leftovers,
    send_numbers,
    send_texts,
    sent_as,
    take,
    take_texts,
)
from pyjms_tck.suite.subscriptions import DurableClient

HOUR_MS = 3_600_000
OPTIONS = (DeliveryMode.NON_PERSISTENT, 8, HOUR_MS)

# --------------------------------------------------------------------------------------------------------- 6.9


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
    deleted = topic_session.create_temporary_topic()
    deleted.delete()
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


# --------------------------------------------------------------------------------------------- 6.10 publishers


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


# -------------------------------------------------------------------------------------------- 6.11 subscribers


@requirement("6.11-a")
def test_6_11_a_a_subscription_ends_with_its_subscriber(
    topic_session: TopicSession, topic: Topic, waits: Waits
) -> None:
    first = topic_session.create_subscriber(topic)
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


# ----------------------------------------------------------------------------------------------- 6.12 recovery


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
