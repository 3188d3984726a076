"""Any legal message, for property-based tests of what carries or stores messages, and what makes two of them equal."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, Body, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Float, Long, Short

ANY_TEXT = st.text(st.characters())  # with halves of surrogate pairs, as Java's strings may have them
PROPERTIES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.floats(),
    ANY_TEXT,
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**63), 2**63 - 1).map(Long),
    st.floats(width=32).map(Float),
    st.integers(0, 0xFFFF).map(chr).map(Char),
)
VALUES = st.one_of(PROPERTIES, st.binary())
MILLIS = st.integers(0, 2**63 - 1)
ANY_ADDRESS = st.builds(Address, st.sampled_from(AddressKind), ANY_TEXT, st.booleans())
BODIES: list[st.SearchStrategy[tuple[BodyKind, Body]]] = [
    st.just((BodyKind.NONE, None)),
    st.tuples(st.just(BodyKind.TEXT), st.none() | ANY_TEXT),
    st.tuples(st.just(BodyKind.BYTES), st.binary()),
    st.tuples(st.just(BodyKind.MAP), st.dictionaries(ANY_TEXT, VALUES)),
    st.tuples(st.just(BodyKind.STREAM), st.lists(VALUES).map(tuple)),
    st.tuples(st.just(BodyKind.OBJECT), st.none() | st.builds(ObjectBody, st.binary(), st.booleans())),
]


@st.composite
def envelopes(
    draw: st.DrawFn,
    addresses: st.SearchStrategy[Address] = ANY_ADDRESS,
    names: st.SearchStrategy[str] = ANY_TEXT,
) -> Envelope:
    """Draw a message; `addresses` are those of destination and reply-to, `names` those of properties."""
    kind, body = draw(st.one_of(BODIES))
    return Envelope(
        destination=draw(addresses),
        message_id=draw(st.none() | ANY_TEXT.map(MessageId)),
        timestamp_ms=draw(MILLIS),
        expiration_ms=draw(MILLIS),
        delivery_mode=draw(st.sampled_from([1, 2])),
        priority=draw(st.integers(0, 9)),
        correlation_id=draw(st.none() | ANY_TEXT | st.binary()),
        reply_to=draw(st.none() | addresses),
        jms_type=draw(st.none() | ANY_TEXT),
        properties=draw(st.dictionaries(names, PROPERTIES)),
        body_kind=kind,
        body=body,
        deliver_at_ms=draw(st.just(0) | MILLIS),
    )


def shape(value: object) -> object:
    """Return `value` so that two of them are equal only if their classes and the bits of their floats are."""
    if isinstance(value, float):
        return type(value), struct.pack(">d", value) if value == value else "NaN"  # noqa: PLR0124 - it is how NaN is found
    if isinstance(value, Mapping):
        return [(shape(name), shape(each)) for name, each in value.items()]
    if isinstance(value, tuple):
        return tuple(shape(each) for each in value)
    if isinstance(value, ObjectBody):
        return value.data
    return type(value), value


def shapes(envelope: Envelope) -> list[object]:
    """Return all fields as `shape` does: equal lists are equal messages."""
    return [shape(getattr(envelope, name)) for name in Envelope.__dataclass_fields__]
