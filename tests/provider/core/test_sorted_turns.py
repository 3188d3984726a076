"""What a consumer without a selector may not have of a sorted queue is asked once, and again only when that may have changed."""

from __future__ import annotations

from random import Random

import pytest

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.queue import sorted_entry_list as sorted_turns
from pyjms_provider.core.queue.cursor import UNFINISHED, Cursor
from pyjms_provider.core.queue.sorted_entry_list import SortedQueueEntryList, SortValue
from tests.provider.core.owned import MANY, Owned, note_asked
from tests.provider.cost import is_kept, kept
from tests.provider.helpers import text_of
from tests.provider.policy_world import PolicyWorld, pulled


class OwnedSorted(Owned[SortedQueueEntryList]):
    """Sorted messages."""

    def __init__(self) -> None:
        self._values: dict[QueueEntry, SortValue] = {}
        super().__init__(SortedQueueEntryList(self._values.__getitem__))

    def add(self, *numbers: float) -> list[QueueEntry]:
        added: list[QueueEntry] = []
        for number in numbers:
            added.append(self.make())
            self._values[added[-1]] = (1, number, "")
            self.ordering.append(added[-1])
        return added


@pytest.fixture
def owned() -> OwnedSorted:
    return OwnedSorted()


def test_what_is_another_ones_is_asked_once(owned: OwnedSorted) -> None:
    owned.add(*range(MANY))
    assert owned.asked_in(10) == MANY
    owned.add(-1, MANY // 2, MANY)
    assert owned.asked_in(10) == 3, "wherever it comes"


def test_a_search_stops_and_goes_on(owned: OwnedSorted) -> None:
    owned.add(*range(MANY))
    (last,) = owned.add(MANY)
    owned.mine.add(last)
    found = [owned.poll(looks=30) for _ in range(7)]
    assert found == [UNFINISHED] * 6 + [last]
    assert owned.asked == MANY + 1
    owned.add(*[-1] * 50)
    assert [owned.poll(looks=30) for _ in range(2)] == [UNFINISHED, None]


def test_what_comes_back_or_becomes_anybodys_is_asked_again(owned: OwnedSorted) -> None:
    entries = owned.add(*range(MANY))
    assert owned.poll() is None
    owned.mine.update(entries[3:6])
    assert owned.asked_in(1) == 0, "nobody has said so"
    owned.ordering.discard(entries[5])
    owned.ordering.rewind(entries[3:6])
    assert [owned.poll() for _ in range(3)] == [entries[3], entries[4], None]
    owned.ordering.restore([entries[5], entries[3]])
    assert [owned.poll() for _ in range(3)] == [entries[3], entries[5], None]


def test_all_is_asked_again_when_one_who_came_first_has_gone(owned: OwnedSorted) -> None:
    first, second = Cursor(lambda _: True), Cursor(lambda _: True)
    owned.higher_priority = [first]
    owned.add(*range(MANY))
    assert owned.asked_in(2) == MANY
    owned.higher_priority = [first, second]
    assert owned.asked_in(1) == 0, "one more takes nothing from what it passed"
    owned.higher_priority = [second]
    assert owned.asked_in(2) == MANY


def test_what_nobody_reads_is_forgotten(owned: OwnedSorted) -> None:
    entries = owned.add(*range(MANY))
    assert owned.poll() is None
    for _ in range(10):
        for entry in entries:
            owned.ordering.discard(entry)
        owned.ordering.restore(entries)
    assert len(kept(owned.ordering, tuple, without=[owned])) <= 4 * MANY + 100, "values, places, and what came since"
    owned.mine.update(entries[7:9])
    assert [owned.poll() for _ in range(3)] == [entries[7], entries[8], None]


def test_what_comes_back_again_and_again_is_noted_a_few_times(owned: OwnedSorted) -> None:
    (mine, *_) = owned.add(*range(10))
    assert owned.poll() is None
    owned.mine.add(mine)
    owned.ordering.rewind([mine])
    for _ in range(1_000):
        assert owned.poll() is mine
        owned.ordering.restore([mine])
    assert len(kept(owned.ordering, tuple, without=[owned])) <= 200, "of 1,000"


@pytest.mark.parametrize("seed", range(30))
def test_each_consumer_gets_the_first_that_is_its_own(
    owned: OwnedSorted, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_turns, "_SPARE", 2)
    random, taken = Random(seed), list[QueueEntry]()
    owners: dict[QueueEntry, str | None] = {}

    def take(name: str) -> None:
        expected = next((each for each in owned.ordering if owners[each] in {name, None}), None)
        found: object = UNFINISHED
        while found is UNFINISHED:
            found = owned.ordering.poll_permitted(name, (), lambda entry: owners[entry] in {name, None}, 3)
        assert found is expected
        if isinstance(found, QueueEntry):
            taken.append(found)

    for _ in range(400):
        act = random.randrange(8)
        if act < 2:
            (entry,) = owned.add(random.randrange(5))
            owners[entry] = random.choice(["a", "b", "nobody", "nobody", None])
        elif act < 5:
            take(random.choice("ab"))
        elif act == 5 and taken:
            owned.ordering.restore([taken.pop(random.randrange(len(taken)))])
        elif act == 6 and owners:
            freed = random.sample(list(owners), min(3, len(owners)))
            for each in freed:
                owners[each] = None
            owned.ordering.rewind(freed)
        elif act == 7 and random.random() < 0.1:
            owned.ordering.forget_scan("a")


# In a queue


def test_a_consumer_looks_once_at_the_backlog_of_another_ones_group(monkeypatch: pytest.MonkeyPatch) -> None:
    world = PolicyWorld(type="sorted", key="n", groups=True)
    owner, other = world.reader("owner"), world.reader("other")
    for number in range(MANY + 1):
        world.send("a", properties={"n": number, "JMSXGroupID": "a"})
    pulled(owner)
    asked = note_asked(monkeypatch)
    for _ in range(5):
        assert other.pull() is None
    assert len(asked) == MANY
    world.send("b", properties={"n": 3, "JMSXGroupID": "b"})
    assert text_of(other.pull()) == "b"
    assert len(asked) == MANY + 1
    owner.session.close()
    assert len(other.texts()) == MANY + 1, "the group is anybody's"
    other.session.close()
    assert isinstance(world.queue.ordering, SortedQueueEntryList)
    assert not any(is_kept(world.queue, reader.consumer) for reader in (owner, other))


def test_who_owns_a_group_gets_what_it_had_left_to_others() -> None:
    world = PolicyWorld(type="sorted", key="n", groups=True)
    high = world.reader("high", selector="c = 1", priority=5, interested=True)
    low = world.reader("low")
    world.send("one", properties={"n": 1, "c": 1, "JMSXGroupID": "a"})
    assert low.pull() is None, "it is for who comes first"
    world.send("two", properties={"n": 2, "c": 2, "JMSXGroupID": "a"})
    assert text_of(low.pull()) == "two"
    assert text_of(low.pull()) == "one", "the group is its own now"
    assert high.pull() is None
