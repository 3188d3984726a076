"""A member of a cluster: it joins, leads shards, and connects clients to all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms.spi.provider import ConnectionEvents, ProviderConnection
    from pyjms_provider.broker import EmbeddedBroker
    from pyjms_provider.cluster.contracts import DecisionLog, SubscriptionRegistry
    from pyjms_provider.cluster.links import Links
    from pyjms_provider.cluster.placement import Place, Placement
    from pyjms_provider.cluster.settings import ClusterSettings
    from pyjms_provider.cluster.status import ClusterStatus


class ClusterMember:
    """Implements `contracts.Cluster`. `serving.cluster_links.start_member` makes one. Safe to use from any thread."""

    def __init__(self, settings: ClusterSettings, clock: Clock, links: Links) -> None:
        """Join the cluster, and make it if there is none. Shards are taken over afterwards: see `await_leaders`. Waits for the database.

        Raises `ClusterError` if the cluster refuses the member as it is configured, `ResourceError`.
        """
        raise NotImplementedError

    @property
    def settings(self) -> ClusterSettings:
        """Its settings."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the virtual host."""
        raise NotImplementedError

    @property
    def front(self) -> EmbeddedBroker:
        """The broker in memory that has this member's connections and their temporary destinations."""
        raise NotImplementedError

    @property
    def placement(self) -> Placement:
        """The present placement; another object after each change."""
        raise NotImplementedError

    @property
    def decisions(self) -> DecisionLog:
        """The outcomes of transactions over several shards."""
        raise NotImplementedError

    @property
    def subscriptions(self) -> SubscriptionRegistry:
        """The topics of durable subscriptions."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """The address of its link port, ``HOST:PORT``, as the other members know it."""
        raise NotImplementedError

    @property
    def incarnation(self) -> str | None:
        """The id of this start; None: it is no member at the moment, as it has not reached the database for longer than its lease."""
        raise NotImplementedError

    @property
    def trouble(self) -> str | None:
        """Why it serves nothing at the moment; None: it serves. Never waits."""
        raise NotImplementedError

    def brokers(self) -> Mapping[int, EmbeddedBroker]:
        """Return the brokers of the shards that it leads now, by the number of the shard. Never waits."""
        raise NotImplementedError

    def await_leaders(self, timeout_ms: int) -> bool:
        """Wait until all shards are led; return False if that takes longer, or if the member is stopped."""
        raise NotImplementedError

    def status(self) -> ClusterStatus:
        """Return the state of the cluster as this member last saw it. Never waits."""
        raise NotImplementedError

    def connect(self, place: Place, events: ConnectionEvents) -> ProviderConnection:
        """Open a connection to a place; see `contracts.Cluster`."""
        raise NotImplementedError

    def stop(self, *, program_ends: bool = False) -> None:
        """Hand all shards over, leave the cluster, and end all connections. May be repeated. program_ends: see `EmbeddedBroker.stop`."""
        raise NotImplementedError
