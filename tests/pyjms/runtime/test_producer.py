"""Producers: defaults, overloads, arguments that are refused (JMS 1.1 §4.6, §4.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms import (
    DeliveryMode,
    InvalidDestinationException,
    JMSException,
    Message,
    MessageFormatException,
    MessageProducer,
    ResourceAllocationException,
    Session,
    UnsupportedOperationException,
)
from pyjms.messages.bodies import JmsTextMessage
from pyjms.runtime.factory import ConnectionFactory
from pyjms.testing import Fault, Faults
from tests.pyjms.messages.foreign import JavaTextMessage, PythonTextMessage
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import drain, send_texts, take, take_texts, text_of

MODE, PRIORITY, TTL = DeliveryMode.NON_PERSISTENT, 7, 60_000


def shown(message: Message) -> tuple[int, int, bool]:
    """Return what the send decided: delivery mode, priority, and whether the message can expire."""
    return message.jms_delivery_mode, message.jms_priority, message.jms_expiration > 0


DEFAULTS = (DeliveryMode.PERSISTENT, 4, False)
GIVEN = (MODE, PRIORITY, True)


class TestDefaults:
    @pytest.mark.realises("BOIL-PROD-1")
    def test_at_first(self, session: Session) -> None:
        producer = session.create_producer(session.create_queue("orders"))
        assert (producer.delivery_mode, producer.priority, producer.time_to_live) == (2, 4, 0)
        assert (producer.disable_message_id, producer.disable_message_timestamp) == (False, False)
        assert (producer.getDeliveryMode(), producer.getPriority(), producer.getTimeToLive()) == (2, 4, 0)
        assert (producer.getDisableMessageID(), producer.getDisableMessageTimestamp()) == (False, False)
        assert producer.getDestination() == session.create_queue("orders")
        assert session.create_producer(None).destination is None

    @pytest.mark.realises("BOIL-PROD-1")
    def test_they_can_be_changed(self, session: Session) -> None:
        producer = session.create_producer(session.create_queue("orders"))
        producer.delivery_mode, producer.priority, producer.time_to_live = MODE, PRIORITY, TTL
        message = session.create_message()
        producer.send(message)
        assert shown(message) == GIVEN
        producer.setDeliveryMode(2)
        producer.setPriority(0)
        producer.setTimeToLive(0)
        producer.send(message)
        assert shown(message) == (2, 0, False)

    @pytest.mark.realises("BOIL-PROD-1", "BOIL-HDR-13")
    def test_a_send_goes_before_them(self, session: Session) -> None:
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        producer.priority, producer.time_to_live, producer.delivery_mode = 1, 1000, 2
        message = session.create_message()
        producer.send(message, MODE, PRIORITY, 0)
        assert shown(message) == (MODE, PRIORITY, False)
        assert shown(take(session.create_consumer(queue))) == (MODE, PRIORITY, False)
        assert (producer.priority, producer.time_to_live, producer.delivery_mode) == (1, 1000, 2)

    @pytest.mark.realises("BOIL-PROD-1")
    def test_they_belong_to_one_producer(self, session: Session) -> None:
        first, second = (session.create_producer(session.create_queue("orders")) for _ in range(2))
        first.priority = 9
        assert second.priority == 4

    @pytest.mark.parametrize("mode", list(DeliveryMode))
    def test_the_delivery_mode_is_kept_not_raised(self, session: Session, mode: DeliveryMode) -> None:
        queue = session.create_queue("orders")
        send_texts(session, queue, "one", delivery_mode=mode)
        assert take(session.create_consumer(queue)).jms_delivery_mode == mode

    @pytest.mark.parametrize("wrong", [0, 3, -1, 1.5, 1.0, True, "PERSISTENT", None, []])
    def test_delivery_modes_that_are_none(self, session: Session, wrong: Any) -> None:
        producer = session.create_producer(session.create_queue("orders"))
        with pytest.raises(JMSException):
            producer.delivery_mode = wrong
        assert producer.delivery_mode == 2

    @pytest.mark.realises("BOIL-HDR-12")
    @pytest.mark.parametrize("wrong", [-1, 10, 4.5, "high", True, None])
    def test_priorities_that_are_none(self, session: Session, wrong: Any) -> None:
        producer = session.create_producer(session.create_queue("orders"))
        with pytest.raises(JMSException):
            producer.priority = wrong
        assert producer.priority == 4

    @pytest.mark.parametrize("wrong", [-1, 0.5, "1000", True, None])
    def test_times_to_live_that_are_none(self, session: Session, wrong: Any) -> None:
        producer = session.create_producer(session.create_queue("orders"))
        with pytest.raises(JMSException):
            producer.time_to_live = wrong
        assert producer.time_to_live == 0

    @pytest.mark.parametrize(
        "arguments", [(0, 4, 0), (3, 4, 0), (2, 10, 0), (2, -1, 0), (2, 4, -1), ("2", 4, 0), (2, "4", 0), (2, 4, "0")]
    )
    def test_a_send_refuses_them_too(self, session: Session, arguments: tuple[Any, Any, Any]) -> None:
        queue = session.create_queue("orders")
        message = session.create_message()
        with pytest.raises(JMSException):
            session.create_producer(queue).send(message, *arguments)
        with pytest.raises(JMSException):
            session.create_producer(None).send(queue, message, *arguments)
        assert message.jms_message_id is None
        assert session.create_consumer(queue).receive_no_wait() is None


Send = Callable[[Any, Any, Message], object]

FIXED: dict[str, tuple[Send, tuple[int, int, bool]]] = {
    "message": (lambda producer, _, message: producer.send(message), DEFAULTS),
    "message=": (lambda producer, _, message: producer.send(message=message), DEFAULTS),
    "message, all": (lambda producer, _, message: producer.send(message, MODE, PRIORITY, TTL), GIVEN),
    "message, all=": (
        lambda producer, _, message: producer.send(message, delivery_mode=MODE, priority=PRIORITY, time_to_live=TTL),
        GIVEN,
    ),
    "all=": (
        lambda producer, _, message: producer.send(
            message=message, delivery_mode=MODE, priority=PRIORITY, time_to_live=TTL
        ),
        GIVEN,
    ),
    "message, priority=": (lambda producer, _, message: producer.send(message, priority=PRIORITY), (2, 7, False)),
    "message, mode": (lambda producer, _, message: producer.send(message, MODE), (1, 4, False)),
    "message, time_to_live=": (lambda producer, _, message: producer.send(message, time_to_live=TTL), (2, 4, True)),
    "message, None": (
        lambda producer, _, message: producer.send(message, delivery_mode=None, priority=None, time_to_live=None),
        DEFAULTS,
    ),
}
FREE: dict[str, tuple[Send, tuple[int, int, bool]]] = {
    "destination, message": (lambda producer, to, message: producer.send(to, message), DEFAULTS),
    "destination, message, all": (lambda producer, to, message: producer.send(to, message, MODE, PRIORITY, TTL), GIVEN),
    "destination=, message=": (
        lambda producer, to, message: producer.send(destination=to, message=message),
        DEFAULTS,
    ),
    "message, destination=": (lambda producer, to, message: producer.send(message, destination=to), DEFAULTS),
    "destination, message=": (lambda producer, to, message: producer.send(to, message=message), DEFAULTS),
    "destination, message, all=": (
        lambda producer, to, message: producer.send(
            to, message, delivery_mode=MODE, priority=PRIORITY, time_to_live=TTL
        ),
        GIVEN,
    ),
    "destination, message, None": (
        lambda producer, to, message: producer.send(to, message, None, None, None),
        DEFAULTS,
    ),
}


class TestSend:
    @pytest.mark.realises("BOIL-PROD-1", "BOIL-HDR-13")
    @pytest.mark.parametrize("kind", ["queue", "topic"])
    @pytest.mark.parametrize("name", list(FIXED))
    def test_with_a_destination_of_its_own(self, session: Session, name: str, kind: str) -> None:
        send, expected = FIXED[name]
        destination = session.create_queue("orders") if kind == "queue" else session.create_topic("prices")
        consumer = session.create_consumer(destination)
        message = session.create_text_message("espresso")
        send(session.create_producer(destination), None, message)
        assert shown(message) == expected
        received = take(consumer)
        assert (shown(received), text_of(received)) == (expected, "espresso")
        assert message.jms_destination == received.jms_destination == destination

    @pytest.mark.parametrize("kind", ["queue", "topic"])
    @pytest.mark.parametrize("name", list(FREE))
    def test_without_one(self, session: Session, name: str, kind: str) -> None:
        send, expected = FREE[name]
        destination = session.create_queue("orders") if kind == "queue" else session.create_topic("prices")
        consumer = session.create_consumer(destination)
        message = session.create_text_message("espresso")
        producer = session.create_producer(None)
        send(producer, destination, message)
        assert shown(message) == expected
        assert text_of(take(consumer)) == "espresso"
        other = session.create_queue("another")
        send(producer, other, message)
        assert text_of(take(session.create_consumer(other))) == "espresso"

    @pytest.mark.parametrize("name", list(FIXED))
    def test_one_without_needs_one(self, session: Session, name: str) -> None:
        with pytest.raises((UnsupportedOperationException, InvalidDestinationException)):
            FIXED[name][0](session.create_producer(None), None, session.create_message())

    @pytest.mark.parametrize(
        ("arguments", "keywords"),
        [((), {}), ((DeliveryMode.NON_PERSISTENT, 4, 0), {}), ((), {"priority": 4})],
        ids=repr,
    )
    def test_a_send_of_one_without_that_names_none_is_not_supported(
        self, session: Session, arguments: tuple[int, ...], keywords: dict[str, int]
    ) -> None:
        producer, message = session.create_producer(None), session.create_message()
        with pytest.raises(UnsupportedOperationException):
            producer.send(message, *arguments, **keywords)
        with pytest.raises(UnsupportedOperationException):
            producer.send(message=message, **keywords)

    @pytest.mark.parametrize("name", list(FREE))
    def test_one_with_takes_no_other(self, session: Session, name: str) -> None:
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        for other in (session.create_queue("another"), queue):
            with pytest.raises(UnsupportedOperationException):
                FREE[name][0](producer, other, session.create_message())
        assert session.create_consumer(queue).receive_no_wait() is None

    @pytest.mark.realises("BOIL-EXC-5")
    @pytest.mark.parametrize("wrong", [None, "orders", 5])
    def test_destinations_that_are_none(self, session: Session, wrong: Any) -> None:
        with pytest.raises(InvalidDestinationException):
            session.create_producer(None).send(wrong, session.create_message())
        if wrong is not None:
            with pytest.raises(InvalidDestinationException):
                session.create_producer(wrong)

    @pytest.mark.realises("BOIL-EXC-8")
    @pytest.mark.parametrize("wrong", [None, "espresso", 5, object()])
    def test_messages_that_are_none(self, session: Session, wrong: Any) -> None:
        queue = session.create_queue("orders")
        with pytest.raises(MessageFormatException):
            session.create_producer(queue).send(wrong)
        with pytest.raises(MessageFormatException):
            session.create_producer(None).send(queue, wrong)
        assert session.create_consumer(queue).receive_no_wait() is None

    @pytest.mark.parametrize(
        "send",
        [
            lambda producer, message: producer.send(),
            lambda producer, message: producer.send(message, 2, 4, 0, 1),
            lambda producer, message: producer.send(message, colour="red"),
            lambda producer, message: producer.send(message, 2, delivery_mode=2),
            lambda producer, message: producer.send(message, message=message),
        ],
        ids=["nothing", "too much", "unknown name", "mode twice", "message twice"],
    )
    def test_other_orders_are_type_errors(self, session: Session, send: Callable[[Any, Any], object]) -> None:
        queue = session.create_queue("orders")
        with pytest.raises(TypeError):
            send(session.create_producer(queue), session.create_message())
        assert session.create_consumer(queue).receive_no_wait() is None

    @pytest.mark.realises("BOIL-SESS-11")
    def test_messages_of_other_sessions_and_connections(self, connect: Connect) -> None:
        first, second = connect().create_session(), connect().create_session()
        queue = second.create_queue("orders")
        send_from_second = second.create_producer(queue)
        made = first.create_text_message("made by another")
        send_from_second.send(made)
        received = take(first.create_consumer(queue))
        send_from_second.send(received)
        assert take_texts(second.create_consumer(queue), 1) == ["made by another"]

    @pytest.mark.realises("BOIL-SESS-11", "BOIL-BODY-6")
    @pytest.mark.parametrize("kind", [JavaTextMessage, PythonTextMessage])
    @pytest.mark.parametrize("how", ["queue", "topic", "transacted"])
    def test_messages_of_other_makers(self, connect: Connect, kind: Any, how: str) -> None:
        """However implemented: they arrive as messages of ours, and show what send has set."""
        connection = connect()
        session = connection.create_session(how == "transacted", 1)
        destination = session.create_topic("prices") if how == "topic" else session.create_queue("orders")
        consumer = connection.create_session().create_consumer(destination)
        message = kind()
        message.text = "espresso"
        session.create_producer(destination).send(message, MODE, PRIORITY, TTL)
        if how == "transacted":
            session.commit()
        received = take(consumer)
        assert text_of(received) == "espresso"
        assert shown(message) == shown(received) == GIVEN
        assert message.jms_message_id == received.jms_message_id
        assert str(message.jms_message_id).startswith("ID:")
        assert message.jms_destination == received.jms_destination == destination

    def test_a_message_of_a_derived_class(self, session: Session) -> None:
        class Order(JmsTextMessage):
            """An application's own."""

        queue = session.create_queue("orders")
        session.create_producer(queue).send(Order("espresso"))
        assert take_texts(session.create_consumer(queue), 1) == ["espresso"]

    def test_one_message_may_be_sent_again_and_again(self, session: Session) -> None:
        queue = session.create_queue("orders")
        producer, message = session.create_producer(queue), session.create_text_message("one")
        ids = []
        for text in ("one", "two", "three"):
            message.text = text
            producer.send(message)
            ids.append(message.jms_message_id)
        assert len(set(ids)) == 3
        assert drain(session.create_consumer(queue)) == ["one", "two", "three"]

    @pytest.mark.realises("BOIL-PROD-7")
    def test_while_stopped(self, connect: Connect) -> None:
        session, other = connect(started=False).create_session(), connect().create_session()
        send_texts(session, session.create_queue("orders"), "espresso")
        assert take_texts(other.create_consumer(other.create_queue("orders")), 1) == ["espresso"]

    @pytest.mark.realises("BOIL-EXC-11")
    def test_a_refused_send_leaves_the_message_as_it_was(self, jms_faults: Faults, connect: Connect) -> None:
        session = connect().create_session()
        queue = session.create_queue("orders")
        producer, message = session.create_producer(queue), session.create_text_message("espresso")
        jms_faults.inject(Fault.SEND_REFUSED)
        with pytest.raises(ResourceAllocationException):
            producer.send(message)
        assert (message.jms_message_id, message.jms_destination) == (None, None)
        producer.send(message)
        assert take_texts(session.create_consumer(queue), 1) == ["espresso"]

    def test_a_connection_that_drops_at_a_send(self, jms_faults: Faults, connect: Connect) -> None:
        session = connect().create_session()
        producer = session.create_producer(session.create_queue("orders"))
        jms_faults.inject(Fault.CONNECTION_DROPS_ON_SEND)
        for _ in range(2):
            with pytest.raises(JMSException) as caught:
                producer.send(session.create_text_message("espresso"))
            assert caught.value.error_code == "PYJMS-LOST"
        producer.close()

    def test_closing_one_leaves_the_session_open(self, session: Session) -> None:
        queue = session.create_queue("orders")
        with session.create_producer(queue) as producer:
            assert isinstance(producer, MessageProducer)
        send_texts(session, queue, "espresso")
        assert drain(session.create_consumer(queue)) == ["espresso"]


