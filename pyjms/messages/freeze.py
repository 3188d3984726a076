"""The conversion of messages into envelopes, and of deliveries into messages: the boundary between message objects and the SPI.

Nothing is copied in either direction. A message no longer changes the parts that it has handed over (`base`), and only reads
the parts that it received. `freeze` and `thaw` are on the path of every message.

`convert` makes one of our messages from one of another implementation (JMS 1.1 §3.12). It calls public methods only, under whichever of their names the
other implementation has. The other message is left unchanged, except that a BytesMessage or StreamMessage is reset, the only way
to read its contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
from pyjms.messages.base import DELIVERY_COUNT, NO_NAMES, JmsMessage, MessageContext, is_client_name
from pyjms.messages.bodies import JmsBytesMessage, JmsMapMessage, JmsObjectMessage, JmsStreamMessage, JmsTextMessage
from pyjms.messages.destinations import address_of
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, Envelope, MessageId

__all__ = ["MessageContext", "freeze", "thaw"]


# ruff: noqa: SLF001 - the other half of `JmsMessage`: it fills and reads its slots, one by one, without a call for each


_CLASSES: tuple[type[JmsMessage], ...] = (
    JmsMessage,
    JmsTextMessage,
    JmsBytesMessage,
    JmsMapMessage,
    JmsStreamMessage,
    JmsObjectMessage,
)
"""By `BodyKind`, which counts from 0."""

_new: Any = object.__new__


def freeze(
    message: JmsMessage,
    destination: Address,
    message_id: MessageId | None,
    timestamp_ms: int,
    expiration_ms: int,
    delivery_mode: int,
    priority: int,
    deliver_at_ms: int = 0,
) -> Envelope:
    """Return `message` in its present state, with the header fields that the send sets (JMS 1.1 §3.4.11).

    The message stays as writeable as it was, with any body: its next change does not reach the envelope (§3.9).
    """
    # From here on the dictionary belongs to the envelope, too: with no name settable, the next setter
    # leaves the fast path, and copies it.
    message._settable = NO_NAMES
    reply_to = message._reply_to
    return Envelope(
        destination,
        message_id,
        timestamp_ms,
        expiration_ms,
        delivery_mode,
        priority,
        message._correlation_id,
        None if reply_to is None else reply_to if isinstance(reply_to, Address) else address_of(reply_to),
        message._type,
        message._properties,
        message.kind,
        message.frozen_body(),
        deliver_at_ms,
    )


def thaw(delivery: Delivery, context: MessageContext) -> JmsMessage:
    """Return a received message: read-only in its properties and its body (JMS 1.1 §3.5.3, §3.11.2)."""
    envelope = delivery.envelope
    # The constructor is left out, as each of its values would be overwritten here.
    message: JmsMessage = _new(_CLASSES[envelope.body_kind])
    message._context = context
    # The message keeps the address: the API's object is made when the program asks for it, which most programs never do.
    message._destination = envelope.destination
    message._message_id = envelope.message_id
    message._timestamp = envelope.timestamp_ms
    message._expiration = envelope.expiration_ms
    # Without a delay it is the time of the send (JMS 2.0 §3.4.13).
    message._delivery_time = envelope.deliver_at_ms or envelope.timestamp_ms
    message._delivery_mode = envelope.delivery_mode
    message._priority = envelope.priority
    message._correlation_id = envelope.correlation_id
    message._reply_to = envelope.reply_to
    message._redelivered = delivery.redelivered
    message._type = envelope.jms_type
    message._delivery_count = delivery.count
    properties = envelope.properties  # never written: copied first
    if DELIVERY_COUNT in properties:  # the sender's value: that of the delivery is the true one
        properties = {name: value for name, value in properties.items() if name != DELIVERY_COUNT}
    message._properties = properties  # type: ignore[assignment]
    message._properties_read_only = True
    message._settable = NO_NAMES
    message._body_owned = False
    message._body_read_only = True
    message.received_body(envelope.body)
    return message


def convert(message: Message) -> JmsMessage:
    """Return one of our messages with the properties and body of `message` and the header fields that clients set.

    Its body type is the first of the five interfaces among the bases of its class; a message with none of them has no
    body. Properties that clients may not set, such as JMSXDeliveryCount, are not copied, nor is a JMSReplyTo
    that is neither a Queue nor a Topic. Raises `MessageFormatException` for a value that no message may hold, and for a
    message with a field that hides one of its methods.
    """
    if (reason := hidden_method(message)) is not None:
        raise MessageFormatException(reason)
    # The first interface decides, as a class may derive from several (decision 0202).
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
        # Another implementation may return less than the buffer holds.
        count = message.read_bytes(buffer)
        # An implementation that counts wrongly must neither cause an endless loop nor a read past the buffer.
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
    """Yield the elements of a Python iterable, or of an object with the methods of java.util.Enumeration."""
    if isinstance(names, Iterable):
        yield from names
        return
    while names.hasMoreElements():
        yield names.nextElement()


# ruff: noqa: SLF001 - the other half of `JmsMessage`, as `freeze` is


@contextmanager
def carrying(message: Message, added: Mapping[str, str]) -> Iterator[None]:
    """Add text properties to the message when it is sent within the block; afterwards it is unchanged.

    A message of another implementation cannot be restored: its properties are set, if they can be, and stay.
    """
    if not isinstance(message, JmsMessage):
        for name, value in added.items():
            with suppress(JMSException):  # it is read-only: it is sent without them
                message.set_string_property(name, value)
        yield
        return
    # `freeze` hands the dictionary to the envelope and empties `_settable`; both are restored,
    # as the message never had these properties.
    kept, settable = message._properties, message._settable
    message._properties = {**kept, **added}
    try:
        yield
    finally:
        message._properties, message._settable = kept, settable
