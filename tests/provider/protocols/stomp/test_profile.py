"""Any legal message equals itself after frames of any version, and after brokers that keep nothing but strings."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.spi.errors import DestinationError, ResourceError
from pyjms.types import Byte, Char, Float, Long, Short, Stored
from pyjms_provider.protocols.stomp import message_properties as wire_properties
from pyjms_provider.protocols.stomp.codec import FrameDecoder, encode, split_lines
from pyjms_provider.protocols.stomp.command_frames import PROFILE_LIMITS
from pyjms_provider.protocols.stomp.dialects import ARTEMIS, CLASSIC, PYJMS, RABBITMQ, Dialect
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.message_properties import WireProperties, is_reserved, read_properties
from pyjms_provider.protocols.stomp.messages import expanded, from_frame, sender_of, to_frame
from pyjms_provider.stores.codec import decode as decode_stored
from pyjms_provider.stores.codec import encode as encode_stored
from tests.provider.envelopes import envelopes, shape
from tests.provider.helpers import make_envelope
from tests.provider.protocols.stomp.strategies import VERSIONS
from tests.provider.protocols.stomp.string_brokers import STRING_BROKERS

LINE = st.text(st.characters(exclude_characters="\0\r\n,?", exclude_categories=["Cs", "Zs", "Cc"]), min_size=1)
ADDRESSES = st.builds(Address, st.sampled_from(AddressKind), LINE, st.booleans())
LASTING = st.builds(Address, st.sampled_from(AddressKind), LINE)
QUEUE = Address(AddressKind.QUEUE, "orders")


def over_the_wire(frame: Frame, version: Version = Version.V1_2, *, lazy: bool = False) -> Frame:
    (arrived,) = FrameDecoder(PROFILE_LIMITS, version, lazy=lazy).feed(encode(frame, version))
    assert isinstance(arrived, Frame)
    return arrived


def named(envelope: Envelope) -> dict[str, object]:
    fields = {name: shape(getattr(envelope, name)) for name in Envelope.__dataclass_fields__}
    fields["properties"] = {name: shape(value) for name, value in envelope.properties.items()}
    return fields


def after(frame: Frame, dialect: Dialect = PYJMS, *, lazy: bool = True) -> Envelope:
    return from_frame(over_the_wire(frame, lazy=lazy), dialect)


def raw(headers: str, body: bytes = b"", *, command: str = "SEND", lazy: bool = False) -> Frame:
    stream = f"{command}\ndestination:/queue/orders\n{headers}\n".encode() + body + b"\0"
    (frame,) = FrameDecoder(version=Version.V1_2, lazy=lazy).feed(stream)
    assert isinstance(frame, Frame)
    return frame


# Between pyjms and its own broker


def test_a_broker_stores_properties_as_they_came() -> None:
    plain = replace(make_envelope("text"), properties={"region": "EU", "price": 3, "half": Float(0.5)})
    received = after(to_frame(plain, PYJMS))
    assert decode_stored(encode_stored(received)).properties == plain.properties


@pytest.mark.parametrize("lazy", [False, True])
@given(envelopes(ADDRESSES), VERSIONS)
def test_a_message_equals_itself_after_the_wire(lazy: bool, envelope: Envelope, version: Version) -> None:
    frame = to_frame(envelope, PYJMS, version=version)
    received = from_frame(over_the_wire(frame, version, lazy=lazy), PYJMS)
    assert named(received) == named(envelope)


@given(envelopes(ADDRESSES))
def test_a_message_that_is_passed_on_is_not_taken_apart(envelope: Envelope) -> None:
    arrived = over_the_wire(to_frame(envelope, PYJMS), lazy=True)
    passed_on = to_frame(from_frame(arrived, PYJMS), PYJMS, command="MESSAGE")
    assert passed_on.tail == arrived.tail
    assert named(after(passed_on)) == named(envelope)


def test_headers_that_are_added_to_a_frame_are_not_taken_for_properties() -> None:
    frame = to_frame(make_envelope("x", properties={"a": 1}), PYJMS)
    frame.headers["receipt"] = "7"
    arrived = over_the_wire(frame, lazy=True)
    assert arrived.headers["receipt"] == "7"
    assert from_frame(arrived, PYJMS).properties == {"a": 1}


def test_properties_stay_lines_until_somebody_asks() -> None:
    properties = after(to_frame(make_envelope("x", properties={"a": Short(1), "b": None}), PYJMS)).properties
    assert isinstance(properties, WireProperties)
    assert properties.lines == "a:1\n"
    assert (dict(properties), len(properties), "b" in properties, properties.get("c", 5)) == (
        {"a": 1, "b": None}, 2, True, 5,
    )  # fmt: skip
    assert type(properties["a"]) is Short


def test_an_object_that_came_over_a_wire_is_not_local_any_more() -> None:
    envelope = replace(make_envelope(), body_kind=BodyKind.OBJECT, body=ObjectBody(b"pickled", local=True))
    frame = to_frame(envelope, PYJMS)
    assert frame.headers["content-type"] == "application/vnd.pyjms.object+pickle"
    assert after(frame).body == ObjectBody(b"pickled", local=False)


def test_an_object_in_an_unknown_form_is_bytes() -> None:
    frame = raw("content-type:application/x-java-serialized-object\nJMS_pyjms:1;k=object\n", b"\xac\xed")
    assert (from_frame(frame, PYJMS).body_kind, from_frame(frame, PYJMS).body) == (BodyKind.BYTES, b"\xac\xed")


VALUES: list[Stored] = [
    True, False, Byte(-128), Short(32767), -(2**31), 2**31 - 1, Long(2**63 - 1), Long(-(2**63)), Float(0.1), Float(1e-45),
    Float(3.4028235e38), 0.1, 5e-324, 1.7976931348623157e308, -0.0, float("nan"), float("inf"), float("-inf"), Float(float("inf")),
    Char("x"), Char("\0"), Char("\ud800"), Char("\n"), Char(" "), "", " ", "a\nb", "a\r\nb", "a:b\\c", "\0", "\ud83d", "\ud83d\ude00",
    "😀", "true", "5", None,
]  # fmt: skip


@pytest.mark.parametrize("version", Version)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_value_keeps_type_and_bits(value: Stored, version: Version) -> None:
    in_body = replace(make_envelope(), body_kind=BodyKind.MAP, body={"v": value, "raw": b"\0\xff"})
    in_stream = replace(make_envelope(), body_kind=BodyKind.STREAM, body=(value, b"", value))
    for envelope in (make_envelope("x", properties={"v": value}), in_body, in_stream):
        received = from_frame(over_the_wire(to_frame(envelope, PYJMS, version=version), version), PYJMS)
        assert named(received) == named(envelope)


@pytest.mark.parametrize(
    "name",
    ["type", "priority", "id", "ack", "receipt", "timestamp", "selector", "transformation", "destination", "session",
     "JMS_pyjms", "JMS_pyjms_1", "JMS_pyjms_x_a", "JMS_pyjms_deliverAt", "JMSXGroupID", "_AMQ_x", "ümlaut", "a.b", "$x", "a b", "a:b",
     "content-length", "x-death", "", "\0", "\ud800", "%41"],
)  # fmt: skip
@pytest.mark.parametrize("value", ["text", 5, None], ids=repr)
@pytest.mark.parametrize("lazy", [False, True])
def test_every_name_of_a_property_travels(name: str, value: Stored, lazy: bool) -> None:
    envelope = make_envelope("x", properties={name: value, "other": "o"})
    assert named(after(to_frame(envelope, PYJMS), lazy=lazy)) == named(envelope)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_long_profile_header_is_split(lazy: bool) -> None:
    properties: dict[str, Stored] = {f"a_rather_long_name_of_a_property_{number}": number for number in range(1000)}
    frame = to_frame(make_envelope("x", properties=properties), PYJMS)
    values = {name: value for name, value in expanded(frame).headers.items() if name.startswith("JMS_pyjms")}
    assert set(values) == {"JMS_pyjms", "JMS_pyjms_1", "JMS_pyjms_2", "JMS_pyjms_3", "JMS_pyjms_4"}
    assert max(map(len, values.values())) == 8192
    assert dict(after(frame, lazy=lazy).properties) == properties


def test_a_sender_cannot_say_two_destinations() -> None:
    frame = raw("persistent:true\nJMS_pyjms:1;k=msg;to=q/secret;rt=q/secret;dm=1;pr=9;x=5;t=6\n")
    envelope = from_frame(frame, PYJMS)
    assert (envelope.destination, envelope.reply_to, envelope.delivery_mode, envelope.priority) == (QUEUE, None, 2, 4)
    assert (envelope.expiration_ms, envelope.timestamp_ms) == (0, 0)


# Through other brokers


@pytest.mark.parametrize("broker", STRING_BROKERS)
@given(envelopes(LASTING), VERSIONS)
def test_a_message_equals_itself_after_a_broker_of_strings(broker: str, envelope: Envelope, version: Version) -> None:
    dialect, pass_on = STRING_BROKERS[broker]
    sent = over_the_wire(to_frame(envelope, dialect, version=version), version)
    received = over_the_wire(pass_on(expanded(sent)), version)
    assert named(from_frame(received, dialect)) == named(envelope)


@pytest.mark.parametrize("broker", STRING_BROKERS)
def test_a_foreign_broker_gets_texts_as_texts(broker: str) -> None:
    dialect, _ = STRING_BROKERS[broker]
    assert "content-length" not in to_frame(make_envelope("hello"), dialect).headers
    assert "content-length" in to_frame(make_envelope("nul \0"), dialect).headers
    data = replace(make_envelope(), body_kind=BodyKind.BYTES, body=b"")
    assert to_frame(data, dialect).headers["content-length"] == "0"


def test_a_temporary_reply_to_is_what_classic_made_of_it() -> None:
    envelope = replace(make_envelope(), reply_to=Address(AddressKind.QUEUE, "n", temporary=True))
    dialect, pass_on = STRING_BROKERS["classic"]
    received = from_frame(over_the_wire(pass_on(expanded(to_frame(envelope, dialect)))), dialect)
    assert received.reply_to == Address(AddressKind.QUEUE, "/remote-temp-queue/ID:host-1:n", temporary=True)
    assert dialect.destinations.write_reply_to(received.reply_to) == "/remote-temp-queue/ID:host-1:n"


def test_relative_expiry_is_told_to_rabbitmq_and_absolute_expiry_kept() -> None:
    frame = to_frame(replace(make_envelope(), expiration_ms=10_000), RABBITMQ, now_ms=4_000)
    assert frame.headers["expiration"] == "6000"
    assert after(frame, RABBITMQ).expiration_ms == 10_000


def test_a_property_that_classic_does_not_take_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ResourceError, match=r"'big' takes 10\d\d\d bytes.*put it into the body"):
        to_frame(make_envelope("x", properties={"big": "ü" * 5_200}), CLASSIC)
    assert to_frame(make_envelope("x", properties={"big": "x" * 10_000}), CLASSIC).tail


@pytest.mark.parametrize("name", ["a,b", "a?x=y"])
def test_a_name_that_means_something_else_to_classic_is_refused(name: str) -> None:
    with pytest.raises(DestinationError, match="choose another name"):
        to_frame(replace(make_envelope(), destination=Address(AddressKind.QUEUE, name)), CLASSIC)


def test_the_sender_is_told_where_the_client_leaves_out_its_own() -> None:
    frame = to_frame(make_envelope("x"), RABBITMQ, connection_id="c 81")
    assert sender_of(over_the_wire(frame, lazy=True)) == sender_of(over_the_wire(frame)) == "c 81"
    assert sender_of(to_frame(make_envelope("x"), RABBITMQ)) is None


# Plain clients, at both ends


def test_a_plain_client_sees_what_plain_headers_can_carry() -> None:
    properties: dict[str, Stored] = {
        "i": 5,
        "f": Float(0.5),
        "s": "a b",
        "n": None,
        "type": "x",
        "u": "\0",
        "c": Char("c"),
        "z": True,
    }
    envelope = replace(make_envelope("hello", properties=properties), jms_type="t", correlation_id="c:1\t")
    frame = over_the_wire(to_frame(envelope, PYJMS, command="MESSAGE", profile=False))
    assert frame.tail == ""
    assert {name: frame.headers.get(name) for name in ("i", "f", "s", "n", "u", "c", "z", "type", "correlation-id")} == {
        "i": "5", "f": "0.5", "s": "a b", "n": None, "u": None, "c": "c", "z": "true", "type": "t", "correlation-id": "c:1\t",
    }  # fmt: skip
    assert not [name for name in frame.headers if name.startswith("JMS_pyjms")]
    assert "content-length" not in frame.headers


def test_a_plain_frame_is_a_message_of_strings() -> None:
    frame = raw(
        "cups:2\npriority:7\npersistent:true\nreply-to:/topic/answers\nexpires:99\ntype:t\ncorrelation-id:c\n", b"hello"
    )
    envelope = from_frame(frame, PYJMS)
    assert envelope == Envelope(
        QUEUE, None, 0, 99, 2, 7, "c", Address(AddressKind.TOPIC, "answers"), "t", {"cups": "2"}, BodyKind.TEXT, "hello"
    )


@pytest.mark.parametrize(
    ("dialect", "headers", "body", "kind"),
    [
        (PYJMS, "", b"x", BodyKind.TEXT),
        (PYJMS, "content-length:1\n", b"x", BodyKind.BYTES),
        (PYJMS, "content-length:1\namq-msg-type:text\n", b"x", BodyKind.TEXT),
        (PYJMS, "amq-msg-type:bytes\n", b"x", BodyKind.BYTES),
        (PYJMS, "", b"\xff", BodyKind.BYTES),
        (ARTEMIS, "content-length:1\namq-msg-type:text\n", b"x", BodyKind.BYTES),
        (ARTEMIS, "", b"x", BodyKind.TEXT),
        (RABBITMQ, "", b"x", BodyKind.BYTES),
        (RABBITMQ, "content-type:text/plain\ncontent-length:1\n", b"x", BodyKind.TEXT),
        (RABBITMQ, "content-type:application/json\n", b"{}", BodyKind.TEXT),
    ],
)
def test_text_or_bytes_is_told_by_the_rules_of_the_broker(
    dialect: Dialect, headers: str, body: bytes, kind: BodyKind
) -> None:
    assert from_frame(raw(headers, body), dialect).body_kind is kind


@pytest.mark.parametrize(
    ("dialect", "headers", "message_id"),
    [
        (CLASSIC, "message-id:ID:host-1\n", "ID:host-1"),
        (ARTEMIS, "message-id:c,1\namqMessageId:77\n", "ID:77"),
        (RABBITMQ, "message-id:T_1\n", "ID:T_1"),
    ],
)
def test_a_foreign_message_has_the_brokers_id(dialect: Dialect, headers: str, message_id: str) -> None:
    headers = headers.replace("ID:host", "ID\\chost")
    assert from_frame(raw(headers, command="MESSAGE"), dialect).message_id == MessageId(message_id)
    assert from_frame(raw(headers, command="SEND"), dialect).message_id is None


@pytest.mark.parametrize(
    "headers",
    [
        "priority:x\n",
        "priority:10\n",
        "priority:\u0664\n",
        "expires:-1\n",
        "expires:1e9\n",
        "timestamp:now\n",
        "reply-to:x\n",
    ],
)
def test_nonsense_in_foreign_headers_is_no_reason_to_refuse_a_message(headers: str) -> None:
    envelope = from_frame(raw(headers), PYJMS)
    assert (envelope.priority, envelope.expiration_ms, envelope.timestamp_ms, envelope.reply_to) == (4, 0, 0, None)


@pytest.mark.parametrize("line", ["", "destination:orders\n", "destination:/queue/\n"])
def test_a_frame_without_a_destination_is_refused(line: str) -> None:
    (frame,) = FrameDecoder().feed(f"SEND\n{line}\n\0".encode())
    assert isinstance(frame, Frame)
    with pytest.raises(DestinationError, match="write"):
        from_frame(frame, PYJMS)


# A bad profile header


@pytest.mark.parametrize(
    "value",
    ["", "1", "2;k=msg", "1;k", "1;k=poem", "1;k=text;i=%FF", "1;k=text;cb=xyz", "1;k=map", "1;k=stream", "1;k=text;ty=%ff",
     "1;k=text;c=%ff"],
)  # fmt: skip
@pytest.mark.parametrize("lazy", [False, True])
def test_a_bad_profile_header_makes_a_foreign_message(value: str, lazy: bool, caplog: pytest.LogCaptureFixture) -> None:
    frame = raw(f"JMS_pyjms:{value}\na:5\n", b"\x80", lazy=lazy)
    with caplog.at_level(logging.WARNING):
        envelope = from_frame(frame, PYJMS)
    assert (envelope.body_kind, envelope.body, envelope.properties) == (BodyKind.BYTES, b"\x80", {"a": "5"})
    assert "its JMS_pyjms header is wrong" in caplog.text


@pytest.mark.parametrize("types", ["a/B", "a/Q", "a/Z", "a/D", "a/X", "b/I", "a", "/", ",", "%ff/I", "a/I/I"])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_property_that_is_not_of_its_type_makes_strings_of_all(
    types: str, lazy: bool, caplog: pytest.LogCaptureFixture
) -> None:
    frame = raw(f"JMS_pyjms:1;k=text;p={types}\na:500 \n", b"x", lazy=lazy)
    with caplog.at_level(logging.WARNING):
        assert dict(from_frame(frame, PYJMS).properties) == {"a": "500 "}
    assert caplog.records


@pytest.mark.parametrize("lazy", [False, True])
def test_a_property_is_never_bytes_as_no_store_and_no_client_takes_one(
    lazy: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = from_frame(raw("JMS_pyjms:1;k=text;p=a/X\na:AAAA\n", b"x", lazy=lazy), PYJMS)
        assert dict(found.properties) == {"a": "AAAA"}
    assert caplog.records


@pytest.mark.parametrize(
    "body",
    ["", "{}", "[1]", "[[]]", '[["a"]]', '[["a","I"]]', '[["a","I","5"]]', '[["a","I",5.5]]', '[["a","I",true]]', '[["a","B",128]]',
     '[["a","J",5]]', '[["a","Z",1]]', '[["a","X","?"]]', '[["a","X",5]]', '[["a","N",5]]', '[["a","C","xx"]]', '[["a",[],5]]',
     '[["a","D","1"]]', '[["a","D",[]]]', '[[5,"I",5]]', '[["a","I",5,"V"]]', '[["?","I",5,"U"]]', "[" * 100_000, '[["a","K",99999]]',
     f'[["a","D",1{400 * "0"}]]', f'[["a","F",1{400 * "0"}]]'],
)  # fmt: skip
def test_a_map_that_is_none_is_a_foreign_message(body: str) -> None:
    envelope = from_frame(raw("JMS_pyjms:1;k=map\n", body.encode()), PYJMS)
    assert (envelope.body_kind, envelope.body) == (BodyKind.TEXT, body)


@given(st.text(), st.text(), st.binary(), st.booleans())
def test_no_profile_header_is_fatal(value: str, types: str, body: bytes, lazy: bool) -> None:
    headers = {"destination": "/queue/orders", "content-length": str(len(body))}
    tail = "".join(
        f"{name}:{text.encode('unicode_escape').decode().replace(chr(92), '%')}\n"
        for name, text in [("JMS_pyjms", f"1;k=map;{value};p={types}"), ("a", value)]
    )
    stream = encode(Frame("SEND", headers, body, tail=tail), Version.V1_2)
    (frame,) = FrameDecoder(version=Version.V1_2, lazy=lazy).feed(stream)
    assert isinstance(frame, Frame)
    assert from_frame(frame, PYJMS).destination == QUEUE
    dict(from_frame(frame, PYJMS).properties)


# Envelopes that break their own rules


@pytest.mark.parametrize(
    ("kind", "body", "properties"),
    [
        (BodyKind.TEXT, 5, {}),
        (BodyKind.MAP, (), {}),
        (BodyKind.MAP, {"a": object()}, {}),
        (BodyKind.STREAM, None, {}),
        (BodyKind.NONE, None, {"a": b"bytes"}),
        (BodyKind.NONE, None, {"a": object()}),
    ],
)
def test_what_no_message_may_hold_is_refused(kind: BodyKind, body: object, properties: dict[str, Stored]) -> None:
    envelope = replace(make_envelope(properties=properties), body_kind=kind, body=body)  # type: ignore[arg-type]
    with pytest.raises(ProfileError):
        to_frame(envelope, PYJMS)


def test_asking_for_a_name_that_is_not_in_the_text_takes_nothing_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = WireProperties("a:1\nJMS_pyjms_x_type:2\n", "a/I,n/N,type/T")
    read: list[object] = []
    monkeypatch.setattr(WireProperties, "_read", lambda self: read.append(self) or {"a": 1, "n": None, "type": "2"})  # type: ignore[func-returns-value]
    assert "JMS_pyjms_deliverAt" not in properties
    assert not read
    assert "a" in properties
    assert "n" in properties
    assert "type" in properties
    assert read


@given(st.dictionaries(st.text(max_size=5), st.text(), max_size=4), st.text(max_size=5))
def test_properties_know_what_they_have(properties: dict[str, Stored], name: str) -> None:
    received = after(to_frame(make_envelope("x", properties=properties), PYJMS)).properties
    assert (name in received) == (name in properties)


LINES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "name", "type", "JMS_pyjms_x_type", "receipt", "x y", "a\\cb", "JMS_pyjms_1"]),
        st.sampled_from(["1", "-7", "x", "", "0.5", "true", "1:2", "NaN", "99999999999999999999", "a\\nb", "é"]),
    ),
    max_size=5,
).map(lambda pairs: "".join(f"{name}:{value}\n" for name, value in pairs))
TYPES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "name", "type", "n", "%"]), st.sampled_from([*"ZBSIJFDCKTUXN", "?", ""])),
    max_size=3,
).map(lambda pairs: ",".join(f"{name}/{letter}" for name, letter in pairs))


@given(LINES, TYPES)
def test_properties_of_a_known_shape_are_read_as_one_by_one(lines: str, types: str) -> None:
    try:
        pairs = split_lines(lines, Version.V1_2)
        expected = read_properties(pairs, types)
    except ProfileError:
        expected = {name: value for name, value in reversed(pairs) if not is_reserved(name)}
    for _ in range(2):  # the second time the shape is known
        found = dict(WireProperties(lines, types))
        assert repr(sorted(found.items())) == repr(sorted(expected.items()))
        assert [type(found[name]) for name in expected] == [type(value) for value in expected.values()]


def test_shapes_that_are_known_are_bounded() -> None:
    for number in range(1000):
        assert dict(WireProperties(f"p{number}:1\n", f"p{number}/I")) == {f"p{number}": 1}
        assert f"q{number}" not in WireProperties("a:1\n", "")
    assert max(len(wire_properties._shapes), len(wire_properties._plain_names)) <= 512
