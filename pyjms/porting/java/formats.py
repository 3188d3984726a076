"""Formats of texts: the conversions of java.util.Formatter, with its exceptions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isinf, isnan
from typing import Any, Final

from pyjms.porting.java.dates import Date, date_field
from pyjms.porting.java.decimals import BigDecimal, BigInteger
from pyjms.porting.java.errors import (
    FormatFlagsConversionMismatchException,
    IllegalFormatConversionException,
    IllegalFormatFlagsException,
    IllegalFormatPrecisionException,
    MissingFormatArgumentException,
    MissingFormatWidthException,
    UnknownFormatConversionException,
)
from pyjms.porting.java.objects import class_name, hash_code
from pyjms.porting.java.strings import text, text_of_double, text_of_float
from pyjms.types import Byte, Float, Long, Short

__all__ = ["format"]

_SPECIFIER: Final = re.compile(
    r"%(?P<index>\d+\$|<)?(?P<flags>[-#+ 0,(<]*)(?P<width>\d+)?(?:\.(?P<precision>\d+))?(?P<time>[tT])?(?P<letter>[a-zA-Z%])"
)
_FLAGS: Final = {
    "b": "-",
    "s": "-",
    "h": "-",
    "c": "-",
    "d": "-+ 0,(",
    "x": "-#0",
    "o": "-#0",
    "e": "-+ 0(#",
    "f": "-+ 0,(#",
    "g": "-+ 0,(",
    "a": "-+ 0#",
    "t": "-",
    "%": "-",
    "n": "",
}
"""The flags that each conversion takes; ``#`` of ``x`` and ``o`` is a prefix."""
_EXACT: Final = Context(prec=2000)
_BITS: Final[dict[type, int]] = {Byte: 8, Short: 16, Long: 64}


def format(pattern: str, *values: object) -> str:
    """Return `values` as a pattern of Java has them. Raises the exceptions of java.util.Formatter."""
    parts, place, given, last = [], 0, 0, -1
    while (start := pattern.find("%", place)) >= 0:
        parts.append(pattern[place:start])
        match = _SPECIFIER.match(pattern, start)
        if match is None:
            following = pattern[start + 1 : start + 2] or "%"
            raise UnknownFormatConversionException(f"Conversion = '{following}'")
        place = match.end()
        kind = _kind_of(match)
        if kind in "n%":
            parts.append("\n" if kind == "n" else _wide("%", match))
            continue
        if match["index"] == "<" or "<" in match["flags"]:
            number = last
        elif match["index"]:
            number = int(match["index"][:-1]) - 1
        else:
            number, given = given, given + 1
        if not 0 <= number < len(values):
            raise MissingFormatArgumentException(f"Format specifier '{match[0]}'")
        last = number
        parts.append(_converted(kind, match, values[number]))
    return "".join(parts) + pattern[place:]


def _kind_of(match: re.Match[str]) -> str:
    """Return the conversion in lower case, and refuse flags that it does not have."""
    letter = match["letter"]
    kind = "t" if match["time"] else letter.lower()
    if kind not in _FLAGS or (letter.isupper() and kind in "dofn" and kind != "t"):
        raise UnknownFormatConversionException(f"Conversion = '{letter}'")
    flags = match["flags"].replace("<", "")
    for flag in flags:
        if flag not in _FLAGS[kind]:
            raise FormatFlagsConversionMismatchException(f"Conversion = {kind}, Flags = {flag}")
    if match["precision"] and kind in "dxoct%n":
        raise IllegalFormatPrecisionException(match["precision"])
    if ("-" in flags and "0" in flags) or ("+" in flags and " " in flags):
        raise IllegalFormatFlagsException(f"Flags = '{flags}'")
    if ({"-", "0"} & set(flags)) and not match["width"]:
        raise MissingFormatWidthException(match[0])
    return kind


def _converted(kind: str, match: re.Match[str], value: object) -> str:
    made = "null" if value is None and kind != "b" else _CONVERSIONS[kind](match, value)
    if kind in "bshc" and match["precision"]:
        made = made[: int(match["precision"])]
    if (match["letter"].isupper() and kind != "t") or match["time"] == "T":
        made = made.upper()
    return _wide(made, match)


def _wide(made: str, match: re.Match[str]) -> str:
    width, flags = int(match["width"] or 0), match["flags"]
    if "-" in flags:
        return made.ljust(width)
    if "0" in flags and made not in {"null", "NaN", "Infinity", "-Infinity", "+Infinity"}:
        start = re.match(r"[-+ (]?(?:0[xX])?", made)
        sign = start[0] if start else ""
        return sign + made[len(sign) :].rjust(width - len(sign), "0")
    return made.rjust(width)


def _signed(made: str, negative: bool, flags: str) -> str:
    if negative:
        return f"({made})" if "(" in flags else f"-{made}"
    return f"+{made}" if "+" in flags else f" {made}" if " " in flags else made


