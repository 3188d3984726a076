"""Fixtures that only the suite uses: connections of the two domains, and clients with durable subscriptions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyjms import ConnectionFactory, QueueConnection, QueueSession, Session, TopicConnection, TopicSession
from pyjms_tck.fixtures import MakeName
from pyjms_tck.suite.exchange import DurableClient


@pytest.fixture
def queue_connection(factory: ConnectionFactory) -> Iterator[QueueConnection]:
    """A started connection of the point-to-point domain."""
    with factory.create_queue_connection() as connection:
        connection.start()
        yield connection


@pytest.fixture
def queue_session(queue_connection: QueueConnection) -> QueueSession:
    """A session of `queue_connection`, AUTO_ACKNOWLEDGE."""
    return queue_connection.create_queue_session(False, Session.AUTO_ACKNOWLEDGE)


@pytest.fixture
def topic_connection(factory: ConnectionFactory) -> Iterator[TopicConnection]:
    """A started connection of the publish/subscribe domain."""
    with factory.create_topic_connection() as connection:
        connection.start()
        yield connection


@pytest.fixture
def topic_session(topic_connection: TopicConnection) -> TopicSession:
    """A session of `topic_connection`, AUTO_ACKNOWLEDGE."""
    return topic_connection.create_topic_session(False, Session.AUTO_ACKNOWLEDGE)


@pytest.fixture
def durable(factory: ConnectionFactory, make_name: MakeName) -> Iterator[DurableClient]:
    """A client with its own client identifier; its subscriptions are deleted after the test."""
    client = DurableClient(factory, make_name)
    yield client
    client.forget()
