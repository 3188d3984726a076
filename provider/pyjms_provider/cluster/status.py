"""The state of a cluster, as observers see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """One member."""

    name: str
    incarnation: str
    """Identifies this start of the member."""
    version: str
    """Of pyjms."""
    address: str
    """``HOST:PORT`` of its link port."""
    joined_ms: int
    """When it joined, in milliseconds since 1970 UTC."""
    heartbeat_age_ms: int
    """How long ago its last heartbeat was, by the database's clock."""
    is_alive: bool
    is_leaving: bool
    """Whether it hands its shards over, as it stops."""
    shards: tuple[int, ...]
    """The shards that it leads."""
    format: int = 1
    """The newest format of clusters that it knows. While that is newer than the cluster's, it leads nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardStatus:
    """One shard."""

    number: int
    leader: str | None
    """The name of the member that leads it; None: none does at the moment."""
    since_ms: int | None
    """Since when."""
    terms: int
    """How often it has got a leader."""
    restoring: bool
    """Whether its leader is just reading its store."""
    pinned: str | None = None
    """The name of the member that an operator wants to lead it; None: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedStatus:
    """A destination that an operator has placed."""

    kind: str
    """``queue`` or ``topic``."""
    name: str
    shards: tuple[int, ...]
    """The shards that have it; several: it has a partition in each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A cluster."""

    name: str
    virtual_host: str
    members: Sequence[MemberStatus]
    shards: Sequence[ShardStatus]
    undecided: int
    """Transactions over several shards whose decision not all shards have applied."""
    format: int = 1
    """The format of what members share. It is raised when all members know a newer one."""
    placed: Sequence[PlacedStatus] = ()
    """The destinations that are not where a hash of their name says."""
    trouble: str | None = None
    """Why the member that tells this serves nothing; then it takes no member for alive, and knows of no leader. None: it serves."""
    failed_connections: int = 0
    """Connections to shards that this member could not make in time, as their leader could not be reached, or there was none."""
