"""Reader groups, staged units and registered clients as operators see them, and how they are ended."""

from __future__ import annotations

import pytest

from pyjms.spi.errors import RegistrationError
from pyjms.spi.replay import GroupRequest, StageName
from pyjms.spi.sessions import ClientTags
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.model.errors import UnknownObjectError
from tests.provider.helpers import NEWS, ORDERS, RecordedEvents, make_envelope
from tests.provider.model.world import Folder


def test_a_reader_group_is_seen_and_released(folder: Folder) -> None:
    host = folder.host(stored=True)
    connection = VmConnection(host.embedded, RecordedEvents())
    groups = connection.reader_groups()
    opened = groups.open(GroupRequest(name="archive", address=ORDERS, selector="n = 1"))
    session = connection.open_session(transacted=False)
    for _ in range(3):
        session.send(make_envelope(properties={"n": 1}))
    groups.acknowledge(opened, groups.reserve(opened, after=0, max_messages=1, max_bytes=None, wait_ms=0))
    groups.reserve(opened, after=1, max_messages=5, max_bytes=None, wait_ms=0)
    assert host.child_names("reader_group") == ["archive"]
    found = host.child("reader_group", "archive")
    shown = found.statistic_values()
    assert shown.pop("opened_at_ms") > 0
    assert shown == {
        "destination": "queue://orders",
        "subscription": None,
        "selector": "n = 1",
        "generation": opened.group.generation,
        "low": 1,
        "high": 3,
        "held": 2,
    }
    assert host.statistic_values(["reader_group_count", "held_by_groups"]) == {
        "reader_group_count": 1,
        "held_by_groups": 2,
    }
    assert found.invoke("release", {}) == 2
    assert host.child_names("reader_group") == []
    assert host.child("queue", "orders").statistic_values(["waiting"]) == {"waiting": 2}
    with pytest.raises(UnknownObjectError, match="it was released"):
        found.statistic_values()


def test_a_group_of_a_subscription_names_it(folder: Folder) -> None:
    host = folder.host(stored=True)
    connection = VmConnection(host.embedded, RecordedEvents())
    connection.set_client_id("spark")
    connection.reader_groups().open(GroupRequest(name="g", address=NEWS, subscription="s"))
    found = host.child("reader_group", "g")
    assert found.statistic_values(["destination", "subscription"]) == {
        "destination": "topic://news",
        "subscription": "spark/s",
    }


def test_a_staged_unit_is_seen_and_discarded(folder: Folder) -> None:
    host = folder.host(stored=True)
    connection = VmConnection(host.embedded, RecordedEvents())
    session = connection.open_session(transacted=True)
    for attempt in ("a", "b"):
        session.send(make_envelope(attempt, persistent=True))
        session.stage(StageName("sink", 7, 0, attempt), keep_s=60)
    assert host.child_names("staged_unit") == ["sink:7:0:a", "sink:7:0:b"]
    assert host.statistic_values(["staged_unit_count"]) == {"staged_unit_count": 2}
    found = host.child("staged_unit", "sink:7:0:a")
    shown = found.statistic_values()
    assert shown["discarded_after_ms"] == shown["staged_at_ms"] + 60_000
    assert (shown["sink"], shown["epoch"], shown["messages"]) == ("sink", 7, 1)
    found.invoke("discard", {})
    assert [unit.name.attempt for unit in connection.stages().units()] == ["b"]
    with pytest.raises(UnknownObjectError, match="promoted or discarded"):
        found.statistic_values()


@pytest.mark.realises("MOM-35")
def test_a_registered_client_is_seen_and_deregistered(folder: Folder) -> None:
    host = folder.host(stored=True)
    connection = VmConnection(host.embedded, RecordedEvents())
    client = connection.persistent_sessions().register("desk/7")
    session = connection.open_session(transacted=True)
    session.tag(ClientTags(name="desk/7", incarnation=1, request="request 1"))
    session.commit()
    assert host.child_names("registered_client") == ["desk/7"]
    assert host.statistic_values(["registered_client_count"]) == {"registered_client_count": 1}
    found = host.child("registered_client", "desk/7")
    shown = found.statistic_values()
    assert shown.pop("registered_at_ms") <= shown.pop("request_at_ms")
    assert shown == {
        "owner": "",
        "generation": client.generation,
        "incarnation": 1,
        "request_tag": "request 1",
        "reply_tag": None,
        "reply_at_ms": None,
        "is_connected": True,
        "left_at_ms": None,
    }
    connection.close()
    shown = found.statistic_values(["is_connected", "left_at_ms"])
    assert shown["left_at_ms"] > 0
    assert shown["is_connected"] is False
    found.invoke("deregister", {})
    assert host.child_names("registered_client") == []
    with pytest.raises(UnknownObjectError, match="deregistered"):
        found.statistic_values()
    with pytest.raises(UnknownObjectError, match="no registered client"):
        found.invoke("deregister", {})


def test_an_operator_limits_the_number_of_registered_clients(folder: Folder) -> None:
    host = folder.host(stored=True, registered_clients_max=1)
    sessions = VmConnection(host.embedded, RecordedEvents()).persistent_sessions()
    sessions.register("first")
    with pytest.raises(RegistrationError, match="1 clients are registered here"):
        sessions.register("second")
    sessions.register("first")
    sessions.deregister("first")
    sessions.register("second")
