from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector import Selector, compile_selector
from tests.pyjms.spi.selector import model
from tests.pyjms.spi.selector.support import envelope

if TYPE_CHECKING:
    from tests.pyjms.spi.selector.model import Expression

VALUES = {model.TRUE: True, model.FALSE: False, model.UNKNOWN: None}


def examples(count: int) -> settings:
    """Compiling takes its time, and must not be judged by it."""
    phases = [phase for phase in Phase if phase is not Phase.explain]
    return settings(max_examples=count, deadline=None, phases=phases, suppress_health_check=[HealthCheck.too_slow])


def judge(expression: Expression, properties: dict[str, Any], headers: dict[str, Any]) -> None:
    selector = compile_selector(expression.text)
    subject = envelope(properties, **headers)
    value = VALUES[expression.value({**properties, **model.headers(headers)})]
    assert selector.matches(subject) is (value is True)
    assert selector.evaluate(subject) is value
    assert selector.explain(subject).value is value


@pytest.mark.realises("BOIL-PROP-14")
@examples(200)
@given(model.selectors, model.messages, model.header_fields)
def test_a_selector_has_the_value_that_the_model_has(
    expression: Expression, properties: dict[str, Any], headers: dict[str, Any]
) -> None:
    judge(expression, properties, headers)


@examples(200)
@given(model.conditions, model.messages, model.header_fields)
def test_a_condition_has_the_value_that_the_model_has(
    expression: Expression, properties: dict[str, Any], headers: dict[str, Any]
) -> None:
    judge(expression, properties, headers)


@examples(200)
@given(st.sampled_from(list(model.COMPARE)), model.number_literals, model.numbers)
def test_a_literal_compares_with_every_number_as_in_java(symbol: str, literal: Expression, number: Any) -> None:
    # The literals whose comparison is a plain one in Python are the ones that could go wrong.
    judge(model.comparison(symbol, model.identifier("x"), literal), {"x": number}, HEADERS)
    judge(model.comparison(symbol, literal, model.identifier("x")), {"x": number}, HEADERS)


HEADERS: dict[str, Any] = {
    "priority": 4,
    "timestamp_ms": 0,
    "jms_type": None,
    "message_id": None,
    "correlation_id": None,
    "delivery_mode": 2,
}

WORDS = [
    "a", "b", "JMSType", "JMSReplyTo", "NULL", "TRUE", "false", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS",
    "ESCAPE", "1", "2.5", "08", "0x", "1e999", "9223372036854775808", "5L", "'x'", "'%a_'", "'!'", "'", '"', "(", ")",
    ",", "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "!", "%", ".", ";", "--", "\n", " ", "\u00a0", "é", "\0",
]  # fmt: skip


def compiled(text: str) -> tuple[Selector, None] | tuple[None, InvalidSelectorError]:
    try:
        return compile_selector(text), None
    except InvalidSelectorError as error:
        return None, error


def must_compile_or_say_why(text: str) -> None:
    selector, error = compiled(text)
    if error is not None:
        assert 0 <= error.position <= len(text)
        assert error.problem
        assert error.selector == text
        assert "\n" not in error.problem
    if selector is None:
        return
    assert selector.matches(envelope()) in {True, False}
    assert selector.evaluate(envelope({"a": "x", "b": True})) in {True, False, None}


@examples(200)
@given(st.text())
def test_any_text_compiles_or_is_refused_with_a_place_and_a_reason(text: str) -> None:
    must_compile_or_say_why(text)


@examples(400)
@given(st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from(["", " "]))
def test_any_words_compile_or_are_refused(words: list[str], between: str) -> None:
    must_compile_or_say_why(between.join(words))


@examples(150)
@given(model.selectors, st.data())
def test_a_damaged_selector_compiles_or_is_refused(expression: Expression, data: st.DataObject) -> None:
    text = expression.text
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 3)))
    must_compile_or_say_why(text[:begin] + data.draw(st.text(max_size=2)) + text[end:])


@examples(200)
@given(st.characters())
def test_any_character_may_stand_in_a_string(character: str) -> None:
    literal = "'" + character * (2 if character == "'" else 1) + "'"
    assert compile_selector(f"s = {literal}").matches(envelope({"s": character}))
    assert compile_selector(f"s IN ('', {literal})").matches(envelope({"s": character}))
    assert compile_selector(f"s LIKE {literal}").matches(envelope({"s": character}))
