"""The console blocks of a page: what a reader types, and what the page says that comes."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Typed", "console_blocks"]

_BLOCK = re.compile(r"(?P<before>[^\n]*)\n```console\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: \S.* -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """One command."""

    command: str
    prints: tuple[str, ...]
    """The lines that follow it; none: the page does not show what it prints."""


def console_blocks(text: str) -> list[list[Typed]]:
    """Return the commands of each block that is to be run."""
    return [_commands(each["text"]) for each in _BLOCK.finditer(text) if not _NOT_RUN.fullmatch(each["before"])]


def _commands(block: str) -> list[Typed]:
    found: list[Typed] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Typed(command=line[2:], prints=()))
        else:
            last = found.pop()
            found.append(Typed(command=last.command, prints=(*last.prints, line)))
    return found
