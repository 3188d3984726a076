from __future__ import annotations

import pytest

from pyjms.spi.selector import compile_selector
from pyjms.spi.selector.check import _KINDS
from pyjms.spi.selector.nodes import Node
from tests.pyjms.spi.selector.support import error_of

REFUSED = [
    ("1", 0, "1 is a number, where a condition must stand: compare it, as in x = 1"),
    ("'x'", 0, "'x' is a string, where a condition must stand"),
    ("a + 1", 0, "a + 1 is a number, where a condition"),
    ("a AND 1", 6, "1 is a number"),
    ("NOT ('x')", 4, "('x') is a string"),
    ("NULL", 0, "NULL is no value to calculate or compare with: write x IS NULL"),
    ("a = NULL", 4, "write a IS NULL"),
    ("a <> NULL", 5, "write a IS NOT NULL"),
    ("NULL = a", 0, "write a IS NULL"),
    ("a + NULL = 1", 4, "NULL is no value to calculate or compare with"),
    ("NULL LIKE 'x'", 0, "NULL is no value"),
    ("(a = 1) = TRUE", 0, "(a = 1) is a condition, which cannot be compared: join conditions by AND or OR"),
    ("a = (b OR c)", 4, "(b OR c) is a condition"),
    ("s > 'x'", 4, "'>' compares numbers only, and 'x' is a string: strings and booleans are compared by = and <>"),
    ("'x' <= s", 0, "'<=' compares numbers only, and 'x' is a string"),
    ("b >= TRUE", 5, "'>=' compares numbers only, and TRUE is a boolean"),
    ("TRUE = 1", 0, "TRUE is a boolean and 1 is a number: only values of the same kind can be compared"),
    ("'x' <> 1", 0, "'x' is a string and 1 is a number"),
    ("a + 1 = 'x'", 0, "a + 1 is a number and 'x' is a string"),
    ("a + 'x' = 'ax'", 4, "arithmetic is for numbers only, and 'x' is a string"),
    ("-TRUE = 1", 1, "arithmetic is for numbers only, and TRUE is a boolean"),
    ("+'x' = 1", 1, "arithmetic is for numbers only"),
    ("a * (b = 1) = 1", 4, "(b = 1) is a condition"),
    ("s BETWEEN 'a' AND 'c'", 10, "BETWEEN is for numbers only, and 'a' is a string"),
    ("a BETWEEN 1 AND TRUE", 16, "BETWEEN is for numbers only, and TRUE is a boolean"),
    ("n IN (1, 2)", 6, "the list of IN has strings only, and 1 is none: compare numbers by = and OR"),
    ("n IN ('x', -2)", 11, "and -2 is none: compare numbers"),
    ("s IN (t)", 6, "and t is none: write strings as 'x'"),
    ("s IN ('x', NULL)", 11, "NULL is none"),
    ("'x' IN ('x')", 0, "IN is for properties and header fields, and 'x' is none"),
    ("s LIKE 5", 7, "the pattern of LIKE is a string, as in x LIKE 'a%', and 5 is none"),
    ("s LIKE t", 7, "and t is none"),
    ("a + 1 LIKE 'x'", 0, "LIKE is for properties and header fields, and a + 1 is none"),
    ("TRUE LIKE 'x'", 0, "LIKE is for properties and header fields"),
    ("s LIKE 'x' ESCAPE 'ab'", 18, "ESCAPE takes a string of one character, as in ESCAPE '!', not 'ab'"),
    ("s LIKE 'x' ESCAPE ''", 18, "not ''"),
    ("s LIKE 'x' ESCAPE 5", 18, "not 5"),
    ("s LIKE 'x!' ESCAPE '!'", 7, "the pattern ends in its escape character, '!'"),
    ("1 IS NULL", 0, "IS NULL is for properties and header fields, and 1 is none"),
    (
        "JMSReplyTo IS NULL",
        0,
        "a selector cannot refer to JMSReplyTo; the header fields that it can: JMSCorrelationID,",
    ),
    ("a = 1 OR JMSExpiration > 0", 9, "cannot refer to JMSExpiration"),
]


@pytest.mark.parametrize(("text", "position", "words"), REFUSED)
def test_an_operand_of_the_wrong_kind_is_refused_with_its_place_and_the_reason(
    text: str, position: int, words: str
) -> None:
    error = error_of(text)
    assert words in error.problem
    assert error.position == position


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "TRUE",
        "TRUE = TRUE",
        "'x' = 'x'",
        "1 = 2.0",
        "(a) IS NULL",
        "(a) LIKE 'x'",
        "-(1) = -1",
        "a BETWEEN b AND c",
        "JMSPriority = 'x'",
        "JMSMessageID + 1 = 2",
        "JMSTimestamp LIKE 'x'",
        "JMSDestinations = 1",
        "JMSXFoo IS NULL",
        "s LIKE 'x!!' ESCAPE '!'",
    ],
)
def test_what_only_the_message_can_tell_is_allowed(text: str) -> None:
    assert compile_selector(text).text == text


def test_the_first_mistake_is_reported() -> None:
    assert error_of("a = 'x' + 1 AND b IN (2)").position == 4


def test_every_kind_of_node_has_a_kind() -> None:
    # A class with slots is made twice, so the names are compared.
    assert {kind.__name__ for kind in _KINDS} == {kind.__name__ for kind in Node.__subclasses__()}
