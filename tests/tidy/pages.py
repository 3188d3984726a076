"""The Python examples of a Markdown page, as one program that can be run.

The blocks of a page run in order in one namespace, so a page may tell a story. A comment on the line before a block
changes what happens to it:

``<!-- not run: reason -->``  before a Python block: it is not part of the program.
``<!-- prints -->``           before a text block: the program must print these lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.tidy.source import ROOT

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<info>.*)$")
_NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
_PRINTS = "<!-- prints -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page asks to be run, and to be printed."""

    program: str
    prints: tuple[str, ...]


class PageError(ValueError):
    """A page has a block without an end."""


@cache
def markdown_pages() -> tuple[Path, ...]:
    """Return README.md and the pages of the documentation, sorted."""
    docs = (path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
    return tuple(sorted([ROOT / "README.md", *docs]))


def read_page(text: str) -> Page:
    """Return the program of a page: each line keeps its number, so that a traceback points into the page."""
    program: list[str] = []
    prints: list[str] = []
    lines = iter(text.splitlines())
    before = ""
    for line in lines:
        program.append("")
        fence = _FENCE.match(line)
        if fence is None:
            before = line.strip() or before
            continue
        block = []
        for inner in lines:
            if inner.strip() == fence["fence"]:
                break
            block.append(inner.removeprefix(fence["indent"]))
        else:
            raise PageError(f"the block that starts at line {len(program)} has no end")
        language = fence["info"].strip()
        runs = language == "python" and not _NOT_RUN.fullmatch(before)
        program += block if runs else [""] * len(block)
        program.append("")
        if language == "text" and before == _PRINTS:
            prints.append("\n".join(block))
        before = ""
    return Page(program="\n".join(program).rstrip() + "\n", prints=tuple(prints))
