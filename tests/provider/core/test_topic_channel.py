"""A topic as a channel: it passes on at once, answers for its receivers, and keeps nothing."""

from __future__ import annotations

import pytest

from pyjms.spi.receivers import UnknownDeliveryError
from pyjms.spi.selector import compile_selector
from pyjms_provider.core.channel import Channel, ChannelClosedError, Receiver
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.queue.channel_state import ChannelState, Reliability
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.topic import Subscription, SubscriptionTerms, Topic
from tests.provider.helpers import CONNECTION, NEWS, QueueWorld, ScriptedReceiver, holders, make_envelope, refuse


class TopicWorld(QueueWorld):
    """A topic in the store of a `QueueWorld`."""

    def __init__(self) -> None:
        super().__init__()
        self.topic = Topic("topic://news", self.store)

    def subscribe(self, name: str, *, selector: str | None = None, no_local: bool = False) -> Subscription:
        subscription = Subscription(
            name,
            self.store,
            ChannelState(self.store, reliability=Reliability.MEMORY),
            self.clock,
            terms=SubscriptionTerms(topic=NEWS, selector_text=selector, no_local=no_local),
            selector=None if selector is None else compile_selector(selector),
            subscriber=CONNECTION,
            is_durable=False,
        )
        self.topic.add_subscription(subscription)
        return subscription


@pytest.fixture
def world() -> TopicWorld:
    return TopicWorld()


def is_empty(channel: Channel) -> bool:
    return not any(channel.has_messages(state) or channel.get_messages(state) for state in MessageState)


@pytest.mark.realises("JBM-2.a")
@pytest.mark.parametrize(
    ("answers", "acknowledged"),
    [([True], True), ([False], False), ([True, True], True), ([True, False], False), ([False, True], False)],
)
def test_the_receivers_acknowledgement_goes_straight_back(
    world: TopicWorld, answers: list[bool], acknowledged: bool
) -> None:
    receivers = [ScriptedReceiver(f"r{number}", answer) for number, answer in enumerate(answers)]
    for receiver in receivers:
        world.topic.add_receiver(receiver)
    reference = world.store.store(make_envelope(destination=NEWS), None)
    assert world.topic.is_synchronous
    assert world.topic.handle(reference) is acknowledged
    assert all(receiver.handled == [reference] for receiver in receivers), "delivery was tried at once"


@pytest.mark.realises("JBM-2.b")
def test_a_rejected_message_is_the_senders_affair(world: TopicWorld) -> None:
    receiver = ScriptedReceiver("r", False)
    world.topic.add_receiver(receiver)
    world.topic.add_receiver(ScriptedReceiver("fickle", refuse))
    reference = world.store.store(make_envelope(destination=NEWS), None)
    assert not world.topic.handle(reference)
    assert is_empty(world.topic)
    assert holders(world.store, reference) == 1, "the sender's own hold, no other"
    assert world.topic.deliver(), "nothing waits"
    world.topic.redeliver(receiver)
    assert receiver.handled == [reference]
    receiver.answer = True
    assert world.topic.handle(reference), "the sender decided to try again"
    world.store.release(reference)
    assert len(world.store) == 0


@pytest.mark.realises("JBM-5.2.4.b", "JBM-5.2.4.c")
def test_what_nobody_takes_is_acknowledged_and_discarded(world: TopicWorld) -> None:
    channel: Channel = world.topic
    assert not channel.is_storing_undeliverable
    world.topic.add_receiver(ScriptedReceiver("deaf", accepts=False))
    reference = world.store.store(make_envelope(destination=NEWS), None)
    assert channel.enqueue(reference)
    assert holders(world.store, reference) == 0
    assert is_empty(channel)
    late = ScriptedReceiver("late", True)
    world.topic.add_receiver(late)
    channel.deliver()
    assert late.handled == []


