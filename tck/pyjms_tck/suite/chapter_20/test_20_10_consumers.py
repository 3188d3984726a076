"""Consumers of contexts on destinations and subscriptions (20.10)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from pyjms import (
    Destination,
    IllegalStateRuntimeException,
    InvalidDestinationRuntimeException,
    InvalidSelectorRuntimeException,
    JMSConsumer,
    JMSContext,
    JMSRuntimeException,
    Queue,
    Topic,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeDestination, MakeName
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_20.conftest import MakeContext
from pyjms_tck.suite.exchange import INVALID_SELECTOR, NO_DESTINATION

with_selector = pytest.mark.parametrize(
    "selector", [None, pytest.param("number = 2", marks=needs("SELECTORS"))], ids=["all", "selector"]
)


def send_numbers(context: JMSContext, destination: Destination) -> None:
    """Send 1, 2 and 3, each with its number as the property `number`."""
    producer = context.create_producer()
    for number in (1, 2, 3):
        producer.set_property("number", number).send(destination, str(number))


def texts(consumer: JMSConsumer, waits: Waits, count: int) -> list[str]:
    """Return the texts of `count` messages, and of those that are too many."""
    found: list[str] = []
    while len(found) < count and (text := consumer.receive_body(str, waits.something_ms)) is not None:
        found.append(text)
    while len(found) < 100 and (text := consumer.receive_body(str, waits.nothing_ms)) is not None:
        found.append(text)
    return found


def wanted(selector: str | None) -> list[str]:
    """Return the texts that a selector lets through."""
    return ["1", "2", "3"] if selector is None else ["2"]


@pytest.fixture
def identified(make_context: MakeContext, make_name: MakeName) -> JMSContext:
    """A context with a client identifier."""
    context = make_context()
    context.client_id = make_name("client")
    return context


@pytest.fixture
def name(make_name: MakeName, make_context: MakeContext) -> Iterator[str]:
    """A name of a subscription, which is deleted after the test where it is durable and of no client identifier."""
    made = make_name("subscription")
    yield made
    with suppress(JMSRuntimeException):
        make_context().unsubscribe(made)


@requirement("20.10-a")
def test_20_10_a_a_consumer_takes_the_messages_of_a_destination(
    context: JMSContext, queue: Queue, waits: Waits
) -> None:
    send_numbers(context, queue)
    assert texts(context.createConsumer(queue), waits, 3) == ["1", "2", "3"]


@requirement("20.10-b")
def test_20_10_b_a_consumer_takes_what_its_selector_lets_through(
    context: JMSContext, queue: Queue, waits: Waits
) -> None:
    send_numbers(context, queue)
    assert texts(context.createConsumer(queue, "number = 2"), waits, 1) == ["2"]


@requirement("20.10-c")
@needs("TOPICS")
@pytest.mark.parametrize("no_local", [True, False])
def test_20_10_c_a_consumer_may_leave_out_messages_of_its_own_connection(
    make_context: MakeContext, topic: Topic, waits: Waits, no_local: bool
) -> None:
    ours, other = make_context(), make_context()
    consumer = ours.createConsumer(topic, None, no_local)
    ours.create_producer().send(topic, "ours")
    other.create_producer().send(topic, "other")
    assert texts(consumer, waits, 1 if no_local else 2) == (["other"] if no_local else ["ours", "other"])


@requirement("20.10-d")
@pytest.mark.parametrize("more", [(), ("TRUE",), ("TRUE", False)], ids=["short", "selector", "long"])
def test_20_10_d_a_consumer_needs_a_destination(context: JMSContext, more: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidDestinationRuntimeException):
        context.create_consumer(NO_DESTINATION, *more)


@requirement("20.10-d")
@needs("SELECTORS")
@pytest.mark.parametrize("more", [(), (False,)], ids=["selector", "long"])
def test_20_10_d_a_consumer_needs_a_valid_selector(context: JMSContext, queue: Queue, more: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidSelectorRuntimeException):
        context.create_consumer(queue, INVALID_SELECTOR, *more)


@requirement("20.10-e")
@with_selector
def test_20_10_e_a_durable_consumer_goes_on_with_its_subscription(
    identified: JMSContext, context: JMSContext, topic: Topic, name: str, waits: Waits, selector: str | None
) -> None:
    more = () if selector is None else (selector, False)
    identified.create_durable_consumer(topic, name, *more).close()
    send_numbers(context, topic)
    consumer = identified.createDurableConsumer(topic, name, *more)
    assert texts(consumer, waits, len(wanted(selector))) == wanted(selector)
    consumer.close()
    identified.unsubscribe(name)


@requirement("20.10-f")
@pytest.mark.parametrize("more", [(), (None, False)], ids=["short", "long"])
def test_20_10_f_a_durable_subscription_has_one_consumer(
    identified: JMSContext, topic: Topic, name: str, more: tuple[Any, ...]
) -> None:
    consumer = identified.create_durable_consumer(topic, name)
    with pytest.raises(JMSRuntimeException):
        identified.create_durable_consumer(topic, name, *more)
    consumer.close()
    identified.unsubscribe(name)


@requirement("20.10-g")
@pytest.mark.parametrize("more", [(), (None, False)], ids=["short", "long"])
def test_20_10_g_a_durable_consumer_needs_a_client_identifier(
    context: JMSContext, topic: Topic, name: str, more: tuple[Any, ...]
) -> None:
    with pytest.raises(IllegalStateRuntimeException):
        context.create_durable_consumer(topic, name, *more)


@requirement("20.10-h")
@pytest.mark.parametrize("more", [(), (None, False)], ids=["short", "long"])
def test_20_10_h_a_durable_consumer_needs_a_topic(identified: JMSContext, name: str, more: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidDestinationRuntimeException):
        identified.create_durable_consumer(NO_DESTINATION, name, *more)


@requirement("20.10-h")
@needs("SELECTORS")
def test_20_10_h_a_durable_consumer_needs_a_valid_selector(identified: JMSContext, topic: Topic, name: str) -> None:
    with pytest.raises(InvalidSelectorRuntimeException):
        identified.create_durable_consumer(topic, name, INVALID_SELECTOR, False)


def _divides(
    context: JMSContext, topic: Topic, name: str, waits: Waits, selector: str | None, method: str, more: JMSContext
) -> None:
    arguments = (topic, name) if selector is None else (topic, name, selector)
    consumers = [getattr(each, method)(*arguments) for each in (context, more)]
    send_numbers(context, topic)
    found: list[str] = []

    def all_here() -> bool:
        for consumer in consumers:
            while (text := consumer.receive_body_no_wait(str)) is not None:
                found.append(text)
        return len(found) >= len(wanted(selector))

    waits.until(all_here, "all messages had come")
    for consumer in consumers:
        found.extend(texts(consumer, waits, 0))
        consumer.close()
    assert sorted(found) == wanted(selector)


@requirement("20.10-i")
@with_selector
def test_20_10_i_shared_consumers_divide_the_messages(
    make_context: MakeContext, topic: Topic, name: str, waits: Waits, selector: str | None
) -> None:
    _divides(make_context(), topic, name, waits, selector, "createSharedConsumer", make_context())


@requirement("20.10-l")
@needs("DURABLE_SUBSCRIPTIONS")
@with_selector
def test_20_10_l_shared_durable_consumers_divide_the_messages(
    make_context: MakeContext, topic: Topic, name: str, waits: Waits, selector: str | None
) -> None:
    _divides(make_context(), topic, name, waits, selector, "createSharedDurableConsumer", make_context())


def _refuses_another(context: JMSContext, make_topic: MakeDestination, name: str, method: str) -> None:
    topic = make_topic()
    consumer = getattr(context, method)(topic, name)
    with pytest.raises(JMSRuntimeException):
        getattr(context, method)(make_topic(), name)
    with pytest.raises(JMSRuntimeException):
        getattr(context, method)(topic, name, "number = 2")
    consumer.close()


@requirement("20.10-j")
@needs("SELECTORS")
def test_20_10_j_an_active_shared_subscription_has_one_topic_and_one_selector(
    context: JMSContext, make_topic: MakeDestination, name: str
) -> None:
    _refuses_another(context, make_topic, name, "create_shared_consumer")


@requirement("20.10-m")
@needs("SELECTORS", "DURABLE_SUBSCRIPTIONS")
def test_20_10_m_an_active_shared_durable_subscription_has_one_topic_and_one_selector(
    context: JMSContext, make_topic: MakeDestination, name: str
) -> None:
    _refuses_another(context, make_topic, name, "create_shared_durable_consumer")


def _checks(context: JMSContext, topic: Topic, name: str, method: str) -> None:
    create = getattr(context, method)
    for more in ((), ("TRUE",)):
        with pytest.raises(InvalidDestinationRuntimeException):
            create(NO_DESTINATION, name, *more)
    with pytest.raises(InvalidSelectorRuntimeException):
        create(topic, name, INVALID_SELECTOR)


@requirement("20.10-k")
@needs("SELECTORS")
def test_20_10_k_a_shared_consumer_needs_a_topic_and_a_valid_selector(
    context: JMSContext, topic: Topic, name: str
) -> None:
    _checks(context, topic, name, "create_shared_consumer")


@requirement("20.10-n")
@needs("SELECTORS", "DURABLE_SUBSCRIPTIONS")
def test_20_10_n_a_shared_durable_consumer_needs_a_topic_and_a_valid_selector(
    context: JMSContext, topic: Topic, name: str
) -> None:
    _checks(context, topic, name, "create_shared_durable_consumer")
