"""What operators see of a cluster: the shards of a member as virtual hosts, its state, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyjms_provider.management.rest.monitoring import Metrics
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.errors import InvalidAttributesError, NotChangeableError, UnknownObjectError, WrongStateError
from pyjms_provider.model.managed import State
from pyjms_provider.serving.hosts import ManagedHosts
from tests.provider.cluster.pretended import STORE, Served, served_cluster


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
    for wrong in (served.host, served.shard(0)):
        with pytest.raises(
            NotChangeableError, match=f"create it below virtual_host main/{'shop'}.1, at the member 'left'"
        ):
            wrong.create_child("queue", {"name": name})
    made = served.shard(1).create_child("queue", {"name": name, "max_messages": 3})
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


def test_clients_find_no_shard_by_its_name(served: Served) -> None:
    port: Any = served.broker.broker.child("port", "stomp")
    found = ManagedHosts(port, "").find("shop.0")
    assert found is not None
    assert found.name == "shop", "as for any other name, the only host"


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


def test_links_that_others_could_read_need_tls(served: Served) -> None:
    node = served.broker.broker.create_child("virtual_host_node", {"name": "other", "type": "memory"})
    chosen = {"cluster": "other", "cluster_member": "left", "store_url": STORE, "cluster_link": "0.0.0.0:0"}
    with pytest.raises(Exception, match="give them TLS"):
        node.create_child("virtual_host", {"name": "other", **chosen})
