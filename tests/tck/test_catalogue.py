from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pyjms_tck.catalogue import CatalogueError, Level, load_catalogue, order_of, read_catalogue

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {
    "id": '"3.4.1-a"',
    "section": '"3.4.1"',
    "statement": '"Send sets it."',
    "level": '"required"',
    "testable": "true",
    "hint": '"Look."',
}


def write(folder: Path, name: str = "03-messages.toml", **changes: str | None) -> None:
    keys = {**GOOD, **changes}
    lines = [f"{key} = {value}" for key, value in keys.items() if value is not None]
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write("\n".join(["[[requirement]]", *lines, ""]))


def test_the_catalogue_of_the_suite_is_consistent() -> None:
    catalogue = load_catalogue()
    assert {one.chapter for one in catalogue.requirements.values()} == set(catalogue.chapters)
    assert len(catalogue.requirements) > 300


def test_a_requirement_is_read_with_all_it_has(tmp_path: Path) -> None:
    write(tmp_path, feature='"TOPICS"', assertions='["JMS:SPEC:2", "JMS:JAVADOC:77"]')
    write(tmp_path, id='"3.4.1-b"', testable="false", reason='"it cannot be seen"', level='"undefined"')
    (tmp_path / "README.md").write_text("not a chapter", "utf-8")
    catalogue = read_catalogue(tmp_path)
    first, second = catalogue.requirements.values()
    assert (first.id, first.section, first.chapter, first.level) == ("3.4.1-a", "3.4.1", 3, Level.REQUIRED)
    assert (first.statement, first.hint, first.feature) == ("Send sets it.", "Look.", "TOPICS")
    assert first.assertions == ("JMS:SPEC:2", "JMS:JAVADOC:77")
    assert (first.testable, first.reason) == (True, None)
    assert (second.testable, second.reason, second.level) == (False, "it cannot be seen", Level.UNDEFINED)
    assert catalogue.chapters[3].title == "Messages"


def test_a_chapter_without_a_known_name_has_that_of_its_file(tmp_path: Path) -> None:
    write(tmp_path, "12-other-things.toml", id='"12.1-a"', section='"12.1"')
    assert read_catalogue(tmp_path).chapters[12].title == "Other things"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"id": None}, "requirement 1: id is missing"),
        ({"hint": None, "level": None}, "3.4.1-a: hint, level is missing"),
        ({"colour": '"red"'}, "unknown colour"),
        ({"statement": '""'}, "statement = '' must be a str, and not empty"),
        ({"testable": '"yes"'}, "testable = 'yes' must be a bool"),
        ({"assertions": '"JMS:SPEC:2"'}, "must be a list"),
        ({"assertions": '["SPEC2"]'}, r"assertions \['SPEC2'\] do not look like"),
        ({"assertions": "[2]"}, r"assertions \[2\] do not look like"),
        ({"id": '"3.4.2-a"'}, "an id is the section, a dash"),
        ({"id": '"3.4.1"'}, "an id is the section, a dash"),
        ({"level": '"nice"'}, "level 'nice' is none of required, optional, undefined"),
        ({"feature": '"TELEPATHY"'}, "'TELEPATHY' is no member of"),
        ({"testable": "false"}, "has a reason exactly when it is not testable"),
        ({"reason": '"so"'}, "has a reason exactly when it is not testable"),
        ({"id": '"4.1-a"', "section": '"4.1"'}, "section 4.1 belongs into the file of its chapter"),
    ],
)
def test_a_mistake_is_told_with_file_and_id(tmp_path: Path, changes: dict[str, str | None], told: str) -> None:
    write(tmp_path, "03-messages.toml", **changes)
    with pytest.raises(CatalogueError, match=rf"03-messages.toml: .*{told}"):
        read_catalogue(tmp_path)


def test_an_id_stands_once(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path)
    with pytest.raises(CatalogueError, match=r"3\.4\.1-a stands twice"):
        read_catalogue(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("3-messages.toml", "", "name the file NN-name"),
        ("03-messages.toml", "= 1", "is no TOML"),
        ("03-messages.toml", "title = 'x'", r"unknown title; write \[\[requirement\]\]"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(CatalogueError, match=told):
        read_catalogue(tmp_path)


def test_ids_are_ordered_as_a_reader_counts() -> None:
    ordered = ["3.4-a", "3.4.1-a", "3.4.2-a", "3.4.2-b", "3.4.2-z", "3.4.2-aa", "3.4.10-a2", "3.4.10-a10", "11-a"]
    shuffled = random.Random(1).sample(ordered, len(ordered))
    assert sorted(shuffled, key=order_of) == ordered


def test_applications_do_not_pay_for_the_suite() -> None:
    """`import pyjms`, with a broker at work, imports nothing of the suite."""
    program = (
        "import sys, pyjms; pyjms.ConnectionFactory('vm://x').create_connection().close();"
        "sys.exit(any(name.startswith('pyjms_tck') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 0
