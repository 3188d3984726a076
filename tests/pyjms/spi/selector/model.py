"""Selectors as the specification reads, by the slowest and plainest means, to judge the compiled ones.

An `Expression` carries its text and a function that evaluates it, so the model shares no parser with what it judges.
Whole numbers wrap by ctypes; single precision is exact rational arithmetic, rounded once; truth is a number from 0
(false) over 1 (unknown) to 2 (true), so that AND is the least, OR the greatest, and NOT 2 minus the value.
"""

from __future__ import annotations

import ctypes
import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from pyjms.types import Byte, Double, Float, Int, Long, Short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Message = Mapping[str, Any]

FALSE, UNKNOWN, TRUE = range(3)
UNLIKE = object()
TYPES = {
    int: "int",
    Byte: "int",
    Short: "int",
    Int: "int",
    Long: "long",
    Float: "float",
    float: "double",
    Double: "double",
}
WIDENING = ["int", "long", "float", "double"]
NUMBERS = ("i", "l", "f", "d", "x")
NAMES = (*NUMBERS, "s", "t", "b")
HEADERS = ("JMSPriority", "JMSTimestamp", "JMSType", "JMSMessageID", "JMSCorrelationID", "JMSDeliveryMode")


@dataclass(frozen=True, repr=False)
class Expression:
    """`level` is the precedence of its outermost operator."""

    text: str
    level: int
    value: Callable[[Message], Any]

    def __repr__(self) -> str:
        return self.text

    def within(self, level: int) -> str:
        """Return the text, in brackets if it binds less than `level`."""
        return self.text if self.level >= level else f"({self.text})"


OR, AND, NOT, CONDITION, SUM, PRODUCT, SIGN, ATOM = range(8)


# ------------------------------------------------------------------------------------------------------------ numbers


def nearest_single(exact: Fraction) -> float:
    """Return the 32-bit float nearest to `exact`, ties to even."""
    if exact == 0:
        return 0.0
    exponent = math.floor(math.log2(abs(exact)))
    exponent += (abs(exact) >= Fraction(2) ** (exponent + 1)) - (abs(exact) < Fraction(2) ** exponent)
    quantum = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = round(exact / quantum) * quantum
    if abs(rounded) >= Fraction(2) ** 128:
        return math.copysign(math.inf, exact)
    return math.copysign(float(rounded), exact)


def to_single(value: float) -> float:
    return nearest_single(Fraction(value)) if math.isfinite(value) and value else float(value)


def divide(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


FRACTIONAL: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
}


def calculate_single(symbol: str, left: float, right: float) -> float:
    rough: float = FRACTIONAL[symbol](left, right)
    if not (math.isfinite(left) and math.isfinite(right)) or rough == 0 or (symbol == "/" and right == 0):
        return rough if rough != 0 or not (left and right) else to_single(rough)
    exact = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[symbol]
    return nearest_single(exact(Fraction(left), Fraction(right)))


def common_type(left: Any, right: Any) -> str:
    return max(TYPES[type(left)], TYPES[type(right)], key=WIDENING.index)


def calculate(symbol: str, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if type(left) not in TYPES or type(right) not in TYPES:
        return UNLIKE
    kind = common_type(left, right)
    if kind == "double":
        return FRACTIONAL[symbol](float(left), float(right))
    if kind == "float":
        return Float(calculate_single(symbol, to_single(left), to_single(right)))
    if symbol == "/" and right == 0:
        return None
    exact = math.trunc(Fraction(left, right)) if symbol == "/" else FRACTIONAL[symbol](int(left), int(right))
    return ctypes.c_int32(exact).value if kind == "int" else Long(ctypes.c_int64(exact).value)


def opposite(value: Any) -> Any:
    if value is None:
        return None
    if type(value) not in TYPES:
        return UNLIKE
    kind = TYPES[type(value)]
    if kind == "int":
        return ctypes.c_int32(-value).value
    return Long(ctypes.c_int64(-value).value) if kind == "long" else Float(-value) if kind == "float" else -float(value)


# --------------------------------------------------------------------------------------------------------- conditions

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare(symbol: str, left: Any, right: Any) -> int:
    if left is None or right is None:
        return UNKNOWN
    if type(left) in TYPES and type(right) in TYPES:
        kind = common_type(left, right)
        if kind == "double":
            return TRUE if COMPARE[symbol](float(left), float(right)) else FALSE
        if kind == "float":
            return TRUE if COMPARE[symbol](to_single(left), to_single(right)) else FALSE
        return TRUE if COMPARE[symbol](int(left), int(right)) else FALSE
    alike = (isinstance(left, str) and isinstance(right, str)) or (isinstance(left, bool) and isinstance(right, bool))
    return TRUE if alike and symbol in {"=", "<>"} and COMPARE[symbol](left, right) else FALSE


def like(text: str, pattern: str, escape: str | None) -> bool:
    """Try every way in which the pattern could match."""
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == escape:
        return text[:1] == rest[:1] and like(text[1:], rest[1:], escape)
    if head == "%":
        return any(like(text[cut:], rest, escape) for cut in range(len(text) + 1))
    return bool(text) and head in {"_", text[0]} and like(text[1:], rest, escape)


def of_string(value: Any, test: Callable[[str], bool]) -> int:
    return UNKNOWN if value is None else TRUE if isinstance(value, str) and test(value) else FALSE


# ------------------------------------------------------------------------------------------------------------- values

EDGES = (0, 1, 2, 7, 10, 127, 128, 2**24, 2**31, 2**32, 2**53, 2**62, 2**63)
wholes = st.builds(
    lambda edge, step, sign: sign * (edge + step), st.sampled_from(EDGES), st.integers(-2, 2), st.sampled_from([1, -1])
)
fractions = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 16777216.0, 16777217.0, 2.0**53, 2.0**63, math.inf, math.nan]),
    wholes.map(float),
    st.floats(),
)


