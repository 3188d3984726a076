from __future__ import annotations

import pytest

from pyjms import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic


class OwnQueue(Queue):
    """A queue that somebody else implements, with Java names."""

    def getQueueName(self) -> str:
        return "orders"


class OwnTopic(Topic):
    """A topic that somebody else implements."""

    @property
    def topic_name(self) -> str:
        return "prices"


@pytest.mark.parametrize(("made", "name"), [(OwnQueue(), "orders"), (OwnTopic(), "prices")])
def test_a_destination_reads_as_its_name(made: Destination, name: str) -> None:
    assert isinstance(made, Destination)
    assert str(made) == f"{made}" == name
    assert isinstance(made, Queue | Topic)
    assert made.to_string() == made.toString() == name


def test_to_string_may_be_replaced() -> None:
    class Loud(OwnQueue):
        def toString(self) -> str:
            return "ORDERS!"

    assert str(Loud()) == Loud().to_string() == "ORDERS!"


def test_temporary_destinations_are_destinations_of_their_kind() -> None:
    assert issubclass(TemporaryQueue, Queue)
    assert issubclass(TemporaryTopic, Topic)
    assert not issubclass(Queue, Topic)
