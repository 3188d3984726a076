"""What observers see of a virtual host, beside its queues: topics, subscriptions, who receives. Any thread; nothing is changed.

A view is as it was at one moment; the next may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_provider.core.channel_state import Counts
    from pyjms_provider.core.consumer import Consumer, ConsumerSession
    from pyjms_provider.core.journal import SubscriptionKey
    from pyjms_provider.core.queue import Queue
    from pyjms_provider.core.subscription import Subscription
    from pyjms_provider.core.topic import Topic
    from pyjms_provider.core.virtual_host import VirtualHost

__all__ = [
    "consumers_of",
    "counts_of",
    "durable_subscriptions",
    "find_topic",
    "held_by",
    "queues_of",
    "topic_names",
    "traffic_of",
]


def queues_of(host: VirtualHost) -> list[tuple[str, Queue]]:
    """Return the queues that are not temporary, sorted by their names."""
    with host._lock:  # noqa: SLF001
        return sorted(host._queues.items())  # noqa: SLF001


def counts_of(queue: Queue) -> Counts:
    """Count all messages of one queue in one step: quickly when it is empty, as most are where there are thousands."""
    with queue._lock:  # noqa: SLF001
        return queue._state.counts()  # noqa: SLF001


def topic_names(host: VirtualHost) -> list[str]:
    """Return the names of all topics that are not temporary, sorted."""
    with host._lock:  # noqa: SLF001 - the host's own view, which would make its module too long
        return sorted(host._topics)  # noqa: SLF001


def find_topic(host: VirtualHost, name: str) -> Topic | None:
    """Return the topic `name` if there is one; none is made."""
    return host._topics.get(name)  # noqa: SLF001


def durable_subscriptions(host: VirtualHost) -> dict[SubscriptionKey, Subscription]:
    """Return the durable subscriptions, with a subscriber or without."""
    with host._lock:  # noqa: SLF001
        return dict(host._durable)  # noqa: SLF001


def consumers_of(queue: Queue) -> list[Consumer]:
    """Return who receives from a queue or a subscription."""
    with queue._lock:  # noqa: SLF001
        return list(queue._manager)  # noqa: SLF001


def held_by(queue: Queue, session: ConsumerSession) -> int:
    """Return how many messages of a queue a session has received and not settled."""
    with queue._lock:  # noqa: SLF001
        return len(queue._state.held_by(session))  # noqa: SLF001


def traffic_of(queue: Queue) -> tuple[int, int]:
    """Return how many messages have come to a queue since it was opened, and how many have left it."""
    counts = counts_of(queue)
    return counts.accepted, counts.departed
