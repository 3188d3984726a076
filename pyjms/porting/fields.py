"""Fields of classes in Python."""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from pyjms.porting.annotations import HARMLESS, INJECTING, annotation_name, annotations_of, argument_of
from pyjms.porting.arguments import given, own_arguments
from pyjms.porting.calls import meant
from pyjms.porting.classes import ClassInfo, FieldInfo, class_of, members
from pyjms.porting.codes import default_of, is_constant, quoted
from pyjms.porting.constants import constant_text
from pyjms.porting.model import Type, Unportable
from pyjms.porting.syntax import child, children, needed, text_of
from pyjms.porting.table import value_for
from pyjms.porting.texts import body_of, left_out
from pyjms.porting.unit import MethodScope, Unit

__all__ = ["enum_constant", "field_lines", "injected_fields", "static_block", "static_fields"]

_NO_STATICS: Final = frozenset(
    {"decimal_integer_literal", "string_literal", "true", "false", "null_literal", "character_literal"}
) | {
    "decimal_floating_point_literal",
    "hex_integer_literal",
}
_EARLY: Final = (
    "it runs when the module is imported, in Java when the class is first used: see that this makes no difference"
)


def injected_fields(unit: Unit, info: ClassInfo, node: Node) -> list[str]:
    """Return the fields of a declaration that a container would fill: a look-up for `@Resource`, else what raises when it is read."""
    lines: list[str] = []
    for field in _declared(info, node):
        found = _filler(node)
        if found is None:
            continue
        kind = unit.find_field(info, field.name)
        assert kind is not None
        assert kind.type is not None
        name = _resource_name(unit, info, found, field)
        if name is not None and kind.type.name in _LOOKED_UP:
            unit.check(
                found, "names of JNDI", "keep jndi.properties, with another URL in it: docs/how-to/porting.md, JNDI"
            )
            lines.append(f"{field.python} = java.looked_up(lambda: InitialContext().lookup({quoted(name)}))")
            continue
        what = f"the annotation {text_of(found)[:60]}"
        unit.fail(Unportable(found, what, "no container fills it in Python: make the object, and set the field"), node)
        line = found.start_point.row + 1
        lines.append(f"{field.python} = java.not_ported_field({quoted(f'{unit.file.name}:{line}: {what}')})")
    return lines


_LOOKED_UP: Final = frozenset(
    f"javax.jms.{name}"
    for name in (
        "ConnectionFactory",
        "QueueConnectionFactory",
        "TopicConnectionFactory",
        "XAConnectionFactory",
        "XAQueueConnectionFactory",
        "XATopicConnectionFactory",
        "Destination",
        "Queue",
        "Topic",
    )
)


def _declared(info: ClassInfo, node: Node) -> list[FieldInfo]:
    return [field for field in info.fields.values() if field.declarator.parent == node]


def _filler(node: Node) -> Node | None:
    names = {annotation_name(each): each for each in annotations_of(node)}
    return next((each for name, each in names.items() if name == "Resource" or name in INJECTING), None)


def _resource_name(unit: Unit, info: ClassInfo, annotation: Node, field: FieldInfo) -> str | None:
    """Return the name that a resource is looked up by: as the annotation says, else that of the field."""
    if annotation_name(annotation) != "Resource":
        return None
    with unit.within(MethodScope(annotation, info, is_static=True)):
        for key in ("lookup", "mappedName", "name"):
            given = argument_of(annotation, key)
            if given is not None:
                return constant_text(unit, given)
    return field.name


def enum_constant(unit: Unit, info: ClassInfo, node: Node) -> None:
    """Have a constant of an enum be made when all classes are there."""
    name = text_of(needed(node, "name"))
    field = info.fields[name]
    with unit.within(MethodScope(node, info, is_static=True)):
        try:
            made = _constant_made(unit, info, node, name)
        except Unportable as error:
            unit.fail(error, node)
            made = (
                f"java.not_ported_field({quoted(f'{unit.file.name}:{error.node.start_point.row + 1}: {error.what}')})"
            )
        unit.enum_lines.extend([*unit.before, f"{info.path}.{field.python} = {made}"])


def _constant_made(unit: Unit, info: ClassInfo, node: Node, name: str) -> str:
    """Return what makes a constant of an enum. Raises `Unportable`."""
    if info.in_method:
        raise Unportable(node, "an enum in a method")
    listed = child(node, "arguments")
    arguments = given(unit, listed) if listed is not None else []
    found = unit.find_methods(info, "", len(arguments))
    if not found and arguments:
        raise Unportable(node, f"a constructor of {info.name} with {len(arguments)} arguments")
    method = meant(unit, found, arguments, node) if found else None
    passed = own_arguments(unit, method, arguments, node) if method is not None else ""
    code = constant_class(unit, info, node) if child(node, "body") is not None else info.path
    parts = [quoted(name), *([passed] if passed else [])]
    if method is not None and method.python != "__init__":
        return f"java.made({', '.join([code, f'{code}.{method.python}', *parts])})"
    return f"{code}({', '.join(parts)})"


def constant_class(unit: Unit, info: ClassInfo, node: Node) -> str:
    """Return the name of the class of a constant that has members of its own, which is written before the constants."""
    from pyjms.porting.members import class_lines, separate

    inner = class_of(node, unit.file, info, in_method=True)
    inner.name = f"_{info.name}_{text_of(needed(node, 'name'))}"
    inner.superclass = Type(info.full_name)
    unit.local_classes[inner.name] = inner
    separate(unit, inner)
    unit.before.extend(class_lines(unit, inner))
    return inner.name


def static_fields(unit: Unit, info: ClassInfo, node: Node) -> list[str]:
    """Return the constants of a declaration; what its other static fields begin with is done when all classes are there."""
    lines: list[str] = []
    if _filler(node) is not None:
        return lines
    for annotation in annotations_of(node):
        if annotation_name(annotation) not in HARMLESS:
            what = f"the annotation {text_of(annotation)[:60]}"
            unit.check(annotation, what, "nothing reads it in Python: do what it asks for")
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
    lost = len(unit.untranslated)
    with unit.within(MethodScope(node, info, is_static=True)):
        lines = body_of(unit, children(node)[0])
    if len(unit.untranslated) > lost:
        unit.check(
            node,
            "a static initializer that stops the import",
            "a part of it was not translated, and raises when the module is imported, with all classes in it: port that first",
        )
    unit.static_lines.extend(lines)


def field_lines(unit: Unit, info: ClassInfo) -> list[str]:
    """Return what the fields of an object begin with."""
    lines = list[str]()
    for node in members(info.body) if info.body else ():
        if node.type == "block":
            lines.extend(body_of(unit, node))
        for field in info.fields.values():
            if not field.is_static and field.declarator.parent == node and _filler(node) is None:
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
