"""Topics and their subscriptions without a name (JMS 1.1 §6.3, §6.6, §6.11, §6.12)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest

from pyjms import DeliveryMode, Message, Session
from pyjms.runtime.factory import ConnectionFactory
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    PATIENCE_S,
    Recorder,
    await_event,
    drain,
    send_texts,
    take,
    take_texts,
    text_of,
    within_patience,
)

CLIENT = Session.CLIENT_ACKNOWLEDGE


@pytest.mark.realises("BOIL-PUB-2")
class TestLife:
    def test_a_subscriber_gets_what_is_published_while_it_lives(self, session: Session) -> None:
        topic = session.create_topic("prices")
        send_texts(session, topic, "too early")
        subscriber = session.create_consumer(topic)
        send_texts(session, topic, "in time")
        assert drain(subscriber) == ["in time"]
        subscriber.close()
        send_texts(session, topic, "too late")
        assert drain(session.create_consumer(topic)) == []

    def test_it_gathers_while_its_connection_is_stopped(self, connect: Connect) -> None:
        connection = connect(started=False)
        session = connection.create_session()
        topic = session.create_topic("prices")
        subscriber = session.create_consumer(topic)
        send_texts(connect().create_session(), topic, "one", "two")
        connection.start()
        assert drain(subscriber) == ["one", "two"]

    @pytest.mark.parametrize("closes", ["subscriber", "session", "connection"])
    def test_its_messages_end_with_it(self, connect: Connect, closes: str) -> None:
        connection, sending = connect(), connect().create_session()
        session = connection.create_session(False, CLIENT)
        topic = session.create_topic("prices")
        subscriber = session.create_consumer(topic)
        send_texts(sending, topic, "one", "two")
        take(subscriber)
        {"subscriber": subscriber.close, "session": session.close, "connection": connection.close}[closes]()
        again = connect().create_session().create_consumer(topic)
        assert drain(again) == []

    def test_a_topic_without_subscribers_takes_messages(self, session: Session) -> None:
        topic = session.create_topic("nobody")
        send_texts(session, topic, "one")
        subscriber = session.create_consumer(topic)
        send_texts(session, topic, "two")
        assert drain(subscriber) == ["two"]


@pytest.mark.realises("BOIL-PUB-10", "BOIL-ORD-7")
class TestCopies:
    def test_each_subscriber_gets_each_message(self, connect: Connect) -> None:
        sessions = [connect().create_session() for _ in range(3)]
        topic = sessions[0].create_topic("prices")
        subscribers = [session.create_consumer(topic) for session in sessions for _ in range(2)]
        send_texts(connect().create_session(), topic, "one", "two")
        assert [drain(subscriber) for subscriber in subscribers] == [["one", "two"]] * 6

    def test_work_on_one_copy_leaves_the_other_alone(self, connect: Connect) -> None:
        sessions = [connect().create_session() for _ in range(2)]
        topic = sessions[0].create_topic("prices")
        first, second = (session.create_consumer(topic) for session in sessions)
        message = sessions[0].create_map_message()
        message.set_int("price", 180)
        message.set_string_property("city", "Turin")
        sessions[0].create_producer(topic).send(message)
        mine = take(first)
        mine.clear_body()
        mine.clear_properties()
        mine.set_string_property("city", "Rome")
        mine.jms_type = "changed"
        message.set_int("price", 1)
        theirs = take(second)
        assert theirs.get_string_property("city") == "Turin"
        assert theirs.getInt("price") == 180  # type: ignore[attr-defined]
        assert theirs.jms_type is None

    def test_acknowledging_one_leaves_the_other_unacknowledged(self, connect: Connect) -> None:
        sessions = [connect().create_session(False, CLIENT) for _ in range(2)]
        topic = sessions[0].create_topic("prices")
        first, second = (session.create_consumer(topic) for session in sessions)
        send_texts(connect().create_session(), topic, "one")
        take(first).acknowledge()
        take(second)
        for session in sessions:
            session.recover()
        assert drain(first) == []
        again = take(second)
        assert (text_of(again), again.jms_redelivered) == ("one", True)

    def test_a_rollback_recovers_one_copy_only(self, connect: Connect) -> None:
        sessions = [connect().create_session(True, 0) for _ in range(2)]
        topic = sessions[0].create_topic("prices")
        first, second = (session.create_consumer(topic) for session in sessions)
        send_texts(connect().create_session(), topic, "one")
        take(first)
        take(second)
        sessions[0].rollback()
        sessions[1].commit()
        assert take_texts(first, 1) == ["one"]
        assert drain(second) == []

    def test_a_blocked_listener_blocks_nobody_else(self, connect: Connect, latch: Callable[[], Event]) -> None:
        release, blocked = latch(), Event()
        slow, quick = connect(), connect()
        slow_session, quick_session, recorder = slow.create_session(), quick.create_session(), Recorder()
        topic = slow_session.create_topic("prices")

        def hold(message: Message) -> None:
            blocked.set()
            release.wait(PATIENCE_S)

        slow_session.create_consumer(topic).message_listener = hold
        quick_session.create_consumer(topic).message_listener = recorder
        sending = connect().create_session()
        send_texts(sending, topic, "one")
        await_event(blocked)
        texts = [str(number) for number in range(200)]
        within_patience(send_texts, sending, topic, *texts)
        assert recorder.wait_for(201) == ["one", *texts]


@pytest.mark.realises("BOIL-PUB-12", "BOIL-PROD-3")
@pytest.mark.parametrize("mode", list(DeliveryMode))
def test_a_persistent_message_is_lost_with_a_nondurable_subscription(connect: Connect, mode: int) -> None:
    """The delivery mode does not change how a topic recovers."""
    connection = connect()
    session = connection.create_session(False, CLIENT)
    topic = session.create_topic("prices")
    subscriber = session.create_consumer(topic)
    send_texts(connect().create_session(), topic, "one", delivery_mode=mode)
    assert take_texts(subscriber, 1) == ["one"]
    connection.close()
    assert drain(connect().create_session().create_consumer(topic)) == []


@pytest.mark.realises("BOIL-PUB-9")
class TestNoLocal:
    def test_it_leaves_out_what_its_own_connection_published(self, connect: Connect) -> None:
        mine, other = connect(), connect()
        session, second = mine.create_session(), mine.create_session()
        topic = session.create_topic("prices")
        deaf, hearing = session.create_consumer(topic, None, True), session.create_consumer(topic, None, False)
        send_texts(session, topic, "same session")
        send_texts(second, topic, "same connection")
        send_texts(other.create_session(), topic, "other connection")
        assert drain(deaf) == ["other connection"]
        assert drain(hearing) == ["same session", "same connection", "other connection"]

    def test_it_goes_with_a_selector(self, connect: Connect) -> None:
        mine, other = connect().create_session(), connect().create_session()
        topic = mine.create_topic("prices")
        subscriber = mine.create_consumer(topic, "JMSPriority > 4", True)
        for session, name in ((mine, "mine"), (other, "other")):
            send_texts(session, topic, f"{name} low", priority=1)
            send_texts(session, topic, f"{name} high", priority=9)
        assert drain(subscriber) == ["other high"]

    def test_queues_ignore_it(self, session: Session) -> None:
        queue = session.create_queue("orders")
        consumer = session.create_consumer(queue, None, True)
        send_texts(session, queue, "mine")
        assert drain(consumer) == ["mine"]

    def test_the_subscriber_says_so(self, connect: Connect, jms_connection_factory: ConnectionFactory) -> None:
        with jms_connection_factory.create_topic_connection() as connection:
            session = connection.create_topic_session(False, 1)
            topic = session.create_topic("prices")
            assert session.create_subscriber(topic, None, True).no_local is True
            assert session.create_subscriber(topic).no_local is False
            assert session.create_subscriber(topic).getNoLocal() is False
            assert session.create_subscriber(topic).topic == topic

    def test_transacted_publishers_are_local_too(self, connect: Connect) -> None:
        mine = connect()
        publishing, session = mine.create_session(True, 0), mine.create_session()
        topic = session.create_topic("prices")
        subscriber = session.create_consumer(topic, no_local=True)
        send_texts(publishing, topic, "mine")
        publishing.commit()
        assert drain(subscriber) == []


@pytest.mark.realises("BOIL-PUB-13")
def test_a_subscription_keeps_what_its_subscriber_does_not_read(connect: Connect) -> None:
    """There is no limit to begin with: two thousand unread messages are kept."""
    session = connect().create_session()
    topic = session.create_topic("prices")
    subscriber = session.create_consumer(topic)
    send_texts(connect().create_session(), topic, *map(str, range(2_000)))
    assert drain(subscriber) == [str(number) for number in range(2_000)]
