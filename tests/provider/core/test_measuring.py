"""How large and how old the messages of a queue are, as far as a bounded look can tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyjms_provider.core.host.virtual_host import VirtualHost
from pyjms_provider.core.message.message_state import MessageEvent
from pyjms_provider.core.policy import QueuePolicy, QueueType
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.statistics import about_bytes, is_there, largest_message, oldest_timestamp_ms
from pyjms_provider.core.store import MemoryMessageStore, approximate_size
from tests.provider.helpers import ORDERS, HandClock, make_envelope

TYPES = (QueuePolicy(), QueuePolicy(type=QueueType.PRIORITY, priorities=3), QueuePolicy(type=QueueType.SORTED, key="k"))


def host() -> VirtualHost:
    return VirtualHost("shop", MemoryMessageStore("s"), HandClock())


def send(where: VirtualHost, *texts: str, at_ms: int = 1_000, priority: int = 4) -> None:
    for text in texts:
        where.route(replace(make_envelope(text), timestamp_ms=at_ms, priority=priority), None, None)


def queue_of(where: VirtualHost, policy: QueuePolicy) -> Queue:
    queue = where.queue(ORDERS.name)
    queue.alter(policy)
    return queue


@pytest.mark.parametrize("policy", TYPES, ids=lambda policy: policy.type.value)
def test_few_messages_are_measured_exactly(policy: QueuePolicy) -> None:
    where = host()
    queue = queue_of(where, policy)
    assert about_bytes(queue, 0) == 0
    assert largest_message(queue) is None
    send(where, "x" * 10, "y" * 5_000, "z")
    sizes = [approximate_size(make_envelope(text)) for text in ("x" * 10, "y" * 5_000, "z")]
    assert about_bytes(queue, 3) == sum(sizes)
    found = largest_message(queue)
    assert found is not None
    entry, size = found
    assert size == max(sizes)
    assert is_there(entry)
    queue.remove(entry, MessageEvent.REMOVE)
    assert not is_there(entry)
    found = largest_message(queue)
    assert found is not None
    assert found[1] == sizes[0]


@pytest.mark.parametrize("policy", TYPES, ids=lambda policy: policy.type.value)
def test_the_oldest_message_tells_its_age(policy: QueuePolicy) -> None:
    where = host()
    queue = queue_of(where, policy)
    assert oldest_timestamp_ms(queue) is None
    send(where, "late", at_ms=9_000, priority=9)
    send(where, "later", at_ms=9_500, priority=0)
    assert oldest_timestamp_ms(queue) == 9_000


def test_a_sender_that_tells_no_time_tells_no_age() -> None:
    where = host()
    queue = queue_of(where, QueuePolicy())
    send(where, "a", at_ms=0)
    assert oldest_timestamp_ms(queue) is None


def test_many_messages_are_estimated_by_the_first_of_them() -> None:
    where = host()
    queue = queue_of(where, QueuePolicy())
    send(where, *["x" * 100] * 200)
    assert about_bytes(queue, 200) == 200 * approximate_size(make_envelope("x" * 100))
    assert about_bytes(queue, 200, 1) == about_bytes(queue, 200)
