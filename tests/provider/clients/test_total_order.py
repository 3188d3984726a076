"""`type=total_order`: all receivers of a destination see the messages of all senders in one and the same order (JBoss Messaging Core §9.6)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    DeliveryMode,
    JMSException,
    Message,
    MessageConsumer,
    Session,
    TextMessage,
)
from pyjms.api.destination import Destination
from pyjms.testing import VirtualClock
from pyjms_provider.broker import stop_broker
from pyjms_provider.queue_manager import QueueManager
from tests.system.network import served

_numbers = count(1)
PATIENCE_MS = 20_000
SENDERS, EACH = 4, 60


def new_name() -> str:
    return f"total-{next(_numbers)}"


@contextmanager
def opened(options: str = "", clock: VirtualClock | None = None, name: str = "") -> Iterator[Connection]:
    name = name or new_name()
    try:
        chosen = "&".join(filter(None, ("type=total_order", options)))
        factory = ConnectionFactory(f"vm://{name}?{chosen}", clock=clock)
        with factory.create_connection() as connection:
            connection.start()
            yield connection
    finally:
        stop_broker(name)


def text_of(message: Message | None) -> str:
    assert isinstance(message, TextMessage)
    return str(message.text)


def take(consumer: MessageConsumer, number: int) -> list[str]:
    return [text_of(consumer.receive(PATIENCE_MS)) for _ in range(number)]


def take_all(consumer: MessageConsumer) -> list[str]:
    found: list[str] = []
    while (message := consumer.receive_no_wait()) is not None:
        found.append(text_of(message))
    return found


def send(session: Session, to: Destination, *texts: str, **options: Any) -> None:
    with session.create_producer(to) as producer:
        for text in texts:
            producer.send(session.create_text_message(text), **options)


def send_at_once(connection: Connection, destination: str, *, is_topic: bool) -> None:
    """Send from several threads: with all priorities and both delivery modes, in transactions and outside of them."""
    start = Barrier(SENDERS)

    def work(sender: int) -> None:
        session = connection.create_session(sender % 2 == 0, Session.AUTO_ACKNOWLEDGE)
        to = session.create_topic(destination) if is_topic else session.create_queue(destination)
        producer = session.create_producer(to)
        start.wait(20)
        for number in range(EACH):
            mode = DeliveryMode.PERSISTENT if number % 3 else DeliveryMode.NON_PERSISTENT
            producer.send(session.create_text_message(f"{sender}.{number}"), delivery_mode=mode, priority=number % 10)
            if session.transacted and number % 5 == 4:
                session.rollback() if number % 10 == 9 else session.commit()
        session.close()

    threads = [Thread(target=work, args=(sender,)) for sender in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


MESSAGES = SENDERS // 2 * EACH + SENDERS // 2 * EACH // 2


def check(orders: list[list[str]]) -> None:
    """All receivers have all messages, in one order, in which each sender's are in theirs."""
    assert len(orders[0]) == len(set(orders[0])) == MESSAGES
    for order in orders[1:]:
        assert order == orders[0]
    for sender in range(SENDERS):
        own = [int(each.partition(".")[2]) for each in orders[0] if each.startswith(f"{sender}.")]
        assert own == sorted(own)


@pytest.mark.realises("JBM-9.6")
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "sqlite"])
def test_all_subscribers_of_a_topic_see_one_order(tmp_path: Path, *, stored: bool) -> None:
    """Receivers read while senders send, so that the order is not that of a list at the end."""
    name = new_name()
    options = f"store=sqlite:///{tmp_path}/shop.db" if stored else ""
    with opened(options, name=name) as connection, ExitStack() as stack:
        orders: list[list[str]] = [[] for _ in range(4)]
        threads = []
        for number, order in enumerate(orders):
            other = stack.enter_context(ConnectionFactory(f"vm://{name}").create_connection())
            other.client_id = f"client-{number}"
            session = other.create_session()
            topic = session.create_topic("news")
            consumer = (
                session.create_durable_subscriber(topic, "news") if number % 2 else session.create_consumer(topic)
            )
            other.start()
            threads.append(Thread(target=lambda c=consumer, o=order: o.extend(take(c, MESSAGES))))
            threads[-1].start()
        send_at_once(connection, "news", is_topic=True)
        for thread in threads:
            thread.join(60)
        check(orders)


