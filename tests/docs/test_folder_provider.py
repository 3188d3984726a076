"""The provider of the authors' guide, driven as applications drive it: through the public API."""

from __future__ import annotations

import json
import threading
from threading import Event
from typing import TYPE_CHECKING

import pytest

from pyjms import (
    BytesMessage,
    ConnectionFactory,
    DeliveryMode,
    InvalidDestinationException,
    JMSException,
    MapMessage,
    Message,
    MessageFormatException,
    ObjectMessage,
    QueueConnectionFactory,
    Session,
    StreamMessage,
    TextMessage,
    TopicConnectionFactory,
)
from pyjms.runtime.xa import XAConnectionFactory
from pyjms.spi.registry import register_provider
from pyjms.testing import VirtualClock
from pyjms.types import Boxed, Byte, Char, Double, Float, Int, Long, Short
from pyjms_tck.spi.environment import PATIENCE_S
from tests.pyjms.spi.folder import FolderProvider, send, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyjms import Connection, Queue


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    register_provider("folder", FolderProvider())
    yield tmp_path / "messages"
    register_provider("folder", None)


@pytest.fixture
def url(home: Path) -> str:
    return f"folder://{home}?poll_ms=5"


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        yield connection


@pytest.fixture
def session(connection: Connection) -> Session:
    return connection.create_session(False, Session.AUTO_ACKNOWLEDGE)


@pytest.fixture
def queue(session: Session) -> Queue:
    return session.create_queue("orders")


def pass_through(session: Session, message: Message) -> Message:
    """Send and receive."""
    queue = session.create_queue("through")
    session.create_producer(queue).send(message)
    received = session.create_consumer(queue).receive(10_000)
    assert received is not None
    return received


# Point to point


@pytest.mark.realises("BOIL-SETUP-1")
def test_point_to_point(url: str) -> None:
    factory = QueueConnectionFactory(url)
    with factory.create_queue_connection() as connection:
        session = connection.create_queue_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        receiver = session.create_receiver(queue)
        sender = session.create_sender(queue)
        sender.send(session.create_text_message("espresso"))
        assert receiver.receive_no_wait() is None  # not started
        connection.start()
        message = receiver.receive(10_000)
        assert text_of(message) == "espresso"
        assert message is not None
        assert message.jms_destination == queue
        assert message.jms_message_id is not None
        assert message.jms_message_id.startswith("ID:")
        assert receiver.receive_no_wait() is None


def test_messages_outlive_their_connection(url: str) -> None:
    for text in ("kept", "kept too"):
        with ConnectionFactory(url).create_connection() as connection:
            session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            send(session, session.create_queue("orders"), text)
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        consumer = session.create_consumer(session.create_queue("orders"))
        assert [text_of(consumer.receive(10_000)) for _ in range(2)] == ["kept", "kept too"]


def test_a_receive_that_waits_is_woken_by_another_connection(url: str, session: Session, queue: Queue) -> None:
    def send_from_elsewhere() -> None:
        with ConnectionFactory(url).create_connection() as other:
            send(other.create_session(False, Session.AUTO_ACKNOWLEDGE), queue, "from elsewhere")

    thread = threading.Thread(target=send_from_elsewhere)
    consumer = session.create_consumer(queue)
    thread.start()
    assert text_of(consumer.receive(PATIENCE_S * 1000)) == "from elsewhere"  # type: ignore[arg-type]
    thread.join()


@pytest.mark.realises("BOIL-ORD-2")
def test_priorities(session: Session, queue: Queue) -> None:
    producer = session.create_producer(queue)
    for priority in (0, 9, 4, 9):
        producer.send(
            session.create_text_message(str(priority)),
            DeliveryMode.NON_PERSISTENT,
            priority,
            Message.DEFAULT_TIME_TO_LIVE,
        )
    consumer = session.create_consumer(queue)
    assert [text_of(consumer.receive_no_wait()) for _ in range(4)] == ["9", "9", "4", "0"]


