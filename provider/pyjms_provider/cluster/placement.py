"""Which shard a destination belongs to: a hash of its name, or where an operator has moved it."""

from __future__ import annotations

from collections.abc import Mapping
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


Place: TypeAlias = ShardPlace | FrontPlace


@dataclass(frozen=True, slots=True)
class Placement:
    """The shards of a cluster, and the destinations that were moved."""

    shards: int
    """How many there are; constant for the life of the cluster."""
    moved: Mapping[tuple[AddressKind, str], int] = field(default_factory=lambda: MappingProxyType({}))
    """The shards of destinations that are not where their hash says, by kind and name."""

    def shard_of(self, kind: AddressKind, name: str) -> int:
        """Return the shard of a queue or a topic."""
        found = self.moved.get((kind, name)) if self.moved else None
        return self._hash(_KINDS[kind], name) if found is None else found

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
        """Return where an address is. A temporary destination is named after its connection: ``HOST-RUN-NUMBER-NUMBER``."""
        if address.temporary:
            return FrontPlace(run_of(address.name))
        return ShardPlace(self.shard_of(address.kind, address.name))

    def _hash(self, what: str, name: str) -> int:
        # CRC-32, as it is the same in every process and version; Python's own hash is not.
        return crc32(f"{what}:{name}".encode("utf-8", "surrogatepass")) % self.shards


def run_of(name: str) -> str:
    """Return the id of the run of the front that made a temporary destination; "" for a name of another form."""
    parts = name.rsplit("-", 3)
    return parts[1] if len(parts) == 4 else ""
