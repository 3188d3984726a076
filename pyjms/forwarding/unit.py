"""The data that a message carries from site to site: its identity, origin and number of hops. Pure.

The identity of a message at its source is its JMSMessageID together with the mark of the route that delivered it there,
if one did: two copies that came to one queue by two routes are two messages. The duplicate id that a target gets is
made of the route's name, the label of the outgoing message and that identity, so that it is the same after every crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, TypeAlias

from pyjms.forwarding.settings import Site, Target
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import SET_BY_PROVIDERS, Address, Envelope
from pyjms.types import Long, Stored

FORWARD_ID: Final = "pyjms_forward_id"
HOPS: Final = "pyjms_forward_hops"
ORIGIN_ID: Final = "pyjms_origin_id"
ORIGIN_TIMESTAMP: Final = "pyjms_origin_timestamp"
ORIGIN_DESTINATION: Final = "pyjms_origin_destination"
ORIGIN_REPLY_TO: Final = "pyjms_origin_reply_to"
UNDELIVERABLE_REASON: Final = "pyjms_undeliverable_reason"
UNDELIVERABLE_ROUTE: Final = "pyjms_undeliverable_route"
UNDELIVERABLE_TARGET: Final = "pyjms_undeliverable_target"

_PARTS_OF_A_DELIVERY: Final = 3
# Longer numbers are not read: Python's int() raises ValueError above 4,300 digits, and one such message would end the
# route at each start.
_LONGEST_HOPS: Final = 9
"""The maximum digits of a hop count."""
_NOT_OURS: Final = ("JMS_", "_AMQ")
"""Prefixes of providers' properties."""
_LEFT_BEHIND: Final = SET_BY_PROVIDERS | {UNDELIVERABLE_REASON, UNDELIVERABLE_ROUTE, UNDELIVERABLE_TARGET}
"""Properties of one delivery or one provider, which would be wrong elsewhere (JMS 1.1 §3.5.9)."""


def forward_id(route: str, label: str, envelope: Envelope) -> str | None:
    """Return the id of one outgoing message; None when the message has no JMSMessageID."""
    if not has_lasting_id(envelope):
        return None
    before = str(envelope.properties.get(FORWARD_ID) or "")
    # Lengths keep the parts distinct.
    identity = f"{len(label)}:{label}{len(before)}:{before}{envelope.message_id}"
    # As in Java, a text may have half of a surrogate pair, which plain UTF-8 refuses.
    return f"{route}:{blake2b(identity.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def has_lasting_id(envelope: Envelope) -> bool:
    """Say whether a redelivery of the message will have the same id.

    RabbitMQ numbers deliveries over STOMP, as ``SUBSCRIPTION@@SESSION@@NUMBER``, where a producer gave no id.
    """
    return envelope.message_id is not None and envelope.message_id.count("@@") != _PARTS_OF_A_DELIVERY - 1


def hops_of(envelope: Envelope) -> int:
    """Return the number of routes that a message has passed."""
    value = envelope.properties.get(HOPS)
    # A bool is an int in Python. A text is read, too: STOMP may return a property as a text.
    if value is None or isinstance(value, bool) or not isinstance(value, (int, str)):
        return 0
    text = str(value) if isinstance(value, int) else value[: _LONGEST_HOPS + 1]  # any program may have sent any value
    return int(text) if len(text) <= _LONGEST_HOPS and text.isascii() and text.isdecimal() else 0


def marked(
    envelope: Envelope, origin: Envelope, address: Address, identity: str | None, duplicate_property: str | None
) -> Envelope:
    """Return the message as it goes to `address`.

    `origin` is the received message, of which `envelope` may be a transformed copy. Header fields are unchanged,
    JMSMessageID and JMSTimestamp included, if the target's provider preserves these. A temporary JMSReplyTo means
    nothing at another site: it becomes a property.
    """
    properties = _own(envelope.properties)
    # The first route writes the origin; later routes keep it.
    if ORIGIN_ID not in properties:
        if origin.message_id is not None:
            properties[ORIGIN_ID] = origin.message_id
        properties[ORIGIN_TIMESTAMP] = Long(origin.timestamp_ms)
        properties[ORIGIN_DESTINATION] = str(origin.destination)
    # Counted from the received message: a transformer that removes the property must not make a message circle for
    # ever.
    properties[HOPS] = hops_of(origin) + 1
    # The previous route's mark is part of the new identity; left in place, it would be taken for this route's.
    properties.pop(FORWARD_ID, None)
    if identity is not None:
        properties[FORWARD_ID] = identity
        if duplicate_property is not None:
            properties[duplicate_property] = identity
    reply_to = envelope.reply_to
    if reply_to is not None and reply_to.temporary:
        properties[ORIGIN_REPLY_TO] = str(reply_to)
        reply_to = None
    return readdressed(envelope, address, properties, reply_to)


