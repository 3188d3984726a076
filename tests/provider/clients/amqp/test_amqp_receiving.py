"""Receiving: credit by interest, settlement, redelivery, selectors, browsers and durable subscriptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    CapabilityError,
    ClosedError,
    DestinationError,
    DestinationInUseError,
    InvalidSelectorError,
    ProviderError,
    SubscriptionInUseError,
    TooLateError,
    UnknownSubscriptionError,
)
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.selector import compile_selector
from pyjms_provider.amqp.errors import LinkFault
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import (
    ACCEPTED,
    RELEASED,
    Attach,
    Modified,
    Open,
    Rejected,
    Source,
    TransactionalState,
)
from pyjms_provider.clients.amqp.session import AmqpSession
from pyjms_provider.protocols.amqp.link import Sender
from tests.provider.clients.amqp.peer import PATIENCE_S, Kept, Peer, PeerConnection, message_of, text_of
from tests.provider.clients.amqp.world import (
    NEWS,
    ORDERS,
    QUICKLY,
    Events,
    Told,
    bodies,
    connected,
    consume,
    message,
    receive,
    session_at,
)

UNCONFIRMED = f"{QUICKLY}&confirm_acknowledge=no"


def put(peer: Peer, *texts: str, address: str = "orders") -> None:
    with peer.changed:
        peer.queue(address).extend(Kept(message_of(text)) for text in texts)


def wait_until(is_so: Callable[[], bool]) -> None:
    pause = Event()
    for _ in range(int(PATIENCE_S / 0.001)):
        if is_so():
            return
        pause.wait(0.001)
    raise AssertionError("it did not come to that")


def source_of(attach: Attach) -> Source:
    assert isinstance(attach.source, Source)
    return attach.source


def test_messages_come_in_order_and_are_settled(peer: Peer) -> None:
    put(peer, "one", "two")
    with session_at(peer, UNCONFIRMED) as session:
        consumer = consume(session)
        for text in ("one", "two"):
            delivery = receive(consumer)
            assert (delivery.envelope.body, delivery.count, delivery.redelivered) == (text, 1, False)
            session.acknowledge([delivery])
        peer.wait_for(lambda: peer.outcomes == [ACCEPTED] * 2)
        assert consumer.poll() is None
    source = source_of(peer.attaches[0])
    assert (source.address, source.capabilities, source.durable) == ("orders", ("queue",), 0)


def test_a_persistent_message_is_settled_when_the_acknowledgement_returns(peer: Peer) -> None:
    with session_at(peer) as session:
        session.send(message("one"))
        session.acknowledge([receive(consume(session))])
        state = peer.outcomes[0]
        assert isinstance(state, TransactionalState)
        assert state.txn_id not in peer.connections[-1].transactions  # it has ended


def test_an_acknowledgement_may_be_repeated(peer: Peer) -> None:
    put(peer, "one", "two")
    with session_at(peer, UNCONFIRMED) as session:
        consumer = consume(session)
        one, two = receive(consumer), receive(consumer)
        session.acknowledge([one])
        session.acknowledge([one, two])
        peer.wait_for(lambda: peer.outcomes == [ACCEPTED, ACCEPTED])


def test_a_broker_that_confirms_settlement_is_asked_for_it(peer: Peer) -> None:
    peer.script.open = Open("peer", offered_capabilities=("pyjms:confirmed-settlement",))
    with session_at(peer) as session:
        session.send(message("one"))
        session.acknowledge([receive(consume(session))])
        assert peer.outcomes == [ACCEPTED]
    assert peer.attaches[-1].rcv_settle_mode == 1


def test_a_consumer_without_interest_gives_no_credit(peer: Peer) -> None:
    put(peer, "one")
    told = Told()
    with session_at(peer) as session:
        consumer = consume(session, told=told)
        assert consumer.poll() is None
        assert len(peer.queue("orders")) == 1
        consumer.set_interested(True)
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        assert delivery.envelope.body == "one"


def test_credit_is_given_again_when_half_of_it_is_used(peer: Peer) -> None:
    put(peer, *map(str, range(25)))
    with session_at(peer, f"{UNCONFIRMED}&prefetch_messages=10") as session:
        consumer = consume(session)
        assert bodies(consumer, 25) == [str(number) for number in range(25)]


def test_what_was_fetched_goes_back_when_interest_ends(peer: Peer) -> None:
    put(peer, "one", "two", "three")
    with session_at(peer) as session:
        consumer = consume(session)
        assert receive(consumer).envelope.body == "one"
        peer.wait_for(lambda: not peer.queue("orders"))
        consumer.catch_up()
        consumer.set_interested(False)
        consumer.catch_up()
        delivery = consumer.poll()
        assert delivery is not None
        assert (delivery.envelope.body, delivery.redelivered) == ("two", False)


def test_catch_up_fetches_what_the_broker_has(peer: Peer) -> None:
    with session_at(peer) as session:
        consumer = consume(session)
        consumer.catch_up()
        assert consumer.poll() is None
        put(peer, "one", "two")
        consumer.catch_up()
        delivery = consumer.poll()
        assert delivery is not None
        assert delivery.envelope.body == "one"
        assert consumer.poll() is None
        assert len(peer.queue("orders")) == 1


def test_nothing_is_delivered_while_the_connection_is_stopped(peer: Peer) -> None:
    put(peer, "one")
    told = Told()
    with connected(peer) as connection:
        session = connection.open_session(transacted=False)
        connection.stop()
        consumer = consume(session, told=told)
        consumer.set_interested(True)
        consumer.catch_up()
        assert consumer.poll() is None
        connection.start()
        told.wait()
        assert consumer.poll() is not None


def test_recovered_messages_come_again_first_and_are_counted(peer: Peer) -> None:
    put(peer, "one", "two", "three")
    with session_at(peer, UNCONFIRMED) as session:
        consumer = consume(session)
        deliveries = [receive(consumer), receive(consumer)]
        session.recover(deliveries)
        again = [receive(consumer) for _ in range(3)]
        seen = [(each.envelope.body, each.count, each.redelivered) for each in again]
        assert seen == [("one", 2, True), ("two", 2, True), ("three", 1, False)]
        session.give_back_unseen(again[2:])
        unseen = receive(consumer)
        assert (unseen.envelope.body, unseen.count) == ("three", 1)


def test_what_a_closed_session_has_not_settled_is_counted_by_the_broker(peer: Peer) -> None:
    put(peer, "one", "two", "three")
    with connected(peer, UNCONFIRMED) as connection:
        first = connection.open_session(transacted=False)
        consumer = consume(first)
        receive(consumer)
        receive(consumer)
        first.close()
        assert [each for each in peer.outcomes if isinstance(each, Modified)] == [Modified(True)] * 2
        second = consume(connection.open_session(transacted=False))
        seen = [(each.envelope.body, each.count) for each in (receive(second) for _ in range(3))]
        assert seen == [("one", 2), ("two", 2), ("three", 1)]


def test_a_closed_consumers_messages_stay_with_the_session(peer: Peer) -> None:
    put(peer, "one", "two")
    with session_at(peer, UNCONFIRMED) as session:
        consumer = consume(session)
        delivery = receive(consumer)
        consumer.close()
        session.acknowledge([delivery])
        peer.wait_for(lambda: ACCEPTED in peer.outcomes)
        other = consume(session)
        assert receive(other).envelope.body == "two"
    assert RELEASED in peer.outcomes


def test_a_closed_consumer_whose_message_is_held_is_sent_no_other(peer: Peer) -> None:
    put(peer, "one")
    with session_at(peer, UNCONFIRMED) as session:
        consumer = consume(session)
        delivery = receive(consumer)
        consumer.close()
        session.send(message("two"))
        assert [text_of(kept.data) for kept in peer.queue("orders")] == ["two"]
        session.acknowledge([delivery])
    assert peer.outcomes == [ACCEPTED], "nothing was sent to it, and given back"


def test_a_close_behind_the_end_of_a_link_ends_the_wait_for_that(peer: Peer) -> None:
    """The broker's answer about the link comes behind this side's end of the session, and is not read."""
    put(peer, "one")
    answers = Event()
    with session_at(peer, "timeout_ms=100000&confirm_acknowledge=no") as session:
        consumer = consume(session)
        delivery = receive(consumer)
        consumer.close()
        amqp = session.amqp_session(session.present())

        def say_nothing(_: PeerConnection) -> None:
            answers.wait(PATIENCE_S)

        silent = Thread(target=lambda: peer.do(say_nothing))
        acknowledging = Thread(target=lambda: session.acknowledge([delivery]))
        closing = Thread(target=session.close)
        silent.start()
        try:
            acknowledging.start()
            wait_until(lambda: not next(amqp.links).is_attached)
            closing.start()
            wait_until(lambda: not amqp.is_open)
        finally:
            answers.set()
        for each in (silent, closing, acknowledging):
            each.join(PATIENCE_S)
        assert not acknowledging.is_alive()
    assert peer.outcomes == [ACCEPTED]


@pytest.mark.parametrize("confirm", ["yes", "no"])
def test_an_acknowledgement_that_a_close_overtakes_is_refused(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, confirm: str
) -> None:
    peer.script.open = Open("peer", offered_capabilities=("pyjms:confirmed-settlement",))
    with session_at(peer, f"timeout_ms=100000&confirm_acknowledge={confirm}") as session:
        session.send(message("one"))
        delivery = receive(consume(session))
        find = AmqpSession._live

        def close_first(self: AmqpSession, deliveries: Any) -> Any:
            found = find(self, deliveries)
            closing = Thread(target=session.close)
            closing.start()
            closing.join(PATIENCE_S)
            return found

        monkeypatch.setattr(AmqpSession, "_live", close_first)
        with pytest.raises(ClosedError):
            session.acknowledge([delivery])
    assert ACCEPTED not in peer.outcomes


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_the_link_of_a_closed_consumer_ends_with_the_transaction_that_holds_its_messages(peer: Peer, end: str) -> None:
    put(peer, "one")
    with session_at(peer, transacted=True) as session:
        consumer = consume(session)
        delivery = receive(consumer)
        consumer.close()
        session.acknowledge([delivery])
        assert [link for link in peer.connections[-1].links if isinstance(link, Sender)]
        getattr(session, end)()
        assert not [link for link in peer.connections[-1].links if isinstance(link, Sender)]


overtaking = pytest.mark.parametrize("product", ["ActiveMQ", "apache-activemq-artemis"])
"""The brokers at which later messages may overtake one that is released."""


@overtaking
def test_what_comes_as_interest_ends_stays_where_released_messages_are_overtaken(peer: Peer, product: str) -> None:
    peer.script.open = Open("peer", properties={"product": product})
    with connected(peer, UNCONFIRMED) as connection:
        consumer = consume(connection.open_session(transacted=False))
        consumer.set_interested(True)  # gives credit
        put(peer, "one", "two")
        consumer.set_interested(False)  # drains it, whereupon they come
        peer.wait_for(lambda: not peer.queue("orders"))
        put(peer, "three")
        assert bodies(consumer, 3) == ["one", "two", "three"]
    assert RELEASED not in peer.outcomes


@overtaking
def test_what_a_closed_consumer_had_fetched_goes_back_with_its_link_where_released_messages_are_overtaken(
    peer: Peer, product: str
) -> None:
    put(peer, "one", "two", "three")
    peer.script.open = Open("peer", properties={"product": product})
    with connected(peer, UNCONFIRMED) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session)
        delivery = receive(consumer)
        peer.wait_for(lambda: not peer.queue("orders"))
        consumer.close()
        assert not peer.queue("orders"), "the session can settle what it holds on this link alone"
        session.acknowledge([delivery])
        other = consume(connection.open_session(transacted=False))
        assert bodies(other, 2) == ["two", "three"]
    assert RELEASED not in peer.outcomes


def test_a_recovered_message_of_a_closed_consumer_goes_back_to_the_broker(peer: Peer) -> None:
    put(peer, "one")
    with session_at(peer) as session:
        consumer = consume(session)
        delivery = receive(consumer)
        consumer.close()
        session.recover([delivery])
        again = receive(consume(session))
        assert (again.envelope.body, again.count, again.redelivered) == ("one", 2, True)


def test_a_rejected_message_is_told_with_its_reason(peer: Peer) -> None:
    put(peer, "one")
    peer.script.open = Open("peer", properties={"product": "apache-activemq-artemis"})
    with connected(peer) as connection:
        assert Capability.DEAD_LETTERS in connection.capabilities
        session = connection.open_session(transacted=False)
        session.reject(receive(consume(session)), "no such order")
        peer.wait_for(lambda: bool(peer.outcomes))
    rejected = peer.outcomes[0]
    assert isinstance(rejected, Rejected)
    assert rejected.error is not None
    assert rejected.error.description == "no such order"


def test_a_message_that_cannot_be_read_is_rejected_and_the_next_one_comes(peer: Peer) -> None:
    with peer.changed:
        peer.queue("orders").append(Kept(b"\x00\x53\x77\xa1\x02\xff\xff"))
    put(peer, "two")
    with session_at(peer) as session:
        assert receive(consume(session)).envelope.body == "two"
        peer.wait_for(lambda: bool(peer.outcomes))
        assert isinstance(peer.outcomes[0], Rejected)


def test_messages_of_several_frames_arrive(peer: Peer) -> None:
    text = "x" * 300_000
    with session_at(peer, f"{QUICKLY}&frame_bytes_max=1024") as session:
        session.send(message(text))
        assert receive(consume(session)).envelope.body == text


# Selectors, browsers, priorities


def test_a_selector_is_a_filter_of_the_source(peer: Peer) -> None:
    with session_at(peer) as session:
        consume(session, selector="cups > 1", priority=7)
    source = source_of(peer.attaches[0])
    assert source.filter is not None
    found = source.filter["jms-selector"]
    assert (found.descriptor, found.value) == (0x0000468C00000004, "cups > 1")
    assert peer.attaches[0].properties == {"priority": 7}


@pytest.mark.parametrize(("selector", "no_local"), [("cups > 1", False), (None, True)])
def test_a_filter_that_the_broker_passes_over_is_refused(peer: Peer, selector: str | None, no_local: bool) -> None:
    peer.script.echoes_filters = False
    with session_at(peer) as session:
        with pytest.raises(CapabilityError, match="does not apply the filter"):
            consume(session, NEWS, selector=selector, no_local=no_local)
        if selector is not None:
            with pytest.raises(CapabilityError):
                list(session.browse(ORDERS, compile_selector(selector)))


def test_a_selector_that_the_broker_refuses_is_told_as_one(peer: Peer) -> None:
    peer.script.refuse = lambda link: LinkFault("amqp:invalid-field", "I cannot read it")
    with session_at(peer) as session:
        with pytest.raises(InvalidSelectorError, match="I cannot read it"):
            consume(session, selector="cups > 1")
        with pytest.raises(InvalidSelectorError):
            list(session.browse(ORDERS, compile_selector("cups > 1")))
        with pytest.raises(DestinationError):
            consume(session)


@pytest.mark.parametrize("size", [0, 1, 250])
def test_a_browser_shows_a_queue_and_leaves_it(peer: Peer, size: int) -> None:
    put(peer, *map(str, range(size)))
    with session_at(peer) as session:
        shown = [delivery.envelope.body for delivery in session.browse(ORDERS, None)]
        assert shown == [str(number) for number in range(size)]
        assert len(peer.queue("orders")) == size
        iterator = session.browse(ORDERS, None)
        next(iterator, None)
        del iterator
        session.send(message("after"))


# Durable subscriptions


def test_a_durable_subscription_outlives_its_consumer(peer: Peer) -> None:
    with connected(peer, client_id="me") as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, NEWS, durable_name="daily")
        with pytest.raises(SubscriptionInUseError):
            consume(connection.open_session(transacted=False), NEWS, durable_name="daily")
        with pytest.raises(SubscriptionInUseError):
            session.unsubscribe("daily")
        consumer.close()
        assert "daily" in peer.subscriptions
        consume(session, NEWS, durable_name="daily").close()
        session.unsubscribe("daily")
        assert "daily" not in peer.subscriptions
        with pytest.raises(UnknownSubscriptionError):
            session.unsubscribe("daily")
    source = source_of(peer.attaches[0])
    assert (peer.attaches[0].name, source.durable, source.expiry_policy) == ("daily", 2, "never")
    assert (source.distribution_mode, source.capabilities) == ("copy", ("topic",))


@pytest.mark.parametrize(
    ("client_id", "is_durable", "names", "capabilities"),
    [
        ("me", True, ["daily", "daily|2"], ("topic", "shared")),
        (None, True, ["daily|global", "daily|global2"], ("topic", "shared", "global")),
        ("me", False, ["daily|volatile1", "daily|volatile2"], ("topic", "shared")),
        (None, False, ["daily|global-volatile1", "daily|global-volatile2"], ("topic", "shared", "global")),
    ],
)
def test_consumers_of_a_shared_subscription_are_numbered(
    peer: Peer, client_id: str | None, is_durable: bool, names: list[str], capabilities: tuple[str, ...]
) -> None:
    request = SubscribeRequest(
        address=NEWS,
        selector=None,
        no_local=False,
        durable_name="daily" if is_durable else None,
        shared_name=None if is_durable else "daily",
        is_shared=is_durable,
    )
    with connected(peer, client_id=client_id) as connection:
        session = connection.open_session(transacted=False)
        first, _ = (session.subscribe(request, lambda: None) for _ in range(2))
        if is_durable:
            with pytest.raises(SubscriptionInUseError):
                session.unsubscribe("daily")
        first.close()
        session.subscribe(request, lambda: None)
    assert [attach.name for attach in peer.attaches] == [*names, names[0]]
    assert {source_of(attach).capabilities for attach in peer.attaches} == {capabilities}


def test_a_delivery_time_is_told_to_the_broker(peer: Peer) -> None:
    with session_at(peer) as session:
        session.send(replace(message("later"), deliver_at_ms=12345))
    assert Message(peer.queue("orders")[0].data).message_annotations["x-opt-delivery-time"] == 12345


def test_a_durable_subscription_with_unsettled_messages_is_not_deleted(peer: Peer) -> None:
    put(peer, "one", address="news")
    with connected(peer, client_id="me") as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, NEWS, durable_name="daily")
        delivery = receive(consumer)
        consumer.close()
        with pytest.raises(SubscriptionInUseError):
            session.unsubscribe("daily")
        session.acknowledge([delivery])
        session.unsubscribe("daily")


def test_a_new_subscriber_gets_what_the_last_one_left_unsettled(peer: Peer) -> None:
    put(peer, "one", address="news")
    with connected(peer, client_id="me") as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, NEWS, durable_name="daily")
        receive(consumer)
        consumer.close()
        again = receive(consume(session, NEWS, durable_name="daily"))
        assert (again.envelope.body, again.redelivered) == ("one", True)


@pytest.mark.parametrize(("durable_name", "kind"), [("daily", SubscriptionInUseError), (None, DestinationError)])
def test_what_is_locked_is_a_subscription_or_a_destination(
    peer: Peer, durable_name: str | None, kind: type[ProviderError]
) -> None:
    peer.script.refuse = lambda link: LinkFault("amqp:resource-locked", "another connection has it")
    with connected(peer, client_id="me") as connection:
        session = connection.open_session(transacted=False)
        with pytest.raises(kind, match="another connection has it"):
            consume(session, NEWS, durable_name=durable_name)


# Temporary destinations


@pytest.mark.parametrize("kind", list(AddressKind))
def test_a_temporary_destination_lives_as_long_as_its_link(peer: Peer, kind: AddressKind) -> None:
    with connected(peer) as connection:
        made = connection.create_temporary(kind)
        assert made == Address(kind, "temp-1", temporary=True)
        session = connection.open_session(transacted=False)
        consumer = consume(session, made)
        session.send(message("one", made))
        delivery = receive(consumer)
        assert delivery.envelope.destination == made
        session.acknowledge([delivery])
        with pytest.raises(DestinationInUseError):
            connection.delete_temporary(made)
        consumer.close()
        connection.delete_temporary(made)
        with pytest.raises(DestinationError):
            consume(session, made)
        with pytest.raises(DestinationError):
            session.send(message("two", made))
        with pytest.raises(DestinationError):
            connection.delete_temporary(made)
    target = peer.attaches[0].target
    assert (target.dynamic, target.capabilities) == (True, (f"temporary-{kind.name.lower()}",))


def test_only_its_connection_consumes_from_a_temporary_destination(peer: Peer) -> None:
    with connected(peer) as connection, connected(peer) as other:
        made = connection.create_temporary(AddressKind.QUEUE)
        with pytest.raises(DestinationError, match="another connection"):
            consume(other.open_session(transacted=False), made)


# Several sessions, and transactions


def test_a_session_settles_what_another_one_received(peer: Peer) -> None:
    put(peer, "one")
    with connected(peer, UNCONFIRMED) as connection:
        first, second = (connection.open_session(transacted=False) for _ in range(2))
        delivery = receive(consume(first))
        second.adopt([delivery])
        first.close()
        second.acknowledge([delivery])
        peer.wait_for(lambda: bool(peer.outcomes))


def test_messages_of_a_transaction_are_settled_with_the_commit(peer: Peer) -> None:
    put(peer, "one", "two")
    with session_at(peer, transacted=True) as session:
        consumer = consume(session)
        deliveries = [receive(consumer), receive(consumer)]
        session.rollback()
        session.recover(deliveries)
        deliveries = [receive(consumer), receive(consumer)]
        assert [each.count for each in deliveries] == [2, 2]
        session.acknowledge(deliveries)
        session.commit()
        assert not peer.queue("orders")
        assert all(isinstance(state, TransactionalState) for state in peer.outcomes)


def test_acknowledged_messages_of_a_transaction_that_is_rolled_back_come_from_the_broker(peer: Peer) -> None:
    put(peer, "one")
    with session_at(peer, transacted=True) as session:
        consumer = consume(session)
        delivery = receive(consumer)
        session.acknowledge([delivery])
        session.rollback()
        session.recover([delivery])
        again = receive(consumer)
        assert again.envelope.body == "one"


# A lost connection


def test_consumers_come_back_after_a_loss_and_old_deliveries_are_over(peer: Peer) -> None:
    put(peer, "one", "two")
    events = Events()
    with connected(peer, UNCONFIRMED, events) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session)
        delivery = receive(consumer)
        peer.cut()
        events.wait_for(1)
        again = [receive(consumer), receive(consumer)]
        # The message has no id, by which the process would remember that it was delivered before.
        assert [each.envelope.body for each in again] == ["one", "two"]
        with pytest.raises(TooLateError):
            session.acknowledge([delivery])
        connection.link.current()
        assert connection.state == "connected"


def test_what_was_delivered_before_a_loss_says_so(peer: Peer) -> None:
    events = Events()
    with connected(peer, UNCONFIRMED, events) as connection:
        session = connection.open_session(transacted=False)
        session.send(message("one"))
        session.send(message("two"))
        consumer = consume(session)
        receive(consumer)
        peer.cut()
        events.wait_for(1)
        again = [receive(consumer), receive(consumer)]
        assert [(each.count, each.redelivered) for each in again] == [(2, True), (1, False)]


def test_a_durable_subscriber_comes_back_after_a_loss(peer: Peer) -> None:
    events = Events()
    with connected(peer, UNCONFIRMED, events, client_id="me") as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, NEWS, durable_name="daily")
        peer.cut()
        events.wait_for(1)
        session.send(message("one", NEWS))
        assert receive(consumer).envelope.body == "one"
    assert [opened.container_id for opened in peer.opens] == ["me", "me"]


def test_temporary_destinations_come_back_under_their_names(peer: Peer) -> None:
    events = Events()
    with connected(peer, UNCONFIRMED, events) as connection:
        made = connection.create_temporary(AddressKind.QUEUE)
        session = connection.open_session(transacted=False)
        consumer = consume(session, made)
        peer.cut()
        events.wait_for(1)
        session.send(message("one", made, reply_to=made))
        delivery = receive(consumer)
        assert (delivery.envelope.destination, delivery.envelope.reply_to) == (made, made)
        with peer.changed:
            assert "temp-2" in peer.queues


def test_a_consumer_that_the_broker_refuses_after_a_loss_is_told(peer: Peer) -> None:
    events = Events()
    with connected(peer, QUICKLY, events) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session)
        peer.script.refuse = lambda link: (
            LinkFault("amqp:not-found", "it is gone") if isinstance(link, Sender) else None
        )
        peer.cut()
        errors = events.wait_for(2)
        assert "receives nothing more" in errors[1].reason
        assert consumer.poll() is None


def test_a_consumer_that_the_broker_ends_is_told(peer: Peer) -> None:
    events = Events()
    with connected(peer, QUICKLY, events) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session)
        peer.do(lambda c: c.links[-1].detach(fault=LinkFault("amqp:resource-deleted", "the queue was deleted")))
        assert "the queue was deleted" in events.wait_for(1)[0].reason
        assert consumer.poll() is None
        session.send(message("still", NEWS))


def test_a_wait_for_a_message_ends_with_the_connection(peer: Peer) -> None:
    events = Events()
    got: list[Delivery] = []
    with connected(peer, UNCONFIRMED, events) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session)
        thread = Thread(target=lambda: got.append(receive(consumer)))
        thread.start()
        peer.wait_for(lambda: any(link.credit for c in peer.connections for link in c.links))
        peer.cut()
        events.wait_for(1)
        connection.open_session(transacted=False).send(message("one"))
        thread.join()
        assert text_of(message_of("one")) == got[0].envelope.body == "one"
