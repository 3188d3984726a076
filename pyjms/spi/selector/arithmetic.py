"""Java's arithmetic and comparisons on stored values (JMS 1.1 §3.8.1.1: numeric promotion as in Java).

Values are those of `pyjms.types.Stored`. None is null; arithmetic on anything else that is no number gives `NO_NUMBER`,
which compares with nothing. A whole number divided by zero is null: Java has no value for it.
"""

from __future__ import annotations

import operator
from math import copysign, inf, isnan, nan
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyjms.types import Byte, Double, Float, Int, Long, Short, Stored, round_to_single

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyjms.spi.selector.nodes import ArithmeticOperator, ComparisonOperator


class NoNumber:
    """The result of arithmetic on a string or a boolean."""

    def __repr__(self) -> str:
        return "no number"


NO_NUMBER: Final = NoNumber()

Value: TypeAlias = Stored | NoNumber

# Java promotes both operands to the wider type of the two, and to int at least (JLS 5.6.2).
_INT, _LONG, _SINGLE, _DOUBLE = range(4)
_RANKS: Final[Mapping[type, int]] = {
    int: _INT,
    Byte: _INT,
    Short: _INT,
    Int: _INT,
    Long: _LONG,
    Float: _SINGLE,
    float: _DOUBLE,
    Double: _DOUBLE,
}
NUMBERS: Final = frozenset(_RANKS)
"""The classes of numbers; bool, though an int in Python, is not one of them."""

_EXACT_DOUBLE = 2**53


def as_long(value: int) -> Long:
    """Return `value`, which is in range, as a Java long."""
    return int.__new__(Long, value)


# The operands of the functions inside are `Any`: their types are looked up in the ranks, which mypy cannot follow.


def _to_single(value: Any) -> float:
    """Return the result of Java's (float) cast of a number."""
    if isinstance(value, float) or -_EXACT_DOUBLE <= value <= _EXACT_DOUBLE:
        return round_to_single(value)
    # A long beyond 2**53 would be rounded twice, to a double first. Its lowest bits may be replaced by one bit that shows
    # whether any was set: single precision cannot distinguish more.
    shift = abs(value).bit_length() - 53
    kept = abs(value) >> shift
    kept |= (kept << shift) != abs(value)
    return round_to_single(copysign(float(kept << shift), value))


# -------------------------------------------------------------------------------------------------------- arithmetic


def _divide_whole(left: int, right: int) -> int | None:
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    # Where Python raises an error, Java has a value.
    if isnan(left) or left == 0:
        return nan
    return copysign(inf, left) * copysign(1.0, right)


_WHOLE: Final[Mapping[ArithmeticOperator, Callable[[int, int], int | None]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide_whole,
}
_FRACTIONAL: Final[Mapping[ArithmeticOperator, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
}


def _wrap(value: int, bits: int) -> int:
    """Return the lowest `bits` bits of `value` as a signed number: Java's integers overflow silently."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def _calculator(symbol: ArithmeticOperator) -> Callable[[Value, Value], Value]:
    whole, fractional = _WHOLE[symbol], _FRACTIONAL[symbol]

    def calculate(left: Any, right: Any) -> Value:
        if type(left) is float and type(right) is float:
            return fractional(left, right)
        if left is None or right is None:
            return None
        left_rank, right_rank = _RANKS.get(type(left)), _RANKS.get(type(right))
        if left_rank is None or right_rank is None:
            return NO_NUMBER
        rank = max(left_rank, right_rank)
        if rank == _DOUBLE:
            return fractional(float(left), float(right))
        if rank == _SINGLE:
            # Exact in double precision or rounded there: rounding once more gives Java's float result in all four.
            return Float(fractional(_to_single(left), _to_single(right)))
        result = whole(left, right)
        if result is None:
            return None
        return _wrap(result, 32) if rank == _INT else as_long(_wrap(result, 64))

    return calculate


CALCULATE: Final[Mapping[ArithmeticOperator, Callable[[Value, Value], Value]]] = MappingProxyType(
    {symbol: _calculator(symbol) for symbol in _WHOLE}
)
"""The value of ``left operator right``, by operator."""


def calculate_all(operators: Sequence[ArithmeticOperator], first: Value, *rest: Value) -> Value:
    """Return the value of ``first operator rest[0] operator rest[1] …``, from left to right."""
    result = first
    for symbol, operand in zip(operators, rest, strict=True):
        result = CALCULATE[symbol](result, operand)
    return result


def plus(value: Value) -> Value:
    """Return ``+value``: the value itself, if it is a number."""
    return value if value is None or type(value) in NUMBERS else NO_NUMBER


def minus(value: Any) -> Value:
    """Return ``-value``; the smallest int and the smallest long are their own opposites, as in Java."""
    if value is None:
        return None
    rank = _RANKS.get(type(value))
    if rank is None:
        return NO_NUMBER
    if rank == _DOUBLE:
        return -float(value)
    if rank == _SINGLE:
        return Float(-value)
    return _wrap(-value, 32) if rank == _INT else as_long(_wrap(-value, 64))


# ------------------------------------------------------------------------------------------------------- comparisons

_COMPARE: Final[Mapping[ComparisonOperator, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _comparison(symbol: ComparisonOperator) -> Callable[[Value, Value], bool]:
    compare = _COMPARE[symbol]
    # Strings and booleans know = and <> only, among themselves; unlike types never compare true.
    alike = NUMBERS | {str, bool} if symbol in {"=", "<>"} else NUMBERS

    def holds(left: Any, right: Any) -> bool:
        if type(left) is type(right):
            return type(left) in alike and compare(left, right)
        left_rank, right_rank = _RANKS.get(type(left)), _RANKS.get(type(right))
        if left_rank is None or right_rank is None:
            return False
        rank = max(left_rank, right_rank)
        if rank == _DOUBLE:
            return compare(float(left), float(right))
        if rank == _SINGLE:
            return compare(_to_single(left), _to_single(right))
        return compare(left, right)

    return holds


def _failing(symbol: ComparisonOperator) -> Callable[[Value, Value], bool]:
    holds = HOLDS[symbol]

    def fails(left: Value, right: Value) -> bool:
        return left is not None and right is not None and not holds(left, right)

    return fails


HOLDS: Final[Mapping[ComparisonOperator, Callable[[Value, Value], bool]]] = MappingProxyType(
    {symbol: _comparison(symbol) for symbol in _COMPARE}
)
"""Whether ``left operator right`` is true, by operator. Null makes it unknown, so not true."""

FAILS: Final[Mapping[ComparisonOperator, Callable[[Value, Value], bool]]] = MappingProxyType(
    {symbol: _failing(symbol) for symbol in _COMPARE}
)
"""Whether ``left operator right`` is false, by operator: nothing is null, and it does not hold."""


def between_holds(value: Value, low: Value, high: Value) -> bool:
    """Whether ``value BETWEEN low AND high`` is true."""
    return HOLDS[">="](value, low) and HOLDS["<="](value, high)


def between_fails(value: Value, low: Value, high: Value) -> bool:
    """Whether ``value BETWEEN low AND high`` is false: one half decides, even if the other is unknown."""
    return FAILS[">="](value, low) or FAILS["<="](value, high)


def not_between_holds(value: Value, low: Value, high: Value) -> bool:
    """Whether ``value NOT BETWEEN low AND high`` is true."""
    return HOLDS["<"](value, low) or HOLDS[">"](value, high)


def not_between_fails(value: Value, low: Value, high: Value) -> bool:
    """Whether ``value NOT BETWEEN low AND high`` is false."""
    return FAILS["<"](value, low) and FAILS[">"](value, high)
