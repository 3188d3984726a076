"""What comes back, when and how often; dead letters, expired messages, scheduled ones; overrides."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.types import Long
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
from tests.provider.helpers import Reader, entry_of, text_of
from tests.provider.policy_world import PolicyWorld, pulled


def fail(reader: Reader, reason: str = "the listener raised ValueError: no") -> None:
    """Pull a message and give it back as a listener's failure."""
    delivery = pulled(reader)
    entry = entry_of(delivery)
    entry.queue.give_back([(entry, delivery.count)], reader.session, reason)


# How often


def test_a_message_that_was_given_back_often_enough_is_a_dead_letter_that_says_why() -> None:
    world = PolicyWorld(max_deliveries=3, dead_letter="failed")
    sent = world.send("poison", properties={"n": 1}, ttl_ms=1_000)
    world.send("food")
    reader = world.reader("shop/1")
    for _ in range(2):
        reader.give_back(pulled(reader))
    assert world.texts() == ["poison", "food"]
    world.clock.now_ms += 7
    reader.give_back(pulled(reader))
    assert world.texts() == ["food"]
    (letter,) = world.letters("failed")
    assert (letter.message_id, letter.body, letter.expiration_ms) == (sent.message_id, "poison", 0)
    assert letter.properties == {
        "n": 1,
        "JMS_pyjms_deadKind": "deliveries",
        "JMS_pyjms_deadReason": "it was delivered 3 times, and given back",
        "JMS_pyjms_deadDestination": "queue://orders",
        "JMS_pyjms_deadCount": 3,
        "JMS_pyjms_deadConsumer": "shop/1",
        "JMS_pyjms_deadTime": Long(1_007),
    }
    world.pass_time(10_000)
    assert len(world.letters("failed")) == 1, "dead letters do not expire"


def test_without_a_limit_of_deliveries_only_what_fails_becomes_a_dead_letter() -> None:
    world = PolicyWorld(max_deliveries=0)
    world.send("often")
    for _ in range(20):
        reader = world.reader()
        reader.give_back(pulled(reader))
        pulled(reader)
        reader.session.close()
    assert world.texts() == ["often"]
    fail(world.reader(), "the listener raised KeyError: 'x'")
    (letter,) = world.letters()
    assert letter.properties["JMS_pyjms_deadReason"] == "the listener raised KeyError: 'x'"
    assert letter.properties["JMS_pyjms_deadCount"] == 41


def test_a_listener_may_fail_so_often() -> None:
    world = PolicyWorld(max_failures=2)
    world.send("a")
    fail(world.reader())
    assert world.letters() == []
    fail(world.reader())
    assert [letter.body for letter in world.letters()] == ["a"]


def test_messages_of_a_closed_session_count_as_delivered() -> None:
    world = PolicyWorld(max_deliveries=1)
    world.send("a")
    reader = world.reader()
    pulled(reader)
    reader.session.close()
    assert [letter.body for letter in world.letters()] == ["a"]


def test_a_dead_letter_does_not_die_again_of_deliveries() -> None:
    world = PolicyWorld(QueuePolicies(default=QueuePolicy(max_deliveries=1)), max_deliveries=1)
    world.send("a")
    reader = world.reader()
    reader.give_back(pulled(reader))
    undertaker = world.reader(queue="DLQ")
    for _ in range(5):
        undertaker.give_back(pulled(undertaker))
    assert [letter.body for letter in world.letters()] == ["a"]


# When


def test_a_message_that_was_given_back_stays_away_for_a_while_and_keeps_its_place() -> None:
    world = PolicyWorld(redelivery_delay_ms=100, redelivery_multiplier=2.0, max_redelivery_delay_ms=300)
    for text in "ab":
        world.send(text)
    reader = world.reader(interested=True)
    for delay_ms in (100, 200, 300, 300):
        delivery = pulled(reader)
        assert text_of(delivery) == "a"
        reader.give_back(delivery)
        assert world.texts() == ["b"]
        assert world.manager.report("orders").delayed == 1
        wake_ups = reader.wake_ups
        assert reader.texts(1) == ["b"]
        assert reader.pull() is None
        world.pass_time(delay_ms - 1)
        assert reader.pull() is None
        world.pass_time(1)
        assert reader.wake_ups == wake_ups + 1
        other = world.queue.state.held_by(reader.session)
        world.queue.give_back_all(reader.session)
        assert len(other) == 1
        world.pass_time(300)
        assert world.texts() == ["a", "b"]


@pytest.mark.parametrize("hours", [-24, -1, 1, 24])
def test_a_clock_that_is_set_keeps_a_message_away_for_no_less_and_no_more(hours: int) -> None:
    world = PolicyWorld(redelivery_delay_ms=60_000)
    for text in "ab":
        world.send(text)
    world.send("scheduled", **later(world, 1_800_000))
    reader = world.reader(interested=True)
    reader.give_back(pulled(reader))
    world.pass_time(20_000)
    world.set_clock(hours * 3_600_000)
    delivery = pulled(reader)
    assert text_of(delivery) == "b"
    reader.give_back(delivery)
    scheduled = ["scheduled"] if hours > 0 else []
    assert world.texts() == scheduled
    world.pass_time(39_999)
    assert world.texts() == scheduled
    world.pass_time(1)
    assert world.texts() == ["a", *scheduled]
    world.pass_time(19_999)
    assert world.texts() == ["a", *scheduled]
    world.pass_time(1)
    assert world.texts() == ["a", "b", *scheduled]


def test_a_clock_that_was_set_while_nothing_waited_makes_nothing_wait_longer() -> None:
    world = PolicyWorld(redelivery_delay_ms=60_000)
    world.send("a")
    world.set_clock(3_600_000)
    reader = world.reader()
    reader.give_back(pulled(reader))
    world.pass_time(60_000)
    assert world.texts() == ["a"]


