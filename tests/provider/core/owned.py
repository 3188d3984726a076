"""Messages of an order that is not in any queue, some of them somebody else's, and who asks whether they are."""

from __future__ import annotations

from itertools import count
from typing import Generic, TypeVar

import pytest

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.queue.cursor import Cursor
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from pyjms_provider.core.queue.queue_rules import QueueRules
from pyjms_provider.core.queue.sorted_entry_list import SortedQueueEntryList

__all__ = ["ENOUGH", "MANY", "Owned", "make_entry", "note_asked"]

ENOUGH = 1_000_000
MANY = 200

_Order = TypeVar("_Order", PriorityQueueEntryList, SortedQueueEntryList)


def make_entry(number: int, priority: int = 4) -> QueueEntry:
    """Return a message that an ordering can have, which asks no queue."""
    reference = MessageReference(ReferenceId(number), None, 0, priority, False)
    return QueueEntry(None, reference, MessageState.NEW)  # type: ignore[arg-type]


class Owned(Generic[_Order]):
    """An order of messages that are somebody else's, save those in `mine`; it counts who asks."""

    def __init__(self, ordering: _Order) -> None:
        self.ordering: _Order = ordering
        self.mine: set[QueueEntry] = set()
        self.asked = 0
        self.higher_priority: list[Cursor | None] = []
        self._numbers = count(1)

    def make(self, priority: int = 4) -> QueueEntry:
        """Return a message that is yet to be appended."""
        return make_entry(next(self._numbers), priority)

    def poll(self, looks: int = ENOUGH) -> object:
        return self.ordering.poll_permitted("consumer", self.higher_priority, self._permits, looks)

    def asked_in(self, polls: int) -> int:
        """Return how often is asked in so many polls, all of them in vain."""
        before = self.asked
        for _ in range(polls):
            assert self.poll() is None
        return self.asked - before

    def _permits(self, entry: QueueEntry) -> bool:
        self.asked += 1
        return entry in self.mine


def note_asked(monkeypatch: pytest.MonkeyPatch) -> list[QueueEntry]:
    """Return what queues ask from now on: may this consumer have this message?"""
    asked: list[QueueEntry] = []
    may_take = QueueRules.may_take

    def asking(
        self: QueueRules, consumer: object, higher_priority: object, is_wanted: object, entry: QueueEntry
    ) -> bool:
        asked.append(entry)
        return may_take(self, consumer, higher_priority, is_wanted, entry)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(QueueRules, "may_take", asking)
    return asked
