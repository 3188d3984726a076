"""The three tables that translate: a type of node, and the function that knows it.

`EXPRESSIONS` have a value; `TARGETED` have one that depends on the type that is wanted, such as lambdas; `STATEMENTS` are
lines. The modules beside this one fill them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tree_sitter import Node

from pyjms.porting.conversions import convert
from pyjms.porting.model import BOOLEAN, Expr, Type, Unportable
from pyjms.porting.syntax import children
from pyjms.porting.unit import Unit

_Expression: TypeAlias = Callable[[Unit, Node], Expr]
_Targeted: TypeAlias = Callable[[Unit, Node, Type], Expr]
_Statement: TypeAlias = Callable[[Unit, Node], list[str]]

EXPRESSIONS: Final[dict[str, _Expression]] = {}
TARGETED: Final[dict[str, _Targeted]] = {}
STATEMENTS: Final[dict[str, _Statement]] = {}


def is_expression(*kinds: str) -> Callable[[_Expression], _Expression]:
    """Have a function translate expressions of some types of node."""

    def add(function: _Expression) -> _Expression:
        EXPRESSIONS.update(dict.fromkeys(kinds, function))
        return function

    return add


def is_targeted(*kinds: str) -> Callable[[_Targeted], _Targeted]:
    """Have a function translate expressions whose value depends on the type that is wanted."""

    def add(function: _Targeted) -> _Targeted:
        TARGETED.update(dict.fromkeys(kinds, function))
        return function

    return add


def is_statement(*kinds: str) -> Callable[[_Statement], _Statement]:
    """Have a function translate statements of some types of node."""

    def add(function: _Statement) -> _Statement:
        STATEMENTS.update(dict.fromkeys(kinds, function))
        return function

    return add


def without_parentheses(node: Node) -> Node:
    """Return what parentheses are around."""
    while node.type == "parenthesized_expression":
        node = children(node)[0]
    return node


def expression(unit: Unit, node: Node) -> Expr:
    """Return the value of an expression. Raises `Unportable`."""
    node = without_parentheses(node)
    translate = EXPRESSIONS.get(node.type)
    if translate is None:
        raise Unportable(node, f"a {node.type.replace('_', ' ')}")
    try:
        return translate(unit, node)
    except RecursionError:
        raise Unportable(node, "an expression of that many levels", "give parts of it names") from None


def value_for(unit: Unit, node: Node, target: Type) -> Expr:
    """Return the value of an expression as `target` takes it: a lambda, an array's elements, or anything converted."""
    node = without_parentheses(node)
    if node.type in TARGETED:
        return TARGETED[node.type](unit, node, target)
    if node.type == "method_invocation" and target.args:
        unit.wanted[node.id] = target
    return convert(unit, expression(unit, node), target, node)


def condition(unit: Unit, node: Node) -> Expr:
    """Return the value of a condition."""
    return value_for(unit, node, BOOLEAN)
