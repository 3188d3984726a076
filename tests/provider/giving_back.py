"""What a test counts of the steps in which messages go back to their queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.queue.queue import Queue

__all__ = ["counted_steps"]


def counted_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each step in which clients give back messages: how many they were."""
    steps: list[int] = []
    give_back = Queue.give_back

    def counting(self: Queue, deliveries: Iterable[tuple[QueueEntry, int]], *rest: Any, **more: Any) -> None:
        deliveries = list(deliveries)
        steps.append(len(deliveries))
        give_back(self, deliveries, *rest, **more)

    monkeypatch.setattr(Queue, "give_back", counting)
    return steps
