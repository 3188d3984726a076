from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import (
    IndexOutOfBoundsException,
    MessageEOFException,
    MessageFormatException,
    NullPointerException,
)
from pyjms.messages.bodies import JmsBytesMessage
from pyjms.messages.java_text import encode_modified_utf8
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short
from tests.pyjms.messages.support import SINGLES, conversions, frozen, received, same

WRITTEN: list[tuple[str, Any, str]] = [
    ("boolean", True, "01"),
    ("boolean", False, "00"),
    ("byte", -1, "ff"),
    ("short", -2, "fffe"),
    ("char", "€", "20ac"),
    ("char", "\ud83d", "d83d"),
    ("int", 0x01020304, "01020304"),
    ("long", -2, "fffffffffffffffe"),
    ("float", 0.1, "3dcccccd"),
    ("float", float("-nan"), "7fc00000"),
    ("float", 1e39, "7f800000"),
    ("double", 0.1, "3fb999999999999a"),
    ("double", float("-nan"), "7ff8000000000000"),
    ("utf", "a\0€", "000661c080e282ac"),
    ("utf", "", "0000"),
    ("bytes", b"abc", "616263"),
    ("object", True, "01"),
    ("object", Byte(-1), "ff"),
    ("object", Short(-1), "ffff"),
    ("object", Char("€"), "20ac"),
    ("object", 1, "00000001"),
    ("object", 2**40, "0000010000000000"),
    ("object", Long(1), "0000000000000001"),
    ("object", Float(0.1), "3dcccccd"),
    ("object", 0.1, "3fb999999999999a"),
    ("object", "a", "000161"),
    ("object", bytearray(b"abc"), "616263"),
]
VALUES = {
    "boolean": st.booleans(),
    "byte": st.integers(-(2**7), 2**7 - 1).map(Byte),
    "unsigned_byte": st.integers(0, 2**8 - 1).map(Int),
    "short": st.integers(-(2**15), 2**15 - 1).map(Short),
    "unsigned_short": st.integers(0, 2**16 - 1).map(Int),
    "char": st.characters(max_codepoint=0xFFFF).map(Char),
    "int": st.integers(-(2**31), 2**31 - 1).map(Int),
    "long": st.integers(-(2**63), 2**63 - 1).map(Long),
    "float": SINGLES,
    "double": st.floats().map(Double),
    "utf": st.text(max_size=20),
    "bytes": st.binary(max_size=20),
}
WIDTHS = {"boolean": 1, "byte": 1, "unsigned_byte": 1, "short": 2, "unsigned_short": 2, "char": 2}
WIDTHS.update({"int": 4, "float": 4, "long": 8, "double": 8})
FIELDS = st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind]))


def write(message: JmsBytesMessage, kind: str, value: Any) -> None:
    if kind.startswith("unsigned_"):
        kind, bits = kind.removeprefix("unsigned_"), 8 if kind == "unsigned_byte" else 16
        value = value - (1 << bits) if value >> (bits - 1) else value
    getattr(message, f"write_{kind}")(value)


def read(message: JmsBytesMessage, kind: str, length: int = 0) -> Any:
    if kind != "bytes":
        return getattr(message, f"read_{kind}")()
    buffer = bytearray(length)
    if length:
        assert message.read_bytes(buffer) == length
    return bytes(buffer)


def containing(data: bytes) -> JmsBytesMessage:
    message = JmsBytesMessage()
    message.write_bytes(data)
    return received(message)


@pytest.mark.realises("BOIL-BODY-1", "BOIL-MSG-2")
@pytest.mark.parametrize(("kind", "value", "data"), WRITTEN)
def test_values_are_written_as_data_output_writes_them(kind: str, value: Any, data: str) -> None:
    message = JmsBytesMessage()
    getattr(message, f"write_{kind}")(value)
    body = frozen(message).body
    assert type(body) is bytes
    assert body.hex() == data


