"""Translates Java statements: one function for each type of node."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from pyjms.porting.codes import as_operand, conditional, is_pure
from pyjms.porting.conversions import boxed_type, cast, convert, unboxed
from pyjms.porting.creation import local_class
from pyjms.porting.expressions import (
    Place,
    apply,
    assigned_value,
    caught_code,
    is_assigned,
    place_of,
    range_of_variable,
)
from pyjms.porting.members import resolve_supers
from pyjms.porting.model import (
    INT,
    OBJECT,
    STRING,
    VOID,
    Expr,
    Type,
    Unportable,
    child,
    children,
    needed,
    text_of,
    walk,
)
from pyjms.porting.table import (
    STATEMENTS,
    block_lines,
    body_of,
    condition,
    expression,
    indented,
    is_expression,
    is_statement,
    value_for,
    without_parentheses,
)
from pyjms.porting.unit import Unit, class_of


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
            # Functions that one declarator needs are placed right before it, as they may use the previous declarator.
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
    # A variable that is never assigned again has the type, the range and the not-null of its initial value.
    constant = not is_assigned(name, unit.scope.node)
    kind = made.type if inferred or (constant and _is_nearer(unit, made.type, kind)) else kind
    limits = range_of_variable(name, unit.scope.node, made.range) if kind.is_integral else None
    variable = unit.declare(name, kind, range=limits, known=constant and made.known)
    return [f"{variable.python} = {made.code}"]


def _is_nearer(unit: Unit, found: Type, declared: Type) -> bool:
    """Whether the assigned type is more precise than the declared one, such as an ordered map."""
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
    # Only here: a local class may extend an earlier one of the same method, which is known now.
    resolve_supers(unit, info)
    local_class(unit, info)
    return []


@is_statement("expression_statement")
def _expression(unit: Unit, node: Node) -> list[str]:
    return expression_lines(unit, children(node)[0])


def expression_lines(unit: Unit, node: Node) -> list[str]:
    """Return the lines of an expression whose value is not used."""
    node = without_parentheses(node)
    if node.type == "assignment_expression":
        return _assigned(unit, node)
    if node.type == "update_expression":
        return _updated(unit, node)
    if node.type == "switch_expression":
        return STATEMENTS["switch_expression"](unit, node)
    # Only this call is a statement: calls in its arguments need their results.
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
    # Java evaluates the target first (JLS §15.26.1), Python the value.
    if not is_pure(value.code) and not all(is_pure(each.target()) for each in places):
        raise Unportable(node, "an assignment whose place and value are both computed", "give the value a name first")
    if any(_is_changed_by(each.target(), value.code) for each in places):
        raise Unportable(node, "an assignment whose place changes what its value reads", "give the value a name first")
    operator = text_of(needed(node, "operator"))
    if any(each.is_nested for each in places):
        if len(places) > 1:
            raise Unportable(node, "a chain of assignments to elements of elements", "write them one by one")
        return [place.assigned(value.code)]
    # `+=` is written only without wrapping: an int that may overflow needs the whole expression.
    if operator in {"+=", "-="} and len(places) == 1 and _is_same_operation(place, value, operator):
        return [f"{place.target()} {operator} {value.code[len(place.code) + 3 :]}"]
    return [" = ".join([*(each.target() for each in places), place.stored(value.code)])]


def _is_changed_by(target: str, value: str) -> bool:
    """Whether a target assigns, or calls, what a value reads: Python evaluates the value first, Java the target."""
    return not is_pure(target) and not re.fullmatch(r'-?[\d.]+|"[^"]*"|None|True|False', value)


def _is_same_operation(place: Place, value: Expr, operator: str) -> bool:
    """Whether a compound assignment is the same in Python: an unwrapped sum of the target and one more operand."""
    if not value.code.startswith(f"{place.code} {operator[0]} ") or place.type == Type("byte"):
        return False
    # In `a - b - c` the rest is no single operand: `a -= b - c` would add c.
    rest = value.code[len(place.code) + 3 :]
    return as_operand(rest) == rest or rest.isdecimal()


def _updated(unit: Unit, node: Node) -> list[str]:
    operand = children(node)[0]
    place = place_of(unit, operand)
    operator = "+" if "++" in {each.type for each in node.children} else "-"
    if place.type.name == "char" and not place.type.dims:
        # a char wraps at 16 bits, and is a one-letter text in Python
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
                # A `def` cannot stand between `if` and `elif`.
                raise Unportable(current, "a function that is made in a condition")
            known = len(unit.scope.casts_known)
            # A cast in the body to the tested class needs no check at run time.
            unit.scope.casts_known.extend(
                _classes_asked(unit, without_parentheses(asked), needed(current, "consequence"))
            )
            body = body_of(unit, needed(current, "consequence"))
            del unit.scope.casts_known[known:]
            # Copied before the block ends and drops it.
            pattern = dict(unit.scope.blocks[-1])
        unit.scope.blocks[-1].update(pattern)  # a pattern variable is in scope after an `if` that ends in a jump
        lines += [f"{word} {code}:", *indented(body)]
        word, current = "elif", child(current, "alternative")
    if current is not None:
        lines += ["else:", *indented(body_of(unit, current))]
    return lines


def _classes_asked(unit: Unit, node: Node, body: Node) -> list[tuple[str, str]]:
    """Return the variables that are known to have a class when a condition holds."""
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
    """Return an expression as a statement of a function whose result is not used."""
    return expression_lines(unit, node)


@is_statement("return_statement")
def _return(unit: Unit, node: Node) -> list[str]:
    assert unit.scope is not None
    values = children(node)
    if not values:
        return ["return"]
    wanted = unit.scope.returns
    if wanted is not None and wanted.name.startswith("$"):  # of a function whose result determines its type
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
            # From the inside out: each resource is made within the previous one.
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
        # Objects of JMS are context managers themselves; others only have `close`.
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
        # For several classes only the members of all throwables are certain.
        kind = types[0] if len(types) == 1 else Type("java.lang.Throwable")
        name = text_of(needed(parameter, "name"))
        variable = unit.declare(name, kind, known=True)
        body = body_of(unit, needed(node, "body"))
    # Some classes are a tuple of Python's own: the handler's tuple contains all of them.
    code = codes[0] if len(codes) == 1 else f"({', '.join(each.strip('()') for each in codes)})"
    return [f"except {code} as {variable.python}:", *indented(body)]


@is_statement("explicit_constructor_invocation")
def _constructor(unit: Unit, node: Node) -> list[str]:
    raise Unportable(node, "a call of another constructor that is not the first statement")


# Loops.

_LOOPS = frozenset({"while_statement", "do_statement", "for_statement", "enhanced_for_statement"})
_OWN = frozenset({"lambda_expression", "class_body", "class_declaration"})


def _body(unit: Unit, node: Node, updates: Sequence[str] = ()) -> list[str]:
    """Return the lines of a loop's body; `updates` is the update part of a ``for``."""
    assert unit.scope is not None
    # A variable declared in a loop is new in each iteration in Java, but not in Python.
    unit.scope.loops += 1
    unit.updates.append(updates)
    try:
        return body_of(unit, needed(node, "body"))
    finally:
        unit.scope.loops -= 1
        unit.updates.pop()


