"""A virtual host that writes NON_PERSISTENT messages as well, without forcing them, so that they survive its process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms import ConnectionFactory, DeliveryMode, Message, Session, TextMessage
from pyjms.spi.errors import UrlError
from pyjms.spi.url import ProviderUrl
from pyjms_provider.broker import stop_broker
from pyjms_provider.settings import read_url
from tests.provider.clients.test_persist_all import die_after_sending, received
from tests.system.network.served import stored_broker

NAME = "keeps"
ACKNOWLEDGES_AND_DIES = """
import os, sys
from pyjms import ConnectionFactory, DeliveryMode, Session
connection = ConnectionFactory(sys.argv[1]).create_connection()
connection.start()
session = connection.create_session(False, int(sys.argv[2]))
queue = session.create_queue("orders")
producer = session.create_producer(queue)
producer.delivery_mode = DeliveryMode.NON_PERSISTENT
for number in range(3):
    producer.send(session.create_text_message(str(number)))
consumer = session.create_consumer(queue)
received = [consumer.receive(20_000) for number in range(3)]
received[-1].acknowledge()
os._exit(9)
"""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    yield f"vm://{NAME}?store=sqlite:///{tmp_path}/shop.db&keep_transient=true"
    stop_broker(NAME)


def texts(session: Session, queue: str, count: int) -> list[str]:
    consumer = session.create_consumer(session.create_queue(queue))
    found: list[Message | None] = [consumer.receive(5_000) for _ in range(count)]
    consumer.close()
    return [message.text or "" for message in found if isinstance(message, TextMessage)]


def test_what_was_sent_survives_the_death_of_the_process_with_its_delivery_mode(url: str) -> None:
    die_after_sending(url)
    with ConnectionFactory(url).create_connection() as connection:
        assert received(connection) == [
            ("sent", DeliveryMode.NON_PERSISTENT),
            ("committed", DeliveryMode.NON_PERSISTENT),
        ]
    stop_broker(NAME)
    with ConnectionFactory(url).create_connection() as connection:
        assert received(connection) == [], "what was acknowledged is gone"


def test_without_it_they_end_with_the_process(tmp_path: Path) -> None:
    plain = f"vm://{NAME}?store=sqlite:///{tmp_path}/shop.db"
    die_after_sending(plain)
    try:
        with ConnectionFactory(plain).create_connection() as connection:
            assert received(connection) == []
    finally:
        stop_broker(NAME)


def test_a_durable_subscription_keeps_them_and_a_rolled_back_transaction_does_not(url: str) -> None:
    with ConnectionFactory(url).create_connection() as connection:
        connection.client_id = "me"
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        topic = session.create_topic("news")
        session.create_durable_subscriber(topic, "all").close()
        producer = session.create_producer(None)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        producer.send(topic, session.create_text_message("dropped"))
        session.rollback()
        producer.send(topic, session.create_text_message("kept"))
        session.commit()
    stop_broker(NAME)
    with ConnectionFactory(url).create_connection() as connection:
        connection.client_id = "me"
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        subscriber = session.create_durable_subscriber(session.create_topic("news"), "all")
        message = subscriber.receive(5_000)
        assert isinstance(message, TextMessage)
        assert message.text == "kept"
        assert subscriber.receive_no_wait() is None


def test_one_that_was_delivered_and_not_acknowledged_comes_again_flagged(url: str) -> None:
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        for text in ("acknowledged", "held"):
            producer.send(session.create_text_message(text))
        consumer = session.create_consumer(queue)
        first = consumer.receive(5_000)
        assert first is not None
        first.acknowledge()
        assert consumer.receive(5_000) is not None
    stop_broker(NAME)
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        again = session.create_consumer(session.create_queue("orders")).receive(5_000)
        assert isinstance(again, TextMessage)
        assert (again.text, again.jms_redelivered) == ("held", True)


def test_clients_over_the_network_wait_until_each_is_written(tmp_path: Path) -> None:
    with stored_broker(f"sqlite:///{tmp_path}/shop.db", keep_transient=True) as served:
        url = served.addresses()[0]
        die_after_sending(url)  # at once after the call returned
        with ConnectionFactory(url).create_connection() as connection:
            assert received(connection) == [("sent", 1), ("committed", 1)]


@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_clients_over_the_network_send_and_receive_them(tmp_path: Path, scheme: str) -> None:
    with (
        stored_broker(f"sqlite:///{tmp_path}/shop.db", port={"type": scheme}, keep_transient=True) as served,
        ConnectionFactory(served.addresses()[0]).create_connection() as connection,
    ):
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("orders"))
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        sent = [f"message {number}" for number in range(300)]
        for text in sent:
            producer.send(session.create_text_message(text))
        assert texts(session, "orders", 300) == sent


@pytest.mark.parametrize("mode", [Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE])
@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_an_acknowledgement_over_the_network_is_written_when_the_call_returns(
    tmp_path: Path, scheme: str, mode: int
) -> None:
    with stored_broker(f"sqlite:///{tmp_path}/shop.db", port={"type": scheme}, keep_transient=True) as served:
        url = served.addresses()[0]
        program = [sys.executable, "-c", ACKNOWLEDGES_AND_DIES, url, str(int(mode))]
        assert subprocess.run(program, check=False, timeout=60).returncode == 9
        with ConnectionFactory(url).create_connection() as connection:
            assert received(connection) == []


def test_it_needs_a_store() -> None:
    with pytest.raises(UrlError, match="keep_transient"):
        read_url(ProviderUrl.parse("vm://shop?keep_transient=true"))
