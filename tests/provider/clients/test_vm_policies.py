"""Policies as a JMS program meets them: properties, exceptions, waits, listeners that fail, priorities of consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from threading import Event, Thread
from typing import Any

import pytest

from pyjms import (
    ConnectionFactory,
    DeliveryMode,
    IllegalStateException,
    JMSException,
    Message,
    MessageFormatException,
    ResourceAllocationException,
    Session,
    TextMessage,
)
from pyjms.api.connection import Connection
from pyjms.testing import VirtualClock
from pyjms_provider.broker import stop_broker
from pyjms_provider.core.policy import Overflow, QueuePolicies, QueuePolicy
from pyjms_provider.queue_manager import QueueManager
from tests.provider.clients.world import World, consume, poll
from tests.provider.helpers import make_envelope
from tests.pyjms.runtime.helpers import Recorder
from tests.pyjms.runtime.server_pool import Pool, feeding

_numbers = count(1)
PATIENCE_S = 30.0


class Shop:
    """A broker with a clock by hand."""

    def __init__(self) -> None:
        self.name = f"policies-{next(_numbers)}"
        self.clock = VirtualClock()
        self._opened: list[Connection] = []
        self.connect()
        self.manager = QueueManager.of(self.name)

    def connect(self, **options: Any) -> Connection:
        connection = ConnectionFactory(f"vm://{self.name}", clock=self.clock, **options).create_connection()
        connection.start()
        self._opened.append(connection)
        return connection

    def send(self, text: str, session: Session | None = None, **properties: Callable[[Message], None]) -> None:
        session = session or self.connect().create_session()
        message = session.create_text_message(text)
        for change in properties.values():
            change(message)
        session.create_producer(session.create_queue("orders")).send(message)

    def texts(self, name: str = "orders") -> list[str]:
        return [str(envelope.body) for envelope in self.manager.browse(name)]

    def stop(self) -> None:
        stop_broker(self.name)
        for connection in self._opened:
            connection.close()


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    yield made
    made.stop()


def text_of(message: Message | None) -> str:
    assert isinstance(message, TextMessage)
    return str(message.text)


# Properties that clients set


def test_a_client_says_when_a_message_is_for(shop: Shop) -> None:
    at_ms = shop.clock.time_ms() + 500
    shop.send("later", at=lambda message: message.set_long_property("JMS_pyjms_deliverAt", at_ms))
    session = shop.connect().create_session()
    consumer = session.create_consumer(session.create_queue("orders"))
    assert consumer.receive_no_wait() is None
    received: list[Message | None] = []
    thread = Thread(target=lambda: received.append(consumer.receive()))
    thread.start()
    shop.clock.await_wait(500)
    shop.clock.advance(500)
    thread.join(PATIENCE_S)
    assert text_of(received[0]) == "later"


def test_a_client_names_what_it_sends_twice(shop: Shop) -> None:
    for _ in range(2):
        shop.send("once", identity=lambda message: message.set_string_property("JMS_pyjms_duplicateId", "4711"))
    assert shop.texts() == ["once"]


def test_properties_of_another_type_are_refused_when_the_message_is_sent(shop: Shop) -> None:
    with pytest.raises(JMSException, match="set it as a long property"):
        shop.send("x", at=lambda message: message.set_string_property("JMS_pyjms_deliverAt", "tomorrow"))
    with pytest.raises(JMSException, match="set it as a string property"):
        shop.send("x", at=lambda message: message.set_int_property("JMS_pyjms_duplicateId", 5))
    with pytest.raises(MessageFormatException):
        shop.send("x", at=lambda message: message.set_string_property("JMS_pyjms_deadReason", "me"))
    assert shop.texts() == []


# The owner's choices


def order(shop: Shop, text: str, priority: int = 4, **properties: int | str) -> None:
    session = shop.connect().create_session()
    message = session.create_text_message(text)
    for name, value in properties.items():
        message.set_object_property(name, value)
    session.create_producer(session.create_queue("orders")).send(message, priority=priority)


def received(shop: Shop, selector: str | None = None) -> list[str]:
    session = shop.connect().create_session()
    consumer = session.create_consumer(session.create_queue("orders"), selector)
    return [text_of(message) for message in iter(consumer.receive_no_wait, None)]


@pytest.mark.realises("BOIL-HDR-15")
def test_the_owner_of_a_queue_overrides_what_senders_say(shop: Shop) -> None:
    shop.manager.create("orders", delivery_mode=1, priority=7, max_time_to_live_ms=100)
    session = shop.connect().create_session()
    consumer = session.create_consumer(session.create_queue("orders"))
    producer = session.create_producer(session.create_queue("orders"))
    sent_ms = shop.clock.time_ms()
    for number in range(2):
        producer.send(session.create_text_message(str(number)), priority=2, time_to_live=60_000)
    message = consumer.receive_no_wait()
    assert text_of(message) == "0"
    assert message is not None
    found = (message.jms_delivery_mode, message.jms_priority, message.jms_expiration)
    assert found == (DeliveryMode.NON_PERSISTENT, 7, sent_ms + 100)
    shop.clock.advance(101)
    assert consumer.receive_no_wait() is None


@pytest.mark.realises("BOIL-PUB-13", "BOIL-PROD-3")
def test_the_owner_bounds_what_is_kept_for_a_subscriber_that_does_not_read() -> None:
    ring = QueuePolicy(max_messages=2, overflow=Overflow.RING)
    QueueManager.start("vm://bounded", QueuePolicies(patterns=(("topic://quotes.*", ring),)))
    try:
        with ConnectionFactory("vm://bounded").create_connection() as connection:
            connection.start()
            session = connection.create_session()
            topics = [session.create_topic(name) for name in ("quotes.tea", "news")]
            slow = [session.create_consumer(topic) for topic in topics]
            for topic in topics:
                producer = session.create_producer(topic)
                for number in range(5):
                    producer.send(session.create_text_message(str(number)), delivery_mode=DeliveryMode.PERSISTENT)
            found = [[text_of(message) for message in iter(each.receive_no_wait, None)] for each in slow]
        assert found == [["3", "4"], ["0", "1", "2", "3", "4"]]
    finally:
        stop_broker("bounded")


@pytest.mark.realises("BJ-Q-1", "BJ-Q-2", "BJ-Q-3", "MOM-32")
@pytest.mark.parametrize(
    ("policy", "texts"),
    [
        ({"type": "standard"}, ["d", "a", "c", "b", "e"]),
        ({"type": "priority", "priorities": 1}, ["a", "b", "c", "d", "e"]),
        ({"type": "priority", "priorities": 2}, ["d", "a", "b", "c", "e"]),
        ({"type": "last_value", "key": "colour"}, ["d", "c", "e"]),
        ({"type": "sorted", "key": "due"}, ["e", "c", "b", "d", "a"]),
    ],
    ids=["standard", "first in, first out", "two levels", "last value", "sorted"],
)
def test_each_type_of_queue_has_its_order(shop: Shop, policy: dict[str, Any], texts: list[str]) -> None:
    shop.manager.create("orders", **policy)
    order(shop, "a", priority=4, colour="red", due=5)
    order(shop, "b", priority=0, colour="blue", due=3)
    order(shop, "c", priority=4, colour="red", due=2)
    order(shop, "d", priority=9, colour="green", due=4)
    order(shop, "e", priority=0, colour="blue", due=1)
    assert received(shop) == texts


@pytest.mark.realises("BJ-Q-5", "BJ-Q-6")
def test_a_consumer_goes_on_where_it_has_looked_and_finds_what_comes_and_what_comes_back(shop: Shop) -> None:
    for number in range(6):
        order(shop, str(number), kind=number % 2)
    session, other = (shop.connect().create_session(True, Session.SESSION_TRANSACTED) for _ in range(2))
    odd = session.create_consumer(session.create_queue("orders"), "kind = 1")
    rest = other.create_consumer(other.create_queue("orders"))
    assert [text_of(odd.receive_no_wait()) for _ in range(2)] == ["1", "3"]
    assert [text_of(rest.receive_no_wait()) for _ in range(4)] == ["0", "2", "4", "5"], "what another has is not taken"
    assert odd.receive_no_wait() is None
    order(shop, "6", kind=1)
    order(shop, "7", kind=0)
    assert text_of(odd.receive_no_wait()) == "6"
    other.rollback()
    assert text_of(odd.receive_no_wait()) == "5", "it was given back behind where the consumer had looked"
    assert odd.receive_no_wait() is None
    assert [text_of(rest.receive_no_wait()) for _ in range(4)] == ["0", "2", "4", "7"]


# Limits


@pytest.mark.realises("BOIL-EXC-11")
def test_a_full_queue_is_a_resource_that_cannot_be_allocated(shop: Shop) -> None:
    shop.manager.create("orders", max_messages=1)
    session = shop.connect().create_session(True, Session.SESSION_TRANSACTED)
    shop.send("a", session)
    with pytest.raises(ResourceAllocationException, match="is full") as raised:
        shop.send("b", session)
    assert raised.value.error_code == "PYJMS-QUEUE-FULL"
    session.commit()
    assert shop.texts() == ["a"]


def blocked(shop: Shop, work: Callable[[], None]) -> tuple[Thread, list[BaseException]]:
    """Run `work` on a thread until it waits for room."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except JMSException as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    shop.clock.await_wait(60_000)
    return thread, errors


