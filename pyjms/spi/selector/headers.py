"""The header fields that a selector can read, and how they and properties are read from an envelope (JMS 1.1 §3.8.1.1).

`equalities_in` finds the values that fields and properties must have for a selector to match: with an index by them, waiting consumers are found
without checking each.
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
"""Header fields that an attribute of the envelope holds in the form of selectors."""

FUNCTIONS: Final[Mapping[str, Callable[[Envelope], str | None]]] = MappingProxyType(
    {"JMSCorrelationID": _correlation_id, "JMSDeliveryMode": _delivery_mode}
)
"""Header fields that selectors see in another form than that of the envelope."""

REFUSED: Final = frozenset({"JMSDeliveryTime", "JMSDestination", "JMSExpiration", "JMSRedelivered", "JMSReplyTo"})
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
"""Identifiers and the values that they must equal, sorted, each identifier once."""

UNKNOWN_KEY: Final = 0x6A6D73  # any number: a selector that has it by chance is checked needlessly
"""The key of messages for which all selectors must be checked."""

# From these limits on a float, or a double, equals whole numbers besides its own value.
_SINGLE = 2.0**24
_DOUBLE = 2.0**53


def equalities_in(root: Node) -> Equalities:
    """Return equalities that are necessary for the condition `root` to be true, though perhaps not sufficient; () if none are known."""
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
    """Return the key of a message among selectors with equalities for these identifiers."""
    values = [read(envelope, name) for name in names]
    for value in values:
        if isinstance(value, float) and not _is_exact(value):
            return UNKNOWN_KEY
    return hash(tuple(values))


def _is_exact(value: Stored) -> bool:
    """Return whether, among exact values and whole numbers, a value equals by the rules of selectors only those that it equals in Python."""
    if not isinstance(value, float):
        return True
    limit = _SINGLE if isinstance(value, Float) else _DOUBLE
    return -limit < value < limit
