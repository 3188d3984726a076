"""A closed object refuses every use with IllegalStateException, and close itself does nothing more.

The methods come from the data of the specification, so that none is forgotten: JMS 1.1 §4.3.5, §4.4.1, §4.5, §4.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyjms import IllegalStateException, JMSException, Session
from pyjms.runtime.connection import JmsConnection
from pyjms.spi import Capability
from tests.pyjms.runtime.closed_world import EVERY_USE, TYPES, WAYS, Use, World, uses_of
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import send_texts, take, within_patience
from tests.pyjms.runtime.wrapping import Wrapped

WRONG_DOMAIN = {
    ("QueueConnection", "createDurableConnectionConsumer"),
    ("QueueSession", "createDurableSubscriber"),
    ("QueueSession", "createTemporaryTopic"),
    ("QueueSession", "createTopic"),
    ("QueueSession", "unsubscribe"),
    ("TopicSession", "createBrowser"),
    ("TopicSession", "createQueue"),
    ("TopicSession", "createTemporaryQueue"),
}


@pytest.fixture
def world(jms_broker_url: str) -> Iterator[World]:
    """Objects over a broker that claims to have XA."""
    with Wrapped(jms_broker_url, add=Capability.XA) as wrapped:
        made = World(wrapped.url)
        yield made
        made.close()


def spellings(thing: Any, use: Use, arguments: list[Any]) -> Iterator[Callable[[], Any]]:
    """Yield the call under its Python name and under its Java name."""
    if use.role == "getter":
        yield lambda: getattr(thing, use.python)
    elif use.role == "setter":
        yield lambda: setattr(thing, use.python, *arguments)
    else:
        yield lambda: getattr(thing, use.python)(*arguments)
    yield lambda: getattr(thing, use.java)(*arguments)


def is_wrong_domain(use: Use) -> bool:
    """Say whether the method belongs to the other domain, so that it has another reason to be refused."""
    return (use.type_name.removeprefix("XA"), use.java) in WRONG_DOMAIN


@pytest.mark.realises("BOIL-CONN-12", "BOIL-CONN-15", "BOIL-SESS-6", "BOIL-SESS-7", "BOIL-EXC-2")
@pytest.mark.parametrize(("use", "way"), EVERY_USE, ids=[f"{use}-{way}" for use, way in EVERY_USE])
def test_a_closed_object_refuses(world: World, use: Use, way: str) -> None:
    thing, closeable = world.get(use.type_name)
    arguments = [world.argument(*param) for param in use.params]
    closeable[way].close()
    for call in spellings(thing, use, arguments):
        with pytest.raises(IllegalStateException) as caught:
            within_patience(call)
        assert "closed" in str(caught.value) or is_wrong_domain(use)


def test_no_method_is_forgotten() -> None:
    java_closeable = {
        name for name, each in TYPES.items() if any(method["java"] == "close" for method in each["methods"])
    }
    below = {name for name, each in TYPES.items() if set(each["extends"]) & set(WAYS)}
    assert java_closeable | below == set(WAYS)
    for type_name in WAYS:
        declared = {each["java"] for each in TYPES[type_name]["methods"]} - {"close"}
        assert declared <= {use.java for use in uses_of(type_name)}


@pytest.mark.realises("BOIL-CONN-15", "BOIL-SESS-7")
@pytest.mark.parametrize("way", ["itself", "session", "connection"])
@pytest.mark.parametrize("type_name", list(WAYS))
def test_closing_what_is_closed_does_nothing(world: World, type_name: str, way: str) -> None:
    thing, closeable = world.get(type_name)
    closeable.get(way, thing).close()
    thing.close()
    thing.close()
    with thing:
        assert thing is not None  # leaving the block closes once more


@pytest.mark.parametrize("type_name", list(WAYS))
def test_leaving_the_block_closes(world: World, type_name: str) -> None:
    thing, _ = world.get(type_name)
    with thing as entered:
        assert entered is thing
    use = next(iter(uses_of(type_name)))
    with pytest.raises(IllegalStateException):
        within_patience(next(spellings(thing, use, [world.argument(*param) for param in use.params])))


@pytest.mark.parametrize("type_name", list(WAYS))
def test_an_error_in_the_block_is_not_hidden_by_closing(world: World, type_name: str) -> None:
    thing, closeable = world.get(type_name)
    with pytest.raises(ZeroDivisionError), thing:
        for each in closeable.values():
            each.close()
        raise ZeroDivisionError


@pytest.mark.realises("BOIL-CONN-12")
def test_a_queue_of_a_closed_connection_is_still_a_name(connection: JmsConnection) -> None:
    session = connection.create_session()
    queue, topic = session.create_queue("orders"), session.create_topic("prices")
    connection.close()
    assert (queue.queue_name, topic.topic_name) == ("orders", "prices")


@pytest.mark.realises("BOIL-CONN-14", "BOIL-ACK-3")
@pytest.mark.parametrize("closes", ["session", "connection"])
@pytest.mark.parametrize(
    ("transacted", "mode"),
    [
        (False, Session.AUTO_ACKNOWLEDGE),
        (False, Session.CLIENT_ACKNOWLEDGE),
        (False, Session.DUPS_OK_ACKNOWLEDGE),
        (True, Session.SESSION_TRANSACTED),
    ],
)
def test_a_message_outlives_its_session_but_cannot_be_acknowledged(
    connection: JmsConnection, closes: str, transacted: bool, mode: int
) -> None:
    sending = connection.create_session()
    send_texts(sending, sending.create_queue("orders"), "espresso")
    session = connection.create_session(transacted, mode)
    message = take(session.create_consumer(session.create_queue("orders")))
    message_id = message.jms_message_id
    (session if closes == "session" else connection).close()
    assert message.getText() == "espresso"  # type: ignore[attr-defined]
    assert message.jms_message_id == message_id
    message.clear_properties()
    message.set_int_property("cups", 2)
    with pytest.raises(IllegalStateException, match="closed"):
        message.acknowledge()
    with pytest.raises(IllegalStateException, match="closed"):
        message.acknowledge()


@pytest.mark.realises("BOIL-ACK-3")
def test_a_message_outlives_its_consumer_and_can_be_acknowledged(connect: Connect) -> None:
    first, second = connect(), connect()
    session = first.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    queue = session.create_queue("orders")
    send_texts(session, queue, "espresso")
    with session.create_consumer(queue) as consumer:
        message = take(consumer)
    message.acknowledge()
    session.close()
    assert second.create_session().create_consumer(queue).receive_no_wait() is None


@pytest.mark.realises("BOIL-TEMP-2")
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_a_temporary_destination_of_a_closed_connection_cannot_be_deleted(connection: JmsConnection, kind: str) -> None:
    session = connection.create_session()
    temporary = session.create_temporary_queue() if kind == "queue" else session.create_temporary_topic()
    connection.close()
    with pytest.raises(JMSException):
        temporary.delete()


def test_an_enumeration_of_a_closed_browser_ends_with_an_error(connection: JmsConnection) -> None:
    session = connection.create_session()
    queue = session.create_queue("orders")
    send_texts(session, queue, "a", "b", "c")
    browser = session.create_browser(queue)
    enumeration = browser.enumeration
    assert enumeration.next_element() is not None
    browser.close()
    with pytest.raises(IllegalStateException, match="closed"):
        enumeration.next_element()
