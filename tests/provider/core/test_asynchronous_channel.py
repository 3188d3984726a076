"""The channel of JBoss Messaging Core: pushing to receivers, acknowledgements of both signs, early ones, browsing."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from pyjms.spi.receivers import PushTo, UnknownDeliveryError
from pyjms.spi.selector import compile_selector
from pyjms_provider.core.channel import Filter, Receiver, SelectorFilter
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.queue.queue import Queue
from tests.provider.helpers import QueueWorld, ScriptedReceiver, break_down, holders, refuse


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld()


def state_of(world: QueueWorld, reference: MessageReference, queue: Queue | None = None) -> MessageState:
    for state in MessageState:
        if reference in (queue or world.queue).get_messages(state):
            return state
    return MessageState.ABSENT


def pushing_to_all(world: QueueWorld, *receivers: Receiver) -> Queue:
    world.queue.pusher.push_to = PushTo.ALL
    for receiver in receivers:
        world.queue.add_receiver(receiver)
    return world.queue


# What a channel is


@pytest.mark.realises("JBM-7.a", "JBM-7.2", "JBM-2.2.a", "JBM-2.4.a", "JBM-2.d", "JBM-2.g", "JBM-2.1.c", "JBM-5.2.4.c")
def test_a_channel_says_what_it_is(world: QueueWorld) -> None:
    channel = world.queue
    assert isinstance(channel, Receiver)
    assert not channel.is_synchronous
    assert not channel.is_reliable
    assert channel.is_transactional
    assert channel.is_storing_undeliverable
    assert channel.receiver_id == channel.name == "queue://orders"
    assert channel.state.is_transactional
    assert not channel.state.is_reliable, "without a persistence manager"


@pytest.mark.realises("JBM-8.c")
def test_a_receiver_is_a_filter() -> None:
    assert issubclass(Receiver, Filter)
    assert issubclass(SelectorFilter, Filter)


# Accepting (§5.2)


@pytest.mark.realises("JBM-2.c", "JBM-5.2.4.a", "JBM-5.2.a", "JBM-5.2.2.a")
def test_what_nobody_takes_is_acknowledged_and_kept(world: QueueWorld) -> None:
    reference = world.store.store(world.store.retrieve(world.send("first")), None)
    assert world.queue.handle(reference), "acknowledged to the sender"
    assert state_of(world, reference) is MessageState.NEW
    assert reference.holders == 2, "the sender's hold and the channel's"


@pytest.mark.realises("JBM-5.2.3.b", "JBM-6.a", "JBM-6.1.a")
def test_a_positive_acknowledgement_at_delivery_ends_the_message(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", True)
    world.queue.add_receiver(receiver)
    reference = world.send()
    assert receiver.handled == [reference]
    assert state_of(world, reference) is MessageState.ABSENT
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.2.3.a", "JBM-5.3.a", "JBM-5.3.1.a", "JBM-6.1.a")
def test_a_negative_acknowledgement_makes_it_delivered(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    world.queue.add_receiver(receiver)
    reference = world.send()
    assert state_of(world, reference) is MessageState.DELIVERED
    entry = world.queue.state.pushed(reference.id)
    assert entry is not None
    assert entry.outstanding == {"r"}
    assert holders(world.store, reference) == 1


@pytest.mark.realises("JBM-5.2.a", "JBM-5.2.2.c", "JBM-5.2.b", "JBM-8.1.2.b", "JBM-8.a")
@pytest.mark.parametrize(
    "receiver",
    [
        ScriptedReceiver("never accepts", accepts=False),
        ScriptedReceiver("changes its mind", refuse),
        ScriptedReceiver("is broken", break_down),
        ScriptedReceiver("is broken when asked", accepts=break_down),
    ],
    ids=lambda receiver: receiver.receiver_id,
)
def test_a_failed_delivery_leaves_the_message_new(world: QueueWorld, receiver: ScriptedReceiver) -> None:
    world.queue.add_receiver(receiver)
    reference = world.send("kept")
    for _ in range(2):
        assert state_of(world, reference) is MessageState.NEW
        assert not world.queue.deliver()
    assert world.texts() == ["kept"]
    delivery = world.reader().pull()
    assert delivery is not None
    assert delivery.count == 1, "a failed attempt is no delivery"


@pytest.mark.realises("JBM-5.2.1")
def test_a_new_message_has_no_acknowledgements(world: QueueWorld) -> None:
    world.queue.add_receiver(ScriptedReceiver("r", refuse))
    world.send()
    (entry,) = world.queue.state.entries(MessageState.NEW)
    assert entry.acknowledgements is None
    assert entry.holder is None
    assert entry.transaction is None
    assert entry.outstanding == frozenset()


def test_a_message_that_a_receiver_leaves_wakes_a_consumer(world: QueueWorld) -> None:
    reader = world.reader(interested=True)
    world.queue.add_receiver(ScriptedReceiver("r", accepts=False))
    world.send("a")
    assert reader.wake_ups == 1
    assert reader.texts() == ["a"]


def test_receivers_are_asked_in_turn(world: QueueWorld) -> None:
    receivers = [ScriptedReceiver(str(number), True) for number in range(3)]
    for receiver in receivers:
        world.queue.add_receiver(receiver)
    for _ in range(6):
        world.send()
    assert [len(receiver.handled) for receiver in receivers] == [2, 2, 2]
    world.queue.remove_receiver(receivers[0])
    world.send()
    assert len(receivers[0].handled) == 2


# Several receivers


@pytest.mark.realises("JBM-5.2.3.b", "JBM-5.3.3.b")
def test_all_must_acknowledge_positively(world: QueueWorld) -> None:
    yes, later, much_later = (ScriptedReceiver(name, name == "yes") for name in ["yes", "later", "much later"])
    channel = pushing_to_all(world, yes, later, much_later)
    reference = world.send()
    assert state_of(world, reference) is MessageState.DELIVERED
    channel.acknowledge(reference.id, later.receiver_id)
    assert state_of(world, reference) is MessageState.DELIVERED
    channel.acknowledge(reference.id, much_later.receiver_id)
    assert state_of(world, reference) is MessageState.ABSENT
    assert holders(world.store, reference) == 0


def test_those_who_do_not_accept_owe_nothing(world: QueueWorld) -> None:
    later, refusing = ScriptedReceiver("later"), ScriptedReceiver("refusing", refuse)
    channel = pushing_to_all(world, later, refusing, ScriptedReceiver("deaf", accepts=False))
    reference = world.send()
    channel.acknowledge(reference.id, later.receiver_id)
    assert state_of(world, reference) is MessageState.ABSENT


# Later acknowledgements (§6.2)


@pytest.mark.realises("JBM-6.2", "JBM-5.3.3.c", "JBM-6.a")
def test_a_later_acknowledgement_cancels_the_negative_one(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r")
    world.queue.add_receiver(receiver)
    reference = world.send()
    world.queue.acknowledge(reference.id, receiver.receiver_id)
    assert state_of(world, reference) is MessageState.ABSENT
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-6.1.b")
def test_an_acknowledgement_that_nothing_waits_for_is_discarded(world: QueueWorld) -> None:
    world.queue.add_receiver(ScriptedReceiver("r"))
    reference = world.send()
    world.queue.acknowledge(reference.id, ReceiverId("somebody else"))
    assert state_of(world, reference) is MessageState.DELIVERED


@pytest.mark.realises("JBM-5.3.4.c")
def test_an_acknowledgement_without_a_delivery_is_an_error(world: QueueWorld) -> None:
    reference = world.send()
    for message_id in [reference.id, ReferenceId(10**6)]:
        with pytest.raises(UnknownDeliveryError, match="is not delivering message"):
            world.queue.acknowledge(message_id, ReceiverId("r"))
    assert state_of(world, reference) is MessageState.NEW


# The race (§5.3.4)


class Eager(ScriptedReceiver):
    """Acknowledges from within `handle`, before the channel has heard that the acknowledgement comes later."""

    def __init__(self, channel: Queue, *, from_another_thread: bool = False, then: object = False) -> None:
        super().__init__("eager")
        self.channel = channel
        self.from_another_thread = from_another_thread
        self.then = then
        self.states: list[MessageState] = []

    def handle(self, reference: MessageReference, transaction: object = None, redelivered: bool = False) -> bool:
        self.redelivered.append(redelivered)
        if self.from_another_thread:
            thread = Thread(target=self.channel.acknowledge, args=(reference.id, self.receiver_id))
            thread.start()
            thread.join(10)
            assert not thread.is_alive(), "the acknowledgement waits for the delivery, which waits for it"
        else:
            self.channel.acknowledge(reference.id, self.receiver_id)
        self.states += [state for state in MessageState if reference in self.channel.get_messages(state)]
        if callable(self.then):
            return bool(self.then(reference))
        return bool(self.then)


@pytest.mark.realises("JBM-5.3.4.a", "JBM-5.3.4.b", "JBM-6.1.c")
@pytest.mark.parametrize("from_another_thread", [True, False])
def test_an_early_acknowledgement_is_stored_and_cancels_the_negative_one(
    world: QueueWorld, from_another_thread: bool
) -> None:
    receiver = Eager(world.queue, from_another_thread=from_another_thread)
    world.queue.add_receiver(receiver)
    reference = world.send()
    assert receiver.states == [MessageState.DELIVERED], "NEW becomes DELIVERED by it"
    assert state_of(world, reference) is MessageState.ABSENT
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-5.3.4.d")
def test_a_badly_written_receiver_does_not_deadlock(world: QueueWorld) -> None:
    """It waits, within `handle`, for another thread that acknowledges: the channel holds no lock meanwhile."""
    receiver = Eager(world.queue, from_another_thread=True)
    world.queue.add_receiver(receiver)
    sender = Thread(target=world.send, daemon=True)
    sender.start()
    sender.join(10)
    assert not sender.is_alive()


@pytest.mark.parametrize("then", [True, refuse, break_down], ids=["positive", "refused", "broken"])
def test_an_early_acknowledgement_counts_whatever_the_delivery_says(world: QueueWorld, then: object) -> None:
    world.queue.add_receiver(Eager(world.queue, then=then))
    reference = world.send()
    assert state_of(world, reference) is MessageState.ABSENT


def test_an_early_acknowledgement_of_one_leaves_what_others_owe(world: QueueWorld) -> None:
    later = ScriptedReceiver("later")
    channel = pushing_to_all(world, Eager(world.queue), later)
    reference = world.send()
    assert state_of(world, reference) is MessageState.DELIVERED
    channel.acknowledge(reference.id, later.receiver_id)
    assert state_of(world, reference) is MessageState.ABSENT


def test_an_early_acknowledgement_during_a_redelivery_is_not_lost(world: QueueWorld) -> None:
    world.queue.add_receiver(ScriptedReceiver("eager"))
    reference = world.send()
    world.queue.redeliver(Eager(world.queue))
    assert state_of(world, reference) is MessageState.ABSENT


# deliver (§7.4)


@pytest.mark.realises("JBM-7.4.b")
def test_deliver_on_a_channel_without_new_messages_says_true(world: QueueWorld) -> None:
    assert world.queue.deliver()


@pytest.mark.realises("JBM-7.4.a", "JBM-7.4.b")
def test_deliver_tries_all_that_are_new_and_says_whether_any_remain(world: QueueWorld) -> None:
    for number in range(4):
        world.send(str(number), properties={"n": number})
    assert not world.queue.deliver(), "there are no receivers"
    even = SelectorFilter(world.store, compile_selector("n = 0 OR n = 2"))
    receiver = ScriptedReceiver("r", True, accepts=even.accept)
    world.queue.add_receiver(receiver)
    assert not world.queue.deliver()
    assert len(receiver.handled) == 2
    assert world.texts() == ["1", "3"]
    receiver.accepts = True
    assert world.queue.deliver()
    assert world.texts() == []


@pytest.mark.realises("JBM-7.4.a")
def test_deliver_leaves_what_arrives_meanwhile_to_the_next_call(world: QueueWorld) -> None:
    world.send("a")
    receiver = ScriptedReceiver("r", refuse)

    def send_once(reference: MessageReference) -> bool:
        world.queue.remove_receiver(receiver)
        world.send("b")
        world.queue.add_receiver(receiver)
        receiver.answer = True
        return True

    receiver.answer = send_once
    world.queue.add_receiver(receiver)
    assert not world.queue.deliver()
    assert world.texts() == ["b"]


@pytest.mark.realises("JBM-7.4.c", "JBM-5.3.3.e", "JBM-5.1.a")
def test_deliver_leaves_uncommitted_and_delivered_messages_alone(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r")
    world.queue.add_receiver(receiver)
    delivered = world.send()
    uncommitted = world.send(unit=world.unit())
    assert world.queue.deliver()
    assert receiver.handled == [delivered]
    assert state_of(world, delivered) is MessageState.DELIVERED
    assert state_of(world, uncommitted) is MessageState.NOT_COMMITTED


def test_an_expired_message_is_not_pushed(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", True)
    reference = world.send(expiration_ms=1_010)
    world.queue.add_receiver(receiver)
    world.clock.now_ms = 1_010
    assert world.queue.deliver()
    assert not receiver.handled
    assert holders(world.store, reference) == 0


@pytest.mark.parametrize("ending", ["expires", "closes"])
def test_a_message_may_end_while_a_receiver_has_it(world: QueueWorld, ending: str) -> None:
    def end(reference: MessageReference) -> bool:
        world.queue.close() if ending == "closes" else world.queue.run_due(2_000)
        return False

    world.queue.add_receiver(ScriptedReceiver("r", end))
    reference = world.send(expiration_ms=1_010)
    assert state_of(world, reference) is MessageState.ABSENT
    assert holders(world.store, reference) == 0


# redeliver (§7.5)


@pytest.mark.realises("JBM-7.5.a", "JBM-7.5.b", "JBM-7.5.c", "JBM-5.3.3.d", "JBM-5.3.3.e")
def test_a_receiver_asks_for_what_it_owes_and_chooses_again(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r")
    world.queue.add_receiver(receiver)
    references = [world.send(str(number)) for number in range(3)]
    world.queue.acknowledge(references[1].id, receiver.receiver_id)
    assert receiver.redelivered == [False] * 3
    receiver.handled.clear()
    world.queue.redeliver(receiver)
    assert receiver.handled == [references[0], references[2]]
    assert receiver.redelivered[3:] == [True, True]
    assert world.queue.count(MessageState.DELIVERED) == 2
    receiver.answer = True
    world.queue.redeliver(receiver)
    assert world.queue.count(MessageState.DELIVERED) == 0
    assert len(world.store) == 0


@pytest.mark.realises("JBM-7.5.d")
def test_a_disconnected_receiver_may_still_ask(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r")
    world.queue.add_receiver(receiver)
    reference = world.send()
    world.queue.remove_receiver(receiver)
    receiver.answer = True
    world.queue.redeliver(receiver)
    assert state_of(world, reference) is MessageState.ABSENT


@pytest.mark.realises("JBM-7.5.e")
def test_new_messages_are_not_delivered_along(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r")
    world.queue.add_receiver(receiver)
    old = world.send("old")
    world.queue.remove_receiver(receiver)
    new = world.send("new")
    receiver.handled.clear()
    world.queue.redeliver(receiver)
    assert receiver.handled == [old]
    assert state_of(world, new) is MessageState.NEW


@pytest.mark.realises("JBM-8.1.2.b")
@pytest.mark.parametrize("answer", [refuse, break_down], ids=["refuses", "breaks"])
def test_a_failed_redelivery_changes_nothing(world: QueueWorld, answer: object) -> None:
    receiver = ScriptedReceiver("r")
    world.queue.add_receiver(receiver)
    reference = world.send()
    receiver.answer = answer  # type: ignore[assignment]
    world.queue.redeliver(receiver)
    assert state_of(world, reference) is MessageState.DELIVERED
    world.queue.acknowledge(reference.id, receiver.receiver_id)
    assert state_of(world, reference) is MessageState.ABSENT


def test_one_receivers_redelivery_does_not_concern_another(world: QueueWorld) -> None:
    first, second = ScriptedReceiver("first"), ScriptedReceiver("second")
    pushing_to_all(world, first, second)
    reference = world.send()
    first.answer = True
    world.queue.redeliver(first)
    assert len(second.handled) == 1
    assert state_of(world, reference) is MessageState.DELIVERED
    world.queue.acknowledge(reference.id, second.receiver_id)
    assert state_of(world, reference) is MessageState.ABSENT


# Filters (§8)


@pytest.mark.realises("JBM-8.b", "JBM-8.1.2.c")
def test_asking_whether_a_message_is_wanted_delivers_nothing(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", True, accepts=lambda reference: reference.priority > 4)
    assert not receiver.accept(world.send(priority=1))
    assert receiver.accept(world.send(priority=7))
    assert not receiver.handled
    assert world.queue.accept(world.send())


@pytest.mark.realises("JBM-8.1.a", "JBM-8.1.2.a", "JBM-8.1.1")
def test_a_mind_may_change_between_accept_and_handle(world: QueueWorld) -> None:
    """No lock keeps a receiver to its word: `handle` says so itself, and the next receiver is asked."""
    fickle, willing = ScriptedReceiver("fickle", refuse), ScriptedReceiver("willing", True)
    world.queue.add_receiver(fickle)
    world.queue.add_receiver(willing)
    reference = world.send()
    assert fickle.handled == willing.handled == [reference]
    assert state_of(world, reference) is MessageState.ABSENT


# Looking (§7.6, §7.7)


@pytest.mark.realises("JBM-7.6")
def test_browsing_returns_messages_in_order_all_or_those_that_a_filter_accepts(world: QueueWorld) -> None:
    for number in [3, 9, 3, 5]:
        world.send(str(number), priority=number, properties={"n": number})
    world.send("unseen", unit=world.unit())
    assert world.texts() == ["9", "5", "3", "3"]
    few = world.queue.browse(SelectorFilter(world.store, compile_selector("n > 4")))
    assert [envelope.body for envelope in few] == ["9", "5"]
    assert world.queue.count(MessageState.NEW) == 4


@pytest.mark.realises("JBM-7.7.a", "JBM-7.7.b", "JBM-2.e", "JBM-2.h", "JBM-2.i")
def test_the_state_of_a_channel_is_the_union_of_its_messages_states(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", accepts=lambda reference: reference.priority == 9)
    world.queue.add_receiver(receiver)
    by_state = {
        MessageState.NEW: [world.send("a"), world.send("b")],
        MessageState.DELIVERED: [world.send("c", priority=9)],
        MessageState.NOT_COMMITTED: [world.send("d", unit=world.unit())],
        MessageState.ABSENT: [],
    }
    for state, references in by_state.items():
        assert world.queue.get_messages(state) == references
        assert world.queue.count(state) == len(references)
        assert world.queue.has_messages(state) is bool(references)
        assert all(type(reference) is MessageReference for reference in world.queue.get_messages(state))
    assert not any("body" in name or "envelope" in name for name in MessageReference.__slots__)


def test_a_message_that_is_being_pushed_counts_as_new(world: QueueWorld) -> None:
    entered, leave = Event(), Event()

    def wait(reference: MessageReference) -> bool:
        entered.set()
        return leave.wait(10)

    world.queue.add_receiver(ScriptedReceiver("slow", wait))
    sender = Thread(target=world.send, daemon=True)
    sender.start()
    assert entered.wait(10)
    assert world.queue.count(MessageState.NEW) == 1
    assert world.reader().pull() is None, "nobody else gets it meanwhile"
    leave.set()
    sender.join(10)
    assert world.queue.count(MessageState.NEW) == 0
