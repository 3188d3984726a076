from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import (
    IndexOutOfBoundsException,
    MessageEOFException,
    MessageFormatException,
    NullPointerException,
    NumberFormatException,
)
from pyjms.messages.bodies import JmsStreamMessage
from pyjms.types import Byte, Int, Long
from tests.pyjms.messages.support import BODY_VALUES, conversions, frozen, received, same
from tests.pyjms.messages.test_conversion import WRITTEN

KINDS = ["boolean", "byte", "short", "char", "int", "long", "float", "double", "string", "object"]


def containing(*values: Any) -> JmsStreamMessage:
    message = JmsStreamMessage()
    for value in values:
        message.write_object(value)
    return received(message)


@pytest.mark.realises("BOIL-BODY-1")
@given(st.lists(BODY_VALUES, max_size=12))
def test_what_was_written_is_read(values: list[Any]) -> None:
    message = JmsStreamMessage()
    for value in values:
        message.write_object(value)
    arrived = received(received(message))
    message.reset()
    for each in (message, arrived):
        for _ in range(2):
            assert all(same(each.read_object(), value) for value in values)
            with pytest.raises(MessageEOFException, match=f"{len(values)} fields"):
                each.read_object()
            each.reset()


@pytest.mark.realises("BOIL-CONV-5")
@pytest.mark.parametrize(("written", "value"), WRITTEN.items())
def test_after_a_failed_read_the_value_is_still_there(written: str, value: Any) -> None:
    message = containing(value, "next")
    for read, outcome in conversions()["stream_message_table"][written].items():
        if outcome != "MessageFormatException":
            continue
        for _ in range(2):
            with pytest.raises(MessageFormatException):
                if read == "byte[]":
                    message.read_bytes(bytearray(8))
                else:
                    getattr(message, f"read_{'string' if read == 'String' else read}")()
    assert same(message.read_object(), value)
    assert message.read_string() == "next"


@pytest.mark.realises("BOIL-CONV-5", "BOIL-CONV-3")
def test_a_text_that_is_no_number_can_be_read_as_text() -> None:
    message = containing("espresso", None, "7")
    for kind in ("byte", "short", "int", "long", "float", "double"):
        with pytest.raises(NumberFormatException, match="stream field 0"):
            getattr(message, f"read_{kind}")()
    assert message.readString() == "espresso"
    for kind, error in (
        ("int", NumberFormatException),
        ("double", NullPointerException),
        ("char", NullPointerException),
    ):
        with pytest.raises(error, match="stream field 1"):
            getattr(message, f"read_{kind}")()
    assert message.read_boolean() is False
    assert same(message.readLong(), Long(7))


@pytest.mark.realises("BOIL-CONV-1")
def test_bytes_are_read_piece_by_piece() -> None:
    message = containing(b"abcdefgh", 5)
    buffer = bytearray(3)
    assert [message.read_bytes(buffer), bytes(buffer)] == [3, b"abc"]
    for kind in KINDS:
        with pytest.raises(MessageFormatException, match="read in part"):
            getattr(message, f"read_{kind}")()
    assert [message.readBytes(buffer), bytes(buffer)] == [3, b"def"]
    assert [message.read_bytes(buffer), bytes(buffer)] == [2, b"ghf"]
    assert message.read_int() == 5


def test_an_exactly_filled_buffer_needs_one_more_call() -> None:
    message = containing(b"abcd", 5)
    buffer = bytearray(2)
    assert [message.read_bytes(buffer) for _ in range(2)] == [2, 2]
    with pytest.raises(MessageFormatException, match="read in part"):
        message.read_int()
    assert message.read_bytes(buffer) == -1
    assert bytes(buffer) == b"cd"
    assert message.read_int() == 5


def test_empty_bytes_and_none() -> None:
    message = containing(b"", None, b"", b"a")
    buffer = bytearray(2)
    assert [message.read_bytes(buffer) for _ in range(4)] == [0, -1, 0, 1]
    with pytest.raises(MessageEOFException):
        message.read_bytes(buffer)
    message.reset()
    empty = bytearray()
    assert [message.read_bytes(empty) for _ in range(3)] == [0, -1, -1]
    assert message.read_object() == b""


def test_bytes_are_read_at_once_as_an_object() -> None:
    message = containing(b"abcdefgh")
    assert message.readObject() == b"abcdefgh"
    message.reset()
    message.read_bytes(bytearray(3))
    message.reset()  # forgets what was read in part
    assert message.read_object() == b"abcdefgh"


@pytest.mark.parametrize("value", WRITTEN.values(), ids=WRITTEN)
def test_only_bytes_are_read_as_bytes(value: Any) -> None:
    message = containing(value)
    if value == b"7":
        assert message.read_bytes(bytearray(8)) == 1
        return
    with pytest.raises(MessageFormatException, match=r"cannot be read as byte\[\]"):
        message.read_bytes(bytearray(8))
    assert same(message.read_object(), value)


