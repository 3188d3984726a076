"""Loops."""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from pyjms.porting.codes import as_operand
from pyjms.porting.conversions import cast, convert
from pyjms.porting.model import INT, OBJECT, Expr, Type, Unportable
from pyjms.porting.ranges import is_assigned
from pyjms.porting.statements import declare_local, expression_lines
from pyjms.porting.syntax import child, children, needed, text_of, walk
from pyjms.porting.table import condition, expression, is_statement, without_parentheses
from pyjms.porting.texts import body_of, indented
from pyjms.porting.unit import Unit

__all__: list[str] = []

_LOOPS = frozenset({"while_statement", "do_statement", "for_statement", "enhanced_for_statement"})
_OWN = frozenset({"lambda_expression", "class_body", "class_declaration"})


def _body(unit: Unit, node: Node, updates: Sequence[str] = ()) -> list[str]:
    """Return the lines of a loop's body; `updates` is what a ``for`` does before it goes on."""
    assert unit.scope is not None
    unit.scope.loops += 1
    unit.updates.append(updates)
    try:
        return body_of(unit, needed(node, "body"))
    finally:
        unit.scope.loops -= 1
        unit.updates.pop()


def _loop_condition(unit: Unit, node: Node) -> str:
    """Return a condition that is asked again and again."""
    before = len(unit.before)
    code = condition(unit, node).code
    if len(unit.before) > before:
        raise Unportable(node, "a function that is made in the condition of a loop")
    return code


@is_statement("while_statement")
def _while(unit: Unit, node: Node) -> list[str]:
    return [f"while {_loop_condition(unit, needed(node, 'condition'))}:", *indented(_body(unit, node))]


@is_statement("do_statement")
def _do(unit: Unit, node: Node) -> list[str]:
    asked = without_parentheses(needed(node, "condition"))
    if asked.type == "true":
        return ["while True:", *indented(_body(unit, node))]
    before: list[str] = []
    if any(_jumps(needed(node, "body"), "continue_statement")):
        before = [f"if not ({_loop_condition(unit, asked)}):", "    break"]
        _check_continues(node, True)
    body = _body(unit, node, before)
    code = _loop_condition(unit, asked)
    return ["while True:", *indented([*body, f"if not ({code}):", "    break"])]


def _jumps(node: Node, kind: str) -> list[Node]:
    """Return the jumps of a kind that belong to a loop, whose body `node` is."""
    found = []
    for each in children(node):
        if each.type == kind:
            found.append(each)
        elif each.type not in _LOOPS | _OWN:
            found.extend(_jumps(each, kind))
    return found if node.type != kind else [node]


@is_statement("for_statement")
def _for(unit: Unit, node: Node) -> list[str]:
    with unit.block():
        made = _counted(unit, node)
        if made is not None:
            return made
        lines = []
        for each in node.children_by_field_name("init"):
            if each.type == "local_variable_declaration":
                for declarator in children(each):
                    if declarator.type == "variable_declarator":
                        lines.extend(declare_local(unit, declarator, needed(each, "type")))
            else:
                lines.extend(expression_lines(unit, each))
        asked = child(node, "condition")
        code = _loop_condition(unit, asked) if asked is not None else "True"
        updates = [line for each in node.children_by_field_name("update") for line in expression_lines(unit, each)]
        _check_continues(node, bool(updates))
        body = _body(unit, node, updates)
        return [*lines, f"while {code}:", *indented([*body, *updates])]


def _check_continues(node: Node, has_updates: bool) -> None:
    """What a `continue` does before it goes on is written in front of it, where no ``finally`` comes between."""
    if not has_updates:
        return
    body = needed(node, "body")
    for each in [body, *children(body)]:
        for part in walk(each):
            if part.type == "finally_clause" and part.parent is not None and _jumps(part.parent, "continue_statement"):
                raise Unportable(node, "continue in a for with a finally", "write it as a while")


