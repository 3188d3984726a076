"""A sorted queue's order against a naive model, and what it does with odd values."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyjms.types import Double, Int, Stored
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.queue import sorted_entry_list as sorted_ordering
from pyjms_provider.core.queue.cursor import UNFINISHED
from pyjms_provider.core.queue.sorted_entry_list import SortedCursor, SortedQueueEntryList, SortValue, sort_value
from pyjms_provider.core.store import NotInMemoryError
from tests.provider.cost import steps_of

ENOUGH = 1_000_000


class Sorted:
    """A sorted ordering whose entries have values, and selectors that count their evaluations."""

    def __init__(self) -> None:
        self.values: dict[QueueEntry, SortValue] = {}
        self.ordering = SortedQueueEntryList(self.values.__getitem__)
        self.evaluations = 0

    def add(self, value: Stored, reference_id: int | None = None) -> QueueEntry:
        number = ReferenceId(reference_id or len(self.values) + 1)
        entry = QueueEntry(None, MessageReference(number, None, 0, 4, False), MessageState.NEW)  # type: ignore[arg-type] # an ordering asks no queue
        self.values[entry] = sort_value(value)
        self.ordering.append(entry)
        return entry

    def above(self, least: int) -> Callable[[QueueEntry], bool]:
        def matches(entry: QueueEntry) -> bool:
            self.evaluations += 1
            return self.values[entry][1] >= least

        return matches

    def cursor(self, least: int) -> SortedCursor:
        return self.ordering.open_cursor(f"n >= {least}", self.above(least))


@pytest.fixture
def world() -> Sorted:
    return Sorted()


@pytest.mark.realises("BJ-Q-3")
def test_messages_leave_by_value_then_by_age(world: Sorted) -> None:
    entries = [world.add(value) for value in (3, 1, 2, 1)]
    taken = [world.ordering.take_first() for _ in range(4)]
    assert taken == [entries[1], entries[3], entries[2], entries[0]]
    assert world.ordering.take_first() is None


def test_no_value_comes_before_numbers_and_numbers_before_texts(world: Sorted) -> None:
    values: list[Stored] = ["b", Double(1.5), "a", Int(2), None, Double("nan"), True]
    for value in values:
        world.add(value)
    expected = [(0, 0, ""), (0, 0, ""), (1, 1, ""), (1, 1.5, ""), (1, 2, ""), (2, 0, "a"), (2, 0, "b")]
    assert [world.values[entry] for entry in world.ordering] == expected


def test_a_message_returns_to_its_place(world: Sorted) -> None:
    entries = [world.add(value) for value in (1, 1, 2)]
    assert world.ordering.take_first() is entries[0]
    assert world.ordering.discard(entries[2])
    assert not world.ordering.discard(entries[2])
    world.ordering.restore([entries[2], entries[0]])
    assert list(world.ordering) == entries


def test_a_message_is_evaluated_once_for_a_selector_text(world: Sorted) -> None:
    for value in range(100):
        world.add(value)
    one, other = world.cursor(90), world.cursor(90)
    assert one is other
    found = [world.ordering.take_matching(cursor, None, ENOUGH) for cursor in (one, other, one)]
    assert [world.values[entry][1] for entry in found if isinstance(entry, QueueEntry)] == [90, 91, 92]
    assert world.evaluations == 93
    world.add(5)
    assert world.ordering.may_have(one)
    world.ordering.close_cursor("n >= 90")
    world.ordering.close_cursor("n >= 90")


def test_a_long_search_is_done_in_stretches(world: Sorted) -> None:
    for value in range(10):
        world.add(value)
    cursor = world.cursor(9)
    assert world.ordering.take_matching(cursor, None, 5) is UNFINISHED
    found = world.ordering.take_matching(cursor, None, 5)
    assert isinstance(found, QueueEntry)
    assert not world.ordering.may_have(cursor)
    assert world.ordering.take_matching(cursor, None, 5) is None


def test_an_idle_selector_does_not_remember_what_has_gone(world: Sorted) -> None:
    """A consumer of it waits, and is not woken, while another one takes all that comes."""
    cursor = world.cursor(1_000)
    waiting = [world.add(value) for value in (2_000, 500)]
    for value in range(1_000):
        entry = world.add(value % 7)
        assert world.ordering.discard(entry)
        assert len(cursor.candidates) <= 2 * 3 + 64
    assert world.ordering.take_matching(cursor, None, ENOUGH) is waiting[0]
    assert list(world.ordering) == [waiting[1]]


def test_a_message_that_is_given_back_again_and_again_is_remembered_a_few_times(world: Sorted) -> None:
    cursor = world.cursor(5)
    entry = world.add(9)
    for _ in range(1_000):
        assert world.ordering.take_first() is entry
        world.ordering.restore([entry])
        assert len(cursor.candidates) <= 2 + 64
    assert world.ordering.take_matching(cursor, None, ENOUGH) is entry
    assert not world.ordering.may_have(cursor)


def test_what_was_found_not_to_match_as_it_came_is_not_evaluated_again(world: Sorted) -> None:
    """As with the times at which messages are due: the newest is the last."""
    cursor = world.cursor(1_000)
    for value in range(100):
        world.ordering.note_mismatch(cursor, world.add(value))
    assert not world.ordering.may_have(cursor)
    wanted = world.add(1_000)
    assert world.ordering.take_matching(cursor, None, ENOUGH) is wanted
    assert world.evaluations == 1


def test_what_was_found_not_to_match_is_one_more_candidate_if_it_is_not_the_last(world: Sorted) -> None:
    cursor = world.cursor(5)
    entries = [world.add(value) for value in (9, 8, 2)]
    world.ordering.note_mismatch(cursor, entries[2])
    world.ordering.note_mismatch(world.ordering.new_cursor(None), entries[2])
    assert [world.ordering.take_matching(cursor, None, ENOUGH) for _ in range(3)] == [entries[1], entries[0], None]
    assert list(world.ordering) == [entries[2]]


def steps_of_browsing(many: int, least: int) -> int:
    world = Sorted()
    entries = [world.add(value) for value in range(many)]
    cursor = world.ordering.new_cursor(world.above(least))
    seen: list[object] = []

    def browse() -> None:
        while (found := world.ordering.peek(cursor, 10)) is not None:
            if found is not UNFINISHED:
                seen.append(found)

    steps = steps_of(browse)
    assert seen == entries[least:]
    return steps


@pytest.mark.parametrize("half", [0, 0.5], ids=["all", "half"])
def test_a_browser_does_not_begin_at_the_first_message_each_time(half: float) -> None:
    few, many = (steps_of_browsing(number, round(number * half)) for number in (100, 1_000))
    assert many <= 11 * few, "each once"


def test_reading_ahead_does_not_begin_at_those_that_have_gone(world: Sorted) -> None:
    entries = [world.add(value) for value in range(200)]
    for _ in range(60):
        world.ordering.take_first()
    assert world.ordering.first(3) == entries[60:63]
    assert steps_of(lambda: world.ordering.first(3)) <= 10


def test_what_is_not_permitted_now_is_found_later(world: Sorted) -> None:
    entries = [world.add(value) for value in (7, 8, 9)]
    cursor = world.cursor(0)
    permitted = {entries[2]}
    assert world.ordering.take_matching(cursor, permitted.__contains__, 1) is entries[2]
    assert world.ordering.take_matching(cursor, permitted.__contains__, 1) is None
    assert world.ordering.take_matching(cursor, None, 1) is entries[0]


def test_a_message_of_which_cannot_be_said_whether_it_matches_is_asked_about_again(world: Sorted) -> None:
    entries = [world.add(value) for value in (1, 2, 3)]
    away = set(entries)

    def matches(entry: QueueEntry) -> bool:
        if entry in away:
            raise NotInMemoryError(entry.reference)
        return True

    def comes_back(look: Callable[[], object]) -> object:
        while True:
            try:
                return look()
            except NotInMemoryError as elsewhere:
                away.difference_update(each for each in entries if each.reference is elsewhere.reference)

    browser = world.ordering.new_cursor(matches)
    assert [comes_back(lambda: world.ordering.peek(browser, ENOUGH)) for _ in range(4)] == [*entries, None]
    away.update(entries)
    cursor = world.ordering.open_cursor("all", matches)
    permits = {entries[1], entries[2]}.__contains__
    assert comes_back(lambda: world.ordering.take_matching(cursor, permits, ENOUGH)) is entries[1]
    assert [comes_back(lambda: world.ordering.take_matching(cursor, None, ENOUGH)) for _ in range(3)] == [
        entries[0],
        entries[2],
        None,
    ]


def test_a_browser_sees_each_message_once_in_order(world: Sorted) -> None:
    entries = [world.add(value) for value in (1, 2, 3, 4)]
    cursor = world.ordering.new_cursor(world.above(2))
    assert world.ordering.peek(cursor, 1) is UNFINISHED
    seen = []
    while (found := world.ordering.peek(cursor, 2)) is not None:
        if found is not UNFINISHED:
            seen.append(found)
            world.ordering.discard(entries[2])
    assert seen == [entries[1], entries[3]]


def test_reading_ahead_names_the_first_messages(world: Sorted) -> None:
    entries = [world.add(value) for value in (3, 2, 1)]
    assert world.ordering.following(entries[2].reference, 5) == [entries[1].reference, entries[0].reference]


def test_clear_takes_everything(world: Sorted) -> None:
    entries = [world.add(value) for value in (1, 2)]
    cursor = world.cursor(0)
    assert world.ordering.clear() == entries
    assert not world.ordering
    assert not world.ordering.may_have(cursor)
    assert len(world.ordering) == 0


class SortedMachine(RuleBasedStateMachine):
    """Comes, goes, returns, and consumers with and without selectors."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = patch.object(sorted_ordering, "_SPARE", 0)  # so that what a selector remembers is made anew soon
        self.patch.start()
        self.world = Sorted()
        self.available: list[QueueEntry] = []
        self.held: list[QueueEntry] = []
        self.cursor = self.world.cursor(3)

    def teardown(self) -> None:
        self.patch.stop()

    def in_order(self) -> list[QueueEntry]:
        return sorted(self.available, key=lambda entry: (self.world.values[entry], entry.sequence))

    @rule(value=st.integers(0, 6), late=st.booleans(), told=st.booleans())
    def add(self, value: int, late: bool, told: bool) -> None:
        entry = self.world.add(value, 1 if late else None)
        self.available.append(entry)
        if told and value < 3:  # somebody waits with that selector
            self.world.ordering.note_mismatch(self.cursor, entry)

    @rule(selects=st.booleans())
    def take(self, selects: bool) -> None:
        wanted = [entry for entry in self.in_order() if not selects or self.world.values[entry][1] >= 3]
        ordering = self.world.ordering
        found = ordering.take_matching(self.cursor, None, ENOUGH) if selects else ordering.take_first()
        assert found is (wanted[0] if wanted else None)
        if isinstance(found, QueueEntry):
            self.available.remove(found)
            self.held.append(found)

    @rule(number=st.integers(0, 50))
    def discard(self, number: int) -> None:
        if self.available:
            entry = self.available.pop(number % len(self.available))
            assert self.world.ordering.discard(entry)

    @rule()
    def restore(self) -> None:
        self.world.ordering.restore(self.held)
        self.available += self.held
        self.held = []

    @invariant()
    def both_agree(self) -> None:
        ordering = self.world.ordering
        assert list(ordering) == self.in_order()
        assert len(ordering) == len(self.available)
        browser = ordering.new_cursor(None)
        assert [ordering.peek(browser, 100) for _ in self.available] == self.in_order()
        wanted = {entry.sequence for entry in self.available if self.world.values[entry][1] >= 3}
        assert ordering.may_have(self.cursor) or not wanted
        assert wanted <= {sequence for _, sequence in self.cursor.candidates}


SortedMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestSortedOrderingAgainstModel = SortedMachine.TestCase
