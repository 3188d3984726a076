"""The main thread is interrupted at each place where a consumer comes, goes, wants no more, or pulls in vain, or a queue is altered: nobody else sleeps on a message for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pyjms.spi.clock import Signal
from pyjms.spi.selector import compile_selector
from pyjms_provider.core.queue import value_index
from pyjms_provider.core.queue.consumer import Consumer, ConsumerSession
from pyjms_provider.core.queue.entry import ReceiverId
from pyjms_provider.core.queue.limits import RoomRequest
from pyjms_provider.core.queue.ordering import Ordering
from pyjms_provider.core.queue.sorted_ordering import SortedOrdering
from tests.provider.helpers import Reader, text_of
from tests.provider.interruptions import Interruption, each_interruption
from tests.provider.policy_world import PolicyWorld, pulled

FILES = (
    "core/queue/consumer.py",
    "core/queue/consumer_manager.py",
    "core/queue/exclusive_consumer.py",
    "core/queue/message_groups.py",
    "core/queue/cursor.py",
    "core/queue/ordering.py",
    "core/queue/passed_over.py",
    "core/queue/queue.py",
    "core/queue/queue_rules.py",
    "core/queue/sorted_ordering.py",
    "core/queue/sorted_turns.py",
    "core/queue/value_index.py",
)
POLICIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "groups": {"groups": True},
    "exclusive": {"exclusive": True},
    "sorted": {"type": "sorted", "key": "n"},
    "sorted with groups": {"type": "sorted", "key": "n", "groups": True},
}
OBEYING = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
SELECTING = pytest.mark.parametrize("selector", [None, "n = 1", "n > 0"])
MESSAGE = {"n": 1, "JMSXGroupID": "a"}


@pytest.fixture(autouse=True)
def _indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have selectors of one value looked up from the first one on."""
    monkeypatch.setattr(value_index, "_FROM", 1)


def two_readers(policy: dict[str, Any], selector: str | None) -> tuple[PolicyWorld, Reader, Reader]:
    """Return a queue with a message for which the first of two was woken; it owns the message's group, if there are groups."""
    world = PolicyWorld(**policy)
    first = world.reader("first", selector=selector, interested=True)
    world.send("earlier", properties=MESSAGE)
    first.settle(pulled(first))
    assert first.pull() is None
    second = world.reader("second", selector=selector, interested=True)
    world.send("message", properties=MESSAGE)
    assert second.wake_ups == 0
    return world, first, second


ACTS: dict[str, Callable[[Reader], object]] = {
    "closes": lambda reader: reader.consumer.close(),
    "closes its session": lambda reader: reader.session.close(),
    "wants no more": lambda reader: reader.consumer.set_interested(False),
    "stops": lambda reader: reader.session.set_delivering(False),
}


STAYING = (ACTS["wants no more"], ACTS["stops"])


@OBEYING
@SELECTING
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_the_other_one_has_what_it_leaves(
    act: Callable[[Reader], object], selector: str | None, policy: dict[str, Any]
) -> None:
    """Once it has asked again for what was interrupted."""

    def attempt(interruption: Interruption) -> None:
        world, first, second = two_readers(policy, selector)
        with suppress(KeyboardInterrupt), interruption():
            act(first)
        act(first)
        if act in STAYING and policy.keys() & {"groups", "exclusive"}:
            assert second.pull() is None, "it is the first one's"
            first.session.close()
        assert second.wake_ups, interruption.where
        assert second.texts() == ["message"], interruption.where
        for reader in (first, second):
            reader.session.close()
        assert_nothing_is_left(world, interruption)

    assert each_interruption(attempt, *FILES) > 5


@OBEYING
@SELECTING
def test_who_was_interrupted_as_it_came_leaves_nothing(selector: str | None, policy: dict[str, Any]) -> None:
    """Nor does it keep others from what it would have come first for. Nobody has it, so whoever made it closes it."""

    def attempt(interruption: Interruption) -> None:
        world, first, second = two_readers(policy, selector)
        session = ConsumerSession(ReceiverId("third"), is_delivering=True)
        chosen = None if selector is None else compile_selector(selector)
        third = Consumer(world.queue, session.add_target(lambda: None), selector=chosen, priority=5)
        with suppress(KeyboardInterrupt), interruption():
            session.add_consumer(third)
        session.close()
        assert not world.queue._manager.has_priorities, interruption.where
        assert first.texts() == ["message"], interruption.where
        for reader in (first, second):
            reader.session.close()
        assert_nothing_is_left(world, interruption)

    assert each_interruption(attempt, *FILES) > 5


