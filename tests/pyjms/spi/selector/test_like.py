from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.selector.compile import Pattern, Shape, compile_pattern, ends_in_escape
from tests.pyjms.spi.selector import model
from tests.pyjms.spi.selector.support import evaluate


@pytest.mark.parametrize(
    ("pattern", "shape", "text"),
    [
        ("", Shape.EXACT, ""),
        ("abc", Shape.EXACT, "abc"),
        ("%", Shape.ANY, ""),
        ("%%%", Shape.ANY, ""),
        ("abc%", Shape.PREFIX, "abc"),
        ("abc%%", Shape.PREFIX, "abc"),
        ("%abc", Shape.SUFFIX, "abc"),
        ("%abc%", Shape.PART, "abc"),
        ("a!%b%", Shape.PREFIX, "a%b"),
        ("%!_", Shape.SUFFIX, "_"),
        ("!!", Shape.EXACT, "!"),
        ("!a", Shape.EXACT, "a"),
    ],
)
def test_simple_patterns_need_no_regular_expression(pattern: str, shape: Shape, text: str) -> None:
    assert compile_pattern(pattern, "!") == Pattern(shape, text)


@pytest.mark.parametrize("pattern", ["_", "a_", "%_%", "a%b", "%a%b%", "a%b%"])
def test_other_patterns_become_one(pattern: str) -> None:
    assert compile_pattern(pattern, None).shape is Shape.EXPRESSION


@given(st.text("ab%_!", max_size=8), st.text("ab%_!\n", max_size=8), st.sampled_from([None, "!", "a", "%", "_"]))
def test_patterns_match_what_the_model_matches(pattern: str, text: str, escape: str | None) -> None:
    if escape is not None and ends_in_escape(pattern, escape):
        pattern += escape
    found = compile_pattern(pattern, escape)
    tests = {
        Shape.ANY: True,
        Shape.EXACT: text == found.text,
        Shape.PREFIX: text.startswith(found.text),
        Shape.SUFFIX: text.endswith(found.text),
        Shape.PART: found.text in text,
        Shape.EXPRESSION: found.shape is Shape.EXPRESSION and re.fullmatch(found.text, text) is not None,
    }
    assert tests[found.shape] == model.like(text, pattern, escape)
    suffix = "" if escape is None else f" ESCAPE {model.quoted(escape)}"
    assert evaluate(f"s LIKE {model.quoted(pattern)}{suffix}", {"s": text}) is model.like(text, pattern, escape)


@pytest.mark.parametrize(
    ("pattern", "escape", "dangling"),
    [
        ("a!", "!", True),
        ("a!!", "!", False),
        ("!!!", "!", True),
        ("!a", "!", False),
        ("", "!", False),
        ("a", "!", False),
    ],
)
def test_a_pattern_may_not_end_in_a_single_escape(pattern: str, escape: str, dangling: bool) -> None:
    assert ends_in_escape(pattern, escape) is dangling


@pytest.mark.parametrize("pattern", ["%a" * 30 + "b", "%a_" * 20 + "b", "%" + "a%" * 40 + "b", "_%" * 30 + "b"])
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    # One that tried all ways to place the pieces would not end in the lifetime of the universe.
    assert evaluate(f"s LIKE '{pattern}'", {"s": "a" * 3000}) is False
    assert evaluate(f"s LIKE '{pattern}'", {"s": "a" * 3000 + "b"}) is True


@pytest.mark.parametrize("special", list(".^$*+?{}[]\\|()#&~- \n"))
def test_characters_of_regular_expressions_stand_for_themselves(special: str) -> None:
    assert evaluate(f"s LIKE '_{special}%x'", {"s": f"a{special}bx"}) is True
    assert evaluate(f"s LIKE '_{special}%x'", {"s": "aabx"}) is False
