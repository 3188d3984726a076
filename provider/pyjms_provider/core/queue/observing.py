"""What observers see of a queue. Any thread; nothing is changed.

A view is as it was at one moment; the next may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_provider.core.queue.channel_state import Counts
    from pyjms_provider.core.queue.queue import Queue

__all__ = ["counts_of", "traffic_of"]


def counts_of(queue: Queue) -> Counts:
    """Count all messages of one queue in one step: quickly when it is empty, as most are where there are thousands."""
    with queue.lock:
        return queue.state.counts()


def traffic_of(queue: Queue) -> tuple[int, int, int]:
    """Return how many messages have come to a queue since it was opened, how many deliveries there were, and how many messages have left."""
    counts = counts_of(queue)
    return counts.accepted, counts.delivered, counts.departed
