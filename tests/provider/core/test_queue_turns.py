"""Whose turn it is: message groups, the one active consumer, priorities of consumers, pauses, and who takes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.transaction.unit_of_work import UnitId, UnitOfWork
from tests.provider.helpers import HookedLock, Reader, entry_of, text_of
from tests.provider.policy_world import PolicyWorld, pulled


def group(name: str, sequence: int = 0) -> dict[str, Any]:
    return {"properties": {"JMSXGroupID": name, "JMSXGroupSeq": sequence}}


# Groups


def grouped() -> tuple[PolicyWorld, Reader, Reader]:
    world = PolicyWorld(groups=True)
    return world, world.reader("one"), world.reader("other")


def test_the_messages_of_a_group_go_to_one_consumer() -> None:
    world, one, other = grouped()
    for text, name in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("b2", "b"), ("a3", "a")):
        world.send(text, **group(name))
    world.send("free")
    assert text_of(pulled(one)) == "a1"
    assert text_of(pulled(other)) == "b1"
    assert text_of(pulled(other)) == "b2"
    assert text_of(pulled(other)) == "free"
    assert other.pull() is None
    assert one.texts() == ["a2", "a3"]


def test_a_consumer_that_ends_leaves_its_groups_to_the_others() -> None:
    world, one, other = grouped()
    other.consumer.set_interested(True)
    for text in ("a1", "a2"):
        world.send(text, **group("a"))
    wake_ups = other.wake_ups
    assert text_of(pulled(one)) == "a1"
    assert other.pull() is None
    one.session.close()
    assert other.wake_ups > wake_ups
    delivery = pulled(other)
    assert (text_of(delivery), delivery.redelivered) == ("a1", True)
    assert other.texts() == ["a2"]


def test_a_negative_sequence_number_closes_the_group() -> None:
    world, one, other = grouped()
    other.consumer.set_interested(True)
    assert other.pull() is None
    for text, sequence in (("a1", 1), ("a2", -1), ("a3", 1)):
        world.send(text, **group("a", sequence))
    deliveries = [pulled(one), pulled(one)]
    assert [text_of(delivery) for delivery in deliveries] == ["a1", "a2"]
    assert one.pull() is None
    assert other.pull() is None, "a1 and a2 may yet come back before it"
    wake_ups = other.wake_ups
    assert one.settle(deliveries[1])
    assert other.pull() is None
    assert one.settle(deliveries[0])
    assert other.wake_ups > wake_ups
    assert other.texts() == ["a3"]
    assert one.pull() is None


def test_a_group_goes_on_when_the_message_that_closes_it_is_given_back() -> None:
    world, one, other = grouped()
    one.consumer.set_interested(True)
    for text, sequence in (("a1", -1), ("a2", 1)):
        world.send(text, **group("a", sequence))
    delivery = pulled(one)
    assert one.pull() is None
    one.give_back(delivery)
    assert other.pull() is None
    assert text_of(pulled(one)) == "a1"


@pytest.mark.parametrize("policy", [{"groups": True}, {"exclusive": True}], ids=["groups", "exclusive"])
def test_the_next_owner_gets_all_in_order_when_all_is_back(policy: dict[str, Any]) -> None:
    """A consumer that is closed leaves what it has received with its session, which gives it back later."""
    world = PolicyWorld(**policy)
    one, other = (world.reader(name, interested=True) for name in ("one", "other"))
    for number in range(5):
        world.send(str(number), **group("a"))
    deliveries = [pulled(one) for _ in range(3)]
    one.session.remove_target(one.target)
    assert other.pull() is None
    one.settle(deliveries[0])
    one.give_back(deliveries[2])
    assert other.pull() is None
    wake_ups = other.wake_ups
    one.give_back(deliveries[1])
    assert other.wake_ups == wake_ups + 1
    assert other.texts() == ["1", "2", "3", "4"]


@pytest.mark.parametrize("policy", [{"groups": True}, {"exclusive": True}], ids=["groups", "exclusive"])
def test_the_next_owner_is_woken_when_the_rest_is_settled_with_a_transaction(policy: dict[str, Any]) -> None:
    world = PolicyWorld(**policy)
    one, other = (world.reader(name, interested=True) for name in ("one", "other"))
    for number in range(3):
        world.send(str(number), **group("a"))
    unit = UnitOfWork(UnitId("unit"), one.session)
    deliveries = [pulled(one), pulled(one)]
    world.queue.settle_in(unit, [(entry_of(each), each.count) for each in deliveries], one.session)
    one.session.remove_target(one.target)
    assert other.pull() is None
    wake_ups = other.wake_ups
    unit.commit(world.clock.time_ms())
    assert other.wake_ups == wake_ups + 1
    assert other.texts() == ["2"]


@pytest.mark.parametrize("policy", [{"groups": True}, {"exclusive": True}], ids=["groups", "exclusive"])
def test_the_next_owner_is_woken_when_what_was_delivered_expires(policy: dict[str, Any]) -> None:
    world = PolicyWorld(**policy)
    one, other = (world.reader(name, interested=True) for name in ("one", "other"))
    world.send("0", ttl_ms=50, **group("a"))
    world.send("1", **group("a"))
    pulled(one)
    one.session.remove_target(one.target)
    assert other.pull() is None
    wake_ups = other.wake_ups
    world.pass_time(50)
    assert other.wake_ups == wake_ups + 1
    assert other.texts() == ["1"]


# Delayed redeliveries


@pytest.mark.parametrize("policy", [{"groups": True}, {"exclusive": True}], ids=["groups", "exclusive"])
def test_a_delayed_message_holds_back_those_behind_it(policy: dict[str, Any]) -> None:
    world = PolicyWorld(redelivery_delay_ms=100, **policy)
    one, other = (world.reader(name, interested=True) for name in ("one", "other"))
    for number in range(3):
        world.send(str(number), **group("a"))
    one.give_back(pulled(one))
    assert one.pull() is None
    world.send("before them", priority=9, **group("a"))
    assert one.texts() == ["before them"]
    wake_ups = one.wake_ups
    world.pass_time(100)
    assert one.wake_ups > wake_ups
    assert one.texts() == ["0", "1", "2"]
    assert other.pull() is None


@pytest.mark.parametrize("policy", [{"groups": True}, {"exclusive": True}], ids=["groups", "exclusive"])
def test_messages_behind_a_delayed_one_come_when_that_is_taken_away(policy: dict[str, Any]) -> None:
    world = PolicyWorld(redelivery_delay_ms=100, **policy)
    one = world.reader("one", interested=True)
    for number in range(3):
        world.send(str(number), **group("a"))
    delivery = pulled(one)
    one.give_back(delivery)
    assert one.pull() is None
    wake_ups = one.wake_ups
    world.queue.take_out(entry_of(delivery), [])
    assert one.wake_ups > wake_ups
    assert one.texts() == ["1", "2"]


@pytest.mark.parametrize("policy", [{"groups": True}, {"exclusive": True}], ids=["groups", "exclusive"])
def test_a_queue_goes_on_with_later_messages_if_its_policy_says_so(policy: dict[str, Any]) -> None:
    world = PolicyWorld(redelivery_delay_ms=100, non_blocking_redelivery=True, **policy)
    one = world.reader("one", interested=True)
    for number in range(3):
        world.send(str(number), **group("a"))
    one.give_back(pulled(one))
    assert text_of(pulled(one)) == "1"
    world.pass_time(100)
    assert one.texts() == ["0", "2"]


@pytest.mark.parametrize("policy", [{"groups": True}, {"exclusive": True}], ids=["groups", "exclusive"])
def test_a_queue_that_is_altered_to_go_on_wakes_who_waits(policy: dict[str, Any]) -> None:
    world = PolicyWorld(redelivery_delay_ms=100, **policy)
    one = world.reader("one", interested=True)
    for number in range(3):
        world.send(str(number), **group("a"))
    one.give_back(pulled(one))
    assert one.pull() is None
    wake_ups = one.wake_ups
    world.manager.alter("orders", non_blocking_redelivery=True)
    assert one.wake_ups > wake_ups
    assert one.texts() == ["1", "2"]


@pytest.mark.parametrize("policy", [{"groups": True}, {"exclusive": True}], ids=["groups", "exclusive"])
def test_a_selector_does_not_pass_by_a_delayed_message(policy: dict[str, Any]) -> None:
    world = PolicyWorld(redelivery_delay_ms=100, **policy)
    one = world.reader("one", interested=True, selector="n = 1")
    for number in range(3):
        world.send(str(number), properties={"n": 1, "JMSXGroupID": "a"})
    one.give_back(pulled(one))
    assert one.pull() is None
    world.send("9", properties={"n": 1, "JMSXGroupID": "a"}, priority=9)
    assert one.texts() == ["9"]
    world.pass_time(100)
    assert one.texts() == ["0", "1", "2"]


def test_the_owner_is_woken_and_nobody_else() -> None:
    world, one, other = grouped()
    world.send("a1", **group("a"))
    assert text_of(pulled(one)) == "a1"
    for reader in (other, one):
        reader.consumer.set_interested(True)
        assert reader.pull() is None
    before = (one.wake_ups, other.wake_ups)
    world.send("a2", **group("a"))
    assert (one.wake_ups, other.wake_ups) == (before[0] + 1, before[1])
    world.send("b1", **group("b"))
    assert other.wake_ups == before[1] + 1, "the owner is awake already, and this one is anybody's"


def test_a_consumer_that_becomes_an_owner_without_having_been_woken_is_woken_for_the_rest() -> None:
    world, one, other = grouped()
    for reader in (other, one):
        reader.consumer.set_interested(True)
    for text in ("a1", "a2"):
        world.send(text, **group("a"))
    assert (one.wake_ups, other.wake_ups) == (1, 1)
    sleeper = one if one.wake_ups < other.wake_ups else other
    assert text_of(pulled(sleeper)) == "a1"
    assert sleeper.texts() == ["a2"]


def test_vain_wake_ups_do_not_go_round() -> None:
    world, one, other = grouped()
    third = world.reader("third", interested=True)
    world.send("a1", **group("a"))
    world.send("a2", **group("a"))
    assert text_of(pulled(one)) == "a1"
    for _ in range(5):
        for reader in (other, third):
            assert reader.pull() is None
    assert third.wake_ups + other.wake_ups <= 2


def test_groups_go_with_selectors_and_priorities_of_consumers() -> None:
    world = PolicyWorld(groups=True)
    low, high = world.reader("low"), world.reader("high", priority=5, selector="colour = 'red'", interested=True)
    world.send("a1", properties={"JMSXGroupID": "a", "colour": "blue"})
    world.send("b1", properties={"JMSXGroupID": "b", "colour": "red"})
    world.send("a2", properties={"JMSXGroupID": "a", "colour": "red"})
    assert text_of(pulled(low)) == "a1"
    assert text_of(pulled(low)) == "a2", "whoever owns the group comes before who has a higher priority"
    assert low.pull() is None
    assert high.texts() == ["b1"]


# The active consumer


def test_one_consumer_gets_all_and_the_next_one_takes_its_place() -> None:
    world = PolicyWorld(exclusive=True)
    first, second, high = (
        world.reader(name, priority=priority, interested=True)
        for name, priority in (("first", 0), ("second", 0), ("high", 3))
    )
    for text in "abcd":
        world.send(text)
    assert (first.wake_ups, second.wake_ups, high.wake_ups) == (1, 0, 0)
    assert [second.pull(), high.pull()] == [None, None]
    for text in "ab":
        delivery = pulled(first)
        assert text_of(delivery) == text
        first.settle(delivery)
    first.consumer.close()
    assert (second.wake_ups, high.wake_ups) == (0, 1)
    assert high.texts() == ["c", "d"]
    high.session.close()
    assert second.texts() == ["c", "d"]


def test_the_active_consumer_keeps_what_its_selector_leaves_out_from_the_others() -> None:
    world = PolicyWorld(exclusive=True)
    first, second = world.reader("first", selector="n = 1", interested=True), world.reader("second", interested=True)
    world.send("a", properties={"n": 0})
    world.send("b", properties={"n": 1})
    assert second.pull() is None
    assert first.texts() == ["b"]
    first.session.close()
    assert second.texts() == ["a", "b"]


def test_a_browser_is_no_consumer() -> None:
    world = PolicyWorld(exclusive=True)
    browser, reader = world.reader("browser", acquires=False), world.reader("reader")
    world.send("a")
    assert browser.texts() == ["a"]
    assert reader.texts() == ["a"]


# Priorities of consumers


def test_a_consumer_of_higher_priority_is_served_first_while_it_wants_messages() -> None:
    world = PolicyWorld(max_messages=100)
    low, high = world.reader("low", interested=True), world.reader("high", priority=9, interested=True)
    world.send("a")
    assert (low.wake_ups, high.wake_ups) == (0, 1)
    assert low.pull() is None
    assert high.texts() == ["a"]
    high.consumer.set_interested(False)
    world.send("b")
    assert low.texts() == ["b"]


def test_rules_may_go_while_a_consumer_drops_what_has_expired() -> None:
    world = PolicyWorld(max_messages=100)
    low, high = world.reader("low"), world.reader("high", priority=9)
    world.send("old", ttl_ms=10)
    world.send("a")
    world.clock.now_ms += 10

    def lift_limits() -> None:
        high.session.close()
        world.manager.alter("orders", max_messages=0)

    HookedLock(world.queue, lift_limits)
    assert low.texts() == ["a"]


# Pauses


@pytest.mark.parametrize("others", [{}, {"groups": True}, {"exclusive": True}])
def test_a_paused_queue_takes_messages_and_gives_none(others: dict[str, Any]) -> None:
    world = PolicyWorld(**others)
    reader = world.reader(interested=True)
    world.manager.pause("orders")
    world.manager.pause("orders")
    world.send("a", **group("g"))
    assert reader.pull() is None
    assert world.texts() == ["a"]
    wake_ups = reader.wake_ups
    world.manager.resume("orders")
    assert reader.wake_ups == wake_ups + 1
    assert reader.texts() == ["a"]


def test_what_was_pulled_before_a_pause_is_settled_in_it() -> None:
    world = PolicyWorld()
    reader = world.reader(interested=True)
    world.send("a")
    world.send("b")
    held, returned = pulled(reader), pulled(reader)
    world.manager.pause("orders")
    assert reader.settle(held)
    reader.give_back(returned)
    assert reader.pull() is None
    world.manager.resume("orders")
    assert reader.texts() == ["b"]


def test_a_consumer_that_was_woken_just_before_a_pause_finds_the_message_after_it() -> None:
    world = PolicyWorld()
    reader = world.reader(interested=True)
    world.send("a")
    world.manager.pause("orders")
    world.manager.resume("orders")
    assert (reader.wake_ups, reader.texts()) == (1, ["a"])


# Consumers that take nothing


def test_every_consumer_sees_every_message_of_a_non_destructive_queue() -> None:
    world = PolicyWorld(non_destructive=True)
    one, other = world.reader("one"), world.reader("other", selector="n = 1")
    for number in range(2):
        world.send(str(number), properties={"n": number})
    deliveries = [pulled(one), pulled(one)]
    assert one.pull() is None
    assert other.texts() == ["1"]
    assert [delivery.count for delivery in deliveries] == [1, 1]
    assert not one.settle(deliveries[0]), "settling is allowed, and takes nothing out"
    one.give_back(*deliveries)
    one.session.close()
    assert world.queue.count(MessageState.NEW) == 2
    assert world.reader("late").texts() == ["0", "1"]
    assert entry_of(deliveries[0]).holder is None


def test_a_paused_non_destructive_queue_shows_nothing_to_consumers() -> None:
    world = PolicyWorld(non_destructive=True)
    reader = world.reader(interested=True)
    world.manager.pause("orders")
    world.send("a")
    assert reader.pull() is None
    world.manager.resume("orders")
    assert reader.texts() == ["a"]


def test_who_waits_for_a_paused_non_destructive_queue_is_woken_when_it_resumes() -> None:
    world = PolicyWorld(non_destructive=True, paused=True)
    one, other = world.reader("one", interested=True), world.reader("other", selector="n = 1", interested=True)
    idle = world.reader("idle")
    world.send("a", properties={"n": 1})
    readers = (one, other, idle)
    before = [reader.wake_ups for reader in readers]
    world.manager.alter("orders", max_time_to_live_ms=50)
    assert [reader.wake_ups for reader in readers] == before, "it is paused yet"
    world.manager.resume("orders")
    assert [reader.wake_ups for reader in readers] == [before[0] + 1, before[1] + 1, before[2]]
    assert (one.texts(), other.texts()) == (["a"], ["a"])


def test_messages_of_a_non_destructive_queue_leave_by_age() -> None:
    world = PolicyWorld(non_destructive=True, max_time_to_live_ms=50)
    world.send("a")
    world.pass_time(50)
    assert world.reader().texts() == []
    assert len(world.store) == 0
