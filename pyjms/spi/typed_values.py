"""Typed values as text: a letter for each of Java's types, with the value beside it.

``Z B S I J F D C`` are Java's primitive types, ``T`` a string, ``X`` bytes, ``N`` null; ``U`` is a string and ``K`` a char
that plain text cannot carry. Reading is strict: a value that does not fit its letter is a `ValueError`.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from math import isfinite, isnan
from typing import Any

from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored

__all__ = [
    "LETTERS",
    "READERS",
    "base64_of_text",
    "bytes_of_base64",
    "double_text",
    "float_text",
    "is_unicode",
    "read_map",
    "read_stream",
    "text_of_base64",
    "write_map",
    "write_stream",
]

LETTERS: Mapping[type, str] = {
    bool: "Z",
    Byte: "B",
    Short: "S",
    int: "I",
    Int: "I",
    Long: "J",
    Float: "F",
    float: "D",
    Double: "D",
    Char: "C",
    str: "T",
    bytes: "X",
    type(None): "N",
}
"""By the class of a stored value."""

# The text has no more digits than a long: `int()` takes time by the square of their number.
_integer = re.compile(r"-?[0-9]{1,19}").fullmatch

# The length is bounded; the largest double written out has 309 digits before its point.
_number = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?|-?Infinity|NaN").fullmatch


def _without_number(value: float) -> str | None:
    return None if isfinite(value) else "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def double_text(value: float) -> str:
    """Return the shortest text that reads back as `value`."""
    return _without_number(value) or float.__repr__(value)


def float_text(value: float) -> str:
    """Return nine significant digits, which tell any two 32-bit floats apart."""
    return _without_number(value) or f"{value:.9g}"


def base64_of_text(text: str) -> str:
    """Return any text, with NUL and halves of surrogate pairs, as base64 characters, which are safe everywhere."""
    return b64encode(text.encode("utf-8", "surrogatepass")).decode()


def text_of_base64(text: str) -> str:
    """Return the argument of `base64_of_text`. Raises `ValueError`."""
    return bytes_of_base64(text).decode("utf-8", "surrogatepass")


def bytes_of_base64(text: str) -> bytes:
    """Return the bytes. Raises `ValueError`."""
    # Without `validate` foreign characters are dropped, and two texts would mean the same bytes.
    return b64decode(text.encode("ascii"), validate=True)


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("a boolean is true or false")
    return text == "true"


def _integral(kind: type[int]) -> Callable[[str], Stored]:
    def read(text: str) -> Stored:
        if not _integer(text):
            raise ValueError("an integer has digits only")
        return kind(int(text))

    return read


def _int(text: str) -> int:
    if not _integer(text):
        raise ValueError("an integer has digits only")
    value = int(text)
    if not Int.minimum <= value <= Int.maximum:
        raise ValueError("an int has 32 bits")
    return value


def _double(text: str) -> float:
    if not _number(text):
        raise ValueError("no number")
    return float(text)


def _null(_: str) -> None:
    raise ValueError("a null has no text")


READERS: Mapping[str, Callable[[str], Stored]] = {
    "Z": _boolean,
    "B": _integral(Byte),
    "S": _integral(Short),
    "I": _int,
    "J": _integral(Long),
    "F": lambda text: Float(_double(text)),
    "D": _double,
    "C": Char,
    "K": lambda text: Char(chr(_int(text))),
    "T": str,
    "U": text_of_base64,
    "X": bytes_of_base64,
    "N": _null,
}
"""By letter: from the text to the stored value; each raises `ValueError` for a text that does not fit."""

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

_NOT_JSON = frozenset({"NaN", "Infinity", "-Infinity"})

_NUMBERS_ONLY = frozenset("BSIK")

_FLOATS = frozenset("FD")


def _number_or_text(text: str) -> object:
    return text if text in _NOT_JSON else float(text)


_JSON: Mapping[type, Callable[[Any], object]] = {
    bool: bool,
    Byte: int,
    Short: int,
    int: int,
    Int: int,
    Long: int.__repr__,  # other readers of JSON convert a number to a double
    Float: lambda value: _number_or_text(float_text(value)),
    float: lambda value: _number_or_text(double_text(value)),
    Double: lambda value: _number_or_text(double_text(value)),
    Char: str.__str__,
    str: str.__str__,
    bytes: lambda value: b64encode(value).decode(),
    type(None): lambda value: value,
}


def is_unicode(text: str) -> bool:
    """Return whether `text` can be written in UTF-8: half of a surrogate pair cannot."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def write_map(entries: Mapping[str, Stored]) -> str:
    """Return the body of a map. Raises `KeyError` for a value that no message holds."""
    # The usual text is tried first, as hardly any has half of a surrogate pair: all are checked
    # in one step afterwards.
    text = _dumps([[name, *_typed(value)] for name, value in entries.items()])
    return text if is_unicode(text) else _dumps([_spelled_out(name, value) for name, value in entries.items()])


