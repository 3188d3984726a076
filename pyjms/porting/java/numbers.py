"""Java's arithmetic: integers of 32 and 64 bits that wrap around, division towards zero, and java.math."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Context, Decimal
from functools import total_ordering
from typing import Final

from pyjms.errors import NumberFormatException
from pyjms.messages.java_text import single_of_integer as single_of
from pyjms.porting.java.errors import ArithmeticException
from pyjms.types import round_to_single

__all__ = [
    "BigDecimal",
    "BigInteger",
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
    """Return `number` wrapped to 32 bits, as an int that overflows."""
    # Shifted by half of the range before the mask and back after it: this gives the sign without a branch.
    return (number + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def as_long(number: int) -> int:
    """Return `number` wrapped to 64 bits, as a long that overflows."""
    return (number + (1 << 63) & (1 << 64) - 1) - (1 << 63)


def as_short(number: int) -> int:
    """Return `number` wrapped to 16 bits: the cast ``(short)``."""
    return (number + 0x8000 & 0xFFFF) - 0x8000


def as_byte(number: int) -> int:
    """Return `number` wrapped to 8 bits: the cast ``(byte)``."""
    return (number + 0x80 & 0xFF) - 0x80


def as_char(number: int) -> str:
    """Return the character with the code `number`, wrapped to 16 bits: the cast ``(char)``."""
    return chr(number & 0xFFFF)


def as_single(number: float) -> float:
    """Return `number` rounded to a ``float`` of 32 bits."""
    return round_to_single(number)


def to_int(number: float) -> int:
    """Return the cast ``(int)`` of a double: towards zero, limited to the range of an int, and 0 for NaN."""
    return _integer(number, 1 << 31)


def to_long(number: float) -> int:
    """Return the cast ``(long)`` of a double."""
    return _integer(number, 1 << 63)


def _integer(number: float, limit: int) -> int:
    if math.isnan(number):
        return 0
    # Java's cast saturates (JLS §5.1.3) where `int` of Python would grow, or raise for infinities.
    return limit - 1 if number >= limit else -limit if number <= -limit else int(number)


def int_divide(dividend: int, divisor: int) -> int:
    """Return the quotient of integers, rounded towards zero."""
    if not divisor:
        raise ArithmeticException("/ by zero")
    # Of positive numbers, as `//` rounds down and Java towards zero; `int(a / b)` would lose digits of a long.
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def int_remainder(dividend: int, divisor: int) -> int:
    """Return the remainder of integers, which has the sign of the dividend."""
    return dividend - int_divide(dividend, divisor) * divisor


def divide(dividend: float, divisor: float) -> float:
    """Return the quotient of doubles: division by zero gives an infinity or NaN."""
    if divisor:
        return dividend / divisor
    if math.isnan(dividend) or not dividend or math.isnan(divisor):
        return math.nan
    # The sign of a zero counts: 1.0 / -0.0 is minus infinity.
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def remainder(dividend: float, divisor: float) -> float:
    """Return the remainder of doubles, which has the sign of the dividend."""
    # `%` of Python has the sign of the divisor, and `fmod` raises where Java gives NaN.
    return math.fmod(dividend, divisor) if divisor and not math.isinf(dividend) else math.nan


def compared_doubles(one: float, other: float) -> int:
    """Return ``Double.compare``: NaN is the greatest, and -0.0 below 0.0."""
    return (_ordered(one) > _ordered(other)) - (_ordered(one) < _ordered(other))


def _ordered(number: float) -> tuple[float, float]:
    # The second part orders -0.0 before 0.0, and NaN behind infinity.
    return (math.inf, 2.0) if math.isnan(number) else (number, math.copysign(1.0, number))


def greater(one: float, other: float) -> float:
    """Return ``Math.max`` of doubles: NaN if one of them is."""
    return math.nan if math.isnan(one) or math.isnan(other) else max(one, other, key=_ordered)


def smaller(one: float, other: float) -> float:
    """Return ``Math.min`` of doubles."""
    return math.nan if math.isnan(one) or math.isnan(other) else min(one, other, key=_ordered)


def math_of(function: Callable[[float], float], number: float) -> float:
    """Return the result of a function of `math`, with NaN or infinity where Python raises."""
    try:
        return function(number)
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf


def logarithm(function: Callable[[float], float], number: float) -> float:
    """Return a logarithm: minus infinity for zero, NaN below."""
    return -math.inf if not number else math_of(function, number)


def power(base: float, exponent: float) -> float:
    """Return ``Math.pow``."""
    # C, and so Python, gives 1.0 here; Math.pow gives NaN.
    if math.isnan(exponent) or (abs(base) == 1 and math.isinf(exponent)):
        return math.nan
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.inf if not base else math.nan
    except OverflowError:
        # A negative base with an odd exponent overflows to the negative side.
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf


def whole(function: Callable[[float], int], number: float) -> float:
    """Return a number rounded by a function, with its sign; infinities and NaN are unchanged."""
    if math.isnan(number) or math.isinf(number):
        return number
    # `math.ceil` and the like return integers, which have no -0.0.
    return math.copysign(float(function(number)), number)


def rounded(number: float) -> int:
    """Return ``Math.round`` of a double: ties go up."""
    # From 2⁵² on a double has no fraction, and adding one half could round it.
    if math.isnan(number) or math.isinf(number) or abs(number) >= 1 << 52:
        return to_long(number)
    low = math.floor(number)
    # Not `floor(number + 0.5)`: for 0.49999999999999994 the sum is 1.0.
    return low + (number - low >= 0.5)


def signum(number: float) -> float:
    """Return -1.0, 0.0 or 1.0, or the number itself if it is zero or NaN."""
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


_EXACT: Final = Context(prec=100_000, Emax=999_999_999, Emin=-999_999_999)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


@total_ordering
class BigInteger:
    """java.math.BigInteger: an integer of any size, around a Python int."""

    ZERO: BigInteger
    ONE: BigInteger
    TEN: BigInteger

    def __init__(self, value: int | str, radix: int = 10) -> None:
        if isinstance(value, str):
            if not value:
                raise NumberFormatException("Zero length BigInteger")
            try:
                # `int` would also take blanks around the number and underscores in it.
                value = int(value if re.fullmatch(r"[+-]?\w+", value) and "_" not in value else "?", radix)
            except ValueError:
                raise NumberFormatException(f'For input string: "{value}"') from None
        self._value = int(value)

    def __int__(self) -> int:
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BigInteger) and self._value == other._value

    def __lt__(self, other: BigInteger) -> bool:
        return self._value < other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def toString(self, radix: int = 10) -> str:
        """Return the digits."""
        if radix == 10 or not 2 <= radix <= 36:
            return str(self._value)
        digits, rest = "", abs(self._value)
        while rest:
            rest, digit = divmod(rest, radix)
            digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
        return ("-" if self._value < 0 else "") + (digits or "0")

    def add(self, other: BigInteger) -> BigInteger:
        """Return the sum."""
        return BigInteger(self._value + other._value)

    def subtract(self, other: BigInteger) -> BigInteger:
        """Return the difference."""
        return BigInteger(self._value - other._value)

    def multiply(self, other: BigInteger) -> BigInteger:
        """Return the product."""
        return BigInteger(self._value * other._value)

    def divide(self, other: BigInteger) -> BigInteger:
        """Return the quotient, rounded towards zero."""
        if not other._value:
            raise ArithmeticException("BigInteger divide by zero")
        quotient = abs(self._value) // abs(other._value)
        return BigInteger(quotient if (self._value < 0) == (other._value < 0) else -quotient)

    def remainder(self, other: BigInteger) -> BigInteger:
        """Return the remainder, which has the sign of the dividend."""
        return self.subtract(self.divide(other).multiply(other))

    def mod(self, other: BigInteger) -> BigInteger:
        """Return the remainder, which is never negative."""
        if other._value <= 0:
            raise ArithmeticException("BigInteger: modulus not positive")
        return BigInteger(self._value % other._value)

    def pow(self, exponent: int) -> BigInteger:
        """Return a power."""
        if exponent < 0:
            raise ArithmeticException("Negative exponent")
        return BigInteger(self._value**exponent)

    def gcd(self, other: BigInteger) -> BigInteger:
        """Return the greatest common divisor."""
        return BigInteger(math.gcd(self._value, other._value))

    def negate(self) -> BigInteger:
        """Return the number with the other sign."""
        return BigInteger(-self._value)

    def abs(self) -> BigInteger:
        """Return the number without its sign."""
        return BigInteger(abs(self._value))

    def signum(self) -> int:
        """Return -1, 0 or 1."""
        return (self._value > 0) - (self._value < 0)

    def compareTo(self, other: BigInteger) -> int:
        """Return -1, 0 or 1."""
        return (self._value > other._value) - (self._value < other._value)

    def max(self, other: BigInteger) -> BigInteger:
        """Return the greater one."""
        return self if self._value >= other._value else other

    def min(self, other: BigInteger) -> BigInteger:
        """Return the smaller one."""
        return self if self._value <= other._value else other


BigInteger.ZERO, BigInteger.ONE, BigInteger.TEN = (BigInteger(each) for each in (0, 1, 10))


class BigDecimal:
    """java.math.BigDecimal: an integer, and the number of its digits after the point."""

    ZERO: BigDecimal
    ONE: BigDecimal
    TEN: BigDecimal

    def __init__(self, value: str | float | BigInteger, scale: int = 0) -> None:
        if isinstance(value, str):
            value, scale = _parsed(value)
        elif isinstance(value, float):
            # Exactly, as in Java: new BigDecimal(0.1) has 55 digits after the point.
            exact = Decimal(value)
            if not exact.is_finite():
                raise NumberFormatException("Infinite or NaN")
            value, scale = _split(exact)
        self._unscaled = int(value)
        self._scale = scale

    @property
    def decimal(self) -> Decimal:
        """The number as a Python Decimal."""
        return Decimal(self._unscaled).scaleb(-self._scale, _EXACT)

    def __eq__(self, other: object) -> bool:
        # Java's `equals` distinguishes 2.0 from 2.00; `compareTo` does not.
        return isinstance(other, BigDecimal) and (self._unscaled, self._scale) == (other._unscaled, other._scale)

    def __hash__(self) -> int:
        return hash((self._unscaled, self._scale))

    def __lt__(self, other: BigDecimal) -> bool:
        return self.compareTo(other) < 0

    def __int__(self) -> int:
        return int(self.decimal)

    def __float__(self) -> float:
        return float(self.decimal)

    def toString(self) -> str:
        """Return the number, with an exponent where Java writes one."""
        sign, digits = "-" if self._unscaled < 0 else "", str(abs(self._unscaled))
        power = len(digits) - 1 - self._scale
        if self._scale == 0:
            return sign + digits
        # BigDecimal.toString writes no exponent if the scale is not negative and the adjusted exponent is at least -6.
        if self._scale > 0 and power >= -6:
            return sign + _with_point(digits, self._scale)
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        exponent = f"E{power:+d}" if power else ""
        return f"{sign}{digits[0]}{fraction}{exponent}"

    def toPlainString(self) -> str:
        """Return the number without an exponent."""
        sign, digits = "-" if self._unscaled < 0 else "", str(abs(self._unscaled))
        if self._scale <= 0:
            return sign + (digits + "0" * -self._scale if self._unscaled else "0")
        return sign + _with_point(digits, self._scale)

    def scale(self) -> int:
        """Return the number of digits after the point."""
        return self._scale

    def precision(self) -> int:
        """Return the number of digits."""
        return len(str(abs(self._unscaled)))

    def unscaledValue(self) -> BigInteger:
        """Return all digits as an integer."""
        return BigInteger(self._unscaled)

    def _aligned(self, other: BigDecimal) -> tuple[int, int, int]:
        scale = max(self._scale, other._scale)
        # Integers only: Python's Decimal would round to the precision of its context.
        return self._unscaled * 10 ** (scale - self._scale), other._unscaled * 10 ** (scale - other._scale), scale

    def add(self, other: BigDecimal) -> BigDecimal:
        """Return the sum."""
        mine, its, scale = self._aligned(other)
        return BigDecimal(mine + its, scale)

    def subtract(self, other: BigDecimal) -> BigDecimal:
        """Return the difference."""
        mine, its, scale = self._aligned(other)
        return BigDecimal(mine - its, scale)

    def multiply(self, other: BigDecimal) -> BigDecimal:
        """Return the product."""
        return BigDecimal(self._unscaled * other._unscaled, self._scale + other._scale)

    def divide(self, other: BigDecimal, scale: int | str | None = None, rounding: str | None = None) -> BigDecimal:
        """Return the quotient: exact, or with a scale (by default the dividend's) and a rounding mode."""
        if isinstance(scale, str):
            scale, rounding = None, scale
        if not other._unscaled:
            raise ArithmeticException("Division by zero" if self._unscaled else "Division undefined")
        wanted = self._scale if scale is None else scale
        if rounding is None and scale is None:
            return self._divided_exactly(other)
        shift = wanted - self._scale + other._scale
        numerator, denominator = self._unscaled, other._unscaled
        if shift >= 0:
            numerator *= 10**shift
        else:
            denominator *= 10**-shift
        return BigDecimal(_rounded(numerator, denominator, rounding or "UNNECESSARY"), wanted)

    def _divided_exactly(self, other: BigDecimal) -> BigDecimal:
        preferred = self._scale - other._scale
        common = math.gcd(self._unscaled, other._unscaled)
        numerator, denominator = self._unscaled // (common or 1), other._unscaled // (common or 1)
        # The loops below end at 1 for a positive number only.
        if denominator < 0:
            numerator, denominator = -numerator, -denominator
        twos, fives, rest = 0, 0, denominator
        # A quotient is a finite decimal only if the reduced denominator has no factors but 2 and 5.
        while rest % 2 == 0:
            rest, twos = rest // 2, twos + 1
        while rest % 5 == 0:
            rest, fives = rest // 5, fives + 1
        if rest != 1:
            raise ArithmeticException("Non-terminating decimal expansion; no exact representable decimal result.")
        more = max(twos, fives)
        made = BigDecimal(numerator * 10**more // denominator, preferred + more)
        # The scale nearest to that of the dividend less the divisor's, as Java prefers.
        return made._stripped(preferred)

    def _stripped(self, least: int) -> BigDecimal:
        unscaled, scale = self._unscaled, self._scale
        while scale > least and unscaled % 10 == 0:
            unscaled, scale = unscaled // 10, scale - 1
        return BigDecimal(unscaled, scale)

    def remainder(self, other: BigDecimal) -> BigDecimal:
        """Return the remainder, which has the sign of the dividend."""
        if not other._unscaled:
            raise ArithmeticException("Division by zero")
        mine, its, scale = self._aligned(other)
        rest = abs(mine) % abs(its)
        return BigDecimal(rest if mine >= 0 else -rest, scale)

    def setScale(self, scale: int, rounding: str = "UNNECESSARY") -> BigDecimal:
        """Return the number with `scale` digits after the point."""
        shift = scale - self._scale
        if shift >= 0:
            return BigDecimal(self._unscaled * 10**shift, scale)
        return BigDecimal(_rounded(self._unscaled, 10**-shift, rounding), scale)

    def stripTrailingZeros(self) -> BigDecimal:
        """Return the number without zeros at its end."""
        return self._stripped(-(1 << 31)) if self._unscaled else BigDecimal(0)

    def negate(self) -> BigDecimal:
        """Return the number with the other sign."""
        return BigDecimal(-self._unscaled, self._scale)

    def abs(self) -> BigDecimal:
        """Return the number without its sign."""
        return BigDecimal(abs(self._unscaled), self._scale)

    def pow(self, exponent: int) -> BigDecimal:
        """Return a power."""
        if exponent < 0:
            raise ArithmeticException("Invalid operation")
        return BigDecimal(self._unscaled**exponent, self._scale * exponent)

    def signum(self) -> int:
        """Return -1, 0 or 1."""
        return (self._unscaled > 0) - (self._unscaled < 0)

    def compareTo(self, other: BigDecimal) -> int:
        """Return -1, 0 or 1; the scale is ignored."""
        mine, its, _ = self._aligned(other)
        return (mine > its) - (mine < its)

    def max(self, other: BigDecimal) -> BigDecimal:
        """Return the greater one."""
        return self if self.compareTo(other) >= 0 else other

    def min(self, other: BigDecimal) -> BigDecimal:
        """Return the smaller one."""
        return self if self.compareTo(other) <= 0 else other

    def toBigInteger(self) -> BigInteger:
        """Return the integer part."""
        return BigInteger(int(self))


BigDecimal.ZERO, BigDecimal.ONE, BigDecimal.TEN = (BigDecimal(each) for each in (0, 1, 10))


def _parsed(value: str) -> tuple[int, int]:
    if not value:
        raise NumberFormatException
    if not _NUMBER.fullmatch(value):
        wrong = next((each for each in value if not (each.isdecimal() or each in "+-.eE")), None)
        raise NumberFormatException(
            f'Character {wrong} is neither a decimal digit number, decimal point, nor "e" notation exponential mark.'
            if wrong
            else None
        )
    return _split(Decimal(value))


def _split(number: Decimal) -> tuple[int, int]:
    sign, digits, exponent = number.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0")
    return -unscaled if sign else unscaled, -int(exponent)


def _with_point(digits: str, scale: int) -> str:
    digits = digits.rjust(scale + 1, "0")
    return f"{digits[:-scale]}.{digits[-scale:]}"


def _rounded(numerator: int, denominator: int, rounding: str) -> int:
    """Return a quotient rounded by a java.math.RoundingMode."""
    negative = (numerator < 0) != (denominator < 0)
    whole, rest = divmod(abs(numerator), abs(denominator))
    if rest:
        if rounding == "UNNECESSARY":
            raise ArithmeticException("Rounding necessary")
        twice = 2 * rest - abs(denominator)
        up = {
            "UP": True,
            "DOWN": False,
            "CEILING": not negative,
            "FLOOR": negative,
            "HALF_UP": twice >= 0,
            "HALF_DOWN": twice > 0,
            "HALF_EVEN": twice > 0 or (twice == 0 and whole % 2 == 1),
        }[rounding]
        whole += up
    return -whole if negative else whole
