"""JMS messages as AMQP messages, and back; and the messages of clients that know no JMS (part 3, 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Float, Long, Short, Stored
from pyjms_provider.amqp import performatives
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
    write_value,
)
from pyjms_provider.amqp.errors import DecodeError, EncodeError
from pyjms_provider.amqp.jms import (
    CONTENT_TYPE,
    JAVA_OBJECT_TYPE,
    amqp_id_of,
    correlation_id_of,
    message_id_of,
    read_message,
    stored_of,
    write_message,
)
from pyjms_provider.amqp.message import (
    DATA,
    SEQUENCE,
    VALUE,
    Message,
    write_annotations,
    write_application_properties,
    write_section,
)
from pyjms_provider.amqp.performatives import Header, Properties
from tests.provider.protocols.amqp.values import SCALARS, TEXTS

NOW = 1_800_000_000_000
QUEUE = Address(AddressKind.QUEUE, "orders")
_ADDRESSES = st.builds(Address, st.sampled_from(AddressKind), TEXTS.filter(bool), st.booleans())
_STORED: st.SearchStrategy[Stored] = st.one_of(
    *[SCALARS[name] for name in ("null", "boolean", "byte", "short", "int", "long", "float", "double", "string")]
)
_FIELDS: st.SearchStrategy[Stored] = st.one_of(_STORED, SCALARS["char"], SCALARS["binary"])
_BODIES: st.SearchStrategy[tuple[BodyKind, Any]] = st.one_of(
    st.tuples(st.just(BodyKind.NONE), st.none()),
    st.tuples(st.just(BodyKind.TEXT), st.none() | TEXTS),
    st.tuples(st.just(BodyKind.BYTES), st.binary(max_size=300)),
    st.tuples(st.just(BodyKind.MAP), st.dictionaries(TEXTS, _FIELDS, max_size=4)),
    st.tuples(st.just(BodyKind.STREAM), st.lists(_FIELDS, max_size=4).map(tuple)),
    st.tuples(
        st.just(BodyKind.OBJECT), st.none() | st.binary(max_size=9).map(lambda data: ObjectBody(data, local=False))
    ),
)
_NAMES = st.one_of(TEXTS, st.sampled_from(["JMSXGroupID", "JMSXUserID", "JMS_AMQP_ContentEncoding"]))


def _named(properties: Mapping[str, Stored]) -> dict[str, Stored]:
    """These properties are fields of AMQP's, and texts that a symbol holds."""
    return {
        name: str(value).encode("ascii", "ignore").decode() if name.startswith("JMS") else value
        for name, value in properties.items()
    }


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    kind, body = draw(_BODIES)
    return Envelope(
        destination=draw(_ADDRESSES),
        message_id=draw(st.none() | TEXTS.map(lambda text: MessageId(f"ID:{text}"))),
        timestamp_ms=draw(st.integers(0, 2**50)),
        expiration_ms=draw(st.integers(0, 2**50)),
        delivery_mode=draw(st.sampled_from([1, 2])),
        priority=draw(st.integers(0, 9)),
        correlation_id=draw(st.one_of(st.none(), TEXTS, st.binary(max_size=20))),
        reply_to=draw(st.none() | _ADDRESSES),
        jms_type=draw(st.none() | TEXTS),
        properties=draw(st.dictionaries(_NAMES, _STORED, max_size=4).map(_named)),
        body_kind=kind,
        body=body,
    )


