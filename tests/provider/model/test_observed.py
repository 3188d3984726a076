"""What clients do, as operators see it: topics, subscriptions, dead letters, branches, connections; and the ``vm://`` tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ConnectionLostError, ResourceError
from pyjms.spi.provider import ConnectRequest, SubscribeRequest
from pyjms.spi.selector import compile_selector
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import Xid
from pyjms.types import Stored
from pyjms_provider.broker import EmbeddedBroker, running_broker, stop_broker
from pyjms_provider.clients.vm import VmConnection, VmProvider
from pyjms_provider.core.message.trace_events import ACTING
from pyjms_provider.core.queue.dead_letters import DEAD_PREFIX
from pyjms_provider.model.broker import SystemConfig, manage, managed_host
from pyjms_provider.model.errors import NotChangeableError, ObjectInUseError, UnknownObjectError
from pyjms_provider.model.lookup import collect, find_by_id
from pyjms_provider.model.managed import State
from pyjms_provider.model.virtual_host import VirtualHost
from tests.provider.helpers import NEWS, ORDERS, RecordedEvents, make_envelope
from tests.provider.model.world import Folder


def connect(host: VirtualHost, client_id: str | None = None) -> tuple[VmConnection, RecordedEvents]:
    events = RecordedEvents()
    connection = VmConnection(host.embedded, events)
    if client_id is not None:
        connection.set_client_id(client_id)
    connection.start()
    return connection, events


def subscribe(connection: VmConnection, name: str, selector: str | None = None) -> Any:
    compiled = None if selector is None else compile_selector(selector)
    request = SubscribeRequest(address=NEWS, selector=compiled, no_local=False, durable_name=name)
    session = connection.open_session(transacted=False)
    session.subscribe(request, lambda: None)
    return session


def test_topics_and_durable_subscriptions(folder: Folder) -> None:
    host = folder.host(stored=True)
    connection, _ = connect(host, "me")
    session = subscribe(connection, "mine", "n > 1")
    host.embedded.virtual_host.route(make_envelope(destination=NEWS, properties={"n": 2}), None, None)
    topic = host.child("topic", "news")
    assert topic.statistic_values() == {
        "subscriptions": 1,
        "durable_subscriptions": 1,
        "shared_subscriptions": 0,
        "waiting": 1,
    }
    found = host.child("durable_subscription", "me:mine")
    assert found.statistic_values() == {
        "topic": "news",
        "client_id": "me",
        "selector": "n > 1",
        "consumers": 1,
        "waiting": 1,
        "held": 0,
        "is_shared": False,
        "no_local": False,
        "is_active": True,
    }
    assert (found.life_time, found.state) == ("observed", State.ACTIVE)
    with pytest.raises(ObjectInUseError, match="has a subscriber; close that one first"):
        found.delete()
    session.close()
    found.delete()
    assert host.child_names("durable_subscription") == []
    with pytest.raises(UnknownObjectError):
        found.delete()
    connection.close()


def test_shared_subscriptions_durable_ones_and_others(folder: Folder) -> None:
    host = folder.host()
    (one, _), (other, _) = connect(host), connect(host)
    for connection in (one, other):
        for name in ({"durable_name": "desk", "is_shared": True}, {"durable_name": None, "shared_name": "desk"}):
            request = SubscribeRequest(address=NEWS, selector=None, no_local=False, **name)
            connection.open_session(transacted=False).subscribe(request, lambda: None)
    host.embedded.virtual_host.route(make_envelope(destination=NEWS), None, None)
    topic = host.child("topic", "news")
    assert topic.statistic_values(["subscriptions", "shared_subscriptions"]) == {
        "subscriptions": 2,
        "shared_subscriptions": 2,
    }
    durable, shared = (host.child(f"{kind}_subscription", ":desk") for kind in ("durable", "shared"))
    assert durable.statistic_values(["is_shared", "consumers", "client_id"]) == {
        "is_shared": True,
        "consumers": 2,
        "client_id": "",
    }
    assert shared.statistic_values() == {
        "topic": "news",
        "client_id": "",
        "selector": None,
        "consumers": 2,
        "waiting": 1,
        "held": 0,
    }
    with pytest.raises(ObjectInUseError, match="has a subscriber; close that one first"):
        durable.delete()
    one.close()
    other.close()
    assert host.child_names("shared_subscription") == []
    durable.delete()
    assert host.child_names("durable_subscription") == []


@pytest.mark.parametrize(
    ("kept", "deleted", "shown"),
    [
        (("a", "b:c"), ("a:b", "c"), "a~1b:c"),
        (("a:b", "c"), ("a", "b:c"), "a:b:c"),
        (("a:b", "c"), ("a~1b", "c"), "a~01b:c"),
    ],
)
def test_each_durable_subscription_has_a_name_of_its_own(
    folder: Folder, kept: tuple[str, str], deleted: tuple[str, str], shown: str
) -> None:
    """An operator who deletes one does not delete another one, whatever their clients are called."""
    host = folder.host()
    for client_id, name in (kept, deleted):
        connection, _ = connect(host, client_id)
        subscribe(connection, name)
        connection.close()
    assert len(set(host.child_names("durable_subscription"))) == 2
    found = host.child("durable_subscription", shown)
    assert found.statistic_values(["client_id"]) == {"client_id": deleted[0]}
    found.delete()
    (left,) = host.child_names("durable_subscription")
    assert host.child("durable_subscription", left).statistic_values(["client_id"]) == {"client_id": kept[0]}


def test_what_is_observed_is_not_configured(folder: Folder) -> None:
    host = folder.host()
    host.embedded.virtual_host.topic("news")
    topic = host.child("topic", "news")
    with pytest.raises(NotChangeableError, match="come by themselves; they cannot be created"):
        host.create_child("topic", {"name": "x"})
    with pytest.raises(NotChangeableError, match="is observed, not configured"):
        topic.set_attributes({"description": "x"})
    with pytest.raises(NotChangeableError, match="it cannot be deleted"):
        topic.delete()
    assert host.find_child("topic", "none") is None


def test_dead_letters_say_why_and_go_back(folder: Folder) -> None:
    host = folder.host()
    running = host.embedded.virtual_host
    running.queue("orders")
    dead: dict[str, Stored] = {
        f"{DEAD_PREFIX}Kind": "rejected",
        f"{DEAD_PREFIX}Reason": "ValueError: no",
        f"{DEAD_PREFIX}Destination": "queue://orders",
        f"{DEAD_PREFIX}Count": 3,
    }
    dlq = Address(AddressKind.QUEUE, "DLQ")
    running.route(make_envelope("a", destination=dlq, properties=dead), None, None)
    running.route(make_envelope("b", destination=dlq), None, None)
    office = host.child("dead_letter", "DLQ")
    assert office.statistic_values(["letters", "reasons"]) == {"letters": 2, "reasons": {"rejected": 1, "none": 1}}
    first, second = office.invoke("list_letters", {})["letters"]
    assert (first["kind"], first["reason"], first["came_from"], first["deliveries"]) == (
        "rejected",
        "ValueError: no",
        "queue://orders",
        3,
    )
    assert (second["kind"], second["message"]["body"]["text"]) == (None, "b")
    assert office.invoke("replay", {"dry_run": True}) == {"returned": 1, "left": 1}
    assert office.statistic_values(["letters"]) == {"letters": 2}
    assert office.invoke("replay", {}) == {"returned": 1, "left": 1}
    assert host.child("queue", "orders").statistic_values(["waiting"]) == {"waiting": 1}
    assert host.child_names("dead_letter") == ["DLQ"]


def test_a_branch_in_doubt_is_settled(folder: Folder) -> None:
    host = folder.host(stored=True)
    connection, _ = connect(host)
    for number, settle in enumerate(("commit", "rollback")):
        session = connection.open_session(transacted=True)
        xid = Xid(1, b"g", bytes([number]))
        session.xa_start(xid)
        session.send(make_envelope(str(number), persistent=True))
        session.xa_end(xid)
        session.xa_prepare(xid)
        branch = host.child("transaction", str(xid))
        shown = branch.statistic_values()
        assert (shown["branch_state"], shown["sent"], shown["received"]) == ("prepared", 1, 0)
        assert shown["prepared_at_ms"] is not None
        host.invoke("settle", {"transaction": branch.name, "outcome": settle})
        assert branch.statistic_values(["branch_state"])["branch_state"].startswith("heuristically")
        branch.invoke("forget", {})
        with pytest.raises(UnknownObjectError, match="it has ended"):
            branch.invoke(settle, {})
    with pytest.raises(UnknownObjectError, match="has no transaction '1:67:01'"):
        host.invoke("settle", {"transaction": "1:67:01", "outcome": "commit"})
    assert host.child_names("transaction") == []
    assert host.child("queue", "orders").statistic_values(["waiting"]) == {"waiting": 1}
    connection.close()


def test_who_settles_a_branch_through_its_host_is_told_in_the_stories(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = folder.host(stored=True)
    connection, _ = connect(host)
    session = connection.open_session(transacted=True)
    xid = Xid(1, b"g", b"b")
    session.xa_start(xid)
    session.send(make_envelope("x", persistent=True))
    session.xa_end(xid)
    session.xa_prepare(xid)
    who: list[str] = []
    branches = host.embedded.virtual_host.branches
    monkeypatch.setattr(branches, "settle_heuristically", lambda *_, **__: who.append(ACTING.get()))
    host.invoke("settle", {"transaction": str(xid), "outcome": "commit"}, by="ann")
    assert who == ["ann"]
    connection.close()


def test_connections_sessions_and_consumers_are_seen_and_ended(folder: Folder) -> None:
    host = folder.host()
    host.embedded.virtual_host.route(make_envelope("a"), None, None)
    connection, events = connect(host, "me")
    host.embedded.describe(connection.connection_id, user="bob", address="10.0.0.1:5", protocol="stomp 1.2")
    session = connection.open_session(transacted=True)
    consumer = session.subscribe(
        SubscribeRequest(
            address=ORDERS, selector=compile_selector("TRUE"), no_local=False, durable_name=None, priority=3
        ),
        lambda: None,
    )
    delivery = consumer.poll()
    assert delivery is not None
    session.acknowledge([delivery])
    assert host.statistic_values(["connection_count"]) == {"connection_count": 1}
    seen = host.child("connection", connection.connection_id)
    shown = seen.statistic_values()
    assert (shown["user"], shown["address"], shown["protocol"]) == ("bob", "10.0.0.1:5", "stomp 1.2")
    assert (shown["client_id"], shown["is_started"], shown["session_count"]) == ("me", True, 1)
    assert shown["since_ms"] == seen.facts()["created_at_ms"]
    one = seen.child("session", "1")
    assert one.statistic_values() == {
        "is_transacted": True,
        "has_open_transaction": True,
        "held": 1,
        "consumer_count": 1,
    }
    found = one.child("consumer", "1")
    assert found.statistic_values() == {
        "source": "queue://orders",
        "selector": "TRUE",
        "priority": 3,
        "is_browser": False,
    }
    assert [each.path for each in collect(host, "consumer")] == [found.path]
    assert folder.system is not None
    assert find_by_id(folder.system, found.id) is not None
    with pytest.raises(ObjectInUseError, match="has 1 connection; stop it first"):
        host.delete()
    seen.invoke("disconnect", {"reason": "you are late"}, by="ann")
    assert [type(each) for each in events.errors] == [ConnectionLostError]
    assert events.errors[0].reason == "an operator (ann) has ended the connection: you are late"
    for each in (seen, one, found):
        with pytest.raises(UnknownObjectError, match=r"has no connection .*it has closed"):
            each.statistic_values()
    with pytest.raises(UnknownObjectError):
        seen.invoke("disconnect", {})
    assert host.child_names("connection") == []


# vm://


@pytest.fixture
def vm() -> Iterator[EmbeddedBroker]:
    url = ProviderUrl.parse("vm://managed")
    request = ConnectRequest(url=url, user_name=None, password=None, client_id=None, clock=SystemClock())
    VmProvider().connect(request, RecordedEvents())
    found = running_broker("managed")
    assert found is not None
    yield found
    stop_broker("managed")


@pytest.fixture
def system(vm: EmbeddedBroker) -> Iterator[SystemConfig]:
    system = manage("managed")
    yield system
    system.close()


@pytest.mark.realises("BJ-GEN-5")
def test_the_embedded_broker_is_the_same_tree(system: SystemConfig, vm: EmbeddedBroker) -> None:
    host = managed_host(system)
    assert host.embedded is vm
    assert host.statistic_values(["connection_count"]) == {"connection_count": 1}
    queue = host.create_child("queue", {"name": "q", "max_messages": 3, "description": "d"})
    assert (host.life_time, queue.life_time) == ("process", "process")
    assert vm.virtual_host.queue("q").policy.max_messages == 3
    queue.invoke("publish", {"message": {"text": "a"}})
    system.close()
    again = manage("managed")
    found = managed_host(again).child("queue", "q")
    assert found.statistic_values(["waiting"]) == {"waiting": 1}, "the broker has gone on"
    assert found.attribute_values(["max_messages", "description"]) == {"max_messages": 3, "description": None}
    again.close()
    assert running_broker("managed") is vm


def test_a_broker_that_does_not_run_cannot_be_managed() -> None:
    with pytest.raises(
        ResourceError, match="there is no broker 'nobody' in this process; connect to vm://nobody first"
    ):
        manage("nobody")
