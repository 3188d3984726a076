"""The patterns of LIKE (JMS 1.1 §3.8.1.1): % is any sequence of characters, _ is one, all others are themselves.

The commonest patterns become a test of the beginning, the end or a part; the others a regular expression that never
tries a character twice for the same piece of the pattern, whatever the text: each piece between two % is looked for
from the left, and once found it stays where it is (an atomic group).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

_Piece: TypeAlias = tuple[str | None, ...]
"""The characters between two %; None stands for _."""


class Shape(Enum):
    """How a text is tested."""

    ANY = auto()
    EXACT = auto()
    PREFIX = auto()
    SUFFIX = auto()
    PART = auto()
    EXPRESSION = auto()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, translated: `text` is what is looked for, or the regular expression that must match as a whole."""

    shape: Shape
    text: str


def ends_in_escape(pattern: str, escape: str) -> bool:
    """Say whether the last character of `pattern` is an escape character that has nothing to escape."""
    return (len(pattern) - len(pattern.rstrip(escape))) % 2 == 1


def compile_pattern(pattern: str, escape: str | None) -> Pattern:
    """Translate a pattern that does not end in its escape character."""
    pieces = _split(pattern, escape)
    if any(None in piece for piece in pieces):
        return Pattern(Shape.EXPRESSION, _expression(pieces))
    texts = ["".join(character or "" for character in piece) for piece in pieces]
    if len(texts) == 1:
        return Pattern(Shape.EXACT, texts[0])
    if not any(texts):
        return Pattern(Shape.ANY, "")
    if len(texts) == 2 and not texts[1]:
        return Pattern(Shape.PREFIX, texts[0])
    if len(texts) == 2 and not texts[0]:
        return Pattern(Shape.SUFFIX, texts[1])
    if len(texts) == 3 and not texts[0] and not texts[2]:
        return Pattern(Shape.PART, texts[1])
    return Pattern(Shape.EXPRESSION, _expression(pieces))


def _split(pattern: str, escape: str | None) -> list[_Piece]:
    """Return the pieces before, between and behind the %; several % in a row are one."""
    pieces: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            pieces[-1].append(next(characters))
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if character == "_" else character)
    inner = [tuple(piece) for piece in pieces[1:-1] if piece]
    return [tuple(pieces[0]), *inner, *([tuple(pieces[-1])] if len(pieces) > 1 else [])]


def _expression(pieces: list[_Piece]) -> str:
    first, *inner = ("".join("." if character is None else re.escape(character) for character in p) for p in pieces)
    if not inner:
        return f"(?s:{first})"
    last = inner.pop()
    return f"(?s:{first}{''.join(f'(?>.*?{piece})' for piece in inner)}.*{last})"
