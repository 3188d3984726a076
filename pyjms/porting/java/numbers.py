"""Java's arithmetic: integers of 32 and 64 bits that wrap around, division towards zero, numbers that never raise."""

from __future__ import annotations

import math
from collections.abc import Callable

from pyjms.messages.java_text import single_of_integer as single_of
from pyjms.porting.java.errors import ArithmeticException
from pyjms.types import round_to_single

__all__ = [
    "as_byte",
    "as_char",
    "as_int",
    "as_long",
    "as_short",
    "as_single",
    "compared_doubles",
    "divide",
    "floor_divide",
    "floor_remainder",
    "greater",
    "int_divide",
    "int_remainder",
    "logarithm",
    "math_of",
    "power",
    "remainder",
    "rounded",
    "signum",
    "single_of",
    "smaller",
    "to_int",
    "to_long",
    "whole",
]


def as_int(number: int) -> int:
    """Return `number` cut to 32 bits, as an int that overflows."""
    return (number + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def as_long(number: int) -> int:
    """Return `number` cut to 64 bits, as a long that overflows."""
    return (number + (1 << 63) & (1 << 64) - 1) - (1 << 63)


def as_short(number: int) -> int:
    """Return `number` cut to 16 bits: the cast ``(short)``."""
    return (number + 0x8000 & 0xFFFF) - 0x8000


def as_byte(number: int) -> int:
    """Return `number` cut to 8 bits: the cast ``(byte)``."""
    return (number + 0x80 & 0xFF) - 0x80


def as_char(number: int) -> str:
    """Return the character with the code `number`, cut to 16 bits: the cast ``(char)``."""
    return chr(number & 0xFFFF)


def as_single(number: float) -> float:
    """Return `number` rounded to a ``float`` of 32 bits."""
    return round_to_single(number)


def to_int(number: float) -> int:
    """Return the cast ``(int)`` of a double: towards zero, at most what an int holds, and 0 for NaN."""
    return _integer(number, 1 << 31)


def to_long(number: float) -> int:
    """Return the cast ``(long)`` of a double."""
    return _integer(number, 1 << 63)


def _integer(number: float, limit: int) -> int:
    if math.isnan(number):
        return 0
    return limit - 1 if number >= limit else -limit if number <= -limit else int(number)


def int_divide(dividend: int, divisor: int) -> int:
    """Return the quotient of integers, rounded towards zero."""
    if not divisor:
        raise ArithmeticException("/ by zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def int_remainder(dividend: int, divisor: int) -> int:
    """Return the remainder of integers, which has the sign of the dividend."""
    return dividend - int_divide(dividend, divisor) * divisor


def divide(dividend: float, divisor: float) -> float:
    """Return the quotient of doubles: by zero it is infinite, or no number."""
    if divisor:
        return dividend / divisor
    if math.isnan(dividend) or not dividend or math.isnan(divisor):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def remainder(dividend: float, divisor: float) -> float:
    """Return the remainder of doubles, which has the sign of the dividend."""
    return math.fmod(dividend, divisor) if divisor and not math.isinf(dividend) else math.nan


def compared_doubles(one: float, other: float) -> int:
    """Return ``Double.compare``: NaN is the greatest, and -0.0 below 0.0."""
    return (_ordered(one) > _ordered(other)) - (_ordered(one) < _ordered(other))


def _ordered(number: float) -> tuple[float, float]:
    return (math.inf, 2.0) if math.isnan(number) else (number, math.copysign(1.0, number))


def greater(one: float, other: float) -> float:
    """Return ``Math.max`` of doubles: NaN where one of them is."""
    return math.nan if math.isnan(one) or math.isnan(other) else max(one, other, key=_ordered)


def smaller(one: float, other: float) -> float:
    """Return ``Math.min`` of doubles."""
    return math.nan if math.isnan(one) or math.isnan(other) else min(one, other, key=_ordered)


def math_of(function: Callable[[float], float], number: float) -> float:
    """Return what a function of `math` does, with NaN or infinity where Python raises."""
    try:
        return function(number)
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf


def logarithm(function: Callable[[float], float], number: float) -> float:
    """Return a logarithm: of zero it is infinite, of less no number."""
    return -math.inf if not number else math_of(function, number)


def power(base: float, exponent: float) -> float:
    """Return ``Math.pow``."""
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.inf if not base else math.nan
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf


def whole(function: Callable[[float], int], number: float) -> float:
    """Return a number rounded by a function, with its sign; infinities and NaN stay."""
    if math.isnan(number) or math.isinf(number):
        return number
    return math.copysign(float(function(number)), number)


def rounded(number: float) -> int:
    """Return ``Math.round`` of a double: ties go up."""
    if math.isnan(number) or math.isinf(number) or abs(number) >= 1 << 52:
        return to_long(number)
    low = math.floor(number)
    return low + (number - low >= 0.5)


def signum(number: float) -> float:
    """Return -1.0, 0.0 or 1.0, or the number itself where it is zero or NaN."""
    return number if math.isnan(number) or not number else math.copysign(1.0, number)


def floor_divide(dividend: int, divisor: int) -> int:
    """Return ``Math.floorDiv``."""
    if not divisor:
        raise ArithmeticException("/ by zero")
    return dividend // divisor


def floor_remainder(dividend: int, divisor: int) -> int:
    """Return ``Math.floorMod``."""
    if not divisor:
        raise ArithmeticException("/ by zero")
    return dividend % divisor
