"""Reader groups and staged units over the network: the contract, and what a lost connection leaves undone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId
from pyjms.spi.errors import AccessDeniedError, GroupError, RolledBackError
from pyjms.spi.replay import GroupRequest, StageName
from pyjms_provider.clients.stomp.native import connection as pipelines
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_tck.spi.environment import Environment
from pyjms_tck.spi.pipeline_suite import *  # noqa: F403  the contract's own tests


@pytest.fixture(scope="module", params=["stomp", "amqp"])
def served(request: pytest.FixtureRequest) -> Iterator[str]:
    protocol = request.param
    with ServedBroker.open(name="broker") as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "anonymous", "type": "anonymous"})
        rules = [
            {"effect": "deny", "who": "*", "operations": ["read"], "kind": "queue", "name": "secret"},
            {"effect": "allow", "who": "*"},
        ]
        top.create_child("access_control", {"name": "access", "rules": rules})
        node = top.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        host: Any = node.create_child("virtual_host", {"name": "broker"})
        host.create_child("queue", {"name": "room-for-one", "max_messages": 1, "overflow": "reject"})
        top.create_child(
            "port",
            {
                "name": protocol,
                "type": protocol,
                "host": "127.0.0.1",
                "transports": ["tcp"],
                "port": 0,
                "authentication_providers": ["anonymous"],
                "access_control": "access",
            },
        )
        yield f"{protocol}://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}"


@pytest.fixture
def environment(served: str) -> Iterator[Environment]:
    with Environment(served) as opened:
        yield opened


@pytest.mark.parametrize("packed", [True, False])
def test_pages_come_whole_however_many_messages_there_are(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    monkeypatch.setattr(pipelines, "CAN_UNPACK", packed)
    queue, connection = environment.queue(), environment.connect()
    environment.put(queue, *(f"{number}" for number in range(1500)))
    groups = connection.reader_groups()
    opened = groups.open(GroupRequest(name=environment.name("group"), address=queue))
    name, generation = opened.group.name, opened.group.generation
    assert groups.reserve(opened, after=0, max_messages=2000, max_bytes=None, wait_ms=0) == 1500
    first = groups.read(name, generation, after=0, upto=1500)
    second = groups.read(name, generation, after=len(first), upto=1500)
    assert [each.envelope.body for each in (*first, *second)] == [f"{number}" for number in range(1500)]
    assert [each.number for each in (*first, *second)] == list(range(1, 1501))
    assert {(each.count, each.redelivered) for each in (*first, *second)} == {(1, False)}
    assert groups.release(name) == 1500


def test_who_may_not_read_a_queue_makes_no_group_of_it(environment: Environment) -> None:
    groups = environment.connect().reader_groups()
    with pytest.raises(AccessDeniedError, match="secret"):
        groups.open(GroupRequest(name=environment.name("group"), address=Address(AddressKind.QUEUE, "secret")))


def test_a_group_that_is_not_there_is_an_error_of_its_own(environment: Environment) -> None:
    groups = environment.connect().reader_groups()
    with pytest.raises(GroupError, match="no reader group 'none'"):
        groups.read("none", "generation", after=0, upto=1)
    with pytest.raises(GroupError, match="no reader group 'none'"):
        groups.release("none")


def test_what_was_refused_in_a_transaction_is_not_staged(environment: Environment) -> None:
    connection = environment.connect()
    session = connection.open_session(transacted=True)
    unit, full = StageName(environment.name("sink"), 0, 0, "a"), Address(AddressKind.QUEUE, "room-for-one")
    environment.send(session, full, "a")
    environment.send(session, full, "b")  # the first one was answered, and nobody waits for the answer to this one
    with pytest.raises(RolledBackError, match="room-for-one is full"):
        session.stage(unit, keep_s=60)
    environment.send(session, environment.queue(), "b")
    assert session.stage(unit, keep_s=60) == 1
    connection.stages().discard([unit])


def test_all_units_and_groups_are_listed(environment: Environment) -> None:
    connection = environment.connect()
    session, queue = connection.open_session(transacted=True), environment.queue()
    names = [StageName(environment.name("sink"), 2**62, -1, "ä:b\nc"), StageName(environment.name("sink"), 0, 1, "a")]
    for name in names:
        session.stage(name, keep_s=10**6)
    stages, groups = connection.stages(), connection.reader_groups()
    assert {unit.name for unit in stages.units()} >= set(names)
    opened = groups.open(GroupRequest(name=environment.name("group: ä"), address=queue, selector="a = 'x:y'"))
    assert opened.group in groups.groups()
    groups.release(opened.group.name)
    stages.discard(names)
    assert not {unit.name for unit in stages.units()} & set(names)


@pytest.mark.parametrize("properties", [{}, {"number": 7, "count": "x"}])
def test_a_message_of_a_page_has_its_own_properties_and_no_others(
    environment: Environment, properties: dict[str, int | str]
) -> None:
    queue, connection = environment.queue(), environment.connect()
    sent = Envelope(queue, MessageId("ID:1"), 1, 0, 2, 4, None, None, None, properties, BodyKind.TEXT, "a")
    connection.open_session(transacted=False).send(sent)
    groups = connection.reader_groups()
    opened = groups.open(GroupRequest(name=environment.name("group"), address=queue))
    assert groups.reserve(opened, after=0, max_messages=1, max_bytes=None, wait_ms=0) == 1
    (read,) = groups.read(opened.group.name, opened.group.generation, after=0, upto=1)
    assert read.number == 1
    assert dict(read.envelope.properties) == properties