def _shape(value: Any) -> Any:
    """Return a value with the classes of all that is in it."""
    if isinstance(value, Mapping):
        return {key: _shape(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_shape(item) for item in value]
    return type(value), repr(value)


@settings(max_examples=40)
@given(envelopes())
def test_a_message_comes_as_it_was_sent(envelope: Envelope) -> None:
    read = read_message(Message(write_message(envelope, now_ms=NOW)), now_ms=NOW, destination=None)
    for field in ("properties", "body"):
        assert _shape(getattr(read, field)) == _shape(getattr(envelope, field))
    assert replace(read, properties={}, body=None) == replace(envelope, properties={}, body=None)


@settings(max_examples=40)
@given(envelopes())
def test_the_bare_message_is_the_bytes_that_were_sent(envelope: Envelope) -> None:
    data = write_message(envelope, now_ms=NOW, delivery_count=3)
    message = Message(data)
    assert data.endswith(message.bare)
    assert message.header.delivery_count == 3
    again = performatives.write(Header(False, 1)) + message.bare
    assert Message(again).bare == message.bare


# As Qpid JMS says the ids of other encodings.
IDS = [
    ("ID:a-1", "ID:a-1", "ID:a-1"),
    ("plain", "ID:AMQP_NO_PREFIX:plain", "plain"),
    (
        UUID(int=5),
        "ID:AMQP_UUID:00000000-0000-0000-0000-000000000005",
        "ID:AMQP_UUID:00000000-0000-0000-0000-000000000005",
    ),
    (ULong(42), "ID:AMQP_ULONG:42", "ID:AMQP_ULONG:42"),
    (b"\x01\xab", "ID:AMQP_BINARY:01AB", b"\x01\xab"),
    ("ID:AMQP_UUID:x", "ID:AMQP_STRING:ID:AMQP_UUID:x", "ID:AMQP_STRING:ID:AMQP_UUID:x"),
    (None, None, None),
]


@pytest.mark.parametrize(("value", "message_id", "correlation_id"), IDS)
def test_an_id_of_any_encoding_is_told_and_goes_back_as_it_came(
    value: Any, message_id: str | None, correlation_id: Any
) -> None:
    assert message_id_of(value) == message_id
    assert correlation_id_of(value) == correlation_id
    for text in (message_id, correlation_id):
        assert amqp_id_of(text) == value
        assert type(amqp_id_of(text)) is type(value)


@pytest.mark.parametrize(
    "text", ["ID:AMQP_UUID:x", "ID:AMQP_ULONG:-", "ID:AMQP_BINARY:0", "ID:AMQP_ULONG:18446744073709551616"]
)
def test_a_text_that_only_looks_like_an_encoded_id_stays(text: str) -> None:
    assert amqp_id_of(text) == text


def _foreign(body: bytes, properties: Properties | None = None, **application: Any) -> Envelope:
    """Return what a message of a client that knows no JMS is."""
    data = performatives.write(properties or Properties())
    if application:
        data += write_application_properties(application)
    return read_message(Message(data + body), now_ms=NOW, destination=QUEUE)


@pytest.mark.parametrize(
    ("section", "content_type", "kind", "body"),
    [
        (b"", None, BodyKind.NONE, None),
        (write_section(VALUE, write_value(None)), None, BodyKind.TEXT, None),
        (write_section(VALUE, write_value("hi")), None, BodyKind.TEXT, "hi"),
        (write_section(VALUE, write_value(Symbol("hi"))), None, BodyKind.TEXT, "hi"),
        (write_section(VALUE, write_value(b"hi")), None, BodyKind.BYTES, b"hi"),
        (write_section(VALUE, write_value({"a": UInt(1)})), None, BodyKind.MAP, {"a": 1}),
        (write_section(VALUE, write_value([1, "a"])), None, BodyKind.STREAM, (1, "a")),
        (write_section(VALUE, write_value(Array((1, 2)))), None, BodyKind.STREAM, (1, 2)),
        (write_section(VALUE, write_value(5)), None, BodyKind.STREAM, (5,)),
        (write_section(VALUE, write_value({"a": [1]})), None, BodyKind.BYTES, write_value({"a": [1]})),
        (write_section(VALUE, write_value({1: "a"})), None, BodyKind.BYTES, write_value({1: "a"})),
        (
            write_section(VALUE, write_value(Described(ULong(9), 1))),
            None,
            BodyKind.BYTES,
            write_value(Described(ULong(9), 1)),
        ),
        (
            write_section(SEQUENCE, write_value([1])) + write_section(SEQUENCE, write_value([2])),
            None,
            BodyKind.STREAM,
            (1, 2),
        ),
        (write_section(DATA, write_value(b"\xff")), None, BodyKind.BYTES, b"\xff"),
        (
            write_section(DATA, write_value(b"a")) + write_section(DATA, write_value(b"b")),
            "application/octet-stream",
            BodyKind.BYTES,
            b"ab",
        ),
        (write_section(DATA, write_value("é".encode())), "text/plain", BodyKind.TEXT, "é"),
        (write_section(DATA, write_value(b"\xe9")), "text/plain; charset=ISO-8859-1", BodyKind.TEXT, "é"),
        (write_section(DATA, write_value(b"{}")), "application/vnd.x+json", BodyKind.TEXT, "{}"),
        (write_section(DATA, write_value(b"\xff")), "application/json", BodyKind.BYTES, b"\xff"),
        (write_section(DATA, write_value(b"x")), "text/plain;charset=none", BodyKind.BYTES, b"x"),
        (write_section(DATA, write_value(b"\xac\xed\x00\x05\x70")), JAVA_OBJECT_TYPE, BodyKind.OBJECT, None),
        (
            write_section(DATA, write_value(b"\xac\xed\x00\x05t")),
            JAVA_OBJECT_TYPE,
            BodyKind.BYTES,
            b"\xac\xed\x00\x05t",
        ),
        (
            write_section(DATA, write_value(b"p")),
            "application/vnd.pyjms.object+pickle",
            BodyKind.OBJECT,
            ObjectBody(b"p", local=False),
        ),
    ],
)
def test_a_body_of_any_client_has_a_kind(section: bytes, content_type: str | None, kind: BodyKind, body: Any) -> None:
    read = _foreign(section, Properties(content_type=content_type))
    assert (read.body_kind, read.body) == (kind, body)


def test_a_content_type_that_says_more_goes_on() -> None:
    read = _foreign(
        write_section(DATA, write_value(b"{}")), Properties(content_type="application/json", content_encoding="gzip")
    )
    assert read.properties == {CONTENT_TYPE: "application/json", "JMS_AMQP_ContentEncoding": "gzip"}
    assert Message(write_message(read, now_ms=NOW)).properties.content_type == "application/json"


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (UByte(200), Short(200)),
        (UShort(5), 5),
        (UInt(2**32 - 1), Long(2**32 - 1)),
        (ULong(5), Long(5)),
        (ULong(2**64 - 1), "18446744073709551615"),
        (Timestamp(-5), Long(-5)),
        (Symbol("a"), "a"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal(b"\0\1\2\3"), "00010203"),
        (Char("a"), Char("a")),
        (Float(1.5), Float(1.5)),
        ([1], "[1]"),
    ],
)
def test_a_value_that_jms_lacks_becomes_the_nearest(value: Any, stored: Stored) -> None:
    assert stored_of(value) == stored
    assert type(stored_of(value)) is type(stored)


