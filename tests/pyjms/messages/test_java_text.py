from __future__ import annotations

import math
import struct
import time
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import NumberFormatException
from pyjms.messages.java_text import (
    format_double,
    format_single,
    parse_boolean,
    parse_double,
    parse_integral,
    parse_single,
    shorten,
    single_of_integer,
)
from pyjms.types import round_to_single
from tests.cases import each_of
from tests.pyjms.messages.support import conversions

_BITS = {"Byte": 8, "Short": 16, "Integer": 32, "Long": 64}
_FLOATING = {"Float": (parse_single, ">f"), "Double": (parse_double, ">d")}
_PARSED = [
    (vector["input"], kind, expected)
    for vector in conversions()["parse_vectors"]
    if vector["input"] is not None
    for kind, expected in vector.items()
    if kind != "input"
]
_FORMATTED = [vector for vector in conversions()["to_string_vectors"] if vector["type"] in _FLOATING]


def _parse(text: str, kind: str) -> Any:
    if kind == "Boolean":
        return parse_boolean(text)
    if kind in _BITS:
        return parse_integral(text, _BITS[kind], kind)
    parse, layout = _FLOATING[kind]
    return struct.pack(layout, parse(text)).hex()


@pytest.mark.realises("BOIL-CONV-3", "BOIL-CONV-4")
@each_of(_PARSED)
def test_text_is_read_as_valueof_reads_it(parsed: tuple[str, str, Any]) -> None:
    text, kind, expected = parsed
    if expected == "NumberFormatException":
        with pytest.raises(NumberFormatException):
            _parse(text, kind)
    elif isinstance(expected, dict):
        assert _parse(text, kind) == expected["bits"]
    else:
        assert _parse(text, kind) is expected if kind == "Boolean" else _parse(text, kind) == expected


@each_of(_FORMATTED)
def test_numbers_are_written_as_tostring_writes_them(vector: dict[str, Any]) -> None:
    layout, write = (">f", format_single) if vector["type"] == "Float" else (">d", format_double)
    (value,) = struct.unpack(layout, bytes.fromhex(vector["value"]["bits"]))
    assert write(value) == vector.get("jdk19", vector["string"])


@each_of(conversions()["float32_vectors"])
def test_doubles_become_the_nearest_float(vector: dict[str, Any]) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(vector["double_bits"]))
    single = round_to_single(value)
    assert struct.pack(">f", single).hex() == vector["float_bits"]
    assert format_single(single) == format_single(parse_single(vector["float_string"]))
    assert format_double(single) == vector["widened_string"]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        # half-way between two floats, and by less than a double can tell above and below it
        ("1.000000059604644775390625", "1.0"),
        ("1.000000059604644775390626", "1.0000001"),
        ("1.000000178813934326171875", "1.0000002"),
        ("1.000000178813934326171874", "1.0000001"),
        ("-1.000000059604644775390626", "-1.0000001"),
        ("0x1.000001p0", "1.0"),
        ("0x1.00000100000000000000001p0", "1.0000001"),
        ("0x1.00000300000000000000001P0f", "1.0000002"),
        ("0x1.000002fffffffffffffffp0", "1.0000001"),
        # between the largest float and infinity
        ("340282356779733661637539395458142568447", "3.4028235E38"),
        ("340282356779733661637539395458142568448", "Infinity"),
        ("-340282356779733661637539395458142568448", "-Infinity"),
        # between zero and the smallest one
        ("7.006492321624085e-46", "0.0"),
        ("7.00649232162408535461864791644958065640130970938257885878534e-46", "0.0"),
        ("7.0064923216240853546186479164495806564013097093825788587854e-46", "1.4E-45"),
    ],
)
def test_a_decimal_text_is_rounded_to_a_float_once(text: str, nearest: str) -> None:
    assert format_single(parse_single(text)) == nearest


@given(st.floats(width=32, allow_nan=False))
def test_a_float_comes_back_from_its_text(value: float) -> None:
    text = format_single(value)
    assert struct.pack(">f", parse_single(text)) == struct.pack(">f", value)
    digits = [char for char in text.split("E")[0] if char.isdigit()]
    assert len(digits) <= 10 or "E" not in text


@given(st.floats(allow_nan=False))
def test_a_double_comes_back_from_its_text(value: float) -> None:
    assert struct.pack(">d", parse_double(format_double(value))) == struct.pack(">d", value)


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_integer_becomes_the_nearest_float(number: int) -> None:
    single = Decimal(single_of_integer(number))
    below, above = (Decimal(math.nextafter(single, math.copysign(math.inf, step))) for step in (-1, 1))
    assert abs(single - number) <= abs(Decimal(round_to_single(float(below))) - number)
    assert abs(single - number) <= abs(Decimal(round_to_single(float(above))) - number)
    assert single_of_integer(number) == parse_single(str(number))


@pytest.mark.parametrize(
    "text",
    [
        "1" * 1_000_000,
        "0" * 1_000_000 + "5",
        "1" * 1_000_000 + "x",
        "1." + "0" * 1_000_000 + "x",
        "0." + "0" * 1_000_000 + "1e1000001",
        "1e999999999999999999999",
        "0e99999999999999999999999",
        "0x1p99999999999999999999",
        "0x" + "0" * 1_000_000 + "1p-99999999999",
        "٣" * 100_000,
        "." * 1_000_000,
    ],
    ids=lambda text: f"{text[:8]}-{len(text)}",
)
def test_no_text_takes_long_to_read(text: str) -> None:
    start = time.process_time()
    for kind in ("Boolean", "Long", "Float", "Double"):
        with suppress(NumberFormatException):
            _parse(text, kind)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("text", ["٣٤", "+٣٤", "\uff13\uff14"])
def test_digits_of_all_scripts_are_digits_of_integers(text: str) -> None:
    assert parse_integral(text, 64, "long") == 34


@pytest.mark.parametrize("text", ["5\n", "\U0001d7dd", "²", "Ⅷ", "", "+", "-", "5\u066b0"])
def test_other_characters_are_not(text: str) -> None:
    with pytest.raises(NumberFormatException):
        parse_integral(text, 64, "long")


def test_leading_zeros_are_no_digits_too_many() -> None:
    assert parse_integral("-" + "0" * 30 + "128", 8, "byte") == -128
    assert parse_integral("\u0660" * 30 + "7", 8, "byte") == 7
    with pytest.raises(NumberFormatException, match="outside the range of byte"):
        parse_integral("0" * 30 + "128", 8, "byte")


def test_long_texts_are_cut_in_reasons() -> None:
    assert shorten("short") == "'short'"
    assert shorten("x" * 100) == f"{'x' * 40!r}… (100 characters)"
