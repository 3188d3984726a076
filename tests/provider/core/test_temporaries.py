"""The table of temporary destinations: who made them, and what ends with a connection."""

from __future__ import annotations

from threading import Lock
from typing import Any

import pytest

from pyjms.spi.envelope import Address, AddressKind, ConnectionId
from pyjms.spi.errors import DestinationError
from pyjms_provider.core.host.virtual_host import TemporaryDestinations
from tests.provider.helpers import QueueWorld

ONE, OTHER = ConnectionId("one"), ConnectionId("other")


class Looks(dict[str, Any]):
    """All of a broker, and how often they were looked through."""

    number = 0

    def values(self) -> Any:
        self.number += 1
        return super().values()


def test_a_connection_ends_its_own_without_a_look_at_those_of_others() -> None:
    world, ended = QueueWorld(), list[Address]()
    temporaries = TemporaryDestinations(Lock(), lambda address: world.make_queue(str(address)), ended.append)
    looks = temporaries._by_name = Looks()
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
    assert not looks.number
    assert not temporaries._by_owner, "nothing is kept of a connection without any"
