"""Values of AMQP as bytes, and back (part 1, types).

Each type has one Python type, so that a value that is read and written again keeps its type:

| AMQP | Python |
|---|---|
| null, boolean, string, binary, list, map | ``None``, ``bool``, ``str``, ``bytes``, ``list``, ``dict`` |
| int, double | ``int``, ``float`` |
| byte, short, long, float, char | the classes of `pyjms.types` |
| ubyte, ushort, uint, ulong, timestamp, symbol, uuid | `UByte`, `UShort`, `UInt`, `ULong`, `Timestamp`, `Symbol`, ``uuid.UUID`` |
| decimal32, decimal64, decimal128 | `Decimal`: its bytes, as Python has no such type |
| array, described | `Array`, `Described` |

Readers take the bytes, a position and how many levels of nesting they may go down, and return the value and the position behind it.
A slice behind the end is short without an error in Python, so every caller compares the last position with the length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeAlias
from uuid import UUID

from pyjms.types import Byte, Char, Double, Float, Int, Long, Short
from pyjms_provider.amqp.errors import DecodeError, EncodeError, LimitError

NESTING_MAX: Final = 32
"""Levels of lists, maps, arrays and descriptors that are read by default."""
_WIDTHLESS_MAX: Final = 65_536
"""Items of an array whose items take no bytes: its size limits no other array's count."""


class Symbol(str):
    """A name of ASCII characters (part 1, 1.6.21)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"


class _Unsigned(int):
    __slots__ = ()
    maximum = 0

    def __new__(cls, value: int = 0) -> Self:
        if not 0 <= value <= cls.maximum:
            raise ValueError(f"{value} is outside the range of {cls.__name__}: 0 to {cls.maximum}")
        return int.__new__(cls, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"


class UByte(_Unsigned):
    """8 bits (part 1, 1.6.3)."""

    __slots__ = ()
    maximum = 2**8 - 1


class UShort(_Unsigned):
    """16 bits (part 1, 1.6.4)."""

    __slots__ = ()
    maximum = 2**16 - 1


class UInt(_Unsigned):
    """32 bits (part 1, 1.6.5)."""

    __slots__ = ()
    maximum = 2**32 - 1


class ULong(_Unsigned):
    """64 bits (part 1, 1.6.6)."""

    __slots__ = ()
    maximum = 2**64 - 1


class Timestamp(int):
    """Milliseconds since 1970 UTC in 64 bits, signed (part 1, 1.6.17)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Timestamp({int(self)})"


@dataclass(frozen=True, slots=True)
class Decimal:
    """A decimal number as its 4, 8 or 16 bytes (part 1, 1.6.13 to 1.6.15)."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor that says what it is (part 1, 1.3.2)."""

    descriptor: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Array:
    """Values of one type (part 1, 1.6.24)."""

    items: tuple[Any, ...]


Reader: TypeAlias = Callable[[bytes, int, int], "tuple[Any, int]"]
Writer: TypeAlias = Callable[[Any], bytes]

_u16 = struct.Struct(">H").unpack_from
_u32 = struct.Struct(">I").unpack_from
_u64 = struct.Struct(">Q").unpack_from
_i16 = struct.Struct(">h").unpack_from
_i32 = struct.Struct(">i").unpack_from
_i64 = struct.Struct(">q").unpack_from
_f32 = struct.Struct(">f").unpack_from
_f64 = struct.Struct(">d").unpack_from
_two_u32 = struct.Struct(">II").unpack_from

# ------------------------------------------------------------------------------------------------------------- reading


def _constant(value: Any) -> Reader:
    return lambda _data, at, _room: (value, at)


def _number(unpack: Callable[[bytes, int], tuple[Any, ...]], width: int, kind: Any = None) -> Reader:
    """Return a reader of `width` bytes; `kind` is a class of numbers, None for those that have none of their own."""
    if kind is None:
        return lambda data, at, _room: (unpack(data, at)[0], at + width)
    # What the bytes can say is in range: the class's own check would say so again for each value.
    make = float.__new__ if issubclass(kind, float) else int.__new__
    return lambda data, at, _room: (make(kind, unpack(data, at)[0]), at + width)


