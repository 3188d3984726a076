"""Escapes are undone as the specification says, the short ways through them, too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms_provider.protocols.stomp.codec import escape, unescape
from pyjms_provider.protocols.stomp.errors import FrameError
from pyjms_provider.protocols.stomp.frames import Version

ESCAPING = st.sampled_from([Version.V1_1, Version.V1_2])
MEANINGS = {"\\\\": "\\", "\\n": "\n", "\\c": ":", "\\r": "\r"}


@given(st.text(st.sampled_from("\\ncr:\nx")), ESCAPING)
def test_what_is_escaped_is_the_same_afterwards(text: str, version: Version) -> None:
    assert unescape(escape(text, version), version) == text


@given(st.text(st.sampled_from("\\ncrtx:")), ESCAPING)
def test_a_sequence_means_what_the_specification_says_or_is_refused(text: str, version: Version) -> None:
    meaning, at = "", 0
    while at < len(text):
        step = 2 if text[at] == "\\" else 1
        part = text[at : at + step]
        if part[0] == "\\" and (part not in MEANINGS or (part == "\\r" and version is Version.V1_1)):
            with pytest.raises(FrameError, match="does not define"):
                unescape(text, version)
            return
        meaning += MEANINGS.get(part, part)
        at += step
    assert unescape(text, version) == meaning
