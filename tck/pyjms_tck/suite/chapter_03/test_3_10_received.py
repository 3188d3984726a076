"""JMS 1.1 §3.10, §3.11.1, §3.11.2 and §3.11.4: what may be done with a received message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyjms import (
    BytesMessage,
    MapMessage,
    MessageNotReadableException,
    MessageNotWriteableException,
    ObjectMessage,
    Queue,
    Session,
    StreamMessage,
    TextMessage,
)
from pyjms_tck.checks import Checks, expect, expect_error
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeSession
from pyjms_tck.requirements import requirement
from pyjms_tck.vectors import BODY_TYPES, JavaType

RoundTrip = Callable[[Any], Any]
_TYPES = (TextMessage, ObjectMessage, MapMessage, StreamMessage, BytesMessage)


def _filled(session: Session) -> list[Any]:
    """Return a message of each type with a body, a property and a type."""
    text, object, map = session.create_text_message("body"), session.create_object_message([1, 2]), _map(session)
    stream, bytes = session.create_stream_message(), session.create_bytes_message()
    stream.write_int(7)
    bytes.write_int(7)
    messages: list[Any] = [text, object, map, stream, bytes]
    for message in messages:
        message.set_int_property("number", 1)
        message.jms_type = "car"
    return messages


def _map(session: Session) -> MapMessage:
    message = session.create_map_message()
    message.set_int("entry", 7)
    return message


@requirement("3.10-a")
def test_3_10_a_header_fields_of_a_received_message_can_be_set(
    session: Session, roundtrip: RoundTrip, make_queue: Callable[[], Queue]
) -> None:
    queue = make_queue()  # another than the one that the message comes from
    values: Mapping[str, Any] = {
        "jms_message_id": "ID:of-the-client",
        "jms_timestamp": 1,
        "jms_correlation_id": "order-7",
        "jms_reply_to": queue,
        "jms_destination": queue,
        "jms_delivery_mode": 1,
        "jms_redelivered": True,
        "jms_type": "car",
        "jms_expiration": 2,
        "jms_priority": 9,
    }
    received = roundtrip(session.create_message())
    with Checks() as check:
        for field, value in values.items():
            check.gives(f"setting {field} of a received message", None, setattr, received, field, value)
        # After all setters: no field may share its place with another one.
        for field, value in values.items():
            check.same(f"{field} afterwards", getattr(received, field), value)


@requirement("3.10-b")
def test_3_10_b_clearing_one_part_makes_that_part_writable(session: Session, roundtrip: RoundTrip) -> None:
    for message in _filled(session):
        received = roundtrip(message)
        kind = type(message).__name__
        received.clear_properties()
        received.set_int_property("new", 1)
        expect_error(f"writing a {kind} after clearProperties", MessageNotWriteableException, _write, received)
        received = roundtrip(message)
        received.clear_body()
        _write(received)
        what = f"setting a property of a received {kind} after clearBody"
        expect_error(what, MessageNotWriteableException, received.set_int_property, "new", 1)


def _write(message: Any) -> None:
    if isinstance(message, TextMessage):
        message.text = "new"
    elif isinstance(message, ObjectMessage):
        message.object = "new"
    elif isinstance(message, MapMessage):
        message.set_int("entry", 8)
    else:
        message.write_int(8)


@requirement("3.10-c")
def test_3_10_c_the_original_is_delivered_again(make_session: MakeSession, queue: Queue, waits: Waits) -> None:
    session = make_session(mode=Session.CLIENT_ACKNOWLEDGE)
    message = session.create_text_message("the original")
    message.set_int_property("number", 1)
    session.create_producer(queue).send(message)
    consumer = session.create_consumer(queue)
    first: Any = consumer.receive(waits.something_ms)
    # Everything about the delivered object is changed: a provider that keeps it as its own copy delivers the changes.
    first.clear_body()
    first.text = "the copy"
    first.clear_properties()
    first.set_int_property("number", 2)
    first.jms_type = "changed"
    session.recover()
    second: Any = consumer.receive(waits.something_ms)
    assert second is not None, "a message that was not acknowledged: expected it again after recover, saw nothing"
    expect("the text when it is delivered again", second.text, "the original")
    expect("the property when it is delivered again", second.get_int_property("number"), 1)
    expect("JMSType when it is delivered again", second.jms_type, None)


def _is_empty(check: Checks, what: str, message: Any) -> None:
    """Check that a body is as that of a new message of its type."""
    if isinstance(message, TextMessage):
        check.same(f"the text of {what}", message.text, None)
    elif isinstance(message, ObjectMessage):
        check.same(f"the object of {what}", message.object, None)
    elif isinstance(message, MapMessage):
        check.same(f"the entries of {what}", list(message.map_names), [])
    else:
        check.fails(f"reading {what}", MessageNotReadableException, message.read_int)


def _length(message: Any) -> int:
    message.reset()
    return int(message.body_length)


@requirement("3.11.1-a")
def test_3_11_1_a_clear_body_empties_the_body_alone(session: Session, roundtrip: RoundTrip) -> None:
    with Checks() as check:
        for message in _filled(session):
            kind = type(message).__name__
            # The received one is made first: the message must be sent before its body is cleared.
            for state, seen in (("received", roundtrip(message)), ("sent", message)):
                id = seen.jms_message_id
                seen.clearBody()
                _is_empty(check, f"a {state} {kind} after clearBody", seen)
                check.same(f"its property, {state} {kind}", seen.get_int_property("number"), 1)
                check.same(f"its JMSType, {state} {kind}", seen.jms_type, "car")
                check.same(f"its JMSMessageID, {state} {kind}", seen.jms_message_id, id)
                if isinstance(seen, BytesMessage):
                    check.same(f"its length, {state} {kind}", _length(seen), 0)


@requirement("3.11.2-a")
def test_3_11_2_a_a_received_text_is_read_only(session: Session, roundtrip: RoundTrip) -> None:
    received = roundtrip(session.create_text_message("body"))
    expect_error("setText of a received message", MessageNotWriteableException, received.setText, "new")
    expect_error("setting text of a received message", MessageNotWriteableException, setattr, received, "text", "new")
    expect("the text afterwards", received.text, "body")


@requirement("3.11.2-b")
def test_3_11_2_b_a_received_object_is_read_only(session: Session, roundtrip: RoundTrip) -> None:
    received = roundtrip(session.create_object_message([1]))
    expect_error("setObject of a received message", MessageNotWriteableException, received.setObject, "new")
    expect_error("setting object of it", MessageNotWriteableException, setattr, received, "object", "new")
    expect("the object afterwards", received.object, [1])


@requirement("3.11.2-c")
def test_3_11_2_c_a_received_map_is_read_only(session: Session, roundtrip: RoundTrip) -> None:
    received = roundtrip(_map(session))
    with Checks() as check:
        # An entry that is there and one that is not: both must be refused.
        for name in ("entry", "new"):
            for type in BODY_TYPES:
                setter = getattr(received, f"set{type.word}")
                what = f"set{type.word}({name!r}) of a received MapMessage"
                check.fails(what, MessageNotWriteableException, setter, name, type.values[0])
            what = f"({name!r}) of a received MapMessage"
            check.fails(f"setObject{what}", MessageNotWriteableException, received.setObject, name, 1)
            check.fails(
                f"setBytes with offset{what}", MessageNotWriteableException, received.setBytes, name, b"x", 0, 1
            )
        check.same("the names afterwards", list(received.map_names), ["entry"])
        check.same("the entry afterwards", received.get_int("entry"), 7)


def _writes(message: Any, types: tuple[JavaType, ...]) -> list[tuple[str, Callable[..., None], tuple[Any, ...]]]:
    """Return name, function and arguments of each write of a StreamMessage or a BytesMessage."""
    text = "UTF" if isinstance(message, BytesMessage) else "String"
    words: list[tuple[str, tuple[Any, ...]]] = [
        (text if type.word == "String" else type.word, (type.values[0],)) for type in types
    ]
    words += [("Object", (1,)), ("Bytes", (b"abc", 1, 2))]
    return [(f"write{word}{values}", getattr(message, f"write{word}"), values) for word, values in words]


def _refuses_writes(check: Checks, state: str, message: Any) -> None:
    kind = type(message).__name__
    for title, write, values in _writes(message, BODY_TYPES):
        check.fails(f"{title} to a {state} {kind}", MessageNotWriteableException, write, *values)


@requirement("3.11.2-d")
def test_3_11_2_d_a_received_stream_is_read_only(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_stream_message()
    message.write_int(7)
    with Checks() as check:
        received = roundtrip(message)
        _refuses_writes(check, "received", received)
        check.gives("reading it afterwards", 7, received.read_int)
        # `reset` makes the sender's own message read-only in the same way (§3.11).
        message.reset()
        _refuses_writes(check, "reset", message)


@requirement("3.11.2-e")
def test_3_11_2_e_received_bytes_are_read_only(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_bytes_message()
    message.write_int(7)
    with Checks() as check:
        received = roundtrip(message)
        _refuses_writes(check, "received", received)
        check.same("its length afterwards", received.body_length, 4)
        # `reset` makes the sender's own message read-only in the same way (§3.11).
        message.reset()
        _refuses_writes(check, "reset", message)


@requirement("3.11.2-f")
def test_3_11_2_f_a_cleared_body_can_be_written(session: Session, roundtrip: RoundTrip) -> None:
    with Checks() as check:
        for message in _filled(session):
            kind = type(message).__name__
            received = roundtrip(message)
            received.clear_body()
            _is_empty(check, f"a received {kind} after clearBody", received)
            check.gives(f"writing a received {kind} after clearBody", None, _write, received)
            # Sent on: a body that is kept in its received form would arrive as it was.
            again = roundtrip(received)
            if isinstance(again, TextMessage | ObjectMessage):
                check.same(
                    f"the {kind}, sent on", again.text if isinstance(again, TextMessage) else again.object, "new"
                )
            elif isinstance(again, MapMessage):
                check.gives("the MapMessage, sent on", 8, again.get_int, "entry")
            else:
                check.gives(f"the {kind}, sent on", 8, again.read_int)


@requirement("3.11.4-a")
@pytest.mark.parametrize("number", range(5), ids=[type.__name__ for type in _TYPES])
def test_3_11_4_a_a_message_arrives_as_the_type_that_it_was_sent_as(
    session: Session, roundtrip: RoundTrip, number: int
) -> None:
    received = roundtrip(_filled(session)[number])
    seen = [type.__name__ for type in _TYPES if isinstance(received, type)]
    expect(f"the type of a {_TYPES[number].__name__}, as received", seen, [_TYPES[number].__name__])


@requirement("3.11.4-a")
def test_3_11_4_a_a_message_without_body_arrives_as_such(session: Session, roundtrip: RoundTrip) -> None:
    received = roundtrip(session.create_message())
    seen = [type.__name__ for type in _TYPES if isinstance(received, type)]
    expect("the body type of a message without body, as received", seen, [])
