"""Unfinished business is finished or written up, not left in a comment."""

from __future__ import annotations

import re

import pytest

from tests.tidy.source import ROOT, name_of

FOLDERS = ("pyjms", "provider", "tck", "tests", "tools", "docs")
SUFFIXES = {".py", ".pyi", ".md", ".toml", ".lark", ".cfg", ".txt"}
# Written so that this file does not contain them.
WORDS = re.compile(r"\b(TO" + "DO|FIX" + "ME|XX" + "X|HA" + r"CK)\b", re.IGNORECASE)


def offences(text: str) -> list[tuple[int, str]]:
    """Return line and word of what should not stand there."""
    return [(number, match[0]) for number, line in enumerate(text.splitlines(), 1) for match in WORDS.finditer(line)]


def test_no_unfinished_business() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    files += [path for path in ROOT.iterdir() if path.is_file() and path.suffix in SUFFIXES | {""}]
    found = [
        f"{name_of(path)}:{line}: {word}"
        for path in files
        if not {"data", "_build", "__pycache__"} & set(path.relative_to(ROOT).parts)
        for line, word in offences(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["# to" + "do: later", "a\n// FIX" + "ME", "X = 1  # xx" + "x"])
def test_the_words_are_found(text: str) -> None:
    assert offences(text)


@pytest.mark.parametrize("text", ["the method", "hacksaw", "a mastodon"])
def test_other_words_are_left_alone(text: str) -> None:
    assert not offences(text)