def test_a_message_that_expires_while_it_is_kept_away_goes() -> None:
    world = PolicyWorld(redelivery_delay_ms=100)
    world.send("a", ttl_ms=50)
    reader = world.reader()
    reader.give_back(pulled(reader))
    world.pass_time(50)
    assert world.queue.count(MessageState.NEW) == 0
    assert len(world.store) == 0


# Scheduled


def later(world: PolicyWorld, milliseconds: int) -> dict[str, Any]:
    return {"properties": {"JMS_pyjms_deliverAt": Long(world.clock.now_ms + milliseconds)}}


def test_a_scheduled_message_is_invisible_until_its_time_has_come() -> None:
    world = PolicyWorld()
    reader = world.reader(interested=True)
    world.send("later", **later(world, 50))
    world.send("soon", **later(world, 20))
    world.send("past", **later(world, -5))
    assert world.texts() == ["past"]
    assert reader.texts() == ["past"]
    assert world.manager.report("orders").delayed == 2
    world.pass_time(20)
    assert reader.texts() == ["soon"]
    world.send("now")
    world.pass_time(30)
    assert world.texts() == ["now", "later"], "its place is that of a message that has just come"
    assert world.reader(acquires=False).texts() == ["now", "later"]


def test_a_scheduled_message_in_a_transaction_waits_from_the_commit_on() -> None:
    world = PolicyWorld()
    unit = world.unit()
    world.send("a", unit=unit, **later(world, 50))
    world.pass_time(60)
    assert world.texts() == []
    unit.commit(world.clock.now_ms)
    assert world.texts() == ["a"]
    unit = world.unit()
    world.send("b", unit=unit, **later(world, 50))
    unit.commit(world.clock.now_ms)
    assert world.texts() == ["a"]
    world.pass_time(50)
    assert world.texts() == ["a", "b"]


def test_the_time_to_live_of_a_scheduled_message_counts_from_the_send() -> None:
    world = PolicyWorld()
    world.send("a", ttl_ms=30, **later(world, 50))
    world.pass_time(50)
    assert world.texts() == []
    assert len(world.store) == 0


def test_a_scheduled_message_of_a_topic_waits_in_each_subscription() -> None:
    world = PolicyWorld()
    subscriptions = [world.subscribe("topic://news") for _ in range(2)]
    world.send("a", "topic://news", **later(world, 50))
    assert [list(subscription.browse()) for subscription in subscriptions] == [[], []]
    world.pass_time(50)
    assert [len(subscription.browse()) for subscription in subscriptions] == [1, 1]


def test_scheduled_messages_are_purged_with_the_others_and_go_with_the_queue() -> None:
    world = PolicyWorld()
    for text in "ab":
        world.send(text, **later(world, 50))
    assert world.manager.purge("orders") == 2
    world.send("c", **later(world, 50))
    world.manager.destroy("orders")
    assert len(world.store) == 0
    world.pass_time(100)


# Expired


@pytest.mark.parametrize("how", ["housekeeper", "pull", "given back"])
def test_expired_messages_go_to_a_queue_if_the_owner_wants_it(how: str) -> None:
    world = PolicyWorld(expiry_queue="late")
    world.send("a", ttl_ms=50)
    reader = world.reader("shop/1")
    delivery = pulled(reader) if how == "given back" else None
    world.clock.now_ms += 50
    if delivery is not None:
        reader.give_back(delivery)
    elif how == "pull":
        assert reader.pull() is None
    world.pass_time(0)
    (letter,) = world.letters("late")
    assert letter.properties["JMS_pyjms_deadKind"] == "expired"
    assert letter.properties["JMS_pyjms_deadReason"] == "its time to live was over"
    assert letter.properties["JMS_pyjms_deadCount"] == (1 if how == "given back" else 0)
    assert letter.expiration_ms == 0
    assert world.queue.count(MessageState.NEW) == world.queue.count(MessageState.DELIVERED) == 0
    assert len(world.store) == 1


def test_what_expires_in_a_transaction_was_never_there() -> None:
    world = PolicyWorld(expiry_queue="late")
    unit = world.unit()
    world.send("a", ttl_ms=50, unit=unit)
    world.pass_time(50)
    assert world.letters("late") == []
    assert len(world.store) == 0


# Overrides


@pytest.mark.realises("BOIL-HDR-15")
def test_the_owner_overrides_what_senders_say() -> None:
    world = PolicyWorld(delivery_mode=1, priority=7, max_time_to_live_ms=100)
    world.send("a", persistent=True, priority=2)
    (seen,) = world.letters("orders")
    assert (seen.delivery_mode, seen.priority, seen.expiration_ms) == (1, 7, 1_100)
    world.pass_time(100)
    assert world.texts() == []


def test_topics_have_overrides_too() -> None:
    world = PolicyWorld(QueuePolicies(patterns=(("topic://news", QueuePolicy(priority=9)),)))
    subscription = world.subscribe("topic://news")
    world.send("a", "topic://news")
    assert [envelope.priority for envelope in subscription.browse()] == [9]


def test_what_comes_back_as_its_removal_could_not_be_written_expires_in_time() -> None:
    world = PolicyWorld()
    world.send("a", ttl_ms=10)
    world.send("b", ttl_ms=50)
    reader = world.reader()
    _, second = pulled(reader), pulled(reader)
    reader.settle(second)
    world.pass_time(10)
    assert not world.visits, "nothing else is to expire"
    world.queue.reinstate(entry_of(second))
    world.pass_time(40)
    assert world.queue.count(MessageState.NEW) == 0
