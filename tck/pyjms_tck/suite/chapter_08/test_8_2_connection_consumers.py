"""Connection consumers, server sessions and their pools (8.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms import (
    Connection,
    ConnectionConsumer,
    InvalidDestinationException,
    InvalidSelectorException,
    Queue,
    QueueConnection,
    Session,
    Topic,
    TopicConnection,
)
from pyjms_tck.checks import Checks
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeDestination, RunBackground
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_08.server import Pool
from pyjms_tck.suite.exchange import INVALID_SELECTOR, NO_DESTINATION, Collector, DurableClient, send_texts, take_texts

MakePool = Callable[..., Pool]


@pytest.fixture
def listener() -> Collector:
    """What the sessions of the pools call."""
    return Collector()


@pytest.fixture
def make_pool(background: RunBackground, waits: Waits, listener: Collector) -> MakePool:
    """Make pools whose sessions call `listener`: ``make_pool(connection, sessions=2)``."""

    def make(connection: Connection, sessions: int = 1, refusals: int = 0) -> Pool:
        return Pool(connection, background, waits, listener.on_message, sessions=sessions, refusals=refusals)

    return make


@requirement("8.2.1-a")
def test_8_2_1_a_a_session_returns_its_own_listener(session: Session, listener: Collector) -> None:
    assert session.getMessageListener() is None, "a new session has no listener of its own"
    session.setMessageListener(listener)
    assert session.getMessageListener() is listener


@requirement("8.2.1-b", "8.2.2-a", "8.2.2-b", "8.2.3-a", "8.2.4-a")
def test_8_2_1_b_messages_go_through_a_server_session_to_the_listener(
    connection: Connection, session: Session, queue: Queue, make_pool: MakePool, listener: Collector, waits: Waits
) -> None:
    pool = make_pool(connection)
    # One message at a time: each one takes the whole way through the pool.
    with connection.createConnectionConsumer(queue, None, pool, 1):
        send_texts(session, queue, "one", "two", "three")
        texts = listener.wait_for(3, waits)
    assert texts == ["one", "two", "three"], "run calls the session's listener for what was loaded"
    assert pool.taken > 0, "the consumer takes its sessions out of the pool"
    assert pool.asked_for_sessions > 0, "it asks the server session for its session"
    assert pool.starts == pool.taken, "it starts each server session that it took"


@requirement("8.2.2-b")
def test_8_2_2_b_nothing_is_delivered_before_the_server_session_runs(
    connection: Connection, session: Session, queue: Queue, make_pool: MakePool, listener: Collector, waits: Waits
) -> None:
    pool = make_pool(connection)
    pool.background = lambda _: None  # a server that is slow to run what was started
    with connection.createConnectionConsumer(queue, None, pool, 1):
        send_texts(session, queue, "text")
        waits.until(lambda: pool.starts, "the server session was started")
        # A provider that calls the listener by itself has its chance.
        waits.pause()
        assert listener.texts == [], "the messages are loaded, and wait for the session's run"
        pool.members[0].getSession().run()
        assert listener.texts == ["text"], "run processes what was loaded"


@requirement("8.2.3-a")
def test_8_2_3_a_each_message_goes_to_one_of_several_sessions(
    connection: Connection, session: Session, queue: Queue, make_pool: MakePool, listener: Collector, waits: Waits
) -> None:
    pool = make_pool(connection, sessions=3)
    texts = [f"text {number:02}" for number in range(12)]
    with connection.createConnectionConsumer(queue, None, pool, 2):
        send_texts(session, queue, *texts)
        received = listener.wait_for(len(texts), waits)
    # Sorted: three sessions run at the same time, and between them there is no order.
    assert sorted(map(str, received)) == texts, "each message is processed once, by one of the sessions"


@requirement("8.2.3-b")
def test_8_2_3_b_a_pool_that_refuses_loses_no_messages(
    connection: Connection, session: Session, queue: Queue, make_pool: MakePool, listener: Collector, waits: Waits
) -> None:
    # More refusals than a test can ask for.
    refusing = make_pool(connection, refusals=1_000_000)
    with connection.createConnectionConsumer(queue, None, refusing, 1):
        send_texts(session, queue, "one", "two")
        waits.until(lambda: refusing.refused, "the pool was asked for a session")
    with connection.createConnectionConsumer(queue, None, make_pool(connection), 1):
        # Sorted: where the refused messages come back is up to the provider.
        assert sorted(map(str, listener.wait_for(2, waits))) == ["one", "two"], "a pool that has sessions gets them"


@requirement("8.2.4-a")
@needs("SELECTORS")
def test_8_2_4_a_a_connection_consumer_has_the_given_selector(
    connection: Connection, session: Session, queue: Queue, make_pool: MakePool, listener: Collector, waits: Waits
) -> None:
    producer = session.createProducer(queue)
    for number in (1, 2, 3):
        message = session.createTextMessage(str(number))
        message.setIntProperty("number", number)
        producer.send(message)
    with connection.createConnectionConsumer(queue, "number <> 2", make_pool(connection), 5) as consumer:
        assert isinstance(consumer, ConnectionConsumer)
        assert listener.wait_for(2, waits) == ["1", "3"]
    # The message that the selector leaves out is no connection consumer's, and stays on the queue (§5.8).
    assert take_texts(session.createConsumer(queue), waits, 1) == ["2"], "what the selector leaves out stays"


@requirement("8.2.4-b")
def test_8_2_4_b_a_queue_connection_makes_connection_consumers(
    queue_connection: QueueConnection,
    session: Session,
    queue: Queue,
    make_pool: MakePool,
    listener: Collector,
    waits: Waits,
) -> None:
    with queue_connection.createConnectionConsumer(queue, None, make_pool(queue_connection), 1) as consumer:
        assert isinstance(consumer, ConnectionConsumer)
        send_texts(session, queue, "text")
        assert listener.wait_for(1, waits) == ["text"]


@requirement("8.2.4-b")
def test_8_2_4_b_a_topic_connection_makes_connection_consumers(
    topic_connection: TopicConnection,
    session: Session,
    topic: Topic,
    make_pool: MakePool,
    listener: Collector,
    waits: Waits,
) -> None:
    with topic_connection.createConnectionConsumer(topic, None, make_pool(topic_connection), 1) as consumer:
        assert isinstance(consumer, ConnectionConsumer)
        send_texts(session, topic, "text")
        assert listener.wait_for(1, waits) == ["text"]


@requirement("8.2.4-c")
@needs("CONNECTION_CONSUMERS")
@pytest.mark.parametrize("domain", ["common", "topic"])
def test_8_2_4_c_a_connection_consumer_of_a_durable_subscription(
    durable: DurableClient,
    session: Session,
    topic: Topic,
    make_pool: MakePool,
    listener: Collector,
    waits: Waits,
    domain: str,
) -> None:
    connection = durable.open() if domain == "common" else durable.open_topic()
    # The first one makes the subscription, and is closed: the message must wait in it.
    connection.createDurableConnectionConsumer(topic, durable.name, None, make_pool(connection), 1).close()
    send_texts(session, topic, "while there is no consumer")
    with connection.createDurableConnectionConsumer(topic, durable.name, None, make_pool(connection), 1):
        assert listener.wait_for(1, waits) == ["while there is no consumer"]


@requirement("8.2.4-d")
def test_8_2_4_d_a_connection_consumer_needs_a_destination(
    connection: Connection, queue_connection: QueueConnection, topic_connection: TopicConnection, make_pool: MakePool
) -> None:
    with Checks() as check:
        for each in (connection, queue_connection, topic_connection):
            check.fails(
                f"createConnectionConsumer of {type(each).__name__}",
                InvalidDestinationException,
                each.createConnectionConsumer,
                *(NO_DESTINATION, None, make_pool(each), 1),
            )


@requirement("8.2.4-d")
@needs("DURABLE_SUBSCRIPTIONS")
def test_8_2_4_d_a_durable_connection_consumer_needs_a_topic(durable: DurableClient, make_pool: MakePool) -> None:
    for connect in (durable.open, durable.open_topic):
        connection = connect()
        with pytest.raises(InvalidDestinationException):
            connection.createDurableConnectionConsumer(NO_DESTINATION, durable.name, None, make_pool(connection), 1)


@requirement("8.2.4-e")
@needs("SELECTORS")
def test_8_2_4_e_a_connection_consumer_needs_a_valid_selector(
    connection: Connection, queue_connection: QueueConnection, queue: Queue, make_pool: MakePool
) -> None:
    for each in (connection, queue_connection):
        with pytest.raises(InvalidSelectorException):
            each.createConnectionConsumer(queue, INVALID_SELECTOR, make_pool(each), 1)


@requirement("8.2.4-e")
@needs("SELECTORS", "DURABLE_SUBSCRIPTIONS")
def test_8_2_4_e_a_connection_consumer_of_a_topic_needs_a_valid_selector(
    durable: DurableClient, topic: Topic, make_pool: MakePool
) -> None:
    for connect in (durable.open, durable.open_topic):
        connection = connect()
        pool = make_pool(connection)
        with pytest.raises(InvalidSelectorException):
            connection.createConnectionConsumer(topic, INVALID_SELECTOR, pool, 1)
        with pytest.raises(InvalidSelectorException):
            connection.createDurableConnectionConsumer(topic, durable.name, INVALID_SELECTOR, pool, 1)


@requirement("8.2.4-h")
def test_8_2_4_h_a_connection_consumer_returns_its_pool(
    connection: Connection, queue: Queue, make_pool: MakePool
) -> None:
    pool = make_pool(connection)
    with connection.createConnectionConsumer(queue, None, pool, 1) as consumer:
        assert consumer.getServerSessionPool() is pool


@requirement("8.2.4-i")
def test_8_2_4_i_a_closed_connection_consumer_takes_nothing_more(
    connection: Connection,
    session: Session,
    make_queue: MakeDestination,
    make_pool: MakePool,
    listener: Collector,
    waits: Waits,
) -> None:
    queue, pool = make_queue(), make_pool(connection)
    consumer = connection.createConnectionConsumer(queue, None, pool, 1)
    send_texts(session, queue, "before")
    assert listener.wait_for(1, waits) == ["before"]
    consumer.close()
    consumer.close()
    send_texts(session, queue, "after")
    # A consumer that is still there would take the message during this pause.
    waits.pause()
    assert listener.texts == ["before"], "no message goes to the pool of a closed consumer"
    assert take_texts(session.createConsumer(queue), waits, 1) == ["after"], "it is there for others"