def _loop_condition(unit: Unit, node: Node) -> str:
    """Return a condition that is evaluated repeatedly."""
    before = len(unit.before)
    code = condition(unit, node).code
    # The function would have to be made again in each iteration, before the condition.
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
        # `continue` in a do-while goes to its condition (JLS §14.16); in Python's `while True` it would skip it.
        before = [f"if not ({_loop_condition(unit, asked)}):", "    break"]
        _check_continues(node, True)
    body = _body(unit, node, before)
    code = _loop_condition(unit, asked)
    return ["while True:", *indented([*body, f"if not ({code}):", "    break"])]


def _jumps(node: Node, kind: str) -> list[Node]:
    """Return the jumps of a kind that belong to a loop with the body `node`."""
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
        # First, as a `range` is faster and reads better than the `while` below.
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
    """Write the update part before each `continue`; refuse one with a ``finally`` in between."""
    if not has_updates:
        return
    body = needed(node, "body")
    for each in [body, *children(body)]:
        for part in walk(each):
            if part.type == "finally_clause" and part.parent is not None and _jumps(part.parent, "continue_statement"):
                raise Unportable(node, "continue in a for with a finally", "write it as a while")


def _counted(unit: Unit, node: Node) -> list[str] | None:
    """Return ``for i in range(…)``, if a loop is one: it counts up by one to a constant bound."""
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
        # `range` ignores what the body assigns to its variable.
        or is_assigned(name, body)
        or not _stays(unit, needed(asked, "right"), node)
    ):
        return None
    first, last = expression(unit, needed(declarators[0], "value")), expression(unit, needed(asked, "right"))
    if first.type != INT or last.type != INT:
        return None
    stop = last.code if text_of(needed(asked, "operator")) == "<" else _next(last)
    # The greatest value decides whether sums with the variable may overflow.
    most = last.limits[1] - (text_of(needed(asked, "operator")) == "<")
    variable = unit.declare(name, INT, range=(first.limits[0], max(most, first.limits[0])))
    if first.limits[0] >= 0 and stop.startswith("len(") and text_of(needed(asked, "right")).endswith(".length"):
        # Counting from 0 to the array's length, the index needs no check.
        variable.within = stop[4:-1]
    arguments = stop if first.code == "0" else f"{first.code}, {stop}"
    return [f"for {variable.python} in range({arguments}):", *indented(_body(unit, node))]


