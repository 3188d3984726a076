"""System.out, System.err, System.in and System.exit."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from pyjms.api.enumeration import NoSuchElementException
from pyjms.errors import NumberFormatException
from pyjms.porting.java.errors import InputMismatchException
from pyjms.porting.java.strings import parse_double, parse_int, parse_long, text

__all__ = [
    "Scanner",
    "error_line",
    "exit",
    "filled",
    "looked_up",
    "put_text",
    "read_byte",
    "read_line",
    "text_line",
]


# Fields that a container of Java fills.

_UNKNOWN: Final = object()


class looked_up:  # noqa: N801  it is written like a function
    """A field with `@Resource`: its object is looked up when it is first read, and may be set as any other."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find
        self._found: Any = _UNKNOWN

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if self._found is _UNKNOWN:
            self._found = self._find()
        return self._found


def filled(pattern: str, *values: str) -> str:
    """Return a pattern of a logger with its values, in the place of ``{}`` or of ``{0}``."""
    for place, value in enumerate(values):
        for hole in (f"{{{place}}}", "{}"):
            if hole in pattern:
                pattern = pattern.replace(hole, value, 1)
                break
    return pattern


T = TypeVar("T")


def text_line(value: object = "") -> None:
    """Write a value and the end of its line at once, so that no other thread comes between: ``System.out.println``."""
    sys.stdout.write(f"{text(value)}\n")


def error_line(value: object = "") -> None:
    """Write the text of a value to the standard error: ``System.err.println``."""
    sys.stderr.write(f"{text(value)}\n")


def put_text(value: object) -> None:
    """Write a value without the end of a line: ``System.out.print``."""
    sys.stdout.write(text(value))
    sys.stdout.flush()


def read_line() -> str | None:
    """Return the next line of the standard input without its end; None: there is none."""
    sys.stdout.flush()
    line = sys.stdin.readline()
    return line.removesuffix("\n").removesuffix("\r") if line else None


def read_byte() -> int:
    """Return the next byte of the standard input, or -1: ``System.in.read``."""
    sys.stdout.flush()
    letter = sys.stdin.read(1)
    return ord(letter) if letter else -1


class Scanner:
    """java.util.Scanner over lines: those of the standard input, of a text, or of what has `readLine`."""

    def __init__(self, source: Any = None) -> None:
        if hasattr(source, "reader"):
            source = source.reader()
        lines = iter(source.splitlines()) if isinstance(source, str) else None
        self._next_line: Callable[[], str | None] = (
            (lambda: next(lines, None)) if lines is not None else source.readLine if source is not None else read_line
        )
        self._close = getattr(source, "close", None)
        self._rest: str | None = None

    def _fill(self) -> bool:
        if self._rest is None:
            self._rest = self._next_line()
        return self._rest is not None

    def hasNextLine(self) -> bool:
        """Return whether there is another line."""
        return self._fill()

    def nextLine(self) -> str:
        """Return the rest of the line. Raises `NoSuchElementException` where there is none."""
        if not self._fill():
            raise NoSuchElementException("No line found")
        found, self._rest = self._rest, None
        return found or ""

    def hasNext(self) -> bool:
        """Return whether there is another word."""
        while self._fill():
            if self._rest and not self._rest.isspace():
                return True
            self._rest = None
        return False

    def next(self) -> str:
        """Return the next word. Raises `NoSuchElementException`."""
        if not self.hasNext():
            raise NoSuchElementException
        word, found = re.match(r"\s*(\S+)(.*)", self._rest or "", re.DOTALL).groups()  # type: ignore[union-attr]  # there is a word
        self._rest = found
        return str(word)

    def _peek(self) -> str:
        return (self._rest or "").split()[0] if self.hasNext() else ""

    def hasNextInt(self) -> bool:
        """Return whether the next word is an integer."""
        return re.fullmatch(r"[+-]?\d{1,10}", self._peek()) is not None

    def nextInt(self) -> int:
        """Return the next word as an integer. Raises `InputMismatchException`."""
        return self._number(parse_int)

    def nextLong(self) -> int:
        """Return the next word as a long."""
        return self._number(parse_long)

    def nextDouble(self) -> float:
        """Return the next word as a double."""
        return self._number(parse_double)

    def nextBoolean(self) -> bool:
        """Return the next word as a boolean."""
        word = self._peek()
        if word.lower() not in {"true", "false"}:
            raise InputMismatchException(f'For input string: "{word}"') if word else NoSuchElementException
        return self.next().lower() == "true"

    def _number(self, parse: Callable[[str], T]) -> T:
        if not self.hasNext():
            raise NoSuchElementException
        try:
            made = parse(self._peek())
        except NumberFormatException as error:
            raise InputMismatchException(error.getMessage()) from None
        self.next()
        return made

    def close(self) -> None:
        """Close what it reads."""
        if self._close is not None:
            self._close()


def exit(code: int) -> NoReturn:
    """End the process at once, from any thread, whatever others are at: ``System.exit``."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)