@pytest.mark.parametrize("buffer", [b"abc", "abc", [1], memoryview(bytearray(3))])
def test_a_buffer_is_a_bytearray(buffer: Any) -> None:
    message = containing(b"abc")
    with pytest.raises(MessageFormatException, match="needs a bytearray"):
        message.read_bytes(buffer)
    with pytest.raises(NullPointerException):
        message.read_bytes(None)  # type: ignore[arg-type]
    assert message.read_object() == b"abc"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), BODY_VALUES),
        st.tuples(st.just("read"), st.sampled_from(KINDS)),
        st.tuples(st.just("read_bytes"), st.integers(0, 4)),
        st.tuples(st.sampled_from(["reset", "clear", "send"]), st.none()),
    ),
    max_size=30,
)


class Model:
    """What a StreamMessage is: values, a position, what is left of a bytes field, and a direction."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.position = 0
        self.left: bytes | None = None
        self.writing = True

    def step(self, action: str, argument: Any) -> Any:
        if action == "write":
            if not self.writing:
                return "MessageNotWriteableException"
            self.values.append(argument)
        elif action == "reset":
            self.position, self.left, self.writing = 0, None, False
        elif action == "clear":
            self.values, self.position, self.left, self.writing = [], 0, None, True
        elif action == "send":
            return len(self.values)
        elif self.writing:
            return "MessageNotReadableException"
        else:
            return self.read_bytes(argument) if action == "read_bytes" else self.read(argument)
        return None

    def read(self, kind: str) -> Any:
        if self.left is not None:
            return "MessageFormatException"
        if self.position == len(self.values):
            return "MessageEOFException"
        alone = containing(self.values[self.position])  # reading the first value is judged by the tests above
        try:
            value = getattr(alone, f"read_{kind}")()
        except Exception as error:
            return type(error).__name__
        self.position += 1
        return value

    def read_bytes(self, room: int) -> Any:
        if self.position == len(self.values):
            return "MessageEOFException"
        value = self.values[self.position]
        if value is not None and type(value) is not bytes:
            return "MessageFormatException"
        left = value if self.left is None else self.left
        if left is None or (self.left == b""):
            self.position, self.left = self.position + 1, None
            return -1, b""
        piece, self.left = left[:room], left[room:]
        if len(piece) < room:
            self.position, self.left = self.position + 1, None
        return len(piece), piece


def perform(message: JmsStreamMessage, action: str, argument: Any) -> Any:
    if action == "write":
        return message.write_object(argument)
    if action == "reset":
        return message.reset()
    if action == "clear":
        return message.clear_body()
    if action == "send":
        return len(frozen(message).body)  # type: ignore[arg-type]
    if action == "read_bytes":
        buffer = bytearray(argument)
        count = message.read_bytes(buffer)
        return count, bytes(buffer[: max(count, 0)])
    return getattr(message, f"read_{argument}")()


@pytest.mark.realises("BOIL-CONV-5")
@given(STEPS)
def test_any_sequence_of_calls_does_what_the_model_does(steps: list[tuple[str, Any]]) -> None:
    message, model = JmsStreamMessage(), Model()
    for action, argument in steps:
        expected = model.step(action, argument)
        try:
            found = perform(message, action, argument)
        except Exception as error:
            found = type(error).__name__
        assert same(found, expected)


@pytest.mark.realises("BOIL-BODY-7", "BOIL-BODY-8")
def test_bytes_are_copied_in_and_out() -> None:
    data = bytearray(b"abcdef")
    message = JmsStreamMessage()
    message.write_bytes(data)
    message.writeBytes(data, 2, 2)
    message.write_object(memoryview(data))  # type: ignore[arg-type]
    message.write_bytes(None)
    data[:] = b"......"
    assert frozen(message).body == (b"abcdef", b"cd", b"abcdef", None)
    with pytest.raises(IndexOutOfBoundsException):
        message.write_bytes(b"abc", 2, 2)
    with pytest.raises(IndexOutOfBoundsException):
        message.write_bytes(b"abc", -1)
    assert frozen(message).body == (b"abcdef", b"cd", b"abcdef", None)


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
        ("string", 5),
        ("bytes", "abc"),
        ("object", []),
        ("object", 2**63),
    ],
)
def test_a_failed_write_writes_nothing(kind: str, value: Any) -> None:
    message = JmsStreamMessage()
    message.write_byte(1)
    with pytest.raises(MessageFormatException):
        getattr(message, f"write_{kind}")(value)
    assert frozen(message).body == (Byte(1),)


def test_a_sender_may_go_on_writing_after_a_send() -> None:
    message = JmsStreamMessage()
    message.write_int(1)
    first = frozen(message)
    assert frozen(message).body is first.body
    message.write_string("2")
    second = frozen(message)
    message.clear_body()
    message.write_string(None)  # as long as the first
    third = frozen(message)
    assert [first.body, second.body, third.body] == [(1,), (1, "2"), (None,)]


def test_a_send_does_not_move_the_reader() -> None:
    message = containing(1, 2)
    assert same(message.read_int(), Int(1))
    again = received(message)
    assert [again.read_int(), again.read_int(), message.read_int()] == [1, 2, 2]
