from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.selector.lexical import Problem, parse_number, parse_string, quote
from pyjms.types import Float, Long
from tests.pyjms.spi.selector.model import nearest_single
from tests.pyjms.spi.selector.support import evaluate


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0", int, 0),
        ("57", int, 57),
        ("2147483647", int, 2**31 - 1),
        ("2147483649", Long, 2**31 + 1),
        ("5L", Long, 5),
        ("0l", Long, 0),
        ("9223372036854775807", Long, 2**63 - 1),
        ("0x1F", int, 31),
        ("0X1fL", Long, 31),
        ("0xFFFFFFFF", Long, 2**32 - 1),
        ("017", int, 15),
        ("00", int, 0),
        ("0" * 100 + "7", int, 7),
        ("017L", Long, 15),
        ("7.", float, 7.0),
        (".5", float, 0.5),
        ("5d", float, 5.0),
        ("09.5", float, 9.5),
        ("1e3", float, 1000.0),
        ("0x1p3", float, 8.0),
        ("0x.8P1D", float, 1.0),
        ("1.5f", Float, 1.5),
        ("1e3F", Float, 1000.0),
        ("0x1p3f", Float, 8.0),
        ("0e999999999999999999999", float, 0.0),
        ("0.0f", Float, 0.0),
    ],
)
def test_a_literal_has_javas_type_and_value(text: str, kind: type, value: float) -> None:
    found = parse_number(text, 0)
    assert type(found) is kind
    assert found == value
    assert type(parse_number(text, 0, negative=True)) is kind
    assert parse_number(text, 0, negative=True) == -value


@pytest.mark.parametrize(
    ("text", "kind", "value"), [("2147483648", int, -(2**31)), ("9223372036854775808", Long, -(2**63))]
)
def test_the_smallest_numbers_need_their_sign(text: str, kind: type, value: int) -> None:
    found = parse_number(text, 0, negative=True)
    assert type(found) is kind
    assert found == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("08", "octal"),
        ("0189L", "octal"),
        ("9223372036854775808", "range of a long"),
        ("0xFFFFFFFFFFFFFFFF", "range of a long"),
        ("9" * 10_000, "range of a long"),
        ("1E400", "too large for a double"),
        ("1e39f", "too large for a float"),
        ("0x1p9999", "too large for a double"),
        ("1e-400", "too small for a double"),
        ("1e-60f", "too small for a float"),
        ("0x1p-9999", "too small for a double"),
    ],
)
def test_what_java_refuses_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(Problem, match=reason) as caught:
        parse_number(text, 12)
    assert caught.value.position == 12
    assert len(caught.value.text) < 250


def test_minus_zero_keeps_its_sign() -> None:
    assert math.copysign(1, parse_number("0.0", 0, negative=True)) == -1


@given(st.integers(1, 2**40), st.integers(0, 20), st.sampled_from(["", "1", "0000000000000000000001"]))
def test_a_float_literal_is_rounded_once(mantissa: int, exponent: int, tail: str) -> None:
    # Halfway between two floats and a bit more: rounding to a double first would lose the bit.
    text = f"{mantissa}.5{tail}e-{exponent}"
    assert parse_number(f"{text}f", 0) == nearest_single(Fraction(text))


def test_a_float_literal_beyond_the_middle_is_rounded_up() -> None:
    assert parse_number("16777217.0000000000000001f", 0) == 16777218
    assert parse_number("16777217.0f", 0) == 16777216
    assert parse_number("16777218.9999999999999999f", 0) == 16777218


@pytest.mark.parametrize(("text", "value"), [("''", ""), ("''''", "'"), ("'it''s'", "it's"), ("'a\\n'", "a\\n")])
def test_a_doubled_quote_is_one(text: str, value: str) -> None:
    assert parse_string(text) == value


@given(st.text(st.sampled_from(["'", '"', "%", "_", "\\", "\n", "\0", "\ud800"]) | st.characters(), max_size=12))
def test_what_is_quoted_is_the_text_whatever_it_has(text: str) -> None:
    assert parse_string(quote(text)) == text
    assert evaluate(f"s = {quote(text)}", {"s": text}) is True
    assert evaluate(f"s = {quote(text)}", {"s": text + "'"}) is False
