"""The table of temporary destinations: who made them, and what ends with a connection."""

from __future__ import annotations

from threading import Lock

import pytest

from pyjms.spi.envelope import Address, AddressKind, ConnectionId
from pyjms.spi.errors import DestinationError
from pyjms_provider.core.host.temporaries import TemporaryDestinations
from tests.provider.cost import kept, steps_of
from tests.provider.helpers import QueueWorld

ONE, OTHER = ConnectionId("one"), ConnectionId("other")


def test_a_connection_ends_its_own_and_leaves_those_of_others() -> None:
    world, ended = QueueWorld(), list[Address]()
    temporaries = TemporaryDestinations(Lock(), lambda address: world.make_queue(str(address)), ended.append)
    mine = [temporaries.create(AddressKind.QUEUE, ONE) for _ in range(3)]
    others = [temporaries.create(AddressKind.QUEUE, OTHER) for _ in range(3)]
    temporaries.delete(mine[1], ONE)
    with pytest.raises(DestinationError):
        temporaries.delete(mine[1], ONE)
    temporaries.end_connection(ONE)
    temporaries.end_connection(ONE)
    assert ended == [mine[1], mine[0], mine[2]]
    assert [temporaries.owner_of(each) for each in (*mine, *others)] == [None] * 3 + [OTHER] * 3
    for each in others:
        temporaries.delete(each, OTHER)
    assert not {ONE, OTHER} & {*kept(temporaries, str)}, "nothing is kept of a connection without any"


def steps_of_an_end(others: int) -> int:
    """Return what the end of a connection costs that has three temporary queues while another one has so many."""
    world = QueueWorld()
    temporaries = TemporaryDestinations(Lock(), lambda address: world.make_queue(str(address)), lambda _: None)
    for owner, many in ((ONE, 3), (OTHER, others)):
        for _ in range(many):
            temporaries.create(AddressKind.QUEUE, owner)
    return steps_of(lambda: temporaries.end_connection(ONE))


def test_a_connection_ends_without_a_look_at_what_others_have() -> None:
    assert steps_of_an_end(1_000) == steps_of_an_end(1)
