"""What is said to each broker: one meaning of a call, whatever the broker makes of STOMP."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    CapabilityError,
    DestinationError,
    DestinationInUseError,
    ProviderError,
    ResourceError,
    RolledBackError,
    SubscriptionInUseError,
    UnknownSubscriptionError,
)
from pyjms.spi.provider import ExpiredMessage
from pyjms.testing import VirtualClock
from pyjms_provider.clients.stomp.foreign.connection import ForeignConnection
from pyjms_provider.clients.stomp.foreign.held_message import HeldMessage
from pyjms_provider.clients.stomp.foreign.session import ForeignSession
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import to_frame
from tests.provider.clients.stomp.fake_broker import FakeBroker
from tests.provider.clients.stomp.world import ORDERS, QUICKLY, Events, Told, connect, connected, consume, hasten
from tests.provider.helpers import NEWS, make_envelope, text_of

CLASSIC = "ActiveMQ/5.17.2"
ARTEMIS = "ActiveMQ-Artemis/2.30.0"
RABBITMQ = "RabbitMQ/3.10.8"
ALL = pytest.mark.parametrize("server", [CLASSIC, ARTEMIS, RABBITMQ])


def own(broker: FakeBroker) -> list[Frame]:
    """Return the SUBSCRIBEs that are not the client's own housekeeping."""
    return [frame for frame in broker.of("SUBSCRIBE") if frame.headers["id"] != "janitor"]


@ALL
def test_messages_are_never_settled_by_the_broker_itself(server: str) -> None:
    with FakeBroker(server) as broker, connected(broker) as connection:
        consume(connection.open_session(transacted=False))
        (subscribe,) = own(broker)
        assert subscribe.headers["ack"] == "client-individual"


@pytest.mark.parametrize(
    ("server", "options", "header", "value"),
    [
        (CLASSIC, "", "activemq.prefetchSize", "10"),
        (CLASSIC, "prefetch_messages=3", "activemq.prefetchSize", "3"),
        (RABBITMQ, "prefetch_messages=3", "prefetch-count", "3"),
        (ARTEMIS, "prefetch_messages=1", "consumer-window-size", "0"),
        (ARTEMIS, "prefetch_messages=3", "consumer-window-size", "30720"),
    ],
)
def test_the_prefetch_is_said_in_the_brokers_unit(server: str, options: str, header: str, value: str) -> None:
    with FakeBroker(server) as broker, connected(broker, options or QUICKLY) as connection:
        consume(connection.open_session(transacted=False))
        assert own(broker)[0].headers[header] == value


@ALL
def test_a_persistent_message_waits_for_its_receipt_and_another_one_does_not(server: str) -> None:
    with FakeBroker(server) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        session.send(make_envelope("a", persistent=True))
        session.send(make_envelope("b"))
        first, second = broker.wait_for("SEND"), broker.wait_for("SEND", 2)
        assert first.headers["persistent"] == "true"
        assert "receipt" in first.headers
        assert "receipt" not in second.headers
        # RabbitMQ makes the queue exclusive by it
        assert second.headers.get("persistent") == (None if server == RABBITMQ else "false")


def test_what_the_broker_refuses_is_what_the_call_raises() -> None:
    with FakeBroker(refused={"SEND": "User x is not authorized to write"}) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        with pytest.raises(ProviderError, match="not authorized"):
            session.send(make_envelope("x", persistent=True))


@ALL
def test_recover_redelivers_from_memory_in_order_and_tells_the_broker_nothing(server: str) -> None:
    told = Told()
    with FakeBroker(server) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        for number in ("1", "2", "3"):
            broker.deliver(consumer.id, number, number, destination="orders" if server == ARTEMIS else "/queue/orders")
        told.wait(3)
        taken = [each for each in (consumer.poll(), consumer.poll()) if each is not None]
        session.recover(taken[::-1])
        again = [each for each in (consumer.poll(), consumer.poll(), consumer.poll()) if each is not None]
        assert [(text_of_any(each), each.count, each.redelivered) for each in again] == [
            ("1", 2, True),
            ("2", 2, True),
            ("3", 1, False),
        ]
        assert broker.of("NACK") == []


