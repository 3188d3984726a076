"""Statements of Java in Python: one function for each type of node."""

from __future__ import annotations

import re

from tree_sitter import Node

from pyjms.porting.classes import class_of
from pyjms.porting.codes import as_operand, is_pure
from pyjms.porting.conversions import boxed_type, cast, convert, unboxed
from pyjms.porting.creation import local_class
from pyjms.porting.exceptions import caught_code
from pyjms.porting.expressions import assigned_value
from pyjms.porting.members import resolve_supers
from pyjms.porting.model import INT, OBJECT, VOID, Expr, Type, Unportable
from pyjms.porting.operators import apply
from pyjms.porting.places import Place, place_of
from pyjms.porting.ranges import is_assigned, range_of_variable
from pyjms.porting.syntax import child, children, needed, text_of
from pyjms.porting.table import STATEMENTS, condition, expression, is_statement, value_for, without_parentheses
from pyjms.porting.texts import block_lines, body_of, indented
from pyjms.porting.unit import Unit

__all__ = ["declare_local", "expression_lines"]


@is_statement("block")
def _block(unit: Unit, node: Node) -> list[str]:
    with unit.block():
        return block_lines(unit, node.named_children)


@is_statement(";")
def _nothing(unit: Unit, node: Node) -> list[str]:
    return []


@is_statement("local_variable_declaration")
def _declaration(unit: Unit, node: Node) -> list[str]:
    lines: list[str] = []
    for declarator in children(node):
        if declarator.type == "variable_declarator":
            before, unit.before = unit.before, []
            made = declare_local(unit, declarator, needed(node, "type"))
            lines.extend([*unit.before, *made])
            unit.before = before
    return lines


def declare_local(unit: Unit, declarator: Node, type_node: Node) -> list[str]:
    """Return the lines that declare a local variable."""
    assert unit.scope is not None
    name, value = text_of(needed(declarator, "name")), child(declarator, "value")
    inferred = text_of(type_node) == "var"
    kind = OBJECT
    if not inferred:
        kind = _with_dimensions(unit.find_type(type_node), declarator)
    if value is None:
        unit.declare(name, kind)
        return []
    made = expression(unit, value) if inferred else value_for(unit, value, kind)
    constant = not is_assigned(name, unit.scope.node)
    kind = made.type if inferred or (constant and _is_nearer(unit, made.type, kind)) else kind
    limits = range_of_variable(name, unit.scope.node, made.range) if kind.is_integral else None
    variable = unit.declare(name, kind, range=limits, known=constant and made.known)
    return [f"{variable.python} = {made.code}"]


def _is_nearer(unit: Unit, found: Type, declared: Type) -> bool:
    """Whether what is assigned tells more than the declared type, as of a map that keeps its order."""
    return found.name.startswith("java.util.") and found.dims == 0 and unit.is_subtype(found.name, declared.name)


def _with_dimensions(kind: Type, declarator: Node) -> Type:
    dims = child(declarator, "dimensions")
    return Type(kind.name, kind.args, kind.dims + text_of(dims).count("[")) if dims else kind


@is_statement("local_class_declaration", "class_declaration")
def _class(unit: Unit, node: Node) -> list[str]:
    assert unit.scope is not None
    declared = node if node.type == "class_declaration" else children(node)[0]
    info = class_of(declared, unit.file, unit.scope.info, in_method=True)
    unit.local_classes[info.name] = info
    resolve_supers(unit, info)
    local_class(unit, info)
    return []


@is_statement("expression_statement")
def _expression(unit: Unit, node: Node) -> list[str]:
    return expression_lines(unit, children(node)[0])


def expression_lines(unit: Unit, node: Node) -> list[str]:
    """Return the lines of an expression whose value nobody wants."""
    node = without_parentheses(node)
    if node.type == "assignment_expression":
        return _assigned(unit, node)
    if node.type == "update_expression":
        return _updated(unit, node)
    if node.type == "switch_expression":
        return STATEMENTS["switch_expression"](unit, node)
    above, unit.statement_call = unit.statement_call, node.id
    try:
        return [expression(unit, node).code]
    finally:
        unit.statement_call = above


