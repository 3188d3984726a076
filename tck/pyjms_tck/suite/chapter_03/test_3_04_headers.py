"""JMS 1.1 §3.2, §3.4 and §3.6: header fields, what messages carry, and acknowledging through a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms import DeliveryMode, IllegalStateException, Message, MessageConsumer, Queue, Session
from pyjms.spi.clock import SystemClock
from pyjms_tck.checks import Checks, expect, expect_error
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeSession, Record
from pyjms_tck.requirements import needs, requirement

RoundTrip = Callable[[Any], Any]
Receive = Callable[[], Any]
_CLOCK = SystemClock()


def _is_kept(session: Session, roundtrip: RoundTrip, field: str, values: tuple[Any, ...]) -> None:
    """Check that what a setter stores is what the getter returns, on a new and on a received message."""
    with Checks() as check:
        for state, message in (("new", session.create_message()), ("received", roundtrip(session.createMessage()))):
            # Several values: a setter that always stores the same, or only the first, is noticed.
            for value in values:
                getattr(message, f"setJMS{field}")(value)
                seen = getattr(message, f"getJMS{field}")()
                check.same(f"getJMS{field} of a {state} message after setJMS{field}({value!r})", seen, value)


def _arrives(session: Session, roundtrip: RoundTrip, name: str, values: tuple[Any, ...]) -> None:
    """Check that a field of the client's own is read back and arrives."""
    with Checks() as check:
        check.same(f"{name} of a new message", getattr(session.create_message(), name), None)
        for value in values:
            message = session.create_message()
            setattr(message, name, value)
            check.same(f"{name} after it was set", getattr(message, name), value)
            received = roundtrip(message)
            check.same(f"{name} of the sender's message after send", getattr(message, name), value)
            check.same(f"{name} as received", getattr(received, name), value)


@requirement("3.4.1-a")
def test_3_4_1_a_send_sets_the_destination(
    session: Session, queue: Queue, make_queue: Callable[[], Queue], receive: Receive
) -> None:
    other = make_queue()
    message = session.create_message()
    # Set to another queue before: send assigns this field, whatever it held (§3.4.1).
    message.jms_destination = other
    session.create_producer(queue).send(message)
    expect("JMSDestination of the sender's message after send", message.jms_destination, queue)
    received = receive()
    expect("JMSDestination as received", received.jms_destination, queue)
    named = session.create_message()
    session.create_producer(None).send(queue, named)
    expect("JMSDestination after a send that names the destination", named.jms_destination, queue)
    expect("the same, as received", receive().jms_destination, queue)


@requirement("3.4.1-b")
def test_3_4_1_b_the_destination_can_be_set(
    session: Session, roundtrip: RoundTrip, make_queue: Callable[[], Queue]
) -> None:
    _is_kept(session, roundtrip, "Destination", (make_queue(), make_queue()))


@requirement("3.4.2-a")
def test_3_4_2_a_send_sets_the_delivery_mode(session: Session, queue: Queue, receive: Receive) -> None:
    producer = session.create_producer(queue)
    persistent, fleeting = int(DeliveryMode.PERSISTENT), int(DeliveryMode.NON_PERSISTENT)
    with Checks() as check:
        # The message has the other mode each time, so a provider that takes it from there is noticed.
        for mode, preset in ((persistent, fleeting), (fleeting, persistent)):
            producer.delivery_mode = mode
            message = session.create_message()
            message.jms_delivery_mode = preset
            producer.send(message)
            check.same(f"JMSDeliveryMode after send with the producer's mode {mode}", message.jms_delivery_mode, mode)
            check.same("the same, as received", receive().jms_delivery_mode, mode)
            message.jms_delivery_mode = mode
            producer.send(message, preset, 4, 0)
            check.same(f"JMSDeliveryMode after send with mode {preset}", message.jms_delivery_mode, preset)
            check.same("the same, as received", receive().jms_delivery_mode, preset)


@requirement("3.4.2-b")
def test_3_4_2_b_the_delivery_mode_can_be_set(session: Session, roundtrip: RoundTrip) -> None:
    _is_kept(session, roundtrip, "DeliveryMode", (1, 2))


