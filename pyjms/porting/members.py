"""Classes and their members in Python."""

from __future__ import annotations

import re
from typing import Final

from tree_sitter import Node

from pyjms.porting.arguments import given, own_arguments
from pyjms.porting.class_codes import unknown_class_advice
from pyjms.porting.classes import ClassInfo, FieldInfo, MethodInfo, members
from pyjms.porting.codes import default_of, is_constant, quoted
from pyjms.porting.model import Type, Unportable
from pyjms.porting.syntax import COMMENTS, child, children, has_modifier, needed, text_of
from pyjms.porting.table import value_for
from pyjms.porting.texts import block_lines, body_of, comment_lines, indented, left_out
from pyjms.porting.types import LIBRARY_TYPES
from pyjms.porting.unit import MethodScope, Unit

__all__ = ["class_lines", "resolve_supers", "separate"]

_WITHOUT_BASE: Final = frozenset(
    {
        "java.lang.Object",
        "java.lang.Runnable",
        "java.util.concurrent.Callable",
        "java.lang.AutoCloseable",
        "java.io.Closeable",
        "java.io.Serializable",
    }
)
_HARMLESS: Final = frozenset(
    {"Override", "SuppressWarnings", "Deprecated", "FunctionalInterface", "SafeVarargs", "Serial"}
)
_NO_STATICS: Final = frozenset(
    {"decimal_integer_literal", "string_literal", "true", "false", "null_literal", "character_literal"}
) | {
    "decimal_floating_point_literal",
    "hex_integer_literal",
}


def resolve_supers(unit: Unit, info: ClassInfo) -> None:
    """Find what a class extends and implements, and so for those in it."""
    unit.class_stack.append(info.outer or info)
    try:
        if info.super_node is not None:
            info.superclass = unit.find_type(info.super_node)
        info.interfaces = [unit.find_type(each) for each in info.interface_nodes]
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
        if info.kind not in {"class", "interface", "object"}:
            error = Unportable(info.node, f"the {info.kind} {info.name}", "write it as a class of Python")
            return [
                f"class {info.name}:",
                *indented(["def __init__(self, *args):", *indented(left_out(unit, info.node, error))]),
                "",
            ]
        bases, obstacle = _bases(unit, info)
        body = _Body(unit, info, obstacle)
        lines = body.lines()
        return [f"class {info.name}{f'({bases})' if bases else ''}:", *indented(lines or ["pass"]), ""]
    finally:
        unit.class_stack.pop()


