"""Fields of classes in Python."""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from pyjms.porting.classes import ClassInfo, FieldInfo, members
from pyjms.porting.codes import default_of, is_constant, quoted
from pyjms.porting.model import Unportable
from pyjms.porting.syntax import child, children, needed, text_of
from pyjms.porting.table import value_for
from pyjms.porting.texts import body_of, left_out
from pyjms.porting.unit import MethodScope, Unit

__all__ = ["field_lines", "static_block", "static_fields"]

_NO_STATICS: Final = frozenset(
    {"decimal_integer_literal", "string_literal", "true", "false", "null_literal", "character_literal"}
) | {
    "decimal_floating_point_literal",
    "hex_integer_literal",
}
_EARLY: Final = (
    "it runs when the module is imported, in Java when the class is first used: see that this makes no difference"
)


def static_fields(unit: Unit, info: ClassInfo, node: Node) -> list[str]:
    """Return the constants of a declaration; what its other static fields begin with is done when all classes are there."""
    lines: list[str] = []
    for field in info.fields.values():
        if field.is_static and field.declarator.parent == node:
            lines.extend(_static_field(unit, info, field, node))
    return lines


def _static_field(unit: Unit, info: ClassInfo, field: FieldInfo, node: Node) -> list[str]:
    found = unit.find_field(info, field.name)
    assert found is not None
    assert found.type is not None
    value = child(field.declarator, "value")
    if info.in_method:
        raise Unportable(node, "a static field of a class in a method")
    with unit.within(MethodScope(node, info, is_static=True)):
        try:
            code = value_for(unit, value, found.type).code if value is not None else default_of(found.type)
            if value is None or value.type in _NO_STATICS or is_constant(code):
                return [f"{field.python} = {code}"]
            if value is not None and _runs_code(unit, value):
                unit.check(node, f"the static field {field.name}", _EARLY)
            unit.static_lines.extend([*unit.before, f"{info.path}.{field.python} = {code}"])
        except Unportable as error:
            unit.fail(error, node)
            line = error.node.start_point.row + 1
            what = quoted(f"{unit.file.name}:{line}: {error.what}")
            return [f"# {text_of(node)}".split("\n")[0], f"{field.python} = java.not_ported_field({what})"]
        return []


def static_block(unit: Unit, info: ClassInfo, node: Node) -> None:
    """Have a static initializer be done when all classes are there."""
    if info.in_method:
        raise Unportable(node, "a static initializer of a class in a method")
    unit.check(node, "a static initializer", _EARLY)
    with unit.within(MethodScope(node, info, is_static=True)):
        unit.static_lines.extend(body_of(unit, children(node)[0]))


def field_lines(unit: Unit, info: ClassInfo) -> list[str]:
    """Return what the fields of an object begin with."""
    lines = list[str]()
    for node in members(info.body) if info.body else ():
        if node.type == "block":
            lines.extend(body_of(unit, node))
        for field in info.fields.values():
            if not field.is_static and field.declarator.parent == node:
                lines.extend(_field(unit, info, field, node))
    return lines


def _field(unit: Unit, info: ClassInfo, field: FieldInfo, node: Node) -> list[str]:
    value = child(field.declarator, "value")
    outside, unit.before = unit.before, []
    try:
        found = unit.find_field(info, field.name)
        assert found is not None
        assert found.type is not None
        code = value_for(unit, value, found.type).code if value is not None else default_of(found.type)
    except Unportable as error:
        return left_out(unit, node, error)
    else:
        return [*unit.before, f"self.{field.python} = {code}"]
    finally:
        unit.before = outside


def _runs_code(unit: Unit, node: Node) -> bool:
    """Whether a value is made by the program's own code."""
    if node.type == "object_creation_expression":
        return unit.class_info(unit.find_class(text_of(needed(node, "type")).partition("<")[0], node)) is not None
    if node.type == "method_invocation" and child(node, "object") is None:
        return True
    return any(_runs_code(unit, each) for each in children(node))
