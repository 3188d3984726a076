"""Shared and durable subscriptions through the classic API (JMS 2.0 §8.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms import (
    Connection,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    MessageConsumer,
    QueueConnectionFactory,
    Session,
    Topic,
    TopicConnectionFactory,
)
from tests.pyjms.jms2.conftest import Connect
from tests.pyjms.runtime.helpers import Recorder, drain, send_texts, take_texts, text_of

CREATE = ["create_shared_consumer", "create_shared_durable_consumer"]
EACH_KIND = pytest.mark.parametrize("create", CREATE)


def open_consumer(connection: Connection, create: str, topic_name: str, *arguments: Any) -> MessageConsumer:
    """Make a consumer in a session of its own."""
    session = connection.create_session()
    consumer: MessageConsumer = getattr(session, create)(session.create_topic(topic_name), *arguments)
    return consumer


def publish(connection: Connection, topic_name: str, *texts: str, **options: int) -> None:
    session = connection.create_session()
    send_texts(session, session.create_topic(topic_name), *texts, **options)
    session.close()


def drain_all(*consumers: MessageConsumer) -> list[str]:
    """Take what is there now, from all consumers in turn."""
    found: list[str | None] = []
    while True:
        got = [text_of(message) for each in consumers if (message := each.receive_no_wait()) is not None]
        if not got:
            return sorted(filter(None, found))
        found += got


def settle_in(*consumers: MessageConsumer, number: int) -> list[str]:
    """Take `number` messages that must come, from whichever consumer has them."""
    found: list[str] = []
    for _ in range(2000):
        found += drain_all(*consumers)
        if len(found) >= number:
            return sorted(found)
        if (message := consumers[0].receive(10)) is not None:
            found.append(text_of(message) or "")
    raise AssertionError(f"{found} came, not {number} messages")


@EACH_KIND
def test_the_consumers_of_one_name_divide_its_messages(connect: Connect, name: str, create: str) -> None:
    first, second, publisher = connect(), connect(), connect()
    consumers = [open_consumer(each, create, name, name) for each in (first, first, second)]
    texts = [str(number) for number in range(30)]
    publish(publisher, name, *texts)
    assert settle_in(*consumers, number=30) == sorted(texts)
    assert drain_all(*consumers) == []


@EACH_KIND
def test_listeners_divide_its_messages_too(connect: Connect, name: str, create: str) -> None:
    connection, together = connect(), Recorder()
    recorders = [Recorder(together.on_message), Recorder(together.on_message)]
    for recorder in recorders:
        open_consumer(connection, create, name, name).message_listener = recorder
    texts = [str(number) for number in range(20)]
    publish(connection, name, *texts)
    assert sorted(filter(None, together.wait_for(20)), key=int) == texts
    assert sum(len(each.texts) for each in recorders) == 20


@EACH_KIND
def test_each_name_and_the_unshared_consumers_have_all_messages(connect: Connect, name: str, create: str) -> None:
    connection = connect()
    one, two = (open_consumer(connection, create, name, f"{name}-{each}") for each in "ab")
    plain = open_consumer(connection, "create_consumer", name)
    publish(connection, name, "x", "y")
    assert [take_texts(each, 2) for each in (one, two, plain)] == [["x", "y"]] * 3


@EACH_KIND
def test_a_selector_keeps_messages_out(connect: Connect, name: str, create: str) -> None:
    connection = connect()
    consumer = open_consumer(connection, create, name, name, "JMSPriority > 5")
    assert consumer.message_selector == "JMSPriority > 5"
    publish(connection, name, "low", priority=1)
    publish(connection, name, "high", priority=9)
    assert take_texts(consumer, 1) == ["high"]
    assert drain(consumer) == []


def test_a_shared_subscription_ends_with_its_last_consumer(connect: Connect, name: str) -> None:
    connection = connect()
    first, second = (open_consumer(connection, "create_shared_consumer", name, name) for _ in range(2))
    first.close()
    publish(connection, name, "for the second")
    assert take_texts(second, 1) == ["for the second"]
    publish(connection, name, "for nobody")
    second.close()
    assert drain(open_consumer(connection, "create_shared_consumer", name, name)) == []


def test_a_shared_durable_subscription_collects_messages_without_consumers(connect: Connect, name: str) -> None:
    connection, other = connect(), connect()
    open_consumer(connection, "create_shared_durable_consumer", name, name).close()
    publish(other, name, "kept")
    connection.close()
    # Without a client identifier it belongs to all connections that have none.
    consumer = open_consumer(other, "create_shared_durable_consumer", name, name)
    assert take_texts(consumer, 1) == ["kept"]
    consumer.close()
    other.create_session().unsubscribe(name)
    publish(other, name, "dropped")
    assert drain(open_consumer(other, "create_shared_durable_consumer", name, name)) == []


@EACH_KIND
def test_another_topic_or_selector_is_refused_while_there_are_consumers(
    connect: Connect, name: str, create: str
) -> None:
    first, second = connect(), connect()
    consumer = open_consumer(first, create, name, name, "a = 1")
    for topic, selector in ((f"{name}-other", "a = 1"), (name, "a = 2"), (name, None)):
        with pytest.raises(JMSException) as refused:
            open_consumer(second, create, topic, name, selector)
        assert type(refused.value) is JMSException
    consumer.close()
    again = open_consumer(second, create, name, name)
    publish(first, name, "new terms")
    assert take_texts(again, 1) == ["new terms"]


def test_other_terms_replace_a_durable_subscription_without_consumers(connect: Connect, name: str) -> None:
    connection = connect()
    open_consumer(connection, "create_shared_durable_consumer", name, name, "a = 1 OR TRUE").close()
    publish(connection, name, "of the old one")
    assert drain(open_consumer(connection, "create_shared_durable_consumer", name, name)) == []


@pytest.mark.parametrize("active", [True, False], ids=["active", "inactive"])
@pytest.mark.parametrize(
    ("made", "refused"),
    [
        ("create_durable_consumer", "create_shared_durable_consumer"),
        ("create_durable_subscriber", "create_shared_durable_consumer"),
        ("create_shared_durable_consumer", "create_durable_consumer"),
        ("create_shared_durable_consumer", "create_durable_subscriber"),
    ],
)
def test_a_shared_and_an_unshared_durable_subscription_exclude_each_other(
    connect: Connect, name: str, made: str, refused: str, active: bool
) -> None:
    connection = connect(name)
    consumer = open_consumer(connection, made, name, name)
    if not active:
        consumer.close()
    with pytest.raises(JMSException) as told:
        open_consumer(connection, refused, name, name)
    assert type(told.value) is JMSException
    publish(connection, name, "still there")
    if not active:
        consumer = open_consumer(connection, made, name, name)
    assert take_texts(consumer, 1) == ["still there"]


def test_durable_and_non_durable_names_are_separate(connect: Connect, name: str) -> None:
    connection = connect(name)
    consumers = [open_consumer(connection, create, name, name) for create in CREATE]
    publish(connection, name, "each")
    assert [take_texts(each, 1) for each in consumers] == [["each"], ["each"]]


@EACH_KIND
def test_a_client_identifier_has_names_of_its_own(connect: Connect, name: str, create: str) -> None:
    ours, nobodys = connect(name), connect()
    consumers = [open_consumer(each, create, name, name) for each in (ours, nobodys)]
    publish(nobodys, name, "each")
    assert [take_texts(each, 1) for each in consumers] == [["each"], ["each"]]


def test_a_durable_consumer_is_a_durable_subscriber(connect: Connect, name: str) -> None:
    connection = connect(name)
    session = connection.create_session()
    topic = session.create_topic(name)
    consumer = session.create_durable_consumer(topic, name)
    with pytest.raises(JMSException) as in_use:
        connection.create_session().create_durable_consumer(topic, name)
    assert type(in_use.value) is JMSException
    with pytest.raises(JMSException):
        connection.create_session().create_durable_subscriber(topic, name)
    with pytest.raises(JMSException):
        session.unsubscribe(name)
    consumer.close()
    publish(connection, name, "kept")
    subscriber = session.create_durable_subscriber(topic, name)
    assert take_texts(subscriber, 1) == ["kept"]
    subscriber.close()
    publish(connection, name, "of the old selector")
    assert drain(session.create_durable_consumer(topic, name, "a = 1", False)) == []


def test_a_durable_consumer_with_no_local_leaves_out_what_its_client_publishes(connect: Connect, name: str) -> None:
    connection, other = connect(name), connect()
    consumer = open_consumer(connection, "create_durable_consumer", name, name, None, True)
    publish(connection, name, "own")
    publish(other, name, "other")
    assert take_texts(consumer, 1) == ["other"]


def test_no_local_also_means_a_later_connection_of_the_client_identifier(connect: Connect, name: str) -> None:
    with connect(name) as first:
        open_consumer(first, "create_durable_consumer", name, name, None, True).close()
    later, other = connect(name), connect()
    publish(later, name, "own")
    publish(other, name, "other")
    assert take_texts(open_consumer(later, "create_durable_consumer", name, name, None, True), 1) == ["other"]


@pytest.mark.parametrize("create", ["create_durable_consumer", "create_durable_subscriber"])
def test_an_unshared_durable_subscription_needs_a_client_identifier(connect: Connect, name: str, create: str) -> None:
    session = connect().create_session()
    for terms in ((), (None, False)):
        with pytest.raises(IllegalStateException):
            getattr(session, create)(session.create_topic(name), name, *terms)


@pytest.mark.parametrize("create", ["create_durable_consumer", *CREATE])
def test_wrong_arguments_are_refused(connect: Connect, name: str, create: str) -> None:
    session = connect(name).create_session()
    topic, make = session.create_topic(name), getattr(session, create)
    wrong_topics: list[Any] = [None, session.create_queue(name), "topic"]
    if create != "create_shared_consumer":
        wrong_topics.append(session.create_temporary_topic())
    for wrong in wrong_topics:
        with pytest.raises(InvalidDestinationException):
            make(wrong, name)
    for selector in ("= is no selector", "a = ", "JMSDeliveryTime > 0"):
        with pytest.raises(InvalidSelectorException):
            make(topic, name, selector)
    for wrong_name in (None, ""):
        with pytest.raises(JMSException):
            make(topic, wrong_name)


def test_a_temporary_topic_has_shared_subscriptions(connect: Connect, name: str) -> None:
    session = connect().create_session()
    topic = session.create_temporary_topic()
    consumer = session.create_shared_consumer(topic, name)
    send_texts(session, topic, "hello")
    assert take_texts(consumer, 1) == ["hello"]


def test_names_of_128_characters_of_letters_digits_and_four_others_work(connect: Connect, name: str) -> None:
    connection = connect(name)
    long = f"{name}._-aB9".ljust(128, "x")
    for create in CREATE:
        consumer = open_consumer(connection, create, name, long)
        publish(connection, name, create)
        assert take_texts(consumer, 1) == [create]
        consumer.close()
    connection.create_session().unsubscribe(long)


@pytest.mark.parametrize("client_id", [True, False], ids=["client id", "no client id"])
def test_a_shared_durable_subscription_is_deleted_by_its_name(connect: Connect, name: str, client_id: bool) -> None:
    connection = connect(name if client_id else None)
    session = connection.create_session()
    consumers = [open_consumer(connection, "create_shared_durable_consumer", name, name) for _ in range(2)]
    for consumer in consumers:
        with pytest.raises(JMSException) as in_use:
            session.unsubscribe(name)
        assert type(in_use.value) is JMSException
        consumer.close()
    session.unsubscribe(name)
    wrong: Any
    for wrong in (name, f"{name}-never", None, ""):
        with pytest.raises(InvalidDestinationException):
            session.unsubscribe(wrong)


def test_an_unacknowledged_message_keeps_a_shared_durable_subscription(connect: Connect, name: str) -> None:
    connection = connect()
    session = connection.create_session(Session.CLIENT_ACKNOWLEDGE)
    consumer = session.create_shared_durable_consumer(session.create_topic(name), name)
    publish(connection, name, "held")
    message = consumer.receive(10_000)
    assert message is not None
    consumer.close()
    with pytest.raises(JMSException):
        session.unsubscribe(name)
    message.acknowledge()
    session.unsubscribe(name)


def test_what_one_consumer_does_not_settle_another_one_gets(connect: Connect, name: str) -> None:
    connection = connect()
    transacted = connection.create_session(Session.SESSION_TRANSACTED)
    first = transacted.create_shared_consumer(transacted.create_topic(name), name)
    publish(connection, name, "again")
    assert take_texts(first, 1) == ["again"]
    second = open_consumer(connection, "create_shared_consumer", name, name)
    transacted.close()
    message = second.receive(10_000)
    assert message is not None
    assert (text_of(message), message.jms_redelivered) == ("again", True)
    assert message.get_int_property("JMSXDeliveryCount") >= 2


DOMAIN_CALLS: list[tuple[str, Callable[[Session, Topic], object]]] = [
    ("createDurableConsumer", lambda session, topic: session.createDurableConsumer(topic, "all")),
    ("createDurableConsumer", lambda session, topic: session.createDurableConsumer(topic, "all", None, False)),
    ("createSharedConsumer", lambda session, topic: session.createSharedConsumer(topic, "all")),
    ("createSharedConsumer", lambda session, topic: session.createSharedConsumer(topic, "all", None)),
    ("createSharedDurableConsumer", lambda session, topic: session.createSharedDurableConsumer(topic, "all")),
    ("createSharedDurableConsumer", lambda session, topic: session.createSharedDurableConsumer(topic, "all", None)),
]


@pytest.mark.parametrize("call", [call for _, call in DOMAIN_CALLS], ids=[name for name, _ in DOMAIN_CALLS])
def test_a_queue_session_has_no_consumers_of_topics(
    connect: Connect, broker_url: str, name: str, call: Callable[[Session, Topic], object]
) -> None:
    topic = connect().create_session().create_topic(name)
    with (
        QueueConnectionFactory(broker_url).create_queue_connection() as connection,
        pytest.raises(IllegalStateException, match="queue domain"),
    ):
        call(connection.create_queue_session(), topic)


def test_a_topic_session_has_them(broker_url: str, name: str) -> None:
    with TopicConnectionFactory(broker_url).create_topic_connection() as connection:
        connection.client_id = name
        connection.start()
        session = connection.create_topic_session()
        topic = session.create_topic(name)
        consumers = [
            session.create_shared_consumer(topic, name),
            session.create_shared_durable_consumer(topic, name),
            session.create_durable_consumer(topic, f"{name}-own"),
        ]
        send_texts(session, topic, "each")
        assert [take_texts(each, 1) for each in consumers] == [["each"]] * 3


def test_a_closed_session_refuses_all_of_them(connect: Connect, name: str) -> None:
    session = connect(name).create_session()
    topic = session.create_topic(name)
    session.close()
    for create in ("create_durable_consumer", *CREATE):
        with pytest.raises(IllegalStateException):
            getattr(session, create)(topic, name)
