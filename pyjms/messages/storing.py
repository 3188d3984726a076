"""What may be written into properties and bodies: each value checked, copied, and turned into its stored form.

A plain ``int`` is stored for an Int and a plain ``float`` for a Double; the other types keep their class. Each function
takes the value and, for the reason of a `MessageFormatException`, what it was meant for: a word and a name. Where Java
widens, so do these: an ``int`` will do for a float. ``bool`` is no number here, as in Java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pyjms.errors import IndexOutOfBoundsException, MessageFormatException
from pyjms.messages.java_text import shorten, single_of_integer
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored

Store: TypeAlias = Callable[[object, str, object], Stored]

_LONG_DIGITS = 64
_BUFFERS = (bytes, bytearray, memoryview)


def _refuse(value: object, wanted: str, what: str, name: object) -> MessageFormatException:
    return MessageFormatException(f"{what} {name!r} takes {wanted}, not {type(value).__name__}")


def _integral(value: object, kind: type[Byte | Short | Int | Long], what: str, name: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refuse(value, f"an int in the range of {kind.__name__}", what, name)
    number = int.__int__(value)
    if not kind.minimum <= number <= kind.maximum:
        shown = str(number) if number.bit_length() <= _LONG_DIGITS else f"an int of {number.bit_length()} bits"
        raise MessageFormatException(
            f"{what} {name!r}: {shown} is outside the range of {kind.__name__.lower()}, {kind.minimum} to {kind.maximum}"
        )
    return number


def store_boolean(value: object, what: str, name: object) -> bool:
    """Check a boolean."""
    if value is True or value is False:
        return value is True
    raise _refuse(value, "a bool", what, name)


def store_byte(value: object, what: str, name: object) -> Byte:
    """Check a byte."""
    return int.__new__(Byte, _integral(value, Byte, what, name))


def store_short(value: object, what: str, name: object) -> Short:
    """Check a short."""
    return int.__new__(Short, _integral(value, Short, what, name))


def store_int(value: object, what: str, name: object) -> int:
    """Check an int."""
    if type(value) is int and -0x80000000 <= value <= 0x7FFFFFFF:
        return value
    return _integral(value, Int, what, name)


def store_long(value: object, what: str, name: object) -> Long:
    """Check a long."""
    return int.__new__(Long, _integral(value, Long, what, name))


def store_float(value: object, what: str, name: object) -> Float:
    """Check a float and round it to 32 bits."""
    if isinstance(value, float):
        return Float(float.__float__(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return Float(single_of_integer(_integral(value, Long, what, name)))
    raise _refuse(value, "a float", what, name)


def store_double(value: object, what: str, name: object) -> float:
    """Check a double."""
    if type(value) is float:
        return value
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(_integral(value, Long, what, name))
    raise _refuse(value, "a float", what, name)


def store_char(value: object, what: str, name: object) -> Char:
    """Check a char: one UTF-16 unit."""
    if type(value) is Char:
        return value
    if not isinstance(value, str):
        raise _refuse(value, "a str of one character", what, name)
    if len(value) != 1 or ord(value) > 0xFFFF:
        raise MessageFormatException(f"{what} {name!r}: {shorten(str.__str__(value))} is not one 16-bit character")
    return Char(str.__str__(value))


def store_string(value: object, what: str, name: object) -> str | None:
    """Check a text, or None."""
    if value is None or type(value) is str:
        return value
    if not isinstance(value, str):
        raise _refuse(value, "a str or None", what, name)
    return str.__str__(value)


def store_bytes(value: object, what: str, name: object) -> bytes | None:
    """Check and copy bytes, or None."""
    return None if value is None else copy_bytes(value, what, name)


def copy_bytes(value: object, what: str, name: object) -> bytes:
    """Return the content of a ``bytes``, ``bytearray`` or ``memoryview`` as it is now (JMS 1.1 §3.12)."""
    if type(value) is bytes:
        return value
    if not isinstance(value, _BUFFERS):
        raise _refuse(value, "bytes", what, name)
    return memoryview(value).tobytes()


def copy_slice(value: object, offset: int, length: int | None, what: str, name: object) -> bytes:
    """Return `length` bytes from `offset` on; None: to the end. Raises `IndexOutOfBoundsException`."""
    content = copy_bytes(value, what, name)
    end = len(content) if length is None else offset + length
    if not 0 <= offset <= end <= len(content):
        raise IndexOutOfBoundsException(
            f"offset {offset} and length {'to the end' if length is None else length} do not lie within "
            f"{len(content)} bytes"
        )
    return content[offset:end]


_BY_CLASS: dict[type, Store] = {
    bool: store_boolean,
    Byte: store_byte,
    Short: store_short,
    Int: store_int,
    Long: store_long,
    Float: store_float,
    Double: store_double,
    float: store_double,
    str: store_string,
    Char: store_char,
    bytes: copy_bytes,
    bytearray: copy_bytes,
    memoryview: copy_bytes,
}
_NO_PROPERTIES = (Char, *_BUFFERS)
_IN_PROPERTIES = "a bool, number, str or None"


def store_object(value: object, what: str, name: object, wanted: str = "a bool, number, str, bytes or None") -> Stored:
    """Check a value of any type that a body holds, or None (JMS 1.1 §3.11.3).

    A plain ``int`` becomes an Int where it fits 32 bits, else a Long; a subclass counts as what it is a subclass of. `wanted`: what the
    error says that may be there.
    """
    if value is None:
        return None
    store = _BY_CLASS.get(type(value))
    if store is not None:
        return store(value, what, name)
    if isinstance(value, int):
        number = int.__int__(value)
        return number if Int.minimum <= number <= Int.maximum else store_long(number, what, name)
    for kind in (float, str, bytes, bytearray):
        if isinstance(value, kind):
            return _BY_CLASS[kind](value, what, name)
    raise _refuse(value, wanted, what, name)


def store_property(value: object, what: str, name: object) -> Stored:
    """Check a value of any type that a property has, or None: neither char nor bytes (JMS 1.1 §3.5.5)."""
    if isinstance(value, _NO_PROPERTIES):
        raise _refuse(value, _IN_PROPERTIES, what, name)
    return store_object(value, what, name, _IN_PROPERTIES)
