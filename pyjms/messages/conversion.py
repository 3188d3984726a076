"""The conversion table of JMS 1.1 §3.5.4 and §3.11.3, as data: the types as which each value may be read and written.

A `JavaType` is one column of the table: it reads all types that its rows allow. Properties, map bodies and stream bodies use
the same table; the first have neither char nor byte[]. Values come in their stored form (`pyjms.types.Stored`) and
leave with the class of their Java type.

The ``store_…`` functions check and copy a value that is written, and return its stored form. A plain ``int`` is stored for an Int and a
plain ``float`` for a Double; the other types keep their class. Each function takes the value and, for the reason of a
`MessageFormatException`, its use: a word and a name. Where Java widens, so do these: an ``int`` is accepted for a float.
``bool`` is no number here, as in Java.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from pyjms.errors import IndexOutOfBoundsException, MessageFormatException, NullPointerException, NumberFormatException
from pyjms.messages.java_text import (
    format_double,
    format_single,
    parse_boolean,
    parse_double,
    parse_integral,
    parse_single,
    shorten,
    single_of_integer,
)
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: a value that was written as `written` can be read as each of `readable`."""

    written: str
    readable: frozenset[str]
    section: str


def _row(written: str, readable: str, section: str = "§3.5.4, §3.11.3") -> Row:
    return Row(written, frozenset(readable.split()), section)


TABLE = (
    _row("boolean", "boolean String"),
    _row("byte", "byte short int long String"),
    _row("short", "short int long String"),
    _row("char", "char String", "§3.11.3"),
    _row("int", "int long String"),
    _row("long", "long String"),
    _row("float", "float double String"),
    _row("double", "double String"),
    _row("String", "boolean byte short int long float double String"),
    _row("byte[]", "byte[]", "§3.11.3"),
)

_STORED_AS: Mapping[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "byte": (Byte,),
    "short": (Short,),
    "char": (Char,),
    "int": (int, Int),
    "long": (Long,),
    "float": (Float,),
    "double": (float, Double),
    "String": (str,),
    "byte[]": (bytes,),
}
"""The classes of stored values; the plain ones first, the boxed ones for providers that box."""

_WRITTEN = {kind: name for name, kinds in _STORED_AS.items() for kind in kinds}

_AS_TEXT: Mapping[str, Callable[[Any], str]] = {
    "boolean": lambda value: "true" if value else "false",
    "char": str.__str__,
    "float": format_single,
    "double": format_double,
    "String": lambda value: value,
}
"""The conversion of each type to a String; integers as Python writes them."""


def written_type(value: Stored) -> str:
    """Return the name of the Java type as which `value` was written."""
    return "null" if value is None else _WRITTEN.get(type(value), type(value).__name__)


class JavaType(Generic[T]):
    """A type as which values are read: its rows of the table, ready for use."""

    __slots__ = ("_converters", "_null", "name")

    def __init__(
        self, name: str, construct: Callable[[Any], T], parse: Callable[[str], T] | None, null: T | type[Exception]
    ) -> None:
        self.name = name
        self._null = null
        self._converters: dict[type, Callable[[Any], T]] = {}
        for row in TABLE:
            if name not in row.readable:
                continue
            convert = parse if row.written == "String" and parse is not None else construct
            if name == "String":
                # Whole numbers have one text in Java and Python; `int.__repr__` is that of the plain
                # number, for any class.
                convert = _AS_TEXT.get(row.written, int.__repr__)  # type: ignore[assignment]
            self._converters.update(dict.fromkeys(_STORED_AS[row.written], convert))

    def read(self, value: Stored, what: str, name: object) -> T:
        """Return `value` as this type; `what` and `name` identify the value in an error's reason.

        Raises `MessageFormatException` if the table has no such conversion, `NumberFormatException` for a text that
        is no number; None reads as ``valueOf(null)`` does (§3.5.4), with its `NullPointerException` where that raises one.
        """
        # The exact class decides: a bool is an int to isinstance(), and is no number to Java.
        convert = self._converters.get(type(value))
        if convert is None:
            return self._read_rest(value, what, name)
        try:
            return convert(value)
        except NumberFormatException as error:
            raise NumberFormatException(f"{what} {name!r}: {error}") from None

    def _read_rest(self, value: Stored, what: str, name: object) -> T:
        if value is not None:
            raise MessageFormatException(
                f"{what} {name!r} was written as {written_type(value)}, which cannot be read as {self.name} "
                "(JMS 1.1 §3.5.4, §3.11.3)"
            )
        null = self._null
        if isinstance(null, type) and issubclass(null, Exception):
            raise null(f"{what} {name!r} does not exist or is null: there is no {self.name} to read (JMS 1.1 §3.5.4)")
        return null  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<JavaType {self.name}>"


