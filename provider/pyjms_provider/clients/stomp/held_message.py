"""A message that came to this client and is not settled: what a delivery's tag is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyjms.spi.envelope import Envelope
from pyjms_provider.clients.stomp.epoch import Question, Said
from pyjms_provider.protocols.stomp.frames import Frame

if TYPE_CHECKING:
    from pyjms_provider.clients.stomp.session import StompSession
    from pyjms_provider.clients.stomp.subscription import Subscription
    from pyjms_provider.clients.stomp.transactions import Transaction

__all__ = ["HeldMessage", "Settlement", "begin_settlement"]


class Settlement(Said):
    """An ACK or NACK of one or several messages."""

    __slots__ = ("transaction",)

    def __init__(self, transaction: Transaction | None = None) -> None:
        super().__init__()
        self.transaction = transaction
        """What it is a part of; None: it settles at once."""


class HeldMessage:
    """Guarded by its subscription's lock, except `session`: by the sessions' own."""

    __slots__ = (
        "burial",
        "count",
        "envelope",
        "epoch",
        "frame",
        "is_counted",
        "is_redelivered",
        "number",
        "session",
        "settlement",
        "subscription",
    )

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
        self.is_counted = False
        """Whether its subscription counts it among those that were polled, and are neither settled nor given back."""
        self.session: StompSession | None = None
        """Who has it now."""
        self.settlement: Settlement | None = None
        """What was, or is about to be, said of it last."""
        self.burial: Question | None = None
        """The copy of it that is being kept aside: gone with it, if nobody asks again."""

    @property
    def owner(self) -> str:
        """Whose copy of the message it is: that of a queue, or of a durable subscription."""
        return self.subscription.identity

    def is_settled(self, transaction: Transaction | None = None) -> bool:
        """Whether the broker has been told that it is settled: for good, or in `transaction`. A call that said so may not have been answered."""
        settlement = self.settlement
        if settlement is None or not settlement.is_said:
            return False
        part_of = settlement.transaction
        return part_of is None or part_of is transaction or part_of.has_committed

    @property
    def ack_id(self) -> str:
        """What ACK and NACK name it by."""
        headers = self.frame.headers
        return headers.get("ack") or headers.get("message-id", "")


def begin_settlement(held: Iterable[HeldMessage], transaction: Transaction | None = None) -> Settlement:
    """Return what notes, of all these at once, that they are settled."""
    settlement = Settlement(transaction)
    for each in held:
        each.settlement = settlement
    return settlement
