"""Java's texts: conversion, parsing and substrings, and the regular expressions of java.util.regex."""

from __future__ import annotations

import codecs
import re
from collections import deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from functools import lru_cache
from typing import Any, Final

from pyjms.errors import (
    IllegalArgumentException,
    IndexOutOfBoundsException,
    NullPointerException,
    NumberFormatException,
)
from pyjms.messages import java_text
from pyjms.porting.java.errors import (
    IllegalStateException,
    PatternSyntaxException,
    StringIndexOutOfBoundsException,
    UnsupportedCharsetException,
    UnsupportedEncodingException,
    java_class_name,
    message_of,
)
from pyjms.types import Float

__all__ = [
    "Matcher",
    "Pattern",
    "StringBuilder",
    "bytes_of",
    "charset_for_name",
    "compare",
    "compare_ignoring_case",
    "compiled",
    "decode_int",
    "equals_ignore_case",
    "hash_of_text",
    "index_of",
    "is_blank",
    "lower",
    "matches",
    "parse_boolean",
    "parse_byte",
    "parse_double",
    "parse_float",
    "parse_int",
    "parse_long",
    "parse_short",
    "quote",
    "repeated",
    "replace_all_matches",
    "replace_first_match",
    "split",
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
    """Return the text of any value, also of null."""
    if isinstance(value, str):
        # A plain text for a Char, too, which is a subclass.
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
    # Java's Throwable.toString has the class and the message; a program's own `toString` takes precedence.
    if isinstance(value, BaseException) and (own is None or _is_ours(own)):
        name, reason = java_class_name(type(value)), message_of(value)
        return name if reason is None else f"{name}: {reason}"
    if own is not None:
        # `toString` may return null, which Java writes as "null".
        return "null" if (made := own()) is None else str(made)
    return _text_of_collection(value)


def _is_ours(method: object) -> bool:
    return getattr(method, "__module__", "").startswith(("pyjms.api.", "pyjms.errors"))


def _text_of_collection(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(key)}={text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, tuple):  # an entry of a map
        return "=".join(map(text, value))
    if isinstance(value, (list, set, frozenset, deque, KeysView, ValuesView, ItemsView)):
        return "[" + ", ".join(map(text, value)) + "]"
    if type(value).__module__ == "pyjms.porting.java.collections":
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
    # "0" comes last: it begins the prefixes before it.
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
    """Return ``value.substring(begin, end)``. Raises `IndexOutOfBoundsException`, where Python's slices return less."""
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
    # `strip` without an argument takes other spaces of Unicode as well, which `trim` leaves.
    return value.strip("".join(map(chr, range(0x21))))


def index_of(value: str, part: str, begin: int = 0) -> int:
    """Return ``value.indexOf(part, begin)``."""
    # A negative start counts from the end in Python; Java takes it for 0.
    return value.find(part, min(max(begin, 0), len(value)))


def equals_ignore_case(one: str, other: str | None) -> bool:
    """Return ``one.equalsIgnoreCase(other)``."""
    return other is not None and len(one) == len(other) and _folded(_known(one)) == _folded(other)


def _folded(value: str) -> list[str]:
    # Both cases, as in the JDK: one conversion does not suffice for the Georgian alphabet.
    return [lower(upper(letter)) for letter in value]


def upper(letter: str) -> str:
    """Return ``Character.toUpperCase(letter)``: unchanged, if it would become two characters."""
    made = letter.upper()
    # Java's characters stay single: "ß" has no upper one.
    return made if len(made) == 1 else letter


def lower(letter: str) -> str:
    """Return ``Character.toLowerCase(letter)``."""
    made = letter.lower()
    return made if len(made) == 1 else letter


def compare(one: str, other: str) -> int:
    """Return ``one.compareTo(other)``."""
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            # Java returns the difference, and programs may use its size.
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
    """Return ``value.getBytes(charset)``; characters that the charset lacks become a question mark."""
    name = charset_named(charset)
    if name == "utf-16-be-with-mark":  # Java writes the byte order mark, and the higher byte first
        return b"\xfe\xff" + value.encode("utf-16-be", "replace")
    return value.encode(name, "replace")


def text_of_bytes(value: bytes | bytearray, charset: str = "UTF-8") -> str:
    """Return ``new String(value, charset)``."""
    name = charset_named(charset)
    return bytes(value).decode("utf-16" if name == "utf-16-be-with-mark" else name, "replace")


class StringBuilder:
    """java.lang.StringBuilder, and StringBuffer. Appended values are already texts."""

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
        """Cut the text, or pad it with NUL."""
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
        """Remove a character."""
        place = self._index(index)
        self._text = self._text[:place] + self._text[place + 1 :]
        return self

    def delete(self, start: int, end: int) -> StringBuilder:
        """Remove characters."""
        return self.replace(start, end, "")

    def replace(self, start: int, end: int, value: str) -> StringBuilder:
        """Replace characters by a text."""
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
        # The formula is part of Java's specification (String.hashCode), and stored hash codes depend on it.
        made = made * 31 + ord(letter) & 0xFFFF_FFFF
    return made - (1 << 32) if made >= 1 << 31 else made


def is_blank(value: str) -> bool:
    """Return whether there is only white space."""
    return not value.strip()


def repeated(value: str, times: int) -> str:
    """Return a text several times: ``value.repeat(times)``."""
    if times < 0:
        raise IllegalArgumentException(f"count is negative: {times}")
    return value * times


def compare_ignoring_case(one: str, other: str) -> int:
    """Return ``one.compareToIgnoreCase(other)``."""
    return compare("".join(_folded(one)), "".join(_folded(other)))


_CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Space": r" \t\n\x0b\f\r",
    "Blank": r" \t",
    "XDigit": "0-9a-fA-F",
    "ASCII": r"\x00-\x7f",
    "Cntrl": r"\x00-\x1f\x7f",
}
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\[pP](?:\{\w+\}|\w)|\\.|\(\?<(?![=!])|&&|\[|\]|.", re.DOTALL)
_ESCAPES: Final = {
    "\\h": r"[ \t]",
    "\\R": r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])",
    "\\z": r"\Z",
    "\\Z": r"(?=\n?\Z)",
    "\\e": r"\x1b",
}


