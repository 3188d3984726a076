"""Messages of AMQP clients in the broker: read for JMS, and kept as the bytes that they came in."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Any, Final

from pyjms.spi.envelope import Address, Envelope
from pyjms_provider.amqp.addresses import split_address
from pyjms_provider.amqp.jms import read_fields, read_message, write_header, write_message
from pyjms_provider.amqp.message import Message


class AmqpEnvelope(Envelope):
    """A message that keeps the sections in which an AMQP client wrote it: its receivers get the same bare message.

    Once `forget` has dropped the properties and the body, they are read again on first access. A copy with other fields
    (`dataclasses.replace`) has no sections, and is written from its fields. Safe to use from any thread.
    """

    __slots__ = ("_rest_start", "_sections")

    _sections: bytes
    _rest_start: int

    def keep(self, message: Message) -> None:
        """Keep the sections from which it was read."""
        self._sections, self._rest_start = message.data, message.rest_start

    @property
    def sections(self) -> bytes | None:
        """The sections, as they came; None: it is a copy."""
        return getattr(self, "_sections", None)

    @property
    def rest(self) -> bytes:
        """What receivers get behind the header: the message annotations, and the bare message. The envelope is no copy."""
        return self._sections[self._rest_start :]

    def __getattr__(self, name: str) -> Any:
        """Read the properties and the body again."""
        # Python calls this only for attributes that are not set, such as these two after `forget`.
        if name not in _LARGE:
            raise AttributeError(name)
        whole = read_message(Message(self._sections), now_ms=0, destination=self.destination, address=split_address)
        # Two threads may do so at once: they set equal values, so no lock is needed.
        self.properties, self.body = whole.properties, whole.body  # type: ignore[misc]  # as the constructor does
        return getattr(whole, name)

    def forget(self) -> None:
        """Drop the properties and the body, which can be read again."""
        # Deleted, so that `__getattr__` is called for them; None would be a valid body.
        del self.properties, self.body

    @property
    def memory_bytes(self) -> int | None:
        """About how much memory the message takes beside the object itself; None: as its fields say."""
        sections = self.sections
        return None if sections is None else len(sections)

    def __eq__(self, other: object) -> bool:
        return _plain(self) == _plain(other) if isinstance(other, Envelope) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as that of an envelope


_LARGE: Final = frozenset({"properties", "body"})
_NAMES: Final = tuple([each.name for each in fields_of(Envelope)])


def _plain(envelope: Envelope) -> tuple[Any, ...]:
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
    return envelope_of(Message(data), now_ms=now_ms, destination=destination)


def envelope_of(message: Message, *, now_ms: int, destination: Address) -> AmqpEnvelope:
    """Return the envelope of a message whose sections have been found. As `read_envelope`."""
    envelope = AmqpEnvelope(*read_fields(message, now_ms=now_ms, destination=destination, address=split_address))
    envelope.destination = destination  # type: ignore[misc]  # not shared yet
    envelope.keep(message)
    return envelope


def write_envelope(envelope: Envelope, *, now_ms: int, delivery_count: int, delivery_annotations: bytes = b"") -> bytes:
    """Return the sections in which a client gets a message.

    Args:
        envelope: the message.
        now_ms: the time in milliseconds since 1970, for the time to live.
        delivery_count: failed deliveries before this one.
        delivery_annotations: their section.

    Raises:
        EncodeError: a value has no form in AMQP.
    """
    if type(envelope) is not AmqpEnvelope or envelope.sections is None:
        return write_message(
            envelope, now_ms=now_ms, delivery_count=delivery_count, delivery_annotations=delivery_annotations
        )
    header = write_header(envelope, now_ms=now_ms, delivery_count=delivery_count)
    return header + delivery_annotations + envelope.rest
