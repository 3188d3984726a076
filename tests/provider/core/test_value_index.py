"""Messages by their values: selectors find the same messages as if they looked at all, and read each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyjms.spi.selector.headers import UNKNOWN_KEY
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.queue import consumer as consumer_manager
from pyjms_provider.core.queue import cursor as cursor_module
from pyjms_provider.core.queue import cursor as value_index
from pyjms_provider.core.queue.cursor import UNFINISHED, Asked, Cursor, ValueIndex
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList, priority_levels
from pyjms_provider.core.store import NotInMemoryError
from tests.provider.cost import kept, memory_of
from tests.provider.helpers import QueueWorld, text_of

ENOUGH = 1_000_000
KEYS = {"x": 1, "y": 2, "absent": 3, "u": UNKNOWN_KEY}
TEXTS = ["x", "y", "absent", "x even", "y even", "x large"]


class Values:
    """An order of messages that have a name and a number; it counts what is read and evaluated."""

    def __init__(self, levels: tuple[int, ...] | None = None) -> None:
        self.order = PriorityQueueEntryList() if levels is None else PriorityQueueEntryList(levels)
        self.levels = tuple(range(10)) if levels is None else levels
        self.names: dict[QueueEntry, str] = {}
        self.away: set[QueueEntry] = set()
        self.read = self.evaluated = 0

    def add(self, name: str, priority: int = 4) -> QueueEntry:
        reference = MessageReference(ReferenceId(len(self.names) + 1), None, 0, priority, False)
        entry = QueueEntry(None, reference, MessageState.NEW)  # type: ignore[arg-type]  # an order asks no queue
        self.names[entry] = name
        self.order.append(entry)
        return entry

    def open(self, text: str) -> Cursor:
        name = text.split(" ", maxsplit=1)[0]
        return self.order.open_cursor(text, self._matcher(text), Asked(("name",), KEYS[name], self._read))

    def _read(self, entry: QueueEntry) -> int:
        self._look_at(entry)
        self.read += 1
        return KEYS[self.names[entry]]

    def _matcher(self, text: str) -> Callable[[QueueEntry], bool]:
        def matches(entry: QueueEntry) -> bool:
            self._look_at(entry)
            self.evaluated += 1
            return self.wants(text, entry)

        return matches

    def _look_at(self, entry: QueueEntry) -> None:
        if entry in self.away:
            raise NotInMemoryError(entry.reference)

    def wants(self, text: str, entry: QueueEntry) -> bool:
        name, _, which = text.partition(" ")
        number = entry.reference.id
        return self.names[entry] in {name, "u"} and {"": True, "even": number % 2 == 0, "large": number > 8}[which]

    def take(
        self, cursor: Cursor, permits: Callable[[QueueEntry], bool] | None = None, at_once: int = ENOUGH
    ) -> QueueEntry | None:
        while True:
            try:
                found = self.order.take_matching(cursor, permits, at_once)
            except NotInMemoryError:
                self.away.clear()
                continue
            if found is not UNFINISHED:
                return found


class OrderMachine(RuleBasedStateMachine):
    """An order with indexes, against a list."""

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(value_index, "_FROM", 1)
        self._patch.setattr(value_index, "_BLOCK", 4)
        self._patch.setattr(cursor_module, "BEHIND_MAXIMUM", 3)
        self.out: list[QueueEntry] = []
        self.model: list[QueueEntry] = []
        self.cursors: dict[str, Cursor] = {}
        self.indexes: set[ValueIndex] = set()

    @initialize(levels=st.sampled_from([None, priority_levels(2)]))
    def begin(self, levels: tuple[int, ...] | None) -> None:
        self.values = Values(levels)

    @rule(
        name=st.sampled_from("xxyyu"),
        many=st.integers(1, 5),
        priority=st.sampled_from([4, 4, 5, 9]),
        is_told=st.booleans(),
    )
    def add(self, name: str, many: int, priority: int, is_told: bool) -> None:
        """`is_told`: somebody waits, so its value is read at once."""
        for _ in range(many):
            entry = self.values.add(name, priority)
            self.model.append(entry)
            for index in self.indexes if is_told else ():
                assert index.key_of(entry) == KEYS[name]
        self.model.sort(key=lambda each: (-self.values.levels[each.reference.priority], each.sequence))

    @rule(text=st.sampled_from(TEXTS))
    def open_or_close(self, text: str) -> None:
        if text in self.cursors:
            del self.cursors[text]
            self.values.order.close_cursor(text)
        else:
            cursor = self.cursors[text] = self.values.open(text)
            assert cursor.index is not None
            self.indexes.add(cursor.index)

    @precondition(lambda self: self.cursors)
    @rule(
        which=st.integers(0, 5),
        modulus=st.sampled_from([0, 0, 2, 3]),
        many=st.integers(1, 4),
        at_once=st.sampled_from([1, 2, ENOUGH]),
    )
    def take(self, which: int, modulus: int, many: int, at_once: int) -> None:
        text = list(self.cursors)[which % len(self.cursors)]
        for _ in range(many):

            def permits(entry: QueueEntry) -> bool:
                return not modulus or entry.reference.id % modulus == 0

            fitting = (each for each in self.model if self.values.wants(text, each) and permits(each))
            expected = next(fitting, None)
            cursor = self.cursors[text]
            assert self.values.take(cursor, permits if modulus else None, at_once) is expected
            if expected is None:
                left = any(self.values.wants(text, each) for each in self.model)
                assert left or not self.values.order.may_have(cursor), "it knows that there is nothing"
                return
            self.model.remove(expected)
            self.out.append(expected)

    @rule(which=st.integers(0, 100), many=st.sampled_from([1, 1, 2, 10, 100]), from_behind=st.booleans())
    def discard(self, which: int, many: int, from_behind: bool) -> None:
        for _ in range(min(many, len(self.model))):
            entry = self.model.pop(-1 if from_behind else which % len(self.model))
            assert self.values.order.discard(entry)
            self.out.append(entry)

    @rule(which=st.integers(0, 100), many=st.sampled_from([1, 1, 2, 10, 100]))
    def restore(self, which: int, many: int) -> None:
        back = [self.out.pop(which % len(self.out)) for _ in range(min(many, len(self.out)))]
        self.values.order.restore(back)
        self.model += back
        self.model.sort(key=lambda each: (-self.values.levels[each.reference.priority], each.sequence))

    @rule()
    def leave_memory(self) -> None:
        self.values.away.update(self.model[::3])

    @invariant()
    def knows_what_may_be_wanted(self) -> None:
        order = self.values.order
        assert list(order) == self.model
        for text, cursor in self.cursors.items():
            assert cursor.index is not None
            wanted = [each for each in self.model if self.values.wants(text, each)]
            assert order.may_have(cursor) or not wanted
            for each in self.model if not self.values.away else ():
                assert order.is_wanted(cursor, each) == (each in wanted)

    def teardown(self) -> None:
        for text in list(self.cursors):
            self.values.order.close_cursor(text)
        assert not any(index.is_used or index.ready for index in self.indexes)
        self._patch.undo()


OrderMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestOrderAgainstModel = OrderMachine.TestCase


@pytest.fixture
def indexed() -> Values:
    values = Values()
    for text in TEXTS[:3]:
        values.open(text)
        values.order.close_cursor(text)
    return values


def test_the_first_selectors_of_one_kind_look_for_themselves(indexed: Values) -> None:
    assert Values().open("x").index is None
    assert indexed.open("x").index is not None


def test_each_message_is_read_once_for_all_that_ask_for_values(indexed: Values) -> None:
    entries = [indexed.add("y") for _ in range(10_000)]
    for number in range(100):
        cursor = indexed.open("absent")
        assert indexed.take(cursor) is None
        wanted = indexed.add("absent") if number % 2 else None
        assert indexed.take(cursor) is wanted
        indexed.order.close_cursor("absent")
    assert (indexed.read, indexed.evaluated) == (len(entries) + 50, 50)


def test_who_asks_for_a_value_that_many_have_evaluates_each_once(indexed: Values) -> None:
    cursor = indexed.open("y even")
    entries = [indexed.add("y") for _ in range(5_000)]
    assert [indexed.take(cursor) for _ in range(2_501)] == [*entries[1::2], None]
    assert indexed.take(cursor) is None
    assert (indexed.read, indexed.evaluated) == (5_000, 5_000)


def test_what_came_back_is_read_again_only_where_it_is_not_noted(indexed: Values) -> None:
    entries = [indexed.add("x") for _ in range(100)]
    cursor = indexed.open("x")
    taken = [indexed.take(cursor) for _ in range(50)]
    indexed.order.restore([each for each in taken if each is not None][:10])
    assert [indexed.take(cursor) for _ in range(61)] == [*entries[:10], *entries[50:], None]
    assert indexed.read == 100 + 10


def test_what_has_gone_is_forgotten(indexed: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it was first, or in the middle, or all there was."""
    monkeypatch.setattr(value_index, "_BLOCK", 100)
    cursor = indexed.open("absent")
    stays = indexed.add("x")
    assert indexed.take(cursor) is None
    before = memory_of(indexed.order, without=[indexed])
    for _ in range(200):
        some = [indexed.add("y") for _ in range(50)]
        assert indexed.take(cursor) is None
        for entry in some:
            indexed.order.discard(entry)
    noted = memory_of(indexed.order, without=[indexed]) - before
    assert noted <= 100 * 100, "as if 100 of 10,000 were noted, which take 16 bytes each, and a number of 32 bytes"
    assert indexed.take(indexed.open("x")) is stays