def _assigned(unit: Unit, node: Node) -> list[str]:
    places = [place_of(unit, needed(node, "left"))]
    while needed(node, "right").type == "assignment_expression" and text_of(needed(node, "operator")) == "=":
        node = needed(node, "right")
        places.append(place_of(unit, needed(node, "left")))
    if len({each.type for each in places}) > 1 or (len(places) > 1 and text_of(needed(node, "operator")) != "="):
        raise Unportable(node, "a chain of assignments to several types", "write them one by one")
    place = places[-1]
    value = assigned_value(unit, node, place)
    if not is_pure(value.code) and not all(is_pure(each.target()) for each in places):
        raise Unportable(node, "an assignment whose place and value are both computed", "give the value a name first")
    if any(_is_changed_by(each.target(), value.code) for each in places):
        raise Unportable(node, "an assignment whose place changes what its value reads", "give the value a name first")
    operator = text_of(needed(node, "operator"))
    if any(each.is_nested for each in places):
        if len(places) > 1:
            raise Unportable(node, "a chain of assignments to elements of elements", "write them one by one")
        return [place.assigned(value.code)]
    if operator in {"+=", "-="} and len(places) == 1 and _is_same_operation(place, value, operator):
        return [f"{place.target()} {operator} {value.code[len(place.code) + 3 :]}"]
    return [" = ".join([*(each.target() for each in places), place.stored(value.code)])]


def _is_changed_by(target: str, value: str) -> bool:
    """Whether a place assigns, or calls, what a value reads: Python evaluates the value first, Java the place."""
    return not is_pure(target) and not re.fullmatch(r'-?[\d.]+|"[^"]*"|None|True|False', value)


def _is_same_operation(place: Place, value: Expr, operator: str) -> bool:
    """Whether a compound assignment is the same in Python: a sum that was not cut, of the place and one more operand."""
    if not value.code.startswith(f"{place.code} {operator[0]} ") or place.type == Type("byte"):
        return False
    rest = value.code[len(place.code) + 3 :]
    return as_operand(rest) == rest or rest.isdecimal()


def _updated(unit: Unit, node: Node) -> list[str]:
    operand = children(node)[0]
    place = place_of(unit, operand)
    operator = "+" if "++" in {each.type for each in node.children} else "-"
    if place.type.name == "char" and not place.type.dims:
        return [f"{place.target()} = java.as_char(ord({place.code}) {operator} 1)"]
    if not place.type.is_number:
        current = unboxed(place.read(node))
        value = apply(unit, operator, current, Expr("1", INT, (1, 1)), node)
        return [f"{place.target()} = {cast(unit, value, current.type, node).code}"]
    value = cast(unit, apply(unit, operator, place.read(node), Expr("1", INT, (1, 1)), node), place.type, node)
    if place.is_nested:
        return [place.assigned(value.code)]
    if value.code == f"{place.code} {operator} 1":
        return [f"{place.target()} {operator}= 1"]
    return [f"{place.target()} = {place.stored(value.code)}"]


@is_statement("if_statement")
def _if(unit: Unit, node: Node) -> list[str]:
    assert unit.scope is not None
    lines: list[str] = []
    word = "if"
    current: Node | None = node
    while current is not None and current.type == "if_statement":
        before = len(unit.before)
        asked = needed(current, "condition")
        with unit.block():
            code = condition(unit, asked).code
            if word == "elif" and len(unit.before) > before:
                raise Unportable(current, "a function that is made in a condition")
            known = len(unit.scope.casts_known)
            unit.scope.casts_known.extend(
                _classes_asked(unit, without_parentheses(asked), needed(current, "consequence"))
            )
            body = body_of(unit, needed(current, "consequence"))
            del unit.scope.casts_known[known:]
            pattern = dict(unit.scope.blocks[-1])
        unit.scope.blocks[-1].update(pattern)  # a variable of a pattern is known after an `if` that ends in a jump
        lines += [f"{word} {code}:", *indented(body)]
        word, current = "elif", child(current, "alternative")
    if current is not None:
        lines += ["else:", *indented(body_of(unit, current))]
    return lines


def _classes_asked(unit: Unit, node: Node, body: Node) -> list[tuple[str, str]]:
    """Return the variables that are known to have a class where a condition holds."""
    if node.type == "binary_expression" and text_of(needed(node, "operator")) == "&&":
        sides = (without_parentheses(needed(node, each)) for each in ("left", "right"))
        return [each for side in sides for each in _classes_asked(unit, side, body)]
    if node.type == "instanceof_expression" and (right := child(node, "right")) is not None:
        left = needed(node, "left")
        variable = unit.scope.find(text_of(left)) if left.type == "identifier" and unit.scope else None
        if variable is not None and variable.scope is unit.scope and not is_assigned(text_of(left), body):
            return [(text_of(left), unit.find_type(right).name)]
    return []


