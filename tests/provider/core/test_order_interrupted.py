"""The main thread is interrupted at each place in an order at which Python can do so: each message is in its place, or has none, for all who come later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest

from pyjms_provider.core import lane, ordering, value_index
from pyjms_provider.core.cursor import UNFINISHED, Cursor
from pyjms_provider.core.entry import QueueEntry
from pyjms_provider.core.message_state import MessageState
from pyjms_provider.core.ordering import Ordering
from pyjms_provider.core.queue_types import MessageOrder
from pyjms_provider.core.reference import MessageReference, ReferenceId
from pyjms_provider.core.sorted_ordering import SortedCursor, SortedOrdering
from pyjms_provider.core.value_index import Asked
from tests.provider.interruptions import Interruption, each_interruption

if TYPE_CHECKING:
    from pyjms_provider.core.queue import Queue

FILES = tuple(
    f"core/{name}.py"
    for name in ("ordering", "lane", "sorted_ordering", "sorted_turns", "cursor", "passed_over", "value_index")
)
ENOUGH = 1_000_000
_QUEUE = cast("Queue", object())  # an order asks it nothing
FAR = 200  # more than the places that are not worth tidying


EVEN = Asked(("parity",), 0, lambda entry: entry.reference.id % 2)


@dataclass
class World:
    """An order, the messages that ought to be in it, and those that are out of it."""

    order: MessageOrder
    here: set[int] = field(default_factory=set)
    taken: list[QueueEntry] = field(default_factory=list)
    cursor: Cursor | None = None
    """Of a selector that every other message matches."""

    def select(self) -> None:
        self.cursor = self.order.open_cursor("even", lambda entry: entry.reference.id % 2 == 0, EVEN)

    def make(self, number: int) -> QueueEntry:
        reference = MessageReference(ReferenceId(number), None, 0, 4, True)
        reference.journaled = True
        reference.holders = 1
        return QueueEntry(_QUEUE, reference, MessageState.NEW)

    def fill(self, *numbers: int) -> list[QueueEntry]:
        entries = [self.make(number) for number in numbers]
        for entry in entries:
            self.order.append(entry)
            self.here.add(entry.reference.id)
        return entries

    def take(self, *entries: QueueEntry) -> None:
        """Take out these, or the first one."""
        for entry in entries or [self.order.take_first()]:
            assert entry is not None
            if entries:
                assert self.order.discard(entry)
            self.here.remove(entry.reference.id)
            self.taken.append(entry)

    def check(self, where: str | None) -> None:
        """Look at all of it, and use it as others would."""
        order = self.order
        later = 10_000
        order.append(self.make(later))
        expected = [*sorted(self.here), later]
        assert [entry.reference.id for entry in order] == expected, where
        assert len(order) == len(expected), where
        if isinstance(order, Ordering):
            for lane in order._lanes:
                assert len(lane.entries) == len(lane.sequences), where
                assert bool(lane.live) == bool(order._mask & lane.bit), where
        if self.cursor is not None:
            wanted = [number for number in expected if number % 2 == 0]
            while (found := order.take_matching(self.cursor, None, ENOUGH)) is not None:
                assert found is not UNFINISHED
                assert found.reference.id == wanted.pop(0), where
                expected.remove(found.reference.id)
            assert not wanted, where
        assert [self._number() for _ in expected] == expected, where
        assert not order, where
        assert order.take_first() is None, where
        order.append(self.make(later + 1))
        assert self._number() == later + 1, where

    def _number(self) -> int | None:
        found = self.order.take_first()
        return None if found is None else found.reference.id


Make = Callable[[], MessageOrder]


def sorted_order() -> MessageOrder:
    return SortedOrdering(lambda entry: (1, entry.reference.id, ""))


def order_with_index() -> MessageOrder:
    """Return one in which the first selector has an index."""
    order = Ordering()
    order._indexes._seen[EVEN.names] = 100
    return order


BOTH = pytest.mark.parametrize("make", [Ordering, sorted_order, order_with_index], ids=["by age", "sorted", "by value"])
TURNS = pytest.mark.parametrize("make", [Ordering, sorted_order], ids=["by age", "sorted"])


def sweep(
    make: Make, prepare: Callable[[World], Callable[[], object]], settle: Callable[[World, Interruption], None]
) -> None:
    """Interrupt what `prepare` returns at each place; `settle` says what has become of it."""

    def attempt(interruption: Interruption) -> None:
        world = World(make())
        act = prepare(world)
        is_interrupted = False
        try:
            with interruption():
                act()
        except KeyboardInterrupt:
            is_interrupted = True
        assert is_interrupted == (interruption.where is not None), "nothing else is raised in its place"
        settle(world, interruption)
        world.check(interruption.where)

    assert each_interruption(attempt, *FILES) > 0


@BOTH
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("selects", [False, True])
def test_a_message_comes(make: Make, before: int, selects: bool) -> None:
    entry = World(make()).make(500)

    def prepare(world: World) -> Callable[[], object]:
        if selects:
            world.select()
        world.fill(*range(1, before + 1))
        entry.sequence = 0
        return lambda: world.order.append(entry)

    def settle(world: World, interruption: Interruption) -> None:
        if interruption.where is None:
            assert world.order.holds(entry)
        if world.order.holds(entry):
            assert entry.sequence
            world.here.add(500)
        else:
            assert not entry.sequence

    sweep(make, prepare, settle)


@pytest.mark.parametrize("number", [1, 500, 501], ids=["the first one", "the last one", "the last one, in vain"])
def test_a_message_comes_when_a_selector_knows_mostly_of_what_has_gone(number: int) -> None:
    """If it does not match, the order hears of that."""
    entry = World(sorted_order()).make(number)

    def prepare(world: World) -> Callable[[], object]:
        world.select()
        cursor = world.cursor
        assert isinstance(cursor, SortedCursor)
        gone = world.fill(*range(2, 73))
        world.fill(100, 102)
        world.take(*gone[:69], *gone[70:])  # all but one
        world.taken.clear()
        assert len(cursor.candidates) == 73
        entry.sequence = 0

        def act() -> None:
            world.order.append(entry)
            assert len(cursor.candidates) == 4
            if number % 2:
                world.order.note_mismatch(cursor, entry)

        return act

    def settle(world: World, interruption: Interruption) -> None:
        if interruption.where is None:
            assert world.order.holds(entry)
        if world.order.holds(entry):
            assert entry.sequence
            world.here.add(number)

    sweep(sorted_order, prepare, settle)


def test_a_message_comes_behind_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is to be dormant."""
    monkeypatch.setattr(ordering, "BACKLOG", 3)

    def prepare(world: World) -> Callable[[], object]:
        order = world.order
        assert isinstance(order, Ordering)
        order.may_sleep = True
        world.fill(1, 2, 3, 4)
        entry = world.make(500)
        return lambda: order.append(entry)

    def settle(world: World, interruption: Interruption) -> None:
        if len(world.order) == 5:
            world.here.add(500)

    sweep(Ordering, prepare, settle)


