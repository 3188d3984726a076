"""The header fields of a message (JMS 1.1 §3.4). They can be set at any time; `send` sets most of them anew (§3.4.11).

`HeaderFields` is the lowest layer of `base.JmsMessage`. Destinations are kept as they came: those of a received
message are addresses until somebody asks for them.
"""

from __future__ import annotations

from pyjms.api.destination import Destination
from pyjms.api.message import Message
from pyjms.errors import MessageFormatException
from pyjms.messages.context import MessageContext
from pyjms.messages.destinations import address_of
from pyjms.messages.storing import copy_bytes
from pyjms.spi.envelope import Address
from pyjms.types import Long


class HeaderFields(Message):
    """Header fields in slots, checked loosely when they are set."""

    __slots__ = (
        "_context",
        "_correlation_id",
        "_delivery_mode",
        "_destination",
        "_expiration",
        "_message_id",
        "_priority",
        "_redelivered",
        "_reply_to",
        "_timestamp",
        "_type",
    )
    _context: MessageContext | None
    _correlation_id: str | bytes | None
    _delivery_mode: int
    _destination: Destination | Address | None
    _expiration: int
    _message_id: str | None
    _priority: int
    _redelivered: bool
    _reply_to: Destination | Address | None
    _timestamp: int
    _type: str | None

    @property
    def jms_message_id(self) -> str | None:
        return self._message_id

    @jms_message_id.setter
    def jms_message_id(self, id: str | None) -> None:
        self._message_id = _text(id, "JMSMessageID")

    @property
    def jms_timestamp(self) -> int:
        return self._timestamp

    @jms_timestamp.setter
    def jms_timestamp(self, timestamp: int) -> None:
        self._timestamp = _number(timestamp, "JMSTimestamp")

    @property
    def jms_correlation_id_as_bytes(self) -> bytes | None:
        value = self._correlation_id
        return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value

    @jms_correlation_id_as_bytes.setter
    def jms_correlation_id_as_bytes(self, correlation_id: bytes | None) -> None:
        self._correlation_id = (
            None if correlation_id is None else copy_bytes(correlation_id, "header field", "JMSCorrelationID")
        )

    @property
    def jms_correlation_id(self) -> str | None:
        value = self._correlation_id
        # bytes that are no UTF-8 come from a native client: shown, never an error for who reads the field
        return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value

    @jms_correlation_id.setter
    def jms_correlation_id(self, correlation_id: str | None) -> None:
        self._correlation_id = _text(correlation_id, "JMSCorrelationID")

    @property
    def jms_reply_to(self) -> Destination | None:
        if isinstance(self._reply_to, Address):
            self._reply_to = self._found(self._reply_to)
        return self._reply_to

    @jms_reply_to.setter
    def jms_reply_to(self, reply_to: Destination | None) -> None:
        if reply_to is not None:
            address_of(reply_to)  # now, rather than at send
        self._reply_to = reply_to

    @property
    def jms_destination(self) -> Destination | None:
        if isinstance(self._destination, Address):
            self._destination = self._found(self._destination)
        return self._destination

    @jms_destination.setter
    def jms_destination(self, destination: Destination | None) -> None:
        if destination is not None and not isinstance(destination, Destination):
            raise MessageFormatException(
                f"JMSDestination takes a Destination or None, not {type(destination).__name__}"
            )
        self._destination = destination

    @property
    def jms_delivery_mode(self) -> int:
        return self._delivery_mode

    @jms_delivery_mode.setter
    def jms_delivery_mode(self, delivery_mode: int) -> None:
        self._delivery_mode = _number(delivery_mode, "JMSDeliveryMode")

    @property
    def jms_redelivered(self) -> bool:
        return self._redelivered

    @jms_redelivered.setter
    def jms_redelivered(self, redelivered: bool) -> None:
        if not isinstance(redelivered, bool):
            raise MessageFormatException(f"JMSRedelivered takes a bool, not {type(redelivered).__name__}")
        self._redelivered = redelivered

    @property
    def jms_type(self) -> str | None:
        return self._type

    @jms_type.setter
    def jms_type(self, type: str | None) -> None:
        self._type = _text(type, "JMSType")

    @property
    def jms_expiration(self) -> int:
        return self._expiration

    @jms_expiration.setter
    def jms_expiration(self, expiration: int) -> None:
        self._expiration = _number(expiration, "JMSExpiration")

    @property
    def jms_priority(self) -> int:
        return self._priority

    @jms_priority.setter
    def jms_priority(self, priority: int) -> None:
        self._priority = _number(priority, "JMSPriority")

    def mark_sent(
        self,
        destination: Destination | None,
        message_id: str | None,
        timestamp_ms: int,
        expiration_ms: int,
        delivery_mode: int,
        priority: int,
    ) -> None:
        """Show what a send used, once it has returned (JMS 1.1 §3.4.11). For the runtime: nothing is checked."""
        self._destination = destination
        self._message_id = message_id
        self._timestamp = timestamp_ms
        self._expiration = expiration_ms
        self._delivery_mode = delivery_mode
        self._priority = priority

    def _found(self, address: Address) -> Destination:
        assert self._context is not None, "only received messages have addresses"
        return self._context.destination_of(address)


def _text(value: str | None, field: str) -> str | None:
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise MessageFormatException(f"{field} takes a str or None, not {type(value).__name__}")


def _number(value: int, field: str) -> int:
    if type(value) is int and -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise MessageFormatException(f"{field} takes an int, not {type(value).__name__}")
    number = int.__int__(value)
    if not Long.minimum <= number <= Long.maximum:
        raise MessageFormatException(f"{field} takes an int of at most 64 bits")
    return number
