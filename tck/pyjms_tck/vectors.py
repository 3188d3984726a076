"""The data of the suite: the API's members, conversion vectors and selector vectors, from the files in ``data``."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from pyjms import types


@cache
def load(name: str) -> Any:
    """Return the content of ``data/NAME.json``; a shared copy that must not be changed."""
    return json.loads((resources.files("pyjms_tck") / "data" / f"{name}.json").read_text(encoding="utf-8"))


def value_of_bits(bits: str) -> float:
    """Return the number with these bits, in hexadecimal: 8 digits for a float, 16 for a double."""
    # As bits: JSON has neither infinities nor NaN, and a decimal text may be rounded.
    return float(struct.unpack(">f" if len(bits) == 8 else ">d", bytes.fromhex(bits))[0])


# The types of properties and body values: their Java names, their names in methods, and values at their limits.


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaType:
    """A type of values."""

    name: str
    """Its name in Java: ``byte[]``."""
    word: str
    """Its name in methods of the API: ``Bytes`` in ``getBytes``."""
    kind: type
    """The class of values that an Object getter returns."""
    values: tuple[Any, ...]
    """Values at the limits of the type and between them."""


_MAX_FLOAT = float.fromhex("0x1.fffffep127")
_MIN_FLOAT = float.fromhex("0x1p-149")
_MAX_DOUBLE = float.fromhex("0x1.fffffffffffffp1023")
_MIN_DOUBLE = float.fromhex("0x1p-1074")
_SPECIAL = (0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan"))
_TEXTS = ("", " ", "text", "caf\u00e9", "\u4e2d\u6587", "\U0001f600", "a 'quoted' \"word\"", "two\nlines\tand a tab")


def _integral(name: str, word: str, kind: type, bits: int) -> JavaType:
    limit = 2 ** (bits - 1)
    return JavaType(name=name, word=word, kind=kind, values=(0, 1, -1, 42, limit - 1, -limit))


TYPES: Mapping[str, JavaType] = MappingProxyType(
    {
        type_.name: type_
        for type_ in (
            JavaType(name="boolean", word="Boolean", kind=bool, values=(True, False)),
            _integral("byte", "Byte", types.Byte, 8),
            _integral("short", "Short", types.Short, 16),
            JavaType(name="char", word="Char", kind=types.Char, values=("a", " ", "\u00e9", "\u4e2d")),
            _integral("int", "Int", types.Int, 32),
            _integral("long", "Long", types.Long, 64),
            JavaType(name="float", word="Float", kind=types.Float, values=(*_SPECIAL, _MAX_FLOAT, _MIN_FLOAT)),
            JavaType(
                name="double", word="Double", kind=types.Double, values=(*_SPECIAL, 0.1, _MAX_DOUBLE, _MIN_DOUBLE)
            ),
            JavaType(name="String", word="String", kind=str, values=_TEXTS),
            JavaType(name="byte[]", word="Bytes", kind=bytes, values=(b"", b"\x00", bytes(range(256)))),
        )
    }
)
"""All types by name, in the order of the specification's tables."""

BODY_TYPES = tuple(TYPES.values())
"""The types that a MapMessage and a StreamMessage hold."""
PROPERTY_TYPES = tuple(type_ for type_ in BODY_TYPES if type_.name not in {"char", "byte[]"})
"""The types of properties."""
NUMBERS = ("byte", "short", "int", "long", "float", "double")
"""The names of the numeric types."""
