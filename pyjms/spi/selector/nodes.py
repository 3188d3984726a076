"""The syntax tree of a selector (JMS 1.1 §3.8.1.1): one frozen class for each kind of expression.

`start` and `end` delimit the text of a node, brackets included. `depth` counts the levels of the tree below a node and
itself; the parser keeps it small, so that code may walk a tree by recursion. Chains (a AND b AND c, 1 + 2 - 3) are
one node of any length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

ComparisonOperator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
ArithmeticOperator: TypeAlias = Literal["+", "-", "*", "/"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Any expression."""

    start: int
    end: int
    depth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifier(Node):
    """A header field or a property; alone it is a condition."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Node):
    """A numeric literal: a plain int is a Java int, a plain float a double; Long and Float are themselves."""

    value: int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class String(Node):
    """A string literal, without its quotes."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Node):
    """TRUE or FALSE."""

    value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Null(Node):
    """NULL in the place of a value: never right, but better refused by the checks than by the parser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign(Node):
    """A sign before anything but a number."""

    operator: Literal["+", "-"]
    operand: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic(Node):
    """Operators of one precedence, applied from left to right: ``first`` op operand op operand …"""

    first: Node
    rest: tuple[tuple[ArithmeticOperator, Node], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Node):
    """``left`` operator ``right``."""

    operator: ComparisonOperator
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Between(Node):
    """``operand`` [NOT] BETWEEN ``low`` AND ``high``."""

    negated: bool
    operand: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class In(Node):
    """``operand`` [NOT] IN (``items``)."""

    negated: bool
    operand: Node
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Like(Node):
    """``operand`` [NOT] LIKE ``pattern`` [ESCAPE ``escape``]."""

    negated: bool
    operand: Node
    pattern: Node
    escape: Node | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull(Node):
    """``operand`` IS [NOT] NULL."""

    negated: bool
    operand: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Not(Node):
    """NOT ``operand``."""

    operand: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class And(Node):
    """Two or more terms, none of which is an And itself."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or(Node):
    """Two or more terms, none of which is an Or itself."""

    terms: tuple[Node, ...]


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes right below `node`, in the order of the text."""
    match node:
        case And(terms=terms) | Or(terms=terms):
            return terms
        case Not(operand=operand) | Sign(operand=operand) | IsNull(operand=operand):
            return (operand,)
        case Comparison(left=left, right=right):
            return (left, right)
        case Arithmetic(first=first, rest=rest):
            return (first, *(operand for _, operand in rest))
        case Between(operand=operand, low=low, high=high):
            return (operand, low, high)
        case In(operand=operand, items=items):
            return (operand, *items)
        case Like(operand=operand, pattern=pattern, escape=escape):
            return (operand, pattern) if escape is None else (operand, pattern, escape)
        case _:
            return ()


def walk(root: Node) -> Iterator[Node]:
    """Yield all nodes below `root`, and `root`: in the order of the text, and each after those below it."""
    pending, found = [root], []
    while pending:
        node = pending.pop()
        found.append(node)
        pending.extend(children(node))
    return reversed(found)


def names_in(root: Node) -> tuple[str, ...]:
    """Return the names that `root` reads, each once, in the order of the text."""
    return tuple(dict.fromkeys(node.name for node in walk(root) if isinstance(node, Identifier)))
