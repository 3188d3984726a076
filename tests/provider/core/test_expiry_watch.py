"""Who asks for it is told of each message that expires, once, with the time, and under no lock."""

from __future__ import annotations

from typing import Any

from pyjms.spi.envelope import ConnectionId
from pyjms.spi.provider import ExpiredMessage
from pyjms_provider.core.host.message_mover import ExpiryWatch
from pyjms_provider.core.message.message_state import MessageState
from tests.provider.policy_world import PolicyWorld, address, pulled

ONE, OTHER = ConnectionId("one"), ConnectionId("other")


class Watched(PolicyWorld):
    """A world with somebody who is told of what expires in it."""

    def __init__(self, **choices: Any) -> None:
        super().__init__(**choices)
        self.told: list[ExpiredMessage] = []
        self.host.expiries.add(ONE, self.hear)

    def hear(self, expired: ExpiredMessage) -> None:
        assert not self.queue.lock.locked(), "nobody is called under a lock"
        self.told.append(expired)

    def ids(self) -> list[str | None]:
        return [each.message_id for each in self.told]


def test_what_the_housekeeper_finds_is_told_with_its_time() -> None:
    world = Watched()
    late, later = world.send("a", ttl_ms=10), world.send("b", ttl_ms=20)
    world.send("c")
    world.pass_time(15)
    assert world.told == [
        ExpiredMessage(
            message_id=late.message_id, destination=address("orders"), subscription=None, expiration_ms=1010, at_ms=1015
        )
    ]
    world.pass_time(15)
    assert world.ids() == [late.message_id, later.message_id]
    assert world.texts() == ["c"]


def test_what_a_consumer_comes_upon_is_told_by_the_housekeeper() -> None:
    world = Watched()
    late = world.send("a", ttl_ms=10)
    world.send("b")
    world.clock.now_ms += 10
    assert world.reader().texts() == ["b"]
    assert world.told == []
    world.pass_time(0)
    assert world.ids() == [late.message_id]
    assert world.queue.count(MessageState.NEW) == 0
    world.pass_time(1000)
    assert world.reader().texts() == []


def test_what_expires_in_a_clients_hands_or_as_it_is_given_back_is_told() -> None:
    world = Watched()
    held, back = world.send("a", ttl_ms=20), world.send("b", ttl_ms=10)
    reader = world.reader()
    first, second = pulled(reader), pulled(reader)
    world.clock.now_ms += 10
    reader.give_back(second)
    assert world.ids() == [back.message_id]
    world.pass_time(10)
    assert world.ids() == [back.message_id, held.message_id]
    assert not reader.settle(first)


def test_each_subscription_is_told_of_and_durable_ones_by_name() -> None:
    world = Watched()
    world.subscribe("topic://news", "mine")
    world.subscribe("topic://news")
    sent = world.send("a", to="topic://news", ttl_ms=10)
    world.pass_time(10)
    assert {(each.message_id, str(each.destination), each.subscription) for each in world.told} == {
        (sent.message_id, "topic://news", "client/mine"),
        (sent.message_id, "topic://news", None),
    }
    assert len(world.told) == 2


def test_what_goes_to_a_queue_of_expired_messages_is_told_too() -> None:
    world = Watched(expiry_queue="late")
    sent = world.send("a", ttl_ms=10)
    world.pass_time(10)
    assert world.ids() == [sent.message_id]
    assert world.texts("late") == ["a"]


def test_what_expires_before_its_commit_is_told_only_if_the_others_are_committed() -> None:
    for rolls_back, told in ((True, 0), (False, 1)):
        world = Watched()
        unit = world.unit()
        unit.expired_rolls_back = rolls_back
        world.send("a", unit=unit, ttl_ms=10)
        world.pass_time(10)
        assert len(world.told) == told


def test_several_connections_that_ask_for_the_same_are_told_once() -> None:
    world = Watched()
    world.host.expiries.add(OTHER, world.hear)
    world.host.expiries.remove(ONE)
    world.host.expiries.add(ONE, world.hear)
    world.send("a", ttl_ms=10)
    world.pass_time(10)
    assert len(world.told) == 1
    world.host.expiries.remove(ONE)
    world.host.expiries.remove(ONE)
    assert world.host.expiries.is_on
    world.host.expiries.remove(OTHER)
    world.send("b", ttl_ms=10)
    world.pass_time(10)
    assert len(world.told) == 1
    assert world.texts() == []


def test_whoever_the_broker_is_started_for_is_told_until_its_connection_goes() -> None:
    watch, heard = ExpiryWatch(), list[ExpiredMessage]()
    hear = heard.append
    watch.add_first(hear)
    watch.add(OTHER, lambda _: None)
    watch.remove(OTHER)
    assert watch.is_on
    watch.add(ONE, hear)
    watch.remove(ONE)
    assert not watch.is_on
