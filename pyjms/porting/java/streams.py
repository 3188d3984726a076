"""System.out, System.err, System.in and System.exit."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from pyjms.api.enumeration import NoSuchElementException
from pyjms.porting.java.strings import text

__all__ = ["Scanner", "error_line", "exit", "put_text", "read_byte", "read_line", "text_line"]


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
    """java.util.Scanner over the lines of the standard input."""

    def __init__(self) -> None:
        self._ahead: list[str] = []

    def hasNextLine(self) -> bool:
        """Return whether there is another line."""
        if not self._ahead and (line := read_line()) is not None:
            self._ahead.append(line)
        return bool(self._ahead)

    def nextLine(self) -> str:
        """Return the next line. Raises `NoSuchElementException` where there is none."""
        if not self.hasNextLine():
            raise NoSuchElementException("No line found")
        return self._ahead.pop()


def exit(code: int) -> NoReturn:
    """End the process at once, from any thread, whatever others are at: ``System.exit``."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)
