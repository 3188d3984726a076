"""A cluster of members in this process, for the tests of applications that must survive the death of a broker.

Each member is a whole broker with a port of STOMP; they share a PostgreSQL database, as members in processes of their own do. Within
``with Cluster() as cluster:`` connect by ``ConnectionFactory(cluster.url)``, and kill the member that has the queue:
``cluster.leader_of("orders").kill()``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, Protocol

from pyjms.api.base import Closeable
from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.registry import entry_points
from pyjms.testing.postgresql import PostgresqlServer

__all__ = ["ENTRY_POINT_GROUP", "Cluster", "ClusterMember", "MissingBrokerError"]

ENTRY_POINT_GROUP: Final = "pyjms.testing"
"""Its entry point ``cluster_member`` names the class of the members; the bundled broker brings it."""
_NAMES: Final = ("left", "right", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
_SHARDS: Final = 4
_LEASE_MS: Final = 2_000
_LOOK_MS: Final = 20
_INSTALL: Final = "pip install 'pyjms-messaging[broker,stomp,postgresql]'"


class MissingBrokerError(RuntimeError):
    """A package that a member needs is not installed; the text says which."""


class RunningMember(Protocol):
    """What a provider of clusters brings: a class, whose objects run from their making to `stop` or `kill`."""

    port: int
    """The port of STOMP."""

    def __init__(
        self, cluster: str, member: str, *, store_url: str, shards: int, lease_ms: int, virtual_host: str, port: int = 0
    ) -> None:
        """Start it."""
        ...

    def shards_served(self) -> frozenset[int]:
        """Return the shards that it serves now."""
        ...

    def leaders(self) -> Mapping[int, str | None]:
        """Return the leader of each shard, as it sees it."""
        ...

    def shard_of(self, name: str, *, is_topic: bool) -> int:
        """Return the shard of a queue or a topic."""
        ...

    def move_leader(self, shard: int, member: str | None) -> None:
        """Have a member lead a shard, or any again."""
        ...

    def pause(self) -> None:
        """Stand still."""
        ...

    def go_on(self) -> None:
        """End a pause."""
        ...

    def kill(self) -> None:
        """End it as the death of its process does."""
        ...

    def stop(self) -> None:
        """Stop it in order."""
        ...

    @staticmethod
    def remove_cluster(store_url: str, cluster: str) -> None:
        """Drop a cluster that has no running member."""
        ...


class ClusterMember:
    """One member of a `Cluster`. Used by one thread at a time."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self._cluster = cluster
        self._running: RunningMember | None = None
        self._port = 0
        self._is_paused = False

    def __repr__(self) -> str:
        return f"<ClusterMember {self.name}>"

    @property
    def is_running(self) -> bool:
        """Whether it runs: it was started, and neither killed nor stopped since. A paused one runs."""
        return self._running is not None

    @property
    def is_paused(self) -> bool:
        """Whether it stands still."""
        return self._is_paused

    @property
    def port(self) -> int:
        """Its port of STOMP, which it has again when it is started again."""
        return self._port

    @property
    def url(self) -> str:
        """The URL of this member alone; the cluster's URL has all members."""
        return f"stomp://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, also again after `kill` or `stop`. It gets its share of the shards in a moment: see `Cluster.await_leaders`.

        Raises:
            RuntimeError: It runs already.
        """
        if self._running is not None:
            raise RuntimeError(f"member {self.name} runs already")
        self._running = self._cluster.start_member(self.name, self._port)
        self._port = self._running.port

    def kill(self) -> None:
        """End it as the death of its process does: clients' connections break without a word, and nothing is handed over or written."""
        self._end().kill()

    def stop(self) -> None:
        """Stop it in order: it hands its shards over, and tells its clients."""
        self._end().stop()

    def pause(self) -> None:
        """Have it stand still, as a process after SIGSTOP: after its lease the others take its shards over."""
        self.running().pause()
        self._is_paused = True

    def go_on(self) -> None:
        """End a pause: it finds what has become of its shards, and serves clients again."""
        self.running().go_on()
        self._is_paused = False

    def running(self) -> RunningMember:
        """Return what runs. Raises RuntimeError if it was killed or stopped."""
        if self._running is None:
            raise RuntimeError(f"member {self.name} does not run: start it")
        return self._running

    def _end(self) -> RunningMember:
        found = self.running()
        self._running, self._is_paused = None, False
        return found


