"""Expressions of Java in Python: one function for each type of node."""

from __future__ import annotations

from tree_sitter import Node

from pyjms.porting.codes import as_operand, conditional, quoted
from pyjms.porting.conversions import BOXES, cast, convert, promoted, unboxed
from pyjms.porting.exceptions import caught_code
from pyjms.porting.literals import LITERALS
from pyjms.porting.model import BOOLEAN, NULL, STRING, Expr, Type, Unportable
from pyjms.porting.operators import apply, binary_expression, unary_operation
from pyjms.porting.places import Place, place_of
from pyjms.porting.syntax import child, children, needed, text_of
from pyjms.porting.table import EXPRESSIONS, condition, expression, is_expression, is_targeted, value_for
from pyjms.porting.unit import Unit

__all__ = ["assigned_value", "element_code"]

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