@requirement("3.4.3-a")
def test_3_4_3_a_every_message_id_begins_with_id(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_text_message("x")
    received = roundtrip(message)
    for whose, id in (("the sender's", message.jms_message_id), ("the receiver's", received.jms_message_id)):
        assert str(id).startswith("ID:"), f"{whose} JMSMessageID: expected ID:..., saw {id!r}"
    expect("JMSMessageID as received", received.jms_message_id, message.jms_message_id)


@requirement("3.4.3-b")
def test_3_4_3_b_each_sent_message_gets_an_id_of_its_own(
    session: Session, queue: Queue, make_session: Callable[[], Session]
) -> None:
    ids = []
    once = session.create_text_message("the same object, sent again and again")
    # Two sessions: an id that counts within a session only would come twice.
    for sender in (session, make_session()):
        producer = sender.create_producer(queue)
        for message in (*(sender.create_message() for _ in range(50)), *([once] * 50)):
            producer.send(message)
            # Read at once: the next send of the same object assigns another id.
            ids.append(str(message.jms_message_id))
    twice = {id for id in ids if ids.count(id) > 1}
    assert not twice, f"200 messages: expected 200 different ids, saw {len(set(ids))}; given twice: {sorted(twice)[:3]}"


@requirement("3.4.3-c")
def test_3_4_3_c_send_ignores_the_id_that_the_client_set(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.jms_message_id = "ID:of-the-client"
    received = roundtrip(message)
    assert message.jms_message_id != "ID:of-the-client", "JMSMessageID after send: expected a new id, saw the client's"
    assert received.jms_message_id != "ID:of-the-client", (
        "JMSMessageID as received: expected a new id, saw the client's"
    )


@requirement("3.4.3-d")
def test_3_4_3_d_the_message_id_can_be_set(session: Session, roundtrip: RoundTrip) -> None:
    _is_kept(session, roundtrip, "MessageID", ("ID:1", "ID:caf\u00e9", None))


@requirement("3.4.3-e")
def test_3_4_3_e_without_message_ids_there_is_none_or_a_normal_one(
    session: Session, queue: Queue, receive: Receive, record: Record
) -> None:
    producer = session.create_producer(queue)
    producer.disable_message_id = True
    ids = []
    for _ in range(2):
        message = session.create_message()
        producer.send(message)
        ids += [message.jms_message_id, receive().jms_message_id]
    record(f"with message ids disabled, a message has {'none' if ids[0] is None else 'an id all the same'}")
    # None alone is no id: an empty text is neither that nor one that begins with ID:.
    if ids != [None] * 4:
        assert all(str(id).startswith("ID:") for id in ids), f"expected ids or none, saw {ids}"
        assert ids[0] == ids[1] != ids[2] == ids[3], f"two messages: expected two ids, the sender's, saw {ids}"


@requirement("3.4.4-a")
def test_3_4_4_a_the_timestamp_is_the_time_of_the_send(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    before_ms = _CLOCK.time_ms()
    received = roundtrip(message)
    after_ms = _CLOCK.time_ms()
    seen = message.jms_timestamp
    assert before_ms <= seen <= after_ms, f"JMSTimestamp: expected {before_ms} to {after_ms}, saw {seen}"
    expect("JMSTimestamp as received", received.jms_timestamp, seen)


@requirement("3.4.4-b")
def test_3_4_4_b_send_ignores_the_timestamp_that_the_client_set(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.jms_timestamp = 12_345
    received = roundtrip(message)
    assert message.jms_timestamp != 12_345, "JMSTimestamp after send: expected the time of the send, saw the client's"
    assert received.jms_timestamp != 12_345, "JMSTimestamp as received: expected the time of the send, saw the client's"


@requirement("3.4.4-c")
def test_3_4_4_c_the_timestamp_can_be_set(session: Session, roundtrip: RoundTrip) -> None:
    _is_kept(session, roundtrip, "Timestamp", (0, 1, 2**62))


@requirement("3.4.4-d")
def test_3_4_4_d_without_timestamps_it_is_zero_or_a_normal_one(
    session: Session, queue: Queue, receive: Receive, record: Record
) -> None:
    producer = session.create_producer(queue)
    producer.disable_message_timestamp = True
    message = session.create_message()
    before_ms = _CLOCK.time_ms()
    producer.send(message)
    # Taken before the message is received: the time of the send is meant, not that of its arrival.
    after_ms = _CLOCK.time_ms()
    seen = receive().jms_timestamp
    record(f"with timestamps disabled, JMSTimestamp is {'the time of the send' if seen else '0'}")
    assert seen == 0 or before_ms <= seen <= after_ms, (
        f"JMSTimestamp: expected 0, or {before_ms} to {after_ms}, saw {seen}"
    )


@requirement("3.4.5-a")
def test_3_4_5_a_the_correlation_id_is_the_clients_own(session: Session, roundtrip: RoundTrip) -> None:
    _arrives(session, roundtrip, "jms_correlation_id", ("order-7", "ID:of-a-request", "caf\u00e9 \u4e2d", "", None))


@requirement("3.4.5-b")
def test_3_4_5_b_the_correlation_id_may_be_given_as_bytes(
    session: Session, roundtrip: RoundTrip, record: Record
) -> None:
    message = session.create_message()
    value: Any = bytearray(b"order-7")
    try:
        message.setJMSCorrelationIDAsBytes(value)
    except NotImplementedError:  # what UnsupportedOperationException is in Python
        record("correlation ids as bytes are not supported")
        return
    record("correlation ids as bytes are supported")
    # Changed after the call: the message must have a copy of the bytes.
    value[:] = b"changed"
    expect("getJMSCorrelationIDAsBytes after it was set", message.getJMSCorrelationIDAsBytes(), b"order-7")
    expect("the same, as received", roundtrip(message).jms_correlation_id_as_bytes, b"order-7")


@requirement("3.4.6-a")
def test_3_4_6_a_reply_to_is_the_clients_own(
    session: Session, roundtrip: RoundTrip, make_queue: Callable[[], Queue], waits: Waits
) -> None:
    replies = make_queue()
    _arrives(session, roundtrip, "jms_reply_to", (replies, None))
    request = session.create_message()
    request.setJMSReplyTo(replies)
    # Through the received object: a destination that only looks right when it is read would fail here.
    session.create_producer(None).send(roundtrip(request).getJMSReplyTo(), session.create_text_message("the reply"))
    reply = session.create_consumer(replies).receive(waits.something_ms)
    assert reply is not None, "a reply that was sent to the received JMSReplyTo: expected it there, saw nothing"


@requirement("3.4.8-a")
def test_3_4_8_a_the_type_is_the_clients_own(session: Session, roundtrip: RoundTrip) -> None:
    _arrives(session, roundtrip, "jms_type", ("car", "caf\u00e9 \u4e2d", None))


@requirement("3.4.10-a")
def test_3_4_10_a_send_sets_the_priority(session: Session, queue: Queue, receive: Receive) -> None:
    producer = session.create_producer(queue)
    with Checks() as check:
        producer.priority = 7
        message = session.create_message()
        message.jms_priority = 2
        producer.send(message)
        check.same("JMSPriority after send with the producer's priority 7", message.jms_priority, 7)
        check.same("the same, as received", receive().jms_priority, 7)
        message.jms_priority = 5
        producer.send(message, DeliveryMode.NON_PERSISTENT, 3, 0)
        check.same("JMSPriority after send with priority 3", message.jms_priority, 3)
        check.same("the same, as received", receive().jms_priority, 3)


@requirement("3.4.10-b")
def test_3_4_10_b_there_are_ten_priorities_and_the_default_is_4(
    session: Session, queue: Queue, receive: Receive
) -> None:
    expect("Message.DEFAULT_PRIORITY", Message.DEFAULT_PRIORITY, 4)
    producer = session.create_producer(queue)
    producer.send(session.create_message())
    expect("JMSPriority of a message sent without one", receive().jms_priority, 4)
    with Checks() as check:
        for priority in range(10):
            producer.send(session.create_message(), DeliveryMode.PERSISTENT, priority, 0)
            check.same(f"JMSPriority of a message sent with {priority}", receive().jms_priority, priority)


@requirement("3.4.10-c")
def test_3_4_10_c_the_priority_can_be_set(session: Session, roundtrip: RoundTrip) -> None:
    _is_kept(session, roundtrip, "Priority", (0, 9))


_HOUR_MS = 3_600_000


def _received(consumer: MessageConsumer, waits: Waits) -> Any:
    message = consumer.receive(waits.something_ms)
    assert message is not None, f"a message was sent and not received in {waits.something_ms} ms"
    return message


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
            # A window, as only the provider knows at which moment between the two readings it took the time.
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
    # A second message behind it: the test waits for that, and need not wait in order to see that nothing comes.
    producer.send(session.create_text_message("lives long"), DeliveryMode.PERSISTENT, 4, _HOUR_MS)
    # The pause is far longer than the time to live of 1 ms.
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


@requirement("3.4.10-d")
def test_3_4_10_d_expedited_messages_come_before_normal_ones(session: Session, queue: Queue, waits: Waits) -> None:
    producer = session.create_producer(queue)
    for priority in (1, 4, 9, 0, 6):
        producer.send(session.create_message(), DeliveryMode.PERSISTENT, priority, 0)
    consumer = session.create_consumer(queue)
    seen = [_received(consumer, waits).jms_priority for _ in range(5)]
    # Only 5 to 9 before 0 to 4: within the two groups §3.4.10 asks for no strict order.
    assert min(seen[:2]) >= 5 > max(seen[2:]), f"priorities as received: expected 9 and 6 before 1, 4 and 0, saw {seen}"


def _texts(consumer: MessageConsumer, count: int, waits: Waits) -> list[Any]:
    messages: list[Any] = [consumer.receive(waits.something_ms) for _ in range(count)]
    assert None not in messages, f"expected {count} messages, saw {count - messages.count(None)}"
    return messages


@requirement("3.6-a")
def test_3_6_a_acknowledge_covers_what_the_session_received(
    make_session: MakeSession, session: Session, queue: Queue, waits: Waits
) -> None:
    producer = session.create_producer(queue)
    for text in ("1", "2", "3"):
        producer.send(session.create_text_message(text))
    client = make_session(mode=Session.CLIENT_ACKNOWLEDGE)
    # The second of three: one broker acknowledges up to the named message,
    # another that message alone; JMS wants all (§3.6).
    _texts(client.create_consumer(queue), 3, waits)[1].acknowledge()
    client.close()
    # What was not acknowledged would be in front of this message: no wait is needed to see that nothing comes.
    producer.send(session.create_text_message("4"))
    seen = _texts(session.create_consumer(queue), 1, waits)[0]
    expect("the next message after three were received and the second acknowledged", seen.text, "4")


@requirement("3.6-a")
@pytest.mark.parametrize(
    ("transacted", "mode"),
    [
        pytest.param(True, Session.SESSION_TRANSACTED, marks=needs("TRANSACTIONS"), id="transacted"),
        pytest.param(False, Session.AUTO_ACKNOWLEDGE, id="auto"),
        pytest.param(False, Session.DUPS_OK_ACKNOWLEDGE, id="dups-ok"),
    ],
)
def test_3_6_a_acknowledge_has_no_effect_in_other_modes(
    make_session: MakeSession, queue: Queue, waits: Waits, transacted: bool, mode: int
) -> None:
    session = make_session(transacted, mode)
    producer = session.create_producer(queue)
    producer.send(session.create_text_message("1"))
    # A transacted session sends with its commit only.
    if transacted:
        session.commit()
    consumer = session.create_consumer(queue)
    _texts(consumer, 1, waits)[0].acknowledge()
    if transacted:
        session.rollback()
        seen = _texts(consumer, 1, waits)[0]
        expect("a message that was acknowledged in a transaction, after the rollback", seen.text, "1")


@requirement("3.6-b")
def test_3_6_b_acknowledge_fails_when_the_session_is_closed(
    make_session: MakeSession, session: Session, queue: Queue, waits: Waits
) -> None:
    session.create_producer(queue).send(session.create_message())
    client = make_session(mode=Session.CLIENT_ACKNOWLEDGE)
    message = _texts(client.create_consumer(queue), 1, waits)[0]
    client.close()
    expect_error("acknowledge of a message whose session is closed", IllegalStateException, message.acknowledge)


_XML = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment --><order xmlns="urn:x" total="&lt;7 &amp; more">
\t<item>caf\u00e9 \u4e2d\u6587 \U0001f600</item><![CDATA[<raw>]]></order>
"""


@requirement("3.2-a")
def test_3_2_a_a_text_message_carries_xml_unchanged(session: Session, roundtrip: Callable[[Any], Any]) -> None:
    # The long one has more than 64 KiB, so it does not travel in one piece.
    for text in (_XML, _XML * 500):
        received = roundtrip(session.create_text_message(text))
        expect(f"an XML text of {len(text)} characters, as received", received.text, text)


@requirement("3.2-b")
def test_3_2_b_an_object_message_carries_an_object_unchanged(session: Session, roundtrip: Callable[[Any], Any]) -> None:
    tree = {
        "name": "caf\u00e9",
        "numbers": [1, -2.5, 2**70, None, True],
        "nested": {"bytes": b"\x00\xff", "pair": (1, "2")},
    }
    for thing in (tree, (1, "2"), {3, 4}, [tree], "text", 2.5):
        received = roundtrip(session.create_object_message(thing))
        expect("the object of an ObjectMessage, as received", received.object, thing)
