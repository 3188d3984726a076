from __future__ import annotations

import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.selector.arithmetic import CALCULATE, FAILS, HOLDS, NO_NUMBER, calculate_all, minus, plus
from pyjms.spi.selector.nodes import ArithmeticOperator, ComparisonOperator
from pyjms.types import Byte, Double, Float, Int, Long, Short
from tests.pyjms.spi.selector import model

COMPARISONS: tuple[ComparisonOperator, ...] = get_args(ComparisonOperator)
OPERATORS: tuple[ArithmeticOperator, ...] = get_args(ArithmeticOperator)
PLAIN = {"int": int, "long": Long, "float": Float, "double": float}


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    return bool(left == right)


@given(st.sampled_from(OPERATORS), model.numbers, model.numbers)
def test_operators_give_javas_value_and_type(operator: ArithmeticOperator, left: Any, right: Any) -> None:
    assert same(CALCULATE[operator](left, right), model.calculate(operator, left, right))


@given(model.numbers)
def test_a_sign_gives_javas_value_and_type(value: Any) -> None:
    assert same(minus(value), model.opposite(value))
    assert plus(value) is value


@given(st.sampled_from(COMPARISONS), model.values, model.values)
def test_comparisons_are_those_of_the_model(operator: ComparisonOperator, left: Any, right: Any) -> None:
    value = model.compare(operator, left, right)
    assert HOLDS[operator](left, right) is (value == model.TRUE)
    assert FAILS[operator](left, right) is (value == model.FALSE)


@pytest.mark.parametrize(
    "left", [Byte(1), Short(1), 1, Int(1), Long(1), Float(1), 1.0, Double(1)], ids=lambda v: type(v).__name__
)
@pytest.mark.parametrize(
    "right", [Byte(1), Short(1), 1, Int(1), Long(1), Float(1), 1.0, Double(1)], ids=lambda v: type(v).__name__
)
def test_the_result_has_the_wider_type(left: Any, right: Any) -> None:
    expected = PLAIN[model.common_type(left, right)]
    for operator in OPERATORS:
        assert type(CALCULATE[operator](left, right)) is expected
    assert type(minus(left)) is PLAIN[model.TYPES[type(left)]]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("other", ["1", True, b"1", NO_NUMBER])
def test_arithmetic_on_other_things_gives_no_number_and_with_null_gives_null(
    operator: ArithmeticOperator, other: Any
) -> None:
    assert CALCULATE[operator](other, 1) is CALCULATE[operator](1, other) is NO_NUMBER
    assert CALCULATE[operator](other, None) is CALCULATE[operator](None, other) is None
    assert plus(other) is minus(other) is NO_NUMBER
    assert plus(None) is minus(None) is None
    assert repr(NO_NUMBER) == "no number"


@pytest.mark.parametrize("operator", COMPARISONS)
def test_no_number_compares_with_nothing(operator: ComparisonOperator) -> None:
    assert not HOLDS[operator](NO_NUMBER, 1)
    assert not HOLDS[operator]("x", NO_NUMBER)
    assert FAILS[operator](NO_NUMBER, 1)
    assert not FAILS[operator](NO_NUMBER, None)


@pytest.mark.parametrize(
    ("left", "right", "quotient"),
    [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (Int.minimum, -1, Int.minimum), (1, 0, None), (0, 0, None)],
)
def test_whole_numbers_divide_as_in_java(left: int, right: int, quotient: int | None) -> None:
    assert CALCULATE["/"](left, right) == quotient


@pytest.mark.parametrize(
    ("left", "right", "quotient"),
    [(1.0, 0.0, math.inf), (1.0, -0.0, -math.inf), (-1.0, 0.0, -math.inf), (1.0, 0, math.inf)],
)
def test_a_fraction_divided_by_zero_is_infinite(left: float, right: float, quotient: float) -> None:
    assert CALCULATE["/"](left, right) == quotient
    assert math.isnan(CALCULATE["/"](0.0, right))  # type: ignore[arg-type]


@given(st.integers(Long.minimum, Long.maximum))
def test_a_long_becomes_a_float_in_one_step(value: int) -> None:
    assert HOLDS["="](Long(value), Float(0)) is (value == 0)
    rounded = CALCULATE["+"](Long(value), Float(0))
    assert rounded == model.to_single(value)


def test_a_long_that_rounding_twice_would_get_wrong() -> None:
    value = Long(2**60 + 2**36 + 1)  # Just above the middle of two floats; as a double it is the middle.
    assert CALCULATE["+"](value, Float(0)) == float(2**60 + 2**37)


def test_a_chain_is_calculated_from_left_to_right() -> None:
    assert calculate_all(("-", "-"), 10, 2, 3) == 5
    assert calculate_all(("/", "*"), 7, 2, 2) == 6
