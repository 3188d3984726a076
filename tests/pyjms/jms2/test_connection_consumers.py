"""Connection consumers of shared subscriptions (JMS 2.0 §8.3, for application servers)."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import (
    Connection,
    ConnectionConsumer,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    QueueConnectionFactory,
    TopicConnectionFactory,
)
from tests.pyjms.jms2.conftest import Connect
from tests.pyjms.runtime.helpers import Recorder, drain, send_texts
from tests.pyjms.runtime.server_pool import Pool

CREATE = ["create_shared_connection_consumer", "create_shared_durable_connection_consumer"]
EACH_KIND = pytest.mark.parametrize("create", CREATE)


def make(connection: Connection, create: str, *arguments: Any) -> ConnectionConsumer:
    consumer: ConnectionConsumer = getattr(connection, create)(*arguments)
    return consumer


@EACH_KIND
def test_messages_are_divided_between_its_sessions_and_other_consumers(
    connect: Connect, name: str, create: str
) -> None:
    connection, together = connect(), Recorder()
    session = connection.create_session()
    topic = session.create_topic(name)
    pool = Pool(connection, lambda _: Recorder(together.on_message), number=2)
    consumer = make(connection, create, topic, name, "JMSPriority < 9", pool, 3)
    plain = getattr(session, create.replace("connection_", ""))(topic, name, "JMSPriority < 9")
    plain.message_listener = together
    texts = [str(number) for number in range(20)]
    sender = connect().create_session()
    send_texts(sender, topic, "left out", priority=9)
    send_texts(sender, topic, *texts)
    assert sorted(filter(None, together.wait_for(20)), key=int) == texts
    consumer.close()
    pool.join()


def test_a_durable_one_collects_messages_without_consumers(connect: Connect, name: str) -> None:
    connection, recorder = connect(), Recorder()
    session = connection.create_session()
    topic = session.create_topic(name)
    pool = Pool(connection, lambda _: recorder)
    make(connection, CREATE[1], topic, name, None, pool, 1).close()
    send_texts(session, topic, "kept")
    consumer = make(connection, CREATE[1], topic, name, None, pool, 1)
    assert recorder.wait_for(1) == ["kept"]
    pool.join()
    consumer.close()
    assert drain(session.create_shared_durable_consumer(topic, name)) == []


@EACH_KIND
def test_wrong_arguments_are_refused(connect: Connect, name: str, create: str) -> None:
    connection = connect()
    session = connection.create_session()
    topic, pool = session.create_topic(name), Pool(connection, lambda _: Recorder())
    for wrong in (None, session.create_queue(name)):
        with pytest.raises(InvalidDestinationException):
            make(connection, create, wrong, name, None, pool, 1)
    with pytest.raises(InvalidSelectorException):
        make(connection, create, topic, name, "= wrong", pool, 1)
    for wrong_name in (None, ""):
        with pytest.raises(JMSException):
            make(connection, create, topic, wrong_name, None, pool, 1)
    for wrong_pool in (None, Pool):
        with pytest.raises(JMSException):
            make(connection, create, topic, name, None, wrong_pool, 1)
    for wrong_number in (0, -1, None):
        with pytest.raises(JMSException):
            make(connection, create, topic, name, None, pool, wrong_number)


@EACH_KIND
def test_the_terms_of_an_active_subscription_hold(connect: Connect, name: str, create: str) -> None:
    connection = connect()
    session = connection.create_session()
    topic, pool = session.create_topic(name), Pool(connection, lambda _: Recorder())
    with getattr(session, create.replace("connection_", ""))(topic, name), pytest.raises(JMSException):
        make(connection, create, topic, name, "a = 1", pool, 1)


@EACH_KIND
def test_the_domains_and_a_closed_connection(connect: Connect, broker_url: str, name: str, create: str) -> None:
    topic = connect().create_session().create_topic(name)
    with (
        QueueConnectionFactory(broker_url).create_queue_connection() as queues,
        pytest.raises(IllegalStateException, match="queue domain"),
    ):
        make(queues, create, topic, name, None, None, 1)
    with TopicConnectionFactory(broker_url).create_topic_connection() as topics:
        pool = Pool(topics, lambda _: Recorder())
        make(topics, create, topic, name, None, pool, 1).close()
    with pytest.raises(IllegalStateException, match="closed"):
        make(topics, create, topic, name, None, pool, 1)