def _octet(values: tuple[Any, ...]) -> Reader:
    """Return a reader of one byte; `values` has what each of the 256 bytes means."""
    return lambda data, at, _room: (values[data[at]], at + 1)


def _unsigned(kind: type) -> Reader:
    return _octet(tuple(kind(number) for number in range(256)))


def _signed(kind: type) -> Reader:
    return _octet(tuple(kind(number - 256 if number > 127 else number) for number in range(256)))


def _boolean(data: bytes, at: int, _room: int) -> tuple[bool, int]:
    octet = data[at]
    if octet > 1:
        raise DecodeError(f"a boolean's octet is 0 or 1, not {octet}")
    return octet == 1, at + 1


def _char(data: bytes, at: int, _room: int) -> tuple[str, int]:
    code = _u32(data, at)[0]
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise DecodeError(f"{code:#x} is no character of Unicode")
    # A Java char has 16 bits; a character beyond them stays a character, as a string.
    return (Char(chr(code)) if code <= 0xFFFF else chr(code)), at + 4


def _uuid(data: bytes, at: int, _room: int) -> tuple[UUID, int]:
    if len(data) < at + 16:
        raise IndexError
    return UUID(bytes=data[at : at + 16]), at + 16


def _decimal(width: int) -> Reader:
    return lambda data, at, _room: (Decimal(data[at : at + width]), at + width)


def _binary8(data: bytes, at: int, _room: int) -> tuple[bytes, int]:
    at += 1
    end = at + data[at - 1]
    return data[at:end], end


def _binary32(data: bytes, at: int, _room: int) -> tuple[bytes, int]:
    end = at + 4 + _u32(data, at)[0]
    return data[at + 4 : end], end


def _string8(data: bytes, at: int, _room: int) -> tuple[str, int]:
    at += 1
    end = at + data[at - 1]
    return data[at:end].decode(), end


def _string32(data: bytes, at: int, _room: int) -> tuple[str, int]:
    end = at + 4 + _u32(data, at)[0]
    return data[at + 4 : end].decode(), end


def _symbol8(data: bytes, at: int, _room: int) -> tuple[Symbol, int]:
    at += 1
    end = at + data[at - 1]
    return Symbol(data[at:end].decode("ascii")), end


def _symbol32(data: bytes, at: int, _room: int) -> tuple[Symbol, int]:
    end = at + 4 + _u32(data, at)[0]
    return Symbol(data[at + 4 : end].decode("ascii")), end


