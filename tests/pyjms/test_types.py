from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, box, round_to_single

INTEGRAL: dict[type[Any], int] = {Byte: 8, Short: 16, Int: 32, Long: 64}
VALUES = [Byte(-1), Short(-1), Int(-1), Long(-1), Float(0.1), Double(0.1), Char("€")]


@pytest.mark.parametrize(("kind", "bits"), INTEGRAL.items())
def test_integers_have_the_range_of_their_type(kind: type[Any], bits: int) -> None:
    limit = 1 << bits - 1
    assert (kind.minimum, kind.maximum) == (-limit, limit - 1)
    assert (kind(-limit), kind(limit - 1), kind()) == (-limit, limit - 1, 0)
    for number in (-limit - 1, limit):
        with pytest.raises(ValueError, match=f"outside the range of {kind.__name__}"):
            kind(number)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_are_plain_ones_with_a_class(value: Any) -> None:
    plain = next(kind for kind in (int, float, str) if isinstance(value, kind))
    assert value == plain(value)
    assert hash(value) == hash(plain(value))
    assert (repr(value), str(value), f"{value}") == (repr(plain(value)), str(plain(value)), f"{plain(value)}")
    assert json.dumps([value]) == json.dumps([plain(value)])
    assert type(value + value) is plain
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_keep_their_class_when_copied(value: Any) -> None:
    copies = [pickle.loads(pickle.dumps(value, protocol)) for protocol in range(2, 6)]
    for each in [*copies, copy.copy(value), copy.deepcopy(value)]:
        assert type(each) is type(value)
        assert each == value


@settings(deadline=None)
@given(st.floats())
def test_a_float_is_a_single(value: float) -> None:
    single = Float(value)
    assert round_to_single(single) == single or math.isnan(value)
    assert type(single) is Float


def test_a_float_beyond_all_singles_is_infinite() -> None:
    assert Float(1e39) == math.inf
    assert Float(-1e39) == -math.inf
    assert Float() == 0.0


def test_a_whole_number_beyond_all_floats_is_infinite_too() -> None:
    assert Float(10**400) == math.inf
    assert Float(-(10**400)) == -math.inf


@pytest.mark.parametrize("value", ["1.5", None, [1]])
def test_what_is_no_number_is_no_float(value: Any) -> None:
    with pytest.raises(TypeError, match="is no number"):
        Float(value)


@pytest.mark.parametrize("text", ["", "ab", "\U0001f600"])
def test_a_char_is_one_unit(text: str) -> None:
    with pytest.raises(ValueError, match="not one 16-bit character"):
        Char(text)


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (True, bool),
        (5, Int),
        (5.0, Double),
        ("x", str),
        (b"x", bytes),
        (Byte(5), Byte),
        (Int(5), Int),
        (Long(5), Long),
        (Float(5), Float),
        (Double(5), Double),
        (Char("x"), Char),
    ],
)
def test_stored_values_are_boxed(stored: Any, kind: type[Any]) -> None:
    assert type(box(stored)) is kind
    assert box(stored) == stored


def test_nothing_is_boxed_as_nothing() -> None:
    assert box(None) is None