@pytest.mark.parametrize("how", ["session", "connection", "broker"])
def test_a_sender_that_waits_for_room_is_let_go_by_a_close(shop: Shop, how: str) -> None:
    shop.manager.create("orders", max_messages=1, overflow="block", block_timeout_ms=60_000)
    shop.send("a")
    connection = shop.connect()
    session = connection.create_session()
    thread, errors = blocked(shop, lambda: shop.send("b", session))
    closes: dict[str, Callable[[], object]] = {
        "session": session.close,
        "connection": connection.close,
        "broker": lambda: stop_broker(shop.name),
    }
    closes[how]()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert isinstance(errors[0], IllegalStateException)


def test_a_listener_that_waits_for_room_does_not_keep_its_connection_from_closing(shop: Shop) -> None:
    shop.manager.create("orders", max_messages=1, overflow="block", block_timeout_ms=60_000)
    shop.send("a")
    connection = shop.connect()
    session = connection.create_session()
    errors: list[JMSException] = []

    def forward(message: Message) -> None:
        try:
            shop.send("b", session)
        except JMSException as error:
            errors.append(error)

    session.create_consumer(session.create_queue("inbox")).message_listener = forward
    other = shop.connect().create_session()
    other.create_producer(other.create_queue("inbox")).send(other.create_text_message("go"))
    shop.clock.await_wait(60_000)
    thread = Thread(target=connection.close)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "close waits for the listener, and the listener for room"
    assert isinstance(errors[0], IllegalStateException)


