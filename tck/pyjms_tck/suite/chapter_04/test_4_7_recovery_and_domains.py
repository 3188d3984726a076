"""What survives a restart of the broker (4.7, 4.10), and what objects of one domain refuse of the other (4.11)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pyjms import (
    DeliveryMode,
    IllegalStateException,
    JMSException,
    Queue,
    QueueConnection,
    QueueSession,
    ServerSession,
    ServerSessionPool,
    Session,
    Topic,
    TopicSession,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeName, MakeSession, Record, RestartBroker
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import DurableClient, leftovers, send_texts, take, take_texts

TEXTS = [f"text {number}" for number in range(5)]


@requirement("4.7-a")
def test_4_7_a_non_persistent_messages_come_once(
    session: Session, make_session: MakeSession, queue: Queue, waits: Waits
) -> None:
    consumer = make_session(False, Session.CLIENT_ACKNOWLEDGE).create_consumer(queue)
    _send(session, queue, DeliveryMode.NON_PERSISTENT)
    received = [take(consumer, waits) for _ in TEXTS]
    assert [message.text for message in received] == TEXTS, "without a failure none is lost"
    received[-1].acknowledge()
    consumer.close()
    assert leftovers(session.create_consumer(queue), waits) == [], "none is doubled"


@requirement("4.7-a", "4.10-b")
def test_4_7_a_non_persistent_messages_come_at_most_once_after_a_restart(
    connect: Connect, queue: Queue, restart_broker: RestartBroker, record: Record, waits: Waits
) -> None:
    # Closed before the restart, so that no client is there to send or settle anything once more.
    with connect() as before:
        _send(before.create_session(False, Session.AUTO_ACKNOWLEDGE), queue, DeliveryMode.NON_PERSISTENT)
    restart_broker()
    session = connect(started=True).create_session(False, Session.AUTO_ACKNOWLEDGE)
    received = leftovers(session.create_consumer(queue), waits)
    # Any number of them is right, even none (§4.7): only a second copy is wrong.
    assert sorted(set(map(str, received))) == sorted(map(str, received)), "none is doubled"
    record(f"{len(received)} of {len(TEXTS)} non-persistent messages are there after a restart of the broker")


@requirement("4.7-b")
def test_4_7_b_persistent_messages_survive_a_restart(
    connect: Connect, queue: Queue, restart_broker: RestartBroker, waits: Waits
) -> None:
    with connect() as before:
        _send(before.create_session(False, Session.AUTO_ACKNOWLEDGE), queue, DeliveryMode.PERSISTENT)
    restart_broker()
    session = connect(started=True).create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(queue)
    assert take_texts(consumer, waits, len(TEXTS)) == TEXTS, "nothing is lost, and the order is kept"
    # A broker that reads its store twice, or a message that was stored twice, shows here.
    assert leftovers(consumer, waits) == [], "nothing is doubled"


def _send(session: Session, queue: Queue, mode: DeliveryMode) -> None:
    producer = session.create_producer(queue)
    for text in TEXTS:
        producer.send(session.create_text_message(text), mode, 4, 0)


@requirement("4.4.12-a")
def test_4_4_12_a_an_acknowledged_message_does_not_come_again_after_a_restart(
    connect: Connect, queue: Queue, restart_broker: RestartBroker, waits: Waits
) -> None:
    with connect(started=True) as before:
        session = before.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        send_texts(session, queue, "acknowledged", "not acknowledged")
        take(session.create_consumer(queue), waits).acknowledge()
    restart_broker()
    session = connect(started=True).create_session(False, Session.AUTO_ACKNOWLEDGE)
    # The second message may come; that is judged by 4.7-b.
    assert "acknowledged" not in leftovers(session.create_consumer(queue), waits)


@requirement("4.7-b")
@needs("TRANSACTIONS")
def test_4_7_b_a_restart_keeps_commits_and_nothing_else(
    connect: Connect, queue: Queue, restart_broker: RestartBroker, waits: Waits
) -> None:
    # Not closed before the restart: a close would roll the open transaction back itself.
    before = connect(started=True)
    transacted = before.create_session(True, Session.SESSION_TRANSACTED)
    send_texts(transacted, queue, "committed")
    transacted.commit()
    send_texts(transacted, queue, "not committed")
    restart_broker()
    session = connect(started=True).create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(queue)
    assert take(consumer, waits).text == "committed"
    assert leftovers(consumer, waits) == [], "what was not committed is discarded"


@requirement("4.7-b")
@needs("DURABLE_SUBSCRIPTIONS")
def test_4_7_b_durable_subscriptions_survive_a_restart_with_their_messages(
    durable: DurableClient, topic: Topic, restart_broker: RestartBroker, waits: Waits
) -> None:
    session = durable.open().create_session(False, Session.AUTO_ACKNOWLEDGE)
    # The subscriber is closed, and the subscription stays: the message must wait in the broker.
    session.create_durable_subscriber(topic, durable.name).close()
    send_texts(session, topic, "published before the restart")
    durable.close()
    restart_broker()
    session = durable.open().create_session(False, Session.AUTO_ACKNOWLEDGE)
    # Published before the subscriber is back: the subscription itself must have survived, not only its messages.
    send_texts(session, topic, "published after the restart")
    received = take_texts(session.create_durable_subscriber(topic, durable.name), waits, 2)
    assert received == ["published before the restart", "published after the restart"]


@requirement("4.10-a")
@pytest.mark.parametrize("transacted", [False, pytest.param(True, marks=needs("TRANSACTIONS"))])
def test_4_10_a_what_comes_again_after_a_restart_says_so(
    connect: Connect, queue: Queue, restart_broker: RestartBroker, waits: Waits, transacted: bool
) -> None:
    before = connect(started=True)
    session = before.create_session(transacted, Session.CLIENT_ACKNOWLEDGE)
    # By another session: in a transacted one the message would not be sent before a commit.
    with connect() as sending:
        send_texts(sending.create_session(False, Session.AUTO_ACKNOWLEDGE), queue, "text")
    take(session.create_consumer(queue), waits)
    restart_broker()
    with suppress(JMSException):  # the connection is lost; or it has mended itself, and gives back what it holds
        before.close()
    session = connect(started=True).create_session(False, Session.AUTO_ACKNOWLEDGE)
    again = take(session.create_consumer(queue), waits, "the message that was not acknowledged, again")
    assert again.jms_redelivered is True, "it was delivered before the restart"


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