@pytest.mark.realises("BOIL-HDR-9")
def test_expiry_follows_the_clock_of_the_factory(url: str, home: Path) -> None:
    clock = VirtualClock()
    with ConnectionFactory(url, clock=clock).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("orders")
        producer = session.create_producer(queue)
        producer.time_to_live = 1000
        producer.send(session.create_text_message("stale"))
        clock.advance(500)
        producer.send(session.create_text_message("fresh"))
        clock.advance(500)
        assert text_of(session.create_consumer(queue).receive_no_wait()) == "fresh"
    assert list((home / "queues" / "orders").iterdir()) == []


# What is in a message


def set_all_properties(message: Message) -> None:
    message.set_boolean_property("boolean", True)
    message.set_byte_property("byte", -128)
    message.set_short_property("short", 32767)
    message.set_int_property("int", -(2**31))
    message.set_long_property("long", 2**63 - 1)
    message.set_float_property("float", 1.1)
    message.set_double_property("double", 1.1)
    message.set_string_property("string", "Zoë\ud800\0")


@pytest.mark.realises("BOIL-PROP-1")
def test_properties_of_all_types(session: Session) -> None:
    message = session.create_message()
    set_all_properties(message)
    received = pass_through(session, message)
    found = {
        name: received.get_object_property(name) for name in received.property_names if not name.startswith("JMSX")
    }
    assert found == {
        "boolean": True,
        "byte": -128,
        "short": 32767,
        "int": -(2**31),
        "long": 2**63 - 1,
        "float": Float(1.1),
        "double": 1.1,
        "string": "Zoë\ud800\0",
    }
    kinds = {name: type(value) for name, value in found.items()}
    assert kinds == {
        "boolean": bool,
        "byte": Byte,
        "short": Short,
        "int": Int,
        "long": Long,
        "float": Float,
        "double": Double,
        "string": str,
    }


def test_headers(session: Session) -> None:
    message = session.create_message()
    message.jms_correlation_id = "C-1"
    message.jms_reply_to = session.create_queue("replies/1")
    message.jms_type = "order"
    received = pass_through(session, message)
    assert received.jms_correlation_id == "C-1"
    assert received.jms_reply_to == session.create_queue("replies/1")
    assert received.jms_type == "order"
    assert received.jms_timestamp == message.jms_timestamp
    assert received.jms_message_id == message.jms_message_id
    assert (received.jms_delivery_mode, received.jms_priority) == (DeliveryMode.PERSISTENT, 4)
    assert not received.jms_redelivered


@pytest.mark.realises("BOIL-BODY-1", "BOIL-BODY-4")
class TestBodies:
    def test_none(self, session: Session) -> None:
        received = pass_through(session, session.create_message())
        assert not isinstance(received, (TextMessage, BytesMessage, MapMessage, StreamMessage, ObjectMessage))

    @pytest.mark.parametrize("text", ["", "Zoë\n\U0001f375\ud800", None])
    def test_text(self, session: Session, text: str | None) -> None:
        assert text_of(pass_through(session, session.create_text_message(text))) == text

    def test_bytes(self, session: Session) -> None:
        message = session.create_bytes_message()
        message.write_bytes(bytes(range(256)))
        message.write_double(0.1)
        received = pass_through(session, message)
        assert isinstance(received, BytesMessage)
        assert received.body_length == 264
        buffer = bytearray(256)
        assert received.read_bytes(buffer) == 256
        assert buffer == bytes(range(256))
        assert received.read_double() == 0.1

    def test_map(self, session: Session) -> None:
        message = session.create_map_message()
        message.set_byte("byte", 1)
        message.set_char("char", "ß")
        message.set_bytes("bytes", b"\0\xff")
        message.set_float("float", 0.1)
        message.set_long("long", 5)
        message.set_object("null", None)
        message.set_double("infinite", float("inf"))
        received = pass_through(session, message)
        assert isinstance(received, MapMessage)
        values = {name: received.get_object(name) for name in received.map_names}
        assert values == {
            "byte": 1,
            "char": "ß",
            "bytes": b"\0\xff",
            "float": Float(0.1),
            "long": 5,
            "null": None,
            "infinite": float("inf"),
        }
        assert [type(values[name]) for name in ("byte", "char", "float", "long")] == [Byte, Char, Float, Long]

    def test_stream(self, session: Session) -> None:
        message = session.create_stream_message()
        values: list[Boxed] = [
            True,
            Byte(1),
            Short(2),
            Int(3),
            Long(4),
            Float(0.5),
            Double(0.1),
            Char("c"),
            "text",
            b"bytes",
            None,
        ]
        for value in values:
            message.write_object(value)
        received = pass_through(session, message)
        assert isinstance(received, StreamMessage)
        read = [received.read_object() for _ in values]
        assert read == values
        assert [type(value) for value in read] == [type(value) for value in values]

    @pytest.mark.realises("BOIL-MSG-4")
    def test_objects_of_plain_types(self, session: Session) -> None:
        value = {"cups": [1, 2, (3.5, None)], "for": {"Zoë"}}
        received = pass_through(session, session.create_object_message(value))
        assert isinstance(received, ObjectMessage)
        assert received.object == value

    def test_objects_of_classes_that_are_trusted_only(self, url: str, session: Session) -> None:
        """A file is not the process that pickled: its objects are decoded for classes that the application names."""
        received = pass_through(session, session.create_object_message(Recipe(5)))
        assert isinstance(received, ObjectMessage)
        with pytest.raises(MessageFormatException, match="not trusted"):
            _ = received.object
        with ConnectionFactory(url, trusted=[f"{__name__}.Recipe"]).create_connection() as trusting:
            trusting.start()
            again = pass_through(trusting.create_session(), session.create_object_message(Recipe(5)))
            assert isinstance(again, ObjectMessage)
            assert again.object.hours == 5


