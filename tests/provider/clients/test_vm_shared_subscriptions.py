"""Shared subscriptions of ``vm://``: several consumers, of several connections, divide the messages of one (JMS 2.0 §8.3)."""

from __future__ import annotations

from dataclasses import replace
from threading import Barrier, Thread

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError, ProviderError, SubscriptionInUseError, UnknownSubscriptionError
from pyjms_provider.clients.vm import VmConsumer, VmSession
from pyjms_provider.queue_manager import QueueManager
from tests.provider.clients.world import World, consume, drain, news, poll
from tests.provider.helpers import NEWS, text_of

OTHER = Address(AddressKind.TOPIC, "other")


def share(
    session: VmSession, topic: Address = NEWS, selector: str | None = None, *, is_durable: bool = False
) -> VmConsumer:
    """Attach a consumer to the shared subscription ``desk``, the durable one or the other."""
    if is_durable:
        return consume(session, topic, selector, durable_name="desk", is_shared=True)
    return consume(session, topic, selector, shared_name="desk")


def test_consumers_of_several_connections_divide_the_messages(world: World) -> None:
    sessions = [world.connect().open_session(transacted=False) for _ in range(3)]
    consumers = [consume(session, NEWS, shared_name="desk") for session in sessions]
    own = consume(sessions[0], NEWS)
    for text in "abcdef":
        sessions[0].send(news(text))
    taken = [text_of(poll(consumers[n % 3])) for n in range(6)]
    assert taken == list("abcdef")
    assert [consumer.poll() for consumer in consumers] == [None] * 3
    assert drain(sessions[0], own) == list("abcdef")


def test_it_ends_with_its_last_consumer_and_its_messages_with_it(world: World) -> None:
    connections = [world.connect() for _ in range(2)]
    sessions = [each.open_session(transacted=False) for each in connections]
    first, second = (consume(session, NEWS, shared_name="desk") for session in sessions)
    sessions[0].send(news("kept"))
    first.close()
    assert drain(sessions[1], consume(sessions[1], NEWS, shared_name="desk")) == ["kept"]
    sessions[0].send(news("dropped"))
    connections[1].close()
    again = consume(sessions[0], NEWS, shared_name="desk")
    assert again.poll() is None
    assert len(connections[0].broker.virtual_host.store) == 0
    second.close()  # a late repetition ends nothing
    sessions[0].send(news("new"))
    assert drain(sessions[0], again) == ["new"]


def test_what_a_consumer_did_not_acknowledge_goes_to_another(world: World) -> None:
    one, other = world.connect(), world.connect().open_session(transacted=False)
    session = one.open_session(transacted=False)
    holding, waiting = consume(session, NEWS, shared_name="desk"), consume(other, NEWS, shared_name="desk")
    session.send(news("a"))
    assert text_of(poll(holding)) == "a"
    assert waiting.poll() is None
    one.close()
    again = poll(waiting)
    assert (text_of(again), again.redelivered, again.count) == ("a", True, 2)


