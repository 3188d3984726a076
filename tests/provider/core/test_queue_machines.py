"""The small machines behind a queue's policy: last values, turns of consumers, room, delays, duplicates, headers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ProviderError
from pyjms.types import Int, Long
from pyjms_provider.core.host.admission import (
    DuplicateIdCache,
    DuplicateStatus,
    deliver_at_ms,
    duplicate_id,
    with_overrides,
)
from pyjms_provider.core.journal.journal import DuplicateMark
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.core.queue.consumer import Consumer
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from pyjms_provider.core.queue.message_groups import ExclusiveConsumer, MessageGroup, MessageGroups, group_place
from pyjms_provider.core.queue.queue_rules import Capacity, CapacityReservation, LastValues, last_key
from pyjms_provider.core.queue.scheduled_messages import DelayIndex, redelivery_delay_ms
from tests.provider.cost import kept
from tests.provider.helpers import QueueWorld, make_envelope

ORDERS = Address(AddressKind.QUEUE, "orders")


def entry(number: int = 1, priority: int = 4) -> QueueEntry:
    reference = MessageReference(ReferenceId(number), None, 0, priority, False)
    return QueueEntry(None, reference, MessageState.NEW)  # type: ignore[arg-type] # machines ask no queue


# Last values


@pytest.mark.realises("BJ-Q-3")
def test_a_newer_message_of_a_key_supersedes_the_older_one() -> None:
    values, older, newer, other = LastValues(), entry(1), entry(2), entry(3)
    assert values.add(older, last_key("EUR")) is None
    assert values.add(other, last_key("USD")) is None
    assert values.add(newer, last_key("EUR")) is older
    assert values.is_superseded(older)
    assert not values.is_superseded(newer)
    values.remove(newer)
    assert values.is_superseded(older), "also when the newer one has been consumed"
    values.remove(older)
    values.remove(other)
    assert len(values) == 0


def test_a_message_that_comes_again_is_as_old_as_it_was() -> None:
    values, older, newer = LastValues(), entry(1), entry(2)
    older.sequence, newer.sequence = 1, 2
    assert values.add(older, last_key("EUR")) is None
    assert values.add(older, last_key("EUR")) is None, "nor does it supersede itself"
    values.remove(older)
    assert values.add(newer, last_key("EUR")) is None
    assert values.add(older, last_key("EUR")) is older
    assert (values.is_superseded(older), values.is_superseded(newer)) == (True, False)


def test_messages_without_a_key_and_keys_of_other_types_are_left_alone() -> None:
    values = LastValues()
    assert last_key(None) is None
    for number, value in enumerate((None, None, True, Int(1), Long(1), 1.0, "1")):
        assert values.add(entry(number), last_key(value)) is None


# Groups


@pytest.mark.parametrize(
    ("properties", "place"),
    [
        ({}, None),
        ({"JMSXGroupID": ""}, None),
        ({"JMSXGroupID": 5}, None),
        ({"JMSXGroupID": "a"}, ("a", 0)),
        ({"JMSXGroupID": "a", "JMSXGroupSeq": -1}, ("a", -1)),
        ({"JMSXGroupID": "a", "JMSXGroupSeq": "x"}, ("a", 0)),
    ],
)
def test_a_message_says_which_group_it_is_in(properties: dict[str, Any], place: object) -> None:
    assert group_place(properties) == place


def permits(groups: MessageGroups, consumer: Consumer, message: QueueEntry) -> bool:
    group = groups.group_of(message)
    if group is None or group.is_blocked(message, PriorityQueueEntryList().place_of):
        return group is None
    return group.is_unowned or group.permits(consumer)


def owner_of(groups: MessageGroups, message: QueueEntry) -> Consumer | None:
    group = groups.group_of(message)
    return None if group is None else group.owner


def groups_of(groups: MessageGroups, consumer: Consumer) -> set[str]:
    return {group.name for group in kept(groups, MessageGroup) if group.owner is consumer}


def arrivals(groups: MessageGroups, *sequences: int) -> list[QueueEntry]:
    """Return messages of group `a` that have arrived, with these sequence numbers in it."""
    messages = [entry(number) for number in range(len(sequences))]
    for number, (message, sequence) in enumerate(zip(messages, sequences, strict=True), 1):
        message.sequence = number
        groups.add(message, ("a", sequence))
    return messages


def settle(groups: MessageGroups, *messages: QueueEntry) -> None:
    for message in messages:
        groups.remove(message)


def test_a_group_has_one_owner_until_it_is_closed_and_holds_nothing() -> None:
    world = QueueWorld()
    one, other = world.reader("one").consumer, world.reader("other").consumer
    groups = MessageGroups()
    messages = arrivals(groups, 0, 0, 0, 0)
    assert permits(groups, other, messages[0])
    assert groups.delivered(one, messages[0])
    assert not groups.delivered(one, messages[1])
    assert (permits(groups, one, messages[2]), permits(groups, other, messages[2])) == (True, False)
    groups.remove_consumer(one)
    assert not permits(groups, other, messages[2]), "what was delivered may yet come back before it"
    settle(groups, messages[0])
    assert (permits(groups, other, messages[2]), groups.is_freed) == (False, True)
    groups.is_freed = False
    groups.released(messages[1])
    assert (permits(groups, other, messages[2]), groups.is_freed) == (True, True)
    assert groups.delivered(other, messages[1])
    assert groups_of(groups, other) == {"a"}


def test_a_consumer_of_the_owners_session_goes_on_while_deliveries_are_outstanding() -> None:
    world = QueueWorld()
    one, stranger = world.reader("one"), world.reader("stranger").consumer
    sibling = Consumer(world.queue, one.session.add_target(lambda: None))
    groups = MessageGroups()
    messages = arrivals(groups, 0, 0, 0)
    groups.delivered(one.consumer, messages[0])
    groups.remove_consumer(one.consumer)
    assert (permits(groups, sibling, messages[1]), permits(groups, stranger, messages[1])) == (True, False)
    assert groups.delivered(sibling, messages[1])
    settle(groups, messages[0], messages[1])
    assert not permits(groups, stranger, messages[2]), "the sibling is the owner, and open"
    groups.remove_consumer(sibling)
    assert permits(groups, stranger, messages[2])


def test_a_negative_sequence_number_closes_a_group_when_nothing_is_outstanding() -> None:
    world = QueueWorld()
    one, other = world.reader("one").consumer, world.reader("other").consumer
    groups = MessageGroups()
    messages = arrivals(groups, 1, -1, 1)
    groups.delivered(one, messages[0])
    groups.delivered(one, messages[1])
    assert not permits(groups, one, messages[2])
    settle(groups, messages[1])
    assert not permits(groups, other, messages[2])
    settle(groups, messages[0])
    assert permits(groups, other, messages[2])
    assert groups_of(groups, one) == set()


def test_a_group_is_not_closed_by_a_message_that_is_given_back() -> None:
    consumer = QueueWorld().reader().consumer
    groups = MessageGroups()
    messages = arrivals(groups, -1, 1)
    assert not groups.delivered(consumer, messages[0]), "there is no more to be had of the group"
    groups.released(messages[0])
    assert owner_of(groups, messages[1]) is consumer
    assert groups.is_freed
    groups.delivered(consumer, messages[0])
    settle(groups, messages[0])
    assert owner_of(groups, messages[1]) is None


def test_messages_behind_a_delayed_one_of_their_group_wait_for_it() -> None:
    world = QueueWorld()
    one, other = world.reader("one").consumer, world.reader("other").consumer
    groups, order = MessageGroups(), PriorityQueueEntryList()
    messages = arrivals(groups, 0, 0, 0)
    groups.delivered(one, messages[1])
    groups.delayed(messages[1], order.place_of(messages[1]))
    groups.released(messages[1])
    assert [permits(groups, one, message) for message in messages] == [True, True, False]
    groups.remove_consumer(one)
    assert [permits(groups, other, message) for message in messages] == [True, True, False]
    assert groups.due(messages[1]) is groups.group_of(messages[1])
    assert groups.due(messages[1]) is None
    assert [permits(groups, other, message) for message in messages] == [True, True, True]


def test_messages_without_group_concern_nobody() -> None:
    consumer = QueueWorld().reader().consumer
    groups, free = MessageGroups(), entry(2)
    groups.add(free, None)
    assert not groups.delivered(consumer, free)
    groups.released(free)
    settle(groups, free)
    assert groups_of(groups, consumer) == set()


def test_of_groups_without_messages_only_so_many_have_an_owner() -> None:
    world = QueueWorld()
    one, other = world.reader("one").consumer, world.reader("other").consumer
    groups, held = MessageGroups(), entry(1)
    groups.add(held, ("held", 0))
    assert groups.delivered(one, held)
    for number in range(10_001):
        message = entry(number)
        groups.add(message, (f"{number}", 0))
        assert groups.delivered(one, message)
        settle(groups, message)
    assert len(groups_of(groups, one)) <= 10_001
    assert groups_of(groups, one) == {"held", *(f"{number}" for number in range(100, 10_001))}
    again = [entry(), entry(), entry()]
    for message, group in zip(again, ("held", "99", "100"), strict=True):
        groups.add(message, (group, 0))
    assert [permits(groups, other, message) for message in again] == [False, True, False]
    settle(groups, *again, held)
    groups.remove_consumer(one)
    assert groups_of(groups, one) == set()
    assert not kept(groups, MessageGroup)


def test_a_group_keeps_its_owner_while_one_of_its_messages_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_provider.core.queue.message_groups._IDLE_MAX", 0)
    world = QueueWorld()
    one, other = world.reader("one").consumer, world.reader("other").consumer
    groups, messages = MessageGroups(), [entry(number) for number in range(3)]
    for message in messages[:2]:
        groups.add(message, ("a", 0))
        groups.add(message, ("a", 0))  # which is one, also when it is noted twice
    assert groups.delivered(one, messages[0])
    settle(groups, messages[0], messages[0])
    assert owner_of(groups, messages[1]) is one
    settle(groups, messages[1])
    groups.add(messages[2], ("a", 0))
    assert owner_of(groups, messages[2]) is None
    assert groups.delivered(other, messages[2])
    groups.remove_consumer(one)
    assert owner_of(groups, messages[2]) is other


def test_a_group_that_was_closed_while_it_counted_as_idle_is_forgotten_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyjms_provider.core.queue.message_groups._IDLE_MAX", 1)
    world = QueueWorld()
    one, other = world.reader("one").consumer, world.reader("other").consumer
    groups, messages = MessageGroups(), [entry(number) for number in range(5)]
    for message, place in zip(messages[:2], (("a", 0), ("a", -1)), strict=True):
        groups.add(message, place)
        groups.delivered(one, message)
        settle(groups, message)
    groups.add(messages[2], ("a", 0))
    assert groups.delivered(other, messages[2])
    for message in messages[3:]:
        groups.add(message, (f"{message.reference.id}", 0))
        assert groups.delivered(one, message)
        settle(groups, message)
    assert owner_of(groups, messages[2]) is other


# The exclusive consumer


def test_the_active_consumer_stays_so_until_it_ends_and_the_highest_priority_follows() -> None:
    world = QueueWorld()
    first, low, high, late = (
        world.reader(name, priority=priority).consumer
        for name, priority in (("first", 0), ("low", 1), ("high", 5), ("late", 5))
    )
    exclusive = ExclusiveConsumer()
    for consumer in (first, low, high, late):
        exclusive.add_consumer(consumer)
    assert exclusive.active is first
    exclusive.remove_consumer(low)
    assert exclusive.active is first
    exclusive.remove_consumer(first)
    assert exclusive.active is high, "the first of those of the highest priority"
    exclusive.remove_consumer(high)
    assert exclusive.active is late
    exclusive.remove_consumer(late)
    assert exclusive.active is None


def test_the_next_consumer_is_active_when_no_delivery_is_outstanding() -> None:
    world = QueueWorld()
    first, second, late = (world.reader(name) for name in ("first", "second", "late"))
    exclusive, messages = ExclusiveConsumer(), [entry(number) for number in range(2)]
    exclusive.add_consumer(first.consumer)
    exclusive.add_consumer(second.consumer)
    for message in messages:
        exclusive.delivered(message)
    exclusive.remove_consumer(first.consumer)
    exclusive.add_consumer(late.consumer)
    exclusive.remove(messages[0])
    assert (exclusive.active, exclusive.is_freed) == (None, False)
    exclusive.released(messages[1])
    exclusive.released(messages[1])
    assert (exclusive.active, exclusive.is_freed) == (second.consumer, True)


@pytest.mark.parametrize("comes_later", [True, False])
def test_another_consumer_of_its_session_takes_the_place_of_the_active_one_at_once(*, comes_later: bool) -> None:
    world = QueueWorld()
    first, second = world.reader("first"), world.reader("second", priority=9)
    sibling = Consumer(world.queue, first.session.add_target(lambda: None))
    exclusive, message = ExclusiveConsumer(), entry()
    exclusive.add_consumer(first.consumer)
    exclusive.add_consumer(second.consumer)
    if not comes_later:
        exclusive.add_consumer(sibling)
    exclusive.delivered(message)
    exclusive.remove_consumer(first.consumer)
    if comes_later:
        exclusive.add_consumer(sibling)
    assert exclusive.active is sibling
    exclusive.remove(message)
    assert exclusive.active is sibling
    exclusive.remove_consumer(sibling)
    assert exclusive.active is second.consumer


@dataclass(eq=False)
class Waiting:
    """A consumer that counts who asks for its priority."""

    number: int
    session: object = None
    reads: int = 0

    @property
    def priority(self) -> int:
        self.reads += 1
        return 0


def test_consumers_follow_each_other_without_a_look_at_all_that_wait() -> None:
    consumers = [Waiting(number) for number in range(100)]
    exclusive = ExclusiveConsumer()
    for consumer in consumers:
        exclusive.add_consumer(cast("Consumer", consumer))
    for consumer in consumers[:-1]:
        assert cast("object", exclusive.active) is consumer
        exclusive.remove_consumer(cast("Consumer", consumer))
    assert max(consumer.reads for consumer in consumers) <= 3, "when it comes, when it is active, when it goes"
    exclusive.remove_consumer(cast("Consumer", consumers[-1]))
    assert exclusive.active is None


# Capacity


def wanting(size: int) -> CapacityReservation:
    return CapacityReservation(Signal(), size)


def test_room_is_counted_in_messages_and_bytes_and_claims() -> None:
    room = Capacity(3, 100)
    for sender in (wanting(10), wanting(20)):
        assert room.claim(sender)
        room.add(sender.size)
        room.unclaim(sender)
        room.unclaim(sender)
    assert not room.has_room(71)
    large = wanting(70)
    assert room.claim(large)
    assert not room.claim(wanting(0)), "a claim is as good as a message"
    room.unclaim(large)
    assert room.claim(wanting(0))


def test_an_empty_queue_takes_any_message() -> None:
    room, large = Capacity(0, 10), wanting(500)
    assert room.claim(large)
    assert not room.claim(wanting(1))
    room.add(500)
    room.unclaim(large)
    assert not room.is_exceeded
    room.add(1)
    assert room.is_exceeded


def test_who_waited_longest_comes_first_and_nobody_overtakes() -> None:
    room = Capacity(1, 0)
    room.add(5)
    first, second = wanting(5), wanting(5)
    for waiting in (first, second):
        assert not room.claim(waiting)
        room.wait(waiting)
    assert room.next_signal() is None
    room.remove(5)
    assert room.next_signal() is first.signal
    assert not room.claim(wanting(5)), "a newcomer"
    assert not room.claim(second)
    assert room.claim(first)
    assert room.waiting_count == 1
    assert room.next_signal() is None, "a claim is as good as a message"
    assert room.all_signals() == [second.signal]
    room.stop_waiting(second)
    room.stop_waiting(second)
    assert room.waiting_count == 0


def test_other_limits_leave_claims_and_those_that_wait_as_they_are() -> None:
    before, claiming, waiting = Capacity(1, 0), wanting(5), wanting(5)
    assert before.claim(claiming)
    assert not before.claim(waiting)
    before.wait(waiting)
    after = Capacity(2, 0)
    after.follow(before)
    assert after.next_signal() is waiting.signal
    assert after.claim(waiting)
    after.add(5)
    after.unclaim(claiming)
    assert not after.claim(wanting(5))
    after.unclaim(waiting)
    assert after.claim(wanting(5))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=60), st.integers(0, 4), st.integers(0, 40))
def test_room_never_lets_in_more_than_allowed(steps: list[tuple[int, int]], most: int, most_size: int) -> None:
    room = Capacity(most, most_size)
    held: list[int] = []
    claims: list[CapacityReservation] = []
    for action, size in steps:
        if action <= 1:
            sizes = [*held, *(claim.size for claim in claims)]
            fits = not sizes or (
                (not most or len(sizes) + 1 <= most) and (not most_size or sum(sizes) + size <= most_size)
            )
            sender = wanting(size)
            assert room.claim(sender) is fits
            if fits:
                claims.append(sender)
        elif action == 2 and claims:
            sender = claims.pop()
            held.append(sender.size)
            room.add(sender.size)
            room.unclaim(sender)
        elif action == 3 and held:
            room.remove(held.pop(0))
    assert (room.messages, room.size) == (len(held), sum(held))


# Delays


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (QueuePolicy(), [0, 0, 0]),
        (QueuePolicy(redelivery_delay_ms=100), [100, 100, 100]),
        (QueuePolicy(redelivery_delay_ms=100, redelivery_multiplier=2), [100, 200, 400]),
        (
            QueuePolicy(redelivery_delay_ms=100, redelivery_multiplier=2.5, max_redelivery_delay_ms=300),
            [100, 250, 300],
        ),
    ],
)
def test_the_delay_grows_with_each_delivery_up_to_its_limit(policy: QueuePolicy, delays: list[int]) -> None:
    assert [redelivery_delay_ms(policy, count) for count in (1, 2, 3)] == delays


def test_a_delay_without_a_limit_grows_no_further_than_a_long() -> None:
    policy = QueuePolicy(redelivery_delay_ms=1000, redelivery_multiplier=1000)
    assert redelivery_delay_ms(policy, 10**9) == 2**63 - 1


def test_delayed_messages_come_out_by_their_time() -> None:
    delays, entries = DelayIndex(), [entry(number) for number in range(4)]
    assert delays.next_ms is None
    for message, due_ms, next_ms in zip(entries, (50, 30, 40, 30), (50, 30, 30, 30), strict=True):
        delays.add(message, due_ms)
        assert delays.next_ms == next_ms
    assert delays.discard(entries[1])
    assert not delays.discard(entries[1])
    assert entries[2] in delays
    assert list(delays) == [entries[3], entries[2], entries[0]]
    assert delays.take_due(29, 1000) == []
    assert delays.take_due(40, 1000) == [entries[3], entries[2]]
    assert (len(delays), list(delays)) == (1, [entries[0]])


def test_discarded_delays_do_not_pile_up() -> None:
    delays, lasting = DelayIndex(), entry()
    delays.add(lasting, 10)
    assert delays.least_important() is lasting
    for number in range(1000):
        message = entry(number)
        delays.add(message, 10**9)
        delays.discard(message)
    assert len(kept(delays, QueueEntry)) < 200
    assert delays.next_ms == 10
    assert delays.least_important() is lasting


@given(
    st.lists(st.tuples(st.sampled_from(["add", "discard", "due"]), st.integers(0, 9), st.integers(0, 9)), max_size=200)
)
def test_the_least_of_the_delayed_is_the_oldest_of_the_lowest_priority(
    steps: list[tuple[str, int, int]],
) -> None:
    delays, there = DelayIndex(), dict[QueueEntry, int]()
    known = [entry(number, priority=number % 3) for number in range(10)]
    for step, number, due_ms in steps:
        if step == "add" and known[number] not in there:
            delays.add(known[number], due_ms)
            there[known[number]] = due_ms
        elif step == "discard":
            assert delays.discard(known[number]) is (there.pop(known[number], None) is not None)
        elif step == "due":
            due = delays.take_due(due_ms, 1000)
            assert set(due) == {each for each in there if there[each] <= due_ms}
            there = {each: at_ms for each, at_ms in there.items() if at_ms > due_ms}
        expected = min(there, key=lambda each: (each.reference.priority, each.reference.id), default=None)
        assert delays.least_important() is expected


# Duplicates


def test_an_id_is_seen_once_its_message_has_arrived_and_until_the_window_ends() -> None:
    window = DuplicateIdCache(ORDERS, 100, 10)
    assert window.claim("a", 0) is DuplicateStatus.NEW
    assert window.claim("a", 0) is DuplicateStatus.CLAIMED
    mark = window.mark("a", 0, 1)
    window.confirm(mark, 0)
    assert (mark.address, mark.duplicate_id, mark.until_ms, mark.serial) == (ORDERS, "a", 100, 1)
    assert window.claim("a", 99) is DuplicateStatus.SEEN
    assert window.claim("a", 100) is DuplicateStatus.NEW


def test_an_id_whose_message_did_not_arrive_is_new_again() -> None:
    window = DuplicateIdCache(ORDERS, 100, 10)
    window.claim("a", 0)
    window.drop("a")
    window.drop("a")
    assert window.claim("a", 0) is DuplicateStatus.NEW


def test_an_id_is_dropped_by_who_claims_it_alone() -> None:
    window, first, second = DuplicateIdCache(ORDERS, 100, 10), object(), object()
    assert window.claim("a", 0, first) is DuplicateStatus.NEW
    assert window.claim("a", 0, second) is DuplicateStatus.CLAIMED
    window.drop("a", second)
    assert window.claim("a", 0, second) is DuplicateStatus.CLAIMED
    window.drop("a", first)
    assert window.claim("a", 0, second) is DuplicateStatus.NEW


def arrive(window: DuplicateIdCache, serial: int, now_ms: int = 0, *, is_kept: bool = True) -> DuplicateMark:
    """Have a message with an id of its own arrive."""
    window.claim(f"id {serial}", now_ms)
    mark = window.mark(f"id {serial}", now_ms, serial, is_kept=is_kept)
    window.confirm(mark, now_ms)
    return mark


def test_only_so_many_ids_are_remembered() -> None:
    window = DuplicateIdCache(ORDERS, 100, 2)
    for serial in (1, 2, 3):
        arrive(window, serial)
    assert len(window) == 2
    found = [window.claim(f"id {serial}", 0) for serial in (3, 2, 1)]
    assert found == [DuplicateStatus.SEEN, DuplicateStatus.SEEN, DuplicateStatus.NEW]


def test_what_a_journal_kept_is_remembered_again() -> None:
    window, again = DuplicateIdCache(ORDERS, 100, 10), DuplicateIdCache(ORDERS, 100, 10)
    for identity in "ab":
        window.claim(identity, 0)
    marks = [window.mark(identity, now_ms, serial) for identity, now_ms, serial in (("b", 10, 2), ("a", 0, 1))]
    again.restore(marks, 10, 10)
    assert again.claim("a", 99) is DuplicateStatus.SEEN
    assert again.claim("a", 100) is DuplicateStatus.NEW
    assert again.claim("b", 100) is DuplicateStatus.SEEN


def test_what_was_withdrawn_is_not_remembered_again() -> None:
    window = DuplicateIdCache(ORDERS, 100, 10)
    window.restore([DuplicateMark(ORDERS, "a", 100, 1), DuplicateMark(ORDERS, "b", 0, 2)], 0, 0)
    assert window.claim("b", 50) is DuplicateStatus.NEW
    assert window.claim("a", 50) is DuplicateStatus.SEEN


@pytest.mark.parametrize(("wall_ms", "left_ms"), [(0, 100), (60, 40), (-(10**9), 100), (100, 0), (10**9, 0)])
def test_what_was_kept_is_remembered_no_longer_than_the_window_though_the_clock_was_put_back(
    wall_ms: int, left_ms: int
) -> None:
    window = DuplicateIdCache(ORDERS, 100, 10)
    window.restore([DuplicateMark(ORDERS, "a", 100, 1)], wall_ms, 5)
    if left_ms:
        assert window.claim("a", 5 + left_ms - 1) is DuplicateStatus.SEEN
    assert window.claim("a", 5 + left_ms) is DuplicateStatus.NEW


def test_an_id_that_has_had_its_time_is_new_behind_one_that_has_not() -> None:
    window = DuplicateIdCache(ORDERS, 100, 10)
    arrive(window, 1)
    window.window_ms = 10
    arrive(window, 2)
    assert window.claim("id 2", 10) is DuplicateStatus.NEW
    assert window.claim("id 1", 10) is DuplicateStatus.SEEN


def test_a_journal_hears_which_marks_it_may_forget_and_never_one_that_counts() -> None:
    window = DuplicateIdCache(ORDERS, 100, 10)
    window.claim("open", 0)
    being_written = window.mark("open", 0, 1)
    window.claim("later", 0)  # its transaction goes on, and it will have a higher serial
    marks = [arrive(window, serial) for serial in range(2, 1002)]
    assert [mark.forgets_below for mark in marks] == [0] * 998 + [1, 0]
    window.confirm(being_written, 0)
    window.drop("later")
    marks = [arrive(window, serial) for serial in range(1002, 3002)]
    told = [(mark.serial, mark.forgets_below) for mark in marks if mark.forgets_below]
    assert told == [(2000, 1990), (3000, 2990)]


def test_a_journal_hears_it_until_it_has_it() -> None:
    window = DuplicateIdCache(ORDERS, 100, 10)
    for serial in range(1, 1000):
        arrive(window, serial)
    assert not arrive(window, 1000, is_kept=False).forgets_below
    for serial in (1001, 1002):  # whose transactions roll back
        window.claim("x", 0)
        assert window.mark("x", 0, serial).forgets_below == 991
        window.drop("x")
    assert arrive(window, 1003).forgets_below == 991
    assert not arrive(window, 1004).forgets_below


def test_what_is_restored_is_counted_among_what_may_be_forgotten() -> None:
    window = DuplicateIdCache(ORDERS, 100, 10)
    window.restore([DuplicateMark(ORDERS, f"id {serial}", 100, serial) for serial in range(1, 1000)], 0, 0)
    assert arrive(window, 1000).forgets_below == 990


@pytest.mark.parametrize("value", ["", 5, None])
def test_a_duplicate_id_is_a_text(value: Any) -> None:
    with pytest.raises(ProviderError, match="string property"):
        duplicate_id(make_envelope(properties={"JMS_pyjms_duplicateId": value}))
    assert duplicate_id(make_envelope(properties={"JMS_pyjms_duplicateId": "a"})) == "a"


# Headers on the way in


@pytest.mark.parametrize(
    ("policy", "sent_ms", "expected_ms"),
    [
        (QueuePolicy(priority=1), 0, 0),
        (QueuePolicy(time_to_live_ms=50), 0, 1050),
        (QueuePolicy(time_to_live_ms=0), 1500, 0),
        (QueuePolicy(max_time_to_live_ms=100), 0, 1100),
        (QueuePolicy(max_time_to_live_ms=100), 5000, 1100),
        (QueuePolicy(max_time_to_live_ms=100), 1050, 1050),
        (QueuePolicy(min_time_to_live_ms=100), 0, 0),
        (QueuePolicy(min_time_to_live_ms=100), 1050, 1100),
        (QueuePolicy(min_time_to_live_ms=100), 1200, 1200),
        (QueuePolicy(time_to_live_ms=500, max_time_to_live_ms=100), 0, 1100),
    ],
)
@pytest.mark.realises("BOIL-HDR-15")
def test_the_owner_bounds_and_overrides_the_time_to_live(policy: QueuePolicy, sent_ms: int, expected_ms: int) -> None:
    assert with_overrides(make_envelope(expiration_ms=sent_ms), policy, 1000).expiration_ms == expected_ms


@pytest.mark.realises("BOIL-HDR-15")
def test_the_owner_overrides_delivery_mode_and_priority_and_nothing_else() -> None:
    envelope = make_envelope("text", priority=4, persistent=True, properties={"a": 1})
    changed = with_overrides(envelope, QueuePolicy(delivery_mode=1, priority=9), 1000)
    assert (changed.delivery_mode, changed.priority) == (1, 9)
    assert dataclasses.replace(changed, delivery_mode=2, priority=4) == envelope


@pytest.mark.parametrize(("value", "expected"), [(None, 0), (Long(5), 5), (0, 0)])
def test_a_message_says_when_it_is_for(value: Any, expected: int) -> None:
    assert deliver_at_ms(make_envelope(properties={"JMS_pyjms_deliverAt": value})) == expected
    assert deliver_at_ms(make_envelope()) == 0


@pytest.mark.parametrize("value", ["tomorrow", 1.5, True, -1])
def test_a_time_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(ProviderError, match="long property"):
        deliver_at_ms(make_envelope(properties={"JMS_pyjms_deliverAt": value}))
