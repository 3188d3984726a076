"""What a selector says that messages must equal: whoever satisfies it has its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.selector import compile_selector
from pyjms.spi.selector.headers import UNKNOWN_KEY, key_of_literals, key_of_message
from pyjms.types import Byte, Char, Double, Float, Long
from tests.pyjms.spi.selector import model
from tests.pyjms.spi.selector.support import envelope
from tests.pyjms.spi.selector.test_against_model import HEADERS, examples

if TYPE_CHECKING:
    from pyjms.types import Stored
    from tests.pyjms.spi.selector.model import Expression


def may_match(text: str, properties: dict[str, Any], headers: dict[str, Any] | None = None) -> bool:
    """Return whether a message would be looked at for a selector."""
    equalities = compile_selector(text).equalities
    key = key_of_message(envelope(properties, **headers or {}), [name for name, _ in equalities])
    return not equalities or key in {key_of_literals(equalities), UNKNOWN_KEY}


def judge(expression: Expression, properties: dict[str, Any], headers: dict[str, Any]) -> None:
    if compile_selector(expression.text).matches(envelope(properties, **headers)):
        assert may_match(expression.text, properties, headers)


@examples(300)
@given(model.selectors, model.messages, model.header_fields)
def test_who_satisfies_a_selector_has_its_key(
    expression: Expression, properties: dict[str, Any], headers: dict[str, Any]
) -> None:
    judge(expression, properties, headers)


@examples(500)
@given(model.number_literals, model.numbers, st.booleans())
def test_who_equals_a_number_has_its_key(literal: Expression, number: Any, is_mirrored: bool) -> None:
    sides = [model.identifier("x"), literal]
    judge(model.comparison("=", *sides[:: -1 if is_mirrored else 1]), {"x": number}, HEADERS)


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("1", True),
        ("1", 1.0),
        ("1.0", Byte(1)),
        ("-0.0", 0),
        ("16777217", Float(16777216)),
        ("16777217", 16777217),
        ("9007199254740993", 9007199254740992.0),
        ("9007199254740993L", Long(9007199254740993)),
        ("9007199254740992.0", Long(9007199254740993)),
        ("1e300", 1e300),
        ("16777216F", 16777217),
        ("0.1", 0.1),
        ("0.1F", Float(0.1)),
        ("'x'", Char("x")),
        ("'it''s'", "it's"),
    ],
)
def test_who_equals_a_literal_has_its_key(literal: str, value: Stored) -> None:
    """By Java's promotions, too."""
    assert may_match(f"x = {literal}", {"x": value})


@pytest.mark.parametrize("value", [None, "y", "X", 1, Double(0.5), False])
def test_who_does_not_has_another_one(value: Stored) -> None:
    assert not may_match("x = 'x'", {"x": value})
    assert not may_match("x = 2", {"x": value})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("JMSCorrelationID = 'x'", ["JMSCorrelationID"]),
        ("'x' = JMSCorrelationID", ["JMSCorrelationID"]),
        ("(b > 1 AND (a = 'x' AND c = -1)) AND NOT d", ["a", "c"]),
        ("a = 'x' AND a = 'y'", ["a"]),
        ("a = 'x' OR b = 'y'", []),
        ("NOT a = 'x'", []),
        ("a <> 'x'", []),
        ("a = b", []),
        ("a = b + 1", []),
        ("a = TRUE", []),
        ("a LIKE 'x'", []),
        ("", []),
    ],
)
def test_terms_that_must_hold_are_named(text: str, names: list[str]) -> None:
    assert [name for name, _ in compile_selector(text).equalities] == names


def test_header_fields_are_read_as_selectors_read_them() -> None:
    assert may_match("JMSCorrelationID = 'x' AND JMSDeliveryMode = 'PERSISTENT'", {}, {"correlation_id": "x"})
    assert not may_match("JMSCorrelationID = 'x'", {"JMSCorrelationID": "x"}, {"correlation_id": b"x"})
