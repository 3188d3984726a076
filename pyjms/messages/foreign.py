"""Messages of another make: any object that implements the interfaces becomes one of ours (JMS 1.1 §3.12).

Only public methods are called, under whichever of their names the other implementation has them. The other message is
left as it is, except that a BytesMessage or StreamMessage is reset, which is the only way to read what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pyjms.api.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from pyjms.api.names import hidden_method
from pyjms.errors import (
    InvalidDestinationException,
    JMSException,
    MessageEOFException,
    MessageFormatException,
    UnsupportedOperationException,
)
from pyjms.messages.base import JmsMessage
from pyjms.messages.bytes import JmsBytesMessage
from pyjms.messages.map import JmsMapMessage
from pyjms.messages.object import JmsObjectMessage
from pyjms.messages.properties import is_client_name
from pyjms.messages.stream import JmsStreamMessage
from pyjms.messages.text import JmsTextMessage


def convert(message: Message) -> JmsMessage:
    """Return a message of ours with the properties and body of `message` and the header fields that clients set.

    Its body type is the first of the five interfaces among the bases of its class; a message with none of them has no
    body. Properties that are not for clients to set, such as JMSXDeliveryCount, stay behind, and so does a JMSReplyTo
    that is neither a Queue nor a Topic. Raises `MessageFormatException` for a value that no message may hold, and for a
    message with a field that hides one of its methods.
    """
    if (reason := hidden_method(message)) is not None:
        raise MessageFormatException(reason)
    for base in type(message).__mro__:
        if base in _CONVERTERS:
            copy = _CONVERTERS[base](message)
            break
    else:
        copy = JmsMessage()
    _copy_header_fields(message, copy)
    for name in _elements(message.property_names):
        if is_client_name(name):
            copy.set_object_property(name, message.get_object_property(name))
    return copy


def _copy_header_fields(message: Message, copy: JmsMessage) -> None:
    copy.jms_type = message.jms_type
    copy.jms_correlation_id = message.jms_correlation_id
    if copy.jms_correlation_id is None:
        try:
            copy.jms_correlation_id_as_bytes = message.jms_correlation_id_as_bytes
        except (UnsupportedOperationException, JMSException):
            copy.jms_correlation_id = None  # JMS 1.1 §3.4.5: the bytes are an option
    try:
        copy.jms_reply_to = message.jms_reply_to
    except InvalidDestinationException:
        copy.jms_reply_to = None  # JMS 1.1 §3.12: a foreign destination need not be understood


def _convert_text(message: Any) -> JmsMessage:
    return JmsTextMessage(message.text)


def _convert_object(message: Any) -> JmsMessage:
    return JmsObjectMessage(message.object)


def _convert_map(message: Any) -> JmsMessage:
    copy = JmsMapMessage()
    for name in _elements(message.map_names):
        copy.set_object(name, message.get_object(name))
    return copy


def _convert_bytes(message: Any) -> JmsMessage:
    copy = JmsBytesMessage()
    message.reset()
    left = message.body_length
    while left > 0:
        buffer = bytearray(left)
        count = message.read_bytes(buffer)
        if not 0 < count <= left:
            raise MessageFormatException(f"the body of {type(message).__name__} ends {left} bytes before its length")
        copy.write_bytes(buffer, 0, count)
        left -= count
    return copy


def _convert_stream(message: Any) -> JmsMessage:
    copy = JmsStreamMessage()
    message.reset()
    while True:
        try:
            value = message.read_object()
        except MessageEOFException:
            return copy
        copy.write_object(value)


_CONVERTERS: Mapping[type, Callable[[Any], JmsMessage]] = {
    TextMessage: _convert_text,
    ObjectMessage: _convert_object,
    MapMessage: _convert_map,
    BytesMessage: _convert_bytes,
    StreamMessage: _convert_stream,
}


def _elements(names: Any) -> Iterator[str]:
    """Yield what a Python iterable or an object with the methods of java.util.Enumeration holds."""
    if isinstance(names, Iterable):
        yield from names
        return
    while names.hasMoreElements():
        yield names.nextElement()
