from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from pyjms.errors import MessageFormatException, MessageNotReadableException, MessageNotWriteableException
from pyjms.messages.base import JmsMessage
from pyjms.messages.bodies import JmsBytesMessage, JmsMapMessage, JmsObjectMessage, JmsStreamMessage, JmsTextMessage
from tests.pyjms.messages.support import Context, received

KINDS = (JmsMessage, JmsTextMessage, JmsBytesMessage, JmsMapMessage, JmsStreamMessage, JmsObjectMessage)
EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)

VALUES: dict[str, Any] = {
    "boolean": True,
    "byte": 1,
    "short": 1,
    "char": "c",
    "int": 1,
    "long": 1,
    "float": 1.0,
    "double": 1.0,
    "bytes": b"abc",
    "object": "o",
}
WRITERS: list[tuple[type[JmsMessage], str, tuple[Any, ...]]] = [
    *((JmsMapMessage, f"set_{kind}", ("x", value)) for kind, value in {**VALUES, "string": "s"}.items()),
    (JmsMapMessage, "set_bytes", ("x", b"abc", 0, 1)),
    *((JmsStreamMessage, f"write_{kind}", (value,)) for kind, value in {**VALUES, "string": "s"}.items()),
    (JmsStreamMessage, "write_bytes", (b"abc", 0, 1)),
    *((JmsBytesMessage, f"write_{kind}", (value,)) for kind, value in {**VALUES, "utf": "s"}.items()),
    (JmsBytesMessage, "write_bytes", (b"abc", 0, 1)),
    (JmsTextMessage, "setText", ("t",)),
    (JmsObjectMessage, "setObject", ("o",)),
]
READERS = [
    *((JmsStreamMessage, f"read_{kind}") for kind in [*VALUES, "string"]),
    *(
        (JmsBytesMessage, f"read_{kind}")
        for kind in [*VALUES, "unsigned_byte", "unsigned_short", "utf"]
        if kind != "object"
    ),
    (JmsBytesMessage, "getBodyLength"),
]


@pytest.mark.realises("BOIL-BODY-3", "BOIL-HDR-16", "BOIL-BODY-2")
@pytest.mark.parametrize(("kind", "method", "arguments"), WRITERS)
def test_the_body_of_a_received_message_is_read_only(
    kind: type[JmsMessage], method: str, arguments: tuple[Any, ...]
) -> None:
    message = received(kind())
    with pytest.raises(MessageNotWriteableException, match="until clear_body"):
        getattr(message, method)(*arguments)
    message.clear_properties()
    with pytest.raises(MessageNotWriteableException):
        getattr(message, method)(*arguments)
    message.clear_body()
    getattr(message, method)(*arguments)
    getattr(kind(), method)(*arguments)  # as on a new message


@pytest.mark.parametrize(("kind", "method"), READERS)
def test_a_new_sequence_is_write_only(kind: type[Any], method: str) -> None:
    def read(message: Any) -> None:
        arguments = (bytearray(8),) if method == "read_bytes" else ()
        getattr(message, method)(*arguments)

    for message in (kind(), received(kind())):
        message.clear_body()
        with pytest.raises(MessageNotReadableException):
            read(message)
        message.write_object("1234567890")
        with pytest.raises(MessageNotReadableException):
            read(message)
        received(message)  # a send does not reset it
        with pytest.raises(MessageNotReadableException):
            read(message)
        message.reset()
        if method in {"getBodyLength", "read_bytes"} and kind is JmsBytesMessage:
            read(message)
        with pytest.raises(MessageNotWriteableException):
            message.write_object("1")


@pytest.mark.realises("BOIL-BODY-2")
@EACH_KIND
def test_clearing_a_body_leaves_all_else(kind: type[JmsMessage]) -> None:
    for message in (kind(), received(kind())):
        message.clear_properties()
        message.set_int_property("x", 1)
        message.jms_type = "order"
        message.clearBody()
        assert message.get_int_property("x") == 1
        assert message.jms_type == "order"
    arrived = received(message)
    arrived.clear_body()
    assert arrived.get_int_property("x") == 1
    with pytest.raises(MessageNotWriteableException):  # the properties stay read-only
        arrived.set_int_property("x", 2)


@pytest.mark.realises("BOIL-BODY-1", "BOIL-BODY-4", "BOIL-MSG-1")
@EACH_KIND
def test_a_message_arrives_as_the_type_that_it_was_sent_as(kind: type[JmsMessage]) -> None:
    assert type(received(kind())) is kind
    assert type(received(received(kind()))) is kind


@EACH_KIND
def test_acknowledging_is_the_session_s_business(kind: type[JmsMessage]) -> None:
    context = Context()
    message = received(kind(), context)
    message.acknowledge()
    message.clear_body()
    message.clear_properties()
    message.acknowledge()
    assert context.acknowledged == [message, message]
    kind().acknowledge()  # never received: nothing to acknowledge


@EACH_KIND
def test_messages_are_sent_and_not_copied(kind: type[JmsMessage]) -> None:
    for message in (kind(), received(kind())):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                attempt(message)
        with pytest.raises(MessageFormatException, match="cannot be pickled"):
            JmsObjectMessage(message)


@EACH_KIND
def test_a_message_shows_its_type_and_id_but_not_its_content(kind: type[JmsMessage]) -> None:
    assert repr(kind()) == f"<{kind.__name__} not sent>"
    assert repr(received(kind())) == f"<{kind.__name__} ID:1>"


@EACH_KIND
def test_messages_have_no_room_for_what_is_no_field(kind: type[JmsMessage]) -> None:
    message: Any = kind()
    with pytest.raises(AttributeError):
        message.jms_prority = 5
    assert not hasattr(message, "__dict__")