@ALL
def test_what_came_back_and_was_not_asked_for_again_is_marked_for_the_next_consumer(server: str) -> None:
    told, told_next = Told(), Told()
    with FakeBroker(server) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        destination = "orders" if server == ARTEMIS else "/queue/orders"
        broker.deliver(consumer.id, f"again-{server}", "again", destination=destination)
        told.wait()
        first = consumer.poll()
        assert first is not None
        session.recover([first])
        consumer.close()
        following = consume(session, told=told_next)
        broker.deliver(following.id, f"again-{server}", "again", destination=destination)
        told_next.wait()
        again = following.poll()
        assert again is not None
        assert (again.count, again.redelivered) == (2, True)


def text_of_any(delivery: object) -> str:
    body = delivery.envelope.body  # type: ignore[attr-defined]
    return body.decode() if isinstance(body, bytes) else str(body)


@contextmanager
def poisoned(
    server: str, **options: Any
) -> Iterator[tuple[FakeBroker, ForeignConnection, ForeignSession, list[Delivery]]]:
    """Have a session that has received a message which it is to reject: the only one in the list."""
    told = Told()
    with FakeBroker(server, **options) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "T_s@@x@@1", "poison")
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        received = [delivery]
        del delivery
        yield broker, connection, session, received


def reject_late(connection: ForeignConnection, session: ForeignSession, received: list[Delivery]) -> None:
    """Reject it at a broker that does not answer in time."""
    hasten(connection.link, timeout_ms=1)
    with pytest.raises(ResourceError, match="has not answered SEND"):
        session.reject(received[0], "too often")
    hasten(connection.link, timeout_ms=10_000)


def reject_one(server: str) -> tuple[list[Frame], list[Frame], list[Frame]]:
    with poisoned(server) as (broker, _, session, received):
        session.reject(received[0], "too often")
        return broker.of("NACK"), broker.of("ACK"), broker.of("SEND")


def test_activemq_keeps_a_rejected_message_aside_by_nack() -> None:
    nacks, acks, sends = reject_one(CLASSIC)
    assert [len(nacks), len(acks), len(sends)] == [1, 0, 0]


@pytest.mark.parametrize("server", [ARTEMIS, RABBITMQ])
def test_where_nack_would_lose_or_requeue_it_a_copy_with_reason_and_origin_is_kept_and_then_it_is_settled(
    server: str,
) -> None:
    nacks, acks, sends = reject_one(server)
    assert nacks == []
    assert len(acks) == 1
    assert sends[0].headers["destination"].endswith("DLQ")
    assert sends[0].headers["JMS_pyjms_deadReason"] == "too often"
    assert sends[0].headers["JMS_pyjms_deadDestination"].startswith("queue://")


def test_a_copy_whose_confirmation_comes_late_is_not_sent_again() -> None:
    with poisoned(ARTEMIS, unanswered={"SEND"}) as (broker, connection, session, received):
        reject_late(connection, session, received)
        broker.push(Frame("RECEIPT", {"receipt-id": broker.wait_for("SEND").headers["receipt"]}))
        session.reject(received[0], "too often")
        assert [len(broker.of("SEND")), len(broker.wait_for("ACK").headers) > 0] == [1, True]


def test_a_message_whose_copy_is_refused_is_not_settled_and_may_be_kept_aside_later() -> None:
    with poisoned(ARTEMIS, refused={"SEND": "no access"}) as (broker, connection, session, (delivery,)):
        with pytest.raises(ProviderError, match="no access"):
            session.reject(delivery, "too often")
        assert broker.of("ACK") == []
        broker.refused.clear()
        session.reject(delivery, "too often")
        connection.flush()
        assert [len(broker.of("SEND")), len(broker.of("ACK"))] == [2, 1]


