"""From the text of a selector to its syntax tree (JMS 1.1 §3.8.1.1).

The grammar is in `grammar.lark`. The parser keeps its state in a list, not on Python's stack, so brackets may nest
to any depth; real nesting, which would make the tree deep, is limited here. For a text that the grammar does not allow,
this module also explains the error, and what to write instead; `check.py` reports errors in a tree that the grammar allows.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from unicodedata import name

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector import nodes
from pyjms.spi.selector.lexical import Problem, first_bad_character, is_reserved, parse_number, parse_string, shorten
from pyjms.spi.selector.nodes import Node

if TYPE_CHECKING:
    from collections.abc import Mapping


LENGTH_MAX: Final = 65_536
"""The most characters that a selector may have."""
DEPTH_MAX: Final = 100
"""The most levels that a selector may nest; brackets that change nothing and chains of AND or OR add none."""

# Reserved words without a meaning of their own are left out of the tree: their terminals begin with an underscore.
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
        # The transformer makes nodes, which the type hints of lark call a tree.
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
    """Turn identifiers into reserved words, and refuse those that Java does not allow."""
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
        # The sign belongs to the literal: the smallest long has no positive counterpart.
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
        # A chain is one node: a generated selector of thousands of terms would nest too deeply (decision 0401).
        flat = tuple(part for term in terms for part in (term.terms if isinstance(term, nodes.And) else (term,)))
        return nodes.And(terms=flat, start=terms[0].start, end=terms[-1].end, depth=_nest(*flat))

    def disjunction(self, *terms: Node) -> Node:
        flat = tuple(part for term in terms for part in (term.terms if isinstance(term, nodes.Or) else (term,)))
        return nodes.Or(terms=flat, start=terms[0].start, end=terms[-1].end, depth=_nest(*flat))


# Frequent slips, as a pattern around the place where the parser stopped, and the advice for them. The
# first one that matches is reported, at its own beginning.
_SLIPS: Final = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (r"<=>|===?", "'=' compares for equality"),
        (r"!=|=!|><|<\s+>", "'<>' compares for inequality"),
        (r"=\s*<|<\s+=", "'at most' is written '<='"),
        (r"=\s*>|>\s+=", "'at least' is written '>='"),
        (r"&&?", "conditions are joined by AND"),
        (r"\|\|?", "conditions are joined by OR, and no operator joins strings"),
        (r"!", "a condition is negated by NOT"),
        (r'"', "strings stand in single quotes, as in x = 'a', and property names in none"),
        (r"[`\[\]]", "property names stand without quotes and brackets"),
        (r"[{}]", "brackets are round: ( and )"),
        (r"%", "there is no remainder operator; as a wildcard, % stands in the pattern of LIKE"),
        (r"\^|\*\s*\*", "there is no power operator"),
        (r"--[^\n\r]*", "there are no comments in selectors, and '--' is two minus signs"),
        (r"/\s*\*|//", "there are no comments in selectors"),
        (r";", "a selector is one condition and has no ';'"),
        (r"\?|:\w*", "selectors have no parameters: write the value itself"),
        (r"\\", "a backslash can only stand in a string"),
        # A number that runs into letters or a second point: 1a, 5LL, 1E, 0x, 1_000, 1.2.3.
        (
            r"(?<![\w$.])[0-9.]*[0-9][\w.]*[^\W0-9][\w.]*|(?<![\w$.])[0-9]+\.[0-9]*(?:\.[0-9]*)+",
            "this is no number as Java writes it, and a name cannot begin with a digit",
        ),
        (r"(?<=[\w$])\.(?=[\w$])", "names have letters, digits, _ and $, but no dots"),
    )
)
_SLIP_LENGTH_MAX = 200

_UNCLOSED = "found a single quote: the string that begins here does not end; a quote in a string is doubled: 'it''s'"
_VALUE = "a value: a property name, a number or a string in single quotes"
# The expected continuations, by some of the terminals that the parser would accept; the first row with all of them counts.
_EXPECTATIONS: Final = (
    ({"IDENTIFIER", "NOT"}, "a condition"),
    ({"IDENTIFIER", "LEFT"}, _VALUE),
    ({"IDENTIFIER"}, "a string in single quotes"),
    ({"COMMA"}, "',' or ')'"),
    ({"LEFT"}, "a list of strings in brackets, as in IN ('a', 'b')"),
    ({"NULL", "NOT"}, "NULL or NOT NULL"),
    ({"NULL"}, "NULL"),
    ({"COMPARE", "$END"}, "an operator (=, <>, <, IN, AND, OR, …) or the end"),
    ({"COMPARE", "RIGHT"}, "an operator (=, <>, <, IN, AND, OR, …) or ')'"),
    ({"_BETWEEN"}, "BETWEEN, IN or LIKE"),
    ({"$END"}, "AND, OR or the end"),
    ({"RIGHT"}, "AND, OR or ')'"),
    ({"_AND"}, "AND and the upper bound of BETWEEN"),
)

# Characters that word processors and other languages put in the place of those of selectors: by code point,
# since some look like the right ones.
_SUBSTITUTES: Final[Mapping[int, str]] = MappingProxyType(
    {
        **dict.fromkeys((0xB4, 0xAB, 0xBB, *range(0x2018, 0x2020)), "strings stand in straight quotes, as in x = 'a'"),
        0x00AC: "a condition is negated by NOT",
        0x00D7: "the multiplication sign is '*'",
        0x00F7: "the division sign is '/'",
        0x2013: "the minus sign is '-'",
        0x2212: "the minus sign is '-'",
        0x2260: "'<>' compares for inequality",
        0x2264: "'at most' is written '<='",
        0x2265: "'at least' is written '>='",
    }
)

_TOKEN = re.compile(r"[\w$]+|'(?:[^']|'')*'|<>|<=|>=|.", re.DOTALL)
_WORD = re.compile(r"[\w$]")
# The continuation after a word that was meant as the name of a property.
_OPERATOR = re.compile(r"\s*(?:[=<>+*/-]|(?:IS|IN|LIKE|BETWEEN|NOT)\b)", re.IGNORECASE)


def foreign_character(character: str) -> str:
    """Return the error text for a character outside a string that has no meaning there."""
    advice = "blanks, tabs, form feeds and line ends separate words" if character.isspace() else ""
    advice = advice or _SUBSTITUTES.get(ord(character), "names have letters, digits, _ and $")
    return f"found {_describe(character)}, which has no meaning in a selector: {advice}"


def unexpected(text: str, position: int, accepted: frozenset[str] | None) -> Problem:
    """Return the problem of the token at `position`.

    `accepted` are the terminals that would be valid there, or None for a character that begins no terminal.
    """
    slip = _slip(text, position)
    if slip is not None:
        return slip
    if accepted is None:
        return Problem(_UNCLOSED if text[position] == "'" else foreign_character(text[position]), position)
    match = _TOKEN.match(text, position)
    found = match[0] if match else ""
    expected = next(words for terminals, words in _EXPECTATIONS if terminals <= accepted)
    advice = _advice(text, position, found, accepted)
    return Problem(f"found {_describe(found)}, expected {expected}{advice and ': '}{advice}", position)


def _slip(text: str, position: int) -> Problem | None:
    """Return the slip whose characters include `position`."""
    begin = max(0, position - _SLIP_LENGTH_MAX)
    for pattern, advice in _SLIPS:
        for match in pattern.finditer(text, begin, position + _SLIP_LENGTH_MAX):
            if match.start() <= position < match.end():
                return Problem(f"found {_describe(match[0])}: {advice}", match.start())
    return None


def _describe(found: str) -> str:
    if not found:
        return "the end of the selector"
    if found.startswith("'"):
        return f"the string {shorten(found)}"
    if is_reserved(found):
        return f"the reserved word {found}"
    if len(found) > 1 or (found.isascii() and found.isprintable()):
        return f"'{shorten(found)}'"
    shown = f"'{found}' " if found.isprintable() and not found.isspace() else ""
    return f"{shown}U+{ord(found):04X} {name(found, '')}".rstrip()


def _advice(text: str, position: int, found: str, accepted: frozenset[str]) -> str:
    """Return the advice that follows from `found` and the words before it, or nothing."""
    before = [word.upper() for word in text[:position].split()]
    previous = before[-1] if before else ""
    if not found:
        return "a bracket is not closed" if "RIGHT" in accepted and "IDENTIFIER" not in accepted else ""
    if text[position - 1 : position] == "'" and _WORD.match(found):
        return "a quote in a string is doubled: 'it''s'"
    if found == ")" and "$END" in accepted:
        return "no bracket is open"
    if found == "(" and re.search(r"[\w$]\s*$", text[:position]) and not is_reserved(previous):
        return "there are no functions in selectors"
    if found in {"=", "<>", "<", "<=", ">", ">="} and "_OR" in accepted:
        return "comparisons do not chain; write a < x AND x < b"
    if "NULL" in accepted and "IDENTIFIER" not in accepted:
        return "IS is for NULL only; write b = TRUE, and other operators without IS"
    if found.upper() == "NULL":
        return "a test for null is written x IS NULL or x IS NOT NULL"
    word_is_name = is_reserved(found) and _OPERATOR.match(text, position + len(found))
    if "IDENTIFIER" in accepted and (word_is_name or (previous == "NOT" and _OPERATOR.match(text, position))):
        return "no property can have a reserved word as its name"
    if before and before[0] in {"SELECT", "WHERE"}:
        return "a selector is only the condition that SQL writes after WHERE"
    return "there are no comments in selectors" if "--" in text[:position] else ""
