"""Calls of methods: of the program, of JMS, of Java's library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tree_sitter import Node

from pyjms.porting.arguments import Argument, arguments_for, choose, fits, given, own_arguments
from pyjms.porting.classes import ClassInfo, MethodInfo
from pyjms.porting.codes import as_operand, quoted
from pyjms.porting.library_calls import library_call
from pyjms.porting.model import OBJECT, STRING, VOID, Expr, Type, Unportable
from pyjms.porting.places import around, class_named, holder
from pyjms.porting.special import SPECIAL, printed
from pyjms.porting.syntax import child, children, needed, text_of
from pyjms.porting.table import expression, is_expression
from pyjms.porting.types import find_members, type_named
from pyjms.porting.unit import Unit

__all__ = ["call_with", "meant", "own_call"]


@is_expression("method_invocation")
def _method_invocation(unit: Unit, node: Node) -> Expr:
    name, object_node = text_of(needed(node, "name")), child(node, "object")
    if object_node is None:
        return _unqualified(unit, node, name)
    if object_node.type == "super":
        return _of_super(unit, node, name)
    named = class_named(unit, object_node)
    if named is not None:
        return _of_class(unit, node, named, name)
    value = expression(unit, object_node)
    return _of_object(unit, node, value, name)


def _unqualified(unit: Unit, node: Node, name: str) -> Expr:
    arguments = given(unit, needed(node, "arguments"))
    for info in around(unit):
        found = unit.find_methods(info, name, len(arguments))
        if found:
            return _own_call(unit, node, found, arguments, None, info)
        if info.kind == "enum" and (made := _of_enum(unit, node, info, name, arguments)) is not None:
            return made
        for above in unit.library_supers(info):
            if find_members(above.name, name):
                receiver = Expr(holder(unit, info, node), above, known=True)
                return library_call(unit, node, receiver, name, arguments)
    for owner in unit.static_owners(name):
        if (owner, name) in SPECIAL:
            return SPECIAL[owner, name](unit, node)
        if unit.class_info(owner) is not None or find_members(owner, name):
            return _of_class(unit, node, owner, name)
    if find_members(OBJECT.name, name):
        receiver = Expr(holder(unit, around(unit)[0], node), OBJECT, known=True)
        return library_call(unit, node, receiver, name, arguments)
    raise Unportable(node, f"the method {name}", "it is declared in no file that was given")


def _of_super(unit: Unit, node: Node, name: str) -> Expr:
    assert unit.scope is not None
    info = unit.scope.info
    arguments = given(unit, needed(node, "arguments"))
    superclass = info.superclass
    above = unit.class_info(superclass.name) if superclass else None
    if above is not None and not unit.scope.is_lambda:
        found = unit.find_methods(above, name, len(arguments))
        if found:
            return _own_call(unit, node, found, arguments, "super()", above)
    if above is None and superclass is not None and name in _INHERITED and not unit.scope.is_lambda:
        chosen = choose(unit, find_members(superclass.name, name), superclass, arguments)
        if chosen is not None:
            codes = ", ".join(each.code for each in arguments_for(unit, arguments, chosen[1]))
            return Expr(f"super().{name}({codes})", type_named(chosen[0].returns, {}) if name in _WITH_RESULT else VOID)
    raise Unportable(node, f"super.{name}")


_WITH_RESULT: Final = frozenset({"getMessage", "getName"})
_INHERITED: Final = _WITH_RESULT | {"run", "start", "join"}
"""Methods of Java's classes that those of Python that stand for them have, too."""


def _of_class(unit: Unit, node: Node, named: str, name: str) -> Expr:
    special = SPECIAL.get((named, name))
    if special is not None:
        return special(unit, node)
    arguments = given(unit, needed(node, "arguments"))
    info = unit.class_info(named)
    if info is not None:
        found = unit.find_methods(info, name, len(arguments))
        if found and found[0].is_static:
            return _own_call(unit, node, found, arguments, unit.class_code(found[0].owner.full_name, node), info)
        if info.kind == "enum" and (made := _of_enum(unit, node, info, name, arguments)) is not None:
            return made
        raise Unportable(node, f"the method {named}.{name}")
    return library_call(unit, node, None, name, arguments, named)


