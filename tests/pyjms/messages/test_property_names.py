from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import IllegalArgumentException, MessageFormatException
from pyjms.messages import base as properties
from pyjms.messages.base import KNOWN_NAMES, check_property_name, is_client_name
from pyjms.messages.bodies import JmsTextMessage
from tests.pyjms.messages.support import NAMES


@pytest.mark.parametrize(
    "name", ["a", "_", "$", "a1", "größe", "中文", "€uro", "a\u0301", "‿tie", "Jms", "jmsx", "NOTHING", "a\u200bb"]
)
def test_identifiers_are_names(name: str) -> None:
    assert check_property_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["1a", "a b", "a-b", "a.b", "a'", " a", "a\n", "a\u00a0", "\u0301a", "\U0001f600", "\ud800", "a\udfff", "²", "a+"],
)
def test_other_texts_are_not(name: str) -> None:
    with pytest.raises(MessageFormatException, match="is no property name"):
        check_property_name(name)


@pytest.mark.parametrize("word", ["NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"])
def test_words_of_selectors_are_no_names(word: str) -> None:
    for name in (word, word.lower(), word.title()):
        with pytest.raises(MessageFormatException, match="reserved word"):
            check_property_name(name)


@pytest.mark.parametrize("name", [None, "", 5, b"a", ("a",)])
def test_a_name_is_a_text_that_is_not_empty(name: Any) -> None:
    message = JmsTextMessage()
    with pytest.raises(IllegalArgumentException, match=r"needs a name|a name is a str"):
        message.set_int_property(name, 1)
    with pytest.raises(IllegalArgumentException):
        message.setObjectProperty(name, 1)


@pytest.mark.realises("BOIL-PROP-10")
@pytest.mark.parametrize(
    "name",
    [
        "JMSXUserID",
        "JMSXAppID",
        "JMSXDeliveryCount",
        "JMSXProducerTXID",
        "JMSXConsumerTXID",
        "JMSXRcvTimestamp",
        "JMSXState",
    ],
)
def test_what_the_provider_sets_clients_do_not(name: str) -> None:
    message = JmsTextMessage()
    with pytest.raises(MessageFormatException, match=f"{name} is set by the provider"):
        message.set_string_property(name, "x")
    assert not message.property_exists(name)
    assert not is_client_name(name)


@pytest.mark.realises("BOIL-PROP-9")
@pytest.mark.parametrize("name", ["JMSX", "JMSXOther", "JMSXGroupId", "JMSX_mine"])
def test_other_jmsx_names_are_reserved(name: str) -> None:
    with pytest.raises(MessageFormatException, match="JMSXGroupID and JMSXGroupSeq only"):
        check_property_name(name)


@pytest.mark.parametrize("name", ["JMSPriority", "JMSMessageID", "JMSOther", "JMS"])
def test_names_of_header_fields_are_reserved(name: str) -> None:
    with pytest.raises(MessageFormatException, match="begin with JMS are reserved"):
        check_property_name(name)


@pytest.mark.realises("BOIL-PROP-12")
@pytest.mark.parametrize("name", ["JMS_pyjms", "JMS_pyjms_delay", "JMS_pyjmsDelay"])
def test_clients_cannot_set_our_own_provider_properties(name: str) -> None:
    with pytest.raises(MessageFormatException, match="set by the provider only"):
        check_property_name(name)
    assert not is_client_name(name)


@pytest.mark.realises("BOIL-PROP-13")
@pytest.mark.parametrize("name", ["JMS_IBM_Format", "JMS_AMQP_TTL", "JMS_"])
def test_those_of_other_providers_pass(name: str) -> None:
    message = JmsTextMessage()
    message.set_string_property(name, "x")
    assert message.get_string_property(name) == "x"


@pytest.mark.realises("BOIL-PROP-11")
def test_clients_set_the_group() -> None:
    message = JmsTextMessage()
    message.setStringProperty("JMSXGroupID", "orders")
    message.setIntProperty("JMSXGroupSeq", 1)
    message.set_object_property("JMSXGroupSeq", 2)
    message.set_string_property("JMSXGroupID", None)
    assert list(message.property_names) == ["JMSXGroupID", "JMSXGroupSeq"]
    assert message.get_int_property("JMSXGroupSeq") == 2
    for name, value in (("JMSXGroupID", 5), ("JMSXGroupSeq", "1"), ("JMSXGroupSeq", 2**40)):
        with pytest.raises(MessageFormatException, match=r"is of type (String|int), not (int|String|long)"):
            message.set_object_property(name, value)


def test_known_names_are_kept_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "_KNOWN_MAX", 10)
    message = JmsTextMessage()
    for number in range(50):
        message.set_int_property(f"name{number}", number)
        assert len(KNOWN_NAMES) <= 10
    message.set_int_property("x" * 1000, 1)
    assert "x" * 1000 not in KNOWN_NAMES
    assert len(list(message.property_names)) == 51


@given(NAMES)
def test_a_name_found_good_stays_good(name: str) -> None:
    assert check_property_name(name) == check_property_name(name) == name
    assert is_client_name(name)


@given(st.text(max_size=8))
def test_any_text_is_judged(name: str) -> None:
    try:
        assert check_property_name(name) == name
    except (MessageFormatException, IllegalArgumentException) as error:
        assert str(error)  # noqa: PT017  every text is either a name or refused with a reason


def test_a_kind_of_str_becomes_a_plain_name() -> None:
    class Name(StrEnum):
        CUPS = "cups"

    message = JmsTextMessage()
    for _ in range(2):  # unknown, then known
        message.set_int_property(Name.CUPS, 2)
        message.set_object_property(Name.CUPS, 3)
        assert [type(name) for name in message.property_names] == [str]
        message.clear_properties()
    message.set_string_property("cups", "two")
    assert message.get_string_property(Name.CUPS) == "two"


def test_what_cannot_be_a_key_is_no_name() -> None:
    message: Any = JmsTextMessage()
    names: tuple[Any, ...] = ([], {}, bytearray(b"x"))
    for name in names:
        with pytest.raises(IllegalArgumentException, match="a name is a str"):
            message.set_int_property(name, 1)