class TestDomains:
    """The senders and publishers of the older interfaces are the same producers."""

    @pytest.mark.realises("BOIL-DOM-4")
    @pytest.mark.parametrize("name", [*FIXED, *FREE])
    def test_a_sender(self, jms_connection_factory: ConnectionFactory, name: str) -> None:
        with jms_connection_factory.create_queue_connection() as connection:
            connection.start()
            session = connection.create_queue_session(False, 1)
            queue = session.create_queue("orders")
            send, expected = {**FIXED, **FREE}[name]
            message = session.create_text_message("espresso")
            send(session.create_sender(queue if name in FIXED else None), queue, message)
            assert shown(message) == expected
            assert text_of(take(session.create_receiver(queue))) == "espresso"

    @pytest.mark.realises("BOIL-DOM-4")
    def test_a_sender_says_queue(self, jms_connection_factory: ConnectionFactory) -> None:
        with jms_connection_factory.create_queue_connection() as connection:
            connection.start()
            session = connection.create_queue_session(False, 1)
            queue = session.create_queue("orders")
            sender = session.create_sender(None)
            sender.send(queue=queue, message=session.create_text_message("espresso"), priority=9)
            received = take(session.create_receiver(queue))
            assert (text_of(received), received.jms_priority) == ("espresso", 9)
            assert session.create_sender(queue).getQueue() == queue
            assert sender.queue is None

    @pytest.mark.realises("BOIL-DOM-4")
    @pytest.mark.parametrize("name", [*FIXED, *FREE])
    def test_a_publisher(self, jms_connection_factory: ConnectionFactory, name: str) -> None:
        with jms_connection_factory.create_topic_connection() as connection:
            connection.start()
            session = connection.create_topic_session(False, 1)
            topic = session.create_topic("prices")
            subscriber = session.create_subscriber(topic)
            send, expected = {**FIXED, **FREE}[name]
            message = session.create_text_message("1.80")
            publisher = session.create_publisher(topic if name in FIXED else None)
            send(_Publishing(publisher), topic, message)
            assert shown(message) == expected
            assert text_of(take(subscriber)) == "1.80"

    @pytest.mark.realises("BOIL-DOM-4")
    def test_a_publisher_says_topic(self, jms_connection_factory: ConnectionFactory) -> None:
        with jms_connection_factory.create_topic_connection() as connection:
            connection.start()
            session = connection.create_topic_session(False, 1)
            topic = session.create_topic("prices")
            subscriber = session.create_subscriber(topic)
            publisher = session.create_publisher(None)
            publisher.publish(topic=topic, message=session.create_text_message("1.80"))
            publisher.send(topic, session.create_text_message("1.90"))
            assert take_texts(subscriber, 2) == ["1.80", "1.90"]
            assert session.create_publisher(topic).getTopic() == topic
            assert publisher.topic is None

    @pytest.mark.realises("BOIL-EXC-5")
    def test_a_sender_takes_no_topic_and_a_publisher_no_queue(self, jms_connection_factory: ConnectionFactory) -> None:
        with (
            jms_connection_factory.create_queue_connection() as queues,
            jms_connection_factory.create_topic_connection() as topics,
        ):
            queue_session, topic_session = queues.create_queue_session(), topics.create_topic_session()
            queue: Any = queue_session.create_queue("orders")
            topic: Any = topic_session.create_topic("prices")
            message = queue_session.create_message()
            for use in (
                lambda: queue_session.create_sender(topic),
                lambda: queue_session.create_sender(None).send(topic, message),
                lambda: topic_session.create_publisher(queue),
                lambda: topic_session.create_publisher(None).publish(queue, message),
            ):
                with pytest.raises(InvalidDestinationException):
                    use()


class _Publishing:
    """Calls `publish` where a test says `send`."""

    def __init__(self, publisher: Any) -> None:
        self.send = publisher.publish