def _bases(unit: Unit, info: ClassInfo) -> tuple[str, Unportable | None]:
    codes = []
    for above in (info.superclass, *info.interfaces):
        if above is None or above.name in _WITHOUT_BASE:
            continue
        own = unit.class_info(above.name)
        if own is not None and own.outer is not None and own.outer is info.outer and not info.in_method:
            codes.append(own.name)
        elif own is not None and own is info.outer:
            return "", Unportable(info.node, f"{info.name} extends the class around it", "move it out of that class")
        else:
            try:
                codes.append(unit.class_code(above.name, info.node))
            except Unportable:
                what = f"{info.name} extends or implements {above.name}"
                return ", ".join(codes), Unportable(info.node, what, unknown_class_advice(above.name))
    return ", ".join(codes), None


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
        self._constants: list[str] = []

    def lines(self) -> list[str]:
        """Return all members, in the order of the source; constructors and what fields begin with as ``__init__``."""
        unit, info = self._unit, self._info
        lines: list[str] = []
        for node in members(info.body) if info.body else ():
            if node.type in COMMENTS:
                lines.extend(comment_lines(node))
            elif node.type in {"field_declaration", "constant_declaration"}:
                self._static_fields(node)
                lines.extend(self._constants)
                self._constants.clear()
            elif node.type == "constructor_declaration":
                _add_apart(lines, self._constructors())
            elif node.type == "method_declaration":
                _add_apart(lines, self._method(node))
            elif node.type == "static_initializer":
                self._static_block(node)
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
        while lines and not lines[-1]:
            lines.pop()
        if not any(line and not line.startswith("#") for line in lines):
            lines.append("pass")
        return lines

    # ---------------------------------------------------------------------------------------------------- fields

    def _static_fields(self, node: Node) -> None:
        for field in self._info.fields.values():
            if field.is_static and field.declarator.parent == node:
                self._static_field(field, node)

    def _static_field(self, field: FieldInfo, node: Node) -> None:
        unit, info = self._unit, self._info
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
                    self._constants.append(f"{field.python} = {code}")
                    return
                if value is not None and _runs_code(unit, value):
                    unit.check(node, f"the static field {field.name}", _EARLY)
                unit.static_lines.extend([*unit.before, f"{info.path}.{field.python} = {code}"])
            except Unportable as error:
                unit.fail(error, node)
                line = error.node.start_point.row + 1
                what = quoted(f"{unit.file.name}:{line}: {error.what}")
                self._constants += [
                    f"# {text_of(node)}".split("\n")[0],
                    f"{field.python} = java.not_ported_field({what})",
                ]

    def _static_block(self, node: Node) -> None:
        unit = self._unit
        if self._info.in_method:
            raise Unportable(node, "a static initializer of a class in a method")
        unit.check(node, "a static initializer", _EARLY)
        with unit.within(MethodScope(node, self._info, is_static=True)):
            unit.static_lines.extend(body_of(unit, children(node)[0]))

    def _field_lines(self) -> list[str]:
        """Return what the fields of an object begin with."""
        unit, info, lines = self._unit, self._info, list[str]()
        for node in members(info.body) if info.body else ():
            if node.type == "block":
                lines.extend(body_of(unit, node))
            for field in info.fields.values():
                if not field.is_static and field.declarator.parent == node:
                    lines.extend(self._field(field, node))
        return lines

    def _field(self, field: FieldInfo, node: Node) -> list[str]:
        unit, value = self._unit, child(field.declarator, "value")
        outside, unit.before = unit.before, []
        try:
            found = unit.find_field(self._info, field.name)
            assert found is not None
            assert found.type is not None
            code = value_for(unit, value, found.type).code if value is not None else default_of(found.type)
        except Unportable as error:
            return left_out(unit, node, error)
        else:
            return [*unit.before, f"self.{field.python} = {code}"]
        finally:
            unit.before = outside

    # ----------------------------------------------------------------------------------------------- constructors

    def _constructors(self) -> list[str]:
        """Return ``__init__``, once: with one constructor, with several, or with none."""
        unit, info = self._unit, self._info
        if "" in self._written:
            return []
        self._written.add("")
        constructors = info.named("")
        for each in constructors:
            unit.fill_signature(each)
        if len(constructors) < 2:
            return self._constructor(constructors[0] if constructors else None, "__init__")
        lines: list[str] = []
        counts = [len(each.params) for each in constructors]
        for each in constructors:
            if counts.count(len(each.params)) == 1 and not each.variadic:
                lines.extend(self._constructor(each, f"_init_{len(each.params)}"))
        table = []
        for count in dict.fromkeys(counts):
            if counts.count(count) == 1:
                table.append((count, f"{info.path}._init_{count}(self, *args)"))
            else:
                found = next(each for each in constructors if len(each.params) == count)
                error = Unportable(
                    found.node, f"constructors of {info.name} with {count} parameters each", "give one another number"
                )
                unit.fail(error, found.node)
                table.append((count, f"raise java.NotPorted({quoted(error.what)})"))
        return [*lines, "def __init__(self, *args):", *indented(_dispatch(table, "raise TypeError(args)")), ""]

    def _constructor(self, method: MethodInfo | None, name: str) -> list[str]:
        unit, info = self._unit, self._info
        scope = MethodScope(
            method.node if method else info.node,
            info,
            is_static=False,
            returns=Type("void"),
            above=unit.scope if info.in_method else None,
        )
        with unit.within(scope):
            params = self._parameters(method) if method else []
            statements = needed(method.node, "body").named_children if method else []
            first = next((each for each in statements if each.type == "explicit_constructor_invocation"), None)
            rest = [each for each in statements if each is not first]
            try:
                above = self._above(first, method)
            except Unportable as error:
                above = left_out(unit, first or info.node, error)
            if self._obstacle is not None:
                above = left_out(unit, self._obstacle.node.children[0], self._obstacle)[-1:]
                self._obstacle = None
            is_this = first is not None and text_of(children(first)[0]) == "this"
            fields = [] if is_this else self._field_lines()
            body = block_lines(unit, rest) if rest else []
            lines = [*above, *_without_defaults(fields, body), *body]
            needs_outer = info.full_name in unit.needs_outer or self._has_outer()
            kept = [f"{each}={each}" for each in scope.kept]
        if needs_outer:
            lines = ["self.outer = outer", *lines]
            params = ["outer", *params]
        if method is None and not needs_outer and not kept:
            if not lines:
                return []
            if lines == ["super().__init__()"]:
                return []
            if lines[:1] == ["super().__init__()"] and self._super_takes_arguments():
                params, lines[0] = ["*args"], "super().__init__(*args)"
        listed = ", ".join(["self", *params, *(["*", *kept] if kept else [])])
        return [f"def {name}({listed}):", *indented(lines or ["pass"]), ""]

    def _has_outer(self) -> bool:
        return not self._info.is_static

    def _super_takes_arguments(self) -> bool:
        return self._info.node.type == "object_creation_expression"

    def _above(self, first: Node | None, method: MethodInfo | None) -> list[str]:
        """Return the call of another constructor: ``super(…)``, written or not, or ``this(…)``."""
        unit, info = self._unit, self._info
        if first is not None and text_of(children(first)[0]) == "this":
            arguments = given(unit, needed(first, "arguments"))
            found = unit.find_methods(info, "", len(arguments))
            if len(found) != 1 or method is found[0]:
                raise Unportable(first, "a call of another constructor")
            outer = "outer, " if self._has_outer() else ""
            return [
                f"{info.path}._init_{len(arguments)}(self, {outer}{own_arguments(unit, found[0], arguments, first)})".replace(
                    ", )", ")"
                )
            ]
        superclass = info.superclass
        if superclass is None or superclass.name == "java.lang.Object":
            return []
        arguments = given(unit, needed(first, "arguments")) if first is not None else []
        above = unit.class_info(superclass.name)
        if above is not None:
            found = unit.find_methods(above, "", len(arguments))
            if len(found) > 1:
                raise Unportable(first or info.node, f"which constructor of {above.name} is meant")
            codes = own_arguments(unit, found[0], arguments, first or info.node) if found else ""
            if not above.is_static:
                codes = ", ".join(filter(None, ("outer", codes)))
            return [f"super().__init__({codes})"]
        known = LIBRARY_TYPES.get(superclass.name)
        if known is None:
            return []
        codes = ", ".join(each.as_type(unit, each.type).code for each in arguments)
        return [f"super().__init__({codes})"]

    # ---------------------------------------------------------------------------------------------------- methods

    def _parameters(self, method: MethodInfo) -> list[str]:
        unit = self._unit
        unit.fill_signature(method)
        names = []
        for each, kind in zip(children(needed(method.node, "parameters")), method.params, strict=False):
            declarator = next((part for part in children(each) if part.type == "variable_declarator"), each)
            names.append(unit.declare(text_of(needed(declarator, "name")), kind).python)
        return names

    def _method(self, node: Node) -> list[str]:
        method = next(each for each in self._info.methods if each.node == node)
        if method.name in self._written:
            return []
        own = self._info.named(method.name)
        everywhere = [each for above in self._unit.lineage(self._info) for each in above.named(method.name)]
        for each in everywhere:
            self._unit.fill_signature(each)
        if any(_is_other_overload(each, mine) for mine in own for each in everywhere):
            error = Unportable(node, f"overloads of {method.name} that the number of arguments does not tell apart", "rename them")
            lines = left_out(self._unit, node, error)
            return [f"def {method.python}(self, *args):", *indented(lines), ""]
        if len({len(each.params) for each in everywhere}) == 1 and len(own) == 1:
            return self._one_method(method, method.python)
        self._written.add(method.name)
        return self._overloads(method.name, own)

    def _overloads(self, name: str, own: list[MethodInfo]) -> list[str]:
        """Return methods of one name, told apart by the number of arguments."""
        unit, info, lines, table = self._unit, self._info, list[str](), list[tuple[int, str]]()
        counts = [len(each.params) for each in own]
        static = own[0].is_static
        for each in own:
            count = len(each.params)
            if counts.count(count) > 1 or each.variadic or each.is_static != static or info.in_method:
                error = Unportable(
                    each.node, f"overloads of {name} that the number of arguments does not tell apart", "rename them"
                )
                if count not in {known for known, _ in table}:
                    lines_left = left_out(unit, each.node, error)
                    table.append((count, lines_left[-1]))
                else:
                    unit.fail(error, each.node)
                continue
            lines.extend(self._one_method(each, f"_{name}_{count}"))
            table.append((count, f"return {info.path}._{name}_{count}({'' if static else 'self, '}*args)"))
        otherwise = (
            f"return super().{own[0].python}(*args)" if info.superclass and not static else "raise TypeError(args)"
        )
        head = ["@staticmethod", f"def {own[0].python}(*args):"] if static else [f"def {own[0].python}(self, *args):"]
        return [*lines, *head, *indented(_dispatch(table, otherwise)), ""]

    def _one_method(self, method: MethodInfo, name: str) -> list[str]:
        unit, info, node = self._unit, self._info, method.node
        _check_annotations(unit, node)
        unit.fill_signature(method)
        above = unit.scope if info.in_method else None
        scope = MethodScope(node, info, method.is_static, method.returns, above)
        with unit.within(scope):
            params = self._parameters(method)
            body_node = child(node, "body")
            body = ["raise NotImplementedError"] if body_node is None else body_of(unit, body_node)
            if has_modifier(node, "synchronized"):
                held = unit.class_code(info.full_name, node) if method.is_static else "self"
                body = [f"with java.synchronized({held}):", *indented(body)]
            kept = [f"{each}={each}" for each in scope.kept]
        if method.name == "main" and method.is_static and len(params) == 1 and info.outer is None:
            unit.main_classes.append(info)
        listed = ", ".join([*([] if method.is_static else ["self"]), *params, *(["*", *kept] if kept else [])])
        lines = ["@staticmethod"] if method.is_static else []
        lines += [f"def {name}({listed}):", *indented(body), ""]
        return [*lines, *_for_python(method)]

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


