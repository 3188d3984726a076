"""A member of a cluster without a database: its shards are brokers in memory, and it leads those that a test says."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any, NoReturn

import pytest

from pyjms.spi.clock import Clock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ResourceError
from pyjms.spi.provider import ConnectionEvents, ProviderConnection
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.cluster.links import LinkRequest
from pyjms_provider.cluster.placement import FrontPlace, Place, Placement, ShardPlace
from pyjms_provider.cluster.placing import dead_letter_queues
from pyjms_provider.cluster.settings import ClusterSettings, LinkSettings, LinkTls
from pyjms_provider.cluster.status import ClusterStatus, MemberStatus, PlacedStatus, ShardStatus
from pyjms_provider.core.journal.journal import SubscriptionKey
from pyjms_provider.model.managed import ConfigurationChangeListener, ManagedObject
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.cluster_links import ClusterLinks, OpenLinkPort
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_provider.settings import BrokerSettings
from pyjms_provider.transport.settings import ListenerSettingsError

SHARDS = 2
LONG_S = 30.0
STORE = "postgresql+psycopg://nobody@127.0.0.1/nothing"
SECRET = "the secret of the cluster"


class PretendedSubscriptions:
    """A dictionary."""

    def __init__(self) -> None:
        self._topics: dict[SubscriptionKey, str] = {}

    def topic_of(self, key: SubscriptionKey) -> str | None:
        return self._topics.get(key)

    def enter(self, key: SubscriptionKey, topic: str) -> None:
        self._topics[key] = topic

    def remove(self, key: SubscriptionKey) -> None:
        self._topics.pop(key, None)


class PretendedDecisions:
    """All transactions are committed."""

    def __init__(self) -> None:
        self._made = 0

    def new_id(self) -> str:
        self._made += 1
        return f"pretended:{self._made}"

    def commit(self, transaction: str, shards: Sequence[int]) -> bool:
        return True

    def roll_back(self, transaction: str, shards: Sequence[int]) -> None:
        """Do nothing."""

    def forget(self, transaction: str) -> None:
        """Do nothing."""


class PretendedMember:
    """Implements what `ClusterMember` shows to others."""

    def __init__(self, settings: ClusterSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._links = ClusterLinks(settings.name, None)
        self.link_port: OpenLinkPort | None = None
        self.name = settings.virtual_host
        everywhere = dead_letter_queues(settings.broker.policy.queues)
        self.placement = Placement(settings.shards or SHARDS, everywhere=everywhere)
        self.decisions = PretendedDecisions()
        self.subscriptions = PretendedSubscriptions()
        self.trouble: str | None = None
        self.is_stopped = False
        self.refuses_certificates = False
        policy = BrokerSettings(policy=settings.broker.policy)
        self.front = EmbeddedBroker(self.name, clock, policy)
        self.all = {
            number: EmbeddedBroker(f"{self.name}.{number}", clock, policy) for number in range(self.placement.shards)
        }
        self.led: frozenset[int] = frozenset(self.all)

    def brokers(self) -> Mapping[int, EmbeddedBroker]:
        return {number: broker for number, broker in self.all.items() if number in self.led}

    def front_of_leader(self, shard: int) -> FrontPlace | None:
        return FrontPlace(self.front.run_id) if shard in self.led else None

    def fronts(self) -> Mapping[str, FrontPlace]:
        return {"left": FrontPlace(self.front.run_id)}

    def await_leaders(self, timeout_ms: int) -> bool:
        return True

    def status(self) -> ClusterStatus:
        names = {number: "left" if number in self.led else "right" for number in self.all}
        members = [
            MemberStatus(
                name=name,
                incarnation=name,
                version="1",
                format=1 if name == "left" else 2,
                address="127.0.0.1:1",
                joined_ms=1_000,
                heartbeat_age_ms=100,
                is_alive=name == "left",
                is_leaving=False,
                shards=tuple(number for number, leader in names.items() if leader == name),
            )
            for name in ("left", "right")
        ]
        shards = [
            ShardStatus(number=number, leader=leader, since_ms=1_000, terms=1, restoring=False)
            for number, leader in names.items()
        ]
        return ClusterStatus(
            name=self.settings.name,
            virtual_host=self.name,
            members=members,
            shards=shards,
            undecided=3,
            placed=[
                PlacedStatus(kind="queue", name=name, shards=numbers)
                for (_, name), numbers in self.placement.moved.items()
            ],
        )

    @property
    def promotions(self) -> NoReturn:
        raise ResourceError("nothing is staged here")

    def is_settled(self, address: Address) -> bool:
        return True

    def await_placed(self, queue: str) -> None:
        raise ResourceError(f"{queue} is not being placed")

    def place_queue(self, name: str, shards: Collection[int]) -> None:
        self.placement = replace(self.placement, moved={(AddressKind.QUEUE, name): tuple(shards)})

    def reload_certificates(self, tls: LinkTls) -> None:
        if self.refuses_certificates:
            raise ListenerSettingsError(f"{tls.certificate} cannot be used")
        self.settings = replace(self.settings, link=replace(self.settings.link, tls=tls))

    def connect(self, place: Place, events: ConnectionEvents) -> ProviderConnection:
        if not isinstance(place, ShardPlace):
            raise ResourceError("there is no other member")
        broker = self.all[place.number]
        if self.link_port is None or place.number in self.led:
            return VmConnection(broker, events)
        request = LinkRequest(
            broker=broker.name,
            addresses=[f"127.0.0.1:{self.link_port.port}"],
            member="left",
            secret=SECRET,
            tls=None,
            timeout_ms=10_000,
        )
        return self._links.connect(request, self._clock, events)[0]

    def open_link_port(self) -> None:
        """Have the shards that this member does not lead be reached over links, as if another one led them."""
        brokers = {broker.name: broker for broker in self.all.values()}
        self.link_port = self._links.listen(LinkSettings(), brokers.get, SECRET, self._clock)

    def stop(self, *, program_ends: bool = False) -> None:
        self.is_stopped = True
        if self.link_port is not None:
            self.link_port.close()
        for broker in (self.front, *self.all.values()):
            broker.stop()


class Arrivals(ConfigurationChangeListener):
    """Waits for virtual hosts that appear and disappear."""

    def __init__(self, above: ManagedObject) -> None:
        self._told: Queue[tuple[str, str]] = Queue()
        above.add_listener(self, below=True)

    def child_added(self, parent: ManagedObject, child: ManagedObject) -> None:
        if child.category == "virtual_host":
            self._told.put(("added", child.name))

    def child_removed(self, parent: ManagedObject, child: ManagedObject) -> None:
        if child.category == "virtual_host":
            self._told.put(("removed", child.name))

    def wait(self, *wanted: tuple[str, str]) -> None:
        found = {self._told.get(timeout=LONG_S) for _ in wanted}
        assert found == set(wanted)


class Served:
    """A broker with a virtual host ``main/shop`` that a pretended member serves, and all its shards."""

    def __init__(self, broker: ServedBroker, host: VirtualHost, member: PretendedMember, arrivals: Arrivals) -> None:
        self.broker = broker
        self.host = host
        self.member = member
        self.arrivals = arrivals

    def shard(self, number: int) -> VirtualHost:
        found = self.broker.broker.child("virtual_host_node", "main").child("virtual_host", f"shop.{number}")
        assert isinstance(found, VirtualHost)
        return found

    def url(self, scheme: str) -> str:
        return next(each for each in self.broker.addresses() if each.startswith(f"{scheme}:"))

    def queue_in(self, shard: int) -> str:
        """Return a name whose hash gives that shard."""
        return next(
            f"queue-{number}"
            for number in range(100)
            if self.member.placement.shard_of(AddressKind.QUEUE, f"queue-{number}") == shard
        )


def join_pretended(monkeypatch: pytest.MonkeyPatch) -> list[PretendedMember]:
    """Have all members be pretended ones; they are in the list."""
    members: list[PretendedMember] = []

    def start(
        settings: ClusterSettings, clock: Clock, network: object = None, cancelled: object = None
    ) -> PretendedMember:
        members.append(PretendedMember(settings, clock))
        return members[-1]

    monkeypatch.setattr("pyjms_provider.serving.cluster_links.start_member", start)
    return members


@contextmanager
def served_cluster(
    monkeypatch: pytest.MonkeyPatch,
    rules: Sequence[Mapping[str, Any]] = ({"effect": "allow", "who": "*"},),
    users: Path | None = None,
    **attributes: Any,
) -> Iterator[Served]:
    members = join_pretended(monkeypatch)
    with ServedBroker.open(name="broker") as broker:
        top = broker.broker
        kind = {"type": "anonymous"} if users is None else {"type": "user-file", "path": str(users)}
        top.create_child("authentication_provider", {"name": "who", **kind})
        top.create_child("access_control", {"name": "access", "rules": list(rules)})
        node = top.create_child("virtual_host_node", {"name": "main", "type": "memory"})
        arrivals = Arrivals(node)
        given = {"cluster": "shop", "cluster_member": "left", "store_url": STORE, **attributes}
        host = node.create_child("virtual_host", {"name": "shop", **given})
        assert isinstance(host, VirtualHost)
        chosen = {"host": "127.0.0.1", "port": 0, "authentication_providers": ["who"], "access_control": "access"}
        for kind_of_port in ("stomp", "amqp", "http"):
            top.create_child("port", {"name": kind_of_port, "type": kind_of_port, **chosen})
        arrivals.wait(("added", "shop"), *(("added", f"shop.{number}") for number in range(SHARDS)))
        yield Served(broker, host, members[0], arrivals)
