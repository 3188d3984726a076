"""How much a message holds, roughly: what limits in bytes count."""

from __future__ import annotations

from pyjms.spi.envelope import Envelope, ObjectBody

__all__ = ["content_size"]

_VALUE = 40
"""What a property takes, or a value in a map or a stream, without its characters."""


def content_size(envelope: Envelope) -> int:
    """Return about how many bytes body and properties take in memory."""
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
        values = body if isinstance(body, tuple) else body.values()
        size += sum(_VALUE + (len(value) if isinstance(value, str | bytes) else 0) for value in values)
    return size