@given(st.lists(FIELDS, max_size=12))
def test_what_was_written_is_read(fields: list[tuple[str, Any]]) -> None:
    message = JmsBytesMessage()
    for kind, value in fields:
        write(message, kind, value)
    arrived = received(message)
    message.reset()
    for each in (message, arrived):
        for _ in range(2):
            for kind, value in fields:
                found = read(each, kind, len(value) if kind == "bytes" else 0)
                assert type(found) is type(value)
                assert found == value or struct.pack(">d", found)[:2] == struct.pack(">d", float("nan"))[:2]
            with pytest.raises(MessageEOFException):
                each.read_byte()
            each.reset()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), FIELDS),
        st.tuples(st.just("read"), st.sampled_from(sorted(VALUES))),
        st.tuples(st.just("read_bytes"), st.integers(0, 6)),
        st.tuples(st.sampled_from(["reset", "clear", "send"]), st.none()),
    ),
    max_size=30,
)


class Model:
    """What a BytesMessage is: bytes, a position, and a direction."""

    def __init__(self) -> None:
        self.data = b""
        self.position = 0
        self.writing = True

    def step(self, action: str, argument: Any) -> Any:
        if action == "write":
            if not self.writing:
                return "MessageNotWriteableException"
            self.data += self.encoded(*argument)
        elif action == "reset":
            self.position, self.writing = 0, False
        elif action == "clear":
            self.data, self.position, self.writing = b"", 0, True
        elif action == "send":
            return self.data
        elif self.writing:
            return "MessageNotReadableException"
        elif action == "read_bytes":
            piece = self.data[self.position : self.position + argument]
            count = -1 if self.position == len(self.data) else len(piece)
            self.position += len(piece)
            return count, piece
        else:
            return self.read(argument)
        return None

    def read(self, kind: str) -> Any:
        rest = self.data[self.position :]
        if kind == "bytes":
            kind = "byte"
        width = WIDTHS.get(kind) or 2 + int.from_bytes(rest[:2], "big")
        if len(rest) < width or (kind == "utf" and len(rest) < 2):
            return "MessageEOFException"
        message = containing(rest[:width])  # reading at the beginning is judged by the test above
        try:
            value = read(message, kind)
        except MessageFormatException:
            return "MessageFormatException"
        self.position += width
        return value

    @staticmethod
    def encoded(kind: str, value: Any) -> bytes:
        message = JmsBytesMessage()
        write(message, kind, value)
        body = frozen(message).body
        assert type(body) is bytes
        return body


def perform(message: JmsBytesMessage, action: str, argument: Any) -> Any:
    if action == "write":
        return write(message, *argument)
    if action == "reset":
        return message.reset()
    if action == "clear":
        return message.clear_body()
    if action == "send":
        return frozen(message).body
    if action == "read_bytes":
        buffer = bytearray(argument)
        count = message.read_bytes(buffer)
        return count, bytes(buffer[: max(count, 0)])
    return read(message, "byte" if argument == "bytes" else argument)


@pytest.mark.realises("BOIL-CONV-5")
@given(STEPS)
def test_any_sequence_of_calls_does_what_the_model_does(steps: list[tuple[str, Any]]) -> None:
    message, model = JmsBytesMessage(), Model()
    for action, argument in steps:
        expected = model.step(action, argument)
        try:
            found = perform(message, action, argument)
        except Exception as error:
            found = type(error).__name__
        assert same(found, expected) or str(found) == str(expected) == "nan"


@pytest.mark.realises("BOIL-CONV-5")
@pytest.mark.parametrize("kind", [*WIDTHS, "utf"])
def test_a_read_beyond_the_end_takes_nothing(kind: str) -> None:
    data = b"\x00\x05abc"[: WIDTHS.get(kind, 6) - 1]
    message = containing(data)
    for _ in range(2):
        with pytest.raises(MessageEOFException):
            read(message, kind)
    assert read(message, "bytes", len(data)) == data


