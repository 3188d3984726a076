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
class ClusterStatus:
    """A cluster."""

    name: str
    virtual_host: str
    members: Sequence[MemberStatus]
    shards: Sequence[ShardStatus]
    undecided: int
    """Transactions over several shards whose decision not all shards have applied."""
