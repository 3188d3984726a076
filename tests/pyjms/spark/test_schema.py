"""Messages as rows and back: nothing is lost, by Arrow or by tuples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms.spark.arrow import column_lists, full_schema, record_batch
from pyjms.spark.messages import EnvelopeMaker, check_sink_columns, envelope_of
from pyjms.spark.options import RowError
from pyjms.spark.schema import COLUMNS, row_of, spelled_properties
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.replay import ReservedMessage
from pyjms.types import Char, Float, Long, Short
from tests.pyjms.spark.strategies import envelopes

QUEUE = Address(AddressKind.QUEUE, "orders")


def reserved(envelope: Envelope, number: int = 1) -> ReservedMessage:
    return ReservedMessage(number=number, envelope=envelope, count=1, redelivered=False)


def types_of(value: Any) -> Any:
    """Return a value with the classes in it, as 1, True and Byte(1) are equal."""
    if isinstance(value, Mapping):
        return {name: types_of(each) for name, each in value.items()}
    return [types_of(each) for each in value] if isinstance(value, tuple) else (type(value), repr(value))


def assert_same(made: Envelope, sent: Envelope) -> None:
    assert made == sent
    assert types_of(made.properties) == types_of(sent.properties)
    assert types_of(made.body) == types_of(sent.body)


@given(envelopes())
@settings(max_examples=80, deadline=None)
def test_any_message_is_itself_again_after_a_row(envelope: Envelope) -> None:
    assert_same(envelope_of(row_of(reserved(envelope))), envelope)


@given(envelopes())
@settings(max_examples=40, deadline=None)
def test_any_message_is_itself_again_after_a_record_batch(envelope: Envelope) -> None:
    batch = record_batch([reserved(envelope)], full_schema())
    row = dict(zip(COLUMNS, (values[0] for values in column_lists(batch)), strict=True))
    assert_same(envelope_of(row), envelope)


def message(body_kind: BodyKind = BodyKind.NONE, body: Any = None, **changes: Any) -> Envelope:
    facts: dict[str, Any] = {
        "destination": QUEUE,
        "message_id": MessageId("ID:7"),
        "timestamp_ms": 1_767_323_045_678,
        "expiration_ms": 0,
        "delivery_mode": 2,
        "priority": 4,
        "correlation_id": None,
        "reply_to": None,
        "jms_type": None,
        "properties": {},
        **changes,
    }
    return Envelope(**facts, body_kind=body_kind, body=body)


def test_a_row_reads_as_its_message_does() -> None:
    properties = {
        "cups": 2,
        "ratio": Float(0.5),
        "size": Short(3),
        "far": Long(2**40),
        "hot": True,
        "name": "x",
        "gone": None,
    }
    row = row_of(reserved(message(BodyKind.TEXT, "hello", properties=properties, jms_type="order"), 5))
    assert row["properties"] == {
        "cups": "2", "ratio": "0.5", "size": "3", "far": str(2**40), "hot": "true", "name": "x", "gone": None,
    }  # fmt: skip
    assert row["property_types"] == {"cups": "I", "ratio": "F", "size": "S", "far": "J", "hot": "Z", "gone": "N"}
    assert (row["seq"], row["kind"], row["text"], row["bytes"], row["body"]) == (5, "text", "hello", None, None)
    assert (row["destination"], row["type"], row["delivery_mode"]) == ("queue:orders", "order", "PERSISTENT")
    assert (row["timestamp"], row["expiration"]) == (1_767_323_045_678_000, None)


def keeper() -> EnvelopeMaker:
    """What the sink makes messages with, for `headers=keep`."""
    return EnvelopeMaker(destination=None, next_id=lambda: MessageId("ID:new"), now_ms=lambda: 777, keeps_headers=True)


@given(envelopes())
@settings(max_examples=40, deadline=None)
def test_a_sink_that_keeps_headers_keeps_all_of_them(envelope: Envelope) -> None:
    assert_same(keeper().envelope(row_of(reserved(envelope))), envelope)


@pytest.mark.parametrize(
    ("message_id", "timestamp_ms"), [(None, 0), ("ID:half\ud800", 5), ("ID:1", 253_402_300_800_000)]
)
def test_headers_that_are_not_there_or_that_no_column_holds_are_kept(message_id: str | None, timestamp_ms: int) -> None:
    found = None if message_id is None else MessageId(message_id)
    kept = message(BodyKind.TEXT, "x", message_id=found, timestamp_ms=timestamp_ms)
    assert keeper().envelope(row_of(reserved(kept))) == kept


def test_columns_that_are_not_there_say_nothing_of_headers() -> None:
    row: dict[str, Any] = {"text": "x", "destination": "queue:q"}
    made = [keeper().envelope(row | more) for more in ({}, {"message_id": None}, {"timestamp": 5_000})]
    assert [(each.message_id, each.timestamp_ms) for each in made] == [("ID:new", 777), (None, 777), ("ID:new", 5)]


def test_bodies_can_be_left_out() -> None:
    row = row_of(reserved(message(BodyKind.TEXT, "hello")), with_body=False)
    assert (row["kind"], row["text"]) == ("text", None)


@pytest.mark.parametrize(
    ("row", "kind", "body"),
    [
        ({"text": "a"}, BodyKind.TEXT, "a"),
        ({"bytes": b"a"}, BodyKind.BYTES, b"a"),
        ({"kind": "none"}, BodyKind.NONE, None),
        ({"kind": "text"}, BodyKind.TEXT, None),
        ({"kind": "map", "body": '[["n","I",1]]'}, BodyKind.MAP, {"n": 1}),
        ({"kind": "stream", "body": '[["J","1"]]'}, BodyKind.STREAM, (Long(1),)),
    ],
)
def test_one_column_decides_the_body(row: dict[str, Any], kind: BodyKind, body: Any) -> None:
    made = envelope_of(row, QUEUE)
    assert (made.body_kind, made.body) == (kind, body)
    assert (made.delivery_mode, made.priority, made.expiration_ms) == (2, 4, 0)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({}, "no kind that says what else it is"),
        ({"text": "a", "bytes": b"a"}, "more than one of text, bytes and body"),
        ({"kind": "map", "text": "a"}, "a map message has its body in body"),
        ({"kind": "map", "body": "{}"}, "no typed JSON of a map message"),
        ({"kind": "text", "body": '[["I",1]]'}, "no typed JSON of a text message"),
        ({"kind": "letter", "text": "a"}, "write none, text, bytes, map, stream, object"),
        ({"text": "a", "priority": 12}, "JMS has 0 to 9"),
        ({"text": "a", "delivery_mode": "SAFE"}, "write PERSISTENT or NON_PERSISTENT"),
        ({"text": "a", "properties": {"JMS_pyjms_x_%ff": "1"}}, "no UTF-8, percent-encoded"),
        ({"text": "a", "properties": {"n": "x"}, "property_types": {"n": "I"}}, "is no 'I'"),
        ({"text": "a", "properties": {"n": "x"}, "property_types": {"n": "Q"}}, "properties have Z B S I J F D"),
        ({"text": "a", "properties": {"n": "AP8="}, "property_types": {"n": "X"}}, "properties have Z B S I J F D"),
        ({"text": "a", "destination": "queue:a\0b"}, "no name of a destination has NUL"),
        ({"text": "a", "reply_to": "topic:\0"}, "no name of a destination has NUL"),
        ({"text": "a", "timestamp": -1}, "before 1970, where JMSTimestamp begins"),
        *[
            (
                {"text": "a", "properties": {name: text}, "property_types": {name: letter}},
                f"has {letter!r} for {name}, a header field",
            )
            for name, letter, text in (
                ("JMSType", None, "5"),
                ("JMSType", "", "5"),
                ("JMSCorrelationID", "UX", "5"),
                ("JMSType", "U", None),
                ("JMSType", "I", "5"),
                ("JMSMessageID", "X", "AP8="),
                ("JMSCorrelationID", "J", "5"),
                ("JMSDestination", "J", "5"),
                ("JMSReplyTo", "X", "AP8="),
                ("JMSTimestamp", "D", "NaN"),
                ("JMSExpiration", "U", "7aCA"),
            )
        ],
    ],
)
def test_a_row_that_is_no_message_is_refused_with_what_to_do(row: dict[str, Any], told: str) -> None:
    with pytest.raises(RowError, match=told.replace("(", r"\(")):
        envelope_of(row, None if "destination" in row else QUEUE)


def test_a_time_to_live_that_was_over_before_1970_is_over() -> None:
    for micros in (-62_135_596_800_000_000, -1, 0, 999):
        assert envelope_of({"text": "a", "expiration": micros}, QUEUE).expiration_ms == 1
    assert envelope_of({"text": "a", "expiration": 2_500}, QUEUE).expiration_ms == 2
    assert envelope_of({"text": "a", "expiration": None}, QUEUE).expiration_ms == 0


@pytest.mark.parametrize("keeps", [False, True])
def test_of_many_rows_the_one_that_is_no_message_is_told(keeps: bool) -> None:
    maker = EnvelopeMaker(
        destination=QUEUE, next_id=lambda: MessageId("ID:new"), now_ms=lambda: 777, keeps_headers=keeps
    )
    columns: list[list[Any]] = [["a", "b" * 99, None], [4, 12, 4], ["c1", "c2", None], [1, 2, None]]
    made = maker.envelopes(["text", "priority", "correlation_id", "seq"], columns)
    assert next(made).body == "a"
    with pytest.raises(RowError) as caught:
        next(made)
    told = "; the row has correlation_id='c2', seq=2, text='" + "b" * 59 + "…, priority=12"
    assert caught.value.reason.endswith(told)
    with pytest.raises(RowError, match=r"no kind that says what else it is.*; the row has nothing in any column$"):
        list(maker.envelopes(["text"], [[None]]))


def test_text_that_is_no_utf_8_is_told_with_its_row() -> None:
    texts = pa.array([b"a", b"a\xed\xa0\x80"], pa.binary()).view(pa.string())
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), texts], ["seq", "text"])
    with pytest.raises(RowError, match=r"column 'text' has text that is no UTF-8.*has seq=2, text=\(no UTF-8\)$"):
        list(column_lists(batch))


@pytest.mark.parametrize(
    "properties",
    [
        {"1x": "1", "a b": "2", "": "3", "é:\n": "4", "null": None},
        {"JMSCorrelationID": 7, "JMSTimestamp": "now", "JMSPriority": "3"},
        {"JMS_pyjms_x_a": "1", "JMS_pyjms_x_%zz": 2},
        {"half \ud800": "1", "\udfff": None, "low": "\udc00"},
        {"char": Char("é"), "half": Char("\ud800")},
    ],
)
@pytest.mark.parametrize("header", ["plain", b"\xff", "half \ud800"])
def test_properties_that_no_jms_client_sets_are_themselves_again(properties: Any, header: Any) -> None:
    sent = message(properties=properties, correlation_id=header)
    assert_same(envelope_of(row_of(reserved(sent))), sent)
    (row,) = rows_of([sent])
    assert_same(envelope_of(row), sent)
    assert maps_of("properties", [sent]) == spelled_properties([sent])[0]


def test_a_property_of_a_header_fields_name_that_a_person_writes_is_one() -> None:
    assert envelope_of({"text": "a", "properties": {"JMSType": "x"}}, QUEUE).properties == {"JMSType": "x"}


def rows_of(sent: list[Envelope]) -> list[dict[str, Any]]:
    """Return messages as rows that went through Arrow."""
    batch = record_batch([reserved(each) for each in sent], full_schema())
    return [dict(zip(COLUMNS, values, strict=True)) for values in zip(*column_lists(batch), strict=True)]


def test_a_row_needs_a_destination() -> None:
    with pytest.raises(RowError, match="fill the column destination, or give the option"):
        envelope_of({"text": "a"})


def test_a_destination_without_a_kind_is_a_queue() -> None:
    assert envelope_of({"text": "a", "destination": "orders"}).destination == QUEUE


def test_the_option_stands_above_the_column() -> None:
    assert envelope_of({"text": "a", "destination": "queue:there"}).destination.name == "there"
    assert envelope_of({"text": "a", "destination": "queue:there"}, QUEUE).destination == QUEUE


def test_columns_that_say_nothing_to_a_message_are_refused() -> None:
    check_sink_columns([("text", "string"), ("priority", "int"), ("dedup_id", "string")])
    with pytest.raises(RowError, match="column 'colour' says nothing"):
        check_sink_columns([("text", "string"), ("colour", "string")])
    with pytest.raises(RowError, match="column 'text' is int: cast it to string"):
        check_sink_columns([("text", "int")])


def test_a_duplicate_id_becomes_the_property_that_artemis_knows() -> None:
    assert envelope_of({"text": "a", "dedup_id": "7"}, QUEUE).properties == {"_AMQ_DUPL_ID": "7"}


@given(st.lists(envelopes(), min_size=1, max_size=3), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_properties_by_the_column_are_those_of_each_message(sent: list[Envelope], times: int) -> None:
    alike = [each for each in sent for _ in range(times)]
    assert (maps_of("properties", alike), maps_of("property_types", alike)) == spelled_properties(alike)


@given(st.lists(envelopes(), min_size=1, max_size=3), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_a_batch_says_of_each_message_what_its_row_says(sent: list[Envelope], times: int) -> None:
    messages = [reserved(each, number) for number, each in enumerate([each for each in sent for _ in range(times)], 1)]
    batch = record_batch(messages, full_schema())
    columns = {name: list(values) for name, values in zip(COLUMNS, column_lists(batch), strict=True)}
    for place, message in enumerate(messages):
        row = {name: values[place] for name, values in columns.items()}
        assert {**row, "properties": dict(row["properties"]), "property_types": dict(row["property_types"])} == row_of(
            message
        )


def test_runs_of_messages_with_the_same_properties_keep_their_order() -> None:
    kinds: list[dict[str, Any]] = [
        {"cups": 1, "name": "a", "ratio": 0.5, "hot": True},
        {"cups": 2, "name": "é", "ratio": float("inf"), "hot": False},
        {"cups": Long(3)},
        {},
        {"gone": None, "name": "\ud800"},
        {"name": "b"},
    ]
    sent = [message(properties=each) for each in (*kinds, *kinds)]
    found = maps_of("properties", sent)
    assert (found, maps_of("property_types", sent)) == spelled_properties(sent)
    assert found[1] == {"cups": "2", "name": "é", "ratio": "Infinity", "hot": "false"}


def maps_of(kind: str, messages: list[Envelope]) -> Any:
    """Return a column of maps as Arrow has it."""
    schema = full_schema()
    batch = record_batch([reserved(each) for each in messages], schema)
    return [dict(each) for each in batch.column(schema.get_field_index(kind)).to_pylist()]
