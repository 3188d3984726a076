"""What a consumer without a selector may not have is asked once, and again only when that may have changed."""

from __future__ import annotations

import pytest

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.queue.cursor import UNFINISHED, Cursor
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from pyjms_provider.core.store import NotAtOnceError
from tests.provider.core.owned import MANY, Owned, note_asked
from tests.provider.cost import is_kept, kept
from tests.provider.helpers import Reader, text_of
from tests.provider.policy_world import PolicyWorld, pulled


class OwnedInLanes(Owned[PriorityQueueEntryList]):
    """Messages by priority and age."""

    def __init__(self) -> None:
        super().__init__(PriorityQueueEntryList())

    def add(self, many: int = 1, priority: int = 4) -> list[QueueEntry]:
        added = [self.make(priority) for _ in range(many)]
        for entry in added:
            self.ordering.append(entry)
        return added


@pytest.fixture
def owned() -> OwnedInLanes:
    return OwnedInLanes()


def test_what_is_another_ones_is_asked_once(owned: OwnedInLanes) -> None:
    owned.add(MANY)
    assert owned.asked_in(10) == MANY
    owned.add(3)
    assert owned.asked_in(10) == 3


def test_a_search_stops_and_goes_on(owned: OwnedInLanes) -> None:
    owned.add(MANY // 2, 9)
    owned.add(MANY // 2)
    (last,) = owned.add(1, 0)
    owned.mine.add(last)
    found = [owned.poll(looks=30) for _ in range(7)]
    assert found == [UNFINISHED] * 6 + [last]
    assert owned.asked == MANY + 1


@pytest.mark.parametrize("many", [1, 64, 65, MANY])
def test_what_comes_back_is_asked_again(owned: OwnedInLanes, many: int) -> None:
    entries = owned.add(MANY)
    assert owned.poll() is None
    for entry in entries[-many:]:
        assert owned.ordering.discard(entry)
    owned.ordering.restore(entries[-many:])
    assert owned.asked_in(2) == many
    owned.mine.update(entries[-many:])
    owned.ordering.rewind(entries)
    assert [owned.poll() for _ in range(many + 1)] == [*entries[-many:], None]


@pytest.mark.parametrize("many", [1, 64, 65, MANY])
def test_what_becomes_anybodys_is_asked_again_if_it_is_there(owned: OwnedInLanes, many: int) -> None:
    entries = [*owned.add(MANY), *owned.add(1, 9)]
    assert owned.poll() is None
    freed = [*entries[:many], entries[-1]]
    for entry in freed:
        owned.ordering.discard(entry)
    owned.ordering.rewind(freed)
    assert owned.asked_in(1) == 0
    owned.ordering.restore(freed)
    assert owned.poll() is None
    owned.mine.update(freed)
    owned.ordering.rewind(freed)
    assert [owned.poll() for _ in range(many + 2)] == [entries[-1], *entries[:many], None]


def test_all_is_asked_again_when_one_who_came_first_has_gone(owned: OwnedInLanes) -> None:
    first, second = Cursor(lambda _: True), Cursor(lambda _: True)
    owned.higher_priority = [first]
    owned.add(MANY)
    assert owned.asked_in(2) == MANY
    owned.higher_priority = [first, second]
    assert owned.asked_in(1) == 0, "one more takes nothing from what it passed"
    owned.higher_priority = [second]
    assert owned.asked_in(2) == MANY


def test_what_was_found_and_not_taken_stays_ahead(owned: OwnedInLanes) -> None:
    entries = owned.add(3)
    owned.mine.add(entries[1])
    assert owned.poll() is entries[1]
    owned.ordering.restore([entries[1]])
    assert owned.poll() is entries[1]


# In a queue


def grouped(many: int, monkeypatch: pytest.MonkeyPatch) -> tuple[PolicyWorld, Reader, Reader, list[QueueEntry]]:
    """Return an owner of a group with so many messages, another consumer, and what is asked from then on."""
    world = PolicyWorld(groups=True)
    owner, other = world.reader("owner"), world.reader("other")
    for _ in range(many + 1):
        world.send("a", properties={"JMSXGroupID": "a"})
    assert owner.pull() is not None
    return world, owner, other, note_asked(monkeypatch)


def test_a_consumer_looks_once_at_the_backlog_of_another_ones_group(monkeypatch: pytest.MonkeyPatch) -> None:
    world, owner, other, asked = grouped(MANY, monkeypatch)
    for _ in range(5):
        assert other.pull() is None
    assert len(asked) == MANY
    world.send("b", properties={"JMSXGroupID": "b"})
    assert text_of(other.pull()) == "b"
    assert len(asked) == MANY + 1
    owner.session.close()
    assert len(other.texts()) == MANY + 1, "the group is anybody's"
    world.queue.give_back_all(other.session)
    other.session.close()
    assert isinstance(world.queue.ordering, PriorityQueueEntryList)
    assert not any(is_kept(world.queue, reader.consumer) for reader in (owner, other))


def test_who_must_not_keep_others_waiting_stops_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.core.queue.search.EVALUATIONS", 4)
    world, _, other, asked = grouped(MANY, monkeypatch)
    with pytest.raises(NotAtOnceError):
        world.queue.deliver_single_message(other.consumer, at_once=True)
    assert len(asked) == 64
    assert other.pull() is None
    assert len(asked) == MANY


def test_groups_that_end_leave_nothing_behind_in_a_sorted_queue() -> None:
    world = PolicyWorld(type="sorted", key="n", groups=True)
    reader = world.reader()
    for number in range(MANY):
        for sequence in (0, -1, -1):
            properties = {"n": number, "JMSXGroupID": str(number), "JMSXGroupSeq": sequence}
            world.send(properties=properties)
    for _ in range(MANY):
        for delivery in (pulled(reader), pulled(reader)):
            reader.settle(delivery)
        reader.settle(pulled(reader))  # the group was anybody's again
    assert reader.pull() is None
    assert len(kept(world.queue, set)) <= 10, "none for each group"
