"""Regular expressions of java.util.regex, by those of Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from pyjms.errors import IndexOutOfBoundsException
from pyjms.porting.java.errors import IllegalStateException, PatternSyntaxException

__all__ = ["Matcher", "Pattern", "compiled", "matches", "quote", "replace_all_matches", "replace_first_match", "split"]

_CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Space": r" \t\n\x0b\f\r",
    "Blank": r" \t",
    "XDigit": "0-9a-fA-F",
    "ASCII": r"\x00-\x7f",
    "Cntrl": r"\x00-\x1f\x7f",
}
_TOKEN: Final = re.compile(r"\\Q.*?(?:\\E|$)|\\[pP](?:\{\w+\}|\w)|\\.|\(\?<(?![=!])|&&|\[|\]|.", re.DOTALL)
_ESCAPES: Final = {
    "\\h": r"[ \t]",
    "\\R": r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])",
    "\\z": r"\Z",
    "\\Z": r"(?=\n?\Z)",
    "\\e": r"\x1b",
}


_FLAGS: Final = re.IGNORECASE | re.MULTILINE | re.DOTALL
"""Those that have a number of their own in `Pattern`, which the tables write as Python's."""


@lru_cache(maxsize=256)
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern of Java's as one of Python's. Raises `PatternSyntaxException`, also for what Python has nothing for."""
    try:
        return re.compile("".join(_tokens(pattern)), flags & _FLAGS | re.ASCII)
    except re.error as error:
        place = f" near index {error.pos}" if error.pos is not None else ""
        raise PatternSyntaxException(f"{error.msg[:1].upper()}{error.msg[1:]}{place}\n{pattern}") from None


def _tokens(pattern: str) -> Iterator[str]:
    depth = 0
    for match in _TOKEN.finditer(pattern):
        part = match[0]
        if part == "&&" and depth:
            raise PatternSyntaxException(f"&& in a class of characters, which Python has not\n{pattern}")
        if part == "[" and depth:
            raise PatternSyntaxException(f"a class of characters in another one, which Python has not\n{pattern}")
        depth += (part == "[") - (part == "]" and depth > 0)
        if part.startswith("\\Q"):
            yield re.escape(part[2:].removesuffix("\\E"))
        elif part == "(?<":
            yield "(?P<"
        elif part == "\\k":
            raise PatternSyntaxException(f"a reference to a named group, which Python writes otherwise\n{pattern}")
        elif part[:2] in {"\\p", "\\P"} and len(part) > 2:
            found = _CLASSES.get(part[2:].strip("{}"))
            if found is None or (depth and part[1] == "P"):
                raise PatternSyntaxException(f"the class {part}, which Python has not\n{pattern}")
            yield found if depth else f"[{'^' if part[1] == 'P' else ''}{found}]"
        elif not depth and part in _ESCAPES:
            yield _ESCAPES[part]
        else:
            yield part


def _replaced(match: re.Match[str], replacement: str) -> str:
    """Return a replacement with what its references to groups stand for."""

    def put(part: re.Match[str]) -> str:
        if part[1]:
            return part[1]
        name = part[3] or part[2]
        try:
            return match[int(name) if name.isdecimal() else name] or ""
        except IndexError:
            raise IndexOutOfBoundsException(f"No group {name}") from None

    return re.sub(r"\\(.)|\$(?:(\d)|\{(\w+)\})", put, replacement, flags=re.DOTALL)


def replace_all_matches(value: str, pattern: str, replacement: str) -> str:
    """Return ``value.replaceAll(pattern, replacement)``."""
    return compiled(pattern).sub(lambda match: _replaced(match, replacement), value)


def replace_first_match(value: str, pattern: str, replacement: str) -> str:
    """Return ``value.replaceFirst(pattern, replacement)``."""
    return compiled(pattern).sub(lambda match: _replaced(match, replacement), value, count=1)


def matches(value: str, pattern: str) -> bool:
    """Return ``value.matches(pattern)``."""
    return compiled(pattern).fullmatch(value) is not None


def quote(value: str) -> str:
    """Return the pattern of a text."""
    return re.escape(value)


def split(value: str, pattern: str, limit: int = 0) -> list[str]:
    """Return ``value.split(pattern, limit)``."""
    return _split(value, compiled(pattern), limit)


def _split(value: str, pattern: re.Pattern[str], limit: int) -> list[str]:
    parts: list[str] = []
    place = 0
    for match in pattern.finditer(value):
        if limit > 0 and len(parts) == limit - 1:
            break
        if match.end() == 0 or (match.start() == match.end() == len(value)):
            continue
        parts.append(value[place : match.start()])
        place = match.end()
    if not parts:
        return [value]
    parts.append(value[place:])
    while limit == 0 and parts and not parts[-1]:
        parts.pop()
    return parts


class Pattern:
    """java.util.regex.Pattern."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._text = pattern
        self._pattern = compiled(pattern, flags)

    def pattern(self) -> str:
        """Return the pattern as it was given."""
        return self._text

    def toString(self) -> str:
        """Return the pattern as it was given."""
        return self._text

    def matcher(self, value: str) -> Matcher:
        """Return what looks for it in a text."""
        return Matcher(self._pattern, value)

    def split(self, value: str) -> list[str]:
        """Return the parts of a text between its occurrences."""
        return _split(value, self._pattern, 0)


class Matcher:
    """java.util.regex.Matcher."""

    def __init__(self, pattern: re.Pattern[str], value: str) -> None:
        self._pattern = pattern
        self._value = value
        self._match: re.Match[str] | None = None
        self._place = 0

    def matches(self) -> bool:
        """Return whether the whole text has the pattern."""
        self._match = self._pattern.fullmatch(self._value)
        return self._match is not None

    def lookingAt(self) -> bool:
        """Return whether the text begins with the pattern."""
        self._match = self._pattern.match(self._value)
        return self._match is not None

    def find(self) -> bool:
        """Look for the next occurrence, and return whether there is one."""
        self._match = self._pattern.search(self._value, self._place) if self._place <= len(self._value) else None
        if self._match is not None:
            self._place = self._match.end() + (self._match.end() == self._match.start())
        return self._match is not None

    def _found(self) -> re.Match[str]:
        if self._match is None:
            raise IllegalStateException("No match found")
        return self._match

    def group(self, group: int | str = 0) -> str | None:
        """Return what a group matched, or None."""
        try:
            return self._found()[group]
        except IndexError:
            raise IndexOutOfBoundsException(f"No group {group}") from None

    def groupCount(self) -> int:
        """Return how many groups the pattern has."""
        return self._pattern.groups

    def start(self, group: int = 0) -> int:
        """Return where a group begins."""
        return self._found().start(group)

    def end(self, group: int = 0) -> int:
        """Return where a group ends."""
        return self._found().end(group)

    def replaceAll(self, replacement: str) -> str:
        """Return the text with all occurrences replaced."""
        return self._pattern.sub(lambda match: _replaced(match, replacement), self._value)
