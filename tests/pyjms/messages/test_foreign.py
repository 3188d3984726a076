from __future__ import annotations

from typing import Any

import pytest

from pyjms.api.destination import Destination
from pyjms.api.message import MapMessage, TextMessage
from pyjms.errors import IllegalArgumentException, MessageFormatException
from pyjms.messages.base import JmsMessage
from pyjms.messages.bodies import JmsBytesMessage, JmsMapMessage, JmsObjectMessage, JmsStreamMessage, JmsTextMessage
from pyjms.messages.destinations import JmsQueue
from pyjms.messages.freeze import convert
from pyjms.types import Byte, Char, Float, Int, Long
from tests.pyjms.messages.foreign import (
    JavaBytesMessage,
    JavaMapMessage,
    JavaMessage,
    JavaObjectMessage,
    JavaStreamMessage,
    JavaTextMessage,
    PythonMessage,
    PythonTextMessage,
)
from tests.pyjms.messages.support import frozen, received, same

pytestmark = pytest.mark.realises("BOIL-BODY-6")


@pytest.mark.parametrize("kind", [JavaTextMessage, PythonTextMessage], ids=lambda kind: kind.__name__)
def test_a_text_under_either_name(kind: type[Any]) -> None:
    message = kind()
    message.text = "espresso"
    copy = convert(message)
    assert type(copy) is JmsTextMessage
    assert received(copy).text == "espresso"


@pytest.mark.parametrize("kind", [JavaMessage, PythonMessage], ids=lambda kind: kind.__name__)
def test_header_fields_and_properties(kind: type[Any]) -> None:
    message = kind()
    message.jms_type = "order"
    message.jms_correlation_id = "request 7"
    message.jms_reply_to = JmsQueue("replies")
    message.jms_message_id = "ID:foreign"
    message.jms_priority = 9
    for name, value in {
        "a": 1,
        "b": 2**40,
        "c": Byte(1),
        "d": Float(0.1),
        "e": "x",
        "f": True,
        "g": None,
        "h": 1.5,
    }.items():
        message.set_object_property(name, value)
    copy = convert(message)
    assert type(copy) is JmsMessage
    assert (copy.jms_type, copy.jms_correlation_id, copy.jms_reply_to) == ("order", "request 7", JmsQueue("replies"))
    assert (copy.jms_message_id, copy.jms_priority) == (None, 4)  # the send decides
    values = {name: copy.get_object_property(name) for name in copy.property_names}
    assert sorted(values) == list("abcdefgh")
    assert same(values["a"], Int(1))
    assert same(values["b"], Long(2**40))
    assert same(values["c"], Byte(1))
    assert same(values["d"], Float(0.1))
    assert (values["e"], values["f"], values["g"], values["h"]) == ("x", True, None, 1.5)


def test_correlation_ids_as_bytes() -> None:
    message = PythonMessage()
    message.jms_correlation_id_as_bytes = b"\xff"
    assert convert(message).jms_correlation_id_as_bytes == b"\xff"
    assert convert(JavaMessage()).jms_correlation_id_as_bytes is None


def test_a_map() -> None:
    message = JavaMapMessage()
    message.body = {"a": 1, "b": b"x", "c": Char("c"), "any name": None}
    copy = convert(message)
    assert type(copy) is JmsMapMessage
    assert {name: copy.get_object(name) for name in copy.map_names} == message.body
    assert same(copy.get_object("c"), Char("c"))


def test_a_stream() -> None:
    message = JavaStreamMessage()
    message.body = [1, "x", None, b"abc", Char("c"), 2**40]
    copy = convert(message)
    assert type(copy) is JmsStreamMessage
    assert frozen(copy).body == (1, "x", None, b"abc", "c", 2**40)
    assert frozen(convert(message)).body == frozen(copy).body  # it can be sent again
    copy.write_int(7)  # as writeable as any message that was not sent


def test_bytes() -> None:
    for body in (b"", b"a", b"abcdefghij" * 100):
        message = JavaBytesMessage()
        message.body = body
        copy = convert(message)
        assert type(copy) is JmsBytesMessage
        assert frozen(copy).body == body


def test_bytes_that_end_before_their_length() -> None:
    class Short(JavaBytesMessage):
        def getBodyLength(self) -> int:
            return len(self.body) + 1

    message = Short()
    message.body = b"abcd"
    with pytest.raises(MessageFormatException, match="ends 1 bytes before its length"):
        convert(message)


def test_an_object() -> None:
    message = JavaObjectMessage()
    message.body = {"a": [1]}
    copy = convert(message)
    message.body["a"].append(2)
    assert type(copy) is JmsObjectMessage
    assert received(copy).object == {"a": [1]}


def test_of_several_body_types_the_first_counts() -> None:
    class TextFirst(JavaTextMessage, JavaMapMessage):
        pass

    class MapFirst(JavaMapMessage, JavaTextMessage):
        pass

    text, map_ = TextFirst(), MapFirst()
    assert isinstance(text, TextMessage)
    assert isinstance(text, MapMessage)
    text.setText("x")
    assert [type(convert(each)) for each in (text, map_)] == [JmsTextMessage, JmsMapMessage]


def test_properties_that_only_a_provider_sets_stay_behind() -> None:
    message = JavaTextMessage()
    message.properties = {
        "JMSXDeliveryCount": 3,
        "JMSXUserID": "x",
        "JMS_pyjms_a": 1,
        "JMSXGroupID": "g",
        "JMS_IBM_a": 1,
    }
    assert sorted(convert(message).property_names) == ["JMSXGroupID", "JMS_IBM_a"]


def test_a_reply_destination_of_unknown_kind_is_dropped() -> None:
    class Neither(Destination):
        pass

    message = JavaTextMessage()
    message.jms_reply_to = Neither()
    assert convert(message).jms_reply_to is None


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"a": [1]}, MessageFormatException),
        ({"a": b"x"}, MessageFormatException),
        ({"a": 2**63}, MessageFormatException),
        ({"a b": 1}, MessageFormatException),
        ({"": 1}, IllegalArgumentException),
    ],
)
def test_what_no_message_may_hold_is_refused(properties: dict[str, Any], error: type[Exception]) -> None:
    message = JavaTextMessage()
    message.properties = properties
    with pytest.raises(error):
        convert(message)


@pytest.mark.parametrize("body", [5, b"x", ["x"]])
def test_a_text_that_is_none_is_refused(body: Any) -> None:
    message = JavaTextMessage()
    message.body = body
    with pytest.raises(MessageFormatException):
        convert(message)


@pytest.mark.parametrize(
    "kind", [JmsMessage, JmsTextMessage, JmsBytesMessage, JmsMapMessage, JmsStreamMessage, JmsObjectMessage]
)
def test_messages_of_our_own_convert_as_well(kind: type[JmsMessage]) -> None:
    message = received(kind())
    assert type(convert(message)) is kind
    assert frozen(convert(message)).body == frozen(message).body


def test_a_field_that_hides_a_method_is_told() -> None:
    message: Any = JavaTextMessage()
    message.acknowledge = True
    with pytest.raises(
        MessageFormatException,
        match=r"has a field acknowledge, which hides the method acknowledge\(\) of .* _acknowledge$",
    ):
        convert(message)


def test_the_getter_decides_what_is_sent_not_the_field() -> None:
    class Padded(JavaTextMessage):
        def __init__(self) -> None:
            super().__init__()
            self.text = "espresso"

        def getText(self) -> str:
            return f"<{self.text}>"

        def setText(self, text: str | None) -> None:
            self.text = text

    assert convert(Padded()).text == "<espresso>"  # type: ignore[attr-defined]