def _counted(unit: Unit, node: Node) -> list[str] | None:
    """Return ``for i in range(…)``, where a loop is one: it counts up by one to a number that stays."""
    init, asked, update = child(node, "init"), child(node, "condition"), node.children_by_field_name("update")
    if init is None or asked is None or len(update) != 1 or init.type != "local_variable_declaration":
        return None
    declarators = [each for each in children(init) if each.type == "variable_declarator"]
    if len(declarators) != 1 or text_of(needed(init, "type")) != "int" or child(declarators[0], "value") is None:
        return None
    name, body = text_of(needed(declarators[0], "name")), needed(node, "body")
    asked = without_parentheses(asked)
    if (
        asked.type != "binary_expression"
        or text_of(needed(asked, "operator")) not in {"<", "<="}
        or text_of(needed(asked, "left")) != name
        or update[0].type != "update_expression"
        or text_of(update[0]) not in {f"{name}++", f"++{name}"}
        or is_assigned(name, body)
        or not _stays(unit, needed(asked, "right"), node)
    ):
        return None
    first, last = expression(unit, needed(declarators[0], "value")), expression(unit, needed(asked, "right"))
    if first.type != INT or last.type != INT:
        return None
    stop = last.code if text_of(needed(asked, "operator")) == "<" else _next(last)
    most = last.limits[1] - (text_of(needed(asked, "operator")) == "<")
    variable = unit.declare(name, INT, range=(first.limits[0], max(most, first.limits[0])))
    if first.limits[0] >= 0 and stop.startswith("len(") and text_of(needed(asked, "right")).endswith(".length"):
        variable.within = stop[4:-1]
    arguments = stop if first.code == "0" else f"{first.code}, {stop}"
    return [f"for {variable.python} in range({arguments}):", *indented(_body(unit, node))]


def _next(last: Expr) -> str:
    return str(int(last.code) + 1) if last.code.isdecimal() else f"{as_operand(last.code)} + 1"


def _stays(unit: Unit, node: Node, loop: Node) -> bool:
    """Whether an expression has the same value all the time: a literal, or a name that the loop does not assign."""
    if node.type == "decimal_integer_literal":
        return True
    if node.type == "identifier" and unit.scope is not None:
        name = text_of(node)
        if unit.scope.find(name) is not None:
            return not is_assigned(name, loop)
        info = unit.scope.info
        while True:
            found = unit.find_field(info, name)
            if found is not None:
                return found.is_final
            if info.outer is None:
                return False
            info = info.outer
    if node.type == "field_access" and text_of(needed(node, "field")) == "length":
        array = needed(node, "object")
        if array.type == "identifier" and unit.scope is not None and unit.scope.find(text_of(array)) is not None:
            return not is_assigned(text_of(array), loop)
    return False


@is_statement("enhanced_for_statement")
def _for_each(unit: Unit, node: Node) -> list[str]:
    over = expression(unit, needed(node, "value"))
    name, kind_node = text_of(needed(node, "name")), needed(node, "type")
    _check_unchanged(unit, node)
    if over.type.dims:
        element = over.type.element
    elif unit.is_subtype(over.type.name, "java.lang.Iterable"):
        element = over.type.args[0] if over.type.args else OBJECT
    else:
        raise Unportable(node, f"a loop over {over.type}")
    if over.type.name in {"java.util.Set", "java.util.HashSet"} and needed(node, "value").type == "identifier":
        unit.check(node, "the order of a set", "Java's order is arbitrary, and Python's another: sort it if it matters")
    kind = element if text_of(kind_node) == "var" else unit.find_type(kind_node)
    with unit.block():
        assert unit.scope is not None
        unit.scope.loops += 1
        variable = unit.declare(name, kind)
        unit.scope.loops -= 1
        raw = Expr(variable.python, element)
        if element == Type("byte"):
            raw = Expr(f"java.as_byte({variable.python})", element)
        value = cast(unit, raw, kind, node) if element == OBJECT != kind else convert(unit, raw, kind, node)
        first = [] if value.code == variable.python else [f"{variable.python} = {value.code}"]
        body = _body(unit, node)
    return [f"for {variable.python} in {over.code}:", *indented([*first, *body])]


def _check_unchanged(unit: Unit, node: Node) -> None:
    over = text_of(needed(node, "value"))
    for each in walk(needed(node, "body")):
        if (
            each.type == "method_invocation"
            and (holder := child(each, "object")) is not None
            and text_of(holder) == over
            and text_of(needed(each, "name")) in {"add", "remove", "clear", "addAll"}
        ):
            raise Unportable(node, "a loop over a collection that it changes", "go through a copy of it")


@is_statement("break_statement")
def _break(unit: Unit, node: Node) -> list[str]:
    if children(node):
        raise Unportable(node, "break with a label", "put the loops into a function, and return")
    return ["break"]


@is_statement("continue_statement")
def _continue(unit: Unit, node: Node) -> list[str]:
    if children(node):
        raise Unportable(node, "continue with a label", "put the inner loop into a function")
    return [*(unit.updates[-1] if unit.updates else ()), "continue"]


@is_statement("labeled_statement")
def _labeled(unit: Unit, node: Node) -> list[str]:
    raise Unportable(node, "a label", "put the loops into a function, and return where it breaks")
