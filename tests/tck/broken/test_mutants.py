"""The suite is tested: on providers with a fault, the tests of what they break fail."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from pyjms_tck.run import SUITE_TARGET
from pyjms_tck.runner.pool import Task, collect
from tests.tck.broken.collection import AREAS, MUTANTS
from tests.tck.broken.matrix import MATRIX, ROOT, known_unkilled, requirements_with_a_test
from tests.tck.broken.mutation import MutationError, edit, mutant, value


@pytest.fixture(scope="module")
def matrix() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(MATRIX.read_text(encoding="utf-8"))
    return data


def test_the_matrix_is_that_of_the_present_catalogue_and_mutants(matrix: dict[str, Any]) -> None:
    assert sorted(matrix["requirements"]) == sorted(requirements_with_a_test()), "run make tck-mutants"
    assert {name: one["breaks"] for name, one in matrix["mutants"].items()} == {
        each.name: list(each.breaks) for each in MUTANTS
    }, "run make tck-mutants"


def test_each_requirement_with_a_test_is_killed_by_a_mutant(matrix: dict[str, Any]) -> None:
    unkilled = {id for id, names in matrix["requirements"].items() if not names}
    assert unkilled == known_unkilled(), (
        "tests that nothing kills may be weak; the list of known ones only gets shorter"
    )


def test_each_mutant_is_noticed_by_the_tests_of_all_that_it_breaks(matrix: dict[str, Any]) -> None:
    assert matrix["not_noticed"] == []


def test_each_function_of_the_suite_notices_a_mutant(matrix: dict[str, Any]) -> None:
    task = Task(url="vm://matrix", profile=None, select=(), target=SUITE_TARGET)
    functions = {test.test.partition("[")[0] for test in asyncio.run(collect(task)).tests}
    assert set(matrix["tests"]) == functions, "run make tck-mutants"
    assert [test for test, names in matrix["tests"].items() if not names] == [], "tests that cannot be seen to fail"
    assert {name for names in matrix["tests"].values() for name in names} <= {each.name for each in MUTANTS}


def test_names_of_mutants_are_unique() -> None:
    assert [name for name, times in Counter(each.name for each in MUTANTS).items() if times > 1] == []


def test_mutants_break_requirements_that_have_a_test() -> None:
    assert {id for each in MUTANTS for id in each.breaks} - set(requirements_with_a_test()) == set()


@pytest.mark.parametrize("area", AREAS)
def test_mutants_fit_the_present_source(area: str) -> None:
    for each in AREAS[area]:
        with each.broken():
            pass


def test_a_sample_of_the_mutants_is_noticed() -> None:
    # A process of its own: the suite is run by pytest, which does not run within itself.
    run = subprocess.run(
        [sys.executable, "-m", "tests.tck.broken.sample"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


# -------------------------------------------------------------------------------------------------- how mutants are made

_NAME = "tests.tck.broken.guarded:GuardedProvider.connect"


def test_a_change_is_taken_back() -> None:
    from tests.tck.broken.guarded import GuardedProvider

    before, scheme = GuardedProvider.connect.__code__, "tests.tck.broken.guarded:SCHEME"
    broken = mutant("3.2-a", "two faults", edit(_NAME, "[0]", "[1]"), edit(_NAME, "[1]", "[-1]"), value(scheme, "x"))
    with broken.broken():
        from tests.tck.broken import guarded

        assert GuardedProvider.connect.__code__ is not before
        assert guarded.SCHEME == "x"
    assert GuardedProvider.connect.__code__ is before
    assert guarded.SCHEME == "guarded"
    assert broken.name == "two-faults"


@pytest.mark.parametrize(
    "change",
    [
        edit(_NAME, "words that are not there", ""),
        edit(_NAME, "request.user_name", "no_such_name"),
        edit(_NAME, "raise", "(raise"),
        edit("tests.tck.broken.guarded:GuardedProvider.no_such_method", "a", "b"),
        edit("tests.tck.broken.guarded:WRONG", "a", "b"),
    ],
    ids=["other words", "unknown name", "no Python", "no method", "no function"],
)
def test_a_change_that_does_not_fit_the_source_is_an_error(change: Any) -> None:
    with pytest.raises(MutationError), mutant("3.2-a", "a fault", change).broken():
        pass
