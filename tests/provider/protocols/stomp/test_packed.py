"""Packed pages: what goes in comes out, and what is no page is an error that says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.envelope import Envelope
from pyjms.spi.replay import ReservedMessage
from pyjms_provider.protocols.stomp.errors import ProfileError
from pyjms_provider.protocols.stomp.packed import pack, unpack
from pyjms_provider.stores.errors import CodecError
from tests.provider.helpers import make_envelope
from tests.provider.protocols.stomp.test_quick import envelopes


def _as_it_came(envelope: Envelope) -> Envelope:
    return envelope


def _page(sent: list[Envelope]) -> list[ReservedMessage]:
    return [ReservedMessage(number, each, number, number > 1) for number, each in enumerate(sent, 1)]


@given(st.lists(envelopes(), min_size=1, max_size=4))
def test_a_page_comes_out_as_it_went_in(sent: list[Envelope]) -> None:
    page = _page(sent)
    assert repr(unpack(pack(page), 1, _as_it_came)) == repr(page)  # by text, as NaN is not equal to itself


def test_the_numbers_go_on_from_the_first_one() -> None:
    page = _page([make_envelope(), make_envelope()])
    assert [each.number for each in unpack(pack(page), 7, _as_it_came)] == [7, 8]


@pytest.mark.parametrize("kept", [4, -1], ids=["head", "data"])
def test_a_page_that_was_cut_is_refused(kept: int) -> None:
    body = pack(_page([make_envelope(), make_envelope()]))
    with pytest.raises(ProfileError, match="ends within a message"):
        unpack(body[:kept], 1, _as_it_came)
    with pytest.raises(ProfileError, match="ends within a message"):
        unpack(body + b"\0", 1, _as_it_came)


def test_a_page_of_another_version_or_with_no_message_in_it_is_refused() -> None:
    body = pack(_page([make_envelope()]))
    with pytest.raises(ProfileError, match="another version"):
        unpack(b"\2" + body[1:], 1, _as_it_came)
    with pytest.raises(CodecError, match="does not follow its format"):
        unpack(body[:9] + b"\xc1" * (len(body) - 9), 1, _as_it_came)
