"""The lists of consumers: the full product of lists and events, and whom the manager chooses."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.queue import consumer as consumer_manager
from pyjms_provider.core.queue import cursor as value_index
from pyjms_provider.core.queue.consumer import (
    MOVES,
    Consumer,
    ConsumerEvent,
    ConsumerList,
    ConsumerManager,
    PriorityGroup,
)
from pyjms_provider.core.state_machine import ForbiddenTransitionError
from pyjms_provider.core.store import NotInMemoryError
from tests.provider.helpers import QueueWorld, Reader

ALL = sorted(product(ConsumerList, ConsumerEvent), key=str)
FORBIDDEN = {
    *((ConsumerList.REMOVED, event) for event in ConsumerEvent if not event.name.startswith("ADD")),
    *((place, event) for place, event in ALL if place is not ConsumerList.REMOVED and event.name.startswith("ADD")),
    (ConsumerList.NOT_INTERESTED, ConsumerEvent.NOTIFY),
    (ConsumerList.NOTIFIED, ConsumerEvent.NOTIFY),
}


@pytest.mark.realises("QCM-36")
@pytest.mark.parametrize(("place", "event"), ALL, ids=lambda value: value.name)
def test_each_pair_is_in_the_table_or_forbidden(place: ConsumerList, event: ConsumerEvent) -> None:
    if (place, event) in FORBIDDEN:
        with pytest.raises(ForbiddenTransitionError, match=f"{place.name} .* cannot have {event.name}"):
            MOVES[place, event]
    else:
        assert (MOVES[place, event] is ConsumerList.REMOVED) == (event is ConsumerEvent.REMOVE)


def places(*readers: Reader) -> list[str]:
    return [reader.consumer.place.name for reader in readers]


def manager_of(world: QueueWorld) -> ConsumerManager:
    return world.queue.consumers


def groups_of(manager: ConsumerManager) -> list[PriorityGroup]:
    """Return the groups that have consumers, in the order in which they are asked."""
    return list(dict.fromkeys(consumer.group for consumer in manager if consumer.group is not None))


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld()


@pytest.mark.realises("QCM-25", "QCM-26")
def test_who_is_not_interested_is_never_woken(world: QueueWorld) -> None:
    reader = world.reader()
    assert places(reader) == ["NOT_INTERESTED"]
    world.send()
    assert reader.wake_ups == 0
    assert places(reader) == ["NOT_INTERESTED"]


@pytest.mark.realises("QCM-27", "QCM-4")
def test_who_wants_work_waits_in_interested(world: QueueWorld) -> None:
    reader = world.reader(interested=True)
    assert places(reader) == ["INTERESTED"]
    assert manager_of(world).members(ConsumerList.INTERESTED) == [reader.consumer]


@pytest.mark.realises("QCM-28", "QCM-29", "QCM-2")
def test_a_message_wakes_one_and_moves_it_to_notified(world: QueueWorld) -> None:
    readers = [world.reader(str(number), interested=True) for number in range(3)]
    world.send()
    assert [reader.wake_ups for reader in readers] == [1, 0, 0]
    assert places(*readers) == ["NOTIFIED", "INTERESTED", "INTERESTED"]
    world.send()
    world.send()
    world.send()
    assert [reader.wake_ups for reader in readers] == [1, 1, 1], "all are awake"


@pytest.mark.realises("QCM-31", "QCM-5", "QCM-30")
def test_a_woken_consumer_stays_notified_while_its_pulls_succeed(world: QueueWorld) -> None:
    first, second = world.reader("first", interested=True), world.reader("second")
    for _ in range(3):
        world.send()
    for _ in range(3):
        assert first.pull() is not None
        assert places(first) == ["NOTIFIED"]
        world.send()
    assert first.wake_ups == 1
    assert second.wake_ups == 0


@pytest.mark.realises("QCM-32")
def test_who_pulled_in_vain_goes_to_the_back(world: QueueWorld) -> None:
    first, second = world.reader("first", interested=True), world.reader("second", interested=True)
    world.send()
    assert first.pull() is not None
    assert first.pull() is None
    assert manager_of(world).members(ConsumerList.INTERESTED) == [second.consumer, first.consumer]
    world.send()
    assert (first.wake_ups, second.wake_ups) == (1, 1)


@pytest.mark.realises("QCM-33")
def test_over_time_each_consumer_gets_its_share_though_somebody_else_takes_messages_first(world: QueueWorld) -> None:
    thief = world.reader("thief")
    readers = [world.reader(str(number), interested=True) for number in range(4)]
    got = dict.fromkeys(readers, 0)
    for number in range(400):
        world.send()
        if number % 3 == 0:
            assert thief.pull() is not None
        for reader in readers:
            while reader.consumer.place is ConsumerList.NOTIFIED:
                got[reader] += reader.pull() is not None
    assert [reader.wake_ups for reader in readers] == [100] * 4
    assert min(got.values()) >= 60


@pytest.mark.realises("QCM-34")
def test_who_loses_interest_hands_the_wake_up_on(world: QueueWorld) -> None:
    first, second, third = (world.reader(name, interested=True) for name in "123")
    world.send()
    first.consumer.set_interested(False)
    assert (first.wake_ups, second.wake_ups, third.wake_ups) == (1, 1, 0)
    second.consumer.close()
    assert third.wake_ups == 1
    assert places(first, second, third) == ["NOT_INTERESTED", "REMOVED", "NOTIFIED"]


def test_who_loses_interest_unwoken_hands_nothing_on(world: QueueWorld) -> None:
    first, second = world.reader("1", interested=True), world.reader("2", interested=True)
    second.consumer.set_interested(False)
    first.consumer.close()
    assert (first.wake_ups, second.wake_ups) == (0, 0)


def test_nothing_is_handed_on_when_nothing_is_left(world: QueueWorld) -> None:
    first, second = world.reader("1", interested=True), world.reader("2", interested=True)
    world.send()
    assert first.pull() is not None
    first.consumer.set_interested(False)
    assert second.wake_ups == 0


def test_a_wake_up_is_not_handed_on_past_a_woken_consumer_of_higher_priority(world: QueueWorld) -> None:
    low = world.reader("low", interested=True)
    high, other = world.reader("high", interested=True, priority=1), world.reader("other", interested=True, priority=1)
    world.send()
    world.send()
    assert (high.wake_ups, other.wake_ups, low.wake_ups) == (1, 1, 0)
    high.consumer.set_interested(False)
    assert low.wake_ups == 0, "the other one of high priority is awake and takes both"
    other.consumer.set_interested(False)
    assert low.wake_ups == 1


@pytest.mark.realises("QCM-35")
def test_who_pulls_nothing_while_messages_remain_makes_the_queue_wake_another(world: QueueWorld) -> None:
    slow, red = world.reader("slow", interested=True), world.reader("red", selector="colour = 'red'", interested=True)
    other, thief = world.reader("other", interested=True), world.reader("thief", selector="colour = 'red'")
    for colour in ["blue", "red"]:
        world.send(colour, properties={"colour": colour})
    assert (slow.wake_ups, red.wake_ups, other.wake_ups) == (1, 1, 0)
    assert thief.texts() == ["red"]
    assert red.pull() is None
    assert other.wake_ups == 1, "the blue message is still there"
    assert other.texts() == ["blue"]
    assert slow.pull() is None


def test_who_must_leave_messages_to_a_higher_priority_gets_them_when_that_one_goes(world: QueueWorld) -> None:
    generic = world.reader("generic", interested=True)
    world.send("r", properties={"colour": "red"})
    high = world.reader("high", selector="colour = 'red'", interested=True, priority=5)
    assert high.wake_ups == 1, "it comes when there is work already"
    assert generic.pull() is None
    assert places(generic, high) == ["INTERESTED", "NOTIFIED"]
    high.consumer.set_interested(False)
    assert generic.wake_ups == 2
    assert generic.texts() == ["r"]


@pytest.mark.realises("QCM-3")
def test_a_message_wakes_one_whose_selector_matches(world: QueueWorld) -> None:
    red, blue = (world.reader(name, selector=f"colour = '{name}'", interested=True) for name in ["red", "blue"])
    world.send("b", properties={"colour": "blue"})
    assert (red.wake_ups, blue.wake_ups) == (0, 1)
    world.send("g", properties={"colour": "green"})
    assert (red.wake_ups, blue.wake_ups) == (0, 1)


@pytest.mark.realises("QCM-3")
def test_a_message_that_no_woken_consumer_wants_wakes_one_that_does(world: QueueWorld) -> None:
    red, generic = world.reader("red", selector="colour = 'red'", interested=True), world.reader("g", interested=True)
    world.send("r", properties={"colour": "red"})
    assert red.wake_ups == 1
    world.send("b", properties={"colour": "blue"})
    assert generic.wake_ups == 1


@pytest.mark.realises("QCM-24")
def test_consumers_that_only_look_are_told_of_every_message_if_they_want(world: QueueWorld) -> None:
    browsers = [world.reader(f"browser {number}", acquires=False) for number in range(3)]
    reader = world.reader(interested=True)
    for browser in browsers[:2]:
        browser.consumer.set_interested(True)
    for text in "ab":
        world.send(text)
    assert [browser.wake_ups for browser in browsers] == [2, 2, 0]
    assert places(*browsers) == ["NON_ACQUIRING"] * 3
    assert reader.wake_ups == 1
    assert browsers[0].texts() == ["a", "b"]
    assert browsers[1].texts() == ["a", "b"]
    assert reader.texts() == ["a", "b"]
    browsers[0].consumer.close()
    world.send("c")
    assert [browser.wake_ups for browser in browsers] == [2, 3, 0]


def test_a_consumer_that_only_looks_may_have_a_selector(world: QueueWorld) -> None:
    browser = world.reader("browser", acquires=False, selector="n > 1", interested=True)
    for number in range(4):
        world.send(str(number), properties={"n": number})
    assert browser.texts() == ["2", "3"]
    assert len(world.texts()) == 4


# Priorities


@pytest.mark.realises("QCM-37", "QCM-39")
def test_the_consumer_of_highest_priority_is_woken_first(world: QueueWorld) -> None:
    readers = {priority: world.reader(str(priority), priority=priority, interested=True) for priority in (3, 9, -1)}
    assert [consumer.priority for consumer in manager_of(world).members(ConsumerList.INTERESTED)] == [9, 3, -1]
    world.send()
    assert {priority: reader.wake_ups for priority, reader in readers.items()} == {3: 0, 9: 1, -1: 0}


@pytest.mark.realises("QCM-38")
def test_there_is_a_group_for_each_priority_in_use(world: QueueWorld) -> None:
    readers = [world.reader(str(number), priority=number % 3) for number in range(6)]
    manager = manager_of(world)
    before = groups_of(manager)
    assert [group.priority for group in before] == [2, 1, 0]
    for reader in readers:
        reader.consumer.close()
    assert not manager.has_priorities
    for priority in range(3):
        world.reader(priority=priority)
    assert not set(before) & set(groups_of(manager)), "each has ended with its last consumer"


@pytest.mark.realises("QCM-40")
def test_lower_priority_gets_what_higher_does_not_want(world: QueueWorld) -> None:
    low = world.reader("low", interested=True)
    high = world.reader("high", selector="colour = 'red'", priority=1, interested=True)
    for colour in ["red", "blue", "red"]:
        world.send(colour, properties={"colour": colour})
    assert low.texts() == ["blue"]
    high.consumer.set_interested(False)
    assert low.texts() == ["red", "red"]


@pytest.mark.realises("QCM-40")
def test_lower_priority_gets_nothing_while_higher_wants_everything(world: QueueWorld) -> None:
    low, high = world.reader("low", interested=True), world.reader("high", priority=1, interested=True)
    world.send("a")
    assert low.pull() is None
    assert high.texts() == ["a"]


def test_a_higher_consumer_that_wants_nothing_now_is_no_rival(world: QueueWorld) -> None:
    low, high = world.reader("low", interested=True), world.reader("high", priority=1)
    world.send("a")
    assert (low.wake_ups, high.wake_ups) == (1, 0)
    assert low.texts() == ["a"]


def pull_while_woken(readers: list[Reader], pulls: int) -> bool:
    """Have those pull who are woken, in turn; return whether that ended within so many pulls."""
    for _ in range(pulls):
        woken = next((reader for reader in readers if reader.consumer.place is ConsumerList.NOTIFIED), None)
        if woken is None:
            return True
        assert woken.pull() is None
        readers.append(readers.pop(0))
    return False


@pytest.mark.parametrize("selectors", [(None, None), ("id <> 'b'", None), ("id <> 'b'", "id <> 'c'")])
def test_those_below_one_that_is_busy_do_not_wake_each_other(
    world: QueueWorld, selectors: tuple[str | None, str | None]
) -> None:
    """What waits is the busy one's: the others may look once each, and are quiet until something happens."""
    busy = world.reader("busy", selector="id = 'a'", priority=1, interested=True)
    low = [world.reader("low", selector=selector, interested=True) for selector in selectors]
    world.send("1", properties={"id": "a"})
    world.send("2", properties={"id": "z"})
    taken = next(reader for reader in low if reader.wake_ups)
    assert taken.texts() == ["2"]
    assert pull_while_woken(list(low), 10), "they wake each other without end"
    busy.consumer.set_interested(False)
    assert [text for reader in low for text in reader.texts()] == ["1"]


