"""The header fields that send sets, and expiry (JMS 1.1 §3.4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from freezegun import freeze_time

from pyjms import Message, MessageNotWriteableException, Session
from pyjms.runtime.factory import ConnectionFactory
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import (
    Call,
    Recorder,
    WatchedClock,
    drain,
    send_texts,
    take,
    text_of,
)

HEADERS = [
    "jms_destination",
    "jms_delivery_mode",
    "jms_expiration",
    "jms_priority",
    "jms_message_id",
    "jms_timestamp",
    "jms_correlation_id",
    "jms_reply_to",
    "jms_type",
]


def headers(message: Message) -> dict[str, Any]:
    """Return the header fields that must be the same for the sender and the receiver."""
    return {name: getattr(message, name) for name in HEADERS}


def send_and_receive(session: Session, message: Message, **options: int) -> Message:
    """Send to a queue and receive."""
    queue = session.create_queue("orders")
    with session.create_producer(queue) as producer, session.create_consumer(queue) as consumer:
        producer.send(message, **options)
        return take(consumer)


class TestWhoSetsWhat:
    @pytest.mark.realises("BOIL-HDR-1", "BOIL-HDR-13", "BOIL-HDR-14")
    def test_send_overwrites_its_own(self, virtual_clock: WatchedClock, session: Session) -> None:
        message = session.create_message()
        message.jms_destination = session.create_topic("elsewhere")
        message.jms_delivery_mode = 1
        message.jms_expiration = 17
        message.jms_priority = 9
        message.jms_message_id = "ID:mine"
        message.jms_timestamp = 18
        received = send_and_receive(session, message, delivery_mode=2, priority=3, time_to_live=500)
        now = virtual_clock.time_ms()
        for each in (message, received):
            assert each.jms_destination == session.create_queue("orders")
            assert (each.jms_delivery_mode, each.jms_priority) == (2, 3)
            assert (each.jms_timestamp, each.jms_expiration) == (now, now + 500)
            assert each.jms_message_id not in (None, "ID:mine")

    @pytest.mark.realises("BOIL-HDR-8", "BOIL-HDR-14")
    def test_the_clients_own_arrive_unchanged(self, session: Session) -> None:
        message = session.create_message()
        message.jms_correlation_id = "order 17"
        message.jms_type = "coffee/order"
        message.jms_reply_to = session.create_queue("replies")
        received = send_and_receive(session, message)
        assert received.jms_correlation_id == message.jms_correlation_id == "order 17"
        assert received.jms_type == message.jms_type == "coffee/order"
        assert received.jms_reply_to == message.jms_reply_to == session.create_queue("replies")

    @pytest.mark.realises("BOIL-HDR-14")
    def test_what_the_client_left_out_stays_out(self, session: Session) -> None:
        received = send_and_receive(session, session.create_message())
        assert (received.jms_correlation_id, received.jms_type, received.jms_reply_to) == (None, None, None)

    @pytest.mark.realises("BOIL-HDR-14")
    @pytest.mark.parametrize("kind", ["queue", "topic", "temporary queue", "temporary topic"])
    def test_any_destination_may_be_replied_to(self, session: Session, kind: str) -> None:
        reply_to = {
            "queue": lambda: session.create_queue("replies"),
            "topic": lambda: session.create_topic("replies"),
            "temporary queue": session.create_temporary_queue,
            "temporary topic": session.create_temporary_topic,
        }[kind]()
        message = session.create_message()
        message.jms_reply_to = reply_to
        seen = send_and_receive(session, message).jms_reply_to
        assert seen == reply_to
        consumer = session.create_consumer(reply_to)
        assert seen is not None
        send_texts(session, seen, "reply")
        assert drain(consumer) == ["reply"]

    @pytest.mark.realises("BOIL-HDR-7", "BOIL-HDR-14")
    def test_the_provider_says_whether_it_is_a_redelivery(self, connect: Connect) -> None:
        session = connect().create_session(True, 0)
        queue, message = session.create_queue("orders"), session.create_message()
        message.jms_redelivered = True
        session.create_producer(queue).send(message)
        session.commit()
        assert message.jms_redelivered is True  # send does not touch it
        consumer = session.create_consumer(queue)
        assert take(consumer).jms_redelivered is False
        session.rollback()
        assert take(consumer).jms_redelivered is True

    def test_sender_and_receiver_see_the_same(self, session: Session) -> None:
        message = session.create_text_message("espresso")
        message.jms_correlation_id = "order 17"
        received = send_and_receive(session, message, time_to_live=60_000)
        assert headers(received) == headers(message)

    @pytest.mark.realises("BOIL-HDR-16")
    def test_those_of_a_received_message_may_be_changed(self, session: Session) -> None:
        message = session.create_text_message("espresso")
        message.set_int_property("cups", 2)
        received = send_and_receive(session, message)
        received.jms_correlation_id = "changed"
        received.jms_type = "changed"
        received.jms_priority = 1
        received.jms_reply_to = session.create_queue("changed")
        assert (received.jms_correlation_id, received.jms_type, received.jms_priority) == ("changed", "changed", 1)
        with pytest.raises(MessageNotWriteableException):
            received.set_int_property("cups", 3)
        with pytest.raises(MessageNotWriteableException):
            received.setText("latte")  # type: ignore[attr-defined]

    @pytest.mark.realises("BOIL-HDR-16", "BOIL-SESS-11")
    def test_a_received_message_can_be_sent_on(self, session: Session) -> None:
        message = session.create_text_message("espresso")
        message.set_int_property("cups", 2)
        received = send_and_receive(session, message)
        first_id = received.jms_message_id
        received.jms_correlation_id = first_id
        again = send_and_receive(session, received)
        assert (text_of(again), again.get_int_property("cups")) == ("espresso", 2)
        assert again.jms_correlation_id == first_id
        assert again.jms_message_id not in (None, first_id)
        assert again.jms_redelivered is False
        assert again.get_int_property("JMSXDeliveryCount") == 1


class TestMessageId:
    @pytest.mark.realises("BOIL-HDR-1", "BOIL-HDR-3")
    def test_it_is_there_when_send_returns(self, session: Session) -> None:
        message = session.create_message()
        before = message.jms_message_id
        received = send_and_receive(session, message)
        assert before is None
        assert str(message.jms_message_id).startswith("ID:")
        assert received.jms_message_id == message.jms_message_id

    @pytest.mark.realises("BOIL-HDR-2")
    def test_no_two_are_the_same(self, connect: Connect, jms_broker_url: str) -> None:
        def send_many(session: Session) -> list[str | None]:
            queue, ids = session.create_queue("orders"), list[str | None]()
            with session.create_producer(queue) as producer:
                message = session.create_message()
                for _ in range(50):
                    producer.send(message)
                    ids.append(message.jms_message_id)
            return ids

        with ConnectionFactory(f"{jms_broker_url}-other").create_connection() as other:
            sessions = [connect().create_session() for _ in range(3)]
            sessions += [connection.create_session() for connection in (connect(), other) for _ in range(2)]
            calls = [Call(send_many, session) for session in sessions]
            ids = [each for call in calls for each in call.result()]
        assert len(set(ids)) == len(ids) == 50 * len(sessions)

    @pytest.mark.realises("BOIL-HDR-4")
    def test_the_hint_leaves_it_out(self, session: Session) -> None:
        queue = session.create_queue("orders")
        producer, message = session.create_producer(queue), session.create_message()
        producer.send(message)
        producer.disable_message_id = True
        assert producer.getDisableMessageID() is True
        producer.send(message)
        assert message.jms_message_id is None
        producer.setDisableMessageID(False)
        producer.send(message)
        assert str(message.jms_message_id).startswith("ID:")
        consumer = session.create_consumer(queue)
        ids = [take(consumer).jms_message_id for _ in range(3)]
        assert [each is None for each in ids] == [False, True, False]

    @pytest.mark.realises("BOIL-HDR-4", "BOIL-ACK-3")
    def test_messages_without_one_are_settled_like_others(self, connect: Connect) -> None:
        session = connect().create_session(False, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        with session.create_producer(queue) as producer:
            producer.disable_message_id = True
            for text in ("one", "two"):
                producer.send(session.create_text_message(text))
        consumer = session.create_consumer(queue)
        take(consumer)
        session.recover()
        take(consumer).acknowledge()
        session.close()
        other = connect().create_session()
        assert drain(other.create_consumer(queue)) == ["two"]


class TestTimestamp:
    @pytest.mark.realises("BOIL-HDR-5")
    def test_it_is_when_the_message_was_handed_over(self, virtual_clock: WatchedClock, session: Session) -> None:
        message = session.create_message()
        assert message.jms_timestamp == 0
        virtual_clock.advance(1234)
        sent_at = virtual_clock.time_ms()
        queue = session.create_queue("orders")
        session.create_producer(queue).send(message)
        virtual_clock.advance(5000)
        assert take(session.create_consumer(queue)).jms_timestamp == message.jms_timestamp == sent_at

    @pytest.mark.realises("BOIL-HDR-5")
    def test_it_counts_from_1970(self, session: Session) -> None:
        with freeze_time("2026-05-17 12:30:00.250"):
            message = session.create_message()
            send_and_receive(session, message)
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=message.jms_timestamp)
        assert moment == datetime(2026, 5, 17, 12, 30, 0, 250_000, tzinfo=UTC)

    @pytest.mark.realises("BOIL-HDR-6")
    def test_the_hint_leaves_it_out(self, virtual_clock: WatchedClock, session: Session) -> None:
        queue = session.create_queue("orders")
        producer, message = session.create_producer(queue), session.create_message()
        producer.disable_message_timestamp = True
        assert producer.getDisableMessageTimestamp() is True
        producer.send(message, time_to_live=100)
        assert message.jms_timestamp == 0
        assert message.jms_expiration == virtual_clock.time_ms() + 100
        assert take(session.create_consumer(queue)).jms_timestamp == 0


class TestExpiry:
    @pytest.mark.realises("BOIL-HDR-9")
    @pytest.mark.parametrize(("time_to_live", "expected"), [(0, 0), (1, 1), (60_000, 60_000)])
    def test_the_time_is_that_of_sending_and_the_time_to_live(
        self, virtual_clock: WatchedClock, session: Session, time_to_live: int, expected: int
    ) -> None:
        message = session.create_message()
        received = send_and_receive(session, message, time_to_live=time_to_live)
        now = virtual_clock.time_ms()
        assert message.jms_expiration == received.jms_expiration == (now + expected if expected else 0)

    @pytest.mark.realises("BOIL-HDR-10", "BOIL-HDR-11", "BOIL-PROD-5")
    def test_an_expired_message_is_not_delivered(self, virtual_clock: WatchedClock, session: Session) -> None:
        queue = session.create_queue("orders")
        send_texts(session, queue, "short", time_to_live=1000)
        send_texts(session, queue, "long", time_to_live=5000)
        send_texts(session, queue, "for ever")
        virtual_clock.advance(999)
        assert [text_of(each) for each in session.create_browser(queue)] == ["short", "long", "for ever"]
        virtual_clock.advance(2)
        assert drain(session.create_consumer(queue)) == ["long", "for ever"]

    @pytest.mark.realises("BOIL-HDR-10")
    def test_a_message_expires_for_the_consumer_that_waits(self, virtual_clock: WatchedClock, connect: Connect) -> None:
        session, sending = connect().create_session(), connect().create_session()
        queue = session.create_queue("orders")
        send_texts(sending, queue, "short", time_to_live=10)
        virtual_clock.advance(11)
        waiting = Call(session.create_consumer(queue).receive)
        virtual_clock.await_blocked(waiting)
        assert waiting.is_blocked()
        send_texts(sending, queue, "next")
        assert text_of(waiting.result()) == "next"

    @pytest.mark.realises("BOIL-HDR-11")
    def test_listeners_do_not_get_it_either(self, virtual_clock: WatchedClock, connect: Connect) -> None:
        connection, recorder = connect(started=False), Recorder()
        session = connection.create_session()
        queue = session.create_queue("orders")
        session.create_consumer(queue).message_listener = recorder
        sending = connect().create_session()
        send_texts(sending, queue, "short", time_to_live=10)
        virtual_clock.advance(11)
        connection.start()
        send_texts(sending, queue, "next")
        assert recorder.wait_for(1) == ["next"]

    @pytest.mark.realises("BOIL-HDR-10")
    def test_a_topic_forgets_it_too(self, virtual_clock: WatchedClock, session: Session) -> None:
        topic = session.create_topic("prices")
        subscriber = session.create_consumer(topic)
        send_texts(session, topic, "short", time_to_live=10)
        send_texts(session, topic, "long", time_to_live=100)
        virtual_clock.advance(11)
        assert drain(subscriber) == ["long"]

    @pytest.mark.realises("BOIL-HDR-10")
    def test_a_recovered_message_may_have_expired(self, virtual_clock: WatchedClock, connect: Connect) -> None:
        session = connect().create_session(False, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        send_texts(session, queue, "short", time_to_live=10)
        consumer = session.create_consumer(queue)
        assert text_of(take(consumer)) == "short"
        virtual_clock.advance(11)
        session.recover()
        assert consumer.receive_no_wait() is None

    @pytest.mark.realises("BOIL-HDR-11")
    def test_a_message_that_was_received_in_time_may_be_acknowledged_late(
        self, virtual_clock: WatchedClock, connect: Connect
    ) -> None:
        session = connect().create_session(False, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        send_texts(session, queue, "short", time_to_live=10)
        message = take(session.create_consumer(queue))
        virtual_clock.advance(11)
        message.acknowledge()
        assert text_of(message) == "short"

    @pytest.mark.realises("BOIL-HDR-10", "BOIL-HDR-11")
    def test_frozen_time_is_obeyed(self, jms_broker_url: str) -> None:
        """An application's own tests travel in time with freezegun."""
        with (
            freeze_time("2026-05-17 12:00:00") as frozen,
            ConnectionFactory(jms_broker_url).create_connection() as here,
        ):
            here.start()
            session = here.create_session()
            queue = session.create_queue("orders")
            send_texts(session, queue, "short", time_to_live=60_000)
            send_texts(session, queue, "long", time_to_live=600_000)
            frozen.tick(timedelta(minutes=5))
            consumer = session.create_consumer(queue)
            assert text_of(consumer.receive_no_wait()) == "long"
            assert consumer.receive_no_wait() is None
