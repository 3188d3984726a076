"""Arguments of calls: which overload they choose, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from pyjms.porting.classes import MethodInfo
from pyjms.porting.codes import as_factor, as_operand, is_pure
from pyjms.porting.conversions import BOXES, convert, text_of_value
from pyjms.porting.model import STRING, Expr, Type, Unportable
from pyjms.porting.syntax import children, needed, text_of
from pyjms.porting.table import expression, value_for, without_parentheses
from pyjms.porting.types import Member, arguments_of, type_named
from pyjms.porting.unit import Unit

__all__ = ["Argument", "arguments_for", "choose", "filled", "given", "own_arguments"]

_ORDER: Final = ("byte", "short", "int", "long", "float", "double")
_UNKNOWN: Final = Type("?")


@dataclass(slots=True)
class Argument:
    """An argument: translated, or, where its type depends on what is wanted, still to be."""

    node: Node
    expr: Expr | None
    type: Type

    def as_type(self, unit: Unit, target: Type) -> Expr:
        """Return it as a parameter takes it."""
        if self.expr is None:
            return value_for(unit, self.node, target)
        return convert(unit, self.expr, target, self.node)


def given(unit: Unit, node: Node) -> list[Argument]:
    """Return the arguments of a call."""
    return [_argument(unit, each) for each in children(node)]


def _argument(unit: Unit, node: Node) -> Argument:
    inner = without_parentheses(node)
    if inner.type in {"lambda_expression", "method_reference"}:
        return Argument(node, None, _UNKNOWN)
    if inner.type == "object_creation_expression":
        return Argument(node, None, unit.find_type(needed(inner, "type")))
    made = expression(unit, node)
    return Argument(node, made, made.type)


def fits(unit: Unit, source: Type, target: Type, *, loosely: bool) -> bool:
    """Return whether an argument may be passed: without boxes, or with them."""
    if target.name in {"text", "any"}:
        return source.name != "void"
    if source == target:
        return True
    if source == _UNKNOWN:
        return not target.is_primitive and target != STRING
    if source.name == "null":
        return not target.is_primitive
    if source.is_primitive and target.is_primitive:
        if source.name == "char":
            return target.name in _ORDER[2:]
        return (
            source.name in _ORDER and target.name in _ORDER and _ORDER.index(source.name) <= _ORDER.index(target.name)
        )
    if source.is_primitive or target.is_primitive:
        if not loosely:
            return False
        if source.is_primitive:
            return target.name in {"java.lang.Object", "java.lang.Number"} or BOXES.get(target.name) == source.name
        return BOXES.get(source.name) is not None and fits(unit, Type(BOXES[source.name]), target, loosely=False)
    if source.dims or target.dims:
        return target.name == "java.lang.Object" and not target.dims
    return unit.is_subtype(source.name, target.name)


def choose(
    unit: Unit, members: Sequence[Member], receiver: Type | None, arguments: Sequence[Argument]
) -> tuple[Member, list[Type]] | None:
    """Return the member of the library that a call means, with the types of its parameters."""
    for loosely in (False, True):
        for member in members:
            if member.params is None:
                continue
            types = _types(member, arguments_of(member.owner, receiver), len(arguments))
            if types is not None and all(
                fits(unit, each.type, target, loosely=loosely) for each, target in zip(arguments, types, strict=True)
            ):
                return member, types
    return None


def _types(member: Member, bound: Mapping[str, Type], count: int) -> list[Type] | None:
    params = list(member.params or ())
    if member.variadic:
        fixed = len(params) - 1
        if count < fixed:
            return None
        params = [*params[:fixed], *[params[-1].removesuffix("...")] * (count - fixed)]
    return [type_named(each, bound) for each in params] if len(params) == count else None


def arguments_for(unit: Unit, arguments: Sequence[Argument], types: Sequence[Type]) -> list[Expr]:
    """Return arguments as the parameters of a member of the library take them."""
    made = []
    for each, target in zip(arguments, types, strict=True):
        if target.name not in {"text", "any"}:
            made.append(each.as_type(unit, target))
            continue
        value = each.expr or expression(unit, each.node)
        if target.name == "text":
            made.append(Expr(text_of_value(unit, value, each.node), STRING, known=True))
        elif value.type.name in {"float", "java.lang.Float"}:
            made.append(convert(unit, value, Type("java.lang.Object"), each.node))
        else:
            made.append(value)
    return made


def filled(template: str, receiver: str, arguments: Sequence[Expr], node: Node) -> str:
    """Return a template of the tables with its object and its arguments."""
    codes = [each.code for each in arguments]
    _check_order(template, [receiver, *codes], node)
    made = template.replace("$0", as_operand(receiver) if receiver else "")
    made = made.replace("$*", ", ".join(codes)).replace("$2*", ", ".join(codes[1:]))
    for place in range(len(arguments), 0, -1):
        argument = arguments[place - 1]
        if f"$i{place}" in made:
            if argument.limits[0] < 0:
                raise _Negative(argument)
            made = made.replace(f"$i{place}", argument.code)
        made = made.replace(f"$a{place}", as_factor(argument.code)).replace(f"${place}", argument.code)
    return made


def _check_order(template: str, codes: Sequence[str], node: Node) -> None:
    """Refuse what the template would evaluate in another order than Java, or twice, where that may make a difference."""
    if "*" in template.replace(" * ", ""):
        return
    places = [int(match[1]) for match in _PLACE.finditer(template)]
    wanted = [place for place in places if not is_pure(codes[place])]
    if wanted != sorted(set(wanted)):
        raise Unportable(node, f"the order in which {text_of(node)[:40]} is evaluated", "give its parts names first")


_PLACE: Final = re.compile(r"\$[ai]?(\d)")


class _Negative(Exception):
    """An index that may be negative."""


def element_or_filled(template: str, receiver: str, arguments: Sequence[Expr], node: Node) -> str:
    """Return a template that is filled in; an index that may be negative is looked at when the program runs."""
    try:
        return filled(template, receiver, arguments, node)
    except _Negative:
        return f"java.at({receiver}, {arguments[0].code})"


def own_arguments(unit: Unit, method: MethodInfo, arguments: Sequence[Argument], node: Node) -> str:
    """Return the arguments of a method of the program."""
    unit.fill_signature(method)
    params = method.params
    if method.variadic:
        fixed = len(params) - 1
        rest = arguments[fixed:]
        whole = len(rest) == 1 and (rest[0].type == params[-1] or rest[0].type.name == "null")
        if not whole:
            codes = [each.as_type(unit, target).code for each, target in zip(arguments, params[:-1], strict=False)]
            inner = ", ".join(each.as_type(unit, params[-1].element).code for each in rest)
            return ", ".join([*codes, f"[{inner}]"])
    if len(params) != len(arguments):
        raise Unportable(node, f"a call with {len(arguments)} arguments: {text_of(node)[:40]}")
    return ", ".join(each.as_type(unit, target).code for each, target in zip(arguments, params, strict=True))
