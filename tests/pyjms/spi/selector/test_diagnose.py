"""What the author of a selector reads when the grammar does not allow it."""

from __future__ import annotations

import pytest

from tests.pyjms.spi.selector.support import error_of

# The selector, the column of the caret, and words of the message.
SLIPS = [
    ("a == 1", 2, "found '==': '=' compares for equality"),
    ("a === 1", 2, "'=' compares"),
    ("a != 1", 2, "found '!=': '<>' compares for inequality"),
    ("a >< 1", 2, "'<>'"),
    ("a < > 1", 2, "'<>'"),
    ("a <=> 1", 2, "'='"),
    ("a =< 1", 2, "found '=<': 'at most' is written '<='"),
    ("a < = 1", 2, "'<='"),
    ("a => 1", 2, "found '=>': 'at least' is written '>='"),
    ("a > = 1", 2, "'>='"),
    ("a = 1 && b = 2", 6, "found '&&': conditions are joined by AND"),
    ("a = 1 & b = 2", 6, "AND"),
    ("a = 1 || b = 2", 6, "found '||': conditions are joined by OR"),
    ("s || 'x' = 'ax'", 2, "no operator joins strings"),
    ("!a", 0, "found '!': a condition is negated by NOT"),
    ('s = "x"', 4, "found '\"': strings stand in single quotes, as in x = 'a', and property names in none"),
    ('"a" = 1', 0, "property names in none"),
    ("`a` = 1", 0, "property names stand without quotes and brackets"),
    ("[a] = 1", 0, "property names stand without quotes and brackets"),
    ("{a = 1}", 0, "brackets are round"),
    ("a % 2 = 1", 2, "found '%': there is no remainder operator"),
    ("a ^ 2 = 4", 2, "there is no power operator"),
    ("a ** 2 = 4", 2, "there is no power operator"),
    ("a = 1;", 5, "has no ';'"),
    ("a = ?", 4, "selectors have no parameters: write the value itself"),
    ("a = :name", 4, "found ':name': selectors have no parameters"),
    ("a = \\1", 4, "a backslash can only stand in a string"),
    ("a = 1 /* x */", 6, "there are no comments"),
    ("a = 1 // x", 6, "there are no comments"),
    ("a = 1 -- the reason", 6, "there are no comments"),
    ("-- note\na = 1", 8, "there are no comments"),
    ("s = 'x", 4, "found a single quote: the string that begins here does not end; a quote in a string is doubled"),
    ("s = x'", 5, "does not end"),
    ("a = 1_000", 4, "found '1_000': this is no number as Java writes it"),
    ("a = 5LL", 4, "found '5LL': this is no number"),
    ("a = 1E", 4, "found '1E': this is no number"),
    ("a = 0x", 4, "found '0x': this is no number"),
    ("a = 0b11", 4, "found '0b11': this is no number"),
    ("a = 1.2.3", 4, "found '1.2.3': this is no number"),
    ("1st = 1", 0, "a name cannot begin with a digit"),
    ("a.b = 1", 1, "no dots"),
    ("a.b.c = 1", 1, "no dots"),
]