@BOTH
@pytest.mark.parametrize("many", [1, 2, 3, FAR])
@pytest.mark.parametrize("gone", [0, 1, FAR])
def test_the_first_one_is_taken(make: Make, many: int, gone: int) -> None:
    """Of few or many, after few or many others."""

    def prepare(world: World) -> Callable[[], object]:
        world.fill(*range(1, gone + many + 1))
        for _ in range(gone):
            world.take()
        return lambda: world.taken.append(world.order.take_first())  # type: ignore[arg-type]  # there is one

    def settle(world: World, interruption: Interruption) -> None:
        if len(world.taken) > gone:
            world.here.remove(gone + 1)

    sweep(make, prepare, settle)


@BOTH
@pytest.mark.parametrize("stays", [[0], [0, 299], [150], [299]])
def test_one_is_taken_from_the_middle(make: Make, stays: list[int]) -> None:
    """Which may be when gaps are closed."""

    def prepare(world: World) -> Callable[[], object]:
        entries = world.fill(*range(1, 301))
        one = entries[100]
        world.take(*(entry for number, entry in enumerate(entries) if number not in stays and number != 100))
        world.taken.clear()

        def act() -> None:
            assert world.order.discard(one)
            world.taken.append(one)

        return act

    def settle(world: World, interruption: Interruption) -> None:
        if world.taken:
            world.here.remove(101)

    sweep(make, prepare, settle)


