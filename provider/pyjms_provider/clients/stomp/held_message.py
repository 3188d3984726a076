"""A message that came to this client and is not settled: what a delivery's tag is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.spi.envelope import Envelope
from pyjms_provider.protocols.stomp.frames import Frame

if TYPE_CHECKING:
    from pyjms_provider.clients.stomp.session import StompSession
    from pyjms_provider.clients.stomp.subscription import Subscription

__all__ = ["HeldMessage"]


class HeldMessage:
    """Guarded by its subscription's lock, except `session`: by the sessions' own."""

    __slots__ = ("count", "envelope", "epoch", "frame", "is_redelivered", "number", "session", "subscription")

    def __init__(self, subscription: Subscription, epoch: int, frame: Frame, number: int) -> None:
        self.subscription = subscription
        self.epoch = epoch
        """Settled and given back in this epoch only."""
        self.frame = frame
        self.number = number
        """Its place among the messages of its subscription."""
        self.envelope: Envelope | None = None
        self.count = 0
        """How often it has been delivered."""
        self.is_redelivered = False
        self.session: StompSession | None = None
        """Who has it now."""

    @property
    def owner(self) -> str:
        """Whose copy of the message it is: that of a queue, or of a durable subscription."""
        return self.subscription.identity

    @property
    def ack_id(self) -> str:
        """What ACK and NACK name it by."""
        headers = self.frame.headers
        return headers.get("ack") or headers.get("message-id", "")
