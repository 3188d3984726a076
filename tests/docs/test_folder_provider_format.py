"""The files of the guide's provider: every message survives, and no content makes the reader fail in another way."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Float, Long, Short
from tests.pyjms.spi.folder import folder_provider

if TYPE_CHECKING:
    from collections.abc import Mapping

texts = st.text(st.characters(), max_size=8)  # lone surrogates too: a Java String may hold them
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**7), 2**7 - 1).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(Long),
    st.floats(width=32).map(Float),
    st.floats(),
    texts,
)
values = scalars | st.characters(max_codepoint=0xFFFF).map(Char) | st.binary(max_size=8)
BODIES = {
    BodyKind.NONE: st.none(),
    BodyKind.TEXT: st.none() | texts,
    BodyKind.BYTES: st.binary(max_size=20),
    BodyKind.MAP: st.dictionaries(texts, values, max_size=4),
    BodyKind.STREAM: st.lists(values, max_size=4).map(tuple),
    BodyKind.OBJECT: st.none() | st.binary(max_size=20).map(lambda data: ObjectBody(data, local=False)),
}
kinds_and_bodies = st.sampled_from(BodyKind).flatmap(lambda kind: st.tuples(st.just(kind), BODIES[kind]))
addresses = st.builds(Address, st.sampled_from(AddressKind), texts, st.booleans())
HERE = Address(AddressKind.QUEUE, "here")


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    kind, body = draw(kinds_and_bodies)
    return Envelope(
        destination=HERE,
        message_id=draw(st.none() | texts.map(MessageId)),
        timestamp_ms=draw(st.integers(0, 2**53)),
        expiration_ms=draw(st.integers(0, 2**53)),
        delivery_mode=draw(st.sampled_from([1, 2])),
        priority=draw(st.integers(0, 9)),
        correlation_id=draw(st.none() | texts | st.binary(max_size=8)),
        reply_to=draw(st.none() | addresses),
        jms_type=draw(st.none() | texts),
        properties=draw(st.dictionaries(texts, scalars, max_size=4)),
        body_kind=kind,
        body=body,
    )


def comparable(value: Any) -> Any:
    """Return a value that is equal only to what has the same types in it; NaN is one value, and zero has a sign."""
    if isinstance(value, (tuple, list)):
        return [comparable(each) for each in value]
    if hasattr(value, "items"):
        mapping: Mapping[str, Any] = value
        return {name: comparable(each) for name, each in mapping.items()}
    if isinstance(value, float):
        return (type(value), "nan") if math.isnan(value) else (type(value), value, math.copysign(1, value))
    return type(value), value


@given(envelopes())
def test_a_message_is_read_as_it_was_written(envelope: Envelope) -> None:
    data = folder_provider.encode(envelope)
    again = folder_provider.decode(data, HERE)
    for name in Envelope.__dataclass_fields__:
        assert comparable(getattr(again, name)) == comparable(getattr(envelope, name)), name


@given(envelopes())
def test_a_file_is_json_in_ascii(envelope: Envelope) -> None:
    content = json.loads(folder_provider.encode(envelope).decode("ascii"))
    assert content["version"] == folder_provider.FORMAT_VERSION


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
tagged = st.lists(st.sampled_from(["byte", "long", "float", "char", "bytes"]), min_size=1, max_size=1)


@given(envelopes(), st.data())
def test_a_field_with_anything_in_it_is_read_or_refused(envelope: Envelope, data: st.DataObject) -> None:
    content = json.loads(folder_provider.encode(envelope))
    field = data.draw(st.sampled_from(sorted(content)))
    tag = data.draw(st.just([]) | tagged)
    content[field] = [*tag, data.draw(anything)] if tag else data.draw(anything)
    try:
        read = folder_provider.decode(json.dumps(content).encode(), HERE)
    except folder_provider._UNREADABLE:
        return
    folder_provider.encode(read)  # what passes is an envelope like any other


@given(envelopes(), st.data())
def test_a_damaged_file_is_read_or_refused(envelope: Envelope, data: st.DataObject) -> None:
    content = bytearray(folder_provider.encode(envelope))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for damaged in (bytes(content), bytes(content[:cut])):
        try:
            folder_provider.decode(damaged, HERE)
        except folder_provider._UNREADABLE:
            continue


@given(st.lists(texts.filter(bool), unique=True, max_size=6))
def test_names_of_files_are_plain_and_tell_names_apart(names: list[str]) -> None:
    encoded = [folder_provider.to_file_name(name).lower() for name in names]
    assert len(set(encoded)) == len(names)
    for name in encoded:
        assert name.isascii()
        assert set(name).isdisjoint("/\\. :\0")
