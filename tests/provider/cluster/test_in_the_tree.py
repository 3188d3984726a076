"""What operators see of a cluster: the shards of a member as virtual hosts, its state, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event, current_thread
from typing import Any

import pytest

from pyjms import ConnectionFactory, ResourceAllocationException, Session, TextMessage
from pyjms.spi.envelope import AddressKind
from pyjms.testing import VirtualClock
from pyjms_provider.broker import running_broker, stop_broker
from pyjms_provider.clients.cluster.connection import ClusterConnection
from pyjms_provider.cluster.settings import LinkTls
from pyjms_provider.management.rest.monitoring import Metrics
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.errors import InvalidAttributesError, NotChangeableError, UnknownObjectError, WrongStateError
from pyjms_provider.model.managed import State
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.hosts import ManagedHosts
from tests.provider.cluster.pretended import SHARDS, STORE, PretendedMember, Served, served_cluster
from tests.provider.transport.certificates import Authority

PATIENCE_MS = 30_000


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    with served_cluster(monkeypatch, alert_messages=7) as found:
        yield found


def test_a_shard_is_a_virtual_host_while_this_member_leads_it(served: Served) -> None:
    node = served.broker.broker.child("virtual_host_node", "main")
    assert node.child_names("virtual_host") == ["shop", "shop.0", "shop.1"]
    assert served.shard(0).state is State.ACTIVE
    assert served.shard(0).life_time == "process"
    assert served.shard(0).embedded is served.member.all[0]
    served.member.led = frozenset({1})
    served.arrivals.wait(("removed", "shop.0"))
    with pytest.raises(UnknownObjectError):
        served.shard(0)
    assert not served.member.all[0].has_stopped, "it belongs to the member"
    served.member.led = frozenset({0, 1})
    served.arrivals.wait(("added", "shop.0"))


def test_the_shards_go_with_their_host_and_come_again_with_it(served: Served) -> None:
    node = served.broker.broker.child("virtual_host_node", "main")
    served.host.stop()
    assert node.child_names("virtual_host") == ["shop"]
    assert served.member.is_stopped
    with pytest.raises(WrongStateError):
        served.host.cluster_status()
    served.arrivals.wait(("removed", "shop.0"), ("removed", "shop.1"))
    served.host.start()
    served.arrivals.wait(("added", "shop.0"), ("added", "shop.1"))


def test_a_shard_has_the_settings_of_its_host_and_follows_them(served: Served) -> None:
    assert served.shard(0).attribute_values(["alert_messages"]) == {"alert_messages": 7}
    served.host.set_attributes({"alert_messages": 9})
    # The node's thread has done it when it comes to the next call.
    served.broker.broker.configuration_thread.call(lambda: None)
    assert served.shard(0).attribute_values(["alert_messages"]) == {"alert_messages": 9}


@pytest.mark.parametrize(
    "change",
    [
        lambda shard: shard.set_attributes({"alert_messages": 1}),
        lambda shard: shard.delete(),
        lambda shard: shard.stop(),
        lambda shard: shard.start(),
        lambda shard: shard.create_child("route", {"name": "away"}),
    ],
)
def test_a_shard_is_changed_by_its_host_alone(served: Served, change: Any) -> None:
    with pytest.raises(NotChangeableError, match="shard"):
        change(served.shard(0))
    assert served.shard(0).state is State.ACTIVE


def test_queues_are_created_in_their_shards(served: Served) -> None:
    name = served.queue_in(1)
    with pytest.raises(NotChangeableError, match=f"create it below virtual_host main/{'shop'}.1, at the member 'left'"):
        served.shard(0).create_child("queue", {"name": name})
    made = served.host.create_child("queue", {"name": name, "max_messages": 3})
    assert served.shard(1).child("queue", name).attribute_values(["max_messages"]) == {"max_messages": 3}
    assert made.target().virtual_host == "shop", "rules name the host"
    assert served.shard(1).target().name == "shop"


def test_its_state_is_an_operation_and_numbers(served: Served) -> None:
    served.member.led = frozenset({1})
    status = served.host.invoke("cluster_status", {})
    assert [(each["name"], each["is_alive"], each["shards"]) for each in status["members"]] == [
        ("left", True, [1]),
        ("right", False, [0]),
    ]
    assert [each["leader"] for each in status["shards"]] == ["right", "left"]
    system = served.broker.system
    assert isinstance(system, SystemConfig)
    text = Metrics(system, queues=10).render().decode()
    for line in (
        "cluster_members_alive{HOST} 1.0",
        "cluster_shards_led{HOST} 1.0",
        "cluster_leader_changes_total{HOST} 2.0",
        "cluster_undecided{HOST} 3.0",
        "cluster_shards_without_leader{HOST} 0.0",
    ):
        labels = 'virtual_host="shop",virtual_host_node="main"'
        other = 'virtual_host_node="main",virtual_host="shop"'
        assert any(f"pyjms_virtual_host_{line.replace('HOST', each)}" in text for each in (labels, other)), line


def test_an_operator_places_and_partitions_queues(served: Served) -> None:
    def placed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = served.host.invoke("cluster_status", {})["placed"]
        return found

    home = served.member.placement.shard_of(AddressKind.QUEUE, "orders")
    served.host.invoke("place_queue", {"name": "orders", "shard": 1 - home})
    assert placed() == [{"kind": "queue", "name": "orders", "shards": [1 - home]}]
    served.host.invoke("place_queue", {"name": "orders"})
    assert served.member.placement.shard_of(AddressKind.QUEUE, "orders") == home
    served.host.invoke("partition_queue", {"name": "orders", "partitions": SHARDS})
    assert placed() == [{"kind": "queue", "name": "orders", "shards": [0, 1]}]
    for number in range(SHARDS):
        served.shard(number).create_child("queue", {"name": "orders", "max_messages": 3})
    with pytest.raises(WrongStateError, match="has 2 shards"):
        served.host.invoke("partition_queue", {"name": "orders", "partitions": SHARDS + 1})


def test_clients_find_no_shard_by_its_name(served: Served) -> None:
    port: Any = served.broker.broker.child("port", "stomp")
    found = ManagedHosts(port, "").find("shop.0")
    assert found is not None
    assert found.name == "shop", "as for any other name, the only host"


def test_programs_in_its_process_reach_the_host_by_its_name(served: Served) -> None:
    lost = Event()
    with ConnectionFactory("vm://shop").create_connection() as connection:
        connection.exception_listener = lambda _: lost.set()
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        for number in served.member.all:
            queue = session.create_queue(served.queue_in(number))
            session.create_producer(queue).send(session.create_text_message(f"in shard {number}"))
            assert served.member.all[number].virtual_host.find_queue(queue.queue_name) is not None
            received = session.create_consumer(queue).receive(PATIENCE_MS)
            assert isinstance(received, TextMessage)
            assert received.text == f"in shard {number}"
        served.host.stop()
        assert lost.wait(PATIENCE_MS / 1000)
    assert running_broker("shop") is None
    with ConnectionFactory("vm://shop").create_connection():
        assert running_broker("shop") is not None, "the name is free for a broker of its own"
    stop_broker("shop")


@pytest.mark.parametrize("call", ["start", "stop", "set_client_id"])
def test_no_call_that_may_ask_another_member_holds_up_all_connections(
    served: Served, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    # The link may lead back to this member, whose network could not answer then.
    threads: list[str] = []
    made = getattr(ClusterConnection, call)

    def noted(connection: ClusterConnection, *arguments: Any) -> Any:
        threads.append(current_thread().name)
        return made(connection, *arguments)

    monkeypatch.setattr(ClusterConnection, call, noted)
    with ConnectionFactory(served.url("stomp")).create_connection() as connection:
        connection.client_id = "reader"
        connection.start()
        connection.stop()
    assert threads
    assert not [each for each in threads if each.startswith("pyjms network")]


def test_a_shard_is_no_host_for_programs_in_the_process(served: Served) -> None:
    with ConnectionFactory("vm://shop.0").create_connection():
        found = running_broker("shop.0")
        assert found is not None
        assert found is not served.member.all[0]
    stop_broker("shop.0")


@pytest.mark.usefixtures("served")
def test_a_program_chooses_neither_options_nor_clock_of_the_host() -> None:
    with pytest.raises(ResourceAllocationException, match="leave the URL's options out"):
        ConnectionFactory("vm://shop?store=sqlite:///other.db").create_connection()
    with pytest.raises(ResourceAllocationException, match="another clock"):
        ConnectionFactory("vm://shop", clock=VirtualClock()).create_connection()


@pytest.mark.parametrize(
    ("attributes", "attribute", "text"),
    [
        ({"cluster": "shop"}, "cluster", "needs a store in PostgreSQL"),
        ({"cluster": "shop", "store_url": "sqlite:///shop.db"}, "cluster", "needs a store in PostgreSQL"),
        ({"cluster": "Shop!", "store_url": STORE}, "cluster", "a letter first"),
        ({"cluster": "shop", "cluster_member": "1", "store_url": STORE}, "cluster_member", "a letter first"),
        ({"cluster": "shop", "cluster_link": "here", "store_url": STORE}, "cluster_link", "an address and a port"),
        ({"cluster": "shop", "cluster_lease_ms": 1, "store_url": STORE}, "cluster_lease_ms", "1000"),
        (
            {"cluster": "shop", "cluster_key_store": "none", "store_url": STORE},
            "cluster_key_store",
            "no key_store 'none'",
        ),
        ({"cluster_member": "left"}, "cluster_member", "name that: cluster"),
    ],
)
def test_wrong_attributes_are_told(served: Served, attributes: dict[str, Any], attribute: str, text: str) -> None:
    node = served.broker.broker.create_child("virtual_host_node", {"name": "other", "type": "memory"})
    with pytest.raises(InvalidAttributesError, match=text) as caught:
        node.create_child("virtual_host", {"name": "other", **attributes})
    assert [each.name for each in caught.value.problems] == [attribute]


def test_a_member_takes_its_certificate_and_authorities_from_the_stores(served: Served, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity, locked = authority.sign("left"), authority.sign("locked", "password of the key")
    top = served.broker.broker
    top.create_child(
        "key_store",
        {"name": "member", "certificate_file": str(identity.certificate), "key_file": str(identity.key)},
    )
    top.create_child(
        "key_store",
        {
            "name": "locked",
            "certificate_file": str(locked.certificate),
            "key_file": str(locked.key),
            "key_password": "password of the key",
        },
    )
    top.create_child("trust_store", {"name": "members", "certificate_file": str(authority.file)})
    node = top.create_child("virtual_host_node", {"name": "other", "type": "memory"})
    chosen = {"cluster": "other", "cluster_member": "left", "store_url": STORE, "cluster_link": "10.0.0.7:7800"}
    for missing in ("cluster_key_store", "cluster_trust_store"):
        given = {"cluster_key_store": "member", "cluster_trust_store": "members"}
        del given[missing]
        with pytest.raises(InvalidAttributesError, match="is needed, too") as caught:
            node.create_child("virtual_host", {"name": "other", **chosen, **given})
        assert [each.name for each in caught.value.problems] == [missing]
    with pytest.raises(WrongStateError, match="the key of 'locked' is encrypted"):
        node.create_child(
            "virtual_host",
            {"name": "other", **chosen, "cluster_key_store": "locked", "cluster_trust_store": "members"},
        )
    made = node.create_child(
        "virtual_host", {"name": "other", **chosen, "cluster_key_store": "member", "cluster_trust_store": "members"}
    )
    assert isinstance(made, VirtualHost)
    joined = made.joined
    assert isinstance(joined, PretendedMember)
    assert joined.settings.link.tls == LinkTls(
        certificate=identity.certificate, key=identity.key, authorities=authority.file
    )

    renewed = authority.sign("renewed")
    files = {"certificate_file": str(renewed.certificate), "key_file": str(renewed.key)}
    served.broker.broker.child("key_store", "member").set_attributes(files)
    joined.refuses_certificates = True
    with pytest.raises(WrongStateError, match=r"goes on with its present certificates: .*cannot be used"):
        made.invoke("reload_link_certificates", {})
    joined.refuses_certificates = False
    made.invoke("reload_link_certificates", {})
    assert joined.settings.link.tls == LinkTls(
        certificate=renewed.certificate, key=renewed.key, authorities=authority.file
    )
    with pytest.raises(WrongStateError, match="has no TLS for its links"):
        served.host.invoke("reload_link_certificates", {})


def test_links_that_others_could_read_need_tls(served: Served) -> None:
    node = served.broker.broker.create_child("virtual_host_node", {"name": "other", "type": "memory"})
    chosen = {"cluster": "other", "cluster_member": "left", "store_url": STORE, "cluster_link": "0.0.0.0:0"}
    with pytest.raises(Exception, match="give them TLS"):
        node.create_child("virtual_host", {"name": "other", **chosen})
