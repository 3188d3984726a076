"""Texts as Java makes, reads and cuts them."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from functools import lru_cache
from typing import Any

from pyjms.errors import IllegalArgumentException, NullPointerException, NumberFormatException
from pyjms.messages import java_text
from pyjms.porting.java.errors import (
    StringIndexOutOfBoundsException,
    UnsupportedCharsetException,
    UnsupportedEncodingException,
    java_class_name,
    message_of,
)
from pyjms.types import Float

__all__ = [
    "StringBuilder",
    "bytes_of",
    "charset_for_name",
    "compare",
    "compare_ignoring_case",
    "decode_int",
    "equals_ignore_case",
    "hash_of_text",
    "index_of",
    "is_blank",
    "lower",
    "parse_boolean",
    "parse_byte",
    "parse_double",
    "parse_float",
    "parse_int",
    "parse_long",
    "parse_short",
    "repeated",
    "substring",
    "text",
    "text_of_bytes",
    "text_of_char_at",
    "text_of_double",
    "text_of_float",
    "trim",
    "upper",
]

text_of_double = java_text.format_double
text_of_float = java_text.format_single


def text(value: object) -> str:
    """Return the text of any value, null among them."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(int(value))
    if isinstance(value, float):
        return text_of_float(value) if isinstance(value, Float) else text_of_double(value)
    own: Any = getattr(value, "toString", None)
    if isinstance(value, BaseException) and (own is None or _is_ours(own)):
        name, reason = java_class_name(type(value)), message_of(value)
        return name if reason is None else f"{name}: {reason}"
    if own is not None:
        return "null" if (made := own()) is None else str(made)
    return _text_of_collection(value)


def _is_ours(method: object) -> bool:
    return getattr(method, "__module__", "").startswith("pyjms.api.")


def _text_of_collection(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(key)}={text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, tuple):  # an entry of a map
        return "=".join(map(text, value))
    if isinstance(value, (list, set, frozenset, deque, KeysView, ValuesView, ItemsView)):
        return "[" + ", ".join(map(text, value)) + "]"
    if type(value).__module__ == "pyjms.porting.java.queues":
        return "[" + ", ".join(map(text, value)) + "]"  # type: ignore[call-overload]  # all of them are collections
    if type(value) is object:
        return f"java.lang.Object@{id(value) & 0xFFFF_FFFF:x}"
    if type(value).__repr__ is object.__repr__ and type(value).__str__ is object.__str__:
        return f"{java_class_name(type(value))}@{id(value) & 0xFFFF_FFFF:x}"
    return str(value)


def parse_int(value: str | None, radix: int = 10) -> int:
    """Return ``Integer.parseInt``. Raises `NumberFormatException`."""
    return _parse(value, radix, 32, "int")


def parse_long(value: str | None, radix: int = 10) -> int:
    """Return ``Long.parseLong``. Raises `NumberFormatException`."""
    return _parse(value, radix, 64, "long")


def parse_short(value: str | None) -> int:
    """Return ``Short.parseShort``. Raises `NumberFormatException`."""
    return _narrow(value, 16)


def parse_byte(value: str | None) -> int:
    """Return ``Byte.parseByte``. Raises `NumberFormatException`."""
    return _narrow(value, 8)


def _narrow(value: str | None, bits: int) -> int:
    number = parse_int(value)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise NumberFormatException(f'Value out of range. Value:"{value}" Radix:10')
    return number


def _parse(value: str | None, radix: int, bits: int, kind: str) -> int:
    if value is None:
        raise NumberFormatException("Cannot parse null string")
    wrong = NumberFormatException(f'For input string: "{value}"' + (f" under radix {radix}" if radix != 10 else ""))
    if radix == 10:
        try:
            return java_text.parse_integral(value, bits, kind)
        except NumberFormatException:
            raise wrong from None
    if not re.fullmatch(r"[+-]?[0-9A-Za-z]+", value):
        raise wrong
    try:
        number = int(value, radix)
    except ValueError:
        raise wrong from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise wrong
    return number


