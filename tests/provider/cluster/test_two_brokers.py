"""Two brokers, as operators run them, over one PostgreSQL: what clients of both see, also when one of them is killed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from pyjms import ConnectionFactory, DeliveryMode, JMSContext
from pyjms.spi.envelope import AddressKind
from pyjms_provider.cluster.placement import Placement
from pyjms_provider.commands.rest_client import RestClient
from tests.provider.commands.served import PATIENCE_S, BrokerProcess
from tests.provider.postgresql import PostgresqlServer

SHARDS = 4
MESSAGES = 50
PATIENCE_MS = 30_000
pytestmark = pytest.mark.xdist_group("two brokers")  # they share a cluster, which takes long to start

NAMES = ("left", "right")


@dataclass
class Member:
    """One of the brokers."""

    name: str
    process: BrokerProcess
    stomp: str = ""
    amqp: str = ""
    http: str = ""


class Site:
    """A cluster of two members."""

    def __init__(self, folder: Path, store: str, cluster: str) -> None:
        self._folder = folder
        self._store = store
        self._cluster = cluster
        self._placement = Placement(SHARDS)
        self.members: dict[str, Member] = {}

    def configure(self, name: str, **host: Any) -> Path:
        """Write the configuration of a member, and return its file."""
        place = self._folder / name
        place.mkdir(exist_ok=True)
        given = {
            "store_url": self._store,
            "cluster": self._cluster,
            "cluster_member": name,
            "cluster_shards": SHARDS,
            **host,
        }
        lines = [
            "version = 1",
            "[broker]",
            'name = "broker"',
            '[[authentication_provider]]\nname = "who"\ntype = "anonymous"',
            '[[access_control]]\nname = "access"\nrules = [{ effect = "allow", who = "*" }]',
            '[[virtual_host_node]]\nname = "shop"\ntype = "memory"',
            "[virtual_host_node.host]",
            *(f"{key} = {json.dumps(value)}" for key, value in given.items()),
        ]
        for kind in ("stomp", "amqp", "http"):
            lines += [
                f'[[port]]\nname = "{kind}"\ntype = "{kind}"\nhost = "127.0.0.1"\nport = 0',
                'authentication_providers = ["who"]\naccess_control = "access"',
            ]
        file = place / "broker.toml"
        file.write_text("\n".join(lines) + "\n")
        return file

    def start(self, *names: str) -> None:
        """Start members, and wait until each of the cluster's leads half of the shards."""
        for name in names:
            file = self.configure(name)
            # All before the first answers, as each takes a while.
            self.members[name] = Member(name, BrokerProcess(file.parent, str(file)))
        for name in names:
            member = self.members[name]
            member.stomp, member.amqp, member.http = member.process.announced("stomp", "amqp", "http")
        self.await_leaders(*NAMES)

    def await_leaders(self, *names: str) -> None:
        """Wait until these members, and no others, lead the shards, in equal parts."""
        wanted = {name: SHARDS // len(names) for name in names}

        def fits(found: dict[str, Any]) -> bool:
            return Counter(each["leader"] for each in found["shards"]) == wanted

        self.await_status(fits)

    def status(self, name: str) -> dict[str, Any]:
        """Return the state of the cluster, as a member tells operators."""
        with RestClient(self.members[name].http) as client:
            operation = client.category("virtual_host").operations["cluster_status"]
            found: dict[str, Any] = client.call("virtual_host", ("shop", "shop"), operation, {}, lambda *_: None)
        return found

    def await_status(self, fits: Callable[[dict[str, Any]], bool], name: str = "left") -> dict[str, Any]:
        pause = Event()
        found = self.status(name)
        for _ in range(int(PATIENCE_S / 0.1)):
            if fits(found):
                return found
            pause.wait(0.1)
            found = self.status(name)
        raise AssertionError(f"the cluster has not come so far: {found}")

    def queue_led_by(self, name: str, word: str) -> str:
        """Return the name of a queue, with that word in it, whose shard a member leads now."""
        shards = next(each["shards"] for each in self.status(name)["members"] if each["name"] == name)
        names = (f"{word}-{number}" for number in range(1000))
        return next(each for each in names if self._placement.shard_of(AddressKind.QUEUE, each) in shards)

    def end(self) -> None:
        with ExitStack() as ends:
            for each in self.members.values():
                ends.callback(each.process.end)


@contextmanager
def two_members(folder: Path, postgresql: PostgresqlServer, cluster: str) -> Iterator[Site]:
    site = Site(folder, postgresql.make_store(), cluster)
    with ExitStack() as ends:
        ends.callback(site.end)
        site.start(*NAMES)
        yield site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, postgresql: PostgresqlServer) -> Iterator[Site]:
    """A cluster for the tests that leave it as it is."""
    with two_members(tmp_path_factory.mktemp("site"), postgresql, "shop") as found:
        yield found


def send(context: JMSContext, queue: str, *bodies: str) -> None:
    producer = context.create_producer()
    for each in bodies:
        producer.send(context.create_queue(queue), each)


def received(context: JMSContext, queue: str, many: int = 1) -> list[str]:
    consumer = context.create_consumer(context.create_queue(queue))
    try:
        return [str(consumer.receive_body(str, PATIENCE_MS)) for _ in range(many)]
    finally:
        consumer.close()


