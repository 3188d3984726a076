"""One unit of a route: a batch of messages on its way, and what is known of each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pyjms.forwarding.marks import forward_id, hops_of, marked
from pyjms.forwarding.settings import Site, Target
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Envelope


@dataclass(slots=True)
class OutgoingMessage:
    """One message for one target."""

    target: Target
    envelope: Envelope
    """As it was received, or as a transformer has made it."""
    label: str = ""
    """Tells parcels of one message apart, the same at each attempt: the name of the rule that wanted it."""


class UndeliverableError(Exception):
    """Nobody gets the message: the text says why, for the person who finds it."""

    def __init__(self, reason: str, target: str = "", parcels: Sequence[OutgoingMessage] = ()) -> None:
        """`parcels` are sent all the same."""
        super().__init__(reason)
        self.reason = reason
        self.target = target
        self.parcels = parcels


Plan: TypeAlias = Callable[[Envelope], Sequence[OutgoingMessage]]
"""Pure, and may be asked again for the same message. Raises `UndeliverableError`."""


def to_all(targets: Sequence[Target]) -> Plan:
    """Return the plan of a forwarder: each message to each target, as it is."""

    def plan(envelope: Envelope) -> Sequence[OutgoingMessage]:
        return [
            OutgoingMessage(target, envelope, str(number) if number else "") for number, target in enumerate(targets)
        ]

    return plan


@dataclass(slots=True)
class Item:
    """One message of a batch."""

    delivery: Delivery
    refused: UndeliverableError | None = None
    """Why it goes to the undeliverable queue as well."""
    is_expired: bool = False
    """Whether it goes nowhere, as its time is up."""


@dataclass(slots=True)
class Piece:
    """One parcel of one message."""

    item: Item
    parcel: OutgoingMessage
    identity: str | None
    is_done: bool = False
    """Whether the site has it, or has refused it."""
    is_there: bool = False
    """Whether the site has it."""

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

    @property
    def deliveries(self) -> list[Delivery]:
        """All that was received."""
        return [item.delivery for item in self.items]

    @property
    def expired(self) -> int:
        """How many go nowhere."""
        return sum(item.is_expired for item in self.items)

    def first(self, most: int) -> Unit:
        """Return the first items as a unit, `most` of them at most."""
        if most >= len(self.items):
            return Unit(list(self.items), dict(self.pieces))
        part = Unit(self.items[:most])
        wanted = {id(item) for item in part.items}
        part.pieces = {
            site: [each for each in pieces if id(each.item) in wanted] for site, pieces in self.pieces.items()
        }
        return part

    def drop(self, part: Unit) -> None:
        """Take out what `first` has returned."""
        del self.items[: len(part.items)]
        self.pieces = {site: pieces[len(part.pieces.get(site, ())) :] for site, pieces in self.pieces.items()}


def make_unit(batch: Sequence[Delivery], plan: Plan, route: str, hops_max: int, now_ms: int) -> Unit:
    """Return the unit of a batch: what expired goes nowhere, and what has gone too far is undeliverable."""
    unit = Unit([Item(delivery) for delivery in batch])
    for item in unit.items:
        envelope = item.delivery.envelope
        if 0 < envelope.expiration_ms <= now_ms:
            item.is_expired = True
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
