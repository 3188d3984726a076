"""Brokers of one cluster, each a process, over a PostgreSQL server of the tests' own; and all that can happen to them.

Links between members, and their connections to PostgreSQL, pass proxies, which cut and delay them.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event, Lock
from typing import Any, Final

import psycopg

from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import ProviderError
from pyjms_provider.cluster.placement import Placement
from pyjms_provider.commands.rest_client import RefusedError, RestClient
from tests.ports import free_port
from tests.provider.commands.served import BrokerProcess
from tests.provider.postgresql import PostgresqlServer
from tests.system.network.proxy import Cut, Place, Proxy, Way

SHARDS: Final = 4
GROUPED: Final = "grouped"
NAMES: Final = ("left", "middle", "right")
_PATIENCE_S: Final = 90.0
_STEP_S: Final = 0.02
_TOLD: Final = ("depth", "waiting", "held", "uncommitted", "consumers", "receivers", "unacknowledged_by_receiver")
_PORTS: Final = ("stomp", "amqp", "http")


@dataclass(frozen=True, slots=True)
class Settings:
    """What all members have in common."""

    lease_ms: int = 5_000
    acknowledge: str = "written"
    """`forced`: a crash of PostgreSQL takes no acknowledgement away."""


class Member:
    """One broker, at the same ports in all of its lives."""

    def __init__(self, name: str, folder: Path, database: str, settings: Settings) -> None:
        """`database`: the URL of PostgreSQL itself."""
        self.name = name
        self._folder = folder / name
        self._folder.mkdir()
        self.ports = {each: free_port() for each in _PORTS}
        self._link = free_port()
        self.links = Proxy(("127.0.0.1", self._link))
        """Before its link port."""
        before, _, rest = database.rpartition(":")
        port, _, name_of_database = rest.partition("/")
        self.store = Proxy(("127.0.0.1", int(port)), protocol="any")
        """Before PostgreSQL."""
        self._url = f"{before}:{self.store.port}/{name_of_database}"
        self._settings = settings
        self._process: BrokerProcess | None = None
        self._lives = 0

    def launch(self) -> None:
        """Begin to start it."""
        self._lives += 1
        place = self._folder / str(self._lives)
        place.mkdir()
        (place / "broker.toml").write_text(self._configuration())
        self._process = BrokerProcess(place, "broker.toml")

    def await_start(self) -> None:
        """Return when it serves clients."""
        self.process.announced(*_PORTS)

    def start(self) -> None:
        self.launch()
        self.await_start()

    @property
    def process(self) -> BrokerProcess:
        assert self._process is not None, "it was started"
        return self._process

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.ports['http']}"

    def kill(self) -> None:
        """Kill it, stopped or not."""
        self.process.end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it in order."""
        assert self.process.end() == 0, self.process.log[-5_000:]

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Let it do nothing meanwhile (SIGSTOP)."""
        process = self.process.process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def abort(self) -> None:
        """End it; its log tells where its threads were."""
        self.process.process.send_signal(signal.SIGABRT)

    def logs(self) -> str:
        """Return what all of its lives have written."""
        return "".join(each.read_text() for each in sorted(self._folder.rglob("broker.log"), key=str))

    def end(self) -> None:
        """Kill it, and end its proxies."""
        with ExitStack() as ends:
            for proxy in (self.links, self.store):
                ends.callback(proxy.__exit__, None, None, None)
            if self._process is not None:
                ends.callback(self.process.end, signal.SIGKILL)

    def _configuration(self) -> str:
        settings = self._settings
        host = {
            "store_url": self._url,
            # A member may start while PostgreSQL does.
            "store_wait_ms": int(_PATIENCE_S * 1000),
            "cluster": "shop",
            "cluster_member": self.name,
            "cluster_shards": SHARDS,
            "cluster_lease_ms": settings.lease_ms,
            "cluster_link": f"127.0.0.1:{self._link}",
            "cluster_link_address": f"127.0.0.1:{self.links.port}",
            "acknowledge": settings.acknowledge,
        }
        lines = [
            "version = 1",
            f'[broker]\nname = "{self.name}"',
            '[[authentication_provider]]\nname = "who"\ntype = "anonymous"',
            '[[access_control]]\nname = "access"\nrules = [{ effect = "allow", who = "*" }]',
            '[[virtual_host_node]]\nname = "shop"\ntype = "memory"',
            "[virtual_host_node.host]",
            *(f"{key} = {json.dumps(value)}" for key, value in host.items()),
        ]
        for kind, port in self.ports.items():
            lines += [
                f'[[port]]\nname = "{kind}"\ntype = "{kind}"\nhost = "127.0.0.1"\nport = {port}',
                'authentication_providers = ["who"]\naccess_control = "access"',
            ]
        return "\n".join(lines) + "\n"


class ClusterSite:
    """A PostgreSQL server, and the members over it."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.settings = settings
        self.restart = Lock()
        """Held by a fault that restarts PostgreSQL: two may come at the same time."""
        self._ends = ExitStack()
        self.server = PostgresqlServer()
        self._ends.callback(self.server.remove)
        self._ends.callback(lambda: shutil.copy(self.server.directory / "log", folder / "postgresql.log"))
        try:
            database = self.server.make_store().partition("?")[0]
            self.members = [Member(name, folder, database, settings) for name in NAMES]
            for each in self.members:
                self._ends.callback(each.end)
            for each in self.members:
                each.launch()
            for each in self.members:
                each.await_start()
            self.await_whole()
            self._make_grouped()
            # The dead letters of all shards, in one queue that a client can drain.
            self._call(self.members[0], "partition_queue", {"name": "DLQ", "partitions": SHARDS})
        except BaseException:
            self._ends.close()
            raise

    def _make_grouped(self) -> None:
        """Make the queue whose messages of one group go to one consumer."""
        shard = Placement(SHARDS).shard_of(AddressKind.QUEUE, GROUPED)
        pause = Event()
        for _ in range(int(_PATIENCE_S / _STEP_S)):
            leader = self.leaders()[shard]
            for member in self.members:
                if member.name == leader:
                    # A leader may have changed just now, and another one shows its shard in a moment.
                    with suppress(RefusedError), RestClient(member.http) as client:
                        client.create("queue", ("shop", f"shop.{shard}", GROUPED), {"groups": True})
                        return
            pause.wait(_STEP_S)
        raise AssertionError(f"no member has made queue {GROUPED}")

    def close(self) -> None:
        """End all, in any state."""
        self._ends.close()

    def url(self, protocol: str, first: int, **options: object) -> str:
        """Return the URL of all members, one of which is tried first."""
        ports = [each.ports[protocol] for each in self.members]
        ports = ports[first % len(ports) :] + ports[: first % len(ports)]
        rest = "".join(f"&{name}={value}" for name, value in options.items())
        others = ",".join(f"127.0.0.1:{port}" for port in ports[1:])
        return f"{protocol}://127.0.0.1:{ports[0]}?failover={others}{rest}"

    def leaders(self) -> dict[int, str | None]:
        """Return the name of the member that serves each shard; None: none does. Raises `psycopg.Error`."""
        with self.server.connect() as connection:
            rows: list[Any] = connection.execute(
                "SELECT number, name FROM shop.pyjms_shard LEFT JOIN shop.pyjms_member "
                "ON incarnation = leader AND NOT restoring AND heartbeat > clock_timestamp() - make_interval(secs => lease_ms / 1000.0)"
            ).fetchall()
        return dict(rows)

    def await_whole(self) -> None:
        """Return when all members are there, and all shards are led, in equal parts but for those that are pinned."""
        pause, found = Event(), {}
        for _ in range(int(_PATIENCE_S / _STEP_S)):
            with suppress(psycopg.Error):
                found = self.leaders()
                with self.server.connect() as connection:
                    [[members]] = connection.execute(
                        "SELECT count(*) FROM shop.pyjms_member "
                        "WHERE NOT leaving AND heartbeat > clock_timestamp() - make_interval(secs => lease_ms / 1000.0)"
                    ).fetchall()
                if members == len(NAMES) and None not in found.values():
                    return
            pause.wait(_STEP_S)
        raise AssertionError(f"the cluster is not whole: {found}\n{self.ends_of_logs()}")

    def ends_of_logs(self) -> str:
        return "\n".join(f"--- {each.name}\n{each.logs()[-6_000:]}" for each in self.members)

    def described(self) -> str:
        """Return what the members tell operators of queues and subscriptions, a line for each."""
        lines = []
        for member in self.members:
            try:
                with RestClient(member.http) as client:
                    for category in ("queue", "durable_subscription", "shared_subscription"):
                        for each in client.page(category, ("shop",), 100, 0)["items"]:
                            told = {key: each.get(key) for key in _TOLD if each.get(key)}
                            lines.append(f"{member.name} {category} {'/'.join(each['names'])} {told}")
            except ProviderError as error:
                lines.append(f"{member.name}: {error!r}")
        return "\n".join(lines)

    def move_leader(self, through: Member, shard: int, member: str | None) -> None:
        """Have a member lead a shard, as an operator does; None: any may."""
        given = {"shard": shard} if member is None else {"shard": shard, "member": member}
        self._call(through, "move_leader", given)

    @staticmethod
    def _call(through: Member, operation: str, given: dict[str, Any]) -> None:
        with RestClient(through.http) as client:
            described = client.category("virtual_host").operations[operation]
            client.call("virtual_host", ("shop", "shop"), described, given, lambda *_: None)


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. It is over, and mended, when its call returns."""

    name: str
    share: int
    """How often it comes, compared with the others."""
    act: Callable[[ClusterSite, Member, Random], None]
    """Is given a member, which it alone uses."""


def _pause(random: Random, least_s: float, most_s: float) -> None:
    Event().wait(random.uniform(least_s, most_s))  # how long a fault lasts is what is random here


def _lease_s(site: ClusterSite) -> float:
    return site.settings.lease_ms / 1000


def _kill(site: ClusterSite, member: Member, random: Random) -> None:
    member.kill()
    _pause(random, 0.0, 0.7)
    member.start()


def _kill_stopped(site: ClusterSite, member: Member, random: Random) -> None:
    with member.standing_still():
        _pause(random, 0.0, 1.2 * _lease_s(site))
        member.kill()
    member.start()


def _stop_long(site: ClusterSite, member: Member, random: Random) -> None:
    with member.standing_still():
        _pause(random, 1.1 * _lease_s(site), 2 * _lease_s(site))


def _stop_briefly(site: ClusterSite, member: Member, random: Random) -> None:
    with member.standing_still():
        _pause(random, 0.05, 0.8 * _lease_s(site))


def _leave(site: ClusterSite, member: Member, random: Random) -> None:
    member.stop()
    _pause(random, 0.0, 0.5)
    member.start()


def _cut_frames(site: ClusterSite, member: Member, random: Random) -> None:
    places = [(way, place) for way in Way for place in Place if (way, place) != (Way.DOWN, Place.LATE)]
    cuts = []
    for _ in range(random.randint(1, 4)):
        way, place = random.choice(places)
        cuts.append(Cut(way, random.randint(1, 40), place))
    member.links.arm(cuts)
    _pause(random, 0.5, 1.5)
    member.links.arm([])


def _cut_links(site: ClusterSite, member: Member, random: Random) -> None:
    member.links.refuses = random.random() < 0.7
    try:
        member.links.cut_all()
        _pause(random, 0.0, 1.5)
    finally:
        member.links.refuses = False


def _delay_links(site: ClusterSite, member: Member, random: Random) -> None:
    member.links.delay_s = random.uniform(0.01, 0.15)
    try:
        _pause(random, 0.5, 2.0)
    finally:
        member.links.delay_s = 0.0


def _freeze_links(site: ClusterSite, member: Member, random: Random) -> None:
    with member.links.frozen():
        _pause(random, 0.2, 2 * _lease_s(site))
        if random.random() < 0.5:
            member.links.cut_all()


def _freeze_store(site: ClusterSite, member: Member, random: Random) -> None:
    with member.store.frozen():
        _pause(random, 0.2, 2 * _lease_s(site))
        if random.random() < 0.3:
            member.store.cut_all()


def _cut_store(site: ClusterSite, member: Member, random: Random) -> None:
    member.store.refuses = random.random() < 0.6
    try:
        member.store.cut_all()
        _pause(random, 0.0, 1.5 * _lease_s(site))
    finally:
        member.store.refuses = False


def _move(site: ClusterSite, member: Member, random: Random) -> None:
    with suppress(ProviderError):  # it may be dead, or stopped
        site.move_leader(member, random.randrange(SHARDS), random.choice([*NAMES, None]))
        _pause(random, 0.0, 0.3)
        site.move_leader(member, random.randrange(SHARDS), None)


def _restart_postgresql(site: ClusterSite, member: Member, random: Random) -> None:
    is_forced = site.settings.acknowledge == "forced"
    with site.restart:
        site.server.stop("immediate" if is_forced and random.random() < 0.7 else "fast")
        _pause(random, 0.0, 1.0)
        site.server.start()


KILL: Final = Fault("kill", 8, _kill)
POSTGRESQL: Final = Fault("restart PostgreSQL", 2, _restart_postgresql)
FAULTS: Final = (
    KILL,
    POSTGRESQL,
    Fault("kill while stopped", 2, _kill_stopped),
    Fault("stop for longer than the lease", 3, _stop_long),
    Fault("stop briefly", 1, _stop_briefly),
    Fault("leave in order", 2, _leave),
    Fault("cut links within frames", 3, _cut_frames),
    Fault("cut all links", 2, _cut_links),
    Fault("delay links", 1, _delay_links),
    Fault("freeze links", 2, _freeze_links),
    Fault("freeze the store's connections", 3, _freeze_store),
    Fault("cut the store's connections", 2, _cut_store),
    Fault("move a leader", 3, _move),
)
IS_DEATH: Final = frozenset({"kill", "kill while stopped"})
