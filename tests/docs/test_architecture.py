"""The pages on the architecture name what is there: each path exists, each name is defined, and each word is used."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.tidy.source import ROOT

PAGE = "\n".join(
    (ROOT / "docs" / "design" / f"{name}.md").read_text("utf-8") for name in ("architecture", "tour", "words")
)
ROOTS = [ROOT, ROOT / "pyjms", ROOT / "provider" / "pyjms_provider", ROOT / "tck" / "pyjms_tck"]
PACKAGES = ROOTS[1:]
CODE = sorted(set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL))))
PATHS = [text for text in CODE if ("/" in text and "://" not in text) or text.endswith(".py")]
NAMES = [text for text in CODE if re.fullmatch(r"[A-Z]\w+(\.\w+)?", text) and text != "None" and not text.isupper()]
WORDS = [word for line in re.findall(r"^(.+)\n: ", PAGE, re.MULTILINE) for word in line.removesuffix(",").split(", ")]


@cache
def sources() -> str:
    return "\n".join(path.read_text("utf-8") for root in PACKAGES for path in sorted(root.rglob("*.py")))


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_the_page_is_there(path: str) -> None:
    assert any((root / path).exists() for root in ROOTS)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_page_is_defined(name: str) -> None:
    kind, _, member = name.partition(".")
    assert re.search(rf"^class {kind}\b", sources(), re.MULTILINE)
    assert not member or re.search(rf"^    def {member}\b", sources(), re.MULTILINE)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_the_glossary_is_used_in_the_sources(word: str) -> None:
    in_text, as_class = word.replace(" ", r"\s+"), word.title().replace(" ", "")
    assert re.search(rf"\b{in_text}s?\b", sources(), re.IGNORECASE) or re.search(
        rf"^class {as_class}\b", sources(), re.MULTILINE
    )


def test_the_page_has_the_words_that_the_sources_are_named_after() -> None:
    stems = {path.stem.replace("_", " ") for path in (ROOT / "provider/pyjms_provider/core").rglob("*.py")}
    assert {"journal", "queue journal", "storage manager", "policy", "admission", "channel"} <= stems & set(WORDS)
    assert len(PATHS) > 60
    assert len(NAMES) > 12
