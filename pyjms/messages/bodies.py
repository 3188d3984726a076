"""The five kinds of body (JMS 1.1 §3.11): text, bytes, stream, map, object.

Bytes are written and read as java.io.DataOutput and DataInput do. Streams and maps hold typed values (§3.11.3).

An object is pickled when it is set and unpickled each time it is read, so that neither side sees the other one's
changes of its copy (§3.12). An object that has never left this process is unpickled freely. Unpickling executes the
pickle, so bytes from other processes are decoded by `TrustingUnpickler`, which builds instances of trusted classes
out of plain data and does nothing else.
"""

from __future__ import annotations

import math
import pickle
import struct
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from pyjms.api.base import Enumeration
from pyjms.api.message import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.errors import (
    IllegalArgumentException,
    IndexOutOfBoundsException,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    NullPointerException,
)
from pyjms.messages.base import JmsMessage, TrustedClasses
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
from pyjms.messages.java_text import decode_modified_utf8, encode_modified_utf8
from pyjms.messages.unpickling import TrustingUnpickler
from pyjms.spi.envelope import BodyKind, ObjectBody
from pyjms.spi.words import reason_of
from pyjms.types import Boxed, Byte, Char, Double, Float, Int, Long, Short, Stored, box

T = TypeVar("T")


class JmsTextMessage(JmsMessage, TextMessage):
    """A message whose body is `text`, or None."""

    __slots__ = ()
    kind = BodyKind.TEXT

    def __init__(self, text: str | None = None) -> None:
        JmsMessage.__init__(self)
        # Only a plain str is used unchanged: a subclass, which may override methods, is converted to a plain text.
        self._body = text if type(text) is str else store_string(text, "body", "text")

    @property
    def text(self) -> str | None:
        return self._body  # type: ignore[no-any-return]

    @text.setter
    def text(self, string: str | None) -> None:
        if self._body_read_only:
            self._check_body_writeable()
        self._body = string if type(string) is str else store_string(string, "body", "text")

    def _whole_body(self) -> str | None:
        return self._body  # type: ignore[no-any-return]


# java.io.DataOutput.writeUTF has two bytes for the length.
_UTF_LENGTH_MAX = 0xFFFF
_SINGLE = struct.Struct(">f")
_DOUBLE = struct.Struct(">d")
# DataOutputStream.writeFloat goes by floatToIntBits, which makes all NaNs one.
_SINGLE_NAN = bytes.fromhex("7fc00000")
_DOUBLE_NAN = bytes.fromhex("7ff8000000000000")
"""Java writes one NaN, for all bit patterns."""


class JmsBytesMessage(JmsMessage, BytesMessage):
    """A message whose body is a run of bytes."""

    __slots__ = ("_buffer", "_position")
    kind = BodyKind.BYTES
    _body: bytes
    """The bytes to read; of a write-only message those of its last send."""
    _buffer: bytearray | None
    """The bytes written so far; None: the message is read-only."""
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
        # written data only grows: equal lengths mean equal contents
        if self._buffer is not None and len(self._body) != len(self._buffer):
            self._body = bytes(self._buffer)
        return self._body

    def received_body(self, body: bytes) -> None:
        self._body = body
        self._buffer = None
        self._position = 0

    def get_body(self, c: type[T]) -> T | None:
        body = super().get_body(c)
        self.reset()
        return body

    def _whole_body(self) -> bytes:
        return self.frozen_body()

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
            return decode_modified_utf8(self._take(length))
        except MessageEOFException:
            # The two bytes of the length are returned, too: a read that fails leaves the position unchanged.
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
        encoded = encode_modified_utf8(text)
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
        # A stored value has one of the exact classes of this table, so the look-up always succeeds.
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
        # The check precedes the change of the position: a read that fails leaves it unchanged (decision 0202).
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
"""The writer of each stored type, for `write_object`."""


_FIELD = "stream field"


class JmsStreamMessage(JmsMessage, StreamMessage):
    """A message whose body is a sequence of values."""

    __slots__ = ("_fields", "_position", "_taken")
    kind = BodyKind.STREAM
    _body: tuple[Stored, ...]
    """The values to read; of a write-only message those of its last send."""
    _fields: list[Stored] | None
    """The values written so far; None: the message is read-only."""
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
        # written data only grows: equal lengths mean equal contents
        if self._fields is not None and len(self._body) != len(self._fields):
            self._body = tuple(self._fields)
        return self._body

    def received_body(self, body: tuple[Stored, ...]) -> None:
        self._body = body
        self._fields = None
        self._position = 0
        self._taken = -1

    def _whole_body(self) -> NoReturn:
        raise MessageFormatException("the body of a StreamMessage is read field by field (JMS 2.0 §3.10)")

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
        field = BYTES.read(self._current(in_bytes=True), _FIELD, self._position)
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
        # A buffer that is not filled shows that the field has ended; after one that is filled
        # exactly the next call returns -1.
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
        self._fields.append(store(value, _FIELD, len(self._fields)))

    def _read(self, kind: JavaType[T]) -> T:
        # The position changes after the conversion only: a field can be read once more, as another type (§3.11.3).
        value = kind.read(self._current(), _FIELD, self._position)
        self._position += 1
        return value

    def _current(self, *, in_bytes: bool = False) -> Stored:
        """Return the field to be read, without moving on."""
        if self._fields is not None:
            raise MessageNotReadableException("a StreamMessage is write-only until reset() (JMS 1.1 §3.11)")
        # StreamMessage.readBytes: the rest of a byte[] field must be read before the next field may be.
        if self._taken >= 0 and not in_bytes:
            raise MessageFormatException(
                f"{_FIELD} {self._position} is bytes that were read in part: call read_bytes until it returns less than "
                "its buffer holds"
            )
        if self._position >= len(self._body):
            raise MessageEOFException(f"the stream has {len(self._body)} fields, and all are read")
        return self._body[self._position]

    def _leave_field(self) -> None:
        self._position += 1
        self._taken = -1


