"""The quick way of writing a message says the same as the long one, or leaves it to that."""

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
from pyjms_provider.protocols.stomp.errors import FrameError, StompError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.known_heads import KnownFrame
from pyjms_provider.protocols.stomp.profile import PassedEnvelope, from_frame, quick, quick_frame, to_frame
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


def read(data: bytes) -> Frame:
    (frame,) = FrameDecoder(version=Version.V1_2, lazy=True).feed(data)
    assert isinstance(frame, Frame)
    return frame


def the_long_way(envelope: Envelope, command: str, **headers: str) -> bytes:
    frame = to_frame(envelope, PYJMS, command=command)
    frame.headers |= headers
    return encode(frame, Version.V1_2)


@given(envelopes(), st.booleans())
def test_the_quick_way_says_the_same(envelope: Envelope, asks: bool) -> None:
    try:
        expected = the_long_way(envelope, "SEND", session="s1", **({"receipt": "r1"} if asks else {}))
    except StompError:
        return
    made = quick_frame("SEND", envelope)
    if made is None:
        return
    send = PreparedSend(made, "s1")
    if asks:
        send.headers["receipt"] = "r1"
    assert read(send.prepared()) == read(expected)


@given(envelopes())
def test_what_came_by_the_wire_goes_on_as_it_came(envelope: Envelope) -> None:
    try:
        sent = the_long_way(envelope, "SEND", session="s1")
    except StompError:
        return
    arrived = from_frame(read(sent), PYJMS)
    made = quick_frame("MESSAGE", arrived)
    if made is not None:
        data = b"".join([made.common.encode(), made.own.encode(), made.tail.encode(), made.body, b"\0"])
        assert read(data) == read(the_long_way(arrived, "MESSAGE"))


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
        {"correlation_id": "a\\:b"},
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
        made = quick_frame("SEND", envelope)
        assert made is not None
        assert f"destination:/queue/q{number}\n" in made.common
        assert f"\np{number}:1\n" in made.tail
    assert max(len(quick._destinations), len(quick._shapes)) <= 1024


def test_a_block_that_is_known_means_what_it_meant_the_first_time() -> None:
    decoder = FrameDecoder(version=Version.V1_2, lazy=True)
    head = "SEND\ndestination:/queue/a\\cb\nname:value\nexpires:{}\n{}JMS_pyjms:1;k=text\n\n\0"
    data = "".join([head.format(number, "") for number in range(3)]).encode()
    frames = [frame for frame in decoder.feed(data) if isinstance(frame, Frame)]
    assert [frame.headers for frame in frames] == [
        {"destination": "/queue/a:b", "name": "value", "expires": str(number)} for number in range(3)
    ]
    frames[0].headers["name"] = "changed"
    (again,) = decoder.feed(head.format(3, "").encode())
    assert isinstance(again, Frame)
    assert again.headers["name"] == "value"
    (repeated,) = decoder.feed(head.format(4, "name:other\n").encode())
    assert isinstance(repeated, Frame)
    assert repeated.headers["name"] == "value"
    assert ("name", "other") in repeated.pairs


@pytest.mark.parametrize(
    "lines", ["no colon\nexpires:0\n", "a:b\nexpires:0\nno colon\n", ":x\nexpires:0\n", "a:\\t\nexpires:0\n"]
)
def test_what_is_wrong_with_a_block_is_said_as_of_any_other_line(lines: str) -> None:
    tail = "JMS_pyjms:1;k=text\n"
    said = []
    for lazy in (True, False):
        decoder = FrameDecoder(version=Version.V1_2, lazy=lazy)
        with pytest.raises(FrameError) as raised:
            list(decoder.feed(f"SEND\n{lines}{tail}\n\0".encode()))
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_blocks_that_are_known_are_bounded() -> None:
    decoder = FrameDecoder(version=Version.V1_2, lazy=True)
    for number in range(1000):
        head = f"SEND\ndestination:/queue/q{number}\nexpires:0\ncontent-length:0\nJMS_pyjms:1;k=msg;i=ID%3A1"
        (frame,) = decoder.feed(f"{head}\n\n\0".encode())
        assert isinstance(frame, KnownFrame)
    assert 0 < len(decoder._parser._known) <= 256


