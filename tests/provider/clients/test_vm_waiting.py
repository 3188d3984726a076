"""Who must not wait can ask beforehand whether a send may."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms_provider.core.policy import Overflow
from pyjms_provider.queue_manager import QueueManager
from tests.provider.clients.world import World
from tests.provider.helpers import ORDERS, make_envelope

PRICES = Address(AddressKind.TOPIC, "prices")


def test_in_memory_nothing_waits_but_for_room(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    assert not session.may_wait(make_envelope(persistent=True))
    QueueManager.of(world.name).create("orders", max_messages=1, overflow=Overflow.BLOCK)
    assert session.may_wait(make_envelope())


@pytest.mark.parametrize("destination", [ORDERS, PRICES], ids=str)
@pytest.mark.parametrize(("persistent", "transacted"), [(True, False), (True, True), (False, False)])
def test_with_a_store_what_is_forced_to_the_disk_waits(
    tmp_path: Path, world: World, destination: Address, persistent: bool, transacted: bool
) -> None:
    connection = world.connect(f"?store=sqlite:///{tmp_path}/jms.db")
    envelope = make_envelope(persistent=persistent, destination=destination)
    session = connection.open_session(transacted=transacted)
    if destination is ORDERS:
        assert session.may_wait(envelope), "the queue's definition is written first"
    connection.open_session(transacted=False).send(envelope)
    assert session.may_wait(envelope) is (persistent and not transacted)


def test_who_finds_memory_full_waits_for_the_disk(tmp_path: Path, world: World) -> None:
    session = world.connect(f"?store=sqlite:///{tmp_path}/jms.db&memory=1000000").open_session(transacted=False)
    session.send(make_envelope("x" * 2_000_000))
    assert session.may_wait(make_envelope())
