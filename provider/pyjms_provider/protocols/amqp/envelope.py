"""Messages of AMQP clients in the broker: read for JMS, and kept as the bytes that they came in."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Final

from pyjms.spi.envelope import Address, Envelope
from pyjms_provider.protocols.amqp.addresses import split_address
from pyjms_provider.protocols.amqp.jms import read_message, write_header, write_message
from pyjms_provider.protocols.amqp.message import Message


class AmqpEnvelope(Envelope):
    """A message that keeps the sections in which an AMQP client wrote it: its receivers get the same bare message.

    A copy with other fields (`dataclasses.replace`) has no sections, and is written from its fields.
    """

    __slots__ = ("message",)

    message: Message
    """The sections. Not set in a copy."""

    @property
    def memory_bytes(self) -> int:
        """About how much memory the message takes beside the object itself."""
        message = getattr(self, "message", None)
        # Once as bytes, once as values.
        return 0 if message is None else 2 * len(message.data)

    def __eq__(self, other: object) -> bool:
        return _plain(self) == _plain(other) if isinstance(other, Envelope) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as that of an envelope


_NAMES: Final = tuple([each.name for each in fields_of(Envelope)])


def _plain(envelope: Envelope) -> tuple[object, ...]:
    return tuple([getattr(envelope, name) for name in _NAMES])


def read_envelope(data: bytes, *, now_ms: int, destination: Address) -> AmqpEnvelope:
    """Return the envelope of a message that a client sends.

    Args:
        data: all its sections.
        now_ms: the time in milliseconds since 1970, for messages that have a time to live alone.
        destination: the node that the message goes to.

    Raises:
        DecodeError: it is no message.
    """
    message = Message(data)
    read = read_message(message, now_ms=now_ms, destination=destination, address=split_address)
    envelope = AmqpEnvelope(*_plain(read))  # type: ignore[arg-type]  # the fields, in their order
    envelope.destination = destination  # type: ignore[misc]  # not shared yet
    envelope.message = message
    return envelope


def write_envelope(envelope: Envelope, *, now_ms: int, delivery_count: int) -> bytes:
    """Return the sections in which a client gets a message.

    Args:
        envelope: the message.
        now_ms: the time in milliseconds since 1970, for the time to live.
        delivery_count: failed deliveries before this one.

    Raises:
        EncodeError: a value has no form in AMQP.
    """
    message: Message | None = getattr(envelope, "message", None) if type(envelope) is AmqpEnvelope else None
    if message is None:
        return write_message(envelope, now_ms=now_ms, delivery_count=delivery_count)
    return write_header(envelope, now_ms=now_ms, delivery_count=delivery_count) + message.rest
