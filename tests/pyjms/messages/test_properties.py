from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import MessageFormatException, MessageNotWriteableException
from pyjms.messages.bodies import JmsBytesMessage, JmsTextMessage
from pyjms.types import Byte, Double, Float, Int, Long, Short
from tests.pyjms.messages.support import NAMES, PROPERTY_VALUES, frozen, received, same

SETTERS: dict[str, tuple[Any, Any]] = {
    "boolean": (True, bool),
    "byte": (1, Byte),
    "short": (1, Short),
    "int": (1, Int),
    "long": (1, Long),
    "float": (0.1, Float),
    "double": (0.1, Double),
    "string": ("1", str),
    "object": (1, Int),
}


@pytest.mark.realises("BOIL-PROP-1", "BOIL-PROP-6", "BOIL-PROP-7")
@pytest.mark.parametrize("java", [False, True], ids=["python", "java"])
@pytest.mark.parametrize("kind", SETTERS)
def test_each_setter_and_its_getter(kind: str, java: bool) -> None:
    value, expected = SETTERS[kind]
    setter = f"set{kind.title()}Property" if java else f"set_{kind}_property"
    getter = f"get{kind.title()}Property" if java else f"get_{kind}_property"
    message = JmsTextMessage()
    for _ in range(3):  # the long way, then the short ones
        getattr(message, setter)("x", value)
        for read in (getter, "get_object_property"):
            assert type(getattr(message, read)("x")) is expected
            assert getattr(message, read)("x") == (Float(0.1) if kind == "float" else value)


@given(st.dictionaries(NAMES, PROPERTY_VALUES, max_size=8))
def test_any_properties_arrive_as_they_were_set(values: dict[str, Any]) -> None:
    message = JmsTextMessage()
    for name, value in values.items():
        message.set_object_property(name, value)
    for each in (message, received(message), received(received(message))):
        assert all(same(each.get_object_property(name), value) for name, value in values.items())
        assert set(each.property_names) - {"JMSXDeliveryCount"} == set(values)


@pytest.mark.realises("BOIL-PROP-5", "BOIL-PROP-9")
def test_names_are_enumerated_anew_each_time() -> None:
    message = JmsTextMessage()
    message.set_int_property("a", 1)
    names = message.property_names
    message.set_int_property("b", 2)  # does not disturb the enumeration that has begun
    assert list(names) == ["a"]
    java = message.getPropertyNames()
    found = set()
    while java.hasMoreElements():
        found.add(java.nextElement())
    assert found == {"a", "b"}


@pytest.mark.realises("BOIL-PROP-8")
def test_clearing_removes_all_and_leaves_the_rest() -> None:
    for message in (JmsTextMessage("body"), received(JmsTextMessage("body"))):
        message.clear_properties()
        message.set_int_property("a", 1)
        message.jms_type = "order"
        message.clearProperties()
        assert list(message.property_names) == []
        assert not message.property_exists("a")
        assert message.get_object_property("a") is None
        assert (message.text, message.jms_type) == ("body", "order")
    assert not [name for name in dir(JmsTextMessage) if "remove" in name or "delete" in name]


@pytest.mark.realises("BOIL-PROP-4", "BOIL-HDR-16")
@pytest.mark.parametrize("kind", SETTERS)
def test_the_properties_of_a_received_message_are_read_only(kind: str) -> None:
    message = JmsTextMessage()
    message.set_int_property("x", 5)
    arrived = received(message)
    for name in ("x", "y", "", None, "a b", "JMSXDeliveryCount"):
        for value in (SETTERS[kind][0], object()):
            with pytest.raises(MessageNotWriteableException, match="read-only until clear_properties"):
                getattr(arrived, f"set_{kind}_property")(name, value)
    assert arrived.get_int_property("x") == 5
    arrived.clear_body()
    with pytest.raises(MessageNotWriteableException):  # §3.5.7: one does not open the other
        getattr(arrived, f"set_{kind}_property")("x", SETTERS[kind][0])
    arrived.clear_properties()
    getattr(arrived, f"set_{kind}_property")("y", SETTERS[kind][0])
    assert list(arrived.property_names) == ["y"]


def test_the_delivery_count_reads_like_a_property_of_a_received_message() -> None:
    sent = JmsTextMessage()
    sent.set_int_property("x", 5)
    assert not sent.property_exists("JMSXDeliveryCount")
    assert sent.get_object_property("JMSXDeliveryCount") is None
    message = received(sent, count=3)
    assert same(message.getIntProperty("JMSXDeliveryCount"), Int(3))
    assert same(message.get_object_property("JMSXDeliveryCount"), Int(3))
    assert same(message.get_long_property("JMSXDeliveryCount"), Long(3))
    assert message.get_string_property("JMSXDeliveryCount") == "3"
    with pytest.raises(MessageFormatException):
        message.get_short_property("JMSXDeliveryCount")
    assert message.propertyExists("JMSXDeliveryCount")
    assert sorted(message.property_names) == ["JMSXDeliveryCount", "x"]
    assert received(message, count=1).get_int_property("JMSXDeliveryCount") == 1  # forwarded: counted anew
    assert "JMSXDeliveryCount" not in frozen(message).properties
    message.clear_properties()
    assert not message.property_exists("JMSXDeliveryCount")
    assert list(message.property_names) == []


def test_a_failed_setter_changes_nothing() -> None:
    message = JmsTextMessage()
    message.set_int_property("x", 5)
    for kind, value in (("byte", 300), ("int", "6"), ("int", True), ("boolean", 1), ("string", 5), ("object", [])):
        with pytest.raises(MessageFormatException):
            getattr(message, f"set_{kind}_property")("x", value)
        with pytest.raises(MessageFormatException):
            getattr(message, f"set_{kind}_property")("y", value)
    assert list(message.property_names) == ["x"]
    assert message.get_int_property("x") == 5


def test_a_sender_may_go_on_writing_after_a_send() -> None:
    message = JmsBytesMessage()
    message.set_int_property("x", 1)
    first = frozen(message)
    message.set_int_property("x", 2)
    second = frozen(message)
    message.clear_properties()
    message.set_string_property("y", "z")
    third = frozen(message)
    assert [dict(each.properties) for each in (first, second, third)] == [{"x": 1}, {"x": 2}, {"y": "z"}]


def test_an_unchanged_message_shares_its_properties_with_all_its_envelopes() -> None:
    message = JmsTextMessage()
    message.set_int_property("x", 1)
    envelope = frozen(message)
    assert frozen(message).properties is envelope.properties
    assert frozen(received(message)).properties is envelope.properties