_EARLY: Final = (
    "it runs when the module is imported, in Java when the class is first used: see that this makes no difference"
)


def _without_defaults(fields: list[str], body: list[str]) -> list[str]:
    """Leave out what fields have at first where the constructor begins with something better."""
    assigned = set()
    for line in body:
        match = _ASSIGNED.fullmatch(line)
        if match is None or "self" in match["value"].replace("(self)", "()"):
            break
        assigned.add(match["name"])
    return [line for line in fields if not ((match := _DEFAULT.fullmatch(line)) and match["name"] in assigned)]


_ASSIGNED: Final = re.compile(r"self\.(?P<name>\w+) = (?P<value>.*)")
_DEFAULT: Final = re.compile(r'self\.(?P<name>\w+) = (?:None|False|0|0\.0|"\\0")')


def _is_other_overload(above: MethodInfo, own: MethodInfo) -> bool:
    """Whether a method above has as many parameters of other types: Java has both, and Python would have the lower one."""
    if above.owner is own.owner or len(above.params) != len(own.params) or above.is_static or own.is_static:
        return False
    pairs = zip(above.params, own.params, strict=True)
    return any(
        (one.name, one.dims) != (other.name, other.dims) and not _is_parameter(above, place)
        for place, (one, other) in enumerate(pairs)
    )