def test_there_are_few_indexes_and_those_that_nobody_uses_make_room() -> None:
    order = PriorityQueueEntryList()

    def open_many(name: str) -> Cursor:
        for number in range(value_index._FROM - 1):
            order.open_cursor(f"{name} {number}", lambda entry: True, Asked((name,), number, lambda entry: 0))
            order.close_cursor(f"{name} {number}")
        return order.open_cursor(name, lambda entry: True, Asked((name,), 0, lambda entry: 0))

    cursors = [open_many(f"name {number}") for number in range(10)]
    assert [cursor.index is not None for cursor in cursors] == [True] * 4 + [False] * 6
    order.close_cursor("name 2")
    assert open_many("another").index is not None
    assert open_many("name 2").index is None
    for name in ("name 0", "name 1", "name 3", "another"):
        assert open_many(name).index is not None


def test_kinds_of_selectors_are_counted_up_to_a_limit() -> None:
    order = PriorityQueueEntryList()
    names = [f"n{number}" for number in range(1_000)]
    for name in names:
        order.open_cursor(name, lambda entry: True, Asked((name,), 0, lambda entry: 0))
        order.close_cursor(name)
    assert len({*kept(order, str)} & {*names}) <= 100


@pytest.mark.parametrize("backlog", [0, 300])
def test_of_many_that_wait_for_values_those_alone_are_asked_that_may_match(backlog: int) -> None:
    """And when one of them gets what it waits for, the others are not asked either."""
    world = QueueWorld()
    for number in range(backlog):
        world.send(properties={"id": f"other {number}"})
    readers = [world.reader(selector=f"id = '{number}'") for number in range(500)]
    asked = 0
    for reader in readers:
        cursor = reader.consumer.cursor
        assert cursor is not None
        if cursor.index is not None:

            def matches(entry: QueueEntry, before: Any = cursor.matches) -> bool:
                nonlocal asked
                asked += 1
                return bool(before(entry))

            cursor.matches = matches
        queue = reader.consumer.queue
        assert queue.deliver_single_message(reader.consumer, or_wait=True) is None
    for number in (*range(100, 200), "nobody", 499, *range(20, 10, -1)):
        world.send(str(number), properties={"id": str(number)})
    asked_in_choosing = asked
    assert asked_in_choosing == 111
    for number in (*range(100, 200), 499, *range(20, 10, -1)):
        reader = readers[number]
        assert reader.wake_ups == 1
        delivery = world.queue.deliver_single_message(reader.consumer, or_wait=True)
        assert delivery is not None
        assert text_of(delivery) == str(number)
    assert sum(reader.wake_ups for reader in readers) == 111, "nobody is woken in vain"
    assert asked - asked_in_choosing == 111


def test_of_messages_whose_values_could_not_be_read_all_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is woken to have the message loaded. If it goes, who wants the message is woken, whoever that is."""
    monkeypatch.setattr(consumer_manager, "_MANY", 1)
    monkeypatch.setattr(consumer_manager, "_ALIKE", 1)
    monkeypatch.setattr(value_index, "_FROM", 1)
    world = QueueWorld()
    readers = [world.reader(selector=f"id = '{number}'", interested=True) for number in range(10)]
    assert [reader.texts() for reader in readers] == [[]] * 10
    world.send(properties={"id": "nobody"})
    world.send(properties={"id": "nobody"})
    cursor = readers[0].consumer.cursor
    assert cursor is not None
    index = cursor.index
    assert index is not None
    with monkeypatch.context() as patch:

        def fail(entry: QueueEntry) -> Any:
            raise NotInMemoryError(entry.reference)

        patch.setattr(index, "_read", fail)
        patch.setattr(cursor, "matches", fail)
        world.send("for 5", properties={"id": "5"})
    assert [reader.wake_ups for reader in readers] == [1, *[0] * 9]
    readers[0].session.close()
    assert readers[5].wake_ups == 1
    assert readers[5].texts() == ["for 5"]
