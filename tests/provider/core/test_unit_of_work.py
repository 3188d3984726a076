"""Units of work: messages that are not committed, acknowledgements that are pending, and the three ways to end."""

from __future__ import annotations

from itertools import product

import pytest

from pyjms.spi.errors import RolledBackError
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.state_machine import ForbiddenTransitionError
from pyjms_provider.core.transaction.unit_of_work import (
    UNIT_TRANSITIONS,
    UnitEvent,
    UnitState,
)
from tests.provider.helpers import QueueWorld, ScriptedReceiver, entry_of, holders


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld()


FORBIDDEN = {
    *product((UnitState.COMMITTING, UnitState.COMMITTED, UnitState.PREPARED), (UnitEvent.COMMIT, UnitEvent.STAGE)),
    *product(
        set(UnitState) - {UnitState.COMMITTING},
        (UnitEvent.WRITTEN, UnitEvent.KEPT, UnitEvent.REFUSED),
    ),
    *product(set(UnitState) - {UnitState.PREPARED}, (UnitEvent.DECIDE_COMMIT, UnitEvent.DECIDE_ROLLBACK)),
}


@pytest.mark.parametrize(("state", "event"), list(product(UnitState, UnitEvent)), ids=lambda value: value.name)
def test_each_pair_is_in_the_table_or_forbidden(state: UnitState, event: UnitEvent) -> None:
    if (state, event) in FORBIDDEN:
        with pytest.raises(ForbiddenTransitionError, match=f"{state.name} .* cannot have {event.name}"):
            UNIT_TRANSITIONS[state, event]
    else:
        assert isinstance(UNIT_TRANSITIONS[state, event], UnitState)


# Messages


@pytest.mark.realises("JBM-2.2.1.a", "JBM-5.1.2", "JBM-5.1.a", "JBM-5.1.1.a", "JBM-2.4.b")
def test_a_message_handled_in_a_transaction_is_not_committed(world: QueueWorld) -> None:
    unit, reader = world.unit(), world.reader(interested=True)
    reference = world.send("a", unit=unit)
    assert world.queue.get_messages(MessageState.NOT_COMMITTED) == [reference]
    (entry,) = world.queue.state.entries(MessageState.NOT_COMMITTED)
    assert entry.transaction is unit
    assert unit.unit_id == "unit"
    assert reader.wake_ups == 0
    assert reader.pull() is None
    assert world.texts() == []


@pytest.mark.realises("JBM-5.1.3.a", "JBM-5.2.2.b", "JBM-2.2.1.b")
def test_commit_makes_it_new_and_delivers_it(world: QueueWorld) -> None:
    unit, reader = world.unit(), world.reader(interested=True)
    world.send("a", unit=unit)
    unit.commit(0)
    assert unit.state.name == "COMMITTED"
    assert reader.wake_ups == 1
    assert reader.texts() == ["a"]


@pytest.mark.realises("JBM-2.2.1.b")
def test_commit_attempts_to_push(world: QueueWorld) -> None:
    receiver, unit = ScriptedReceiver("r", True), world.unit()
    world.queue.add_receiver(receiver)
    reference = world.send(unit=unit)
    assert not receiver.handled
    unit.commit(0)
    assert receiver.handled == [reference]
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.1.3.c")
def test_rollback_removes_it(world: QueueWorld) -> None:
    unit = world.unit()
    reference = world.send(unit=unit)
    unit.rollback()
    unit.rollback()
    assert unit.state.name == "ROLLED_BACK"
    assert holders(world.store, reference) == 0
    assert not world.queue.has_messages(MessageState.NOT_COMMITTED)


@pytest.mark.realises("JBM-9.2", "BOIL-ORD-5")
def test_messages_of_a_transaction_keep_their_order_and_take_their_places_at_the_commit(world: QueueWorld) -> None:
    unit, other = world.unit(), world.make_queue("queue://other")
    for text in "abc":
        world.send(text, unit=unit)
        world.send(text.upper(), unit=unit, queue=other)
    world.send("before")
    unit.commit(0)
    world.send("after")
    assert world.texts() == ["before", "a", "b", "c", "after"]
    assert world.reader(queue=other).texts() == ["A", "B", "C"]


