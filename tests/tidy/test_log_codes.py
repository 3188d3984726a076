"""The page about the log explains each code that the library writes there, and no other."""

from __future__ import annotations

import re

from tests.tidy.source import LIBRARY, ROOT, python_files

PAGE = ROOT / "docs/reference/log.md"
# Those of the network have a page and a test of their own.
_CODE = re.compile(r"PYJMS-(?!NET-)[A-Z]+-\d+")


def codes_of(text: str) -> set[str]:
    return set(_CODE.findall(text))


def test_each_numbered_code_is_explained() -> None:
    written = set[str]().union(*(codes_of(path.read_text(encoding="utf-8")) for path in python_files(*LIBRARY)))
    assert "PYJMS-BROKER-1" in written
    assert codes_of(PAGE.read_text(encoding="utf-8")) == written


def test_a_code_of_the_network_is_none_of_these() -> None:
    assert codes_of("PYJMS-NET-5 PYJMS-STORE-10, PYJMS-STORE") == {"PYJMS-STORE-10"}