def _is_parameter(method: MethodInfo, place: int) -> bool:
    """Whether a parameter has a type that is a parameter itself, as of a generic interface."""
    node = children(needed(method.node, "parameters"))[place]
    kind = child(node, "type")
    declared = child(method.owner.node, "type_parameters")
    names = {text_of(children(each)[0]) for each in children(declared)} if declared else set()
    return kind is not None and text_of(kind) in names


def _runs_code(unit: Unit, node: Node) -> bool:
    """Whether a value is made by the program's own code."""
    if node.type == "object_creation_expression":
        return unit.class_info(unit.find_class(text_of(needed(node, "type")).partition("<")[0], node)) is not None
    if node.type == "method_invocation" and child(node, "object") is None:
        return True
    return any(_runs_code(unit, each) for each in children(node))


def _dispatch(table: list[tuple[int, str]], otherwise: str) -> list[str]:
    lines = []
    for count, line in table:
        lines += [
            f"if len(args) == {count}:",
            f"    {line}" if line.startswith(("return", "raise")) else f"    return {line}",
        ]
    return [*lines, otherwise]


def _for_python(method: MethodInfo) -> list[str]:
    """Return what has Python call a method that Java knows by its name."""
    count = len(method.params)
    if (method.name, count) == ("equals", 1):
        return ["def __eq__(self, other):", "    return self.equals(other)", ""]
    if (method.name, count) == ("hashCode", 0):
        return ["def __hash__(self):", "    return self.hashCode()", ""]
    if (method.name, count) == ("toString", 0):
        return ["def __str__(self):", "    return self.toString()", ""]
    return []


def _check_annotations(unit: Unit, node: Node) -> None:
    for modifiers in node.children:
        if modifiers.type == "modifiers":
            for each in children(modifiers):
                if each.type.endswith("annotation") and text_of(needed(each, "name")) not in _HARMLESS:
                    unit.check(
                        each, f"the annotation {text_of(each)[:60]}", "nothing reads it in Python: do what it asks for"
                    )
