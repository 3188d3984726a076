"""Objects from whoever may send: what is in a pickle decides how long it takes to decode, not what it claims."""

from __future__ import annotations

import pickle
import tracemalloc
from itertools import product
from struct import pack
from typing import Any, NamedTuple

import pytest

from pyjms.errors import MessageFormatException
from pyjms.messages.unpickling import TrustingUnpickler
from tests.pyjms.messages.support import from_elsewhere

PROTO = b"\x80\x05"
DEEP = b"K\x01" + b"\x85" * 300_000
"""A tuple in a tuple in a tuple …: hashing it recurses in C, without a limit."""
DOUBLED = b"K\x01" + b"2\x86" * 60
"""(x, x), sixty times: 2**60 hashes."""


class Pair(NamedTuple):
    first: Any
    second: Any


def load(data: bytes, *trusted: str) -> Any:
    return TrustingUnpickler(data, frozenset(trusted)).load()


@pytest.mark.parametrize("part", [pytest.param(DEEP, id="deep"), pytest.param(DOUBLED, id="doubled")])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b"}", b"K\x01s.", id="SETITEM"),
        pytest.param(b"}(", b"K\x01u.", id="SETITEMS"),
        pytest.param(b"(", b"K\x01d.", id="DICT"),
        pytest.param(b"\x8f(", b"\x90.", id="ADDITEMS"),
        pytest.param(b"(", b"\x91.", id="FROZENSET"),
        pytest.param(b"", b".", id="the object itself, which its receiver may hash"),
        pytest.param(b"]", b"a.", id="in a list"),
    ],
)
def test_keys_that_cannot_be_hashed_in_time_are_refused(before: bytes, part: bytes, after: bytes) -> None:
    with pytest.raises(MessageFormatException, match=r"deep|too often"):
        _ = from_elsewhere(PROTO + before + part + after).object


def test_frozensets_nest_too() -> None:
    """Hashing them is cheap, comparing two equal ones is not."""
    level = b"q\x000(h\x00K\x01\x86h\x00K\x02\x86\x91"
    assert load(PROTO + b"(K\x01\x91" + level + b".") == {(frozenset({1}), 1), (frozenset({1}), 2)}
    twice = (b"(K\x01\x91" + level * 40) * 2
    with pytest.raises(MessageFormatException, match="too often"):
        load(PROTO + b"\x8f(" + twice + b"\x90.")


def test_instances_of_trusted_classes_nest_too() -> None:
    name = b"c" + Pair.__module__.encode() + b"\nPair\n"
    level = b"q\x01" + name + b"h\x01h\x01\x86\x81"
    with pytest.raises(MessageFormatException, match="too often"):
        load(PROTO + b"K\x01" + level * 40 + b".", f"{Pair.__module__}.Pair")
    assert load(pickle.dumps({Pair(1, 2): 3}, 5), f"{Pair.__module__}.Pair") == {Pair(1, 2): 3}


def number(value: int) -> bytes:
    """Return the operation that pushes `value`."""
    size = value.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([number(factor * (2**61 - 1)) for factor in range(2, 10_000)], id="numbers"),
        pytest.param(
            [b"(" + b"".join(each) + b"t" for each in product((number(-1), number(-2)), repeat=12)], id="tuples"
        ),
    ],
)
def test_keys_chosen_to_hash_alike_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(MessageFormatException, match="too often"):
        load(PROTO + b"\x8f(" + b"".join(keys) + b"\x90.")


def test_places_of_the_memo_cannot_be_chosen_to_hash_alike() -> None:
    assert load(PROTO + b"K\x01p7\n0g7\n.") == 1
    for place in (2**61 - 1, 2**32, -1):
        with pytest.raises(MessageFormatException):
            _ = from_elsewhere(PROTO + b"K\x01p%d\n." % place).object


def test_a_length_is_not_believed() -> None:
    for operation, length in (
        (b"\x96", pack("<Q", 64 << 20)),
        (b"\x8e", pack("<Q", 64 << 20)),
        (b"\x8d", pack("<Q", 64 << 20)),
        (b"B", pack("<I", 64 << 20)),
        (b"X", pack("<I", 64 << 20)),
        (b"T", pack("<i", 64 << 20)),
        (b"\x8b", pack("<i", 64 << 20)),
        (b"\x95", pack("<Q", 64 << 20)),
    ):
        message = from_elsewhere(PROTO + operation + length + b".")
        tracemalloc.start()
        try:
            with pytest.raises(MessageFormatException):
                _ = message.object
            assert tracemalloc.get_traced_memory()[1] < 1 << 20, operation
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("size", [0, 1, 1_000, 100_000])
def test_byte_arrays_are_decoded(size: int) -> None:
    assert load(pickle.dumps([bytearray(b"x" * size), 1], 5)) == [bytearray(b"x" * size), 1]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({(1, (2, 3)): frozenset({(4, 5)})}, id="keys in keys"),
        pytest.param(set(product(range(-9, 9), repeat=3)), id="coordinates"),
        pytest.param([(number, "x", None) for number in range(3_000)], id="rows"),
        pytest.param({None: 1, 1.5: 2, b"x": 3, True: 4, 2**70: 5}, id="all kinds"),
    ],
)
def test_what_programs_send_is_decoded(value: Any) -> None:
    assert load(pickle.dumps(value, 4)) == load(pickle.dumps(value, 5)) == value


def test_what_a_trusted_class_is_built_of_is_decoded() -> None:
    value = {"coordinates": {(1, (2, 3)), (4, 5)}, "one": frozenset({6})}
    for protocol in (2, 3):  # where sets are built by a call
        data = pickle.dumps(value, protocol).replace(b"c__builtin__\n", b"cbuiltins\n")
        assert load(data, "builtins.set", "builtins.frozenset") == value
