"""One message as it crosses the SPI: headers, typed properties and an immutable typed body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NewType, TypeAlias, TypeVar, dataclass_transform

from pyjms.types import Stored

__all__ = [
    "DELIVER_AT",
    "SET_BY_PROVIDERS",
    "Address",
    "AddressKind",
    "Body",
    "BodyKind",
    "ConnectionId",
    "Envelope",
    "MessageId",
    "ObjectBody",
    "content_size",
    "fact",
]


MessageId = NewType("MessageId", str)

ConnectionId = NewType("ConnectionId", str)

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def fact(cls: type[_T]) -> type[_T]:
    """Make `cls` a record that is frozen for type checkers, at the cost of a plain one.

    For the few records that are made for every message. A dataclass frozen at run time costs 2.9 µs to make where this
    one costs 0.4 µs (`docs/design/performance.md`); all other records are frozen at run time.
    """
    return dataclass(slots=True)(cls)


class AddressKind(IntEnum):
    """Whether a destination is a queue or a topic."""

    QUEUE = 1
    TOPIC = 2


@dataclass(frozen=True, slots=True)
class Address:
    """The name of a destination as it crosses the SPI. Two addresses are one destination when all parts are equal."""

    kind: AddressKind
    name: str
    temporary: bool = False

    def __str__(self) -> str:
        """Return for instance ``queue://orders``."""
        return f"{'temp-' if self.temporary else ''}{self.kind.name.lower()}://{self.name}"


class BodyKind(IntEnum):
    """The five body types of JMS 1.1 §3.11, and none at all."""

    NONE = 0
    TEXT = 1
    BYTES = 2
    MAP = 3
    STREAM = 4
    OBJECT = 5


@dataclass(frozen=True, slots=True)
class ObjectBody:
    """A pickled object. `local` is true while it has never left the process that pickled it.

    A provider that hands over bytes from a wire or a store sets `local` to False: such bytes are unpickled only for
    classes that the application trusts.
    """

    data: bytes
    local: bool


if TYPE_CHECKING:
    Body: TypeAlias = str | bytes | Mapping[str, Stored] | tuple[Stored, ...] | ObjectBody | None
else:
    Body = object


@fact
class Envelope:
    """A message, frozen. Nothing in it is ever changed: one envelope is shared by all holders of the message.

    `body` has the type that belongs to `body_kind`: NONE: None; TEXT: str or None; BYTES: bytes; MAP: a mapping of name to
    value; STREAM: a tuple of values; OBJECT: `ObjectBody` or None. Values are `pyjms.types.Stored`.
    """

    destination: Address
    message_id: MessageId | None
    """Set by the sending runtime: ``ID:…``, or None when the client asked for none (§3.4.3)."""
    timestamp_ms: int
    """Hand-over time in milliseconds since 1970 UTC; 0 when the client asked for none (§3.4.4)."""
    expiration_ms: int
    """Time in milliseconds since 1970 UTC when the message expires; 0: never (§3.4.9)."""
    delivery_mode: int
    """1: NON_PERSISTENT, 2: PERSISTENT (§3.4.2)."""
    priority: int
    """0 to 9 (§3.4.10)."""
    correlation_id: str | bytes | None
    reply_to: Address | None
    jms_type: str | None
    properties: Mapping[str, Stored]
    """Application, JMSX and provider properties; values as `pyjms.types.Stored` without bytes (§3.5)."""
    body_kind: BodyKind
    body: Body
    deliver_at_ms: int = 0
    """The delivery time: no consumer gets the message before it, in milliseconds since 1970 UTC (JMS 2.0 §3.4.13); 0: at once."""


DELIVER_AT: Final = "JMS_pyjms_deliverAt"
"""The long property that says the delivery time where there is no field for it: in stored messages, and in those of clients that know none.

The bundled broker takes it for `Envelope.deliver_at_ms`, and removes it.
"""


_VALUE = 40
"""The size of a property, or of a value in a map or a stream, without its characters."""


def content_size(envelope: Envelope) -> int:
    """Return the approximate size of body and properties in memory, in bytes."""
    properties, body = envelope.properties, envelope.body
    size = _VALUE * len(properties)
    for value in properties.values():
        if type(value) is str:
            size += len(value)
    if isinstance(body, (str, bytes)):  # a test against `str | bytes` costs as much as the rest
        size += len(body)
    elif isinstance(body, ObjectBody):
        size += len(body.data)
    elif body is not None:
        # Maps and streams count by their values: a limit of bytes would otherwise let any number of them through.
        values = body if isinstance(body, tuple) else body.values()
        size += sum(_VALUE + (len(value) if isinstance(value, str | bytes) else 0) for value in values)
    return size


SET_BY_PROVIDERS: Final = frozenset(
    {
        "JMSXUserID",
        "JMSXAppID",
        "JMSXDeliveryCount",
        "JMSXProducerTXID",
        "JMSXConsumerTXID",
        "JMSXRcvTimestamp",
        "JMSXState",
    }
)
"""A broker refuses them from a client, as other clients take these values for the provider's."""