@is_statement("expression_lines")
def _lines(unit: Unit, node: Node) -> list[str]:
    """Return an expression as a statement: of a function whose result nobody wants."""
    return expression_lines(unit, node)


@is_statement("return_statement")
def _return(unit: Unit, node: Node) -> list[str]:
    assert unit.scope is not None
    values = children(node)
    if not values:
        return ["return"]
    wanted = unit.scope.returns
    if wanted is not None and wanted.name.startswith("$"):  # of a function whose result tells its type
        if unit.scope.inferred is not None:
            return [f"return {value_for(unit, values[0], unit.scope.inferred).code}"]
        value = expression(unit, values[0])
        if value.type.name in {"void", "null", "?"}:
            raise Unportable(node, "a result of an unknown type")
        value = convert(unit, value, boxed_type(value.type), node)
        unit.scope.inferred = value.type
        return [f"return {value.code}"]
    if wanted is None or wanted == VOID:
        raise Unportable(node, "a result of an unknown type")
    return [f"return {value_for(unit, values[0], wanted).code}"]


@is_statement("throw_statement")
def _throw(unit: Unit, node: Node) -> list[str]:
    value = expression(unit, children(node)[0])
    if not unit.is_subtype(value.type.name, "java.lang.Throwable"):
        raise Unportable(node, f"a throw of {value.type}")
    return [f"raise {value.code}"]


@is_statement("assert_statement")
def _assert(unit: Unit, node: Node) -> list[str]:
    raise Unportable(node, "assert", "Java looks at it with -ea alone: leave it out, or write an if and a raise")


@is_statement("synchronized_statement")
def _synchronized(unit: Unit, node: Node) -> list[str]:
    held = expression(unit, children(node)[0])
    return [f"with java.synchronized({held.code}):", *indented(body_of(unit, needed(node, "body")))]


@is_statement("try_statement", "try_with_resources_statement")
def _try(unit: Unit, node: Node) -> list[str]:
    assert unit.scope is not None
    resources = child(node, "resources")
    with unit.block():
        if resources is not None:
            opened, closings = _resources(unit, resources)
            inner = body_of(unit, needed(node, "body"))
            for line, setup in zip(reversed(opened), reversed(closings), strict=True):
                inner = [*setup, line, *indented(inner)]
            body = inner
        else:
            body = body_of(unit, needed(node, "body"))
    handlers: list[str] = []
    for each in children(node):
        if each.type == "catch_clause":
            handlers.extend(_catch(unit, each))
        elif each.type == "finally_clause":
            handlers.extend(["finally:", *indented(body_of(unit, children(each)[0]))])
    return ["try:", *indented(body), *handlers] if handlers else body


def _resources(unit: Unit, node: Node) -> tuple[list[str], list[list[str]]]:
    lines = list[str]()
    before: list[list[str]] = []
    for each in children(node):
        named = child(each, "name")
        if named is None:
            held = expression(unit, children(each)[0])
            lines.append(f"with contextlib.closing({held.code}):")
            before.append([])
            continue
        outside, unit.before = unit.before, []
        kind, value = unit.find_type(needed(each, "type")), needed(each, "value")
        made = expression(unit, value) if text_of(needed(each, "type")) == "var" else value_for(unit, value, kind)
        variable = unit.declare(text_of(named), made.type, known=made.known)
        before.append(unit.before)
        unit.before = outside
        is_jms = made.type.name.startswith("javax.jms.")
        code = made.code if is_jms else f"contextlib.closing({made.code})"
        lines.append(f"with {code} as {variable.python}:")
    return lines, before


def _catch(unit: Unit, node: Node) -> list[str]:
    assert unit.scope is not None
    parameter = next(each for each in children(node) if each.type == "catch_formal_parameter")
    kinds = children(next(each for each in children(parameter) if each.type == "catch_type"))
    types = [unit.find_type(each) for each in kinds]
    codes = [caught_code(unit, kind, each) for kind, each in zip(types, kinds, strict=True)]
    with unit.block():
        kind = types[0] if len(types) == 1 else Type("java.lang.Throwable")
        name = text_of(needed(parameter, "name"))
        variable = unit.declare(name, kind, known=True)
        body = body_of(unit, needed(node, "body"))
    code = codes[0] if len(codes) == 1 else f"({', '.join(each.strip('()') for each in codes)})"
    return [f"except {code} as {variable.python}:", *indented(body)]


@is_statement("explicit_constructor_invocation")
def _constructor(unit: Unit, node: Node) -> list[str]:
    raise Unportable(node, "a call of another constructor that is not the first statement")
