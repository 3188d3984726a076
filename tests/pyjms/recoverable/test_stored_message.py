"""A message that was written down is the same message."""

from __future__ import annotations

import pytest
from hypothesis import given

from pyjms.recoverable.stored_message import read_message, write_message
from pyjms.spi.envelope import Envelope
from tests.provider.envelopes import envelopes, shape


@given(envelopes())
def test_any_message_equals_itself_after_it_was_written_down(envelope: Envelope) -> None:
    read = read_message(write_message(envelope))
    assert (read.body_kind, read.jms_type, read.reply_to) == (envelope.body_kind, envelope.jms_type, envelope.reply_to)
    assert shape(read.body) == shape(envelope.body)
    assert shape(read.properties) == shape(envelope.properties)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"kind": "SONG"}', '{"kind": "MAP", "reply_to": null, "body": "["}'])
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        read_message(text)
