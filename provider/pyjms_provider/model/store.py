"""The store of a virtual host's messages as operators see it; what it is, the virtual host's attributes say."""

from __future__ import annotations

from pyjms_provider.model.observed import ObservedObject
from pyjms_provider.model.statistics import statistic

__all__ = ["STORE", "Store"]

STORE = "messages"
"""What the one store of a virtual host is called."""


class Store(ObservedObject):
    """Where messages are: in memory, or in a database too."""

    category = "store"

    @statistic("Where it is; no password is shown.")
    def url(self) -> str:
        """Where it is."""
        return str(self.host.attribute_values(["store_url"]).get("store_url") or "memory")

    @statistic("Whether messages survive the process.")
    def is_reliable(self) -> bool:
        """Whether messages survive the process."""
        return self.host.embedded.virtual_host.store.is_reliable

    @statistic("Messages, each counted once.", unit="messages")
    def messages(self) -> int:
        """How many messages there are."""
        return len(self.host.embedded.virtual_host.store)
