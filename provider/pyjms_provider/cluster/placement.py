"""Which shards a destination belongs to: that of a hash of its name, or where an operator has placed it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias
from zlib import crc32

from pyjms.spi.envelope import Address, AddressKind
from pyjms_provider.core.journal.journal import SubscriptionKey

SHARDS_DEFAULT = 8
"""The number of shards of a new cluster."""
SHARDS_MAX = 256

_KINDS = {AddressKind.QUEUE: "queue", AddressKind.TOPIC: "topic"}


@dataclass(frozen=True, slots=True)
class ShardPlace:
    """One shard, which some member leads."""

    number: int


@dataclass(frozen=True, slots=True)
class FrontPlace:
    """The front of one member: the broker in memory that has the temporary destinations of its connections."""

    run_id: str
    """The id of this run of the front, which the names of its connections and temporary destinations contain."""


OWN_FRONT = FrontPlace("")
"""The front of the member that asks."""
AT_EACH_MEMBER = frozenset({"$management"})
"""Destinations that each member has for its own clients: requests to operators' interfaces are judged where their sender is known."""
Place: TypeAlias = ShardPlace | FrontPlace


@dataclass(frozen=True, slots=True)
class Placement:
    """The shards of a cluster, and the destinations that an operator has placed."""

    shards: int
    """How many there are; constant for the life of the cluster."""
    moved: Mapping[tuple[AddressKind, str], tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The shards of destinations that are not where their hash says, by kind and name. One that has several has a partition in each."""
    moving: frozenset[str] = frozenset()
    """The queues that are just being placed: who wants to use one waits until it is known where it is."""
    everywhere: frozenset[str] = frozenset()
    """The queues of dead and expired messages: the leader of each shard puts its own into a queue of that name in its shard."""

    def shards_of(self, kind: AddressKind, name: str) -> tuple[int, ...]:
        """Return the shards of a queue or a topic: one, or those of its partitions."""
        found = self.moved.get((kind, name)) if self.moved else None
        if found is None and name in self.everywhere and kind is AddressKind.QUEUE:
            return tuple(range(self.shards))
        return (self.hashed(kind, name),) if found is None else found

    def shard_of(self, kind: AddressKind, name: str) -> int:
        """Return the shard of a queue or a topic; the first one of a partitioned queue."""
        return self.shards_of(kind, name)[0]

    def hashed(self, kind: AddressKind, name: str) -> int:
        """Return the shard that a destination has as long as nobody places it."""
        return self._hash(_KINDS[kind], name)

    def partition_of(self, shards: Sequence[int], key: str) -> int:
        """Return which of the shards of a partitioned queue has the messages of a group, or of a duplicate id."""
        return shards[_crc(f"partition:{key}") % len(shards)]

    def shard_of_client(self, client_id: str) -> int:
        """Return the shard that reserves a client id."""
        return self._hash("client", client_id)

    def shard_of_sink(self, sink: str) -> int:
        """Return the shard whose marker is that of a sink of staged units."""
        return self._hash("sink", sink)

    def shard_of_registered(self, name: str) -> int:
        """Return the shard in which a client is registered (`pyjms.spi.sessions`)."""
        return self._hash("registered", name)

    def shard_of_shared(self, key: SubscriptionKey) -> int:
        """Return the shard that knows of all consumers of a shared subscription that is not durable."""
        return self._hash("shared", str(key))

    def shard_of_branch(self, xid: str) -> int:
        """Return the shard in which a branch of a distributed transaction begins."""
        return self._hash("branch", xid)

    def place_of(self, address: Address) -> Place:
        """Return where an address is; the first place of a partitioned queue."""
        return self.places_of(address)[0]

    def places_of(self, address: Address) -> Sequence[Place]:
        """Return where an address is. A temporary destination is named after its connection: ``HOST-RUN-NUMBER-NUMBER``."""
        if address.temporary:
            return (FrontPlace(run_of(address.name)),)
        if address.name in AT_EACH_MEMBER:
            return (OWN_FRONT,)
        return [ShardPlace(each) for each in self.shards_of(address.kind, address.name)]

    def _hash(self, what: str, name: str) -> int:
        return _crc(f"{what}:{name}") % self.shards


def _crc(text: str) -> int:
    # CRC-32, as it is the same in every process and version; Python's own hash is not.
    return crc32(text.encode("utf-8", "surrogatepass"))


def spread(
    first: int, partitions: int, leaders: Mapping[int, str | None], used: Collection[int] = ()
) -> tuple[int, ...]:
    """Return the shards for the partitions of a queue, at members as different as possible.

    Args:
        first: The shard of the first partition.
        partitions: How many there are; no more than shards.
        leaders: The leader of each shard.
        used: The shards of the partitions of other queues, each as often as it is used.
    """
    chosen = [first]
    while len(chosen) < partitions:
        led = [leaders[each] for each in chosen]
        rest = [each for each in leaders if each not in chosen]
        weights = {
            each: (led.count(leaders[each]), list(used).count(each), (each - first) % len(leaders)) for each in rest
        }
        chosen.append(min(rest, key=weights.__getitem__))
    return tuple(sorted(chosen))


def run_of(name: str) -> str:
    """Return the id of the run of the front that made a temporary destination; "" for a name of another form."""
    parts = name.rsplit("-", 3)
    return parts[1] if len(parts) == 4 else ""