def within(kind: Any) -> st.SearchStrategy[Any]:
    return wholes.map(lambda value: min(max(value, kind.minimum), kind.maximum)).map(kind)


numbers = st.one_of(
    within(Int).map(int),
    *(within(kind) for kind in (Byte, Short, Int, Long)),
    fractions,
    fractions.map(Float),
    fractions.map(Double),
)
strings = st.one_of(st.sampled_from(["", "a", "b", "ab", "a%", "_", "1", "TRUE"]), st.text("ab%_!\n", max_size=6))
values = st.one_of(st.none(), st.booleans(), strings, numbers)
messages = st.fixed_dictionaries(
    {"s": st.one_of(strings, values), "b": st.one_of(st.booleans(), values)},
    optional={name: st.one_of(numbers, values) for name in (*NUMBERS, "t")},
)


# -------------------------------------------------------------------------------------------------------- expressions


def number_literal(value: Any) -> Expression:
    sign = value < 0 or (isinstance(value, float) and math.copysign(1, value) < 0)
    suffix = "L" if type(value) is Long else "f" if type(value) is Float else ""
    text = f"{abs(float(value))!r}{suffix}" if isinstance(value, float) else f"{abs(value)!r}{suffix}"
    return Expression(f"{'-' if sign else ''}{text}", SIGN if sign else ATOM, lambda _: value)


def literal_value(value: Any) -> Any:
    """Return the value that the literal of `value` has: whole numbers beyond the range of int are longs."""
    if type(value) is int and not Int.minimum <= value <= Int.maximum:
        return Long(value)
    return value


finite = fractions.filter(math.isfinite)
number_literals = st.one_of(
    within(Long).map(int).map(literal_value),
    within(Long),
    finite.map(abs),
    finite,
    finite.map(Float).filter(math.isfinite),
).map(number_literal)


def identifier(name: str) -> Expression:
    return Expression(name, ATOM, lambda message: message.get(name))


identifiers = st.sampled_from([*NAMES, *HEADERS]).map(identifier)
number_identifiers = st.sampled_from([*NUMBERS, *NUMBERS, "s", "JMSPriority", "JMSTimestamp"]).map(identifier)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


string_literals = strings.map(lambda text: Expression(quoted(text), ATOM, lambda _: text))
boolean_literals = st.booleans().map(lambda value: Expression(str(value).upper(), ATOM, lambda _: value))


def binary(symbol: str, left: Expression, right: Expression) -> Expression:
    level = SUM if symbol in "+-" else PRODUCT
    text = f"{left.within(level)} {symbol} {right.within(level + 1)}"
    return Expression(text, level, lambda m: calculate(symbol, left.value(m), right.value(m)))


def signed(sign: str, operand: Expression) -> Expression:
    inner = f"({operand.text})" if operand.text[0].isdigit() else operand.within(SIGN)
    if sign == "-":
        return Expression(f"-{inner}", SIGN, lambda m: opposite(operand.value(m)))
    return Expression(f"+{inner}", SIGN, lambda m: calculate_plus(operand.value(m)))


def calculate_plus(value: Any) -> Any:
    return value if value is None or type(value) in TYPES else UNLIKE


# Deferred, since hypothesis prints strategies when it drops an example, and these are long.
arithmetic = st.deferred(
    lambda: st.recursive(
        st.one_of(number_identifiers, number_literals),
        lambda inner: st.one_of(
            st.builds(binary, st.sampled_from("+-*/"), inner, inner), st.builds(signed, st.sampled_from("+-"), inner)
        ),
        max_leaves=5,
    )
)


