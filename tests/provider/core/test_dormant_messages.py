"""Messages that were found again after a restart: two numbers until somebody looks at them, and no difference to be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms_provider.core.journal.journal import (
    QueueNumber,
    RecoveredEntry,
    RecoveredRun,
    RecoveredRuns,
    in_runs,
    plain_reference,
)
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MESSAGE_OVERHEAD, MessageReference, ReferenceId
from pyjms_provider.core.queue import cursor as lane_module
from pyjms_provider.core.queue import entry_list as ordering_module
from pyjms_provider.core.queue.cursor import UNFINISHED
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList, priority_levels

IDS = range(1, 41)


def entry_of(message: int, priority: int = 4) -> QueueEntry:
    reference = plain_reference(message, priority, 100)
    return QueueEntry(object(), reference, MessageState.NEW)  # type: ignore[arg-type]  # an ordering asks no queue


def asleep(priorities: dict[int, int]) -> PriorityQueueEntryList:
    """Return an ordering of dormant messages: priorities by id."""
    ordering = PriorityQueueEntryList()
    for message, priority in priorities.items():
        assert ordering.append_run(object(), priority, [message], [100])  # type: ignore[arg-type]
    return ordering


def materialized(priorities: dict[int, int]) -> PriorityQueueEntryList:
    ordering = PriorityQueueEntryList()
    for message, priority in priorities.items():
        ordering.append(entry_of(message, priority))
    return ordering


def is_even(entry: QueueEntry) -> bool:
    return entry.reference.id % 2 == 0


class Actor:
    """Does the same to any ordering, and says what came of it."""

    def __init__(self, ordering: PriorityQueueEntryList) -> None:
        self.ordering = ordering
        self.cursor = ordering.open_cursor("even", is_even)
        self.browser = ordering.new_cursor(None)
        self.taken: list[QueueEntry] = []
        self.last = max(IDS)

    def take(self) -> object:
        return self._took(self.ordering.take_first())

    def take_even(self) -> object:
        found = self.ordering.take_matching(self.cursor, None, 1000)
        assert found is not UNFINISHED
        return self._took(found)

    def peek(self) -> object:
        found = self.ordering.peek(self.browser, 1000)
        assert found is not UNFINISHED
        return None if found is None else found.reference.id

    def give_back(self) -> object:
        taken, self.taken = self.taken, []
        self.ordering.restore(taken)
        return len(self.ordering)

    def give_back_oldest(self) -> object:
        back, self.taken = self.taken[:1], self.taken[1:]
        self.ordering.restore(back)
        return len(self.ordering)

    def discard_least(self) -> object:
        least = self.ordering.least_important()
        return None if least is None else (least.reference.id, self.ordering.discard(least))

    def add(self) -> object:
        self.last += 1
        self.ordering.append(entry_of(self.last, self.last % 10))
        return len(self.ordering)

    def follow(self) -> object:
        reference = plain_reference(20, 5, 0)
        return [each.id for each in self.ordering.following(reference, 5)]

    def list_all(self) -> object:
        return [(entry.reference.id, entry.reference.priority, entry.sequence) for entry in self.ordering]

    def _took(self, entry: QueueEntry | None) -> object:
        if entry is None:
            return None
        self.taken.append(entry)
        reference = entry.reference
        return reference.id, reference.priority, reference.reliable, entry.state, len(self.ordering)


ACTS: list[Callable[[Actor], object]] = [
    *(Actor.take, Actor.take_even, Actor.peek, Actor.give_back, Actor.discard_least, Actor.add, Actor.follow),
    Actor.give_back_oldest,
]


@pytest.mark.parametrize("spare", [64, 0])
@given(
    priorities=st.dictionaries(st.sampled_from(IDS), st.integers(3, 6)),
    acts=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(1, 30)), max_size=12),
)
def test_dormant_messages_do_all_that_others_do(
    spare: int, priorities: dict[int, int], acts: list[tuple[object, int]]
) -> None:
    # 0: gaps are closed at once
    with patch.object(lane_module, "SPARE", spare), patch.object(ordering_module, "SPARE", spare):
        _compare(priorities, acts)


def _compare(priorities: dict[int, int], acts: list[tuple[object, int]]) -> None:
    ordered = dict(sorted(priorities.items()))
    one, other = Actor(asleep(ordered)), Actor(materialized(ordered))
    for act, times in acts:
        for _ in range(times):
            assert act(one) == act(other)  # type: ignore[operator]
    assert one.list_all() == other.list_all()


def test_looking_at_some_messages_wakes_no_others() -> None:
    ordering = asleep(dict.fromkeys(IDS, 4))
    assert list(ordering.materialized()) == []
    first = ordering.take_first()
    assert first is not None
    assert (first.reference.id, first.reference.journaled) == (1, True)
    assert len(ordering.following(first.reference, 5)) == 5
    assert [entry.reference.id for entry in ordering.materialized()] == [2, 3, 4, 5, 6]
    assert ordering.compact_size == 34 * (100 + MESSAGE_OVERHEAD)
    assert len(ordering) == 39


@pytest.mark.parametrize("together", [False, True])
def test_what_comes_back_wakes_no_others_also_behind_some_that_came_back_before(together: bool) -> None:
    ordering = asleep(dict.fromkeys(IDS, 4))
    taken = [ordering.take_first() for _ in range(6)]
    for each in taken[0], taken[3]:
        assert each is not None
        ordering.restore([each])
    others = [each for each in (taken[1], taken[4], taken[2]) if each is not None]
    for back in [others] if together else [[each] for each in others]:
        ordering.restore(back)
    assert [entry.reference.id for entry in ordering.materialized()] == [1, 2, 3, 4, 5]
    assert [entry.reference.id for entry in ordering] == [each for each in IDS if each != 6]


def test_messages_that_come_too_late_for_their_ids_come_one_by_one() -> None:
    ordering = asleep({5: 4})
    assert not ordering.append_run(object(), 4, [5, 6], [1, 1])  # type: ignore[arg-type]
    assert len(ordering) == 1


def test_a_queue_with_fewer_levels_takes_no_runs_as_a_lane_is_no_priority_there() -> None:
    assert not PriorityQueueEntryList(priority_levels(2)).append_run(object(), 4, [1], [1])  # type: ignore[arg-type]


def recovered(message: int, queue: int = 1, **special: int) -> RecoveredEntry:
    reference = MessageReference(
        ReferenceId(message), None, special.get("expiration", 0), 4, "transient" not in special
    )
    reference.deliver_at_ms = special.get("deliver_at", 0)
    reference.shared = "shared" in special
    return RecoveredEntry(QueueNumber(queue), reference, special.get("count", 0))


@pytest.mark.parametrize("special", ["expiration", "deliver_at", "shared", "count", "transient"])
def test_what_is_special_about_a_message_keeps_it_out_of_runs(special: str) -> None:
    found = [recovered(1), recovered(2), recovered(3, **{special: 7}), recovered(4), recovered(5, queue=2)]
    runs = list(in_runs(iter(found)).runs)
    assert [isinstance(run, RecoveredRun) for run in runs] == [True, False, True, True]
    assert [[entry.reference.id for entry in run] for run in runs] == [[1, 2], [3], [4], [5]]
    assert [entry.reference.id for entry in in_runs(iter(found))] == [1, 2, 3, 4, 5]


def lane(priority: int, *ids: int, queue: int = 1) -> RecoveredRun:
    return RecoveredRun(QueueNumber(queue), priority, ids, [1] * len(ids))


def test_runs_that_are_not_taken_come_one_by_one_in_the_order_of_their_messages() -> None:
    offered: list[RecoveredRun] = []
    taken = lane(4, 2, 4, 8, queue=2)

    def take(run: RecoveredRun) -> bool:
        offered.append(run)
        return run is taken

    runs: list[Iterable[RecoveredEntry]]
    runs = [lane(4, 1, 6), taken, lane(0, 3, 7), lane(9, 5), [recovered(9, expiration=7)], lane(4, 10), lane(0, 11)]
    found = [(entry.reference.id, len(offered)) for entry in RecoveredRuns(iter(runs)).entries_not_taken(take)]
    assert found == [(1, 4), (3, 4), (5, 4), (6, 4), (7, 4), (9, 4), (10, 5), (11, 6)], "and each when it is its turn"
    assert [entry.reference.id for entry in RecoveredRuns(iter(runs))] == list(range(1, 12))


def filled(ordering: PriorityQueueEntryList, **special: int) -> list[int]:
    """Append messages behind a backlog; return the ids of those that are awake."""
    for message in range(1, 6):
        entry = entry_of(message)
        entry.reference.journaled = True
        for name, value in special.items():
            setattr(entry if name == "delivery_count" else entry.reference, name, value)
        ordering.append(entry)
    assert len(ordering) == 5
    return [entry.reference.id for entry in ordering.materialized()]


def test_behind_a_backlog_messages_are_dormant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering_module, "BACKLOG", 2)
    ordering = PriorityQueueEntryList()
    ordering.may_compact = True
    assert filled(ordering) == [1, 2]
    assert [entry.reference.id for entry in ordering] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "special",
    [
        *({"expiration_ms": 7}, {"deliver_at_ms": 7}, {"shared": True}, {"delivery_count": 1}),
        *({"journaled": False}, {"reliable": False}, {"holders": 2}),
    ],
    ids=lambda special: next(iter(special)),
)
def test_what_could_not_be_found_again_by_its_place_stays_awake(
    monkeypatch: pytest.MonkeyPatch, special: dict[str, int]
) -> None:
    monkeypatch.setattr(ordering_module, "BACKLOG", 2)
    ordering = PriorityQueueEntryList()
    ordering.may_compact = True
    assert filled(ordering, **special) == [1, 2, 3, 4, 5]


def test_where_others_remember_entries_they_stay_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering_module, "BACKLOG", 2)
    assert filled(PriorityQueueEntryList()) == [1, 2, 3, 4, 5]