def test_a_message_that_was_being_kept_aside_when_the_connection_was_lost_is_let_go_of() -> None:
    """Its session had it until that was closed, though it was given back in place of a second reject."""
    with poisoned(ARTEMIS, unanswered={"SEND"}) as (broker, connection, session, received):
        reject_late(connection, session, received)
        broker.cut()
        broker.wait_for("SUBSCRIBE", 2)
        session.recover(received)
        received.clear()
        gc.collect()
        kept = [each for each in gc.get_objects() if type(each) is HeldMessage and each.session is session]
        assert kept == []


def test_a_closed_consumer_lives_at_activemq_until_what_its_session_holds_is_settled() -> None:
    told = Told()
    with FakeBroker(CLASSIC) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "1")
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        consumer.close()
        assert broker.of("UNSUBSCRIBE") == []
        session.acknowledge([delivery])
        broker.wait_for("UNSUBSCRIBE")
        commands = [frame.command for _, frame in broker.frames]
        assert commands.index("ACK") < commands.index("UNSUBSCRIBE")


def test_rabbitmq_gets_back_what_a_closed_consumer_had_and_settles_under_a_borrowed_name() -> None:
    told = Told()
    with FakeBroker(RABBITMQ) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "T_s2@@x@@1")
        broker.deliver(consumer.id, "T_s2@@x@@2")
        told.wait(2)
        delivery = consumer.poll()
        assert delivery is not None
        consumer.close()
        nack = broker.wait_for("NACK")
        assert nack.headers["id"] == "T_janitor@@x@@2"
        assert nack.headers["requeue"] == "true"
        session.acknowledge([delivery])
        assert broker.wait_for("ACK").headers["id"] == "T_janitor@@x@@1"


def test_a_client_that_settles_late_is_pushed_more() -> None:
    told = Told()
    with FakeBroker(CLASSIC) as broker, connected(broker, "prefetch_messages=2") as connection:
        consumer = consume(connection.open_session(transacted=False), told=told)
        broker.deliver(consumer.id, "1")
        broker.deliver(consumer.id, "2")
        told.wait(2)
        assert consumer.poll()
        assert consumer.poll()
        assert consumer.poll() is None
        wider = broker.wait_for("SUBSCRIBE", 2)
        assert wider.headers["activemq.prefetchSize"] == "2"
        broker.deliver(wider.headers["id"], "3", "more")
        told.wait(3)
        assert text_of(consumer.poll()) == "more"
        consumer.close()


def test_a_transaction_is_begun_with_its_first_work_and_acknowledges_within() -> None:
    told = Told()
    with FakeBroker(CLASSIC) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=True)
        session.commit()
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "1")
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None
        session.send(make_envelope("x"))
        session.acknowledge([delivery])
        session.commit()
        name = broker.of("BEGIN")[0].headers["transaction"]
        assert [broker.wait_for(each).headers["transaction"] for each in ("SEND", "ACK", "COMMIT")] == [name] * 3


def test_a_part_that_the_broker_refused_rolls_the_transaction_back() -> None:
    events = Events()
    with FakeBroker(CLASSIC) as broker, connected(broker, events=events) as connection:
        session = connection.open_session(transacted=True)
        session.send(make_envelope("x"))
        broker.push(Frame("ERROR", {"message": "not authorized"}))
        events.wait_for(1)
        with pytest.raises(RolledBackError, match="not authorized"):
            session.commit()
        assert broker.of("COMMIT") == []


@pytest.mark.parametrize("server", [ARTEMIS, RABBITMQ])
def test_transactions_are_declared_only_where_receives_belong_to_them(server: str) -> None:
    with FakeBroker(server) as broker:
        with connected(broker) as connection:
            assert Capability.TRANSACTIONS not in connection.capabilities
            assert "transactions=best-effort" in connection.advice(Capability.TRANSACTIONS)
        with connected(broker, "transactions=best-effort") as connection:
            assert Capability.TRANSACTIONS in connection.capabilities


