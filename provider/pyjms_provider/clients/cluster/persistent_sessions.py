"""The registered clients of a cluster: each is registered in the shard that a hash of its name gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pyjms.spi.errors import RegistrationError
from pyjms.spi.sessions import PersistentSessions, RegisteredClient
from pyjms_provider.clients.cluster.shard_connection import unless_done
from pyjms_provider.cluster.placement import ShardPlace

if TYPE_CHECKING:
    from pyjms_provider.clients.cluster.reader_groups import ShardConnections

_Result = TypeVar("_Result")


class ClusterPersistentSessions(PersistentSessions):
    """The registered clients of all shards. A call whose shard gets another leader meanwhile is made again there."""

    def __init__(self, connections: ShardConnections) -> None:
        """`connections`: those of the client."""
        self._connections = connections

    def register(self, name: str) -> RegisteredClient:
        # A repeated request supersedes the first one, which is this client's own.
        return self._call(
            self._connections.placement.shard_of_registered(name), lambda sessions: sessions.register(name)
        )

    def deregister(self, name: str) -> None:
        self._call(
            self._connections.placement.shard_of_registered(name),
            unless_done(lambda sessions: sessions.deregister(name), RegistrationError),
        )

    def clients(self) -> Sequence[RegisteredClient]:
        found = [
            client
            for shard in range(self._connections.placement.shards)
            for client in self._call(shard, lambda sessions: sessions.clients())
        ]
        return sorted(found, key=lambda client: client.name)

    def _call(self, shard: int, act: Callable[[PersistentSessions], _Result]) -> _Result:
        return self._connections.shard(ShardPlace(shard)).call(lambda connection: act(connection.persistent_sessions()))
