r"""Patterns of names: ``*`` stands for any characters, also none, also dots; all others stand for themselves.

Not a regular expression: whatever the pattern and the name, matching takes no longer than searching the pieces one after
the other. A star that is meant as such is written ``\*``, a backslash ``\\``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Pattern", "PatternError"]


class PatternError(ValueError):
    """A pattern has a backslash that stands before neither a star nor another backslash."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern; equal when the text is."""

    text: str
    _pieces: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise `PatternError`."""
        object.__setattr__(self, "_pieces", _split(self.text))

    @property
    def matches_all(self) -> bool:
        """Whether every name matches."""
        return not any(self._pieces) and len(self._pieces) > 1

    def matches(self, name: str) -> bool:
        """Tell whether `name` as a whole is what the pattern says."""
        first, *middle = self._pieces
        if not middle:
            return name == first
        last = middle.pop()
        end = len(name) - len(last)
        if end < len(first) or not name.startswith(first) or not name.endswith(last):
            return False
        at = len(first)
        for piece in middle:
            # The leftmost place is as good as any: it leaves the most for the pieces that follow.
            found = name.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    def __str__(self) -> str:
        """Return the text that it was made from."""
        return self.text

    @staticmethod
    def escape(name: str) -> str:
        """Return the pattern that `name` alone matches."""
        return name.replace("\\", "\\\\").replace("*", "\\*")


def _split(text: str) -> tuple[str, ...]:
    pieces = [""]
    characters = iter(text)
    for character in characters:
        if character == "*":
            pieces.append("")
        elif character != "\\":
            pieces[-1] += character
        elif (escaped := next(characters, "")) in {"*", "\\"} and escaped:
            pieces[-1] += escaped
        else:
            raise PatternError(f"in the pattern {text!a} a backslash stands before neither * nor another backslash")
    return tuple(pieces)
