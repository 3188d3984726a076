"""Topics: synchronous channels that pass on and keep nothing; and the subscriptions that do the keeping."""

from __future__ import annotations

import gc

import pytest

from pyjms.spi.envelope import ConnectionId, Envelope
from pyjms.spi.receivers import UnknownDeliveryError
from pyjms.spi.selector import compile_selector
from pyjms.types import Float, Stored
from pyjms_provider.core.channel import ChannelClosedError, UnreliableChannelError
from pyjms_provider.core.message.entry import ReceiverId
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference
from pyjms_provider.core.queue.channel_state import ChannelState, Reliability
from pyjms_provider.core.topic import Subscription, SubscriptionTerms, Topic
from tests.provider.cost import steps_of
from tests.provider.helpers import CONNECTION, NEWS, QueueWorld, ScriptedReceiver, holders, make_envelope, refuse

OTHER = ConnectionId("connection-2")


class TopicWorld(QueueWorld):
    """A topic beside the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.topic = Topic("topic://news", self.store)

    def subscribe(
        self,
        name: str = "s",
        selector: str | None = None,
        *,
        no_local: bool = False,
        reliability: Reliability = Reliability.MEMORY,
    ) -> Subscription:
        subscription = Subscription(
            name,
            self.store,
            ChannelState(self.store, reliability=reliability),
            self.clock,
            terms=SubscriptionTerms(topic=NEWS, selector_text=selector, no_local=no_local),
            selector=None if selector is None else compile_selector(selector),
            subscriber=CONNECTION,
            is_durable=False,
        )
        self.topic.add_subscription(subscription)
        return subscription

    def publish(self, text: str = "", origin: ConnectionId = OTHER, n: int = 0) -> tuple[MessageReference, bool]:
        envelope = make_envelope(text, destination=NEWS, properties={"n": n})
        reference = self.store.store(envelope, origin)
        return reference, self.topic.enqueue(reference)


@pytest.fixture
def world() -> TopicWorld:
    return TopicWorld()


def texts(subscription: Subscription) -> list[object]:
    return [envelope.body for envelope in subscription.browse()]


@pytest.mark.realises("JBM-2.a", "JBM-2.d", "JBM-5.2.4.c")
def test_a_topic_is_synchronous_and_stores_nothing(world: TopicWorld) -> None:
    topic = world.topic
    assert topic.is_synchronous
    assert topic.is_transactional
    assert not topic.is_storing_undeliverable
    reliable = [topic.is_reliable]
    world.subscribe()
    reliable.append(topic.is_reliable)
    assert reliable == [True, False], "it keeps nothing that could be lost itself"
    world.publish()
    for state in MessageState:
        assert not topic.has_messages(state)
        assert topic.get_messages(state) == []
    assert topic.browse() == []
    assert topic.deliver()
    with pytest.raises(UnknownDeliveryError, match="is a topic"):
        topic.acknowledge(world.send().id, ReceiverId("r"))


@pytest.mark.realises("JBM-2.a", "JBM-2.b")
def test_the_receivers_acknowledgement_goes_straight_to_the_sender(world: TopicWorld) -> None:
    receivers = {name: ScriptedReceiver(name, name != "negative") for name in ["one", "two"]}
    for receiver in receivers.values():
        world.topic.add_receiver(receiver)
    assert world.publish()[1] is True
    negative = ScriptedReceiver("negative", False)
    world.topic.add_receiver(negative)
    reference, acknowledged = world.publish()
    assert acknowledged is False
    assert holders(world.store, reference) == 0, "what becomes of it is the sender's affair"
    world.topic.redeliver(negative)
    assert len(negative.handled) == 1
    world.topic.remove_receiver(negative)
    assert world.publish()[1] is True


def test_who_does_not_accept_is_passed_by(world: TopicWorld) -> None:
    for receiver in (ScriptedReceiver("deaf", accepts=False), ScriptedReceiver("fickle", refuse)):
        world.topic.add_receiver(receiver)
    assert world.publish()[1] is True


@pytest.mark.realises("JBM-5.2.4.b")
def test_a_message_without_receivers_is_acknowledged_and_discarded(world: TopicWorld) -> None:
    reference, acknowledged = world.publish()
    assert acknowledged
    assert holders(world.store, reference) == 0


@pytest.mark.realises("JBM-3.f", "JBM-3.e", "BOIL-PUB-10")
def test_subscriptions_share_one_stored_message(world: TopicWorld) -> None:
    subscriptions = [world.subscribe(str(number)) for number in range(1_000)]
    reference, _ = world.publish("shared")
    assert len(world.store) == 1
    assert holders(world.store, reference) == 1_000
    envelope = world.store.retrieve(reference)
    for subscription in subscriptions:
        reader = world.reader(queue=subscription)
        delivery = reader.pull()
        assert delivery is not None
        assert delivery.envelope is envelope
        assert reader.settle(delivery)
    assert len(world.store) == 0


def test_a_queued_message_needs_little_memory_beside_its_envelope() -> None:
    """At most 350 bytes, counted as objects: entry, reference, number, and places in lists and dictionaries."""
    import tracemalloc

    world = QueueWorld()
    envelope = make_envelope("x")
    world.queue.enqueue(world.store.store(envelope, None))
    number = 20_000
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(number):
            world.queue.enqueue(world.store.store(envelope, None))
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / number <= 350


@pytest.mark.realises("BOIL-PUB-9")
def test_selectors_and_no_local_choose_before_anything_is_stored(world: TopicWorld) -> None:
    everything, few, remote = world.subscribe(), world.subscribe(selector="n > 0"), world.subscribe(no_local=True)
    world.publish("a", CONNECTION, n=0)
    world.publish("b", OTHER, n=1)
    assert texts(everything) == ["a", "b"]
    assert texts(few) == texts(remote) == ["b"]
    local = world.store.store(make_envelope("c", properties={"n": 1}), CONNECTION)
    assert everything.accept(local)
    assert few.accept(local)
    assert not remote.accept(local)


def test_subscriptions_with_the_same_selector_come_and_go(world: TopicWorld) -> None:
    subscriptions = [world.subscribe(str(number), "n = 1") for number in range(20)]
    world.topic.remove_subscription(subscriptions[0])
    world.topic.remove_subscription(subscriptions[0])
    world.publish("a", n=1)
    assert [texts(subscription) for subscription in subscriptions] == [[], *[["a"]] * 19]


def steps_of_a_message_that_nobody_wants(subscriptions: int) -> int:
    world = TopicWorld()
    for number in range(subscriptions):
        world.subscribe(str(number), "n > 0")
    world.publish("a", n=0)
    return steps_of(world.publish)


def test_a_message_that_nobody_wants_costs_the_same_however_many_have_the_selector() -> None:
    assert steps_of_a_message_that_nobody_wants(20) == steps_of_a_message_that_nobody_wants(2)


def test_subscribers_come_and_go_without_a_look_at_the_others(
    world: TopicWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms: dict[Subscription, SubscriptionTerms] = {}
    reads: list[str] = []

    def get(subscription: Subscription) -> SubscriptionTerms:
        reads.append(subscription.name)
        return terms[subscription]

    monkeypatch.setattr(Subscription, "terms", property(get, terms.__setitem__), raising=False)
    subscriptions = [world.subscribe(str(number), "n = 1" if number % 2 else None) for number in range(200)]
    for subscription in subscriptions[10:]:
        world.topic.remove_subscription(subscription)
    assert len(reads) <= 2 * len(subscriptions), "one look at each that comes or goes, and none at others"
    assert [each.name for each in world.topic.subscriptions] == [*"02468", *"13579"]


def test_a_group_is_as_old_as_its_first_subscription(world: TopicWorld) -> None:
    first, second = world.subscribe("first"), world.subscribe("second", "n = 1")
    world.topic.remove_subscription(first)
    third = world.subscribe("third")
    assert world.topic.subscriptions == [second, third]
    world.topic.close()
    assert world.topic.subscriptions == []
    assert second.is_closed
    assert third.is_closed


class CountedSelector:
    """A selector that counts its evaluations."""

    evaluated = 0
    _compile = staticmethod(compile_selector)

    def __init__(self, text: str) -> None:
        self._selector = self._compile(text)
        self.equalities = self._selector.equalities

    def matches(self, envelope: Envelope) -> bool:
        CountedSelector.evaluated += 1
        return self._selector.matches(envelope)


def test_of_many_selectors_that_ask_for_values_those_alone_are_evaluated_that_may_match(
    world: TopicWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountedSelector, "evaluated", 0)
    monkeypatch.setattr("tests.provider.core.test_topic.compile_selector", CountedSelector)
    subscriptions = [world.subscribe(str(number), f"n = {number}") for number in range(500)]
    for number in (*range(100), 1_000):
        world.publish(str(number), n=number)
    assert [texts(each) for each in subscriptions] == [[str(number)] * (number < 100) for number in range(500)]
    assert CountedSelector.evaluated == 100


SELECTORS = [None, "n = 1", "n = 1.0", "1 = n", "n = 2", "n = 16777217", "n > 1", "n = 2 AND JMSType IS NULL", "m = 'x'", "n = 1 AND m = 'x'"]  # fmt: skip
MESSAGES: list[dict[str, Stored]] = [
    {}, {"n": 1}, {"n": 1.0}, {"n": True}, {"n": "1"}, {"n": 2, "m": "x"}, {"n": 1, "m": "x"}, {"n": Float(16777216)}, {"n": 1e300},
]  # fmt: skip


@pytest.mark.parametrize("many", [0, 1, 100])
def test_a_message_goes_to_those_whose_selectors_it_satisfies(
    world: TopicWorld, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order in which they came, whether or not selectors are noted by what they ask for."""
    monkeypatch.setattr("pyjms_provider.core.topic._MANY", many)
    subscriptions = [world.subscribe(str(number), text) for number, text in enumerate(SELECTORS)]
    for properties in MESSAGES:
        envelope = make_envelope("a", destination=NEWS, properties=properties)
        wanting = [each for each in subscriptions if each.selector is None or each.selector.matches(envelope)]
        assert world.topic.wanting(world.store.store(envelope, OTHER)) == wanting


