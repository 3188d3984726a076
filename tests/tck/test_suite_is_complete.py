"""The catalogue and the suite fit: each requirement has a test or a reason, and each name says what it is about."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest

from pyjms_tck.catalogue import Level, load_catalogue
from pyjms_tck.run import SUITE_TARGET
from pyjms_tck.runner.pool import Task, collect

if TYPE_CHECKING:
    from pyjms_tck.runner.messages import Test


@pytest.fixture(scope="module")
def tests() -> tuple[Test, ...]:
    task = Task(url="vm://complete", profile=None, select=(), target=SUITE_TARGET)
    return asyncio.run(collect(task)).tests


def in_chapters(tests: tuple[Test, ...]) -> list[Test]:
    """Return the tests of single requirements; those of the folder ``chaos`` look at many at once."""
    return [test for test in tests if not test.test.startswith("chaos/")]


def test_each_requirement_has_a_test_or_a_reason(tests: tuple[Test, ...]) -> None:
    tested = {id for test in tests for id in test.requirements}
    untested = [one.id for one in load_catalogue().requirements.values() if one.testable and one.id not in tested]
    assert untested == []


def test_a_test_is_named_after_a_requirement_that_it_checks(tests: tuple[Test, ...]) -> None:
    misnamed = []
    for test in in_chapters(tests):
        name, bracket, _ = test.test.rpartition("::")[2].partition("[")
        # A table whose cases check a requirement each is named after their section.
        names = {id.rpartition("-")[0] if bracket and len(test.requirements) == 1 else id for id in test.requirements}
        starts = {"test_" + re.sub(r"\W", "_", id).lower() + "_" for id in {*names, *test.requirements}}
        if not name.startswith(tuple(starts)):
            misnamed.append(test.test)
    assert misnamed == []


def test_a_test_stands_in_the_folder_of_its_chapter(tests: tuple[Test, ...]) -> None:
    chapters = {one.id: one.chapter for one in load_catalogue().requirements.values()}
    misplaced = [
        test.test
        for test in in_chapters(tests)
        if not any(test.test.startswith(f"chapter_{chapters[id]:02}/") for id in test.requirements)
    ]
    assert misplaced == []


def test_the_parts_of_the_catalogue_are_all_used() -> None:
    requirements = load_catalogue().requirements.values()
    assert {one.level for one in requirements} == set(Level)
    assert any(one.feature for one in requirements)
    assert any(not one.testable for one in requirements)
