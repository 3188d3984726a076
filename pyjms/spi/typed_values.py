"""Typed values as text: the letters of Java's types, and what stands beside them.

``Z B S I J F D C`` are Java's primitive types, ``T`` a string, ``X`` bytes, ``N`` null; ``U`` is a string and ``K`` a char
that plain text cannot carry. Reading never trusts: whatever does not fit its letter is a `ValueError`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from math import isfinite, isnan

from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored

__all__ = ["LETTERS", "READERS", "base64_of_text", "bytes_of_base64", "double_text", "float_text", "text_of_base64"]

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

_integer = re.compile(r"-?[0-9]{1,19}").fullmatch
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
    """Return any text, with NUL and halves of surrogate pairs, in characters that nobody minds."""
    return b64encode(text.encode("utf-8", "surrogatepass")).decode()


def text_of_base64(text: str) -> str:
    """Return what `base64_of_text` was given. Raises `ValueError`."""
    return bytes_of_base64(text).decode("utf-8", "surrogatepass")


def bytes_of_base64(text: str) -> bytes:
    """Return the bytes. Raises `ValueError`."""
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
"""By letter: from the text to the stored value; each raises `ValueError` for what does not fit."""
