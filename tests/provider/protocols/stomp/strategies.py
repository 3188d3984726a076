"""Frames and messages for property-based tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short
from pyjms_provider.protocols.stomp.frames import Frame, Version

VERSIONS = st.sampled_from(Version)
COMMANDS = st.sampled_from(["SEND", "MESSAGE", "ERROR", "ACK", "CREDIT"])
_TEXT = st.characters(exclude_characters="\0", exclude_categories=["Cs"])


def _header_text(version: Version, *, is_name: bool) -> st.SearchStrategy[str]:
    """Return texts that `version` can carry."""
    least = 1 if is_name else 0
    if version is Version.V1_0:
        excluded = "\0\n\r:" if is_name else "\0\n\r"
        plain = st.text(st.characters(exclude_characters=excluded, exclude_categories=["Cs"]), min_size=least)
        return plain.map(lambda text: text.strip(" \t")).filter(lambda text: len(text) >= least)
    return st.text(_TEXT, min_size=least)


@st.composite
def frames(draw: st.DrawFn, version: Version) -> Frame:
    """Draw frames that `version` can carry, some with a content-length, some without."""
    names, values = _header_text(version, is_name=True), _header_text(version, is_name=False)
    headers = draw(st.dictionaries(names, values, max_size=6))
    headers.pop("content-length", None)
    body = draw(st.binary(max_size=60))
    if b"\0" in body or draw(st.booleans()):
        headers["content-length"] = str(len(body))
    return Frame(draw(COMMANDS), headers, body)


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
        draw(st.sampled_from([0, 1767323045680, 2**63 - 1])),
    )
