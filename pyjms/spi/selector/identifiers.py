"""Identifiers of selectors: Java's identifiers without eleven reserved words (JMS 1.1 §3.8.1.1)."""

from __future__ import annotations

import re
from unicodedata import category

RESERVED_WORDS = frozenset({"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"})

_ASCII_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
# Character.isJavaIdentifierStart: letters, letter numbers, currency symbols, connecting punctuation.
_START = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
# Character.isJavaIdentifierPart: also digits, marks, and the characters that isIdentifierIgnorable names: format
# characters, and those control characters that are not white space.
_PART = _START | {"Nd", "Mc", "Mn", "Cf"}
_IGNORABLE = frozenset(map(chr, (*range(0x09), *range(0x0E, 0x1C), *range(0x7F, 0xA0))))


def is_reserved(word: str) -> bool:
    """Say whether `word` is a reserved word, in whatever case.

    Only ASCII letters have two cases here: U+0131, a dotless i, becomes an I in upper case, yet with an S it is a name.
    """
    return word.isascii() and word.upper() in RESERVED_WORDS


def first_bad_character(word: str) -> int | None:
    """Return the index of the first character that no identifier has at its place, or None."""
    if _ASCII_IDENTIFIER.fullmatch(word):
        return None
    for index, character in enumerate(word):
        allowed = _PART if index else _START
        if category(character) not in allowed and not (index and character in _IGNORABLE):
            return index
    return None


def is_identifier(text: str) -> bool:
    """Say whether `text` can name a property in a selector."""
    return bool(text) and first_bad_character(text) is None and not is_reserved(text)
