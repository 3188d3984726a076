"""How often a message comes again, and when, where nobody has chosen anything."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from pyjms import Connection, ConnectionFactory, Message, Session, TextMessage
from pyjms.testing import VirtualClock
from pyjms_provider.broker import find_broker, stop_broker
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
from pyjms_provider.core.queue.scheduled_messages import redelivery_delay_ms
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_provider.settings import BrokerSettings


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def shop(clock: VirtualClock) -> Iterator[str]:
    """A broker that serves others has a back-off, as this one."""
    find_broker("shop", clock, BrokerSettings(policy=HostPolicy(back_off_ms=100)))
    yield "vm://shop"
    stop_broker("shop")


def transacted(connection: Connection) -> Session:
    connection.start()
    return connection.create_session(True, Session.SESSION_TRANSACTED)


def send(session: Session, *texts: str) -> None:
    producer = session.create_producer(session.create_queue("orders"))
    for text in texts:
        producer.send(session.create_text_message(text))
    session.commit()


def text_of(message: Message | None) -> str | None:
    assert message is None or isinstance(message, TextMessage)
    return None if message is None else message.text


def test_a_message_that_is_rolled_back_ten_times_is_a_dead_letter(jms_connection: Connection) -> None:
    session = transacted(jms_connection)
    send(session, "poison", "next")
    consumer = session.create_consumer(session.create_queue("orders"))
    for number in range(1, 11):
        message = consumer.receive_no_wait()
        assert text_of(message) == "poison"
        assert message is not None
        assert message.get_int_property("JMSXDeliveryCount") == number
        session.rollback()
    assert text_of(consumer.receive_no_wait()) == "next"
    session.commit()
    letter = session.create_consumer(session.create_queue("DLQ")).receive_no_wait()
    assert text_of(letter) == "poison"
    assert letter is not None
    assert letter.get_string_property("JMS_pyjms_deadKind") == "deliveries"
    assert letter.get_int_property("JMS_pyjms_deadCount") == 10


@pytest.mark.parametrize("how", ["recover", "close"])
def test_so_is_one_that_comes_back_in_another_way(jms_connection: Connection, how: str) -> None:
    jms_connection.start()
    sending = jms_connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = sending.create_queue("orders")
    sending.create_producer(queue).send(sending.create_text_message("poison"))
    for _ in range(10):
        session = jms_connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        assert text_of(session.create_consumer(queue).receive_no_wait()) == "poison"
        if how == "recover":
            session.recover()
        session.close()
    assert sending.create_consumer(queue).receive_no_wait() is None
    assert text_of(sending.create_consumer(sending.create_queue("DLQ")).receive_no_wait()) == "poison"


def test_so_is_one_of_a_durable_subscription(jms_connection_factory: ConnectionFactory) -> None:
    with jms_connection_factory.create_connection() as connection:
        connection.client_id = "ann"
        session = transacted(connection)
        news = session.create_topic("news")
        consumer = session.create_durable_subscriber(news, "all")
        session.create_producer(news).send(session.create_text_message("poison"))
        session.commit()
        for _ in range(10):
            assert text_of(consumer.receive_no_wait()) == "poison"
            session.rollback()
        assert consumer.receive_no_wait() is None
        assert text_of(session.create_consumer(session.create_queue("DLQ")).receive_no_wait()) == "poison"


def test_0_still_means_no_limit(jms_broker_url: str) -> None:
    with ConnectionFactory(f"{jms_broker_url}?max_deliveries=0").create_connection() as connection:
        session = transacted(connection)
        send(session, "again")
        consumer = session.create_consumer(session.create_queue("orders"))
        for _ in range(100):
            assert text_of(consumer.receive_no_wait()) == "again"
            session.rollback()


def test_a_policy_that_was_kept_with_0_has_no_limit_and_one_that_says_nothing_has_the_default() -> None:
    assert QueuePolicy.from_json(QueuePolicy(max_deliveries=0).to_json()).max_deliveries == 0
    assert QueuePolicy.from_json("{}").max_deliveries == 10


def test_a_message_waits_a_little_from_its_third_delivery_on(shop: str, clock: VirtualClock) -> None:
    with ConnectionFactory(shop).create_connection() as connection:
        session = transacted(connection)
        send(session, "poison", "next")
        consumer = session.create_consumer(session.create_queue("orders"))
        for _ in range(2):
            assert text_of(consumer.receive_no_wait()) == "poison"
            session.rollback()
        for delay_ms in (100, 200, 400, 800, 1600, 3200, 5000, 5000):
            assert text_of(consumer.receive_no_wait()) == "next"
            session.commit()
            clock.advance(delay_ms - 1)
            assert consumer.receive_no_wait() is None
            clock.advance(1)
            assert text_of(consumer.receive_no_wait()) == "poison"
            session.rollback()
            send(session, "next")
        assert text_of(consumer.receive_no_wait()) == "next"
        session.commit()
        assert text_of(session.create_consumer(session.create_queue("DLQ")).receive_no_wait()) == "poison"


def test_messages_that_were_rolled_back_together_come_again_together(shop: str, clock: VirtualClock) -> None:
    with ConnectionFactory(shop).create_connection() as connection:
        session = transacted(connection)
        texts = ["one", "two", "three"]
        send(session, *texts)
        consumer = session.create_consumer(session.create_queue("orders"))
        for _ in range(6):
            assert [text_of(consumer.receive_no_wait()) for _ in texts] == texts
            session.rollback()
            clock.advance(5000)
        assert [text_of(consumer.receive_no_wait()) for _ in texts] == texts


@pytest.mark.parametrize(
    ("policy", "count", "back_off_ms", "delay_ms"),
    [
        (QueuePolicy(), 1, 100, 0),
        (QueuePolicy(), 2, 100, 100),
        (QueuePolicy(), 3, 100, 200),
        (QueuePolicy(), 9, 100, 5000),
        (QueuePolicy(), 2**31, 100, 5000),
        (QueuePolicy(), 2, 60_000, 60_000),
        (QueuePolicy(), 9, 0, 0),
        (QueuePolicy(redelivery_delay_ms=7), 1, 100, 7),
        (QueuePolicy(redelivery_delay_ms=7), 9, 100, 7),
    ],
)
def test_the_delay_of_a_queue_counts_in_place_of_the_hosts(
    policy: QueuePolicy, count: int, back_off_ms: int, delay_ms: int
) -> None:
    assert redelivery_delay_ms(policy, count, back_off_ms) == delay_ms


def test_a_broker_that_serves_a_network_has_a_back_off_and_one_of_a_process_has_none() -> None:
    with ServedBroker.open(name="served") as served:
        node = served.broker.create_child("virtual_host_node", {"name": "served", "type": "memory"})
        host = node.create_child("virtual_host", {"name": "served"})
        assert host.attributes.redelivery_back_off_ms == 100  # type: ignore[attr-defined]
        running = host.embedded.virtual_host  # type: ignore[attr-defined]
        assert running.policy.back_off_ms == 100
        assert running.queue("orders").back_off_ms == 100
        assert running.queue("orders").policy.max_deliveries == 10
        assert running.queue("DLQ").policy.max_deliveries == 10
    assert HostPolicy().back_off_ms == 0
    assert QueuePolicies().default.max_deliveries == 10


def test_a_message_whose_listener_raises_comes_again_at_once_and_is_not_overtaken(shop: str) -> None:
    heard, is_over = list[str | None](), Event()

    def fail(message: Message) -> None:
        heard.append(text_of(message))
        if heard[-1] == "next":
            is_over.set()
            return
        raise ValueError("it cannot be processed")

    with ConnectionFactory(shop).create_connection() as connection:
        session = transacted(connection)
        send(session, "poison", "next")
        listening = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        listening.create_consumer(listening.create_queue("orders")).message_listener = fail
        assert is_over.wait(10)
    assert heard == ["poison"] * 7 + ["next"]
