"""The types of queues: standard, priority, last-value, sorted."""

from __future__ import annotations

import pytest

from pyjms.spi.errors import DestinationInUseError
from pyjms_provider.core.queue.entry_list import priority_levels
from tests.provider.helpers import text_of
from tests.provider.policy_world import PolicyWorld, pulled


@pytest.mark.realises("BJ-Q-1", "BJ-Q-5", "MOM-14", "MOM-32")
def test_a_standard_queue_is_served_by_priority_and_age() -> None:
    world = PolicyWorld()
    for text, priority in (("a", 4), ("b", 9), ("c", 4), ("d", 0), ("e", 9)):
        world.send(text, priority=priority)
    assert world.reader().texts() == ["b", "e", "a", "c", "d"]


@pytest.mark.realises("BJ-Q-2")
@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (1, (0,) * 10),
        (2, (0,) * 5 + (1,) * 5),
        (3, (0,) * 4 + (1,) + (2,) * 5),
        (5, (0, 0, 0, 1, 2, 3, 4, 4, 4, 4)),
        (10, tuple(range(10))),
    ],
)
def test_levels_of_priority_lie_around_the_default_one(levels: int, expected: tuple[int, ...]) -> None:
    assert priority_levels(levels) == expected


@pytest.mark.realises("MOM-32", "BJ-Q-2")
def test_a_queue_of_one_level_is_first_in_first_out_whatever_the_priority() -> None:
    world = PolicyWorld(type="priority", priorities=1)
    for text, priority in (("a", 0), ("b", 9), ("c", 4)):
        world.send(text, priority=priority)
    reader = world.reader()
    held = pulled(reader)
    assert [text_of(held), *reader.texts(1)] == ["a", "b"]
    reader.give_back(held)
    assert world.reader("other", selector="JMSPriority < 5").texts() == ["a", "c"]


@pytest.mark.realises("BJ-Q-2")
def test_a_queue_of_two_levels_knows_normal_and_expedited() -> None:
    world = PolicyWorld(type="priority", priorities=2)
    for text, priority in (("a", 0), ("b", 4), ("c", 9), ("d", 5)):
        world.send(text, priority=priority)
    assert world.texts() == ["c", "d", "a", "b"]
    assert world.reader().texts() == ["c", "d", "a", "b"]


# Last values


def last_value_world() -> PolicyWorld:
    return PolicyWorld(type="last_value", key="symbol")


@pytest.mark.realises("BJ-Q-3")
def test_a_newer_message_of_a_key_takes_a_place_at_the_tail_and_the_older_one_goes() -> None:
    world = last_value_world()
    for text, symbol in (("eur1", "EUR"), ("usd1", "USD"), ("eur2", "EUR")):
        world.send(text, properties={"symbol": symbol})
    world.send("none1")
    world.send("none2")
    assert world.texts() == ["usd1", "eur2", "none1", "none2"]
    assert len(world.store) == 4


@pytest.mark.realises("BJ-Q-3")
def test_a_message_that_is_held_is_not_replaced_and_does_not_come_back() -> None:
    world = last_value_world()
    reader = world.reader()
    world.send("old", properties={"symbol": "EUR"})
    held = pulled(reader)
    world.send("new", properties={"symbol": "EUR"})
    assert world.texts() == ["new"]
    reader.give_back(held)
    assert world.texts() == ["new"]
    assert reader.texts() == ["new"]


def test_an_old_value_does_not_come_back_although_the_newer_one_has_been_consumed() -> None:
    world = last_value_world()
    reader = world.reader()
    world.send("old", properties={"symbol": "EUR"})
    held = pulled(reader)
    world.send("new", properties={"symbol": "EUR"})
    assert reader.settle(pulled(reader))
    reader.give_back(held)
    assert world.texts() == []
    assert len(world.store) == 0


def test_values_sent_in_a_transaction_replace_when_it_commits() -> None:
    world = last_value_world()
    world.send("old", properties={"symbol": "EUR"})
    unit = world.unit()
    world.send("new", unit=unit, properties={"symbol": "EUR"})
    dropped = world.unit()
    world.send("never", unit=dropped, properties={"symbol": "EUR"})
    assert world.texts() == ["old"]
    dropped.rollback()
    unit.commit(world.clock.now_ms)
    assert world.texts() == ["new"]
    assert len(world.store) == 1


def test_a_value_whose_time_comes_later_replaces_when_it_comes() -> None:
    world = last_value_world()
    world.send("later", properties={"symbol": "EUR", "JMS_pyjms_deliverAt": world.clock.now_ms + 10})
    world.send("now", properties={"symbol": "EUR"})
    assert world.texts() == ["now"]
    world.pass_time(10)
    assert world.texts() == ["later"]


