"""Packed frames and pages: what goes in comes out, and what is none is an error that says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope
from pyjms.spi.replay import ReservedMessage
from pyjms.types import Long
from pyjms_provider.core.store import approximate_size
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.messages import to_frame
from pyjms_provider.protocols.stomp.packed import (
    FRAME_MESSAGES_MAX,
    LENGTH,
    pack,
    pack_delivery,
    read_sends,
    unpack,
    unpack_deliveries,
)
from pyjms_provider.stores.codec import HEAD_SIZE, admit, decode, decode_plain, encode, encode_plain
from pyjms_provider.stores.errors import CodecError
from tests.provider.helpers import make_envelope
from tests.provider.protocols.stomp.strategies import envelopes


def _as_it_came(envelope: Envelope) -> Envelope:
    return envelope


def _page(sent: list[Envelope]) -> list[ReservedMessage]:
    return [ReservedMessage(number, each, number, number > 1) for number, each in enumerate(sent, 1)]


@given(st.lists(envelopes(), min_size=1, max_size=4))
def test_a_page_comes_out_as_it_went_in(sent: list[Envelope]) -> None:
    page = _page(sent)
    assert repr(unpack(pack(page), 1, _as_it_came)) == repr(page)  # by text, as NaN is not equal to itself


@given(envelopes())
def test_a_page_has_the_bytes_that_the_broker_keeps(sent: Envelope) -> None:
    kept = decode(encode(sent))
    assert pack(_page([kept])) == pack(_page([sent]))
    changed = replace(kept, priority=9 - kept.priority)
    assert unpack(pack(_page([changed])), 1, _as_it_came)[0].envelope.priority == 9 - sent.priority


def test_the_numbers_go_on_from_the_first_one() -> None:
    page = _page([make_envelope(), make_envelope()])
    assert [each.number for each in unpack(pack(page), 7, _as_it_came)] == [7, 8]


@pytest.mark.parametrize("kept", [4, -1], ids=["head", "data"])
def test_a_page_that_was_cut_is_refused(kept: int) -> None:
    body = pack(_page([make_envelope(), make_envelope()]))
    with pytest.raises(ProfileError, match="ends within a message"):
        unpack(body[:kept], 1, _as_it_came)
    with pytest.raises(ProfileError, match="ends within a message"):
        unpack(body + b"\0", 1, _as_it_came)


def test_a_page_of_another_version_or_with_no_message_in_it_is_refused() -> None:
    body = pack(_page([make_envelope()]))
    with pytest.raises(ProfileError, match="another version"):
        unpack(b"\2" + body[1:], 1, _as_it_came)
    with pytest.raises(CodecError, match="does not follow its format"):
        unpack(body[:9] + b"\xc1" * (len(body) - 9), 1, _as_it_came)


def packed(*messages: bytes) -> bytes:
    return b"".join([LENGTH.pack(len(each)) + each for each in messages])


def stored(array: bytes) -> bytes:
    """Return an array as a message with a checksum that is right."""
    return b"\1" + LENGTH.pack(crc32(array)) + array


@given(st.lists(envelopes(), min_size=1, max_size=4))
def test_messages_are_read_as_they_were_sent(sent: list[Envelope]) -> None:
    read = read_sends(packed(*map(encode, sent)))
    assert [repr(_plain(each)) for each in read] == [repr(each) for each in sent]
    for each, envelope in zip(read, sent, strict=True):
        each.forget()  # what is large is read again when somebody asks
        assert repr(_plain(each)) == repr(envelope)
        assert encode(each) is each.data
        assert encode(decode(each.data)) == encode(envelope)


def _plain(envelope: Envelope) -> Envelope:
    names = Envelope.__dataclass_fields__
    return Envelope(**{name: getattr(envelope, name) for name in names})


def test_a_message_that_keeps_its_bytes_equals_one_that_does_not() -> None:
    envelope = make_envelope("x", properties={"price": 3})
    assert admit(encode(envelope)) == envelope
    assert envelope == admit(encode(envelope))
    assert admit(encode(envelope)) != make_envelope("y")
    assert admit(encode(envelope)) != 7


def test_a_copy_with_other_fields_is_encoded_anew() -> None:
    came = admit(encode(make_envelope("x")))
    changed = replace(came, priority=9)
    assert decode(encode(changed)).priority == 9
    assert not hasattr(changed, "data")
    with pytest.raises(AttributeError):
        _ = came.nothing


def test_the_size_of_a_message_is_known_without_taking_it_apart() -> None:
    came = admit(encode(make_envelope("x" * 1000)))
    came.forget()
    assert approximate_size(came) == pytest.approx(approximate_size(make_envelope("x" * 1000)), rel=0.2)
    with pytest.raises(AttributeError):
        vars(Envelope)["body"].__get__(came)  # the slot, which nobody has filled


@given(st.lists(st.tuples(envelopes(), st.integers(1, 2**40), st.booleans()), max_size=4), st.integers(1, 2**50))
def test_deliveries_come_as_they_went(sent: list[tuple[Envelope, int, bool]], first: int) -> None:
    parts: list[bytes] = []
    sizes = [pack_delivery(Delivery(each, count, again, None), parts) for each, count, again in sent]
    assert sum(sizes) <= sum(map(len, parts))
    found = unpack_deliveries(b"".join(parts), first)
    assert [(each.number, each.times, each.redelivered) for each in found] == [
        (first + index, min(count, 2**32 - 1), again) for index, (_, count, again) in enumerate(sent)
    ]
    assert [repr(decode_plain(each.message)) for each in found] == [repr(each) for each, _, _ in sent]


@given(st.integers(0, 10_000))
def test_frames_that_were_cut_are_refused(at: int) -> None:
    message = encode(make_envelope("x"))
    body = packed(message, message)
    whole = len(packed(message))
    cut = at % len(body)
    if cut and cut != whole:
        with pytest.raises(ProfileError, match="ends within a message"):
            read_sends(body[:cut])
    parts: list[bytes] = []
    for _ in range(2):
        pack_delivery(Delivery(make_envelope("x"), 1, False, None), parts)
    if cut and cut != len(parts[0] + parts[1]):
        with pytest.raises(ProfileError, match="ends within a message"):
            unpack_deliveries(b"".join(parts)[:cut], 1)


def test_there_is_a_limit_to_how_many_messages_a_frame_has_and_one_at_least() -> None:
    message = encode(make_envelope("x"))
    assert len(read_sends(packed(message) * FRAME_MESSAGES_MAX)) == FRAME_MESSAGES_MAX
    with pytest.raises(ProfileError, match="more than 1000"):
        read_sends(packed(message) * (FRAME_MESSAGES_MAX + 1))
    with pytest.raises(ProfileError, match="no message"):
        read_sends(b"")


def test_a_message_with_too_many_properties_is_refused() -> None:
    few = make_envelope("x", properties={f"property{number}": 1 for number in range(20_000)})
    assert len(admit(encode(few)).properties) == 20_000
    with pytest.raises(CodecError, match="20000 properties"):
        admit(encode(replace(few, properties={**few.properties, "one more": 1})))


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_refused_or_a_message(data: bytes, is_stored: bool) -> None:
    _is_refused_or_a_message(stored(data) if is_stored else data)


@given(envelopes(), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3))
def test_a_message_with_other_bytes_in_it_is_refused_or_a_message(
    envelope: Envelope, changes: list[tuple[int, int]]
) -> None:
    array = bytearray(encode(envelope)[HEAD_SIZE:])
    for at, byte in changes:
        array[at % len(array)] = byte
    _is_refused_or_a_message(stored(bytes(array)))


def _is_refused_or_a_message(data: bytes) -> None:
    try:
        (read,) = read_sends(packed(data))
    except ProfileError:
        return
    read.forget()
    frame = to_frame(read, PYJMS)  # what another client may get
    assert frame.headers["priority"] in "0123456789"
    assert repr(_plain(decode(encode(_plain(read))))) == repr(_plain(read))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((0, 0), (0, 3), (0, 7), (1, ""), (1, "a\0b"), (1, "x" * 20_000), (1, None), (2, 7), (3, -1), (3, 2**63)),
        *((4, -1), (5, 0), (5, 3), (6, -1), (6, 10), (7, 7), (8, 3), (8, 1), (10, 7), (11, []), (11, {"a": 2**31})),
        *((11, {"a": [1]}), (11, {1: 1}), (12, 6), (12, 3), (12, 4), (13, 7)),
    ],
)
@pytest.mark.parametrize("properties", [{}, {"long": Long(1)}], ids=["quickly", "slowly"])
def test_what_no_message_may_say_is_refused(place: int, value: object, properties: dict[str, Any]) -> None:
    fields = [*_array(make_envelope("x", properties=properties))]
    fields[place] = value
    with pytest.raises(CodecError):
        admit(stored(msgspec.msgpack.encode(fields)))


@pytest.mark.parametrize("kind", [BodyKind.MAP, BodyKind.STREAM])
def test_an_int_in_a_body_that_is_none_of_javas_is_refused(kind: BodyKind) -> None:
    body: Any
    for number, is_good in ((2**31, False), (2**31 - 1, True)):
        body = {"a": number} if kind is BodyKind.MAP else (number,)
        data = encode(replace(make_envelope("x"), body_kind=kind, body=body))
        if is_good:
            assert admit(data).body == body
        else:
            with pytest.raises(CodecError):
                admit(data)


def _array(envelope: Envelope) -> tuple[Any, ...]:
    return tuple(msgspec.msgpack.decode(encode_plain(envelope)))


@pytest.mark.parametrize("depth", [100, 100_000])
def test_a_body_of_lists_in_lists_is_refused(depth: int) -> None:
    fields = [*_array(make_envelope("x"))]
    fields[13] = 0
    array = msgspec.msgpack.encode(fields)[:-1] + b"\x91" * depth + b"\1"
    with pytest.raises(CodecError):
        admit(stored(array))


def test_a_destination_that_plain_headers_cannot_carry_is_refused() -> None:
    for name in ("", "a\0b", "\ud800"):
        envelope = replace(make_envelope("x"), destination=Address(AddressKind.QUEUE, name))
        with pytest.raises(CodecError, match=r"has a name of 1 to .* half of a surrogate pair; this one is"):
            admit(encode(envelope))
        with pytest.raises(CodecError, match="that of JMSReplyTo"):
            admit(encode(replace(make_envelope("x"), reply_to=envelope.destination)))
