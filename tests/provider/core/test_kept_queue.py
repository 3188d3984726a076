"""Delivery marks cover more while a queue is quick, and begin anew when it is not (decision 0142)."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.testing.clock import VirtualClock
from pyjms_provider.core.journal.journal import Changes, QueueNumber
from pyjms_provider.core.journal.queue_journal import QueueJournal
from pyjms_provider.core.message.reference import MessageReference, ReferenceId

QUEUE = QueueNumber(7)


class Consumers:
    """They receive one message after the other. In place of the journal's, they keep its marks."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.is_held = True
        journal: Any = self
        self.journal = QueueJournal(journal, self.clock, QUEUE)
        self.last = 0
        self.covered: list[int] = []
        """How many more messages each mark covers than the one that asked for it."""

    def write(self, changes: Changes, *, force: bool) -> None:
        assert force
        ((number, priority, up_to),) = changes.marks
        assert (number, priority) == (QUEUE, 4)
        self.covered.append(up_to - self.last)

    def receive(self, count: int, *, in_a_ms: int, each: int = 1) -> list[int]:
        """Receive so many, at that rate; return what the marks cover that were written meanwhile. One of `each` ids is this queue's."""
        before = len(self.covered)
        for number in range(1, count + 1):
            self.last += each
            reference = MessageReference(ReferenceId(self.last), None, 0, 4, True)
            reference.journaled = True
            if not self.journal.is_covered(reference, 1):
                self.journal.cover(reference, 1)
                assert self.journal.is_covered(reference, 1)
            if number % in_a_ms == 0:
                self.clock.advance(1)
        return self.covered[before:]


@pytest.fixture
def consumers() -> Consumers:
    return Consumers()


def test_the_first_mark_covers_a_hundred_more(consumers: Consumers) -> None:
    assert consumers.receive(101, in_a_ms=100) == [100]
    assert len(consumers.receive(1, in_a_ms=100)) == 1


def test_while_the_store_may_have_another_holder_each_delivery_asks_for_a_write(consumers: Consumers) -> None:
    consumers.receive(1, in_a_ms=1)
    reference = MessageReference(ReferenceId(consumers.last), None, 0, 4, True)
    consumers.is_held = False
    assert consumers.journal.is_covered(reference, 1), "what is not kept has no other holder"
    reference.journaled = True
    assert not consumers.journal.is_covered(reference, 1)
    consumers.is_held = True
    assert consumers.journal.is_covered(reference, 1)


def test_quick_deliveries_have_marks_that_cover_more_and_more_up_to_a_limit(consumers: Consumers) -> None:
    assert consumers.receive(3900, in_a_ms=100) == [100, 200, 400, 800, 800, 800, 800]


def test_a_mark_is_to_last_for_a_fraction_of_a_second(consumers: Consumers) -> None:
    assert consumers.receive(2000, in_a_ms=5) == [100, 200, 400, 400, 400, 400, 400]


def test_deliveries_that_have_become_slow_have_small_marks_again(consumers: Consumers) -> None:
    quick = consumers.receive(1504, in_a_ms=100)
    assert quick == [100, 200, 400, 800]
    consumers.clock.advance(201)
    assert consumers.receive(101, in_a_ms=1) == [100]
    assert consumers.receive(300, in_a_ms=1) == [100] * 3


def test_who_waits_for_a_write_meanwhile_takes_nothing_back(consumers: Consumers) -> None:
    """Two threads may ask at once, and the one with the lower message be the last to write."""
    assert consumers.receive(500, in_a_ms=100) == [100, 200, 400]
    late = MessageReference(ReferenceId(1), None, 0, 4, True)
    late.journaled = True
    consumers.journal.cover(late, 1)
    assert consumers.receive(1, in_a_ms=100) == []


def test_where_most_messages_are_other_queues_a_mark_covers_several_of_this_one(consumers: Consumers) -> None:
    consumers.receive(10, in_a_ms=1, each=500)
    assert 5 <= 400 / len(consumers.receive(400, in_a_ms=1, each=500)) <= 16
    assert max(consumers.receive(400, in_a_ms=1, each=5000)) == 10_000


def test_one_message_that_was_long_in_coming_has_a_small_mark(consumers: Consumers) -> None:
    consumers.receive(150, in_a_ms=1)
    consumers.last += 100_000
    consumers.clock.advance(201)
    assert consumers.receive(1, in_a_ms=1) == [100]
    assert consumers.receive(101, in_a_ms=1) == [100]