def write_stream(values: tuple[Stored, ...]) -> str:
    """Return the body of a stream. Raises `KeyError` for a value that no message holds."""
    text = _dumps([_typed(value) for value in values])
    return text if is_unicode(text) else _dumps([_typed_spelled_out(value) for value in values])


def read_map(text: str) -> dict[str, Stored]:
    """Return the argument of `write_map`. Raises `ValueError`, `TypeError`, `KeyError`, `RecursionError` for any other text."""
    entries: dict[str, Stored] = {}
    for entry in _list(json.loads(text)):
        # A fourth part says that the name is in base64, as UTF-8 cannot hold it.
        name, letter, value, *spelled = _list(entry)
        if spelled not in ([], ["U"]) or type(name) is not str:
            raise ValueError("no entry of a map")
        entries[text_of_base64(name) if spelled else name] = _read_value(letter, value)
    return entries


def read_stream(text: str) -> tuple[Stored, ...]:
    """Return the argument of `write_stream`. Raises as `read_map`."""
    values = []
    for element in _list(json.loads(text)):
        letter, value = _list(element)
        values.append(_read_value(letter, value))
    return tuple(values)


def _typed(value: Stored) -> list[object]:
    kind = type(value)
    return [LETTERS[kind], _JSON[kind](value)]


def _typed_spelled_out(value: Stored) -> list[object]:
    """Return `value` in a form without halves of surrogate pairs."""
    if type(value) is Char:
        return ["K", ord(value)]
    if type(value) is str and not is_unicode(value):
        return ["U", base64_of_text(value)]
    return _typed(value)


def _spelled_out(name: str, value: Stored) -> list[object]:
    if is_unicode(name):
        return [name, *_typed_spelled_out(value)]
    return [base64_of_text(name), *_typed_spelled_out(value), "U"]


def _list(value: object) -> list[Any]:
    if type(value) is not list:
        raise ValueError("no list")
    return value


def _read_value(letter: str, value: object) -> Stored:
    """Return the stored value of the JSON value `value`. Raises `ValueError`, `KeyError`, `TypeError`."""
    if letter == "N" and value is None:
        return None
    if letter == "Z":
        if type(value) is not bool:
            raise ValueError("a boolean is true or false")
        return value
    if type(value) is str:
        if letter in _NUMBERS_ONLY or (letter in _FLOATS and value not in _NOT_JSON):
            raise ValueError("a number is not quoted")
        return READERS[letter](value)
    if letter in _NUMBERS_ONLY and type(value) is int:
        return READERS[letter](str(value))
    if letter in _FLOATS and (type(value) is int or type(value) is float):
        try:
            number = float(value)
        except OverflowError as error:  # JSON has whole numbers of any length
            raise ValueError("a number is too large") from error
        return Float(number) if letter == "F" else number
    raise ValueError("no value of its type")
