"""What is wrong with a selector, and where, as those parts say it that do not know the whole text."""

from __future__ import annotations

_SHOWN_MAX = 40


class Problem(Exception):
    """Never leaves this package: whoever knows the whole selector makes an `InvalidSelectorError` of it.

    `text` tells the reader what to write instead; `position` is a 0-based index into the selector.
    """

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.text = text
        self.position = position


def shorten(text: str) -> str:
    """Return a piece of a selector as a message quotes it: on one line, cut after 40 characters."""
    flat = "".join(character if character.isprintable() else " " for character in text)
    return flat if len(flat) <= _SHOWN_MAX else f"{flat[:_SHOWN_MAX]}…"
