"""A member of a cluster in this process, which a test of an application starts, pauses, kills and stops: see `pyjms.testing.Cluster`.

It is a whole broker with a port of STOMP. `kill` and `pause` have the effects that others see of SIGKILL and SIGSTOP.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from threading import Event
from typing import TYPE_CHECKING, Final

from pyjms.spi.clock import Signal, SystemClock
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ResourceError
from pyjms_provider.cluster.member import ClusterMember
from pyjms_provider.cluster.placement import ShardPlace
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.serving.served_broker import ServedBroker
from pyjms_provider.stores.opening import cluster_database

if TYPE_CHECKING:
    from pyjms_provider.cluster.known import JoinedCluster

__all__ = ["ControlledMember"]

_ANSWER_MS: Final = 10_000
_PAUSE_S: Final = 10.0


class PausableClock(SystemClock):
    """The machine's clock, at which threads stand still between `pause` and `go_on`. Time passes meanwhile."""

    def __init__(self) -> None:
        self._runs = Event()
        self._runs.set()

    def pause(self) -> None:
        """Have each thread that reads this clock, or waits by it, stand still."""
        self._runs.clear()

    def go_on(self) -> None:
        """End the pause. May be repeated."""
        self._runs.set()

    def await_end_of_pause(self) -> None:
        """Return at once, unless there is a pause."""
        self._runs.wait()

    def time_ms(self) -> int:
        self._runs.wait()
        return super().time_ms()

    def monotonic_ms(self) -> float:
        self._runs.wait()
        return super().monotonic_ms()

    def wait(self, signal: Signal, until_ms: float | None) -> bool:
        found = super().wait(signal, until_ms)
        self._runs.wait()
        return found


class ControlledMember:
    """A running member. One thread at a time."""

    def __init__(
        self, cluster: str, member: str, *, store_url: str, shards: int, lease_ms: int, virtual_host: str, port: int = 0
    ) -> None:
        """Start it. Waits for the database.

        Args:
            cluster: The name of the cluster, which is made if it is not there.
            member: The name of the member.
            store_url: The URL of the cluster's database.
            shards: The number of the cluster's shards.
            lease_ms: How long a member may be silent until the others take over.
            virtual_host: The name of the virtual host.
            port: The port of STOMP; 0: a free one.

        Raises:
            ResourceError: It could not be started.
        """
        self._clock = PausableClock()
        host = {
            "name": virtual_host,
            "store_url": store_url,
            "cluster": cluster,
            "cluster_member": member,
            "cluster_shards": shards,
            "cluster_lease_ms": lease_ms,
        }
        listening = {
            "name": "stomp",
            "type": "stomp",
            "host": "127.0.0.1",
            "port": port,
            "authentication_providers": ["anyone"],
            "access_control": "access",
        }
        with ExitStack() as undo:
            self._broker = undo.enter_context(closing(ServedBroker.open(name=member, clock=self._clock)))
            top = self._broker.broker
            top.create_child("authentication_provider", {"name": "anyone", "type": "anonymous"})
            top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
            node = top.create_child("virtual_host_node", {"name": virtual_host, "type": "memory"})
            # Without a time limit, as the database may be slow.
            made = node.configuration_thread.call(lambda: node.create_child("virtual_host", host), however_long=True)
            if not isinstance(made, VirtualHost) or made.membership is None:
                raise ResourceError(f"member {member} of cluster {cluster} was not started")
            self._member: JoinedCluster = made.membership.member
            top.create_child("port", listening)
            (address,) = self._broker.addresses()
            self.port = int(address.rpartition(":")[2])
            """The port of STOMP."""
            undo.pop_all()

    # What it knows

    def shards_served(self) -> frozenset[int]:
        """Return the shards that it serves now."""
        return frozenset(self._member.brokers())

    def leaders(self) -> Mapping[int, str | None]:
        """Return the leader of each shard, as this member sees it; None also while it reads the store. Not during a pause."""
        return {each.number: None if each.restoring else each.leader for each in self._member.status().shards}

    def shard_of(self, name: str, *, is_topic: bool) -> int:
        """Return the shard of a queue or a topic."""
        kind = AddressKind.TOPIC if is_topic else AddressKind.QUEUE
        place = self._member.placement.place_of(Address(kind, name))
        assert isinstance(place, ShardPlace), "it is not temporary"
        return place.number

    def move_leader(self, shard: int, member: str | None) -> None:
        """Have a member lead a shard, or any again. Waits for the database. Raises `ResourceError`."""
        self._member.move_leader(shard, member)

    # What a test does to it

    def pause(self) -> None:
        """Stand still, as after SIGSTOP: it answers nobody, and its heartbeat stops. Ended by `go_on`, `kill` and `stop`."""
        self._clock.pause()
        stands = Event()
        self._broker.network.run(self._stand_still(stands))
        if not stands.wait(_PAUSE_S):
            raise ResourceError("the network of the member did not come to the pause")

    async def _stand_still(self, stands: Event) -> None:
        # On purpose not awaited: the loop serves no connection meanwhile.
        stands.set()
        self._clock.await_end_of_pause()

    def go_on(self) -> None:
        """End a pause. May be repeated."""
        self._clock.go_on()

    def kill(self) -> None:
        """End it as SIGKILL does: its clients hear nothing, it hands nothing over, and writes nothing more."""
        self._clock.go_on()
        self._broker.network.cut()
        member = self._member
        assert isinstance(member, ClusterMember), "the broker has made it"
        member.abandon()
        self._broker.close()

    def stop(self) -> None:
        """Stop it in order: it hands its shards over first."""
        self._clock.go_on()
        self._broker.close()

    @staticmethod
    def remove_cluster(store_url: str, cluster: str) -> None:
        """Drop a cluster that has no running member, with all its messages. Raises `StoreError`."""
        database = cluster_database(store_url, cluster, SystemClock(), answer_ms=_ANSWER_MS)
        try:
            database.remove()
        finally:
            database.close()