@pytest.mark.realises("JBM-2.d")
def test_only_asynchronous_channels_have_a_state(world: TopicWorld) -> None:
    subscription = world.subscribe("s")
    reference = world.store.store(make_envelope(destination=NEWS), None)
    world.topic.enqueue(reference)
    assert is_empty(world.topic)
    assert world.topic.browse() == []
    assert not isinstance(world.topic, Queue)
    assert isinstance(subscription, Queue)
    assert not subscription.is_synchronous
    assert subscription.get_messages(MessageState.NEW) == [reference]
    with pytest.raises(UnknownDeliveryError, match="is a topic and holds no message"):
        world.topic.acknowledge(reference.id, subscription.receiver_id)


@pytest.mark.realises("JBM-2.a", "JBM-8.c")
def test_subscriptions_decide_by_selector_and_origin(world: TopicWorld) -> None:
    everything = world.subscribe("everything")
    red = world.subscribe("red", selector="colour = 'red'")
    foreign = world.subscribe("foreign", no_local=True)
    envelopes = [make_envelope(text, destination=NEWS, properties={"colour": text}) for text in ("red", "blue")]
    own = world.store.store(envelopes[0], CONNECTION)
    other = world.store.store(envelopes[1], None)
    receivers: list[Receiver] = [everything, red, foreign]
    assert [[receiver.accept(reference) for receiver in receivers] for reference in (own, other)] == [
        [True, True, False],
        [True, False, True],
    ]
    assert all(is_empty(channel) for channel in (everything, red, foreign))
    for reference in (own, other):
        assert world.topic.enqueue(reference), "what subscriptions take, they keep"
    new = MessageState.NEW
    assert everything.get_messages(new) == [own, other]
    assert red.get_messages(new) == [own]
    assert foreign.get_messages(new) == [other]


@pytest.mark.realises("JBM-3.f", "JBM-3.a")
def test_channels_of_one_store_share_a_message(world: TopicWorld) -> None:
    queues: list[Queue] = [world.subscribe(f"s{number}") for number in range(3)]
    envelope = make_envelope("large" * 1_000, destination=NEWS)
    reference = world.store.store(envelope, None)
    world.topic.enqueue(reference)
    assert len(world.store) == 1
    assert holders(world.store, reference) == 3
    for queue in queues:
        assert queue.get_messages(MessageState.NEW)[0] is reference, "references are passed on"
        assert queue.browse()[0] is envelope, "and nothing is copied"
    for left, queue in zip((2, 1, 0), queues, strict=True):
        queue.close()
        assert holders(world.store, reference) == left
    assert len(world.store) == 0


@pytest.mark.realises("JBM-2.2.1.a", "JBM-2.2.1.b", "JBM-5.1.2")
def test_what_is_published_in_a_transaction_waits_for_it(world: TopicWorld) -> None:
    one, two = world.subscribe("one"), world.subscribe("two")
    unit = world.unit()
    reference = world.store.store(make_envelope("a", destination=NEWS), None)
    assert world.topic.is_transactional
    world.topic.enqueue(reference, unit)
    for subscription in (one, two):
        assert subscription.get_messages(MessageState.NOT_COMMITTED) == [reference]
    unit.commit(0)
    for subscription in (one, two):
        assert subscription.get_messages(MessageState.NEW) == [reference]
    another = world.unit()
    world.topic.enqueue(world.store.store(make_envelope("b", destination=NEWS), None), another)
    another.rollback()
    assert len(world.store) == 1
    assert world.topic.is_reliable is False


def test_a_receiver_that_left_hears_nothing(world: TopicWorld) -> None:
    receiver = ScriptedReceiver("r", True)
    world.topic.add_receiver(receiver)
    world.topic.remove_receiver(receiver)
    world.topic.enqueue(world.store.store(make_envelope(destination=NEWS), None))
    assert receiver.handled == []


def test_a_closed_topic_takes_nothing(world: TopicWorld) -> None:
    subscription = world.subscribe("s")
    reference = world.store.store(make_envelope(destination=NEWS), None)
    assert world.topic.accept(reference)
    world.topic.handle(reference)
    world.topic.close()
    assert subscription.is_closed
    assert not world.topic.accept(reference)
    with pytest.raises(ChannelClosedError):
        world.topic.handle(reference)
    assert holders(world.store, reference) == 1
    with pytest.raises(ChannelClosedError):
        world.topic.add_subscription(subscription)
