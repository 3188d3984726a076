"""What operators see and manage of the whole cluster, at any of its members."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import pytest

from pyjms import ConnectionFactory
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import AccessDeniedError, InDoubtError, ProviderError
from pyjms.spi.provider import SubscribeRequest
from pyjms_provider.cluster.known import JoinedCluster
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.cluster.placement import Placement
from pyjms_provider.commands.rest_client import RestClient
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.management.describing import ListRequest
from pyjms_provider.management.rest.monitoring import Metrics
from pyjms_provider.management.service import Caller, ManagementService
from pyjms_provider.model import whole
from pyjms_provider.model.broker import SystemConfig
from pyjms_provider.model.errors import (
    InvalidArgumentsError,
    InvalidAttributesError,
    NotChangeableError,
    ObjectExistsError,
    ObjectInUseError,
    UnknownObjectError,
    WrongStateError,
)
from pyjms_provider.model.host_views import connect_within
from pyjms_provider.model.managed import ManagedObject
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.model.whole import LeaderMissingError
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.security.access import Everything, Pattern, Rule, RuleAccessPolicy
from pyjms_provider.security.audit import AuditLog
from pyjms_provider.security.contracts import Operation, Principal, TargetKind
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.cluster.pretended import served_cluster
from tests.provider.cluster.world import SHARDS, ClusterWorld, wait_until
from tests.provider.helpers import make_envelope
from tests.provider.postgresql import PostgresqlServer
from tests.provider.stores.installing import install, on_the_path

pytestmark = pytest.mark.xdist_group("whole cluster")  # they share a cluster, which takes long to start
NAMES = ("left", "right")
HOST = ("main", "shop")


class Ignored:
    """The events of a connection that no test looks at."""

    def on_exception(self, error: ProviderError) -> None:
        """Do nothing."""


class TreeWorld:
    """Two brokers in this process, each with a virtual host ``main/shop`` that is a member of one cluster."""

    def __init__(self, world: ClusterWorld, ends: ExitStack) -> None:
        self.world = world
        self.brokers: dict[str, ServedBroker] = {}
        for name in NAMES:
            self.brokers[name] = ends.enter_context(ServedBroker.open(name=name))
            self.start(name)
        self.await_members()

    def await_members(self) -> None:
        """Wait until each member leads half of the shards, and all know it."""
        wait_until(lambda: all(list(self.led(name).values()).count(name) == SHARDS // 2 for name in NAMES))

    def start(self, name: str) -> None:
        top = self.brokers[name].broker
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        given = {
            "name": "shop",
            "cluster": "shop",
            "cluster_member": name,
            "cluster_shards": SHARDS,
            "cluster_lease_ms": 60_000,  # both members are in this process, which is busy at times
            "store_url": self.world.url,
            "context": {"pyjms.management.queue": "true"},
        }
        node.create_child("virtual_host", given)

    def host(self, name: str) -> VirtualHost:
        found = self.brokers[name].broker.child("virtual_host_node", "main").child("virtual_host", "shop")
        assert isinstance(found, VirtualHost)
        return found

    def member(self, name: str) -> JoinedCluster:
        membership = self.host(name).membership
        assert membership is not None
        return membership.member

    def led(self, name: str) -> dict[int, str | None]:
        status = self.host(name).cluster_status()
        return {each.number: None if each.restoring else each.leader for each in status.shards}

    def queue_of(self, leader: str, word: str = "orders") -> str:
        """Return the name of a queue whose shard a member leads."""
        led = self.led("left")
        names = (f"{word}-{number}" for number in range(1000))
        return next(each for each in names if led[Placement(SHARDS).shard_of(AddressKind.QUEUE, each)] == leader)

    def queues_of_both(self, word: str = "orders") -> list[str]:
        return [self.queue_of(name, word) for name in NAMES]

    def listen(self, name: str, scheme: str) -> str:
        """Open a port of a member, and return its URL."""
        top = self.brokers[name].broker
        top.create_child("authentication_provider", {"name": "who", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        chosen = {"host": "127.0.0.1", "port": 0, "authentication_providers": ["who"], "access_control": "access"}
        top.create_child("port", {"name": scheme, "type": scheme, **chosen})
        return next(each for each in self.brokers[name].addresses() if each.startswith(f"{scheme}:"))

    def management(self, name: str) -> ManagementService:
        system = self.brokers[name].system
        assert isinstance(system, SystemConfig)
        return ManagementService(system, AuditLog(system.clock))


ALL = Caller(principal=Principal(name="ann"), access=Everything())


@pytest.fixture(scope="module")
def tree(postgresql: PostgresqlServer) -> Iterator[TreeWorld]:
    with ExitStack() as ends:
        world = ClusterWorld(postgresql)
        ends.callback(world.close)
        yield TreeWorld(world, ends)


@pytest.mark.requires("postgresql")
@pytest.mark.parametrize("at", NAMES)
def test_any_member_manages_the_queues_of_all(tree: TreeWorld, at: str) -> None:
    host = tree.host(at)
    for name in tree.queues_of_both(f"made-at-{at}"):
        made = host.create_child("queue", {"name": name, "max_messages": 3}, by="ann")
        assert made.names == (*HOST, name)
        assert made.target().virtual_host == "shop"
        assert made.attribute_values(["max_messages"]) == {"max_messages": 3}
        assert made.facts()["created_by"] == "ann"
        with pytest.raises(ObjectExistsError):
            host.create_child("queue", {"name": name})
        made.set_attributes({"max_messages": 5})
        other = tree.host(next(each for each in NAMES if each != at)).child("queue", name)
        assert other.attribute_values(["max_messages"]) == {"max_messages": 5}
        made.invoke("publish", {"message": {"text": "espresso"}})
        assert other.statistic_values(["depth"]) == {"depth": 1}
        page = other.invoke("browse", {})
        assert [each["body"]["text"] for each in page["messages"]] == ["espresso"]
        with pytest.raises(InvalidArgumentsError):
            other.invoke("browse", {"limit": 0})
        assert other.invoke("purge", {}) == {"messages": 1}
        made.delete()
        with pytest.raises(UnknownObjectError):
            other.statistic_values(["depth"])
        assert host.find_child("queue", name) is None


@pytest.mark.requires("postgresql")
@pytest.mark.parametrize("at", NAMES)
def test_a_queue_is_made_with_partitions_at_any_member(tree: TreeWorld, at: str) -> None:
    host, name = tree.host(at), f"divided-at-{at}"
    other = tree.host(next(each for each in NAMES if each != at))
    with pytest.raises(InvalidAttributesError, match=f"partitions: is {SHARDS + 1}; give a number from 1 to {SHARDS}"):
        host.create_child("queue", {"name": name, "partitions": SHARDS + 1})
    with pytest.raises(InvalidAttributesError, match="exclusive"):
        host.create_child("queue", {"name": name, "partitions": 2, "exclusive": True})
    assert name not in {each.name for each in host.cluster_status().placed}, "it is as before"
    made = host.create_child("queue", {"name": name, "partitions": SHARDS, "max_messages": 3})
    assert made.attribute_values(["partitions", "max_messages"]) == {"partitions": SHARDS, "max_messages": 3}
    assert {each.name: each.shards for each in host.cluster_status().placed}[name] == tuple(range(SHARDS))
    for member in NAMES:
        for broker in tree.member(member).brokers().values():
            assert broker.virtual_host.queue(name).policy == QueuePolicy(max_messages=3)
    columns = other.sources()["queue"].columns(["partitions", "max_messages"])
    assert columns["partitions"][name] == SHARDS
    found = other.child("queue", name)
    found.set_attributes({"max_messages": 5, "partitions": SHARDS})
    assert made.attribute_values(["max_messages"]) == {"max_messages": 5}
    with pytest.raises(NotChangeableError, match="call partition_queue of virtual_host main/shop"):
        found.set_attributes({"partitions": 1})
    with pytest.raises(ObjectExistsError):
        other.create_child("queue", {"name": name, "partitions": 2})
    found.delete()
    assert host.find_child("queue", name) is None
    again = other.create_child("queue", {"name": name, "partitions": 1})
    assert again.attribute_values(["partitions"]) == {"partitions": 1}
    again.delete()


@pytest.mark.requires("postgresql")
def test_a_list_is_of_all_members_and_is_paged_filtered_and_sorted(tree: TreeWorld) -> None:
    wanted = sorted(f"listed-{number}" for number in range(20))
    for number, name in enumerate(wanted):
        queue = tree.host("left").create_child("queue", {"name": name, "max_messages": number + 1})
        for _ in range(number % 3):
            queue.invoke("publish", {"message": {"text": "x"}})
    for name in NAMES:
        management = tree.management(name)
        chosen = "name LIKE 'listed-%'"

        def listed(**request: Any) -> Any:
            return management.list(ALL, "queue", HOST, ListRequest(**request))  # noqa: B023 - called at once

        page = listed(condition=chosen, limit=7, offset=7, fields=("name", "names", "max_messages", "depth"))
        assert page.total == 20
        assert [each["name"] for each in page.items] == wanted[7:14]
        assert page.items[0] == {
            "name": wanted[7],
            "names": [*HOST, wanted[7]],
            "max_messages": 8,
            "depth": 1,
        }
        deep = listed(condition=f"{chosen} AND depth = 2", order=("-max_messages",), fields=("name",))
        assert [each["name"] for each in deep.items] == wanted[2::3][::-1]
        whole = management.list(ALL, "queue", (), ListRequest(condition=chosen, fields=("names",)))
        assert [each["names"] for each in whole.items] == [[*HOST, each] for each in wanted], "each once"
        found = management.find(ALL, "queue", (*HOST, wanted[0]))
        assert management.find_by_id(ALL, "queue", found.id).names == (*HOST, wanted[0])


@pytest.mark.requires("postgresql")
def test_ten_thousand_queues_are_listed_page_by_page(tree: TreeWorld) -> None:
    shards = {number: broker for name in NAMES for number, broker in tree.member(name).brokers().items()}
    placement = Placement(SHARDS)
    names = [f"many-{number:05}" for number in range(10_000)]
    for name in names:
        # Not from clients, whose queues would be written: a hundred times slower.
        shards[placement.shard_of(AddressKind.QUEUE, name)].virtual_host.queue(name)
    management = tree.management("right")
    chosen = "name LIKE 'many-%'"
    seen: list[str] = []
    for offset in (0, 4_000, 9_900):
        request = ListRequest(condition=chosen, offset=offset, limit=100, fields=("name", "depth"))
        page = management.list(ALL, "queue", HOST, request)
        assert page.total == 10_000
        seen += [each["name"] for each in page.items]
    assert seen == [*names[:100], *names[4_000:4_100], *names[9_900:]]


@pytest.mark.requires("postgresql")
def test_the_rules_of_the_member_that_is_asked_decide(tree: TreeWorld) -> None:
    mine, other = (tree.queue_of("right", word) for word in ("mine", "other"))
    for name in (mine, other):
        tree.host("left").create_child("queue", {"name": name})
    rules = [
        Rule(
            allows=True,
            operations=frozenset({Operation.OBSERVE, Operation.BROWSE}),
            kind=TargetKind.QUEUE,
            name=Pattern(mine),
            virtual_host=Pattern("shop"),
        )
    ]
    bob = Caller(principal=Principal(name="bob"), access=RuleAccessPolicy(rules))
    management = tree.management("left")
    assert [each["name"] for each in management.list(bob, "queue", HOST, ListRequest()).items] == [mine]
    found = management.find(bob, "queue", (*HOST, mine))
    assert management.invoke(bob, found, "browse", {})["messages"] == []
    for attempt in (
        lambda: management.invoke(bob, found, "purge", {}),
        lambda: management.change(bob, found, {"max_messages": 1}),
        lambda: management.delete(bob, found),
        lambda: management.find(bob, "queue", (*HOST, other)),
        lambda: management.create(bob, "queue", HOST, {"name": tree.queue_of("right", "new")}),
    ):
        with pytest.raises(AccessDeniedError):
            attempt()
    assert found.attribute_values(["max_messages"]) == {"max_messages": 0}


@pytest.mark.requires("postgresql")
def test_subscriptions_connections_and_transactions_are_those_of_all(tree: TreeWorld) -> None:
    left, right = (tree.host(name) for name in NAMES)
    topic = next(
        f"news-{number}"
        for number in range(100)
        if tree.led("left")[Placement(SHARDS).shard_of(AddressKind.TOPIC, f"news-{number}")] == "right"
    )
    connection = connect_within(left, Ignored(), "test")
    try:
        connection.set_client_id("reader")
        session = connection.open_session(transacted=False)
        request = SubscribeRequest(
            address=Address(AddressKind.TOPIC, topic), selector=None, no_local=False, durable_name="all"
        )
        consumer = session.subscribe(request, lambda: None)
        for host in (left, right):
            assert topic in host.child_names("topic")
            [subscription] = host.children("durable_subscription")
            assert subscription.statistic_values(["topic", "consumers"]) == {"topic": topic, "consumers": 1}
            assert str(connection.connection_id) in host.child_names("connection")
            found = host.child("connection", str(connection.connection_id))
            assert found.statistic_values(["protocol"]) == {"protocol": "test"}
            assert len(list(found.children("session"))) >= 0
        # Each has the connection of its management queue.
        assert left.statistic_values(["connection_count"]) == {"connection_count": 2}
        assert right.statistic_values(["connection_count"]) == {"connection_count": 1}
        with pytest.raises(ObjectInUseError):
            next(right.children("durable_subscription")).delete()
        consumer.close()
        next(right.children("durable_subscription")).delete()
        assert left.child_names("durable_subscription") == []
        right.child("connection", str(connection.connection_id)).invoke("disconnect", {"reason": "enough"})
        assert str(connection.connection_id) not in right.child_names("connection")
    finally:
        connection.close()


@pytest.mark.requires("postgresql")
def test_dead_letters_of_all_shards_are_one_queue(tree: TreeWorld) -> None:
    names = tree.queues_of_both("dying")
    shards = {number: broker for name in NAMES for number, broker in tree.member(name).brokers().items()}
    for name in names:
        host = shards[Placement(SHARDS).shard_of(AddressKind.QUEUE, name)].virtual_host
        tree.host("left").create_child("queue", {"name": name})
        for number in range(3):
            # As when its listener has failed too often.
            host.route(make_envelope(f"{name} {number}", destination=Address(AddressKind.QUEUE, name)), None, None)
        QueueManager(host).move(name, "DLQ.test")
    dead = tree.host("left").child("queue", "DLQ.test")
    assert dead.statistic_values(["depth", "consumers"]) == {"depth": 6, "consumers": 0}

    def page(offset: int, limit: int) -> list[str]:
        return [each["body"]["text"] for each in dead.invoke("browse", {"offset": offset, "limit": limit})["messages"]]

    everything = page(0, 50)
    assert sorted(everything) == sorted(f"{name} {number}" for name in names for number in range(3))
    for offset in range(6):
        assert page(offset, 2) == everything[offset : offset + 2]
    assert dead.invoke("browse", {"limit": 3})["has_more"]
    assert not dead.invoke("browse", {"limit": 6})["has_more"]
    columns = tree.host("right").sources()["queue"].columns(["depth"])
    assert columns["depth"]["DLQ.test"] == 6
    assert dead.invoke("purge", {}) == {"messages": 6}


@pytest.mark.requires("postgresql")
def test_a_leader_that_ends_during_a_call_is_followed_unless_it_may_have_made_a_change(
    tree: TreeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = tree.queue_of("right", "moving")
    queue = tree.host("left").create_child("queue", {"name": name})
    begun, may_end = Semaphore(0), Event()
    was_asked: set[str] = set()

    def hold(do: str) -> Any:
        usual = whole._REQUESTS[do]

        def held(*arguments: Any) -> Any:
            if do not in was_asked:
                was_asked.add(do)
                begun.release()
                may_end.wait()
            return usual(*arguments)

        return held

    for do in ("look", "invoke"):
        monkeypatch.setitem(whole._REQUESTS, do, hold(do))
    with ThreadPoolExecutor() as threads:
        looking = threads.submit(queue.statistic_values, ["depth"])
        purging = threads.submit(queue.invoke, "purge", {})
        assert begun.acquire(timeout=30)
        assert begun.acquire(timeout=30)
        tree.host("right").stop()
        assert looking.result(30) == {"depth": 0}, "the next leader has told it"
        with pytest.raises(InDoubtError, match="unknown whether"):
            purging.result(30)
        may_end.set()
    tree.host("right").start()
    tree.await_members()


def test_what_is_in_a_shard_without_a_leader_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "_WAIT_MS", 300)
    with served_cluster(monkeypatch) as served:
        names = [served.queue_in(number) for number in range(2)]
        for name in names:
            served.host.create_child("queue", {"name": name})
        lost = served.host.child("queue", names[0])
        served.member.led = frozenset({1})
        for attempt in (
            lambda: served.host.child_names("queue"),
            lambda: lost.statistic_values(["depth"]),
            lambda: lost.invoke("purge", {}),
            lambda: served.host.create_child("queue", {"name": names[0]}),
        ):
            with pytest.raises(LeaderMissingError, match="shard 0 of virtual_host main/shop has had no leader"):
                attempt()
        with RestClient(served.url("http")) as client, pytest.raises(Exception, match="has had no leader"):
            client.page("queue", HOST, 10, 0)


@pytest.mark.requires("postgresql")
def test_messages_move_to_queues_of_other_shards(tree: TreeWorld) -> None:
    here, there = tree.queues_of_both("crossing")
    host = tree.host("right")
    for name in (here, there):
        host.create_child("queue", {"name": name})
    first, second = (host.child("queue", name) for name in (here, there))
    for number in range(250):
        first.invoke("publish", {"message": {"text": str(number)}})

    def texts(queue: ManagedObject) -> list[str]:
        return [each["body"]["text"] for each in queue.invoke("browse", {"limit": 1000})["messages"]]

    assert first.invoke("move_messages", {"target": there, "most": 240}) == {"messages": 240}
    assert texts(second) == [str(number) for number in range(240)], "each once, in their order"
    assert texts(first) == [str(number) for number in range(240, 250)]
    assert first.invoke("copy_messages", {"target": there, "most": 1}) == {"messages": 1}
    assert texts(second)[-1] == "240"
    assert second.invoke("move_messages", {"target": here}) == {"messages": 241}
    assert second.statistic_values(["depth"]) == {"depth": 0}
    first.invoke("pause", {})
    with pytest.raises(WrongStateError, match="resume it"):
        first.invoke("move_messages", {"target": there})
    for name in NAMES:
        for number, broker in tree.member(name).brokers().items():
            for queue in (here, there):
                is_home = Placement(SHARDS).shard_of(AddressKind.QUEUE, queue) == number
                assert (broker.virtual_host.find_queue(queue) is not None) == is_home


@pytest.mark.requires("postgresql")
def test_a_route_runs_at_the_leader_of_its_source_alone_and_is_taken_over(tree: TreeWorld) -> None:
    source, target = tree.queue_of("right", "routed"), tree.queue_of("left", "arrived")
    shard = Placement(SHARDS).shard_of(AddressKind.QUEUE, source)
    tree.host("left").create_child("queue", {"name": source})
    routes = {
        name: tree.host(name).create_child(
            "route", {"name": "moving", "type": "forward", "source": source, "targets": [{"queue": target}]}
        )
        for name in NAMES
    }

    def activity(name: str) -> Any:
        return routes[name].statistic_values(["activity"])["activity"]

    def arrived() -> Any:
        queue = tree.host("left").find_child("queue", target)
        return 0 if queue is None else queue.statistic_values(["depth"])["depth"]

    try:
        publishing = tree.host("left").child("queue", source)
        for expected, leader in enumerate(("right", "left", "right"), 1):
            tree.host("left").move_leader(shard, leader)
            wait_until(lambda: activity(leader) == "running", f"the route runs at {leader}")  # noqa: B023
            other = next(each for each in NAMES if each != leader)
            wait_until(lambda: activity(other) == "elsewhere")  # noqa: B023
            publishing.invoke("publish", {"message": {"text": "x"}})
            wait_until(lambda: arrived() == expected)  # noqa: B023
            assert routes[leader].statistic_values(["guarantee"]) == {"guarantee": "once only"}
    finally:
        tree.host("left").move_leader(shard, None)
        for route in routes.values():
            route.delete()


NOTING = """
from pyjms.spi.receivers import MessageReceiver, ReceiverKind

