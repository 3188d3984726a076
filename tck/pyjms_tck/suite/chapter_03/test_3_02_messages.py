"""JMS 1.1 §3.2: what applications use messages for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjms import Session
from pyjms_tck.checks import expect
from pyjms_tck.requirements import requirement

_XML = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment --><order xmlns="urn:x" total="&lt;7 &amp; more">
\t<item>caf\u00e9 \u4e2d\u6587 \U0001f600</item><![CDATA[<raw>]]></order>
"""


@requirement("3.2-a")
def test_3_2_a_a_text_message_carries_xml_unchanged(session: Session, roundtrip: Callable[[Any], Any]) -> None:
    for text in (_XML, _XML * 500):
        received = roundtrip(session.create_text_message(text))
        expect(f"an XML text of {len(text)} characters, as received", received.text, text)


@requirement("3.2-b")
def test_3_2_b_an_object_message_carries_an_object_unchanged(session: Session, roundtrip: Callable[[Any], Any]) -> None:
    tree = {
        "name": "caf\u00e9",
        "numbers": [1, -2.5, 2**70, None, True],
        "nested": {"bytes": b"\x00\xff", "pair": (1, "2")},
    }
    for thing in (tree, (1, "2"), {3, 4}, [tree], "text", 2.5):
        received = roundtrip(session.create_object_message(thing))
        expect("the object of an ObjectMessage, as received", received.object, thing)
