from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import MessageFormatException
from pyjms.messages.bodies import JmsTextMessage
from tests.pyjms.messages.support import frozen, received


class Drink(StrEnum):
    ESPRESSO = "espresso"


@given(st.none() | st.text())
def test_any_text_arrives(text: str | None) -> None:
    message = JmsTextMessage(text)
    assert message.text == message.getText() == text
    assert received(message).text == text


@pytest.mark.realises("BOIL-MSG-5")
def test_xml_arrives_unchanged() -> None:
    text = '<?xml version="1.0"?>\r\n<order n="1">größer &gt; \U0001f600\t</order>\n'
    assert received(JmsTextMessage(text)).text == text


@pytest.mark.realises("BOIL-BODY-7", "BOIL-BODY-2")
def test_there_may_be_no_text() -> None:
    message = JmsTextMessage()
    assert message.text is None
    message.text = "x"
    message.text = None
    assert received(message).text is None
    message.text = "y"
    message.clear_body()
    assert message.text is None


@pytest.mark.parametrize("value", [5, b"x", ["x"], object()])
def test_a_text_is_a_str(value: Any) -> None:
    message = JmsTextMessage("before")
    with pytest.raises(MessageFormatException, match="body 'text' takes a str or None"):
        message.text = value
    with pytest.raises(MessageFormatException):
        JmsTextMessage(value)
    assert message.text == "before"


def test_a_kind_of_str_becomes_a_plain_one() -> None:
    message = JmsTextMessage(Drink.ESPRESSO)
    assert type(message.text) is str
    message.setText(Drink.ESPRESSO)
    assert type(frozen(message).body) is str


def test_a_sent_text_does_not_change_with_its_message() -> None:
    message = JmsTextMessage("first")
    envelope = frozen(message)
    message.text = "second"
    assert (envelope.body, frozen(message).body) == ("first", "second")
    body = "x" * 1024
    message.text = body
    assert received(message).text is body  # shared, not copied