def test_properties_of_any_type_are_read() -> None:
    read = _foreign(b"", None, a=UInt(1), b=Symbol("x"), c=None)
    assert read.properties == {"a": 1, "b": "x", "c": None}
    assert type(read.properties["a"]) is Long


@pytest.mark.parametrize(
    ("annotations", "address"),
    [
        ({}, Address(AddressKind.QUEUE, "answers")),
        ({"x-opt-jms-reply-to": Byte(1)}, Address(AddressKind.TOPIC, "answers")),
        ({"x-opt-jms-reply-to": Byte(2)}, Address(AddressKind.QUEUE, "answers", True)),
        ({"x-opt-jms-reply-to": Byte(9)}, Address(AddressKind.QUEUE, "answers")),
        ({"x-opt-reply-type": "topic,temporary"}, Address(AddressKind.TOPIC, "answers", True)),
    ],
)
def test_a_reply_destination_of_any_kind_is_told(annotations: dict[str, Any], address: Address) -> None:
    data = write_annotations(annotations) + performatives.write(Properties(reply_to="answers"))
    assert read_message(Message(data), now_ms=NOW, destination=QUEUE).reply_to == address


def test_the_prefixes_of_a_peer_are_taken_off() -> None:
    def strip(name: str) -> tuple[str, AddressKind | None]:
        return (name[8:], AddressKind.TOPIC) if name.startswith("topic://") else (name, None)

    data = performatives.write(Properties(to="topic://news", reply_to="orders"))
    read = read_message(Message(data), now_ms=NOW, destination=QUEUE, address=strip)
    assert (read.destination, read.reply_to) == (Address(AddressKind.TOPIC, "news"), QUEUE)


def test_without_a_header_a_message_is_not_durable() -> None:
    read = _foreign(write_section(VALUE, write_value("x")))
    assert (read.delivery_mode, read.priority, read.expiration_ms) == (1, 4, 0)


def test_a_time_to_live_alone_ends_from_now_on() -> None:
    data = performatives.write(Header(ttl=500, priority=200)) + write_section(VALUE, write_value("x"))
    read = read_message(Message(data), now_ms=NOW, destination=QUEUE)
    assert (read.expiration_ms, read.priority) == (NOW + 500, 9)


@settings(max_examples=40)
@given(envelopes(), st.data())
def test_a_message_that_is_cut_is_refused_by_name(envelope: Envelope, data: st.DataObject) -> None:
    written = write_message(envelope, now_ms=NOW)
    cut = written[: data.draw(st.integers(0, len(written)))]
    try:
        read_message(Message(cut), now_ms=NOW, destination=QUEUE)
    except DecodeError:
        assert len(cut) < len(written)


