"""java.util.Formatter with its exceptions; dates and their formats, in this machine's time zone and in English."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import total_ordering
from math import isinf, isnan
from typing import Any, Final

from pyjms.errors import IllegalArgumentException
from pyjms.porting.java.errors import (
    FormatFlagsConversionMismatchException,
    IllegalFormatConversionException,
    IllegalFormatFlagsException,
    IllegalFormatPrecisionException,
    MissingFormatArgumentException,
    MissingFormatWidthException,
    ParseException,
    UnknownFormatConversionException,
)
from pyjms.porting.java.numbers import BigDecimal, BigInteger
from pyjms.porting.java.objects import class_name, hash_code
from pyjms.porting.java.strings import text, text_of_double, text_of_float
from pyjms.types import Byte, Float, Long, Short

__all__ = ["Date", "SimpleDateFormat", "format"]

_MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_EPOCH: Final = datetime(1970, 1, 1)
DATE_LETTERS: Final = "GyYMdDEaHkKhmsSzZXu"
"""The pattern letters of `SimpleDateFormat`."""


@total_ordering
class Date:
    """java.util.Date: milliseconds since 1970."""

    def __init__(self, ms: int) -> None:
        self._ms = ms

    def getTime(self) -> int:
        """Return the milliseconds."""
        return self._ms

    def setTime(self, ms: int) -> None:
        """Set the milliseconds."""
        self._ms = ms

    def before(self, other: Date) -> bool:
        """Return whether it is earlier."""
        return self._ms < other._ms

    def after(self, other: Date) -> bool:
        """Return whether it is later."""
        return self._ms > other._ms

    def compareTo(self, other: Date) -> int:
        """Return -1, 0 or 1."""
        return (self._ms > other._ms) - (self._ms < other._ms)

    def toString(self) -> str:
        """Return day, month, time, zone and year, in the format of ``%tc``."""
        return date_field(self, "c") or ""

    def local(self) -> datetime:
        """Return the date and time in this machine's zone."""
        # By addition: `datetime.fromtimestamp` fails for times before 1970 on some systems, and goes through a float.
        utc = _EPOCH + timedelta(milliseconds=self._ms)
        return utc.replace(tzinfo=_UTC).astimezone()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Date) and self._ms == other._ms

    def __lt__(self, other: Date) -> bool:
        return self._ms < other._ms

    def __hash__(self) -> int:
        return hash(self._ms)


_UTC: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00").tzinfo


