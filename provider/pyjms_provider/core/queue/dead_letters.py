"""Messages that a queue sets aside: rejected by a client, delivered too often, or expired; and their way back.

A dead letter is the message itself, with its id, headers, properties and body, in another queue. Properties of the
provider (JMS 1.1 §3.5.10) say why it is there:

| property | type | what it says |
|---|---|---|
| `JMS_pyjms_deadKind` | String | `rejected`, `deliveries` or `expired` |
| `JMS_pyjms_deadReason` | String | what happened, in words: the exception of a listener, the number of deliveries |
| `JMS_pyjms_deadDestination` | String | where it was first sent to, as `queue://orders` |
| `JMS_pyjms_deadSubscription` | String | the subscription that it was in, if it was in one |
| `JMS_pyjms_deadCount` | int | how often it was delivered |
| `JMS_pyjms_deadConsumer` | String | the session that had it last |
| `JMS_pyjms_deadTime` | long | when, in milliseconds since 1970 UTC |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.types import Long

if TYPE_CHECKING:
    from pyjms.types import Stored
    from pyjms_provider.core.queue.entry import QueueEntry

__all__ = ["DEAD_DESTINATION", "DEAD_PREFIX", "DeadEntry", "DeadKind", "dead_letter", "origin_of", "revived"]

DEAD_PREFIX: Final = "JMS_pyjms_dead"
DEAD_DESTINATION: Final = f"{DEAD_PREFIX}Destination"
_SUBSCRIPTION: Final = f"{DEAD_PREFIX}Subscription"
_ADDRESS: Final = re.compile(r"(?P<temporary>temp-)?(?P<kind>queue|topic)://(?P<name>.+)", re.DOTALL)


class DeadKind(Enum):
    """Why a message is set aside."""

    REJECTED = "rejected"
    DELIVERIES = "deliveries"
    EXPIRED = "expired"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEntry:
    """A message that has left its queue and is to be set aside."""

    entry: QueueEntry
    kind: DeadKind
    reason: str
    delivery_count: int
    consumer: str | None
    subscription: str | None
    at_ms: int
    """When it left, in milliseconds since 1970 UTC."""
    is_kept: bool = True
    """Whether it goes elsewhere; False: it goes for good, and who watches is told."""

    @classmethod
    def leaving(
        cls,
        entry: QueueEntry,
        kind: DeadKind,
        reason: str | None,
        subscription: str | None,
        at_ms: int,
        *,
        is_kept: bool,
    ) -> Self:
        """Return a message that leaves its queue just now. `reason` None: what its kind says."""
        times = "once" if entry.delivery_count == 1 else f"{entry.delivery_count} times"
        said = (
            f"it was delivered {times}, and given back" if kind is DeadKind.DELIVERIES else "its time to live was over"
        )
        return cls(
            entry=entry,
            kind=kind,
            reason=said if reason is None else reason,
            delivery_count=entry.delivery_count,
            consumer=None if entry.holder is None else entry.holder.receiver_id,
            subscription=subscription,
            at_ms=at_ms,
            is_kept=is_kept,
        )


def dead_letter(envelope: Envelope, dead: DeadEntry, queue_name: str, now_ms: int) -> Envelope:
    """Return the message as it goes to the queue `queue_name`. It never expires; a dead letter keeps its first origin."""
    properties = dict(envelope.properties)
    if origin_of(properties) is None:
        properties[DEAD_DESTINATION] = str(envelope.destination)
        properties.pop(_SUBSCRIPTION, None)
        if dead.subscription is not None:
            properties[_SUBSCRIPTION] = dead.subscription
    properties[f"{DEAD_PREFIX}Kind"] = dead.kind.value
    properties[f"{DEAD_PREFIX}Reason"] = dead.reason
    properties[f"{DEAD_PREFIX}Count"] = dead.delivery_count
    properties[f"{DEAD_PREFIX}Time"] = Long(now_ms)
    if dead.consumer is not None:
        properties[f"{DEAD_PREFIX}Consumer"] = dead.consumer
    target = Address(AddressKind.QUEUE, queue_name)
    return replace(envelope, destination=target, properties=properties, expiration_ms=0)


def origin_of(properties: Mapping[str, Stored]) -> tuple[Address, str | None] | None:
    """Return where a dead letter came from: the destination, and the subscription if it was in one.

    None: it is none, or says so of what is no destination; only the broker names them, but a client may have sent anything.
    """
    text = properties.get(DEAD_DESTINATION)
    if not isinstance(text, str):
        return None
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return None
    address = Address(AddressKind[match["kind"].upper()], match["name"], temporary=match["temporary"] is not None)
    subscription = properties.get(_SUBSCRIPTION)
    return address, subscription if isinstance(subscription, str) else None


def revived(envelope: Envelope, origin: Address) -> Envelope:
    """Return a dead letter as it goes back: as it was sent, without a time to live, which has passed meanwhile."""
    properties = {name: value for name, value in envelope.properties.items() if not name.startswith(DEAD_PREFIX)}
    return replace(envelope, destination=origin, properties=properties)
