"""One message handed to one consumer until it is acknowledged or given back."""

from __future__ import annotations

from pyjms.spi.envelope import Envelope, fact

__all__ = ["Delivery"]


@fact
class Delivery:
    """What `ProviderConsumer.poll` answers: an envelope and how often it has been delivered.

    `tag` belongs to the provider; the runtime gives the delivery back as it got it and never looks inside.
    """

    envelope: Envelope
    count: int
    """How often this message was delivered on this channel, this time included: 1 the first time (§3.5.11)."""
    redelivered: bool
    """Whether the client may have seen it before (§3.4.7)."""
    tag: object