@pytest.mark.requires("postgresql")
@pytest.mark.realises("JBM-2.3.a", "JBM-9.1.4")
def test_clients_of_both_members_share_everything(site: Site) -> None:
    left, right = (site.members[name] for name in NAMES)
    queues = [site.queue_led_by(name, "orders") for name in NAMES]
    with (
        ConnectionFactory(left.stomp).create_context() as here,
        ConnectionFactory(right.amqp).create_context() as there,
    ):
        for queue in queues:
            send(here, queue, "by STOMP")
            assert received(there, queue) == ["by STOMP"]
            send(there, queue, "by AMQP")
            assert received(here, queue) == ["by AMQP"]

        listening = there.create_consumer(there.create_topic("news"))
        here.create_producer().send(here.create_topic("news"), "to all")
        assert listening.receive_body(str, PATIENCE_MS) == "to all"

    with ConnectionFactory(left.stomp).create_context() as here:
        here.client_id = "reader"
        here.create_durable_consumer(here.create_topic("news"), "all").close()
        here.create_producer().send(here.create_topic("news"), "for later")
    with ConnectionFactory(right.amqp).create_context() as there:
        there.client_id = "reader"
        consumer = there.create_durable_consumer(there.create_topic("news"), "all")
        assert consumer.receive_body(str, PATIENCE_MS) == "for later"
        consumer.close()
        there.unsubscribe("all")

    with ConnectionFactory(right.stomp).create_context(JMSContext.SESSION_TRANSACTED) as unit:
        for queue in queues:
            send(unit, queue, "rolled back")
        unit.rollback()
        for queue in queues:
            send(unit, queue, "committed")
        unit.commit()
    with ConnectionFactory(left.amqp).create_context() as here:
        for queue in queues:
            assert received(here, queue) == ["committed"]


@pytest.mark.requires("postgresql")
def test_any_broker_manages_the_queues_of_both(site: Site) -> None:
    queues = [site.queue_led_by(name, "managed") for name in NAMES]
    below = ("shop", "shop")
    with RestClient(site.members["left"].http) as here, RestClient(site.members["right"].http) as there:
        operations = here.category("queue").operations
        for name in queues:
            made = here.create("queue", (*below, name), {"max_messages": 7})
            assert made["names"] == [*below, name]
            there.call("queue", (*below, name), operations["publish"], {"message": {"text": "x"}}, lambda *_: None)
        for client in (here, there):
            found = client.page("queue", below, 10, 0, filter="name LIKE 'managed-%'", fields="name,depth,max_messages")
            assert sorted((each["name"], each["depth"], each["max_messages"]) for each in found["items"]) == sorted(
                (name, 1, 7) for name in queues
            )
        totals = there.category("virtual_host").operations["cluster_totals"]
        told = here.call("virtual_host", below, totals, {}, lambda *_: None)
        assert {each["member"] for each in told["members"]} == set(NAMES)
        for name in queues:
            done = there.call("queue", (*below, name), operations["purge"], {}, lambda *_: None)
            assert done == {"messages": 1}


@pytest.mark.requires("postgresql")
@pytest.mark.realises("JBM-2.3.b", "JBM-2.3.c", "JBM-3.3")
def test_the_other_member_goes_on_when_one_stops_or_is_killed(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    with two_members(tmp_path, postgresql, "orders") as site:
        queue = site.queue_led_by("right", "before")
        port = site.members["left"].stomp.rpartition("/")[2]
        with ConnectionFactory(f"{site.members['right'].stomp}?failover={port}").create_context() as context:
            send(context, queue, "in order")
            assert site.members["right"].process.end() == 0
            site.await_leaders("left")
            assert received(context, queue) == ["in order"]

        site.start("right")
        queues = [site.queue_led_by(name, "orders") for name in NAMES]
        transient = site.queue_led_by("right", "transient")
        with ConnectionFactory(site.members["left"].stomp).create_context() as context:
            producer = context.create_producer().set_delivery_mode(DeliveryMode.NON_PERSISTENT)
            producer.send(context.create_queue(transient), "not lost with its leader")
            for each in queues:
                send(context, each, *(f"{each} {number}" for number in range(MESSAGES)))
            site.members["right"].process.end(signal.SIGKILL)
            for each in queues:
                send(context, each, *(f"{each} {number}" for number in range(MESSAGES, 2 * MESSAGES)))
            for each in queues:
                assert received(context, each, 2 * MESSAGES) == [f"{each} {number}" for number in range(2 * MESSAGES)]
            assert received(context, transient) == ["not lost with its leader"]
        site.await_leaders("left")
        assert [each["name"] for each in site.status("left")["members"] if each["is_alive"]] == ["left"]


@pytest.mark.requires("postgresql")
def test_what_cannot_be_is_told_at_the_start(site: Site) -> None:
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "third": ({"cluster_shards": SHARDS + 1}, f"cluster shop has {SHARDS} shards, and not {SHARDS + 1}"),
        "fourth": ({"cluster_member": "left"}, "has a member left that is alive"),
    }
    with ExitStack() as ends:
        started = {}
        for name, (host, text) in wrong.items():
            file = site.configure(name, **host)
            started[name] = BrokerProcess(file.parent, str(file)), text
            ends.callback(started[name][0].end)
        for process, text in started.values():
            process.await_log("PYJMS-MODEL-2")
            assert text in process.log
