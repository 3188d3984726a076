"""The machine that says which messages of a queue are in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.policy import Overflow, PolicyError, QueuePolicies, QueuePolicy
from pyjms_provider.core.queue.queue_rules import MemoryWindow
from tests.provider.policy_world import PolicyWorld


def reference(number: int, size: int = 1) -> MessageReference:
    made = MessageReference(ReferenceId(number), None, 0, 4, True)
    made.size = size
    return made


def test_the_first_ones_stay_and_none_that_comes_while_others_are_away() -> None:
    memory_window = MemoryWindow(2, 0)
    first, second, third, fourth = (reference(number) for number in range(4))
    assert [memory_window.add(each) for each in (first, second, third, third, first)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    memory_window.remove(first)
    memory_window.remove(first)
    assert memory_window.add(fourth), "the third is wanted before it"
    memory_window.remove(third)
    memory_window.remove(fourth)
    assert not memory_window.add(first)


def test_one_that_is_larger_than_the_limit_stays_if_it_is_alone() -> None:
    memory_window = MemoryWindow(0, 10)
    assert not memory_window.add(reference(1, 100))
    assert memory_window.add(reference(2, 1))


def test_what_is_read_takes_the_place_of_the_newest() -> None:
    memory_window = MemoryWindow(0, 20)
    messages = [reference(number, 10) for number in range(5)]
    for each in messages:
        memory_window.add(each)
    assert memory_window.fitting(messages[2:]) == messages[2:4]
    assert memory_window.page_in(messages[2:3]) == [messages[1]]
    assert memory_window.page_in(messages[3:]) == [messages[0], messages[2]]
    memory_window.remove(messages[3])
    assert memory_window.page_in([messages[3]]) == [], "it went while it was being read"


@given(st.integers(0, 3), st.integers(0, 30), st.lists(st.tuples(st.sampled_from("cgr"), st.integers(0, 9))))
def test_no_more_than_the_limit_is_ever_in_memory(
    max_messages: int, max_size: int, steps: list[tuple[str, int]]
) -> None:
    memory_window = MemoryWindow(max_messages, max_size)
    messages = [reference(number, 3 * number + 1) for number in range(10)]
    queued: set[int] = set()
    here: set[int] = set()
    for step, number in steps:
        message = messages[number]
        if step == "c":
            queued.add(number)
            if not memory_window.add(message):
                here.add(number)
        elif step == "g":
            memory_window.remove(message)
            queued.discard(number)
            here.discard(number)
        elif number in queued:
            here.add(number)
            here -= {each.id for each in memory_window.page_in([message])}
            assert number in here
        sizes = [messages[each].size for each in here]
        assert len(here) <= 1 or (
            (not max_messages or len(here) <= max_messages) and (not max_size or sum(sizes) <= max_size)
        )


# Without a disk


def test_a_broker_without_a_disk_refuses_queues_that_flow_to_it() -> None:
    flows = QueuePolicy(max_messages=1, overflow=Overflow.FLOW_TO_DISK)
    remedy = (
        "needs a disk, and this broker keeps all messages in memory: start it with store= or memory=, or choose reject"
    )
    world = PolicyWorld()
    with pytest.raises(PolicyError, match=remedy):
        world.manager.create("large", flows)
    assert world.manager.names() == ["orders"]
    with pytest.raises(PolicyError, match=remedy):
        world.manager.alter("orders", max_messages=1, overflow="flow_to_disk")
    assert world.manager.report("orders").policy == QueuePolicy()
    for policies in (
        QueuePolicies(default=flows),
        QueuePolicies(subscriptions=flows),
        QueuePolicies(patterns=(("a.*", flows),)),
    ):
        with pytest.raises(PolicyError, match=remedy):
            PolicyWorld(policies)
