"""The queue and the topic domain: the same behaviour under older names, and what each refuses (JMS 1.1 §1.4.2, §4.11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyjms import (
    IllegalStateException,
    InvalidDestinationException,
    QueueConnection,
    QueueReceiver,
    QueueSender,
    QueueSession,
    Session,
    TopicConnection,
    TopicPublisher,
    TopicSession,
    TopicSubscriber,
)
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from tests.pyjms.runtime.closed_world import Pool
from tests.pyjms.runtime.helpers import Recorder, drain, send_texts, take, text_of


@pytest.fixture
def queues(jms_connection_factory: ConnectionFactory) -> Iterator[QueueConnection]:
    """A started queue connection."""
    with jms_connection_factory.create_queue_connection() as connection:
        connection.client_id = "queues"
        connection.start()
        yield connection


@pytest.fixture
def topics(jms_connection_factory: ConnectionFactory) -> Iterator[TopicConnection]:
    """A started topic connection."""
    with jms_connection_factory.create_topic_connection() as connection:
        connection.client_id = "topics"
        connection.start()
        yield connection


class TestWrongDomain:
    @pytest.mark.realises("BOIL-DOM-1", "BOIL-EXC-2")
    @pytest.mark.parametrize("name", ["create_durable_connection_consumer", "createDurableConnectionConsumer"])
    def test_of_a_queue_connection(self, queues: QueueConnection, session: Session, name: str) -> None:
        with pytest.raises(IllegalStateException, match="domain"):
            getattr(queues, name)(session.create_topic("prices"), "all", None, Pool(), 1)

    @pytest.mark.realises("BOIL-DOM-2", "BOIL-EXC-2")
    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("create_durable_subscriber", ("topic", "all")),
            ("createDurableSubscriber", ("topic", "all", None, False)),
            ("create_temporary_topic", ()),
            ("createTemporaryTopic", ()),
            ("create_topic", ("prices",)),
            ("createTopic", ("prices",)),
            ("unsubscribe", ("all",)),
        ],
    )
    @pytest.mark.parametrize("maker", ["create_queue_session", "create_session"])
    def test_of_a_queue_session(
        self, queues: QueueConnection, session: Session, maker: str, name: str, arguments: tuple[Any, ...]
    ) -> None:
        given = [session.create_topic("prices") if each == "topic" else each for each in arguments]
        with pytest.raises(IllegalStateException, match="domain"):
            getattr(getattr(queues, maker)(False, 1), name)(*given)

    @pytest.mark.realises("BOIL-DOM-3", "BOIL-EXC-2")
    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("create_browser", ("queue",)),
            ("createBrowser", ("queue", "cups > 1")),
            ("create_queue", ("orders",)),
            ("createQueue", ("orders",)),
            ("create_temporary_queue", ()),
            ("createTemporaryQueue", ()),
        ],
    )
    @pytest.mark.parametrize("maker", ["create_topic_session", "create_session"])
    def test_of_a_topic_session(
        self, topics: TopicConnection, session: Session, maker: str, name: str, arguments: tuple[Any, ...]
    ) -> None:
        given = [session.create_queue("orders") if each == "queue" else each for each in arguments]
        with pytest.raises(IllegalStateException, match="domain"):
            getattr(getattr(topics, maker)(False, 1), name)(*given)

    def test_the_common_session_has_all(self, connection: JmsConnection) -> None:
        session = connection.create_session()
        assert session.create_browser(session.create_queue("orders")) is not None
        assert session.create_temporary_topic() is not None
        assert session.create_temporary_queue() is not None


@pytest.mark.realises("BOIL-DOM-4")
class TestSameBehaviour:
    def test_the_six_correspondences_of_queues(self, queues: QueueConnection) -> None:
        session = queues.create_queue_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        assert isinstance(session, QueueSession)
        assert isinstance(session.create_sender(queue), QueueSender)
        assert isinstance(session.create_receiver(queue), QueueReceiver)
        assert isinstance(session.create_producer(queue), QueueSender)
        assert isinstance(session.create_consumer(queue), QueueReceiver)
        assert session.create_receiver(queue, "cups > 1").getQueue() == queue
        assert session.createReceiver(queue, "cups > 1").getMessageSelector() == "cups > 1"

    def test_the_six_correspondences_of_topics(self, topics: TopicConnection) -> None:
        session = topics.create_topic_session(False, Session.AUTO_ACKNOWLEDGE)
        topic = session.create_topic("prices")
        assert isinstance(session, TopicSession)
        assert isinstance(session.create_publisher(topic), TopicPublisher)
        assert isinstance(session.create_subscriber(topic), TopicSubscriber)
        assert isinstance(session.create_producer(topic), TopicPublisher)
        assert isinstance(session.create_consumer(topic), TopicSubscriber)
        assert session.createSubscriber(topic, "a = 1", True).getTopic() == topic

    def test_a_connection_makes_sessions_of_its_domain(self, queues: QueueConnection, topics: TopicConnection) -> None:
        assert isinstance(queues.create_session(False, 1), QueueSession)
        assert isinstance(topics.create_session(False, 1), TopicSession)
        assert queues.create_queue_session(True, 0).transacted
        assert queues.create_queue_session().acknowledge_mode == Session.AUTO_ACKNOWLEDGE
        assert topics.create_topic_session(False, 2).acknowledge_mode == Session.CLIENT_ACKNOWLEDGE

    def test_queues_through_both(self, queues: QueueConnection, connection: JmsConnection) -> None:
        old, new = queues.create_queue_session(False, 1), connection.create_session()
        queue = old.create_queue("orders")
        old.create_sender(queue).send(old.create_text_message("old"))
        send_texts(new, queue, "new")
        receiver, consumer = old.create_receiver(queue), new.create_consumer(queue)
        assert text_of(take(consumer)) == "old"
        assert text_of(take(receiver)) == "new"
        assert list(old.create_browser(queue)) == []

    def test_topics_through_both(self, topics: TopicConnection, connection: JmsConnection) -> None:
        old, new = topics.create_topic_session(False, 1), connection.create_session()
        topic = old.create_topic("prices")
        subscriber, consumer = old.create_subscriber(topic), new.create_consumer(topic)
        old.create_publisher(topic).publish(old.create_text_message("old"))
        send_texts(new, topic, "new")
        assert drain(subscriber) == drain(consumer) == ["old", "new"]

    def test_durable_subscriptions_through_both(
        self, topics: TopicConnection, jms_connection_factory: ConnectionFactory
    ) -> None:
        session = topics.create_topic_session(False, 1)
        topic = session.create_topic("prices")
        session.create_durable_subscriber(topic, "all").close()
        send_texts(session, topic, "1.80")
        topics.close()
        with jms_connection_factory.create_connection() as common:
            common.client_id = "topics"
            common.start()
            assert drain(common.create_session().create_durable_subscriber(topic, "all")) == ["1.80"]

    @pytest.mark.parametrize("domain", ["queue", "topic"])
    def test_transactions_and_listeners(
        self, queues: QueueConnection, topics: TopicConnection, connection: JmsConnection, domain: str
    ) -> None:
        recorder, session = Recorder(), connection.create_session()
        if domain == "queue":
            sending: Any = queues.create_queue_session(True, 0)
            receiving: Any = queues.create_queue_session(False, 1)
            destination: Any = session.create_queue("orders")
            receiving.create_receiver(destination).message_listener = recorder
        else:
            sending, receiving = topics.create_topic_session(True, 0), topics.create_topic_session(False, 1)
            destination = session.create_topic("prices")
            receiving.create_subscriber(destination).message_listener = recorder
        send_texts(sending, destination, "rolled back")
        sending.rollback()
        send_texts(sending, destination, "committed")
        sending.commit()
        assert recorder.wait_for(1) == ["committed"]


class TestWrongDestination:
    @pytest.mark.realises("BOIL-EXC-5")
    @pytest.mark.parametrize("wrong", [None, "orders", 5])
    def test_what_is_none(self, queues: QueueConnection, topics: TopicConnection, wrong: Any) -> None:
        for make in (
            lambda: queues.create_queue_session().create_receiver(wrong),
            lambda: topics.create_topic_session().create_subscriber(wrong),
            lambda: topics.create_topic_session().create_durable_subscriber(wrong, "all"),
        ):
            with pytest.raises(InvalidDestinationException):
                make()

    @pytest.mark.realises("BOIL-EXC-5")
    def test_of_the_other_domain(self, queues: QueueConnection, topics: TopicConnection, session: Session) -> None:
        queue: Any = session.create_queue("orders")
        topic: Any = session.create_topic("prices")
        makers: list[Callable[[], object]] = [
            lambda: queues.create_queue_session().create_receiver(topic),
            lambda: topics.create_topic_session().create_subscriber(queue),
        ]
        for make in makers:
            with pytest.raises(InvalidDestinationException):
                make()


class TestSessionsMessages:
    @pytest.mark.realises("BOIL-SESS-1")
    @pytest.mark.parametrize("domain", ["queue", "topic", "common"])
    def test_every_session_makes_every_message(
        self, queues: QueueConnection, topics: TopicConnection, connection: JmsConnection, domain: str
    ) -> None:
        session: Session = {
            "queue": queues.create_queue_session,
            "topic": topics.create_topic_session,
            "common": connection.create_session,
        }[domain](False, 1)
        assert session.createTextMessage("espresso").getText() == "espresso"
        assert session.create_text_message().text is None
        assert session.create_object_message({"cups": 2}).object == {"cups": 2}
        assert session.createObjectMessage().getObject() is None
        for make in ("Bytes", "Map", "Stream", ""):
            assert getattr(session, f"create{make}Message")().getJMSMessageID() is None
