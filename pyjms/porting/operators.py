"""Operators of Java in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tree_sitter import Node

from pyjms.porting.codes import as_operand, binary, cut, unary
from pyjms.porting.conversions import BOXES, as_number, concatenated, promoted, unboxed
from pyjms.porting.model import BOOLEAN, INT, LIMITS, STRING, Expr, Type, Unportable
from pyjms.porting.syntax import needed, text_of
from pyjms.porting.unit import Unit

__all__ = ["apply", "binary_expression", "compare_equal", "unary_operation"]

Translate = Callable[[Unit, Node], Expr]


def binary_expression(unit: Unit, node: Node, translate: Translate) -> Expr:
    """Return ``left operator right``; a chain of ``+`` with texts is put together at once."""
    operator = text_of(needed(node, "operator"))
    left_node, right_node = needed(node, "left"), needed(node, "right")
    if operator == "+":
        parts = _sum(unit, node, translate)
        if any(expr.type == STRING for expr, _ in parts):
            return _text(unit, parts)
    left, right = translate(unit, left_node), translate(unit, right_node)
    return apply(unit, operator, left, right, node)


def _sum(unit: Unit, node: Node, translate: Translate) -> list[tuple[Expr, Node]]:
    """Return the operands of a chain of ``+``, from the left."""
    if node.type == "binary_expression" and text_of(needed(node, "operator")) == "+":
        right = needed(node, "right")
        before = _sum(unit, needed(node, "left"), translate)
        return [*before, (translate(unit, right), right)]
    return [(translate(unit, node), node)]


def _text(unit: Unit, parts: list[tuple[Expr, Node]]) -> Expr:
    """Return a chain in which a text occurs: what comes before it is added as numbers."""
    first = next(place for place, (expr, _) in enumerate(parts) if expr.type == STRING)
    start = max(first - 1, 0)
    if start:
        summed = parts[0][0]
        for expr, node in parts[1:first]:
            summed = apply(unit, "+", summed, expr, node)
        parts = [(summed, parts[0][1]), *parts[first:]]
    return concatenated(unit, parts)


def apply(unit: Unit, operator: str, left: Expr, right: Expr, node: Node) -> Expr:
    """Return the value of two operands."""
    if operator in {"==", "!="}:
        return compare_equal(unit, operator, left, right, node)
    if operator == "+" and STRING in {left.type, right.type}:
        return concatenated(unit, [(left, node), (right, node)])
    left, right = unboxed(left), unboxed(right)
    if left.type == right.type == BOOLEAN:
        words = {"&&": "and", "||": "or", "&": "&", "|": "|", "^": "^"}
        if operator in words:
            return Expr(binary(left.code, words[operator], right.code), BOOLEAN)
    if not (left.type.is_number and right.type.is_number):
        raise Unportable(node, f"{left.type} {operator} {right.type}")
    if operator in {"<", ">", "<=", ">="}:
        return _compared(left, operator, right)
    if operator in {"<<", ">>", ">>>"}:
        return _shifted(left, operator, right, node)
    kind = promoted(left.type, right.type)
    left, right = as_number(left, kind), as_number(right, kind)
    if kind.is_integral:
        return _INTEGRAL[operator](left, right, kind)
    return _floating(left, operator, right, kind, node)


def _compared(left: Expr, operator: str, right: Expr) -> Expr:
    if left.type.name == right.type.name == "char":
        return Expr(binary(left.code, operator, right.code), BOOLEAN)
    kind = promoted(left.type, right.type)
    return Expr(binary(as_number(left, kind).code, operator, as_number(right, kind).code), BOOLEAN)


def compare_equal(unit: Unit, operator: str, left: Expr, right: Expr, node: Node) -> Expr:
    """Return ``left == right``, or ``!=``: of numbers their values, of objects whether they are one."""
    if "null" in {left.type.name, right.type.name}:
        other = left if right.type.name == "null" else right
        return Expr(binary(other.code, "is" if operator == "==" else "is not", "None"), BOOLEAN)
    one_primitive = left.type.is_primitive or right.type.is_primitive
    if one_primitive:
        left, right = unboxed(left), unboxed(right)
        if left.type == right.type:
            return Expr(binary(left.code, operator, right.code), BOOLEAN)
        if left.type.is_number and right.type.is_number:
            return _compared(left, operator, right)
        raise Unportable(node, f"{left.type} {operator} {right.type}")
    for each in (left, right):
        if each.type == STRING or each.type.name in BOXES or each.type.name in _MAY_BE_VALUES:
            raise Unportable(
                node,
                f"{operator} between objects of {each.type}",
                "Java asks whether they are the same object: write == if equal values are meant",
            )
    if "?" in {left.type.name, right.type.name}:
        raise Unportable(node, f"{operator} between objects of an unknown type")
    return Expr(binary(left.code, "is" if operator == "==" else "is not", right.code), BOOLEAN)


_MAY_BE_VALUES: Final = frozenset(
    {"java.lang.Object", "java.lang.Number", "java.lang.Comparable", "java.io.Serializable", "java.lang.CharSequence"}
)


def _corners(operation: Callable[[int, int], int], left: Expr, right: Expr) -> tuple[int, int]:
    found = [operation(one, other) for one in left.limits for other in right.limits]
    return min(found), max(found)


def _add(left: Expr, right: Expr, kind: Type) -> Expr:
    return cut(binary(left.code, "+", right.code), kind, *_corners(lambda a, b: a + b, left, right))


def _subtract(left: Expr, right: Expr, kind: Type) -> Expr:
    return cut(binary(left.code, "-", right.code), kind, *_corners(lambda a, b: a - b, left, right))


def _multiply(left: Expr, right: Expr, kind: Type) -> Expr:
    return cut(binary(left.code, "*", right.code), kind, *_corners(lambda a, b: a * b, left, right))


def _is_plain(left: Expr, right: Expr) -> bool:
    """Whether Python divides as Java does."""
    return left.limits[0] >= 0 and right.limits[0] > 0


def _divide(left: Expr, right: Expr, kind: Type) -> Expr:
    if _is_plain(left, right):
        return Expr(binary(left.code, "//", right.code), kind, (0, left.limits[1]))
    most = max(abs(each) for each in left.limits)
    return cut(
        f"java.int_divide({left.code}, {right.code})", kind, -most, most if right.limits[0] <= -1 else left.limits[1]
    )


def _remainder(left: Expr, right: Expr, kind: Type) -> Expr:
    most = max(abs(each) for each in right.limits)
    most = min(max(most - 1, 0), LIMITS[kind.name][1])
    if _is_plain(left, right):
        return Expr(binary(left.code, "%", right.code), kind, (0, most))
    low = 0 if left.limits[0] >= 0 else -most
    return Expr(f"java.int_remainder({left.code}, {right.code})", kind, (low, most))


def _bits(operator: str) -> Callable[[Expr, Expr, Type], Expr]:
    def combine(left: Expr, right: Expr, kind: Type) -> Expr:
        low_high = None
        if operator == "&" and (masks := [each.limits[1] for each in (left, right) if each.limits[0] >= 0]):
            low_high = 0, min(masks)
        return Expr(binary(left.code, operator, right.code), kind, low_high)

    return combine


_INTEGRAL: Final = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
    "&": _bits("&"),
    "|": _bits("|"),
    "^": _bits("^"),
}


def _shifted(left: Expr, operator: str, right: Expr, node: Node) -> Expr:
    kind = promoted(left.type, INT)
    left = as_number(left, kind)
    right = as_number(right, promoted(right.type, INT))
    bits = 64 if kind.name == "long" else 32
    low, high = right.limits
    by = right.code if low >= 0 and high < bits else binary(right.code, "&", str(bits - 1))
    if operator == "<<":
        if low == high and 0 <= low < bits:
            return cut(binary(left.code, "<<", by), kind, left.limits[0] << low, left.limits[1] << low)
        return cut(binary(left.code, "<<", by), kind, LIMITS[kind.name][0] - 1, 0)
    if operator == ">>" or left.limits[0] >= 0:
        shifted = (
            left.limits if low != high or low < 0 or low >= bits else (left.limits[0] >> low, left.limits[1] >> low)
        )
        return Expr(binary(left.code, ">>", by), kind, (min(shifted[0], 0), shifted[1]) if low != high else shifted)
    masked = binary(left.code, "&", "0xFFFFFFFF" if bits == 32 else "0xFFFFFFFFFFFFFFFF")
    return cut(
        binary(masked, ">>", by), kind, 0, (1 << bits - low) - 1 if low == high and 0 < low < bits else 1 << bits
    )


def _floating(left: Expr, operator: str, right: Expr, kind: Type, node: Node) -> Expr:
    if operator not in {"+", "-", "*", "/", "%"}:
        raise Unportable(node, f"{left.type} {operator} {right.type}")
    if operator == "%":
        code = f"java.remainder({left.code}, {right.code})"
    elif operator == "/" and not _is_literal_divisor(right.code):
        code = f"java.divide({left.code}, {right.code})"
    else:
        code = binary(left.code, operator, right.code)
    return Expr(f"java.as_single({code})" if kind.name == "float" else code, kind, known=True)


def _is_literal_divisor(code: str) -> bool:
    try:
        return float(code) != 0
    except ValueError:
        return False


def unary_operation(unit: Unit, operator: str, value: Expr, node: Node) -> Expr:
    """Return ``operator value``."""
    value = unboxed(value)
    if operator == "!" and value.type == BOOLEAN:
        return Expr(unary("not ", value.code), BOOLEAN)
    if not value.type.is_number:
        raise Unportable(node, f"{operator}{value.type}")
    kind = promoted(value.type, INT)
    value = as_number(value, kind)
    if operator == "+":
        return value
    if operator == "~" and kind.is_integral:
        return Expr(unary("~", value.code), kind)
    if operator != "-":
        raise Unportable(node, f"{operator}{value.type}")
    if kind.is_integral:
        low, high = value.limits
        return cut(unary("-", value.code), kind, -high, -low)
    return Expr(unary("-", value.code), kind)


def operand_code(expr: Expr) -> str:
    """Return the code so that a dot may follow."""
    return as_operand(expr.code)
