"""JMS 1.1 §3.11: StreamMessage."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pyjms import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    Session,
)
from pyjms_tck.checks import Checks, expect, expect_error
from pyjms_tck.requirements import requirement
from pyjms_tck.vectors import BODY_TYPES, JavaType

RoundTrip = Callable[[Any], Any]
_ALL = [(type, value) for type in BODY_TYPES for value in type.values]
_BUFFER = 1000


def _read(message: Any, type: JavaType) -> Any:
    if type.name != "byte[]":
        return getattr(message, f"read{type.word}")()
    buffer = bytearray(_BUFFER)
    count = message.readBytes(buffer)
    return None if count == -1 else bytes(buffer[:count])


def _reads(message: Any) -> list[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """Return name, function and arguments of each read method."""
    words = [type.word for type in BODY_TYPES] + ["Object"]
    return [
        (f"read{word}", getattr(message, f"read{word}"), (bytearray(4),) if word == "Bytes" else ()) for word in words
    ]


@requirement("3.11-m")
def test_3_11_m_values_of_each_type_arrive_in_order(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_stream_message()
    for type, value in _ALL:
        getattr(message, f"write{type.word}")(value)
    received = roundtrip(message)
    message.reset()
    with Checks() as check:
        for state, seen in (("sent", message), ("received", received)):
            for number, (type, value) in enumerate(_ALL, 1):
                check.gives(f"value {number}, {type.name} {value!r}, {state}", value, _read, seen, type)


@requirement("3.11-n")
def test_3_11_n_objects_of_each_type_arrive(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_stream_message()
    for type, value in _ALL:
        message.writeObject(type.kind(value))
    message.write_object(None)
    received = roundtrip(message)
    message.reset()
    with Checks() as check:
        for state, seen in (("sent", message), ("received", received)):
            for type, value in _ALL:
                read = seen.readObject()
                check.same(f"readObject of {type.name} {value!r}, {state}", read, value)
                check.same(f"its class, {state}", read.__class__.__name__, type.kind.__name__)
            check.same(f"readObject of null, {state}", seen.read_object(), None)


@requirement("3.11-o")
def test_3_11_o_objects_of_other_classes_are_refused(session: Session) -> None:
    message = session.create_stream_message()
    wrong: tuple[Any, ...] = (["list"], {"a": 1}, (1,), object(), timedelta(1), 1j)
    with Checks() as check:
        for value in wrong:
            what = f"StreamMessage.writeObject of a {type(value).__name__}"
            check.fails(what, MessageFormatException, message.writeObject, value)
        message.reset()
        check.fails("reading afterwards", MessageEOFException, message.read_int)


@requirement("3.11-p")
def test_3_11_p_bytes_are_read_piece_by_piece(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_stream_message()
    for value in (b"abcdefgh", b"abcd", b"", None):
        message.write_object(value)
    message.write_int(7)
    stream = roundtrip(message)
    buffer = bytearray(4)
    with Checks() as check:
        for what, count, content in (("first 4 of 8 bytes", 4, b"abcd"), ("last 4 of 8", 4, b"efgh")):
            check.gives(f"readBytes of the {what}", count, stream.readBytes, buffer)
            check.same(f"the {what}", bytes(buffer), content)
        check.gives("readBytes at the end of 8 bytes that filled the buffer twice", -1, stream.readBytes, buffer)
        check.gives("readBytes of 4 bytes into a buffer of 4", 4, stream.readBytes, buffer)
        check.fails("readInt before these 4 bytes were seen to end", MessageFormatException, stream.readInt)
        check.gives("readBytes at their end", -1, stream.readBytes, buffer)
        check.gives("readBytes of no bytes", 0, stream.readBytes, buffer)
        check.gives("readBytes of null", -1, stream.readBytes, buffer)
        check.gives("readInt after them", 7, stream.readInt)


@requirement("3.11-q")
def test_3_11_q_a_part_of_bytes_can_be_written(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_stream_message()
    message.writeBytes(b"abcdef", 1, 3)
    message.write_bytes(b"abcdef", offset=6, length=0)
    received = roundtrip(message)
    expect("writeBytes with offset 1 and length 3 of abcdef, as received", received.readObject(), b"bcd")
    expect("writeBytes with length 0, as received", received.read_object(), b"")


@requirement("3.11-r")
def test_3_11_r_reset_goes_back_to_the_beginning(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_stream_message()
    message.write_int(1)
    message.write_string("two")
    received = roundtrip(message)
    message.reset()
    expect_error("writing after reset", MessageNotWriteableException, message.write_int, 3)
    for state, seen in (("sent", message), ("received", received)):
        for time in ("first", "second"):
            expect(f"readInt the {time} time, {state}", seen.read_int(), 1)
            seen.reset()
        expect(f"readInt after reset, {state}", seen.readInt(), 1)
        expect(f"readString after it, {state}", seen.readString(), "two")


@requirement("3.11-s")
def test_3_11_s_reading_on_at_the_end_fails(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_stream_message()
    message.write_int(1)
    received = roundtrip(message)
    received.read_int()
    with Checks() as check:
        for title, read, arguments in _reads(received):
            check.fails(f"{title} at the end", MessageEOFException, read, *arguments)
        for title, read, arguments in _reads(roundtrip(session.create_stream_message())):
            check.fails(f"{title} of an empty StreamMessage", MessageEOFException, read, *arguments)


@requirement("3.11-t")
def test_3_11_t_a_stream_that_is_written_cannot_be_read(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_stream_message()
    message.write_int(1)
    received = roundtrip(message)
    received.clear_body()
    with Checks() as check:
        for state, seen in (("new", session.create_stream_message()), ("cleared", received)):
            for title, read, arguments in _reads(seen):
                check.fails(f"{title} of a {state} StreamMessage", MessageNotReadableException, read, *arguments)
