"""The link ports of a cluster's members, and the connections between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms.spi.clock import Clock
    from pyjms_provider.cluster.member import ClusterMember
    from pyjms_provider.cluster.settings import ClusterSettings
    from pyjms_provider.transport.service import NetworkService


def start_member(settings: ClusterSettings, clock: Clock, network: NetworkService | None = None) -> ClusterMember:
    """Start a member of a cluster; `network`: the service for its link port, None: one of its own. Raises as `ClusterMember`."""
    raise NotImplementedError