def test_who_may_have_more_once_a_busy_one_has_gone_is_woken(world: QueueWorld) -> None:
    busy = world.reader("busy", selector="id = 'a'", priority=1, interested=True)
    low = [world.reader("low", interested=True) for _ in range(2)]
    world.send("1", properties={"id": "a"})
    world.send("2", properties={"id": "z"})
    assert low[0].texts() == ["2"]
    assert pull_while_woken(list(low), 10)
    busy.session.close()
    woken = [reader for reader in low if reader.consumer.place is ConsumerList.NOTIFIED]
    assert [reader.texts() for reader in woken] == [["1"]]


def test_who_looked_in_vain_is_woken_for_what_another_one_was_woken_for_by_a_guess(
    world: QueueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that is not in memory may be anybody's: who does not want it has the next one look."""
    world.reader("busy", selector="id = 'a'", priority=1, interested=True)
    first, second = (world.reader(each, selector=f"id <> '{each}'", interested=True) for each in "bc")
    world.send("1", properties={"id": "a"})
    world.send("2", properties={"id": "z"})
    assert first.texts() == ["2"]
    assert pull_while_woken([first, second], 10)
    looking = next(iter(manager_of(world).members(ConsumerList.INTERESTED)))
    name = "c" if looking is second.consumer else "b"

    def not_in_memory(entry: QueueEntry) -> bool:
        raise NotInMemoryError(entry.reference)

    assert looking.cursor is not None
    with monkeypatch.context() as patch:
        patch.setattr(looking.cursor, "matches", not_in_memory)
        world.send("3", properties={"id": name})
    assert looking.pull() is None
    assert [reader.texts() for reader in (first, second) if reader.consumer.place is ConsumerList.NOTIFIED] == [["3"]]


def test_who_gave_up_is_woken_when_one_of_higher_priority_has_looked(world: QueueWorld) -> None:
    """Where memory has no room for what must be looked at, those below wait for those above, and do not wake each other."""
    manager = manager_of(world)
    high = world.reader("high", selector="id = 'a'", priority=1, interested=True).consumer
    low = [world.reader("low", interested=True).consumer for _ in range(2)]

    def chosen(consumer: Consumer, *, gave_up: bool) -> list[Consumer]:
        others = manager.choose_after_fruitless_pull(consumer, lambda _: True, gave_up=gave_up)
        manager.pulled_nothing(consumer)
        return others

    for consumer in (high, low[0]):
        manager.notify(consumer)
    assert chosen(low[0], gave_up=True) == []
    assert chosen(high, gave_up=False) == [low[1]], "one of them is enough"
    assert chosen(low[1], gave_up=True) == []
    manager.notify(high)
    assert chosen(high, gave_up=True) == [low[0]], (
        "nobody else looks for the first of all, who is woken again by others"
    )
    assert chosen(low[0], gave_up=True) == [high]


def test_those_who_looked_are_not_woken_again_for_one_who_gave_up(world: QueueWorld) -> None:
    """Each look would clear the marks of the others, and the one who gives up wake them all, for as long as the one above is busy."""
    manager = manager_of(world)
    manager.notify(world.reader("high", selector="id = 'a'", priority=1, interested=True).consumer)  # and it is busy
    low = [world.reader(f"low{n}", selector=f"id <> 'x{n}'", interested=True).consumer for n in range(3)]
    manager.notify(low[0])
    pulls = 0
    while woken := [consumer for consumer in low if consumer.place is ConsumerList.NOTIFIED]:
        manager.choose_after_fruitless_pull(woken[0], lambda _: True, gave_up=woken[0] is low[0])
        manager.pulled_nothing(woken[0])
        pulls += 1
        assert pulls < 20
    assert pulls > 3


def test_a_stopped_connection_is_as_good_as_no_interest(world: QueueWorld) -> None:
    low, high = world.reader("low", interested=True), world.reader("high", priority=1, interested=True)
    world.send("a")
    high.session.set_delivering(False)
    assert low.wake_ups == 1
    assert high.pull() is None
    assert low.texts() == ["a"]
    high.session.set_delivering(True)
    world.send("b")
    assert high.wake_ups == 2


def test_one_of_each_selector_is_woken_when_a_consumer_of_all_goes(world: QueueWorld) -> None:
    generic = world.reader("generic", interested=True)
    readers = [world.reader(f"{c}{n}", selector=f"colour = '{c}'") for c in ["red", "blue"] for n in range(3)]
    for colour in ["red", "blue"]:
        world.send(colour, properties={"colour": colour})
    assert generic.wake_ups == 1
    for reader in readers:
        reader.consumer.notify_desired = True
        manager_of(world).begin_interest(reader.consumer)  # as if they had become interested before
    generic.consumer.set_interested(False)
    assert [reader.wake_ups for reader in readers] == [1, 0, 0, 1, 0, 0]


def test_a_selector_is_evaluated_once_for_all_who_share_it(world: QueueWorld) -> None:
    readers = [world.reader(str(number), selector="colour = 'red'", interested=True) for number in range(50)]
    cursor = readers[0].consumer.cursor
    assert cursor is not None
    original = cursor.matches
    assert original is not None
    evaluated: list[object] = []
    cursor.matches = lambda entry: evaluated.append(entry) or original(entry)  # type: ignore[func-returns-value]
    world.send("b", properties={"colour": "blue"})
    assert len(evaluated) == 1
    for reader in readers:
        assert reader.pull() is None
    assert len(evaluated) == 1, "what waited for it knows that it does not match"


def test_consumers_are_counted() -> None:
    world = QueueWorld()
    readers = [world.reader("a"), world.reader("b", acquires=False)]
    assert world.queue.consumer_count == 2
    assert set(manager_of(world)) == {reader.consumer for reader in readers}
    assert all(isinstance(consumer, Consumer) for consumer in manager_of(world))


# Many with the same selector


class Steps(OrderedDict[Consumer, None]):
    """Those in Interested, and how many were passed over one by one."""

    number = 0

    def __iter__(self) -> Iterator[Consumer]:
        for consumer in super().__iter__():
            self.number += 1
            yield consumer


@pytest.mark.parametrize("wanted", [False, True])
def test_many_with_the_same_selector_are_passed_over_together(world: QueueWorld, wanted: bool) -> None:
    crowd = [world.reader(selector="n = 1", interested=True) for _ in range(300)]
    last = world.reader(selector="n = 2", interested=True)
    (group,) = groups_of(manager_of(world))
    steps = group.lists[ConsumerList.INTERESTED] = Steps(group.lists[ConsumerList.INTERESTED])
    steps.number = 0
    for _ in range(10):
        world.send(properties={"n": 2 if wanted else 3})
        assert last.texts() == [""] * wanted
    assert steps.number <= 2 * 301 + 3 * 10, (
        "all of them once, to note who has which; else the first alone, a few times"
    )
    world.send(properties={"n": 1})
    assert [reader.wake_ups for reader in crowd] == [1, *[0] * 299]
    for reader in crowd[:240]:
        reader.consumer.close()
    world.send(properties={"n": 3})
    assert group.waiting is None, "so few are passed over one by one"


@pytest.mark.parametrize("seed", range(20))
def test_who_is_woken_is_the_first_that_wants_it(world: QueueWorld, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whether or not those with the same selector are noted, and found by the values that they ask for."""
    monkeypatch.setattr(consumer_manager, "_MANY", 1)
    monkeypatch.setattr(consumer_manager, "_ALIKE", 1)
    monkeypatch.setattr(value_index, "_FROM", Random(seed).choice([1, 2, 1_000]))
    random = Random(seed)
    manager, readers = manager_of(world), list[Reader]()
    noted = noted_selectors = 0
    for _ in range(300):
        act = random.randrange(8)
        if act == 0 or not readers:
            selector = random.choice([None, *["n < 2", "n = 2", "n = 3", "n > 1"] * 6])
            readers.append(world.reader(selector=selector, priority=random.randrange(2), interested=True))
        elif act == 1:
            readers.pop(random.randrange(len(readers))).consumer.close()
        elif act == 2:
            random.choice(readers).consumer.set_interested(random.random() < 0.7)
        elif act == 3:
            for reader in random.sample(readers, len(readers) // 2):
                reader.texts()
        else:
            n = random.randrange(6)
            expected = first_wanting(manager, n)
            before = {reader: reader.wake_ups for reader in readers}
            world.send(properties={"n": n})
            assert [reader for reader in readers if reader.wake_ups > before[reader]] == [
                reader for reader in readers if reader.consumer is expected
            ]
        if readers:
            manager.higher_priority(random.choice(readers).consumer)
        for group in groups_of(manager):
            if group.wanting is not None:
                noted_selectors += 1
                wanting = [*group.lists[ConsumerList.INTERESTED], *group.lists[ConsumerList.NOTIFIED]]
                assert group.wanting == Counter(consumer.cursor for consumer in wanting)
            if group.waiting is not None:
                noted += 1
                by_cursor: dict[object, list[Consumer]] = {}
                for consumer in group.lists[ConsumerList.INTERESTED]:
                    by_cursor.setdefault(consumer.cursor, []).append(consumer)
                assert {cursor: list(found) for cursor, found in group.waiting.by_cursor.items()} == by_cursor
    assert noted
    assert noted_selectors


@pytest.mark.parametrize("selector", [None, "n = 1"])
def test_who_is_woken_in_place_of_another_one_is_found_among_many(world: QueueWorld, selector: str | None) -> None:
    """A wait that ends hands its wake-up on while there are messages: it looked through all that wait, each time."""
    readers = [world.reader(selector=selector, interested=True) for _ in range(300)]
    world.send(properties={"n": 1})
    world.send(properties={"n": 1})
    (group,) = groups_of(manager_of(world))
    assert world.queue.deliver_single_message(readers[0].consumer, or_wait=True) is not None
    steps = group.lists[ConsumerList.INTERESTED] = Steps(group.lists[ConsumerList.INTERESTED])
    steps.number = 0
    for reader in readers[1:11]:
        world.send(properties={"n": 1})
        world.send(properties={"n": 1})
        assert world.queue.deliver_single_message(reader.consumer, or_wait=True) is not None
    assert steps.number <= 301 + 10 * 10, "all of them once at most, to note who has which; else the first few"


def test_who_comes_after_many_of_higher_priority_does_not_look_through_them(world: QueueWorld) -> None:
    crowd = [world.reader(selector="n = 1", priority=5, interested=True) for _ in range(300)]
    low = world.reader()
    assert low.pull() is None
    group, _ = groups_of(manager_of(world))
    steps = group.lists[ConsumerList.INTERESTED] = Steps(group.lists[ConsumerList.INTERESTED])
    steps.number = 0
    for _ in range(10):
        world.send(properties={"n": 2})
        assert low.texts() == [""]
    assert steps.number <= 2 * 301 + 10 * 3, "all of them once or twice, to note who has which"
    world.send(properties={"n": 1})
    assert low.pull() is None, "it is for one of higher priority"
    for reader in crowd:
        reader.consumer.set_interested(False)
    assert low.texts() == [""], "who waits no longer comes before nobody"


def first_wanting(manager: ConsumerManager, n: int) -> Consumer | None:
    """Return whom a message with this number is to wake, by the rule: the first that would and may take it."""

    def wants(consumer: Consumer) -> bool:
        text = "n >= 0" if consumer.selector is None else consumer.selector.text
        return {"n >= 0": True, "n < 2": n < 2, "n = 2": n == 2, "n = 3": n == 3, "n > 1": n > 1}[text]

    for group in groups_of(manager):
        for consumer in group.lists[ConsumerList.INTERESTED]:
            if wants(consumer):
                return consumer
        if any(map(wants, group.lists[ConsumerList.NOTIFIED])):
            return None
    return None


def test_where_the_first_in_turn_wants_a_message_nobody_else_is_asked(world: QueueWorld) -> None:
    readers = [
        world.reader(selector=f"n >= 0 AND n <> -{number + 1}", interested=True)
        for number in range(100)
        for _ in range(5)
    ]
    (group,) = groups_of(manager_of(world))
    first = next(iter(group.lists[ConsumerList.INTERESTED]))
    group.waiting = consumer_manager._WaitingConsumers(group.lists[ConsumerList.INTERESTED])
    asked: list[QueueEntry] = []

    def matches(entry: QueueEntry) -> bool:
        asked.append(entry)
        return True

    for reader in readers:
        cursor = reader.consumer.cursor
        assert cursor is not None
        cursor.matches = matches
    world.send()
    assert first.place is ConsumerList.NOTIFIED
    assert len(asked) == 1
