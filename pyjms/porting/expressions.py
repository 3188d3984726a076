"""Expressions of Java in Python: one function for each type of node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tree_sitter import Node

from pyjms.porting.codes import as_operand, binary, conditional, cut, quoted, unary
from pyjms.porting.constants import LITERALS
from pyjms.porting.conversions import BOXES, as_number, cast, concatenated, convert, promoted, unboxed
from pyjms.porting.model import BOOLEAN, INT, LIMITS, NULL, STRING, Expr, Type, Unportable
from pyjms.porting.places import Place, place_of
from pyjms.porting.syntax import child, children, needed, text_of
from pyjms.porting.table import EXPRESSIONS, condition, expression, is_expression, is_targeted, value_for
from pyjms.porting.unit import Unit

# Which of Python's exceptions a `catch` of Java stands for.

_CAUGHT: Final = {
    "java.lang.Throwable": "(Exception, java.Error)",
    "java.lang.Exception": "Exception",
    "java.lang.RuntimeException": "java.RUNTIME_EXCEPTIONS",
    "java.lang.NullPointerException": "(TypeError, AttributeError)",
    "java.lang.IllegalArgumentException": "ValueError",
    "java.lang.IndexOutOfBoundsException": "IndexError",
    "java.lang.ArrayIndexOutOfBoundsException": "IndexError",
    "java.lang.StringIndexOutOfBoundsException": "IndexError",
    "java.lang.ArithmeticException": "ArithmeticError",
    "java.io.IOException": "OSError",
}
"""Where Python raises exceptions of its own, or where `except` has another word."""


def caught_code(unit: Unit, kind: Type, node: Node) -> str:
    """Return what stands after ``except``."""
    return _CAUGHT.get(kind.name) or unit.class_code(kind.name, node)


# Operators of Java in Python.

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


EXPRESSIONS.update(LITERALS)


@is_expression("binary_expression")
def _binary(unit: Unit, node: Node) -> Expr:
    return binary_expression(unit, node, expression)


@is_expression("unary_expression")
def _unary(unit: Unit, node: Node) -> Expr:
    operand, operator = needed(node, "operand"), text_of(needed(node, "operator"))
    if operator == "-" and operand.type == "decimal_integer_literal":
        value = LITERALS["decimal_integer_literal"](unit, operand)
        return Expr(f"-{value.code}", value.type, (-value.limits[0], -value.limits[1]))
    return unary_operation(unit, operator, expression(unit, operand), node)


@is_expression("ternary_expression")
def _untargeted_ternary(unit: Unit, node: Node) -> Expr:
    return _conditional(unit, node, None)


@is_targeted("ternary_expression")
def _targeted_ternary(unit: Unit, node: Node, target: Type) -> Expr:
    return _conditional(unit, node, target)


def _conditional(unit: Unit, node: Node, target: Type | None) -> Expr:
    asked = condition(unit, needed(node, "condition"))
    if target is not None and not target.is_primitive:
        one, other = (expression(unit, needed(node, each)) for each in ("consequence", "alternative"))
        if not (unboxed(one).type.is_number and unboxed(other).type.is_number):
            one, other = convert(unit, one, target, node), convert(unit, other, target, node)
            return _chosen(asked, one, other, target)
    one, other = (expression(unit, needed(node, each)) for each in ("consequence", "alternative"))
    kind = _common(unit, one, other, node)
    made = _chosen(asked, convert(unit, one, kind, node), convert(unit, other, kind, node), kind)
    return convert(unit, made, target, node) if target is not None else made


def _chosen(asked: Expr, one: Expr, other: Expr, kind: Type) -> Expr:
    code = conditional(one.code, asked.code, other.code)
    limits = None
    if kind.is_integral and kind.name != "char":
        limits = min(one.limits[0], other.limits[0]), max(one.limits[1], other.limits[1])
    return Expr(code, kind, limits, known=one.known and other.known)


def _common(unit: Unit, one: Expr, other: Expr, node: Node) -> Type:
    """Return the type of a conditional expression."""
    if one.type == other.type:
        return one.type
    if NULL in {one.type, other.type}:
        kind = other.type if one.type == NULL else one.type
        if not kind.is_primitive:
            return kind
        return Type(next(box for box, name in BOXES.items() if name == kind.name))
    first, second = unboxed(one).type, unboxed(other).type
    if first.is_number and second.is_number:
        if "char" in {first.name, second.name}:
            raise Unportable(node, "a conditional expression of a char and a number")
        return promoted(first, second)
    if unit.is_subtype(one.type.name, other.type.name):
        return other.type
    if unit.is_subtype(other.type.name, one.type.name):
        return one.type
    if one.type.is_primitive or other.type.is_primitive:
        raise Unportable(node, f"a conditional expression of {one.type} and {other.type}")
    return Type("java.lang.Object")


@is_expression("cast_expression")
def _cast(unit: Unit, node: Node) -> Expr:
    target, value = unit.find_type(needed(node, "type")), needed(node, "value")
    if value.type in {"lambda_expression", "method_reference"}:
        return value_for(unit, value, target)
    made = expression(unit, value)
    if value.type == "identifier" and unit.scope and (text_of(value), target.name) in unit.scope.casts_known:
        return Expr(made.code, target, known=made.known)
    return cast(unit, made, target, node)


@is_expression("instanceof_expression")
def _instanceof(unit: Unit, node: Node) -> Expr:
    value = expression(unit, needed(node, "left"))
    pattern = child(node, "pattern")
    if pattern is not None:
        raise Unportable(node, f"the pattern {text_of(pattern)}", "ask for the class, and name the parts yourself")
    right = child(node, "right")
    if right is None:
        raise Unportable(node, "a pattern")
    kind = unit.find_type(right)
    name = child(node, "name")
    if name is not None:
        kept = unit.declare(text_of(name), kind, known=True)
        code = f"({kept.python} := {value.code})"
    else:
        code = value.code
    if (kind.name in BOXES or (kind == STRING and value.type != STRING)) and not kind.dims:
        return Expr(f'java.is_box("{kind.name}", {code})', BOOLEAN)
    if kind == Type("byte", (), 1):
        return Expr(f"isinstance({code}, (bytes, bytearray))", BOOLEAN)
    if kind.dims:
        raise Unportable(node, f"instanceof {kind}")
    if unit.is_subtype(kind.name, "java.lang.Throwable") and unit.class_info(kind.name) is None:
        return Expr(f"isinstance({code}, {caught_code(unit, kind, right)})", BOOLEAN)
    return Expr(f"isinstance({code}, {unit.class_code(kind.name, right)})", BOOLEAN)


@is_expression("array_access")
def _array_access(unit: Unit, node: Node) -> Expr:
    array, index = expression(unit, needed(node, "array")), unboxed(expression(unit, needed(node, "index")))
    if not array.type.dims:
        raise Unportable(node, f"an element of {array.type}")
    element = array.type.element
    code = element_code(array, index)
    if element.name == "byte" and not element.dims:
        return Expr(f"java.as_byte({code})", element)
    return Expr(code, element)


def element_code(array: Expr, index: Expr) -> str:
    """Return the code of an element; a negative index, which counts from the end in Python, is an error."""
    if index.within == array.code:
        return f"{as_operand(array.code)}[{index.code}]"
    code = f"ord({index.code})" if index.type.name == "char" else index.code
    return f"java.at({array.code}, {code})"


@is_expression("assignment_expression")
def _assignment(unit: Unit, node: Node) -> Expr:
    """Return an assignment as a value: of a local variable."""
    place = place_of(unit, needed(node, "left"))
    value = assigned_value(unit, node, place)
    return place.store(value, node)


def assigned_value(unit: Unit, node: Node, place: Place) -> Expr:
    """Return what an assignment, also a compound one, assigns."""
    operator, right = text_of(needed(node, "operator")), needed(node, "right")
    if operator == "=":
        return value_for(unit, right, place.type)
    value = expression(unit, right)
    if place.type.name == "java.lang.String":
        return apply(unit, operator[:-1], place.read(), value, node)
    result = apply(unit, operator[:-1], place.read(node), value, node)
    return cast(unit, result, place.type, node)


@is_expression("update_expression")
def _update(unit: Unit, node: Node) -> Expr:
    """Return ``++x`` or ``x++`` as a value."""
    operand = next(each for each in children(node))
    place = place_of(unit, operand)
    by = 1 if "++" in {each.type for each in node.children} else -1
    prefix = node.children[0].type in {"++", "--"}
    return place.step(by, prefix=prefix, node=node)


@is_expression("class_literal")
def _class_literal(unit: Unit, node: Node) -> Expr:
    kind = unit.find_type(children(node)[0])
    info = unit.class_info(kind.name)
    name = info.java_name if info is not None else kind.name
    if kind.dims:
        raise Unportable(node, "the class of an array")
    return Expr(f"java.Class({quoted(name)})", Type("java.lang.Class", (kind,)), known=True)


@is_expression("this")
def _this(unit: Unit, node: Node) -> Expr:
    assert unit.scope is not None
    if unit.scope.is_static:
        raise Unportable(node, "this, where there is none")
    return Expr("self", Type(unit.scope.info.full_name), known=True)
