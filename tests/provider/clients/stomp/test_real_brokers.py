"""The API on a real ActiveMQ and a real RabbitMQ, beyond what the conformance suite asks of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    JMSException,
    JMSSecurityException,
    Message,
    Session,
    TextMessage,
    TransactionRolledBackException,
)
from pyjms.spi.clock import SystemClock
from pyjms.types import Byte, Float, Long, Short
from tests.brokers.running import ActiveMq
from tests.needs.declaring import needing

RECEIVE_MS = 10_000
_numbers = count(1)


def fresh(name: str = "queue") -> str:
    return f"{name}-{uuid4().hex[:8]}-{next(_numbers)}"


def factory(port: int, options: str = "", scheme: str = "stomp", path: str = "") -> ConnectionFactory:
    url = f"{scheme}://127.0.0.1:{port}{path}?reconnect_delay_ms=20&reconnect_delay_max_ms=200{options}"
    return ConnectionFactory(url, user_name="guest", password="guest")


@pytest.fixture(params=[needing("activemq"), needing("rabbitmq")])
def broker(request: pytest.FixtureRequest) -> dict[str, int]:
    ports: dict[str, int] = request.getfixturevalue(request.param)
    return ports


@pytest.fixture
def connection(broker: dict[str, int]) -> Iterator[Connection]:
    with factory(broker["stomp"]).create_connection() as connection:
        connection.start()
        yield connection


def received(session: Session, name: str) -> Message:
    consumer = session.create_consumer(session.create_queue(name))
    message = consumer.receive(RECEIVE_MS)
    assert message is not None, "no message came"
    consumer.close()
    return message


def send_text(session: Session, name: str, text: str) -> None:
    session.create_producer(session.create_queue(name)).send(session.create_text_message(text))


def test_all_types_come_back_as_they_were(connection: Connection) -> None:
    session, name = connection.create_session(), fresh()
    sent = session.create_map_message()
    values: dict[str, Any] = {
        "b": Byte(1),
        "s": Short(2),
        "i": 3,
        "l": Long(2**60),
        "f": Float(0.1),
        "d": 0.1,
        "z": True,
        "t": "tä:\n\\x",
    }
    for key, value in {**values, "n": None, "x": b"\0\xff"}.items():
        sent.set_object(key, value)
    for key, value in values.items():
        sent.set_object_property(key, value)
    sent.jms_correlation_id = "a:b\nc"
    session.create_producer(session.create_queue(name)).send(sent)
    got = received(session, name)
    for key, value in values.items():
        assert got.get_object_property(key) == value
        assert type(got.get_object_property(key)).__name__ == type(sent.get_object_property(key)).__name__
        assert got.get_object(key) == value  # type: ignore[attr-defined]
    assert got.get_bytes("x") == b"\0\xff"  # type: ignore[attr-defined]
    assert got.get_object("n") is None  # type: ignore[attr-defined]
    assert (got.jms_message_id, got.jms_correlation_id) == (sent.jms_message_id, "a:b\nc")


@pytest.mark.parametrize(
    ("kind", "protocol", "options"),
    [
        pytest.param("activemq", "stomp", "&delivery_delay=yes", marks=pytest.mark.requires("activemq")),
        # One port of Artemis has all its protocols.
        pytest.param("artemis", "amqp", "", marks=pytest.mark.requires("artemis")),
    ],
    ids=["activemq", "artemis"],
)
def test_a_delayed_message_comes_later_as_it_was_sent(
    kind: str, protocol: str, options: str, request: pytest.FixtureRequest
) -> None:
    with factory(request.getfixturevalue(kind)[protocol], options).create_context() as context:
        queue = context.create_queue(fresh())
        consumer = context.create_consumer(queue)
        context.create_producer().set_property("colour", "red").set_delivery_delay(400).send(queue, "delayed")
        delayed = consumer.receive(RECEIVE_MS)
        assert delayed is not None
        assert SystemClock().time_ms() >= delayed.jms_delivery_time
        assert delayed.jms_delivery_time == delayed.jms_timestamp + 400
        assert {*delayed.property_names} == {"colour", "JMSXDeliveryCount"}


def test_a_delay_is_refused_with_the_reason(connection: Connection) -> None:
    producer = connection.create_session().create_producer(None)
    reasons = {"ActiveMQ Classic over STOMP": "delivery_delay=yes", "RabbitMQ over STOMP": "plug-in"}
    with pytest.raises(JMSException, match=reasons[connection.meta_data.jms_provider_name]) as caught:
        producer.delivery_delay = 1
    assert caught.value.error_code == "PYJMS-CAPABILITY"


def test_a_large_body_of_nuls_passes_through(connection: Connection) -> None:
    session, name = connection.create_session(), fresh()
    sent = session.create_bytes_message()
    sent.write_bytes(b"\0" * 3_000_000)
    session.create_producer(session.create_queue(name)).send(sent)
    got = received(session, name)
    assert got.body_length == 3_000_000  # type: ignore[attr-defined]


def test_what_a_session_holds_may_be_much_more_than_the_prefetch(connection: Connection) -> None:
    session, name = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE), fresh()
    for number in range(60):
        send_text(session, name, str(number))
    consumer = session.create_consumer(session.create_queue(name))
    texts = []
    for _ in range(60):
        message = consumer.receive(RECEIVE_MS)
        assert isinstance(message, TextMessage)
        texts.append(message.text)
    assert texts == [str(number) for number in range(60)]
    session.recover()
    again = consumer.receive(RECEIVE_MS)
    assert isinstance(again, TextMessage)
    assert (again.text, again.jms_redelivered, again.get_int_property("JMSXDeliveryCount")) == ("0", True, 2)
    again.acknowledge()


def test_a_slow_consumer_leaves_the_rest_to_others(broker: dict[str, int]) -> None:
    """With a prefetch of one, who works on a message for long holds no other."""
    name, slow_has_one, done, texts = fresh(), Event(), Event(), []
    release = Event()
    with factory(broker["stomp"], "&prefetch_messages=1").create_connection() as connection:
        slow, quick = connection.create_session(), connection.create_session()

        def on_slow(message: Message) -> None:
            slow_has_one.set()
            release.wait(30)

        def on_quick(message: Message) -> None:
            texts.append(message.text)  # type: ignore[attr-defined]
            if len(texts) == 9:
                done.set()

        slow.create_consumer(slow.create_queue(name)).message_listener = on_slow
        connection.start()
        sender = connection.create_session()
        send_text(sender, name, "first")
        assert slow_has_one.wait(10)
        quick.create_consumer(quick.create_queue(name))
        quick_consumer = connection.create_session()
        quick.close()
        consumer = quick_consumer.create_consumer(quick_consumer.create_queue(name))
        for number in range(10):
            send_text(sender, name, str(number))
        for _ in range(9):  # one may wait behind the slow one
            message = consumer.receive(RECEIVE_MS)
            assert message is not None
            on_quick(message)
        assert done.is_set()
        release.set()


def test_a_wrong_password_is_refused_at_rabbitmq(rabbitmq: dict[str, int]) -> None:
    with pytest.raises(JMSSecurityException):
        factory(rabbitmq["stomp"]).create_connection("guest", "wrong")


def test_a_web_socket_carries_the_same(rabbitmq: dict[str, int]) -> None:
    with factory(rabbitmq["ws"], scheme="stomp+ws", path="/ws").create_connection() as connection:
        connection.start()
        session, name = connection.create_session(), fresh()
        sent = session.create_bytes_message()
        sent.write_bytes(bytes(range(256)) * 2000)
        session.create_producer(session.create_queue(name)).send(sent)
        assert received(session, name).body_length == 512_000  # type: ignore[attr-defined]


def test_a_transaction_of_sends_and_receives_is_one(activemq: dict[str, int]) -> None:
    with factory(activemq["stomp"]).create_connection() as connection:
        connection.start()
        plain, orders, bills = connection.create_session(), fresh("orders"), fresh("bills")
        send_text(plain, orders, "espresso")
        session = connection.create_session(True)
        for is_kept in (False, True):
            consumer = session.create_consumer(session.create_queue(orders))
            message = consumer.receive(RECEIVE_MS)
            assert message is not None
            send_text(session, bills, "two francs")
            if is_kept:
                session.commit()
            else:
                session.rollback()
                looking = plain.create_consumer(plain.create_queue(bills))
                assert looking.receive_no_wait() is None
                looking.close()  # else the broker would push to it what comes next
            consumer.close()
        assert received(plain, bills).text == "two francs"  # type: ignore[attr-defined]
        assert plain.create_consumer(plain.create_queue(orders)).receive_no_wait() is None


def test_browsers_and_typed_selectors_see_what_is_there(activemq: dict[str, int]) -> None:
    with factory(activemq["stomp"]).create_connection() as connection:
        connection.start()
        session, name = connection.create_session(), fresh()
        queue = session.create_queue(name)
        producer = session.create_producer(queue)
        for number in range(5):
            message = session.create_text_message(str(number))
            message.set_double_property("n", number / 2)
            producer.send(message)
        browser = session.create_browser(queue, "n * 2 >= 3")
        assert [message.text for message in browser.enumeration] == ["3", "4"]  # type: ignore[attr-defined]
        consumer = session.create_consumer(queue, "n > 1")
        texts = [consumer.receive(RECEIVE_MS).text for _ in range(2)]  # type: ignore[union-attr]
        assert texts == ["3", "4"]


def test_activemq_is_killed_and_comes_back_and_nothing_that_was_promised_is_lost(
    activemq: dict[str, int], tmp_path: Path
) -> None:
    own = ActiveMq(tmp_path / "own")
    own.start()
    try:
        told: list[JMSException] = []
        lost = Event()

        def on_exception(error: JMSException) -> None:
            told.append(error)
            lost.set()

        with factory(own.ports["stomp"]).create_connection() as connection:
            connection.exception_listener = on_exception
            connection.start()
            session, name = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE), fresh()
            for text in ("one", "two"):
                send_text(session, name, text)
            consumer = session.create_consumer(session.create_queue(name))
            first = consumer.receive(RECEIVE_MS)
            assert first is not None
            transacted = connection.create_session(True)
            send_text(transacted, name, "never")
            own.kill()
            assert lost.wait(10)
            assert connection.state == "reconnecting"
            own.start()
            with pytest.raises(TransactionRolledBackException):
                transacted.commit()
            texts = []
            for _ in range(2):
                message = consumer.receive(RECEIVE_MS)
                assert message is not None
                texts.append((message.text, message.jms_redelivered))  # type: ignore[attr-defined]
                message.acknowledge()
            assert [text for text, _ in texts] == ["one", "two"]
            assert texts[0][1], "it was seen before the broker was killed"
            assert consumer.receive_no_wait() is None
            assert [error.error_code for error in told] == ["PYJMS-INTERRUPTED"]
            assert connection.state == "connected"
        assert connection.state == "closed"
    finally:
        own.kill()
