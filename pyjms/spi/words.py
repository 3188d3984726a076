"""Words of texts for people, which all parts of pyjms write alike."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["counted", "plain_words", "said_by_system"]

_NUMBER: Final = re.compile(r"^\[Errno -?\d+\] ")

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
    """Return so many of something: ``1 message``, ``2,000 messages``. `many`: the plural, if it is not `noun` with an s."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def said_by_system(error: BaseException) -> str:
    """Return what an error of the system says, without its number, which tells people nothing."""
    return _NUMBER.sub("", str(error)) or type(error).__name__


def plain_words(text: str) -> str:
    """Return what pydantic says of a value in words of people who do not program.

    It reads the arguments of commands, too, where typer uses it.
    """
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    text = text.partition(" or instance of ")[0]  # a class of ours, of which the reader knows nothing
    for theirs, ours in _WORDS:
        text = text.replace(theirs, ours)
    return text
