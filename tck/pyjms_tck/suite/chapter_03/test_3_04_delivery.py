"""JMS 1.1 §3.4.7, §3.4.9 and §3.4.10: header fields that say how a message is delivered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjms import DeliveryMode, MessageConsumer, Queue, Session
from pyjms.spi.clock import SystemClock
from pyjms_tck.checks import Checks, expect
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeSession
from pyjms_tck.requirements import requirement

RoundTrip = Callable[[Any], Any]
_CLOCK = SystemClock()
_HOUR_MS = 3_600_000


def _received(consumer: MessageConsumer, waits: Waits) -> Any:
    message = consumer.receive(waits.something_ms)
    assert message is not None, f"a message was sent and not received in {waits.something_ms} ms"
    return message


# ------------------------------------------------------------------------------------------------- 3.4.7 redelivered


@requirement("3.4.7-a")
def test_3_4_7_a_a_message_that_comes_again_says_so(make_session: MakeSession, queue: Queue, waits: Waits) -> None:
    session = make_session(mode=Session.CLIENT_ACKNOWLEDGE)
    session.create_producer(queue).send(session.create_message())
    consumer = session.create_consumer(queue)
    expect("JMSRedelivered at the first delivery", _received(consumer, waits).jms_redelivered, False)
    session.recover()
    expect("JMSRedelivered at the second delivery", _received(consumer, waits).getJMSRedelivered(), True)


@requirement("3.4.7-b")
def test_3_4_7_b_the_sender_cannot_set_redelivered(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.jms_redelivered = True
    expect("JMSRedelivered as received, which the sender had set to true", roundtrip(message).jms_redelivered, False)
    fresh = session.create_message()
    roundtrip(fresh)
    expect("JMSRedelivered of the sender's message after send", fresh.jms_redelivered, False)


@requirement("3.4.7-c")
def test_3_4_7_c_redelivered_can_be_set(session: Session, roundtrip: RoundTrip) -> None:
    with Checks() as check:
        for state, message in (("new", session.create_message()), ("received", roundtrip(session.create_message()))):
            for value in (True, False):
                message.setJMSRedelivered(value)
                check.same(f"getJMSRedelivered of a {state} message", message.getJMSRedelivered(), value)


# -------------------------------------------------------------------------------------------------- 3.4.9 expiration


@requirement("3.4.9-a")
def test_3_4_9_a_expiration_is_the_time_of_the_send_plus_the_time_to_live(session: Session, queue: Queue) -> None:
    producer = session.create_producer(queue)
    producer.time_to_live = _HOUR_MS
    with Checks() as check:
        for given, ttl_ms in (
            ((), _HOUR_MS),
            ((DeliveryMode.PERSISTENT, 4, 2 * _HOUR_MS), 2 * _HOUR_MS),
            ((DeliveryMode.PERSISTENT, 4, 2**32), 2**32),  # seven weeks: more than an int holds
        ):
            message = session.create_message()
            before_ms = _CLOCK.time_ms()
            producer.send(message, *given)
            after_ms = _CLOCK.time_ms()
            seen, first, last = message.jms_expiration, before_ms + ttl_ms, after_ms + ttl_ms
            what = f"JMSExpiration is from {first} to {last} for a time-to-live of {ttl_ms} ms (it is {seen})"
            check.same(what, first <= seen <= last, True)


@requirement("3.4.9-b")
def test_3_4_9_b_the_receiver_sees_the_expiration(session: Session, queue: Queue, waits: Waits) -> None:
    message = session.create_message()
    session.create_producer(queue).send(message, DeliveryMode.NON_PERSISTENT, 4, _HOUR_MS)
    received = _received(session.create_consumer(queue), waits)
    assert message.jms_expiration > 0, f"the sender's JMSExpiration: expected a time, saw {message.jms_expiration}"
    expect("JMSExpiration as received", received.jms_expiration, message.jms_expiration)


@requirement("3.4.9-c")
def test_3_4_9_c_no_time_to_live_gives_expiration_zero(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    received = roundtrip(message)
    expect("the sender's JMSExpiration with time-to-live 0", message.jms_expiration, 0)
    expect("JMSExpiration as received", received.jms_expiration, 0)


@requirement("3.4.9-d")
def test_3_4_9_d_send_ignores_the_expiration_that_the_client_set(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.jms_expiration = 12_345  # long ago
    received = roundtrip(message)
    expect("JMSExpiration after send with time-to-live 0, which the client had set", message.jms_expiration, 0)
    expect("the same, as received", received.jms_expiration, 0)


@requirement("3.4.9-e")
def test_3_4_9_e_the_expiration_can_be_set(session: Session, roundtrip: RoundTrip) -> None:
    with Checks() as check:
        for state, message in (("new", session.create_message()), ("received", roundtrip(session.create_message()))):
            for value in (1, 2**62, 0):
                message.setJMSExpiration(value)
                check.same(f"getJMSExpiration of a {state} message", message.getJMSExpiration(), value)


@requirement("3.4.9-f")
def test_3_4_9_f_an_expired_message_is_dropped(session: Session, queue: Queue, waits: Waits) -> None:
    producer = session.create_producer(queue)
    producer.send(session.create_text_message("expired"), DeliveryMode.PERSISTENT, 4, 1)
    producer.send(session.create_text_message("lives long"), DeliveryMode.PERSISTENT, 4, _HOUR_MS)
    waits.pause()
    expect("the first message received", _received(session.create_consumer(queue), waits).text, "lives long")


@requirement("3.4.9-g")
def test_3_4_9_g_a_consumer_that_waits_gets_no_expired_message(
    connect: Connect, session: Session, queue: Queue, waits: Waits
) -> None:
    connection = connect()
    consumer = connection.create_session(False, Session.AUTO_ACKNOWLEDGE).create_consumer(queue)
    producer = session.create_producer(queue)
    producer.send(session.create_text_message("expired"), DeliveryMode.NON_PERSISTENT, 4, 1)
    producer.send(session.create_text_message("never expires"))
    waits.pause()  # the connection is stopped: the messages may be with the client already
    connection.start()
    expect("the first message received", _received(consumer, waits).text, "never expires")


# ---------------------------------------------------------------------------------------------------- 3.4.10 priority


@requirement("3.4.10-d")
def test_3_4_10_d_expedited_messages_come_before_normal_ones(session: Session, queue: Queue, waits: Waits) -> None:
    producer = session.create_producer(queue)
    for priority in (1, 4, 9, 0, 6):
        producer.send(session.create_message(), DeliveryMode.PERSISTENT, priority, 0)
    consumer = session.create_consumer(queue)
    seen = [_received(consumer, waits).jms_priority for _ in range(5)]
    assert min(seen[:2]) >= 5 > max(seen[2:]), f"priorities as received: expected 9 and 6 before 1, 4 and 0, saw {seen}"
