"""JMS 1.1 §3.11: BytesMessage. Its bytes are those of Java's DataOutputStream: numbers high byte first."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pyjms import (
    BytesMessage,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    Session,
    types,
)
from pyjms_tck.checks import Checks, expect, expect_error
from pyjms_tck.requirements import requirement
from pyjms_tck.vectors import TYPES

RoundTrip = Callable[[Any], Any]
_READS = ("Boolean", "Byte", "UnsignedByte", "Short", "UnsignedShort", "Char", "Int", "Long", "Float", "Double", "UTF")


def _content(message: BytesMessage) -> bytes:
    """Return all bytes of a readable message, and go back to its beginning."""
    message.reset()
    buffer = bytearray(message.body_length)
    message.read_bytes(buffer)
    message.reset()
    return bytes(buffer)


def _numbers_arrive(session: Session, roundtrip: RoundTrip, formats: dict[str, str]) -> None:
    """Check, for each type, the bytes that a value is written as, and that it is read back."""
    for name, format in formats.items():
        type = TYPES[name]
        message = session.create_bytes_message()
        for value in type.values:
            getattr(message, f"write{type.word}")(value)
        received = roundtrip(message)
        wanted = b"".join(struct.pack(format, value) for value in type.values)
        with Checks() as check:
            check.same(f"the bytes of {name} values {type.values}, as received", _content(received), wanted)
            for value in type.values:
                check.gives(f"{name} {value!r}, as received", value, getattr(received, f"read{type.word}"))
            message.reset()
            for value in type.values:
                check.gives(f"{name} {value!r}, as sent", value, getattr(message, f"read{type.word}"))


@requirement("3.11-v")
def test_3_11_v_booleans_and_bytes_take_one_byte(session: Session, roundtrip: RoundTrip) -> None:
    _numbers_arrive(session, roundtrip, {"boolean": ">?", "byte": ">b"})


@requirement("3.11-w")
def test_3_11_w_whole_numbers_are_written_high_byte_first(session: Session, roundtrip: RoundTrip) -> None:
    _numbers_arrive(session, roundtrip, {"short": ">h", "int": ">i", "long": ">q"})


@requirement("3.11-x")
def test_3_11_x_unsigned_numbers_can_be_read(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_bytes_message()
    for byte in (0, 1, 127, -128, -1):
        message.write_byte(byte)
    for short in (0, 1, 32767, -32768, -1):
        message.write_short(short)
    received = roundtrip(message)
    bytes_ = [received.readUnsignedByte() for _ in range(5)]
    expect("bytes 0, 1, 127, -128, -1 read as unsigned", bytes_, [0, 1, 127, 128, 255])
    shorts = [received.read_unsigned_short() for _ in range(5)]
    expect("shorts 0, 1, 32767, -32768, -1 read as unsigned", shorts, [0, 1, 32767, 32768, 65535])


@requirement("3.11-y")
def test_3_11_y_chars_take_two_bytes(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_bytes_message()
    for char in ("a", "\u00e9", "\u4e2d", "\uffff"):
        message.writeChar(char)
    received = roundtrip(message)
    expect("the bytes of four chars, as received", _content(received), b"\x00a\x00\xe9\x4e\x2d\xff\xff")
    expect("the chars, as received", [received.readChar() for _ in range(4)], ["a", "\u00e9", "\u4e2d", "\uffff"])


@requirement("3.11-z")
def test_3_11_z_floating_numbers_have_ieee_form(session: Session, roundtrip: RoundTrip) -> None:
    _numbers_arrive(session, roundtrip, {"float": ">f", "double": ">d"})


@requirement("3.11-aa")
def test_3_11_aa_texts_are_written_in_modified_utf_8(session: Session, roundtrip: RoundTrip) -> None:
    forms = {
        "": b"\x00\x00",
        "caf\u00e9": b"\x00\x05caf\xc3\xa9",
        "\u4e2d": b"\x00\x03\xe4\xb8\xad",
        "\x00": b"\x00\x02\xc0\x80",
        "\U0001f600": b"\x00\x06\xed\xa0\xbd\xed\xb8\x80",
    }
    message = session.create_bytes_message()
    for text in forms:
        message.writeUTF(text)
    received = roundtrip(message)
    expect(f"the bytes of {list(forms)}, as received", _content(received), b"".join(forms.values()))
    expect("the texts, as received", [received.readUTF() for _ in forms], list(forms))
    longest = session.create_bytes_message()
    longest.write_utf("x" * 65535)
    expect("the length of a text of 65535 bytes, as received", len(roundtrip(longest).read_utf()), 65535)


@requirement("3.11-ab")
def test_3_11_ab_bytes_are_read_into_a_buffer(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_bytes_message()
    message.write_bytes(b"abcdefg")
    received = roundtrip(message)
    buffer = bytearray(4)
    with Checks() as check:
        check.gives("readBytes into a buffer of 4", 4, received.readBytes, buffer)
        check.same("the buffer", bytes(buffer), b"abcd")
        check.gives("readBytes of a length of 1", 1, received.readBytes, buffer, 1)
        check.same("the buffer, whose first byte alone is new", bytes(buffer), b"ebcd")
        check.gives("readBytes of the 2 bytes that are left", 2, received.readBytes, buffer)
        check.same("the buffer", bytes(buffer), b"fgcd")
        check.gives("readBytes at the end", -1, received.readBytes, buffer)
        check.gives("readBytes with a length at the end", -1, received.read_bytes, buffer, 2)


@requirement("3.11-ac")
def test_3_11_ac_all_or_part_of_bytes_can_be_written(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_bytes_message()
    message.writeBytes(bytes(range(256)))
    message.writeBytes(b"abcdef", 1, 3)
    message.write_bytes(b"abcdef", offset=6, length=0)
    message.write_bytes(b"abcdef", 0, 2)
    message.write_bytes(b"abcdef", 4)
    written = bytes(range(256)) + b"bcd" + b"ab" + b"ef"
    expect("256 bytes and parts of abcdef, as received", _content(roundtrip(message)), written)


@requirement("3.11-ad")
def test_3_11_ad_objects_are_written_as_their_types(session: Session, roundtrip: RoundTrip) -> None:
    forms: tuple[tuple[Any, bytes], ...] = (
        (True, b"\x01"),
        (types.Byte(-2), b"\xfe"),
        (types.Short(258), b"\x01\x02"),
        (types.Char("\u4e2d"), b"\x4e\x2d"),
        (types.Int(1), b"\x00\x00\x00\x01"),
        (types.Long(1), b"\x00" * 7 + b"\x01"),
        (types.Float(1.5), struct.pack(">f", 1.5)),
        (types.Double(1.5), struct.pack(">d", 1.5)),
        ("caf\u00e9", b"\x00\x05caf\xc3\xa9"),
        (b"bytes", b"bytes"),
    )
    with Checks() as check:
        for value, form in forms:
            message = session.create_bytes_message()
            message.writeObject(value)
            check.same(f"writeObject of {value!r} ({type(value).__name__})", _content(roundtrip(message)), form)


@requirement("3.11-ae")
def test_3_11_ae_objects_of_other_classes_are_refused(session: Session) -> None:
    message = session.create_bytes_message()
    wrong: tuple[Any, ...] = (["list"], {"a": 1}, (1,), object(), timedelta(1), 1j)
    with Checks() as check:
        for value in wrong:
            what = f"BytesMessage.writeObject of a {type(value).__name__}"
            check.fails(what, MessageFormatException, message.writeObject, value)
        check.same("what was written", _content(message), b"")


@requirement("3.11-af")
def test_3_11_af_a_readable_body_has_a_length(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_bytes_message()
    expect_error("getBodyLength of a new message", MessageNotReadableException, message.getBodyLength)
    message.write_bytes(b"x" * 1000)
    received = roundtrip(message)
    expect("getBodyLength of 1000 bytes, as received", received.getBodyLength(), 1000)
    received.read_int()
    expect("body_length when some were read", received.body_length, 1000)
    expect("body_length of no bytes, as received", roundtrip(session.create_bytes_message()).body_length, 0)
    message.clear_body()
    expect_error("getBodyLength after clearBody", MessageNotReadableException, message.getBodyLength)


@requirement("3.11-ag")
def test_3_11_ag_reset_goes_back_to_the_beginning(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_bytes_message()
    message.write_int(1)
    message.write_int(2)
    received = roundtrip(message)
    message.reset()
    expect_error("writing after reset", MessageNotWriteableException, message.write_int, 3)
    for state, seen in (("sent", message), ("received", received)):
        expect(f"the first number, {state}", seen.readInt(), 1)
        seen.reset()
        expect(f"both numbers after reset, {state}", [seen.read_int(), seen.read_int()], [1, 2])


@requirement("3.11-ah")
def test_3_11_ah_reading_beyond_the_end_fails(session: Session, roundtrip: RoundTrip) -> None:
    empty = roundtrip(session.create_bytes_message())
    message = session.create_bytes_message()
    message.write_byte(1)
    short = roundtrip(message)
    with Checks() as check:
        for word in _READS:
            check.fails(f"read{word} of an empty message", MessageEOFException, getattr(empty, f"read{word}"))
        for word in ("Short", "UnsignedShort", "Char", "Int", "Long", "Float", "Double", "UTF"):
            check.fails(f"read{word} of one byte", MessageEOFException, getattr(short, f"read{word}"))
            short.reset()


@requirement("3.11-ai")
def test_3_11_ai_bytes_that_are_written_cannot_be_read(session: Session, roundtrip: RoundTrip) -> None:
    received = roundtrip(session.create_bytes_message())
    received.clear_body()
    with Checks() as check:
        for state, seen in (("new", session.create_bytes_message()), ("cleared", received)):
            for word in _READS:
                call = getattr(seen, f"read{word}")
                check.fails(f"read{word} of a {state} BytesMessage", MessageNotReadableException, call)
            for arguments in ((bytearray(4),), (bytearray(4), 2)):
                what = f"readBytes{arguments} of a {state} BytesMessage"
                check.fails(what, MessageNotReadableException, seen.readBytes, *arguments)
            check.fails(f"getBodyLength of a {state} one", MessageNotReadableException, seen.getBodyLength)
