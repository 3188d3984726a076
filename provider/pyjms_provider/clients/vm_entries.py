"""What a session of ``vm://NAME`` has received, as its queues know it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyjms.spi.delivery import Delivery
from pyjms_provider.core.queue.entry import QueueEntry

if TYPE_CHECKING:
    from pyjms_provider.core.queue.entry import EntryQueue

__all__ = ["by_queue", "entry_of"]


def by_queue(deliveries: Iterable[Delivery]) -> dict[EntryQueue, list[tuple[QueueEntry, int]]]:
    """Return entries and counts of deliveries of consumers, in their order for each queue."""
    found: dict[EntryQueue, list[tuple[QueueEntry, int]]] = {}
    for delivery in deliveries:
        entry: QueueEntry = delivery.tag  # type: ignore[assignment]  # as `entry_of`, without the price of a call
        found.setdefault(entry.queue, []).append((entry, delivery.count))
    return found


def entry_of(delivery: Delivery) -> QueueEntry:
    """Return the entry of a consumer's delivery."""
    entry = delivery.tag
    assert isinstance(entry, QueueEntry), "deliveries of browsers cannot be settled"
    return entry
