"""Every hint has the distribution `pyjms-messaging` installed: the package index has another project of the name `pyjms`."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.tidy.pages import markdown_pages
from tests.tidy.source import ROOT, name_of

# A command may be broken across two lines. What follows a path, `../pyjms[tck]`, is a checkout.
_BY_NAME = re.compile(r"pip\s+install[ \n](?:[^\s`]+ )*['\"]?pyjms(?!-messaging)\b|(?<![/\w])pyjms\[[a-z0-9,]+\]")
_OF_CHECKOUT = re.compile(r"pip install (?:-e )?['\"]?\.[^\s`]*")
_EXTRAS = re.compile(r"pyjms-messaging\[([a-z0-9,]+)\]")
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_TEXTS = [
    *markdown_pages(),
    *(path for part in ("pyjms", "provider", "tck") for path in sorted((ROOT / part).rglob("*.py"))),
]


def offences(text: str) -> list[int]:
    """Return the lines in which pip is to fetch what another project is called."""
    return [text.count("\n", 0, match.start()) + 1 for match in _BY_NAME.finditer(text)]


def test_nothing_has_a_stranger_s_package_installed() -> None:
    found = [
        f"{name_of(path)}:{line}: pip install 'pyjms-messaging[EXTRA]'"
        for path in _TEXTS
        for line in offences(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_a_checkout_is_installed_in_one_way() -> None:
    """`pip install .` would take the place of the editable install that `make` has made in `.venv`."""
    found = [
        f"{name_of(path)}: {match[0]}"
        for path in _TEXTS
        for match in _OF_CHECKOUT.finditer(path.read_text(encoding="utf-8"))
        if match[0] != "pip install -e ." and "../" not in match[0]
    ]
    assert not found, "\n".join(found)


def test_each_extra_that_is_named_is_there() -> None:
    texts = [*(path.read_text(encoding="utf-8") for path in _TEXTS), str(_PROJECT["optional-dependencies"])]
    named = {extra for text in texts for match in _EXTRAS.finditer(text) for extra in match[1].split(",")}
    assert named <= set(_PROJECT["optional-dependencies"])
    assert _PROJECT["name"] == "pyjms-messaging"


@pytest.mark.parametrize(
    "text",
    [
        "pip install pyjms",
        "`pip install 'pyjms[spark]'`",
        'pip install "pyjms"',
        "pip\ninstall 'pyjms[tck]'",
        "pip install -U pyjms",
        'dependencies = ["pyjms[store]"]',
    ],
)
def test_the_name_is_found(text: str) -> None:
    assert offences(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install '../pyjms[tck]'",
        "pip install -e .",
        "pip install pytest\npyjms",
        "pip install 'pyjms-messaging[tck]'",
    ],
)
def test_a_checkout_and_the_distribution_may_be_named(text: str) -> None:
    assert not offences(text)
