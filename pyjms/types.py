"""Java's primitive types as Python values that keep their identity (JMS 1.1 §3.5.4, §3.11.3).

Each class is a subclass of ``int``, ``float`` or ``str``: it works wherever the plain value does and prints as one.
``bool``, ``str`` and ``bytes`` stand for ``Boolean``, ``String`` and ``byte[]``.

Where a typed value is *stored* (in a message, in an envelope) the two commonest types take their plain form: a plain
``int`` is an Int and a plain ``float`` is a Double. `box` restores the class when a value is handed to a client.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Self, TypeAlias

__all__ = ["Boxed", "Byte", "Char", "Double", "Float", "Int", "Long", "Short", "Stored", "box", "round_to_single"]

_SINGLE = struct.Struct("<f")


def round_to_single(value: float) -> float:
    """Return `value` rounded to the nearest 32-bit float, ties to even; overflow gives an infinity, as in Java.

    Raises `TypeError` for what is no number.
    """
    try:
        # `pack` rounds as Java does, and raises where Java gives an infinity.
        return _SINGLE.unpack(_SINGLE.pack(value))[0]  # type: ignore[no-any-return]
    except (OverflowError, struct.error) as error:
        if not isinstance(value, (int, float)):
            raise TypeError(f"{type(value).__name__} is no number") from error
        return float("inf") if value > 0 else float("-inf")


class _Integral(int):
    """An integer of a fixed width; construction outside the range raises ``ValueError``."""

    __slots__ = ()
    minimum: ClassVar[int]
    maximum: ClassVar[int]

    def __new__(cls, value: int = 0) -> Self:
        number = int.__new__(cls, value)
        if not cls.minimum <= number <= cls.maximum:
            raise ValueError(f"{int(number)} is outside the range of {cls.__name__}: {cls.minimum} to {cls.maximum}")
        return number

    def __repr__(self) -> str:
        return int.__repr__(self)


class Byte(_Integral):
    """A Java ``byte``: 8 bits, signed."""

    __slots__ = ()
    minimum = -(2**7)
    maximum = 2**7 - 1


class Short(_Integral):
    """A Java ``short``: 16 bits, signed."""

    __slots__ = ()
    minimum = -(2**15)
    maximum = 2**15 - 1


class Int(_Integral):
    """A Java ``int``: 32 bits, signed."""

    __slots__ = ()
    minimum = -(2**31)
    maximum = 2**31 - 1


class Long(_Integral):
    """A Java ``long``: 64 bits, signed."""

    __slots__ = ()
    minimum = -(2**63)
    maximum = 2**63 - 1


class Float(float):
    """A Java ``float``: construction rounds to the nearest 32-bit value."""

    __slots__ = ()

    def __new__(cls, value: float = 0.0) -> Self:
        return float.__new__(cls, round_to_single(value))

    def __repr__(self) -> str:
        return float.__repr__(self)


class Double(float):
    """A Java ``double``: 64 bits."""

    __slots__ = ()

    def __repr__(self) -> str:
        return float.__repr__(self)


class Char(str):
    """A Java ``char``: exactly one UTF-16 code unit; anything else raises ``ValueError``."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        if len(value) != 1 or ord(value) > 0xFFFF:
            raise ValueError(f"{value!r} is not one 16-bit character")
        return str.__new__(cls, value)

    def __repr__(self) -> str:
        return str.__repr__(self)


Boxed: TypeAlias = bool | Byte | Short | Int | Long | Float | Double | Char | str | bytes | None
"""The type of what an ``Object`` getter returns to a client."""

Stored: TypeAlias = bool | int | float | str | bytes | None
"""The same values as messages keep them: a plain ``int`` is an Int, a plain ``float`` a Double."""


def box(value: Stored) -> Boxed:
    """Return a stored value with the class of its Java type."""
    if type(value) is int:
        return int.__new__(Int, value)  # in range, or it would not be stored as a plain int
    if type(value) is float:
        return Double(value)
    return value  # type: ignore[return-value]  # what is stored is plain or boxed
