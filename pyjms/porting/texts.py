"""Lines of Python: indented, from blocks of Java, with its comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tree_sitter import Node

from pyjms.porting.codes import quoted
from pyjms.porting.model import Type, Unportable
from pyjms.porting.syntax import COMMENTS, children, needed, text_of
from pyjms.porting.table import STATEMENTS
from pyjms.porting.unit import Unit

_MOST_LEVELS = 40
"""Python takes a hundred steps to the right; classes, methods and functions within expressions have theirs, too."""


def indented(lines: Iterable[str]) -> list[str]:
    """Return lines one step to the right."""
    return [f"    {line}" if line else line for line in lines]


def comment_lines(node: Node) -> list[str]:
    """Return a comment of Java as one of Python."""
    text = text_of(node)
    if text.startswith("//"):
        return [f"# {text.lstrip('/').strip()}".rstrip()]
    inner = re.sub(r"^/\*+|\*+/$", "", text)
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
    """Return what stands in the place of a part that was not translated: it raises, and shows the Java."""
    unit.fail(error, node)
    if node.type == "local_variable_declaration":
        _declare_all(unit, node)
    line = error.node.start_point.row + 1
    return [*_java(node), f"raise java.NotPorted({quoted(f'{unit.file.name}:{line}: {error.what}')})"]


def _declare_all(unit: Unit, node: Node) -> None:
    """Have what follows know the variables of a declaration that was not translated, though it is never reached."""
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
    """Return the lines of a statement; what cannot be translated raises when it is reached."""
    if node.type in COMMENTS:
        return comment_lines(node)
    before, unit.before = unit.before, []
    unit.levels += 1
    try:
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
    """Return the lines of statements after one another, with a ``pass`` where nothing is done."""
    lines: list[str] = []
    row = None
    for node in nodes:
        if row is not None and node.start_point.row > row + 1 and lines:
            lines.append("")
        made = statement(unit, node)
        if made and made[0].startswith(("class ", "def ")) and lines and lines[-1]:
            lines.append("")
        if (
            node.type == "line_comment"
            and row == node.start_point.row
            and lines
            and lines[-1]
            and not lines[-1].startswith("#")
        ):
            lines[-1] += f"  {made[0]}"
        else:
            lines.extend(made)
        row = node.end_point.row
    if not any(line.strip() and not line.lstrip().startswith("#") for line in lines):
        lines.append("pass")
    return lines


def body_of(unit: Unit, node: Node | None) -> list[str]:
    """Return the lines of a block, or of a statement that stands where a block may."""
    if node is None:
        return ["pass"]
    with unit.block():
        if node.type in {"block", "constructor_body"}:
            return block_lines(unit, node.named_children)
        return block_lines(unit, [node])
