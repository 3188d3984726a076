"""JMS 1.1 §3.12: messages of another make, and what a message keeps of the values that go in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms import (
    BytesMessage,
    MapMessage,
    Message,
    NullPointerException,
    ObjectMessage,
    Queue,
    Session,
    StreamMessage,
    TextMessage,
)
from pyjms_tck.checks import Checks, expect
from pyjms_tck.environment import Waits
from pyjms_tck.requirements import requirement

_KINDS: tuple[type[Message], ...] = (TextMessage, ObjectMessage, MapMessage, StreamMessage, BytesMessage, Message)


def foreign(message: Message) -> Any:
    """Return a message of another implementation with the content of `message`."""
    # `Message` is the last of the kinds: all others are messages, too.
    kind = next(kind for kind in _KINDS if isinstance(message, kind))
    make: Callable[[Message], Any] = _CLASSES[kind]
    return make(message)


def _method(name: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return getattr(self.wrapped, name)(*arguments, **named)

    return call


def _property(name: str) -> property:
    def read(self: Any) -> Any:
        return getattr(self.wrapped, name)

    def write(self: Any, value: Any) -> None:
        setattr(self.wrapped, name, value)

    return property(read, write)


def _class(kind: type[Message]) -> Any:
    members: dict[str, Any] = {"__init__": _wrap}
    # Made from the interface's abstract members, so that no method of pyjms's own messages is inherited.
    for name in getattr(kind, "__abstractmethods__", ()):
        declared = getattr(kind, name)
        members[name] = _property(name) if isinstance(declared, property) else _method(name)
    return type(f"Foreign{kind.__name__}", (kind,), members)


def _wrap(self: Any, message: Message) -> None:
    self.wrapped = message


_CLASSES = {kind: _class(kind) for kind in _KINDS}


RoundTrip = Callable[[Any], Any]


def _text(session: Session) -> Message:
    return session.create_text_message("text")


def _object(session: Session) -> Message:
    return session.create_object_message({"a": [1]})


def _map(session: Session) -> Message:
    message = session.create_map_message()
    message.set_short("short", 7)
    message.set_string("null", None)
    return message


def _stream(session: Session) -> Message:
    message = session.create_stream_message()
    message.write_char("c")
    message.write_bytes(b"bytes")
    return message


def _bytes(session: Session) -> Message:
    message = session.create_bytes_message()
    message.write_bytes(bytes(range(200)))
    return message


def _content(message: Any) -> Any:
    """Return the content of the body of a received message."""
    if hasattr(message, "text"):
        return message.text
    if hasattr(message, "object"):
        return message.object
    if hasattr(message, "map_names"):
        return {name: message.get_object(name) for name in message.map_names}
    if hasattr(message, "body_length"):
        buffer = bytearray(message.body_length)
        message.read_bytes(buffer)
        return bytes(buffer)
    return [message.read_char(), message.read_object()] if hasattr(message, "read_object") else None


_MAKERS: tuple[tuple[str, Callable[[Session], Message], Any], ...] = (
    ("Message", lambda session: session.create_message(), None),
    ("TextMessage", _text, "text"),
    ("ObjectMessage", _object, {"a": [1]}),
    ("MapMessage", _map, {"short": 7, "null": None}),
    ("StreamMessage", _stream, ["c", b"bytes"]),
    ("BytesMessage", _bytes, bytes(range(200))),
)


@requirement("3.12-a")
@pytest.mark.parametrize(("make", "content"), [maker[1:] for maker in _MAKERS], ids=[maker[0] for maker in _MAKERS])
def test_3_12_a_a_message_of_another_make_can_be_sent(
    session: Session, queue: Queue, waits: Waits, make: Callable[[Session], Message], content: Any
) -> None:
    message = make(session)
    message.set_int_property("number", 7)
    message.jms_correlation_id = "order-7"
    other = foreign(message)
    session.create_producer(queue).send(other)
    # Send assigns the header fields of a message of another make by its setters (§3.4.11).
    assert str(other.jms_message_id).startswith("ID:"), f"its JMSMessageID after send: {other.jms_message_id!r}"
    expect("its JMSDestination after send", other.jms_destination, queue)
    received = session.create_consumer(queue).receive(waits.something_ms)
    assert received is not None, "a message of another make was sent and not received"
    expect("its body, as received", _content(received), content)
    expect("its property, as received", received.get_int_property("number"), 7)
    expect("its JMSCorrelationID, as received", received.jms_correlation_id, "order-7")
    expect("its JMSMessageID, as received", received.jms_message_id, other.jms_message_id)


def _grown(value: Any) -> None:
    """Change a mutable value."""
    if isinstance(value, bytearray):
        value[0] = 0
    else:
        value.append("changed")


@requirement("3.12-b")
def test_3_12_b_setters_copy_what_they_store(session: Session, roundtrip: RoundTrip) -> None:
    object, map = session.create_object_message(), session.create_map_message()
    stream, bytes_ = session.create_stream_message(), session.create_bytes_message()
    lists, buffers = [[1, 2], [1, 2]], [bytearray(b"abc") for _ in range(6)]
    object.object = lists[0]
    made = session.create_object_message(lists[1])
    map.set_bytes("set", buffers[0])
    map.set_object("object", buffers[1])
    stream.write_bytes(buffers[2])
    stream.write_object(buffers[3])
    bytes_.write_bytes(buffers[4])
    bytes_.write_object(buffers[5])
    # Changed after all setters, and before the messages are sent: a copy made by send would be too late.
    for value in (*lists, *buffers):
        _grown(value)
    map_seen, stream_seen = roundtrip(map), roundtrip(stream)
    with Checks() as check:
        check.same("a list that changed after setObject", object.object, [1, 2])
        check.same("the same, as received", roundtrip(object).object, [1, 2])
        check.same("a list that changed after createObjectMessage, as received", roundtrip(made).object, [1, 2])
        check.same("bytes that changed after MapMessage.setBytes", map.get_bytes("set"), b"abc")
        check.same("the same, as received", map_seen.get_bytes("set"), b"abc")
        check.same("bytes that changed after MapMessage.setObject, as received", map_seen.get_object("object"), b"abc")
        check.same("bytes that changed after StreamMessage.writeBytes", stream_seen.read_object(), b"abc")
        check.same("bytes that changed after StreamMessage.writeObject", stream_seen.read_object(), b"abc")
        check.same("bytes that changed after BytesMessage writes", _content(roundtrip(bytes_)), b"abcabc")


@requirement("3.12-c")
def test_3_12_c_null_is_stored_and_read_back(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.set_object_property("object", None)
    message.set_string_property("string", None)
    map, stream = session.create_map_message(), session.create_stream_message()
    for name, set_ in (("object", map.set_object), ("string", map.set_string), ("bytes", map.set_bytes)):
        set_(name, None)
    stream.write_object(None)
    stream.write_string(None)
    object = session.create_object_message([1])
    object.object = None
    message_seen, map_seen, stream_seen = roundtrip(message), roundtrip(map), roundtrip(stream)
    with Checks() as check:
        for name in ("object", "string"):
            check.same(f"a null {name} property, as received", message_seen.get_object_property(name), None)
        for name in ("object", "string", "bytes"):
            check.same(f"a null {name} entry, as received", map_seen.get_object(name), None)
        check.same("a null object in a StreamMessage, as received", stream_seen.read_object(), None)
        check.same("a null text in a StreamMessage, as received", stream_seen.read_string(), None)
        check.same("a null ObjectMessage, as received", roundtrip(object).object, None)


@requirement("3.12-d")
def test_3_12_d_bytes_hold_no_null(session: Session) -> None:
    message: Any = session.create_bytes_message()
    with Checks() as check:
        for name in ("writeObject", "writeBytes", "writeUTF"):
            check.fails(f"BytesMessage.{name} of null", NullPointerException, getattr(message, name), None)
        # Nothing may have been written before the refusal.
        message.reset()
        check.same("what was written", message.body_length, 0)


@requirement("3.12-f")
def test_3_12_f_getters_return_copies(session: Session, roundtrip: RoundTrip) -> None:
    object, map = session.create_object_message([1, 2]), session.create_map_message()
    map.set_bytes("bytes", b"abc")
    stream = session.create_stream_message()
    stream.write_bytes(b"abc")
    stream_seen = roundtrip(stream)
    with Checks() as check:
        for state, seen in (("received", roundtrip(object)), ("sent", object)):
            _grown(seen.object)
            check.same(f"an object after the one returned was changed, {state}", seen.object, [1, 2])
        for state, seen in (("received", roundtrip(map)), ("sent", map)):
            for read in (seen.get_bytes, seen.get_object):
                value = read("bytes")
                if isinstance(value, bytearray):  # if it is bytes, it is immutable
                    _grown(value)
                check.same(f"bytes after those returned were changed, {state}", read("bytes"), b"abc")
        buffer = bytearray(3)
        stream_seen.read_bytes(buffer)
        _grown(buffer)
        stream_seen.reset()
        check.same("bytes of a StreamMessage after the buffer was changed", stream_seen.read_object(), b"abc")