def test_a_sender_goes_on_when_there_is_room(shop: Shop) -> None:
    shop.manager.create("orders", max_messages=1, overflow="block", block_timeout_ms=60_000)
    shop.send("a")
    thread, errors = blocked(shop, lambda: shop.send("b"))
    session = shop.connect().create_session()
    consumer = session.create_consumer(session.create_queue("orders"))
    assert [text_of(consumer.receive()) for _ in range(2)] == ["a", "b"]
    thread.join(PATIENCE_S)
    assert not errors


# Redelivery


def test_a_listener_that_always_fails_gets_a_message_less_and_less_often_and_then_no_more(shop: Shop) -> None:
    shop.manager.create(
        "orders", max_failures=3, redelivery_delay_ms=100, redelivery_multiplier=2.0, dead_letter="failed"
    )
    session = shop.connect().create_session()
    counts: list[int] = []
    called = Event()

    def fail(message: Message) -> None:
        counts.append(message.get_int_property("JMSXDeliveryCount"))
        called.set()
        raise ValueError("no such customer")

    session.create_consumer(session.create_queue("orders")).message_listener = fail
    shop.send("bad")
    for delay_ms in (100, 200):
        assert called.wait(PATIENCE_S)
        called.clear()
        shop.clock.await_wait(delay_ms)
        shop.clock.advance(delay_ms)
    assert called.wait(PATIENCE_S)
    other = shop.connect().create_session()
    letter = other.create_consumer(other.create_queue("failed")).receive()
    assert text_of(letter) == "bad"
    assert letter is not None
    assert letter.get_string_property("JMS_pyjms_deadReason") == "the listener raised ValueError: no such customer"
    assert counts == [1, 2, 3]


