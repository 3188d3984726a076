"""One unit of a route: a batch of messages on its way, and what is known of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyjms.forwarding.marks import forward_id, hops_of, marked
from pyjms.forwarding.plan import Parcel, Plan, UndeliverableError
from pyjms.forwarding.settings import Site
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Envelope

__all__ = ["Item", "Piece", "Unit", "make_unit"]


@dataclass(slots=True)
class Item:
    """One message of a batch."""

    delivery: Delivery
    refused: UndeliverableError | None = None
    """Why it goes to the undeliverable queue as well."""


@dataclass(slots=True)
class Piece:
    """One parcel of one message."""

    item: Item
    parcel: Parcel
    identity: str | None
    is_done: bool = False
    """Whether the site has it, or has refused it."""

    def envelope(self, duplicate_property: str | None) -> Envelope:
        """Return what is sent."""
        target = self.parcel.target
        chosen = target.duplicate_property or duplicate_property
        return marked(self.parcel.envelope, self.item.delivery.envelope, target.address, self.identity, chosen)


@dataclass(slots=True)
class Unit:
    """What is received, and settled, together."""

    items: list[Item]
    pieces: dict[Site, list[Piece]] = field(default_factory=dict)
    """By the site that they go to, in order."""
    expired: int = 0

    @property
    def deliveries(self) -> list[Delivery]:
        """All that was received."""
        return [item.delivery for item in self.items]


def make_unit(batch: Sequence[Delivery], plan: Plan, route: str, hops_max: int, now_ms: int) -> Unit:
    """Return the unit of a batch: what expired goes nowhere, and what has gone too far is undeliverable."""
    unit = Unit([Item(delivery) for delivery in batch])
    for item in unit.items:
        envelope = item.delivery.envelope
        if 0 < envelope.expiration_ms <= now_ms:
            unit.expired += 1
            continue
        hops = hops_of(envelope)
        if hops >= hops_max:
            item.refused = UndeliverableError(
                f"it has come through {hops} routes, and the limit is {hops_max}: see whether routes form a circle, "
                "or raise the maximum of hops"
            )
            continue
        try:
            parcels = plan(envelope)
        except UndeliverableError as error:
            item.refused = error
            parcels = error.parcels
        for parcel in parcels:
            piece = Piece(item, parcel, forward_id(route, parcel.label, envelope))
            unit.pieces.setdefault(parcel.target.site, []).append(piece)
    return unit
