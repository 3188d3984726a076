"""The part of the contract of `Journal` that queues and durable subscriptions belong to: how they are made, and how they go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms_provider.core.journal.journal import (
    Changes,
    DuplicateMark,
    PreparedBranch,
    QueueNumber,
    QueueRecord,
    Removal,
    SubscriptionKey,
)
from pyjms_provider.core.message.reference import ReferenceId
from pyjms_provider.stores.testing.world import AWKWARD, World, queue_record, xid


@pytest.mark.parametrize("name", AWKWARD)
def test_queues_and_subscriptions_are_found_again(world: World, name: str) -> None:
    """All that a record has is kept, whatever the names are."""
    queue = QueueRecord(number=QueueNumber(0), address=Address(AddressKind.QUEUE, name), policy=f'{{"name": "{name}"}}')
    subscription = QueueRecord(
        number=QueueNumber(0),
        address=Address(AddressKind.TOPIC, name),
        subscription=SubscriptionKey(name, f"name {name}"),
        selector_text=f"a = '{name}'",
        no_local=True,
    )
    numbers = [world.journal.define_queue(record) for record in (queue, subscription)]
    kept = {record.number: record for record in world.reopen().recovery.queues}
    found, found_subscription = (kept[number] for number in numbers)
    assert (found.address, found.policy, found.subscription, found.no_local) == (
        queue.address,
        queue.policy,
        None,
        False,
    )
    assert found_subscription.subscription == subscription.subscription
    assert (found_subscription.selector_text, found_subscription.no_local) == (subscription.selector_text, True)
    assert found_subscription.address == subscription.address


@pytest.mark.parametrize("prepared", [False, True])
def test_a_queue_may_be_defined_with_its_first_message(world: World, prepared: bool) -> None:
    """Journal.number_of and Changes.definitions: also with a prepared branch, where the definition takes effect at once."""
    record = queue_record("promised")
    number = world.journal.number_of(record)
    assert world.journal.number_of(record) == number
    definition = replace(record, number=number)
    message = world.message(number)
    branch = PreparedBranch(xid(1), 5) if prepared else None
    world.journal.write(Changes(messages=[message], definitions=[definition], prepared=branch), force=True)
    assert definition in world.reopen().recovery.queues
    if prepared:
        world.decide(1, commit=True)
        world.reopen()
    assert world.found.ids == [(message.reference.id, number)]
    assert world.journal.number_of(record) == number
    assert world.journal.define_queue(queue_record("next")) != number


def test_a_number_that_was_promised_is_given_to_nobody_else(world: World) -> None:
    """Journal.number_of."""
    promised = world.journal.number_of(queue_record("promised"))
    assert world.journal.define_queue(queue_record("other")) != promised
    assert world.journal.define_queue(queue_record("promised")) == promised
    assert world.journal.number_of(queue_record("first")) == world.queue


def test_a_queue_may_take_the_place_of_another_one_of_its_name(world: World) -> None:
    """Journal.number_of, Changes.dropped and Changes.corrected: in one write; before that, the other one is there."""
    record = queue_record("first")
    old = world.add(world.message())
    number = world.journal.number_of(record, anew=True)
    assert number not in {world.queue, world.other, world.journal.number_of(record, anew=True)}
    assert world.journal.holds(world.queue, old.reference) is True
    new = replace(record, number=number, policy="{}")
    world.journal.write(Changes(dropped=[world.queue], corrected=[new]), force=True)
    assert world.journal.number_of(record) == number
    world.journal.drop_queue(world.queue)  # for the sake of its messages
    sent = world.message(number)
    world.journal.write(Changes(messages=[sent]), force=True)
    found = world.reopen()
    assert {each.number: each for each in found.recovery.queues}.keys() == {world.other, number}
    assert new in found.recovery.queues
    assert found.ids == [(sent.reference.id, number)]
    assert world.journal.number_of(record) == number


def test_a_definition_changes_no_queue_that_is_kept(world: World) -> None:
    """Changes.definitions: a queue that is kept stays as it is."""
    record = replace(queue_record("first", world.queue), policy="{}")
    world.journal.define_queue(record)
    world.journal.write(Changes(definitions=[queue_record("first", world.queue)]), force=True)
    assert record in world.reopen().recovery.queues


def test_a_queue_keeps_its_number(world: World) -> None:
    """Defining a queue again, by its number or by its name, gives the same number and the new policy."""
    number = world.journal.define_queue(queue_record("again"))
    assert world.journal.define_queue(queue_record("again")) == number
    assert world.journal.define_queue(queue_record("again", number)) == number
    world.reopen()
    changed = QueueRecord(number=QueueNumber(0), address=queue_record("again").address, policy="{}")
    assert world.journal.define_queue(changed) == number
    records = [record for record in world.reopen().recovery.queues if record.address == changed.address]
    assert [(record.number, record.policy) for record in records] == [(number, "{}")]


def test_a_number_is_never_given_twice(world: World) -> None:
    """A dropped queue's number does not come back, also after the journal was opened again."""
    given = {world.queue, world.other}
    for _ in range(3):
        number = world.journal.define_queue(queue_record("short-lived"))
        assert number not in given
        given.add(number)
        world.journal.drop_queue(number)
        world.reopen()