@pytest.mark.realises("BOIL-CONV-5")
def test_a_text_that_is_none_takes_nothing() -> None:
    message = containing(b"\x00\x02\xff\xff")
    with pytest.raises(MessageFormatException, match="no text at byte 0"):
        message.readUTF()
    assert message.read_int() == 0x0002FFFF


def test_reading_into_buffers() -> None:
    message = containing(b"abcdef")
    assert message.body_length == message.getBodyLength() == 6
    buffer = bytearray(b"........")
    assert message.read_bytes(buffer, 2) == 2
    assert buffer == b"ab......"
    assert message.readBytes(buffer, 0) == 0
    assert message.read_bytes(bytearray()) == 0
    for length in (-1, 9):
        with pytest.raises(IndexOutOfBoundsException, match="does not lie within a buffer of 8 bytes"):
            message.read_bytes(buffer, length)
    assert message.readBytes(buffer) == 4
    assert buffer == b"cdef...."
    assert message.read_bytes(buffer) == -1
    assert message.read_bytes(buffer, 3) == -1
    assert buffer == b"cdef...."
    assert len(buffer) == 8


@pytest.mark.realises("BOIL-BODY-7")
def test_null_has_no_bytes() -> None:
    message: Any = JmsBytesMessage()
    for method in conversions()["null_handling"]["bytes_message"]:
        name = method.removesuffix("(null)")
        with pytest.raises(NullPointerException):
            getattr(message, name)(None)
    assert frozen(message).body == b""
    message.reset()
    with pytest.raises(NullPointerException):
        message.read_bytes(None)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("byte", 300),
        ("short", 2**15),
        ("int", 2**31),
        ("long", 2**63),
        ("char", "ab"),
        ("boolean", 1),
        ("float", "1"),
        ("double", None),
        ("utf", 5),
        ("bytes", "abc"),
        ("object", []),
        ("object", 2**63),
    ],
)
def test_a_failed_write_writes_nothing(kind: str, value: Any) -> None:
    message = JmsBytesMessage()
    message.write_byte(1)
    with pytest.raises(MessageFormatException):
        getattr(message, f"write_{kind}")(value)
    assert frozen(message).body == b"\x01"


def test_a_text_has_at_most_65535_bytes() -> None:
    message = JmsBytesMessage()
    message.write_utf("x" * 65535)
    arrived = received(message)
    assert arrived.read_utf() == "x" * 65535
    for text in ("x" * 65536, "\0" * 32768, "€" * 21846):
        assert len(encode_modified_utf8(text)) > 65535
        with pytest.raises(MessageFormatException, match="writes at most 65535"):
            message.write_utf(text)
    assert len(bytes(frozen(message).body)) == 65537  # type: ignore[arg-type]


@pytest.mark.realises("BOIL-BODY-7", "BOIL-BODY-8")
def test_bytes_are_copied_in_and_out() -> None:
    data = bytearray(b"abcdef")
    message = JmsBytesMessage()
    message.write_bytes(data)
    message.writeBytes(memoryview(data), 2, 2)
    message.write_object(data)
    data[:] = b"......"
    assert frozen(message).body == b"abcdefcdabcdef"
    message.reset()
    buffer = bytearray(6)
    message.read_bytes(buffer)
    buffer[:] = b"......"
    message.reset()
    assert read(message, "bytes", 6) == b"abcdef"
    with pytest.raises(IndexOutOfBoundsException):
        JmsBytesMessage().write_bytes(b"abc", 2, 2)


def test_a_sender_may_go_on_writing_after_a_send() -> None:
    message = JmsBytesMessage()
    message.write_byte(1)
    first = frozen(message)
    assert frozen(message).body is first.body
    message.write_byte(2)
    second = frozen(message)
    message.clear_body()
    message.write_byte(3)  # as long as the first
    third = frozen(message)
    assert [first.body, second.body, third.body] == [b"\1", b"\1\2", b"\3"]


def test_a_send_does_not_move_the_reader() -> None:
    message = containing(b"abcdef")
    message.read_short()
    assert received(message).body_length == 6
    assert message.read_int() == int.from_bytes(b"cdef", "big")
