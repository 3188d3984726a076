"""The reader groups of a cluster: each is in the shard of what it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Protocol, TypeVar

from pyjms.spi.errors import GroupError
from pyjms.spi.replay import GroupRequest, OpenGroup, ReaderGroup, ReaderGroups, ReservedMessage
from pyjms_provider.clients.cluster.shard_connection import unless_done
from pyjms_provider.cluster.placement import Place, ShardPlace

if TYPE_CHECKING:
    from pyjms.spi.envelope import Address
    from pyjms_provider.clients.cluster.shard_connection import ShardConnection
    from pyjms_provider.cluster.placement import Placement

_Result = TypeVar("_Result")


class ShardConnections(Protocol):
    """The connections of one client to the shards."""

    @property
    def placement(self) -> Placement:
        """The present placement."""
        ...

    def settled_placement(self, address: Address) -> Placement:
        """Return the placement, once it is known where a destination is. Raises `ResourceError`."""
        ...

    def shard(self, place: Place, client_id: str | None = None) -> ShardConnection:
        """Return the connection to a place."""
        ...


class ClusterReaderGroups(ReaderGroups):
    """The groups of all shards. A call whose shard gets another leader meanwhile is made again there: each may be repeated."""

    def __init__(self, connections: ShardConnections, enter: Callable[[str, str], None]) -> None:
        """Make them for one client.

        Args:
            connections: Those of the client.
            enter: Enters a durable subscription, by its name and topic, that may be made.
        """
        self._connections = connections
        self._enter = enter
        self._lock = Lock()
        self._shards: dict[str, int] = {}
        """The shards of groups, by name, as far as they are known."""

    def open(self, request: GroupRequest) -> OpenGroup:
        address = request.address
        shard, *others = self._connections.settled_placement(address).shards_of(address.kind, address.name)
        if others:
            raise GroupError(
                f"{address} has {len(others) + 1} partitions, which no reader group can read as one: have a consumer receive from it"
            )
        found = self._find(request.name)
        if found is not None and found != shard:
            raise GroupError(
                f"reader group {request.name!r} reads another destination: release it, or choose another name"
            )
        if request.subscription is not None:
            self._enter(request.subscription, address.name)
        opened = self._call(shard, lambda groups: groups.open(request))
        self._note(request.name, shard)
        return opened

    def reserve(self, opened: OpenGroup, *, after: int, max_messages: int, max_bytes: int | None, wait_ms: int) -> int:
        return self._call(
            self._shard_of(opened.group.name),
            lambda groups: groups.reserve(
                opened, after=after, max_messages=max_messages, max_bytes=max_bytes, wait_ms=wait_ms
            ),
        )

    def read(self, name: str, generation: str, *, after: int, upto: int) -> Sequence[ReservedMessage]:
        return self._call(self._shard_of(name), lambda groups: groups.read(name, generation, after=after, upto=upto))

    def acknowledge(self, opened: OpenGroup, upto: int) -> None:
        self._call(self._shard_of(opened.group.name), lambda groups: groups.acknowledge(opened, upto))

    def release(self, name: str) -> int:
        shard = self._shard_of(name)
        # Before the release, as the answer with its count may be lost.
        held = sum(group.high - group.low for group in self._groups_in(shard) if group.name == name)
        released: list[int] = []
        self._call(shard, unless_done(lambda groups: released.append(groups.release(name)), GroupError))
        with self._lock:
            self._shards.pop(name, None)
        return released[0] if released else held

    def groups(self) -> Sequence[ReaderGroup]:
        found = [
            (group, shard) for shard in range(self._connections.placement.shards) for group in self._groups_in(shard)
        ]
        for group, shard in found:
            self._note(group.name, shard)
        return sorted((group for group, _ in found), key=lambda group: group.name)

    def _groups_in(self, shard: int) -> Sequence[ReaderGroup]:
        return self._call(shard, lambda groups: groups.groups())

    def _shard_of(self, name: str) -> int:
        """Return the shard of a group. Raises `GroupError`."""
        shard = self._shards.get(name)
        if shard is None:
            shard = self._find(name)
        if shard is None:
            raise GroupError(f"there is no reader group {name!r}")
        return shard

    def _find(self, name: str) -> int | None:
        """Ask all shards for a group; return its shard, or None."""
        with self._lock:
            self._shards.pop(name, None)
        self.groups()
        return self._shards.get(name)

    def _note(self, name: str, shard: int) -> None:
        with self._lock:
            self._shards[name] = shard

    def _call(self, shard: int, act: Callable[[ReaderGroups], _Result]) -> _Result:
        return self._connections.shard(ShardPlace(shard)).call(lambda connection: act(connection.reader_groups()))
