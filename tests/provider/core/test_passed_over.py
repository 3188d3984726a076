"""What a consumer without a selector may not have is asked once, and again only when that may have changed."""

from __future__ import annotations

import pytest

from pyjms_provider.core.cursor import UNFINISHED, Cursor
from pyjms_provider.core.entry import QueueEntry
from pyjms_provider.core.message_state import MessageState
from pyjms_provider.core.ordering import Ordering
from pyjms_provider.core.queue_rules import QueueRules
from pyjms_provider.core.reference import MessageReference, ReferenceId
from pyjms_provider.core.store import NotAtOnceError
from tests.provider.helpers import Reader, text_of
from tests.provider.policy_world import PolicyWorld

ENOUGH = 1_000_000
MANY = 200


class Owned:
    """An ordering of messages that are somebody else's, save those in `mine`; it counts who asks."""

    def __init__(self) -> None:
        self.ordering = Ordering()
        self.mine: set[QueueEntry] = set()
        self.asked = 0
        self.rivals: list[Cursor | None] = []
        self._numbers = 0

    def add(self, many: int = 1, priority: int = 4) -> list[QueueEntry]:
        added: list[QueueEntry] = []
        for _ in range(many):
            self._numbers += 1
            reference = MessageReference(ReferenceId(self._numbers), None, 0, priority, False)
            added.append(QueueEntry(None, reference, MessageState.NEW))  # type: ignore[arg-type]  # an ordering asks no queue
            self.ordering.append(added[-1])
        return added

    def poll(self, looks: int = ENOUGH) -> object:
        return self.ordering.take_permitted("consumer", self.rivals, self._permits, looks)

    def asked_in(self, polls: int) -> int:
        """Return how often is asked in so many polls, all of them in vain."""
        before = self.asked
        for _ in range(polls):
            assert self.poll() is None
        return self.asked - before

    def _permits(self, entry: QueueEntry) -> bool:
        self.asked += 1
        return entry in self.mine


@pytest.fixture
def owned() -> Owned:
    return Owned()


def test_what_is_another_ones_is_asked_once(owned: Owned) -> None:
    owned.add(MANY)
    assert owned.asked_in(10) == MANY
    owned.add(3)
    assert owned.asked_in(10) == 3


def test_a_search_stops_and_goes_on(owned: Owned) -> None:
    owned.add(MANY // 2, 9)
    owned.add(MANY // 2)
    (last,) = owned.add(1, 0)
    owned.mine.add(last)
    found = [owned.poll(looks=30) for _ in range(7)]
    assert found == [UNFINISHED] * 6 + [last]
    assert owned.asked == MANY + 1


@pytest.mark.parametrize("many", [1, 64, 65, MANY])
def test_what_comes_back_is_asked_again(owned: Owned, many: int) -> None:
    entries = owned.add(MANY)
    assert owned.poll() is None
    for entry in entries[-many:]:
        assert owned.ordering.discard(entry)
    owned.ordering.restore(entries[-many:])
    assert owned.asked_in(2) == many
    owned.mine.update(entries[-many:])
    owned.ordering.look_again(entries)
    assert [owned.poll() for _ in range(many + 1)] == [*entries[-many:], None]


@pytest.mark.parametrize("many", [1, 64, 65, MANY])
def test_what_becomes_anybodys_is_asked_again_if_it_is_there(owned: Owned, many: int) -> None:
    entries = [*owned.add(MANY), *owned.add(1, 9)]
    assert owned.poll() is None
    freed = [*entries[:many], entries[-1]]
    for entry in freed:
        owned.ordering.discard(entry)
    owned.ordering.look_again(freed)
    assert owned.asked_in(1) == 0
    owned.ordering.restore(freed)
    assert owned.poll() is None
    owned.mine.update(freed)
    owned.ordering.look_again(freed)
    assert [owned.poll() for _ in range(many + 2)] == [entries[-1], *entries[:many], None]


def test_all_is_asked_again_when_one_who_came_first_has_gone(owned: Owned) -> None:
    first, second = Cursor(lambda _: True), Cursor(lambda _: True)
    owned.rivals = [first]
    owned.add(MANY)
    assert owned.asked_in(2) == MANY
    owned.rivals = [first, second]
    assert owned.asked_in(1) == 0, "one more takes nothing from what it passed"
    owned.rivals = [second]
    assert owned.asked_in(2) == MANY


def test_what_was_found_and_not_taken_stays_ahead(owned: Owned) -> None:
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
    asked: list[QueueEntry] = []
    may_take = QueueRules.may_take

    def asking(self: QueueRules, consumer: object, rivals: object, is_wanted: object, entry: QueueEntry) -> bool:
        asked.append(entry)
        return may_take(self, consumer, rivals, is_wanted, entry)  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(QueueRules, "may_take", asking)
    return world, owner, other, asked


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
    assert isinstance(world.queue._ordering, Ordering)
    assert not world.queue._ordering.passed_over._turns


def test_who_must_not_keep_others_waiting_stops_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.core.queue._EVALUATIONS", 4)
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
        world.send(properties={"n": number, "JMSXGroupID": str(number)})
        world.send(properties={"n": number, "JMSXGroupID": str(number), "JMSXGroupSeq": -1})
    assert len(reader.texts()) == 2 * MANY
    assert reader.pull() is None
    assert world.queue._rules is not None
    assert world.queue._rules._groups is not None
    assert not world.queue._rules._groups.freed
