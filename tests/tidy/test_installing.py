"""No page tells the reader to install `pyjms` by its name: the package index has another project of this name."""

from __future__ import annotations

import re

import pytest

from tests.tidy.pages import markdown_pages
from tests.tidy.source import name_of

_BY_NAME = re.compile(r"pip\s+install[ \n](?:[^\s`]+ )*['\"]?pyjms\b")


def offences(text: str) -> list[int]:
    """Return the lines in which pip is to fetch what bears our name; a command may be broken across two lines."""
    return [text.count("\n", 0, match.start()) + 1 for match in _BY_NAME.finditer(text)]


def test_no_page_has_a_stranger_s_package_installed() -> None:
    found = [
        f"{name_of(page)}:{line}: name the checkout: pip install -e '.[EXTRA]' in it, or pip install '../pyjms[EXTRA]' beside it"
        for page in markdown_pages()
        for line in offences(page.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_no_page_makes_the_checkout_s_environment_a_frozen_copy() -> None:
    """In the checkout, `pip install .` takes the place of the editable install that `make` has made in `.venv`."""
    found = [
        f"{name_of(page)}: {match[0]}"
        for page in markdown_pages()
        for match in re.finditer(r"pip install ['\"]?\.\S*", page.read_text(encoding="utf-8"))
        if "../" not in match[0]
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "pip install pyjms",
        "`pip install 'pyjms[spark]'`",
        'pip install "pyjms"',
        "pip\ninstall 'pyjms[tck]'",
        "pip install -U pyjms",
    ],
)
def test_the_name_is_found(text: str) -> None:
    assert offences(text)


@pytest.mark.parametrize(
    "text", ["pip install '../pyjms[tck]'", "pip install -e '.[spark]'", "pip install pytest\npyjms"]
)
def test_a_checkout_may_be_named(text: str) -> None:
    assert not offences(text)