def test_a_subscription_that_ends_meanwhile_takes_nothing(world: TopicWorld) -> None:
    ended, open_ = world.subscribe("ended"), world.subscribe("open")
    ended.close()
    reference, _ = world.publish("a")
    assert texts(open_) == ["a"]
    assert holders(world.store, reference) == 1


def test_a_message_that_subscriptions_refuse_is_the_senders_alone(world: TopicWorld) -> None:
    subscriptions = [world.subscribe(name, reliability=Reliability.STRICT) for name in "ab"]
    reference = world.store.store(make_envelope(destination=NEWS, persistent=True), OTHER)
    with pytest.raises(UnreliableChannelError):
        world.topic.enqueue(reference)
    assert [texts(each) for each in subscriptions] == [[], []]
    assert holders(world.store, reference) == 1


def test_a_published_message_may_be_part_of_a_transaction(world: TopicWorld) -> None:
    subscription, unit = world.subscribe(), world.unit()
    world.topic.enqueue(world.store.store(make_envelope("a", destination=NEWS), OTHER), unit)
    assert texts(subscription) == []
    unit.commit(0)
    assert texts(subscription) == ["a"]


def test_a_closed_topic_takes_nothing(world: TopicWorld) -> None:
    subscription = world.subscribe()
    reference, _ = world.publish()
    assert world.topic.accept(reference)
    world.topic.close()
    assert subscription.is_closed
    assert not world.topic.accept(reference)
    assert holders(world.store, reference) == 0
    with pytest.raises(ChannelClosedError):
        world.publish()
    with pytest.raises(ChannelClosedError):
        world.subscribe()


@pytest.mark.realises("JBM-2.b")
def test_handling_leaves_the_senders_hold_alone(world: TopicWorld) -> None:
    reference = world.store.store(make_envelope(destination=NEWS), OTHER)
    assert world.topic.handle(reference)
    assert holders(world.store, reference) == 1
    world.topic.close()
    with pytest.raises(ChannelClosedError):
        world.topic.handle(reference)
    assert holders(world.store, reference) == 1
