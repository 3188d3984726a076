"""One delivery of a message to a consumer, until it is acknowledged or released."""

from __future__ import annotations

from enum import Enum
from typing import Final

from pyjms.spi.envelope import Envelope, fact

__all__ = ["ELSEWHERE", "Delivery", "Elsewhere"]


@fact
class Delivery:
    """The result of `ProviderConsumer.poll`: an envelope and how often it has been delivered.

    `tag` belongs to the provider; the runtime gives the delivery back as it got it and never looks inside.
    """

    envelope: Envelope
    count: int
    """How often this message was delivered on this channel, this time included: 1 the first time (§3.5.11)."""
    redelivered: bool
    """Whether the client may have seen it before (§3.4.7)."""
    tag: object


class Elsewhere(Enum):
    """The type of `ELSEWHERE`."""

    ELSEWHERE = "whether there is a message only a thread that may wait can find out"


ELSEWHERE: Final = Elsewhere.ELSEWHERE
"""The result of `ProviderConsumer.poll_at_once` in place of a `Delivery` for which it would have to wait."""
