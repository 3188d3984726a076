"""The order of available messages: places, gaps, cursors, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.queue import cursor as lane
from pyjms_provider.core.queue import entry_list as ordering
from pyjms_provider.core.queue.cursor import UNFINISHED, Cursor
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from tests.provider.cost import memory_of, spare_memory_of, steps_of

ENOUGH = 1_000_000
FEW_BYTES = 20_000
"""As 200 places take, and what is there without them."""


class Orders:
    """An ordering of entries that have names, and selectors that count their evaluations."""

    def __init__(self) -> None:
        self.ordering = PriorityQueueEntryList()
        self.names: dict[QueueEntry, str] = {}
        self.evaluations = 0
        self._next = 0

    def add(self, name: str, priority: int = 4, reference_id: int | None = None) -> QueueEntry:
        self._next += 1
        reference = MessageReference(ReferenceId(reference_id or self._next), None, 0, priority, False)
        entry = QueueEntry(None, reference, MessageState.NEW)  # type: ignore[arg-type] # an ordering asks no queue
        self.names[entry] = name
        self.ordering.append(entry)
        return entry

    def cursor(self, wanted: str) -> Cursor:
        return self.ordering.open_cursor(wanted, self.matcher(wanted))

    def matcher(self, wanted: str) -> Callable[[QueueEntry], bool]:
        def matches(entry: QueueEntry) -> bool:
            self.evaluations += 1
            return self.names[entry].startswith(wanted)

        return matches

    def take(self, cursor: Cursor | None = None) -> str | None:
        found = self.take_entry(cursor)
        return None if found is None else self.names[found]

    def take_entry(self, cursor: Cursor | None = None) -> QueueEntry | None:
        found = self.ordering.take_first() if cursor is None else self.ordering.take_matching(cursor, None, ENOUGH)
        assert found is not UNFINISHED
        return found

    @property
    def waiting(self) -> list[str]:
        return [self.names[entry] for entry in self.ordering]


@pytest.fixture
def orders() -> Orders:
    return Orders()


def test_an_empty_ordering_has_nothing(orders: Orders) -> None:
    assert not orders.ordering
    assert len(orders.ordering) == 0
    assert orders.take() is None
    assert orders.take(orders.cursor("a")) is None
    assert not orders.ordering.may_have(None)


def test_messages_leave_by_priority_then_by_age(orders: Orders) -> None:
    for name, priority in [("a", 4), ("b", 9), ("c", 0), ("d", 9), ("e", 4)]:
        orders.add(name, priority)
    assert len(orders.ordering) == 5
    assert orders.waiting == ["b", "d", "a", "e", "c"]
    assert [orders.take() for _ in range(6)] == ["b", "d", "a", "e", "c", None]


def test_a_reference_that_comes_late_is_last_all_the_same(orders: Orders) -> None:
    """Two threads store messages 1 and 2, and the queue takes 2 first."""
    orders.add("two", reference_id=2)
    orders.add("one", reference_id=1)
    orders.add("three", reference_id=3)
    assert [orders.take() for _ in range(3)] == ["two", "one", "three"]


def test_returned_messages_go_to_their_old_places(orders: Orders) -> None:
    entries = [orders.add(name) for name in "abcdef"]
    for _ in range(4):
        orders.take()
    orders.ordering.restore([entries[2], entries[0]])
    assert orders.waiting == ["a", "c", "e", "f"]
    orders.ordering.restore([entries[1]])
    assert orders.waiting == ["a", "b", "c", "e", "f"]


def test_a_message_returns_to_an_empty_ordering(orders: Orders) -> None:
    entry = orders.add("a")
    orders.take()
    orders.ordering.restore([entry])
    orders.add("b")
    assert orders.waiting == ["a", "b"]


def test_a_message_returns_to_a_place_that_was_tidied_away(orders: Orders) -> None:
    entries = [orders.add(f"{number % 3}") for number in range(900)]
    cursor = orders.cursor("1")
    taken = [orders.take_entry(cursor) for _ in range(300)]
    for _ in range(500):
        orders.take()
    orders.ordering.restore([entry for entry in taken if entry is not None])
    sequences = [entry.sequence for entry in orders.ordering]
    assert len(sequences) == 400
    assert sequences == sorted(sequences)
    assert entries[1] in set(orders.ordering)


def test_a_message_is_discarded_wherever_it_is(orders: Orders) -> None:
    entries = [orders.add(name) for name in "abc"]
    assert orders.ordering.discard(entries[1])
    assert not orders.ordering.discard(entries[1])
    assert orders.ordering.discard(entries[0])
    assert orders.waiting == ["c"]
    assert orders.take() == "c"
    assert not orders.ordering.discard(entries[2])


def test_clear_takes_everything(orders: Orders) -> None:
    for name, priority in [("a", 4), ("b", 9)]:
        orders.add(name, priority)
    assert [orders.names[entry] for entry in orders.ordering.clear()] == ["b", "a"]
    assert not orders.ordering
    orders.add("c")
    assert orders.take() == "c"


# Selectors


def test_a_cursor_takes_what_matches_and_leaves_the_rest(orders: Orders) -> None:
    for name in ["x1", "y1", "x2", "y2"]:
        orders.add(name)
    cursor = orders.cursor("y")
    assert [orders.take(cursor) for _ in range(3)] == ["y1", "y2", None]
    assert orders.waiting == ["x1", "x2"]


def test_a_cursor_follows_priority(orders: Orders) -> None:
    orders.add("y1", 4)
    cursor = orders.cursor("y")
    orders.add("y2", 9)
    orders.add("x", 9)
    assert [orders.take(cursor) for _ in range(3)] == ["y2", "y1", None]


@pytest.mark.realises("BJ-Q-6")
def test_polling_over_a_backlog_evaluates_each_message_once(orders: Orders) -> None:
    for number in range(1_000):
        orders.add(f"x{number}")
    cursor = orders.cursor("y")
    for _ in range(50):
        assert orders.take(cursor) is None
    assert orders.evaluations == 1_000
    orders.add("y")
    assert orders.take(cursor) == "y"
    assert orders.evaluations == 1_001


def test_consumers_with_one_text_share_what_is_known(orders: Orders) -> None:
    for number in range(1_000):
        orders.add(f"x{number}")
    cursors = [orders.cursor("y") for _ in range(20)]
    assert all(cursor is cursors[0] for cursor in cursors)
    for cursor in cursors:
        assert orders.take(cursor) is None
    assert orders.evaluations == 1_000
    for _ in cursors:
        orders.ordering.close_cursor("y")
    assert orders.cursor("y") is not cursors[0], "the last user takes it along"


def test_a_returned_message_costs_one_evaluation_and_not_the_backlog(orders: Orders) -> None:
    entry = orders.add("y")
    for number in range(1_000):
        orders.add(f"x{number}")
    cursor = orders.cursor("y")
    assert orders.take(cursor) == "y"
    assert orders.take(cursor) is None
    before = orders.evaluations
    for _ in range(10):
        orders.ordering.restore([entry])
        assert orders.take(cursor) == "y"
        assert orders.take(cursor) is None
    assert orders.evaluations == before + 10


def test_very_many_returned_messages_are_all_found(orders: Orders) -> None:
    for number in range(500):
        orders.add(f"y{number:03}")
        orders.add(f"x{number:03}")
    cursor = orders.cursor("y")
    taken = [orders.take_entry(cursor) for _ in range(500)]
    orders.ordering.restore([entry for entry in taken if entry is not None])
    assert [orders.take(cursor) for _ in range(501)] == [f"y{number:03}" for number in range(500)] + [None]


def test_a_message_noted_behind_a_cursor_may_be_taken_by_somebody_else(orders: Orders) -> None:
    entry = orders.add("y")
    cursor = orders.cursor("y")
    for _ in range(200):
        orders.take()
        orders.ordering.restore([entry])
        assert orders.ordering.may_have(cursor)
        orders.take(cursor)
        orders.ordering.restore([entry])
    orders.take()
    assert orders.take(cursor) is None
    assert cursor.behind == {4: [1]}, "noted once, however often it came back"
    orders.add("x")
    assert orders.take(cursor) is None
    assert not cursor.behind


def test_an_idle_cursor_does_not_grow(orders: Orders) -> None:
    cursor = orders.cursor("z")
    for number in range(50):
        orders.add(str(number))
    assert orders.take(cursor) is None
    for _ in range(1_000):
        entries = [orders.take_entry() for _ in range(10)]
        orders.ordering.restore([entry for entry in entries if entry is not None])
    assert sum(map(len, cursor.behind.values())) <= 64


def test_a_long_search_stops_and_goes_on(orders: Orders) -> None:
    for number in range(100):
        orders.add(f"x{number}", priority=number % 10)
    orders.add("y", 0)
    cursor = orders.cursor("y")
    rounds = 0
    while (found := orders.ordering.take_matching(cursor, None, 7)) is UNFINISHED:
        rounds += 1
    assert found is not None
    assert orders.names[found] == "y"
    assert orders.evaluations == 101
    assert rounds > 5


def test_what_is_not_permitted_stays_ahead_of_the_cursor(orders: Orders) -> None:
    for name in ["y1", "y2", "y3"]:
        orders.add(name)
    cursor = orders.cursor("y")
    allowed = orders.ordering.take_matching(cursor, lambda entry: orders.names[entry] == "y2", ENOUGH)
    assert allowed is not None
    assert allowed is not UNFINISHED
    assert orders.names[allowed] == "y2"
    assert [orders.take(cursor) for _ in range(3)] == ["y1", "y3", None]


def test_what_is_not_permitted_is_evaluated_once_however_often_somebody_asks(orders: Orders) -> None:
    for number in range(100):
        orders.add(f"y{number}")
    orders.add("z")
    cursor = orders.cursor("y")
    for _ in range(50):
        assert orders.ordering.take_matching(cursor, lambda _: False, ENOUGH) is None
        assert orders.ordering.may_have(cursor)
    assert orders.evaluations == 101
    assert [orders.take(cursor) for _ in range(101)] == [f"y{number}" for number in range(100)] + [None]
    assert orders.evaluations == 101
    assert not cursor.matched


def test_a_long_search_over_what_is_not_permitted_stops_and_goes_on(orders: Orders) -> None:
    for number in range(100):
        orders.add(f"y{number}")
    last = orders.add("y")
    cursor, rounds = orders.cursor("y"), 0
    while (found := orders.ordering.take_matching(cursor, lambda entry: entry is last, 7)) is UNFINISHED:
        rounds += 1
    assert found is last
    assert rounds == 14
    assert orders.evaluations == 101


def test_what_was_not_permitted_and_has_gone_is_forgotten(orders: Orders) -> None:
    entries = [orders.add(f"y{number}") for number in range(10)]
    cursor = orders.cursor("y")
    assert orders.ordering.take_matching(cursor, lambda _: False, ENOUGH) is None
    for entry in entries[:9]:
        assert orders.ordering.discard(entry)
    assert orders.ordering.take_matching(cursor, lambda _: False, ENOUGH) is None
    assert cursor.matched == {4: [10]}


def test_a_mismatch_that_is_noted_is_not_evaluated_again(orders: Orders) -> None:
    cursor = orders.cursor("y")
    for number in range(10):
        orders.ordering.note_mismatch(cursor, orders.add(f"x{number}"))
    assert not orders.ordering.may_have(cursor)
    assert orders.take(cursor) is None
    assert orders.evaluations == 0
    orders.add("unknown")
    orders.ordering.note_mismatch(cursor, orders.add("x"))
    assert orders.ordering.may_have(cursor), "what stands before it has not been evaluated"


def test_notes_of_a_priority_that_has_nothing_any_more_wake_nobody(orders: Orders) -> None:
    cursor = orders.cursor("a")
    urgent = orders.add("b1", priority=9)
    assert orders.take(cursor) is None
    orders.ordering.discard(urgent)
    orders.ordering.restore([urgent])
    orders.ordering.discard(urgent)
    orders.add("b2")
    assert orders.take(cursor) is None
    assert not orders.ordering.may_have(cursor)


def test_a_browser_sees_each_message_once(orders: Orders) -> None:
    for name in ["a", "b"]:
        orders.add(name)
    browser = Cursor(None)
    seen = [orders.ordering.peek(browser, ENOUGH) for _ in range(2)]
    orders.take()
    orders.add("c", 9)
    seen += [orders.ordering.peek(browser, ENOUGH) for _ in range(2)]
    assert [orders.names[entry] for entry in seen if isinstance(entry, QueueEntry)] == ["a", "b", "c"]
    assert seen[-1] is None


# Cost


def test_gaps_do_not_pile_up_behind_a_message_that_stays(orders: Orders) -> None:
    orders.add("stays")
    cursor = orders.cursor("goes")
    for number in range(20_000):
        orders.add(f"goes{number}")
        orders.take(cursor)
    assert memory_of(orders.ordering, without=[orders]) < FEW_BYTES


def test_passed_places_do_not_pile_up(orders: Orders) -> None:
    orders.add("first")
    for number in range(20_000):
        orders.add(str(number))
        orders.take()
    assert memory_of(orders.ordering, without=[orders]) < FEW_BYTES


def test_giving_back_one_by_one_makes_room_for_few(orders: Orders) -> None:
    entries = [orders.add(str(number)) for number in range(2_000)]
    before = memory_of(orders.ordering, without=[orders])
    taken = [orders.take_entry() for _ in range(1_000)]
    for entry in reversed(taken):
        assert entry is not None
        orders.ordering.restore([entry])
    assert list(orders.ordering) == entries
    assert memory_of(orders.ordering, without=[orders]) < before + 10_000, "500 places more at most"


@pytest.mark.parametrize("returned", [[0, 1, 2], [1, 2, 0], [999, 998], [500, 2]])
def test_giving_back_behind_others_moves_few(orders: Orders, returned: list[int]) -> None:
    """What the list itself moves is next to nothing."""
    entries = [orders.add(str(number)) for number in range(1_000)]
    for number in range(1_000):
        if number not in {3, 501}:
            orders.ordering.discard(entries[number])
    entries += [orders.add(str(number)) for number in range(1_000, 2_000)]
    steps: list[int] = []
    for number in returned:
        restore = partial(orders.ordering.restore, [entries[number]])
        copied = spare_memory_of(lambda restore=restore: steps.append(steps_of(restore)))  # type: ignore[misc]
        assert copied <= 150 * 16, "it copies no more places than that"
    assert sum(steps) <= 150, "each finds its place by halves"
    assert list(orders.ordering) == [entries[number] for number in sorted([3, 501, *returned, *range(1_000, 2_000)])]


# Against a model

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("xyz"), st.integers(0, 9)),
        st.tuples(st.just("take"), st.sampled_from(["", "x", "y"]), st.just(0)),
        st.tuples(st.just("take some"), st.sampled_from(["x", "y"]), st.integers(0, 3)),
        st.tuples(st.just("restore"), st.just(""), st.integers(0, 200)),
        st.tuples(st.just("discard"), st.just(""), st.integers(0, 200)),
    ),
    max_size=120,
)


@pytest.mark.parametrize(("spare", "copies"), [(64, 8), (0, 1), (2, 2)])
@given(actions=ACTIONS)
def test_it_behaves_as_a_sorted_list_would(spare: int, copies: int, actions: list[tuple[str, str, int]]) -> None:
    """Also where gaps are closed soon, and rather those behind a place are moved, or before it."""
    spares = (patch.object(module, "SPARE", spare) for module in (lane, ordering))
    with ExitStack() as patches:
        for each in (*spares, patch.object(lane, "_COPIES", copies)):
            patches.enter_context(each)
        _compare(actions)


def _compare(actions: list[tuple[str, str, int]]) -> None:
    orders = Orders()
    cursors = {wanted: orders.cursor(wanted) for wanted in "xy"}
    model: list[QueueEntry] = []
    out: list[QueueEntry] = []
    for action, name, number in actions:
        if action == "add":
            model.append(orders.add(name, number))
        elif action == "take":
            expected = next((entry for entry in model if orders.names[entry].startswith(name)), None)
            assert orders.take_entry(cursors.get(name)) is expected
            if expected is not None:
                model.remove(expected)
                out.append(expected)
        elif action == "take some":

            def permits(entry: QueueEntry, number: int = number) -> bool:
                return entry.sequence % 4 == number

            fitting = (entry for entry in model if orders.names[entry].startswith(name) and permits(entry))
            expected = next(fitting, None)
            assert orders.ordering.take_matching(cursors[name], permits, ENOUGH) is expected
            if expected is not None:
                model.remove(expected)
                out.append(expected)
        elif action == "restore" and out:
            back = [out.pop(number % len(out))]
            if number % 3 == 0:
                back, out = back + out, []
            elif number % 3 == 1:
                back, out = back + out[::2], out[1::2]
            orders.ordering.restore(back)
            model += back
        elif action == "discard" and model:
            entry = model.pop(number % len(model))
            assert orders.ordering.discard(entry)
            out.append(entry)
        model.sort(key=lambda entry: (-entry.reference.priority, entry.sequence))
        assert list(orders.ordering) == model
        assert len(orders.ordering) == len(model)
        for wanted, cursor in cursors.items():
            for each in model:
                assert orders.ordering.is_wanted(cursor, each) == orders.names[each].startswith(wanted)


def test_a_cursor_finds_all_that_come_back_one_by_one_behind_it(orders: Orders) -> None:
    entries = [orders.add(f"m{number:03}") for number in range(200)]
    cursor = orders.cursor("m")
    for _ in range(150):
        orders.take(cursor)
    for entry in entries[:100]:
        orders.ordering.restore([entry])
    found = [orders.take(cursor) for _ in range(150)]
    assert found == [f"m{number:03}" for number in [*range(100), *range(150, 200)]]
    assert orders.take(cursor) is None


def test_what_came_back_and_what_others_left_are_found_in_their_order(orders: Orders) -> None:
    entries = [orders.add(f"m{number}") for number in range(10)]
    cursor = orders.cursor("m")
    sixth = orders.ordering.take_matching(cursor, lambda entry: entry.sequence > entries[4].sequence, ENOUGH)
    assert sixth is entries[5]
    orders.ordering.restore([entries[5]])
    assert [orders.take(cursor) for _ in range(10)] == [f"m{number}" for number in range(10)]