def decode_int(value: str) -> int:
    """Return ``Integer.decode``: with ``0x``, ``#`` or ``0`` in front of other digits than decimal ones."""
    sign, digits = (value[0], value[1:]) if value[:1] in {"-", "+"} else ("", value)
    for prefix, radix in (("0x", 16), ("0X", 16), ("#", 16), ("0", 8)):
        if digits.startswith(prefix) and len(digits) > len(prefix):
            return parse_int(sign + digits[len(prefix) :], radix)
    return parse_int(value)


def parse_double(value: str | None) -> float:
    """Return ``Double.parseDouble``. Raises `NumberFormatException`."""
    return _parse_floating(value, java_text.parse_double)


def parse_float(value: str | None) -> float:
    """Return ``Float.parseFloat``. Raises `NumberFormatException`."""
    return _parse_floating(value, java_text.parse_single)


def _parse_floating(value: str | None, parse: Callable[[str], float]) -> float:
    if value is None:
        raise NullPointerException('Cannot invoke "String.trim()" because "in" is null')
    if not value.strip():
        raise NumberFormatException("empty String")
    try:
        return parse(value)
    except NumberFormatException:
        raise NumberFormatException(f'For input string: "{trim(value)}"') from None


def parse_boolean(value: str | None) -> bool:
    """Return whether it is ``true``, in any case."""
    return value is not None and java_text.parse_boolean(value)


def _known(value: str | None) -> str:
    if value is None:
        raise NullPointerException("a method of a String that is null")
    return value


def substring(value: str, begin: int, end: int | None = None) -> str:
    """Return ``value.substring(begin, end)``. Raises `IndexOutOfBoundsException`, where slices of Python give less."""
    stop = len(value) if end is None else end
    if not 0 <= begin <= stop <= len(value):
        raise StringIndexOutOfBoundsException(f"begin {begin}, end {stop}, length {len(value)}")
    return value[begin:stop]


def text_of_char_at(value: str, index: int) -> str:
    """Return ``value.charAt(index)``."""
    if not 0 <= index < len(value):
        raise StringIndexOutOfBoundsException(f"String index out of range: {index}")
    return value[index]


def trim(value: str) -> str:
    """Return ``value.trim()``: without control characters and spaces at both ends."""
    return value.strip("".join(map(chr, range(0x21))))


def index_of(value: str, part: str, begin: int = 0) -> int:
    """Return ``value.indexOf(part, begin)``."""
    return value.find(part, min(max(begin, 0), len(value)))


def equals_ignore_case(one: str, other: str | None) -> bool:
    """Return ``one.equalsIgnoreCase(other)``."""
    return other is not None and len(one) == len(other) and _folded(_known(one)) == _folded(other)


def _folded(value: str) -> list[str]:
    return [lower(upper(letter)) for letter in value]


def upper(letter: str) -> str:
    """Return ``Character.toUpperCase(letter)``: itself, where it would become two."""
    made = letter.upper()
    return made if len(made) == 1 else letter


def lower(letter: str) -> str:
    """Return ``Character.toLowerCase(letter)``."""
    made = letter.lower()
    return made if len(made) == 1 else letter


def compare(one: str, other: str) -> int:
    """Return ``one.compareTo(other)``."""
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            return ord(mine) - ord(its)
    return len(one) - len(other)


@lru_cache(maxsize=64)
def charset_named(name: str) -> str:
    """Return Python's codec of a charset. Raises `UnsupportedEncodingException`."""
    try:
        found = codecs.lookup(name)
        "".encode(name)  # which raises where it is no charset, such as rot13
    except (LookupError, ValueError):
        raise UnsupportedEncodingException(name) from None
    return "utf-16-be-with-mark" if found.name == "utf-16" else found.name


def charset_for_name(name: str) -> str:
    """Return ``Charset.forName``. Raises `UnsupportedCharsetException`."""
    try:
        charset_named(name)
    except UnsupportedEncodingException:
        raise UnsupportedCharsetException(name) from None
    return name