def _next(last: Expr) -> str:
    return str(int(last.code) + 1) if last.code.isdecimal() else f"{as_operand(last.code)} + 1"


def _stays(unit: Unit, node: Node, loop: Node) -> bool:
    """Whether an expression is constant in the loop: a literal, or a name that the loop does not assign."""
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
                # Another method, or another thread, may assign any other field while the loop runs.
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
            # A bytearray yields 0 to 255, Java's bytes are signed.
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
            # Java throws ConcurrentModificationException; Python's list would silently skip elements.
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
    # The update part of a `for` also runs after `continue` (JLS §14.14.1.3); as a `while` it must be written here.
    return [*(unit.updates[-1] if unit.updates else ()), "continue"]


@is_statement("labeled_statement")
def _labeled(unit: Unit, node: Node) -> list[str]:
    raise Unportable(node, "a label", "put the loops into a function, and return where it breaks")


# ``switch``, old and new, as ``if`` and ``elif``.

_ENDS = frozenset({"break_statement", "return_statement", "throw_statement", "continue_statement"})
_INNER = frozenset(
    {
        "while_statement",
        "do_statement",
        "for_statement",
        "enhanced_for_statement",
        "switch_expression",
        "lambda_expression",
        "class_body",
    }
)


@dataclass(slots=True)
class _Case:
    labels: list[Node] = field(default_factory=list)
    is_default: bool = False
    body: list[Node] = field(default_factory=list)
    arrow: bool = False


def _cases(node: Node) -> list[_Case]:
    found = []
    for part in children(needed(node, "body")):
        case = _Case(arrow=part.type == "switch_rule")
        for each in part.named_children:
            if each.type == "switch_label":
                labels = children(each)
                case.labels.extend(labels)
                case.is_default |= not labels
            else:
                case.body.append(each)
        found.append(case)
    return found


def _selected(unit: Unit, node: Node) -> Expr:
    """Return the selector's value; None is an error, as in Java."""
    value = unboxed(expression(unit, needed(node, "condition")))
    if value.type == STRING and not value.known:
        # A switch over null is a NullPointerException (JLS §14.11.3); compared with labels, None would match none.
        return Expr(f"java.known({value.code})", STRING, known=True)
    info = unit.class_info(value.type.name)
    if info is not None and info.kind == "enum":
        return value if value.known else Expr(f"java.known({value.code})", value.type, known=True)
    if value.type != STRING and not (value.type.is_integral and value.type.name != "long"):
        raise Unportable(node, f"switch over {value.type}", "write it with if")
    return value


def _asked(unit: Unit, name: str, kind: Type, labels: list[Node]) -> str:
    info = unit.class_info(kind.name)
    if info is not None:  # an enum
        owner = unit.class_code(kind.name, labels[0])
        constants = [info.fields.get(text_of(each)) for each in labels]
        if None in constants:
            raise Unportable(labels[0], "a label that is no constant of the enum")
        codes = [f"{owner}.{each.python}" for each in constants if each is not None]
    else:
        codes = [value_for(unit, each, kind).code for each in labels]
    return f"{name} == {codes[0]}" if len(codes) == 1 else f"{name} in ({', '.join(codes)})"


