"""Text in Java's syntax: numbers (``valueOf`` and ``toString``, JMS 1.1 §3.5.4, §3.11.3) and modified UTF-8.

Python's own ``int()`` and ``float()`` accept white space, underscores and spellings that Java refuses, and refuse
suffixes and hexadecimal forms that Java accepts; ``repr`` formats numbers in another way. All functions are pure, and
take time in proportion to the text, for any text of a sender.

`BytesMessage` writes texts in modified UTF-8 (java.io.DataOutput): NUL takes two bytes, and a character outside the basic plane is
written as its two surrogates, three bytes each.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from unicodedata import decimal

from pyjms.errors import NumberFormatException
from pyjms.types import round_to_single

# A Java char has 16 bits: a digit outside the basic plane is two chars, and neither of them is a digit.
_INTEGRAL = re.compile(r"[+-]?[^\D\U00010000-\U0010FFFF]+")
_LONG_DIGITS_MAX = 19
# The possessive quantifiers refuse any text in one pass.
_FLOATING = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?:(?P<nan>NaN)|(?P<infinity>Infinity)"
    r"|(?P<decimal>(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]++\.?|[0-9a-fA-F]*+\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?)"
)
_TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that String.trim removes."""
_SINGLE = struct.Struct("<f")
_BITS = struct.Struct("<I")
_SINGLE_MAX = 2.0**128 - 2.0**104
_EXACT_INTEGER_MAX = 2**53
_SHOWN_MAX = 40

_ROUNDERS = tuple(
    tuple(Context(prec=digits, rounding=rounding) for rounding in (ROUND_FLOOR, ROUND_CEILING))
    for digits in range(2, 10)
)
"""For each number of digits that a float may need, from the fewest that Java writes: rounding down and up."""


def shorten(text: str, longest: int = _SHOWN_MAX) -> str:
    """Return `text` quoted for an error's reason, cut when it has more than `longest` characters."""
    return repr(text) if len(text) <= longest else f"{text[:longest]!r}… ({len(text)} characters)"


def parse_boolean(text: str) -> bool:
    """Return whether `text` is ``true`` in any case (``Boolean.valueOf``)."""
    return len(text) == 4 and text.lower() == "true"


def parse_integral(text: str, bits: int, kind: str) -> int:
    """Return the number of a decimal `text` with an optional sign; `kind` is its Java type, for the reason.

    Raises `NumberFormatException` for any other text and for a number that `bits` cannot hold.
    """
    if not _INTEGRAL.fullmatch(text):
        raise NumberFormatException(f"{shorten(text)} is no {kind}")
    digits = text.lstrip("+-")
    if len(digits) > _LONG_DIGITS_MAX:  # leading zeros, or out of range; never so long that int() would refuse
        if not digits.isascii():
            digits = "".join([str(decimal(digit)) for digit in digits])
        digits = digits.lstrip("0")[: _LONG_DIGITS_MAX + 1] or "0"
    number = -int(digits) if text[0] == "-" else int(digits)
    limit = 1 << (bits - 1)
    if not -limit <= number < limit:
        raise NumberFormatException(f"{shorten(text)} is outside the range of {kind}: {-limit} to {limit - 1}")
    return number


def parse_double(text: str) -> float:
    """Return the number of `text` as ``Double.valueOf`` does: too large is infinite, too small is zero."""
    return _parse(text, "double")[0]


def parse_single(text: str) -> float:
    """Return the number of `text` as ``Float.valueOf`` does: rounded to 32 bits at once, not by way of 64."""
    value, match = _parse(text, "float")
    nearest = round_to_single(value)
    if nearest == value or math.isnan(value):
        return nearest
    return _settle_tie(match, value, nearest)


def single_of_integer(number: int) -> float:
    """Return the nearest 32-bit float of a `number` of at most 64 bits, rounded once."""
    return round_to_single(number) if abs(number) <= _EXACT_INTEGER_MAX else parse_single(str(number))


def _parse(text: str, kind: str) -> tuple[float, re.Match[str]]:
    match = _FLOATING.fullmatch(text.strip(_TRIMMED))
    if not match:
        raise NumberFormatException(f"{shorten(text)} is no {kind}")
    if match["nan"]:
        return math.nan, match  # Java has one NaN
    if match["infinity"]:
        value = math.inf
    elif match["decimal"]:
        value = float(match["decimal"])
    else:
        # `float.fromhex` raises for a number that is too large; Java, and `float()` of a decimal, give infinity.
        try:
            value = float.fromhex(match["hex"])
        except OverflowError:
            value = math.inf
    return (-value if match["sign"] == "-" else value), match


def _settle_tie(match: re.Match[str], value: float, nearest: float) -> float:
    """Return the float nearest to the text of `match`, whose nearest double is `value`.

    Where `value` lies just between two floats, the digits that it lost decide.
    """
    below, above = _around(abs(value))
    middle = (below + above) / 2
    if abs(value) != middle:
        return nearest
    lost = _compare(match, middle)
    if lost == 0:
        return nearest
    magnitude = below if lost < 0 else round_to_single(above)
    return math.copysign(magnitude, value)


def _around(magnitude: float) -> tuple[float, float]:
    """Return the floats next to `magnitude`, which is none itself; beyond the largest, 2**128."""
    nearest = round_to_single(magnitude)
    if nearest > magnitude:
        above = min(nearest, 2.0**128)
        return (_next(above, -1) if above < 2.0**128 else _SINGLE_MAX), above
    return nearest, (_next(nearest, 1) if nearest < _SINGLE_MAX else 2.0**128)


