"""The header fields that a selector can read, and how they and properties come out of an envelope (JMS 1.1 §3.8.1.1).

`equalities_in` finds what fields and properties must equal for a selector to hold: an index by them finds waiting consumers without
asking each.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from pyjms.spi.selector.nodes import And, Comparison, Identifier, Number, String
from pyjms.types import Float

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyjms.spi.envelope import Envelope
    from pyjms.spi.selector.nodes import Node
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


Equalities: TypeAlias = tuple[tuple[str, str | int | float], ...]
"""Identifiers and what they must equal, sorted, each identifier once."""

UNKNOWN_KEY: Final = 0x6A6D73  # whatever number: who has it by chance is asked in vain
"""The key of messages for which all selectors must be asked."""

# From here on a float, and from the other a double, is not only equal to whole numbers that are itself.
_SINGLE = 2.0**24
_DOUBLE = 2.0**53


def equalities_in(root: Node) -> Equalities:
    """Return what must be equal for the condition `root` to be true; it may ask for more, and () says nothing."""
    found: dict[str, str | int | float] = {}
    for term in root.terms if isinstance(root, And) else (root,):
        if isinstance(term, Comparison) and term.operator == "=":
            for name, literal in ((term.left, term.right), (term.right, term.left)):
                if isinstance(name, Identifier) and isinstance(literal, (String, Number)) and _is_exact(literal.value):
                    found.setdefault(name.name, literal.value)
    return tuple(sorted(found.items(), key=lambda each: each[0]))


def key_of_literals(equalities: Equalities) -> int:
    """Return the key of the messages for which `equalities` hold."""
    return hash(tuple([value for _, value in equalities]))


def key_of_message(envelope: Envelope, names: Sequence[str]) -> int:
    """Return the key of a message among selectors that say what these identifiers must equal."""
    values = [read(envelope, name) for name in names]
    for value in values:
        if isinstance(value, float) and not _is_exact(value):
            return UNKNOWN_KEY
    return hash(tuple(values))


def _is_exact(value: Stored) -> bool:
    """Return whether a value equals, by the rules of selectors, those alone that it equals in Python, of all values that are exact and all whole numbers."""
    if not isinstance(value, float):
        return True
    limit = _SINGLE if isinstance(value, Float) else _DOUBLE
    return -limit < value < limit
