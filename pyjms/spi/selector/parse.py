"""From the text of a selector to its syntax tree (JMS 1.1 §3.8.1.1).

The grammar stands in `grammar.lark`. The parser keeps its state in a list, not on Python's stack, so brackets may nest
as deeply as they like; what really nests, and would make the tree deep, is limited here. `check.py` says what is wrong
with a tree that the grammar allows, `diagnose.py` explains what it does not allow.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector import nodes
from pyjms.spi.selector.diagnose import foreign_character, unexpected
from pyjms.spi.selector.identifiers import first_bad_character, is_reserved
from pyjms.spi.selector.literals import parse_number, parse_string
from pyjms.spi.selector.nodes import Node
from pyjms.spi.selector.problem import Problem

LENGTH_MAX: Final = 65_536
"""The most characters that a selector may have."""
DEPTH_MAX: Final = 100
"""The most levels that a selector may nest; brackets that change nothing and chains of AND or OR add none."""

# Reserved words whose place in the tree says nothing are kept out of it: their terminals begin with an underscore.
_KEPT_WORDS = frozenset({"NOT", "NULL", "TRUE", "FALSE"})


def parse(text: str) -> Node:
    """Return the syntax tree of `text`. Raises `InvalidSelectorError`, and nothing else."""
    if len(text) > LENGTH_MAX:
        raise InvalidSelectorError(
            f"the selector has {len(text)} characters; {LENGTH_MAX} are the most", text, LENGTH_MAX
        )
    try:
        return _parse(text)
    except Problem as problem:
        raise InvalidSelectorError(problem.text, text, problem.position) from None


def _parse(text: str) -> Node:
    try:
        # The transformer makes nodes of what the type hints of lark call a tree.
        return cast("Node", _parser().parse(text))
    except UnexpectedToken as error:
        position = len(text) if error.token.type == "$END" else _start(error.token)
        raise unexpected(text, position, frozenset(error.accepts)) from None
    except UnexpectedCharacters as error:
        raise unexpected(text, cast("int", error.pos_in_stream), None) from None


@cache
def _parser() -> Lark:
    return Lark(
        files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer="basic",
        transformer=_Builder(),
        lexer_callbacks={"IDENTIFIER": _classify},
    )


def _classify(token: Token) -> Token:
    """Make reserved words of identifiers, and refuse those that Java does not allow."""
    if is_reserved(token):
        word = token.upper()
        return Token.new_borrow_pos(word if word in _KEPT_WORDS else f"_{word}", token, token)
    bad = first_bad_character(token)
    if bad is not None:
        raise Problem(foreign_character(token[bad]), _start(token) + bad)
    return token


def _nest(*below: Node) -> int:
    """Return the depth of a node above `below`."""
    depth = 1 + max(node.depth for node in below)
    if depth > DEPTH_MAX:
        raise Problem(
            f"the selector nests more than {DEPTH_MAX} levels deep here; write it with fewer brackets", below[0].start
        )
    return depth


def _start(token: Token) -> int:
    return cast("int", token.start_pos)


def _end(token: Token) -> int:
    return cast("int", token.end_pos)


@v_args(inline=True)
class _Builder(Transformer[Token, Node]):
    """Makes the nodes; each method is named after a rule of the grammar or its alias."""

    def identifier(self, name: Token) -> Node:
        return nodes.Identifier(name=str(name), start=_start(name), end=_end(name))

    def string(self, text: Token) -> Node:
        return nodes.String(value=parse_string(text), start=_start(text), end=_end(text))

    def boolean(self, word: Token) -> Node:
        return nodes.Boolean(value=word.type == "TRUE", start=_start(word), end=_end(word))

    def null(self, word: Token) -> Node:
        return nodes.Null(start=_start(word), end=_end(word))

    def number(self, text: Token) -> Node:
        return nodes.Number(value=parse_number(text, _start(text)), start=_start(text), end=_end(text))

    def negative_number(self, sign: Token, text: Token) -> Node:
        value = parse_number(text, _start(text), negative=True)
        return nodes.Number(value=value, start=_start(sign), end=_end(text))

    def group(self, left: Token, node: Node, right: Token) -> Node:
        return replace(node, start=_start(left), end=_end(right))

    def sign(self, sign: Token, operand: Node) -> Node:
        operator = cast("Literal['+', '-']", str(sign))
        if operator == "+" and isinstance(operand, nodes.Number):
            return replace(operand, start=_start(sign))
        return nodes.Sign(operator=operator, operand=operand, start=_start(sign), end=operand.end, depth=_nest(operand))

    def sum(self, first: Node, *rest: Any) -> Node:
        operands: tuple[Node, ...] = rest[1::2]
        operators = (cast("nodes.ArithmeticOperator", str(token)) for token in rest[::2])
        return nodes.Arithmetic(
            first=first,
            rest=tuple(zip(operators, operands, strict=True)),
            start=first.start,
            end=operands[-1].end,
            depth=_nest(first, *operands),
        )

    product = sum

    def comparison(self, left: Node, operator: Token, right: Node) -> Node:
        return nodes.Comparison(
            operator=cast("nodes.ComparisonOperator", str(operator)),
            left=left,
            right=right,
            start=left.start,
            end=right.end,
            depth=_nest(left, right),
        )

    def between(self, operand: Node, negation: Token | None, low: Node, high: Node) -> Node:
        return nodes.Between(
            negated=negation is not None,
            operand=operand,
            low=low,
            high=high,
            start=operand.start,
            end=high.end,
            depth=_nest(operand, low, high),
        )

    def in_(self, operand: Node, negation: Token | None, *rest: Any) -> Node:
        *items, right = rest
        return nodes.In(
            negated=negation is not None,
            operand=operand,
            items=tuple(items),
            start=operand.start,
            end=_end(right),
            depth=_nest(operand, *items),
        )

    def like(self, operand: Node, negation: Token | None, pattern: Node, escape: Node | None) -> Node:
        return nodes.Like(
            negated=negation is not None,
            operand=operand,
            pattern=pattern,
            escape=escape,
            start=operand.start,
            end=(escape or pattern).end,
            depth=_nest(operand, pattern),
        )

    def is_null(self, operand: Node, negation: Token | None, null: Token) -> Node:
        return nodes.IsNull(
            negated=negation is not None, operand=operand, start=operand.start, end=_end(null), depth=_nest(operand)
        )

    def not_(self, word: Token, operand: Node) -> Node:
        return nodes.Not(operand=operand, start=_start(word), end=operand.end, depth=_nest(operand))

    def conjunction(self, *terms: Node) -> Node:
        flat = tuple(part for term in terms for part in (term.terms if isinstance(term, nodes.And) else (term,)))
        return nodes.And(terms=flat, start=terms[0].start, end=terms[-1].end, depth=_nest(*flat))

    def disjunction(self, *terms: Node) -> Node:
        flat = tuple(part for term in terms for part in (term.terms if isinstance(term, nodes.Or) else (term,)))
        return nodes.Or(terms=flat, start=terms[0].start, end=terms[-1].end, depth=_nest(*flat))
