"""Messages into envelopes, deliveries into messages: the edge where message objects meet the SPI.

Nothing is copied on either way. What a message has handed over it does not change any more (`base`), and what it
received it only reads. Both functions are on the path of every message.
"""

# ruff: noqa: SLF001 - the other half of `JmsMessage`: it fills and reads its slots, one by one, without a call for each

from __future__ import annotations

from typing import Any

from pyjms.messages.base import JmsMessage
from pyjms.messages.bytes import JmsBytesMessage
from pyjms.messages.context import MessageContext
from pyjms.messages.destinations import address_of
from pyjms.messages.map import JmsMapMessage
from pyjms.messages.object import JmsObjectMessage
from pyjms.messages.properties import DELIVERY_COUNT, NO_NAMES
from pyjms.messages.stream import JmsStreamMessage
from pyjms.messages.text import JmsTextMessage
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, Envelope, MessageId

__all__ = ["MessageContext", "freeze", "thaw"]

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
) -> Envelope:
    """Return `message` as it is now, with the header fields that the send decides (JMS 1.1 §3.4.11).

    The message stays as writeable as it was, whatever its body: its next change does not reach the envelope (§3.9).
    """
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
    )


def thaw(delivery: Delivery, context: MessageContext) -> JmsMessage:
    """Return a received message: read-only in its properties and its body (JMS 1.1 §3.5.3, §3.11.2)."""
    envelope = delivery.envelope
    message: JmsMessage = _new(_CLASSES[envelope.body_kind])
    message._context = context
    message._destination = envelope.destination
    message._message_id = envelope.message_id
    message._timestamp = envelope.timestamp_ms
    message._expiration = envelope.expiration_ms
    message._delivery_mode = envelope.delivery_mode
    message._priority = envelope.priority
    message._correlation_id = envelope.correlation_id
    message._reply_to = envelope.reply_to
    message._redelivered = delivery.redelivered
    message._type = envelope.jms_type
    message._delivery_count = delivery.count
    properties = envelope.properties  # never written: copied first
    if DELIVERY_COUNT in properties:  # said by the sender: the delivery says what is true
        properties = {name: value for name, value in properties.items() if name != DELIVERY_COUNT}
    message._properties = properties  # type: ignore[assignment]
    message._properties_read_only = True
    message._settable = NO_NAMES
    message._body_owned = False
    message._body_read_only = True
    message.received_body(envelope.body)
    return message
