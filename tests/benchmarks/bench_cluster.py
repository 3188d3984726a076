"""What a message costs a cluster: processor time of the members and of PostgreSQL, commits, bytes of its log, and bytes over links.

Two members, PostgreSQL, and one client over STOMP, which sends PERSISTENT messages with confirmed sends, receives and acknowledges each; and
the same at a single broker on that PostgreSQL, in turn. The figures are the inputs of the model in docs/design/cluster.md; there is no floor,
as they are told and not compared.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))
import psutil
from measure import make_message

from pyjms import ConnectionFactory, Session
from pyjms.spi import AddressKind
from pyjms_provider.cluster.placement import Placement
from pyjms_provider.commands.rest_client import RestClient
from tests.needs.table import missing_text, postgresql_programs
from tests.provider.postgresql import PostgresqlServer

MESSAGES = 1_500
ROUNDS = 3
SHARDS = 8
IDLE_S = 10.0
NAMES = ("left", "right")
"""Of the members."""
ALONE = "alone"
"""The broker without a cluster."""


class Broker:
    """`pyjms broker run`."""

    def __init__(self, folder: Path, name: str, store: str, *options: str) -> None:
        command = [str(Path(sys.executable).with_name("pyjms")), "broker", "run", "--anonymous", "--store", store]
        command += options
        for scheme in ("stomp", "http"):
            command += ["--listen", f"{scheme}://127.0.0.1:0"]
        self.name = name
        self.popen = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.process = psutil.Process(self.popen.pid)
        self.urls: dict[str, str] = {}

    def await_start(self) -> None:
        assert self.popen.stdout is not None
        while len(self.urls) < 2:
            url = self.popen.stdout.readline().split()[1]
            self.urls[url.partition(":")[0]] = url

    def seconds(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


class Member(Broker):
    """One with `--cluster`."""

    def __init__(self, folder: Path, name: str, store: str) -> None:
        super().__init__(folder, name, store, "--name", "shop", "--cluster", "shop", "--member", name)

    def status(self) -> dict[str, Any]:
        with RestClient(self.urls["http"]) as client:
            operation = client.category("virtual_host").operations["cluster_status"]
            [names] = [
                each["names"]
                for each in client.page("virtual_host", (), 0, 0, fields="names,cluster")["items"]
                if each["cluster"]
            ]
            found: dict[str, Any] = client.call("virtual_host", names, operation, {}, lambda *_: None)
        return found


@dataclass(frozen=True, slots=True)
class Reading:
    """Sums since the start."""

    at: float
    brokers: tuple[float, ...]
    database: float
    commits: int
    log_bytes: int
    link_bytes: int


class Site:
    """The cluster and the single broker, and their instruments."""

    def __init__(self, server: PostgresqlServer, members: list[Member], alone: Broker) -> None:
        self._server = server
        self.members = members
        self.alone = alone
        self.brokers = (*members, alone)
        self._main = psutil.Process(int((server.directory / "data" / "postmaster.pid").read_text().split()[0]))

    def read(self) -> Reading:
        with self._server.connect() as connection:
            [[commits, log_bytes]] = connection.execute(
                # The number of the next transaction that writes: statistics come up to ten seconds late.
                "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
            ).fetchall()
        return Reading(
            perf_counter(),
            tuple(each.seconds() for each in self.brokers),
            self._database_seconds(),
            int(str(commits)),
            int(str(log_bytes)),
            self._link_bytes(),
        )

    def _database_seconds(self) -> float:
        own = self._main.cpu_times()
        total = float(own.user + own.system + own.children_user + own.children_system)
        for child in self._main.children(recursive=True):
            try:
                times = child.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total

    def _ports(self) -> set[str]:
        return {each["address"].rpartition(":")[2] for each in self.members[0].status()["members"]}

    def _link_bytes(self) -> int:
        """Return the bytes of both directions of all open links, as the system counts them."""
        total = 0
        for port in self._ports():
            text = subprocess.run(
                ["ss", "-tinH", "state", "established", f"( sport = :{port} )"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for word in ("bytes_acked", "bytes_received"):
                total += sum(int(each) for each in re.findall(rf"{word}:(\d+)", text))
        return total

    def links(self) -> int:
        found = 0
        for port in self._ports():
            text = subprocess.run(
                ["ss", "-tnH", "state", "established", f"( sport = :{port} )"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            found += len(text.splitlines())
        return found

    def sessions(self) -> int:
        """Return how many sessions the server has of the members."""
        with self._server.connect() as connection:
            [[found]] = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pyjms%'"
            ).fetchall()
        return int(str(found))

    def queue_of(self, leader: str) -> str:
        placement = Placement(SHARDS)
        led = next(each["shards"] for each in self.members[0].status()["members"] if each["name"] == leader)
        return next(
            name for name in (f"orders-{n}" for n in range(1000)) if placement.shard_of(AddressKind.QUEUE, name) in led
        )


@contextmanager
def two_members_and_a_broker() -> Iterator[Site]:
    server = PostgresqlServer()
    brokers: list[Broker] = []
    pause = Event()
    try:
        with tempfile.TemporaryDirectory() as folder:
            store = server.make_store()
            members = [Member(Path(folder), name, store) for name in NAMES]
            brokers += members
            alone = Broker(Path(folder), ALONE, server.make_store(), "--name", ALONE)
            brokers.append(alone)
            for each in brokers:
                each.await_start()
            while any(len(each["shards"]) != SHARDS // 2 for each in members[0].status()["members"]) or any(
                each["restoring"] or each["leader"] is None for each in members[0].status()["shards"]
            ):
                pause.wait(0.2)
            yield Site(server, members, alone)
            for each in brokers:
                each.popen.terminate()
            for each in brokers:
                each.popen.wait(60)
    finally:
        for each in brokers:
            each.popen.kill()
        server.remove()


def exchange(connection: Any, queue: str) -> None:
    session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
    destination = session.create_queue(queue)
    producer, consumer = session.create_producer(destination), session.create_consumer(destination)
    for _ in range(MESSAGES):
        producer.send(make_message(session))
        consumer.receive(30_000).acknowledge()
    session.close()


@dataclass(frozen=True, slots=True)
class Cost:
    """What one message takes, or one second of idle brokers."""

    brokers: tuple[float, ...]
    """Microseconds of each broker's processor time: the members', and the single broker's."""
    database: float
    """Microseconds of PostgreSQL's."""
    commits: float
    """Transactions that write."""
    log_bytes: float
    link_bytes: float

    @property
    def total(self) -> float:
        """Microseconds of all brokers."""
        return sum(self.brokers)

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {each:.0f}" for name, each in zip((*NAMES, ALONE), self.brokers, strict=True))
        return (
            f"brokers {self.total:.0f} us ({shares}), PostgreSQL {self.database:.0f} us, {self.commits:.2f} transactions that write, "
            f"{self.log_bytes:.0f} bytes of its log, {self.link_bytes:.0f} bytes over links"
        )


