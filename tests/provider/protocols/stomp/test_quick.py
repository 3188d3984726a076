"""The quick way of writing a message makes the same bytes as the long one, or leaves it to that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short
from pyjms_provider.clients.stomp.profiled.prepared import PreparedSend
from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.errors import StompError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.profile import from_frame, quick, quick_frame, to_frame
from tests.provider.helpers import make_envelope

TEXTS = st.one_of(
    st.text(max_size=12), st.sampled_from(["", "a:b", "a\nb", "\\", "\r", "\0", "\ud800", "é", "%s", "50 %"])
)
NAMES = st.one_of(
    st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,6}", fullmatch=True),
    st.sampled_from(["type", "receipt", "ack", "JMS_pyjms_1", "a b", "a:b", "a%sb", "é", "x-y", "JMSXGroupID"]),
)
VALUES: st.SearchStrategy[Any] = st.one_of(
    TEXTS,
    st.booleans(),
    st.none(),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-(2**63), 2**63 - 1).map(Long),
    st.floats(width=32).map(Float),
    st.floats().map(Double),
    st.floats(),
    st.sampled_from("a:\0é\n").map(Char),
)
ADDRESSES = st.builds(
    Address, st.sampled_from(AddressKind), st.sampled_from(["orders", "a:b", "a\\b", "é", "a/b"]), st.booleans()
)
BODIES: st.SearchStrategy[tuple[BodyKind, Any]] = st.one_of(
    st.tuples(st.just(BodyKind.TEXT), st.one_of(st.none(), TEXTS)),
    st.tuples(st.just(BodyKind.BYTES), st.binary(max_size=9)),
    st.tuples(st.just(BodyKind.NONE), st.none()),
    st.tuples(st.just(BodyKind.MAP), st.just({"a": 1})),
    st.tuples(st.just(BodyKind.STREAM), st.just(("a", None))),
    st.tuples(st.just(BodyKind.OBJECT), st.sampled_from([None, ObjectBody(b"x", local=False)])),
)


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    kind, body = draw(BODIES)
    return Envelope(
        draw(ADDRESSES),
        draw(st.one_of(st.none(), st.sampled_from(["ID:a:1", "ID:q7-0001", "ID:%", "ID:é", "x"]).map(MessageId))),
        draw(st.sampled_from([0, 1767323045678])),
        draw(st.sampled_from([0, 1767323045679])),
        draw(st.sampled_from([1, 2])),
        draw(st.integers(0, 9)),
        draw(st.one_of(st.none(), TEXTS, st.binary(max_size=3))),
        draw(st.one_of(st.none(), ADDRESSES)),
        draw(st.one_of(st.none(), TEXTS)),
        draw(st.dictionaries(NAMES, VALUES, max_size=5)),
        kind,
        body,
    )


def the_long_way(envelope: Envelope, command: str, **headers: str) -> bytes:
    frame = to_frame(envelope, PYJMS, command=command)
    frame.headers |= headers
    return encode(frame, Version.V1_2)


@given(envelopes(), st.booleans())
def test_the_quick_way_makes_the_same_bytes(envelope: Envelope, asks: bool) -> None:
    try:
        expected = the_long_way(envelope, "SEND", session="s1", **({"receipt": "r1"} if asks else {}))
    except StompError:
        return
    made = quick_frame("SEND", envelope)
    if made is None:
        return
    before, after, body = made
    send = PreparedSend(f"{before}session:s1\n", after, body)
    if asks:
        send.headers["receipt"] = "r1"
    assert send.prepared() == expected


@given(envelopes())
def test_what_came_by_the_wire_goes_on_as_it_came(envelope: Envelope) -> None:
    try:
        sent = the_long_way(envelope, "SEND", session="s1")
    except StompError:
        return
    (frame,) = FrameDecoder(version=Version.V1_2, lazy=True).feed(sent)
    assert isinstance(frame, Frame)
    arrived = from_frame(frame, PYJMS)
    made = quick_frame("MESSAGE", arrived)
    if made is not None:
        before, after, body = made
        assert b"".join([before.encode(), after.encode(), body, b"\0"]) == the_long_way(arrived, "MESSAGE")


@pytest.mark.parametrize("properties", [{}, {"cups": 2, "name": "espresso", "ratio": 0.5, "hot": True}])
def test_ordinary_messages_go_the_quick_way(properties: dict[str, Any]) -> None:
    envelope = replace(make_envelope("x", properties=properties), jms_type="order", correlation_id="7")
    assert quick_frame("SEND", envelope) is not None
    assert quick_frame("SEND", envelope) == quick_frame("SEND", replace(envelope))


@pytest.mark.parametrize(
    "change",
    [
        {"message_id": None},
        {"message_id": MessageId("ID:a;b")},
        {"correlation_id": b"x"},
        {"correlation_id": "a:b"},
        {"jms_type": "a\nb"},
        {"properties": {"type": "x"}},
        {"properties": {"a": None}},
        {"properties": {"a": "b:c"}},
        {"properties": {f"p{number}": 1 for number in range(65)}},
    ],
)
def test_others_do_not(change: dict[str, Any]) -> None:
    assert quick_frame("SEND", replace(make_envelope("x"), **change)) is None


def test_what_is_known_of_messages_is_bounded() -> None:
    for number in range(3000):
        address = Address(AddressKind.QUEUE, f"q{number}")
        envelope = make_envelope("x", destination=address, properties={f"p{number}": 1})
        before, after, _ = quick_frame("SEND", envelope) or ("", "", b"")
        assert f"destination:/queue/q{number}\n" in before
        assert f"\np{number}:1\n" in after
    assert max(len(quick._destinations), len(quick._shapes)) <= 1024