@pytest.mark.parametrize(
    ("server", "options", "header", "value"),
    [
        (CLASSIC, "delivery_delay=yes", "AMQ_SCHEDULED_DELAY", "600"),
        (ARTEMIS, QUICKLY, "AMQ_SCHEDULED_TIME", "1000600"),
    ],
)
def test_a_delivery_time_is_said_as_the_broker_counts(server: str, options: str, header: str, value: str) -> None:
    clock = VirtualClock(1_000_000)
    with FakeBroker(server) as broker, closing(connect(f"{broker.url}?{options}", clock=clock)) as connection:
        assert Capability.DELIVERY_DELAY in connection.capabilities
        session = connection.open_session(transacted=False)
        session.send(replace(make_envelope("later"), deliver_at_ms=1_000_600))
        session.send(replace(make_envelope("its time has come"), deliver_at_ms=1_000_000))
        assert broker.wait_for("SEND").headers[header] == value
        assert header not in broker.wait_for("SEND", 2).headers


@pytest.mark.parametrize(
    ("server", "capability", "says"),
    [
        (CLASSIC, Capability.DELIVERY_DELAY, "delivery_delay=yes"),
        (CLASSIC, Capability.SHARED_SUBSCRIPTIONS, "virtual topic"),
        (ARTEMIS, Capability.SHARED_SUBSCRIPTIONS, "amqp://"),
        (RABBITMQ, Capability.SHARED_SUBSCRIPTIONS, "other topics"),
        (RABBITMQ, Capability.DELIVERY_DELAY, "plug-in"),
    ],
)
def test_what_a_broker_lacks_of_jms_2_is_told_with_the_reason(server: str, capability: Capability, says: str) -> None:
    with FakeBroker(server) as broker, connected(broker) as connection:
        assert capability not in connection.capabilities
        assert says in connection.advice(capability)
        assert connection.advice(Capability.TOPICS) == ""


def test_the_url_cannot_give_rabbitmq_a_delay() -> None:
    with FakeBroker(RABBITMQ) as broker, connected(broker, "delivery_delay=yes") as connection:
        assert Capability.DELIVERY_DELAY not in connection.capabilities


@pytest.mark.parametrize("lacking", [Capability.SELECTORS, Capability.BROWSING, Capability.XA, Capability.PRIORITIES])
def test_rabbitmq_is_not_said_to_have_what_it_has_not(lacking: Capability) -> None:
    with FakeBroker(RABBITMQ) as broker, connected(broker) as connection:
        assert lacking not in connection.capabilities


def test_selectors_and_browsers_are_refused_by_name_at_rabbitmq() -> None:
    with FakeBroker(RABBITMQ) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        with pytest.raises(CapabilityError, match="SELECTORS"):
            consume(session, selector="n = 1")
        with pytest.raises(CapabilityError, match="BROWSING"):
            session.browse(ORDERS, None)
        assert own(broker) == []


def test_no_local_is_kept_by_the_client_where_the_broker_cannot() -> None:
    told = Told()
    with FakeBroker(RABBITMQ) as broker, connected(broker) as connection:
        consumer = consume(connection.open_session(transacted=False), NEWS, told, no_local=True)
        for sender in (connection.connection_id, None):
            envelope = make_envelope("own" if sender else "other", destination=NEWS)
            frame = to_frame(envelope, connection.dialect, command="MESSAGE", connection_id=sender)
            frame.headers |= {"subscription": consumer.id, "ack": "T_s2@@x@@1"}
            broker.push(frame)
        told.wait(2)
        assert text_of(consumer.poll()) == "other"
        broker.wait_for("ACK")


def durable(server: str) -> tuple[FakeBroker, ForeignConnection]:
    broker = FakeBroker(server)
    broker.__enter__()
    return broker, connect(f"{broker.url}?{QUICKLY}", client_id="me")


