from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any

import pytest

from pyjms.errors import IndexOutOfBoundsException, MessageFormatException
from pyjms.messages import conversion as storing
from pyjms.messages.conversion import Store, copy_bytes, copy_slice, store_object, store_property
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short


class Cups(IntEnum):
    TWO = 2


class Drink(StrEnum):
    ESPRESSO = "espresso"


class Sly(int):
    """An int that says to be another one."""

    def __int__(self) -> int:
        return 1_000_000

    def __index__(self) -> int:
        return 1_000_000


BITS: dict[Store, int] = {storing.store_byte: 8, storing.store_short: 16, storing.store_int: 32, storing.store_long: 64}
CLASSES: dict[Store, type[int]] = {
    storing.store_byte: Byte,
    storing.store_short: Short,
    storing.store_int: int,
    storing.store_long: Long,
}
INTEGRAL = pytest.mark.parametrize("store", BITS, ids=lambda store: store.__name__)


@INTEGRAL
def test_integers_keep_their_class_and_their_range(store: Store) -> None:
    limit = 1 << BITS[store] - 1
    for number in (-limit, -1, 0, limit - 1):
        stored = store(number, "property", "x")
        assert stored == number
        assert type(stored) is CLASSES[store]
    for number in (-limit - 1, limit, 10**5000, -(10**5000)):
        with pytest.raises(MessageFormatException, match=r"property 'x': .* is outside the range of"):
            store(number, "property", "x")


@INTEGRAL
@pytest.mark.parametrize("value", [True, "1", 1.0, None, b"1", 1j])
def test_integers_are_nothing_else(store: Store, value: Any) -> None:
    with pytest.raises(MessageFormatException, match=f"property 'x' takes an int .*, not {type(value).__name__}"):
        store(value, "property", "x")


@INTEGRAL
def test_subclasses_of_int_become_plain(store: Store) -> None:
    for value in (Cups.TWO, Byte(2), Long(2), Sly(2)):
        stored = store(value, "property", "x")
        assert type(stored) is CLASSES[store]
        assert stored == 2


def test_booleans_are_booleans() -> None:
    assert storing.store_boolean(True, "property", "x") is True
    assert storing.store_boolean(False, "property", "x") is False
    for value in (1, 0, "true", None):
        with pytest.raises(MessageFormatException, match="takes a bool"):
            storing.store_boolean(value, "property", "x")


def test_floats_take_what_java_widens() -> None:
    single = storing.store_float(0.1, "property", "x")
    assert type(single) is Float
    assert single == 0.10000000149011612
    assert storing.store_float(2**63 - 1, "property", "x") == 2.0**63
    # half-way between two floats, and one more: a way over double would lose the one
    assert storing.store_float(2**62 + 2**38 + 1, "property", "x") == 2.0**62 + 2.0**39
    for value in (5, Byte(5), Long(5), 5.0, Double(5), Float(5)):
        stored = storing.store_double(value, "property", "x")
        assert type(stored) is float
        assert stored == 5
    for store in (storing.store_float, storing.store_double):
        for bad in (True, "5", None, 1j, 2**63, 10**5000):
            with pytest.raises(MessageFormatException):
                store(bad, "property", "x")


def test_a_char_is_one_unit() -> None:
    for value in ("a", "\uffff", "\ud800", Char("a")):
        stored = storing.store_char(value, "map entry", "x")
        assert type(stored) is Char
        assert stored == value
    for value in ("", "ab", "\U0001f600", "x" * 1000):
        with pytest.raises(MessageFormatException, match="is not one 16-bit character"):
            storing.store_char(value, "map entry", "x")
    for other in (5, None, b"a"):
        with pytest.raises(MessageFormatException, match="takes a str of one character"):
            storing.store_char(other, "map entry", "x")


def test_texts_become_plain() -> None:
    for value in (Drink.ESPRESSO, "espresso"):
        stored = storing.store_string(value, "property", "x")
        assert type(stored) is str
        assert stored == "espresso"
    assert storing.store_string(None, "property", "x") is None
    with pytest.raises(MessageFormatException, match="takes a str or None, not bytes"):
        storing.store_string(b"espresso", "property", "x")


@pytest.mark.realises("BOIL-BODY-7")
def test_buffers_are_copied() -> None:
    buffer = bytearray(b"abcdef")
    copies = [copy_bytes(each, "value of", "x") for each in (buffer, memoryview(buffer), memoryview(buffer)[::2])]
    buffer[:] = b"......"
    assert copies == [b"abcdef", b"abcdef", b"ace"]
    assert all(type(each) is bytes for each in copies)
    for value in ("abc", [1], 5):
        with pytest.raises(MessageFormatException, match="takes bytes"):
            copy_bytes(value, "value of", "x")


def test_slices_lie_within_their_buffer() -> None:
    assert copy_slice(b"abcdef", 2, 3, "value of", "x") == b"cde"
    assert copy_slice(bytearray(b"abcdef"), 2, None, "value of", "x") == b"cdef"
    assert copy_slice(b"abcdef", 6, 0, "value of", "x") == b""
    for offset, length in ((-1, 2), (0, 7), (7, 0), (2, -1), (5, 2), (7, None)):
        with pytest.raises(IndexOutOfBoundsException, match="do not lie within 6 bytes"):
            copy_slice(b"abcdef", offset, length, "value of", "x")


def test_plain_numbers_take_the_type_that_holds_them() -> None:
    for value, kind in (
        (2**31 - 1, int),
        (-(2**31), int),
        (2**31, Long),
        (-(2**63), Long),
        (Cups.TWO, int),
        (5.0, float),
        (Int(5), int),
        (Double(5), float),
        (Byte(5), Byte),
        (Float(5), Float),
        (Drink.ESPRESSO, str),
        (True, bool),
    ):
        assert type(store_property(value, "property", "x")) is kind
    with pytest.raises(MessageFormatException, match="outside the range of long"):
        store_property(2**63, "property", "x")


@pytest.mark.realises("BOIL-PROP-6")
def test_what_a_property_cannot_hold() -> None:
    for value in (Char("a"), b"a", bytearray(b"a"), memoryview(b"a"), [], {}, object(), 1j):
        with pytest.raises(MessageFormatException, match="property 'x' takes a bool, number, str or None, not "):
            store_property(value, "property", "x")


def test_what_a_body_cannot_hold() -> None:
    for value in ([], {}, object(), 1j, {1}, Exception):
        with pytest.raises(MessageFormatException, match="takes a bool, number, str, bytes or None"):
            store_object(value, "map entry", "x")
