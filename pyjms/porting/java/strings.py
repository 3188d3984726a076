"""Texts as Java makes, reads and cuts them."""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isinf, isnan
from typing import Any

from pyjms.errors import IndexOutOfBoundsException, NullPointerException, NumberFormatException
from pyjms.messages import java_text
from pyjms.porting.java.errors import NotPorted, java_class_name, message_of
from pyjms.types import Float

__all__ = [
    "StringBuilder",
    "bytes_of",
    "compare",
    "equals_ignore_case",
    "format",
    "index_of",
    "lower",
    "parse_boolean",
    "parse_double",
    "parse_float",
    "parse_int",
    "parse_long",
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
    if isinstance(value, (list, set, frozenset, KeysView, ValuesView, ItemsView)):
        return "[" + ", ".join(map(text, value)) + "]"
    if type(value).__repr__ is object.__repr__ and type(value).__str__ is object.__str__:
        return f"{java_class_name(type(value))}@{id(value) & 0xFFFF_FFFF:x}"
    return str(value)


def parse_int(value: str | None, radix: int = 10) -> int:
    """Return ``Integer.parseInt``. Raises `NumberFormatException`."""
    return _parse(value, radix, 32, "int")


def parse_long(value: str | None, radix: int = 10) -> int:
    """Return ``Long.parseLong``. Raises `NumberFormatException`."""
    return _parse(value, radix, 64, "long")


def _parse(value: str | None, radix: int, bits: int, kind: str) -> int:
    if value is None:
        raise NumberFormatException("null is no number")
    if radix == 10:
        return java_text.parse_integral(value, bits, kind)
    if not re.fullmatch(r"[+-]?[0-9A-Za-z]+", value):
        raise NumberFormatException(f'For input string: "{value}"')
    try:
        number = int(value, radix)
    except ValueError:
        raise NumberFormatException(f'For input string: "{value}"') from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise NumberFormatException(f'For input string: "{value}"')
    return number


def parse_double(value: str | None) -> float:
    """Return ``Double.parseDouble``. Raises `NumberFormatException`."""
    if value is None:
        raise NullPointerException("null is no number")
    return java_text.parse_double(value)


def parse_float(value: str | None) -> float:
    """Return ``Float.parseFloat``. Raises `NumberFormatException`."""
    if value is None:
        raise NullPointerException("null is no number")
    return java_text.parse_single(value)


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
        raise IndexOutOfBoundsException(f"begin {begin}, end {stop}, length {len(value)}")
    return value[begin:stop]


def text_of_char_at(value: str, index: int) -> str:
    """Return ``value.charAt(index)``."""
    if not 0 <= index < len(value):
        raise IndexOutOfBoundsException(f"index {index}, length {len(value)}")
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


_PLAIN_SEPARATOR = re.compile(r"\\?[^\w\s\\.$|()\[\]{}^?*+]|\\[.$|()\[\]{}^?*+\\]|[ ,;:=\w]")


def split(value: str, separator: str, limit: int = 0) -> list[str]:
    """Return ``value.split(separator, limit)``, where the separator is plain text or runs of white space."""
    if limit == 1:
        return [value]
    if separator in {"\\s+", " +"}:
        parts = re.split(r"[ \t\n\x0b\f\r]+" if separator == "\\s+" else " +", value, maxsplit=max(limit - 1, 0))
    elif all(_PLAIN_SEPARATOR.fullmatch(each) for each in re.findall(r"\\.|.", separator, re.DOTALL)) and separator:
        parts = value.split(re.sub(r"\\(.)", r"\1", separator), limit - 1 if limit > 0 else -1)
    else:
        raise NotPorted(f"split by the regular expression {separator!r}: use re.split, whose syntax differs")
    while limit == 0 and len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if limit == 0 and parts == [""] and value else parts


_CHARSETS = {"UTF-8": "utf-8", "UTF8": "utf-8", "US-ASCII": "ascii", "ISO-8859-1": "latin-1"}


def bytes_of(value: str, charset: str = "UTF-8") -> bytes:
    """Return ``value.getBytes(charset)``; what the charset lacks is a question mark."""
    name = _CHARSETS.get(charset.upper())
    if name is None:
        raise NotPorted(f"the charset {charset!r}")
    return value.encode(name, "replace")


def text_of_bytes(value: bytes | bytearray, charset: str) -> str:
    """Return ``new String(value, charset)``."""
    name = _CHARSETS.get(charset.upper())
    if name is None:
        raise NotPorted(f"the charset {charset!r}")
    return bytes(value).decode(name, "replace")


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
        self._text = substring(self._text, 0, index) + value + self._text[index:]
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
        self._text = self._text[:length].ljust(length, "\0")

    def charAt(self, index: int) -> str:
        """Return a character."""
        return text_of_char_at(self._text, index)

    def deleteCharAt(self, index: int) -> StringBuilder:
        """Take a character out."""
        self._text = substring(self._text, 0, index) + substring(self._text, index + 1)
        return self

    def toString(self) -> str:
        """Return the text."""
        return self._text


_CONVERSION = re.compile(r"%(?P<flags>[-#+ 0,(]*)(?P<width>\d+)?(?:\.(?P<precision>\d+))?(?P<letter>[a-zA-Z%])")
FORMATS = frozenset("sSdfxXcbn%")
"""The conversions that `format` knows."""


def format(pattern: str, *values: object) -> str:
    """Return `values` as a pattern of Java has them; raises `NotPorted` at a conversion that is not here."""
    parts, place, given = [], 0, iter(values)
    for match in _CONVERSION.finditer(pattern):
        parts.append(_checked(pattern[place : match.start()]))
        place = match.end()
        letter = match["letter"]
        if letter == "n":
            parts.append("\n")
        elif letter == "%":
            parts.append(_wide("%", match))
        else:
            try:
                value = next(given)
            except StopIteration:
                raise IndexOutOfBoundsException(f"MissingFormatArgumentException: {match[0]}") from None
            parts.append(_converted(match, value))
    return "".join(parts) + _checked(pattern[place:])


def _checked(plain: str) -> str:
    if "%" in plain:
        raise NotPorted(f"the format {plain!r}")
    return plain


def _converted(match: re.Match[str], value: object) -> str:
    convert = _CONVERSIONS.get(match["letter"])
    flags = match["flags"]
    if convert is None or set(flags) - set("-0,+ ") or (match["precision"] and match["letter"] not in "fsS"):
        raise NotPorted(f"the format {match[0]!r}")
    return _wide(convert(match, value), match)


def _wide(made: str, match: re.Match[str]) -> str:
    width, flags = int(match["width"] or 0), match["flags"]
    if "-" in flags:
        return made.ljust(width)
    if "0" in flags and made[-1:].isalnum() and match["letter"] in "dfxX" and made not in {"null", "NaN"}:
        sign = made[:1] if made[:1] in {"-", "+", " "} else ""
        return sign + made[len(sign) :].rjust(width - len(sign), "0")
    return made.rjust(width)


def _signed(made: str, negative: bool, flags: str) -> str:
    return f"-{made}" if negative else f"+{made}" if "+" in flags else f" {made}" if " " in flags else made


def _decimal(match: re.Match[str], value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool) or not isinstance(value, int):
        raise NumberFormatException(f"IllegalFormatConversionException: {match[0]}")
    return _signed(f"{abs(value):,d}" if "," in match["flags"] else f"{abs(value):d}", value < 0, match["flags"])


_EXACT = Context(prec=2000)


def _fixed(match: re.Match[str], value: object) -> str:
    if value is None:
        return "null"
    if not isinstance(value, float):
        raise NumberFormatException(f"IllegalFormatConversionException: {match[0]}")
    if isnan(value) or isinf(value):
        return _signed("NaN" if isnan(value) else "Infinity", value < 0, match["flags"])
    digits = int(match["precision"] or 6) if match["precision"] != "0" else 0
    shown = Decimal(text_of_float(value) if isinstance(value, Float) else text_of_double(value))
    number = abs(shown).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _EXACT)
    return _signed(f"{number:,f}" if "," in match["flags"] else f"{number:f}", str(value)[0] == "-", match["flags"])


def _hexadecimal(match: re.Match[str], value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise NotPorted(f"the format {match[0]!r} of {value!r}")
    if value < 0:
        raise NotPorted(f"the format {match[0]!r} of a negative number, whose type decides")
    return f"{value:x}" if match["letter"] == "x" else f"{value:X}"


def _general(match: re.Match[str], value: object) -> str:
    made = text(value)
    if match["precision"]:
        made = made[: int(match["precision"])]
    return made.upper() if match["letter"] == "S" else made


def _truth(match: re.Match[str], value: object) -> str:
    return text(value) if isinstance(value, bool) else text(value is not None)


_CONVERSIONS: Mapping[str, Callable[[re.Match[str], object], str]] = {
    "s": _general,
    "S": _general,
    "d": _decimal,
    "f": _fixed,
    "x": _hexadecimal,
    "X": _hexadecimal,
    "c": lambda match, value: text(value) if not isinstance(value, int) else chr(value),
    "b": _truth,
}