def undeliverable(envelope: Envelope, address: Address, route: str, target: str, reason: str) -> Envelope:
    """Return the message for the undeliverable queue, with the reason. It is otherwise unchanged, so that it can be
    sent again.
    """
    properties = _own(envelope.properties)
    properties |= {UNDELIVERABLE_ROUTE: route, UNDELIVERABLE_TARGET: target, UNDELIVERABLE_REASON: reason}
    return readdressed(envelope, address, properties, envelope.reply_to)


def readdressed(
    envelope: Envelope, address: Address, properties: Mapping[str, Stored], reply_to: Address | None
) -> Envelope:
    """Return a copy with other properties, for another destination or the same."""
    # By position and without dataclasses.replace, which is slow: this runs for every message.
    return Envelope(
        address,
        envelope.message_id,
        envelope.timestamp_ms,
        envelope.expiration_ms,
        envelope.delivery_mode,
        envelope.priority,
        envelope.correlation_id,
        reply_to,
        envelope.jms_type,
        properties,
        envelope.body_kind,
        envelope.body,
        envelope.deliver_at_ms,
    )


def _own(properties: Mapping[str, Stored]) -> dict[str, Stored]:
    """Return the properties without those of the provider that delivered the message."""
    return {
        name: value for name, value in properties.items() if not name.startswith(_NOT_OURS) and name not in _LEFT_BEHIND
    }


@dataclass(slots=True)
class OutgoingMessage:
    """One message for one target."""

    target: Target
    envelope: Envelope
    """The message as received, or as a transformer has made it."""
    label: str = ""
    """The name of the rule that chose the target: identifies this outgoing message, the same at each attempt."""


class UndeliverableError(Exception):
    """No target gets the message: the text says why, for the person who finds it."""

    def __init__(self, reason: str, target: str = "", outgoing: Sequence[OutgoingMessage] = ()) -> None:
        """`outgoing` is sent nevertheless."""
        super().__init__(reason)
        self.reason = reason
        self.target = target
        self.outgoing = outgoing


Plan: TypeAlias = Callable[[Envelope], Sequence[OutgoingMessage]]
"""Pure, and may be called again for the same message. Raises `UndeliverableError`."""


def to_all(targets: Sequence[Target]) -> Plan:
    """Return the plan of a forwarder: each message to each target, unchanged."""

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
    """The reason why it also goes to the undeliverable queue."""
    is_expired: bool = False
    """Whether it goes nowhere, as it has expired."""


@dataclass(slots=True)
class Copy:
    """A copy of an item's message for one target, and its state."""

    item: Item
    outgoing: OutgoingMessage
    identity: str | None
    is_done: bool = False
    """Whether the site has received or refused it."""
    is_there: bool = False
    """Whether the site has received it."""

    def envelope(self, duplicate_property: str | None) -> Envelope:
        """Return the message to send."""
        target = self.outgoing.target
        chosen = target.duplicate_property or duplicate_property
        return marked(self.outgoing.envelope, self.item.delivery.envelope, target.address, self.identity, chosen)


@dataclass(slots=True)
class Unit:
    """Messages that are received, and settled, together."""

    items: list[Item]
    copies: dict[Site, list[Copy]] = field(default_factory=dict)
    """By target site, in order."""

    @property
    def deliveries(self) -> list[Delivery]:
        """All received messages."""
        return [item.delivery for item in self.items]

    @property
    def expired(self) -> int:
        """The number of expired messages."""
        return sum(item.is_expired for item in self.items)

    def first(self, most: int) -> Unit:
        """Return the first items, at most `most`, as a unit."""
        if most >= len(self.items):
            return Unit(list(self.items), dict(self.copies))
        part = Unit(self.items[:most])
        # By identity: items compare by value, and have no hash.
        wanted = {id(item) for item in part.items}
        part.copies = {
            site: [each for each in copies if id(each.item) in wanted] for site, copies in self.copies.items()
        }
        return part

    def drop(self, part: Unit) -> None:
        """Remove the part that `first` returned."""
        # The copies of a site are in the order of the items, so those of the first items are its first copies.
        del self.items[: len(part.items)]
        self.copies = {site: copies[len(part.copies.get(site, ())) :] for site, copies in self.copies.items()}


def make_unit(batch: Sequence[Delivery], plan: Plan, route: str, hops_max: int, now_ms: int) -> Unit:
    """Return the unit of a batch: expired messages go nowhere, and messages with too many hops are undeliverable."""
    unit = Unit([Item(delivery) for delivery in batch])
    for item in unit.items:
        envelope = item.delivery.envelope
        # A message without expiration has 0 (JMS 1.1 §3.4.9).
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
            outgoing = plan(envelope)
        except UndeliverableError as error:
            item.refused = error
            # Targets of taps also get a message that no other rule matches.
            outgoing = error.outgoing
        for message in outgoing:
            # The id is made of the received message: it must be the same after a crash, whatever a transformer makes of
            # the headers.
            copy = Copy(item, message, forward_id(route, message.label, envelope))
            unit.copies.setdefault(message.target.site, []).append(copy)
    return unit
