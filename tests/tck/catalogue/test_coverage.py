"""The catalogue names every assertion of the official lists that JMS 1.1 has, and no other."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
OFFICIAL: dict[str, list[str]] = json.loads((ROOT / "tests/data/spec/requirements.json").read_text(encoding="utf-8"))


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
    assert set(OFFICIAL["required_and_testable"]) - tested == set()


def test_every_other_assertion_is_in_the_catalogue_too(catalogue: list[dict[str, Any]]) -> None:
    assert set(OFFICIAL["others"]) - covered(catalogue) == set()


def test_the_catalogue_names_no_assertion_that_does_not_exist(catalogue: list[dict[str, Any]]) -> None:
    assert covered(catalogue) - set(OFFICIAL["required_and_testable"]) - set(OFFICIAL["others"]) == set()


def test_a_requirement_without_assertions_is_one_of_ours(catalogue: list[dict[str, Any]]) -> None:
    ours = {requirement["section"] for requirement in catalogue if not requirement.get("assertions")}
    # Vectors on which brokers differ, what is only recorded, and the API itself.
    assert {section for section in ours if not section.startswith("11.")} == {"3.8.1.1", "4.5.2"}
