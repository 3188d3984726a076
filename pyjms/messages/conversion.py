"""Which value may be read as what: the conversion table of JMS 1.1 §3.5.4 and §3.11.3, as data.

A `JavaType` is one column of the table: it reads whatever its rows allow. Properties, map bodies and stream bodies use
the same table; the first have neither char nor byte[]. Values come in their stored form (`pyjms.types.Stored`) and
leave with the class of their Java type. What may be *written* is decided in `storing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pyjms.errors import MessageFormatException, NullPointerException, NumberFormatException
from pyjms.messages.java_text import (
    format_double,
    format_single,
    parse_boolean,
    parse_double,
    parse_integral,
    parse_single,
)
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: what was written as `written` can be read as each of `readable`."""

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
"""How each type becomes a String; integers as Python writes them."""


def written_type(value: Stored) -> str:
    """Return the name of the Java type that `value` was written as."""
    return "null" if value is None else _WRITTEN.get(type(value), type(value).__name__)


class JavaType(Generic[T]):
    """A type that values are read as: its rows of the table, ready for use."""

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
                convert = _AS_TEXT.get(row.written, int.__repr__)  # type: ignore[assignment]
            self._converters.update(dict.fromkeys(_STORED_AS[row.written], convert))

    def read(self, value: Stored, what: str, name: object) -> T:
        """Return `value` as this type; `what` and `name` tell in an error's reason which value it was.

        Raises `MessageFormatException` where the table has no such conversion, `NumberFormatException` for a text that
        is no number; None reads as ``valueOf(null)`` does (§3.5.4), and `NullPointerException` comes where that raises it.
        """
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

    # what is stored is in range already, and the table only widens: no second check
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