class Recipe:
    """A class of the application."""

    def __init__(self, hours: int) -> None:
        self.hours = hours


# Acknowledgement


@pytest.mark.realises("BOIL-ACK-3", "BOIL-ACK-5", "BOIL-ACK-6")
def test_client_acknowledge_and_recover(connection: Connection, session: Session, queue: Queue) -> None:
    send(session, queue, "a", "b", "c")
    client = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    consumer = client.create_consumer(queue)
    assert text_of(consumer.receive(10_000)) == "a"
    assert text_of(consumer.receive(10_000)) == "b"
    client.recover()
    marks, message = [], None
    for _ in range(3):
        message = consumer.receive(10_000)
        assert message is not None
        marks.append((text_of(message), message.jms_redelivered, message.get_int_property("JMSXDeliveryCount")))
    assert marks == [("a", True, 2), ("b", True, 2), ("c", False, 1)]
    assert message is not None
    message.acknowledge()
    client.recover()
    assert consumer.receive_no_wait() is None


def test_a_closed_session_gives_back(connection: Connection, session: Session, queue: Queue) -> None:
    send(session, queue, "a", "b")
    client = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    assert text_of(client.create_consumer(queue).receive(10_000)) == "a"
    client.close()
    consumer = session.create_consumer(queue)
    received = [consumer.receive(10_000) for _ in range(2)]
    assert [(text_of(message), message is not None and message.jms_redelivered) for message in received] == [
        ("a", True),
        ("b", False),
    ]


# Listeners


def test_a_listener_gets_what_is_there_and_what_comes(connection: Connection, session: Session, queue: Queue) -> None:
    heard: list[str | None] = []
    done = Event()

    def listen(message: Message) -> None:
        heard.append(text_of(message))
        if len(heard) == 20:
            done.set()

    send(session, queue, *(str(number) for number in range(10)))
    connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue).message_listener = listen
    send(session, queue, *(str(number) for number in range(10, 20)))
    assert done.wait(PATIENCE_S)
    assert heard == [str(number) for number in range(20)]


@pytest.mark.realises("BOIL-LSN-1")
def test_what_a_listener_cannot_process_is_set_aside(
    connection: Connection, session: Session, queue: Queue, home: Path
) -> None:
    tries: list[tuple[bool, int]] = []
    done = Event()

    def listen(message: Message) -> None:
        if text_of(message) == "food":
            done.set()
            return
        tries.append((message.jms_redelivered, message.get_int_property("JMSXDeliveryCount")))
        raise ValueError("it cannot be eaten")

    send(session, queue, "poison", "food")
    connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue).message_listener = listen
    assert done.wait(PATIENCE_S)
    assert tries == [(number > 1, number) for number in range(1, 8)]
    (reason,) = (home / "aside").glob("*.reason")
    assert "it cannot be eaten" in reason.read_text("utf-8")
    assert json.loads(reason.with_suffix(".json").read_text("ascii"))["body"] == "poison"


