"""Values as bytes, and back (part 1)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyjms.types import Byte, Char, Double, Float, Int, Long, Short
from pyjms_provider.amqp.codec import (
    Array,
    Decimal,
    Described,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    read_value,
    skip_value,
    write_value,
)
from pyjms_provider.amqp.errors import DecodeError, EncodeError, LimitError
from tests.provider.protocols.amqp.values import VALUES

# Format codes and encodings as part 1, 1.6 gives them.
EXAMPLES = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (UByte(255), "50ff"),
    (UShort(0x1234), "601234"),
    (UInt(0), "43"),
    (UInt(255), "52ff"),
    (UInt(256), "7000000100"),
    (ULong(0), "44"),
    (ULong(255), "53ff"),
    (ULong(2**64 - 1), "80ffffffffffffffff"),
    (Byte(-1), "51ff"),
    (Short(-2), "61fffe"),
    (-128, "5480"),
    (127, "547f"),
    (128, "7100000080"),
    (Long(-128), "5580"),
    (Long(128), "810000000000000080"),
    (Float(1.5), "723fc00000"),
    (1.5, "823ff8000000000000"),
    (Char("€"), "73000020ac"),
    (Timestamp(-1), "83ffffffffffffffff"),
    (UUID(int=1), "98" + "00" * 15 + "01"),
    (Decimal(b"\1\2\3\4"), "7401020304"),
    (b"", "a000"),
    (b"\0" * 256, "b000000100" + "00" * 256),
    ("é", "a102c3a9"),
    ("a" * 256, "b100000100" + "61" * 256),
    (Symbol("ab"), "a3026162"),
    ([], "45"),
    ([1, "a"], "c006025401a10161"),
    ({}, "c10100"),
    ({"a": True}, "c10502a1016141"),
    (Described(ULong(0x24), []), "00532445"),
    (Array((Symbol("a"), Symbol("bc"))), "e00d02b3" + "0000000161" + "000000026263"),
    (Array((Described(ULong(1), 5),)), "e00901" + "005301" + "71" + "00000005"),
]


@pytest.mark.amqp_rule("1.2.1-a", "1.2.4-a")
@pytest.mark.parametrize(("value", "data"), EXAMPLES, ids=[repr(value)[:30] for value, _ in EXAMPLES])
def test_a_value_has_the_bytes_of_the_standard(value: object, data: str) -> None:
    written = write_value(value)
    assert written.hex() == data
    read, end = read_value(written)
    assert (read, type(read), end) == (value, type(value), len(written))


@pytest.mark.amqp_rule("1.2-a")
@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("5601", True),
        ("5600", False),
        ("7000000000", UInt(0)),
        ("800000000000000001", ULong(1)),
        ("7100000001", 1),
        ("810000000000000001", Long(1)),
        ("b00000000161", b"a"),
        ("b10000000161", "a"),
        ("b30000000161", Symbol("a")),
        ("c00100", []),
        ("d00000000400000000", []),
        ("d10000000400000000", {}),
        ("f0000000070000000250" + "0102", Array((UByte(1), UByte(2)))),
        ("e0020541", Array((True,) * 5)),
        ("730001f600", "\U0001f600"),
        ("94" + "07" * 16, Decimal(b"\7" * 16)),
    ],
)
def test_each_longer_form_is_read_too(data: str, value: object) -> None:
    read, end = read_value(bytes.fromhex(data))
    assert (read, type(read), end) == (value, type(value), len(data) // 2)


def test_classes_of_java_are_written_as_their_type() -> None:
    assert write_value(Int(5)) == write_value(5)
    assert write_value(Double(0.5)) == write_value(0.5)
    assert write_value((1, 2)) == write_value([1, 2])


@settings(max_examples=60)
@given(VALUES)
def test_what_was_written_is_read_with_its_type(value: Any) -> None:
    data = write_value(value)
    read, end = read_value(data)
    assert end == len(data) == skip_value(data, 0)
    assert repr(read) == repr(value)
    assert write_value(read) == data


@pytest.mark.amqp_rule("1.2.2-a")
@settings(max_examples=60)
@given(VALUES, st.data())
def test_a_value_that_is_cut_is_refused(value: Any, data: st.DataObject) -> None:
    written = write_value(value)
    cut = written[: data.draw(st.integers(0, len(written) - 1))]
    for take in (lambda: read_value(cut), lambda: skip_value(cut, 0)):
        with pytest.raises(DecodeError):
            take()


@given(st.binary(max_size=200))
@example(b"\xf0\x00\x00\x00\x06\xff\xff\xff\xff\x40\x40")
@example(b"\xd0\x00\x00\x00\x05\xff\xff\xff\xff\x40")
@example(b"\xf0\xff\xff\xff\xff\x7f\xff\xff\xff\x74")
@example(b"\x00" * 100)
@example(b"\xc1\x05\x02\xc0\x01\x00\x40")
def test_rubbish_is_refused_by_name(data: bytes) -> None:
    for take in (lambda: read_value(data), lambda: skip_value(data, 0)):
        with suppress(DecodeError, LimitError):
            take()


@pytest.mark.parametrize("deep", [b"\xc0", b"\xc1", b"\xe0", b"\x00"])
def test_nesting_has_a_limit(deep: bytes) -> None:
    data = b"\x40"
    for _ in range(33):
        if deep == b"\x00":
            data = b"\x00\x43" + data
        elif deep == b"\xc1":
            data = b"\xd1" + (4 + 1 + len(data)).to_bytes(4) + (2).to_bytes(4) + b"\x43" + data
        elif deep == b"\xc0":
            data = b"\xd0" + (4 + len(data)).to_bytes(4) + (1).to_bytes(4) + data
        else:
            data = b"\xf0" + (4 + len(data)).to_bytes(4) + (1).to_bytes(4) + data
    with pytest.raises(LimitError, match="nested"):
        read_value(data)
    assert read_value(data, nesting_max=40)[1] == len(data)


@pytest.mark.amqp_rule("1.2-b", "1.2.3-a", "1.6.20-a", "1.6.23-a")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("5602", "boolean"),
        ("7300110000", "Unicode"),
        ("730000d800", "Unicode"),
        ("a101ff", "encoding"),
        ("a301ff", "encoding"),
        ("3f", "format code"),
        ("c0020040", "size says"),
        ("c0020240", "bytes"),
        ("c10201" + "40", "bytes"),
        ("c10904" + "a1016141" + "a1016142", "twice"),
        ("c10502" + "c0010040", "end|key|size"),
        ("e003010000", "end|descriptors"),
        ("f000000005ffffffff40", "more than"),
        ("f0ffffffff7fffffff74", "end within"),
        ("f0ffffffff7fffffffa0", "end within"),
    ],
)
def test_a_wrong_value_says_why(data: str, why: str) -> None:
    with pytest.raises((DecodeError, LimitError), match=why):
        read_value(bytes.fromhex(data))


@pytest.mark.parametrize(
    "value",
    [
        2**31,
        -(2**31) - 1,
        "\ud800",
        Symbol("é"),
        object(),
        Array((1, "a")),
        Decimal(b"abc"),
        {1: object()},
        [2**40],
        Array((Described(1, 1), 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_amqp_cannot_say_is_refused(value: object) -> None:
    with pytest.raises(EncodeError):
        write_value(value)


@pytest.mark.amqp_rule("1.6.3-a")
@pytest.mark.parametrize(("kind", "number"), [(UByte, 256), (UShort, -1), (UInt, 2**32), (ULong, 2**64)])
def test_an_unsigned_number_has_a_range(kind: type[int], number: int) -> None:
    with pytest.raises(ValueError, match="outside the range"):
        kind(number)