def _bounds8(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the count, where the first item is, and where the last one ends."""
    return data[at + 1], at + 2, at + 1 + data[at]


def _bounds32(data: bytes, at: int) -> tuple[int, int, int]:
    size, count = _two_u32(data, at)
    return count, at + 8, at + 4 + size


def _list(bounds: Callable[[bytes, int], tuple[int, int, int]]) -> Reader:
    def read(data: bytes, at: int, room: int) -> tuple[list[Any], int]:
        if room <= 0:
            raise LimitError("values are nested more deeply than is taken here")
        count, at, end = bounds(data, at)
        if count > end - at:
            raise DecodeError(f"a list of {count} items has {end - at} bytes")
        items = []
        for _ in range(count):
            item, at = READERS[data[at]](data, at + 1, room - 1)
            items.append(item)
        if at != end:
            raise DecodeError("the items of a list do not end where its size says")
        return items, at

    return read


def _map(bounds: Callable[[bytes, int], tuple[int, int, int]]) -> Reader:
    def read(data: bytes, at: int, room: int) -> tuple[dict[Any, Any], int]:
        if room <= 0:
            raise LimitError("values are nested more deeply than is taken here")
        count, at, end = bounds(data, at)
        if count & 1 or count > end - at:
            raise DecodeError(f"a map of {count} keys and values has {end - at} bytes")
        items = {}
        readers = READERS
        room -= 1
        for _ in range(count >> 1):
            code = data[at]
            # Nearly every key, read in place: a call for each took a third of the time of a message's properties.
            if code == 0xA1:
                start = at + 2
                at = start + data[at + 1]
                key: Any = data[start:at].decode()
            else:
                key, at = readers[code](data, at + 1, room)
            value, at = readers[data[at]](data, at + 1, room)
            try:
                items[key] = value
            except TypeError:
                raise DecodeError("the key of a map is a list, a map or an array") from None
        if at != end:
            raise DecodeError("the items of a map do not end where its size says")
        if len(items) << 1 != count:  # keys that are equal in Python: an int and a long of one value, too
            raise DecodeError("a map has a key twice")
        return items, at

    return read


def read_named(data: bytes, at: int, readers: Mapping[int, Reader]) -> dict[str, Any] | None:
    """Return the map at `at` whose keys are short strings, as names of properties are; None: it needs the way of all values.

    A seventh of the time of a message is saved by one loop, without a call for each string and without a look at each value's class.

    Args:
        data: the bytes.
        at: where the map begins, in bytes.
        readers: by format code, for values that hold no others; a map with any other value makes None, as one that is no map does.
    """
    try:
        if data[at] != 0xC1:
            return None
        count, at, end = _bounds8(data, at + 1)
        items: dict[str, Any] = {}
        for _ in range(count >> 1):
            if data[at] != 0xA1:
                return None
            start = at + 2
            at = start + data[at + 1]
            name = data[start:at].decode()
            code = data[at]
            if code == 0xA1:
                start = at + 2
                at = start + data[at + 1]
                items[name] = data[start:at].decode()
            else:
                items[name], at = readers[code](data, at + 1, 0)
    except (IndexError, KeyError, struct.error, UnicodeDecodeError, DecodeError):
        return None
    return items if at == end and len(items) << 1 == count else None


def _array(bounds: Callable[[bytes, int], tuple[int, int, int]]) -> Reader:
    def read(data: bytes, at: int, room: int) -> tuple[Array, int]:
        if room <= 0:
            raise LimitError("values are nested more deeply than is taken here")
        count, at, end = bounds(data, at)
        if end > len(data):  # the items of some types are slices, which have no end
            raise IndexError
        described = data[at] == 0
        descriptor: Any = None
        if described:
            descriptor, at = READERS[data[at + 1]](data, at + 2, room - 1)
        code = data[at]
        at += 1
        if code == 0:
            raise DecodeError("the items of an array have two descriptors")
        reader = READERS[code]
        if code in _WIDTHLESS:
            if count > _WIDTHLESS_MAX:
                raise LimitError(f"an array has more than the {_WIDTHLESS_MAX} items without bytes that are taken here")
        elif count > end - at:
            raise DecodeError(f"an array of {count} items has {end - at} bytes")
        items = []
        for _ in range(count):
            item, at = reader(data, at, room - 1)
            items.append(Described(descriptor, item) if described else item)
        if at != end:
            raise DecodeError("the items of an array do not end where its size says")
        return Array(tuple(items)), at

    return read


def _described(data: bytes, at: int, room: int) -> tuple[Described, int]:
    if room <= 0:
        raise LimitError("values are nested more deeply than is taken here")
    descriptor, at = READERS[data[at]](data, at + 1, room - 1)
    value, at = READERS[data[at]](data, at + 1, room - 1)
    return Described(descriptor, value), at


def _unknown(data: bytes, at: int, _room: int) -> tuple[Any, int]:
    raise DecodeError(f"{data[at - 1]:#04x} is no format code of AMQP 1.0")


_WIDTHLESS = frozenset({0x40, 0x41, 0x42, 0x43, 0x44, 0x45})
READERS: list[Reader] = [_unknown] * 256
"""By format code (part 1, 1.6). They raise `IndexError` and `struct.error` at the end of the bytes: `reading` maps these."""
READERS[0x00] = _described
READERS[0x40] = _constant(None)
READERS[0x41] = _constant(True)
READERS[0x42] = _constant(False)
READERS[0x43] = _constant(UInt(0))
READERS[0x44] = _constant(ULong(0))
READERS[0x45] = lambda _data, at, _room: ([], at)
READERS[0x50] = _unsigned(UByte)
READERS[0x51] = _signed(Byte)
READERS[0x52] = _unsigned(UInt)
READERS[0x53] = _unsigned(ULong)
READERS[0x54] = _signed(int)
READERS[0x55] = _signed(Long)
READERS[0x56] = _boolean
READERS[0x60] = _number(_u16, 2, UShort)
READERS[0x61] = _number(_i16, 2, Short)
READERS[0x70] = _number(_u32, 4, UInt)
READERS[0x71] = _number(_i32, 4)
READERS[0x72] = _number(_f32, 4, Float)
READERS[0x73] = _char
READERS[0x74] = _decimal(4)
READERS[0x80] = _number(_u64, 8, ULong)
READERS[0x81] = _number(_i64, 8, Long)
READERS[0x82] = _number(_f64, 8)
READERS[0x83] = _number(_i64, 8, Timestamp)
READERS[0x84] = _decimal(8)
READERS[0x94] = _decimal(16)
READERS[0x98] = _uuid
READERS[0xA0] = _binary8
READERS[0xA1] = _string8
READERS[0xA3] = _symbol8
READERS[0xB0] = _binary32
READERS[0xB1] = _string32
READERS[0xB3] = _symbol32
READERS[0xC0] = _list(_bounds8)
READERS[0xC1] = _map(_bounds8)
READERS[0xD0] = _list(_bounds32)
READERS[0xD1] = _map(_bounds32)
READERS[0xE0] = _array(_bounds8)
READERS[0xF0] = _array(_bounds32)


def read_value(data: bytes, at: int = 0, nesting_max: int = NESTING_MAX) -> tuple[Any, int]:
    """Return the value at a position, and the position behind it.

    Args:
        data: the bytes.
        at: where the value begins, in bytes.
        nesting_max: levels of lists, maps, arrays and descriptors that are taken.

    Raises:
        DecodeError: the bytes are no value.
        LimitError: the value is nested more deeply, or has more items, than is taken here.
    """
    try:
        value, end = READERS[data[at]](data, at + 1, nesting_max)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise as_decode_error(error) from None
    if end > len(data):
        raise DecodeError("the bytes end within a value")
    return value, end


def as_decode_error(error: Exception) -> DecodeError:
    """Return what an error of Python means that a reader has met."""
    if isinstance(error, UnicodeDecodeError):
        return DecodeError("a string or symbol is not in its encoding")
    return DecodeError("the bytes end within a value")


_FIXED_WIDTHS: Mapping[int, int] = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}


def skip_value(data: bytes, at: int, nesting_max: int = NESTING_MAX) -> int:
    """Return the position behind the value at `at`, which is not decoded. Raises `DecodeError` and `LimitError`."""
    if nesting_max <= 0:
        raise LimitError("values are nested more deeply than is taken here")
    try:
        code = data[at]
        at += 1
        while code == 0:  # the descriptor, which may have one of its own
            at = skip_value(data, at, nesting_max - 1)
            code = data[at]
            at += 1
        kind = code >> 4
        if kind in _FIXED_WIDTHS:
            end = at + _FIXED_WIDTHS[kind]
        elif kind in (0xA, 0xC, 0xE):
            end = at + 1 + data[at]
        elif kind in (0xB, 0xD, 0xF):
            end = at + 4 + _u32(data, at)[0]
        else:
            raise DecodeError(f"{code:#04x} is no format code of AMQP 1.0")
    except (IndexError, struct.error):
        raise DecodeError("the bytes end within a value") from None
    if end > len(data):
        raise DecodeError("the bytes end within a value")
    return end


# ------------------------------------------------------------------------------------------------------------- writing

_OCTETS: Final = tuple(bytes((number,)) for number in range(256))
_pack_u16 = struct.Struct(">BH").pack
_pack_u32 = struct.Struct(">BI").pack
_pack_u64 = struct.Struct(">BQ").pack
_pack_i8 = struct.Struct(">Bb").pack
_pack_i16 = struct.Struct(">Bh").pack
_pack_i32 = struct.Struct(">Bi").pack
_pack_i64 = struct.Struct(">Bq").pack
_pack_f32 = struct.Struct(">Bf").pack
_pack_f64 = struct.Struct(">Bd").pack
_pack_compound = struct.Struct(">BII").pack
NULL: Final = b"\x40"
_SHORT_INTS: Final = {number: _pack_i8(0x54, number) for number in range(-128, 128)}
_SHORT_UINTS: Final = (b"\x43", *(bytes((0x52, number)) for number in range(1, 256)))
_SHORT_STRINGS: Final = tuple(bytes((0xA1, size)) for size in range(256))
"""What comes before the characters of a string, by its size."""


def write_null(_value: None) -> bytes:
    """Write null."""
    return NULL


def write_boolean(value: bool) -> bytes:
    """Write a boolean."""
    return b"\x41" if value else b"\x42"


def write_ubyte(value: int) -> bytes:
    """Write a ubyte."""
    return struct.pack(">BB", 0x50, value)


def write_ushort(value: int) -> bytes:
    """Write a ushort."""
    return _pack_u16(0x60, value)


def write_uint(value: int) -> bytes:
    """Write a uint in its shortest form."""
    return _SHORT_UINTS[value] if 0 <= value < 256 else _pack_u32(0x70, value)


def write_ulong(value: int) -> bytes:
    """Write a ulong in its shortest form."""
    if 0 <= value < 256:
        return b"\x53" + _OCTETS[value] if value else b"\x44"
    return _pack_u64(0x80, value)


def write_int(value: int) -> bytes:
    """Write an int in its shortest form."""
    return _SHORT_INTS.get(value) or _pack_i32(0x71, value)


def write_long(value: int) -> bytes:
    """Write a long in its shortest form."""
    return _pack_i8(0x55, value) if -128 <= value < 128 else _pack_i64(0x81, value)


def write_timestamp(value: int) -> bytes:
    """Write a timestamp."""
    return _pack_i64(0x83, value)


def write_string(value: str) -> bytes:
    """Write a string in its shortest form."""
    data = value.encode()
    size = len(data)
    return _SHORT_STRINGS[size] + data if size < 256 else _pack_u32(0xB1, size) + data


def write_symbol(value: str) -> bytes:
    """Write a symbol in its shortest form."""
    data = value.encode("ascii")
    size = len(data)
    return b"\xa3" + _OCTETS[size] + data if size < 256 else _pack_u32(0xB3, size) + data


def write_binary(value: bytes) -> bytes:
    """Write bytes in their shortest form."""
    size = len(value)
    return b"\xa0" + _OCTETS[size] + value if size < 256 else _pack_u32(0xB0, size) + value


def write_compound(short: int, count: int, items: bytes) -> bytes:
    """Write a list (`short` is 0xC0) or a map (0xC1) of `count` items, which are written already."""
    size = len(items)
    if size < 255 and count < 256:
        return bytes((short, size + 1, count)) + items
    return _pack_compound(short + 0x10, size + 4, count) + items


def write_map(value: Mapping[Any, Any]) -> bytes:
    """Write a map, in the order of its items."""
    writers = WRITERS
    parts = []
    for key, item in value.items():
        parts.append(writers[type(key)](key))
        parts.append(writers[type(item)](item))
    return write_compound(0xC1, len(parts), b"".join(parts))


class _Names(dict[str, bytes]):
    """Strings as they are written, by their text."""

    def __missing__(self, text: str) -> bytes:
        data = write_string(text)
        if len(data) <= _NAME_SIZE_MAX:
            if len(self) >= _NAMES_MAX:
                self.clear()
            self[text] = data
        return data


_NAMES_MAX: Final = 4096
_NAME_SIZE_MAX: Final = 130
NAMES: Final = _Names()
"""The strings that come with many messages: names of properties and of destinations. Bounded in number and size, as clients choose them."""


def write_named(value: Mapping[str, Any]) -> bytes:
    """Write a map whose keys are names of properties or entries, in the order of its items."""
    names, writers = NAMES, WRITERS
    parts: list[bytes] = []
    for name, item in value.items():
        parts += (names[name], writers[type(item)](item))
    return write_compound(0xC1, len(parts), b"".join(parts))


def write_list(value: list[Any] | tuple[Any, ...]) -> bytes:
    """Write a list."""
    if not value:
        return b"\x45"
    writers = WRITERS
    return write_compound(0xC0, len(value), b"".join([writers[type(item)](item) for item in value]))


def _write_char(value: str) -> bytes:
    return _pack_u32(0x73, ord(value))


def _write_decimal(value: Decimal) -> bytes:
    code = {4: b"\x74", 8: b"\x84", 16: b"\x94"}.get(len(value.data))
    if code is None:
        raise EncodeError(f"a decimal has 4, 8 or 16 bytes, not {len(value.data)}")
    return code + value.data


def _write_described(value: Described) -> bytes:
    return b"\x00" + write_value(value.descriptor) + write_value(value.value)


def _write_array(value: Array) -> bytes:
    return write_array(value.items)


# The one form of each type that all values have: the items of an array share a constructor.
_WIDE: Mapping[type, Callable[[Any], bytes]] = {
    type(None): write_null,
    bool: lambda value: b"\x56\x01" if value else b"\x56\x00",
    UByte: write_ubyte,
    UShort: write_ushort,
    UInt: lambda value: _pack_u32(0x70, value),
    ULong: lambda value: _pack_u64(0x80, value),
    int: lambda value: _pack_i32(0x71, value),
    Long: lambda value: _pack_i64(0x81, value),
    str: lambda value: _pack_u32(0xB1, len(data := value.encode())) + data,
    Symbol: lambda value: _pack_u32(0xB3, len(data := value.encode("ascii"))) + data,
    bytes: lambda value: _pack_u32(0xB0, len(value)) + value,
    list: lambda value: _pack_compound(0xD0, len(items := b"".join(map(write_value, value))) + 4, len(value)) + items,
    dict: lambda value: (
        _pack_compound(
            0xD1,
            len(items := b"".join(write_value(each) for pair in value.items() for each in pair)) + 4,
            2 * len(value),
        )
        + items
    ),
    Array: lambda value: write_array(value.items, is_wide=True),
}


def write_array(items: tuple[Any, ...], *, is_wide: bool = False) -> bytes:
    """Write an array. Raises `EncodeError` if its items are of several types, or have descriptors that differ."""
    if not items:
        return b"\xe0\x02\x00\x40" if not is_wide else b"\xf0\x00\x00\x00\x05\x00\x00\x00\x00\x40"
    prefix = b""
    values = items
    if isinstance(items[0], Described):
        descriptor = items[0].descriptor
        if not all(isinstance(each, Described) and each.descriptor == descriptor for each in items):
            raise EncodeError("the items of an array have several descriptors")
        prefix, values = b"\x00" + write_value(descriptor), tuple(each.value for each in items)
    kind = type(values[0])
    if any(type(each) is not kind for each in values):
        raise EncodeError("the items of an array have several types")
    write = _WIDE.get(kind) or WRITERS[kind]
    written = [write(each) for each in values]
    constructor = written[0][:1]
    content = prefix + constructor + b"".join([each[1:] for each in written])
    if not is_wide and len(content) < 255 and len(items) < 256:
        return bytes((0xE0, len(content) + 1, len(items))) + content
    return _pack_compound(0xF0, len(content) + 4, len(items)) + content


class _Writers(dict[type, Writer]):
    def __missing__(self, kind: type) -> Writer:
        raise EncodeError(f"AMQP has no type for a value of the class {kind.__name__}")


WRITERS: Mapping[type, Writer] = _Writers(
    {
        type(None): write_null,
        bool: {True: b"\x41", False: b"\x42"}.__getitem__,
        UByte: write_ubyte,
        UShort: write_ushort,
        UInt: write_uint,
        ULong: write_ulong,
        Byte: partial(_pack_i8, 0x51),
        Short: partial(_pack_i16, 0x61),
        int: write_int,
        Int: write_int,
        Long: write_long,
        Float: partial(_pack_f32, 0x72),
        float: partial(_pack_f64, 0x82),
        Double: partial(_pack_f64, 0x82),
        Decimal: _write_decimal,
        Char: _write_char,
        Timestamp: write_timestamp,
        UUID: lambda value: b"\x98" + value.bytes,
        bytes: write_binary,
        str: write_string,
        Symbol: write_symbol,
        list: write_list,
        tuple: write_list,
        dict: write_map,
        Array: _write_array,
        Described: _write_described,
    }
)
"""By the class of a value."""


def write_value(value: Any) -> bytes:
    """Return a value's bytes, in the shortest form of its type.

    Raises:
        EncodeError: AMQP has no such value.
    """
    try:
        return WRITERS[type(value)](value)
    except (struct.error, UnicodeEncodeError) as error:
        raise EncodeError(f"AMQP cannot say a value of the class {type(value).__name__}: {error}") from None