@pytest.mark.realises("JBM-5.1.1.b")
def test_a_message_is_in_one_transaction_of_a_channel_at_a_time(world: QueueWorld) -> None:
    """The same envelope sent in two transactions is two messages, each with its own end."""
    first, second = world.unit(), world.unit()
    envelope = world.store.retrieve(world.send("a"))
    for unit in (first, second):
        world.queue.enqueue(world.store.store(envelope, None), unit)
    assert [entry.transaction for entry in world.queue.state.entries(MessageState.NOT_COMMITTED)] == [first, second]
    first.rollback()
    second.commit(0)
    assert world.texts() == ["a", "a"]


def test_what_is_sent_after_the_end_by_another_thread_is_dropped(world: QueueWorld) -> None:
    unit = world.unit()
    unit.rollback()
    reference = world.send(unit=unit)
    assert holders(world.store, reference) == 0
    assert not world.queue.has_messages(MessageState.NOT_COMMITTED)
    with pytest.raises(RolledBackError):
        unit.commit(0)


# Acknowledgements


@pytest.mark.realises("JBM-2.2.2", "JBM-5.3.1.b", "JBM-6.2.1.b")
def test_the_acknowledgement_of_a_pulled_message_counts_from_the_commit_on(world: QueueWorld) -> None:
    reader = world.reader()
    references = [world.send(text) for text in "ab"]
    unit = world.unit(reader.session)
    deliveries = [reader.pull(), reader.pull()]
    for delivery in deliveries:
        assert delivery is not None
        assert world.queue.settle_in(unit, [(entry_of(delivery), delivery.count)], reader.session)
        assert entry_of(delivery).transaction is unit
    assert world.queue.count(MessageState.DELIVERED) == 2
    unit.commit(0)
    assert world.queue.count(MessageState.DELIVERED) == 0
    assert [holders(world.store, reference) for reference in references] == [0, 0]


@pytest.mark.realises("JBM-6.2.1.b")
def test_rollback_drops_the_acknowledgement_of_a_pulled_message(world: QueueWorld) -> None:
    reader = world.reader()
    world.send("a")
    unit = world.unit(reader.session)
    delivery = reader.pull()
    assert delivery is not None
    world.queue.settle_in(unit, [(entry_of(delivery), delivery.count)], reader.session)
    unit.rollback()
    assert entry_of(delivery).transaction is None
    assert world.queue.count(MessageState.DELIVERED) == 1
    reader.give_back(delivery)
    assert reader.texts() == ["a"]


@pytest.mark.realises("JBM-6.2.1.a", "JBM-6.2.1.b", "JBM-5.3.1.b")
@pytest.mark.parametrize("commits", [True, False])
def test_the_later_acknowledgement_of_a_pushed_message_may_be_transacted(world: QueueWorld, commits: bool) -> None:
    receiver, unit = ScriptedReceiver("r"), world.unit()
    world.queue.add_receiver(receiver)
    reference = world.send()
    world.queue.acknowledge(reference.id, receiver.receiver_id, unit)
    assert world.queue.get_messages(MessageState.DELIVERED) == [reference]
    unit.commit(0) if commits else unit.rollback()
    assert world.queue.has_messages(MessageState.DELIVERED) is not commits
    assert holders(world.store, reference) == (0 if commits else 1)


def test_the_acknowledgement_of_a_delivery_that_is_over_is_not_taken(world: QueueWorld) -> None:
    reader = world.reader()
    world.send("a")
    delivery = reader.pull()
    assert delivery is not None
    reader.give_back(delivery)
    unit = world.unit(reader.session)
    assert not world.queue.settle_in(unit, [(entry_of(delivery), delivery.count)], reader.session)
    unit.commit(0)
    assert world.texts() == ["a"]