def comparison(symbol: str, left: Expression, right: Expression) -> Expression:
    text = f"{left.within(SUM)} {symbol} {right.within(SUM)}"
    return Expression(text, CONDITION, lambda m: compare(symbol, left.value(m), right.value(m)))


def between(operand: Expression, low: Expression, high: Expression, negated: bool) -> Expression:
    def value(m: Message) -> int:
        a, x, y = operand.value(m), low.value(m), high.value(m)
        if negated:
            return max(compare("<", a, x), compare(">", a, y))
        return min(compare(">=", a, x), compare("<=", a, y))

    text = f"{operand.within(SUM)} {'NOT ' * negated}BETWEEN {low.within(SUM)} AND {high.within(SUM)}"
    return Expression(text, CONDITION, value)


def listed(operand: Expression, items: list[str], negated: bool) -> Expression:
    text = f"{operand.text} {'NOT ' * negated}IN ({', '.join(map(quoted, items))})"
    return Expression(text, CONDITION, lambda m: of_string(operand.value(m), lambda v: (v in items) is not negated))


def liked(operand: Expression, pattern: str, escape: str | None, negated: bool) -> Expression:
    if escape and (len(pattern) - len(pattern.rstrip(escape))) % 2:
        pattern += escape
    text = f"{operand.text} {'NOT ' * negated}LIKE {quoted(pattern)}{f' ESCAPE {quoted(escape)}' if escape else ''}"
    return Expression(
        text, CONDITION, lambda m: of_string(operand.value(m), lambda v: like(v, pattern, escape) is not negated)
    )


def null_test(operand: Expression, negated: bool) -> Expression:
    text = f"{operand.text} IS {'NOT ' * negated}NULL"
    return Expression(text, CONDITION, lambda m: TRUE if (operand.value(m) is None) is not negated else FALSE)


def alone(operand: Expression) -> Expression:
    return Expression(
        operand.text,
        operand.level,
        lambda m: TRUE if (v := operand.value(m)) is True else FALSE if v is False else UNKNOWN,
    )


patterns = st.text("ab%_!", max_size=6)
conditions = st.deferred(
    lambda: st.one_of(
        st.builds(comparison, st.sampled_from(list(COMPARE)), st.one_of(identifiers, arithmetic), arithmetic),
        st.builds(comparison, st.sampled_from(list(COMPARE)), arithmetic, st.one_of(identifiers, arithmetic)),
        st.builds(comparison, st.sampled_from(list(COMPARE)), identifiers, identifiers),
        st.builds(comparison, st.sampled_from(["=", "<>"]), identifiers, st.one_of(string_literals, boolean_literals)),
        st.builds(comparison, st.sampled_from(["=", "<>"]), st.one_of(string_literals, boolean_literals), identifiers),
        st.builds(between, arithmetic, arithmetic, arithmetic, st.booleans()),
        st.builds(between, number_identifiers, number_literals, number_literals, st.booleans()),
        st.builds(listed, identifiers, st.lists(strings, min_size=1, max_size=4), st.booleans()),
        st.builds(liked, identifiers, patterns, st.none() | st.sampled_from("!a%_"), st.booleans()),
        st.builds(null_test, identifiers, st.booleans()),
        st.one_of(identifiers, boolean_literals).map(alone),
    )
)


def junction(word: str, terms: list[Expression]) -> Expression:
    level, choose = (AND, min) if word == "AND" else (OR, max)
    text = f" {word} ".join(term.within(level + 1 if index else level) for index, term in enumerate(terms))
    return Expression(text, level, lambda m: choose(term.value(m) for term in terms))


def negation(operand: Expression) -> Expression:
    return Expression(f"NOT {operand.within(NOT)}", NOT, lambda m: 2 - operand.value(m))


selectors = st.deferred(
    lambda: st.recursive(
        conditions,
        lambda inner: st.one_of(
            st.builds(junction, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=4)),
            st.builds(negation, inner),
        ),
        max_leaves=6,
    )
)


def headers(message: Message) -> dict[str, Any]:
    """Return the header fields of an envelope as the model reads them."""
    return {
        "JMSPriority": message["priority"],
        "JMSTimestamp": Long(message["timestamp_ms"]),
        "JMSType": message["jms_type"],
        "JMSMessageID": message["message_id"],
        "JMSCorrelationID": value if isinstance(value := message["correlation_id"], str) else None,
        "JMSDeliveryMode": "PERSISTENT" if message["delivery_mode"] == 2 else "NON_PERSISTENT",
    }


header_fields = st.fixed_dictionaries(
    {
        "priority": st.integers(0, 9),
        "timestamp_ms": st.sampled_from([0, 1, 10**12, 2**41]),
        "jms_type": st.none() | strings,
        "message_id": st.none() | st.just("ID:a"),
        "correlation_id": st.none() | strings | st.just(b"a"),
        "delivery_mode": st.sampled_from([1, 2]),
    }
)