@pytest.mark.parametrize(
    ("server", "headers"),
    [
        (CLASSIC, {"activemq.subscriptionName": "daily"}),
        (ARTEMIS, {"durable-subscription-name": "daily"}),
        (RABBITMQ, {"x-queue-name": "pyjms.durable.me/daily", "durable": "true", "auto-delete": "false"}),
    ],
)
def test_a_durable_subscription_is_named_by_client_and_name(server: str, headers: dict[str, str]) -> None:
    broker, connection = durable(server)
    with broker:
        assert broker.of("CONNECT")[0].headers["client-id"] == "me"
        session = connection.open_session(transacted=False)
        consumer = consume(session, NEWS, durable_name="daily")
        assert headers.items() <= own(broker)[0].headers.items()
        with pytest.raises(SubscriptionInUseError):
            consume(session, NEWS, durable_name="daily")
        with pytest.raises(SubscriptionInUseError):
            session.unsubscribe("daily")
        consumer.close()
        assert not headers.items() & broker.wait_for("UNSUBSCRIBE").headers.items()
        session.unsubscribe("daily")
        assert headers.items() <= broker.wait_for("UNSUBSCRIBE", 2).headers.items()
        connection.close()


def test_an_unknown_durable_subscription_is_told() -> None:
    broker, connection = durable(CLASSIC)
    with broker:
        broker.refused["UNSUBSCRIBE"] = "No durable subscription exists for clientID: me and subscriptionName: x"
        with pytest.raises(UnknownSubscriptionError):
            connection.open_session(transacted=False).unsubscribe("x")
        connection.close()


def test_a_browser_shows_all_until_the_broker_says_end() -> None:
    def answer(number: int, frame: Frame) -> None:
        if frame.headers.get("browser") == "true":
            for text in ("a", "b"):
                broker.deliver(frame.headers["id"], text, text)
            broker.deliver(frame.headers["id"], "", browser="end")

    with FakeBroker(CLASSIC, on_frame=answer) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        assert [text_of(each) for each in session.browse(ORDERS, None)] == ["a", "b"]
        broker.wait_for("UNSUBSCRIBE")
        assert broker.of("ACK") == []


@pytest.mark.parametrize(
    ("server", "sent_to"),
    [(RABBITMQ, "/amq/queue/pyjms.temporary."), (ARTEMIS, "pyjms.temporary.")],
)
def test_temporary_queues_are_emulated_where_the_broker_has_none(server: str, sent_to: str) -> None:
    with FakeBroker(server) as broker, connected(broker) as connection, connected(broker) as other:
        address = connection.create_temporary(AddressKind.QUEUE)
        session = other.open_session(transacted=False)
        session.send(make_envelope("x", destination=address, persistent=True))
        assert broker.wait_for("SEND").headers["destination"].startswith(sent_to)
        with pytest.raises(DestinationError, match="another connection's"):
            consume(session, address)
        consumer = consume(connection.open_session(transacted=False), address)
        with pytest.raises(DestinationInUseError):
            connection.delete_temporary(address)
        consumer.close()
        connection.delete_temporary(address)
        with pytest.raises(DestinationError):
            connection.open_session(transacted=False).send(make_envelope("x", destination=address))


def test_expired_messages_are_settled_and_not_delivered() -> None:
    told = Told()
    with FakeBroker(CLASSIC) as broker, connected(broker) as connection:
        consumer = consume(connection.open_session(transacted=False), told=told)
        broker.deliver(consumer.id, "1", "old", expires="1")
        broker.deliver(consumer.id, "2", "new")
        told.wait(2)
        assert text_of(consumer.poll()) == "new"
        assert broker.wait_for("ACK").headers["id"] == "1"


