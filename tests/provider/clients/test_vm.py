"""The contract of `pyjms.spi`, as the provider of ``vm://`` keeps it: brokers, client ids, queues."""

from __future__ import annotations

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import (
    ClosedError,
    DuplicateClientIdError,
    ProviderError,
    ResourceError,
    TooLateError,
    UrlError,
)
from pyjms.spi.provider import ConnectRequest
from pyjms.spi.selector import compile_selector
from pyjms.spi.url import ProviderUrl
from pyjms_provider.broker import running_broker
from pyjms_provider.clients.vm import VmProvider
from tests.provider.clients.world import World, consume, drain, poll
from tests.provider.helpers import ORDERS, HandClock, RecordedEvents, make_envelope, text_of

# URLs and brokers


@pytest.mark.parametrize(
    ("url", "error", "cure"),
    [
        ("vm://", UrlError, "vm://shop"),
        ("vm://shop:61616", UrlError, "neither port nor path"),
        ("vm://shop/queue", UrlError, "neither port nor path"),
        ("vm://shop?colour=red", UrlError, "'colour'.*expired_in_transaction=rollback or discard"),
        ("vm://shop?expired_in_transaction=maybe", UrlError, "'maybe'.*rollback or discard"),
        ("vm://shop?store=", UrlError, "store= is empty; write the URL of a store"),
        ("vm://shop?synchronous=off", UrlError, "synchronous= says how a store is used, so it needs store="),
        ("vm://shop?store=x&synchronous=maybe", UrlError, "'maybe'.*synchronous=full, normal or off"),
        ("vm://shop?store=x&memory=much", UrlError, "'much' is no number of bytes; write memory="),
        ("vm://shop?store=x&keep_free=some", UrlError, "'some' is no number of bytes; write keep_free="),
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


def test_capabilities_are_all_but_those_that_need_a_store(world: World) -> None:
    connection = world.connect()
    needing_a_store = Capability.XA | Capability.SHARED_TRANSACTIONS
    assert not connection.capabilities & needing_a_store
    assert connection.capabilities | needing_a_store == ~Capability.NONE
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
    with pytest.raises(TooLateError):
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
