"""JMS 1.1 §3.11: the bodies of the five types, and which value of a body is read as which type.

The bytes of a BytesMessage are those of Java's DataOutputStream: numbers high byte first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pyjms import (
    BytesMessage,
    IllegalArgumentException,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    NullPointerException,
    NumberFormatException,
    Session,
    types,
)
from pyjms_tck.checks import Checks, expect, expect_error
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chapter_03.carriers import MAP, STREAM, check_null, check_parsing, check_row, table_rows
from pyjms_tck.vectors import BODY_TYPES, TYPES, JavaType

RoundTrip = Callable[[Any], Any]
_OBJECTS: tuple[Any, ...] = (
    None, True, 0, -1, 2**80, 1.5, "", "caf\u00e9", b"\x00\xff", [], [1, [2, {"three": (4, 5)}]], {"a": None}, (1, "2"),
)  # fmt: skip


@requirement("3.11-b")
def test_3_11_b_a_text_is_stored_and_arrives(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_text_message()
    expect("getText of a new TextMessage", message.getText(), None)
    with Checks() as check:
        for text in (*TYPES["String"].values, "x" * 100_000, "\u0000\u0001\ufffd", None):
            message.setText(text)
            check.same("getText after setText", message.getText(), text)
            check.same("getText, as received", roundtrip(message).getText(), text)


@requirement("3.11-c")
def test_3_11_c_an_object_is_stored_and_arrives(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_object_message()
    expect("getObject of a new ObjectMessage", message.getObject(), None)
    with Checks() as check:
        for value in _OBJECTS:
            message.setObject(value)
            check.same("getObject after setObject", message.getObject(), value)
            received = roundtrip(message)
            check.same("getObject, as received", received.getObject(), value)
            # The class as well: True is equal to 1, and a tuple becomes a list on many wires.
            check.same("its class", type(received.object).__name__, type(value).__name__)
        changing = ["as it was"]
        message.setObject(changing)
        # The object is stored as it was at the call (§3.11).
        changing.append("changed afterwards")
        check.same("getObject of what was changed after setObject", message.getObject(), ["as it was"])


@requirement("3.11-d")
def test_3_11_d_an_object_that_cannot_be_serialized_is_refused(session: Session) -> None:
    message = session.create_object_message()
    generator = (number for number in range(3))
    expect_error("setObject of a generator", MessageFormatException, message.setObject, generator)
    expect_error(
        "create_object_message of a function", MessageFormatException, session.create_object_message, lambda: 1
    )


_ENTRIES = [(f"{type.word}_{number}", type, value) for type in BODY_TYPES for number, value in enumerate(type.values)]


def _entries_arrive(
    session: Session, roundtrip: RoundTrip, write: Callable[..., None], read: Callable[..., Any]
) -> None:
    message = session.create_map_message()
    for name, type, value in _ENTRIES:
        write(message, name, type, value)
    with Checks() as check:
        for state, seen in (("sent", message), ("received", roundtrip(message))):
            for name, type, value in _ENTRIES:
                check.gives(f"{type.name} entry {value!r}, {state}", value, read, seen, name, type)


@requirement("3.11-f")
def test_3_11_f_entries_of_each_type_arrive(session: Session, roundtrip: RoundTrip) -> None:
    def write(message: Any, name: str, type: JavaType, value: Any) -> None:
        getattr(message, f"set{type.word}")(name, value)

    def read(message: Any, name: str, type: JavaType) -> Any:
        return getattr(message, f"get{type.word}")(name)

    _entries_arrive(session, roundtrip, write, read)


@requirement("3.11-g")
def test_3_11_g_objects_of_each_type_arrive(session: Session, roundtrip: RoundTrip) -> None:
    def write(message: Any, name: str, type: JavaType, value: Any) -> None:
        message.setObject(name, type.kind(value))

    def read(message: Any, name: str, type: JavaType) -> Any:
        value = message.getObject(name)
        seen = value.__class__.__name__
        assert seen == type.kind.__name__, f"the class of {name}: expected {type.kind.__name__}, saw {seen}"
        return value

    _entries_arrive(session, roundtrip, write, read)
    message = session.create_map_message()
    message.set_object("nothing", None)
    expect("getObject of an entry that is null, as received", roundtrip(message).get_object("nothing"), None)


@requirement("3.11-h")
def test_3_11_h_objects_of_other_classes_are_refused(session: Session) -> None:
    message = session.create_map_message()
    wrong: tuple[Any, ...] = (["list"], {"a": 1}, (1,), object(), timedelta(1), 1j)
    with Checks() as check:
        for value in wrong:
            what = f"MapMessage.setObject of a {type(value).__name__}"
            check.fails(what, MessageFormatException, message.setObject, "entry", value)
        check.same("itemExists afterwards", message.itemExists("entry"), False)


@requirement("3.11-i")
def test_3_11_i_a_part_of_bytes_can_be_stored(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_map_message()
    message.setBytes("middle", b"abcdef", 1, 3)
    message.set_bytes("none", b"abcdef", offset=6, length=0)
    received = roundtrip(message)
    expect("setBytes with offset 1 and length 3 of abcdef, as received", received.getBytes("middle"), b"bcd")
    expect("setBytes with length 0, as received", received.get_bytes("none"), b"")


@requirement("3.11-j")
def test_3_11_j_all_names_are_enumerated(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_map_message()
    expect("the names of a new MapMessage", list(message.map_names), [])
    # Names that would be no names of properties are names of entries: only null and the empty text are refused.
    names = ["one", "caf\u00e9", "with a blank", "JMSX", "null"]
    for name in names:
        message.set_string(name, None if name == "null" else name)
    with Checks() as check:
        for state, seen in (("sent", message), ("received", roundtrip(message))):
            check.same(f"the map's names, {state}", sorted(seen.map_names), sorted(names))
            enumeration, listed = seen.getMapNames(), []
            while enumeration.hasMoreElements():
                listed.append(enumeration.nextElement())
            check.same(f"the enumeration of the map's names, {state}", sorted(listed), sorted(names))


@requirement("3.11-k")
def test_3_11_k_item_exists_tells_whether_an_entry_is_there(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_map_message()
    message.set_int("number", 1)
    message.set_string("null", None)
    message.set_int_property("property", 1)
    with Checks() as check:
        for state, seen in (("sent", message), ("received", roundtrip(message))):
            check.same(f"itemExists of an entry, {state}", seen.itemExists("number"), True)
            check.same(f"itemExists of an entry that is null, {state}", seen.item_exists("null"), True)
            check.same(f"itemExists of no entry, {state}", seen.itemExists("nowhere"), False)
            check.same(f"itemExists of a property, {state}", seen.item_exists("property"), False)


@requirement("3.11-l")
def test_3_11_l_an_entry_needs_a_name(session: Session) -> None:
    message: Any = session.create_map_message()
    with Checks() as check:
        for name in ("", None):
            for type in BODY_TYPES:
                setter = getattr(message, f"set{type.word}")
                what = f"set{type.word} with the name {name!r}"
                check.fails(what, IllegalArgumentException, setter, name, type.values[0])
            check.fails(f"setObject with the name {name!r}", IllegalArgumentException, message.setObject, name, 1)
            what = f"setBytes with offset and the name {name!r}"
            check.fails(what, IllegalArgumentException, message.setBytes, name, b"abc", 1, 1)


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
        # A buffer that was filled does not tell that the bytes have ended: one more call returns -1.
        check.gives("readBytes at the end of 8 bytes that filled the buffer twice", -1, stream.readBytes, buffer)
        check.gives("readBytes of 4 bytes into a buffer of 4", 4, stream.readBytes, buffer)
        # Until that call the stream is within the bytes, and no other read is allowed.
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
        # The bytes as well as the values: a BytesMessage is read by clients in other languages.
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
    # The length has two bytes, so 65,535 is the most.
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
        # The bytes behind the length that was asked for stay as they were.
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
    # The length is that of the body, not of what is left to read.
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
            # A read that failed half way may have moved on; each one begins at the one byte that is there.
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


_NULLS = ("boolean", "byte", "short", "int", "long", "float", "double", "String", "byte[]")
_TRUE = ("true", "TRUE", "True", "tRUe")
# The last one begins with a Cyrillic letter that looks like a t.
_FALSE = ("false", "", " true", "true ", "1", "yes", "t", "truth", "\u0442rue")


@requirement("3.11.3-a")
def test_3_11_3_a_streams_and_maps_hold_the_same_types(session: Session, roundtrip: RoundTrip) -> None:
    map, stream = session.create_map_message(), session.create_stream_message()
    for number, type in enumerate(BODY_TYPES):
        value: Any = type.values[-1]
        MAP.put(map, number, type.name, value)
        map.set_object(type.word, type.kind(value))
        STREAM.put(stream, 0, type.name, value)
        stream.write_object(type.kind(value))
    received_map, received_stream = roundtrip(map), roundtrip(stream)
    with Checks() as check:
        for number, type in enumerate(BODY_TYPES):
            for how, name in (("typed", f"p{number}"), ("object", type.word)):
                from_map = received_map.get_object(name)
                from_stream = received_stream.read_object()
                check.same(f"{type.name} in a StreamMessage ({how}) and in a MapMessage", from_stream, from_map)
                seen = f"{from_stream.__class__.__name__} and {from_map.__class__.__name__}"
                check.same("their classes", seen, f"{type.kind.__name__} and {type.kind.__name__}")


@pytest.mark.parametrize(
    ("type", "converts"),
    table_rows(
        "3.11.3",
        "bcdefghijklmnopqrstu",
        ("boolean", "byte", "short", "char", "int", "long", "float", "double", "String", "byte[]"),
    ),
)
def test_3_11_3_a_value_is_read_as_what_the_table_allows_and_as_nothing_else(
    session: Session, roundtrip: RoundTrip, type: str, converts: bool
) -> None:
    check_row(session, roundtrip, type, [MAP, STREAM], converts=converts)


@requirement("3.11.3-w")
def test_3_11_3_w_a_text_is_parsed_as_java_does(session: Session, roundtrip: RoundTrip) -> None:
    check_parsing(session, roundtrip, [MAP, STREAM])


@requirement("3.11.3-x")
def test_3_11_3_x_the_word_true_alone_is_true(session: Session, roundtrip: RoundTrip) -> None:
    map, stream = session.create_map_message(), session.create_stream_message()
    for number, text in enumerate((*_TRUE, *_FALSE)):
        map.set_string(str(number), text)
        stream.write_string(text)
    received_map, received_stream = roundtrip(map), roundtrip(stream)
    with Checks() as check:
        for number, text in enumerate((*_TRUE, *_FALSE)):
            check.gives(f"the text {text!r} of a MapMessage", text in _TRUE, received_map.getBoolean, str(number))
            check.gives(f"the text {text!r} of a StreamMessage", text in _TRUE, received_stream.readBoolean)


@requirement("3.11.3-y")
def test_3_11_3_y_null_reads_as_value_of_null(session: Session, roundtrip: RoundTrip) -> None:
    with Checks() as check:
        for carrier in (MAP, STREAM):
            for type in ("String", "byte[]"):
                message: Any = carrier.create(session)
                if carrier is STREAM and type == "byte[]":
                    # `writeBytes` takes no null; as an object it is stored.
                    message.write_object(None)
                else:
                    carrier.put(message, 0, type, None)
                for state, seen in (("received", roundtrip(message)), ("sent", message)):
                    what = f"{carrier.title} {type} null ({state} message)"
                    check_null(check, what, partial(carrier.get, seen, 0), _NULLS)


@requirement("3.11.3-z")
def test_3_11_3_z_null_is_no_char(session: Session, roundtrip: RoundTrip) -> None:
    map, stream = session.create_map_message(), session.create_stream_message()
    map.set_string("null", None)
    stream.write_string(None)
    received = roundtrip(map)
    with Checks() as check:
        check.fails("getChar of null", NullPointerException, received.getChar, "null")
        check.fails("getChar of no entry", NullPointerException, received.get_char, "nowhere")
        check.fails("readChar of null", NullPointerException, roundtrip(stream).readChar)


@requirement("3.11.3-aa")
def test_3_11_3_aa_an_entry_that_does_not_exist_reads_as_null(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_map_message()
    with Checks() as check:
        for state, seen in (("received", roundtrip(message)), ("sent", message)):
            check_null(check, f"an entry that was never set ({state} message)", partial(MAP.get, seen, 0), _NULLS)
            check.same(f"getObject of an entry that was never set ({state} message)", seen.get_object("p0"), None)


@requirement("3.11.3-ab")
def test_3_11_3_ab_a_failed_read_can_be_repeated(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_stream_message()
    message.write_string("no number")
    message.write_long(2**40)
    message.write_bytes(b"bytes")
    message.write_string(None)
    received = roundtrip(message)
    with Checks() as check:
        check.fails("readInt of the text", NumberFormatException, received.readInt)
        check.fails("readBytes of the text", MessageFormatException, received.readBytes, bytearray(4))
        check.fails("readChar of the text", MessageFormatException, received.readChar)
        check.gives("readString after these", "no number", received.readString)
        check.fails("readInt of a long", MessageFormatException, received.readInt)
        check.gives("readLong after it", 2**40, received.readLong)
        check.fails("readString of bytes", MessageFormatException, received.readString)
        check.gives("readObject after it", b"bytes", received.readObject)
        check.fails("readLong of null", NumberFormatException, received.readLong)
        check.gives("readString after it", None, received.readString)