taken = []

class Noting(MessageReceiver):
    def __init__(self, settings):
        self._settings = settings

    def handle(self, message):
        taken.append((self._settings["member"], message.envelope.body, message.is_redelivered))
        return message.envelope.body != self._settings["holds"]

    def close(self):
        pass

class NotingKind(ReceiverKind):
    def check(self, settings):
        pass

    def make(self, request):
        return Noting(request.settings)
"""


@pytest.mark.requires("postgresql")
def test_a_receiver_goes_on_at_the_new_leader_when_its_member_has_died(
    tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    install(tmp_path, "noting", "noting = noting:NotingKind", group="pyjms.receivers", noting=NOTING)
    with ExitStack() as ends:
        ends.enter_context(on_the_path(tmp_path))
        world = ClusterWorld(postgresql)
        ends.callback(world.close)
        tree = TreeWorld(world, ends)
        source = tree.queue_of("right", "pushed")
        tree.host("left").create_child("queue", {"name": source})
        for name in NAMES:
            given = {"member": name, "holds": "held" if name == "right" else ""}
            tree.host(name).create_child(
                "receiver", {"name": "noting", "kind": "noting", "queue": source, "settings": given}
            )
        taken = importlib.import_module("noting").taken
        queue = tree.host("left").child("queue", source)
        for text in ("acknowledged", "held"):
            queue.invoke("publish", {"message": {"text": text}})
        first = [("right", "acknowledged", False), ("right", "held", False)]
        wait_until(lambda: taken == first, f"the receiver has taken {taken}")
        died = tree.member("right")
        assert isinstance(died, ClusterMember)
        died.abandon()
        wait_until(lambda: len(taken) == 3, f"the receiver has taken {taken}")
        queue.invoke("publish", {"message": {"text": "later"}})
        wait_until(lambda: taken == [*first, ("left", "held", True), ("left", "later", False)], f"it has taken {taken}")


@pytest.mark.requires("postgresql")
def test_the_metrics_of_all_members_add_up(tree: TreeWorld) -> None:
    names = tree.queues_of_both("counted")
    for name in names:
        queue = tree.host("left").create_child("queue", {"name": name})
        for _ in range(3):
            queue.invoke("publish", {"message": {"text": "x"}})
    connections = [connect_within(tree.host(name), Ignored(), "test") for name in NAMES]
    try:
        for connection in connections:
            session = connection.open_session(transacted=False)
            for name in names:
                session.send(make_envelope("y", destination=Address(AddressKind.QUEUE, name), persistent=True))
        sums: Counter[str] = Counter()
        whole_sums: Counter[str] = Counter()
        for name in NAMES:
            system = tree.brokers[name].system
            assert isinstance(system, SystemConfig)
            for line in Metrics(system, queues=100_000).render().decode().splitlines():
                metric, _, value = line.rpartition(" ")
                if metric.startswith("pyjms_virtual_host_connection_count{"):
                    whole_sums["connections"] += int(float(value))
                if metric.startswith("pyjms_queue_depth{") and 'queue="counted-' in metric:
                    sums[metric.partition('queue="')[2].partition('"')[0]] += int(float(value))
        assert sums == dict.fromkeys(names, 5)
        assert whole_sums == {"connections": 4}, "each member has that of its management queue as well"
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.requires("postgresql")
@pytest.mark.parametrize("at", NAMES)
def test_any_member_tells_what_all_have(tree: TreeWorld, at: str) -> None:
    before = {each.member: each for each in tree.host(at).cluster_totals().members}
    with ExitStack() as ends:
        for leader in NAMES:
            name = tree.queue_of(leader, f"totals-{at}")
            queue = tree.host("left").create_child("queue", {"name": name})
            queue.invoke("publish", {"message": {"text": "x"}})
        connection = connect_within(tree.host("right"), Ignored(), "test")
        ends.callback(connection.close)
        found = tree.host(at).cluster_totals()
        after = {each.member: each for each in found.members}
        for name in NAMES:
            assert after[name].queues == before[name].queues + 1
            assert after[name].waiting == before[name].waiting + 1
            assert after[name].connections == before[name].connections + (name == "right")
        assert found.total.waiting == sum(each.waiting for each in found.members)
        assert found.total.member is None


def test_requests_by_messages_are_judged_at_the_member_of_their_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    rules: list[dict[str, Any]] = [
        {"effect": "allow", "who": "*", "operations": ["connect", "write", "read", "create"]},
        {"effect": "deny", "who": "*"},
    ]
    with served_cluster(monkeypatch, rules=rules, context={"pyjms.management.queue": "true"}) as served:
        name = served.queue_in(1)
        served.host.create_child("queue", {"name": name})
        for broker in served.member.all.values():
            assert broker.virtual_host.find_queue("$management") is None, "members' links would be answered there"
        with ConnectionFactory(served.url("stomp")).create_context() as context:
            replies = context.create_temporary_queue()
            consumer = context.create_consumer(replies)
            request = context.create_text_message(
                json.dumps({"action": "invoke", "category": "queue", "names": [name], "operation": "purge"})
            )
            request.jms_reply_to = replies
            context.create_producer().send(context.create_queue("$management"), request)
            answer = json.loads(str(consumer.receive_body(str, 30_000)))
        assert answer["status"] == 403
        assert answer["error"]["code"] == "PYJMS-ACCESS"


@pytest.mark.requires("postgresql")
def test_requests_over_amqp_at_a_member_that_leads_nothing_see_the_whole(tree: TreeWorld) -> None:
    url = tree.listen("left", "amqp")
    try:
        for shard in range(SHARDS):
            tree.host("left").move_leader(shard, "right")
        wait_until(lambda: set(tree.led("left").values()) == {"right"} and not tree.member("left").brokers())
        with ConnectionFactory(url).create_context() as context:
            replies = context.create_temporary_queue()
            consumer = context.create_consumer(replies)

            def ask(action: str, **more: Any) -> Any:
                request = context.create_text_message(json.dumps({"action": action, "category": "queue", **more}))
                request.jms_reply_to = replies
                context.create_producer().send(context.create_queue("$management"), request)
                answer = json.loads(str(consumer.receive_body(str, 30_000)))
                assert "error" not in answer, answer
                return answer["result"]

            names = sorted(f"asked-{shard}" for shard in range(2 * SHARDS))
            for name in names:
                ask("create", attributes={"name": name, "max_messages": 3})
                context.create_producer().send(context.create_queue(name), "espresso")
            listed = ask("list", filter="name LIKE 'asked-%'", sort=["name"], fields=["name", "depth", "max_messages"])
            assert listed["items"] == [{"name": name, "depth": 1, "max_messages": 3} for name in names]
            assert ask("invoke", names=[names[0]], operation="purge") == {"messages": 1}
            assert ask("get", names=[names[0]], fields=["depth"]) == {"depth": 0}
            for name in names:
                ask("delete", names=[name])
    finally:
        for shard in range(SHARDS):
            tree.host("left").move_leader(shard, None)
        tree.await_members()