@pytest.mark.parametrize(
    "data",
    [
        b"\x40",
        b"\x00",
        b"\x00\x53\x6f\x45",
        write_section(VALUE, b"\x40") + performatives.write(Properties()),
        write_section(VALUE, b"\x40") * 2,
        write_section(DATA, write_value(b"x")) + write_section(VALUE, b"\x40"),
        b"\x00\x53\x74\x45",
        write_section(DATA, b"\x40"),
        b"\x00\xa3\x03foo\x45",
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_message(Message(data), now_ms=NOW, destination=QUEUE)


def test_sections_may_have_their_names_as_descriptors() -> None:
    data = b"\x00\xa3\x10amqp:amqp-value:*"[:2] + b"\x11amqp:amqp-value:*" + write_value("x")
    assert Message(data).body == "x"


@pytest.mark.parametrize(
    "changes",
    [
        {"body_kind": BodyKind.TEXT, "body": "\ud800"},
        {"body_kind": BodyKind.MAP, "body": {"\ud800": 1}},
        {"body_kind": BodyKind.STREAM, "body": ("\ud800",)},
        {"properties": {"\ud800": 1}},
        {"properties": {"name": "\ud800"}},
        {"properties": {"JMSXGroupID": "\ud800"}},
        {"jms_type": "\ud800"},
        {"message_id": "ID:\ud800", "timestamp_ms": 1},
        {"destination": Address(AddressKind.QUEUE, "\ud800"), "timestamp_ms": 1},
    ],
    ids=str,
)
def test_half_of_a_surrogate_pair_has_no_form(changes: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        write_message(replace(_foreign(b""), **changes), now_ms=NOW)


def test_short_sections_that_come_again_are_shared_and_cannot_be_changed() -> None:
    data = write_message(replace(_foreign(b""), body_kind=BodyKind.NONE, body=None), now_ms=NOW)
    first, second = Message(data).message_annotations, Message(data).message_annotations
    assert first is second
    with pytest.raises(TypeError):
        first["x"] = 1  # type: ignore[index]


def test_many_different_names_and_headers_are_read_and_written_too() -> None:
    for number in range(5000):
        envelope = replace(_foreign(b""), properties={f"name{number}": number}, expiration_ms=NOW + 1 + number)
        message = Message(write_message(envelope, now_ms=NOW))
        assert message.application_properties == {f"name{number}": number}
        assert message.header.ttl == 1 + number


def test_a_descriptor_that_is_no_ulong_is_no_section() -> None:
    with pytest.raises(DecodeError):
        Message(b"\x00\x52\x73\x45")


# As proton reads and writes it


@pytest.mark.requires("proton")
@settings(max_examples=40)
@given(envelopes())
def test_proton_reads_what_was_written(envelope: Envelope) -> None:
    import proton

    # Proton's strings end at a NUL.
    texts = (envelope.message_id, envelope.destination.name, envelope.jms_type, envelope.body)
    assume(not any(isinstance(text, str) and "\0" in text for text in texts))
    message = proton.Message()
    message.decode(write_message(envelope, now_ms=NOW))
    assert message.durable == (envelope.delivery_mode == 2)
    assert message.priority == envelope.priority
    assert message.id == envelope.message_id or envelope.message_id is None or "AMQP_" in envelope.message_id
    assert message.address == envelope.destination.name
    assert message.subject == envelope.jms_type
    if envelope.body_kind is BodyKind.TEXT:
        assert message.body == envelope.body
    if envelope.body_kind is BodyKind.BYTES:
        assert bytes(message.body) == envelope.body


@pytest.mark.requires("proton")
def test_what_proton_wrote_is_read() -> None:
    import proton

    message = proton.Message(
        id=proton.ulong(7),
        correlation_id="c",
        subject="t",
        reply_to="answers",
        durable=True,
        priority=7,
        ttl=5,
        body="hello",
        properties={"n": proton.int32(5), "s": "x"},
    )
    read = read_message(Message(bytes(message.encode())), now_ms=NOW, destination=QUEUE)
    assert (read.message_id, read.correlation_id, read.jms_type) == ("ID:AMQP_ULONG:7", "c", "t")
    assert (read.priority, read.delivery_mode, read.expiration_ms) == (7, 2, NOW + 5000)
    assert (read.body, read.properties) == ("hello", {"n": 5, "s": "x"})
    assert read.reply_to == Address(AddressKind.QUEUE, "answers")