def test_a_known_head_is_no_way_for_a_header_to_stand_twice() -> None:
    decoder = FrameDecoder(version=Version.V1_2, lazy=True)
    head = "SEND\ncontent-length:1\nexpires:0\ncontent-length:2\nJMS_pyjms:1;k=bytes;i=ID%3A1\n\nx\0"
    (frame,) = decoder.feed(head.encode())
    assert isinstance(frame, Frame)
    assert not isinstance(frame, KnownFrame)
    assert frame.headers["content-length"] == "1"
    assert ("content-length", "2") in frame.pairs


@given(envelopes(), st.booleans())
def test_a_known_head_is_read_as_any_other(envelope: Envelope, asks: bool) -> None:
    made = quick_frame("SEND", envelope)
    if made is None:
        return
    send = PreparedSend(made, "s1")
    if asks:
        send.headers["receipt"] = "r\\c1"
    known, other = read(send.prepared()), read(send.prepared().replace(b"JMS_pyjms:1;k", b"JMS_pyjms:1;new=1;k"))
    assert isinstance(known, KnownFrame)
    assert not isinstance(other, KnownFrame)
    assert known.headers == other.headers
    assert known.receipt == other.receipt == ("r:1" if asks else None)
    assert known.tail == other.tail.replace("new=1;", "")
    assert known.pairs == other.pairs
    assert from_frame(known, PYJMS) == from_frame(other, PYJMS)
    assert dict(from_frame(known, PYJMS).properties) == dict(from_frame(other, PYJMS).properties)


@given(envelopes())
def test_what_is_passed_on_is_what_would_be_written_anew(envelope: Envelope) -> None:
    made = quick_frame("SEND", envelope)
    if made is None:
        return
    send = PreparedSend(made, "s1")
    send.headers["receipt"] = "r1"
    arrived = from_frame(read(send.prepared()), PYJMS)
    assert isinstance(arrived, PassedEnvelope)
    assert not hasattr(replace(arrived, expiration_ms=arrived.expiration_ms + 1), "passed")
    if envelope.body_kind in (BodyKind.TEXT, BodyKind.BYTES) and quick_frame("MESSAGE", envelope) is not None:
        lines, rest = getattr(arrived, "passed", ("", ""))
        if not rest:
            assert envelope.body is None or "\ud800" in str(envelope.body)
            return
        anew = quick_frame("MESSAGE", arrived)
        assert anew is not None
        assert f"MESSAGE\n{lines}" == anew.common
        assert f"{rest}\n\n" == anew.own + anew.tail
        assert made.body == anew.body


@pytest.mark.parametrize("extra", ["ack:7", "subscription:other", "redelivered:true", "name:value"])
def test_headers_that_are_the_brokers_own_are_not_passed_on(extra: str) -> None:
    made = quick_frame("SEND", make_envelope("x"))
    assert made is not None
    data = PreparedSend(made, "s1").prepared().replace(b"\nsession:", f"\n{extra}\nsession:".encode(), 1)
    assert not hasattr(from_frame(read(data), PYJMS), "passed")


@pytest.mark.parametrize("line", ["a\\:b", "a:\\t", "no colon", ":x"])
def test_a_property_line_that_is_wrong_is_refused_behind_a_known_head(line: str) -> None:
    made = quick_frame("SEND", make_envelope("x"))
    assert made is not None
    data = PreparedSend(made, "s1").prepared().replace(b"\n\n", f"\n{line}\n\n".encode(), 1)
    with pytest.raises(FrameError):
        read(data)