def test_a_dropped_queue_takes_its_messages_along(world: World) -> None:
    """Those that are in other queues too stay there; those of a prepared branch are gone."""
    first, shared, other = world.message(), world.message(world.queue, world.other), world.message(world.other)
    world.add(first, shared, other)
    world.journal.write(Changes(marks=[(world.queue, 4, ReferenceId(3))]), force=False)
    world.prepare(1, world.message(), removals=[Removal(world.queue, first.reference)])
    world.journal.drop_queue(world.queue)
    assert world.bodies(first.reference.id) == {}
    found = world.reopen()
    assert found.ids == [(shared.reference.id, world.other), (other.reference.id, world.other)]
    assert [record.number for record in found.recovery.queues] == [world.other]
    assert list(found.recovery.marks) == []
    (branch,) = found.recovery.branches
    assert (list(branch.messages), list(branch.removals)) == ([], [])


def test_a_dropped_queue_takes_the_ids_of_its_producers_along(world: World) -> None:
    """Else they would keep new messages from the next queue of its name; those of other queues and of topics stay."""
    first, second = (queue_record(name).address for name in ("first", "second"))
    topic = Address(AddressKind.TOPIC, first.name)
    subscription = QueueRecord(number=QueueNumber(0), address=topic, subscription=SubscriptionKey("client", "name"))
    number = world.journal.define_queue(subscription)
    for address in (first, second, topic):
        world.remember("id", 2**62, address)
        world.remember("another", 2**62, address)
    for dropped in (world.queue, number):
        world.journal.drop_queue(dropped)
    found = [(mark.address, mark.duplicate_id) for mark in world.reopen().recovery.duplicates]
    assert set(found) == {(address, each) for address in (second, topic) for each in ("id", "another")}


def test_what_was_noted_as_dropped_makes_way_for_the_next_of_its_name(world: World) -> None:
    """Changes.dropped: of two queues of one name the noted one is gone, with the ids of its producers, also if the other is written with it."""
    record = queue_record("first")
    world.add(world.message(), world.message(world.other))
    for identity in ("id", "another"):
        world.remember(identity, 2**62, record.address)
    world.journal.note(Changes(dropped=[world.queue]))
    number = world.journal.number_of(record)
    assert number not in {world.queue, world.other}
    message = world.message(number)
    mark = DuplicateMark(record.address, "id", 2**62, 9)
    definition = replace(record, number=number)
    world.journal.write(Changes(messages=[message], definitions=[definition], duplicates=[mark]), force=True)
    found = world.reopen()
    assert {each.number: each.address for each in found.recovery.queues} == {
        world.other: queue_record("second").address,
        number: record.address,
    }
    assert [each.duplicate_id for each in found.recovery.duplicates] == ["id"]
    assert (message.reference.id, number) in found.ids


@pytest.mark.parametrize("is_noted", [True, False])
def test_an_id_is_kept_and_forgotten_only_for_a_queue_that_is_there(world: World, is_noted: bool) -> None:
    """DuplicateMark.queue: of two queues of one name the older one's changes, if they come late, leave the newer one's ids alone."""
    record = queue_record("first")
    if is_noted:
        world.journal.note(Changes(dropped=[world.queue]))
    else:
        world.journal.drop_queue(world.queue)
    number = world.journal.number_of(record)

    def mark(identity: str, queue: QueueNumber, until_ms: int = 2**62) -> DuplicateMark:
        return DuplicateMark(record.address, identity, until_ms, len(identity), queue)

    late = [mark("too late", world.queue)]
    world.journal.write(Changes(messages=[world.message(world.queue)], duplicates=late), force=True)
    definition = replace(record, number=number)
    new = [mark("new", number), mark("withdrawn", number)]
    world.journal.write(Changes(messages=[world.message(number)], definitions=[definition], duplicates=new), force=True)
    world.journal.note(Changes(duplicates=[mark("new", world.queue, 0), mark("withdrawn", number, 0)]))
    found = {each.duplicate_id: each.until_ms for each in world.reopen().recovery.duplicates if each.until_ms}
    assert found == {"new": 2**62}


@pytest.mark.parametrize("is_there", [True, False])
def test_what_was_noted_as_dropped_is_gone_after_the_close(world: World, is_there: bool) -> None:
    """Changes.dropped: also if it was dropped before."""
    if not is_there:
        world.journal.drop_queue(world.queue)
    world.journal.note(Changes(dropped=[world.queue]))
    assert [record.number for record in world.reopen().recovery.queues] == [world.other]


def test_what_was_noted_of_a_queue_is_kept_whatever_was_written_before(world: World) -> None:
    """Changes.corrected: also of one that is not kept yet, and with the next write or the close."""
    record = queue_record("first", world.queue)
    world.journal.define_queue(replace(record, policy="{}"))
    number = world.journal.number_of(queue_record("new"))
    new = replace(queue_record("new", number), policy="{}")
    world.journal.note(Changes(corrected=[record, new]))
    found = {each.number: each for each in world.reopen().recovery.queues}
    assert (found[world.queue], found[number]) == (record, new)
    assert world.journal.define_queue(queue_record("newer")) not in {world.queue, world.other, number}


def test_a_queue_that_is_not_kept_says_nothing_of_its_messages(world: World) -> None:
    """`holds` of one that was dropped, also in a note, and of one that was only promised."""
    message = world.add(world.message())
    for drop in (world.journal.drop_queue, lambda number: world.journal.note(Changes(dropped=[number]))):
        number = world.journal.define_queue(queue_record("short-lived"))
        sent = world.message(number)
        world.journal.write(Changes(messages=[sent]), force=True)
        assert world.journal.holds(number, sent.reference) is True
        assert world.journal.holds(number, message.reference) is False
        drop(number)
        assert world.journal.holds(number, sent.reference) is None
    promised = world.journal.number_of(queue_record("promised"))
    assert world.journal.holds(promised, message.reference) is None
