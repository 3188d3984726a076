"""What becomes of a message on its way into a queue: headers that the owner overrides, and the time it is for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import ProviderError
from pyjms.types import Long

if TYPE_CHECKING:
    from pyjms_provider.core.queue.policy import QueuePolicy

__all__ = ["DELIVER_AT", "deliver_at_ms", "with_overrides"]

DELIVER_AT = "JMS_pyjms_deliverAt"
"""The long property by which a producer says when a message is for: milliseconds since 1970 UTC."""


def with_overrides(envelope: Envelope, policy: QueuePolicy, now_ms: int) -> Envelope:
    """Return the message with the headers that the queue's owner has chosen (JMS 1.1 §3.4.12).

    A chosen time to live counts from now. Then the bounds hold: a message lives at least, and at most, as long as they
    say; one that would never expire lives as long as the upper bound. No time is later than the last that a long holds.
    """
    expiration_ms = envelope.expiration_ms
    if policy.time_to_live_ms is not None:
        expiration_ms = now_ms + policy.time_to_live_ms if policy.time_to_live_ms else 0
    if expiration_ms and policy.min_time_to_live_ms:
        expiration_ms = max(expiration_ms, now_ms + policy.min_time_to_live_ms)
    if policy.max_time_to_live_ms:
        latest_ms = now_ms + policy.max_time_to_live_ms
        expiration_ms = min(expiration_ms, latest_ms) if expiration_ms else latest_ms
    return replace(
        envelope,
        expiration_ms=min(expiration_ms, Long.maximum),
        delivery_mode=envelope.delivery_mode if policy.delivery_mode is None else policy.delivery_mode,
        priority=envelope.priority if policy.priority is None else policy.priority,
    )


def deliver_at_ms(envelope: Envelope) -> int:
    """Return when the message is for; 0: at once. Raises `ProviderError` for a property that is no time."""
    value = envelope.properties.get(DELIVER_AT)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProviderError(
            f"{DELIVER_AT} is {value!r}; set it as a long property: the time in milliseconds since 1970 UTC"
        )
    return int(value)
