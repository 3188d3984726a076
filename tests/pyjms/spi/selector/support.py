"""Envelopes and Java values for the tests of selectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.errors import InvalidSelectorError
from pyjms.spi.selector import compile_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyjms.types import Stored


def envelope(
    properties: Mapping[str, Stored] | None = None,
    *,
    delivery_mode: int = 2,
    priority: int = 4,
    message_id: str | None = "ID:m-1",
    timestamp_ms: int = 1_000_000_000_000,
    correlation_id: str | bytes | None = None,
    jms_type: str | None = None,
) -> Envelope:
    """Return a message without a body."""
    return Envelope(
        destination=Address(AddressKind.QUEUE, "q"),
        message_id=None if message_id is None else MessageId(message_id),
        timestamp_ms=timestamp_ms,
        expiration_ms=0,
        delivery_mode=delivery_mode,
        priority=priority,
        correlation_id=correlation_id,
        reply_to=None,
        jms_type=jms_type,
        properties=properties or {},
        body_kind=BodyKind.NONE,
        body=None,
    )


def evaluate(text: str, properties: Mapping[str, Stored] | None = None) -> bool | None:
    """Return the value of a selector for a message with these properties."""
    return compile_selector(text).evaluate(envelope(properties))


def error_of(text: str) -> InvalidSelectorError:
    """Return the error that a selector raises."""
    try:
        compile_selector(text)
    except InvalidSelectorError as error:
        return error
    raise AssertionError(f"{text!r} was accepted")
