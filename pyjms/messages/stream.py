"""`JmsStreamMessage`: a body of typed values, written one after the other and read in turn (JMS 1.1 §3.11, §3.11.3).

A message is write-only or read-only. A send leaves it as it is: a sender who goes on writing adds to what the next send
takes. A read that fails leaves the position where it was, so that the value can be read as another type.
"""

from __future__ import annotations

from typing import TypeVar

from pyjms.api.message import StreamMessage
from pyjms.errors import (
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
)
from pyjms.messages.base import JmsMessage
from pyjms.messages.bytes import check_buffer
from pyjms.messages.conversion import (
    BOOLEAN,
    BYTE,
    BYTES,
    CHAR,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    JavaType,
)
from pyjms.messages.storing import (
    Store,
    copy_slice,
    store_boolean,
    store_byte,
    store_bytes,
    store_char,
    store_double,
    store_float,
    store_int,
    store_long,
    store_object,
    store_short,
    store_string,
)
from pyjms.spi.envelope import BodyKind
from pyjms.types import Boxed, Byte, Char, Double, Float, Int, Long, Short, Stored, box

T = TypeVar("T")

_WHAT = "stream field"


class JmsStreamMessage(JmsMessage, StreamMessage):
    """A message whose body is a sequence of values."""

    __slots__ = ("_fields", "_position", "_taken")
    kind = BodyKind.STREAM
    _body: tuple[Stored, ...]
    """The values to read; of a write-only message those of its last send."""
    _fields: list[Stored] | None
    """What has been written; None: the message is read-only."""
    _position: int
    _taken: int
    """How many bytes of the current field `read_bytes` has returned; -1: it has not begun."""

    def __init__(self) -> None:
        JmsMessage.__init__(self)
        self._body = ()
        self._fields = []
        self._position = 0
        self._taken = -1

    def clear_body(self) -> None:
        super().clear_body()
        self._body = ()
        self._fields = []
        self._position = 0
        self._taken = -1

    def reset(self) -> None:
        self._body = self.frozen_body()
        self._fields = None
        self._position = 0
        self._taken = -1

    def frozen_body(self) -> tuple[Stored, ...]:
        # what is written is only ever added to: of the same length is the same
        if self._fields is not None and len(self._body) != len(self._fields):
            self._body = tuple(self._fields)
        return self._body

    def received_body(self, body: tuple[Stored, ...]) -> None:
        self._body = body
        self._fields = None
        self._position = 0
        self._taken = -1

    def read_boolean(self) -> bool:
        return self._read(BOOLEAN)

    def read_byte(self) -> Byte:
        return self._read(BYTE)

    def read_short(self) -> Short:
        return self._read(SHORT)

    def read_char(self) -> Char:
        return self._read(CHAR)

    def read_int(self) -> Int:
        return self._read(INT)

    def read_long(self) -> Long:
        return self._read(LONG)

    def read_float(self) -> Float:
        return self._read(FLOAT)

    def read_double(self) -> Double:
        return self._read(DOUBLE)

    def read_string(self) -> str | None:
        return self._read(STRING)

    def read_object(self) -> Boxed:
        value = box(self._current())
        self._position += 1
        return value

    def read_bytes(self, value: bytearray) -> int:
        room = check_buffer(value)
        field = BYTES.read(self._current(in_bytes=True), _WHAT, self._position)
        if field is None:
            self._position += 1
            return -1
        if self._taken == len(field):  # a buffer was exactly filled before
            self._leave_field()
            return -1
        taken = max(self._taken, 0)
        piece = field[taken : taken + room]
        value[: len(piece)] = piece
        self._taken = taken + len(piece)
        if len(piece) < room:
            self._leave_field()
        return len(piece)

    def write_boolean(self, value: bool) -> None:
        self._write(value, store_boolean)

    def write_byte(self, value: int) -> None:
        self._write(value, store_byte)

    def write_short(self, value: int) -> None:
        self._write(value, store_short)

    def write_char(self, value: str) -> None:
        self._write(value, store_char)

    def write_int(self, value: int) -> None:
        self._write(value, store_int)

    def write_long(self, value: int) -> None:
        self._write(value, store_long)

    def write_float(self, value: float) -> None:
        self._write(value, store_float)

    def write_double(self, value: float) -> None:
        self._write(value, store_double)

    def write_string(self, value: str | None) -> None:
        self._write(value, store_string)

    def write_bytes(
        self, value: bytes | bytearray | memoryview | None, offset: int = 0, length: int | None = None
    ) -> None:
        if value is None:
            self._write(value, store_bytes)
        else:
            self._write(copy_slice(value, offset, length, "value of", "write_bytes"), store_bytes)

    def write_object(self, value: Boxed | float | bytearray) -> None:
        self._write(value, store_object)

    def _write(self, value: object, store: Store) -> None:
        if self._fields is None:
            raise MessageNotWriteableException(
                "a StreamMessage that was received or reset is read-only until clear_body() (JMS 1.1 §3.11.2)"
            )
        self._fields.append(store(value, _WHAT, len(self._fields)))

    def _read(self, kind: JavaType[T]) -> T:
        value = kind.read(self._current(), _WHAT, self._position)
        self._position += 1
        return value

    def _current(self, *, in_bytes: bool = False) -> Stored:
        """Return the field to be read, without moving on."""
        if self._fields is not None:
            raise MessageNotReadableException("a StreamMessage is write-only until reset() (JMS 1.1 §3.11)")
        if self._taken >= 0 and not in_bytes:
            raise MessageFormatException(
                f"{_WHAT} {self._position} is bytes that were read in part: call read_bytes until it returns less than "
                "its buffer holds"
            )
        if self._position >= len(self._body):
            raise MessageEOFException(f"the stream has {len(self._body)} fields, and all are read")
        return self._body[self._position]

    def _leave_field(self) -> None:
        self._position += 1
        self._taken = -1
