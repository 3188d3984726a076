"""A transaction of a plain STOMP client: a transacted session for its sends, which takes over what it acknowledges."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms.spi.delivery import Delivery
    from pyjms.spi.provider import ProviderSession
    from pyjms_provider.protocols.stomp.server.plain_consumers import PlainSubscription

__all__ = ["Taken", "Transaction"]

Taken = tuple["PlainSubscription", str, "Delivery"]
"""Whose message it was, the id that ACK named, and the delivery."""


class Transaction:
    """From BEGIN to COMMIT or ABORT."""

    __slots__ = ("_origin", "_taken", "session")

    def __init__(self, session: ProviderSession, origin: ProviderSession) -> None:
        """`origin`: the session that received what is acknowledged here."""
        self.session = session
        self._origin = origin
        self._taken: list[Taken] = []

    def acknowledge(self, taken: list[Taken]) -> None:
        """Acknowledge when it commits."""
        deliveries = [delivery for _, _, delivery in taken]
        self.session.adopt(deliveries)
        self.session.acknowledge(deliveries)
        self._taken += taken

    def give_back(self) -> list[Taken]:
        """Give what was taken over back to the session that received it; return it."""
        taken, self._taken = self._taken, []
        self._origin.adopt([delivery for _, _, delivery in taken])
        return taken