_FLAGS: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL
"""Flags with a number in `Pattern`, which the tables write as Python's."""


@lru_cache(maxsize=256)
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a Java pattern as a Python one. Raises `PatternSyntaxException`, also for syntax that Python lacks."""
    try:
        # `\d`, `\w` and CASE_INSENSITIVE of Java mean ASCII, unless a flag for Unicode is given.
        return re.compile("".join(_tokens(pattern)), flags & _FLAGS | re.ASCII)
    except re.error as error:
        place = f" near index {error.pos}" if error.pos is not None else ""
        raise PatternSyntaxException(f"{error.msg[:1].upper()}{error.msg[1:]}{place}\n{pattern}") from None


def _tokens(pattern: str) -> Iterator[str]:
    depth = 0
    for match in _TOKEN.finditer(pattern):
        part = match[0]
        # Python would take the intersection for two ampersands and match something else, without an error.
        if part == "&&" and depth:
            raise PatternSyntaxException(f"&& in a class of characters, which Python has not\n{pattern}")
        # Java reads a nested class as a union, Python as a bracket.
        if part == "[" and depth:
            raise PatternSyntaxException(f"a class of characters in another one, which Python has not\n{pattern}")
        # A bracket that closes nothing is a literal.
        depth += (part == "[") - (part == "]" and depth > 0)
        if part.startswith("\\Q"):
            yield re.escape(part[2:].removesuffix("\\E"))
        elif part == "(?<":
            yield "(?P<"
        elif part == "\\k":
            raise PatternSyntaxException(f"a reference to a named group, which Python writes otherwise\n{pattern}")
        elif part[:2] in {"\\p", "\\P"} and len(part) > 2:
            found = _CLASSES.get(part[2:].strip("{}"))
            if found is None or (depth and part[1] == "P"):
                raise PatternSyntaxException(f"the class {part}, which Python has not\n{pattern}")
            # Within a class the brackets already exist.
            yield found if depth else f"[{'^' if part[1] == 'P' else ''}{found}]"
        # These match several characters or a position, which a class cannot contain.
        elif not depth and part in _ESCAPES:
            yield _ESCAPES[part]
        else:
            yield part


def _replaced(match: re.Match[str], replacement: str) -> str:
    """Return a replacement with its group references resolved."""

    def put(part: re.Match[str]) -> str:
        if part[1]:
            return part[1]
        name = part[3] or part[2]
        try:
            # A group that did not participate counts as empty in Java's replacement.
            return match[int(name) if name.isdecimal() else name] or ""
        except IndexError:
            raise IndexOutOfBoundsException(f"No group {name}") from None

    return re.sub(r"\\(.)|\$(?:(\d)|\{(\w+)\})", put, replacement, flags=re.DOTALL)


def replace_all_matches(value: str, pattern: str, replacement: str) -> str:
    """Return ``value.replaceAll(pattern, replacement)``."""
    # A function, as Python's own replacement syntax has backslashes where Java has `$`.
    return compiled(pattern).sub(lambda match: _replaced(match, replacement), value)


def replace_first_match(value: str, pattern: str, replacement: str) -> str:
    """Return ``value.replaceFirst(pattern, replacement)``."""
    return compiled(pattern).sub(lambda match: _replaced(match, replacement), value, count=1)


def matches(value: str, pattern: str) -> bool:
    """Return ``value.matches(pattern)``."""
    return compiled(pattern).fullmatch(value) is not None


def quote(value: str) -> str:
    """Return the pattern of a text."""
    return re.escape(value)


def split(value: str, pattern: str, limit: int = 0) -> list[str]:
    """Return ``value.split(pattern, limit)``."""
    return _split(value, compiled(pattern), limit)


def _split(value: str, pattern: re.Pattern[str], limit: int) -> list[str]:
    parts: list[str] = []
    place = 0
    for match in pattern.finditer(value):
        if limit > 0 and len(parts) == limit - 1:
            break
        # Java makes no empty part of an empty match at the start, nor at the end.
        if match.end() == 0 or (match.start() == match.end() == len(value)):
            continue
        parts.append(value[place : match.start()])
        place = match.end()
    # Without a match the text itself is the only part, even if it is empty.
    if not parts:
        return [value]
    parts.append(value[place:])
    # Without a limit Java drops empty parts at the end only.
    while limit == 0 and parts and not parts[-1]:
        parts.pop()
    return parts


class Pattern:
    """java.util.regex.Pattern."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._text = pattern
        self._pattern = compiled(pattern, flags)

    def pattern(self) -> str:
        """Return the pattern as it was given."""
        return self._text

    def toString(self) -> str:
        """Return the pattern as it was given."""
        return self._text

    def matcher(self, value: str) -> Matcher:
        """Return what looks for it in a text."""
        return Matcher(self._pattern, value)

    def split(self, value: str) -> list[str]:
        """Return the parts of a text between its occurrences."""
        return _split(value, self._pattern, 0)