@OBEYING
def test_who_pulls_in_vain_hands_its_wake_up_on(policy: dict[str, Any]) -> None:
    """To whoever may have what it does not want, and so is woken for what comes later, too."""

    def attempt(interruption: Interruption) -> None:
        world = PolicyWorld(**policy)
        first = world.reader("first", selector="n = 1", interested=True)
        second = world.reader("second", selector="n > 2", interested=True)
        world.send("for the first", properties={"n": 1})
        world.send("for nobody", properties={"n": 2})
        first.settle(pulled(first))
        assert second.wake_ups == 0
        with suppress(KeyboardInterrupt), interruption():
            assert first.pull() is None
        first.consumer.set_interested(False)  # as who was interrupted in a receive waits no more
        if policy.get("exclusive"):
            first.consumer.close()
        world.send("for the second", properties={"n": 3})
        assert second.wake_ups, interruption.where
        assert second.texts() == ["for the second"], interruption.where

    assert each_interruption(attempt, *FILES, "core/queue/policed_queue.py") > 5


@pytest.mark.parametrize("acquires", [True, False], ids=["takes", "looks"])
def test_a_queue_that_goes_on_wakes_who_waits(acquires: bool) -> None:
    def attempt(interruption: Interruption) -> None:
        world = PolicyWorld(paused=True, non_destructive=not acquires)
        policy = world.queue.policy.altered(paused=False)
        reader = world.reader(interested=True)
        world.send("message")
        assert reader.pull() is None
        reader.wake_ups = 0
        with suppress(KeyboardInterrupt), interruption():
            world.queue.alter(policy)
        world.queue.alter(policy)
        assert reader.wake_ups, interruption.where
        assert reader.texts() == ["message"], interruption.where

    assert each_interruption(attempt, *FILES, "core/queue/policed_queue.py") > 5


@pytest.mark.parametrize("policy", [POLICIES["sorted"], {"exclusive": True}], ids=["sorted", "exclusive"])
def test_an_empty_queue_of_another_kind_does_as_its_policy_says(policy: dict[str, Any]) -> None:
    """As before, or as from now on."""

    def attempt(interruption: Interruption) -> None:
        world = PolicyWorld()
        altered = world.queue.policy.altered(**policy)
        with suppress(KeyboardInterrupt), interruption():
            world.queue.alter(altered)
        first, second = world.reader("first"), world.reader("second")
        for number in (2, 1):
            world.send(str(number), properties={"n": number})
        obeyed = policy if world.queue.policy == altered else {}
        by_second = second.texts(1)
        assert len(by_second) == ("exclusive" not in obeyed), interruption.where
        assert [*by_second, *first.texts()] == (["1", "2"] if "key" in obeyed else ["2", "1"]), interruption.where

    assert each_interruption(attempt, *FILES, "core/queue/policed_queue.py", "core/queue/queue_types.py") > 5


def test_a_queue_with_more_room_tells_who_waits_for_it() -> None:
    def attempt(interruption: Interruption) -> None:
        world = PolicyWorld(max_messages=1, overflow="block")
        world.send("message")
        waiting = RoomRequest(Signal(), 0)
        assert not world.queue.claim_room(waiting, or_wait=True)
        policy = world.queue.policy.altered(max_messages=2)
        with suppress(KeyboardInterrupt), interruption():
            world.queue.alter(policy)
        if world.queue.policy == policy:
            assert waiting.signal.wait(0), interruption.where

    assert each_interruption(attempt, *FILES, "core/queue/limits.py", "core/queue/policed_queue.py") > 5


@pytest.mark.parametrize("selector", [None, "n > 0"])
@pytest.mark.parametrize("policy", [{"non_destructive": True}, POLICIES["sorted"]], ids=["non-destructive", "sorted"])
def test_who_only_looks_comes_to_each_message(policy: dict[str, Any], selector: str | None) -> None:
    """To that of an interrupted pull with the next one."""

    def attempt(interruption: Interruption) -> None:
        world = PolicyWorld(**policy)
        reader = world.reader(selector=selector, acquires=False)
        for number in (1, 2, 3):
            world.send(str(number), properties={"n": number})
        found = reader.texts(1)
        with suppress(KeyboardInterrupt), interruption():
            found.append(text_of(pulled(reader)))
        assert [*found, *reader.texts()] == ["1", "2", "3"], interruption.where

    more = (
        "core/queue/cursor.py",
        "core/queue/entry.py",
        "core/queue/priority_level.py",
        "core/queue/policed_queue.py",
        "stores/memory.py",
    )
    assert each_interruption(attempt, *FILES, *more) > 5


def assert_nothing_is_left(world: PolicyWorld, interruption: Interruption) -> None:
    """Fail unless all consumers are forgotten."""
    order, rules = world.queue._ordering, world.queue._rules
    assert len(world.queue._manager) == 0, interruption.where
    assert isinstance(order, Ordering | SortedOrdering)
    assert not order._cursors, interruption.where
    if isinstance(order, Ordering):
        assert not order._indexed, interruption.where
        assert not any(index.is_used or index.ready for index in order._indexes.values()), interruption.where
    if rules is not None and rules._exclusive is not None:
        assert rules._exclusive.active is None, interruption.where