def test_a_delivery_that_ends_before_the_commit_is_not_settled_by_it(world: QueueWorld) -> None:
    reader, other = world.reader("reader"), world.reader("other")
    world.send("a")
    delivery = reader.pull()
    assert delivery is not None
    unit = world.unit(reader.session)
    world.queue.settle_in(unit, [(entry_of(delivery), delivery.count)], reader.session)
    reader.give_back(delivery)
    again = other.pull()
    assert again is not None
    unit.commit(0)
    assert world.queue.count(MessageState.DELIVERED) == 1, "the other one's"
    assert other.settle(again)


# Expiry


@pytest.mark.realises("JBM-5.1.3.b")
def test_the_expiry_of_one_message_rolls_its_transaction_back(world: QueueWorld) -> None:
    reader = world.reader()
    world.send("in")
    delivery = reader.pull()
    assert delivery is not None
    unit = world.unit(reader.session)
    world.queue.settle_in(unit, [(entry_of(delivery), delivery.count)], reader.session)
    references = [world.send("short", unit=unit, expiration_ms=1_010), world.send("long", unit=unit)]
    world.queue.run_due(1_010)
    assert unit.state.name == "DOOMED"
    assert [holders(world.store, reference) for reference in references] == [0, 0]
    late = world.send("late", unit=unit)
    assert holders(world.store, late) == 0
    with pytest.raises(RolledBackError, match="expired before the commit"):
        unit.commit(1_010)
    assert unit.state.name == "ROLLED_BACK"
    assert world.queue.count(MessageState.DELIVERED) == 1
    assert entry_of(delivery).transaction is None


@pytest.mark.realises("JBM-5.1.3.b")
@pytest.mark.parametrize("ends", ["commit", "stage", "rollback"])
def test_what_only_sends_may_be_staged_without_what_expired_in_it_and_is_rolled_back_otherwise(
    world: QueueWorld, ends: str
) -> None:
    unit = world.unit()
    references = [world.send("short", unit=unit, expiration_ms=1_010), world.send("long", unit=unit)]
    world.queue.run_due(1_010)
    assert unit.state.name == "INCOMPLETE"
    assert not unit.is_empty
    references.append(world.send("late", unit=unit))
    assert [holders(world.store, reference) for reference in references] == [0, 1, 1]
    if ends == "commit":
        with pytest.raises(RolledBackError, match="expired before the commit"):
            unit.commit(1_010)
    elif ends == "rollback":
        unit.rollback()
    else:
        unit.begin_commit(1_010, for_stage=True)
        unit.finish_commit(None)
    assert world.texts() == (["long", "late"] if ends == "stage" else [])
    assert len(world.store) == len(world.texts())


@pytest.mark.realises("JBM-5.1.3.b")
def test_the_commit_sees_an_expiry_that_the_housekeeper_has_not(world: QueueWorld) -> None:
    unit = world.unit()
    world.send("short", unit=unit, expiration_ms=1_010)
    world.send("long", unit=unit)
    with pytest.raises(RolledBackError):
        unit.commit(1_010)
    assert world.texts() == []
    assert len(world.store) == 0


@pytest.mark.parametrize("purged", [True, False])
def test_an_expired_message_is_merely_left_out_if_so_chosen(world: QueueWorld, purged: bool) -> None:
    unit = world.unit(expired_rolls_back=False)
    world.send("short", unit=unit, expiration_ms=1_010)
    world.send("long", unit=unit)
    world.clock.now_ms = 1_010
    if purged:
        world.queue.run_due(1_010)
    unit.commit(1_010)
    assert world.texts() == ["long"]


def test_an_expiry_after_the_commit_changes_nothing(world: QueueWorld) -> None:
    unit = world.unit()
    world.send("a", unit=unit, expiration_ms=1_010)
    unit.commit(1_009)
    unit.expire()
    assert unit.state.name == "COMMITTED"
    assert world.texts() == ["a"]
