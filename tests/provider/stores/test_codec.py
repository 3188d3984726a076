"""Messages as bytes: what goes in comes out, with its types; what is no message is refused by name."""

from __future__ import annotations

import struct
from types import MappingProxyType
from zlib import crc32

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, Body, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short, Stored
from pyjms_provider.stores.codec import VERSION, decode, encode
from pyjms_provider.stores.errors import CodecError
from tests.provider.helpers import make_envelope

ANY_TEXT = st.text(st.characters())  # with halves of surrogate pairs, as Java's strings may have them
PROPERTY = st.one_of(
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
VALUE = st.one_of(PROPERTY, st.binary())
MILLIS = st.integers(0, 2**63 - 1)
ADDRESS = st.builds(Address, st.sampled_from(AddressKind), ANY_TEXT, st.booleans())
BODIES: list[st.SearchStrategy[tuple[BodyKind, Body]]] = [
    st.just((BodyKind.NONE, None)),
    st.tuples(st.just(BodyKind.TEXT), st.none() | ANY_TEXT),
    st.tuples(st.just(BodyKind.BYTES), st.binary()),
    st.tuples(st.just(BodyKind.MAP), st.dictionaries(ANY_TEXT, VALUE)),
    st.tuples(st.just(BodyKind.STREAM), st.lists(VALUE).map(tuple)),
    st.tuples(st.just(BodyKind.OBJECT), st.none() | st.builds(ObjectBody, st.binary(), st.booleans())),
]


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    kind, body = draw(st.one_of(BODIES))
    return Envelope(
        destination=draw(ADDRESS),
        message_id=draw(st.none() | ANY_TEXT.map(MessageId)),
        timestamp_ms=draw(MILLIS),
        expiration_ms=draw(MILLIS),
        delivery_mode=draw(st.sampled_from([1, 2])),
        priority=draw(st.integers(0, 9)),
        correlation_id=draw(st.none() | ANY_TEXT | st.binary()),
        reply_to=draw(st.none() | ADDRESS),
        jms_type=draw(st.none() | ANY_TEXT),
        properties=draw(st.dictionaries(ANY_TEXT, PROPERTY)),
        body_kind=kind,
        body=body,
    )


def shape(value: object) -> object:
    """Return `value` so that two of them are equal only if their classes and the bits of their floats are."""
    if isinstance(value, float):
        return type(value), struct.pack(">d", value) if value == value else "NaN"  # noqa: PLR0124 - it is how NaN is found
    if isinstance(value, dict):
        return [(shape(name), shape(each)) for name, each in value.items()]
    if isinstance(value, tuple):
        return tuple(shape(each) for each in value)
    if isinstance(value, ObjectBody):
        return value.data
    return type(value), value


def shapes(envelope: Envelope) -> list[object]:
    return [shape(getattr(envelope, name)) for name in Envelope.__dataclass_fields__]


@given(envelopes())
def test_what_goes_in_comes_out_with_its_types(envelope: Envelope) -> None:
    assert shapes(decode(encode(envelope))) == shapes(envelope)


@given(st.binary() | st.binary(max_size=50).map(lambda data: struct.pack(">BI", VERSION, crc32(data)) + data))
def test_rubbish_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode(data)


PLAIN = st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.binary()
JSON = st.recursive(PLAIN, st.lists, max_leaves=3)


@settings(max_examples=50)
@given(st.lists(JSON | st.text(), min_size=14, max_size=14))
def test_well_formed_rubbish_is_refused_or_is_a_message(fields: list[object]) -> None:
    data = msgspec.msgpack.encode(fields)
    try:
        envelope = decode(struct.pack(">BI", VERSION, crc32(data)) + data)
    except CodecError:
        return
    assert isinstance(envelope, Envelope)
    assert all(isinstance(name, str) for name in envelope.properties)


SAMPLE = encode(make_envelope("some text", properties={"a": 1}))


@given(st.data())
def test_a_flipped_bit_is_found(data: st.DataObject) -> None:
    whole = bytearray(SAMPLE)
    position = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[position // 8] ^= 1 << position % 8
    with pytest.raises(CodecError):
        decode(bytes(whole))


def test_a_newer_format_is_refused_and_says_so() -> None:
    with pytest.raises(CodecError, match=r"format 2 is not known.*newer pyjms"):
        decode(bytes([2]) + encode(make_envelope())[1:])


def test_a_message_cut_short_is_refused() -> None:
    whole = encode(make_envelope("text"))
    for length in range(len(whole)):
        with pytest.raises(CodecError):
            decode(whole[:length])


def test_boxed_ints_and_doubles_take_their_plain_form() -> None:
    properties = decode(encode(make_envelope(properties={"i": Int(5), "d": Double(2.5)}))).properties
    assert [(type(value), value) for value in properties.values()] == [(int, 5), (float, 2.5)]


def test_any_mapping_may_hold_the_properties() -> None:
    envelope = make_envelope(properties=MappingProxyType({"a": Short(1)}))
    assert decode(encode(envelope)).properties == {"a": 1}


def test_an_object_that_was_stored_is_not_local_any_more() -> None:
    envelope = make_envelope()
    envelope.body_kind, envelope.body = BodyKind.OBJECT, ObjectBody(b"pickled", local=True)  # type: ignore[misc]  # in a test only
    assert decode(encode(envelope)).body == ObjectBody(b"pickled", local=False)


@pytest.mark.parametrize("value", [2**70, object()])
def test_what_cannot_be_stored_is_refused(value: Stored) -> None:
    with pytest.raises(CodecError, match="cannot be stored"):
        encode(make_envelope(properties={"a": value}))
