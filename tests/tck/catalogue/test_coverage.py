"""The catalogue names every assertion of the official lists of JMS 1.1 and 2.0, and no other."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
OFFICIAL: dict[str, list[str]] = json.loads((ROOT / "tests/data/spec/requirements.json").read_text(encoding="utf-8"))


TESTABLE = {*OFFICIAL["required_and_testable"], *OFFICIAL["required_and_testable_2"]}
INJECTED = {
    f"JMS:JAVADOC:{number}" for number in (917, 994, 997, 1340, 1353, 1354, 1366, 1367, 1368)
}  # what contexts refuse that a container injects: Python has none
OTHERS = {*OFFICIAL["others"], *OFFICIAL["others_2"]}


@pytest.fixture(scope="module")
def catalogue() -> list[dict[str, Any]]:
    files = sorted((ROOT / "tck/pyjms_tck/catalogue").glob("*.toml"))
    return [
        requirement for file in files for requirement in tomllib.loads(file.read_text(encoding="utf-8"))["requirement"]
    ]


def covered(requirements: list[dict[str, Any]]) -> set[str]:
    return {id for requirement in requirements for id in requirement.get("assertions", ())}


def test_every_required_and_testable_assertion_belongs_to_a_requirement_that_is_tested(
    catalogue: list[dict[str, Any]],
) -> None:
    tested = covered([requirement for requirement in catalogue if requirement["testable"]])
    assert TESTABLE - tested == INJECTED


def test_every_other_assertion_is_in_the_catalogue_too(catalogue: list[dict[str, Any]]) -> None:
    assert OTHERS - covered(catalogue) == set()


def test_the_catalogue_names_no_assertion_that_does_not_exist(catalogue: list[dict[str, Any]]) -> None:
    assert covered(catalogue) - TESTABLE - OTHERS == set()


def test_a_requirement_without_assertions_is_one_of_ours(catalogue: list[dict[str, Any]]) -> None:
    ours = {requirement["section"] for requirement in catalogue if not requirement.get("assertions")}
    # Vectors on which brokers differ, what is only recorded, the API itself, and rules of the text of JMS 2.0.
    assert {section for section in ours if not section.startswith(("11.", "20."))} == {"3.8.1.1", "4.5.2"}


def test_what_came_with_2_0_is_marked_so(catalogue: list[dict[str, Any]]) -> None:
    later = covered([requirement for requirement in catalogue if requirement.get("version") == "2.0"])
    assert later == {*OFFICIAL["required_and_testable_2"], *OFFICIAL["others_2"]}
