"""Texts for people in the same form in all parts of pyjms, and the version of pyjms."""

from __future__ import annotations

import math
import re
from typing import Final

__all__ = [
    "DISTRIBUTION",
    "REASON_MAX",
    "counted",
    "installed_version",
    "on_one_line",
    "plain_words",
    "reason_of",
    "rounded",
    "said_by_system",
    "span_text",
]


_NUMBER: Final = re.compile(r"^\[Errno -?\d+\] ")

_CARET: Final = re.compile(r"\n  (.*)\n  ( *)\^\s*$")
"""The end of `InvalidSelectorError`: the selector, or a part of it, and a caret beneath the place."""

_PREFIXES: Final = ("Value error, ", "Assertion failed, ", "Input ")

_WORDS: Final = (
    (", unable to parse string as an integer", ""),
    (", unable to parse string as a number", ""),
    (", got a number with a fractional part", ""),
    (", unable to interpret input", ""),
    ("a valid integer", "a whole number"),
    ("a valid number", "a number"),
    ("a valid boolean", "true or false"),
    ("a valid string", "a text"),
    ("a valid list", "a list"),
    ("a valid dictionary", "an object, of names and their values"),
)


def counted(number: int, noun: str, many: str | None = None) -> str:
    """Return a number with its noun: ``1 message``, ``2,000 messages``. `many`: the plural, if it is not `noun` with an s."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def on_one_line(text: str) -> str:
    """Return the text of an error on one line. A line with a caret beneath a selector becomes a caret within the selector."""
    # The caret points at a place of the line above it, which is lost when both become one line.
    marked = _CARET.sub(lambda found: f", at ^ in: {found[1][: len(found[2])]}^{found[1][len(found[2]) :]}", text)
    return " ".join(marked.split())


def rounded(number: float) -> str:
    """Return a measured number for people: with three significant figures, or all before the point: ``0.168``, ``2.73``, ``1,340``."""
    # Zero has no logarithm, and from 100 on no decimals are shown.
    if not number or abs(number) >= 100:
        return f"{number:,.0f}"
    places = max(0, 2 - math.floor(math.log10(abs(number))))
    shown = round(number, places)
    # Rounding may add a figure: 99.97 becomes 100.0.
    return f"{shown:,.0f}" if abs(shown) >= 100 else f"{shown:,.{places}f}"


def span_text(ms: float) -> str:
    """Return a span of time in its two largest units: ``350 ms``, ``12.3 s``, ``5 min 12 s``, ``3 d 4 h``."""
    if ms < 1000:
        return f"{rounded(ms)} ms"
    if ms < 60_000:
        return f"{rounded(ms / 1000)} s"
    seconds = round(ms / 1000)
    for size, unit, smaller, name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size:,} {unit}" + (f" {rest} {name}" if rest else "")
    return f"{seconds} s"


def said_by_system(error: BaseException) -> str:
    """Return the text of a system error, without its number, which means nothing to people."""
    return _NUMBER.sub("", str(error)) or type(error).__name__


def plain_words(text: str) -> str:
    """Return pydantic's text about a value in plain words.

    It also applies to arguments of commands, where typer uses pydantic.
    """
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    text = text.partition(" or instance of ")[0]  # one of our classes, unknown to the reader
    for theirs, ours in _WORDS:
        text = text.replace(theirs, ours)
    return text


REASON_MAX = 1_000
"""The most characters of a reason: a dead letter carries it, and a frame of STOMP must hold it."""


def reason_of(error: BaseException) -> str:
    """Return the class and the text of `error`, cut after `REASON_MAX` characters. Raises nothing.

    Characters that UTF-8 cannot hold, and NUL, which ends a frame, are spelt out.
    """
    # The class comes first: many errors have a text that means little without it, such as KeyError('x').
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # an application's class: __str__ may fail in any way
        return name[:REASON_MAX]
    reason = f"{name}: {text[:REASON_MAX]}"[:REASON_MAX] if text else name[:REASON_MAX]
    return reason.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


DISTRIBUTION: Final = "pyjms-messaging"
"""The name by which pip knows pyjms: the package index has another project of the name ``pyjms``."""


def installed_version() -> str:
    """Return the version of pyjms that is installed; "0" when it runs from a source tree that is not installed. Reads the disk."""
    from importlib import metadata  # takes long to import

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0"
