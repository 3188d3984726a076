"""Contract tests: shared subscriptions and delivery times, for providers with `SHARED_SUBSCRIPTIONS` and `DELIVERY_DELAY`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.errors import SubscriptionInUseError, UnknownSubscriptionError
from pyjms_tck.requirements import needs
from pyjms_tck.spi.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable

_DELAY_MS = 1_000
_both_kinds = pytest.mark.parametrize("kind", ["shared", "durable"])


def _has(environment: Environment, *wanted: str) -> bool:
    capabilities = environment.connect().capabilities
    return all(Capability[name] in capabilities for name in wanted)


def _options(kind: str, name: str) -> dict[str, Any]:
    return {"shared_name": name} if kind == "shared" else {"durable_name": name, "is_shared": True}


@needs("SHARED_SUBSCRIPTIONS", "DURABLE_SUBSCRIPTIONS")
@_both_kinds
def test_consumers_of_several_connections_divide_a_subscription(environment: Environment, kind: str) -> None:
    if not _has(environment, "SHARED_SUBSCRIPTIONS", "DURABLE_SUBSCRIPTIONS"):
        return
    topic, options = environment.topic(), _options(kind, environment.name("shared"))
    sessions = [environment.session() for _ in range(2)]
    receivers = [environment.receiver(session, topic, **options) for session in sessions]
    sender = environment.session()
    for number in range(6):
        environment.send(sender, topic, str(number))
        delivery = receivers[number % 2].take()
        assert delivery.envelope.body == str(number)
        sessions[number % 2].acknowledge([delivery])
    receivers[0].consumer.close()
    environment.send(sender, topic, "for the other one")
    assert receivers[1].take_texts(1) == ["for the other one"]


@needs("SHARED_SUBSCRIPTIONS", "DURABLE_SUBSCRIPTIONS")
@_both_kinds
def test_what_one_consumer_returns_the_other_gets_with_the_mark(environment: Environment, kind: str) -> None:
    if not _has(environment, "SHARED_SUBSCRIPTIONS", "DURABLE_SUBSCRIPTIONS"):
        return
    topic, options = environment.topic(), _options(kind, environment.name("shared"))
    leaving, staying = environment.connect(), environment.session()
    first = environment.receiver(leaving.open_session(transacted=False), topic, **options)
    second = environment.receiver(staying, topic, **options)
    environment.send(staying, topic, "again")
    assert first.take_texts(1) == ["again"]
    leaving.close()
    delivery = second.take()
    assert (delivery.envelope.body, delivery.redelivered) == ("again", True)


@needs("SHARED_SUBSCRIPTIONS")
def test_a_shared_subscription_ends_with_its_last_consumer(environment: Environment) -> None:
    if not _has(environment, "SHARED_SUBSCRIPTIONS"):
        return
    topic, options = environment.topic(), _options("shared", environment.name("shared"))
    session = environment.session()
    environment.receiver(session, topic, **options).consumer.close()
    environment.send(session, topic, "missed")
    receiver = environment.receiver(session, topic, **options)
    environment.send(session, topic, "seen")
    assert receiver.take_texts(1) == ["seen"]


@needs("SHARED_SUBSCRIPTIONS", "DURABLE_SUBSCRIPTIONS")
def test_a_shared_durable_subscription_collects_without_consumers_until_it_is_deleted(environment: Environment) -> None:
    if not _has(environment, "SHARED_SUBSCRIPTIONS", "DURABLE_SUBSCRIPTIONS"):
        return
    topic, name = environment.topic(), environment.name("shared")
    options, session = _options("durable", name), environment.session()
    environment.receiver(session, topic, **options).consumer.close()
    environment.send(session, topic, "kept")
    other = environment.session()
    receiver = environment.receiver(other, topic, **options)
    delivery = receiver.take()
    assert delivery.envelope.body == "kept"
    with pytest.raises(SubscriptionInUseError):
        session.unsubscribe(name)
    other.acknowledge([delivery])
    receiver.consumer.close()
    session.unsubscribe(name)
    with pytest.raises(UnknownSubscriptionError):
        session.unsubscribe(name)


@needs("SHARED_SUBSCRIPTIONS", "DURABLE_SUBSCRIPTIONS", "SELECTORS")
@_both_kinds
def test_other_terms_are_refused_while_a_shared_subscription_has_consumers(environment: Environment, kind: str) -> None:
    if not _has(environment, "SHARED_SUBSCRIPTIONS", "DURABLE_SUBSCRIPTIONS", "SELECTORS"):
        return
    topic, options = environment.topic(), _options(kind, environment.name("shared"))
    consumer = environment.receiver(environment.session(), topic, **options).consumer
    refused: tuple[Callable[[], object], ...] = (
        lambda: environment.receiver(environment.session(), environment.topic(), **options),
        lambda: environment.receiver(environment.session(), topic, "JMSPriority > 4", **options),
    )
    for attempt in refused:
        with pytest.raises(SubscriptionInUseError):
            attempt()
    consumer.close()
    environment.receiver(environment.session(), topic, "JMSPriority > 4", **options)


@needs("SHARED_SUBSCRIPTIONS", "DURABLE_SUBSCRIPTIONS")
@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("is_active", [False, True])
def test_shared_and_unshared_durable_subscriptions_exclude_each_other(
    environment: Environment, is_shared: bool, is_active: bool
) -> None:
    if not _has(environment, "SHARED_SUBSCRIPTIONS", "DURABLE_SUBSCRIPTIONS"):
        return
    connection, topic = environment.connect(client_id=environment.name("sharing")), environment.topic()
    session = connection.open_session(transacted=False)
    first = environment.receiver(session, topic, durable_name="mine", is_shared=is_shared).consumer
    if not is_active:
        first.close()
    with pytest.raises(SubscriptionInUseError):
        environment.receiver(session, topic, durable_name="mine", is_shared=not is_shared)
    separate = environment.receiver(session, topic, shared_name="mine")  # a namespace of its own
    first.close()
    separate.consumer.close()
    session.unsubscribe("mine")


@needs("DELIVERY_DELAY")
def test_a_message_for_later_comes_at_its_time_and_says_it(environment: Environment) -> None:
    if not _has(environment, "DELIVERY_DELAY"):
        return
    queue, session = environment.queue(), environment.session()
    at_ms = environment.clock.time_ms() + _DELAY_MS
    receiver = environment.receiver(session, queue)
    environment.send(session, queue, "later", deliver_at_ms=at_ms)
    environment.send(session, queue, "at once")
    delivery = receiver.take()
    assert (delivery.envelope.body, delivery.envelope.deliver_at_ms) == ("at once", 0)
    environment.clock.advance(_DELAY_MS - 1)
    environment.send(session, queue, "just before")
    assert receiver.take_texts(1) == ["just before"]
    environment.clock.advance(1)
    delivery = receiver.take()
    assert (delivery.envelope.body, delivery.envelope.deliver_at_ms) == ("later", at_ms)
    assert delivery.envelope.properties == {}
    assert not delivery.redelivered


@needs("DELIVERY_DELAY", "TRANSACTIONS")
def test_the_delivery_time_of_a_message_in_a_transaction_is_that_of_its_send(environment: Environment) -> None:
    if not _has(environment, "DELIVERY_DELAY", "TRANSACTIONS"):
        return
    queue, session, plain = environment.queue(), environment.session(transacted=True), environment.session()
    receiver = environment.receiver(plain, queue)
    at_ms = environment.clock.time_ms() + _DELAY_MS
    environment.send(session, queue, "due before the commit", deliver_at_ms=at_ms)
    environment.send(session, queue, "due later", deliver_at_ms=at_ms + _DELAY_MS)
    environment.clock.advance(_DELAY_MS + 1)
    environment.send(plain, queue, "not committed yet")
    assert receiver.take_texts(1) == ["not committed yet"]
    session.commit()
    assert receiver.take_texts(1) == ["due before the commit"]
    environment.send(plain, queue, "still not due")
    assert receiver.take_texts(1) == ["still not due"]
    environment.clock.advance(_DELAY_MS)
    assert receiver.take_texts(1) == ["due later"]


@needs("DELIVERY_DELAY", "TOPICS")
def test_a_message_for_later_is_for_the_subscribers_of_its_send(environment: Environment) -> None:
    """A provider may as well choose those of its delivery (JMS 2.0 §7.9 does not say); one that was there both times gets it once."""
    if not _has(environment, "DELIVERY_DELAY", "TOPICS"):
        return
    topic, session = environment.topic(), environment.session()
    receiver = environment.receiver(session, topic)
    environment.send(session, topic, "later", deliver_at_ms=environment.clock.time_ms() + _DELAY_MS)
    environment.send(session, topic, "at once")
    assert receiver.take_texts(1) == ["at once"]
    environment.clock.advance(_DELAY_MS)
    environment.send(session, topic, "last")
    assert receiver.take_texts(2) == ["later", "last"]


@needs("DELIVERY_DELAY", "BROWSING")
def test_a_browser_does_not_see_a_message_for_later(environment: Environment) -> None:
    if not _has(environment, "DELIVERY_DELAY", "BROWSING"):
        return
    queue = environment.queue()
    environment.put(queue, "later", deliver_at_ms=environment.clock.time_ms() + _DELAY_MS)
    environment.put(queue, "at once")
    session = environment.session()
    assert [each.envelope.body for each in session.browse(queue, None)] == ["at once"]
    environment.clock.advance(_DELAY_MS)
    assert sorted(each.envelope.body for each in session.browse(queue, None)) == ["at once", "later"]  # type: ignore[type-var]  # texts


@needs("DELIVERY_DELAY", "EXPIRATION")
def test_a_message_that_expires_before_its_time_never_comes(environment: Environment) -> None:
    if not _has(environment, "DELIVERY_DELAY", "EXPIRATION"):
        return
    queue, session, now_ms = environment.queue(), environment.session(), environment.clock.time_ms()
    environment.send(session, queue, "stale", deliver_at_ms=now_ms + _DELAY_MS, expiration_ms=now_ms + _DELAY_MS // 2)
    environment.send(session, queue, "fresh", deliver_at_ms=now_ms + _DELAY_MS)
    environment.clock.advance(_DELAY_MS)
    assert environment.receiver(session, queue).take_texts(1) == ["fresh"]


@needs("DELIVERY_DELAY", "PRIORITIES")
def test_messages_that_are_due_at_one_time_come_by_priority(environment: Environment) -> None:
    if not _has(environment, "DELIVERY_DELAY", "PRIORITIES"):
        return
    queue, session, at_ms = environment.queue(), environment.session(), environment.clock.time_ms() + _DELAY_MS
    for priority in (1, 9, 4):
        environment.send(session, queue, str(priority), priority=priority, deliver_at_ms=at_ms)
    environment.clock.advance(_DELAY_MS)
    assert environment.receiver(session, queue).take_texts(3) == ["9", "4", "1"]
