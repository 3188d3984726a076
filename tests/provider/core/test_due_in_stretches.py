"""What is due at one time keeps the queue's lock for a moment only, however much it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock

import pytest

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.queue.dead_letters import DeadLetterPolicy
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.schedule import AT_ONCE
from tests.provider.policy_world import PolicyWorld

MANY = 3 * AT_ONCE + 10


class Holds:
    """A queue's lock that notes by how much a number has changed at most while somebody held it."""

    def __init__(self, look: Callable[[], int]) -> None:
        self.most = 0
        self._look = look
        self._lock = Lock()
        self._before = 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._before = self._look()

    def __exit__(self, *_: object) -> None:
        self.most = max(self.most, abs(self._look() - self._before))
        self._lock.release()


def watched(queue: Queue) -> Holds:
    holds = Holds(lambda: len(queue.ordering))
    queue.lock = holds  # type: ignore[assignment]  # it is entered and left, as the other one
    return holds


def test_what_was_given_back_and_is_due_comes_in_stretches_and_not_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = PolicyWorld(redelivery_delay_ms=100)
    for number in range(MANY):
        world.send(str(number))
    reader = world.reader()
    assert len(reader.texts()) == MANY
    world.queue.give_back_all(reader.session)
    calls: list[int] = []
    restore = PriorityQueueEntryList.restore

    def counting(self: PriorityQueueEntryList, entries: Iterable[QueueEntry]) -> None:
        entries = list(entries)
        calls.append(len(entries))
        restore(self, entries)

    monkeypatch.setattr(PriorityQueueEntryList, "restore", counting)
    holds = watched(world.queue)
    world.pass_time(100)
    assert world.texts() == [str(number) for number in range(MANY)]
    assert holds.most == AT_ONCE
    assert calls == [AT_ONCE, AT_ONCE, AT_ONCE, 10]


def test_what_expires_goes_in_stretches() -> None:
    world = PolicyWorld()
    for _ in range(MANY):
        world.send(ttl_ms=50)
    holds = watched(world.queue)
    world.pass_time(50)
    assert world.texts() == []
    assert len(world.store) == 0
    assert holds.most == AT_ONCE


def test_what_must_not_expire_yet_is_looked_at_once_in_all_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    world = PolicyWorld(expiry_queue="late")
    for _ in range(MANY):
        world.send(ttl_ms=50)
    world.send("last", ttl_ms=60)
    reader = world.reader()
    assert len(reader.texts(MANY)) == MANY
    looks: list[QueueEntry] = []
    stays = DeadLetterPolicy.stays_while_held

    def looking(self: DeadLetterPolicy, entry: QueueEntry) -> bool:
        looks.append(entry)
        return stays(self, entry)

    monkeypatch.setattr(DeadLetterPolicy, "stays_while_held", looking)
    for _ in range(2):
        assert world.queue.run_due(world.clock.now_ms + 50) == world.clock.now_ms + 60
        assert len(looks) == MANY
        assert len(set(looks)) == MANY
        looks.clear()
    world.clock.now_ms += 55
    world.queue.give_back_all(reader.session)
    assert world.texts("late") == [""] * MANY
    assert world.texts() == ["last"]