@BOTH
@pytest.mark.parametrize("returns", [False, True])
def test_one_is_taken_by_a_selector(make: Make, returns: bool) -> None:
    """It is ahead of what was looked at, or was given back behind that."""

    def prepare(world: World) -> Callable[[], object]:
        world.select()
        assert world.cursor is not None
        world.fill(1, 2, 3, 4, 5, 6)
        if returns:
            for number in (2, 4):
                found = world.order.take_matching(world.cursor, None, ENOUGH)
                assert isinstance(found, QueueEntry)
                assert found.reference.id == number
                world.taken.append(found)
            world.order.restore(world.taken)
            world.taken.clear()
        cursor = world.cursor
        return lambda: world.taken.append(world.order.take_matching(cursor, None, ENOUGH))  # type: ignore[arg-type]  # there is one

    def settle(world: World, interruption: Interruption) -> None:
        if world.taken:
            world.here.remove(2)

    sweep(make, prepare, settle)


@TURNS
@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("has_looked", [False, True])
def test_one_is_taken_by_who_may_not_take_all(make: Make, returns: bool, has_looked: bool) -> None:
    def prepare(world: World) -> Callable[[], object]:
        order = world.order
        entries = world.fill(1, 2, 3, 4, 5, 6)
        mine = {entries[1]} if returns else {entries[3], entries[4]}

        def pull() -> object:
            return order.take_permitted("consumer", [], mine.__contains__, ENOUGH)

        if has_looked:
            taken = [pull() for _ in range(len(mine) + 1)]
            assert taken.pop() is None
            order.restore(sorted(mine, key=lambda entry: entry.sequence))
        return lambda: world.taken.append(pull())  # type: ignore[arg-type]  # there is one

    def settle(world: World, interruption: Interruption) -> None:
        expected = 2 if returns else 4
        if world.taken:
            world.here.remove(expected)
            return
        order = world.order
        mine = {2} if returns else {4, 5}
        found = order.take_permitted("consumer", [], lambda entry: entry.reference.id in mine, ENOUGH)
        assert isinstance(found, QueueEntry)
        assert found.reference.id == expected, "it is found again"
        world.here.remove(expected)

    sweep(make, prepare, settle)


@TURNS
@pytest.mark.parametrize("act", ["comes", "comes back", "is anybody's"])
def test_what_was_passed_over_by_who_may_not_take_all(make: Make, act: str) -> None:
    """It is asked about again wherever the thread was interrupted that brought it."""
    mine: set[int] = set()

    def pull(world: World) -> object:
        return world.order.take_permitted("consumer", [], lambda entry: entry.reference.id in mine, ENOUGH)

    def prepare(world: World) -> Callable[[], object]:
        mine.clear()
        entries = world.fill(1, 2, 3, 4, 5, 6)
        assert pull(world) is None
        mine.update({500} if act == "comes" else {2, 3})
        if act == "comes":
            return lambda: world.order.append(world.make(500))
        if act == "is anybody's":
            return lambda: world.order.look_again(entries[1:3])
        world.take(*entries[1:3])
        return lambda: world.order.restore(entries[1:3])

    def settle(world: World, interruption: Interruption) -> None:
        if act == "is anybody's":
            world.order.look_again([entry for entry in world.order if entry.reference.id in mine])  # as a queue does
        there = [entry for entry in world.order if entry.reference.id in mine]
        assert there or interruption.where is not None
        assert [pull(world) for _ in range(len(there) + 1)] == [*there, None], interruption.where
        world.here -= mine

    sweep(make, prepare, settle)


@pytest.mark.parametrize("make", [Ordering, order_with_index], ids=["by age", "by value"])
@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("has_looked", [False, True])
def test_one_is_taken_by_a_selector_of_who_may_not_take_all(make: Make, returns: bool, has_looked: bool) -> None:
    def pull(world: World, mine: set[int]) -> object:
        order, cursor = world.order, world.cursor
        assert isinstance(order, Ordering)
        assert cursor is not None
        return order.take_in_turn("consumer", cursor, [], lambda entry: entry.reference.id in mine, ENOUGH)

    def prepare(world: World) -> Callable[[], object]:
        world.select()
        entries = world.fill(1, 2, 3, 4, 5, 6, 7, 8)
        if has_looked:
            assert [pull(world, set()) for _ in range(2)] == [None, None]
            if returns:
                world.order.discard(entries[3])
                world.order.restore([entries[3]])
            else:
                world.order.look_again([entries[3]])
        return lambda: world.taken.append(pull(world, {4}))  # type: ignore[arg-type]  # there is one

    def settle(world: World, interruption: Interruption) -> None:
        if not world.taken:
            found = pull(world, {4})
            assert isinstance(found, QueueEntry), interruption.where
            assert found.reference.id == 4, "it is found again"
        world.here.remove(4)
        assert pull(world, {4}) is None

    sweep(make, prepare, settle)


