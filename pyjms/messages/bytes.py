"""`JmsBytesMessage`: a body of bytes, written and read as java.io.DataOutput and DataInput do (JMS 1.1 §3.11).

A message is write-only or read-only. A send leaves it as it is: a sender who goes on writing adds to what the next send
takes. A read that fails, at the end of the body too, leaves the position where it was.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

from pyjms.api.message import BytesMessage
from pyjms.errors import (
    IndexOutOfBoundsException,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    NullPointerException,
)
from pyjms.messages import modified_utf8
from pyjms.messages.base import JmsMessage
from pyjms.messages.storing import (
    copy_slice,
    store_boolean,
    store_byte,
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
from pyjms.types import Boxed, Byte, Char, Double, Float, Int, Long, Short

_UTF_LENGTH_MAX = 0xFFFF
_SINGLE = struct.Struct(">f")
_DOUBLE = struct.Struct(">d")
_SINGLE_NAN = bytes.fromhex("7fc00000")
_DOUBLE_NAN = bytes.fromhex("7ff8000000000000")
"""Java writes one NaN, whatever its bits were."""


class JmsBytesMessage(JmsMessage, BytesMessage):
    """A message whose body is a run of bytes."""

    __slots__ = ("_buffer", "_position")
    kind = BodyKind.BYTES
    _body: bytes
    """The bytes to read; of a write-only message those of its last send."""
    _buffer: bytearray | None
    """What has been written; None: the message is read-only."""
    _position: int

    def __init__(self) -> None:
        JmsMessage.__init__(self)
        self._body = b""
        self._buffer = bytearray()
        self._position = 0

    def clear_body(self) -> None:
        super().clear_body()
        self._body = b""
        self._buffer = bytearray()
        self._position = 0

    def reset(self) -> None:
        self._body = self.frozen_body()
        self._buffer = None
        self._position = 0

    def frozen_body(self) -> bytes:
        # what is written is only ever added to: of the same length is the same
        if self._buffer is not None and len(self._body) != len(self._buffer):
            self._body = bytes(self._buffer)
        return self._body

    def received_body(self, body: bytes) -> None:
        self._body = body
        self._buffer = None
        self._position = 0

    @property
    def body_length(self) -> int:
        self._check_readable()
        return len(self._body)

    def read_boolean(self) -> bool:
        return self._take(1) != b"\0"

    def read_byte(self) -> Byte:
        return Byte(int.from_bytes(self._take(1), "big", signed=True))

    def read_unsigned_byte(self) -> Int:
        return Int(int.from_bytes(self._take(1), "big"))

    def read_short(self) -> Short:
        return Short(int.from_bytes(self._take(2), "big", signed=True))

    def read_unsigned_short(self) -> Int:
        return Int(int.from_bytes(self._take(2), "big"))

    def read_char(self) -> Char:
        return Char(chr(int.from_bytes(self._take(2), "big")))

    def read_int(self) -> Int:
        return Int(int.from_bytes(self._take(4), "big", signed=True))

    def read_long(self) -> Long:
        return Long(int.from_bytes(self._take(8), "big", signed=True))

    def read_float(self) -> Float:
        return Float(_SINGLE.unpack(self._take(4))[0])

    def read_double(self) -> Double:
        return Double(_DOUBLE.unpack(self._take(8))[0])

    def read_utf(self) -> str:
        start = self._position
        length = int.from_bytes(self._take(2), "big")
        try:
            return modified_utf8.decode(self._take(length))
        except MessageEOFException:
            self._position = start
            raise
        except ValueError as error:
            self._position = start
            raise MessageFormatException(f"no text at byte {start} of the body: {error}") from error

    def read_bytes(self, value: bytearray, length: int | None = None) -> int:
        self._check_readable()
        room = check_buffer(value)
        wanted = room if length is None else length
        if not 0 <= wanted <= room:
            raise IndexOutOfBoundsException(f"length {wanted} does not lie within a buffer of {room} bytes")
        start = self._position
        if start == len(self._body):
            return -1
        piece = self._body[start : start + wanted]
        value[: len(piece)] = piece
        self._position = start + len(piece)
        return len(piece)

    def write_boolean(self, value: bool) -> None:
        self._write(b"\1" if store_boolean(value, "value of", "write_boolean") else b"\0")

    def write_byte(self, value: int) -> None:
        self._write(store_byte(value, "value of", "write_byte").to_bytes(1, "big", signed=True))

    def write_short(self, value: int) -> None:
        self._write(store_short(value, "value of", "write_short").to_bytes(2, "big", signed=True))

    def write_char(self, value: str) -> None:
        self._write(ord(store_char(value, "value of", "write_char")).to_bytes(2, "big"))

    def write_int(self, value: int) -> None:
        self._write(store_int(value, "value of", "write_int").to_bytes(4, "big", signed=True))

    def write_long(self, value: int) -> None:
        self._write(store_long(value, "value of", "write_long").to_bytes(8, "big", signed=True))

    def write_float(self, value: float) -> None:
        number = store_float(value, "value of", "write_float")
        self._write(_SINGLE_NAN if math.isnan(number) else _SINGLE.pack(number))

    def write_double(self, value: float) -> None:
        number = store_double(value, "value of", "write_double")
        self._write(_DOUBLE_NAN if math.isnan(number) else _DOUBLE.pack(number))

    def write_utf(self, value: str) -> None:
        text = store_string(value, "value of", "write_utf")
        if text is None:
            raise _nothing("write_utf")
        encoded = modified_utf8.encode(text)
        if len(encoded) > _UTF_LENGTH_MAX:
            raise MessageFormatException(
                f"the text takes {len(encoded)} bytes, and write_utf writes at most {_UTF_LENGTH_MAX}: "
                "use write_bytes with an encoding of your own"
            )
        self._write(len(encoded).to_bytes(2, "big") + encoded)

    def write_bytes(self, value: bytes | bytearray | memoryview, offset: int = 0, length: int | None = None) -> None:
        if value is None:
            raise _nothing("write_bytes")
        self._write(copy_slice(value, offset, length, "value of", "write_bytes"))

    def write_object(self, value: Boxed | float | bytearray) -> None:
        if value is None:
            raise _nothing("write_object")
        stored = store_object(value, "value of", "write_object")
        _WRITERS[type(stored)](self, stored)

    def _write(self, data: bytes) -> None:
        if self._buffer is None:
            raise MessageNotWriteableException(
                "a BytesMessage that was received or reset is read-only until clear_body() (JMS 1.1 §3.11.2)"
            )
        self._buffer += data

    def _take(self, size: int) -> bytes:
        self._check_readable()
        start = self._position
        end = start + size
        if end > len(self._body):
            raise MessageEOFException(f"{size} bytes are needed and {len(self._body) - start} are left")
        self._position = end
        return self._body[start:end]

    def _check_readable(self) -> None:
        if self._buffer is not None:
            raise MessageNotReadableException("a BytesMessage is write-only until reset() (JMS 1.1 §3.11)")


def check_buffer(value: object) -> int:
    """Return the length of a buffer to read into. Raises `NullPointerException` for None."""
    if value is None:
        raise NullPointerException("read_bytes needs a bytearray to fill, not None")
    if not isinstance(value, bytearray):
        raise MessageFormatException(f"read_bytes needs a bytearray to fill, not {type(value).__name__}")
    return len(value)


def _nothing(method: str) -> NullPointerException:
    return NullPointerException(f"a BytesMessage cannot hold None: {method} needs a value (JMS 1.1 §3.12)")


_WRITERS: Mapping[type, Callable[[JmsBytesMessage, Any], None]] = {
    bool: JmsBytesMessage.write_boolean,
    Byte: JmsBytesMessage.write_byte,
    Short: JmsBytesMessage.write_short,
    Char: JmsBytesMessage.write_char,
    int: JmsBytesMessage.write_int,
    Long: JmsBytesMessage.write_long,
    Float: JmsBytesMessage.write_float,
    float: JmsBytesMessage.write_double,
    str: JmsBytesMessage.write_utf,
    bytes: JmsBytesMessage.write_bytes,
}
"""How `write_object` writes a stored value."""