@pytest.mark.realises("JBM-9.6")
def test_subscribers_over_a_network_see_one_order() -> None:
    with served.stored_broker(None, subscription_defaults={"type": "total_order"}) as broker, ExitStack() as stack:
        url = f"stomp://127.0.0.1:{served.port_of(broker)}"
        connection = stack.enter_context(ConnectionFactory(url).create_connection())
        orders: list[list[str]] = [[] for _ in range(3)]
        threads = []
        for order in orders:
            other = stack.enter_context(ConnectionFactory(url).create_connection())
            session = other.create_session()
            consumer = session.create_consumer(session.create_topic("news"))
            other.start()
            threads.append(Thread(target=lambda c=consumer, o=order: o.extend(take(c, MESSAGES))))
            threads[-1].start()
        send_at_once(connection, "news", is_topic=True)
        for thread in threads:
            thread.join(60)
        check(orders)


@pytest.mark.realises("JBM-9.6")
def test_the_order_is_the_same_after_a_restart(tmp_path: Path) -> None:
    """One subscriber has received all before it, another one receives all after it."""
    options, name = f"store=sqlite:///{tmp_path}/shop.db", new_name()
    url = f"vm://{name}?type=total_order&{options}"

    def subscriber(client_id: str) -> tuple[Connection, MessageConsumer]:
        connection = ConnectionFactory(url).create_connection()
        connection.client_id = client_id
        session = connection.create_session()
        consumer = session.create_durable_subscriber(session.create_topic("news"), "news")
        connection.start()
        return connection, consumer

    with opened(options, name=name) as connection:
        first, consumer = subscriber("first")
        subscriber("second")[0].close()
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        news = session.create_topic("news")
        send(session, news, "sent first, committed last")
        send(connection.create_session(), news, "sent in between", priority=9)
        session.commit()
        before = take_all(consumer)
        first.close()
    second, consumer = subscriber("second")
    assert take_all(consumer) == before == ["sent first, committed last", "sent in between"]
    second.close()
    stop_broker(name)


@pytest.mark.realises("JBM-9.6")
def test_priorities_do_not_count() -> None:
    with opened() as connection:
        session = connection.create_session()
        queue = session.create_queue("orders")
        for priority in (1, 9, 5):
            send(session, queue, str(priority), priority=priority)
        assert take_all(session.create_consumer(queue)) == ["1", "9", "5"]


@pytest.mark.realises("JBM-9.6")
@pytest.mark.parametrize("ending", ["commit", "rollback", "close"])
def test_what_is_not_committed_holds_back_what_was_sent_later(ending: str) -> None:
    with opened() as connection:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        plain = connection.create_session()
        queue = plain.create_queue("orders")
        send(plain, queue, "before")
        send(session, queue, "in between")
        send(plain, queue, "later")
        receiving = [connection.create_session() for _ in range(2)]
        consumers = [each.create_consumer(queue) for each in receiving]
        assert take_all(consumers[0]) == ["before"]
        assert take_all(consumers[1]) == []
        getattr(session, ending)()
        wanted = ["in between", "later"] if ending == "commit" else ["later"]
        assert take(consumers[0], len(wanted)) == wanted


def test_a_listener_that_waits_is_called_when_the_way_is_free() -> None:
    with opened() as connection:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        plain = connection.create_session()
        queue = plain.create_queue("orders")
        orders: list[str] = []
        arrived = Barrier(2)

        def listen(message: Message) -> None:
            orders.append(text_of(message))
            if len(orders) == 40:
                arrived.wait(20)

        receiving = connection.create_session()
        receiving.create_consumer(queue).message_listener = listen
        send(session, queue, *(f"{number}" for number in range(20)))
        send(plain, queue, *(f"{number}" for number in range(20, 40)))
        assert orders == []
        session.commit()
        arrived.wait(20)
        assert orders == [str(number) for number in range(40)]


