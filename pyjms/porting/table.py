"""The three tables of translations, from a type of node to its function; and lines of Python from blocks of Java.

`EXPRESSIONS` have a value; the value of `TARGETED` depends on the target type, as for lambdas; `STATEMENTS` are lines.
The other modules of this package fill them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from tree_sitter import Node

from pyjms.porting.codes import quoted
from pyjms.porting.conversions import convert
from pyjms.porting.model import BOOLEAN, COMMENTS, Expr, Type, Unportable, children, needed, text_of
from pyjms.porting.unit import Unit

_Expression: TypeAlias = Callable[[Unit, Node], Expr]
_Targeted: TypeAlias = Callable[[Unit, Node, Type], Expr]
_Statement: TypeAlias = Callable[[Unit, Node], list[str]]

EXPRESSIONS: Final[dict[str, _Expression]] = {}
TARGETED: Final[dict[str, _Targeted]] = {}
STATEMENTS: Final[dict[str, _Statement]] = {}


def is_expression(*kinds: str) -> Callable[[_Expression], _Expression]:
    """Register a function for expressions of some types of node."""

    def add(function: _Expression) -> _Expression:
        EXPRESSIONS.update(dict.fromkeys(kinds, function))
        return function

    return add


def is_targeted(*kinds: str) -> Callable[[_Targeted], _Targeted]:
    """Register a function for expressions whose value depends on the target type."""

    def add(function: _Targeted) -> _Targeted:
        TARGETED.update(dict.fromkeys(kinds, function))
        return function

    return add


def is_statement(*kinds: str) -> Callable[[_Statement], _Statement]:
    """Register a function for statements of some types of node."""

    def add(function: _Statement) -> _Statement:
        STATEMENTS.update(dict.fromkeys(kinds, function))
        return function

    return add


def without_parentheses(node: Node) -> Node:
    """Return the node within parentheses."""
    while node.type == "parenthesized_expression":
        node = children(node)[0]
    return node


def expression(unit: Unit, node: Node) -> Expr:
    """Return the value of an expression. Raises `Unportable`."""
    node = without_parentheses(node)
    translate = EXPRESSIONS.get(node.type)
    if translate is None:
        raise Unportable(node, f"a {node.type.replace('_', ' ')}")
    try:
        return translate(unit, node)
    # A chain of hundreds of operands nests as deeply in the tree; the statement is left out and translation continues.
    except RecursionError:
        raise Unportable(node, "an expression of that many levels", "give parts of it names") from None


def value_for(unit: Unit, node: Node, target: Type) -> Expr:
    """Return the value of an expression for `target`: a lambda, an array's elements, or a converted value."""
    node = without_parentheses(node)
    if node.type in TARGETED:
        return TARGETED[node.type](unit, node, target)
    if node.type == "method_invocation" and target.args:
        # By the node's id: the call is translated later, in a function that does not know the target.
        unit.wanted[node.id] = target
    return convert(unit, expression(unit, node), target, node)


def condition(unit: Unit, node: Node) -> Expr:
    """Return the value of a condition."""
    return value_for(unit, node, BOOLEAN)


_MOST_LEVELS = 40
"""Python allows a hundred levels of indentation; classes, methods and functions in expressions need some, too."""


def indented(lines: Iterable[str]) -> list[str]:
    """Return lines indented by one level."""
    return [f"    {line}" if line else line for line in lines]


def comment_lines(node: Node) -> list[str]:
    """Return a comment of Java as one of Python."""
    text = text_of(node)
    if text.startswith("//"):
        return [f"# {text.lstrip('/').strip()}".rstrip()]
    inner = re.sub(r"^/\*+|\*+/$", "", text)
    # Lines keep their column relative to the comment's first line, as the Python has another indentation.
    margin = node.start_point.column
    lines = [
        re.sub(r"^\s*\* ?", "", line[margin:] if not line[:margin].strip() else line).rstrip()
        for line in inner.split("\n")
    ]
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    return [f"# {line.strip() if place == 0 else line}".rstrip() for place, line in enumerate(lines)]


def _java(node: Node) -> list[str]:
    lines = text_of(node).split("\n")
    margin = node.start_point.column
    return [
        f"# {line if place == 0 else line[margin:] if not line[:margin].strip() else line.strip()}".rstrip()
        for place, line in enumerate(lines)
    ]


def left_out(unit: Unit, node: Node, error: Unportable) -> list[str]:
    """Return the replacement of a part that was not translated: it raises, and shows the Java."""
    unit.fail(error, node)
    if node.type == "local_variable_declaration":
        # Otherwise each later use of the variable would be reported as well, and hide the cause.
        _declare_all(unit, node)
    line = error.node.start_point.row + 1
    return [*_java(node), f"raise java.NotPorted({quoted(f'{unit.file.name}:{line}: {error.what}')})"]


def _declare_all(unit: Unit, node: Node) -> None:
    """Declare the variables of a declaration that was not translated, for the code after it, although that is never
    reached.
    """
    try:
        kind = unit.find_type(needed(node, "type"))
    except Unportable:
        kind = Type("?")
    for each in children(node):
        if each.type == "variable_declarator":
            unit.declare(text_of(needed(each, "name")), kind)


def _unknown(unit: Unit, node: Node) -> list[str]:
    raise Unportable(node, f"a {node.type.replace('_', ' ')}")


def _too_deep(unit: Unit, node: Node) -> list[str]:
    raise Unportable(node, "a statement within that many levels")


def statement(unit: Unit, node: Node) -> list[str]:
    """Return the lines of a statement; an untranslatable one raises when it is reached."""
    if node.type in COMMENTS:
        return comment_lines(node)
    # Each statement collects its own: functions of an inner statement must not move in front of an outer one.
    before, unit.before = unit.before, []
    unit.levels += 1
    try:
        # Python refuses code with more than 100 levels of indentation, so the whole module would not compile.
        translate = _too_deep if unit.levels > _MOST_LEVELS else STATEMENTS.get(node.type, _unknown)
        lines = translate(unit, node)
    except Unportable as error:
        return left_out(unit, node, error)
    else:
        return [*unit.before, *lines]
    finally:
        unit.before = before
        unit.levels -= 1


def block_lines(unit: Unit, nodes: Sequence[Node]) -> list[str]:
    """Return the lines of consecutive statements, with a ``pass`` if there is no code."""
    lines: list[str] = []
    row = None
    for node in nodes:
        if row is not None and node.start_point.row > row + 1 and lines:
            lines.append("")
        made = statement(unit, node)
        # Formatters of Python want an empty line in front of a nested function or class.
        if made and made[0].startswith(("class ", "def ")) and lines and lines[-1]:
            lines.append("")
        if (
            node.type == "line_comment"
            and row == node.start_point.row
            and lines
            and lines[-1]
            # Two comments of one line would become one text.
            and not lines[-1].startswith("#")
        ):
            lines[-1] += f"  {made[0]}"
        else:
            lines.extend(made)
        row = node.end_point.row
    # A block of comments alone is no block in Python.
    if not any(line.strip() and not line.lstrip().startswith("#") for line in lines):
        lines.append("pass")
    return lines


def body_of(unit: Unit, node: Node | None) -> list[str]:
    """Return the lines of a block, or of a single statement in its place."""
    if node is None:
        return ["pass"]
    with unit.block():
        if node.type in {"block", "constructor_body"}:
            return block_lines(unit, node.named_children)
        return block_lines(unit, [node])
