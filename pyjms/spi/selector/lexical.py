"""Identifiers and literals of selectors, which follow the Java language (JMS 1.1 §3.8.1.1), and `Problem`, an error with its place."""

from __future__ import annotations

import re
from decimal import Decimal
from math import inf, isinf, nextafter
from struct import Struct
from unicodedata import category

from pyjms.types import Float, Int, Long

RESERVED_WORDS = frozenset({"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"})

_ASCII_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
# Character.isJavaIdentifierStart: letters, letter numbers, currency symbols, connecting punctuation.
_START = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
# Character.isJavaIdentifierPart: also digits, marks, and the characters that isIdentifierIgnorable names: format
# characters, and those control characters that are not white space.
_PART = _START | {"Nd", "Mc", "Mn", "Cf"}
_IGNORABLE = frozenset(map(chr, (*range(0x09), *range(0x0E, 0x1C), *range(0x7F, 0xA0))))


def is_reserved(word: str) -> bool:
    """Return whether `word` is a reserved word, in any case.

    Only ASCII letters have two cases here: U+0131, a dotless i, becomes an I in upper case, yet with an S it is a name.
    """
    return word.isascii() and word.upper() in RESERVED_WORDS


def first_bad_character(word: str) -> int | None:
    """Return the index of the first character that an identifier cannot have at its place, or None."""
    if _ASCII_IDENTIFIER.fullmatch(word):
        return None
    for index, character in enumerate(word):
        allowed = _PART if index else _START
        if category(character) not in allowed and not (index and character in _IGNORABLE):
            return index
    return None


def is_identifier(text: str) -> bool:
    """Return whether `text` can name a property in a selector."""
    return bool(text) and first_bad_character(text) is None and not is_reserved(text)


_WHOLE = re.compile(r"(?:0[xX](?P<hexadecimal>[0-9a-fA-F]+)|0(?P<octal>[0-9]+)|(?P<decimal>[0-9]+))[lL]?")
_BASES = {"decimal": 10, "octal": 8, "hexadecimal": 16}
# More digits than a long has in octal cannot be in range, and long texts are slow to convert.
_DIGITS_MAX = 22
_NOT_ZERO = re.compile(r"[1-9a-fA-F]")
_DOUBLE, _BITS = Struct("<d"), Struct("<Q")


def parse_number(text: str, position: int, *, negative: bool = False) -> int | float:
    """Return the value of a literal that the grammar has accepted: an int or float of `pyjms.types`, or a plain one.

    `text` has no sign; with `negative` the value is that of the literal after a minus sign. A whole number is an int,
    or a long if it ends in L or is beyond the range of int: it needs no suffix for that. Raises `Problem`.
    """
    whole = _WHOLE.fullmatch(text)
    if whole is not None:
        return _parse_whole(whole, position, negative=negative)
    value = _parse_fractional(text, position)
    return type(value)(-value) if negative else value


def parse_string(text: str) -> str:
    """Return the value of a string literal; `text` has the quotes around it."""
    return text[1:-1].replace("''", "'")


def quote(text: str) -> str:
    """Return the literal for `text` in a selector: in quotes, with quotes in the text doubled (JMS 1.1 §3.8.1.1)."""
    return "'" + text.replace("'", "''") + "'"


def _parse_whole(literal: re.Match[str], position: int, *, negative: bool) -> int:
    kind = literal.lastgroup or "decimal"
    digits = literal[kind].lstrip("0") or "0"
    if kind == "octal" and set(digits) & {"8", "9"}:
        raise Problem(
            f"{shorten(literal[0])} is no number: as in Java, one that starts with 0 is octal. Leave the 0 out",
            position,
        )
    magnitude = int(digits, _BASES[kind]) if len(digits) <= _DIGITS_MAX else 2 * Long.maximum
    value = -magnitude if negative else magnitude
    if not Long.minimum <= value <= Long.maximum:
        raise Problem(
            f"{shorten(literal[0])} is outside the range of a long, {Long.minimum} to {Long.maximum}. "
            "A double has a wider range: give it a decimal point",
            position,
        )
    is_long = literal[0][-1] in "lL" or not Int.minimum <= value <= Int.maximum
    return Long(value) if is_long else value


def _parse_fractional(text: str, position: int) -> float:
    number = text.rstrip("fFdD")
    hexadecimal = number[:2] in {"0x", "0X"}
    value = _from_hexadecimal(number) if hexadecimal else float(number)
    kind = "float" if text[-1] in "fF" else "double"
    if kind == "float":
        value = Float(value if hexadecimal else _odd(value, number))
    # Java refuses a literal that would become infinite, and one that would become zero without being zero.
    mantissa = re.split("[pP]", number[2:])[0] if hexadecimal else re.split("[eE]", number)[0]
    if isinf(value) or (value == 0 and _NOT_ZERO.search(mantissa)):
        raise Problem(f"{shorten(text)} is too {'large' if value else 'small'} for a {kind}", position)
    return value


def _from_hexadecimal(number: str) -> float:
    try:
        return float.fromhex(number)
    except OverflowError:
        return inf


def _odd(value: float, number: str) -> float:
    """Return the double beside the exact `number` whose last bit is set, or `value` if it is exact.

    Rounded to single precision it gives what rounding the text itself would give; rounding twice need not.
    """
    if value == 0 or isinf(value):
        return value
    exact, rounded = Decimal(number), Decimal(value)
    if exact == rounded or _BITS.unpack(_DOUBLE.pack(value))[0] & 1:
        return value
    return nextafter(value, inf if exact > rounded else -inf)


_SHOWN_MAX = 40


class Problem(Exception):
    """Never leaves this package: code that has the whole selector converts it into an `InvalidSelectorError`.

    `text` tells the reader what to write instead; `position` is a 0-based index into the selector.
    """

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.text = text
        self.position = position


def shorten(text: str) -> str:
    """Return a piece of a selector as a message quotes it: on one line, cut after 40 characters."""
    flat = "".join(character if character.isprintable() else " " for character in text)
    return flat if len(flat) <= _SHOWN_MAX else f"{flat[:_SHOWN_MAX]}…"
