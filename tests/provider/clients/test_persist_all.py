"""A virtual host whose owner has every message treated as PERSISTENT."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from pyjms import Connection, ConnectionFactory, DeliveryMode, Destination, JMSException, Message, Session, TextMessage
from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import ConnectionId
from pyjms.spi.provider import ConnectRequest
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_provider.broker import stop_broker
from pyjms_provider.core.host.admission import IgnoredDeliveryModes
from pyjms_provider.queue_manager import QueueManager
from tests.provider.helpers import RecordedEvents, make_envelope
from tests.system.network.served import stored_broker

DIES = """
import os, sys
from pyjms import ConnectionFactory, DeliveryMode, Session
connection = ConnectionFactory(sys.argv[1]).create_connection()
session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
producer = session.create_producer(session.create_queue(sys.argv[2]))
producer.delivery_mode = DeliveryMode.NON_PERSISTENT
producer.send(session.create_text_message("sent"))
transacted = connection.create_session(True, Session.SESSION_TRANSACTED)
producer = transacted.create_producer(transacted.create_queue(sys.argv[2]))
producer.delivery_mode = DeliveryMode.NON_PERSISTENT
producer.send(transacted.create_text_message("committed"))
transacted.commit()
os._exit(9)
"""


def die_after_sending(url: str, queue: str = "orders") -> None:
    done = subprocess.run([sys.executable, "-c", DIES, url, queue], check=False, timeout=60)
    assert done.returncode == 9


def received(connection: Connection, queue: str = "orders") -> list[tuple[str, int]]:
    """Return text and delivery mode of the messages there."""
    connection.start()
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    consumer = session.create_consumer(session.create_queue(queue))
    found = []
    while isinstance(message := consumer.receive_no_wait(), TextMessage):
        found.append((message.text or "", int(message.jms_delivery_mode)))
    return found


def send(session: Session, destination: Destination, text: str) -> Message:
    message = session.create_text_message(text)
    session.create_producer(destination).send(message, DeliveryMode.NON_PERSISTENT, 4, 0)
    return message


@pytest.mark.realises("BOIL-PROD-4")
def test_what_was_sent_non_persistent_survives_the_death_of_the_process(tmp_path: Path) -> None:
    url = f"vm://persists?store=sqlite:///{tmp_path}/shop.db"
    die_after_sending(f"{url}&persist_all=true")
    die_after_sending(url)  # another broker, which leaves it to the sender
    try:
        with ConnectionFactory(url).create_connection() as connection:
            assert received(connection) == [("sent", 2), ("committed", 2)]
    finally:
        stop_broker("persists")


def test_a_policy_that_asks_for_less_does_not_count(tmp_path: Path) -> None:
    url = f"vm://persists?store=sqlite:///{tmp_path}/shop.db&persist_all=true"
    try:
        with ConnectionFactory(f"{url}&delivery_mode=1").create_connection():
            QueueManager.of("persists").create("own", delivery_mode=1)
    finally:
        stop_broker("persists")
    die_after_sending(f"{url}&delivery_mode=1", "own")
    try:
        with ConnectionFactory(url).create_connection() as connection:
            assert received(connection, "own") == [("sent", 2), ("committed", 2)]
    finally:
        stop_broker("persists")


@pytest.mark.realises("BOIL-PROD-4")
def test_each_connection_that_sends_otherwise_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pyjms_provider"):
        factory = ConnectionFactory("vm://logs?persist_all=true")
        try:
            for text in ("one", "two"):
                with factory.create_connection() as connection:
                    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
                    for _ in range(3):
                        send(session, session.create_queue("orders"), text)
                    send(session, session.create_temporary_queue(), "reply")
                    send(session, session.create_topic("news"), "event")
            with factory.create_connection() as connection:
                session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
                session.create_producer(session.create_queue("orders")).send(session.create_text_message("safe"))
                assert [mode for _, mode in received(connection)] == [2] * 7
        finally:
            stop_broker("logs")
    lines = [record.getMessage() for record in caplog.records if "PYJMS-BROKER-32" in record.getMessage()]
    assert len(lines) == 2, "one for each connection that sent NON_PERSISTENT messages"
    assert all("queue://orders" in line and "persist_all" in line for line in lines)


def test_subscribers_of_a_topic_and_owners_of_temporary_queues_see_it(caplog: pytest.LogCaptureFixture) -> None:
    try:
        with ConnectionFactory("vm://topics?persist_all=true").create_connection() as connection:
            connection.start()
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            for destination in (session.create_topic("news"), session.create_temporary_queue()):
                consumer = session.create_consumer(destination)
                send(session, destination, "event")
                message = consumer.receive(5_000)
                assert message is not None
                assert message.jms_delivery_mode == DeliveryMode.PERSISTENT
    finally:
        stop_broker("topics")


def test_a_value_that_is_neither_is_refused() -> None:
    with pytest.raises(JMSException, match="persist_all=true or false"):
        ConnectionFactory("vm://shop?persist_all=yes").create_connection()


@pytest.mark.realises("BOIL-PROD-4")
def test_a_served_broker_counts_them_and_its_clients_wait_until_each_is_written(tmp_path: Path) -> None:
    with stored_broker(f"sqlite:///{tmp_path}/shop.db", persist_all=True) as served:
        url = served.addresses()[0]
        die_after_sending(url)  # at once after the call returned
        (node,) = served.broker.children("virtual_host_node")
        (host,) = node.children("virtual_host")
        assert host.statistic_values(["ignored_delivery_modes"]) == {"ignored_delivery_modes": 2}
        with ConnectionFactory(url).create_connection() as connection:
            assert received(connection) == [("sent", 2), ("committed", 2)]


def test_a_sender_on_an_event_loop_is_told_that_it_may_wait_for_the_disk(tmp_path: Path) -> None:
    for is_chosen in (True, False):
        url = f"vm://waits-{is_chosen}?store=sqlite:///{tmp_path}/{is_chosen}.db&persist_all={str(is_chosen).lower()}"
        request = ConnectRequest(
            url=ProviderUrl.parse(url), user_name=None, password=None, client_id=None, clock=SystemClock()
        )
        connection = find_provider("vm").connect(request, RecordedEvents())
        try:
            for is_transacted in (False, True):
                session = connection.open_session(transacted=is_transacted)
                session.send(make_envelope("makes the queue", persistent=True))
                may_wait = session.may_wait(make_envelope("one", persistent=False))
                assert may_wait is (is_chosen and not is_transacted)
        finally:
            stop_broker(f"waits-{is_chosen}")


def test_a_connection_that_has_closed_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    logged, forget = set[str](), IgnoredDeliveryModes.forget

    def note(modes: IgnoredDeliveryModes, connection: ConnectionId) -> None:
        logged.add(connection)
        forget(modes, connection)

    monkeypatch.setattr(IgnoredDeliveryModes, "forget", note)
    try:
        with ConnectionFactory("vm://forgets?persist_all=true").create_connection() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            send(session, session.create_queue("orders"), "one")
        assert len(logged) == 1
    finally:
        stop_broker("forgets")
