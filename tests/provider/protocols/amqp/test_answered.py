"""Answers to commands, cut to the size of frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms_provider.amqp.answered import joined, parts_of
from pyjms_provider.amqp.errors import DecodeError
from pyjms_provider.amqp.performatives import Answered, Disposition, is_outcome, read, write

HEADERS = st.dictionaries(
    st.text(st.characters(codec="ascii"), min_size=1, max_size=20), st.text(max_size=700), max_size=5
)


@given(HEADERS, st.integers(504, 3_000))
def test_an_answer_of_any_length_is_said_in_parts_that_fit(headers: dict[str, str], room: int) -> None:
    parts = parts_of(headers, room)
    assert [each.more for each in parts] == [True] * (len(parts) - 1) + [False]
    assert [is_outcome(each) for each in parts] == [not each.more for each in parts]
    for each in parts:
        assert len(write(Disposition(True, 2**32 - 1, 2**32 - 1, True, each))) <= room
    assert joined([each.headers for each in parts]) == headers


def test_a_short_answer_is_one_part() -> None:
    assert parts_of({"result": "prepared"}, 504) == [Answered({"result": "prepared"})]
    assert parts_of({}, 504) == [Answered({})]


def test_an_answer_has_texts_alone() -> None:
    data = write(Answered({"a": "b"}))
    with pytest.raises(DecodeError, match="another value"):
        read(data.replace(b"\xa1\x01b", b"\x71\0\0\0\0").replace(b"\xc1\x07", b"\xc1\x09", 1))
