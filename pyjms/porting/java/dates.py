"""java.util.Date and java.text.SimpleDateFormat, in the time zone of this machine and in English."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import total_ordering
from typing import Final

from pyjms.errors import IllegalArgumentException
from pyjms.porting.java.errors import ParseException

__all__ = [
    "Date",
    "SimpleDateFormat",
]

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
"""The letters of a pattern that `SimpleDateFormat` knows."""


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
        """Return day, month, time, zone and year, as ``%tc`` has them."""
        return date_field(self, "c") or ""

    def local(self) -> datetime:
        """Return the date and time in this machine's zone."""
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
    """Return a part of a date as ``%t`` and a letter of a format have it; None: there is no such letter."""
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
            if part[0].isalpha() and part[0] not in DATE_LETTERS:
                raise IllegalArgumentException(f"Illegal pattern character '{part[0]}'")

    def toPattern(self) -> str:
        """Return the pattern."""
        return self._pattern

    def format(self, date: Date) -> str:
        """Return a date as the pattern has it."""
        now = date.local()
        return "".join(_shown(part, now) if part[0].isalpha() else _plain(part) for part in self._parts)

    def parse(self, text: str) -> Date:
        """Return the date of a text, of which what follows is left alone. Raises `ParseException`."""
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
            fields["y"] = int(value) + (2000 if len(part) == 2 and len(value) == 2 else 0)
        elif letter in fields:
            fields[letter] = int(value)
    hours = fields["H"] + (12 if afternoon and fields["H"] < 12 else 0)
    day = datetime(fields["y"] + (fields["M"] - 1) // 12, (fields["M"] - 1) % 12 + 1, 1)
    local = day + timedelta(
        days=fields["d"] - 1, hours=hours, minutes=fields["m"], seconds=fields["s"], milliseconds=fields["S"]
    )
    aware = local.astimezone() if offset is None else local.replace(tzinfo=_UTC) - timedelta(minutes=offset)
    return (aware - _EPOCH.replace(tzinfo=_UTC)) // timedelta(milliseconds=1)
