"""Translates Java expressions, one function for each type of node; including variables, fields and elements."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from pyjms.porting.codes import as_operand, binary, conditional, cut, is_pure, quoted, unary
from pyjms.porting.constants import LITERALS
from pyjms.porting.conversions import BOXES, as_number, cast, concatenated, convert, promoted, unboxed
from pyjms.porting.model import (
    BOOLEAN,
    INT,
    LIMITS,
    NULL,
    STRING,
    Expr,
    Type,
    Unportable,
    child,
    children,
    needed,
    text_of,
    walk,
)
from pyjms.porting.table import EXPRESSIONS, condition, expression, is_expression, is_targeted, value_for
from pyjms.porting.types import find_members, type_named, unknown_class_advice
from pyjms.porting.unit import ClassInfo, FieldInfo, MethodScope, Unit, Variable

# The Python exceptions that a Java `catch` corresponds to.

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
"""Cases in which Python raises its own exceptions, or `except` needs another name."""


def caught_code(unit: Unit, kind: Type, node: Node) -> str:
    """Return the code after ``except``."""
    return _CAUGHT.get(kind.name) or unit.class_code(kind.name, node)


# Operators of Java in Python.

Translate = Callable[[Unit, Node], Expr]


def binary_expression(unit: Unit, node: Node, translate: Translate) -> Expr:
    """Return ``left operator right``; a chain of ``+`` with texts is translated as a whole."""
    operator = text_of(needed(node, "operator"))
    left_node, right_node = needed(node, "left"), needed(node, "right")
    if operator == "+":
        # The whole chain at once: pairs would nest one f-string in another.
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
    """Return a chain that contains a text: the operands before it are added as numbers."""
    first = next(place for place, (expr, _) in enumerate(parts) if expr.type == STRING)
    # Operands before the first text are added as numbers: `1 + 2 + "a"` is "3a" (JLS §15.18.1).
    start = max(first - 1, 0)
    if start:
        summed = parts[0][0]
        for expr, node in parts[1:first]:
            summed = apply(unit, "+", summed, expr, node)
        parts = [(summed, parts[0][1]), *parts[first:]]
    return concatenated(unit, parts)


def apply(unit: Unit, operator: str, left: Expr, right: Expr, node: Node) -> Expr:
    """Return the value of an operation on two operands."""
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
        # Letters compare as texts: both are code units of 16 bits.
        return Expr(binary(left.code, operator, right.code), BOOLEAN)
    kind = promoted(left.type, right.type)
    return Expr(binary(as_number(left, kind).code, operator, as_number(right, kind).code), BOOLEAN)


def compare_equal(unit: Unit, operator: str, left: Expr, right: Expr, node: Node) -> Expr:
    """Return ``left == right``, or ``!=``: numbers compare by value, objects by identity."""
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
        # Java compares identities here, which depend on its caches of boxes and literals; neither `==` nor `is` is
        # equivalent.
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
    # With no negative operand, rounding down and rounding towards zero are the same.
    if _is_plain(left, right):
        return Expr(binary(left.code, "//", right.code), kind, (0, left.limits[1]))
    # The least int divided by -1 leaves the range, so the quotient is wrapped as well.
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
        # With a non-negative operand the result lies between 0 and it, whatever the other operand is.
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
    # Java takes the lowest five or six bits of the distance (JLS §15.19); Python raises for a negative one.
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
    # `>>>` shifts zeros in: a negative number is taken as its bits without a sign.
    masked = binary(left.code, "&", "0xFFFFFFFF" if bits == 32 else "0xFFFFFFFFFFFFFFFF")
    return cut(
        binary(masked, ">>", by), kind, 0, (1 << bits - low) - 1 if low == high and 0 < low < bits else 1 << bits
    )


def _floating(left: Expr, operator: str, right: Expr, kind: Type, node: Node) -> Expr:
    if operator not in {"+", "-", "*", "/", "%"}:
        raise Unportable(node, f"{left.type} {operator} {right.type}")
    if operator == "%":
        code = f"java.remainder({left.code}, {right.code})"
    # Java divides by 0.0 to infinity or NaN (JLS §15.17.2), Python raises.
    elif operator == "/" and not _is_literal_divisor(right.code):
        code = f"java.divide({left.code}, {right.code})"
    else:
        code = binary(left.code, operator, right.code)
    # Python computes with 64 bits: each float result is rounded to 32.
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
    """Return the code in a form that a dot may follow."""
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
        # As one literal: 2147483648 alone is no int, and would be wrapped before the minus.
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
        # Two numbers are promoted to one type first (JLS §15.25.2), even if the target is an Object.
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
        # `x ? 1 : null` has the type of the box (JLS §15.25).
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
        # Declared in the enclosing block: in Java the variable is in scope wherever the condition holds.
        kept = unit.declare(text_of(name), kind, known=True)
        code = f"({kept.python} := {value.code})"
    else:
        code = value.code
    # `isinstance` would accept an int for Long, and a char for String.
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
    # The loop counts from 0 to the length of this very array.
    if index.within == array.code:
        return f"{as_operand(array.code)}[{index.code}]"
    code = f"ord({index.code})" if index.type.name == "char" else index.code
    # A negative index counts from the end in Python; in Java it is an error
    return f"java.at({array.code}, {code})"


@is_expression("assignment_expression")
def _assignment(unit: Unit, node: Node) -> Expr:
    """Return an assignment to a local variable as a value."""
    place = place_of(unit, needed(node, "left"))
    value = assigned_value(unit, node, place)
    return place.store(value, node)


def assigned_value(unit: Unit, node: Node, place: Place) -> Expr:
    """Return the value that an assignment, also a compound one, assigns."""
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


_NEVER_NULL: Final = frozenset(
    {"string_literal", "true", "false", "decimal_integer_literal", "object_creation_expression"}
)
_TIMES: Final = {"size": (0, (1 << 31) - 1), "time": (0, 1 << 50), "nanos": (0, 1 << 62)}


@dataclass(slots=True)
class Place:
    """An assignable expression."""

    code: str
    type: Type
    variable: Variable | None = None
    field: tuple[str, str] | None = None
    """An object, and the name of its field."""
    element: tuple[str, str] | None = None
    """An array, and an index."""
    limits: tuple[int, int] | None = None
    known: bool = False
    """Whether it is never null."""
    is_nested: bool = False
    """Whether it is an element of an array that is itself an expression, such as an element of another array."""

    def assigned(self, code: str) -> str:
        """Return the line that assigns a value."""
        if self.is_nested and self.element is not None:
            return f"java.stored({self.element[0]}, {self.element[1]}, {code})"
        return f"{self.target()} = {self.stored(code)}"

    def read(self, node: Node | None = None) -> Expr:
        """Return the present value, if assigning it evaluates nothing twice."""
        # A compound assignment contains its target twice in Python; Java evaluates it once (JLS §15.26.2).
        if self.element and node is not None and not all(_is_simple(each) or is_pure(each) for each in self.element):
            raise Unportable(node, "a compound assignment to an element", "write it as two statements")
        if self.field and node is not None and not _is_simple(self.field[0]):
            raise Unportable(node, "a compound assignment to a field of an expression", "write it as two statements")
        code = f"java.as_byte({self.code})" if self.element and self.type == Type("byte") else self.code
        return Expr(code, self.type, self.limits)

    def target(self) -> str:
        """Return the left side of ``=``."""
        if self.element is None:
            return self.code
        return f"{as_operand(self.element[0])}[{self.element[1]}]"

    def stored(self, code: str) -> str:
        """Return the value to store in a byte array, whose elements are unsigned in Python."""
        return f"{binary(code, '&', '0xFF')}" if self.element and self.type == Type("byte") else code

    def store(self, value: Expr, node: Node) -> Expr:
        """Return an assignment as an expression."""
        if self.variable is not None:
            # The walrus takes only a plain name, so fields and bytes have no such form.
            return Expr(f"({self.code} := {value.code})", self.type, value.range, value.known)
        if self.element is not None and self.type != Type("byte"):
            array, index = self.element
            return Expr(f"java.stored({array}, {index}, {value.code})", self.type, value.range, value.known)
        raise Unportable(node, "an assignment within an expression", "make it a statement of its own")

    def step(self, by: int, *, prefix: bool, node: Node) -> Expr:
        """Return ``++place``, or ``place++``, as an expression."""
        if self.type.name not in {"int", "long"} or self.type.dims:
            raise Unportable(node, f"++ of {self.type} within an expression", "make it a statement of its own")
        low, high = self.limits or LIMITS[self.type.name]
        operator, back = ("+", "-") if by > 0 else ("-", "+")
        if self.variable is not None:
            value = cut(binary(self.code, operator, "1"), self.type, low + by, high + by)
            made = f"({self.code} := {value.code})"
        elif self.field is not None:
            made = f'java.step({self.field[0]}, "{self.field[1]}", {by}, {64 if self.type.name == "long" else 32})'
        else:
            raise Unportable(node, "++ of an element within an expression", "make it a statement of its own")
        if prefix:
            least, most = LIMITS[self.type.name]
            return Expr(made, self.type, (low + by, high + by) if least <= low + by and high + by <= most else None)
        # `x++` has the former value: it is computed from the new one, as no temporary name is available.
        return cut(f"{made} {back} 1", self.type, low, high)


def _is_simple(code: str) -> bool:
    return bool(_SIMPLE.fullmatch(code.replace("java.array_index(", "(").replace("len(", "(")))


_SIMPLE: Final = re.compile(r"(?:[\w.\[\], %+*-]|(?<!\w)\(|\))*")


def read_variable(unit: Unit, name: str) -> Variable | None:
    """Return the local variable of a name, and capture it in an enclosing function if necessary."""
    scope = unit.scope
    found = scope.find(name) if scope else None
    if found is not None and found.scope is not scope and found.in_loop:
        inner: MethodScope | None = scope
        # The outermost function that crosses into the variable's method captures it; nested ones see that copy.
        while inner is not None and inner.above is not found.scope:
            inner = inner.above
        if inner is not None:
            # A variable that is new in each iteration is captured by value; Python's closure would see the last one.
            inner.kept[found.python] = found.python
    return found


def alias_of(info: ClassInfo) -> str:
    """Return the name of the enclosing object in a local class."""
    depth, current = 0, info
    while current.outer is not None:
        # Only local classes need an alias; members use `.outer`.
        depth += current.in_method
        current = current.outer
    return "outer" if depth == 1 else f"outer_{depth}"


def holder(unit: Unit, has: ClassInfo, node: Node) -> str:
    """Return the code of the object of an enclosing class, or of the class itself."""
    assert unit.scope is not None
    info: ClassInfo | None = unit.scope.info
    code = "self"
    if unit.scope.is_static and not _is_in_object(unit.scope):
        raise Unportable(node, "a member of an object, where there is none")
    while info is not None:
        if info is has:
            return code
        if info.in_method:
            code = alias_of(info)
            unit.aliases.add(code)
        else:
            code = f"{code}.outer"
            unit.needs_outer.add(info.full_name)
        info = info.outer
    raise Unportable(node, f"an object of {has.name}")


def _is_in_object(scope: MethodScope) -> bool:
    return not scope.is_static or (scope.is_lambda and scope.above is not None and _is_in_object(scope.above))


def around(unit: Unit) -> list[ClassInfo]:
    """Return the present class and its enclosing classes."""
    found: list[ClassInfo] = []
    info = unit.scope.info if unit.scope else unit.class_stack[-1] if unit.class_stack else None
    while info is not None:
        found.append(info)
        info = info.outer
    return found


def _field_place(unit: Unit, field: FieldInfo, object_code: str | None, has: ClassInfo, node: Node) -> Place:
    assert field.type is not None
    limits = range_of_field(field)
    value = child(field.declarator, "value")
    known = field.is_final and value is not None and value.type in _NEVER_NULL
    known |= field.declarator.type == "enum_constant"
    if field.is_static:
        owner = unit.class_code(field.owner.full_name, node)
        return Place(f"{owner}.{field.python}", field.type, field=(owner, field.python), limits=limits, known=known)
    code = object_code if object_code is not None else holder(unit, has, node)
    return Place(
        f"{as_operand(code)}.{field.python}", field.type, field=(code, field.python), limits=limits, known=known
    )


def place_of(unit: Unit, node: Node) -> Place:
    """Return the target of an assignment. Raises `Unportable`."""
    if node.type == "identifier":
        name = text_of(node)
        variable = read_variable(unit, name)
        if variable is not None:
            return Place(variable.python, variable.type, variable=variable, limits=variable.range)
        for info in around(unit):
            field = unit.find_field(info, name)
            if field is not None:
                return _field_place(unit, field, None, info, node)
        # Names imported by `import static` are shadowed by fields (JLS §6.4.1), so they come last.
        for owner in unit.static_owners(name):
            imported = unit.class_info(owner)
            field = unit.find_field(imported, name) if imported is not None else None
            if imported is not None and field is not None:
                return _field_place(unit, field, None, imported, node)
        raise Unportable(node, f"the name {name}", "it is declared in no file that was given")
    if node.type == "field_access":
        return _place_of_access(unit, node)
    if node.type == "array_access":
        array, index = expression(unit, needed(node, "array")), unboxed(expression(unit, needed(node, "index")))
        if not array.type.dims or not index.type.is_integral or index.type.name == "char":
            raise Unportable(node, "this element")
        code = index.code if index.within == array.code else f"java.array_index({index.code}, len({array.code}))"
        if code != index.code and not _is_simple(array.code):
            if not is_pure(array.code) or array.type.element == Type("byte"):
                raise Unportable(node, "an element of an array that is an expression", "give the array a name")
            read = f"java.at({array.code}, {index.code})"
            return Place(read, array.type.element, element=(array.code, index.code), is_nested=True)
        return Place(f"{as_operand(array.code)}[{code}]", array.type.element, element=(array.code, code))
    raise Unportable(node, f"an assignment to {text_of(node)}")


def _place_of_access(unit: Unit, node: Node) -> Place:
    name = text_of(needed(node, "field"))
    object_node = needed(node, "object")
    named = class_named(unit, object_node)
    if named is not None:
        info = unit.class_info(named)
        field = unit.find_field(info, name) if info else None
        if info is not None and field is not None and field.is_static:
            return _field_place(unit, field, None, info, node)
        raise Unportable(node, text_of(node))
    value = expression(unit, object_node)
    info = unit.class_info(value.type.name) if not value.type.dims else None
    field = unit.find_field(info, name) if info else None
    if info is None or field is None:
        raise Unportable(node, f"the field {name} of {value.type}")
    return _field_place(unit, field, value.code, info, node)


def class_named(unit: Unit, node: Node) -> str | None:
    """Return the class that an expression names, unless the name has a value."""
    if node.type == "identifier":
        name = text_of(node)
        if read_variable(unit, name) or any(unit.find_field(info, name) for info in around(unit)):
            return None
    elif node.type == "field_access":
        first = node
        while first.type == "field_access":
            first = needed(first, "object")
        begin = class_named(unit, first) if first.type == "identifier" else None
        if begin is None:
            return None
        # by Java's naming convention this is a package with a class
        if begin.islower() and text_of(needed(node, "field"))[:1].isupper() and not unit.knows(begin):
            return unit.find_class(text_of(node), node)  # with its package
    else:
        return None
    full = unit.find_class(text_of(node), node)
    if unit.knows(full) or node.type == "identifier":
        return full
    return None


@is_expression("identifier")
def _identifier(unit: Unit, node: Node) -> Expr:
    variable = read_variable(unit, text_of(node))
    if variable is not None:
        return Expr(variable.python, variable.type, variable.range, known=variable.known, within=variable.within)
    for owner in unit.static_owners(text_of(node)):
        if unit.class_info(owner) is None and (made := _library_constant(unit, owner, text_of(node), node)) is not None:
            return made
    place = place_of(unit, node)
    return Expr(place.code, place.type, place.limits, known=place.known)


@is_expression("field_access")
def _field_access(unit: Unit, node: Node) -> Expr:
    object_node, name = needed(node, "object"), text_of(needed(node, "field"))
    named = class_named(unit, object_node)
    if needed(node, "field").type == "this" and named is not None:
        info = unit.class_info(named)
        if info is None:
            raise Unportable(node, text_of(node))
        return Expr(holder(unit, info, node), Type(named), known=True)
    if named is not None and unit.class_info(named) is None:
        if (made := _library_constant(unit, named, name, node)) is not None:
            return made
        raise Unportable(node, text_of(node), unknown_class_advice(named))
    if named is None:
        value = expression(unit, object_node)
        if value.type.dims and name == "length":
            return Expr(f"len({value.code})", Type("int"), _TIMES["size"])
        if unit.class_info(value.type.name) is None and value.type.name in _WITH_FIELDS:
            (member,) = (each for each in find_members(value.type.name, name) if each.params is None)
            return Expr(f"{as_operand(value.code)}.{name}", type_named(member.returns, {}))
    place = _place_of_access(unit, node)
    return Expr(place.code, place.type, place.limits, known=place.known)


_WITH_FIELDS: Final = frozenset({"javax.transaction.xa.XAException"})


def _library_constant(unit: Unit, owner: str, name: str, node: Node) -> Expr | None:
    for member in find_members(owner, name):
        if member.params is None:
            kind = type_named(member.returns, {})
            code = member.template or f"{unit.class_code(member.owner.name, node)}.{name}"
            return Expr(code, kind, _constant(member.template, kind), known=code != "None")
    return None


def _constant(template: str | None, kind: Type) -> tuple[int, int] | None:
    if kind.name in {"int", "long", "short", "byte"} and template and template.lstrip("-").isdecimal():
        return int(template), int(template)
    return None


def range_named(flag: str | None) -> tuple[int, int] | None:
    """Return the range for a flag of the tables."""
    return _TIMES.get(flag or "")


_COUNT: Final = 1 << 30


def _changes(name: str, within: Node) -> set[str]:
    """Return how a name is assigned: ``=`` (or compound), ``++``, ``--``."""
    found = set()
    for node in walk(within):
        if node.type == "assignment_expression" and _names(needed(node, "left"), name):
            found.add("=")
        elif node.type == "update_expression" and any(_names(each, name) for each in children(node)):
            found.update(each.type for each in node.children if each.type in {"++", "--"})
    return found


def _names(node: Node, name: str) -> bool:
    if node.type == "field_access":
        node = needed(node, "field")
    return node.type == "identifier" and text_of(node) == name


def is_assigned(name: str, within: Node) -> bool:
    """Return whether a name is assigned anywhere in a node, after its declaration."""
    return bool(_changes(name, within))


def range_of_variable(name: str, within: Node, initial: tuple[int, int] | None) -> tuple[int, int] | None:
    """Return the range of a local variable, from that of its initial value; None: any value."""
    # A variable without a known initial value may have any.
    if initial is None:
        return None
    changes = _changes(name, within)
    if not changes:
        return initial
    return _counted(changes, initial)


def _counted(changes: set[str], initial: tuple[int, int]) -> tuple[int, int] | None:
    # An assignment may give any value; counting takes a thousand million steps to leave an int.
    if "=" in changes or not -_COUNT < initial[0] <= initial[1] < _COUNT:
        return None
    return initial[0] if "--" not in changes else -2 * _COUNT + 2, initial[1] if "++" not in changes else 2 * _COUNT - 2


def range_of_field(field: FieldInfo) -> tuple[int, int] | None:
    """Return the range of a private or constant field that is initialized with a number, or counts from 0."""
    if field.type is None or field.type.name not in {"int", "long"} or field.type.dims:
        return None
    # Another class may assign any other field.
    if not (field.is_private or field.is_final):
        return None
    value = child(field.declarator, "value")
    if value is None and field.is_final:
        return None
    initial = (0, 0) if value is None else _number(value)
    top = field.owner
    while top.outer is not None:
        top = top.outer
    return range_of_variable(field.name, top.node, initial)


def _number(node: Node) -> tuple[int, int] | None:
    text = text_of(node).rstrip("lL").replace("_", "")
    if node.type == "decimal_integer_literal" and text.isdecimal():
        return int(text), int(text)
    return None