class Cluster(Closeable):
    """Members over one PostgreSQL database; they run from its making to `close`. Used by one thread at a time."""

    def __init__(
        self,
        postgresql_url: str | None = None,
        *,
        members: int = 2,
        shards: int = _SHARDS,
        lease_ms: int = _LEASE_MS,
        virtual_host: str = "test",
    ) -> None:
        """Start all members, and wait until each shard has a leader.

        Args:
            postgresql_url: A database that runs, ``postgresql+psycopg://USER@HOST/DATABASE``, in which schemas are made and dropped;
                None: a server is started for this cluster.
            members: How many members, 1 to 8.
            shards: The number of shards.
            lease_ms: How long a member may be silent until the others take over; for `ClusterMember.pause`, as a killed one is
                noticed at once.
            virtual_host: The name of the virtual host.

        Raises:
            MissingPostgresqlError: No URL was given, and PostgreSQL is not installed.
            MissingBrokerError: A package that the members need is not installed.
        """
        if not 1 <= members <= len(_NAMES):
            raise ValueError(f"a cluster has 1 to {len(_NAMES)} members here, and not {members}")
        self._make = _member_class()
        self._clock = SystemClock()
        self._shards = shards
        self._lease_ms = lease_ms
        self._virtual_host = virtual_host
        # A name that no other test run has: the database may be shared.
        self._name = f"pyjms_test_{secrets.token_hex(6)}"
        self.members: Sequence[ClusterMember] = tuple(ClusterMember(self, name) for name in _NAMES[:members])
        """The members: `left`, `right`, `third` …, whether they run or not."""
        self._ends = ExitStack()
        with ExitStack() as undo:
            undo.callback(self.close)
            if postgresql_url is None:
                postgresql_url = self._ends.enter_context(PostgresqlServer()).url
            else:
                self._ends.callback(self._make.remove_cluster, postgresql_url, self._name)
            self._store_url = postgresql_url
            for member in self.members:
                member.start()
            self.await_leaders()
            undo.pop_all()

    def __getitem__(self, name: str) -> ClusterMember:
        """Return a member by its name. Raises KeyError."""
        found = next((each for each in self.members if each.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[ClusterMember]:
        """Return the members."""
        return iter(self.members)

    @property
    def url(self) -> str:
        """The URL for clients: the first member, and all others for when its connection is lost."""
        first, *others = self.members
        options = ["reconnect_delay_max_ms=200", *(f"failover=127.0.0.1:{each.port}" for each in others)]
        return f"{first.url}?{'&'.join(options)}"

    def leader_of(self, destination: str) -> ClusterMember:
        """Return the member that leads a queue, or a topic: ``topic://NAME``. Waits until one does."""
        self.await_leaders()
        shard = self._shard_of(destination)
        return next(each for each in self._serving() if shard in each.running().shards_served())

    def move_leader(self, destination: str, member: ClusterMember) -> None:
        """Have a member lead a queue, or a topic, and all that are in the same shard; return when it does.

        It keeps them while it runs, and gets them back when it is started again.
        """
        shard = self._shard_of(destination)
        member.running().move_leader(shard, member.name)
        self._await(
            lambda: shard in member.running().shards_served() and self._are_led(), f"{member.name} leads {destination}"
        )

    def await_leaders(self, timeout_s: float = 60.0) -> None:
        """Wait until a running member serves each shard, and all running members know it. Raises TimeoutError."""
        self._await(self._are_led, "each shard has a leader", timeout_s)

    def close(self) -> None:
        """End all members, and drop the cluster with its messages. May be repeated."""
        with self._ends:
            for member in self.members:
                if member.is_running:
                    # Killed, and not stopped: nobody needs its shards any more.
                    self._ends.callback(member.kill)

    def start_member(self, name: str, port: int) -> RunningMember:
        """Start a member; for `ClusterMember`."""
        return self._make(
            self._name,
            name,
            store_url=self._store_url,
            shards=self._shards,
            lease_ms=self._lease_ms,
            virtual_host=self._virtual_host,
            port=port,
        )

    def _serving(self) -> list[ClusterMember]:
        return [each for each in self.members if each.is_running and not each.is_paused]

    def _shard_of(self, destination: str) -> int:
        name = destination.removeprefix("topic://")
        serving = self._serving()
        if not serving:
            raise RuntimeError("no member runs: start one")
        is_topic = name != destination
        return serving[0].running().shard_of(name if is_topic else name.removeprefix("queue://"), is_topic=is_topic)

    def _are_led(self) -> bool:
        served = {shard: each.name for each in self._serving() for shard in each.running().shards_served()}
        return len(served) == self._shards and all(each.running().leaders() == served for each in self._serving())

    def _await(self, is_so: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        never, until_ms = Signal(), self._clock.monotonic_ms() + timeout_s * 1000
        while not is_so():
            if self._clock.monotonic_ms() >= until_ms:
                raise TimeoutError(f"it has not come about within {timeout_s} s that {what}")
            self._clock.wait(never, self._clock.monotonic_ms() + _LOOK_MS)


def _member_class() -> type[RunningMember]:
    """Return the class of the members. Raises `MissingBrokerError`."""
    points = tuple(entry_points(group=ENTRY_POINT_GROUP, name="cluster_member"))
    if not points:
        raise MissingBrokerError(f"no package brings members of a cluster; {_INSTALL}")
    try:
        found: type[RunningMember] = points[0].load()
    except ImportError as error:
        raise MissingBrokerError(
            f"members of a cluster need a package that is missing ({error}); {_INSTALL}"
        ) from error
    return found
