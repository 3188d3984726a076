from __future__ import annotations

from itertools import product

import pytest

from pyjms.spi.selector.explain import AND, NOT, OR, Truth, conjunction, disjunction
from tests.pyjms.spi.selector.support import evaluate

ALL: tuple[Truth, ...] = (True, False, None)
PAIRS = list(product(ALL, ALL))


def ordered(value: Truth) -> int:
    """Return the place of a value in the order false, unknown, true."""
    return {False: 0, None: 1, True: 2}[value]


def test_the_tables_are_complete() -> None:
    assert set(AND) == set(OR) == set(PAIRS)
    assert set(NOT) == set(ALL)


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_and_is_the_least_and_or_the_greatest(left: Truth, right: Truth) -> None:
    assert ordered(AND[left, right]) == min(ordered(left), ordered(right))
    assert ordered(OR[left, right]) == max(ordered(left), ordered(right))
    assert NOT[AND[left, right]] is OR[NOT[left], NOT[right]]


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_compiled_selectors_obey_the_tables(left: Truth, right: Truth) -> None:
    properties = {name: value for name, value in {"a": left, "b": right}.items() if value is not None}
    assert evaluate("a AND b", properties) is AND[left, right]
    assert evaluate("a OR b", properties) is OR[left, right]
    assert evaluate("NOT a", properties) is NOT[left]
    assert evaluate("NOT (a AND b)", properties) is NOT[AND[left, right]]
    assert evaluate("NOT (a OR b)", properties) is NOT[OR[left, right]]


@pytest.mark.parametrize("values", list(product(ALL, repeat=3)))
def test_chains_are_taken_from_left_to_right(values: tuple[Truth, ...]) -> None:
    first, second, third = values
    assert conjunction(values) is AND[AND[first, second], third]
    assert disjunction(values) is OR[OR[first, second], third]
