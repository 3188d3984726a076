"""Messages as bytes: what goes in comes out, with its types; what is no message is refused by name."""

from __future__ import annotations

import struct
from dataclasses import replace
from types import MappingProxyType
from zlib import crc32

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.spi.envelope import BodyKind, Envelope, ObjectBody
from pyjms.types import Double, Int, Long, Short, Stored
from pyjms_provider.stores.codec import VERSION, decode, encode
from pyjms_provider.stores.errors import CodecError
from tests.provider.envelopes import envelopes, shapes
from tests.provider.helpers import make_envelope


@given(envelopes())
def test_what_goes_in_comes_out_with_its_types(envelope: Envelope) -> None:
    assert shapes(decode(encode(envelope))) == shapes(envelope)


@pytest.mark.parametrize("value", [Long(2**40), Int(5), Long(0)])
def test_the_delivery_time_is_written_as_the_property_that_0_1_0_knows(value: int) -> None:
    said = make_envelope("text", properties={"n": 1, "JMS_pyjms_deliverAt": value})
    as_before = encode(said)
    found = decode(as_before)
    assert (found.deliver_at_ms, dict(found.properties)) == (value, {"n": 1})
    found.forget()
    assert dict(found.properties) == {"n": 1}
    again = decode(encode(replace(found, priority=9)))
    assert (again.deliver_at_ms, dict(again.properties)) == (value, {"n": 1})
    if type(value) is Long and value:
        assert encode(replace(found, priority=found.priority)) == as_before


@pytest.mark.parametrize("value", ["soon", Long(-1), True, None])
def test_another_value_of_that_property_stays_for_the_broker_to_refuse(value: Stored) -> None:
    found = decode(encode(make_envelope("text", properties={"JMS_pyjms_deliverAt": value})))
    assert (found.deliver_at_ms, dict(found.properties)) == (0, {"JMS_pyjms_deliverAt": value})


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