def date_field(date: Date, letter: str) -> str | None:
    """Return a part of a date for ``%t`` and a letter; None if there is no such letter."""
    now = date.local()
    month, day, hour = _MONTHS[now.month - 1], _DAYS[now.weekday()], now.hour % 12 or 12
    zone = now.tzname() or ""
    offset = now.strftime("%z")
    clock = f"{now:%H:%M:%S}"
    fields = {
        "H": f"{now.hour:02d}",
        "I": f"{hour:02d}",
        "k": str(now.hour),
        "l": str(hour),
        "M": f"{now.minute:02d}",
        "S": f"{now.second:02d}",
        "L": f"{now.microsecond // 1000:03d}",
        "N": f"{now.microsecond * 1000:09d}",
        "p": "am" if now.hour < 12 else "pm",
        "z": offset,
        "Z": zone,
        "s": str(date.getTime() // 1000),
        "Q": str(date.getTime()),
        "B": month,
        "b": month[:3],
        "h": month[:3],
        "A": day,
        "a": day[:3],
        "C": f"{now.year // 100:02d}",
        "Y": f"{now.year:04d}",
        "y": f"{now.year % 100:02d}",
        "j": f"{now.timetuple().tm_yday:03d}",
        "m": f"{now.month:02d}",
        "d": f"{now.day:02d}",
        "e": str(now.day),
        "R": f"{now:%H:%M}",
        "T": clock,
        "r": f"{hour:02d}:{now:%M:%S} {'AM' if now.hour < 12 else 'PM'}",
        "D": f"{now:%m/%d}/{now.year % 100:02d}",
        "F": f"{now.year:04d}-{now:%m-%d}",
        "c": f"{day[:3]} {month[:3]} {now.day:02d} {clock} {zone} {now.year}",
    }
    return fields.get(letter)


_PART: Final = re.compile(r"''|'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+")


class SimpleDateFormat:
    """java.text.SimpleDateFormat with a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._parts = [match[0] for match in _PART.finditer(pattern)]
        for part in self._parts:
            # Refused when the format is made, as in Java, and not when it is used.
            if part[0].isalpha() and part[0] not in DATE_LETTERS:
                raise IllegalArgumentException(f"Illegal pattern character '{part[0]}'")

    def toPattern(self) -> str:
        """Return the pattern."""
        return self._pattern

    def format(self, date: Date) -> str:
        """Return a date in the pattern's format."""
        now = date.local()
        return "".join(_shown(part, now) if part[0].isalpha() else _plain(part) for part in self._parts)

    def parse(self, text: str) -> Date:
        """Return the date at the start of a text; the rest is ignored. Raises `ParseException`."""
        # `match` and not `fullmatch`: Java ignores text after the date.
        match = re.match("".join(map(_expression, self._parts)), text)
        try:
            return Date(
                _milliseconds(
                    [part for part in self._parts if part[0].isalpha()], match.groups() if match is not None else ()
                )
            )
        except ValueError:
            raise ParseException(f'Unparseable date: "{text}"') from None


def _plain(part: str) -> str:
    return "'" if part == "''" else part[1:-1].replace("''", "'") if part.startswith("'") else part


def _shown(part: str, now: datetime) -> str:
    letter, width = part[0], len(part)
    if letter in "yY":
        return f"{now.year % 100:02d}" if width == 2 else f"{now.year:0{width}d}"
    if letter == "M" and width > 2:
        return _MONTHS[now.month - 1] if width > 3 else _MONTHS[now.month - 1][:3]
    if letter == "E":
        return _DAYS[now.weekday()] if width > 3 else _DAYS[now.weekday()][:3]
    if letter == "a":
        return "AM" if now.hour < 12 else "PM"
    # Python's `datetime` has no times before the year 1.
    if letter == "G":
        return "AD"
    if letter == "z":
        return now.tzname() or ""
    offset = now.strftime("%z")
    if letter == "Z":
        return offset
    if letter == "X":
        return (
            "Z"
            if offset == "+0000"
            else offset[:3]
            if width == 1
            else offset
            if width == 2
            else f"{offset[:3]}:{offset[3:]}"
        )
    number = {
        "M": now.month,
        "d": now.day,
        "D": now.timetuple().tm_yday,
        "u": now.isoweekday(),
        "H": now.hour,
        "k": now.hour or 24,
        "K": now.hour % 12,
        "h": now.hour % 12 or 12,
        "m": now.minute,
        "s": now.second,
        "S": now.microsecond // 1000,
    }[letter]
    return f"{number:0{width}d}"


def _expression(part: str) -> str:
    letter = part[0]
    if not letter.isalpha():
        return re.escape(_plain(part))
    if (letter == "M" and len(part) > 2) or letter in "EaG":
        return "([A-Za-z]+)"
    if letter in "zZX":
        return r"(Z|[A-Z]{3,4}|[+-]\d\d:?\d\d)"
    # Fixed, as digits may follow without a separator: yyyyMMdd.
    return r"(\d{4})" if part == "yyyy" else rf"(\d{{1,{max(len(part), 2 if letter != 'S' else 3)}}})"


def _milliseconds(parts: list[str], values: tuple[str, ...]) -> int:
    fields = {"y": 1970, "M": 1, "d": 1, "H": 0, "m": 0, "s": 0, "S": 0}
    offset, afternoon = None, None
    for part, value in zip(parts, values, strict=True):
        letter = part[0]
        if letter == "a":
            afternoon = value.upper() == "PM"
        elif letter == "M" and not value.isdecimal():
            fields["M"] = 1 + next(
                place for place, each in enumerate(_MONTHS) if each.startswith(value.capitalize()[:3])
            )
        elif letter in "zZX":
            digits = re.sub("[^0-9]", "", value)
            offset = (int(digits[:2]) * 60 + int(digits[2:])) * (-1 if value[0] == "-" else 1) if digits else 0
        elif letter in "hKk":
            fields["H"] = int(value) % (24 if letter == "k" else 12)
        elif letter in "yY":
            # Only two digits for "yy" are a year of this century; Java chooses the
            # one within 80 years before and 20 after now.
            fields["y"] = int(value) + (2000 if len(part) == 2 and len(value) == 2 else 0)
        elif letter in fields:
            fields[letter] = int(value)
    hours = fields["H"] + (12 if afternoon and fields["H"] < 12 else 0)
    # Java's parser is lenient: month 13 is January of the next year, day 0 the last of the month before.
    day = datetime(fields["y"] + (fields["M"] - 1) // 12, (fields["M"] - 1) % 12 + 1, 1)
    local = day + timedelta(
        days=fields["d"] - 1, hours=hours, minutes=fields["m"], seconds=fields["s"], milliseconds=fields["S"]
    )
    # Without a zone in the text it is the machine's, with the offset of that day.
    aware = local.astimezone() if offset is None else local.replace(tzinfo=_UTC) - timedelta(minutes=offset)
    return (aware - _EPOCH.replace(tzinfo=_UTC)) // timedelta(milliseconds=1)


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
"""The flags of each conversion; ``#`` of ``x`` and ``o`` is a prefix."""
_EXACT: Final = Context(prec=2000)
_BITS: Final[dict[type, int]] = {Byte: 8, Short: 16, Long: 64}


def format(pattern: str, *values: object) -> str:
    """Return `values` formatted by a Java pattern. Raises the exceptions of java.util.Formatter."""
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
        # `%<s` repeats the last argument; the flag may be among the others.
        if match["index"] == "<" or "<" in match["flags"]:
            number = last
        elif match["index"]:
            number = int(match["index"][:-1]) - 1
        else:
            # Only specifiers without an index count on, as in java.util.Formatter.
            number, given = given, given + 1
        if not 0 <= number < len(values):
            raise MissingFormatArgumentException(f"Format specifier '{match[0]}'")
        last = number
        parts.append(_converted(kind, match, values[number]))
    return "".join(parts) + pattern[place:]


def _kind_of(match: re.Match[str]) -> str:
    """Return the conversion in lower case, and refuse flags that it lacks."""
    letter = match["letter"]
    kind = "t" if match["time"] else letter.lower()
    if kind not in _FLAGS or (letter.isupper() and kind in "dofn" and kind != "t"):
        raise UnknownFormatConversionException(f"Conversion = '{letter}'")
    flags = match["flags"].replace("<", "")
    for flag in flags:
        if flag not in _FLAGS[kind]:
            raise FormatFlagsConversionMismatchException(f"Conversion = {kind}, Flags = {flag}")
    # Java refuses a precision here, where other formats of Python pad with zeros.
    if match["precision"] and kind in "dxoct%n":
        raise IllegalFormatPrecisionException(match["precision"])
    if ("-" in flags and "0" in flags) or ("+" in flags and " " in flags):
        raise IllegalFormatFlagsException(f"Flags = '{flags}'")
    if ({"-", "0"} & set(flags)) and not match["width"]:
        raise MissingFormatWidthException(match[0])
    return kind


def _converted(kind: str, match: re.Match[str], value: object) -> str:
    # `%b` of null is "false", all others write "null".
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
        # Zeros go between sign or prefix and the digits.
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
        # Java shows the bits of a negative number (two's complement), as many as its type has; a BigInteger has a sign.
        number &= (1 << bits) - 1
    made = f"{abs(number):o}" if octal else f"{abs(number):x}"
    prefix = ("0" if octal else "0x") if "#" in match["flags"] else ""
    return f"{'-' if number < 0 else ''}{prefix}{made}"


def _number(match: re.Match[str], value: object) -> Decimal | str:
    """Return the exact decimal that Java shows for a number, or the text of a value that is no number."""
    if isinstance(value, BigDecimal):
        return value.decimal
    if not isinstance(value, float):
        raise _mismatch(match, value)
    if isnan(value) or isinf(value):
        return _signed("NaN" if isnan(value) else "Infinity", value < 0, match["flags"].replace(" ", ""))
    # By its shortest text and not by its exact value: Java rounds the printed decimal.
    return Decimal(text_of_float(value) if isinstance(value, Float) else text_of_double(value))


def _fixed(match: re.Match[str], value: object) -> str:
    number = _number(match, value)
    if isinstance(number, str):
        return number
    digits = 6 if match["precision"] is None else int(match["precision"])
    # Half up, as Formatter specifies; Python's own formats round half to even.
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
    # Rounding may carry: 9.9999 becomes 10.0, and the exponent grows by one.
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
    # Java decides between the two notations by the rounded value.
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
    # By the text: -0.0 is not below zero, but has a sign.
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