def test_who_asks_is_told_of_messages_that_had_expired_when_they_came() -> None:
    told, clock, heard = Told(), VirtualClock(), list[ExpiredMessage]()
    with FakeBroker(CLASSIC) as broker:
        connection = connect(f"{broker.url}?{QUICKLY}", clock=clock, on_expired=heard.append)
        try:
            consumer = consume(connection.open_session(transacted=False), told=told)
            broker.deliver(consumer.id, "1", "old", expires="1")
            told.wait(1)
            assert consumer.poll() is None
        finally:
            connection.close()
    (expired,) = heard
    assert (expired.destination, expired.subscription, expired.at_ms) == (ORDERS, None, clock.time_ms())
    assert expired.message_id is not None


def test_a_topics_subscriber_selects_by_true_types() -> None:
    told = Told()
    with FakeBroker(CLASSIC) as broker, connected(broker) as connection:
        consumer = consume(connection.open_session(transacted=False), NEWS, told, selector="n + 1 = 3")
        assert "selector" not in own(broker)[0].headers  # the broker cannot calculate with texts
        for number in (1, 2):
            frame = to_frame(
                make_envelope(str(number), destination=NEWS, properties={"n": number}),
                connection.dialect,
                command="MESSAGE",
            )
            frame.headers |= {"subscription": consumer.id, "ack": str(number)}
            broker.push(frame)
        told.wait(2)
        assert text_of(consumer.poll()) == "2"


def test_names_that_mean_something_else_to_the_broker_are_refused() -> None:
    with FakeBroker(CLASSIC) as broker, connected(broker) as connection:
        composite = Address(AddressKind.QUEUE, "a,b")
        with pytest.raises(DestinationError, match="joins destinations"):
            connection.open_session(transacted=False).send(make_envelope("x", destination=composite))


def test_a_client_id_is_said_by_a_new_connect() -> None:
    with FakeBroker(CLASSIC) as broker, connected(broker) as connection:
        connection.set_client_id("late")
        assert broker.wait_for("CONNECT", 2).headers["client-id"] == "late"
        connection.open_session(transacted=False).send(make_envelope("x", persistent=True))


def test_rabbitmq_that_is_slow_is_not_said_to_have_another_client_of_that_id() -> None:
    with (
        FakeBroker(RABBITMQ, unanswered={"SUBSCRIBE"}) as broker,
        pytest.raises(ResourceError, match="not answered SUBSCRIBE for 50 ms"),
    ):
        connect(f"{broker.url}?timeout_ms=50", client_id="desk")


def test_rabbitmq_gets_back_what_was_on_its_way_to_a_consumer_that_has_ended() -> None:
    told = Told()
    with FakeBroker(RABBITMQ) as broker, connected(broker) as connection:
        consumer = consume(connection.open_session(transacted=False), told=told)
        broker.deliver(consumer.id, "T_s2@@x@@4")
        told.wait()
        consumer.close()
        broker.push(
            Frame("ERROR", {"message": "Subscription not found"}, b"There is no current subscription with tag 'T_s2'.")
        )
        assert broker.wait_for("NACK", 2).headers["id"] == "T_janitor@@stray@@5"


def test_a_consumer_ends_once_though_its_last_message_is_settled_meanwhile() -> None:
    told = Told()
    settled: list[Frame] = []
    with FakeBroker(RABBITMQ) as broker, connected(broker) as connection:
        session = connection.open_session(transacted=False)
        consumer = consume(session, told=told)
        broker.deliver(consumer.id, "T_s2@@x@@1")
        told.wait()
        delivery = consumer.poll()
        assert delivery is not None

        def settle(number: int, frame: Frame) -> None:
            if frame.command == "UNSUBSCRIBE" and not settled:
                settled.append(frame)
                consumer.settled([delivery.tag])  # type: ignore[list-item]  # as another thread's acknowledgement does

        broker.on_frame = settle
        consumer.close()
        session.acknowledge([delivery])
        assert len(broker.of("UNSUBSCRIBE")) == 1
