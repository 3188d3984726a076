"""The order in which messages arrive (JMS 1.1 §4.4.9, §4.4.10, §3.4.10)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyjms import DeliveryMode, Message, Session
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.factory import ConnectionFactory
from pyjms.spi import ProviderUrl, find_provider
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import Recorder, drain, eventually, send_texts, take_texts, text_of


@pytest.mark.realises("BOIL-ORD-1", "BOIL-SESS-3")
@pytest.mark.parametrize("kind", ["queue", "topic"])
@pytest.mark.parametrize("transacted", [False, True])
def test_one_session_one_destination(connection: JmsConnection, kind: str, transacted: bool) -> None:
    session, other = connection.create_session(transacted, 1), connection.create_session()
    destination = session.create_queue("orders") if kind == "queue" else session.create_topic("prices")
    consumer = other.create_consumer(destination)
    texts = [str(number) for number in range(200)]
    send_texts(session, destination, *texts)
    if transacted:
        session.commit()
    assert take_texts(consumer, 200) == texts
    assert drain(consumer) == []


@pytest.mark.realises("BOIL-ORD-1", "BOIL-ORD-6")
def test_several_producers_of_a_session_keep_its_order(session: Session) -> None:
    """More than JMS asks for: a new producer may begin a sequence of its own."""
    queue = session.create_queue("orders")
    first, second = session.create_producer(queue), session.create_producer(None)
    for number in range(0, 40, 2):
        first.send(session.create_text_message(str(number)))
        second.send(queue, session.create_text_message(str(number + 1)))
    third = session.create_producer(queue)
    first.close()
    third.send(session.create_text_message("40"))
    assert drain(session.create_consumer(queue)) == [str(number) for number in range(41)]


@pytest.mark.realises("BOIL-ORD-1", "BOIL-SESS-3")
def test_listeners_get_the_order_too(connect: Connect) -> None:
    connection, recorder = connect(started=False), Recorder()
    session = connection.create_session()
    queue = session.create_queue("orders")
    session.create_consumer(queue).message_listener = recorder
    connection.start()
    texts = [str(number) for number in range(300)]
    send_texts(connect().create_session(), queue, *texts)
    assert recorder.wait_for(300) == texts


@pytest.mark.realises("BOIL-ORD-2", "BOIL-HDR-12")
def test_higher_priorities_come_first(session: Session) -> None:
    queue = session.create_queue("orders")
    for priority in (4, 0, 9, 5, 4, 9, 3):
        send_texts(session, queue, f"p{priority}", priority=priority)
    assert drain(session.create_consumer(queue)) == ["p9", "p9", "p5", "p4", "p4", "p3", "p0"]


@pytest.mark.realises("BOIL-ORD-2", "BOIL-ORD-1", "BOIL-HDR-12")
def test_expedited_messages_pass_a_backlog(session: Session) -> None:
    queue = session.create_queue("orders")
    consumer = session.create_consumer(queue)
    send_texts(session, queue, *(f"normal {number}" for number in range(10)))
    assert take_texts(consumer, 2) == ["normal 0", "normal 1"]
    send_texts(session, queue, "express 0", "express 1", priority=7)
    assert take_texts(consumer, 4) == ["express 0", "express 1", "normal 2", "normal 3"]


@pytest.mark.realises("BOIL-ORD-4")
def test_the_order_holds_within_each_delivery_mode(session: Session) -> None:
    queue = session.create_queue("orders")
    modes = [DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT]
    for number in range(60):
        send_texts(session, queue, f"{modes[number % 2]} {number}", delivery_mode=modes[number % 2])
    got = [str(text).split() for text in drain(session.create_consumer(queue))]
    for mode in modes:
        numbers = [int(number) for each, number in got if int(each) == mode]
        assert len(numbers) == 30
        assert all(before < after for before, after in pairwise(numbers))


SENDS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([1, 2])), max_size=25)


@pytest.mark.realises("BOIL-ORD-1", "BOIL-ORD-2", "BOIL-ORD-4")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sends=SENDS)
def test_order_by_priority_then_by_sending(jms_broker_url: str, sends: list[tuple[int, int]]) -> None:
    with ConnectionFactory(f"{jms_broker_url}-order").create_connection() as connection:
        connection.start()
        session = connection.create_session()
        queue = session.create_queue("orders")
        for number, (priority, mode) in enumerate(sends):
            send_texts(session, queue, str(number), priority=priority, delivery_mode=mode)
        got = [int(str(text)) for text in drain(session.create_consumer(queue))]
    find_provider("vm").stop_broker(ProviderUrl.parse(f"{jms_broker_url}-order"))
    assert got == sorted(range(len(sends)), key=lambda number: (-sends[number][0], number))


@pytest.mark.realises("BOIL-ORD-1", "BOIL-TX-2")
def test_recovered_messages_take_their_old_places(connection: JmsConnection) -> None:
    session, other = connection.create_session(True, 0), connection.create_session()
    queue = session.create_queue("orders")
    send_texts(other, queue, *(str(number) for number in range(6)))
    consumer = session.create_consumer(queue)
    assert take_texts(consumer, 3) == ["0", "1", "2"]
    send_texts(other, queue, "6")
    session.rollback()
    assert take_texts(consumer, 7) == [str(number) for number in range(7)]


@pytest.mark.realises("BOIL-ORD-7", "BOIL-PUB-10")
def test_a_slow_subscriber_does_not_hold_up_the_other(connection: JmsConnection, connect: Connect) -> None:
    slow, quick = connection.create_session(), connect().create_session()
    topic = slow.create_topic("prices")
    waiting, reading = slow.create_consumer(topic), quick.create_consumer(topic)
    texts = [str(number) for number in range(100)]
    send_texts(connect().create_session(), topic, *texts)
    assert take_texts(reading, 100) == texts
    assert take_texts(waiting, 100) == texts


@pytest.mark.realises("BOIL-ORD-8")
def test_receivers_of_a_queue_share_its_messages(connect: Connect) -> None:
    """Each message goes to one of them; each of them gets its share in the order of sending."""
    queue_name, recorders = "orders", [Recorder() for _ in range(3)]
    for recorder in recorders:
        connection = connect()
        session = connection.create_session()
        session.create_consumer(session.create_queue(queue_name)).message_listener = recorder
    sending = connect().create_session()
    texts = [str(number) for number in range(300)]
    send_texts(sending, sending.create_queue(queue_name), *texts)
    eventually(lambda: sum(len(recorder.texts) for recorder in recorders) >= len(texts), "all have arrived")
    got = [list(recorder.texts) for recorder in recorders]
    assert sorted(int(str(text)) for each in got for text in each) == list(range(300))
    for each in got:
        numbers = [int(str(text)) for text in each]
        assert numbers == sorted(numbers)


def test_a_selector_does_not_change_the_order(session: Session) -> None:
    queue = session.create_queue("orders")
    producer = session.create_producer(queue)

    def numbered(number: int) -> Message:
        message = session.create_text_message(str(number))
        message.set_int_property("number", number)
        return message

    for number in range(20):
        producer.send(numbered(number))
    low = session.create_consumer(queue, "number < 10")
    assert [text_of(message) for message in iter(low.receive_no_wait, None)] == [str(number) for number in range(10)]
    assert drain(session.create_consumer(queue)) == [str(number) for number in range(10, 20)]