def test_the_watcher_ends_with_its_connection(url: str) -> None:
    others = set(threading.enumerate())
    with ConnectionFactory(url).create_connection():
        own = [thread for thread in threading.enumerate() if thread.name.startswith("folder-") and thread not in others]
        assert own
    assert not [thread for thread in own if thread.is_alive()]


# Browsers and selectors


def test_a_browser_leaves_all_where_it_is(session: Session, queue: Queue) -> None:
    send(session, queue, "a", "b")
    browser = session.create_browser(queue)
    for _ in range(2):
        assert [text_of(message) for message in browser] == ["a", "b"]
    consumer = session.create_consumer(queue)
    received = consumer.receive(10_000)
    assert received is not None
    assert (text_of(received), received.jms_redelivered) == ("a", False)
    assert [text_of(message) for message in browser] == ["b"]


def test_selectors(session: Session, queue: Queue) -> None:
    producer = session.create_producer(queue)
    for cups in range(6):
        message = session.create_text_message(str(cups))
        message.set_int_property("cups", cups)
        message.jms_type = "espresso" if cups % 2 else "tea"
        producer.send(message)
    browser = session.create_browser(queue, "cups BETWEEN 2 AND 4")
    assert [text_of(message) for message in browser] == ["2", "3", "4"]
    consumer = session.create_consumer(queue, "cups > 1 AND JMSType LIKE 'esp%'")
    assert [text_of(consumer.receive_no_wait()) for _ in range(2)] == ["3", "5"]
    assert consumer.receive_no_wait() is None
    assert [text_of(message) for message in session.create_browser(queue)] == ["0", "1", "2", "4"]


def test_who_selects_is_not_woken_in_vain_and_not_passed_over(
    connection: Connection, session: Session, queue: Queue
) -> None:
    selecting = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue, "JMSType = 'wanted'")
    found: list[Message | None] = []
    thread = threading.Thread(target=lambda: found.append(selecting.receive(20_000)))
    thread.start()
    producer = session.create_producer(queue)
    for kind in ("other", "wanted"):
        message = session.create_text_message(kind)
        message.jms_type = kind
        producer.send(message)
    thread.join(PATIENCE_S)
    assert [text_of(message) for message in found] == ["wanted"]


# What a folder cannot do


REFUSED: dict[str, Callable[[Connection, Session], object]] = {
    "TOPICS": lambda connection, session: session.create_topic("news"),
    "TRANSACTIONS": lambda connection, session: connection.create_session(True, Session.SESSION_TRANSACTED),
    "TEMPORARY_DESTINATIONS": lambda connection, session: session.create_temporary_queue(),
    "DURABLE_SUBSCRIPTIONS": lambda connection, session: session.unsubscribe("mine"),
    "CONNECTION_CONSUMERS": lambda connection, session: connection.create_connection_consumer(
        session.create_queue("orders"),
        None,
        None,  # type: ignore[arg-type]
        1,
    ),
}


@pytest.mark.parametrize("capability", REFUSED)
def test_what_is_missing_is_refused_by_name(connection: Connection, session: Session, capability: str) -> None:
    with pytest.raises(JMSException, match=rf"^folder has no .*Capability\.{capability}\)") as caught:
        REFUSED[capability](connection, session)
    assert caught.value.error_code == "PYJMS-CAPABILITY"


def test_transactions_of_others_are_refused_by_name(url: str) -> None:
    with pytest.raises(JMSException, match=r"Capability\.XA"):
        XAConnectionFactory(url).create_xa_connection()


def test_topics_are_refused_by_name_also_in_their_own_domain(url: str) -> None:
    with TopicConnectionFactory(url).create_topic_connection() as connection:
        session = connection.create_topic_session(False, Session.AUTO_ACKNOWLEDGE)
        with pytest.raises(JMSException, match=r"Capability\.TOPICS"):
            session.create_topic("news")


def test_a_topic_from_elsewhere_is_no_destination(session: Session, jms_session: Session) -> None:
    with pytest.raises(InvalidDestinationException, match="topic://news"):
        session.create_producer(jms_session.create_topic("news")).send(session.create_message())
