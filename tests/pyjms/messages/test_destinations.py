from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest

from pyjms.api.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.messages.destinations import JmsQueue, JmsTemporaryQueue, JmsTemporaryTopic, JmsTopic, address_of
from pyjms.spi.envelope import Address, AddressKind

TEMPORARY = Address(AddressKind.QUEUE, "orders", temporary=True)
TEMPORARY_TOPIC = Address(AddressKind.TOPIC, "orders", temporary=True)


def test_destinations_are_values() -> None:
    assert JmsQueue("orders") == JmsQueue("orders")
    assert hash(JmsQueue("orders")) == hash(JmsQueue("orders"))
    assert len({JmsQueue("orders"), JmsTopic("orders"), JmsQueue("more"), JmsTemporaryQueue(TEMPORARY)}) == 4
    assert JmsTemporaryQueue(TEMPORARY) == JmsTemporaryQueue(TEMPORARY, print)
    assert JmsQueue("orders") != "orders"


def test_names_and_addresses() -> None:
    queue, topic = JmsQueue("orders"), JmsTopic("news")
    assert (queue.queue_name, queue.getQueueName(), topic.getTopicName()) == ("orders", "orders", "news")
    assert queue.address == Address(AddressKind.QUEUE, "orders")
    assert (str(queue), str(topic), queue.toString()) == ("queue://orders", "topic://news", "queue://orders")
    assert str(JmsTemporaryTopic(TEMPORARY_TOPIC)) == "temp-topic://orders"
    assert repr(queue) == "<JmsQueue queue://orders>"
    assert JmsTemporaryQueue(TEMPORARY).queue_name == JmsTemporaryTopic(TEMPORARY_TOPIC).topic_name == "orders"


@pytest.mark.realises("BOIL-SETUP-2")
@pytest.mark.parametrize("destination", [JmsQueue("orders"), JmsTopic("news")], ids=str)
def test_queues_and_topics_can_be_stored(destination: Destination) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(destination, protocol)) == destination
    assert copy.deepcopy(destination) == copy.copy(destination) == destination


@pytest.mark.realises("BOIL-TEMP-2")
@pytest.mark.parametrize(
    "destination", [JmsTemporaryQueue(TEMPORARY, print), JmsTemporaryTopic(TEMPORARY_TOPIC, print)], ids=str
)
def test_temporary_destinations_cannot_be_copied(destination: Destination) -> None:
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="belongs to its connection"):
            attempt(destination)


def test_temporary_destinations_are_deleted_by_their_connection() -> None:
    deleted: list[Address] = []
    JmsTemporaryQueue(TEMPORARY, deleted.append).delete()
    JmsTemporaryTopic(TEMPORARY_TOPIC, deleted.append).delete()
    assert deleted == [TEMPORARY, TEMPORARY_TOPIC]
    with pytest.raises(IllegalStateException, match="the connection that made it"):
        JmsTemporaryQueue(TEMPORARY).delete()


def test_it_can_be_seen_that_nobody_holds_a_temporary_destination() -> None:
    queue = JmsTemporaryQueue(TEMPORARY)
    reference = weakref.ref(queue)
    del queue
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("name", ["", None, 5, b"orders"])
def test_a_destination_has_a_name(name: Any) -> None:
    for kind in (JmsQueue, JmsTopic):
        with pytest.raises(InvalidDestinationException, match="name"):
            kind(name)


class ForeignQueue(Queue):
    def __init__(self, name: Any) -> None:
        self.name = name

    @property
    def queue_name(self) -> str:
        return self.name  # type: ignore[no-any-return]


class ForeignTopic(Topic):
    def getTopicName(self) -> str:
        return "news"


class ForeignTemporaryQueue(ForeignQueue, TemporaryQueue):
    def delete(self) -> None:
        raise NotImplementedError


class ForeignTemporaryTopic(ForeignTopic, TemporaryTopic):
    def delete(self) -> None:
        raise NotImplementedError


class Both(ForeignQueue, ForeignTopic):
    pass


def test_addresses_of_destinations_of_another_make() -> None:
    assert address_of(ForeignQueue("orders")) == Address(AddressKind.QUEUE, "orders")
    assert address_of(ForeignTopic()) == Address(AddressKind.TOPIC, "news")
    assert address_of(ForeignTemporaryQueue("t")) == Address(AddressKind.QUEUE, "t", temporary=True)
    assert address_of(ForeignTemporaryTopic()) == Address(AddressKind.TOPIC, "news", temporary=True)
    assert address_of(JmsTopic("news")) == Address(AddressKind.TOPIC, "news")


@pytest.mark.parametrize(
    "destination", [None, "orders", 5, ForeignQueue(""), ForeignQueue(None), Both("x"), type("D", (Destination,), {})()]
)
def test_what_is_no_destination(destination: Any) -> None:
    with pytest.raises(InvalidDestinationException):
        address_of(destination)