def _of_enum(unit: Unit, node: Node, info: ClassInfo, name: str, arguments: list[Argument]) -> Expr | None:
    """Return ``values()`` or ``valueOf(name)`` of an enum."""
    code, kind = unit.class_code(info.full_name, node), Type(info.full_name)
    if name == "values" and not arguments:
        return Expr(f"{code}.values()", Type(info.full_name, (), 1), known=True)
    if name == "valueOf" and len(arguments) == 1:
        return Expr(f"{code}.valueOf({arguments[0].as_type(unit, STRING).code})", kind, known=True)
    return None


def own_call(unit: Unit, node: Node, found: list[MethodInfo], arguments: list[Argument], info: ClassInfo) -> Expr:
    """Return a call of a static method of the program."""
    return _own_call(unit, node, found, arguments, None, info)


def call_with(unit: Unit, node: Node, value: Expr, name: str, arguments: list[Argument]) -> Expr:
    """Return a call of a method of an object, with arguments that are translated already."""
    info = unit.class_info(value.type.name) if not value.type.dims else None
    if info is not None:
        found = unit.find_methods(info, name, len(arguments))
        if found:
            return _own_call(unit, node, found, arguments, value.code, info)
        for above in unit.library_supers(info):
            if find_members(above.name, name):
                return library_call(unit, node, Expr(value.code, above, known=value.known), name, arguments)
    return library_call(unit, node, value, name, arguments)


def _of_object(unit: Unit, node: Node, value: Expr, name: str) -> Expr:
    if value.type.name in {"java.io.PrintStream", "java.io.PrintWriter"} and not value.type.dims:
        return printed(unit, node, value, name)
    if name == "printStackTrace" and (stream := _standard_stream(unit, node)):
        return Expr(f"traceback.print_exception({value.code}, file={stream})", VOID)
    if name in _NAMES and value.code.startswith('java.Class("'):
        return Expr(quoted(_NAMES[name](value.code[12:-2])), STRING, known=True)
    if value.type.dims and name == "clone":
        return Expr(f"{as_operand(value.code)}[:]", value.type, known=True)
    special = SPECIAL.get((value.type.name, name)) if not value.type.dims else None
    if special is not None:
        return special(unit, node)
    return call_with(unit, node, value, name, given(unit, needed(node, "arguments")))


_NAMES: Final[dict[str, Callable[[str], str]]] = {
    "getName": lambda name: name,
    "getCanonicalName": lambda name: name.replace("$", "."),
    "getSimpleName": lambda name: name.rpartition(".")[2].rpartition("$")[2],
}


def _standard_stream(unit: Unit, node: Node) -> str | None:
    nodes = children(needed(node, "arguments"))
    if len(nodes) == 1 and nodes[0].type == "field_access":
        code = expression(unit, nodes[0]).code
        return code if code in {"sys.stdout", "sys.stderr"} else None
    return None


def _own_call(
    unit: Unit, node: Node, found: list[MethodInfo], arguments: list[Argument], code: str | None, info: ClassInfo
) -> Expr:
    method = meant(unit, found, arguments, node)
    passed = own_arguments(unit, method, arguments, node)
    if method.is_static:
        code = unit.class_code(method.owner.full_name, node)
    elif code is None:
        code = holder(unit, info, node)
    assert method.returns is not None
    return Expr(f"{as_operand(code)}.{method.python}({passed})", method.returns)


def meant(unit: Unit, found: list[MethodInfo], arguments: list[Argument], node: Node) -> MethodInfo:
    """Return which of several methods with as many parameters a call means, by the types of its arguments."""
    if len(found) == 1:
        return found[0]
    for loosely in (False, True):
        fitting = [
            each
            for each in found
            if not each.variadic
            and all(
                fits(unit, given.type, kind, loosely=loosely)
                for given, kind in zip(arguments, each.params, strict=True)
            )
        ]
        nearest = [each for each in fitting if all(_is_nearer(unit, each, other) for other in fitting)]
        if nearest:
            return nearest[0]
    raise Unportable(node, f"which of the overloads of {found[0].name or found[0].owner.name} is meant", "rename them")


def _is_nearer(unit: Unit, one: MethodInfo, other: MethodInfo) -> bool:
    return all(fits(unit, mine, its, loosely=False) for mine, its in zip(one.params, other.params, strict=True))
