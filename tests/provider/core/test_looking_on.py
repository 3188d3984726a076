"""Who looks at what waits, while more comes all the time, comes to an end."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

import pytest

from pyjms_provider.core.queue.search import waiting_entries
from tests.provider.policy_world import PolicyWorld


class Inflow:
    """A queue's lock, after each hold of which more messages come than a look takes in; not without end, as the test is to fail."""

    def __init__(self, come: Callable[[], object], most: int) -> None:
        self.holds = 0
        self._come = come
        self._most = most
        self._lock = Lock()
        self._is_coming = False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_exception: object) -> None:
        self._lock.release()
        if self._is_coming:
            return
        self.holds += 1
        assert self.holds < self._most, "it goes on as long as messages come"
        self._is_coming = True
        try:
            for _ in range(100):
                self._come()
        finally:
            self._is_coming = False


def waiting_texts(world: PolicyWorld, come: Callable[[], object]) -> list[str]:
    queue = world.queue
    queue.lock = Inflow(come, 20)  # type: ignore[assignment]  # it is entered and left, as the other one
    return [str(world.store.retrieve(entry.reference).body) for entry in waiting_entries(queue)]


@pytest.mark.parametrize("priority", [4, 9], ids=["of the same priority", "of a higher one"])
def test_what_waits_is_what_was_there(priority: int) -> None:
    world = PolicyWorld()
    before = [str(number) for number in range(200)]
    for text in before:
        world.send(text, priority=4)
    assert waiting_texts(world, lambda: world.send("new", priority=priority)) == before


@pytest.mark.parametrize("rank", [0, 5, 9], ids=["before them", "between them", "behind them"])
def test_what_waits_in_a_sorted_queue_is_what_was_there(rank: int) -> None:
    world = PolicyWorld(type="sorted", key="rank")
    before = [str(number) for number in range(200)]
    for text in before:
        world.send(text, properties={"rank": 4 if int(text) < 100 else 6})
    assert waiting_texts(world, lambda: world.send("new", properties={"rank": rank})) == before
