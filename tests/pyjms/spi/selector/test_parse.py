from __future__ import annotations

import pytest

from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector.nodes import (
    And,
    Arithmetic,
    Comparison,
    Identifier,
    In,
    Like,
    Node,
    Not,
    Number,
    Or,
    Sign,
    String,
    names_in,
    walk,
)
from pyjms.spi.selector.parse import DEPTH_MAX, LENGTH_MAX, parse


def shape(node: Node) -> str:
    """Return a tree in prefix notation."""
    match node:
        case Or(terms=terms) | And(terms=terms):
            return f"({type(node).__name__} {' '.join(map(shape, terms))})"
        case Not(operand=operand):
            return f"(Not {shape(operand)})"
        case Comparison(operator=operator, left=left, right=right):
            return f"({operator} {shape(left)} {shape(right)})"
        case Arithmetic(first=first, rest=rest):
            return f"({shape(first)}{''.join(f' {operator} {shape(operand)}' for operator, operand in rest)})"
        case Sign(operator=operator, operand=operand):
            return f"{operator}{shape(operand)}"
        case Identifier(name=name):
            return name
        case Number(value=value):
            return repr(value)
    return type(node).__name__


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a OR b AND c", "(Or a (And b c))"),
        ("a AND b OR c", "(Or (And a b) c)"),
        ("NOT a AND b", "(And (Not a) b)"),
        ("NOT a = 1", "(Not (= a 1))"),
        ("NOT NOT a", "(Not (Not a))"),
        ("a AND b AND c", "(And a b c)"),
        ("(a AND b) AND (c AND d)", "(And a b c d)"),
        ("a OR (b OR (c OR d))", "(Or a b c d)"),
        ("(a OR b) AND c", "(And (Or a b) c)"),
        ("a + b * c - d = 1", "(= (a + (b * c) - d) 1)"),
        ("(a + b) * c = 1", "(= ((a + b) * c) 1)"),
        ("a - (b - c) = 1", "(= (a - (b - c)) 1)"),
        ("-a * b = 1", "(= (-a * b) 1)"),
        ("- -a = -1", "(= --a -1)"),
        ("--1 = +1", "(= --1 1)"),
        ("a-1=0", "(= (a - 1) 0)"),
        ("((((a)))) = ((1))", "(= a 1)"),
    ],
)
def test_operators_bind_as_specified(text: str, tree: str) -> None:
    assert shape(parse(text)) == tree


def test_nodes_know_their_text_with_its_brackets() -> None:
    text = "  ( a = -1 ) OR NOT b IN ('x') AND c + 1 > 2"
    root = parse(text)
    texts = [text[node.start : node.end] for node in walk(root)]
    assert texts[-1] == "( a = -1 ) OR NOT b IN ('x') AND c + 1 > 2"
    assert {"( a = -1 )", "-1", "NOT b IN ('x')", "b IN ('x')", "'x'", "c + 1", "c + 1 > 2"} <= set(texts)


def test_walking_goes_from_left_to_right_and_upwards() -> None:
    root = parse("a = 1 AND b LIKE 'x' ESCAPE 'y'")
    assert [type(node) for node in walk(root)] == [
        Identifier,
        Number,
        Comparison,
        Identifier,
        String,
        String,
        Like,
        And,
    ]
    assert names_in(parse("b = a AND (a = c OR b)")) == ("b", "a", "c")


def test_strings_and_lists_are_read() -> None:
    node = parse("a NOT IN ('it''s', '')")
    assert isinstance(node, In)
    assert node.negated
    assert [item.value for item in node.items if isinstance(item, String)] == ["it's", ""]


def test_brackets_nest_without_limit() -> None:
    deep = (LENGTH_MAX - 5) // 2
    assert shape(parse("(" * deep + "a = 1" + ")" * deep)) == "(= a 1)"


def test_chains_are_flat_however_long() -> None:
    assert parse(" OR ".join(["a = 1"] * 2000)).depth == 3
    assert parse(" + ".join(["a"] * 2000) + " = 1").depth == 3
    assert parse("(" * 2000 + "a" + " AND a)" * 2000).depth == 2
    assert parse("a AND (" * 2000 + "a" + ")" * 2000).depth == 2


# Before, in the middle, after, and the levels that each repetition adds.
NESTS = {
    "not": ("NOT ", "a", "", 1),
    "and-or": ("a AND (b OR ", "c", ")", 2),
    "sign": ("- ", "a = 1", "", 1),
    "product": ("a * (1 + ", "a", ")", 2),
}
by_nesting = pytest.mark.parametrize(("before", "middle", "after", "levels"), NESTS.values(), ids=NESTS)


@by_nesting
def test_what_really_nests_is_limited(before: str, middle: str, after: str, levels: int) -> None:
    times = DEPTH_MAX // levels + 1
    with pytest.raises(InvalidSelectorError, match=f"nests more than {DEPTH_MAX} levels deep"):
        parse(before * times + middle + after * times)
    times = (DEPTH_MAX - 2) // levels
    assert DEPTH_MAX - 4 < parse(before * times + middle + after * times).depth <= DEPTH_MAX


def test_the_length_is_limited() -> None:
    assert parse("a" * LENGTH_MAX).end == LENGTH_MAX
    with pytest.raises(InvalidSelectorError, match="65537 characters; 65536 are the most") as caught:
        parse("a" * (LENGTH_MAX + 1))
    assert caught.value.position == LENGTH_MAX
