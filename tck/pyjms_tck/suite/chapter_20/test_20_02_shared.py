"""Shared subscriptions (20.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

from pyjms import (
    Connection,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    MessageConsumer,
    QueueConnection,
    Session,
    Topic,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import Connect, MakeDestination, MakeName, RunBackground
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_08.server import Pool
from pyjms_tck.suite.exchange import (
    INVALID_SELECTOR,
    NO_DESTINATION,
    Collector,
    DurableClient,
    leftovers,
    send_texts,
    take,
    take_texts,
)

both = pytest.mark.parametrize("more", [(), ("TRUE",)], ids=["short", "long"])


@pytest.fixture
def name(make_name: MakeName) -> str:
    """A name for a shared non-durable subscription."""
    return make_name("shared")


@pytest.fixture
def kept(make_name: MakeName, connect: Connect) -> Iterator[str]:
    """A name for a shared durable subscription without a client identifier, which is deleted after the test."""
    made = make_name("shared_durable")
    sessions: list[Session] = []
    yield made
    sessions.append(connect().create_session())
    with suppress(JMSException):
        sessions[0].unsubscribe(made)


def divided(consumers: Sequence[MessageConsumer], waits: Waits, count: int) -> list[str | None]:
    """Return the texts of `count` messages that the consumers divide, and of those that are too many, sorted."""
    texts: list[str | None] = []

    def all_here() -> bool:
        for consumer in consumers:
            while (message := consumer.receive_no_wait()) is not None:
                texts.append(message.get_body(str))
        return len(texts) >= count

    waits.until(all_here, f"{count} messages had come")
    for consumer in consumers:
        texts.extend(leftovers(consumer, waits))
    return sorted(texts, key=str)


TEXTS = [f"text {number}" for number in range(6)]


@requirement("20.2-a")
def test_20_2_a_the_consumers_of_a_shared_subscription_divide_its_messages(
    make_session: Any, session: Session, topic: Topic, name: str, waits: Waits
) -> None:
    consumers = [make_session().create_shared_consumer(topic, name) for _ in range(2)]
    alone = session.create_consumer(topic)
    send_texts(session, topic, *TEXTS)
    assert divided(consumers, waits, len(TEXTS)) == TEXTS, "each message goes to one of them"
    assert take_texts(alone, waits, len(TEXTS)) == TEXTS, "other subscriptions have all messages, too"


@requirement("20.2-b")
def test_20_2_b_a_shared_subscription_ends_with_its_last_consumer(
    session: Session, topic: Topic, name: str, waits: Waits
) -> None:
    first, second = (session.create_shared_consumer(topic, name) for _ in range(2))
    first.close()
    send_texts(session, topic, "kept by the second")
    assert take(second, waits).get_body(str) == "kept by the second"
    second.close()
    send_texts(session, topic, "while there is none")
    assert leftovers(session.create_shared_consumer(topic, name), waits) == []


@requirement("20.2-c")
def test_20_2_c_the_consumers_of_a_shared_subscription_may_be_of_several_connections(
    connect: Connect, session: Session, topic: Topic, name: str, waits: Waits
) -> None:
    consumers = [connect(started=True).create_session().create_shared_consumer(topic, name) for _ in range(2)]
    send_texts(session, topic, *TEXTS)
    assert divided(consumers, waits, len(TEXTS)) == TEXTS


def send_coloured(session: Session, topic: Topic) -> None:
    """Send a message of each of two colours, with the colour as its text."""
    for colour in ("blue", "red"):
        message = session.create_text_message(colour)
        message.set_string_property("colour", colour)
        session.create_producer(topic).send(message)


@requirement("20.2-d")
@needs("SELECTORS")
def test_20_2_d_a_selector_keeps_messages_out_of_a_shared_subscription(
    session: Session, topic: Topic, name: str, waits: Waits
) -> None:
    consumer = session.createSharedConsumer(topic, name, "colour = 'red'")
    send_coloured(session, topic)
    assert take_texts(consumer, waits, 1) == ["red"]
    assert leftovers(consumer, waits) == []


@requirement("20.2-e")
def test_20_2_e_an_active_shared_subscription_has_one_topic(
    session: Session, make_topic: MakeDestination, name: str
) -> None:
    session.create_shared_consumer(make_topic(), name)
    with pytest.raises(JMSException):
        session.create_shared_consumer(make_topic(), name)


@requirement("20.2-e")
@needs("SELECTORS")
def test_20_2_e_an_active_shared_subscription_has_one_selector(session: Session, topic: Topic, name: str) -> None:
    session.create_shared_consumer(topic, name)
    with pytest.raises(JMSException):
        session.create_shared_consumer(topic, name, "colour = 'red'")


@requirement("20.2-f")
@needs("DURABLE_SUBSCRIPTIONS")
def test_20_2_f_a_durable_and_a_non_durable_shared_subscription_may_have_one_name(
    session: Session, topic: Topic, kept: str, waits: Waits
) -> None:
    consumers = session.create_shared_consumer(topic, kept), session.create_shared_durable_consumer(topic, kept)
    send_texts(session, topic, "for both")
    assert [take(consumer, waits).get_body(str) for consumer in consumers] == ["for both", "for both"]
    for consumer in consumers:
        consumer.close()


@requirement("20.2-g")
@both
def test_20_2_g_a_shared_consumer_needs_a_topic(session: Session, name: str, more: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidDestinationException):
        session.create_shared_consumer(NO_DESTINATION, name, *more)


@requirement("20.2-g")
@needs("SELECTORS")
def test_20_2_g_a_shared_consumer_needs_a_valid_selector(session: Session, topic: Topic, name: str) -> None:
    with pytest.raises(InvalidSelectorException):
        session.create_shared_consumer(topic, name, INVALID_SELECTOR)


@requirement("20.2-h")
@needs("DURABLE_SUBSCRIPTIONS")
def test_20_2_h_the_consumers_of_a_shared_durable_subscription_divide_its_messages(
    connect: Connect, session: Session, topic: Topic, kept: str, waits: Waits
) -> None:
    consumers = [connect(started=True).create_session().createSharedDurableConsumer(topic, kept) for _ in range(2)]
    send_texts(session, topic, *TEXTS)
    assert divided(consumers, waits, len(TEXTS)) == TEXTS
    for consumer in consumers:
        consumer.close()


@requirement("20.2-i")
@needs("DURABLE_SUBSCRIPTIONS")
def test_20_2_i_a_shared_durable_subscription_keeps_messages_until_it_is_unsubscribed(
    connect: Connect, session: Session, topic: Topic, kept: str, waits: Waits
) -> None:
    first = connect(started=True)
    first.create_session().create_shared_durable_consumer(topic, kept)
    first.close()
    send_texts(session, topic, "meanwhile")
    consumer = session.create_shared_durable_consumer(topic, kept)
    assert take_texts(consumer, waits, 1) == ["meanwhile"]
    consumer.close()
    session.unsubscribe(kept)
    send_texts(session, topic, "after its end")
    consumer = session.create_shared_durable_consumer(topic, kept)
    assert leftovers(consumer, waits) == []
    consumer.close()


@requirement("20.2-j")
@needs("DURABLE_SUBSCRIPTIONS", "SELECTORS")
def test_20_2_j_a_selector_keeps_messages_out_of_a_shared_durable_subscription(
    session: Session, topic: Topic, kept: str, waits: Waits
) -> None:
    consumer = session.createSharedDurableConsumer(topic, kept, "colour = 'red'")
    send_coloured(session, topic)
    assert take_texts(consumer, waits, 1) == ["red"]
    assert leftovers(consumer, waits) == []
    consumer.close()


@requirement("20.2-k")
@needs("DURABLE_SUBSCRIPTIONS", "SELECTORS")
def test_20_2_k_an_active_shared_durable_subscription_has_one_topic_and_one_selector(
    session: Session, make_topic: MakeDestination, kept: str
) -> None:
    first = make_topic()
    consumer = session.create_shared_durable_consumer(first, kept)
    with pytest.raises(JMSException):
        session.create_shared_durable_consumer(make_topic(), kept)
    with pytest.raises(JMSException):
        session.create_shared_durable_consumer(first, kept, "colour = 'red'")
    consumer.close()


@requirement("20.2-l")
@needs("DURABLE_SUBSCRIPTIONS", "SELECTORS")
@pytest.mark.parametrize("changed", ["topic", "selector"])
def test_20_2_l_a_shared_durable_subscription_without_consumers_is_replaced(
    session: Session, make_topic: MakeDestination, kept: str, waits: Waits, changed: str
) -> None:
    topic = make_topic()
    session.create_shared_durable_consumer(topic, kept).close()
    send_texts(session, topic, "of the old one")
    other = make_topic() if changed == "topic" else topic
    consumer = session.create_shared_durable_consumer(other, kept, "colour = 'red'" if changed == "selector" else None)
    send_coloured(session, other)
    wanted = ["blue", "red"] if changed == "topic" else ["red"]
    assert take_texts(consumer, waits, len(wanted)) == wanted
    assert leftovers(consumer, waits) == []
    consumer.close()


@requirement("20.2-m")
@needs("DURABLE_SUBSCRIPTIONS")
@both
def test_20_2_m_a_shared_durable_consumer_needs_a_topic(session: Session, kept: str, more: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidDestinationException):
        session.create_shared_durable_consumer(NO_DESTINATION, kept, *more)


@requirement("20.2-m")
@needs("DURABLE_SUBSCRIPTIONS", "SELECTORS")
def test_20_2_m_a_shared_durable_consumer_needs_a_valid_selector(session: Session, topic: Topic, kept: str) -> None:
    with pytest.raises(InvalidSelectorException):
        session.create_shared_durable_consumer(topic, kept, INVALID_SELECTOR)


@requirement("20.2-n")
@needs("DURABLE_SUBSCRIPTIONS")
@pytest.mark.parametrize("first", ["create_durable_consumer", "create_shared_durable_consumer"])
@pytest.mark.parametrize("is_active", [True, False], ids=["active", "not active"])
def test_20_2_n_a_shared_and_an_unshared_durable_subscription_exclude_each_other(
    durable: DurableClient, topic: Topic, first: str, is_active: bool
) -> None:
    names = ["create_durable_consumer", "create_shared_durable_consumer"]
    names.remove(first)
    session = durable.open().create_session()
    consumer = getattr(session, first)(topic, durable.name)
    if not is_active:
        consumer.close()
    with pytest.raises(JMSException):
        getattr(session, names[0])(topic, durable.name)


def pooled(connection: Connection, method: str, topic: Any, name: str, selector: str | None, pool: Pool) -> Any:
    """Make a shared connection consumer."""
    return getattr(connection, method)(topic, name, selector, pool, 1)


@requirement("20.2-o")
@needs("CONNECTION_CONSUMERS")
def test_20_2_o_a_shared_connection_consumer_feeds_a_pool_of_sessions(
    connection: Connection, session: Session, topic: Topic, name: str, waits: Waits, background: RunBackground
) -> None:
    _feeds("createSharedConnectionConsumer", connection, session, topic, name, waits, background)


@requirement("20.2-p")
@needs("CONNECTION_CONSUMERS", "DURABLE_SUBSCRIPTIONS")
def test_20_2_p_a_shared_durable_connection_consumer_feeds_a_pool_of_sessions(
    connection: Connection, session: Session, topic: Topic, kept: str, waits: Waits, background: RunBackground
) -> None:
    _feeds("createSharedDurableConnectionConsumer", connection, session, topic, kept, waits, background)
    send_texts(session, topic, "while there is none")
    consumer = session.create_shared_durable_consumer(topic, kept)
    assert take_texts(consumer, waits, 1) == ["while there is none"]
    consumer.close()


def _feeds(
    method: str,
    connection: Connection,
    session: Session,
    topic: Topic,
    name: str,
    waits: Waits,
    background: RunBackground,
) -> None:
    collector = Collector()
    pools = [Pool(connection, background, waits, collector.on_message) for _ in range(2)]
    consumers = [pooled(connection, method, topic, name, None, pool) for pool in pools]
    send_texts(session, topic, *TEXTS)
    collector.wait_for(len(TEXTS), waits)
    waits.pause()
    assert sorted(collector.texts, key=str) == TEXTS, "each message goes to one of the pools"
    for consumer in consumers:
        consumer.close()


@requirement("20.2-q")
@needs("CONNECTION_CONSUMERS", "DURABLE_SUBSCRIPTIONS", "SELECTORS")
@pytest.mark.parametrize("method", ["createSharedConnectionConsumer", "createSharedDurableConnectionConsumer"])
def test_20_2_q_shared_connection_consumers_check_their_arguments(
    connection: Connection,
    queue_connection: QueueConnection,
    topic: Topic,
    name: str,
    waits: Waits,
    background: RunBackground,
    method: str,
) -> None:
    pool = Pool(connection, background, waits, Collector().on_message)
    with pytest.raises(IllegalStateException):
        pooled(queue_connection, method, topic, name, None, pool)
    with pytest.raises(InvalidDestinationException):
        pooled(connection, method, NO_DESTINATION, name, None, pool)
    with pytest.raises(InvalidSelectorException):
        pooled(connection, method, topic, name, INVALID_SELECTOR, pool)
