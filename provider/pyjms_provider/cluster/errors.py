"""The errors of clusters."""

from __future__ import annotations

from pyjms.spi.errors import ResourceError


class ClusterError(ResourceError):
    """A member cannot join its cluster as it is configured; the text says what to change."""

    code = "PYJMS-CLUSTER"