UNEXPECTED = [
    ("   ", 3, "found the end of the selector, expected a condition"),
    ("a =", 3, "found the end of the selector, expected a value"),
    ("a = AND", 4, "found the reserved word AND, expected a value"),
    ("a 3", 2, "found '3', expected an operator"),
    ("(a b)", 3, "expected an operator (=, <>, <, IN, AND, OR, …) or ')'"),
    ("a = 1 b = 2", 6, "found 'b', expected AND, OR or the end"),
    ("(a = 1 b", 7, "found 'b', expected AND, OR or ')'"),
    ("(a = 1", 6, "expected AND, OR or ')': a bracket is not closed"),
    ("a = 1)", 5, "found ')', expected AND, OR or the end: no bracket is open"),
    ("()", 1, "found ')', expected a condition"),
    ("1 < a < 3", 6, "comparisons do not chain; write a < x AND x < b"),
    ("a = 1 = 1", 6, "comparisons do not chain"),
    ("s = 'it's'", 8, "found 's', expected AND, OR or the end: a quote in a string is doubled: 'it''s'"),
    ("a NOT = 1", 6, "found '=', expected BETWEEN, IN or LIKE"),
    ("a NULL", 2, "a test for null is written x IS NULL or x IS NOT NULL"),
    ("a NOT NULL", 6, "a test for null is written x IS NULL or x IS NOT NULL"),
    ("a IS", 4, "expected NULL or NOT NULL"),
    ("b IS TRUE", 5, "found the reserved word TRUE, expected NULL or NOT NULL: IS is for NULL only; write b = TRUE"),
    ("s IS LIKE 'x'", 5, "other operators without IS"),
    ("a IS NOT 1", 9, "expected NULL: IS is for NULL only"),
    ("a BETWEEN 1", 11, "expected AND and the upper bound of BETWEEN"),
    ("a BETWEEN 1 TO 2", 12, "found 'TO', expected AND and the upper bound of BETWEEN"),
    ("a BETWEEN 1, 2", 11, "expected AND and the upper bound of BETWEEN"),
    ("s IN 'x'", 5, "found the string 'x', expected a list of strings in brackets, as in IN ('a', 'b')"),
    ("s = 'x' 'y'", 8, "found the string 'y', expected AND, OR or the end"),
    (f"s = 'x' '{'y' * 1000}'", 8, "found the string 'yyyy"),
    ("s IN ()", 6, "found ')', expected a string in single quotes"),
    ("s IN ('x',)", 10, "found ')', expected a string in single quotes"),
    ("s IN ('x' 'y')", 10, "expected ',' or ')'"),
    ("s IN ('x'", 9, "expected ',' or ')': a bracket is not closed"),
    ("s LIKE", 6, "found the end of the selector, expected a string in single quotes"),
    ("s LIKE ('x')", 7, "found '(', expected a string in single quotes"),
    ("UPPER(s) = 'X'", 5, "there are no functions in selectors"),
    ("SELECT * FROM q WHERE a = 1", 14, "only the condition that SQL writes after WHERE"),
    ("where a = 1", 6, "only the condition that SQL writes after WHERE"),
    ("escape = 1", 0, "found the reserved word escape, expected a condition: no property can have a reserved word"),
    ("a = 1 AND in > 2", 10, "no property can have a reserved word as its name"),
    ("not = 1", 4, "no property can have a reserved word as its name"),
    ("a = 1 AND AND b = 2", 10, "found the reserved word AND, expected a condition"),
]

FOREIGN = [
    ("#a = 1", 0, "found '#', which has no meaning in a selector: names have letters, digits, _ and $"),
    ("a\u00a0= 1", 1, "found U+00A0 NO-BREAK SPACE, which has no meaning in a selector: blanks, tabs"),
    ("a\v= 1", 1, "found U+000B, which"),
    ("a\0\u2028= 1", 2, "found U+2028 LINE SEPARATOR"),
    (
        "s = \u2018x\u2019",
        4,
        "U+2018 LEFT SINGLE QUOTATION MARK, which has no meaning in a selector: strings stand in straight",
    ),
    ("s = \u201cx\u201d", 4, "strings stand in straight quotes"),
    ("a \u2260 1", 2, "'<>' compares for inequality"),
    ("a \u2264 1", 2, "'<='"),
    ("a \u2265 1", 2, "'>='"),
    ("a = \u22121", 4, "the minus sign is '-'"),
    ("\u00aca", 0, "negated by NOT"),
    ("a² = 4", 1, "found '²' U+00B2 SUPERSCRIPT TWO"),
    ("\ud800 = 1", 0, "found U+D800"),
]


@pytest.mark.parametrize(("text", "position", "words"), [*SLIPS, *UNEXPECTED, *FOREIGN])
def test_the_message_says_what_was_found_and_what_to_write(text: str, position: int, words: str) -> None:
    error = error_of(text)
    assert words in error.problem
    assert error.position == position
    assert len(error.problem) < 200


@pytest.mark.parametrize(
    ("text", "position"), [(text, position) for text, position, _ in [*SLIPS, *UNEXPECTED, *FOREIGN]]
)
def test_the_caret_stands_under_the_place(text: str, position: int) -> None:
    problem, shown, caret = str(error_of(text)).rsplit("\n", 2)
    assert problem
    assert shown.startswith("  ")
    assert caret == " " * (position + 2) + "^"


def test_a_long_selector_is_shown_around_the_place() -> None:
    text = " AND ".join(f"property{number} = {number}" for number in range(200)) + " OR AND"
    _, shown, caret = str(error_of(text)).rsplit("\n", 2)
    assert len(shown) <= 66
    assert shown[len(caret) - 1 :] == "AND"


def test_a_long_token_is_cut() -> None:
    assert "x…'" in error_of("a = 1 " + "x" * 10_000).problem


def test_a_slip_is_only_found_where_parsing_stopped() -> None:
    error = error_of("s = '!=' AND t = '&&' AND (a = 1")
    assert error.problem.endswith("a bracket is not closed")


def test_the_error_hides_the_parser_library() -> None:
    error = error_of("a =")
    assert error.__cause__ is None
    assert error.__suppress_context__
