"""Composites and frames, alone and beside python-qpid-proton (parts 2 to 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms_provider.amqp import performatives
from pyjms_provider.amqp.codec import Described, Symbol, ULong, write_value
from pyjms_provider.amqp.errors import DecodeError, EncodeError, FramingError, LimitError
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    Accepted,
    Begin,
    Discharge,
    Disposition,
    End,
    Open,
    SaslOutcome,
    Target,
    Transfer,
    read,
    write,
)
from pyjms_provider.protocols.amqp.frames import Frame, FrameDecoder, FrameType, ProtocolHeader, ProtocolId, write_frame
from tests.provider.protocols.amqp.records import RECORDS
from tests.provider.protocols.amqp.values import VALUES


@settings(max_examples=40)
@given(RECORDS)
def test_what_was_written_is_read(record: Any) -> None:
    data = write(record)
    found, end = read(data)
    assert (found, end) == (record, len(data))


@settings(max_examples=40)
@given(RECORDS, st.data())
def test_a_record_that_is_cut_is_refused(record: Any, data: st.DataObject) -> None:
    written = write(record)
    with pytest.raises(DecodeError):
        read(written[: data.draw(st.integers(0, len(written) - 1))])


@pytest.mark.amqp_rule("1.3.4-b")
def test_what_is_default_is_not_written() -> None:
    assert write(Open("c")).hex() == "005310" + "c00401" + "a10163"
    assert (
        write(Disposition(role=True, first=1, state=ACCEPTED)).hex()
        == "005315" + "c00a05" + "41" + "5201" + "40" + "42" + "00532445"
    )
    assert write(Accepted()).hex() == "00532445"
    assert write(Discharge(b"t")).hex() == "005332" + "c00502" + "a00174" + "42", "but for what a broker asks for"


@pytest.mark.amqp_rule("1.5-a")
def test_a_descriptor_may_be_a_symbol_or_a_long_number() -> None:
    fields_of_open = b"\xc0\x04\x01\xa1\x01c"
    assert read(b"\x00\xa3\x0eamqp:open:list" + fields_of_open)[0] == Open("c")
    assert read(b"\x00\x80" + (0x10).to_bytes(8) + fields_of_open)[0] == Open("c")


@pytest.mark.parametrize("handle", ["5201", "7000000001"])
@pytest.mark.parametrize("number", ["5202", "7000000002"])
@pytest.mark.parametrize("tag", ["a00161", "b00000000161"])
@pytest.mark.parametrize("ending", ["43", "5200", "4340", "434042", "4340424040424242"])
def test_a_transfer_is_the_same_however_its_fields_are_written(handle: str, number: str, tag: str, ending: str) -> None:
    count = 3 + {"43": 1, "5200": 1, "4340": 2, "434042": 3}.get(ending, 8)
    items = bytes.fromhex(handle + number + tag + ending)
    expected = Transfer(1, 2, b"a", 0)
    for descriptor in (b"\x53\x14", b"\xa3\x12amqp:transfer:list"):
        short = bytes((0xC0, len(items) + 1, count)) + items
        long = b"\xd0" + (len(items) + 4).to_bytes(4) + count.to_bytes(4) + items
        for fields_of_transfer in (short, long):
            assert read(b"\0" + descriptor + fields_of_transfer)[0] == expected


@pytest.mark.parametrize("first", ["5201", "7000000001"])
@pytest.mark.parametrize("last", ["40", "5205", "7000000005"])
@pytest.mark.parametrize("state", ["00532445", "005324c00100", "00800000000000000024d00000000400000000"])
def test_a_disposition_is_the_same_however_its_fields_are_written(first: str, last: str, state: str) -> None:
    expected = Disposition(role=True, first=1, last=None if last == "40" else 5, settled=True, state=ACCEPTED)
    for batchable in ("", "40", "42"):
        items = bytes.fromhex("41" + first + last + "41" + state + batchable)
        data = b"\x00\x53\x15\xc0" + bytes((len(items) + 1, 6 if batchable else 5)) + items
        assert read(data)[0] == expected


def test_an_unknown_descriptor_makes_a_described_value() -> None:
    state = Described(ULong(0x468C00000004), [Symbol("x")])
    data = write(Disposition(role=True, first=1, state=ACCEPTED)).replace(b"\x00\x53\x24\x45", b"")
    assert read(write_value(state))[0] == state
    assert data


@pytest.mark.amqp_rule("1.3.4-a", "1.4-a")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("00531045", "open has 0 fields"),
        ("005310c0020140", "container_id of open is missing"),
        ("005310c003015405", "format code 0x54"),
        ("005310c10100", "no list"),
        ("005310c00d0b" + "a10163" + "40" * 9, "open has 11 fields"),
        ("005310c00501" + "a10163" + "40", "do not end"),
        ("40", "descriptor"),
        ("", "end within"),
        ("005312c00903" + "a10161" + "43" + "40" + "4040", "role of attach"),
        ("005318c00601" + "00531d" + "c00100"[:2], "end|fields"),
    ],
)
def test_what_is_no_performative_says_why(data: str, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        read(bytes.fromhex(data))


@pytest.mark.parametrize(
    "make",
    [
        partial(Open, None),  # type: ignore[arg-type]
        partial(Open, "c", max_frame_size=2**32),
        partial(Open, 5),  # type: ignore[arg-type]
        partial(Begin, 70000, 0, 0, 0),
        partial(Transfer, -1),
        partial(Disposition, role=True, first=None),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_value_that_is_not_its_fields_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(EncodeError, match="field"):
        write(make())


# Frames


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 65535), RECORDS, st.binary(max_size=50)), max_size=5), st.data())
def test_frames_come_whole_however_the_bytes_are_cut(sent: list[tuple[int, Any, bytes]], data: st.DataObject) -> None:
    stream = bytes(ProtocolHeader(ProtocolId.AMQP))
    stream += b"".join(write_frame(channel, write(record), payload) for channel, record, payload in sent)
    decoder = FrameDecoder(2**20)
    got: list[object] = []
    at = 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        decoder.feed(stream[at : at + size])
        at += size
        while (found := decoder.next()) is not None:
            got.append(found)
    assert got == [ProtocolHeader(ProtocolId.AMQP), *[Frame(*each) for each in sent]]
    assert decoder.pending == 0


def test_an_empty_frame_is_a_sign_of_life() -> None:
    decoder = _after_header()
    decoder.feed(write_frame(0, b""))
    assert decoder.next() == Frame(0, None)


@pytest.mark.amqp_rule("2.3.1-c")
def test_an_extended_header_is_skipped() -> None:
    decoder = _after_header()
    body = write(End())
    decoder.feed((12 + len(body)).to_bytes(4) + b"\x03\x00\x00\x05" + b"\xff" * 4 + body)
    assert decoder.next() == Frame(5, End())


@pytest.mark.amqp_rule("2.3.1-a", "2.3.1-b")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        ((513).to_bytes(4) + b"\x02\x00\x00\x00", "more than the 512 bytes"),
        ((7).to_bytes(4) + b"\x02\x00\x00\x00", "begins its body"),
        ((8).to_bytes(4) + b"\x01\x00\x00\x00", "begins its body"),
        ((8).to_bytes(4) + b"\x03\x00\x00\x00", "begins its body"),
        ((8).to_bytes(4) + b"\x02\x01\x00\x00", "type 1"),
        (write_frame(0, b"\x40"), "no performative"),
        (write_frame(0, b"\x00\x53\x17\xc0\x09\x01") + b"\x40" * 20, "longer|format|end"),
    ],
)
def test_bytes_that_are_no_frame_say_why(data: bytes, why: str) -> None:
    decoder = _after_header()
    decoder.feed(data)
    with pytest.raises((FramingError, DecodeError), match=why):
        decoder.next()


@pytest.mark.amqp_rule("2.2-c")
@pytest.mark.parametrize("data", [b"HTTP/1.1", b"GE", b"AMQX"])
def test_another_protocol_is_told_at_its_first_bytes(data: bytes) -> None:
    decoder = FrameDecoder()
    decoder.feed(data)
    with pytest.raises(FramingError, match="does not begin with AMQP"):
        decoder.next()


def test_a_header_says_protocol_and_version() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"AMQP\x00\x00\x09\x01")
    assert decoder.next() == ProtocolHeader(0, (0, 9, 1))


@pytest.mark.amqp_rule("2.3.2-b")
@given(st.binary(max_size=100))
def test_rubbish_in_a_frame_is_refused_by_name(data: bytes) -> None:
    decoder = _after_header()
    decoder.feed(write_frame(0, b"\x00\x53" + data))
    try:
        decoder.next()
    except (DecodeError, LimitError):
        assert decoder.pending == 0


def _after_header() -> FrameDecoder:
    decoder = FrameDecoder()
    decoder.feed(bytes(ProtocolHeader(ProtocolId.AMQP)))
    decoder.next()
    return decoder


def test_sasl_frames_have_their_own_type() -> None:
    decoder = _after_header()
    decoder.kind = FrameType.SASL
    decoder.feed(write_frame(0, write(SaslOutcome(0)), kind=FrameType.SASL))
    assert decoder.next() == Frame(0, SaslOutcome(0))


def test_each_field_has_a_default_or_is_mandatory_as_its_record_says() -> None:
    for kind, layout in performatives.LAYOUTS.items():
        for field, column in zip(fields(kind), layout.fields, strict=True):
            assert column.name == field.name
            assert column.default is None if field.default is MISSING else column.default == field.default
            assert not column.is_mandatory or field.default is MISSING


@settings(max_examples=40)
@given(VALUES)
def test_values_of_any_type_are_taken_where_the_standard_says_so(value: Any) -> None:
    if value is None or type(value) is Described:
        return
    target = Target(address=value)
    assert repr(read(write(target))[0]) == repr(target)
