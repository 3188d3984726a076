"""What observers see of a queue. Any thread; nothing is changed.

A view is as it was at one moment; the next may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_provider.core.channel.channel_state import Counts
    from pyjms_provider.core.queue.consumer import ConsumerSession
    from pyjms_provider.core.queue.queue import Queue

__all__ = ["counts_of", "held_by", "traffic_of"]


def counts_of(queue: Queue) -> Counts:
    """Count all messages of one queue in one step: quickly when it is empty, as most are where there are thousands."""
    with queue._lock:  # noqa: SLF001
        return queue._state.counts()  # noqa: SLF001


def held_by(queue: Queue, session: ConsumerSession) -> int:
    """Return how many messages of a queue a session has received and not settled."""
    with queue._lock:  # noqa: SLF001
        return len(queue._state.held_by(session))  # noqa: SLF001


def traffic_of(queue: Queue) -> tuple[int, int, int]:
    """Return how many messages have come to a queue since it was opened, how many deliveries there were, and how many messages have left."""
    counts = counts_of(queue)
    return counts.accepted, counts.delivered, counts.departed
