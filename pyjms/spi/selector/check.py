"""The rules of JMS beyond the grammar: operands must be of the right kind (JMS 1.1 §3.8.1.1).

Only rules that need no message: the type of an identifier is known only for a message, so it fits
everywhere. Header fields are treated like properties.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector.compile import ends_in_escape
from pyjms.spi.selector.headers import ATTRIBUTES, FUNCTIONS, REFUSED
from pyjms.spi.selector.lexical import Problem, shorten
from pyjms.spi.selector.nodes import (
    And,
    Arithmetic,
    Between,
    Boolean,
    Comparison,
    Identifier,
    In,
    IsNull,
    Like,
    Node,
    Not,
    Null,
    Number,
    Or,
    Sign,
    String,
    children,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(Enum):
    """The known kind of an expression; the value names it in messages."""

    IDENTIFIER = "a property"
    NUMBER = "a number"
    STRING = "a string"
    BOOLEAN = "a boolean"
    CONDITION = "a condition"
    NULL = "NULL"


_KINDS: Final[Mapping[type[Node], Kind]] = MappingProxyType(
    {
        Identifier: Kind.IDENTIFIER,
        Number: Kind.NUMBER,
        Sign: Kind.NUMBER,
        Arithmetic: Kind.NUMBER,
        String: Kind.STRING,
        Boolean: Kind.BOOLEAN,
        Null: Kind.NULL,
        Comparison: Kind.CONDITION,
        Between: Kind.CONDITION,
        In: Kind.CONDITION,
        Like: Kind.CONDITION,
        IsNull: Kind.CONDITION,
        Not: Kind.CONDITION,
        And: Kind.CONDITION,
        Or: Kind.CONDITION,
    }
)
_TRUTHS = frozenset({Kind.CONDITION, Kind.BOOLEAN, Kind.IDENTIFIER})
_NUMERIC = frozenset({Kind.NUMBER, Kind.IDENTIFIER})
_UNORDERED = frozenset({Kind.STRING, Kind.BOOLEAN})


def check(root: Node, text: str) -> None:
    """Raise `InvalidSelectorError` if the tree of the selector `text` breaks a rule."""
    checker = _Checker(text)
    try:
        checker.condition(root)
        # A node follows those below it, so the innermost mistake is the one that is reported.
        for node in walk(root):
            checker.check(node)
    except Problem as problem:
        raise InvalidSelectorError(problem.text, text, problem.position) from None


class _Checker:
    """The rules; `text` is quoted in their errors."""

    def __init__(self, text: str) -> None:
        self._text = text

    def check(self, node: Node) -> None:
        """Judge one node with regard to the nodes right below it."""
        match node:
            case And() | Or() | Not():
                for operand in children(node):
                    self.condition(operand)
            case Comparison():
                self._comparison(node)
            case Sign() | Arithmetic():
                for operand in children(node):
                    self._numeric(operand, "arithmetic is")
            case Between():
                for operand in children(node):
                    self._numeric(operand, "BETWEEN is")
            case In():
                self._in(node)
            case Like():
                self._like(node)
            case IsNull():
                self._identifier(node.operand, "IS NULL")
            case Identifier():
                self._name(node)

    def condition(self, node: Node) -> None:
        """Refuse an expression that can be neither true nor false."""
        kind = _KINDS[type(node)]
        if kind is Kind.NULL:
            raise self._null(node)
        if kind not in _TRUTHS:
            raise Problem(
                f"{self._quote(node)} is {kind.value}, where a condition must stand: compare it, as in x = 1",
                node.start,
            )

    def _comparison(self, node: Comparison) -> None:
        for side, other in ((node.left, node.right), (node.right, node.left)):
            kind = _KINDS[type(side)]
            if kind is Kind.NULL:
                raise self._null(side, other, equal=node.operator == "=")
            if kind is Kind.CONDITION:
                raise Problem(
                    f"{self._quote(side)} is a condition, which cannot be compared: join conditions by AND or OR",
                    side.start,
                )
        left, right = _KINDS[type(node.left)], _KINDS[type(node.right)]
        for side, kind in ((node.left, left), (node.right, right)):
            if node.operator not in {"=", "<>"} and kind in _UNORDERED:
                raise Problem(
                    f"'{node.operator}' compares numbers only, and {self._quote(side)} is {kind.value}: "
                    "strings and booleans are compared by = and <>",
                    side.start,
                )
        # Unlike types never compare true (§3.8.1.1): the author gets an error now, instead of messages that
        # never arrive (decision 0401).
        if left is not right and Kind.IDENTIFIER not in {left, right}:
            raise Problem(
                f"{self._quote(node.left)} is {left.value} and {self._quote(node.right)} is {right.value}: "
                "only values of the same kind can be compared",
                node.start,
            )

    def _numeric(self, node: Node, what: str) -> None:
        kind = _KINDS[type(node)]
        if kind is Kind.NULL:
            raise self._null(node)
        if kind not in _NUMERIC:
            raise Problem(f"{what} for numbers only, and {self._quote(node)} is {kind.value}", node.start)

    def _in(self, node: In) -> None:
        self._identifier(node.operand, "IN")
        for item in node.items:
            # JMS 1.1 §3.8.1.1 allows strings alone in IN; other brokers take numbers, so the error says what to write.
            if not isinstance(item, String):
                advice = "compare numbers by = and OR" if isinstance(item, Number) else "write strings as 'x'"
                raise Problem(f"the list of IN has strings only, and {self._quote(item)} is none: {advice}", item.start)

    def _like(self, node: Like) -> None:
        self._identifier(node.operand, "LIKE")
        if not isinstance(node.pattern, String):
            raise Problem(
                f"the pattern of LIKE is a string, as in x LIKE 'a%', and {self._quote(node.pattern)} is none",
                node.pattern.start,
            )
        if node.escape is None:
            return
        if not isinstance(node.escape, String) or len(node.escape.value) != 1:
            raise Problem(
                f"ESCAPE takes a string of one character, as in ESCAPE '!', not {self._quote(node.escape)}",
                node.escape.start,
            )
        if ends_in_escape(node.pattern.value, node.escape.value):
            raise Problem(
                f"the pattern ends in its escape character, {self._quote(node.escape)}, which must stand before another "
                "character; write it twice to mean itself",
                node.pattern.start,
            )

    def _identifier(self, node: Node, operator: str) -> None:
        if isinstance(node, Null):
            raise self._null(node)
        if not isinstance(node, Identifier):
            raise Problem(
                f"{operator} is for properties and header fields, and {self._quote(node)} is none", node.start
            )

    def _name(self, node: Identifier) -> None:
        # JMS 1.1 §3.8.1.1 names six header fields; a misspelt one is a property, and null.
        if node.name in REFUSED:
            allowed = ", ".join(sorted((*ATTRIBUTES, *FUNCTIONS)))
            raise Problem(
                f"a selector cannot refer to {node.name}; the header fields that it can: {allowed}", node.start
            )

    def _null(self, node: Node, tested: Node | None = None, *, equal: bool = True) -> Problem:
        tested_text = self._text[tested.start : tested.end] if isinstance(tested, Identifier) else "x"
        test = "IS NULL" if equal else "IS NOT NULL"
        return Problem(
            f"NULL is no value to calculate or compare with: write {shorten(tested_text)} {test}", node.start
        )

    def _quote(self, node: Node) -> str:
        return shorten(self._text[node.start : node.end])
