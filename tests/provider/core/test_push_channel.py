"""A channel that pushes: receivers that accept, refuse or break; delivering, browsing, counting; how work is announced."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Thread

import pytest

from pyjms.spi.selector import compile_selector
from pyjms_provider.core.channel import Channel, ChannelClosedError, Filter, Receiver, SelectorFilter
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference
from pyjms_provider.core.queue.channel_state import ChannelState, Reliability
from pyjms_provider.core.queue.entry_list import PriorityQueueEntryList
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.queue.statistics import Step, tracing
from tests.provider.helpers import QueueWorld, ScriptedReceiver, break_down, holders, make_envelope, refuse, text_of

NEW = MessageState.NEW
NOT_COMMITTED = MessageState.NOT_COMMITTED
DELIVERED = MessageState.DELIVERED


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld()


def counts(queue: Queue) -> dict[str, int]:
    return {state.name: queue.count(state) for state in MessageState if queue.count(state)}


# Messages that nobody takes


@pytest.mark.realises("JBM-5.2.a", "JBM-5.2.2.a", "JBM-5.2.4.a", "JBM-2.c")
@pytest.mark.parametrize(
    "receivers",
    [
        pytest.param([], id="there are no receivers"),
        pytest.param([ScriptedReceiver("a", accepts=False), ScriptedReceiver("b", refuse)], id="none accepts"),
        pytest.param([ScriptedReceiver("a", break_down), ScriptedReceiver("b", break_down)], id="all are broken"),
    ],
)
def test_a_message_that_nobody_takes_is_acknowledged_and_kept(
    world: QueueWorld, receivers: list[ScriptedReceiver]
) -> None:
    for receiver in receivers:
        world.queue.add_receiver(receiver)
    reference = world.store.store(make_envelope("a"), None)
    assert world.queue.handle(reference), "the sender is told that all is well"
    assert counts(world.queue) == {"NEW": 1}
    for receiver in receivers:
        world.queue.remove_receiver(receiver)
    later = ScriptedReceiver("later", True)
    world.queue.add_receiver(later)
    assert world.queue.deliver(), "tried again later"
    assert later.handled == [reference]
    assert counts(world.queue) == {}


@pytest.mark.realises("JBM-5.2.2.c")
@pytest.mark.parametrize(
    "receiver",
    [
        pytest.param(None, id="there are no receivers"),
        pytest.param(ScriptedReceiver("a", accepts=False), id="none accepts"),
        pytest.param(ScriptedReceiver("a", break_down), id="all are broken"),
    ],
)
def test_a_failed_attempt_leaves_a_message_new_and_in_its_place(
    world: QueueWorld, receiver: ScriptedReceiver | None
) -> None:
    for text in "abc":
        world.send(text)
    if receiver is not None:
        world.queue.add_receiver(receiver)
    for _ in range(2):
        assert not world.queue.deliver()
        assert counts(world.queue) == {"NEW": 3}
        assert world.texts() == ["a", "b", "c"]


@pytest.mark.realises("JBM-5.2.b")
def test_a_broken_receiver_loses_no_message(world: QueueWorld, caplog: pytest.LogCaptureFixture) -> None:
    broken = ScriptedReceiver("broken", break_down)
    world.queue.add_receiver(broken)
    reference = world.send("a")
    assert broken.handled == [reference]
    assert holders(world.store, reference) == 1
    assert world.texts() == ["a"]
    assert "receiver broken is broken" in caplog.text
    sound = ScriptedReceiver("sound", True)
    world.queue.add_receiver(sound)
    assert world.queue.deliver()
    assert sound.handled == [reference], "the next one gets it instead"
    assert sound.redelivered == [False], "nobody has had it before"


@pytest.mark.realises("JBM-5.2.1")
def test_a_new_message_carries_nothing_but_its_state() -> None:
    world = QueueWorld()
    state = ChannelState(world.store)
    queue = Queue("queue://own", world.store, state, world.clock)
    world.send("plain", queue=queue)
    unit = world.unit()
    world.send("committed", queue=queue, unit=unit)
    unit.commit(0)
    queue.add_receiver(ScriptedReceiver("refusing", refuse))
    world.send("refused", queue=queue)
    entries = state.entries(NEW)
    assert len(entries) == 3
    for entry in entries:
        assert entry.transaction is None
        assert entry.holder is None
        assert entry.acknowledgements is None
        assert entry.outstanding == frozenset()


@pytest.mark.realises("JBM-5.2.4.c")
def test_a_sender_can_ask_what_becomes_of_a_message_that_nobody_takes(world: QueueWorld) -> None:
    channel: Channel = world.queue
    assert channel.is_storing_undeliverable
    world.send()
    assert channel.has_messages(NEW)


# Accepting


@pytest.mark.realises("JBM-8.a", "JBM-8.c")
def test_a_connected_receiver_takes_what_it_wants_through_a_filter_or_its_own_mind(world: QueueWorld) -> None:
    red: Filter = SelectorFilter(world.store, compile_selector("colour = 'red'"))
    reds = ScriptedReceiver("reds", True, accepts=red.accept)
    urgent = ScriptedReceiver("urgent", True, accepts=lambda reference: reference.priority > 4)
    assert isinstance(reds, Filter), "a receiver is a filter"
    world.queue.add_receiver(reds)
    world.queue.add_receiver(urgent)
    first = world.send("a", properties={"colour": "red"})
    second = world.send("b", priority=9)
    third = world.send("c", properties={"colour": "blue"})
    assert (reds.handled, urgent.handled) == ([first], [second])
    assert world.queue.get_messages(NEW) == [third]


@pytest.mark.realises("JBM-8.b", "JBM-8.1.2.c")
def test_asking_beforehand_delivers_nothing() -> None:
    world = QueueWorld(reliability=Reliability.STRICT)
    receiver: Receiver = world.queue
    safe = world.store.store(make_envelope(), None)
    unsafe = world.store.store(make_envelope(persistent=True), None)
    assert receiver.accept(safe)
    assert not receiver.accept(unsafe)
    assert counts(world.queue) == {}
    world.queue.handle(safe)
    world.queue.close()
    assert not receiver.accept(safe)


@pytest.mark.realises("JBM-8.b")
def test_a_channel_asks_a_receiver_before_it_delivers(world: QueueWorld) -> None:
    asked: list[MessageReference] = []

    def decline(reference: MessageReference) -> bool:
        asked.append(reference)
        return False

    receiver = ScriptedReceiver("r", True, accepts=decline)
    world.queue.add_receiver(receiver)
    reference = world.send()
    assert asked == [reference]
    assert receiver.handled == []


@pytest.mark.realises("JBM-8.1.a", "JBM-8.1.2.a", "JBM-8.1.2.b")
def test_a_receiver_whose_mind_changes_has_acknowledged_nothing(
    world: QueueWorld, caplog: pytest.LogCaptureFixture
) -> None:
    fickle = ScriptedReceiver("fickle", refuse, accepts=True)
    world.queue.add_receiver(fickle)
    reference = world.send("a")
    assert fickle.handled == [reference], "it was asked, said yes, and then refused"
    assert counts(world.queue) == {"NEW": 1}
    assert caplog.text == "", "this is nothing unusual"
    world.queue.redeliver(fickle)
    assert len(fickle.handled) == 1, "it owes nothing"
    fickle.answer = False
    assert world.queue.deliver()
    assert counts(world.queue) == {"DELIVERED": 1}
    assert fickle.redelivered == [False, False], "the refused attempt was no delivery"


@pytest.mark.realises("JBM-8.1.2.b")
def test_a_refused_redelivery_leaves_the_debt_as_it_was(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    world.queue.add_receiver(receiver)
    reference = world.send()
    receiver.answer = refuse
    world.queue.redeliver(receiver)
    assert len(receiver.handled) == 2
    assert counts(world.queue) == {"DELIVERED": 1}
    world.queue.acknowledge(reference.id, receiver.receiver_id)
    assert counts(world.queue) == {}


@pytest.mark.realises("JBM-8.1.1")
def test_no_lock_is_held_between_accept_and_handle(world: QueueWorld) -> None:
    """Receivers are not locked, so another thread can use the channel while one makes up its mind."""
    seen: list[int] = []

    def look_from_elsewhere(_: MessageReference) -> bool:
        thread = Thread(target=lambda: seen.append(world.queue.count(NEW)), daemon=True)
        thread.start()
        thread.join(30)
        return True

    world.queue.add_receiver(ScriptedReceiver("r", look_from_elsewhere, accepts=look_from_elsewhere))
    world.send()
    assert seen == [1, 1]
    assert not hasattr(Receiver, "lock")
    assert not hasattr(Receiver, "unlock")


# Delivering on request


@pytest.mark.realises("JBM-7.4.a", "JBM-7.4.b")
def test_deliver_tries_what_is_new_and_tells_whether_all_went(world: QueueWorld) -> None:
    assert world.queue.deliver(), "there is nothing to deliver"
    references = [world.send(text) for text in "abc"]
    assert not world.queue.deliver()
    picky = ScriptedReceiver("picky", True, accepts=lambda reference: reference is not references[1])
    world.queue.add_receiver(picky)
    assert not world.queue.deliver(), "one remains"
    assert picky.handled == [references[0], references[2]]
    assert world.texts() == ["b"]
    picky.accepts = True
    assert world.queue.deliver()
    assert counts(world.queue) == {}


@pytest.mark.realises("JBM-7.4.a", "JBM-7.4.b")
def test_deliver_leaves_out_what_arrives_meanwhile(world: QueueWorld) -> None:
    first = world.send("first")
    asked: list[MessageReference] = []

    def only_the_first(reference: MessageReference) -> bool:
        asked.append(reference)
        return reference is first

    def send_another(_: MessageReference) -> bool:
        world.send("second")
        return True

    world.queue.add_receiver(ScriptedReceiver("r", send_another, accepts=only_the_first))
    assert not world.queue.deliver()
    (second,) = world.queue.get_messages(NEW)
    assert asked == [first, second], "the second one was offered once, when it came, and not by `deliver`"


@pytest.mark.realises("JBM-7.4.c", "JBM-5.1.a", "JBM-5.3.3.e")
def test_deliver_leaves_alone_what_is_not_committed_or_is_delivered(world: QueueWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    world.queue.add_receiver(receiver)
    unit = world.unit()
    delivered = world.send("delivered")
    uncommitted = world.send("uncommitted", unit=unit)
    for _ in range(2):
        assert world.queue.deliver(), "no message is NEW"
    assert receiver.handled == [delivered]
    assert world.queue.get_messages(DELIVERED) == [delivered]
    assert world.queue.get_messages(NOT_COMMITTED) == [uncommitted]
    assert world.reader().pull() is None


# Looking


@pytest.mark.realises("JBM-7.6")
def test_browsing_lists_in_order_what_a_filter_lets_through(world: QueueWorld) -> None:
    for text, colour, priority in [("a", "red", 4), ("b", "blue", 4), ("c", "red", 9), ("d", "red", 4)]:
        world.send(text, properties={"colour": colour}, priority=priority)
    world.send("uncommitted", properties={"colour": "red"}, unit=world.unit())
    red = SelectorFilter(world.store, compile_selector("colour = 'red'"))
    found = world.queue.browse(red)
    assert isinstance(found, list)
    assert [envelope.body for envelope in found] == ["c", "a", "d"]
    assert [envelope.body for envelope in world.queue.browse(None)] == ["c", "a", "b", "d"]
    assert [envelope.body for envelope in world.queue.browse()] == ["c", "a", "b", "d"]
    assert world.queue.count(NEW) == 4, "they are still there"


@pytest.mark.realises("JBM-7.7.a", "JBM-2.e")
def test_each_message_is_counted_in_its_state(world: QueueWorld) -> None:
    states = (NOT_COMMITTED, NEW, DELIVERED)
    assert not any(world.queue.has_messages(state) for state in MessageState)
    taken: set[MessageReference] = set()
    world.queue.add_receiver(ScriptedReceiver("r", False, accepts=lambda reference: reference.priority == 9))
    delivered = [world.send("d", priority=9), world.send("e", priority=9)]
    new = [world.send("n")]
    uncommitted = [world.send("u", unit=world.unit()) for _ in range(3)]
    assert counts(world.queue) == {"NOT_COMMITTED": 3, "NEW": 1, "DELIVERED": 2}
    assert [world.queue.get_messages(state) for state in states] == [uncommitted, new, delivered]
    assert all(world.queue.has_messages(state) for state in states)
    assert not world.queue.has_messages(MessageState.ABSENT)
    assert world.queue.get_messages(MessageState.ABSENT) == []
    for state in states:
        taken.update(world.queue.get_messages(state))
    assert len(taken) == len(world.store), "together they are all that there is"


class UnreadableOrdering(PriorityQueueEntryList):
    """An order of messages that nobody may go through."""

    def __iter__(self) -> Iterator[QueueEntry]:
        raise AssertionError("each message was looked at")


@pytest.mark.realises("JBM-7.7.b")
def test_whether_there_are_messages_is_known_without_looking_at_each(world: QueueWorld) -> None:
    state = ChannelState(world.store)
    state.ordering = UnreadableOrdering()
    queue = Queue("queue://own", world.store, state, world.clock)
    assert not queue.has_messages(NEW)
    for _ in range(3):
        world.send(queue=queue)
    assert queue.has_messages(NEW)
    assert queue.count(NEW) == 3
    with pytest.raises(AssertionError, match="each message was looked at"):
        queue.get_messages(NEW)


# The channel as a whole


@pytest.mark.realises("JBM-7.a", "JBM-7.2")
def test_a_channel_is_a_receiver_that_can_do_more(world: QueueWorld) -> None:
    channel: Channel = world.queue
    assert isinstance(channel, Receiver)
    assert channel.receiver_id == "queue://orders"
    assert not channel.is_synchronous
    assert not channel.is_reliable
    assert channel.is_transactional
    assert channel.is_storing_undeliverable
    reference = world.store.store(make_envelope("a"), None)
    assert channel.handle(reference)
    world.store.release(reference)
    assert not channel.deliver()
    assert [envelope.body for envelope in channel.browse()] == ["a"]
    receiver = ScriptedReceiver("r", False)
    world.queue.add_receiver(receiver)
    assert channel.deliver()
    channel.redeliver(receiver)
    assert receiver.redelivered == [False, True]
    channel.acknowledge(reference.id, receiver.receiver_id)
    assert holders(world.store, reference) == 0
    world.send("b", unit=world.unit())
    channel.close()
    channel.close()
    assert counts(world.queue) == {}
    assert len(world.store) == 0
    late = world.store.store(make_envelope(), None)
    with pytest.raises(ChannelClosedError):
        channel.handle(late)
    assert holders(world.store, late) == 1, "it stays with the sender"


@pytest.mark.realises("JBM-7.2", "JBM-2.2.a")
def test_transactional_means_messages_and_acknowledgements(world: QueueWorld) -> None:
    assert world.queue.is_transactional
    receiver = ScriptedReceiver("r", False)
    world.queue.add_receiver(receiver)
    received = world.send("received")
    unit = world.unit()
    world.send("sent", unit=unit)
    world.queue.acknowledge(received.id, receiver.receiver_id, unit)
    assert counts(world.queue) == {"NOT_COMMITTED": 1, "DELIVERED": 1}
    unit.commit(0)
    assert holders(world.store, received) == 0
    assert len(receiver.handled) == 2


def test_a_queue_can_receive_from_another(world: QueueWorld) -> None:
    other = world.make_queue("queue://other")
    world.queue.add_receiver(other)
    reference = world.send("a")
    assert counts(world.queue) == {}
    assert other.get_messages(NEW) == [reference]
    assert holders(world.store, reference) == 1


def test_receivers_take_turns(world: QueueWorld) -> None:
    one, two = ScriptedReceiver("one", True), ScriptedReceiver("two", True)
    world.queue.add_receiver(one)
    world.queue.add_receiver(two)
    references = [world.send() for _ in range(4)]
    assert (one.handled, two.handled) == (references[::2], references[1::2])


# How work is announced and pulled


@pytest.mark.realises("QCM-12", "QCM-13", "QCM-14", "QCM-15", "QCM-21", "QCM-22")
def test_work_goes_from_the_queue_to_the_session_and_is_pulled_through_the_target(world: QueueWorld) -> None:
    reader = world.reader(interested=True)
    world.reader("idle")
    steps: list[tuple[Step, object]] = []
    with tracing(lambda step, who: steps.append((step, who))):
        world.send("a")
        announced, steps = steps, []
        delivery = reader.target.pull()
    assert text_of(delivery) == "a"
    assert announced == [
        (Step.ARRIVED, world.queue),
        (Step.QUEUE_NOTIFIED, reader.consumer),
        (Step.CONSUMER_NOTIFIED, reader.target),
        (Step.TARGET_NOTIFIED, reader.session),
    ]
    assert reader.wake_ups == 1, "the session told its client"
    assert steps == [
        (Step.TARGET_PULLED, reader.target),
        (Step.CONSUMER_PULLED, reader.consumer),
    ]


@pytest.mark.realises("QCM-21", "QCM-22")
def test_a_target_goes_over_its_consumers_until_one_can_pull(world: QueueWorld) -> None:
    other = world.make_queue("queue://other")
    reader = world.reader()
    second = type(reader.consumer)(other, reader.target)
    reader.session.add_consumer(second)
    world.send("a")
    steps: list[object] = []
    with tracing(lambda step, who: steps.append(who) if step is Step.CONSUMER_PULLED else None):
        assert text_of(reader.target.pull()) == "a"
        assert reader.target.pull() is None
    assert set(steps) == {reader.consumer, second}
    assert steps.count(reader.consumer) == 2


def test_nothing_is_traced_after_the_end(world: QueueWorld) -> None:
    steps: list[Step] = []
    with tracing(lambda step, _: steps.append(step)):
        pass
    world.send()
    assert steps == []
