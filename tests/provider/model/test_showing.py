"""Messages as they are shown: whole where they are short, cut where they are not, and never altered."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.envelope import BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Float, Long, Short, Stored
from pyjms_provider.model import messages as showing_module
from pyjms_provider.model.messages import MessageRenderer, NewMessage, TypedValue, to_envelope, view_value
from tests.provider.helpers import make_envelope

LONGEST = 100_000
SOME_MORE = 2_000
"""Names of fields, and what JSON needs between them."""


def envelope(kind: BodyKind = BodyKind.NONE, body: Any = None, **headers: Any) -> Envelope:
    return replace(make_envelope(), body_kind=kind, body=body, **headers)


def body_of(kind: BodyKind, body: Any) -> Any:
    shown = MessageRenderer().message(envelope(kind, body)).body
    assert shown is not None
    return shown


def test_what_is_short_is_shown_whole() -> None:
    assert body_of(BodyKind.TEXT, "hello").model_dump(exclude_none=True) == {
        "kind": "text", "size": 5, "is_whole": True, "text": "hello"
    }  # fmt: skip
    assert body_of(BodyKind.BYTES, b"\0\1").base64 == "AAE="
    assert body_of(BodyKind.OBJECT, ObjectBody(b"\0\1", local=False)).base64 == "AAE="
    assert body_of(BodyKind.MAP, {"n": 1}).map == {"n": TypedValue(type="int", value=1)}
    assert body_of(BodyKind.STREAM, (None, True)).stream == [
        TypedValue(type="null", value=None), TypedValue(type="boolean", value=True)
    ]  # fmt: skip
    assert body_of(BodyKind.NONE, None).model_dump(exclude_none=True) == {"kind": "none", "size": 0, "is_whole": True}
    assert MessageRenderer(with_bodies=False).message(envelope()).body is None


@pytest.mark.parametrize(
    ("kind", "body", "size"),
    [
        (BodyKind.TEXT, "x" * (LONGEST + 1), LONGEST + 1),
        (BodyKind.BYTES, bytes(LONGEST + 1), LONGEST + 1),
        (BodyKind.OBJECT, ObjectBody(bytes(LONGEST + 1), local=False), LONGEST + 1),
        (BodyKind.MAP, {"text": "x" * 10**6, "more": "y"}, 2),
        (BodyKind.MAP, {"x" * 10**6: 1}, 1),
        (BodyKind.MAP, {str(number): number for number in range(10**5)}, 10**5),
        (BodyKind.STREAM, ("x" * 60_000, bytes(10**6), "y"), 3),
        (BodyKind.STREAM, (None,) * 10**5, 10**5),
    ],
)
def test_a_long_body_is_cut(kind: BodyKind, body: Any, size: int) -> None:
    shown = body_of(kind, body)
    assert (shown.size, shown.is_whole) == (size, False)
    assert len(shown.model_dump_json()) < 2 * LONGEST


def test_a_body_of_just_the_longest_is_whole() -> None:
    assert body_of(BodyKind.TEXT, "x" * LONGEST).is_whole
    assert base64.b64decode(body_of(BodyKind.BYTES, bytes(LONGEST)).base64) == bytes(LONGEST)


@pytest.mark.parametrize(
    "headers",
    [
        {"properties": {"note": "x" * 10**6, "after": 1}},
        {"properties": {f"p{number}": number for number in range(10**5)}},
        {"jms_type": "x" * 10**6},
        {"correlation_id": b"x" * 10**6},
    ],
)
def test_long_headers_and_properties_are_cut(headers: Mapping[str, Any]) -> None:
    shown = MessageRenderer(with_bodies=False).message(envelope(**headers))
    assert not shown.is_whole
    assert len(shown.model_dump_json()) < 2 * LONGEST
    assert MessageRenderer().message(envelope(properties={"note": "short"}, jms_type="order")).is_whole


def test_a_page_ends_where_it_is_too_long_and_has_one_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing_module, "_LONGEST_PAGE", 1_000)
    long, short = envelope(BodyKind.TEXT, "x" * 600), envelope(BodyKind.TEXT, "x")

    def page(offset: int, *there: Envelope, limit: int = 50) -> tuple[list[int], bool]:
        renderer = MessageRenderer()
        shown, has_more = renderer.page(there, renderer.message, offset, limit)
        return [message.body.size for message in shown if message.body is not None], has_more

    assert page(0, long, long, short) == ([600, 600], True)
    assert page(2, long, long, short) == ([1], False)
    assert page(0, replace(long, body="x" * 5_000), short) == ([5_000], True)
    assert page(0, short, short, limit=1) == ([1], True)
    assert page(0, short, short, limit=2) == ([1, 1], False)
    assert page(7, short) == ([], False)


def test_all_but_the_names_is_left_out_where_the_answer_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing_module, "_LONGEST_PAGE", 1_000)
    renderer = MessageRenderer()
    there = envelope(BodyKind.TEXT, "x" * 600, properties={"n": 1}, jms_type="order")
    shown = [renderer.message(there) for _ in range(3)]
    assert [message.body is not None for message in shown] == [True, True, False]
    assert [message.is_whole for message in shown] == [True, True, False]
    assert (shown[2].id, shown[2].type, shown[2].properties) == (there.message_id, None, {})


def test_long_names_count_too() -> None:
    renderer = MessageRenderer(with_bodies=False)
    there = [replace(envelope(), message_id=MessageId("ID:" + "x" * 10**6)) for _ in range(10)]
    shown, has_more = renderer.page(there, renderer.message, 0, 50)
    assert (len(shown), has_more) == (4, True)
    assert shown[0].id == there[0].message_id


def test_what_a_dead_letter_says_is_cut() -> None:
    long = {f"JMS_pyjms_dead{name}": "x" * 10**6 for name in ("Kind", "Reason", "Destination", "Consumer")}
    shown = MessageRenderer().letter(envelope(properties=long))
    assert len(shown.model_dump_json()) < 3 * LONGEST
    assert MessageRenderer().letter(envelope(properties={"JMS_pyjms_deadReason": "why"})).reason == "why"


@pytest.mark.parametrize("value", [Float(math.inf), -math.inf, Long(2**63 - 1), Float(0.1), 1e300, Char("x"), True])
def test_what_is_shown_can_be_sent_again(value: Stored) -> None:
    message = NewMessage(properties={"n": view_value(value)})
    assert to_envelope(message, "orders", "ID:1", 0, "here").properties == {"n": value}


def test_numbers_that_json_would_alter_are_texts() -> None:
    assert view_value(Long(2**53)).value == 2**53
    assert view_value(Long(2**53 + 1)) == TypedValue(type="long", value="9007199254740993")
    assert view_value(Long(-(2**63))).value == "-9223372036854775808"
    assert view_value(float("inf")) == TypedValue(type="double", value="inf")
    assert 900 < len(view_value("x" * 5_000).value) <= 1_000


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1).map(Long),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**7), 2**7 - 1).map(Byte),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False, width=32).map(Float),
    st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]).map(Char),
    st.text(),
)


@given(st.dictionaries(st.sampled_from("abcd"), VALUES.filter(lambda value: value is not None), max_size=4))
def test_a_message_that_is_sent_as_it_was_shown_has_the_same_properties(properties: dict[str, Stored]) -> None:
    shown = MessageRenderer().message(envelope(properties=properties))
    again = NewMessage.model_validate_json(NewMessage(properties=dict(shown.properties)).model_dump_json())
    sent = to_envelope(again, "orders", "ID:1", 0, "here").properties
    assert sent == properties
    assert {name: type(value) for name, value in sent.items()} == {
        name: type(value) for name, value in properties.items()
    }


@given(st.dictionaries(st.text(max_size=50), st.one_of(VALUES, st.binary()), max_size=50), st.integers(0, 5_000))
def test_no_message_is_shown_longer_than_it_may_be(values: dict[str, Stored], longest: int) -> None:
    cutter = showing_module._Cutter(longest)
    shown = cutter.values(values)
    assert cutter.taken <= longest
    assert cutter.is_whole == (
        set(shown) == set(values) and all(shown[name] == view_value(values[name]) for name in shown)
    )
