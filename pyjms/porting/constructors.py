"""Constructors of classes in Python."""

from __future__ import annotations

import re
from typing import Final

from tree_sitter import Node

from pyjms.porting.arguments import given, own_arguments
from pyjms.porting.calls import meant
from pyjms.porting.classes import ClassInfo, MethodInfo
from pyjms.porting.codes import quoted
from pyjms.porting.fields import field_lines
from pyjms.porting.methods import dispatch, parameters
from pyjms.porting.model import Type, Unportable
from pyjms.porting.syntax import children, needed, text_of
from pyjms.porting.texts import block_lines, indented, left_out
from pyjms.porting.types import LIBRARY_TYPES
from pyjms.porting.unit import MethodScope, Unit

__all__ = ["constructors"]


def constructors(unit: Unit, info: ClassInfo, obstacle: Unportable | None) -> list[str]:
    """Return ``__init__``: of one constructor, of several, or of none; `obstacle` is why no object can be made."""
    own = info.named("")
    for each in own:
        unit.fill_signature(each)
    lines = [line for each in own if each.by_types for line in _constructor(unit, info, each, each.python, obstacle)]
    if own and all(each.by_types for each in own):
        return lines
    own = [each for each in own if not each.by_types]
    if lines:
        return [*lines, *_told_apart(unit, info, own, obstacle)]
    return _told_apart(unit, info, own, obstacle)


def _told_apart(unit: Unit, info: ClassInfo, own: list[MethodInfo], obstacle: Unportable | None) -> list[str]:
    """Return ``__init__``, of constructors that the number of their arguments tells apart."""
    if len(own) < 2:
        return _constructor(unit, info, own[0] if own else None, "__init__", obstacle)
    lines: list[str] = []
    counts = [len(each.params) for each in own]
    for each in own:
        if counts.count(len(each.params)) == 1 and not each.variadic:
            lines.extend(_constructor(unit, info, each, f"_init_{len(each.params)}", obstacle))
    table = []
    shift = 0 if info.is_static and info.kind != "enum" else 1  # the object around, or the name, comes first
    for count in dict.fromkeys(counts):
        if counts.count(count) == 1:
            table.append((count + shift, f"{info.path}._init_{count}(self, *args)"))
        else:
            found = next(each for each in own if len(each.params) == count)
            error = Unportable(
                found.node, f"constructors of {info.name} with {count} parameters each", "give one another number"
            )
            unit.fail(error, found.node)
            table.append((count + shift, f"raise java.NotPorted({quoted(error.what)})"))
    return [
        *lines,
        "def __init__(self, *args):",
        *indented(dispatch(table, "raise TypeError(args)")),
        "",
    ]


def _constructor(
    unit: Unit, info: ClassInfo, method: MethodInfo | None, name: str, obstacle: Unportable | None
) -> list[str]:
    scope = MethodScope(
        method.node if method else info.node,
        info,
        is_static=False,
        returns=Type("void"),
        above=unit.scope if info.in_method else None,
    )
    with unit.within(scope):
        params = parameters(unit, method) if method else []
        statements = needed(method.node, "body").named_children if method else []
        first = next((each for each in statements if each.type == "explicit_constructor_invocation"), None)
        rest = [each for each in statements if each is not first]
        try:
            above = _above(unit, info, first, method)
        except Unportable as error:
            above = left_out(unit, first or info.node, error)
        if obstacle is not None:
            above = left_out(unit, obstacle.node.children[0], obstacle)[-1:]
        is_this = first is not None and text_of(children(first)[0]) == "this"
        fields = [] if is_this else field_lines(unit, info)
        body = block_lines(unit, rest) if rest else []
        lines = [*above, *_without_defaults(fields, body), *body]
        needs_outer = info.full_name in unit.needs_outer or not info.is_static
        kept = [f"{each}={each}" for each in scope.kept]
    if info.kind == "enum":
        params = ["constant", *params]
    if needs_outer:
        lines = ["self.outer = outer", *lines]
        params = ["outer", *params]
    if method is None and not needs_outer and not kept:
        if not lines:
            return []
        if lines in (["super().__init__()"], ["super().__init__(constant)"]):
            return []
        if lines[:1] == ["super().__init__()"] and info.node.type == "object_creation_expression":
            params, lines[0] = ["*args"], "super().__init__(*args)"
    listed = ", ".join(["self", *params, *(["*", *kept] if kept else [])])
    return [f"def {name}({listed}):", *indented(lines or ["pass"]), ""]


def _above(unit: Unit, info: ClassInfo, first: Node | None, method: MethodInfo | None) -> list[str]:
    """Return the call of another constructor: ``super(…)``, written or not, or ``this(…)``."""
    if first is not None and text_of(children(first)[0]) == "this":
        arguments = given(unit, needed(first, "arguments"))
        found = unit.find_methods(info, "", len(arguments))
        other = meant(unit, found, arguments, first) if found else None
        if other is None or method is other:
            raise Unportable(first, "a call of another constructor")
        outer = "outer, " if not info.is_static else "constant, " if info.kind == "enum" else ""
        name = other.python if other.by_types else f"_init_{len(arguments)}"
        return [f"{info.path}.{name}(self, {outer}{own_arguments(unit, other, arguments, first)})".replace(", )", ")")]
    superclass = info.superclass
    if superclass is None or superclass.name == "java.lang.Object":
        return []
    if superclass.name == "java.lang.Enum":
        return ["super().__init__(constant)"]
    arguments = given(unit, needed(first, "arguments")) if first is not None else []
    above = unit.class_info(superclass.name)
    if above is not None:
        found = unit.find_methods(above, "", len(arguments))
        higher = meant(unit, found, arguments, first or info.node) if found else None
        codes = own_arguments(unit, higher, arguments, first or info.node) if higher is not None else ""
        if higher is not None and higher.by_types:
            outer = "outer" if not above.is_static else ""
            listed = ", ".join(filter(None, ("self", outer, codes)))
            return [f"{unit.class_code(above.full_name, info.node)}.{higher.python}({listed})"]
        if above.kind == "enum":
            codes = ", ".join(filter(None, ("constant", codes)))
        if not above.is_static:
            codes = ", ".join(filter(None, ("outer", codes)))
        return [f"super().__init__({codes})"]
    known = LIBRARY_TYPES.get(superclass.name)
    if known is None:
        return []
    codes = ", ".join(each.as_type(unit, each.type).code for each in arguments)
    return [f"super().__init__({codes})"]


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
