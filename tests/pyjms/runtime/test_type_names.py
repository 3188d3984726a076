"""Symbolic JMS types, which an administrator maps to those of the message system (JMS 1.1 §3.4.8)."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyjms import (
    Connection,
    ConnectionFactory,
    IllegalArgumentException,
    InvalidSelectorException,
    Message,
    Session,
    XAConnectionFactory,
    XAResource,
    aio,
)
from pyjms.jndi import InitialContext
from pyjms_provider.broker import stop_broker
from tests.pyjms.runtime.test_xa import Branch
from tests.system.network.served import anonymous_broker

URL = "vm://types"
NAMES = {"order": "acme.Order", "bill": "acme.Bill", "it's": "acme'x"}
KINDS: tuple[str | None, ...] = ("acme.Order", "acme.Bill", "acme'x", "order", "other", None)
"""What others send."""
SHOWN: tuple[str | None, ...] = ("order", "bill", "it's", "order", "other", None)


@pytest.fixture(autouse=True)
def broker() -> Iterator[None]:
    with ConnectionFactory(URL).create_connection():
        pass
    yield
    stop_broker("types")


def opened(connection: Connection) -> Session:
    connection.start()
    return connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)


def send(session: Session, *kinds: str | None, queue: str = "orders") -> Message:
    producer = session.create_producer(session.create_queue(queue))
    message = session.create_text_message("x")
    for number, kind in enumerate(kinds):
        message.jms_type = kind
        message.set_string_property("kind", "order")
        message.set_int_property("n", number)
        producer.send(message)
    return message


def received(session: Session, selector: str | None = None, queue: str = "orders") -> list[str | None]:
    consumer = session.create_consumer(session.create_queue(queue), selector)
    found = []
    while (message := consumer.receive_no_wait()) is not None:
        found.append(message.jms_type)
    consumer.close()
    return found


@pytest.mark.realises("BOIL-HDR-8")
@pytest.mark.parametrize("how", ["keyword", "text", "url", "properties", "toml", "pickled"])
def test_a_name_is_a_type_at_the_message_system_and_a_name_again_at_the_receiver(how: str, tmp_path: Path) -> None:
    text = "order = acme.Order, bill=acme.Bill"
    if how in {"keyword", "pickled"}:
        factory: Any = ConnectionFactory(URL, jms_types={"order": "acme.Order", "bill": "acme.Bill"})
        factory = pickle.loads(pickle.dumps(factory)) if how == "pickled" else factory
    elif how == "text":
        factory = ConnectionFactory(URL, jms_types=text)
    elif how == "url":
        factory = ConnectionFactory(f"{URL}?jms_types=order=acme.Order,bill=acme.Bill")
    else:
        file = tmp_path / f"jndi.{how}"
        file.write_text(
            f"connectionfactory.shop = {URL}\nproperty.connectionfactory.shop.jmsTypes = {text}\n"
            if how == "properties"
            else f'company = "acme"\n[connection_factory.shop]\nurl = "{URL}"\n'
            '[connection_factory.shop.jms_types]\norder = "${company}.Order"\nbill = "acme.Bill"\n',
            encoding="utf-8",
        )
        factory = InitialContext(file).lookup("shop")
    with factory.create_connection() as named, ConnectionFactory(URL).create_connection() as plain:
        session, other = opened(named), opened(plain)
        assert send(session, "order", "bill").jms_type == "bill", "the sender's own message is as it was"
        send(session, "other", None)
        assert received(other) == ["acme.Order", "acme.Bill", "other", None]
        other.recover()
        other.close()
        assert received(session) == ["order", "bill", "other", None]


@pytest.mark.realises("BOIL-HDR-8")
@pytest.mark.parametrize(
    "selector",
    [
        "JMSType = 'order'",
        "'order' = JMSType",
        "JMSType <> 'order'",
        "NOT (JMSType = ('order'))",
        "JMSType IN ('bill', 'other', 'it''s')",
        "JMSType NOT IN ('bill', 'it''s')",
        "JMSType LIKE 'o%'",
        "JMSType LIKE '%e%'",
        "JMSType NOT LIKE 'o%' AND n < 5",
        "JMSType LIKE 'o!_der' ESCAPE '!' OR n = 1",
        "NOT (JMSType LIKE 'or_er')",
        "JMSType LIKE 'acme%'",
        "JMSType = kind",
        "kind <> JMSType",
        "JMSType IS NULL",
        "JMSType IS NOT NULL AND kind = 'order'",
        "JMSType = JMSType",
        "(JMSType = 'it''s' OR JMSType LIKE 'b%') AND NOT JMSType = 'bill' OR kind = 'bill'",
    ],
)
def test_a_selector_chooses_by_the_names_that_the_program_sees(selector: str) -> None:
    with (
        ConnectionFactory(URL, jms_types=NAMES).create_connection() as named,
        ConnectionFactory(URL).create_connection() as plain,
    ):
        session, other = opened(named), opened(plain)
        # "order" of others is not what the program calls so, and is left out here: see the next test.
        send(other, *(kind for kind in KINDS if kind != "order"))
        # A selector means over names what the same selector means over a queue whose messages have these types.
        send(other, *(name for kind, name in zip(KINDS, SHOWN, strict=True) if kind != "order"), queue="shown")
        expected = received(other, selector, queue="shown")
        assert received(session, selector) == expected
        session.recover()
        browser = session.create_browser(session.create_queue("orders"), selector)
        assert [each.jms_type for each in browser.enumeration] == expected


def test_a_text_that_is_no_name_stands_for_itself() -> None:
    with (
        ConnectionFactory(URL, jms_types=NAMES).create_connection() as named,
        ConnectionFactory(URL).create_connection() as plain,
    ):
        session, other = opened(named), opened(plain)
        send(other, "acme.Order", "order", "other")
        assert received(session, "JMSType = 'acme.Order'") == ["order"]
        assert received(session, "JMSType = 'other'") == ["other"]
        assert received(session, "JMSType = 'order'") == []


def test_the_consumer_tells_its_own_selector_and_a_wrong_one_is_told_at_its_place() -> None:
    with ConnectionFactory(URL, jms_types=NAMES).create_connection() as named:
        session = opened(named)
        queue = session.create_queue("orders")
        assert session.create_consumer(queue, "JMSType = 'order'").message_selector == "JMSType = 'order'"
        with pytest.raises(InvalidSelectorException, match="JMSType = "):
            session.create_consumer(queue, "JMSType = ")


def test_durable_subscribers_select_by_names_and_come_back_with_the_same_selector() -> None:
    factory = ConnectionFactory(URL, client_id="till", jms_types=NAMES)
    for text in ("one", "two"):
        with factory.create_connection() as named:
            session = opened(named)
            topic = session.create_topic("news")
            subscriber = session.create_durable_subscriber(topic, "s", "JMSType = 'bill'", False)
            if text == "two":
                assert subscriber.receive_no_wait() is not None, "it came while nobody listened"
            subscriber.close()
            message = session.create_text_message(text)
            message.jms_type = "bill"
            session.create_producer(topic).send(message)


def test_listeners_transactions_recovery_and_asyncio_work_as_ever() -> None:
    with ConnectionFactory(URL, jms_types=NAMES).create_connection() as named:
        named.start()
        transacted = named.create_session(True, Session.SESSION_TRANSACTED)
        send(transacted, "order")
        transacted.commit()
        consumer = transacted.create_consumer(transacted.create_queue("orders"))
        for is_redelivered in (False, True):
            message = consumer.receive_no_wait()
            assert message is not None
            assert (message.jms_type, message.jms_redelivered) == ("order", is_redelivered)
            transacted.commit() if is_redelivered else transacted.rollback()
        assert consumer.receive_no_wait() is None

    async def take() -> str | None:
        async with aio.ConnectionFactory(URL, jms_types=NAMES).create_connection() as connection:
            session = await connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
            queue = session.create_queue("orders")
            message = session.create_text_message("x")
            message.jms_type = "order"
            producer = await session.create_producer(queue)
            await producer.send(message)
            await connection.start()
            consumer = await session.create_consumer(queue, "JMSType = 'order'")
            found = await consumer.receive(10_000)
            return None if found is None else found.jms_type

    assert asyncio.run(take()) == "order"


def test_branches_of_distributed_transactions_have_them_too(tmp_path: Path) -> None:
    url, branch = f"vm://xa-types?store=sqlite:///{tmp_path}/xa.db", Branch("branch")
    try:
        with XAConnectionFactory(url, jms_types=NAMES).create_xa_connection() as named:
            xa = named.create_xa_session()
            resource = xa.xa_resource
            resource.start(branch, XAResource.TMNOFLAGS)
            send(xa, "order")
            resource.end(branch, XAResource.TMSUCCESS)
            resource.commit(branch, True)
            with ConnectionFactory("vm://xa-types").create_connection() as plain:
                assert received(opened(plain)) == ["acme.Order"]
    finally:
        stop_broker("xa-types")


def test_over_a_network_and_recorded(tmp_path: Path) -> None:
    with anonymous_broker() as served:
        factory = ConnectionFactory(served.addresses()[0], jms_types=NAMES, record=str(tmp_path / "history"))
        with (
            factory.create_connection() as named,
            ConnectionFactory(served.addresses()[0]).create_connection() as plain,
        ):
            session, other = opened(named), opened(plain)
            send(session, "order", "bill", "other")
            consumer = session.create_consumer(session.create_queue("orders"), "JMSType IN ('order', 'bill')")
            for expected in ("order", "bill"):
                message = consumer.receive(10_000)
                assert message is not None
                assert message.jms_type == expected
                message.acknowledge()
            assert received(other) == ["other"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("order", "no such pair"),
        ("=x", "no such pair"),
        ("order=", "no such pair"),
        ({"order": 1}, "no such pair"),
        (7, "no such pair"),
        ({"order": "x", "bill": "x"}, "type 'x' twice"),
        ("order=x, order=y", "name 'order' twice"),
    ],
)
def test_a_mapping_that_is_not_one_to_one_is_refused(wrong: Any, told: str) -> None:
    with pytest.raises(IllegalArgumentException, match=told):
        ConnectionFactory(URL, jms_types=wrong)


def test_without_names_nothing_stands_between() -> None:
    with ConnectionFactory(URL, jms_types="").create_connection() as connection:
        assert received(opened(connection)) == []
