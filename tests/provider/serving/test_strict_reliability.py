"""`reliability=strict`: a broker without a store refuses PERSISTENT messages, and says what to do (JBoss Messaging Core §2.1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pyjms import Connection, ConnectionFactory, DeliveryMode, JMSException, ResourceAllocationException, Session
from pyjms.api.destination import Destination
from pyjms_provider.broker import stop_broker
from pyjms_provider.model.errors import InvalidAttributesError
from pyjms_provider.queue_manager import QueueManager
from tests.system.network.served import port_of, stored_broker

_numbers = count(1)
PATIENCE_MS = 10_000


@contextmanager
def served(store_url: str | None = None, protocol: str = "stomp", **host: Any) -> Iterator[Connection]:
    with stored_broker(store_url, port={"name": protocol, "type": protocol}, **host) as broker:
        connection = ConnectionFactory(f"{protocol}://127.0.0.1:{port_of(broker)}").create_connection()
        with connection:
            connection.start()
            yield connection


@pytest.fixture(params=["vm", "stomp", "amqp"])
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    if request.param == "vm":
        name = f"strict-{next(_numbers)}"
        with ConnectionFactory(f"vm://{name}?reliability=strict").create_connection() as opened:
            opened.start()
            yield opened
        stop_broker(name)
        return
    with served(protocol=request.param, reliability="strict") as opened:
        yield opened


def destinations(session: Session) -> dict[str, Destination]:
    return {
        "queue": session.create_queue("orders"),
        "topic": session.create_topic("news"),
        "temporary queue": session.create_temporary_queue(),
    }


@pytest.mark.realises("JBM-2.1.b", "BOIL-PROD-2")
@pytest.mark.parametrize("kind", ["queue", "topic", "temporary queue"])
@pytest.mark.parametrize("subscribed", [True, False], ids=["with consumer", "without"])
def test_a_persistent_message_is_refused_and_any_other_arrives(
    connection: Connection, kind: str, *, subscribed: bool
) -> None:
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    destination = destinations(session)[kind]
    consumer = session.create_consumer(destination) if subscribed else None
    producer = session.create_producer(destination)
    with pytest.raises(ResourceAllocationException) as raised:
        producer.send(session.create_text_message("safe"))  # PERSISTENT, as JMS has it without another choice
    assert raised.value.error_code == "PYJMS-NOT-RELIABLE"
    for remedy in ("would lose the PERSISTENT message", "reliability=strict", "send it NON_PERSISTENT", "store="):
        assert remedy in str(raised.value)
    producer.delivery_mode = DeliveryMode.NON_PERSISTENT
    producer.send(session.create_text_message("volatile"))
    if consumer is not None:
        received = consumer.receive(PATIENCE_MS)
        assert received is not None
        assert received.text == "volatile"  # type: ignore[attr-defined]


@pytest.mark.realises("JBM-2.1.b")
def test_a_transaction_is_told_and_commits_the_rest(connection: Connection) -> None:
    session = connection.create_session(True, Session.SESSION_TRANSACTED)
    queue = session.create_queue("orders")
    producer = session.create_producer(queue)
    producer.send(session.create_text_message("volatile"), delivery_mode=DeliveryMode.NON_PERSISTENT)
    with pytest.raises(JMSException, match="reliability=strict"):
        producer.send(session.create_text_message("safe"))
        session.commit()  # a client over a network may learn it here at the latest
    session.rollback()
    producer.send(session.create_text_message("again"), delivery_mode=DeliveryMode.NON_PERSISTENT)
    session.commit()
    received = session.create_consumer(queue).receive(PATIENCE_MS)
    assert received is not None
    assert received.text == "again"  # type: ignore[attr-defined]


@pytest.mark.realises("JBM-2.1.b")
@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_with_a_store_every_destination_takes_persistent_messages(tmp_path: Path, protocol: str) -> None:
    with served(f"sqlite:///{tmp_path}/shop.db", protocol, reliability="strict") as opened:
        session = opened.create_session()
        for destination in destinations(session).values():
            consumer = session.create_consumer(destination)
            session.create_producer(destination).send(session.create_text_message("safe"))
            assert consumer.receive(PATIENCE_MS) is not None


def test_without_the_choice_persistent_messages_are_accepted() -> None:
    with served() as opened:
        session = opened.create_session()
        session.create_producer(session.create_queue("orders")).send(session.create_text_message("safe"))


def test_an_owner_who_makes_senders_non_persistent_takes_all_messages() -> None:
    """The override of the queue's owner (JMS 1.1 §3.4.12) comes first."""
    name = f"strict-{next(_numbers)}"
    try:
        with ConnectionFactory(f"vm://{name}?reliability=strict&delivery_mode=1").create_connection() as opened:
            session = opened.create_session()
            session.create_producer(session.create_queue("orders")).send(session.create_text_message("x"))
            (found,) = QueueManager.of(name).browse("orders")
            assert found.delivery_mode == DeliveryMode.NON_PERSISTENT
    finally:
        stop_broker(name)


def test_a_wrong_choice_is_refused_with_both() -> None:
    with pytest.raises(JMSException, match="reliability=memory or strict"):
        ConnectionFactory(f"vm://strict-{next(_numbers)}?reliability=high").create_connection()
    with (
        pytest.raises(InvalidAttributesError, match="reliability: should be 'strict' or 'memory'"),
        served(reliability="high"),
    ):
        pass