@pytest.mark.parametrize("newer_comes", [False, True])
def test_a_value_that_is_given_back_comes_again_after_its_delay_if_it_is_still_the_last(newer_comes: bool) -> None:
    world = PolicyWorld(type="last_value", key="symbol", redelivery_delay_ms=10)
    reader = world.reader()
    world.send("old", properties={"symbol": "EUR"})
    reader.give_back(pulled(reader))
    assert (world.texts(), world.queue.delayed_count) == ([], 1)
    if newer_comes:
        world.send("new", properties={"symbol": "EUR"})
    for delay_ms in (10, 10):
        world.pass_time(delay_ms)
        assert world.texts() == (["new"] if newer_comes else ["old"])
        reader.give_back(pulled(reader))
    assert len(world.store) == 1


@pytest.mark.parametrize("scheduled_first", [False, True])
def test_of_two_values_that_are_due_at_once_the_one_that_has_not_been_there_is_the_last(scheduled_first: bool) -> None:
    world = PolicyWorld(type="last_value", key="symbol", redelivery_delay_ms=10)
    reader = world.reader()

    def schedule() -> None:
        world.send("new", properties={"symbol": "EUR", "JMS_pyjms_deliverAt": world.clock.now_ms + 10})

    world.send("old", properties={"symbol": "EUR"})
    held = pulled(reader)
    if scheduled_first:
        schedule()
    reader.give_back(held)
    if not scheduled_first:
        schedule()
    assert world.queue.delayed_count == 2
    world.pass_time(10)
    assert world.texts() == ["new"]
    assert reader.texts() == ["new"]
    assert world.reader("other").texts() == []


@pytest.mark.realises("BJ-Q-3")
def test_consumers_that_take_nothing_see_the_last_value_of_each_key() -> None:
    world = PolicyWorld(type="last_value", key="symbol", non_destructive=True)
    for text, symbol in (("eur1", "EUR"), ("usd1", "USD"), ("eur2", "EUR")):
        world.send(text, properties={"symbol": symbol})
    early, late = world.reader("early", interested=True), world.reader("late")
    assert early.texts() == ["usd1", "eur2"]
    wake_ups = early.wake_ups
    world.send("usd2", properties={"symbol": "USD"})
    assert early.wake_ups == wake_ups + 1
    assert early.texts() == ["usd2"]
    assert late.texts() == ["eur2", "usd2"]


# Sorted


@pytest.mark.realises("BJ-Q-3")
def test_a_sorted_queue_is_served_by_a_property() -> None:
    world = PolicyWorld(type="sorted", key="due")
    for text, due in (("c", 30), ("a", 10), ("b", 20), ("a2", 10)):
        world.send(text, priority=9 if text == "c" else 0, properties={"due": due})
    world.send("none")
    assert world.texts() == ["none", "a", "a2", "b", "c"]
    reader = world.reader()
    assert text_of(pulled(reader)) == "none"
    held = pulled(reader)
    world.send("first", properties={"due": 5})
    reader.give_back(held)
    assert reader.texts() == ["first", "a", "a2", "b", "c"]


def test_a_sorted_queue_has_selectors_priorities_of_consumers_and_transactions() -> None:
    world = PolicyWorld(type="sorted", key="due")
    picky = world.reader("picky", selector="colour = 'red'", priority=5, interested=True)
    other = world.reader("other", interested=True)
    unit = world.unit()
    for number, colour in enumerate(("blue", "red", "blue")):
        world.send(f"{colour}{number}", unit=unit, properties={"due": -number, "colour": colour})
    unit.commit(0)
    assert (picky.wake_ups, other.wake_ups) == (1, 1)
    assert other.texts() == ["blue2", "blue0"], "what the other wants is left to it"
    assert picky.texts() == ["red1"]


# Changing the type


@pytest.mark.realises("MOM-29")
def test_the_type_changes_while_the_queue_is_empty_and_unused() -> None:
    world = PolicyWorld()
    world.send("a")
    with pytest.raises(DestinationInUseError, match="has 1 message and 0 consumers, so its type cannot be altered"):
        world.manager.alter("orders", type="sorted", key="due")
    reader = world.reader()
    reader.settle(pulled(reader))
    with pytest.raises(DestinationInUseError, match="0 messages and 1 consumer,"):
        world.manager.alter("orders", type="sorted", key="due")
    reader.session.close()
    world.manager.alter("orders", type="sorted", key="due")
    for due in (2, 1):
        world.send(str(due), properties={"due": due})
    assert world.texts() == ["1", "2"]
    world.manager.purge("orders")
    world.manager.alter("orders", type="standard", key=None)
    for due in (2, 1):
        world.send(str(due), properties={"due": due})
    assert world.texts() == ["2", "1"]


def test_a_browser_from_before_the_queue_was_sorted_has_seen_all_that_it_had() -> None:
    world = PolicyWorld()
    browser = world.queue.open_browser(None)
    world.manager.alter("orders", type="sorted", key="due")
    world.send("1", properties={"due": 1})
    assert browser.next() is None
