"""Each decision has a number of its own, which its title says too: two pages of one number cannot be cited."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby

import pytest

from tests.tidy.source import ROOT

FOLDER = ROOT / "docs" / "decisions"
TITLE = re.compile(r"# (\d{4})\. \S")


def offences(titles: Mapping[str, str]) -> list[str]:
    """Return what is wrong with pages, by their file's name, that begin with these lines."""
    found = [
        f"{name}: its title is not '# {name[:4]}. …'"
        for name, title in titles.items()
        if not (match := TITLE.match(title)) or match[1] != name[:4]
    ]
    for number, same in groupby(sorted(titles), lambda name: name[:4]):
        names = list(same)
        if len(names) > 1:
            found.append(f"{number} is the number of {' and of '.join(names)}")
    return found


def test_each_decision_has_a_number_of_its_own() -> None:
    titles = {
        path.name: path.read_text(encoding="utf-8").partition("\n")[0]
        for path in FOLDER.glob("*.md")
        if path.name != "index.md"
    }
    found = offences(titles)
    assert titles
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "titles",
    [
        {"0001-one.md": "# 0001. One", "0001-two.md": "# 0001. Two"},
        {"0001-one.md": "# 0002. One"},
        {"0001-one.md": "# One"},
    ],
)
def test_what_is_wrong_is_found(titles: dict[str, str]) -> None:
    assert len(offences(titles)) == 1


def test_what_is_right_is_left_alone() -> None:
    assert not offences({"0001-one.md": "# 0001. One", "0002-two.md": "# 0002. Two"})
