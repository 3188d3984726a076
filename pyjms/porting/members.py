"""Classes and their members in Python."""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from pyjms.porting.annotations import HARMLESS, annotation_name, annotations_of
from pyjms.porting.class_codes import unknown_class_advice
from pyjms.porting.classes import ClassInfo, FieldInfo, MethodInfo, members
from pyjms.porting.codes import default_of, quoted
from pyjms.porting.constructors import constructors
from pyjms.porting.fields import enum_constant, injected_fields, static_block, static_fields
from pyjms.porting.methods import method_lines
from pyjms.porting.model import OBJECT, Type, Unportable
from pyjms.porting.syntax import COMMENTS, child, has_modifier, text_of
from pyjms.porting.texts import comment_lines, indented, left_out
from pyjms.porting.types import LIBRARY_TYPES
from pyjms.porting.unit import Unit

__all__ = ["class_lines", "resolve_supers", "separate"]

_WITHOUT_BASE: Final = frozenset(
    {
        "java.lang.Object",
        "java.lang.Runnable",
        "java.lang.Comparable",
        "java.lang.Cloneable",
        "java.util.Comparator",
        "java.util.concurrent.Callable",
        *(name for name in LIBRARY_TYPES if name.startswith("java.util.function.")),
        "java.lang.AutoCloseable",
        "java.io.Closeable",
        "java.io.Serializable",
    }
)


def resolve_supers(unit: Unit, info: ClassInfo) -> None:
    """Find what a class extends and implements, and so for those in it."""
    unit.class_stack.append(info.outer or info)
    try:
        if info.super_node is not None:
            info.superclass = unit.find_type(info.super_node)
        info.interfaces = [unit.find_type(each) for each in info.interface_nodes]
        if info.kind == "enum" and info.node.type == "enum_declaration":
            info.superclass = Type("java.lang.Enum")
    finally:
        unit.class_stack.pop()
    for each in info.nested.values():
        resolve_supers(unit, each)


def separate(unit: Unit, info: ClassInfo) -> None:
    """Give what a class has for itself, beside members of the same name above it, names of its own.

    Java keeps two fields apart, and calls a private method of the class that calls it: in Python the lower one would hide
    the other.
    """
    above = [each for each in unit.lineage(info) if each is not info]
    for field in info.fields.values():
        if any(other.python == field.python for each in above for other in each.fields.values()):
            field.python = f"{field.python}_{info.name}"
    for method in info.methods:
        if method.name and any(_is_hidden(other, method) for each in above for other in each.named(method.name)):
            method.python = f"{method.python}_{info.name}"
    for inner in info.nested.values():
        separate(unit, inner)


def _is_hidden(above: MethodInfo, method: MethodInfo) -> bool:
    return above.is_static or has_modifier(above.node, "private") or has_modifier(method.node, "private")


def class_lines(unit: Unit, info: ClassInfo) -> list[str]:
    """Return the lines of a class."""
    unit.class_stack.append(info)
    try:
        if info.kind not in {"class", "interface", "object", "enum"}:
            error = Unportable(info.node, f"the {info.kind} {info.name}", "write it as a class of Python")
            return [
                f"class {info.name}:",
                *indented(["def __init__(self, *args):", *indented(left_out(unit, info.node, error))]),
                "",
            ]
        _tell_annotations(unit, info)
        bases, obstacle = _bases(unit, info)
        body = _Body(unit, info, obstacle)
        lines = body.lines()
        return [f"class {info.name}{f'({bases})' if bases else ''}:", *indented(lines or ["pass"]), ""]
    finally:
        unit.class_stack.pop()


def _tell_annotations(unit: Unit, info: ClassInfo) -> None:
    for each in annotations_of(info.node):
        name = annotation_name(each)
        if name == "MessageDriven":
            unit.check(
                each,
                f"the message-driven bean {info.name}",
                "no container makes it in Python: in a main of its own, make a consumer of the destination that the annotation names, set "
                "an object of the class as its listener, start the connection and wait: docs/how-to/porting.md, A program that only listens",
            )
        elif name not in HARMLESS:
            unit.check(each, f"the annotation {text_of(each)[:60]}", "nothing reads it in Python: do what it asks for")


