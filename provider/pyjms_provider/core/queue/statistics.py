"""How large and how old the messages of one queue are, for those who watch over it: off the way of messages. Any thread.

Each call looks at a bounded number of messages under the queue's lock, however many it has; so what is said of a queue with many
messages of different sizes is an estimate.

What observers see of a queue. Any thread; nothing is changed.

A view is as it was at one moment; the next may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.store.paging import approximate_size
from pyjms_provider.core.store.store import NotInMemoryError

if TYPE_CHECKING:
    from pyjms_provider.core.queue.channel_state import Counts
    from pyjms_provider.core.queue.entry import QueueEntry
    from pyjms_provider.core.queue.queue import Queue

_SAMPLE: Final = 32
_LOOKED_THROUGH: Final = 500


def about_bytes(queue: Queue, depth: int, looked_at: int = _SAMPLE) -> int:
    """Return about how many bytes all messages take: exact for a few messages, for many by the first of them.

    `depth`: how many messages there are; `looked_at`: at so many of those that wait, and of those that are held.
    """
    with queue.lock:
        state = queue.state
        sample = [*state.ordering.first(looked_at), *state.first_held(looked_at)]
    sizes = [size for entry in sample if (size := _size(queue, entry))]
    return round(sum(sizes) / len(sizes) * depth) if sizes else 0


def oldest_timestamp_ms(queue: Queue) -> int | None:
    """Return when the oldest message was sent that waits or is held, in milliseconds since 1970 UTC; None: nobody knows.

    By the sender's JMSTimestamp (JMS 1.1 §3.4.4). May wait for a disk. Raises `ResourceError`.
    """
    with queue.lock:
        state = queue.state
        entries = [*state.ordering.oldest(), *state.first_held(1)]
    found = (queue.message_of(entry.reference) for entry in entries)
    return min((each.timestamp_ms for each in found if each is not None and each.timestamp_ms), default=None)


def most_deliveries(queue: Queue, looked_at: int = _SAMPLE) -> int:
    """Return how often that message was delivered that was delivered most often, among those that leave first and those held for longest.

    A message that was given back stands at its old place, so a poison message is among them. Waits for no disk.
    """
    with queue.lock:
        state = queue.state
        entries = [*state.ordering.first(looked_at), *state.first_held(looked_at)]
    return max((entry.delivery_count for entry in entries), default=0)


def largest_message(queue: Queue) -> tuple[QueueEntry, int] | None:
    """Return the largest message, with about its bytes, among those that came last and those that leave first."""
    with queue.lock:
        ordering = queue.ordering
        entries = [*ordering.newest(_LOOKED_THROUGH), *ordering.first(_LOOKED_THROUGH)]
    sizes = ((_size(queue, entry), number) for number, entry in enumerate(entries))
    size, number = max(sizes, default=(0, 0))
    return (entries[number], size) if size else None


def is_there(entry: QueueEntry) -> bool:
    """Return whether a message is still in its queue."""
    return entry.state is not MessageState.ABSENT


def _size(queue: Queue, entry: QueueEntry) -> int:
    if entry.reference.size:
        return entry.reference.size
    try:
        return approximate_size(queue.store.retrieve(entry.reference))
    except (KeyError, NotInMemoryError):  # it has gone meanwhile, or lies on the disk
        return 0


def counts_of(queue: Queue) -> Counts:
    """Count all messages of one queue in one step: quickly when it is empty, as most are where there are thousands."""
    with queue.lock:
        return queue.state.counts()


def traffic_of(queue: Queue) -> tuple[int, int, int]:
    """Return how many messages have come to a queue since it was opened, how many deliveries there were, and how many messages have left."""
    counts = counts_of(queue)
    return counts.accepted, counts.delivered, counts.departed