@is_statement("switch_expression")
def _switch(unit: Unit, node: Node) -> list[str]:
    assert unit.scope is not None
    selected = _selected(unit, node)
    lines: list[str] = []
    name = selected.code
    if not name.isidentifier():
        # The selector is evaluated once, and compared with each label.
        name = unit.number("_selected")
        lines.append(f"{name} = {selected.code}")
    cases = _cases(node)
    bodies = [_case_body(unit, cases, place) for place in range(len(cases))]
    labels: list[Node] = []
    branches: list[tuple[str, list[str]]] = []
    otherwise: list[str] | None = None
    for place, (case, body) in enumerate(zip(cases, bodies, strict=True)):
        if not case.arrow and not case.body and place + 1 < len(cases):  # its labels are those of the next one, too
            # `default` may be anywhere, and `else` only at the end: labels beside it cannot be written as an `elif`.
            if case.is_default or any(each.is_default for each in cases[place + 1 : place + 2]):
                raise Unportable(node, "default beside other labels", "write it with if")
            labels.extend(case.labels)
            continue
        if case.is_default:
            otherwise = body
            if case.labels or labels:
                raise Unportable(node, "default beside other labels", "write it with if")
            continue
        branches.append((_asked(unit, name, selected.type, [*labels, *case.labels]), body))
        labels = []
    for place, (asked, body) in enumerate(branches):
        lines += [f"{'elif' if place else 'if'} {asked}:", *indented(body)]
    if otherwise is not None:
        lines += ["else:", *indented(otherwise)] if branches else otherwise
    return lines


def _case_body(unit: Unit, cases: list[_Case], place: int) -> list[str]:
    """Return the body of a case, including those it falls through to."""
    case = cases[place]
    if case.arrow:
        return body_of(unit, case.body[0])
    nodes: list[Node] = []
    # Without a break a case falls through to the next one: its statements are repeated here.
    for each in cases[place:]:
        statements = each.body
        if len(statements) == 1 and statements[0].type == "block":
            statements = statements[0].named_children
        done = False
        for statement in statements:
            if statement.type == "break_statement" and not children(statement):
                done = True
                break
            nodes.append(statement)
            if statement.type in _ENDS:
                done = True
                break
        if done:
            break
    with unit.block():
        lines = block_lines(unit, nodes)
    if not any(_has_jump(each, "break_statement") for each in nodes):
        return lines
    if any(_has_jump(each, "continue_statement") for each in nodes):
        # In the loop that represents the case, `continue` would repeat the case.
        raise Unportable(case.body[0], "break and continue within a case", "write the switch with if")
    return [
        # Python has no `break` out of an `if`, so the case is wrapped in a loop of one iteration.
        "while True:  # until break",
        *indented([*lines, *([] if lines[-1].startswith(("return", "raise")) else ["break"])]),
    ]


def _has_jump(node: Node, kind: str) -> bool:
    """Whether a part of a case has a jump out of the case, or of the enclosing loop."""
    if node.type == kind and not children(node):
        return True
    # `break` in an inner switch ends that one; `continue` applies to the loop.
    inner = _INNER - {"switch_expression"} if kind == "continue_statement" else _INNER
    return node.type not in inner and any(_has_jump(each, kind) for each in children(node))


@is_expression("switch_expression")
def _value(unit: Unit, node: Node) -> Expr:
    selected = _selected(unit, node)
    name = selected.code if selected.code.isidentifier() else unit.number("_selected")
    made: Expr | None = None
    branches: list[tuple[str, Expr]] = []
    for case in _cases(node):
        body = case.body[0] if case.body else None
        if not case.arrow or body is None or body.type != "expression_statement":
            raise Unportable(node, "switch as a value, with statements", "write it with if")
        value = expression(unit, children(body)[0])
        if case.is_default:
            made = value
        else:
            asked = name if branches or name == selected.code else f"({name} := {selected.code})"
            branches.append((_asked(unit, asked, selected.type, case.labels), value))
    if made is None or any(each.type != made.type for _, each in branches):
        raise Unportable(node, "switch as a value, of several types, or without default", "write it with if")
    code = made.code
    for asked, value in reversed(branches):
        code = conditional(value.code, asked, code)
    return Expr(code, made.type, known=made.known and all(each.known for _, each in branches))