def _next(single: float, step: int) -> float:
    # Positive floats are in the order of their bits taken as whole numbers (IEEE 754).
    (bits,) = _BITS.unpack(_SINGLE.pack(single))
    (value,) = _SINGLE.unpack(_BITS.pack(bits + step))
    return float(value)


def _compare(match: re.Match[str], middle: float) -> int:
    """Return whether the digits of `match`, sign aside, are below (-1), at (0) or above (1) `middle`."""
    if match["decimal"]:
        return int(Decimal(match["decimal"]).compare(Decimal(middle)))
    mantissa, exponent = match["hex"][2:].lower().split("p")
    whole, _, fraction = mantissa.partition(".")
    exact = Fraction(int(whole + fraction, 16)) * Fraction(2) ** (int(exponent) - 4 * len(fraction))
    return (exact > middle) - (exact < middle)


def format_double(value: float) -> str:
    """Return `value` as ``Double.toString`` does: the fewest digits that give it back, two of them at least."""
    magnitude = abs(value)
    if not magnitude or not math.isfinite(magnitude):
        return _format_special(value)
    shortest = Decimal(repr(magnitude))
    if len(shortest.as_tuple().digits) == 1:
        # of the texts with two digits the closest one, such as 4.9E-324
        shortest = Decimal(f"{magnitude:.1e}")
    elif math.frexp(magnitude)[0] == 0.5 and _is_beyond_lower_gap(shortest, magnitude):
        shortest = Decimal(f"{magnitude:.16e}")
    return _lay_out(value < 0, shortest)


def _is_beyond_lower_gap(text: Decimal, power: float) -> bool:
    """Return whether `text` is farther from `power`, a power of two, than half the gap to the next smaller double.

    The gap above a power of two is twice as wide. Java leaves that room unused: 2**-44 is 5.6843418860808015E-14.
    """
    return abs(Fraction(text) - Fraction(power)) > Fraction(math.ulp(power)) / 4


def format_single(value: float) -> str:
    """Return `value`, a 32-bit float, as ``Float.toString`` does."""
    magnitude = abs(value)
    if not magnitude or not math.isfinite(magnitude):
        return _format_special(value)
    exact = Decimal(magnitude)
    for rounders in _ROUNDERS:
        fitting = [
            text for text in (context.plus(exact) for context in rounders) if parse_single(str(text)) == magnitude
        ]
        if fitting:
            # Both neighbours of so many digits may read back: Java writes the closer one.
            return _lay_out(value < 0, min(fitting, key=lambda text: abs(text - exact)))
    raise AssertionError(f"nine digits always give a float back: {value!r}")


def _format_special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return f"{sign}0.0" if value == 0 else f"{sign}Infinity"


def _lay_out(negative: bool, number: Decimal) -> str:
    """Write `number` as Java does: plain from 1e-3 to 1e7, otherwise with an exponent; always with a digit after the point."""
    exponent = number.adjusted()
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0") or "0"
    if 0 <= exponent < 7:
        text = f"{digits[: exponent + 1]:0<{exponent + 1}}.{digits[exponent + 1 :] or '0'}"
    elif -3 <= exponent < 0:
        text = f"0.{'0' * (-exponent - 1)}{digits}"
    else:
        text = f"{digits[0]}.{digits[1:] or '0'}E{exponent}"
    return f"-{text}" if negative else text


_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")


def encode_modified_utf8(text: str) -> bytes:
    """Return the bytes of `text`, without the length that `DataOutput.writeUTF` writes before them."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    pairs = _ASTRAL.sub(_to_pair, text)
    return pairs.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def decode_modified_utf8(data: bytes) -> str:
    """Return the text of `data`. Accepts overlong forms, as Java does; raises ``ValueError`` for other bytes."""
    if data.isascii():
        return data.decode("ascii")
    # Python would read these as the first of four bytes; in Java's form such a character is two
    # surrogates of three bytes.
    if max(data) >= 0xF0:
        raise ValueError("a byte above 0xEF has no place in modified UTF-8")
    try:
        text = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    # Only overlong forms need the slow path: no writer makes them, but DataInputStream reads them.
    except UnicodeDecodeError:
        text = _decode_leniently(data)
    return _join_pairs(text) if _SURROGATES.search(text) else text


def _to_pair(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 | offset >> 10) + chr(0xDC00 | offset & 0x3FF)


def _join_pairs(text: str) -> str:
    # Decoding UTF-16 joins the halves of a pair, and leaves a lone half as it is.
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def _decode_leniently(data: bytes) -> str:
    """Decode byte by byte as DataInputStream.readUTF does, which accepts overlong forms."""
    chars: list[str] = []
    position = 0
    while position < len(data):
        lead = data[position]
        size = 1 if lead < 0x80 else 2 if lead >> 5 == 0b110 else 3 if lead >> 4 == 0b1110 else 0
        rest = data[position + 1 : position + size]
        if size == 0 or len(rest) != size - 1 or any(byte >> 6 != 0b10 for byte in rest):
            raise ValueError(f"malformed modified UTF-8 at byte {position}")
        code = lead if size == 1 else lead & (0x3F >> (size - 1))
        for byte in rest:
            code = code << 6 | byte & 0x3F
        chars.append(chr(code))
        position += size
    return "".join(chars)