class Matcher:
    """java.util.regex.Matcher."""

    def __init__(self, pattern: re.Pattern[str], value: str) -> None:
        self._pattern = pattern
        self._value = value
        self._match: re.Match[str] | None = None
        self._place = 0

    def matches(self) -> bool:
        """Return whether the whole text matches the pattern."""
        self._match = self._pattern.fullmatch(self._value)
        return self._match is not None

    def lookingAt(self) -> bool:
        """Return whether the start of the text matches the pattern."""
        self._match = self._pattern.match(self._value)
        return self._match is not None

    def find(self) -> bool:
        """Find the next match, and return whether there is one."""
        self._match = self._pattern.search(self._value, self._place) if self._place <= len(self._value) else None
        if self._match is not None:
            # After an empty match one character is passed, or `find` would return it without end.
            self._place = self._match.end() + (self._match.end() == self._match.start())
        return self._match is not None

    def _found(self) -> re.Match[str]:
        if self._match is None:
            raise IllegalStateException("No match found")
        return self._match

    def group(self, group: int | str = 0) -> str | None:
        """Return what a group matched, or None."""
        try:
            return self._found()[group]
        except IndexError:
            raise IndexOutOfBoundsException(f"No group {group}") from None

    def groupCount(self) -> int:
        """Return the number of groups in the pattern."""
        return self._pattern.groups

    def start(self, group: int = 0) -> int:
        """Return the start of a group."""
        return self._found().start(group)

    def end(self, group: int = 0) -> int:
        """Return the end of a group."""
        return self._found().end(group)

    def replaceAll(self, replacement: str) -> str:
        """Return the text with all matches replaced."""
        return self._pattern.sub(lambda match: _replaced(match, replacement), self._value)