def all_or_none_of(returned: Iterable[int]) -> Callable[[World, Interruption], None]:
    """Expect that all of these are there, or none, if to give them back had not begun."""

    def settle(world: World, interruption: Interruption) -> None:
        found = {entry.reference.id for entry in world.order}
        has_begun = interruption.where is None or found != world.here
        if has_begun:
            world.here |= set(returned)

    return settle


@BOTH
@pytest.mark.parametrize(
    ("taken", "returned"),
    [
        (range(1, 7), range(1, 7)),
        (range(1, 4), range(1, 4)),
        (range(3, 5), range(3, 5)),
        ((1, 2, 4), (2, 4)),
        (range(2, 300), (5, 7, 150)),
    ],
    ids=["all", "the first", "into gaps", "both", "where gaps were closed"],
)
@pytest.mark.parametrize("selects", [False, True])
def test_some_are_given_back(make: Make, taken: range, returned: range, selects: bool) -> None:
    def prepare(world: World) -> Callable[[], object]:
        if selects:
            world.select()
        entries = world.fill(*range(1, max(7, taken[-1] + 2)))
        world.take(*(entries[number - 1] for number in taken))
        if world.cursor is not None:
            while (found := world.order.take_matching(world.cursor, None, ENOUGH)) is not None:
                assert found is not UNFINISHED
                world.here.remove(found.reference.id)
        back = [entries[number - 1] for number in returned]
        return lambda: world.order.restore(back)

    sweep(make, prepare, all_or_none_of(returned))


@BOTH
@pytest.mark.parametrize("spare", [64, 0])
@pytest.mark.parametrize("selects", [False, True])
@pytest.mark.parametrize(
    ("taken", "before", "returned"),
    [
        (range(1, 6), (1,), (2,)),
        (range(1, 6), (1, 4), (2, 3)),
        (range(1, 6), (2,), (1, 3, 5)),
        (range(2, 13), (), (2,)),
        (range(2, 25), (), (3, 20)),
        (range(2, 25), (5,), (4, 6, 24)),
    ],
    ids=["in order", "between", "on both sides", "where gaps were closed", "far away", "both"],
)
def test_some_are_given_back_after_others(
    make: Make,
    taken: range,
    before: tuple[int, ...],
    returned: tuple[int, ...],
    selects: bool,
    spare: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their gaps have gone."""
    for module in (lane, ordering):
        monkeypatch.setattr(module, "SPARE", spare)

    def prepare(world: World) -> Callable[[], object]:
        if selects:
            world.select()
        entries = world.fill(*range(1, 30))
        world.take(*(entries[number - 1] for number in taken))
        for number in before:
            world.order.restore([entries[number - 1]])
            world.here.add(number)
        back = [entries[number - 1] for number in returned]
        return lambda: world.order.restore(back)

    sweep(make, prepare, all_or_none_of(returned))


@pytest.mark.parametrize("returned", [(), (2,), (4, 6, 7)])
def test_values_are_noted(returned: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one that comes, or of some that come back where others have gone for good."""
    monkeypatch.setattr(value_index, "_BLOCK", 3)

    def prepare(world: World) -> Callable[[], object]:
        world.select()
        cursor = world.cursor
        assert cursor is not None
        index = cursor.index
        assert index is not None
        entries = world.fill(1, 2, 3, 4, 5, 6, 7, 8)
        for entry in entries:
            index.key_of(entry)
        world.take(*entries[1:7])
        world.fill(*range(9, 13))
        assert index.read_on(4, ENOUGH)
        world.order.restore([entries[number - 1] for number in returned])
        world.here |= set(returned)
        (entry,) = world.fill(14)
        return lambda: (index.key_of(entry), index.read_on(4, ENOUGH))

    sweep(order_with_index, prepare, lambda world, interruption: None)


@BOTH
def test_all_are_taken_out(make: Make) -> None:
    def prepare(world: World) -> Callable[[], object]:
        world.fill(1, 2, 3)
        return world.order.clear

    def settle(world: World, interruption: Interruption) -> None:
        if not world.order:
            world.here.clear()

    sweep(make, prepare, settle)
