"""A real ActiveMQ here and our broker there, and the other way round: the bridge between two makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from pyjms.forwarding import Guarantee
from pyjms.spi.routes import RouteState
from tests.pyjms.forwarding.sites import Client, queue_at, route, running, statistics_when

pytestmark = [pytest.mark.realises("MOM-36"), pytest.mark.requires("activemq")]


@pytest.fixture
def url(activemq: dict[str, int]) -> str:
    return f"stomp://127.0.0.1:{activemq['stomp']}"


@pytest.fixture
def classic(url: str) -> Iterator[Client]:
    client = Client(url)
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    """A queue of this test alone: other processes of the same run test with the same broker."""
    return f"forwarded.{uuid4().hex}"


def send_one_of_each(client: Client, queue: str) -> None:
    session = client.session
    text = session.create_text_message("text")
    text.jms_type, text.jms_correlation_id = "order", "c-1"
    text.set_long_property("amount", 7)
    mapped = session.create_map_message()
    mapped.set_short("s", 3)
    data = session.create_bytes_message()
    data.write_bytes(b"\x00\xff")
    with session.create_producer(session.create_queue(queue)) as producer:
        for each in (text, mapped, data):
            producer.send(each)


def check_one_of_each(client: Client, queue: str) -> None:
    text, mapped, data = (client.take(queue) for _ in range(3))
    assert (text.text, text.jms_type, text.jms_correlation_id) == ("text", "order", "c-1")
    assert text.get_long_property("amount") == 7
    assert text.get_string_property("pyjms_origin_id")
    assert mapped.get_short("s") == 3
    found = bytearray(2)
    assert (data.read_bytes(found), bytes(found)) == (2, b"\x00\xff")


def test_from_activemq_to_our_broker_once_only(classic: Client, url: str, there: Client, name: str) -> None:
    send_one_of_each(classic, name)
    source = queue_at(f"{url}?prefetch_messages=100", name)
    with running(route(source, name=name, require=Guarantee.ONCE_ONLY), queue_at("vm://there", "inbox")) as thread:
        seen = statistics_when(thread, lambda each: each.forwarded == 3)
    assert seen.guarantee == "once only"
    check_one_of_each(there, "inbox")


def test_a_second_forwarder_brings_nothing_twice(
    classic: Client, url: str, there: Client, name: str, monkeypatch: Any
) -> None:
    """ActiveMQ's ids are the same after a redelivery, so that our broker knows the messages again."""
    from pyjms.spi.errors import ConnectionLostError
    from pyjms_provider.clients.stomp.foreign.session import ForeignSession

    for number in range(5):
        classic.put(name, str(number))
    source = queue_at(url, name)

    def commit(session: ForeignSession) -> None:
        raise ConnectionLostError("gone")

    with monkeypatch.context() as broken:
        broken.setattr(ForeignSession, "commit", commit)
        with running(route(source, name=name), queue_at("vm://there", "inbox")) as thread:
            statistics_when(thread, lambda each: each.failures > 0)
    assert len(there.texts("inbox")) == 5
    with running(route(source, name=name), queue_at("vm://there", "inbox")) as thread:
        statistics_when(thread, lambda each: each.forwarded == 5)
    assert there.texts("inbox") == [str(number) for number in range(5)]


def test_from_our_broker_to_activemq_at_least_once(here: Client, classic: Client, url: str, name: str) -> None:
    send_one_of_each(here, "orders")
    source = queue_at("vm://here", "orders")
    with running(route(source, name=name, require=Guarantee.ONCE_ONLY), queue_at(url, name)) as thread:
        seen = statistics_when(thread, lambda each: each.state is RouteState.FAILED)
    assert "ActiveMQ Classic over STOMP" in str(seen.last_error)
    with running(route(source, name=name), queue_at(url, name)) as thread:
        seen = statistics_when(thread, lambda each: each.forwarded == 3)
    assert seen.guarantee == "at least once"
    check_one_of_each(classic, name)
