"""What the objects of one domain refuse because it belongs to the other (4.11)."""

from __future__ import annotations

import pytest

from pyjms import (
    IllegalStateException,
    JMSException,
    Queue,
    QueueConnection,
    QueueSession,
    ServerSession,
    ServerSessionPool,
    Topic,
    TopicSession,
)
from pyjms_tck.fixtures import MakeName
from pyjms_tck.requirements import requirement


@requirement("4.11-a")
def test_4_11_a_a_queue_session_has_no_durable_subscribers(
    queue_session: QueueSession, topic: Topic, make_name: MakeName
) -> None:
    with pytest.raises(IllegalStateException):
        queue_session.createDurableSubscriber(topic, make_name("subscription"))
    with pytest.raises(IllegalStateException):
        queue_session.createDurableSubscriber(topic, make_name("subscription"), "number > 1", False)


@requirement("4.11-b")
def test_4_11_b_a_queue_session_has_no_temporary_topics(queue_session: QueueSession) -> None:
    with pytest.raises(IllegalStateException):
        queue_session.createTemporaryTopic()


@requirement("4.11-c")
def test_4_11_c_a_queue_session_has_no_topics(queue_session: QueueSession, make_name: MakeName) -> None:
    with pytest.raises(IllegalStateException):
        queue_session.createTopic(make_name("topic"))


@requirement("4.11-d")
def test_4_11_d_a_queue_session_has_no_subscriptions_to_end(queue_session: QueueSession, make_name: MakeName) -> None:
    with pytest.raises(IllegalStateException):
        queue_session.unsubscribe(make_name("subscription"))


@requirement("4.11-e")
def test_4_11_e_a_topic_session_has_no_browsers(topic_session: TopicSession, queue: Queue) -> None:
    with pytest.raises(IllegalStateException):
        topic_session.createBrowser(queue)
    with pytest.raises(IllegalStateException):
        topic_session.createBrowser(queue, "number > 1")


@requirement("4.11-f")
def test_4_11_f_a_topic_session_has_no_queues(topic_session: TopicSession, make_name: MakeName) -> None:
    with pytest.raises(IllegalStateException):
        topic_session.createQueue(make_name("queue"))


@requirement("4.11-g")
def test_4_11_g_a_topic_session_has_no_temporary_queues(topic_session: TopicSession) -> None:
    with pytest.raises(IllegalStateException):
        topic_session.createTemporaryQueue()


class EmptyPool(ServerSessionPool):
    """A pool that never has a session."""

    def getServerSession(self) -> ServerSession:
        raise JMSException("this pool has no sessions")


@requirement("4.11-h", "8.2.4-f")
def test_4_11_h_a_queue_connection_has_no_durable_connection_consumers(
    queue_connection: QueueConnection, topic: Topic, make_name: MakeName
) -> None:
    with pytest.raises(IllegalStateException):
        queue_connection.createDurableConnectionConsumer(topic, make_name("subscription"), None, EmptyPool(), 1)
