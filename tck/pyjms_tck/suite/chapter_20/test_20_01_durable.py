"""Sessions and durable consumers of the classic API (20.1)."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    IllegalStateException,
    InvalidDestinationException,
    InvalidSelectorException,
    Session,
    Topic,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeName
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.exchange import INVALID_SELECTOR, NO_DESTINATION, DurableClient, leftovers, send_texts, take_texts


@requirement("20.1-a")
def test_20_1_a_a_session_without_arguments_acknowledges_automatically(connection: Connection) -> None:
    session = connection.create_session()
    assert (session.transacted, session.acknowledge_mode) == (False, Session.AUTO_ACKNOWLEDGE)


@requirement("20.1-b")
@pytest.mark.parametrize(
    "mode",
    [
        Session.AUTO_ACKNOWLEDGE,
        Session.CLIENT_ACKNOWLEDGE,
        Session.DUPS_OK_ACKNOWLEDGE,
        pytest.param(Session.SESSION_TRANSACTED, marks=needs("TRANSACTIONS")),
    ],
)
def test_20_1_b_a_session_has_the_mode_that_stands_alone(connection: Connection, mode: int) -> None:
    session = connection.createSession(mode)
    assert (session.getTransacted(), session.getAcknowledgeMode()) == (mode == Session.SESSION_TRANSACTED, mode)


@requirement("20.1-c")
def test_20_1_c_a_durable_consumer_goes_on_where_the_last_one_stopped(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    consumer = durable.open().create_session().create_durable_consumer(topic, durable.name)
    send_texts(session, topic, "one", "two")
    assert take_texts(consumer, waits, 1) == ["one"]
    durable.close()
    send_texts(session, topic, "three")
    consumer = durable.open().createSession().createDurableConsumer(topic, durable.name)
    assert take_texts(consumer, waits, 2) == ["two", "three"]
    assert leftovers(consumer, waits) == []


@requirement("20.1-d")
@needs("SELECTORS", "NO_LOCAL")
def test_20_1_d_a_durable_consumer_has_a_selector_and_no_local(
    durable: DurableClient, session: Session, topic: Topic, waits: Waits
) -> None:
    ours = durable.open().create_session()
    consumer = ours.create_durable_consumer(topic, durable.name, "colour = 'red'", True)
    for sender, colour in ((ours, "red"), (session, "blue"), (session, "red")):
        message = sender.create_text_message("ours" if sender is ours else colour)
        message.set_string_property("colour", colour)
        sender.create_producer(topic).send(message)
    assert take_texts(consumer, waits, 1) == ["red"]
    assert leftovers(consumer, waits) == []


@requirement("20.1-e")
@pytest.mark.parametrize("more", [(), (None, False)], ids=["short", "long"])
def test_20_1_e_a_durable_consumer_needs_a_topic(durable: DurableClient, more: tuple[Any, ...]) -> None:
    session = durable.open().create_session()
    with pytest.raises(InvalidDestinationException):
        session.create_durable_consumer(NO_DESTINATION, durable.name, *more)


@requirement("20.1-e")
@needs("SELECTORS")
def test_20_1_e_a_durable_consumer_needs_a_valid_selector(durable: DurableClient, topic: Topic) -> None:
    session = durable.open().create_session()
    with pytest.raises(InvalidSelectorException):
        session.create_durable_consumer(topic, durable.name, INVALID_SELECTOR, False)


@requirement("20.1-f")
@pytest.mark.parametrize("method", ["createDurableConsumer", "createDurableSubscriber"])
@pytest.mark.parametrize("more", [(), ("TRUE", False)], ids=["short", "long"])
def test_20_1_f_a_durable_subscription_needs_a_client_identifier(
    session: Session, topic: Topic, method: str, more: tuple[Any, ...]
) -> None:
    with pytest.raises(IllegalStateException):
        getattr(session, method)(topic, "subscription", *more)


@requirement("20.1-g")
@needs("TOPICS")
@pytest.mark.parametrize("method", ["createDurableConsumer", "createSharedConsumer"])
def test_20_1_g_a_queue_session_has_no_subscriptions(
    factory: ConnectionFactory, make_name: MakeName, topic: Topic, method: str
) -> None:
    with factory.create_queue_connection() as connection:
        connection.client_id = make_name("client")  # so that its lack is not the reason
        session = connection.create_queue_session(False, Session.AUTO_ACKNOWLEDGE)
        with pytest.raises(IllegalStateException):
            getattr(session, method)(topic, "subscription")