_ENTRY = "map entry"


class JmsMapMessage(JmsMessage, MapMessage):
    """A message whose body is a map of names to values. Any text but the empty one is a name."""

    __slots__ = ()
    kind = BodyKind.MAP
    _body: dict[str, Stored]

    def __init__(self) -> None:
        JmsMessage.__init__(self)
        self._body = {}

    def clear_body(self) -> None:
        super().clear_body()
        self._body = {}

    def get_boolean(self, name: str) -> bool:
        return BOOLEAN.read(self._body.get(name), _ENTRY, name)

    def get_byte(self, name: str) -> Byte:
        return BYTE.read(self._body.get(name), _ENTRY, name)

    def get_short(self, name: str) -> Short:
        return SHORT.read(self._body.get(name), _ENTRY, name)

    def get_char(self, name: str) -> Char:
        return CHAR.read(self._body.get(name), _ENTRY, name)

    def get_int(self, name: str) -> Int:
        return INT.read(self._body.get(name), _ENTRY, name)

    def get_long(self, name: str) -> Long:
        return LONG.read(self._body.get(name), _ENTRY, name)

    def get_float(self, name: str) -> Float:
        return FLOAT.read(self._body.get(name), _ENTRY, name)

    def get_double(self, name: str) -> Double:
        return DOUBLE.read(self._body.get(name), _ENTRY, name)

    def get_string(self, name: str) -> str | None:
        return STRING.read(self._body.get(name), _ENTRY, name)

    def get_bytes(self, name: str) -> bytes | None:
        return BYTES.read(self._body.get(name), _ENTRY, name)

    def get_object(self, name: str) -> Boxed:
        return box(self._body.get(name))

    @property
    def map_names(self) -> Enumeration[str]:
        return Enumeration(tuple(self._body))

    def item_exists(self, name: str) -> bool:
        return name in self._body

    def _whole_body(self) -> dict[str, Boxed]:
        return {name: box(value) for name, value in self._body.items()}

    def set_boolean(self, name: str, value: bool) -> None:
        self._set_entry(name, value, store_boolean)

    def set_byte(self, name: str, value: int) -> None:
        self._set_entry(name, value, store_byte)

    def set_short(self, name: str, value: int) -> None:
        self._set_entry(name, value, store_short)

    def set_char(self, name: str, value: str) -> None:
        self._set_entry(name, value, store_char)

    def set_int(self, name: str, value: int) -> None:
        self._set_entry(name, value, store_int)

    def set_long(self, name: str, value: int) -> None:
        self._set_entry(name, value, store_long)

    def set_float(self, name: str, value: float) -> None:
        self._set_entry(name, value, store_float)

    def set_double(self, name: str, value: float) -> None:
        self._set_entry(name, value, store_double)

    def set_string(self, name: str, value: str | None) -> None:
        self._set_entry(name, value, store_string)

    def set_bytes(
        self, name: str, value: bytes | bytearray | memoryview | None, offset: int = 0, length: int | None = None
    ) -> None:
        if value is None or (offset == 0 and length is None):
            self._set_entry(name, value, store_bytes)
        else:
            self._set_entry(name, copy_slice(value, offset, length, _ENTRY, name), store_bytes)

    def set_object(self, name: str, value: Boxed | float | bytearray) -> None:
        self._set_entry(name, value, store_object)

    def _set_entry(self, name: str, value: object, store: Store) -> None:
        # A read-only message is reported before a wrong name or value (decision 0202).
        if not self._body_owned:
            self._check_body_writeable()
            self._body = dict(self._body)
            self._body_owned = True
        if type(name) is not str or not name:
            name = _checked_name(name)
        self._body[name] = store(value, _ENTRY, name)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise IllegalArgumentException(
            "a map entry needs a name" if name is None or name == "" else f"a name is a str, not {type(name).__name__}"
        )
    return str.__str__(name)


_PROTOCOL = 5


class JmsObjectMessage(JmsMessage, ObjectMessage):
    """A message whose body is a copy of `object`, or None."""

    __slots__ = ()
    kind = BodyKind.OBJECT
    _body: ObjectBody | None

    def __init__(self, object: Any = None) -> None:
        JmsMessage.__init__(self)
        self._body = _pickled(object)

    @property
    def object(self) -> Any:
        body = self._body
        if body is None:
            return None
        try:
            if body.local:
                return pickle.loads(body.data)  # noqa: S301  made by this process, never seen by another one
            return TrustingUnpickler(body.data, self._trusted()).load()
        # This error already names the problem, such as a class that is not trusted.
        except MessageFormatException:
            raise
        except Exception as error:
            raise MessageFormatException(f"the object cannot be decoded: {reason_of(error)}") from error

    @object.setter
    def object(self, object: Any) -> None:
        self._check_body_writeable()
        self._body = _pickled(object)

    def _whole_body(self) -> Any:
        return self.object

    def _trusted(self) -> TrustedClasses:
        return frozenset() if self._context is None else self._context.trusted


def _pickled(object: Any) -> ObjectBody | None:
    if object is None:
        return None
    # The object is pickled when it is set: a change of it afterwards must not reach the message (§3.12).
    try:
        data = pickle.dumps(object, _PROTOCOL)
    # The methods of an application's class run here, and may raise anything.
    except Exception as error:
        raise MessageFormatException(
            f"{type(object).__name__} cannot be pickled, so no ObjectMessage can carry it: {reason_of(error)}"
        ) from error
    return ObjectBody(data, local=True)