def _mismatch(match: re.Match[str], value: object) -> IllegalFormatConversionException:
    return IllegalFormatConversionException(f"{match['letter']} != {class_name(value)}")


def _decimal(match: re.Match[str], value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, BigInteger)):
        raise _mismatch(match, value)
    number = int(value)
    made = f"{abs(number):,d}" if "," in match["flags"] else f"{abs(number):d}"
    return _signed(made, number < 0, match["flags"])


def _radix(match: re.Match[str], value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, BigInteger)):
        raise _mismatch(match, value)
    number, octal = int(value), match["letter"] == "o"
    if isinstance(value, int) and number < 0:
        bits = _BITS.get(type(value), 32 if number >= -(1 << 31) else 64)
        number &= (1 << bits) - 1
    made = f"{abs(number):o}" if octal else f"{abs(number):x}"
    prefix = ("0" if octal else "0x") if "#" in match["flags"] else ""
    return f"{'-' if number < 0 else ''}{prefix}{made}"


def _number(match: re.Match[str], value: object) -> Decimal | str:
    """Return the exact decimal that Java shows of a number, or the text of one that is none."""
    if isinstance(value, BigDecimal):
        return value.decimal
    if not isinstance(value, float):
        raise _mismatch(match, value)
    if isnan(value) or isinf(value):
        return _signed("NaN" if isnan(value) else "Infinity", value < 0, match["flags"].replace(" ", ""))
    return Decimal(text_of_float(value) if isinstance(value, Float) else text_of_double(value))


def _fixed(match: re.Match[str], value: object) -> str:
    number = _number(match, value)
    if isinstance(number, str):
        return number
    digits = 6 if match["precision"] is None else int(match["precision"])
    shown = abs(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _EXACT)
    made = f"{shown:,f}" if "," in match["flags"] else f"{shown:f}"
    if "#" in match["flags"] and not digits:
        made += "."
    return _signed(made, number.is_signed(), match["flags"])


def _scientific(match: re.Match[str], value: object) -> str:
    number = _number(match, value)
    if isinstance(number, str):
        return number
    return _signed(
        _exponent(abs(number), 6 if match["precision"] is None else int(match["precision"])),
        number.is_signed(),
        match["flags"],
    )


def _exponent(number: Decimal, digits: int) -> str:
    if not number:
        return f"{Decimal(0):.{digits}f}e+00"
    power = number.adjusted()
    shown = number.scaleb(-power, _EXACT).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _EXACT)
    if shown >= 10:
        power += 1
        shown = number.scaleb(-power, _EXACT).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, _EXACT)
    return f"{shown:f}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _general_number(match: re.Match[str], value: object) -> str:
    number = _number(match, value)
    if isinstance(number, str):
        return number
    digits = 6 if match["precision"] is None else int(match["precision"]) or 1
    size = abs(number)
    if not size:
        return _signed(f"{Decimal(0):.{digits - 1}f}", number.is_signed(), match["flags"])
    rounded = Context(prec=digits, rounding=ROUND_HALF_UP).plus(size)
    if Decimal("0.0001") <= rounded < Decimal(10) ** digits:
        places = max(0, digits - rounded.adjusted() - 1)
        shown = size.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _EXACT)
        made = f"{shown:,f}" if "," in match["flags"] else f"{shown:f}"
    else:
        made = _exponent(size, digits - 1)
    return _signed(made, number.is_signed(), match["flags"])


def _hexadecimal(match: re.Match[str], value: object) -> str:
    if not isinstance(value, float):
        raise _mismatch(match, value)
    if isnan(value) or isinf(value):
        return "NaN" if isnan(value) else text_of_double(value)
    made = re.sub(r"(\.[0-9a-f]*?)0+p", r"\1p", abs(value).hex()).replace(".p", ".0p").replace("p+", "p")
    return _signed(made, str(value)[0] == "-", match["flags"])


def _character(match: re.Match[str], value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return chr(value)
    if isinstance(value, str) and class_name(value) == "java.lang.Character":
        return str(value)
    raise _mismatch(match, value)


def _time(match: re.Match[str], value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        value = Date(value)
    if not isinstance(value, Date):
        raise IllegalFormatConversionException(f"{match['letter']} != {class_name(value)}")
    made = date_field(value, match["letter"])
    if made is None:
        raise UnknownFormatConversionException(f"Conversion = 't{match['letter']}'")
    return made


_CONVERSIONS: Final[Mapping[str, Callable[[re.Match[str], Any], str]]] = {
    "s": lambda match, value: text(value),
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "g": _general_number,
    "a": _hexadecimal,
    "x": _radix,
    "o": _radix,
    "c": _character,
    "b": lambda match, value: text(value) if isinstance(value, bool) else text(value is not None),
    "h": lambda match, value: f"{hash_code(value) & 0xFFFF_FFFF:x}",
    "t": _time,
}