def test_interested_consumers_are_called_in_turn(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    told: list[list[None]] = [[], []]
    for wake_ups in told:
        consumer = consume(session, NEWS, shared_name="desk", wake_ups=wake_ups)
        consumer.set_interested(True)
    session.send(news("a"))
    session.send(news("b"))
    assert [len(each) for each in told] == [1, 1]


@pytest.mark.parametrize("is_durable", [False, True])
def test_the_selector_is_that_of_the_subscription(world: World, is_durable: bool) -> None:
    session, other = (world.connect().open_session(transacted=False) for _ in range(2))
    consumers = [share(each, NEWS, "JMSPriority > 5", is_durable=is_durable) for each in (session, other)]
    session.send(replace(news("no"), priority=1))
    session.send(replace(news("yes"), priority=9))
    assert drain(session, consumers[0]) == ["yes"]
    # White space makes no other selector.
    share(other, NEWS, " JMSPriority  > 5 ", is_durable=is_durable)


@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize(("topic", "selector"), [(OTHER, None), (NEWS, "n = 1")])
def test_other_terms_are_refused_while_it_has_consumers(
    world: World, is_durable: bool, topic: Address, selector: str | None
) -> None:
    session = world.connect().open_session(transacted=False)
    consumer = share(session, is_durable=is_durable)
    session.send(news("old"))
    with pytest.raises(SubscriptionInUseError, match="has 1 consumer with topic://news and selector None"):
        share(session, topic, selector, is_durable=is_durable)
    assert drain(session, consumer) == ["old"]
    session.send(news("older"))
    consumer.close()
    # Without a consumer the name is free for other terms.
    assert share(session, topic, selector, is_durable=is_durable).poll() is None


def test_names_belong_to_a_client_id_or_to_all_without_one(world: World) -> None:
    shop, bank = (world.connect(client_id=each).open_session(transacted=False) for each in ("shop", "bank"))
    anonymous = world.connect().open_session(transacted=False)
    for is_durable in (False, True):
        consumers = [share(each, is_durable=is_durable) for each in (shop, bank, anonymous)]
        shop.send(news("a"))
        assert [text_of(poll(each)) for each in consumers] == ["a"] * 3


def test_durable_and_other_names_are_separate(world: World) -> None:
    session = world.connect(client_id="shop").open_session(transacted=False)
    durable = consume(session, NEWS, durable_name="desk")
    shared = consume(session, NEWS, shared_name="desk")
    session.send(news("a"))
    assert (drain(session, durable), drain(session, shared)) == (["a"], ["a"])


def test_a_durable_one_keeps_messages_without_consumers(world: World) -> None:
    for client_id in (None, "shop"):
        first = world.connect(client_id=client_id)
        consume(first.open_session(transacted=False), NEWS, durable_name="desk", is_shared=True)
        first.close()
        session = world.connect(client_id=client_id).open_session(transacted=False)
        session.send(news("kept"))
        one, other = (consume(session, NEWS, durable_name="desk", is_shared=True) for _ in range(2))
        assert drain(session, one) + drain(session, other) == ["kept"]
        with pytest.raises(SubscriptionInUseError):
            session.unsubscribe("desk")
        one.close()
        with pytest.raises(SubscriptionInUseError):
            session.unsubscribe("desk")
        other.close()
        session.unsubscribe("desk")
        with pytest.raises(UnknownSubscriptionError, match="desk"):
            session.unsubscribe("desk")


@pytest.mark.parametrize("is_active", [False, True])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_shared_and_an_unshared_durable_subscription_exclude_each_other(
    world: World, is_shared: bool, is_active: bool
) -> None:
    session = world.connect(client_id="shop").open_session(transacted=False)
    consumer = consume(session, NEWS, durable_name="desk", is_shared=is_shared)
    if not is_active:
        consumer.close()
    with pytest.raises(SubscriptionInUseError, match="is shared" if is_shared else "is unshared"):
        consume(session, NEWS, durable_name="desk", is_shared=not is_shared)
    session.send(news("a"))
    consumer.close()
    assert drain(session, consume(session, NEWS, durable_name="desk", is_shared=is_shared)) == ["a"]


def test_an_unshared_durable_one_needs_a_client_id_still(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    with pytest.raises(ProviderError, match="client id"):
        consume(session, NEWS, durable_name="desk")
    with pytest.raises(ProviderError, match="not both"):
        consume(session, NEWS, durable_name="desk", shared_name="desk")


def test_no_local_does_not_apply(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    shared = consume(session, NEWS, shared_name="desk", no_local=True)
    durable = consume(session, NEWS, durable_name="desk", is_shared=True, no_local=True)
    session.send(news("own"))
    assert (drain(session, shared), drain(session, durable)) == (["own"], ["own"])
    consume(session, NEWS, shared_name="desk")
    consume(session, NEWS, durable_name="desk", is_shared=True)


def test_consumers_of_a_temporary_topic_share_it_within_its_connection(world: World) -> None:
    connection = world.connect()
    topic, session = connection.create_temporary(AddressKind.TOPIC), connection.open_session(transacted=False)
    first, second = (consume(session, topic, shared_name="desk") for _ in range(2))
    with pytest.raises(DestinationError):
        consume(world.connect().open_session(transacted=False), topic, shared_name="other")
    with pytest.raises(DestinationError):
        consume(session, topic, durable_name="desk", is_shared=True)
    first.close()
    second.close()
    connection.delete_temporary(topic)


def test_a_transaction_holds_what_it_received(world: World) -> None:
    sender = world.connect().open_session(transacted=False)
    one, other = (world.connect().open_session(transacted=True) for _ in range(2))
    consumers = [consume(each, NEWS, shared_name="desk") for each in (one, other)]
    sender.send(news("a"))
    sender.send(news("b"))
    first, second = (poll(each) for each in consumers)
    one.acknowledge([first])
    one.commit()
    other.acknowledge([second])
    other.rollback()
    other.recover([second])
    again = poll(consumers[0])
    assert (text_of(again), again.redelivered) == ("b", True)


def test_messages_of_a_group_go_to_one_consumer(world: World) -> None:
    sessions = [world.connect("?groups=true").open_session(transacted=False) for _ in range(2)]
    consumers = [share(session) for session in sessions]
    for group in "abab":
        sessions[0].send(replace(news(group), properties={"JMSXGroupID": group}))
    first, second = poll(consumers[0]), poll(consumers[1])
    assert (text_of(first), text_of(second)) == ("a", "b")
    assert [text_of(poll(each)) for each in consumers] == ["a", "b"]


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_dead_letter_says_where_it_was(world: World, is_durable: bool) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=False)
    consumer = share(session, is_durable=is_durable)
    session.send(news("poison"))
    session.reject(poll(consumer), "it cannot be eaten")
    assert consumer.poll() is None
    manager = QueueManager.of(connection.broker.name)
    (letter,) = manager.browse("DLQ")
    assert letter.properties["JMS_pyjms_deadDestination"] == "topic://news"
    subscription = letter.properties.get("JMS_pyjms_deadSubscription")
    assert subscription == ("topic://news#/desk" if is_durable else None), letter.properties
    assert manager.replay("DLQ").returned == is_durable
    assert [text_of(each) for each in iter(consumer.poll, None)] == ["poison"] * is_durable


@pytest.mark.parametrize("is_durable", [False, True])
def test_many_threads_attach_and_close_at_once(world: World, is_durable: bool) -> None:
    """Each finds the subscription or makes it; none is refused, no message comes twice, and in the end none is left but the durable one.

    That one loses no message either.
    """
    connections = [world.connect() for _ in range(8)]
    start, failed, taken = Barrier(len(connections)), list[BaseException](), list[str]()

    def work(number: int) -> None:
        try:
            start.wait()
            for turn in range(50):
                session = connections[number].open_session(transacted=False)
                consumer = share(session, is_durable=is_durable)
                session.send(news(f"{number}.{turn}"))
                taken.extend(drain(session, consumer))
                session.close()
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=work, args=(number,)) for number in range(len(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    host = connections[0].broker.virtual_host
    assert len(host.topic("news").subscriptions) == is_durable
    assert len(host.subscriptions.shared()) == 0
    if is_durable:
        session = connections[0].open_session(transacted=False)
        taken += drain(session, share(session, is_durable=is_durable))
        assert sorted(taken) == sorted(f"{number}.{turn}" for number in range(8) for turn in range(50))
    assert len(set(taken)) == len(taken)
    assert len(host.store) == 0