def cost(before: Reading, after: Reading, count: float, idle: Cost | None = None) -> Cost:
    """Return the cost of each of `count`, without what idle brokers do in that time."""
    seconds = after.at - before.at
    rest = Cost((0.0,) * len(after.brokers), 0.0, 0.0, 0.0, 0.0) if idle is None else idle
    spent = [b - a for a, b in zip(before.brokers, after.brokers, strict=True)]
    return Cost(
        tuple((each * 1e6 - seconds * own) / count for each, own in zip(spent, rest.brokers, strict=True)),
        ((after.database - before.database) * 1e6 - seconds * rest.database) / count,
        (after.commits - before.commits - seconds * rest.commits) / count,
        (after.log_bytes - before.log_bytes - seconds * rest.log_bytes) / count,
        (after.link_bytes - before.link_bytes - seconds * rest.link_bytes) / count,
    )


def main() -> None:
    if postgresql_programs() is None:
        print(missing_text("postgresql"))
        return
    with two_members_and_a_broker() as site, ExitStack() as connections:
        before = site.read()
        Event().wait(IDLE_S)
        after = site.read()
        idle = cost(before, after, after.at - before.at)
        print(f"all idle, each second: {idle}")
        print(f"sessions of all at the server: {site.sessions()}")
        clients = []
        for broker in (site.members[0], site.alone):
            factory = ConnectionFactory(broker.urls["stomp"])
            clients.append(connections.enter_context(factory.create_connection()))
            clients[-1].start()
        at_member, at_broker = clients
        variants = (
            ("at a single broker", at_broker, "orders"),
            ("its own member leads", at_member, site.queue_of("left")),
            ("another member leads", at_member, site.queue_of("right")),
        )
        found: dict[str, list[Cost]] = {}
        for _ in range(ROUNDS + 1):
            for what, connection, queue in variants:
                first = site.read()
                exchange(connection, queue)
                found.setdefault(what, []).append(cost(first, site.read(), MESSAGES, idle))
        # The first round warms up; the best of the others was disturbed least.
        best = {what: min(costs[1:], key=lambda each: each.total) for what, costs in found.items()}
        for what, one in best.items():
            print(f"one message, {what}: {one}")
        alone, led, linked = (one.total for one in best.values())
        print(f"without a link / a single broker: {led / alone:.2f}; with a link / without: {linked / led:.2f}")
        print(f"links of one client that uses two queues: {site.links()}; sessions at the server: {site.sessions()}")


if __name__ == "__main__":
    main()