def bytes_of(value: str, charset: str = "UTF-8") -> bytes:
    """Return ``value.getBytes(charset)``; what the charset lacks is a question mark."""
    name = charset_named(charset)
    if name == "utf-16-be-with-mark":  # Java writes the mark, and the higher byte first
        return b"\xfe\xff" + value.encode("utf-16-be", "replace")
    return value.encode(name, "replace")


def text_of_bytes(value: bytes | bytearray, charset: str = "UTF-8") -> str:
    """Return ``new String(value, charset)``."""
    name = charset_named(charset)
    return bytes(value).decode("utf-16" if name == "utf-16-be-with-mark" else name, "replace")


class StringBuilder:
    """java.lang.StringBuilder, and StringBuffer. What is appended is a text already."""

    def __init__(self, value: str = "") -> None:
        self._text = value

    def append(self, value: str) -> StringBuilder:
        """Add to the end."""
        self._text += value
        return self

    def insert(self, index: int, value: str) -> StringBuilder:
        """Add in front of the character `index`."""
        if not 0 <= index <= len(self._text):
            raise StringIndexOutOfBoundsException(f"offset {index}, length {len(self._text)}")
        self._text = self._text[:index] + value + self._text[index:]
        return self

    def reverse(self) -> StringBuilder:
        """Turn the text round."""
        self._text = self._text[::-1]
        return self

    def length(self) -> int:
        """Return how many characters there are."""
        return len(self._text)

    def setLength(self, length: int) -> None:
        """Cut the text, or fill it up with NUL."""
        if length < 0:
            raise StringIndexOutOfBoundsException(f"String index out of range: {length}")
        self._text = self._text[:length].ljust(length, "\0")

    def charAt(self, index: int) -> str:
        """Return a character."""
        return self._text[self._index(index)]

    def setCharAt(self, index: int, letter: str) -> None:
        """Replace a character."""
        place = self._index(index)
        self._text = self._text[:place] + letter + self._text[place + 1 :]

    def deleteCharAt(self, index: int) -> StringBuilder:
        """Take a character out."""
        place = self._index(index)
        self._text = self._text[:place] + self._text[place + 1 :]
        return self

    def delete(self, start: int, end: int) -> StringBuilder:
        """Take characters out."""
        return self.replace(start, end, "")

    def replace(self, start: int, end: int, value: str) -> StringBuilder:
        """Put a text in the place of characters."""
        end = min(end, len(self._text))
        if not 0 <= start <= end:
            raise StringIndexOutOfBoundsException(f"start {start}, end {end}, length {len(self._text)}")
        self._text = self._text[:start] + value + self._text[end:]
        return self

    def substring(self, start: int, end: int | None = None) -> str:
        """Return a part of the text."""
        stop = len(self._text) if end is None else end
        if not 0 <= start <= stop <= len(self._text):
            raise StringIndexOutOfBoundsException(f"start {start}, end {stop}, length {len(self._text)}")
        return self._text[start:stop]

    def indexOf(self, part: str) -> int:
        """Return where a part begins, or -1."""
        return self._text.find(part)

    def toString(self) -> str:
        """Return the text."""
        return self._text

    def _index(self, index: int) -> int:
        if not 0 <= index < len(self._text):
            raise StringIndexOutOfBoundsException(f"index {index}, length {len(self._text)}")
        return index


def hash_of_text(value: str) -> int:
    """Return ``value.hashCode()``."""
    made = 0
    for letter in value:
        made = made * 31 + ord(letter) & 0xFFFF_FFFF
    return made - (1 << 32) if made >= 1 << 31 else made


def is_blank(value: str) -> bool:
    """Return whether there is nothing but white space."""
    return not value.strip()


def repeated(value: str, times: int) -> str:
    """Return a text several times: ``value.repeat(times)``."""
    if times < 0:
        raise IllegalArgumentException(f"count is negative: {times}")
    return value * times


def compare_ignoring_case(one: str, other: str) -> int:
    """Return ``one.compareToIgnoreCase(other)``."""
    return compare("".join(_folded(one)), "".join(_folded(other)))
