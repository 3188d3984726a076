"""The contract of `pyjms.spi`, as the provider of ``vm://`` keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from threading import Thread

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.clock import Clock, SystemClock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, Envelope
from pyjms.spi.errors import (
    CapabilityError,
    ClosedError,
    ConnectionLostError,
    DestinationError,
    DestinationInUseError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
    RolledBackError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
    UrlError,
)
from pyjms.spi.provider import ConnectRequest, SubscribeRequest
from pyjms.spi.selector import compile_selector
from pyjms.spi.url import ProviderUrl
from pyjms_provider.broker import running_broker
from pyjms_provider.clients.vm import VmConnection, VmConsumer, VmProvider, VmSession
from pyjms_provider.core.message_state import MessageState
from tests.provider.helpers import NEWS, ORDERS, HandClock, RecordedEvents, make_envelope, text_of

_numbers = count(1)


class World:
    """One broker with a name of its own."""

    def __init__(self) -> None:
        self.provider = VmProvider()
        self.name = f"vm-test-{next(_numbers)}"
        self.events = RecordedEvents()
        self.clock: Clock = HandClock()

    def connect(
        self,
        options: str = "",
        *,
        client_id: str | None = None,
        clock: Clock | None = None,
        events: RecordedEvents | None = None,
        started: bool = True,
    ) -> VmConnection:
        request = ConnectRequest(
            url=ProviderUrl.parse(f"vm://{self.name}{options}"),
            user_name=None,
            password=None,
            client_id=client_id,
            clock=clock or self.clock,
        )
        connection = self.provider.connect(request, events or self.events)
        if started:
            connection.start()
        return connection

    def stop(self) -> None:
        self.provider.stop_broker(ProviderUrl.parse(f"vm://{self.name}"))


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.stop()


def consume(
    session: VmSession,
    address: Address = ORDERS,
    selector: str | None = None,
    *,
    no_local: bool = False,
    durable_name: str | None = None,
    priority: int = 0,
    wake_ups: list[None] | None = None,
) -> VmConsumer:
    request = SubscribeRequest(
        address=address,
        selector=None if selector is None else compile_selector(selector),
        no_local=no_local,
        durable_name=durable_name,
        priority=priority,
    )
    sink: list[None] = [] if wake_ups is None else wake_ups
    return session.subscribe(request, lambda: sink.append(None))


def drain(session: VmSession, consumer: VmConsumer) -> list[str]:
    texts: list[str] = []
    while (delivery := consumer.poll()) is not None:
        texts.append(text_of(delivery))
        session.acknowledge([delivery])
    return texts


def poll(consumer: VmConsumer) -> Delivery:
    delivery = consumer.poll()
    assert delivery is not None
    return delivery


def news(text: str, *, persistent: bool = False) -> Envelope:
    return make_envelope(text, destination=NEWS, persistent=persistent)


# URLs and brokers


@pytest.mark.parametrize(
    ("url", "error", "cure"),
    [
        ("vm://", UrlError, "vm://shop"),
        ("vm://shop:61616", UrlError, "neither port nor path"),
        ("vm://shop/queue", UrlError, "neither port nor path"),
        ("vm://shop?colour=red", UrlError, "'colour'.*expired_in_transaction=rollback or discard"),
        ("vm://shop?expired_in_transaction=maybe", UrlError, "'maybe'.*rollback or discard"),
        ("vm://shop?store=sqlite:///x.db", CapabilityError, "in memory only; leave out store="),
    ],
)
def test_a_wrong_url_gets_an_error_that_names_the_cure(url: str, error: type[ProviderError], cure: str) -> None:
    request = ConnectRequest(
        url=ProviderUrl.parse(url), user_name=None, password=None, client_id=None, clock=SystemClock()
    )
    with pytest.raises(error, match=cure):
        VmProvider().connect(request, RecordedEvents())
    assert running_broker("shop") is None


def test_connections_to_one_name_share_a_broker_that_outlives_them(world: World) -> None:
    first = world.connect()
    first.open_session(transacted=False).send(make_envelope("kept"))
    first.close()
    second = world.connect()
    session = second.open_session(transacted=False)
    assert drain(session, consume(session)) == ["kept"]
    assert first.connection_id != second.connection_id


def test_a_stopped_broker_is_gone_with_its_messages(world: World) -> None:
    world.connect().open_session(transacted=False).send(make_envelope("lost"))
    world.stop()
    assert running_broker(world.name) is None
    session = world.connect().open_session(transacted=False)
    assert drain(session, consume(session)) == []


def test_connection_ids_do_not_come_again_after_a_restart(world: World) -> None:
    before = world.connect().connection_id
    world.stop()
    assert world.connect().connection_id != before


def test_a_broker_keeps_the_clock_of_its_first_connection(world: World) -> None:
    world.connect(clock=world.clock)
    world.connect(clock=world.clock)
    world.connect(clock=SystemClock())  # the default of who does not care
    with pytest.raises(ResourceError, match="another clock"):
        world.connect(clock=HandClock())


def test_a_broker_keeps_the_options_of_its_first_connection(world: World) -> None:
    world.connect("?expired_in_transaction=discard")
    world.connect("?expired_in_transaction=discard")
    world.connect()
    with pytest.raises(ResourceError, match="other options"):
        world.connect("?expired_in_transaction=rollback")


def test_capabilities_are_all_but_xa(world: World) -> None:
    connection = world.connect()
    assert Capability.XA not in connection.capabilities
    assert connection.capabilities | Capability.XA == ~Capability.NONE
    assert connection.info.name
    assert connection.info.version[0].isdigit()
    assert "JMSXDeliveryCount" in connection.info.jmsx_property_names


# Client ids


@pytest.mark.realises("BOIL-CONN-3")
def test_a_client_id_belongs_to_one_connection_at_a_time(world: World) -> None:
    first = world.connect(client_id="shop")
    with pytest.raises(DuplicateClientIdError, match="'shop' is in use"):
        world.connect(client_id="shop")
    second = world.connect()
    with pytest.raises(DuplicateClientIdError):
        second.set_client_id("shop")
    with pytest.raises(DuplicateClientIdError, match="empty"):
        second.set_client_id("")
    first.close()
    second.set_client_id("shop")


# Queues


def test_a_message_is_sent_polled_and_acknowledged(world: World) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=False)
    consumer = consume(session)
    envelope = make_envelope("one")
    session.send(envelope)
    delivery = poll(consumer)
    assert delivery.envelope is envelope
    assert (delivery.count, delivery.redelivered) == (1, False)
    session.acknowledge([delivery])
    assert consumer.poll() is None
    assert len(connection.broker.virtual_host.store) == 0


@pytest.mark.realises("BOIL-PROD-7", "BOIL-CONN-5", "BOIL-CONN-6", "BOIL-CONN-7")
def test_nothing_is_delivered_while_the_connection_is_stopped_but_sending_works(world: World) -> None:
    connection = world.connect(started=False)
    session = connection.open_session(transacted=False)
    wake_ups: list[None] = []
    consumer = consume(session, wake_ups=wake_ups)
    consumer.set_interested(True)
    session.send(make_envelope("one"))
    assert consumer.poll() is None
    assert not wake_ups
    connection.start()
    connection.start()
    assert wake_ups == [None]
    assert text_of(consumer.poll()) == "one"
    session.send(make_envelope("two"))
    connection.stop()
    connection.stop()
    assert consumer.poll() is None


def test_on_ready_comes_when_interest_begins_and_something_is_there(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    wake_ups: list[None] = []
    consumer = consume(session, wake_ups=wake_ups)
    session.send(make_envelope("one"))
    assert not wake_ups
    consumer.set_interested(True)
    assert wake_ups == [None]


def test_a_consumer_that_is_not_interested_may_poll_all_the_same(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    session.send(make_envelope("one"))
    assert text_of(consume(session).poll()) == "one"


@pytest.mark.realises("BOIL-PTP-3", "BOIL-ACK-6", "BOIL-HDR-7")
def test_recovered_messages_come_again_in_their_places_marked_redelivered(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    consumer = consume(session)
    for text in "abc":
        session.send(make_envelope(text))
    first, second = poll(consumer), poll(consumer)
    session.recover([second, first])
    again = poll(consumer)
    assert (text_of(again), again.count, again.redelivered) == ("a", 2, True)
    assert drain(session, consumer) == ["b", "c"]


def test_an_old_delivery_cannot_settle_a_new_one(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    consumer = consume(session)
    session.send(make_envelope("a"))
    old = poll(consumer)
    session.recover([old])
    new = poll(consumer)
    session.acknowledge([old])
    session.recover([old])
    assert consumer.poll() is None
    session.recover([new])
    assert poll(consumer).count == 3


@pytest.mark.realises("BOIL-ACK-7", "BOIL-ACK-8")
def test_an_acknowledged_message_never_comes_again(world: World) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=False)
    consumer = consume(session)
    session.send(make_envelope("a"))
    delivery = poll(consumer)
    session.acknowledge([delivery])
    session.acknowledge([delivery])
    session.recover([delivery])
    session.close()
    session = connection.open_session(transacted=False)
    assert consume(session).poll() is None


@pytest.mark.parametrize("how", ["session", "connection"])
def test_closing_gives_unsettled_messages_back(world: World, how: str) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=False)
    consumer = consume(session)
    session.send(make_envelope("a"))
    poll(consumer)
    (session if how == "session" else connection).close()
    delivery = poll(consume(world.connect().open_session(transacted=False)))
    assert (delivery.count, delivery.redelivered) == (2, True)


@pytest.mark.realises("BOIL-SESS-4")
def test_a_closed_consumers_deliveries_stay_with_the_session(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    consumer = consume(session)
    for text in "ab":
        session.send(make_envelope(text))
    first, second = poll(consumer), poll(consumer)
    consumer.close()
    consumer.close()
    assert consumer.poll() is None
    consumer.set_interested(True)
    other = consume(session)
    assert other.poll() is None
    session.acknowledge([first])
    session.recover([second])
    assert text_of(other.poll()) == "b"


@pytest.mark.realises("BOIL-PTP-4")
def test_a_browser_looks_and_takes_nothing(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    for number in range(5):
        session.send(make_envelope(str(number), properties={"n": number}, priority=number))
    assert [text_of(delivery) for delivery in session.browse(ORDERS, None)] == list("43210")
    assert [text_of(found) for found in session.browse(ORDERS, compile_selector("n > 2"))] == ["4", "3"]
    assert drain(session, consume(session)) == list("43210")


def test_a_browser_shows_how_often_a_message_was_delivered(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    session.send(make_envelope("a"))
    session.recover([poll(consume(session))])
    (seen,) = session.browse(ORDERS, None)
    assert seen.redelivered


def test_a_browser_ends_with_its_session(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    session.send(make_envelope("a"))
    browser = session.browse(ORDERS, None)
    session.close()
    with pytest.raises(ClosedError):
        next(browser)


def test_selectors_choose(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    red, rest = consume(session, selector="colour = 'red'"), consume(session)
    for colour in ["blue", "red", "green"]:
        session.send(make_envelope(colour, properties={"colour": colour}))
    assert drain(session, red) == ["red"]
    assert drain(session, rest) == ["blue", "green"]


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
    with pytest.raises(DestinationInUseError, match="1 consumers"):
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


# Transactions


@pytest.mark.realises("BOIL-TX-1", "BOIL-TX-3")
def test_commit_sends_the_output_and_acknowledges_the_input(world: World) -> None:
    connection = world.connect()
    session, observer = connection.open_session(transacted=True), connection.open_session(transacted=False)
    observer.send(make_envelope("in"))
    consumer = consume(session)
    for text in ["out", "again"]:
        delivery = poll(consumer)
        session.acknowledge([delivery])
        session.send(make_envelope(text))
        assert not list(observer.browse(ORDERS, None))
        session.commit()
        assert [text_of(seen) for seen in observer.browse(ORDERS, None)] == [text]


@pytest.mark.realises("BOIL-TX-2", "BOIL-ACK-9")
def test_rollback_destroys_the_output_and_recover_returns_the_input(world: World) -> None:
    connection = world.connect()
    session, observer = connection.open_session(transacted=True), connection.open_session(transacted=False)
    observer.send(make_envelope("in"))
    consumer = consume(session)
    delivery = poll(consumer)
    session.acknowledge([delivery])
    session.send(make_envelope("out"))
    session.rollback()
    assert consumer.poll() is None, "deliveries stay with the client until recover"
    session.recover([delivery])
    again = poll(consumer)
    assert (text_of(again), again.count) == ("in", 2)
    session.acknowledge([again])
    session.commit()
    assert len(connection.broker.virtual_host.store) == 0


@pytest.mark.realises("BOIL-CONN-13", "BOIL-CONN-12")
@pytest.mark.parametrize("how", ["session", "connection"])
def test_closing_rolls_back(world: World, how: str) -> None:
    connection, observer = world.connect(), world.connect().open_session(transacted=False)
    session = connection.open_session(transacted=True)
    observer.send(make_envelope("in"))
    session.acknowledge([poll(consume(session))])
    session.send(make_envelope("out"))
    (session if how == "session" else connection).close()
    (seen,) = observer.browse(ORDERS, None)
    assert text_of(seen) == "in"
    assert seen.redelivered


def test_commit_and_rollback_of_nothing_are_allowed_in_transacted_sessions_only(world: World) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=True)
    session.commit()
    session.rollback()
    plain = connection.open_session(transacted=False)
    for call in (plain.commit, plain.rollback):
        with pytest.raises(CapabilityError, match="not transacted"):
            call()


def test_a_message_that_expires_before_the_commit_rolls_the_transaction_back(world: World) -> None:
    clock = HandClock()
    session = world.connect(clock=clock).open_session(transacted=True)
    session.send(make_envelope("short", expiration_ms=clock.now_ms + 10))
    session.send(make_envelope("long"))
    clock.now_ms += 10
    with pytest.raises(RolledBackError, match="expired before the commit"):
        session.commit()
    session.send(make_envelope("next"))
    session.commit()
    assert [text_of(seen) for seen in session.browse(ORDERS, None)] == ["next"]


def test_or_is_left_out_when_the_url_says_so(world: World) -> None:
    clock = HandClock()
    session = world.connect("?expired_in_transaction=discard", clock=clock).open_session(transacted=True)
    session.send(make_envelope("short", expiration_ms=clock.now_ms + 10))
    session.send(make_envelope("long"))
    clock.now_ms += 10
    session.commit()
    assert [text_of(seen) for seen in session.browse(ORDERS, None)] == ["long"]


# Dead letters, adoption


@pytest.mark.realises("BOIL-LSN-5")
def test_a_rejected_message_is_kept_with_the_reason(world: World) -> None:
    clock = HandClock()
    connection = world.connect(clock=clock)
    session = connection.open_session(transacted=False)
    consumer = consume(session)
    sent = make_envelope("poison", properties={"n": 1}, expiration_ms=clock.now_ms + 5, priority=7)
    session.send(sent)
    session.recover([poll(consumer)])
    session.reject(poll(consumer), "cannot be parsed")
    assert consumer.poll() is None
    clock.now_ms += 1_000
    letters = consume(session, Address(AddressKind.QUEUE, "DLQ"))
    letter = poll(letters)
    assert letter.envelope.message_id == sent.message_id
    assert (letter.envelope.body, letter.envelope.priority) == ("poison", 7)
    assert dict(letter.envelope.properties) == {
        "n": 1,
        "JMS_pyjms_deadReason": "cannot be parsed",
        "JMS_pyjms_deadDestination": "queue://orders",
        "JMS_pyjms_deadCount": 2,
    }
    session.reject(letter, "still not")
    again = poll(letters)
    assert again.envelope.properties["JMS_pyjms_deadReason"] == "still not"
    assert again.envelope.properties["JMS_pyjms_deadDestination"] == "queue://orders"


def test_a_delivery_that_is_no_longer_the_sessions_cannot_be_rejected(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    session.send(make_envelope("a"))
    delivery = poll(consume(session))
    session.acknowledge([delivery])
    session.reject(delivery, "too late")
    assert consume(session, Address(AddressKind.QUEUE, "DLQ")).poll() is None


def test_a_rejected_message_of_a_transacted_session_does_not_come_back(world: World) -> None:
    session = world.connect().open_session(transacted=True)
    session.send(make_envelope("a"))
    session.commit()
    consumer = consume(session)
    delivery = poll(consumer)
    session.acknowledge([delivery])
    session.rollback()
    session.reject(delivery, "fails always")
    session.recover([delivery])
    assert consumer.poll() is None
    assert text_of(consume(session, Address(AddressKind.QUEUE, "DLQ")).poll()) == "a"


def test_an_adopted_delivery_is_settled_by_its_new_session(world: World) -> None:
    connection = world.connect()
    receiving, working = connection.open_session(transacted=False), connection.open_session(transacted=False)
    for text in "abc":
        receiving.send(make_envelope(text))
    consumer = consume(receiving)
    a, b, c = poll(consumer), poll(consumer), poll(consumer)
    working.adopt([a, b])
    receiving.acknowledge([a])  # no longer its own
    working.acknowledge([a])
    working.close()  # gives b back
    receiving.acknowledge([c])
    assert drain(receiving, consumer) == ["b"]
    assert len(connection.broker.virtual_host.store) == 0


def test_a_closed_session_cannot_adopt(world: World) -> None:
    connection = world.connect()
    receiving, working = connection.open_session(transacted=False), connection.open_session(transacted=False)
    receiving.send(make_envelope("a"))
    delivery = poll(consume(receiving))
    working.close()
    with pytest.raises(ClosedError):
        working.adopt([delivery])
    receiving.acknowledge([delivery])


# Expiry


@pytest.mark.realises("BOIL-HDR-10", "BOIL-HDR-11")
def test_an_expired_message_is_neither_delivered_nor_shown(world: World) -> None:
    clock = HandClock()
    connection = world.connect(clock=clock)
    session = connection.open_session(transacted=False)
    consumer = consume(session)
    session.send(make_envelope("short", expiration_ms=clock.now_ms + 10))
    session.send(make_envelope("long"))
    clock.now_ms += 10
    assert [text_of(seen) for seen in session.browse(ORDERS, None)] == ["long"]
    assert drain(session, consumer) == ["long"]


# Ending


def calls_on(connection: VmConnection, session: VmSession, delivery: Delivery) -> list[object]:
    return [
        connection.start,
        connection.stop,
        lambda: connection.set_client_id("x"),
        lambda: connection.open_session(transacted=False),
        lambda: connection.create_temporary(AddressKind.QUEUE),
        lambda: connection.delete_temporary(ORDERS),
        *session_calls(session, delivery),
    ]


def session_calls(session: VmSession, delivery: Delivery) -> list[object]:
    return [
        lambda: session.send(make_envelope()),
        lambda: consume(session),
        lambda: session.acknowledge([delivery]),
        lambda: session.recover([delivery]),
        lambda: session.reject(delivery, "late"),
        lambda: session.adopt([delivery]),
        session.commit,
        session.rollback,
        lambda: session.browse(ORDERS, None),
        lambda: session.unsubscribe("all"),
    ]


@pytest.mark.realises("BOIL-CONN-15", "BOIL-SESS-7")
@pytest.mark.parametrize("transacted", [True, False])
@pytest.mark.parametrize("how", ["session", "connection", "broker"])
def test_whatever_is_closed_says_so(world: World, how: str, transacted: bool) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=transacted)
    consumer = consume(session)
    connection.open_session(transacted=False).send(make_envelope("a"))
    delivery = poll(consumer)
    if how == "session":
        session.close()
        calls = session_calls(session, delivery)
    else:
        connection.close() if how == "connection" else world.stop()
        calls = calls_on(connection, session, delivery)
    for call in calls:
        assert callable(call)
        with pytest.raises(ClosedError):
            call()
    assert consumer.poll() is None
    consumer.set_interested(True)
    for end in (consumer, session, connection):
        end.close()
        end.close()


def test_a_stopped_broker_tells_each_connection_once(world: World) -> None:
    first, second, third = RecordedEvents(), RecordedEvents(), RecordedEvents()
    world.connect(events=first)
    world.connect(events=second)
    world.connect(events=third).close()
    world.stop()
    world.stop()
    assert [type(error) for error in first.errors + second.errors] == [ConnectionLostError] * 2
    assert not third.errors


def test_a_non_durable_subscription_may_end_with_messages_unsettled(world: World) -> None:
    connection = world.connect()
    session = connection.open_session(transacted=False)
    consumer = consume(session, NEWS)
    for text in "abc":
        session.send(news(text))
    first, second = poll(consumer), poll(consumer)
    consumer.close()
    assert len(connection.broker.virtual_host.store) == 2, "c went with the subscription"
    session.acknowledge([first])
    session.recover([second])
    assert len(connection.broker.virtual_host.store) == 0


def test_sessions_end_in_any_state(world: World) -> None:
    """Unsettled, settled in an open transaction, adopted, with a closed consumer, with a deleted subscription."""
    connection = world.connect(client_id="shop")
    for transacted in [True, False]:
        session = connection.open_session(transacted=transacted)
        sender = connection.open_session(transacted=False)
        for text in "abcd":
            sender.send(make_envelope(text))
        sender.send(news("e"))
        consumer, subscriber = consume(session), consume(session, NEWS)
        sender.send(news("f"))
        session.acknowledge([poll(consumer)])
        kept = poll(consumer)
        poll(subscriber)
        consumer.close()
        other = connection.open_session(transacted=not transacted)
        other.adopt([kept])
        session.close()
        other.close()
        rest = connection.open_session(transacted=False)
        assert drain(rest, consume(rest)) == (list("abcd") if transacted else list("bcd"))
        assert len(connection.broker.virtual_host.store) == 0


def test_closing_from_another_thread_loses_nothing(world: World) -> None:
    """Sessions that poll are closed at any moment: what they did not settle comes back, once."""
    sender = world.connect().open_session(transacted=False)
    total = 300
    for number in range(total):
        sender.send(make_envelope(str(number)))
    settled: list[str] = []
    for _ in range(30):
        connection = world.connect()
        session = connection.open_session(transacted=False)
        consumer = consume(session)
        thread = Thread(target=_poll_until_closed, args=(session, consumer, settled))
        thread.start()
        while len(settled) < 1 and thread.is_alive():
            pass
        connection.close()
        thread.join()
    last = world.connect().open_session(transacted=False)
    settled += drain(last, consume(last))
    assert sorted(settled, key=int) == [str(number) for number in range(total)]
    host = last._host
    assert host.queue("orders").count(MessageState.DELIVERED) == 0


def _poll_until_closed(session: VmSession, consumer: VmConsumer, settled: list[str]) -> None:
    try:
        while (delivery := consumer.poll()) is not None:
            session.acknowledge([delivery])
            settled.append(text_of(delivery))
    except ClosedError:
        return
