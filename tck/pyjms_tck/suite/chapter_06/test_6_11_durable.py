"""Durable subscriptions (6.3, 6.11.1, 6.12)."""

from __future__ import annotations

import pytest

from pyjms import (
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    Session,
    Topic,
    TopicSubscriber,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeDestination, MakeName
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import (
    INVALID_SELECTOR,
    NO_DESTINATION,
    DurableClient,
    leftovers,
    send_numbers,
    send_texts,
    take,
    take_texts,
)


def _session(client: DurableClient, mode: int = Session.AUTO_ACKNOWLEDGE) -> Session:
    """Return a session of a new connection of the client; the one before is closed."""
    return client.open().createSession(False, mode)


@requirement("6.3-a")
def test_6_3_a_a_client_creates_and_deletes_a_durable_subscription(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    ours = _session(durable)
    subscriber = ours.createDurableSubscriber(topic, durable.name)
    send_texts(session, topic, "received")
    assert take(subscriber, waits).getText() == "received"
    # A subscription with an active subscriber cannot be deleted (§6.11.1).
    subscriber.close()
    send_texts(session, topic, "deleted with the subscription")
    ours.unsubscribe(durable.name)
    assert leftovers(ours.createDurableSubscriber(topic, durable.name), waits) == [], "the new subscription is empty"


@requirement("6.3-c")
def test_6_3_c_a_later_subscriber_goes_on_where_the_last_one_stopped(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    subscriber = _session(durable).createDurableSubscriber(topic, durable.name)
    send_texts(session, topic, "one", "two", "three")
    assert take_texts(subscriber, waits, 2) == ["one", "two"]
    # "three" may be with the first subscriber already, "four" comes behind it: both belong to the next one, in order.
    send_texts(session, topic, "four")
    subscriber = _session(durable).createDurableSubscriber(topic, durable.name)
    assert take_texts(subscriber, waits, 2) == ["three", "four"], "for the subscriber of the next connection"
    assert leftovers(subscriber, waits) == []


@requirement("6.3-d")
def test_6_3_d_a_subscription_keeps_messages_while_nobody_receives(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    _session(durable).createDurableSubscriber(topic, durable.name)
    # The connection is closed, not only the subscriber: no client is there to keep the messages.
    durable.close()
    send_texts(session, topic, "one", "two", "three")
    subscriber = _session(durable).createDurableSubscriber(topic, durable.name)
    assert take_texts(subscriber, waits, 3) == ["one", "two", "three"]


@requirement("6.3-d")
@needs("EXPIRATION")
def test_6_3_d_a_subscription_drops_what_expires(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    _session(durable).createDurableSubscriber(topic, durable.name)
    durable.close()
    producer = session.createProducer(topic)
    message = session.createTextMessage("expires")
    # Half of the pause below; and not 0, which would mean that the message never expires.
    producer.setTimeToLive(max(1, waits.nothing_ms // 2))
    producer.send(message)
    producer.setTimeToLive(0)
    producer.send(session.createTextMessage("stays"))
    waits.pause()
    subscriber = _session(durable).createDurableSubscriber(topic, durable.name)
    assert take(subscriber, waits).getText() == "stays"


@requirement("6.11.1-a")
def test_6_11_1_a_messages_stay_until_they_are_acknowledged(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    # CLIENT_ACKNOWLEDGE, and a new connection each time: what was only delivered must stay in the subscription.
    subscriber = _session(durable, Session.CLIENT_ACKNOWLEDGE).createDurableSubscriber(topic, durable.name)
    send_texts(session, topic, "one", "two")
    take(subscriber, waits).acknowledge()
    assert take(subscriber, waits).getText() == "two"
    subscriber = _session(durable, Session.CLIENT_ACKNOWLEDGE).createDurableSubscriber(topic, durable.name)
    again = take(subscriber, waits)
    assert again.getText() == "two", "what was not acknowledged stays in the subscription"
    again.acknowledge()
    subscriber = _session(durable).createDurableSubscriber(topic, durable.name)
    assert leftovers(subscriber, waits) == [], "what was acknowledged is gone"


@requirement("6.11.1-a")
@pytest.mark.parametrize("which", ["the same session", "another session"])
def test_6_11_1_a_a_subscription_has_one_subscriber_at_a_time(
    durable: DurableClient, topic: Topic, waits: Waits, which: str
) -> None:
    # One connection: a second one could not have the same client identifier (§4.3.2).
    connection = durable.open()
    first = connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    subscriber = first.createDurableSubscriber(topic, durable.name)
    second = first if which == "the same session" else connection.createSession(False, Session.AUTO_ACKNOWLEDGE)
    with pytest.raises(JMSException):
        second.createDurableSubscriber(topic, durable.name)
    send_texts(first, topic, "text")
    assert take(subscriber, waits).getText() == "text", "the refused attempt changes nothing"
    subscriber.close()
    send_texts(first, topic, "for the next subscriber")
    assert take(second.createDurableSubscriber(topic, durable.name), waits).getText() == "for the next subscriber"


@requirement("6.11.1-b")
def test_6_11_1_b_another_topic_makes_a_new_subscription(
    durable: DurableClient, session: Session, make_topic: MakeDestination, waits: Waits
) -> None:
    old, new = make_topic(), make_topic()
    ours = _session(durable)
    ours.createDurableSubscriber(old, durable.name).close()
    send_texts(session, old, "for the old subscription")
    subscriber = ours.createDurableSubscriber(new, durable.name)
    # To the old topic first: a subscription that kept it would show this message first.
    send_texts(session, old, "to the old topic")
    send_texts(session, new, "to the new topic")
    assert take(subscriber, waits).getText() == "to the new topic", "the old subscription is gone, with its messages"
    assert leftovers(subscriber, waits) == []


@requirement("6.11.1-b")
@needs("SELECTORS")
def test_6_11_1_b_another_selector_makes_a_new_subscription(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    ours = _session(durable)
    ours.createDurableSubscriber(topic, durable.name, "number < 3", False).close()
    send_numbers(session, topic)
    subscriber = ours.createDurableSubscriber(topic, durable.name, "number > 1", False)
    # "2" and "3" of the first round fit the new selector: a subscription that was only altered would deliver them.
    assert leftovers(subscriber, waits) == [], "the old subscription is gone, with its messages"
    send_numbers(session, topic)
    assert take_texts(subscriber, waits, 2) == ["2", "3"], "the new selector chooses"


@requirement("6.11.1-b")
@needs("SELECTORS")
def test_6_11_1_b_the_same_selector_keeps_the_subscription(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    ours = _session(durable)
    ours.createDurableSubscriber(topic, durable.name, "number > 1", False).close()
    send_numbers(session, topic)
    subscriber = ours.createDurableSubscriber(topic, durable.name, "number > 1", False)
    assert take_texts(subscriber, waits, 2) == ["2", "3"]


@requirement("6.11.1-b")
@needs("NO_LOCAL")
def test_6_11_1_b_another_no_local_makes_a_new_subscription(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    ours = _session(durable)
    ours.createDurableSubscriber(topic, durable.name, None, False).close()
    # By another connection, so that noLocal alone would not leave it out.
    send_texts(session, topic, "for the old subscription")
    subscriber = ours.createDurableSubscriber(topic, durable.name, None, True)
    send_texts(ours, topic, "of the own connection")
    send_texts(session, topic, "of another connection")
    assert take(subscriber, waits).getText() == "of another connection"
    assert leftovers(subscriber, waits) == []


@requirement("6.11.1-c")
def test_6_11_1_c_unsubscribe_deletes_the_subscription_with_its_messages(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    ours = durable.open_topic().createTopicSession(False, Session.AUTO_ACKNOWLEDGE)
    ours.createDurableSubscriber(topic, durable.name).close()
    send_texts(session, topic, "for the old subscription")
    ours.unsubscribe(durable.name)
    assert leftovers(ours.createDurableSubscriber(topic, durable.name), waits) == []


@requirement("6.11.1-c")
def test_6_11_1_c_a_subscription_with_an_active_subscriber_is_not_deleted(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    ours = _session(durable)
    subscriber = ours.createDurableSubscriber(topic, durable.name)
    with pytest.raises(JMSException):
        ours.unsubscribe(durable.name)
    send_texts(session, topic, "text")
    assert take(subscriber, waits).getText() == "text", "the refused call changes nothing"
    # Without a subscriber the same call must work: the refusal was for the subscriber's sake.
    subscriber.close()
    ours.unsubscribe(durable.name)


@requirement("6.11.1-d")
def test_6_11_1_d_there_must_be_a_subscription_to_end(
    durable: DurableClient, topic: Topic, make_name: MakeName
) -> None:
    ours = _session(durable)
    with pytest.raises(InvalidDestinationException):
        ours.unsubscribe(make_name("never_made"))
    # A subscription that was just deleted is as unknown as one that never was.
    ours.createDurableSubscriber(topic, durable.name).close()
    ours.unsubscribe(durable.name)
    with pytest.raises(InvalidDestinationException):
        ours.unsubscribe(durable.name)
    topics = durable.open_topic().createTopicSession(False, Session.AUTO_ACKNOWLEDGE)
    with pytest.raises(InvalidDestinationException):
        topics.unsubscribe(durable.name)


@requirement("6.11.1-e")
@pytest.mark.parametrize("change", ["topic", pytest.param("selector", marks=needs("SELECTORS"))])
def test_6_11_1_e_a_subscription_in_use_is_not_replaced(
    durable: DurableClient, session: Session, make_topic: MakeDestination, waits: Waits, change: str
) -> None:
    topic, other = make_topic(), make_topic()
    ours = _session(durable)
    subscriber = ours.createDurableSubscriber(topic, durable.name)
    with pytest.raises(JMSException):
        if change == "topic":
            ours.createDurableSubscriber(other, durable.name)
        else:
            ours.createDurableSubscriber(topic, durable.name, "number > 1", False)
    # A provider that refuses after it has replaced the subscription would lose this message.
    send_texts(session, topic, "text")
    assert take(subscriber, waits).getText() == "text", "the refused attempt changes nothing"


@requirement("6.11.1-f")
@pytest.mark.parametrize("domain", ["common", "topic"])
def test_6_11_1_f_a_durable_subscriber_gets_what_is_published(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits, domain: str
) -> None:
    ours = _of_domain(durable, domain)
    subscriber = ours.createDurableSubscriber(topic, durable.name)
    assert isinstance(subscriber, TopicSubscriber)
    assert (subscriber.getTopic().getTopicName(), subscriber.getNoLocal()) == (topic.getTopicName(), False)
    send_texts(session, topic, "of another connection")
    send_texts(ours, topic, "of the own connection")
    assert take_texts(subscriber, waits, 2) == ["of another connection", "of the own connection"]


@requirement("6.11.1-f")
@needs("SELECTORS", "NO_LOCAL")
@pytest.mark.parametrize("domain", ["common", "topic"])
def test_6_11_1_f_a_durable_subscriber_has_the_given_selector_and_no_local(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits, domain: str
) -> None:
    ours = _of_domain(durable, domain)
    subscriber = ours.createDurableSubscriber(topic, durable.name, "number > 1", True)
    assert (subscriber.getMessageSelector(), subscriber.getNoLocal()) == ("number > 1", True)
    # The own connection first: where noLocal is not heeded, its messages are the next ones.
    send_numbers(ours, topic)
    send_numbers(session, topic)
    assert take_texts(subscriber, waits, 2) == ["2", "3"]
    assert leftovers(subscriber, waits) == [], "neither what the selector leaves out nor what is local"


def _of_domain(client: DurableClient, domain: str) -> Session:
    if domain == "common":
        return _session(client)
    return client.open_topic().createTopicSession(False, Session.AUTO_ACKNOWLEDGE)


@requirement("6.11.1-g")
@pytest.mark.parametrize("domain", ["common", "topic"])
def test_6_11_1_g_a_durable_subscriber_needs_a_topic(durable: DurableClient, domain: str) -> None:
    ours = _of_domain(durable, domain)
    with pytest.raises(InvalidDestinationException):
        ours.createDurableSubscriber(NO_DESTINATION, durable.name)
    with pytest.raises(InvalidDestinationException):
        ours.createDurableSubscriber(NO_DESTINATION, durable.name, None, False)


@requirement("6.11.1-h")
@needs("SELECTORS")
@pytest.mark.parametrize("domain", ["common", "topic"])
def test_6_11_1_h_a_durable_subscriber_needs_a_valid_selector(
    durable: DurableClient, topic: Topic, domain: str
) -> None:
    with pytest.raises(InvalidSelectorException):
        _of_domain(durable, domain).createDurableSubscriber(topic, durable.name, INVALID_SELECTOR, False)


@requirement("6.12-b")
def test_6_12_b_a_durable_subscription_recovers_for_a_later_connection(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    subscriber = _session(durable, Session.CLIENT_ACKNOWLEDGE).createDurableSubscriber(topic, durable.name)
    send_texts(session, topic, "one", "two")
    assert take_texts(subscriber, waits, 2) == ["one", "two"]
    subscriber = _session(durable, Session.CLIENT_ACKNOWLEDGE).createDurableSubscriber(topic, durable.name)
    again = [take(subscriber, waits) for _ in range(2)]
    received = [(message.getText(), message.getJMSRedelivered()) for message in again]
    assert received == [("one", True), ("two", True)], "nothing was acknowledged, so both come again"
