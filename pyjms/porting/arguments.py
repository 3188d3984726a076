"""Arguments of calls: which overload they choose, and how they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from pyjms.porting.classes import MethodInfo
from pyjms.porting.codes import as_factor, as_operand, is_pure
from pyjms.porting.conversions import BOXES, boxed_type, convert, text_of_value
from pyjms.porting.model import STRING, Expr, Type, Unportable
from pyjms.porting.syntax import child, children, needed, text_of, walk
from pyjms.porting.table import expression, value_for, without_parentheses
from pyjms.porting.types import Member, arguments_of, function_method, substituted, type_named, unify
from pyjms.porting.unit import Unit

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
    if inner.type in {"lambda_expression", "method_reference"} or _is_late(inner):
        return Argument(node, None, _UNKNOWN)
    if inner.type == "object_creation_expression":
        return Argument(node, None, unit.find_type(needed(inner, "type")))
    made = expression(unit, node)
    return Argument(node, made, made.type)


def _is_late(node: Node) -> bool:
    """Whether a call is best translated when it is known what it is to return, as that tells the types of functions in it."""
    if node.type != "method_invocation" or (around := child(node, "object")) is None:
        return False
    return text_of(around) in {"Collectors", "Comparator", "Map.Entry", "Entry", "Function"}


def fits_function(unit: Unit, node: Node, target: Type) -> bool:
    """Return whether a lambda may be passed: whether it has as many parameters, and a result where one is wanted."""
    node = without_parentheses(node)
    if node.type != "lambda_expression":
        return True
    method = function_method(target.name)
    if method is None:
        return unit.class_info(target.name) is not None
    params = needed(node, "parameters")
    count = 1 if params.type == "identifier" else len(children(params))
    if count != len(method.params or ()):
        return False
    body = needed(node, "body")
    if body.type == "block":
        returns = any(each.type == "return_statement" and children(each) for each in walk(body))
        jumps = any(each.type in {"throw_statement", "while_statement"} for each in walk(body))
        return returns != (method.returns == "void") or (jumps and not returns)
    return method.returns != "void" or body.type in _STATEMENTS


_STATEMENTS: Final = frozenset(
    {
        "method_invocation",
        "assignment_expression",
        "update_expression",
        "object_creation_expression",
        "switch_expression",
    }
)


def fits(unit: Unit, source: Type, target: Type, *, loosely: bool) -> bool:
    """Return whether an argument may be passed: without boxes, or with them."""
    if target.name in {"text", "any"}:
        return source.name != "void"
    if target.name.startswith("$"):
        return (
            source.name != "void" and source.dims >= target.dims and not (target.dims and source.element.is_primitive)
        )
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
        if not target.dims:
            return target.name == "java.lang.Object"
        is_array = source.dims == target.dims and not source.element.is_primitive and not target.element.is_primitive
        return is_array and unit.is_subtype(source.name, target.name)
    return unit.is_subtype(source.name, target.name)


def choose(
    unit: Unit, members: Sequence[Member], receiver: Type | None, arguments: Sequence[Argument]
) -> tuple[Member, list[Type]] | None:
    """Return the member of the library that a call means, with the types of its parameters."""
    return next(choices(unit, members, receiver, arguments), None)


def choices(
    unit: Unit, members: Sequence[Member], receiver: Type | None, arguments: Sequence[Argument]
) -> Iterator[tuple[Member, list[Type]]]:
    """Yield the members of the library that a call may mean, the nearest first: what a function returns is not known yet."""
    for loosely in (False, True):
        for member in members:
            if member.params is None:
                continue
            types = _types(member, arguments_of(member.owner, receiver), len(arguments))
            if types is not None and all(
                fits(unit, each.type, target, loosely=loosely)
                and (each.expr is not None or each.type != _UNKNOWN or fits_function(unit, each.node, target))
                for each, target in zip(arguments, types, strict=True)
            ):
                yield member, types


def _types(member: Member, bound: Mapping[str, Type], count: int) -> list[Type] | None:
    params = list(member.params or ())
    if member.variadic:
        fixed = len(params) - 1
        if count < fixed:
            return None
        params = [*params[:fixed], *[params[-1].removesuffix("...")] * (count - fixed)]
    return [type_named(each, bound) for each in params] if len(params) == count else None


def arguments_for(
    unit: Unit, arguments: Sequence[Argument], types: Sequence[Type], bound: dict[str, Type] | None = None
) -> list[Expr]:
    """Return arguments as the parameters of a member of the library take them; `bound` has what they tell of types."""
    made = []
    bound = {} if bound is None else bound
    for each, pattern in zip(arguments, types, strict=True):
        if pattern.name not in {"text", "any"}:
            target = substituted(pattern, bound)
            if target.name.startswith("$"):
                value = each.expr or expression(unit, each.node)
                value = convert(unit, value, boxed_type(value.type), each.node)
            else:
                value = each.as_type(unit, target)
            unify(pattern, value.type, bound)
            made.append(value)
            continue
        target = pattern
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

    def put(match: re.Match[str]) -> str:
        if match["all"]:
            return ", ".join(codes[1:] if match["all"].startswith("2") else codes)
        place = int(match["place"])
        if not place:
            return as_operand(receiver) if receiver else ""
        argument = arguments[place - 1]
        if match["how"] == "i" and argument.limits[0] < 0:
            raise _Negative(argument)
        return as_factor(argument.code) if match["how"] == "a" else argument.code

    return _HOLE.sub(put, template)


_HOLE: Final = re.compile(r"\$(?:(?P<all>2?\*)|(?P<how>[ai])?(?P<place>\d))")


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
