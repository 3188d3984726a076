"""Random values of AMQP, and what proton writes for them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from pyjms.types import Byte, Char, Float, Long, Short
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
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
SYMBOLS = st.text(st.characters(max_codepoint=127), max_size=300).map(Symbol)


def _integers(kind: type[int], low: int, high: int) -> st.SearchStrategy[int]:
    return st.one_of(
        st.sampled_from([low, high, 0, 127, 128]).filter(lambda n: low <= n <= high), st.integers(low, high)
    ).map(kind)


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "ubyte": _integers(UByte, 0, 2**8 - 1),
    "ushort": _integers(UShort, 0, 2**16 - 1),
    "uint": _integers(UInt, 0, 2**32 - 1),
    "ulong": _integers(ULong, 0, 2**64 - 1),
    "byte": _integers(Byte, -(2**7), 2**7 - 1),
    "short": _integers(Short, -(2**15), 2**15 - 1),
    "int": _integers(int, -(2**31), 2**31 - 1),
    "long": _integers(Long, -(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False).map(Float),
    "double": st.floats(allow_nan=False),
    "decimal": st.sampled_from([4, 8, 16]).flatmap(lambda size: st.binary(min_size=size, max_size=size)).map(Decimal),
    "char": st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]).map(Char),
    "timestamp": _integers(Timestamp, -(2**63), 2**63 - 1),
    "uuid": st.binary(min_size=16, max_size=16).map(lambda data: UUID(bytes=data)),
    "binary": st.binary(max_size=300),
    "string": TEXTS,
    "symbol": SYMBOLS,
}
_KEYS = st.one_of(TEXTS, SYMBOLS.map(lambda s: Symbol(f"s:{s}")))
_ANY_SCALAR = st.one_of(*SCALARS.values())
ARRAYS = st.one_of(
    *[st.lists(items, max_size=4).map(lambda items: Array(tuple(items))) for items in SCALARS.values()],
    st.lists(st.integers(0, 9), min_size=1, max_size=3).map(
        lambda items: Array(tuple(Described(ULong(7), n) for n in items))
    ),
    st.lists(st.lists(_ANY_SCALAR, max_size=3), max_size=3).map(lambda items: Array(tuple(items))),
    st.lists(st.dictionaries(_KEYS, _ANY_SCALAR, max_size=3), max_size=3).map(lambda items: Array(tuple(items))),
)


def _same_width(array: Array) -> bool:
    """Decimals of several widths are several types."""
    return len({len(each.data) if isinstance(each, Decimal) else 0 for each in array.items}) < 2


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(_ANY_SCALAR, ARRAYS.filter(_same_width)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(_KEYS, inner, max_size=5),
        st.builds(Described, st.one_of(SCALARS["ulong"], SYMBOLS), inner),
    ),
    max_leaves=12,
)