@pytest.mark.realises("JBM-9.6")
def test_a_redelivery_comes_before_later_ones_also_when_it_is_delayed() -> None:
    clock = VirtualClock()
    with opened("redelivery_delay_ms=500", clock=clock) as connection:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        other = connection.create_session()
        queue = session.create_queue("orders")
        send(other, queue, "a", "b", "c")
        consumer = session.create_consumer(queue)
        assert [take(consumer, 1), take(consumer, 1)] == [["a"], ["b"]]
        session.rollback()
        waiting = other.create_consumer(queue)
        assert take_all(waiting) == take_all(consumer) == [], "all wait behind the redelivery"
        clock.advance(500)
        assert take_all(waiting) == ["a", "b", "c"]


@pytest.mark.realises("JBM-9.6")
def test_consumers_that_compete_take_messages_in_their_order() -> None:
    with opened() as connection:
        session = connection.create_session()
        queue = session.create_queue("orders")
        consumers = [session.create_consumer(queue, selector) for selector in ("", "", "kind = 'odd'")]
        texts = [str(number) for number in range(60)]
        with session.create_producer(queue) as producer:
            for number, text in enumerate(texts):
                message = session.create_text_message(text)
                message.set_string_property("kind", "odd" if number % 2 else "even")
                producer.send(message, priority=number % 10)
        left = list(texts)
        for consumer in consumers * 8:
            may_take = [each for each in left if not consumer.message_selector or int(each) % 2]
            assert take(consumer, 1) == may_take[:1]
            left.remove(may_take[0])
        assert take_all(consumers[0]) == left


# Prepared branches, limits of the type


def test_a_message_for_later_is_refused() -> None:
    with opened() as connection:
        session = connection.create_session()
        message = session.create_text_message("later")
        message.set_long_property("JMS_pyjms_deliverAt", 4_000_000_000_000)
        for destination in (session.create_queue("orders"), session.create_topic("news")):
            with pytest.raises(JMSException, match=r"has a total order.*send it without") as raised:
                session.create_producer(destination).send(message)
            assert raised.value.error_code == "PYJMS-CAPABILITY"
            message.set_long_property("JMS_pyjms_deliverAt", 1)
            session.create_producer(destination).send(message)  # it is due, as one that was forwarded is
            message.set_long_property("JMS_pyjms_deliverAt", 4_000_000_000_000)


@pytest.mark.parametrize("option", ["groups", "non_destructive", "non_blocking_redelivery"])
def test_what_contradicts_it_is_refused(option: str) -> None:
    with pytest.raises(JMSException, match=r"type=total_order .*leave .*out"):
        ConnectionFactory(f"vm://never?type=total_order&{option}=true").create_connection()


def test_an_operator_makes_such_a_queue_and_moves_messages_into_it(tmp_path: Path) -> None:
    name = new_name()
    with opened(f"store=sqlite:///{tmp_path}/shop.db", name=name) as connection:
        manager = QueueManager.of(name)
        manager.create("ordered", type="total_order", exclusive=True)
        manager.create("other", type="standard")
        session = connection.create_session()
        send(session, session.create_queue("other"), "1", "2")
        send(session, session.create_queue("ordered"), "0", priority=0)
        assert manager.move("other", "ordered") == 2
        send(session, session.create_queue("ordered"), "3", priority=9)
        assert take_all(session.create_consumer(session.create_queue("ordered"))) == ["0", "1", "2", "3"]
        with pytest.raises(Exception, match="its type cannot be altered"):
            send(session, session.create_queue("ordered"), "4")
            manager.alter("ordered", type="standard", exclusive=False)
