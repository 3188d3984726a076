"""Acknowledgements of messages that were pushed: at delivery, later, early, within transactions, on redelivery."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from pyjms.spi.errors import RolledBackError
from pyjms.spi.receivers import PushTo, UnknownDeliveryError
from pyjms_provider.core.message.entry import QueueEntry, ReceiverId
from pyjms_provider.core.message.message_state import TRANSITIONS, MessageEvent, MessageState
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.queue.channel_state import ChannelState
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.state_machine import ForbiddenTransitionError
from pyjms_provider.core.transaction.unit_of_work import UnitState
from tests.provider.helpers import QueueWorld, ScriptedReceiver, break_down, holders, make_envelope, refuse, text_of

NEW = MessageState.NEW
NOT_COMMITTED = MessageState.NOT_COMMITTED
DELIVERED = MessageState.DELIVERED


class FanOut(Queue):
    """A queue that pushes each message to all its receivers."""

    def __init__(self, world: QueueWorld) -> None:
        self.state = ChannelState(world.store)
        super().__init__("queue://all", world.store, self.state, world.clock)
        self.pusher.push_to = PushTo.ALL

    def only_entry(self) -> QueueEntry:
        (entry,) = [entry for state in MessageState for entry in self.state.entries(state)]
        return entry


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld()


@pytest.fixture
def fan_out(world: QueueWorld) -> FanOut:
    return FanOut(world)


def counts(queue: Queue) -> dict[str, int]:
    return {state.name: queue.count(state) for state in MessageState if queue.count(state)}


def connect(queue: Queue, *receivers: ScriptedReceiver) -> None:
    for receiver in receivers:
        queue.add_receiver(receiver)


# At delivery


@pytest.mark.realises("JBM-6.a", "JBM-6.1.a")
def test_a_positive_acknowledgement_at_delivery_settles(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", True)
    connect(world.queue, receiver)
    reference = world.send()
    assert receiver.handled == [reference]
    assert counts(world.queue) == {}
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-6.a", "JBM-6.1.a", "JBM-5.2.3.a", "JBM-5.3.a", "JBM-6.2", "JBM-5.3.3.b", "JBM-5.3.3.c")
def test_a_negative_one_keeps_the_message_until_the_positive_one_comes(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    connect(world.queue, receiver)
    reference = world.send()
    assert counts(world.queue) == {"DELIVERED": 1}
    assert holders(world.store, reference) == 1
    world.queue.acknowledge(reference.id, receiver.receiver_id)
    assert counts(world.queue) == {}
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.2.3.b", "JBM-6.1.a")
def test_a_message_goes_when_all_receivers_acknowledge_at_delivery(world: QueueWorld, fan_out: FanOut) -> None:
    one, two, deaf = ScriptedReceiver("1", True), ScriptedReceiver("2", True), ScriptedReceiver("3", accepts=False)
    connect(fan_out, one, two, deaf)
    reference = world.send(queue=fan_out)
    assert one.handled == two.handled == [reference]
    assert counts(fan_out) == {}
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.2.3.a", "JBM-5.3.a", "JBM-5.3.1.a", "JBM-6.1.a", "JBM-6.1.c")
def test_one_negative_acknowledgement_of_several_is_enough_to_keep_it(world: QueueWorld, fan_out: FanOut) -> None:
    connect(
        fan_out,
        ScriptedReceiver("owes", False),
        ScriptedReceiver("paid", True),
        ScriptedReceiver("owes too", False),
        ScriptedReceiver("refused", refuse),
        ScriptedReceiver("broken", break_down),
    )
    world.send(queue=fan_out)
    assert counts(fan_out) == {"DELIVERED": 1}
    assert fan_out.only_entry().outstanding == {"owes", "owes too"}


# Later


@pytest.mark.realises("JBM-5.3.3.b", "JBM-5.3.3.c", "JBM-5.3.1.a", "JBM-6.1.b", "JBM-6.2")
def test_a_message_goes_with_the_last_outstanding_acknowledgement(world: QueueWorld, fan_out: FanOut) -> None:
    connect(fan_out, ScriptedReceiver("a", False), ScriptedReceiver("b", False))
    reference = world.send(queue=fan_out)
    fan_out.acknowledge(reference.id, ReceiverId("b"))
    assert counts(fan_out) == {"DELIVERED": 1}
    assert fan_out.only_entry().outstanding == {"a"}, "each cancels its own"
    fan_out.acknowledge(reference.id, ReceiverId("a"))
    assert counts(fan_out) == {}
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-6.1.b")
def test_a_positive_acknowledgement_with_nothing_to_cancel_is_discarded(world: QueueWorld, fan_out: FanOut) -> None:
    connect(fan_out, ScriptedReceiver("a", False), ScriptedReceiver("b", False))
    reference = world.send(queue=fan_out)
    for receiver_id in ("stranger", "a", "a"):
        fan_out.acknowledge(reference.id, ReceiverId(receiver_id))
        assert counts(fan_out) == {"DELIVERED": 1}
    assert fan_out.only_entry().outstanding == {"b"}
    acknowledgements = fan_out.only_entry().acknowledgements
    assert acknowledgements is not None
    assert acknowledgements.positive == set(), "none is stored"


@pytest.mark.realises("JBM-5.3.3.e")
def test_a_delivered_message_is_not_delivered_again_unless_its_receiver_asks(world: QueueWorld) -> None:
    receiver, other = ScriptedReceiver("r", False), ScriptedReceiver("other", True)
    connect(world.queue, receiver)
    first = world.send()
    world.queue.remove_receiver(receiver)
    connect(world.queue, other)
    second = world.send()
    world.queue.deliver()
    world.queue.redeliver(other)
    assert (receiver.handled, other.handled) == ([first], [second])
    assert world.reader().pull() is None
    world.queue.redeliver(receiver)
    assert receiver.handled == [first, first]


# Early


@pytest.mark.realises("JBM-5.3.4.a", "JBM-5.3.4.b", "JBM-6.1.c")
def test_an_acknowledgement_that_overtakes_the_deliverys_own_is_kept_for_it(world: QueueWorld) -> None:
    receiver_id = ReceiverId("r")
    state = ChannelState(world.store)
    queue = Queue("queue://own", world.store, state, world.clock)
    seen: list[tuple[dict[str, int], set[ReceiverId]]] = []

    def acknowledge_early(reference: MessageReference) -> bool:
        assert counts(queue) == {"NEW": 1}
        queue.acknowledge(reference.id, receiver_id)
        (entry,) = state.entries(DELIVERED)
        assert entry.acknowledgements is not None
        seen.append((counts(queue), set(entry.acknowledgements.positive)))
        return False

    connect(queue, ScriptedReceiver("r", acknowledge_early))
    reference = world.send(queue=queue)
    assert seen == [({"DELIVERED": 1}, {receiver_id})]
    assert counts(queue) == {}, "the negative one cancelled against it"
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.3.4.a", "JBM-5.3.4.b")
def test_an_early_acknowledgement_cancels_its_own_receivers_alone(world: QueueWorld, fan_out: FanOut) -> None:
    def acknowledge_early(reference: MessageReference) -> bool:
        fan_out.acknowledge(reference.id, ReceiverId("early"))
        return False

    connect(fan_out, ScriptedReceiver("slow", False), ScriptedReceiver("early", acknowledge_early))
    world.send(queue=fan_out)
    assert fan_out.only_entry().outstanding == {"slow"}
    fan_out.acknowledge(fan_out.only_entry().reference.id, ReceiverId("slow"))
    assert counts(fan_out) == {}


@pytest.mark.realises("JBM-5.3.4.a")
def test_the_first_of_several_may_acknowledge_while_the_next_is_asked(world: QueueWorld, fan_out: FanOut) -> None:
    def acknowledge_for_the_first(reference: MessageReference) -> bool:
        fan_out.acknowledge(reference.id, ReceiverId("first"))
        assert counts(fan_out) == {"DELIVERED": 1}, "the delivery is still under way"
        return False

    connect(fan_out, ScriptedReceiver("first", False), ScriptedReceiver("second", acknowledge_for_the_first))
    reference = world.send(queue=fan_out)
    assert fan_out.only_entry().outstanding == {"second"}
    fan_out.acknowledge(reference.id, ReceiverId("second"))
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.3.4.a", "JBM-7.5.c")
def test_an_acknowledgement_may_overtake_a_redelivery_too(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    connect(world.queue, receiver)
    reference = world.send()

    def acknowledge_early(reference: MessageReference) -> bool:
        world.queue.acknowledge(reference.id, receiver.receiver_id)
        return False

    receiver.answer = acknowledge_early
    world.queue.redeliver(receiver)
    assert counts(world.queue) == {}
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.3.4.a")
@pytest.mark.parametrize("then", [refuse, break_down])
def test_an_early_acknowledgement_counts_whatever_the_receiver_does_then(
    world: QueueWorld, then: Callable[[MessageReference], bool]
) -> None:
    def acknowledge_first(reference: MessageReference) -> bool:
        world.queue.acknowledge(reference.id, ReceiverId("r"))
        return then(reference)

    connect(world.queue, ScriptedReceiver("r", acknowledge_first))
    reference = world.send()
    assert counts(world.queue) == {}
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.3.4.c")
def test_an_acknowledgement_without_a_message_is_an_error(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    connect(world.queue, receiver)
    with pytest.raises(UnknownDeliveryError, match="r cannot acknowledge it"):
        world.queue.acknowledge(ReferenceId(77), receiver.receiver_id)
    uncommitted = world.send(unit=world.unit())
    with pytest.raises(UnknownDeliveryError):
        world.queue.acknowledge(uncommitted.id, receiver.receiver_id)
    with pytest.raises(ForbiddenTransitionError):
        TRANSITIONS[MessageState.ABSENT, MessageEvent.EARLY_POSITIVE_ACKNOWLEDGEMENT]


@pytest.mark.realises("JBM-5.3.4.d")
def test_a_receiver_that_waits_for_its_own_acknowledgement_hangs_nothing(world: QueueWorld) -> None:
    """Acknowledgements are taken during delivery, so a badly written receiver cannot lock the channel up."""
    ended: list[bool] = []

    def wait_for_another_thread(reference: MessageReference) -> bool:
        arguments = (reference.id, ReceiverId("r"))
        thread = Thread(target=world.queue.acknowledge, args=arguments, daemon=True)
        thread.start()
        thread.join(30)
        ended.append(not thread.is_alive())
        return False

    connect(world.queue, ScriptedReceiver("r", wait_for_another_thread))
    world.send()
    assert ended == [True]
    assert counts(world.queue) == {}


# Redelivery


@pytest.mark.realises("JBM-7.5.a", "JBM-7.5.b", "JBM-5.3.3.d")
def test_a_receiver_gets_again_what_it_owes_and_nothing_else(world: QueueWorld) -> None:
    one, two = ScriptedReceiver("one", False), ScriptedReceiver("two", False)
    connect(world.queue, one, two)
    references = [world.send() for _ in range(6)]
    assert one.handled == references[::2]
    world.queue.acknowledge(references[2].id, one.receiver_id)
    one.handled.clear()
    one.redelivered.clear()
    one.answer = True
    world.queue.redeliver(one)
    assert one.handled == [references[0], references[4]]
    assert one.redelivered == [True, True]
    assert two.redelivered == [False] * 3
    assert world.queue.get_messages(DELIVERED) == references[1::2]
    assert [holders(world.store, reference) for reference in references] == [0, 1] * 3


@pytest.mark.realises("JBM-7.5.c", "JBM-5.3.3.d", "JBM-7.5.b")
def test_on_redelivery_the_receiver_chooses_again(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    connect(world.queue, receiver)
    later, now = world.send(), world.send()
    receiver.answer = lambda reference: reference is now
    world.queue.redeliver(receiver)
    assert receiver.redelivered == [False, False, True, True]
    assert world.queue.get_messages(DELIVERED) == [later]
    world.queue.acknowledge(later.id, receiver.receiver_id)
    assert counts(world.queue) == {}


@pytest.mark.realises("JBM-7.5.d")
def test_a_receiver_that_is_disconnected_can_ask(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    connect(world.queue, receiver)
    reference = world.send()
    world.queue.remove_receiver(receiver)
    world.send()
    receiver.answer = True
    world.queue.redeliver(receiver)
    assert receiver.handled == [reference, reference]
    assert receiver.redelivered == [False, True]
    assert counts(world.queue) == {"NEW": 1}


@pytest.mark.realises("JBM-7.5.e")
def test_new_messages_are_not_delivered_along_with_a_redelivery(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    connect(world.queue, receiver)
    delivered = world.send()
    receiver.accepts = lambda reference: reference is delivered
    new = world.send()
    receiver.accepts = True
    world.queue.redeliver(receiver)
    assert receiver.handled == [delivered, delivered]
    assert world.queue.get_messages(NEW) == [new]


def test_a_receiver_that_breaks_on_redelivery_owes_as_before(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    connect(world.queue, receiver)
    reference = world.send()
    receiver.answer = break_down
    world.queue.redeliver(receiver)
    assert world.queue.get_messages(DELIVERED) == [reference]
    world.queue.acknowledge(reference.id, receiver.receiver_id)
    assert counts(world.queue) == {}


# Acknowledgements in transactions


@pytest.mark.realises("JBM-2.2.2", "JBM-6.2.1.a", "JBM-6.2.1.b", "JBM-2.4.b")
def test_an_acknowledgement_in_a_transaction_counts_from_the_commit_on(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    connect(world.queue, receiver)
    references = [world.send(), world.send()]
    unit = world.unit()
    for reference in references:
        world.queue.acknowledge(reference.id, receiver.receiver_id, unit)
    assert world.queue.get_messages(DELIVERED) == references
    unit.commit(0)
    assert counts(world.queue) == {}
    assert [holders(world.store, reference) for reference in references] == [0, 0]


@pytest.mark.realises("JBM-6.2.1.b", "JBM-2.2.2")
def test_an_acknowledgement_is_dropped_when_its_transaction_rolls_back(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    connect(world.queue, receiver)
    reference = world.send()
    unit = world.unit()
    world.queue.acknowledge(reference.id, receiver.receiver_id, unit)
    unit.rollback()
    assert world.queue.get_messages(DELIVERED) == [reference]
    world.queue.redeliver(receiver)
    assert receiver.redelivered == [False, True], "the receiver owes it still"
    second = world.unit()
    world.queue.acknowledge(reference.id, receiver.receiver_id, second)
    second.commit(0)
    assert counts(world.queue) == {}


@pytest.mark.realises("JBM-6.2.1.b", "JBM-5.3.4.a")
@pytest.mark.parametrize("commits", [True, False])
def test_an_early_acknowledgement_may_be_transacted(world: QueueWorld, commits: bool) -> None:
    unit = world.unit()

    def acknowledge_early(reference: MessageReference) -> bool:
        world.queue.acknowledge(reference.id, ReceiverId("r"), unit)
        return False

    connect(world.queue, ScriptedReceiver("r", acknowledge_early))
    world.send()
    assert counts(world.queue) == {"DELIVERED": 1}, "nothing is committed yet"
    if commits:
        unit.commit(0)
    else:
        unit.rollback()
    assert counts(world.queue) == ({} if commits else {"DELIVERED": 1})


# Messages in transactions


@pytest.mark.realises("JBM-5.1.a", "JBM-5.1.2", "JBM-2.2.1.a")
def test_a_message_in_a_transaction_is_seen_by_nobody(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", True)
    connect(world.queue, receiver)
    reader = world.reader(interested=True)
    reference = world.store.store(make_envelope(), None)
    assert world.queue.handle(reference, world.unit())
    world.queue.deliver()
    assert world.queue.get_messages(NOT_COMMITTED) == [reference]
    assert receiver.handled == []
    assert reader.wake_ups == 0
    assert reader.pull() is None
    assert world.texts() == []


@pytest.mark.realises("JBM-5.1.3.a", "JBM-5.2.2.b")
def test_commit_makes_a_message_new(world: QueueWorld) -> None:
    unit = world.unit()
    world.send("a", unit=unit)
    assert counts(world.queue) == {"NOT_COMMITTED": 1}
    unit.commit(0)
    assert counts(world.queue) == {"NEW": 1}


@pytest.mark.realises("JBM-2.2.1.b")
def test_the_channel_attempts_delivery_at_commit(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", True, accepts=lambda reference: reference.priority == 9)
    connect(world.queue, receiver)
    reader = world.reader(interested=True)
    unit = world.unit()
    pushed = world.send("pushed", priority=9, unit=unit)
    world.send("pulled", unit=unit)
    unit.commit(0)
    assert receiver.handled == [pushed]
    assert reader.wake_ups == 1
    assert text_of(reader.pull()) == "pulled"


@pytest.mark.realises("JBM-5.1.3.c")
def test_rollback_removes_a_message(world: QueueWorld) -> None:
    unit = world.unit()
    reference = world.send(unit=unit)
    unit.rollback()
    assert counts(world.queue) == {}
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.1.3.b")
def test_the_expiry_of_one_message_rolls_its_transaction_back(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    connect(world.queue, receiver)
    received = world.send("received")
    other = world.make_queue("queue://other")
    unit, bystander = world.unit(), world.unit()
    world.send("short", unit=unit, expiration_ms=2_000)
    world.send("long", unit=unit, queue=other)
    world.send("bystander", unit=bystander)
    world.queue.acknowledge(received.id, receiver.receiver_id, unit)
    world.queue.run_due(1_999)
    assert unit.state is UnitState.OPEN
    world.queue.run_due(2_000)
    assert counts(other) == {}, "the other messages of the transaction go"
    assert counts(world.queue) == {"NOT_COMMITTED": 1, "DELIVERED": 1}
    with pytest.raises(RolledBackError, match="expired"):
        unit.commit(2_000)
    assert world.queue.get_messages(DELIVERED) == [received], "its acknowledgements do not count"
    bystander.commit(2_000)
    assert receiver.handled[1:] == world.queue.get_messages(DELIVERED)[1:]


@pytest.mark.realises("JBM-5.1.3.b")
def test_a_message_that_has_expired_unnoticed_rolls_back_at_commit(world: QueueWorld) -> None:
    unit = world.unit()
    world.send("short", unit=unit, expiration_ms=2_000)
    world.send("long", unit=unit)
    with pytest.raises(RolledBackError):
        unit.commit(2_000)
    assert counts(world.queue) == {}
    assert len(world.store) == 0


@pytest.mark.realises("JBM-5.1.1.a")
def test_the_state_names_the_transaction(world: QueueWorld, fan_out: FanOut) -> None:
    unit = world.unit()
    world.send(unit=unit, queue=fan_out)
    entry = fan_out.only_entry()
    assert entry.transaction is unit
    assert entry.transaction.unit_id == "unit"
    unit.commit(0)
    assert entry.transaction is None


@pytest.mark.realises("JBM-5.1.1.b")
def test_a_message_is_in_one_transaction_at_a_time(world: QueueWorld) -> None:
    """What is sent in two transactions is two messages, so each transaction decides about its own."""
    first, second = world.unit(), world.unit()
    envelope = make_envelope("a")
    one, two = world.store.store(envelope, None), world.store.store(envelope, None)
    world.queue.enqueue(one, first)
    world.queue.enqueue(two, second)
    assert world.queue.get_messages(NOT_COMMITTED) == [one, two]
    assert one != two
    with pytest.raises(ForbiddenTransitionError):
        TRANSITIONS[NOT_COMMITTED, MessageEvent.ACCEPT_IN_TRANSACTION]
    first.rollback()
    assert world.queue.get_messages(NOT_COMMITTED) == [two]
    second.commit(0)
    assert world.queue.get_messages(NEW) == [two]
    assert (holders(world.store, one), holders(world.store, two)) == (0, 1)


@pytest.mark.realises("JBM-9.2")
def test_the_order_within_a_transaction_is_kept(world: QueueWorld) -> None:
    unit, other = world.unit(), world.unit()
    for text in "abc":
        world.send(text, unit=unit)
        world.send(text.upper(), unit=other)
    world.send("before")
    other.commit(0)
    unit.commit(0)
    assert world.reader().texts() == ["before", "A", "B", "C", "a", "b", "c"]


@pytest.mark.realises("JBM-9.2")
def test_the_order_within_a_transaction_is_kept_for_receivers(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", True)
    connect(world.queue, receiver)
    unit = world.unit()
    references = [world.send(unit=unit) for _ in range(5)]
    unit.commit(0)
    assert receiver.handled == references
