"""Delivery delay (20.3)."""

from __future__ import annotations

import pytest

from pyjms import Connection, Queue, Session
from pyjms.spi.clock import SystemClock
from pyjms_tck.environment import Waits
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import take, take_texts

CLOCK = SystemClock()
DELAY_MS = 400
"""Long enough that a message that is not delayed comes first."""


@requirement("20.3-a")
def test_20_3_a_a_producer_has_a_delivery_delay(session: Session, queue: Queue) -> None:
    producer = session.create_producer(queue)
    assert producer.delivery_delay == 0, "at first"
    producer.setDeliveryDelay(DELAY_MS)
    assert producer.getDeliveryDelay() == DELAY_MS


@requirement("20.3-b")
def test_20_3_b_each_message_has_the_time_of_its_delivery(session: Session, queue: Queue, waits: Waits) -> None:
    message = session.create_text_message("text")
    before = CLOCK.time_ms()
    session.create_producer(queue).send(message)
    after = CLOCK.time_ms()
    assert before <= message.getJMSDeliveryTime() <= after
    assert take(session.create_consumer(queue), waits).jms_delivery_time == message.jms_delivery_time


@requirement("20.3-c")
def test_20_3_c_the_time_of_delivery_is_that_of_the_send_and_the_delay(
    session: Session, queue: Queue, waits: Waits
) -> None:
    producer = session.create_producer(queue)
    producer.delivery_delay = DELAY_MS
    message = session.create_text_message("delayed")
    before = CLOCK.time_ms()
    producer.send(message)
    after = CLOCK.time_ms()
    assert before + DELAY_MS <= message.jms_delivery_time <= after + DELAY_MS
    assert take(session.create_consumer(queue), waits).jms_delivery_time == message.jms_delivery_time


@requirement("20.3-d")
@pytest.mark.parametrize("by_listener", [False, True], ids=["receive", "listener"])
def test_20_3_d_no_consumer_gets_a_message_before_its_time(
    session: Session, queue: Queue, waits: Waits, connection: Connection, by_listener: bool
) -> None:
    arrivals: list[tuple[str | None, int, int]] = []
    consumer = connection.create_session().create_consumer(queue)
    if by_listener:
        consumer.message_listener = lambda message: arrivals.append(_arrival(message))
    producer = session.create_producer(queue)
    producer.delivery_delay = DELAY_MS
    producer.send(session.create_text_message("delayed"))
    producer.delivery_delay = 0
    producer.send(session.create_text_message("at once"))
    if by_listener:
        waits.until(lambda: len(arrivals) == 2, "both messages had come")
    else:
        arrivals = [_arrival(take(consumer, waits)) for _ in range(2)]
    assert [text for text, _, _ in arrivals] == ["at once", "delayed"]
    assert all(came >= due for _, came, due in arrivals), "not before the time of delivery"


def _arrival(message: object) -> tuple[str | None, int, int]:
    came = CLOCK.time_ms()
    return message.get_body(str), came, message.jms_delivery_time  # type: ignore[attr-defined]


@requirement("20.3-e")
@needs("TRANSACTIONS")
def test_20_3_e_the_delay_counts_from_the_send_in_a_transaction(
    connection: Connection, session: Session, queue: Queue, waits: Waits
) -> None:
    sending = connection.create_session(Session.SESSION_TRANSACTED)
    producer = sending.create_producer(queue)
    producer.delivery_delay = DELAY_MS
    message = sending.create_text_message("delayed")
    before = CLOCK.time_ms()
    producer.send(message)
    after = CLOCK.time_ms()
    due = message.jms_delivery_time
    assert before + DELAY_MS <= due <= after + DELAY_MS
    waits.until(lambda: CLOCK.time_ms() > due - DELAY_MS / 2, "half of the delay had passed")
    sending.commit()
    consumer = session.create_consumer(queue)
    received = take(consumer, waits)
    assert received.jms_delivery_time == due
    assert CLOCK.time_ms() >= due
    producer.send(message)
    waits.until(lambda: CLOCK.time_ms() > message.jms_delivery_time, "its time had come")
    sending.commit()
    other = session.create_producer(queue)
    other.delivery_delay = DELAY_MS // 2
    other.send(session.create_text_message("sent after the commit"))
    assert take_texts(consumer, waits, 2) == ["delayed", "sent after the commit"]