def _integral(kind: type[T], name: str, bits: int) -> JavaType[T]:
    construct = int.__new__

    def parse(text: str) -> T:
        return construct(kind, parse_integral(text, bits, name))  # type: ignore[type-var]

    # stored values are in range, and the table only widens: no second check
    return JavaType(name, lambda value: construct(kind, value), parse, NumberFormatException)  # type: ignore[type-var]


BOOLEAN: JavaType[bool] = JavaType("boolean", bool, parse_boolean, null=False)
BYTE: JavaType[Byte] = _integral(Byte, "byte", 8)
SHORT: JavaType[Short] = _integral(Short, "short", 16)
INT: JavaType[Int] = _integral(Int, "int", 32)
LONG: JavaType[Long] = _integral(Long, "long", 64)
FLOAT: JavaType[Float] = JavaType(
    "float", lambda value: float.__new__(Float, value), lambda text: Float(parse_single(text)), NullPointerException
)
DOUBLE: JavaType[Double] = JavaType("double", Double, lambda text: Double(parse_double(text)), NullPointerException)
CHAR: JavaType[Char] = JavaType("char", lambda value: value, None, NullPointerException)
STRING: JavaType[str | None] = JavaType("String", str, None, null=None)
BYTES: JavaType[bytes | None] = JavaType("byte[]", bytes, None, null=None)


Store: TypeAlias = Callable[[object, str, object], Stored]

_LONG_DIGITS = 64
_BUFFERS = (bytes, bytearray, memoryview)


def _refuse(value: object, wanted: str, what: str, name: object) -> MessageFormatException:
    return MessageFormatException(f"{what} {name!r} takes {wanted}, not {type(value).__name__}")


def _checked_integral(value: object, kind: type[Byte | Short | Int | Long], what: str, name: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refuse(value, f"an int in the range of {kind.__name__}", what, name)
    # The plain number is stored: an enumeration's member, for instance, has a class and methods of its own.
    number = int.__int__(value)
    if not kind.minimum <= number <= kind.maximum:
        # `str()` of a huge number takes time by the square of its length, and raises beyond 4,300 digits.
        shown = str(number) if number.bit_length() <= _LONG_DIGITS else f"an int of {number.bit_length()} bits"
        raise MessageFormatException(
            f"{what} {name!r}: {shown} is outside the range of {kind.__name__.lower()}, {kind.minimum} to {kind.maximum}"
        )
    return number


def store_boolean(value: object, what: str, name: object) -> bool:
    """Check a boolean."""
    # Identity is checked: 1 and 0 are equal to these two, and no boolean to Java.
    if value is True or value is False:
        return value is True
    raise _refuse(value, "a bool", what, name)


def store_byte(value: object, what: str, name: object) -> Byte:
    """Check a byte."""
    return int.__new__(Byte, _checked_integral(value, Byte, what, name))


def store_short(value: object, what: str, name: object) -> Short:
    """Check a short."""
    return int.__new__(Short, _checked_integral(value, Short, what, name))


def store_int(value: object, what: str, name: object) -> int:
    """Check an int."""
    if type(value) is int and -0x80000000 <= value <= 0x7FFFFFFF:
        return value
    return _checked_integral(value, Int, what, name)


def store_long(value: object, what: str, name: object) -> Long:
    """Check a long."""
    return int.__new__(Long, _checked_integral(value, Long, what, name))


def store_float(value: object, what: str, name: object) -> Float:
    """Check a float and round it to 32 bits."""
    if isinstance(value, float):
        return Float(float.__float__(value))
    if isinstance(value, int) and not isinstance(value, bool):
        # The number is rounded once: through a double a long would be rounded twice.
        return Float(single_of_integer(_checked_integral(value, Long, what, name)))
    raise _refuse(value, "a float", what, name)


def store_double(value: object, what: str, name: object) -> float:
    """Check a double."""
    if type(value) is float:
        return value
    if isinstance(value, float):
        return float.__float__(value)
    # Where Java widens, an int is accepted (decision 0202).
    if isinstance(value, int) and not isinstance(value, bool):
        return float(_checked_integral(value, Long, what, name))
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
    # Bytes never change, so they are shared and not copied.
    if type(value) is bytes:
        return value
    if not isinstance(value, _BUFFERS):
        raise _refuse(value, "bytes", what, name)
    return memoryview(value).tobytes()


def copy_slice(value: object, offset: int, length: int | None, what: str, name: object) -> bytes:
    """Return `length` bytes from `offset` on; None: to the end. Raises `IndexOutOfBoundsException`."""
    content = copy_bytes(value, what, name)
    end = len(content) if length is None else offset + length
    # One chain of comparisons refuses a negative offset and a negative length, too.
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

    A plain ``int`` becomes an Int if it fits 32 bits, otherwise a Long; a subclass counts as its base class. `wanted`: the
    accepted types, for the error.
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
