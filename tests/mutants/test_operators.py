"""The mutation operators make the faults that they name, and nothing outside functions."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.operators import mutations
from tests.mutants.sample import PARTS, mutants_of


def faults(body: str) -> set[tuple[str, str]]:
    source = f"def f(a, b):\n    {body}\n"
    return {(found.operator, found.text) for found in mutations(source)}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("return a < b", ("comparison", "(a <= b)")),
        ("return a is None", ("comparison", "(a is not None)")),
        ("return a and b", ("and/or", "(a or b)")),
        ("return not a", ("remove not", "(a)")),
        ("return a + 1", ("arithmetic", "(a - 1)")),
        ("return a + 1", ("constant", "2")),
        ("return True", ("constant", "False")),
        ("return a", ("return None", "return None")),
        ("a.close()", ("remove statement", "pass")),
        ("a += 1", ("remove statement", "pass")),
        ("raise ValueError(a)", ("remove raise", "pass")),
        ("b = 1 if a else 2", ("negate condition", "(not (a))")),
    ],
)
def test_a_fault_is_made(body: str, fault: tuple[str, str]) -> None:
    assert fault in faults(body)


@pytest.mark.parametrize("body", ["return", "return None", "x: Literal[1]", '"""True."""', "import os", "a = 'é'"])
def test_what_cannot_be_a_fault_is_left_alone(body: str) -> None:
    assert not faults(body)


def test_text_outside_ascii_does_not_move_a_fault() -> None:
    [found] = [each for each in mutations("def f(a):\n    return 'é', a < 'ü'\n") if each.operator == "comparison"]
    assert found.apply("def f(a):\n    return 'é', a < 'ü'\n") == "def f(a):\n    return 'é', (a <= 'ü')\n"


@pytest.mark.parametrize("part", PARTS)
def test_every_mutant_of_a_part_compiles(part: str) -> None:
    from tests.mutants.sample import ROOT

    found = list(mutants_of(part))
    assert len(found) > 100
    for each in found[:: max(1, len(found) // 200)]:
        ast.parse(each.mutation.apply((ROOT / each.path).read_text(encoding="utf-8")))
