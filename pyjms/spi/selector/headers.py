"""The header fields that a selector can read, and how they and properties come out of an envelope (JMS 1.1 §3.8.1.1)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyjms.spi.envelope import Envelope
    from pyjms.types import Stored

_DELIVERY_MODES = {1: "NON_PERSISTENT", 2: "PERSISTENT"}


def _delivery_mode(envelope: Envelope) -> str | None:
    return _DELIVERY_MODES.get(envelope.delivery_mode)


def _correlation_id(envelope: Envelope) -> str | None:
    # A provider's native value (§3.4.5) is no String, and a selector has no other type for it.
    value = envelope.correlation_id
    return value if isinstance(value, str) else None


ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "JMSMessageID": "message_id",
        "JMSPriority": "priority",
        "JMSTimestamp": "timestamp_ms",
        "JMSType": "jms_type",
    }
)
"""Header fields that an attribute of the envelope holds as selectors see them."""

FUNCTIONS: Final[Mapping[str, Callable[[Envelope], str | None]]] = MappingProxyType(
    {"JMSCorrelationID": _correlation_id, "JMSDeliveryMode": _delivery_mode}
)
"""Header fields that selectors see in another form than the envelope holds them."""

REFUSED: Final = frozenset({"JMSDestination", "JMSExpiration", "JMSRedelivered", "JMSReplyTo"})
"""Header fields that a selector may not name. All other names, JMSX… and JMS_… among them, are properties."""


def read(envelope: Envelope, name: str) -> Stored:
    """Return the value of an identifier; None is null."""
    if name in ATTRIBUTES:
        value: Stored = getattr(envelope, ATTRIBUTES[name])
        return value
    if name in FUNCTIONS:
        return FUNCTIONS[name](envelope)
    return envelope.properties.get(name)
