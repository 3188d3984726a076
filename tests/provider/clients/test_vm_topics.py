"""Topics, durable subscriptions and temporary destinations of ``vm://``."""

from __future__ import annotations

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    DestinationError,
    DestinationInUseError,
    ProviderError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from tests.provider.clients.world import World, consume, drain, news, poll
from tests.provider.helpers import NEWS, ORDERS, make_envelope

# Topics


@pytest.mark.realises("BOIL-ORD-7", "BOIL-PUB-2", "BOIL-PUB-10")
def test_each_subscriber_gets_its_own_copy_while_it_subscribes(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    session.send(news("before"))
    first, second = consume(session, NEWS), consume(session, NEWS)
    session.send(news("now"))
    assert drain(session, first) == ["now"]
    first.close()
    session.send(news("later"))
    assert drain(session, second) == ["now", "later"]
    second.close()
    session.send(news("to nobody"))
    assert drain(session, consume(session, NEWS)) == []


@pytest.mark.realises("BOIL-PUB-9")
def test_no_local_leaves_out_the_own_connections_messages(world: World) -> None:
    here, there = world.connect(), world.connect()
    session = here.open_session(transacted=False)
    local, remote = consume(session, NEWS), consume(session, NEWS, no_local=True)
    here.open_session(transacted=False).send(news("ours"))
    there.open_session(transacted=False).send(news("theirs"))
    assert drain(session, local) == ["ours", "theirs"]
    assert drain(session, remote) == ["theirs"]


def test_no_local_is_ignored_on_queues(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    consumer = consume(session, no_local=True)
    session.send(make_envelope("mine"))
    assert drain(session, consumer) == ["mine"]


@pytest.mark.realises("BOIL-PUB-3", "BOIL-PUB-4")
def test_a_durable_subscription_keeps_messages_while_nobody_listens(world: World) -> None:
    first = world.connect(client_id="shop")
    session = first.open_session(transacted=False)
    consume(session, NEWS, durable_name="all")
    first.close()
    world.connect().open_session(transacted=False).send(news("kept"))
    second = world.connect(client_id="shop").open_session(transacted=False)
    assert drain(second, consume(second, NEWS, durable_name="all")) == ["kept"]


@pytest.mark.realises("BOIL-PUB-5")
def test_a_durable_subscription_has_one_subscriber_at_a_time(world: World) -> None:
    session = world.connect(client_id="shop").open_session(transacted=False)
    consumer = consume(session, NEWS, durable_name="all")
    with pytest.raises(SubscriptionInUseError, match="close that one first"):
        consume(session, NEWS, durable_name="all")
    with pytest.raises(SubscriptionInUseError):
        session.unsubscribe("all")
    consumer.close()
    consume(session, NEWS, durable_name="all")


@pytest.mark.realises("BOIL-PUB-6")
@pytest.mark.parametrize("change", ["topic", "selector", "no_local"])
def test_other_terms_make_another_durable_subscription(world: World, change: str) -> None:
    session = world.connect(client_id="shop").open_session(transacted=False)
    consume(session, NEWS, durable_name="all").close()
    session.send(news("old"))
    again = consume(
        session,
        Address(AddressKind.TOPIC, "other") if change == "topic" else NEWS,
        "n IS NULL" if change == "selector" else None,
        no_local=change == "no_local",
        durable_name="all",
    )
    assert again.poll() is None


@pytest.mark.realises("BOIL-PUB-7")
def test_a_durable_subscription_with_unsettled_messages_cannot_be_deleted(world: World) -> None:
    session = world.connect(client_id="shop").open_session(transacted=False)
    consumer = consume(session, NEWS, durable_name="all")
    session.send(news("a"))
    delivery = poll(consumer)
    consumer.close()
    with pytest.raises(SubscriptionInUseError, match="neither acknowledged"):
        session.unsubscribe("all")
    with pytest.raises(SubscriptionInUseError):
        consume(session, NEWS, "n = 1", durable_name="all")
    session.acknowledge([delivery])
    session.unsubscribe("all")


@pytest.mark.realises("BOIL-PUB-11")
def test_unsubscribing_deletes_a_durable_subscription_with_its_messages(world: World) -> None:
    connection = world.connect(client_id="shop")
    session = connection.open_session(transacted=False)
    consume(session, NEWS, durable_name="all").close()
    session.send(news("a"))
    session.unsubscribe("all")
    assert len(connection.broker.virtual_host.store) == 0
    for name in ["all", "never was"]:
        with pytest.raises(UnknownSubscriptionError, match=name):
            session.unsubscribe(name)
    with pytest.raises(UnknownSubscriptionError):
        world.connect().open_session(transacted=False).unsubscribe("all")


def test_a_durable_subscription_needs_a_client_id(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    with pytest.raises(ProviderError, match="client id"):
        consume(session, NEWS, durable_name="all")


def test_a_failed_subscribe_leaves_nothing_behind(world: World) -> None:
    connection = world.connect(client_id="shop")
    session = connection.open_session(transacted=False)
    consume(session, NEWS, durable_name="all")
    for _ in range(3):
        with pytest.raises(SubscriptionInUseError):
            consume(session, NEWS, durable_name="all")
    assert len(connection.broker.virtual_host.topic("news").subscriptions) == 1


@pytest.mark.realises("BOIL-PUB-12")
def test_delivery_mode_changes_nothing_for_a_subscription(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    consumer = consume(session, NEWS)
    for persistent in [True, False]:
        session.send(news(str(persistent), persistent=persistent))
    session.recover([poll(consumer), poll(consumer)])
    assert drain(session, consumer) == ["True", "False"]


# Temporary destinations


@pytest.mark.realises("BOIL-TEMP-1")
@pytest.mark.parametrize("kind", AddressKind)
def test_temporary_destinations_belong_to_their_connection(world: World, kind: AddressKind) -> None:
    owner, other = world.connect(), world.connect()
    address = owner.create_temporary(kind)
    assert address.temporary
    assert address != owner.create_temporary(kind)
    session = owner.open_session(transacted=False)
    consumer = consume(session, address)
    stranger = other.open_session(transacted=False)
    stranger.send(make_envelope("hello", destination=address))
    assert drain(session, consumer) == ["hello"]
    with pytest.raises(DestinationError, match="another connection"):
        consume(stranger, address)
    with pytest.raises(DestinationError, match="another connection"):
        other.delete_temporary(address)


@pytest.mark.parametrize("kind", AddressKind)
def test_a_temporary_destination_in_use_cannot_be_deleted(world: World, kind: AddressKind) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=False)
    address = connection.create_temporary(kind)
    consumer = consume(session, address)
    with pytest.raises(DestinationInUseError, match="1 consumer;"):
        connection.delete_temporary(address)
    consumer.close()
    session.send(make_envelope(destination=address))
    connection.delete_temporary(address)
    assert len(connection.broker.virtual_host.store) == 0
    for use in (lambda: session.send(make_envelope(destination=address)), lambda: consume(session, address)):
        with pytest.raises(DestinationError, match="no longer exists"):
            use()
    with pytest.raises(DestinationError):
        connection.delete_temporary(address)


@pytest.mark.realises("BOIL-TEMP-2")
def test_temporary_destinations_end_with_their_connection(world: World) -> None:
    owner, other = world.connect(), world.connect()
    address = owner.create_temporary(AddressKind.QUEUE)
    session = other.open_session(transacted=False)
    session.send(make_envelope(destination=address))
    owner.close()
    with pytest.raises(DestinationError, match="no longer exists"):
        session.send(make_envelope(destination=address))
    assert len(other.broker.virtual_host.store) == 0


def test_a_destination_that_is_not_temporary_cannot_be_deleted(world: World) -> None:
    with pytest.raises(DestinationError, match="no temporary"):
        world.connect().delete_temporary(ORDERS)


def test_a_temporary_address_with_the_wrong_kind_is_refused(world: World) -> None:
    connection = world.connect()
    address = connection.create_temporary(AddressKind.QUEUE)
    forged = Address(AddressKind.TOPIC, address.name, temporary=True)
    session = connection.open_session(transacted=False)
    with pytest.raises(DestinationError):
        session.send(make_envelope(destination=forged))
    with pytest.raises(DestinationError):
        consume(session, forged)
    with pytest.raises(DestinationError, match="no queue"):
        session.browse(NEWS, None)


@pytest.mark.realises("BOIL-PUB-8")
def test_a_temporary_topic_has_no_durable_subscriptions(world: World) -> None:
    connection = world.connect(client_id="shop")
    session = connection.open_session(transacted=False)
    address = connection.create_temporary(AddressKind.TOPIC)
    with pytest.raises(DestinationError, match="temporary"):
        consume(session, address, durable_name="all")
