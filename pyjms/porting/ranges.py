"""Which values integers may have, so that most sums need no look at the bounds of 32 bits.

A variable that is assigned once has the range of what it is assigned. One that is otherwise only counted up or down, one by
one, is taken to stay within bounds: to reach them from a small number takes Python minutes of doing nothing else.
"""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from pyjms.porting.classes import FieldInfo
from pyjms.porting.syntax import child, children, needed, text_of, walk

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
    """Return the range of a local variable, from that of what it is declared with; None: any value."""
    if initial is None:
        return None
    changes = _changes(name, within)
    if not changes:
        return initial
    return _counted(changes, initial)


def _counted(changes: set[str], initial: tuple[int, int]) -> tuple[int, int] | None:
    if "=" in changes or not -_COUNT < initial[0] <= initial[1] < _COUNT:
        return None
    return initial[0] if "--" not in changes else -2 * _COUNT + 2, initial[1] if "++" not in changes else 2 * _COUNT - 2


def range_of_field(field: FieldInfo) -> tuple[int, int] | None:
    """Return the range of a private or constant field that is declared with a number, or counts from 0."""
    if field.type is None or field.type.name not in {"int", "long"} or field.type.dims:
        return None
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