def _bases(unit: Unit, info: ClassInfo) -> tuple[str, Unportable | None]:
    codes = []
    for above in (info.superclass, *info.interfaces):
        if above is None or above.name in _WITHOUT_BASE:
            continue
        own = unit.class_info(above.name)
        if own is not None and own.outer is not None and own.outer is info.outer and not info.in_method:
            codes.append(own.name)
        elif own is not None and own is info.outer and not info.in_method:
            return "", Unportable(info.node, f"{info.name} extends the class around it", "move it out of that class")
        else:
            try:
                codes.append(unit.class_code(above.name, info.node))
            except Unportable:
                what = f"{info.name} extends or implements {above.name}"
                return ", ".join(codes), Unportable(info.node, what, unknown_class_advice(above.name))
    return ", ".join(codes), None


def _is_transient(field: FieldInfo) -> bool:
    declaration = field.declarator.parent
    return declaration is not None and not field.is_static and has_modifier(declaration, "transient")


def _state(fields: list[FieldInfo]) -> list[str]:
    """Return what has pickle leave out fields that are transient."""
    defaults = ", ".join(f"{quoted(each.python)}: {default_of(each.type or OBJECT)}" for each in fields)
    return ["def __getstate__(self):", f"    return {{**self.__dict__, {defaults}}}", ""]


def _leading(lines: list[str]) -> list[str]:
    """Return the constants at the top of a class, with comments among them."""
    place = 0
    for number, line in enumerate(lines):
        if line.startswith(("def ", "class ", "@")):
            break
        if line and not line.startswith("#"):
            place = number + 1
    return lines[:place]


def _add_apart(lines: list[str], more: list[str]) -> None:
    """Add a method or a class, with an empty line before it, and before its comments."""
    place = len(lines)
    while place and lines[place - 1].startswith("#"):
        place -= 1
    if more and place and lines[place - 1]:
        lines.insert(place, "")
    lines.extend(more)


class _Body:
    """The members of one class, while they are written."""

    def __init__(self, unit: Unit, info: ClassInfo, obstacle: Unportable | None) -> None:
        self._unit = unit
        self._info = info
        self._obstacle = obstacle
        self._written: set[str] = set()

    def lines(self) -> list[str]:
        """Return all members, in the order of the source; constructors and what fields begin with as ``__init__``."""
        unit, info = self._unit, self._info
        lines: list[str] = []
        for node in members(info.body) if info.body else ():
            if node.type in COMMENTS:
                lines.extend(comment_lines(node))
            elif node.type == "enum_constant":
                enum_constant(unit, info, node)
            elif node.type in {"field_declaration", "constant_declaration"}:
                lines.extend(injected_fields(unit, info, node))
                lines.extend(static_fields(unit, info, node))
            elif node.type == "constructor_declaration":
                _add_apart(lines, self._constructors())
            elif node.type == "method_declaration":
                _add_apart(lines, method_lines(unit, info, node, self._written))
            elif node.type == "static_initializer":
                static_block(unit, info, node)
            elif node.type not in {"block", ";"}:
                _add_apart(lines, self._nested(node))
        if "" not in self._written and (made := self._constructors()):
            leading = _leading(lines)
            rest = lines[len(leading) :]
            lines = leading
            _add_apart(lines, made)
            lines += rest[1:] if rest[:1] == [""] else rest
        if unit.is_subtype(info.full_name, "java.lang.Throwable") and info.java_name != info.path.replace(".", "$"):
            lines = [f"java_name = {quoted(info.java_name)}", "", *lines]
        if info.kind == "enum" and info.java_name != info.path.replace(".", "$"):
            lines = [f"java_name = {quoted(info.java_name)}", "", *lines]
        if hidden := [each for each in info.fields.values() if _is_transient(each)]:
            _add_apart(lines, _state(hidden))
        while lines and not lines[-1]:
            lines.pop()
        if not any(line and not line.startswith("#") for line in lines):
            lines.append("pass")
        return lines

    def _constructors(self) -> list[str]:
        """Return the constructors, once."""
        if "" in self._written:
            return []
        self._written.add("")
        return constructors(self._unit, self._info, self._obstacle)

    def _nested(self, node: Node) -> list[str]:
        unit, info = self._unit, self._info
        named = child(node, "name")
        inner = info.nested.get(text_of(named)) if named else None
        if inner is None or inner.name in self._written:
            return []
        self._written.add(inner.name)
        lines: list[str] = []
        for above in (inner.superclass, *inner.interfaces):
            sibling = unit.class_info(above.name) if above else None
            if sibling is not None and sibling.outer is info:
                lines.extend(self._nested(sibling.node))
        return [*lines, *class_lines(unit, inner)]
