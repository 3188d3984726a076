"""What matches a consumer's selector, and is another one's, is asked about once, and again only when that may have changed."""

from __future__ import annotations

from random import Random

import pytest

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.queue import cursor as cursors
from pyjms_provider.core.queue import cursor as passed_over
from pyjms_provider.core.queue.cursor import UNFINISHED, Asked
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from tests.cases import each_of
from tests.provider.core.owned import MANY, make_entry, note_asked
from tests.provider.cost import is_kept
from tests.provider.helpers import Reader, text_of
from tests.provider.policy_world import PolicyWorld, pulled

EVEN = Asked(("parity",), 0, lambda entry: entry.reference.id % 2)


def group(name: str) -> dict[str, str | int]:
    return {"JMSXGroupID": name, "c": 1}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[QueueEntry]:
    """What queues ask from now on: may this consumer have this message?"""
    return note_asked(monkeypatch)


def backlog(many: int) -> tuple[PolicyWorld, Reader, Reader]:
    """Return the owner of a group with so many messages, and another consumer with the same selector."""
    world = PolicyWorld(groups=True)
    owner, other = world.reader("owner", selector="c = 1"), world.reader("other", selector="c = 1")
    for _ in range(many + 1):
        world.send("a", properties=group("a"))
    pulled(owner)
    return world, owner, other


def test_a_consumer_looks_once_at_the_backlog_of_another_ones_group(asked: list[QueueEntry]) -> None:
    world, owner, other = backlog(MANY)
    asked.clear()
    for _ in range(5):
        assert other.pull() is None
    assert len(asked) == 2 * MANY, "when it is found to match, and once more"
    world.send("b", properties=group("b"))
    assert text_of(other.pull()) == "b"
    assert len(asked) == 2 * MANY + 1
    owner.session.close()
    assert len(other.texts()) == MANY + 1, "the group is anybody's"
    other.session.close()
    assert isinstance(world.queue.ordering, PriorityQueueEntryList)
    assert not any(is_kept(world.queue, reader.consumer) for reader in (owner, other))


def test_what_others_have_taken_is_forgotten() -> None:
    world, owner, other = backlog(MANY)
    last = world.reader("last", selector="c > 0")
    assert other.pull() is None
    assert last.pull() is None
    assert len(owner.texts()) == MANY
    world.send("b", properties=group("a"))
    for reader in (other, last):
        assert reader.pull() is None
        assert reader.consumer.cursor is not None
        assert sum(map(len, reader.consumer.cursor.matched.values())) <= 66


@pytest.mark.parametrize("has_index", [False, True])
@each_of(range(100))
def test_each_consumer_gets_the_first_that_is_its_own(
    seed: int, has_index: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one selector: however often its cursor goes back, and others look meanwhile."""
    random = Random(seed)
    few = random.choice([1, 3])
    for module in (cursors, passed_over):
        monkeypatch.setattr(module, "BEHIND_MAXIMUM", few)
    monkeypatch.setattr(passed_over, "SPARE", 0)
    order = PriorityQueueEntryList()
    if has_index:
        for number in range(10):  # so many of one kind have an index
            order.open_cursor(f"{number}", lambda _: True, EVEN)
            order.close_cursor(f"{number}")
    cursor = order.open_cursor("even", lambda entry: entry.reference.id % 2 == 0, EVEN)
    assert (cursor.index is not None) == has_index
    owners: dict[QueueEntry, str | None] = {}
    taken: list[QueueEntry] = []

    def pull(name: str) -> object:
        return order.poll_unblocked(name, cursor, (), lambda entry: owners[entry] in {name, None}, 3)

    def take(name: str) -> None:
        matching = [each for each in order if each.reference.id % 2 == 0]
        expected = next((each for each in matching if owners[each] in {name, None}), None)
        found: object = UNFINISHED
        while found is UNFINISHED:
            found = pull(name)
            if found is UNFINISHED and random.random() < 0.3:
                return  # it goes on another time
        assert found is expected
        if isinstance(found, QueueEntry):
            taken.append(found)

    for _ in range(500):
        act = random.randrange(9)
        if act < 3:
            entry = make_entry(len(owners) + 1, random.choice([4, 4, 5]))
            owners[entry] = random.choice(["a", "b", "nobody", "nobody", None])
            order.append(entry)
        elif act < 6:
            take(random.choice("ab"))
        elif act == 6 and taken:
            random.shuffle(taken)
            many = random.randint(1, len(taken))
            order.restore(taken[:many])
            del taken[:many]
        elif act == 7 and owners:
            freed = random.sample(list(owners), min(3, len(owners)))
            for each in freed:
                owners[each] = None
            order.rewind(freed)
        elif owners:
            somewhere = random.choice(list(owners))
            if order.discard(somewhere):
                taken.append(somewhere)
