"""What becomes of a message that a client rejects: it is kept aside with the reason, and never lost."""

from __future__ import annotations

from dataclasses import replace

from pyjms.spi.envelope import Address, AddressKind, Envelope

__all__ = ["DEAD_LETTERS", "dead_letter"]

DEAD_LETTERS = Address(AddressKind.QUEUE, "DLQ")
"""The queue of dead letters of each virtual host."""


def dead_letter(envelope: Envelope, reason: str, delivery_count: int) -> Envelope:
    """Return the message as it goes to the queue of dead letters.

    It keeps its id, headers, properties and body, never expires, and gets three provider properties: why it was
    rejected, where it was first sent to, and how often it had been delivered (JMS 1.1 §3.5.10: provider properties).
    """
    properties = dict(envelope.properties)
    properties["JMS_pyjms_deadReason"] = reason
    properties.setdefault("JMS_pyjms_deadDestination", str(envelope.destination))
    properties["JMS_pyjms_deadCount"] = delivery_count
    return replace(envelope, destination=DEAD_LETTERS, properties=properties, expiration_ms=0)