def test_a_transaction_that_is_rolled_back_too_often_is_given_up(shop: Shop) -> None:
    shop.manager.create("orders", max_deliveries=2)
    shop.send("bad")
    session = shop.connect().create_session(True, Session.SESSION_TRANSACTED)
    consumer = session.create_consumer(session.create_queue("orders"))
    for _ in range(2):
        assert text_of(consumer.receive()) == "bad"
        session.rollback()
    assert consumer.receive_no_wait() is None
    assert shop.texts("DLQ") == ["bad"]


# Consumers


def test_consumers_of_a_connection_with_a_higher_priority_are_served_first(shop: Shop) -> None:
    received: dict[str, list[str]] = {"low": [], "high": []}
    done = Event()

    def listen(name: str, connection: Connection) -> None:
        session = connection.create_session()

        def on_message(message: Message) -> None:
            received[name].append(text_of(message))
            if text_of(message) == "last":
                done.set()

        session.create_consumer(session.create_queue("orders")).message_listener = on_message

    listen("low", shop.connect())
    listen("high", shop.connect(consumer_priority=5))
    for text in ("a", "b", "last"):
        shop.send(text)
    assert done.wait(PATIENCE_S)
    assert received == {"low": [], "high": ["a", "b", "last"]}


def test_a_non_destructive_queue_works_with_every_way_to_acknowledge(shop: Shop) -> None:
    shop.manager.create("orders", non_destructive=True)
    for text in "ab":
        shop.send(text)
    for mode in (Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE, Session.DUPS_OK_ACKNOWLEDGE, 0):
        session = shop.connect().create_session(mode == 0, mode)
        consumer = session.create_consumer(session.create_queue("orders"))
        messages = [consumer.receive_no_wait() for _ in range(3)]
        assert [text_of(message) for message in messages[:2]] == ["a", "b"]
        assert messages[2] is None
        if mode == Session.CLIENT_ACKNOWLEDGE:
            assert messages[1] is not None
            messages[1].acknowledge()
            session.recover()
        if mode == 0:
            session.commit()
        session.close()
    assert shop.texts() == ["a", "b"]


@pytest.mark.parametrize("transacted", [False, True])
def test_a_connection_consumer_hands_on_what_stays_in_a_non_destructive_queue(shop: Shop, transacted: bool) -> None:
    shop.manager.create("orders", non_destructive=True)
    shop.send("a")
    shop.send("b")
    connection, recorder = shop.connect(), Recorder()
    pool = Pool(connection, feeding(recorder), transacted=transacted, mode=0 if transacted else 1)
    queue = pool.sessions[0].create_queue("orders")
    connection.create_connection_consumer(queue, None, pool, 1)
    assert recorder.wait_for(2) == ["a", "b"]
    shop.send("c")
    assert recorder.wait_for(3) == ["a", "b", "c"]
    pool.join()
    assert not pool.errors
    assert shop.texts() == ["a", "b", "c"]


def test_what_a_client_says_is_logged_so_that_any_log_can_write_it(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    session = world.connect().open_session(transacted=False)
    session.send(make_envelope("bad"))
    session.reject(poll(consume(session)), "half a character: \ud800")
    world.stop()
    (record,) = [each for each in caplog.records if "PYJMS-BROKER-21" in each.getMessage()]
    assert record.getMessage().encode("ascii")
    assert "half a character" in record.getMessage()
