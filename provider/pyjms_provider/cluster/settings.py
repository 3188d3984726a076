"""The settings of one member of a cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from pyjms_provider.cluster.errors import ClusterError
from pyjms_provider.cluster.placement import SHARDS_MAX
from pyjms_provider.settings import BrokerSettings

NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""The form of the names of clusters and members: that of a cluster is also the name of a schema."""
LEASE_MS: Final = 5_000
LEADER_WAIT_MS: Final = 25_000
"""Less than a client waits for an answer: else it would give up first, and be told that the outcome is unknown, where nothing was done."""
FOLLOW_MS: Final = 30_000
_SCHEME: Final = "postgresql+psycopg:"
_LEASE_LEAST_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTls:
    """How links are encrypted: both ends show a certificate. All files are PEM."""

    certificate: Path
    """The certificate of this member, for the host of its address."""
    key: Path | None = None
    """Its private key; None: it is in `certificate`."""
    authorities: Path
    """The authorities of the members' certificates. Never the system's, as everybody can get a certificate from one of those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """The link port of a member, at which the other members connect."""

    host: str = "127.0.0.1"
    """Where it listens."""
    port: int = 0
    """0: a free one."""
    advertised_host: str | None = None
    """The host under which the other members reach it; None: `host`."""
    advertised_port: int | None = None
    """The port under which the other members reach it; None: that at which it listens."""
    tls: LinkTls | None = None
    """None: links are not encrypted, which is allowed within one machine."""

    def __post_init__(self) -> None:
        """Raise `ClusterError` if other machines could read the links, or could not reach the port."""
        shown = self.advertised_host or self.host
        if self.tls is None and not (is_loopback(self.host) and is_loopback(shown)):
            raise ClusterError(
                f"the links between members at {self.host if is_loopback(shown) else shown} could be read by others: "
                "give them TLS, with a certificate and its key, or let them listen at 127.0.0.1"
            )
        if _is_wildcard(shown):
            raise ClusterError(
                f"the other members cannot connect to {shown}: name the host under which they reach this member"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One member of a cluster."""

    name: str
    """The name of the cluster, and of the schema of its tables; those of its shards have a number behind it."""
    member: str
    """The name of this member, which it keeps when it is started again."""
    virtual_host: str
    """The name of the virtual host that the cluster serves."""
    broker: BrokerSettings = field(repr=False)
    """The settings of the broker of each shard. Its store is the database of the cluster; the memory for messages is that of all shards together."""
    shards: int | None = None
    """The number of shards; None: as many as the cluster has, or 8 if this member makes it."""
    lease_ms: int = LEASE_MS
    """A member without a heartbeat for that long is taken for stopped, or cut off."""
    follow_ms: int = FOLLOW_MS
    """After so long a shard that only clients of one other member consume from is led by that one; 0: never."""
    leader_wait_ms: int = LEADER_WAIT_MS
    """How long a client waits for a shard that has no leader."""
    link: LinkSettings = field(default_factory=LinkSettings)

    def __post_init__(self) -> None:
        """Raise `ClusterError` for what cannot be."""
        for what, name in (("cluster", self.name), ("member", self.member)):
            if not NAME.fullmatch(name):
                raise ClusterError(
                    f"{name!r} is no name of a {what}: write up to 40 of the characters a-z, 0-9 and _, a letter first"
                )
        if self.broker.store is None or not self.broker.store.url.startswith(_SCHEME):
            raise ClusterError(
                f"cluster {self.name} needs a store in PostgreSQL, which all members reach: write postgresql+psycopg://USER@HOST/DATABASE"
            )
        if self.shards is not None and not 1 <= self.shards <= SHARDS_MAX:
            raise ClusterError(f"{self.shards} is no number of shards: write one from 1 to {SHARDS_MAX}")
        if self.lease_ms < _LEASE_LEAST_MS:
            raise ClusterError(f"a lease of {self.lease_ms} ms is too short: write {_LEASE_LEAST_MS} or more")


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach a host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_wildcard(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
