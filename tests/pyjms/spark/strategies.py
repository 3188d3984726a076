"""Any message that JMS allows, for property-based tests."""

from __future__ import annotations

from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, Body, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Float, Long, Short

TEXT = st.text(st.characters(), max_size=12)  # surrogates and NUL are among them
_LONG = st.integers(-(2**63), 2**63 - 1)
_NAMES = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,8}", fullmatch=True).filter(lambda name: not name.startswith("JMS"))
_PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-128, 127).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1),
    _LONG.map(Long),
    st.floats(width=32, allow_nan=False).map(Float),
    st.floats(allow_nan=False),
    TEXT,
)
_VALUES = st.one_of(_PLAIN, st.integers(0, 0xFFFF).map(lambda code: Char(chr(code))), st.binary(max_size=12))
_ADDRESS_NAMES = TEXT.filter(lambda name: name != "" and "\0" not in name)
_ADDRESSES = st.builds(Address, st.sampled_from(AddressKind), _ADDRESS_NAMES, st.booleans())
_MOMENTS = st.one_of(st.just(0), st.integers(1, 2**63 - 1), st.integers(1, 2_000_000_000_000))
_BODIES: dict[BodyKind, st.SearchStrategy[Body]] = {
    BodyKind.NONE: st.none(),
    BodyKind.TEXT: st.one_of(st.none(), TEXT),
    BodyKind.BYTES: st.binary(max_size=40),
    BodyKind.MAP: st.dictionaries(TEXT, _VALUES, max_size=4),
    BodyKind.STREAM: st.lists(_VALUES, max_size=4).map(tuple),
    BodyKind.OBJECT: st.one_of(st.none(), st.binary(max_size=20).map(lambda data: ObjectBody(data, local=False))),
}


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    """Draw a message."""
    kind = draw(st.sampled_from(BodyKind))
    return Envelope(
        draw(_ADDRESSES),
        draw(st.one_of(st.none(), TEXT.map(lambda text: MessageId(f"ID:{text}")))),
        draw(_MOMENTS),
        draw(_MOMENTS),
        draw(st.sampled_from([1, 2])),
        draw(st.integers(0, 9)),
        draw(st.one_of(st.none(), TEXT, st.binary(max_size=8))),
        draw(st.one_of(st.none(), _ADDRESSES)),
        draw(st.one_of(st.none(), TEXT)),
        draw(st.dictionaries(_NAMES, _PLAIN, max_size=5)),
        kind,
        draw(_BODIES[kind]),
    )
